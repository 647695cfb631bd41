//! The properties of the emulated device: read from the environment once, on first use of the
//! library.

use emulated_gpu::device::Properties;
use emulated_gpu::settings;
use std::str::FromStr;
use std::sync::OnceLock;

/// Bytes of LDS of a workgroup.
pub const LDS: u32 = 64 << 10;

/// The emulated device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of memory. `ELINVAR_EMULATED_HIP_MEMORY`.
    pub memory: u64,
    /// The architecture, as `gfx942`. `ELINVAR_EMULATED_HIP_ARCH`.
    pub arch: &'static str,
    /// The runtime's version, as `hipRuntimeGetVersion` gives it: 60_243_012 is ROCm 6.2.
    /// `ELINVAR_EMULATED_HIP_VERSION`.
    pub version: i32,
    /// How many devices. `ELINVAR_EMULATED_HIP_DEVICES`.
    pub devices: i32,
    /// Does it have stream-ordered allocation? `ELINVAR_EMULATED_HIP_POOLS` (0 or 1).
    pub pools: bool,
    /// Modules with this word in their text are refused, if it is not empty.
    /// `ELINVAR_EMULATED_HIP_REFUSE`.
    pub refuse: &'static str,
    /// Does it report that it is software? With `ELINVAR_EMULATED_HIP_AS=discrete` it does not.
    pub software: bool,
}

impl Settings {
    /// From the environment. A value that is not understood is reported on standard error and
    /// ignored.
    pub fn get() -> &'static Settings {
        static SETTINGS: OnceLock<Settings> = OnceLock::new();
        SETTINGS.get_or_init(|| Settings {
            memory: read("MEMORY", 4 << 30),
            arch: read("ARCH", "gfx942".to_string()).leak(),
            version: read("VERSION", 60_243_012),
            devices: read("DEVICES", 1),
            pools: read("POOLS", 1) != 0,
            refuse: read("REFUSE", String::new()).leak(),
            software: read("AS", "software".to_string()) != "discrete",
        })
    }
    /// What the machine needs to know of it.
    pub fn properties() -> Properties {
        Properties { name: "emulated hip", memory: Settings::get().memory, shared: LDS, most_shared: LDS }
    }
}

fn read<T: FromStr>(word: &str, otherwise: T) -> T {
    settings::read(&format!("ELINVAR_EMULATED_HIP_{word}"), otherwise)
}
