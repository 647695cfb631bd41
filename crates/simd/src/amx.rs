//! Matrix multiplication of bf16 pairs in tile registers: Intel's Advanced Matrix Extensions (AMX).
//!
//! One `tdpbf16ps` multiplies 16 rows of 16 pairs by 16 pairs of 16 columns. The Software
//! Developer's Manual (volume 2, `TDPBF16PS`) defines the order of its sum: the products of the
//! first elements of all pairs are accumulated in f32, those of the second elements likewise, both
//! sums are added, and the result is added to the accumulator; rounding is to nearest even,
//! subnormal operands and results are zero.
//!
//! The compiler has no stable intrinsics for these instructions, so they are inline assembly. How
//! it can be wrong: by an access outside of what the [`AmxOperands`] and the accumulators describe,
//! which is all that it reads and writes.
#![allow(unsafe_code, reason = "instructions that the compiler has no name for, and a system call")]

use std::arch::asm;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// Rows of a register, and pairs, or columns, of a row: a line.
pub const AMX_ROWS: usize = 16;
/// Bytes of a row.
const AMX_ROW_BYTES: usize = 64;

/// Does the processor have these registers?
pub fn is_present() -> bool {
    static DETECTED: OnceLock<bool> = OnceLock::new();
    *DETECTED.get_or_init(|| {
        use std::arch::x86_64::__cpuid_count as cpuid;
        // Volume 2, `CPUID`: leaf 7 has the instructions, leaf 29 the sizes of the registers.
        const BF16_AND_TILES: u32 = 1 << 22 | 1 << 24;
        let most = cpuid(0, 0).eax;
        if most < 0x1d || cpuid(7, 0).edx & BF16_AND_TILES != BF16_AND_TILES {
            return false;
        }
        let sizes = cpuid(0x1d, 1);
        let (registers, row, rows) = (sizes.ebx >> 16, sizes.ebx & 0xffff, sizes.ecx & 0xffff);
        registers >= 8 && row as usize >= AMX_ROW_BYTES && rows as usize >= AMX_ROWS
    })
}

/// May they be used? The system is asked, once: their 8 KiB make each interrupted thread's state larger, so it must be.
#[cfg(target_os = "linux")]
pub fn is_permitted() -> bool {
    static PERMITTED: OnceLock<bool> = OnceLock::new();
    // Documentation/arch/x86/xstate.rst of Linux: the permission that a process asks for is that of all its threads.
    const ARCH_REQ_XCOMP_PERM: libc::c_int = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_ulong = 18;
    *PERMITTED.get_or_init(|| {
        // SAFETY: it takes two numbers, and touches no memory of ours.
        is_present()
            && unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) } == 0
    })
}

/// Where nobody says how to ask, they may not.
#[cfg(not(target_os = "linux"))]
pub fn is_permitted() -> bool {
    false
}

/// Pairs that lie evenly: of two blocks of rows of the left factor, and of [`AMX_ROWS`] pairs after the other of two blocks of columns of
/// the right one, whose second block lies behind the first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AmxOperands {
    /// The first row of each block.
    pub lhs: [*const u8; 2],
    /// How many bytes rows are apart.
    pub down: usize,
    /// The columns of the first pair.
    pub rhs: *const u8,
    /// How many bytes pairs are apart.
    pub across: usize,
    /// How many times [`AMX_ROWS`] pairs.
    pub count: usize,
}

impl AmxOperands {
    /// No pairs.
    pub const NONE: AmxOperands =
        AmxOperands { lhs: [std::ptr::null(); 2], down: 0, rhs: std::ptr::null(), across: 0, count: 0 };
}

/// Rows and columns of a square's sums.
pub const MACRO_TILE: usize = 2 * AMX_ROWS;

/// Room for the sums of a square, row by row. Clearing it for each tile was 2.5 % of attention.
pub type MacroTileSums = MaybeUninit<[f32; MACRO_TILE * MACRO_TILE]>;

/// How the registers are divided (volume 1, section 18.3): 0 to 3 have the sums, 4 and 5 rows of the left factor, 6 and 7 columns of the
/// right one. A register of no rows has no columns
/// either, and must not be named.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

/// Writes the sums of `rows` rows, at most [`MACRO_TILE`], and as many columns: `sums[r * MACRO_TILE + c]`, of the pairs of one stretch after the
/// other. Nothing is written below them.
///
/// # Safety
/// The registers are allowed ([`is_permitted`]). In each stretch with a count that is not 0, `lhs[0]` points to `min(rows, AMX_ROWS)` rows, and
/// `lhs[1]` to the others, if there are others, `down` apart, of `count * AMX_ROWS` pairs; `rhs` to as many times 32 columns, `across`
/// apart.
pub unsafe fn macro_tile(rows: usize, stretches: &[AmxOperands; 2], sums: &mut MacroTileSums) {
    let (first, second) = (rows.min(AMX_ROWS) as u8, rows.saturating_sub(AMX_ROWS) as u8);
    let mut shapes = TileConfig { palette: 1, start: 0, reserved: [0; 14], bytes: [0; 16], rows: [0; 16] };
    shapes.rows[..8].copy_from_slice(&[
        first,
        first,
        second,
        second,
        first,
        second,
        AMX_ROWS as u8,
        AMX_ROWS as u8,
    ]);
    for (bytes, rows) in shapes.bytes.iter_mut().zip(shapes.rows) {
        *bytes = if rows > 0 { AMX_ROW_BYTES as u16 } else { 0 };
    }
    let from = stretches.as_ptr();
    macro_rules! sum {
        ($([$load:literal, $($multiply:literal),*])?, $($store:literal),*) => {
            // SAFETY: the caller's, for the registers and for what is read; the sums have room for whole registers, and rows that lie 128
            // bytes apart.
            unsafe {
                asm!(
                    // All registers are zeros.
                    "ldtilecfg [{shapes}]",
                    "2:",
                    "mov {lhs}, [{from}]",
                    "mov {second}, [{from} + 8]",
                    "mov {down}, [{from} + 16]",
                    "mov {rhs}, [{from} + 24]",
                    "mov {across}, [{from} + 32]",
                    "mov {count}, [{from} + 40]",
                    "mov {hop}, {across}",
                    "shl {hop}, 4",
                    "test {count}, {count}",
                    "jz 4f",
                    "3:",
                    "tileloadd tmm4, [{lhs} + {down}*1]",
                    "tileloadd tmm6, [{rhs} + {across}*1]",
                    "tileloadd tmm7, [{rhs} + {across}*1 + 64]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    $($load, $($multiply,)*)?
                    "add {lhs}, 64",
                    "add {second}, 64",
                    "add {rhs}, {hop}",
                    "dec {count}",
                    "jnz 3b",
                    "4:",
                    "add {from}, 48",
                    "cmp {from}, {end}",
                    "jne 2b",
                    "mov {down}, 128",
                    "tilestored [{sums} + {down}*1], tmm0",
                    "tilestored [{sums} + {down}*1 + 64], tmm1",
                    $($store,)*
                    "tilerelease",
                    shapes = in(reg) &shapes,
                    from = inout(reg) from => _,
                    end = in(reg) from.wrapping_add(2),
                    sums = in(reg) sums.as_mut_ptr(),
                    lhs = out(reg) _,
                    second = out(reg) _,
                    down = out(reg) _,
                    rhs = out(reg) _,
                    across = out(reg) _,
                    count = out(reg) _,
                    hop = out(reg) _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        };
    }
    const { assert!(size_of::<AmxOperands>() == 48 && size_of::<TileConfig>() == 64) };
    if second == 0 {
        sum!(,);
    } else {
        sum!(
            [
                "tileloadd tmm5, [{second} + {down}*1]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7"
            ],
            "tilestored [{sums} + {down}*1 + 2048], tmm2",
            "tilestored [{sums} + {down}*1 + 2112], tmm3"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::bf16;

    /// As the manual defines the instruction.
    fn defined(lhs: &[[bf16; 2]], rhs: &[[bf16; 2]], so_far: f32) -> f32 {
        let chain = |i: usize| {
            lhs.iter().zip(rhs).fold(0.0f32, |sum, (a, b)| a[i].to_f32().mul_add(b[i].to_f32(), sum))
        };
        so_far + (chain(0) + chain(1))
    }

    #[test]
    fn sums_are_as_the_manual_defines_them() {
        if !is_permitted() {
            eprintln!("skipped: this processor has no AMX, or the system does not allow it");
            return;
        }
        const PAIRS: usize = 3 * AMX_ROWS;
        let number = |i: usize| bf16::from_f32(((i * 7919) % 1013) as f32 / 300.0 - 1.7);
        let lhs: Vec<[bf16; 2]> =
            (0..MACRO_TILE * PAIRS).map(|i| [number(2 * i), number(2 * i + 1)]).collect();
        let rhs: Vec<[bf16; 2]> =
            (0..PAIRS * MACRO_TILE).map(|i| [number(3 * i + 5), number(5 * i)]).collect();
        for rows in [1, 15, 16, 17, 32] {
            let at = |pairs: usize, count: usize| AmxOperands {
                lhs: [0, AMX_ROWS].map(|r| lhs[(r * PAIRS + pairs).min(lhs.len() - 1)..].as_ptr().cast()),
                down: PAIRS * 4,
                rhs: rhs[pairs * MACRO_TILE..].as_ptr().cast(),
                across: MACRO_TILE * 4,
                count,
            };
            for stretches in [[at(0, 3), AmxOperands::NONE], [at(0, 2), at(2 * AMX_ROWS, 1)]] {
                let mut sums = MacroTileSums::new([f32::NAN; MACRO_TILE * MACRO_TILE]);
                // SAFETY: the registers are allowed; both factors have 48 pairs, of 32 rows and of 32 columns.
                unsafe { macro_tile(rows, &stretches, &mut sums) };
                // SAFETY: they were written above.
                let sums = unsafe { sums.assume_init() };
                for r in 0..rows {
                    for c in 0..MACRO_TILE {
                        let of = |i: usize| {
                            let l: Vec<_> =
                                (0..AMX_ROWS).map(|p| lhs[r * PAIRS + i * AMX_ROWS + p]).collect();
                            let r: Vec<_> =
                                (0..AMX_ROWS).map(|p| rhs[(i * AMX_ROWS + p) * MACRO_TILE + c]).collect();
                            (l, r)
                        };
                        let want = (0..3).map(of).fold(0.0, |sum, (l, r)| defined(&l, &r, sum));
                        assert_eq!(
                            sums[r * MACRO_TILE + c].to_bits(),
                            want.to_bits(),
                            "{rows} rows: {r}, {c}"
                        );
                    }
                }
            }
        }
    }
}
