//! What workers do together with tensors: of any device, through the memory of the host, or from
//! device to device where there is a way.
//!
//! No result is on a tape. Each worker gives a tensor of the same shape and dtype, on a device of
//! its own.

use crate::Group;
use crate::message::digest;
use crate::tree::Runs;
use elinvar_core::{DType, Error, HostData, HostTensor, Result, Shape};
use elinvar_ops::Backend;
use elinvar_tensor::Tensor;

impl Group {
    /// The sum over all workers, for all: their balanced tree, neighbours first. Storage floats are
    /// summed in f32 and rounded once.
    ///
    /// # Errors
    /// `DTypeMismatch` if sums of the dtype are not defined (u8, bool); `ShapeMismatch`,
    /// `InvalidArgument` if a worker has another shape or makes another call; `Io` if one is gone
    /// or does not come in time; what the device reports.
    pub fn all_reduce<B: Backend>(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let n = x.numel();
        self.summed("all_reduce", x, x.shape().clone(), [n, 1], false)
    }
    /// This worker's rows, [`Group::part`] of the first axis, of the sum over all workers.
    ///
    /// # Errors
    /// As [`Group::all_reduce`]; `ShapeMismatch` if there is no axis.
    pub fn reduce_scatter<B: Backend>(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let Some((&rows, rest)) = x.dims().split_first() else {
            return Err(Error::shape("reduce_scatter: a tensor of shape []; it should have an axis to part"));
        };
        let mine = self.part(rows, self.rank()).len();
        let shape = Shape::new(&[&[mine], rest].concat())?;
        let width = rest.iter().product();
        self.summed("reduce_scatter", x, shape, [rows, width], true)
    }
    /// The tensors of all workers, one after the other along the first axis; of numbers, a vector.
    ///
    /// # Errors
    /// As [`Group::all_reduce`], of any dtype.
    pub fn all_gather<B: Backend>(&self, x: &Tensor<B>) -> Result<Tensor<B>> {
        let (first, rest) = x.dims().split_first().map_or((1, &[][..]), |(n, rest)| (*n, rest));
        let shape = Shape::new(&[&[first * self.size()], rest].concat())?;
        if self.size() == 1 {
            return x.detach().try_reshape(shape);
        }
        self.meet_devices::<B>(x.device())?;
        if self.is_linked::<B>(x.device()) {
            return Ok(Tensor::from_array(
                self.gathered_array(x.array(), digest(x.dims()))?.reshape(&shape)?,
            ));
        }
        let bytes = x.to_host()?.data().to_le_bytes();
        let all = self.gathered(x.dtype(), x.numel(), digest(x.dims()), &bytes)?;
        Tensor::from_host(HostTensor::new(shape, HostData::from_le_bytes(x.dtype(), &all)?)?, x.device())
    }
    /// The tensor of `root`, for all; the others give one of the same shape and dtype.
    ///
    /// # Errors
    /// As [`Group::all_reduce`], of any dtype; `InvalidArgument` if there is no such worker.
    pub fn broadcast<B: Backend>(&self, x: &Tensor<B>, root: usize) -> Result<Tensor<B>> {
        if self.size() > 1 {
            self.meet_devices::<B>(x.device())?;
        }
        if self.is_linked::<B>(x.device()) {
            let y = self.array_of_root(x.array(), digest(x.dims()), root)?;
            return Ok(Tensor::from_array(y.reshape(x.shape())?));
        }
        let size = x.numel() * x.dtype().size();
        let mine = self.rank() == root;
        let mut bytes =
            if mine && self.size() > 1 { x.to_host()?.data().to_le_bytes() } else { vec![0; size] };
        self.bytes_of_root(x.dtype(), x.numel(), digest(x.dims()), &mut bytes, root)?;
        if mine {
            return Ok(x.detach());
        }
        let data = HostData::from_le_bytes(x.dtype(), &bytes)?;
        Tensor::from_host(HostTensor::new(x.shape().clone(), data)?, x.device())
    }

    fn summed<B: Backend>(
        &self,
        op: &str,
        x: &Tensor<B>,
        shape: Shape,
        size: [usize; 2],
        scattered: bool,
    ) -> Result<Tensor<B>> {
        let wide = match x.dtype() {
            DType::U8 | DType::Bool => {
                return Err(Error::dtype(format!(
                    "{op}: a tensor of {}; sums are of floats, i32 and i64",
                    x.dtype()
                )));
            }
            dtype => dtype.compute(),
        };
        if self.size() == 1 {
            return Ok(x.detach());
        }
        let digest = digest(x.dims());
        self.meet_devices::<B>(x.device())?;
        if self.is_linked::<B>(x.device()) {
            let (runs, mine) = (Runs::one_each(self.size()), self.own_array(x.array(), wide)?);
            let sum = match scattered {
                true => self.sum_array_part(runs, mine, size, digest)?,
                false => self.sum_arrays(runs, mine, size[0], digest)?,
            };
            return Ok(Tensor::from_array(sum.reshape(&shape)?.cast(x.dtype())?));
        }
        macro_rules! sum {
            ($v:expr) => {{
                let (runs, mine) = (Runs::one_each(self.size()), self.own(&$v[..]));
                let sum = match scattered {
                    true => self.sum_part(runs, &mine, size, digest)?,
                    false => self.sum(runs, &mine, size[0], digest)?,
                };
                HostTensor::from_vec(sum, shape)?
            }};
        }
        let sum = match x.array().cast(wide)?.to_host()?.into_data() {
            HostData::F32(v) => sum!(v),
            HostData::F64(v) => sum!(v),
            HostData::I64(v) => sum!(v),
            HostData::I32(v) => sum!(v),
            other => unreachable!("{} is no dtype of sums", other.dtype()),
        };
        let sum = Tensor::<B>::from_host(sum, x.device())?;
        Ok(Tensor::from_array(sum.array().cast(x.dtype())?))
    }
}
