//! Values of settings, as a variable has them and as a sentence shows them.

use crate::Precision;
use std::path::PathBuf;

/// Is the fastest of several kernels found by trying?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Autotune {
    /// Kernels are chosen by size alone; what a file says of earlier trials is used.
    #[default]
    Off,
    /// The first work of its kind tries all kernels.
    On,
    /// The same, and each time is printed on standard error.
    Print,
}

impl From<bool> for Autotune {
    fn from(on: bool) -> Autotune {
        if on { Autotune::On } else { Autotune::Off }
    }
}

/// What Vulkan's validation layer watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Validation {
    /// Nothing.
    #[default]
    Off,
    /// Every call.
    Calls,
    /// Every call, and every access of a kernel, which takes a hundred times as long.
    Kernels,
}

/// A value of a setting.
pub(super) trait Value: Sized {
    /// From a variable; `None` if it is no such value.
    fn parse(text: &str) -> Option<Self>;
    /// In a sentence, and to compare it.
    fn text(&self) -> String;
}

/// Bytes, with a unit or without.
impl Value for u64 {
    fn parse(text: &str) -> Option<u64> {
        let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
        let (number, bits) = units
            .iter()
            .find_map(|(unit, bits)| Some((text.strip_suffix(unit)?.trim_end(), *bits)))
            .unwrap_or((text, 0));
        number.parse::<u64>().ok()?.checked_mul(1 << bits)
    }
    fn text(&self) -> String {
        format!("{self} bytes")
    }
}

/// A count.
impl Value for usize {
    fn parse(text: &str) -> Option<usize> {
        text.parse().ok()
    }
    fn text(&self) -> String {
        self.to_string()
    }
}

impl Value for String {
    fn parse(text: &str) -> Option<String> {
        Some(text.into())
    }
    fn text(&self) -> String {
        self.clone()
    }
}

impl Value for PathBuf {
    fn parse(text: &str) -> Option<PathBuf> {
        Some(text.into())
    }
    fn text(&self) -> String {
        self.display().to_string()
    }
}

impl Value for Precision {
    fn parse(text: &str) -> Option<Precision> {
        [Precision::Exact, Precision::Fast].into_iter().find(|p| p.to_string() == text)
    }
    fn text(&self) -> String {
        self.to_string()
    }
}

impl Value for Autotune {
    fn parse(text: &str) -> Option<Autotune> {
        match text {
            "0" => Some(Autotune::Off),
            "1" => Some(Autotune::On),
            "2" => Some(Autotune::Print),
            _ => None,
        }
    }
    fn text(&self) -> String {
        match self {
            Autotune::Off => "off",
            Autotune::On => "on",
            Autotune::Print => "print",
        }
        .into()
    }
}

impl Value for Validation {
    fn parse(text: &str) -> Option<Validation> {
        match text {
            "0" => Some(Validation::Off),
            "1" => Some(Validation::Calls),
            "gpu" => Some(Validation::Kernels),
            _ => None,
        }
    }
    fn text(&self) -> String {
        match self {
            Validation::Off => "off",
            Validation::Calls => "calls",
            Validation::Kernels => "kernels",
        }
        .into()
    }
}
