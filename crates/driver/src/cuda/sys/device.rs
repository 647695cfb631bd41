//! CUDA devices: their limits and features.

use super::library::{api, shown};
use crate::Info;
use crate::streams::sys::{Api, Listed, Physical, file_word};
use elinvar_core::{Error, Result};
use elinvar_kernel::emit::ptx;
use elinvar_kernel::ir::{Elem, MmaShape};
use std::ffi::c_int;

/// The oldest compute capability that is supported: what kernels are emitted for.
const MIN_CAPABILITY: u32 = ptx::SM75.capability;

// Numbers of `CUdevice_attribute`.
const MAX_THREADS_PER_BLOCK: c_int = 1;
/// What a workgroup may have if the kernel asks for it (`Module`); without that it is 48 KiB on all
/// devices.
const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;
const WARP_SIZE: c_int = 10;
const MULTIPROCESSOR_COUNT: c_int = 16;
const INTEGRATED: c_int = 18;
const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
const COMPUTE_CAPABILITY_MINOR: c_int = 76;
const MEMORY_POOLS_SUPPORTED: c_int = 115;
/// Workgroups along each axis, at most.
const MAX_GROUPS: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// Set to 0, kernels that fetch TMA tiles are not used: for comparisons.
const TMA_VARIABLE: &str = "ELINVAR_CUDA_BOXES";
/// Set to 0, memory is not allocated in a stream's order, so that it can be shared with other
/// processes.
const POOLS_VARIABLE: &str = "ELINVAR_CUDA_POOLS";
/// The first driver that takes the PTX of kernels that fetch TMA tiles: CUDA 12.0.
const TMA_SINCE_VERSION: c_int = 12000;

/// The devices of this machine, those with memory of their own first.
///
/// # Errors
/// `DriverMissing`; `Unsupported` if the driver is too old.
pub fn physical() -> Result<Vec<Physical>> {
    let api = api()?;
    api.devices(|_, device| look(api, device))
}

/// The compute capability of a device, as in `sm_90`.
///
/// # Errors
/// What the driver reports.
fn capability(api: &Api, raw: c_int) -> Result<u32> {
    let part = |number| api.attribute(raw, number);
    Ok(part(COMPUTE_CAPABILITY_MAJOR)? * 10 + part(COMPUTE_CAPABILITY_MINOR)?)
}

/// The driver's library, and the compute capability of a device.
///
/// # Errors
/// `Unsupported` if it is too old; what the driver reports.
pub fn open(physical: &Physical) -> Result<(&'static Api, u32)> {
    let api = api()?;
    let (name, capability) = (&physical.info.name, capability(api, physical.raw)?);
    if capability < MIN_CAPABILITY {
        return Err(Error::unsupported(format!(
            "cuda: {name} has compute capability {}.{}, and kernels need {}.{}",
            capability / 10,
            capability % 10,
            MIN_CAPABILITY / 10,
            MIN_CAPABILITY % 10
        )));
    }
    Ok((api, capability))
}

fn look(api: &Api, Listed { raw, name, memory }: Listed) -> Result<Physical> {
    let attribute = |number| api.attribute(raw, number);
    let capability = capability(api, raw)?;
    let isa = format!("sm_{capability}");
    let is_on = |variable| std::env::var_os(variable).is_none_or(|v| v != "0");
    Ok(Physical {
        raw,
        max_groups: MAX_GROUPS,
        pools: is_on(POOLS_VARIABLE) && api.has_pools(raw, MEMORY_POOLS_SUPPORTED),
        cache_name: format!("cuda-{}-sm{capability}-{}", file_word(&name), api.version),
        info: Info {
            name,
            kind: api.kind(raw, INTEGRATED)?,
            driver: format!("driver of CUDA {}, {isa}", shown(api.version)),
            memory: Some(memory),
            largest: memory,
            alignment: 256,
            subgroup: [attribute(WARP_SIZE)?; 2],
            compute_units: Some(attribute(MULTIPROCESSOR_COUNT)?),
            shared: attribute(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            invocations: attribute(MAX_THREADS_PER_BLOCK)?,
            // Parameters take 4096 bytes, and an address 8.
            buffers: 64,
            f64: true,
            i64: true,
            half: true,
            bytes: true,
            suballocates: true,
            max_loop_iterations: None,
            short: false,
            queues: api.table.await_event.is_some(),
            cp_async: capability >= ptx::SM80_CP_ASYNC.capability,
            tma: is_on(TMA_VARIABLE)
                && capability == ptx::SM90A_WGMMA.capability
                && api.version >= TMA_SINCE_VERSION
                && api.nvidia.as_ref().is_some_and(|f| f.encode_map.is_some()),
            mma_shapes: mma_shapes(capability),
        },
        isa,
    })
}

/// What its tensor cores multiply, as far as kernels are emitted for it.
fn mma_shapes(capability: u32) -> Vec<MmaShape> {
    if capability < ptx::SM80_MMA.capability {
        return Vec::new();
    }
    let mma_shapes = [(Elem::F16, 16), (Elem::BF16, 16), (Elem::F32, 8)];
    let mma_shapes = mma_shapes.map(|(elem, terms)| MmaShape { elem, shape: [16, 16, terms] });
    // Whether sums of f64 are the chains that kernels expect has to be tried.
    mma_shapes.into_iter().chain([MmaShape::F64_FMA_CHAIN]).collect()
}
