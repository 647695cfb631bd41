//! GEMM by a vendor's library: the description of a product.

use elinvar_kernel::ir::Elem;

/// y\[b, m, n\] = sum over k of x\[b, m, k\] w\[b, k, n\], y contiguous. A library adds in an order
/// of its own, in f32, and may round factors of f32 to 19 bits (TF32): this is for
/// `Precision::Fast` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VendorGemm {
    /// What x, w and y are made of.
    pub elem: Elem,
    /// b, m, n, k; none is 0.
    pub sizes: [usize; 4],
    /// How far apart neighbours of x are, along b, m, k, in elements.
    pub x: [i64; 3],
    /// How far apart neighbours of w are, along b, k, n, in elements.
    pub w: [i64; 3],
}
