//! Raw memory and raw kernels of any backend, behind an object-safe trait.
//!
//! [`ComputeBackend`] is what code that knows nothing of tensors programs against: device pointers
//! are `u64`, shapes are slices, and the backend is `&dyn ComputeBackend`. [`Raw`] implements it
//! over any [`Backend`](elinvar_ops::Backend) of the library: the kernels are the library's, with
//! the same bits as the ops of tensors, on every device.
//!
//! ```
//! use elinvar_compute::{BackendTranspose, ComputeBackend, Raw};
//! use elinvar_core::DType;
//! use elinvar_reference::{Reference, ReferenceDevice};
//! use BackendTranspose::NoTrans;
//!
//! let mut backend = Raw::<Reference>::new(ReferenceDevice, DType::F64)?;
//! backend.init()?;
//! let put = |v: &[f64]| {
//!     let bytes: Vec<u8> = v.iter().flat_map(|x| x.to_ne_bytes()).collect();
//!     let p = backend.alloc(bytes.len())?;
//!     backend.copy_htod(p, &bytes).map(|()| p)
//! };
//! // Column-major: a = [1 3; 2 4], b = the unit matrix.
//! let (a, b, c) = (put(&[1.0, 2.0, 3.0, 4.0])?, put(&[1.0, 0.0, 0.0, 1.0])?, put(&[0.0; 4])?);
//! backend.gemm(NoTrans, NoTrans, 2, 2, 2, 10.0, a, 2, b, 2, 0.0, c, 2)?;
//! let mut bytes = [0; 32];
//! backend.copy_dtoh(&mut bytes, c)?;
//! assert_eq!(f64::from_ne_bytes(bytes[8..16].try_into().unwrap()), 20.0);
//! for p in [a, b, c] {
//!     backend.free(p)?;
//! }
//! # Ok::<(), elinvar_compute::BackendError>(())
//! ```
//!
//! With the feature `oxicuda`, `Raw` also implements the trait of that name of the published crate
//! `oxicuda-backend`, whose signatures ours has.
//!
//! * `address`: handles that look like addresses. `memory`: allocations and what is in them.
//! * `region`: which elements a call reads and writes, whether they fit and whether they overlap.
//! * `raw`: the type and its life. `products`, `elements`, `network`: the calls.

#![forbid(unsafe_code)]

mod address;
mod elements;
mod memory;
mod network;
#[cfg(feature = "oxicuda")]
mod oxicuda;
mod products;
mod raw;
mod region;
mod types;

pub use memory::Usage;
pub use products::Rounding;
pub use raw::Raw;
pub use types::{BackendError, BackendResult, BackendTranspose, BinaryOp, ReduceOp, UnaryOp};

use std::fmt::Debug;

/// A device's memory by address, and its kernels.
///
/// Pointers are those of [`alloc`](ComputeBackend::alloc), or lie inside of one's memory: `p + n`
/// for `n` bytes. Elements are f32 or f64, as the implementation says; pointers to elements are
/// multiples of an element's size. Sizes, strides and leading dimensions count elements; only
/// `alloc` and the copies count bytes. An operand without elements has no memory, and its pointer
/// is not looked at. Sizes whose product, zeros left out, is no number of elements that memory can
/// have are refused all the same.
///
/// Where a call writes, it may not read, but for `c_ptr` of products, and for an output that is
/// exactly an input of [`unary`](ComputeBackend::unary) or [`binary`](ComputeBackend::binary).
///
/// All methods but `init` take `&self`: calls from several threads are safe. Calls that use the
/// same elements, one of them to write, must be ordered by the caller, or each element is from one
/// or the other.
///
/// # Errors
/// Of every call: `NotInitialized` before [`init`](ComputeBackend::init); `InvalidArgument` for a
/// pointer that is unknown, freed or another backend's, is not aligned, or has not as much memory
/// behind it as the call needs, for memory that overlaps, and for sizes that do not fit;
/// `OutOfMemory`; `DeviceError`.
pub trait ComputeBackend: Send + Sync + Debug {
    /// The backend's name, as `"cpu"` or `"cuda"`.
    fn name(&self) -> &str;
    /// Opens the device. Must be called before any other call but `name` and `is_initialized`; the
    /// second time it does nothing.
    ///
    /// # Errors
    /// What the device reports.
    fn init(&mut self) -> BackendResult<()>;
    /// Was it opened?
    fn is_initialized(&self) -> bool;
    /// C = alpha op(A) op(B) + beta C, with matrices stored by columns.
    ///
    /// * `trans_a`, `trans_b`: how A and B are read. `ConjTrans` is `Trans`: all numbers are real.
    /// * `m`, `n`, `k`: op(A) is m x k, op(B) is k x n, C is m x n.
    /// * `lda`, `ldb`, `ldc`: elements from one column to the next, as stored; at least 1 and at
    ///   least the number of rows as stored. Elements between columns are neither read nor written.
    /// * `alpha`, `beta`: rounded to the type of the elements once. If `alpha` or `k` is 0, A and B
    ///   are not read, and their pointers are not looked at; if `beta` is 0, C is not read: what is
    ///   NaN there does not stay.
    ///
    /// C may lie between the columns of A or B, but not on their elements.
    ///
    /// # Errors
    /// Those of every call.
    fn gemm(
        &self,
        trans_a: BackendTranspose,
        trans_b: BackendTranspose,
        m: usize,
        n: usize,
        k: usize,
        alpha: f64,
        a_ptr: u64,
        lda: usize,
        b_ptr: u64,
        ldb: usize,
        beta: f64,
        c_ptr: u64,
        ldc: usize,
    ) -> BackendResult<()>;
    /// [`gemm`](ComputeBackend::gemm) of `batch_count` matrices each, `stride_a`, `stride_b` and
    /// `stride_c` elements from one to the next. A stride of 0 is one matrix for all; not of C, of
    /// which no element may be reached twice.
    ///
    /// As provided, it calls `gemm` for one matrix after the other, of f32: a stride is of 4 bytes.
    /// A backend of other elements writes its own.
    ///
    /// # Errors
    /// Those of `gemm`. As provided, matrices before the one that does not fit are computed.
    fn batched_gemm(
        &self,
        trans_a: BackendTranspose,
        trans_b: BackendTranspose,
        m: usize,
        n: usize,
        k: usize,
        alpha: f64,
        a_ptr: u64,
        lda: usize,
        stride_a: usize,
        b_ptr: u64,
        ldb: usize,
        stride_b: usize,
        beta: f64,
        c_ptr: u64,
        ldc: usize,
        stride_c: usize,
        batch_count: usize,
    ) -> BackendResult<()> {
        let place = |what: &str, start: u64, stride: usize, i: usize| {
            let steps = (i as u64).checked_mul(stride as u64).and_then(|n| n.checked_mul(4));
            steps.and_then(|n| start.checked_add(n)).ok_or_else(|| {
                BackendError::InvalidArgument(format!(
                    "batched_gemm: {what} {stride} leads beyond the last address at matrix {i}"
                ))
            })
        };
        for i in 0..batch_count {
            let a = place("stride_a", a_ptr, stride_a, i)?;
            let b = place("stride_b", b_ptr, stride_b, i)?;
            let c = place("stride_c", c_ptr, stride_c, i)?;
            self.gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)?;
        }
        Ok(())
    }
    /// output[n, k, y, x] = sum over (c, r, s) of input[n, c, y sh + r - ph, x sw + s - pw] *
    /// filter[k, c, r, s]: cross-correlation, zeros around the input, all row-major.
    ///
    /// * `input_shape` [n, c, h, w], `filter_shape` [k, c, r, s] with r and s of 1 at least.
    /// * `output_shape` [n, k, (h + 2 ph - r) / sh + 1, (w + 2 pw - s) / sw + 1], rounded down.
    /// * `stride` [sh, sw] of 1 at least, `padding` [ph, pw], each below 2^31.
    ///
    /// # Errors
    /// Those of every call.
    fn conv2d_forward(
        &self,
        input_ptr: u64,
        input_shape: &[usize],
        filter_ptr: u64,
        filter_shape: &[usize],
        output_ptr: u64,
        output_shape: &[usize],
        stride: &[usize],
        padding: &[usize],
    ) -> BackendResult<()>;
    /// o = softmax(scale q k^T) v for each batch and head.
    ///
    /// * q and o: [batch, heads, seq_q, head_dim]. k and v: [batch, heads, seq_kv, head_dim].
    /// * `scale`: a factor of the scores, as 1 / sqrt(head_dim); not a divisor.
    /// * `causal`: the last query sees all keys, and each one before it one key less: query i sees
    ///   keys 0..=(i + seq_kv - seq_q). For equal lengths that is the lower triangle. A query that
    ///   sees no key gives zeros.
    ///
    /// # Errors
    /// Those of every call.
    fn attention(
        &self,
        q_ptr: u64,
        k_ptr: u64,
        v_ptr: u64,
        o_ptr: u64,
        batch: usize,
        heads: usize,
        seq_q: usize,
        seq_kv: usize,
        head_dim: usize,
        scale: f64,
        causal: bool,
    ) -> BackendResult<()>;
    /// Combines the elements along one axis of a row-major input of `shape`. The output has the
    /// other axes.
    ///
    /// # Errors
    /// Those of every call; `InvalidArgument` for `Max` and `Min` of no elements.
    fn reduce(
        &self,
        op: ReduceOp,
        input_ptr: u64,
        output_ptr: u64,
        shape: &[usize],
        axis: usize,
    ) -> BackendResult<()>;
    /// `output[i] = op(input[i])` for `n` elements. The output may be the input.
    ///
    /// # Errors
    /// Those of every call.
    fn unary(&self, op: UnaryOp, input_ptr: u64, output_ptr: u64, n: usize) -> BackendResult<()>;
    /// `output[i] = op(a[i], b[i])` for `n` elements. The output may be a or b.
    ///
    /// # Errors
    /// Those of every call.
    fn binary(&self, op: BinaryOp, a_ptr: u64, b_ptr: u64, output_ptr: u64, n: usize) -> BackendResult<()>;
    /// Waits until all work is done.
    ///
    /// # Errors
    /// What the work reports.
    fn synchronize(&self) -> BackendResult<()>;
    /// Memory of so many bytes, of zeros. The address is a multiple of 256, and is not given again.
    ///
    /// # Errors
    /// `InvalidArgument` for 0 bytes; `OutOfMemory`.
    fn alloc(&self, bytes: usize) -> BackendResult<u64>;
    /// Frees memory by the address that `alloc` gave.
    ///
    /// # Errors
    /// `InvalidArgument` if it is none, or was freed before.
    fn free(&self, ptr: u64) -> BackendResult<()>;
    /// Copies bytes of the host to the device, at any address inside of an allocation.
    ///
    /// # Errors
    /// Those of every call.
    fn copy_htod(&self, dst: u64, src: &[u8]) -> BackendResult<()>;
    /// Copies bytes of the device to the host, after all work that writes them.
    ///
    /// # Errors
    /// Those of every call.
    fn copy_dtoh(&self, dst: &mut [u8], src: u64) -> BackendResult<()>;
}
