//! Arithmetic probe of f64 tensor cores: are the sums of DMMA chains of fma on this device?
//!
//! On an H100 they were seen to be, and no vendor promises it. So before the exact f64 GEMM uses
//! them, some matrices are multiplied, of numbers with which any other order, and any other
//! rounding, gives other sums; only where each of them has the bits of the chain are the tensor
//! cores used.

use crate::backend::{GpuView, one};
use crate::buffer::GpuBuffer;
use crate::device::GpuDevice;
use crate::machine::machine;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, ErrorKind, HostData, Layout, Result, Shape};
use elinvar_driver::Driver;
use elinvar_gpu_kernels::gemm::f64_tensor_core::{self, F64MmaTile};
use elinvar_gpu_kernels::gemm::{CatalogueEpilogue, GemmProblem};
use elinvar_ops::backend::View;

/// Matrices of a kind of numbers each; rows, terms and columns: whole fragments, and a last one
/// that is filled up.
const OPERAND_KINDS: usize = 6;
const SIZES: [usize; 3] = [32, 44, 32];

/// Finds it out.
///
/// # Errors
/// `OutOfMemory`, `DeviceLost`.
pub(crate) fn is_fma_chain<D: Driver>(d: &GpuDevice<D>) -> Result<bool> {
    let info = d.info()?;
    let fits = |t: &F64MmaTile| t.fits(machine(info).limits) && info.subgroup == [32; 2];
    let Some(tile) = F64MmaTile::ALL.into_iter().rev().find(fits) else { return Ok(false) };
    let [m, k, n] = SIZES;
    let plain = CatalogueEpilogue(None);
    let (x, w) = (numbers(0, m * k), numbers(1, k * n));
    let made = |rows: usize, columns: usize, v: &[f64]| -> Result<(Layout, GpuBuffer<D>)> {
        let layout = Layout::contiguous(Shape::new(&[OPERAND_KINDS, rows, columns])?);
        Ok((layout, GpuBuffer::upload(d, &HostData::F64(v.to_vec().into()))?))
    };
    let ((x_layout, x_there), (w_layout, w_there)) = (made(m, k, &x)?, made(k, n, &w)?);
    let look = |buffer, layout| -> GpuView<'_, D> { View { buffer, layout, dtype: DType::F64 } };
    let operands = [look(&x_there, &x_layout), look(&w_there, &w_layout)];
    let p = GemmProblem::new(&plain, DType::F64, &x_layout, &w_layout, &[]);
    let y = match one(d, f64_tensor_core::contract(&p, tile), &operands, DType::F64, p.len()) {
        // A driver that does not take the kernel.
        Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(false),
        y => y?,
    };
    let HostData::F64(y) = y.download(d, p.len())? else { unreachable!("a product of f64 is f64") };
    let is_chain = |(at, got): (usize, &f64)| {
        let (kind, i, j) = (at / (m * n), at / n % m, at % n);
        let term = |t: usize| (x[(kind * m + i) * k + t], w[(kind * k + t) * n + j]);
        let want = (0..k).map(term).fold(0.0f64, |sum, (a, b)| a.mul_add(b, sum));
        want.to_bits() == got.to_bits() || (want.is_nan() && got.is_nan())
    };
    Ok(y.iter().enumerate().all(is_chain))
}

/// `each` numbers of each kind: alike, of all sizes, with products that are subnormal, that
/// overflow, special ones, and zeros.
fn numbers(factor: u64, each: usize) -> Vec<f64> {
    let stream = Stream { seed: 64, stream: factor };
    let special =
        [0.0, -0.0, 1.0, -1.0, f64::INFINITY, -f64::INFINITY, f64::NAN, 5e-324, -5e-324, f64::MAX, -1e-300];
    (0..OPERAND_KINDS * each)
        .map(|i| {
            let [word, other] = [0, 1].map(|half| stream.word64(2 * i as u64 + half));
            let of_size = |least: i64, sizes: u64| {
                let exponent = (1023 + least + (other % sizes) as i64) as u64;
                f64::from_bits(word & (1 << 63 | ((1 << 52) - 1)) | exponent << 52)
            };
            match i / each {
                0 => of_size(0, 1),
                1 => of_size(-30, 60),
                2 => of_size(-530, 40),
                3 => of_size(495, 20),
                // Seldom enough that not all sums are NaN.
                4 if other % 16 == 0 => special[(word % special.len() as u64) as usize],
                4 => of_size(-4, 8),
                _ => [0.0, -0.0, 1e-200, -1e-200][(word % 4) as usize],
            }
        })
        .collect()
}
