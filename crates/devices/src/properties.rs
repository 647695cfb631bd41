//! What is known of a device before any work is done on it.

use elinvar_core::DType;
use elinvar_cpu::CpuDevice;
use std::fmt;

/// What a device is, as its driver or the system tells. What is not told is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Its name.
    pub name: String,
    /// What it is: a processor, a discrete GPU, software.
    pub class: String,
    /// Who drives it, and in which version; of a processor, its instruction set.
    pub driver: String,
    /// Bytes of its memory; of a processor, the machine's.
    pub memory: Option<u64>,
    /// Bytes of the largest tensor that it can hold, if it is less than the memory.
    pub largest_allocation: Option<u64>,
    /// What works side by side: streaming multiprocessors of a GPU, threads of a processor.
    pub compute_units: Option<u32>,
    /// Invocations that run in step, as few and as many; of a processor, the numbers of f32 in a
    /// vector register.
    pub subgroup: [u32; 2],
    /// Can work of several streams run side by side? Elsewhere streams are an order on one queue.
    pub parallel_streams: bool,
    /// Bytes of memory that a workgroup shares.
    pub shared_memory: Option<u32>,
    /// What its tensor cores, or AMX, multiply; none without such. All but those of f64 are used in
    /// `Precision::Fast` alone.
    pub matrix_units: Vec<MatrixUnit>,
}

/// A product that is one instruction: m by k times k by n numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixUnit {
    /// The type of the factors; f32 is rounded to TF32.
    pub dtype: DType,
    /// m, n, k.
    pub shape: [u32; 3],
}

impl fmt::Display for MatrixUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.shape;
        write!(f, "{} {m}x{n}x{k}", self.dtype)
    }
}

impl fmt::Display for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = self.subgroup;
        write!(f, "{}, {}, {}", self.name, self.class, self.driver)?;
        if let Some(bytes) = self.memory {
            write!(f, ", {:.1} GiB", bytes as f64 / f64::from(1 << 30))?;
        }
        if let Some(units) = self.compute_units {
            write!(f, ", {units} compute units")?;
        }
        match low == high {
            true => write!(f, ", {low} lanes")?,
            false => write!(f, ", {low} to {high} lanes")?,
        }
        if !self.matrix_units.is_empty() {
            let all: Vec<String> = self.matrix_units.iter().map(MatrixUnit::to_string).collect();
            write!(f, ", matrix units: {}", all.join(", "))?;
        }
        Ok(())
    }
}

/// The processor's.
pub(crate) fn of_cpu(d: &CpuDevice) -> Properties {
    let lanes = d.lanes() as u32;
    // Of pairs of bf16, 16 rows and columns, and 32 terms.
    let amx = MatrixUnit { dtype: DType::BF16, shape: [16, 16, 32] };
    Properties {
        driver: d.isa().to_string(),
        compute_units: u32::try_from(d.threads()).ok(),
        subgroup: [lanes; 2],
        matrix_units: if d.isa().may_have_amx() { vec![amx] } else { Vec::new() },
        ..host("processor")
    }
}

/// Those of plain loops on one thread.
pub(crate) fn of_reference() -> Properties {
    host("plain loops")
}

fn host(class: &str) -> Properties {
    Properties {
        name: line_of("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into()),
        class: class.into(),
        driver: "none".into(),
        memory: memory(),
        largest_allocation: None,
        compute_units: Some(1),
        subgroup: [1; 2],
        parallel_streams: false,
        shared_memory: None,
        matrix_units: Vec::new(),
    }
}

/// Bytes of this machine's memory, where Linux tells.
fn memory() -> Option<u64> {
    let line = line_of("/proc/meminfo", "MemTotal")?;
    Some(line.strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// What stands behind a word and a colon in a file of Linux.
fn line_of(file: &str, word: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|l| Some(l.strip_prefix(word)?.trim_start().strip_prefix(':')?.trim().to_string()))
}
