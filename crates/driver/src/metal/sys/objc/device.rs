//! Devices of Metal, and what they tell.

use super::buffer::Buffer;
use crate::metal::sys::Traits;
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSProcessInfo;
use objc2_metal::{MTLCopyAllDevices, MTLDevice, MTLGPUFamily, MTLResourceOptions};

/// A device.
pub struct Device(pub(super) Retained<ProtocolObject<dyn MTLDevice>>);

/// All devices, the system's first choice first, with what they tell.
pub fn devices() -> Vec<(Device, Traits)> {
    autoreleasepool(|_| {
        let all = MTLCopyAllDevices();
        // Those that share the processor's memory first; stable, so in the system's order.
        let mut all: Vec<_> = (0..all.count()).map(|i| Device(all.objectAtIndex(i))).collect();
        all.sort_by_key(|d| !d.0.hasUnifiedMemory());
        all.into_iter().map(|d| (traits(&d), d)).map(|(t, d)| (d, t)).collect()
    })
}

fn traits(d: &Device) -> Traits {
    let d = &d.0;
    let system = NSProcessInfo::processInfo();
    let language = language(system.operatingSystemVersion().majorVersion as i64);
    let name = if cfg!(target_os = "macos") { "macOS" } else { std::env::consts::OS };
    Traits {
        name: d.name().to_string(),
        system: format!("{name} {}", system.operatingSystemVersionString()),
        unified: d.hasUnifiedMemory(),
        // Systems before have no such function on telephones.
        memory: if language >= 300 { d.recommendedMaxWorkingSetSize() } else { 0 },
        largest: d.maxBufferLength() as u64,
        shared: narrow(d.maxThreadgroupMemoryLength()),
        invocations: narrow(d.maxThreadsPerThreadgroup().width),
        simd_groups: d.supportsFamily(MTLGPUFamily::Apple7),
        language,
    }
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The newest version of MSL that a system of this major version compiles, times 100, of those that
/// make a difference to what is emitted.
fn language(major: i64) -> u32 {
    // MSL 3.0 and 3.1 came with macOS 13 and 14, and with versions 16 and 17 of the others, which
    // have macOS's numbers from 26 on; visionOS began with 3.1.
    let first = match () {
        () if cfg!(target_os = "macos") => 13,
        () if cfg!(target_os = "visionos") => 0,
        () => 16,
    };
    match major - first {
        ..0 => 240,
        0 => 300,
        1.. => 310,
    }
}

impl Device {
    /// A buffer of shared storage; `None` if there is no room for it.
    ///
    /// Metal keeps the order of commands that touch the same one ("hazard tracking", its default).
    pub fn buffer(&self, bytes: u64) -> Option<Buffer> {
        let options = MTLResourceOptions::StorageModeShared;
        autoreleasepool(|_| self.0.newBufferWithLength_options(usize::try_from(bytes).ok()?, options))
            .map(Buffer)
    }
}
