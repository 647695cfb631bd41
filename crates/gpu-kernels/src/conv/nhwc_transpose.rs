//! Transpose to channels last (NCHW to NHWC), for tensor cores and cp.async: `y[i, p, g, c] = x[i,
//! g, c, p]`.
//!
//! Positions p of several axes count in row-major order. Each group is padded with zero channels to
//! a multiple of 16 bytes. A workgroup transposes a tile of positions by channels in shared memory,
//! so that loads and stores are coalesced.

use crate::launch::args::{self, LaunchArgs};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing::{self, Axes};
use crate::reduce::block_reduce;
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Builtin, Elem, Kernel};

/// Positions and channels of a workgroup.
const TILE: [u32; 2] = [64, 32];
const BLOCK_THREADS: u32 = 256;
/// From channel to channel in shared memory.
const PITCH: u32 = TILE[0] + 1;
/// Channels that are stored at once.
const CHANNELS_PER_STORE: u32 = 4;

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NhwcTransposeConfig {
    elem: Elem,
    /// Axes of positions.
    rank: usize,
    /// Positions that are read at once.
    width: u8,
}

/// The layout of x, and of its groups of channels: the axis that counts y's first part, the one
/// that counts channels, and channels of a group in x and in y.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NhwcView {
    pub outer: usize,
    pub channel: usize,
    pub channels: usize,
    pub padded: usize,
}

/// The work of turning: x, then y. There are elements, fewer than 2^30.
pub(crate) fn to_nhwc(x: &Layout, dtype: DType, t: NhwcView) -> Work<'static> {
    let (dims, strides) = (x.shape(), x.strides());
    let positions: usize = dims[2..].iter().product();
    let groups = dims[t.channel] / t.channels;
    let width = {
        // Neighbours in memory are neighbours by number.
        let even =
            (2..dims.rank() - 1).all(|a| dims[a] == 1 || strides[a] == strides[a + 1] * dims[a + 1] as isize);
        let w = indexing::vector(x, dims.rank() - 1);
        if even || dims[dims.rank() - 1].is_multiple_of(4) { w } else { 1 }
    };
    let config = NhwcTransposeConfig { elem: dtype.into(), rank: dims.rank() - 2, width };
    let tiles = [positions.div_ceil(TILE[0] as usize), (groups * t.padded).div_ceil(TILE[1] as usize)];
    let sizes = [dims[t.outer], positions, groups * t.padded, t.channels, t.padded, tiles[0], tiles[1]];
    let mut all: Vec<i64> = sizes.map(|n| n as i64).to_vec();
    all.extend(indexing::sizes_any(&dims[2..], false));
    all.push(x.offset() as i64);
    all.extend([strides[t.outer], strides[t.channel]].map(|s| s as i64));
    all.extend(strides[2..].iter().map(|&s| s as i64));
    let key = Key::of("nhwc_transpose").with(&config);
    let launched = grid((dims[t.outer] * tiles[0] * tiles[1]) as u64);
    args::work(key, move || build(&config), launched, indexing::scalar(false), &all)
}

fn build(config: &NhwcTransposeConfig) -> Kernel {
    let NhwcTransposeConfig { elem, rank, width } = *config;
    let k = Builder::new(&format!("nhwc_transpose_{elem}_{rank}_w{width}"), [BLOCK_THREADS, 1, 1]);
    let x = k.buffer("x", elem, Access::Read);
    let y = k.buffer("y", elem, Access::Write);
    let number = indexing::scalar(false);
    let args = LaunchArgs::new(&k, number, 7 + indexing::count(rank, false) + 3 + rank);
    let [outers, positions, all_channels, channels, padded, tiles_p, tiles_c] =
        ["outers", "positions", "all", "channels", "padded", "tiles_p", "tiles_c"].map(|n| args.get(n));
    let axes = Axes::read_any(&args, "size", rank, false);
    let [offset, by_outer, by_channel] = ["offset", "outer", "channel"].map(|n| args.get(n));
    let strides = indexing::strides(&args, "axis", rank);

    let group = linear_group_id(&k, number);
    let tile = group % (tiles_p * tiles_c);
    let outer = group / (tiles_p * tiles_c);
    // The last row of a grid may have workgroups too many.
    let exists = outer.lt(outers);
    let first = [tile % tiles_p * i64::from(TILE[0]), tile / tiles_p * i64::from(TILE[1])];
    let index = k.builtin(Builtin::LocalIndex);
    let staged = k.shared("tile", block_reduce::elem(elem.scalar()), PITCH * TILE[1]);

    let line = TILE[0] / u32::from(width);
    let place = index % i64::from(line) * i64::from(width);
    let p = first[0] + place.to(number);
    let from = {
        let at = axes.index(p.min(positions - 1));
        indexing::position(offset + outer.min(outers - 1) * by_outer, &at, &strides)
    };
    for round in 0..TILE[1] * line / BLOCK_THREADS {
        let row = index / i64::from(line) + i64::from(round * (BLOCK_THREADS / line));
        let channel = first[1] + row.to(number);
        let (g, c) = (channel / padded, channel % padded);
        let there = p.lt(positions) & channel.lt(all_channels) & c.lt(channels);
        let v = k.if_else(
            there,
            || vec![k.load(x, from + (g * channels + c) * by_channel, width)],
            || vec![k.int(elem.scalar(), 0).splat(width)],
        )[0];
        for i in 0..width {
            k.store(staged, row * i64::from(PITCH) + place + i64::from(i), v.extract(i));
        }
    }
    k.barrier();
    let line = TILE[1] / CHANNELS_PER_STORE;
    let place = index % i64::from(line) * i64::from(CHANNELS_PER_STORE);
    let channel = first[1] + place.to(number);
    for round in 0..TILE[0] * line / BLOCK_THREADS {
        let row = index / i64::from(line) + i64::from(round * (BLOCK_THREADS / line));
        let p = first[0] + row.to(number);
        k.if_(p.lt(positions) & channel.lt(all_channels) & exists, || {
            let each = |i: u32| k.load(staged, (place + i64::from(i)) * i64::from(PITCH) + row, 1);
            let v: Vec<Val> = (0..CHANNELS_PER_STORE).map(each).collect();
            k.store(y, (outer * positions + p) * all_channels + channel, k.compose(&v));
        });
    }
    k.finish()
}
