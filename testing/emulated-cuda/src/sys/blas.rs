//! The functions of cuBLASLt that the project loads. One algorithm, without a workspace.
//!
//! Callers guarantee the pointers, as for the driver's functions (see `api`).

#![allow(
    missing_docs,
    reason = "the names and arguments are NVIDIA's, who describes them in cuBLAS's manual"
)]
#![allow(clippy::missing_safety_doc, reason = "as above")]
#![allow(non_snake_case, reason = "as above")]

use super::api::{Handle, within};
use emulated_gpu::device::{Error, Operation, Work};
use emulated_gpu::product::{Element, Multiply, Stored};
use std::ffi::{c_int, c_void};

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 7;
const EXECUTION_FAILED: c_int = 13;
const NOT_SUPPORTED: c_int = 15;

/// A matmul descriptor: the type of computation, and which operands are transposed.
struct Described {
    compute: c_int,
    transposed: [i32; 2],
}

/// `cublasLtMatmulHeuristicResult_t`
#[repr(C)]
pub struct Way {
    algorithm: [u64; 8],
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

/// The identifier of the one algorithm.
const ALGORITHM: u64 = 0xe1;

fn give<T>(to: *mut Handle, v: T) -> c_int {
    if to.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: the caller has room for a result there.
    unsafe { to.write(Box::into_raw(Box::new(v)).cast()) };
    SUCCESS
}
/// # Safety
/// The handle is 0, or was created for this type, and is not used again.
unsafe fn end<T>(handle: Handle) -> c_int {
    if handle.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: guaranteed by the caller.
    drop(unsafe { Box::from_raw(handle.cast::<T>()) });
    SUCCESS
}
/// Writes an attribute.
///
/// # Safety
/// There are `size` bytes at `value`.
unsafe fn set<T: Copy>(to: &mut T, value: *const c_void, size: usize) -> c_int {
    if value.is_null() || size != size_of::<T>() {
        return INVALID_VALUE;
    }
    // SAFETY: guaranteed by the caller.
    *to = unsafe { value.cast::<T>().read_unaligned() };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasLtCreate(handle: *mut Handle) -> c_int {
    match within(|_| Ok(())) {
        0 => give(handle, ALGORITHM),
        _ => EXECUTION_FAILED,
    }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtDestroy(handle: Handle) -> c_int {
    // SAFETY: created above.
    unsafe { end::<u64>(handle) }
}
#[unsafe(no_mangle)]
pub extern "C" fn cublasLtMatmulDescCreate(to: *mut Handle, compute: c_int, scale: c_int) -> c_int {
    // Scales are f32.
    if scale != 0 { NOT_SUPPORTED } else { give(to, Described { compute, transposed: [0; 2] }) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulDescDestroy(handle: Handle) -> c_int {
    // SAFETY: created above.
    unsafe { end::<Described>(handle) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulDescSetAttribute(
    handle: Handle,
    attribute: c_int,
    value: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: created above, and used by one caller at a time.
    let Some(described) = (unsafe { handle.cast::<Described>().as_mut() }) else { return INVALID_VALUE };
    match attribute {
        // SAFETY: guaranteed by the caller.
        3 | 4 => unsafe { set(&mut described.transposed[attribute as usize - 3], value, size) },
        _ => NOT_SUPPORTED,
    }
}
#[unsafe(no_mangle)]
pub extern "C" fn cublasLtMatrixLayoutCreate(
    to: *mut Handle,
    elem: c_int,
    rows: u64,
    columns: u64,
    leading: i64,
) -> c_int {
    let elem = match elem {
        0 => Element::F32,
        2 => Element::F16,
        14 => Element::BF16,
        _ => return NOT_SUPPORTED,
    };
    give(to, Stored { elem, rows, columns, leading, count: 1, batch: 0 })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatrixLayoutDestroy(handle: Handle) -> c_int {
    // SAFETY: created above.
    unsafe { end::<Stored>(handle) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatrixLayoutSetAttribute(
    handle: Handle,
    attribute: c_int,
    value: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: created above, and used by one caller at a time.
    let Some(stored) = (unsafe { handle.cast::<Stored>().as_mut() }) else { return INVALID_VALUE };
    match attribute {
        // SAFETY: guaranteed by the caller.
        5 => unsafe { set(&mut stored.count, value, size) },
        // SAFETY: guaranteed by the caller.
        6 => unsafe { set(&mut stored.batch, value, size) },
        _ => NOT_SUPPORTED,
    }
}
#[unsafe(no_mangle)]
pub extern "C" fn cublasLtMatmulPreferenceCreate(to: *mut Handle) -> c_int {
    give(to, 0u64)
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulPreferenceDestroy(handle: Handle) -> c_int {
    // SAFETY: created above.
    unsafe { end::<u64>(handle) }
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulPreferenceSetAttribute(
    handle: Handle,
    attribute: c_int,
    value: *const c_void,
    size: usize,
) -> c_int {
    // SAFETY: created above, and used by one caller at a time.
    let Some(room) = (unsafe { handle.cast::<u64>().as_mut() }) else { return INVALID_VALUE };
    match attribute {
        // SAFETY: guaranteed by the caller.
        1 => unsafe { set(room, value, size) },
        // Minimum alignments: any is accepted.
        5..=8 => {
            let mut alignment = 0u32;
            // SAFETY: guaranteed by the caller.
            match unsafe { set(&mut alignment, value, size) } {
                SUCCESS if alignment.is_power_of_two() => SUCCESS,
                _ => INVALID_VALUE,
            }
        }
        _ => NOT_SUPPORTED,
    }
}

/// The product that the handles describe, at these addresses.
///
/// # Safety
/// The handles were created by the functions above.
unsafe fn described(operation: Handle, matrices: [Handle; 3], at: [u64; 3]) -> Option<Multiply> {
    // SAFETY: guaranteed by the caller.
    let (operation, matrices) =
        unsafe { (operation.cast::<Described>().as_ref()?, matrices.map(|m| m.cast::<Stored>().as_ref())) };
    let [Some(a), Some(b), Some(d)] = matrices else { return None };
    let tf32 = match operation.compute {
        68 => false,
        77 => true,
        _ => return None,
    };
    let m = Multiply { tf32, transposed: operation.transposed.map(|t| t == 1), stored: [*a, *b, *d], at };
    m.fits().then_some(m)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmulAlgoGetHeuristic(
    _handle: Handle,
    operation: Handle,
    a: Handle,
    b: Handle,
    _c: Handle,
    d: Handle,
    preference: Handle,
    requested: c_int,
    ways: *mut Way,
    found: *mut c_int,
) -> c_int {
    if preference.is_null() || requested < 1 || ways.is_null() || found.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: handles that were created above, and room for results.
    unsafe {
        if described(operation, [a, b, d], [0; 3]).is_none() {
            found.write(0);
            return NOT_SUPPORTED;
        }
        let algorithm = [ALGORITHM; 8];
        ways.write(Way { algorithm, workspace: 0, state: SUCCESS, waves: 1.0, reserved: [0; 4] });
        found.write(1);
    }
    SUCCESS
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasLtMatmul(
    _handle: Handle,
    operation: Handle,
    alpha: *const f32,
    a_at: u64,
    a: Handle,
    b_at: u64,
    b: Handle,
    beta: *const f32,
    _c_at: u64,
    _c: Handle,
    d_at: u64,
    d: Handle,
    algorithm: *const [u64; 8],
    _workspace: u64,
    _size: usize,
    stream: Handle,
) -> c_int {
    // SAFETY: as above; the caller guarantees the scales and the algorithm.
    let product = unsafe {
        let plain = !alpha.is_null() && *alpha == 1.0 && !beta.is_null() && *beta == 0.0;
        let known = !algorithm.is_null() && *algorithm == [ALGORITHM; 8];
        if !plain || !known {
            return NOT_SUPPORTED;
        }
        described(operation, [a, b, d], [a_at, b_at, d_at])
    };
    let Some(product) = product else { return INVALID_VALUE };
    match within(|device| device.push(stream as u64, Operation::Work(Work::Multiply(product)))) {
        0 => SUCCESS,
        e if e == Error::INVALID_HANDLE.0 => INVALID_VALUE,
        _ => EXECUTION_FAILED,
    }
}
