//! What plans know of the processor: instruction set, register sizes, threads and caches, as plain data.
//!
//! A plan is a function of a problem and a `Machine`, so a test can ask what would run on a processor that it does not
//! have. Cache sizes are assumptions, not measurements: they are the same for each processor, and stand here alone.
//!
//! How it can be wrong: a plan for registers that the processor lacks. [`Machine::of`] takes them from the device.

use crate::CpuDevice;
use crate::gemm::Real;
use elinvar_simd::LINE;
use elinvar_simd::isa::{Isa, Level};
use elinvar_simd::vector::{lanes, tile_rows};

/// Sets and ways of a first-level data cache.
pub(crate) const L1_SETS: usize = 64;
pub(crate) const L1_WAYS: usize = 8;
/// Bytes of a core's first-level data cache.
pub(crate) const L1_BYTES: usize = L1_SETS * L1_WAYS * LINE;
/// Bytes of a core's second-level cache. Processors with 1 and 2 MiB are common; blocks that fit the smaller fit both.
pub(crate) const L2_BYTES: usize = 1 << 20;
/// Bytes of the third-level cache that a process counts on. Servers have more, and share it between programs.
pub(crate) const L3_BYTES: usize = 16 << 20;

/// A processor as plans see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// The instruction set.
    pub(crate) isa: Level,
    pub(crate) threads: usize,
    pub(crate) l1_bytes: usize,
    pub(crate) l2_bytes: usize,
    pub(crate) l3_bytes: usize,
    /// Is there an instruction for fma? Without, what is written for speed alone is not compiled.
    pub(crate) has_fma: bool,
    /// Numbers in a vector register, of f32 and of f64.
    lanes: [usize; 2],
    /// Rows of the highest register tile (MR), of f32 and of f64.
    tile_rows: [usize; 2],
    bf16: Bf16Support,
}

/// How pairs of bf16 are multiplied.
#[derive(Clone, Copy, Debug)]
enum Bf16Support {
    /// The processor is asked when a plan wants to know, not before: to be allowed AMX changes the state of all threads.
    Ask(Isa),
    /// As a test says.
    #[cfg(test)]
    Known { dot: bool, amx: bool },
}

impl Machine {
    /// The processor of a device.
    pub(crate) fn of(d: &CpuDevice) -> Machine {
        let isa = d.isa();
        Machine {
            isa: isa.level(),
            threads: d.threads(),
            l1_bytes: L1_BYTES,
            l2_bytes: L2_BYTES,
            l3_bytes: L3_BYTES,
            has_fma: isa.has_fma(),
            lanes: [lanes::<f32>(isa), lanes::<f64>(isa)],
            tile_rows: [tile_rows::<f32>(isa), tile_rows::<f64>(isa)],
            bf16: Bf16Support::Ask(isa),
        }
    }
    /// Numbers in a vector register.
    pub(crate) fn lanes<T: Real>(&self) -> usize {
        self.lanes[of_type::<T>()]
    }
    /// Rows of the highest register tile (MR).
    pub(crate) fn mr<T: Real>(&self) -> usize {
        self.tile_rows[of_type::<T>()]
    }
    /// Columns of a packed panel (NR): two registers.
    pub(crate) fn nr<T: Real>(&self) -> usize {
        2 * self.lanes::<T>()
    }
    /// Are pairs of bf16 multiplied, in vector registers or by AMX?
    pub(crate) fn has_bf16(&self) -> bool {
        self.has_amx()
            || match self.bf16 {
                Bf16Support::Ask(isa) => isa.has_pairs(),
                #[cfg(test)]
                Bf16Support::Known { dot, .. } => dot,
            }
    }
    /// Are pairs of bf16 multiplied by AMX?
    pub(crate) fn has_amx(&self) -> bool {
        match self.bf16 {
            Bf16Support::Ask(isa) => isa.has_amx(),
            #[cfg(test)]
            Bf16Support::Known { amx, .. } => amx,
        }
    }
}

/// f32, or f64.
fn of_type<T>() -> usize {
    usize::from(size_of::<T>() > size_of::<f32>())
}

/// Processors of tests, which need not be this one.
#[cfg(all(test, target_arch = "x86_64"))]
impl Machine {
    const fn for_test(isa: Level, threads: usize, f32_lanes: usize, mr: usize) -> Machine {
        Machine {
            isa,
            threads,
            l1_bytes: L1_BYTES,
            l2_bytes: L2_BYTES,
            l3_bytes: L3_BYTES,
            has_fma: true,
            lanes: [f32_lanes, f32_lanes / 2],
            tile_rows: [mr, mr],
            bf16: Bf16Support::Known { dot: false, amx: false },
        }
    }
    /// x86-64 with AVX2 and FMA.
    pub(crate) const fn avx2(threads: usize) -> Machine {
        Machine::for_test(Level::Avx2, threads, 8, 6)
    }
    /// x86-64 with AVX-512, without instructions for bf16.
    pub(crate) const fn avx512(threads: usize) -> Machine {
        Machine::for_test(Level::Avx512, threads, 16, 12)
    }
    /// The same with pairs of bf16 in vector registers.
    pub(crate) const fn avx512_bf16(threads: usize) -> Machine {
        Machine { bf16: Bf16Support::Known { dot: true, amx: false }, ..Machine::avx512(threads) }
    }
    /// The same with AMX.
    pub(crate) const fn amx(threads: usize) -> Machine {
        Machine { bf16: Bf16Support::Known { dot: false, amx: true }, ..Machine::avx512(threads) }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn machines_of_tests_are_as_devices_are() {
        for isa in Isa::all() {
            let named = match isa.level() {
                Level::Plain => continue,
                Level::Avx2 => Machine::avx2(1),
                Level::Avx512 => Machine::avx512(1),
            };
            let real = Machine::of(&CpuDevice::new(isa, 1).unwrap());
            assert_eq!(
                (named.isa, named.threads, named.has_fma, named.lanes, named.tile_rows),
                (real.isa, real.threads, real.has_fma, real.lanes, real.tile_rows),
                "{isa}"
            );
        }
    }
}
