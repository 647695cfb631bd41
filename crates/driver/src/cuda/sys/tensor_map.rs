//! Tensor maps: what TMA is told of a kernel's tensor views, as the driver encodes it ("CUDA Driver
//! API", 6.32).

use super::functions::EncodeTensorMap;
use crate::streams::sys::{Address, Module, Shared};
use elinvar_core::{Error, Result};
use elinvar_kernel::emit::ptx::TENSOR_MAP_BYTES;
use elinvar_kernel::ir::{Constant, Elem, Scalar, TensorView, tensor_map_error, tile_row_elements};
use std::ffi::c_int;

// Numbers of `CUtensorMapDataType`, `CUtensorMapSwizzle` and `CUtensorMapL2promotion`.
const FLOAT16: c_int = 6;
const BFLOAT16: c_int = 9;
const TFLOAT32: c_int = 11;
const SWIZZLE_128B: c_int = 3;
const L2_128B: c_int = 2;
/// Elements are contiguous, and zeros stand for those beyond the ends:
/// `CU_TENSOR_MAP_INTERLEAVE_NONE`, `..._OOB_FILL_NONE`.
const NONE: c_int = 0;

/// A map, where the driver wants to have it.
#[repr(align(64))]
pub struct TensorMap([u8; TENSOR_MAP_BYTES]);

/// The maps of a launch, from the addresses of its buffers and its parameters.
///
/// # Errors
/// `Unsupported` if the driver makes none; `InvalidArgument` if a view's numbers are not what they
/// should be.
pub fn maps(
    shared: &Shared,
    kernel: &Module,
    buffers: &[Address],
    params: &[Constant],
) -> Result<Vec<TensorMap>> {
    let mut all = Vec::with_capacity(kernel.views.len());
    for (view, elem) in &kernel.views {
        let Some(encode) = shared.api.nvidia.as_ref().and_then(|f| f.encode_map) else {
            return Err(Error::unsupported(format!(
                "cuda: {}: this driver makes no tensor maps",
                kernel.name
            )));
        };
        let number = |i: u32| {
            let c = params[i as usize];
            if c.scalar == Scalar::I32 { i64::from(c.bits as u32 as i32) } else { c.bits as i64 }
        };
        let args = view.param_ids().map(number);
        if let Some(what) = tensor_map_error(*elem, args) {
            let name = &kernel.name;
            return Err(Error::argument(format!("cuda: {name}: view {}: {what}: {args:?}", view.name)));
        }
        let base = buffers[view.buffer as usize];
        all.push(map(shared, encode, (view, *elem), base, args, &kernel.name)?);
    }
    Ok(all)
}

fn map(
    shared: &Shared,
    encode: EncodeTensorMap,
    (view, elem): (&TensorView, Elem),
    base: Address,
    [offset, inner, lines, planes, line, plane]: [i64; 6],
    name: &str,
) -> Result<TensorMap> {
    let kind = match elem {
        Elem::BF16 => BFLOAT16,
        // Rounded on the way, as tensor cores take them.
        Elem::F32 => TFLOAT32,
        _ => FLOAT16,
    };
    let size = i64::from(elem.size());
    let at = base + (offset * size) as u64;
    let sizes = [inner, lines, planes].map(|n| n as u64);
    let strides = [line, plane].map(|n| (n * size) as u64);
    let (shape, steps) = ([tile_row_elements(elem), view.lines, 1], [1u32; 3]);
    let mut map = TensorMap([0; TENSOR_MAP_BYTES]);
    // SAFETY: the map's place is aligned and as large as the manual says; there are as many sizes,
    // elements of a TMA tile and steps as axes, and one stride less. The address is only written
    // down.
    let made = unsafe {
        encode(
            map.0.as_mut_ptr().cast(),
            kind,
            3,
            at,
            sizes.as_ptr(),
            strides.as_ptr(),
            shape.as_ptr(),
            steps.as_ptr(),
            NONE,
            SWIZZLE_128B,
            L2_128B,
            NONE,
        )
    };
    shared.api.check(made, || format!("{name}: a map of {sizes:?} elements, {strides:?} bytes apart"))?;
    Ok(map)
}
