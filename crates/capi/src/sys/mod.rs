//! The functions of `elinvar.h`, as C calls them.
//!
//! What C promises is written there, at each function: a pointer to an array has as many elements
//! as are named, a pointer to a result may be written, a string ends with 0, and no other code
//! changes or frees them during the call. That cannot be checked here; what can be is: null,
//! alignment, and sizes that no array has. The helpers below are the only code that follows a
//! pointer.

#![allow(unsafe_code, reason = "pointers of C")]

use crate::backends::{
    Number, backend, binary_op, close, name, open, reduce_op, status, transpose, unary_op, with_last_error,
};
use elinvar_compute::{BackendError, BackendResult, ComputeBackend};
use std::ffi::{CStr, c_char, c_int, c_void};

fn refused<T>(said: String) -> BackendResult<T> {
    Err(BackendError::InvalidArgument(said))
}

/// That a pointer can be one to so many `T`: not null unless there are none, aligned, and of a size
/// that arrays have.
fn check<T>(what: &str, p: *const T, len: usize) -> BackendResult<()> {
    if p.is_null() {
        return refused(format!("{what} is null"));
    }
    if !p.is_aligned() {
        return refused(format!("{what} is not aligned"));
    }
    if len.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return refused(format!("{what}: {len} elements are more than an array can have"));
    }
    Ok(())
}

/// An array of C's.
///
/// # Safety
/// If `p` is not null, `len` elements lie there, initialised, and are not changed or freed while
/// the slice is used.
unsafe fn array<'a, T: Copy>(what: &str, p: *const T, len: usize) -> BackendResult<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    check(what, p, len)?;
    // SAFETY: `p` is aligned and not null, the size fits, all by `check`; the elements are there by
    // the contract above.
    Ok(unsafe { std::slice::from_raw_parts(p, len) })
}

/// Bytes of C's to be written, as zeros.
///
/// # Safety
/// If `p` is not null, `len` bytes are there, and no other code uses them while the slice is used.
unsafe fn bytes_mut<'a>(what: &str, p: *mut u8, len: usize) -> BackendResult<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(what, p, len)?;
    // SAFETY: the bytes are there by the contract. They may never have been written, which a slice
    // of them must have been.
    unsafe { p.write_bytes(0, len) };
    // SAFETY: `p` is not null and the size fits, by `check`; the bytes were just written, and are
    // this call's alone by the contract.
    Ok(unsafe { std::slice::from_raw_parts_mut(p, len) })
}

/// Writes a result.
///
/// # Safety
/// If `to` is not null, it may be written.
unsafe fn give<T>(what: &str, to: *mut T, value: T) -> BackendResult<()> {
    check(what, to, 1)?;
    // SAFETY: it is not null and aligned by `check`, and may be written by the contract.
    unsafe { to.write(value) };
    Ok(())
}

/// The sentence of the last call of this thread that failed; empty if none did. It is there until
/// the next call of this thread that fails, or the end of the thread.
#[unsafe(no_mangle)]
pub extern "C" fn elinvar_last_error() -> *const c_char {
    with_last_error(CStr::as_ptr).unwrap_or(c"".as_ptr())
}

/// Opens a device by name: "cpu", "cuda:0", "vulkan:0", "reference", "best".
///
/// # Safety
/// `device` is null or a string, `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elinvar_open(device: *const c_char, elements: c_int, out: *mut Number) -> c_int {
    status(|| {
        check("device", device, 1)?;
        check("out", out, 1)?;
        // SAFETY: it is not null, and then a string by the contract.
        let Ok(device) = (unsafe { CStr::from_ptr(device) }).to_str() else {
            return refused("device is not UTF-8".into());
        };
        let number = open(device, elements)?;
        // SAFETY: by the contract.
        unsafe { give("out", out, number) }
    })
}
/// Closes a backend and frees its memory.
#[unsafe(no_mangle)]
pub extern "C" fn elinvar_close(number: Number) -> c_int {
    status(|| close(number))
}
/// Allocations that were not freed, and their bytes.
///
/// # Safety
/// `allocations` and `bytes` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elinvar_usage(number: Number, allocations: *mut usize, bytes: *mut usize) -> c_int {
    status(|| {
        let usage = backend(number)?.usage();
        // SAFETY: by the contract.
        unsafe { give("allocations", allocations, usage.allocations)? };
        // SAFETY: by the contract.
        unsafe { give("bytes", bytes, usage.bytes) }
    })
}
/// The name of a backend, or null.
#[unsafe(no_mangle)]
pub extern "C" fn elinvar_name(number: Number) -> *const c_char {
    let mut found = None;
    status(|| {
        found = Some(name(number)?);
        Ok(())
    });
    found.map_or(std::ptr::null(), CStr::as_ptr)
}
/// Opens the device of a backend.
#[unsafe(no_mangle)]
pub extern "C" fn elinvar_init(number: Number) -> c_int {
    status(|| backend(number)?.start())
}
/// 1 if it was opened, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn elinvar_is_initialized(number: Number) -> c_int {
    let mut is = false;
    status(|| {
        is = backend(number)?.is_initialized();
        Ok(())
    });
    c_int::from(is)
}
/// C = alpha op(A) op(B) + beta C, by columns.
#[unsafe(no_mangle)]
pub extern "C" fn elinvar_gemm(
    number: Number,
    trans_a: c_int,
    trans_b: c_int,
    m: usize,
    n: usize,
    k: usize,
    alpha: f64,
    a: u64,
    lda: usize,
    b: u64,
    ldb: usize,
    beta: f64,
    c: u64,
    ldc: usize,
) -> c_int {
    status(|| {
        let (ta, tb) = (transpose("trans_a", trans_a)?, transpose("trans_b", trans_b)?);
        backend(number)?.gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
    })
}
/// The same for a batch.
#[unsafe(no_mangle)]
pub extern "C" fn elinvar_batched_gemm(
    number: Number,
    trans_a: c_int,
    trans_b: c_int,
    m: usize,
    n: usize,
    k: usize,
    alpha: f64,
    a: u64,
    lda: usize,
    stride_a: usize,
    b: u64,
    ldb: usize,
    stride_b: usize,
    beta: f64,
    c: u64,
    ldc: usize,
    stride_c: usize,
    batch_count: usize,
) -> c_int {
    status(|| {
        let (ta, tb) = (transpose("trans_a", trans_a)?, transpose("trans_b", trans_b)?);
        backend(number)?.batched_gemm(
            ta,
            tb,
            m,
            n,
            k,
            alpha,
            a,
            lda,
            stride_a,
            b,
            ldb,
            stride_b,
            beta,
            c,
            ldc,
            stride_c,
            batch_count,
        )
    })
}
/// A convolution of NCHW by KCRS.
///
/// # Safety
/// Shapes have four elements, `stride` and `padding` two.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elinvar_conv2d_forward(
    number: Number,
    input: u64,
    input_shape: *const usize,
    filter: u64,
    filter_shape: *const usize,
    output: u64,
    output_shape: *const usize,
    stride: *const usize,
    padding: *const usize,
) -> c_int {
    status(|| {
        // SAFETY: arrays of so many elements by the contract, here and in the next lines.
        let x = unsafe { array("input_shape", input_shape, 4)? };
        // SAFETY: as above.
        let w = unsafe { array("filter_shape", filter_shape, 4)? };
        // SAFETY: as above.
        let y = unsafe { array("output_shape", output_shape, 4)? };
        // SAFETY: as above.
        let stride = unsafe { array("stride", stride, 2)? };
        // SAFETY: as above.
        let padding = unsafe { array("padding", padding, 2)? };
        backend(number)?.conv2d_forward(input, x, filter, w, output, y, stride, padding)
    })
}
/// softmax(scale q k^T) v.
#[unsafe(no_mangle)]
pub extern "C" fn elinvar_attention(
    number: Number,
    q: u64,
    k: u64,
    v: u64,
    o: u64,
    batch: usize,
    heads: usize,
    seq_q: usize,
    seq_kv: usize,
    head_dim: usize,
    scale: f64,
    causal: c_int,
) -> c_int {
    status(|| {
        backend(number)?.attention(q, k, v, o, batch, heads, seq_q, seq_kv, head_dim, scale, causal != 0)
    })
}
/// Combines elements along an axis.
///
/// # Safety
/// `shape` has `rank` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elinvar_reduce(
    number: Number,
    op: c_int,
    input: u64,
    output: u64,
    shape: *const usize,
    rank: usize,
    axis: usize,
) -> c_int {
    status(|| {
        // SAFETY: an array of so many elements by the contract.
        let shape = unsafe { array("shape", shape, rank)? };
        backend(number)?.reduce(reduce_op(op)?, input, output, shape, axis)
    })
}
/// A function of each element.
#[unsafe(no_mangle)]
pub extern "C" fn elinvar_unary(number: Number, op: c_int, input: u64, output: u64, n: usize) -> c_int {
    status(|| backend(number)?.unary(unary_op(op)?, input, output, n))
}
/// A function of two elements each.
#[unsafe(no_mangle)]
pub extern "C" fn elinvar_binary(number: Number, op: c_int, a: u64, b: u64, output: u64, n: usize) -> c_int {
    status(|| backend(number)?.binary(binary_op(op)?, a, b, output, n))
}
/// Waits until all work is done.
#[unsafe(no_mangle)]
pub extern "C" fn elinvar_synchronize(number: Number) -> c_int {
    status(|| backend(number)?.synchronize())
}
/// Memory of so many bytes.
///
/// # Safety
/// `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elinvar_alloc(number: Number, bytes: usize, out: *mut u64) -> c_int {
    status(|| {
        // Before memory is allocated whose address would be lost.
        check("out", out, 1)?;
        let p = backend(number)?.alloc(bytes)?;
        // SAFETY: by the contract.
        unsafe { give("out", out, p) }
    })
}
/// Frees memory.
#[unsafe(no_mangle)]
pub extern "C" fn elinvar_free(number: Number, ptr: u64) -> c_int {
    status(|| backend(number)?.free(ptr))
}
/// Copies to the device.
///
/// # Safety
/// `src` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elinvar_copy_htod(
    number: Number,
    dst: u64,
    src: *const c_void,
    bytes: usize,
) -> c_int {
    status(|| {
        // SAFETY: an array of so many bytes by the contract.
        let src = unsafe { array("src", src.cast::<u8>(), bytes)? };
        backend(number)?.copy_htod(dst, src)
    })
}
/// Copies from the device. After an error `dst` holds zeros.
///
/// # Safety
/// `dst` has `bytes` bytes, which may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn elinvar_copy_dtoh(
    number: Number,
    dst: *mut c_void,
    bytes: usize,
    src: u64,
) -> c_int {
    status(|| {
        let raw = backend(number)?;
        // SAFETY: bytes of this call alone by the contract.
        let dst = unsafe { bytes_mut("dst", dst.cast::<u8>(), bytes)? };
        raw.copy_dtoh(dst, src)
    })
}
