//! The state of an optimiser per parameter, and the scalars of a step on the device.

use elinvar_core::{DType, Element, HostData, HostTensor, Layout, Result, Scalar, Shape, each_data};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use std::collections::BTreeMap;

/// The state of an optimiser for one parameter.
#[derive(Clone, Debug)]
pub(super) struct Kept<B: Backend> {
    /// Number of steps of the parameter.
    pub step: u64,
    /// Numbers, by name.
    pub numbers: BTreeMap<&'static str, f64>,
    /// Tensors of the parameter's shape, by name.
    pub tensors: BTreeMap<&'static str, Array<B>>,
}

impl<B: Backend> Default for Kept<B> {
    fn default() -> Self {
        Kept { step: 0, numbers: BTreeMap::new(), tensors: BTreeMap::new() }
    }
}

/// The scalars of one step on the device. Most parameters have the same scalars, which are uploaded
/// once.
pub(super) struct Scalars<B: Backend> {
    seen: Vec<(Vec<f64>, DType, B::Device, Vec<Array<B>>)>,
}

impl<B: Backend> Scalars<B> {
    pub fn new() -> Self {
        Scalars { seen: vec![] }
    }
    /// These numbers as operands of shape [], rounded to a dtype.
    pub fn get(&mut self, values: Vec<f64>, dtype: DType, device: &B::Device) -> Result<Vec<Array<B>>> {
        let same = |a: &[f64]| a.iter().map(|v| v.to_bits()).eq(values.iter().map(|v| v.to_bits()));
        let known = self.seen.iter().find(|(v, of, on, _)| *of == dtype && on == device && same(v));
        if let Some((.., all)) = known {
            return Ok(all.clone());
        }
        let all = upload(&values, dtype, device)?;
        self.seen.push((values, dtype, device.clone(), all.clone()));
        Ok(all)
    }
}

/// One upload for all, and a view for each.
fn upload<B: Backend>(values: &[f64], dtype: DType, device: &B::Device) -> Result<Vec<Array<B>>> {
    let n = values.len();
    let mut data = HostData::full(dtype, n, Scalar::Int(0))?;
    each_data!(&mut data, d => d.iter_mut().zip(values).for_each(|(d, v)| *d = Element::from_f64(*v)));
    let all = Array::from_host(device, HostTensor::new(Shape::new(&[n])?, data)?)?;
    (0..n).map(|i| Ok(all.with_layout(Layout::strided(Shape::scalar(), &[], i, n)?))).collect()
}
