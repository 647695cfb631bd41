//! Attention backward, delta: D = sum of g o and the exponent offset of each query, for the wgmma
//! kernels.
//!
//! A row is read by as many lanes as it has vectors of four elements; they add what they have by
//! shuffles. Each lane has several rows in flight, as the kernel does nothing but read.

use super::tma_operands::WARP_LANES;
use crate::launch::args::{self, LaunchArgs};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing;
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Builtin, Elem, Kernel, Scalar};

/// Invocations of a workgroup, rows of each, and numbers of a piece.
const DELTA_THREADS: u32 = 256;
const ROWS_PER_THREAD: u32 = 4;
const VEC: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct DeltaConfig {
    dtype: DType,
    /// Numbers of a row: 64 or 128.
    width: u32,
}

/// Can rows be read so? g may be, as it can be fetched.
pub(super) fn fits(o: &Layout, lse: &Layout) -> bool {
    indexing::in_pieces(o, 3, VEC as usize) && !indexing::is_wide(o) && !indexing::is_wide(lse)
}

/// The work: g, o, lse, then D and what is taken off, which are as rows follow one another. `None`
/// if there are no rows.
pub(super) fn statistics(dtype: DType, [g, o, lse]: [&Layout; 3]) -> Option<Work<'static>> {
    let (h, l, width) = (g.shape()[1], g.shape()[2], g.shape()[3] as u32);
    let rows = g.shape()[0] * h * l;
    if rows == 0 {
        return None;
    }
    let config = DeltaConfig { dtype, width };
    let mut all = [rows, h, l].map(|n| n as i64).to_vec();
    for x in [g, o, lse] {
        all.push(x.offset() as i64);
        all.extend((0..3).map(|a| x.strides()[a] as i64));
    }
    let key = Key::of("attention_delta").with(&config);
    let groups = grid(rows.div_ceil(config.rows() as usize) as u64);
    Some(args::work(key, move || build(config), groups, Scalar::I32, &all))
}

impl DeltaConfig {
    /// Lanes of a row.
    fn lanes(self) -> u32 {
        self.width / VEC
    }
    /// Rows of a workgroup.
    fn rows(self) -> u32 {
        ROWS_PER_THREAD * DELTA_THREADS / self.lanes()
    }
}

fn build(config: DeltaConfig) -> Kernel {
    let k =
        Builder::new(&format!("attention_delta_{}_{}", config.dtype, config.width), [DELTA_THREADS, 1, 1]);
    k.subgroup(WARP_LANES);
    write(&k, config);
    k.finish()
}

fn write<'k>(k: &'k Builder, config: DeltaConfig) {
    let elem = Elem::from(config.dtype);
    let [g, o] = ["g", "o"].map(|n| k.buffer(n, elem, Access::Read));
    let lse = k.buffer("lse", Elem::F32, Access::Read);
    let [sums, shifts] = ["sums", "shifts"].map(|n| k.buffer(n, Elem::F32, Access::Write));
    let args = LaunchArgs::new(k, Scalar::I32, 3 + 3 * 4);
    let [rows, h, l] = ["rows", "h", "l"].map(|n| args.get(n));
    let layouts = ["g", "o", "lse"].map(|x| ["offset", "b", "h", "l"].map(|n| args.get(&format!("{x}_{n}"))));
    let index = k.builtin(Builtin::LocalIndex);
    let lane = k.builtin(Builtin::SubgroupLane);
    let lanes = i64::from(config.lanes());
    let piece = (index % lanes * i64::from(VEC)).to(Scalar::I32);
    let first = linear_group_id(k, Scalar::I32) * i64::from(config.rows());
    let row =
        |i: u32| first + (index / lanes + i64::from(i * DELTA_THREADS / config.lanes())).to(Scalar::I32);
    let at = |x: usize, row: Val<'k>| {
        let row = row.min(rows - 1);
        let head = row / l;
        let [offset, of_b, of_h, of_l] = layouts[x];
        offset + head / h * of_b + head % h * of_h + row % l * of_l
    };
    let pieces: Vec<[Val<'k>; 2]> = (0..ROWS_PER_THREAD)
        .map(|i| [(0, g), (1, o)].map(|(x, place)| k.load(place, at(x, row(i)) + piece, VEC as u8)))
        .collect();
    for (i, [x, y]) in pieces.into_iter().enumerate() {
        let products = x * y;
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| products.extract(i));
        let mut sum = (a + b) + (c + d);
        let mut far = config.lanes() / 2;
        while far > 0 {
            sum = sum + k.shuffle(sum, lane ^ i64::from(far));
            far /= 2;
        }
        let row = row(i as u32);
        k.if_(row.lt(rows) & piece.eq(piece.like(0)), || {
            k.store(sums, row, sum);
            let x = k.load(lse, at(2, row), 1);
            let float = |v: f64| k.float(Scalar::F32, v);
            // Where nothing was seen, nothing.
            let x = x.eq(float(f64::NEG_INFINITY)).select(float(0.0), x);
            k.store(shifts, row, x * float(std::f64::consts::LOG2_E));
        });
    }
}
