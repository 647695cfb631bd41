//! Encoding of tensor maps, as in the driver.

#![allow(
    missing_docs,
    reason = "the name and the arguments are NVIDIA's, who describes them in the driver API's manual"
)]
#![allow(clippy::missing_safety_doc, reason = "as above")]
#![allow(non_snake_case, reason = "as above")]

use emulated_gpu::device::Error;
use emulated_gpu::machine::tensor::{BYTES, RANK, TensorMap};
use std::ffi::{c_int, c_uint, c_void};

// Numbers of `CUtensorMapDataType` and `CUtensorMapSwizzle`.
const FLOAT16: c_int = 6;
const BFLOAT16: c_int = 9;
const TFLOAT32: c_int = 11;
const SWIZZLE_128B: c_int = 3;

/// Reports a refused request on standard error.
fn refused(what: &str) -> c_int {
    eprintln!("emulated cuda: a tensor map: {what}");
    Error::INVALID_VALUE.0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTensorMapEncodeTiled(
    map: *mut c_void,
    data_type: c_int,
    rank: c_uint,
    address: u64,
    sizes: *const u64,
    strides: *const u64,
    shape: *const u32,
    steps: *const u32,
    interleave: c_int,
    swizzle: c_int,
    promotion: c_int,
    fill: c_int,
) -> c_int {
    if map.is_null() || !(map as usize).is_multiple_of(64) {
        return refused("its place is no multiple of 64");
    }
    if rank as usize != RANK || !matches!(data_type, FLOAT16 | BFLOAT16 | TFLOAT32) {
        return refused(&format!(
            "{rank} axes of type {data_type}; only 3 axes of 16-bit floats or TF32 are emulated"
        ));
    }
    if interleave != 0 || swizzle != SWIZZLE_128B || !(0..=3).contains(&promotion) || fill != 0 {
        return refused(&format!(
            "interleave {interleave}, swizzle {swizzle}, promotion {promotion}, fill {fill}"
        ));
    }
    // SAFETY: arrays of `rank` elements, of strides one less, as the manual requires.
    let (sizes, strides, shape, steps) = unsafe {
        (
            sizes.cast::<[u64; RANK]>().read(),
            strides.cast::<[u64; RANK - 1]>().read(),
            shape.cast::<[u32; RANK]>().read(),
            steps.cast::<[u32; RANK]>().read(),
        )
    };
    if steps != [1; RANK] {
        return refused(&format!("steps of {steps:?}"));
    }
    let rounds = data_type == TFLOAT32;
    let made = TensorMap {
        address,
        element: if rounds { 4 } else { 2 },
        rounds,
        sizes,
        strides,
        shape: shape.map(u64::from),
    };
    match made.check() {
        Ok(made) => {
            // SAFETY: the caller has 128 bytes there.
            unsafe { map.cast::<[u8; BYTES]>().write(made.bytes()) };
            0
        }
        Err(what) => refused(&what),
    }
}
