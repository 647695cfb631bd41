//! Shared by the tests: devices, operands, comparison.

use crate::data::{Data, Numbers};
use crate::dice::{Dice, Values};
use elinvar_core::{DType, HostData, Layout, Result, match_storage};
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::View;
use elinvar_reference::Reference;
use std::sync::LazyLock;

/// Every instruction set, with one thread and with more than one; the best with more threads than
/// processors.
pub fn devices() -> Vec<CpuDevice> {
    static ALL: LazyLock<Vec<CpuDevice>> = LazyLock::new(|| {
        let mut all: Vec<_> = Isa::all().into_iter().flat_map(|isa| [(isa, 1), (isa, 2)]).collect();
        all.extend([(Isa::best(), 3), (Isa::best(), 8)]);
        all.into_iter().map(|(isa, threads)| CpuDevice::new(isa, threads).unwrap()).collect()
    });
    ALL.clone()
}

/// Memory and a look at it.
#[derive(Clone)]
pub struct Operand {
    pub data: Data,
    pub layout: Layout,
}

impl Operand {
    pub fn draw(dice: &mut Dice, dtype: DType, shape: &[usize], values: Values) -> Operand {
        let (layout, len) = dice.layout(shape);
        Operand { data: dice.data(dtype, len, values).into(), layout }
    }
    pub fn cpu(&self) -> View<'_, Cpu> {
        View { buffer: self.data.cpu(), layout: &self.layout, dtype: self.data.dtype() }
    }
    pub fn reference(&self) -> View<'_, Reference> {
        View { buffer: &self.data, layout: &self.layout, dtype: self.data.dtype() }
    }
}

/// The bits of each element; all NaN are one.
pub fn bits(data: &HostData) -> Vec<u64> {
    match_storage!(HostData data;
        storage v: T => {
            v.iter().map(|x: &T| if x.is_nan() { u64::MAX } else { x.to_bits().into() }).collect()
        };
        HostData::F32(v) => {
            v.iter().map(|x| if x.is_nan() { u64::MAX } else { x.to_bits().into() }).collect()
        }
        HostData::F64(v) => v.iter().map(|x| if x.is_nan() { u64::MAX } else { x.to_bits() }).collect(),
        HostData::I64(v) => v.iter().map(|x| *x as u64).collect(),
        HostData::I32(v) => v.iter().map(|x| *x as u64).collect(),
        HostData::U8(v) => v.iter().map(|x| *x as u64).collect(),
        HostData::Bool(v) => v.iter().map(|x| *x as u64).collect(),
    )
}

/// Panics unless both are the same memory, or the same error.
pub fn same(got: &Result<impl Numbers>, want: &Result<impl Numbers>, what: &str) {
    match (got, want) {
        (Ok(got), Ok(want)) => {
            let (got, want) = (got.numbers(), want.numbers());
            assert_eq!((got.dtype(), got.len()), (want.dtype(), want.len()), "{what}");
            let (g, w) = (bits(got), bits(want));
            if let Some(i) = (0..g.len()).find(|&i| g[i] != w[i]) {
                panic!("{what}: element {i} of {} is {:x}, not {:x}", g.len(), g[i], w[i]);
            }
        }
        (Err(got), Err(want)) => {
            assert_eq!((got.kind(), got.message()), (want.kind(), want.message()), "{what}")
        }
        (got, want) => panic!(
            "{what}: {:?}, not {:?}",
            got.as_ref().map(|x| bits(x.numbers())),
            want.as_ref().map(|x| bits(x.numbers()))
        ),
    }
}
