//! HIP devices: their architectures, limits and features.

use super::comgr::comgr;
use super::library::{Hip, hip, shown};
use crate::Info;
use crate::streams::sys::{Api, Listed, Physical, file_word};
use elinvar_core::{Error, Result};
use elinvar_kernel::emit::llvm::{Arch, GROUP_LIMIT, LDS_BYTES, TRIPLE};
use std::ffi::c_int;

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

/// The devices of this machine, those with memory of their own first.
///
/// # Errors
/// `DriverMissing`; `Unsupported` if the driver is too old.
pub fn physical() -> Result<Vec<Physical>> {
    let hip = hip()?;
    hip.api.devices(|ordinal, device| look(hip, ordinal, device))
}

/// What of a device's properties names its instruction set: the first text behind the device's name
/// that begins as all of these do. The structure is another in each version.
fn isa_of(properties: &[u8]) -> Option<String> {
    let rest = properties.get(NAME_BYTES..)?;
    let starts = rest.windows(4).position(|w| w.starts_with(b"gfx") && w[3].is_ascii_digit())?;
    let text = rest[starts..].iter().take_while(|b| b.is_ascii_graphic());
    Some(text.map(|&b| char::from(b)).collect())
}

fn look(hip: &Hip, ordinal: c_int, Listed { raw, name, memory }: Listed) -> Result<Physical> {
    let api = &hip.api;
    let mut properties = vec![0u8; PROPERTIES_BYTES];
    // SAFETY: the place for the result has more bytes than any version writes.
    let asked = unsafe { (hip.properties)(properties.as_mut_ptr(), ordinal) };
    api.check(asked, || format!("looking at device {ordinal}"))?;
    let isa = isa_of(&properties).ok_or_else(|| {
        Error::unsupported(format!("rocm: device {ordinal} does not tell its instruction set"))
    })?;
    let arch = Arch::of_name(&isa);
    let compiler = comgr().map(|c| c.name()).unwrap_or_else(|_| "no compiler".into());
    let lanes = arch.map_or(64, |a| a.waves()[0]);
    let most = u32::try_from(MAX_INVOCATIONS / u64::from(GROUP_LIMIT)).unwrap_or(u32::MAX);
    Ok(Physical {
        raw,
        pools: api.has_pools(raw, MEMORY_POOLS_SUPPORTED),
        max_groups: [most, MAX_GROUPS, MAX_GROUPS],
        cache_name: format!("rocm-{}-{}-{}", file_word(&isa), api.version, file_word(&compiler)),
        info: Info {
            name,
            kind: api.kind(raw, INTEGRATED)?,
            driver: format!("driver of ROCm {}, {compiler}, {isa}", shown(api.version)),
            memory: Some(memory),
            largest: memory,
            alignment: 256,
            subgroup: [lanes; 2],
            compute_units: Some(api.attribute(raw, MULTIPROCESSOR_COUNT)?),
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
            queues: api.table.await_event.is_some(),
            cp_async: false,
            tma: false,
            mma_shapes: arch.map_or(Vec::new(), |a| a.mma_shapes().to_vec()),
        },
        isa,
    })
}

/// The driver's library, and the architecture of a device.
///
/// # Errors
/// `Unsupported` if kernels are not emitted for its architecture, or the compiler does not know it;
/// `DriverMissing` without a compiler.
pub fn open(Physical { info, isa, .. }: &Physical) -> Result<(&'static Api, Arch)> {
    let Some(arch) = Arch::of_name(isa) else {
        let known: Vec<&str> = Arch::ALL.iter().map(|a| a.name()).collect();
        return Err(Error::unsupported(format!(
            "rocm: {} is of {isa}, and kernels are emitted for {}",
            info.name,
            known.join(", ")
        )));
    };
    // Now, and not at the first kernel.
    comgr()?.knows(&format!("{TRIPLE}--{isa}"))?;
    Ok((&hip()?.api, arch))
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
