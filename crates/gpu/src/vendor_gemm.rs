//! GEMM by the vendor's library (cuBLASLt, hipBLASLt): with `Precision::Fast`, and where tuning
//! found it to be faster.

use crate::allocator::PieceRange;
use crate::backend::GpuView;
use crate::buffer::GpuBuffer;
use crate::device::GpuDevice;
use elinvar_core::{DType, ErrorKind, Layout, Result};
use elinvar_driver::{Driver, VendorGemm};
use elinvar_kernel::ir::Elem;

/// The product of two views, for a library; `None` if it is nothing that libraries do, or has no
/// terms.
pub(crate) fn product(dtype: DType, x: &Layout, w: &Layout) -> Option<VendorGemm> {
    if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
        return None;
    }
    let sizes = [x.shape()[0], x.shape()[1], w.shape()[2], x.shape()[2]];
    let along = |l: &Layout| [0, 1, 2].map(|axis| l.strides()[axis] as i64);
    sizes.iter().all(|&n| n > 0).then(|| VendorGemm {
        elem: Elem::from(dtype),
        sizes,
        x: along(x),
        w: along(w),
    })
}

/// What a view looks at, from its first element on.
fn at<'a, D: Driver>(v: &GpuView<'a, D>) -> Result<PieceRange<'a, D>> {
    Ok(v.buffer.part()?.skip((v.layout.offset() * v.dtype.size()) as u64))
}

/// The product of x and w by the library; `None`, and nothing was done, if there is none, or if it
/// does not do this one.
///
/// # Errors
/// `DeviceLost`.
pub(crate) fn multiply<D: Driver>(
    d: &GpuDevice<D>,
    [x, w]: [GpuView<'_, D>; 2],
) -> Result<Option<GpuBuffer<D>>> {
    let Some(product) = product(x.dtype, x.layout, w.layout) else { return Ok(None) };
    let [b, m, n, _] = product.sizes;
    let y = GpuBuffer::uninit(d, x.dtype, b * m * n)?;
    match d.multiply(product, [at(&x)?, at(&w)?, y.part()?]) {
        Ok(done) => Ok(done.then_some(y)),
        // A library that does not work here is as good as none.
        Err(e) if matches!(e.kind(), ErrorKind::OutOfMemory | ErrorKind::Unsupported) => Ok(None),
        Err(e) => Err(e),
    }
}
