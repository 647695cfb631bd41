//! The properties of the emulated device: read from the environment once, on first use of the
//! library.

use emulated_gpu::device::Properties;
use emulated_gpu::settings;
use std::str::FromStr;
use std::sync::OnceLock;

/// Bytes of shared memory that a launch may use without an attribute that allows more.
pub const MOST_SHARED: u32 = 48 << 10;

/// The emulated device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of memory. `ELINVAR_EMULATED_CUDA_MEMORY`.
    pub memory: u64,
    /// The compute capability, as in `sm_90`. `ELINVAR_EMULATED_CUDA_CAPABILITY`.
    pub capability: u32,
    /// The driver's version, as `cuDriverGetVersion` gives it: 12040 is CUDA 12.4.
    /// `ELINVAR_EMULATED_CUDA_VERSION`.
    pub version: i32,
    /// How many devices. `ELINVAR_EMULATED_CUDA_DEVICES`.
    pub devices: i32,
    /// Does it have stream-ordered allocation? `ELINVAR_EMULATED_CUDA_POOLS` (0 or 1).
    pub pools: bool,
    /// Modules with this word in their text are refused, if it is not empty.
    /// `ELINVAR_EMULATED_CUDA_REFUSE`.
    pub refuse: &'static str,
    /// Is every text refused, so that only compiled modules can be loaded?
    /// `ELINVAR_EMULATED_CUDA_REFUSE_COMPILING` (0 or 1).
    pub compiles: bool,
    /// Does a linker without an explicit target accept architecture-specific texts (`sm_90a`)?
    /// `ELINVAR_EMULATED_CUDA_GUESSES` (0 or 1).
    pub guesses: bool,
    /// Does it report that it is software? With `ELINVAR_EMULATED_CUDA_AS=discrete` it does not, so
    /// that choices by the kind of device are those of a discrete GPU.
    pub software: bool,
    /// Do its tensor cores add f64 products from the last term to the first, as no known device
    /// does? `ELINVAR_EMULATED_CUDA_BACKWARDS` (0 or 1).
    pub backwards: bool,
}

impl Settings {
    /// The default device.
    pub const DEFAULT: Settings = Settings {
        memory: 4 << 30,
        capability: 90,
        version: 12040,
        devices: 1,
        pools: true,
        refuse: "",
        compiles: true,
        guesses: true,
        software: true,
        backwards: false,
    };

    /// Bytes of shared memory that a workgroup may opt in to, as on devices of this capability.
    pub fn shared(&self) -> u32 {
        1024 * match self.capability {
            ..80 => 64,
            80 => 163,
            90 | 100 => 227,
            _ => 99,
        }
    }

    /// What the machine needs to know of it.
    pub fn properties() -> Properties {
        let settings = Settings::get();
        Properties {
            name: "emulated cuda",
            memory: settings.memory,
            shared: MOST_SHARED,
            most_shared: settings.shared(),
        }
    }

    /// From the environment. A value that is not understood is reported on standard error and
    /// ignored.
    pub fn get() -> &'static Settings {
        static SETTINGS: OnceLock<Settings> = OnceLock::new();
        SETTINGS.get_or_init(|| {
            let d = Settings::DEFAULT;
            Settings {
                memory: read("MEMORY", d.memory),
                capability: read("CAPABILITY", d.capability),
                version: read("VERSION", d.version),
                devices: read("DEVICES", d.devices),
                pools: read("POOLS", i32::from(d.pools)) != 0,
                refuse: read("REFUSE", String::new()).leak(),
                compiles: read("REFUSE_COMPILING", 0) == 0,
                guesses: read("GUESSES", 1) != 0,
                software: read("AS", "software".to_string()) != "discrete",
                backwards: read("BACKWARDS", 0) != 0,
            }
        })
    }
}

fn read<T: FromStr>(word: &str, otherwise: T) -> T {
    settings::read(&format!("ELINVAR_EMULATED_CUDA_{word}"), otherwise)
}

/// The newest PTX version that a driver of this version accepts.
pub fn newest_ptx(version: i32) -> (u32, u32) {
    match version {
        ..10000 => (6, 2),
        10000..10010 => (6, 3),
        10010..10020 => (6, 4),
        10020..11000 => (6, 5),
        // 7.0 came with CUDA 11.0, and each release since then added one.
        11000..12000 => (7, (version as u32 - 11000) / 10),
        12000..13000 => (8, (version as u32 - 12000) / 10),
        _ => (9, (version as u32).saturating_sub(13000) / 10),
    }
}
