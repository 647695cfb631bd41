//! Settings of a device: one plain struct, filled by a builder and completed from the environment.
//!
//! Each setting is a row of one list: its name, the variable that sets it, and the kinds of devices
//! that have it. What a device has not is refused by name, and never ignored; from the environment,
//! which speaks to all devices at once, a device takes what it has.
//!
//! How it can be wrong: a row that claims a kind whose device does not read it. Each device is
//! tested with each of its settings.

mod values;

pub use values::{Autotune, Validation};

use crate::{Error, Precision, Result};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;
use values::Value;

/// A kind of device, as the word before the number in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// The processor.
    Cpu,
    /// The definition of all results.
    Reference,
    /// NVIDIA's GPUs.
    Cuda,
    /// AMD's GPUs.
    Rocm,
    /// GPUs and software devices of Vulkan.
    Vulkan,
    /// Adapters of WebGPU.
    WebGpu,
    /// GPUs of Apple's systems.
    Metal,
}

impl DeviceKind {
    /// All of them.
    pub const ALL: [DeviceKind; 7] = [
        DeviceKind::Cpu,
        DeviceKind::Reference,
        DeviceKind::Cuda,
        DeviceKind::Rocm,
        DeviceKind::Vulkan,
        DeviceKind::WebGpu,
        DeviceKind::Metal,
    ];
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Reference => "reference",
            DeviceKind::Cuda => "cuda",
            DeviceKind::Rocm => "rocm",
            DeviceKind::Vulkan => "vulkan",
            DeviceKind::WebGpu => "webgpu",
            DeviceKind::Metal => "metal",
        })
    }
}

macro_rules! settings {
    ($($(#[$doc:meta])* $Setting:ident $field:ident: $T:ty, $what:literal, $variable:literal, [$($Kind:ident)*];)*) => {
        /// Settings of a device; what is `None` is left to the environment, or else to the device.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Settings {
            $($(#[$doc])* pub $field: Option<$T>,)*
        }

        /// One of [`Settings`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Setting {
            $(#[doc = concat!("[`Settings::", stringify!($field), "`]")] $Setting,)*
        }

        impl Setting {
            /// All of them.
            pub const ALL: &'static [Setting] = &[$(Setting::$Setting),*];

            /// Its name: the field's, and the builder's method.
            pub fn name(self) -> &'static str {
                match self {
                    $(Setting::$Setting => stringify!($field),)*
                }
            }
            /// The environment variable that sets it.
            pub fn variable(self) -> &'static str {
                match self {
                    $(Setting::$Setting => $variable,)*
                }
            }
            /// What its variable should be.
            pub fn values(self) -> &'static str {
                match self {
                    $(Setting::$Setting => $what,)*
                }
            }
            /// Have devices of this kind this setting?
            pub fn is_of(self, kind: DeviceKind) -> bool {
                match self {
                    $(Setting::$Setting => [$(DeviceKind::$Kind),*].contains(&kind),)*
                }
            }
        }

        impl Settings {
            /// The value of a setting as text, if it is set.
            pub fn text(&self, setting: Setting) -> Option<String> {
                match setting {
                    $(Setting::$Setting => self.$field.as_ref().map(Value::text),)*
                }
            }
            /// Sets one from text, as a variable has it.
            fn parse(&mut self, setting: Setting, text: &str) -> Option<()> {
                match setting {
                    $(Setting::$Setting => self.$field = Some(Value::parse(text)?),)*
                }
                Some(())
            }
            /// These, and those of `other` where there is none.
            #[must_use]
            pub fn or(self, other: Settings) -> Settings {
                Settings { $($field: self.$field.or(other.$field),)* }
            }
        }
    };
}

settings! {
    /// Bytes that tensors may hold at most; an allocation beyond them fails with `OutOfMemory`.
    MemoryLimit memory_limit: u64, "a number of bytes, such as 4GiB", "ELINVAR_MEMORY_LIMIT", [Cpu Cuda Rocm Vulkan WebGpu Metal];
    /// Bytes that the device's memory pool takes when the device is opened, and keeps.
    PoolInitial pool_initial: u64, "a number of bytes, such as 4GiB", "ELINVAR_POOL_INITIAL", [Cuda Rocm Vulkan WebGpu Metal];
    /// Bytes that the pool takes at most, in use or kept; an allocation beyond them fails with
    /// `OutOfMemory`.
    PoolMaximum pool_maximum: u64, "a number of bytes, such as 4GiB", "ELINVAR_POOL_MAXIMUM", [Cuda Rocm Vulkan WebGpu Metal];
    /// Bytes by which the pool grows at least when it has no room left. Without, each large tensor
    /// has memory of its own.
    PoolGrowth pool_growth: u64, "a number of bytes, such as 256MiB", "ELINVAR_POOL_GROWTH", [Cuda Rocm Vulkan WebGpu Metal];
    /// Threads that share work. No bit depends on it.
    Threads threads: usize, "a number of threads", "ELINVAR_THREADS", [Cpu];
    /// Instruction set, by its name: `plain`, `avx2`, `avx512`, `neon`. No bit depends on it.
    Isa isa: String, "an instruction set, such as avx2", "ELINVAR_CPU_ISA", [Cpu];
    /// Elements from which maps in a row take one pass over memory.
    FuseFrom fuse_from: usize, "a number of elements", "ELINVAR_FUSE_FROM", [Cpu];
    /// Bytes of weights that may be packed unasked.
    PackUpTo pack_up_to: usize, "a number of bytes", "ELINVAR_PACK_UP_TO", [Cpu];
    /// How products are computed where no scope says it. `Fast` changes bits.
    Precision precision: Precision, "exact or fast", "ELINVAR_PRECISION", [Cpu Cuda Rocm Vulkan WebGpu Metal];
    /// Are kernels and tiles tried, and the fastest kept? Changes bits of `Precision::Fast` only.
    Autotune autotune: Autotune, "0, 1 or 2", "ELINVAR_TUNE", [Cuda Rocm Vulkan WebGpu Metal];
    /// The file of what tuning found.
    TuneCache tune_cache: PathBuf, "a path", "ELINVAR_TUNE_CACHE", [Cuda Rocm Vulkan WebGpu Metal];
    /// What the validation layer watches. One for all Vulkan devices of a process.
    Validation validation: Validation, "0, 1 or gpu", "ELINVAR_VULKAN_VALIDATION", [Vulkan];
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The variables of all settings as they were when the first device was opened, in the order of
/// [`Setting::ALL`]; empty ones are as good as none.
fn variables() -> &'static [Option<OsString>] {
    static READ: OnceLock<Vec<Option<OsString>>> = OnceLock::new();
    let read = |s: &Setting| std::env::var_os(s.variable()).filter(|v| !v.is_empty());
    READ.get_or_init(|| Setting::ALL.iter().map(read).collect())
}

impl Settings {
    /// What the environment says to devices of this kind. It is read once in a process; variables
    /// of settings that the kind has not are for others.
    ///
    /// # Errors
    /// `InvalidArgument` with the variable, its value and what it should be.
    pub fn environment(kind: DeviceKind) -> Result<Settings> {
        Settings::from_variables(kind, variables())
    }
    fn from_variables(kind: DeviceKind, values: &[Option<OsString>]) -> Result<Settings> {
        let mut settings = Settings::default();
        for (&setting, value) in Setting::ALL.iter().zip(values) {
            let Some(value) = value.as_ref().filter(|_| setting.is_of(kind)) else { continue };
            value.to_str().and_then(|text| settings.parse(setting, text)).ok_or_else(|| {
                Error::argument(format!(
                    "{} is \"{}\", and should be {}",
                    setting.variable(),
                    value.to_string_lossy(),
                    setting.values()
                ))
            })?;
        }
        Ok(settings)
    }

    /// These settings for a device of this kind, completed from the environment: what is set here
    /// wins.
    ///
    /// # Errors
    /// `Unsupported` if the kind has not one of these, with those that it has; `InvalidArgument` if
    /// a variable cannot be read, or settings contradict each other.
    pub fn complete(self, kind: DeviceKind) -> Result<Settings> {
        for &setting in Setting::ALL {
            if self.text(setting).is_some() && !setting.is_of(kind) {
                let all = Setting::ALL.iter().filter(|s| s.is_of(kind));
                let all: Vec<&str> = all.map(|s| s.name()).collect();
                let has = if all.is_empty() { "none".to_string() } else { all.join(", ") };
                return Err(Error::unsupported(format!("{kind}: no setting {setting}; it has: {has}")));
            }
        }
        let all = self.or(Settings::environment(kind)?);
        all.check(kind)?;
        Ok(all)
    }

    /// Do they contradict each other?
    fn check(&self, kind: DeviceKind) -> Result<()> {
        let refuse = |text: String| Err(Error::argument(format!("{kind}: {text}")));
        if self.threads == Some(0) {
            return refuse("threads is 0, and work needs one thread at least".into());
        }
        for (setting, value) in
            [(Setting::PoolMaximum, self.pool_maximum), (Setting::PoolGrowth, self.pool_growth)]
        {
            if value == Some(0) {
                return refuse(format!("{setting} is 0, and should be a number of bytes from 1"));
            }
        }
        let ordered = [
            (Setting::PoolInitial, self.pool_initial, Setting::PoolMaximum, self.pool_maximum),
            (Setting::PoolGrowth, self.pool_growth, Setting::PoolMaximum, self.pool_maximum),
            (Setting::PoolInitial, self.pool_initial, Setting::MemoryLimit, self.memory_limit),
        ];
        for (low, a, high, b) in ordered {
            if let (Some(a), Some(b)) = (a, b)
                && a > b
            {
                return refuse(format!("{low} is {a} bytes, and {high} only {b}"));
            }
        }
        Ok(())
    }

    /// Does the pool fit into a device of so many bytes, if it tells them?
    ///
    /// # Errors
    /// `InvalidArgument` if a pool is larger than the device.
    pub fn check_pool(&self, device: &str, memory: Option<u64>) -> Result<()> {
        let Some(memory) = memory else { return Ok(()) };
        let all = [
            (Setting::PoolInitial, self.pool_initial),
            (Setting::PoolMaximum, self.pool_maximum),
            (Setting::PoolGrowth, self.pool_growth),
        ];
        match all.iter().find(|(_, bytes)| bytes.is_some_and(|b| b > memory)) {
            Some((setting, Some(bytes))) => Err(Error::argument(format!(
                "{setting} is {bytes} bytes, more than the {memory} of the device {device}"
            ))),
            Some((_, None)) | None => Ok(()),
        }
    }

    /// Do these, where they are set, agree with those that an open device has, among the settings
    /// that a device is opened with?
    ///
    /// # Errors
    /// `InvalidArgument` with the first that does not.
    pub fn agree(&self, device: &str, open: &Settings) -> Result<()> {
        let fixed = [
            Setting::PoolInitial,
            Setting::PoolMaximum,
            Setting::PoolGrowth,
            Setting::Autotune,
            Setting::TuneCache,
        ];
        for setting in fixed {
            let Some(wanted) = self.text(setting) else { continue };
            let has = open.text(setting);
            if has.as_ref() != Some(&wanted) {
                let has = has.map_or_else(|| format!("without {setting}"), |v| format!("with {setting} {v}"));
                return Err(Error::argument(format!(
                    "{device} is open {has}, and a process opens a device once; ask for {setting} {wanted} before its \
                     first use"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
