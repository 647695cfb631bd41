//! HIP devices: their architectures, limits and features.

use super::comgr::comgr;
use super::library::{Hip, hip, none, shown};
use crate::streams::sys::{Physical, Shared};
use crate::{Info, Kind};
use elinvar_core::{Error, Result};
use elinvar_kernel::emit::llvm::{Arch, GROUP_LIMIT, LDS_BYTES, TRIPLE};
use std::ffi::c_int;
use std::sync::Arc;

// Numbers of `hipDeviceAttribute_t` since ROCm 5.
const INTEGRATED: c_int = 16;
const MULTIPROCESSOR_COUNT: c_int = 63;
const MEMORY_POOLS_SUPPORTED: c_int = 88;
/// Invocations of a launch along an axis: they are counted in 32 bits, and so are groups of them.
const MAX_INVOCATIONS: u64 = u32::MAX as u64;
/// Workgroups along y and z, at most.
const MAX_GROUPS: u32 = 65535;
/// Bytes that the properties of a device take in no version.
const PROPERTIES_BYTES: usize = 16 << 10;
/// Bytes of the device's name, which come first.
const NAME_BYTES: usize = 256;

/// A device that has not been opened, and its instruction set as the driver names it:
/// `gfx90a:sramecc+:xnack-`.
#[derive(Clone)]
pub struct Found {
    pub physical: Physical,
    pub isa: String,
}

/// The devices of this machine, those with memory of their own first.
///
/// # Errors
/// `DriverMissing`; `Unsupported` if the driver is too old.
pub fn physical() -> Result<Vec<Found>> {
    let hip = hip()?;
    let mut count = 0;
    // SAFETY: the place for the result is valid.
    match unsafe { (hip.api.table.device_count)(&raw mut count) } {
        // NO_DEVICE
        100 => return Err(none()),
        status => hip.api.check(status, || "counting devices".into())?,
    }
    let mut all = (0..count).map(|i| look(hip, i)).collect::<Result<Vec<Found>>>()?;
    if all.is_empty() {
        return Err(none());
    }
    // Stable: devices of one kind stay in the driver's order.
    all.sort_by_key(|p| p.physical.info.kind);
    Ok(all)
}

/// What of a device's properties names its instruction set: the first text behind the device's name
/// that begins as all of these do. The structure is another in each version.
fn isa_of(properties: &[u8]) -> Option<String> {
    let rest = properties.get(NAME_BYTES..)?;
    let starts = rest.windows(4).position(|w| w.starts_with(b"gfx") && w[3].is_ascii_digit())?;
    let text = rest[starts..].iter().take_while(|b| b.is_ascii_graphic());
    Some(text.map(|&b| char::from(b)).collect())
}

fn look(hip: &Hip, ordinal: c_int) -> Result<Found> {
    let (api, t) = (&hip.api, &hip.api.table);
    let what = || format!("looking at device {ordinal}");
    let (mut raw, mut memory, mut name) = (0, 0usize, [0; NAME_BYTES]);
    let mut properties = vec![0u8; PROPERTIES_BYTES];
    // SAFETY: the places for the results are valid; the name's has as many bytes as is said, and
    // that of the properties more than any version writes.
    unsafe {
        api.check((t.device)(&raw mut raw, ordinal), what)?;
        api.check((t.device_memory)(&raw mut memory, raw), what)?;
        api.check((t.device_name)(name.as_mut_ptr(), name.len() as c_int, raw), what)?;
        api.check((hip.properties)(properties.as_mut_ptr(), ordinal), what)?;
    }
    let attribute = |a: c_int| -> Result<u32> {
        let mut value = 0;
        // SAFETY: as above.
        api.check(unsafe { (t.device_attribute)(&raw mut value, a, raw) }, what)?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let isa = isa_of(&properties).ok_or_else(|| {
        Error::unsupported(format!("rocm: device {ordinal} does not tell its instruction set"))
    })?;
    let arch = Arch::of_name(&isa);
    let pools = attribute(MEMORY_POOLS_SUPPORTED).unwrap_or(0) == 1;
    let kind = match (api.emulated, attribute(INTEGRATED)?) {
        (true, _) => Kind::Software,
        (false, 0) => Kind::Discrete,
        (false, _) => Kind::Integrated,
    };
    let compiler = comgr().map(|c| c.name()).unwrap_or_else(|_| "no compiler".into());
    let name: String = name.iter().take_while(|&&b| b != 0).map(|&b| char::from(b as u8)).collect();
    let word = |text: &str| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
    };
    let lanes = arch.map_or(64, |a| a.waves()[0]);
    let most = u32::try_from(MAX_INVOCATIONS / u64::from(GROUP_LIMIT)).unwrap_or(u32::MAX);
    let physical = Physical {
        raw,
        pools: pools && t.allocate_async.is_some() && t.free_async.is_some(),
        max_groups: [most, MAX_GROUPS, MAX_GROUPS],
        cache_name: format!("rocm-{}-{}-{}", word(&isa), api.version, word(&compiler)),
        info: Info {
            name,
            kind,
            driver: format!("driver of ROCm {}, {compiler}, {isa}", shown(api.version)),
            memory: Some(memory as u64),
            largest: memory as u64,
            alignment: 256,
            subgroup: [lanes; 2],
            compute_units: Some(attribute(MULTIPROCESSOR_COUNT)?),
            shared: LDS_BYTES,
            invocations: GROUP_LIMIT,
            // Parameters take 4096 bytes, and an address 8.
            buffers: 64,
            f64: true,
            i64: true,
            half: true,
            bytes: true,
            max_loop_iterations: None,
            suballocates: true,
            short: false,
            queues: t.await_event.is_some(),
            cp_async: false,
            tma: false,
            mma_shapes: arch.map_or(Vec::new(), |a| a.mma_shapes().to_vec()),
        },
    };
    Ok(Found { physical, isa })
}

/// Opens a device; gives its architecture and the whole name of its instruction set, too.
///
/// # Errors
/// `Unsupported` if kernels are not emitted for its architecture, or the compiler does not know it;
/// `DriverMissing` without a compiler.
pub fn open(found: Found) -> Result<(Arc<Shared>, Arch, String)> {
    let Found { physical, isa } = found;
    let Some(arch) = Arch::of_name(&isa) else {
        let known: Vec<&str> = Arch::ALL.iter().map(|a| a.name()).collect();
        return Err(Error::unsupported(format!(
            "rocm: {} is of {isa}, and kernels are emitted for {}",
            physical.info.name,
            known.join(", ")
        )));
    };
    let whole = format!("{TRIPLE}--{isa}");
    // Now, and not at the first kernel.
    comgr()?.knows(&whole)?;
    Ok((Shared::open(&hip()?.api, physical)?, arch, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruction_sets_are_found_in_properties() {
        let mut bytes = vec![0u8; 1024];
        bytes[..19].copy_from_slice(b"AMD Instinct gfx942");
        assert_eq!(isa_of(&bytes), None);
        bytes[700..722].copy_from_slice(b"gfx90a:sramecc+:xnack-");
        assert_eq!(isa_of(&bytes).as_deref(), Some("gfx90a:sramecc+:xnack-"));
        assert_eq!(isa_of(&[0; 10]), None);
        assert_eq!(shown(60_243_012), "6.2");
    }
}
