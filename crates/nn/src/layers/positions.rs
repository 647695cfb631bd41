//! Positional encodings that are added to embeddings. Learned ones are an
//! [`Embedding`](super::Embedding) of 0, 1, 2, ...

use crate::{Buffer, Layer, Module};
use elinvar_core::{DType, Error, HostTensor, Result, Shape};
use elinvar_ops::Backend;
use elinvar_ops::lane::Lane;
use elinvar_tensor::{OrFail, Tensor};
use std::fmt;

/// y[b, t, i] = x[b, t, i] + pe[t, i], with sinusoids of many wavelengths (Vaswani and others,
/// 2017): pe[t, 2 i] = sin(t / 10000^(2 i / d)), pe[t, 2 i + 1] = cos of the same.
///
/// x: [b, t, d]   pe: [positions, d]   y: as x
///
/// The table is computed in f64 by the project's own functions and rounded once: the same bits on
/// every machine.
#[derive(Debug, Module)]
#[module(display)]
pub struct SinusoidalPositions<B: Backend> {
    /// [positions, d]
    pub pe: Buffer<B>,
}

impl<B: Backend> SinusoidalPositions<B> {
    /// For at most this many positions of `d` features, in f32.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(positions: usize, d: usize, device: &B::Device) -> Self {
        let pe = table(positions, d).and_then(|h| Tensor::from_host(h, device)).or_fail();
        SinusoidalPositions { pe: Buffer::new(&pe) }
    }
}

fn table(positions: usize, d: usize) -> Result<HostTensor> {
    let shape = Shape::new(&[positions, d])?;
    let mut all = elinvar_core::host::with_capacity::<f32>(shape.numel())?;
    let slow = |i: usize| Lane::pow(10000.0, (i - i % 2) as f64 / d as f64);
    let lengths: Vec<f64> = (0..d).map(slow).collect();
    for t in 0..positions {
        all.extend(lengths.iter().enumerate().map(|(i, length)| {
            let angle = t as f64 / length;
            (if i % 2 == 0 { Lane::sin(angle) } else { Lane::cos(angle) }) as f32
        }));
    }
    HostTensor::from_vec(all, shape)
}

impl<B: Backend> Layer<B> for SinusoidalPositions<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let pe = self.pe.get();
        let &[_, t, _] = x.dims() else {
            return Err(Error::shape(format!("positions: x {}; it should be [b, t, d]", x.shape())))
                .or_fail();
        };
        if t > pe.size(0) {
            let sentence = format!("positions: {t} positions, and the table has {}", pe.size(0));
            return Err(Error::argument(sentence)).or_fail();
        }
        x + pe.narrow(0, 0, t)
    }
}

impl<B: Backend> fmt::Display for SinusoidalPositions<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pe = self.pe.get();
        write!(f, "SinusoidalPositions({}, {})", pe.size(0), pe.size(1))
    }
}

/// The indices `start..start + t`, [t] of i64: for learned positions.
///
/// # Panics
/// If memory is exhausted.
#[track_caller]
pub(crate) fn places<B: Backend>(start: usize, t: usize, device: &B::Device) -> Tensor<B> {
    let places = Tensor::arange(start as i64, (start + t) as i64, 1, device);
    debug_assert_eq!(places.dtype(), DType::I64);
    places
}
