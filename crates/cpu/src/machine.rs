//! What plans know of the processor: instruction set, register sizes, threads and caches, as plain
//! data.
//!
//! A plan is a function of a problem and a `Machine`, so a test can ask what would run on a
//! processor that it does not have. Cache sizes are assumptions, not measurements: they are the
//! same for each processor, and stand here alone.
//!
//! How it can be wrong: a plan for registers that the processor lacks. [`Machine::of`] takes them
//! from the device.

use crate::CpuDevice;
use elinvar_simd::LINE;
use elinvar_simd::isa::{Isa, Level};
use elinvar_simd::vector::{lanes, tile_rows};
use std::fmt;

/// Sets and ways of a first-level data cache of 32 KiB, with lines of 64 bytes.
const L1_SETS: usize = 64;
const L1_WAYS: usize = 8;
/// Bytes of a core's second-level cache. Processors with 1 and 2 MiB are common; blocks that fit
/// the smaller fit both.
pub(crate) const L2_BYTES: usize = 1 << 20;
/// Bytes of the third-level cache that a process counts on. Servers have more, and share it between
/// programs.
pub(crate) const L3_BYTES: usize = 16 << 20;

/// Rows of the highest register tile of all instruction sets.
const MAX_TILE_ROWS: usize = 12;

/// A processor as plans see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// The instruction set.
    pub(crate) isa: Level,
    pub(crate) threads: usize,
    pub(crate) l2_bytes: usize,
    pub(crate) l3_bytes: usize,
    /// Are kernels compiled for it? Without, what is written for speed alone is not.
    pub(crate) has_kernels: bool,
    /// Numbers in a vector register, of f32 and of f64.
    lanes: [usize; 2],
    /// Rows of the highest register tile (MR), of f32 and of f64.
    tile_rows: [usize; 2],
    bf16: Bf16Support,
}

/// How pairs of bf16 are multiplied.
#[derive(Clone, Copy, Debug)]
enum Bf16Support {
    /// The processor is asked when a plan wants to know, not before: to be allowed AMX changes the
    /// state of all threads.
    Ask(Isa),
    /// As a test says.
    #[cfg(all(test, target_arch = "x86_64"))]
    Known { dot: bool, amx: bool },
}

impl Machine {
    /// The processor of a device.
    pub(crate) fn of(d: &CpuDevice) -> Machine {
        let isa = d.isa();
        Machine {
            isa: isa.level(),
            threads: d.threads(),
            l2_bytes: L2_BYTES,
            l3_bytes: L3_BYTES,
            has_kernels: isa.has_kernels(),
            lanes: [lanes::<f32>(isa), lanes::<f64>(isa)],
            tile_rows: [tile_rows::<f32>(isa), tile_rows::<f64>(isa)],
            bf16: Bf16Support::Ask(isa),
        }
    }
    /// Numbers in a vector register.
    pub(crate) fn lanes<T>(&self) -> usize {
        self.lanes[of_size(size_of::<T>())]
    }
    /// Rows of the highest register tile (MR).
    pub(crate) fn mr<T>(&self) -> usize {
        self.mr_of(size_of::<T>())
    }
    /// Columns of a packed panel (NR): two registers.
    pub(crate) fn nr<T>(&self) -> usize {
        self.nr_of(size_of::<T>())
    }
    /// MR of numbers of so many bytes as they are computed.
    pub(crate) fn mr_of(&self, bytes: usize) -> usize {
        self.tile_rows[of_size(bytes)]
    }
    /// NR of such.
    pub(crate) fn nr_of(&self, bytes: usize) -> usize {
        2 * self.lanes[of_size(bytes)]
    }
    /// Are pairs of bf16 multiplied, in vector registers or by AMX?
    pub(crate) fn has_bf16(&self) -> bool {
        self.has_amx()
            || match self.bf16 {
                Bf16Support::Ask(isa) => isa.has_pairs(),
                #[cfg(all(test, target_arch = "x86_64"))]
                Bf16Support::Known { dot, .. } => dot,
            }
    }
    /// Are pairs of bf16 multiplied by AMX?
    pub(crate) fn has_amx(&self) -> bool {
        match self.bf16 {
            Bf16Support::Ask(isa) => isa.has_amx(),
            #[cfg(all(test, target_arch = "x86_64"))]
            Bf16Support::Known { amx, .. } => amx,
        }
    }
}

/// Can a tile read rows so many bytes apart where they are? A line of each stays in the first-level
/// cache while its terms are read; of rows 4 KiB apart, all lines would share a set.
pub(crate) fn rows_use_distinct_sets(bytes: usize) -> bool {
    let mut lines = [0u8; L1_SETS];
    // Two ways are left to the columns, which pass through. (Each small product asks, so it ends
    // with the first set that is full.)
    (0..MAX_TILE_ROWS).all(|r| {
        let set = &mut lines[r.wrapping_mul(bytes) / LINE % L1_SETS];
        *set += 1;
        usize::from(*set) <= L1_WAYS - 2
    })
}

/// Of f32, or of f64.
fn of_size(bytes: usize) -> usize {
    usize::from(bytes > size_of::<f32>())
}

/// As in the tables of `tests/plans`.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let isa = match self.isa {
            Level::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
            #[cfg(target_arch = "aarch64")]
            Level::Neon => "neon",
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Level::Simd128 => "simd128",
        };
        write!(f, "{isa}:{}", self.threads)
    }
}

/// Processors of tests, which need not be this one.
#[cfg(all(test, target_arch = "x86_64"))]
impl Machine {
    const fn for_test(isa: Level, threads: usize, f32_lanes: usize, mr: usize) -> Machine {
        Machine {
            isa,
            threads,
            l2_bytes: L2_BYTES,
            l3_bytes: L3_BYTES,
            has_kernels: true,
            lanes: [f32_lanes, f32_lanes / 2],
            tile_rows: [mr, mr],
            bf16: Bf16Support::Known { dot: false, amx: false },
        }
    }
    /// By its name in the tables of `tests/plans`, as `avx2:8` for eight threads.
    pub(crate) fn named(name: &str) -> Machine {
        let (isa, threads) = name.split_once(':').expect("isa:threads");
        let threads = threads.parse().expect("a number of threads");
        match isa {
            "avx2" => Machine::avx2(threads),
            "avx512" => Machine::avx512(threads),
            "avx512_bf16" => Machine::avx512_bf16(threads),
            "amx" => Machine::amx(threads),
            isa => panic!("no processor of the tables is called {isa}"),
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
                (named.isa, named.threads, named.has_kernels, named.lanes, named.tile_rows),
                (real.isa, real.threads, real.has_kernels, real.lanes, real.tile_rows),
                "{isa}"
            );
        }
    }
}
