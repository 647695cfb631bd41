//! Copy and cast: `y[i] = x[i]`, in row-major order, as another or the same dtype; transposes
//! through shared memory.
//!
//! Floats round once to nearest even. From f64 and from integers to a float of 16 or 8 bits the
//! conversion goes through f32, so that step rounds to odd: what it cuts off stays visible in the
//! last bit, and the last step sees on which side of a tie it is.

use super::indexing::{self, Axes};
use super::plan::MIN_TRANSPOSE_SIDE_ELEMENTS;
use crate::conv::nhwc_transpose::{NhwcView, to_nhwc};
use crate::elementwise::map::{self, ElementCode, MapChoice};
use crate::launch::args::{self, LaunchArgs};
use crate::launch::{Key, Work, grid, linear_group_id};
use elinvar_core::{DType, Layout, Shape, storage};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Binary, Compare, Elem, Kernel, Scalar, Unary};

/// Invocations of a workgroup.
const BLOCK_THREADS: u32 = 256;

/// The work of a copy: the operand, then the result. `None` if there are no elements.
pub fn copy(x: &Layout, from: DType, to: DType) -> Option<Work<'static>> {
    map::work(Cast { from, to }, &[to.into()], &[(x, from)], MapChoice::default())
}

/// The same, of the same dtype, for a view whose neighbours in memory are along another axis than
/// the result's: they are turned in shared memory, so that both are read and written in lines.
/// `None` if it is not of that kind. (Uncoalesced, it would be three times as slow.)
pub fn transposing_copy(x: &Layout, dtype: DType) -> Option<Work<'static>> {
    let is_word = matches!(dtype, DType::F32 | DType::F16 | DType::BF16 | DType::I32);
    if !is_word || indexing::is_wide(x) || x.shape().numel() == 0 {
        return None;
    }
    let joined = indexing::join(&[x], 0, x.rank());
    let (outer, dims, strides) = match (&joined.dims[..], &joined.strides[0][..]) {
        (&[p, c], &[sp, sc]) => ((1, 0), [p, c], [sp, sc]),
        (&[o, p, c], &[so, sp, sc]) => ((o, so), [p, c], [sp, sc]),
        _ => return None,
    };
    // Four are stored at once.
    let fits = dims.iter().all(|&n| n >= MIN_TRANSPOSE_SIDE_ELEMENTS) && dims[1].is_multiple_of(4);
    if !fits || strides[0] != 1 || strides[1].unsigned_abs() <= 1 {
        return None;
    }
    let shape = Shape::new(&[outer.0, dims[1], dims[0]]).ok()?;
    let from = Layout::strided(shape, &[outer.1, strides[1], 1], x.offset(), usize::MAX).ok()?;
    Some(to_nhwc(&from, dtype, NhwcView { outer: 0, channel: 1, channels: dims[1], padded: dims[1] }))
}

/// The work of writing a view into a part of a tensor, of the same dtype and shape: the operand,
/// then the tensor. `None` if there are no elements.
pub fn copy_into(x: &Layout, dtype: DType, to: &Layout) -> Option<Work<'static>> {
    let len = x.shape().numel();
    if len == 0 {
        return None;
    }
    let wide = indexing::is_wide(x) || indexing::is_wide(to);
    let joined = indexing::join(&[x, to], 0, x.rank());
    let rank = joined.dims.len();
    let mut all = vec![len as i64, x.offset() as i64, to.offset() as i64];
    all.extend(indexing::sizes(&joined.dims, wide));
    all.extend(joined.strides.iter().flatten().map(|&s| s as i64));
    let groups = grid((len as u64).div_ceil(u64::from(BLOCK_THREADS)));
    let elem = Elem::from(dtype);
    let key = Key::of("copy_into").with(&(elem, rank, wide));
    Some(args::work(key, move || build_into(elem, rank, wide), groups, indexing::scalar(wide), &all))
}

/// The kernel that writes into a part of a tensor, for so many joined axes.
pub fn build_into(elem: Elem, rank: usize, wide: bool) -> Kernel {
    let name = format!("copy_into_{elem}_{rank}{}", if wide { "_wide" } else { "" });
    let k = Builder::new(&name, [BLOCK_THREADS, 1, 1]);
    let x = k.buffer("x", elem, Access::Read);
    let y = k.buffer("y", elem, Access::Write);
    let number = indexing::scalar(wide);
    let args = LaunchArgs::new(&k, number, 3 + indexing::count(rank, wide) + 2 * rank);
    let [len, x_offset, y_offset] = ["len", "x_offset", "y_offset"].map(|n| args.get(n));
    let axes = Axes::read(&args, "size", rank, wide);
    let x_strides = indexing::strides(&args, "x_stride", rank);
    let y_strides = indexing::strides(&args, "y_stride", rank);
    let i = linear_group_id(&k, number) * i64::from(BLOCK_THREADS) + k.local_id(0).to(number);
    k.if_(i.lt(len), || {
        let at = axes.index(i);
        let v = k.load(x, indexing::position(x_offset, &at, &x_strides), 1);
        k.store(y, indexing::position(y_offset, &at, &y_strides), v);
    });
    k.finish()
}

/// From one dtype to another.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Cast {
    pub(crate) from: DType,
    pub(crate) to: DType,
}

impl ElementCode for Cast {
    fn name(&self) -> String {
        "copy".to_string()
    }
    fn key(&self, around: Key) -> Key {
        around.with(&("copy", self))
    }
    fn emit<'k>(&self, _: &'k Builder, x: &[Val<'k>], _: u8) -> Vec<Val<'k>> {
        vec![self.cast(x[0])]
    }
}

impl Cast {
    /// One number, or vector.
    pub(crate) fn cast<'k>(&self, v: Val<'k>) -> Val<'k> {
        if self.from == self.to {
            return v;
        }
        match (self.from, self.to) {
            (DType::F64, storage!(DType)) => odd_f32(v),
            (DType::I64, storage!(DType)) => odd_f32_of_integer(v, &[20, 10, 5, 5]),
            (DType::I32, storage!(DType)) => odd_f32_of_integer(v, &[8]),
            // A byte is the low eight bits of an integer; a float saturates at its ends.
            (_, DType::U8) if v.scalar().is_float() => {
                let top = v.builder().float(v.scalar(), 255.0);
                let cut = v.compare(Compare::Lt, top).select(v, top);
                // A NaN is not below 255, and must be 0 all the same.
                let number = v.compare(Compare::Eq, v);
                number.select(cut.to(Scalar::U32), v.builder().u32(0))
            }
            _ => v.to(Elem::from(self.to).scalar()),
        }
    }
}

/// The neighbour of an f64 among the f32 whose last bit is odd; the same number if it is an f32.
fn odd_f32(x: Val<'_>) -> Val<'_> {
    let k = x.builder();
    let near = x.to(Scalar::F32);
    let back = near.to(Scalar::F64);
    let bits = near.bitcast(Scalar::U32);
    let exact = back.eq(x) | !x.eq(x);
    let even = (bits & 1).eq(k.u32(0));
    // Infinity came from beyond the largest float, which is odd: one below it.
    let too_far = back.unary(Unary::Abs).compare(Compare::Gt, x.unary(Unary::Abs));
    let odd = even.select(too_far.select(bits - 1, bits + 1), bits);
    exact.select(near, odd.bitcast(Scalar::F32))
}

/// An integer as an f32 whose last bit is odd where bits were cut off; the same number if it has at
/// most 24 bits. `cuts` are numbers of bits that are cut off in turn, each but the last one only
/// of what keeps 24: at least 16 remain, more than a 16-bit float and its tie have. (f64 would need
/// one cut less, but not every device has it.)
fn odd_f32_of_integer<'k>(x: Val<'k>, cuts: &[u32]) -> Val<'k> {
    let (k, s) = (x.builder(), x.scalar());
    let mut cut = (x, k.float(Scalar::F32, 1.0));
    for (i, &bits) in cuts.iter().enumerate() {
        let kept = if i + 1 < cuts.len() { 24 + bits } else { 24 };
        let big = cut.0.compare(Compare::Gt, k.int(s, (1 << kept) - 1)) | cut.0.lt(k.int(s, -(1 << kept)));
        let rest = (cut.0 & ((1 << bits) - 1)).compare(Compare::Ne, k.int(s, 0)).to(s);
        let high = cut.0.binary(Binary::Shr, k.int(s, i64::from(bits))) | rest;
        let scale = cut.1 * k.float(Scalar::F32, f64::from(1u32 << bits));
        cut = (big.select(high, cut.0), big.select(scale, cut.1));
    }
    cut.0.to(Scalar::F32) * cut.1
}
