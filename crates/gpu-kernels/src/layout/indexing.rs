//! Index arithmetic: from a linear index to a multi-index and an offset, with joined axes and fast
//! division.
//!
//! In 32 bits, a division by the size of an axis is a multiplication with its reciprocal: the upper
//! half of a product, shifted right. In 64 bits it is a division.

use crate::launch::args::LaunchArgs;
use elinvar_core::Layout;
use elinvar_kernel::builder::Val;
use elinvar_kernel::ir::{Binary, Scalar};
use std::cell::Cell;

/// Numbers, and what is computed from them, stay below this in 32 bits.
const INDEX32_LIMIT: i128 = 1 << 30;

thread_local! {
    static WIDE: Cell<bool> = const { Cell::new(false) };
}

/// Plans works as if all tensors were too large for 32-bit numbers. Bits do not depend on it; it is
/// for those who want to see that without the memory for such tensors.
pub fn all_wide<T>(plan: impl FnOnce() -> T) -> T {
    let before = WIDE.replace(true);
    let result = plan();
    WIDE.set(before);
    result
}

/// Do so many elements need 64-bit numbers?
pub fn are_many(n: usize) -> bool {
    n as i128 >= INDEX32_LIMIT || WIDE.get()
}

/// Does a tensor of this layout need 64-bit numbers?
pub fn is_wide(l: &Layout) -> bool {
    let far: i128 = (l.shape().iter().zip(l.strides()))
        .map(|(&n, &s)| (n as i128 - 1).max(0) * s.unsigned_abs() as i128)
        .sum();
    l.offset() as i128 + far >= INDEX32_LIMIT || are_many(l.shape().numel())
}

/// The type of numbers.
pub fn scalar(wide: bool) -> Scalar {
    if wide { Scalar::I64 } else { Scalar::I32 }
}

/// Some axes of several operands, joined where neighbours are evenly spaced in all of them; those
/// of size 1 are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedAxes {
    /// The sizes.
    pub dims: Vec<usize>,
    /// The strides of each operand.
    pub strides: Vec<Vec<isize>>,
}

/// How many neighbours along an axis can be read at once, everywhere in a tensor: 1, 2 or 4.
pub fn vector(l: &Layout, axis: usize) -> u8 {
    [4, 2].into_iter().find(|&w| in_pieces(l, axis, w)).map_or(1, |w| w as u8)
}

/// Do neighbours along an axis are contiguous in pieces of so many, everywhere in a tensor, and
/// each at a multiple of so many?
pub fn in_pieces(l: &Layout, axis: usize, w: usize) -> bool {
    let others = (0..l.rank()).filter(|&a| a != axis && l.shape()[a] > 1);
    l.strides()[axis] == 1
        && l.shape()[axis].is_multiple_of(w)
        && l.offset().is_multiple_of(w)
        && others.map(|a| l.strides()[a].unsigned_abs()).all(|s| s.is_multiple_of(w))
}

/// Joins the axes `from..to` of operands of one shape.
pub fn join(x: &[&Layout], from: usize, to: usize) -> JoinedAxes {
    let mut all = JoinedAxes { dims: Vec::new(), strides: vec![Vec::new(); x.len()] };
    for axis in from..to {
        let n = x[0].shape()[axis];
        if n == 1 {
            continue;
        }
        let here: Vec<isize> = x.iter().map(|l| l.strides()[axis]).collect();
        let even = |(s, &h): (&Vec<isize>, &isize)| s.last().is_some_and(|&outer| outer == h * n as isize);
        if !all.dims.is_empty() && all.strides.iter().zip(&here).all(even) {
            *all.dims.last_mut().expect("there is an axis") *= n;
            for (s, &h) in all.strides.iter_mut().zip(&here) {
                *s.last_mut().expect("as many strides as axes") = h;
            }
        } else {
            all.dims.push(n);
            all.strides.iter_mut().zip(&here).for_each(|(s, &h)| s.push(h));
        }
    }
    all
}

/// n / d as the upper half of n times the first number, moved right by the second, for n below 2^31
/// and d above 1.
///
/// With l = ceil(log2 d) the reciprocal is 2^(31 + l) / d rounded up, below 2^32; its error, less
/// than d <= 2^l, times n stays below 2^(31 + l).
fn reciprocal(d: usize) -> (u32, u32) {
    // An axis without elements has no index to be taken apart.
    let d = d.max(2);
    let l = usize::BITS - (d - 1).leading_zeros();
    ((1u128 << (31 + l)).div_ceil(d as u128) as u32, l - 1)
}

/// How many numbers the sizes of so many axes are.
pub fn count(rank: usize, wide: bool) -> usize {
    rank.saturating_sub(1) * if wide { 1 } else { 3 }
}

/// The numbers of these sizes, in the order in which [`Axes::read`] asks for them.
pub fn sizes(dims: &[usize], wide: bool) -> Vec<i64> {
    let mut all = Vec::new();
    for &n in dims.iter().skip(1) {
        all.push(n as i64);
        if !wide {
            let (times, shift) = reciprocal(n);
            all.extend([i64::from(times as i32), i64::from(shift)]);
        }
    }
    all
}

/// The numbers of sizes of which some may be 1, in the order in which [`Axes::read_any`] asks for
/// them.
pub fn sizes_any(dims: &[usize], wide: bool) -> Vec<i64> {
    let mut all = Vec::new();
    for &n in dims.iter().skip(1) {
        all.push(n as i64);
        if !wide {
            // Of twice the number, so that the reciprocal of 1 is below 2^32, too.
            let (times, shift) = if n <= 1 { (1 << 31, 0) } else { reciprocal(n) };
            all.extend([i64::from(times as i32), i64::from(if n <= 1 { 0 } else { shift + 1 })]);
        }
    }
    all
}

/// The sizes of axes in a kernel.
pub struct Axes<'k> {
    rank: usize,
    wide: bool,
    /// May a size be 1?
    any: bool,
    /// Size, reciprocal and shift of each axis but the first.
    each: Vec<[Val<'k>; 3]>,
}

impl<'k> Axes<'k> {
    /// The sizes of `rank` axes.
    pub fn read(args: &LaunchArgs<'k>, name: &str, rank: usize, wide: bool) -> Self {
        let each = (1..rank)
            .map(|a| {
                let size = args.get(&format!("{name}{a}"));
                if wide {
                    return [size; 3];
                }
                let times = args.get(&format!("{name}{a}_times")).bitcast(Scalar::U32);
                [size, times, args.get(&format!("{name}{a}_shift")).bitcast(Scalar::U32)]
            })
            .collect();
        Axes { rank, wide, any: false, each }
    }
    /// The same for sizes of which some may be 1.
    pub fn read_any(args: &LaunchArgs<'k>, name: &str, rank: usize, wide: bool) -> Self {
        Axes { any: true, ..Axes::read(args, name, rank, wide) }
    }
    /// The size of an axis, not the first.
    pub fn size(&self, axis: usize) -> Val<'k> {
        self.each[axis - 1][0]
    }
    /// The index of element `i`.
    pub fn index(&self, i: Val<'k>) -> Vec<Val<'k>> {
        if self.rank == 0 {
            return Vec::new();
        }
        let mut left = i;
        let mut index = Vec::new();
        for &[size, times, shift] in self.each.iter().rev() {
            let q = if self.wide {
                left / size
            } else {
                let n = left.bitcast(Scalar::U32);
                let n = if self.any { n << 1 } else { n };
                // The amount is a number of the launch, below 32.
                (n.binary(Binary::MulHigh, times) >> shift).bitcast(Scalar::I32)
            };
            index.push(left - q * size);
            left = q;
        }
        index.push(left);
        index.reverse();
        index
    }
}

/// The strides of an operand in a kernel.
pub fn strides<'k>(args: &LaunchArgs<'k>, name: &str, rank: usize) -> Vec<Val<'k>> {
    (0..rank).map(|a| args.get(&format!("{name}_{a}"))).collect()
}

/// Where an element is: `from`, and its index times the strides.
pub fn position<'k>(from: Val<'k>, index: &[Val<'k>], strides: &[Val<'k>]) -> Val<'k> {
    index.iter().zip(strides).fold(from, |at, (&i, &s)| at + i * s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_of_twice_the_number_divide_by_one_too() {
        for d in [1usize, 2, 3, 7, 64, 1000, 65537, 1 << 30] {
            let all = sizes_any(&[5, d], false);
            let (times, shift) = (u64::from(all[1] as i32 as u32), all[2]);
            for n in [0u64, 1, 2, d as u64 - 1, d as u64, d as u64 + 1, 12345, (1 << 31) - 1] {
                assert_eq!((2 * n * times) >> 32 >> shift, n / d as u64, "{n} / {d}");
            }
        }
    }

    #[test]
    fn reciprocals_divide() {
        let edge = (1u64 << 31) - 1;
        let sizes = (2..200).chain([641, 1000, 4096, 65535, 65537, 1 << 20, (1 << 30) - 1, 1 << 30]);
        for d in sizes {
            let (times, shift) = reciprocal(d);
            let near = |m: u64| [m.saturating_sub(1), m, m + 1];
            let multiples = [0, 1, 2, 1000, edge / d as u64].map(|q| q * d as u64);
            for n in multiples.into_iter().flat_map(near).chain([edge]).filter(|&n| n <= edge) {
                assert_eq!((n * u64::from(times)) >> 32 >> shift, n / d as u64, "{n} / {d}");
            }
        }
    }
}
