//! CUDA devices: their limits and features.

use super::library::{api, none, shown};
use crate::streams::sys::{Api, Physical, Shared};
use crate::{Info, Kind};
use elinvar_core::{Error, Result};
use elinvar_kernel::emit::ptx;
use elinvar_kernel::ir::{Elem, MmaShape};
use std::ffi::c_int;
use std::sync::Arc;

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
/// The first driver that takes the PTX of kernels that fetch TMA tiles: CUDA 12.0.
const TMA_SINCE_VERSION: c_int = 12000;
/// The devices of this machine, those with memory of their own first.
///
/// # Errors
/// `DriverMissing`; `Unsupported` if the driver is too old.
pub fn physical() -> Result<Vec<Physical>> {
    let api = api()?;
    let mut count = 0;
    // SAFETY: the place for the result is valid.
    api.check(unsafe { (api.table.device_count)(&raw mut count) }, || "counting devices".into())?;
    let mut all = (0..count).map(|i| look(api, i)).collect::<Result<Vec<Physical>>>()?;
    if all.is_empty() {
        return Err(none());
    }
    // Stable: devices of one kind stay in the driver's order.
    all.sort_by_key(|p| p.info.kind);
    Ok(all)
}

/// The compute capability of a device, as in `sm_90`.
///
/// # Errors
/// What the driver reports.
fn capability(api: &Api, raw: c_int) -> Result<u32> {
    let part = |a: c_int| -> Result<u32> {
        let mut value = 0;
        // SAFETY: the place for the result is valid.
        let asked = unsafe { (api.table.device_attribute)(&raw mut value, a, raw) };
        api.check(asked, || "asking for the compute capability".into())?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    Ok(part(COMPUTE_CAPABILITY_MAJOR)? * 10 + part(COMPUTE_CAPABILITY_MINOR)?)
}

/// Opens a device; gives its compute capability, too.
///
/// # Errors
/// `Unsupported` if it is too old; what the driver reports.
pub fn open(physical: Physical) -> Result<(Arc<Shared>, u32)> {
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
    Ok((Shared::open(api, physical)?, capability))
}

fn look(api: &Api, ordinal: c_int) -> Result<Physical> {
    let t = &api.table;
    let what = || format!("looking at device {ordinal}");
    let (mut raw, mut memory, mut name) = (0, 0usize, [0; 256]);
    // SAFETY: the places for the results are valid; the name's has 256 bytes.
    unsafe {
        api.check((t.device)(&raw mut raw, ordinal), what)?;
        api.check((t.device_memory)(&raw mut memory, raw), what)?;
        api.check((t.device_name)(name.as_mut_ptr(), name.len() as c_int, raw), what)?;
    }
    let attribute = |a: c_int| -> Result<u32> {
        let mut value = 0;
        // SAFETY: as above.
        api.check(unsafe { (t.device_attribute)(&raw mut value, a, raw) }, what)?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    // A driver that is too old to know the question has no pools.
    let pools = attribute(MEMORY_POOLS_SUPPORTED).unwrap_or(0) == 1;
    let capability = capability(api, raw)?;
    let name: String = name.iter().take_while(|&&b| b != 0).map(|&b| char::from(b as u8)).collect();
    let kind = match (api.emulated, attribute(INTEGRATED)?) {
        (true, _) => Kind::Software,
        (false, 0) => Kind::Discrete,
        (false, _) => Kind::Integrated,
    };
    let word: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let tma = std::env::var_os(TMA_VARIABLE).is_none_or(|v| v != "0");
    Ok(Physical {
        raw,
        max_groups: MAX_GROUPS,
        pools: pools && t.allocate_async.is_some() && t.free_async.is_some(),
        cache_name: format!("cuda-{word}-sm{capability}-{}", api.version),
        info: Info {
            name,
            kind,
            driver: format!("driver of CUDA {}, sm_{capability}", shown(api.version)),
            memory: Some(memory as u64),
            largest: memory as u64,
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
            queues: t.await_event.is_some(),
            cp_async: capability >= ptx::SM80_CP_ASYNC.capability,
            tma: tma
                && capability == ptx::SM90A_WGMMA.capability
                && api.version >= TMA_SINCE_VERSION
                && api.nvidia.as_ref().is_some_and(|f| f.encode_map.is_some()),
            mma_shapes: mma_shapes(capability),
        },
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
