//! What the emulated device is: read from the environment once, when the library is first used.

use std::str::FromStr;
use std::sync::OnceLock;

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
    /// Has it memory that is allocated in a stream's order? `ELINVAR_EMULATED_CUDA_POOLS` (0 or 1).
    pub pools: bool,
    /// Modules with this word in their text are refused, if it is not empty.
    /// `ELINVAR_EMULATED_CUDA_REFUSE`.
    pub refuse: &'static str,
    /// Is every text refused, so that only what is compiled already can be loaded?
    /// `ELINVAR_EMULATED_CUDA_REFUSE_COMPILING` (0 or 1).
    pub compiles: bool,
    /// Does a linker that is told no target take texts for one capability alone (`sm_90a`)?
    /// `ELINVAR_EMULATED_CUDA_GUESSES` (0 or 1).
    pub guesses: bool,
    /// Does it say that it is software? With `ELINVAR_EMULATED_CUDA_AS=discrete` it does not, so
    /// that what is chosen by the kind of device is chosen as for a card.
    pub software: bool,
    /// Do its matrix units add products of f64 from the last term to the first, as no card is known
    /// to do? `ELINVAR_EMULATED_CUDA_BACKWARDS` (0 or 1).
    pub backwards: bool,
}

impl Settings {
    /// The device that is emulated unless something else is asked for.
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

    /// Bytes of shared memory that a workgroup may have, if it asks for them: as cards of this
    /// capability have them.
    pub fn shared(&self) -> u32 {
        1024 * match self.capability {
            ..80 => 64,
            80 => 163,
            90 | 100 => 227,
            _ => 99,
        }
    }

    /// From the environment. A value that is not understood is said on the standard error and not
    /// used.
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
    let name = format!("ELINVAR_EMULATED_CUDA_{word}");
    let Ok(text) = std::env::var(&name) else { return otherwise };
    text.parse().unwrap_or_else(|_| {
        eprintln!("emulated cuda: {name} is {text:?}, which is not understood");
        otherwise
    })
}

/// The newest version of PTX that a driver of this version takes.
pub fn newest_ptx(version: i32) -> (u32, u32) {
    match version {
        ..10000 => (6, 2),
        10000..10010 => (6, 3),
        10010..10020 => (6, 4),
        10020..11000 => (6, 5),
        // 7.0 came with 11.0, and each release since then one more.
        11000..12000 => (7, (version as u32 - 11000) / 10),
        12000..13000 => (8, (version as u32 - 12000) / 10),
        _ => (9, (version as u32).saturating_sub(13000) / 10),
    }
}
