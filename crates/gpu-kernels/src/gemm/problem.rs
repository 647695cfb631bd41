//! The GEMM problem: sizes, layouts and epilogue, the configuration and the launch arguments that
//! all GEMM kernels share.

use super::StridedMatrix;
use crate::formula::Formula;
use crate::launch::args::LaunchArgs;
use crate::launch::linear_group_id;
use crate::layout::indexing;
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Elem, Place, Scalar};

/// A product that is asked for: `y[b, m, n] = epilogue(sum over k of x[b, m, k] * w[b, k, n])`.
#[derive(Clone, Copy)]
pub struct GemmProblem<'a, 'l> {
    /// What follows the sums.
    pub epilogue: &'a dyn Formula,
    /// The dtype of x, w and y.
    pub dtype: DType,
    /// [b, m, k]
    pub x: &'l Layout,
    /// [b, k, n]
    pub w: &'l Layout,
    /// Further operands of the epilogue.
    pub extra: &'l [(&'l Layout, DType)],
}

impl<'a, 'l> GemmProblem<'a, 'l> {
    /// Of two factors, and further operands of the epilogue.
    pub fn new(
        epilogue: &'a dyn Formula,
        dtype: DType,
        x: &'l Layout,
        w: &'l Layout,
        extra: &'l [(&'l Layout, DType)],
    ) -> Self {
        GemmProblem { epilogue, dtype, x, w, extra }
    }
    /// b, m, n, k.
    pub fn sizes(&self) -> [usize; 4] {
        [self.x.shape()[0], self.x.shape()[1], self.w.shape()[2], self.x.shape()[2]]
    }
    /// Elements of y.
    pub fn len(&self) -> usize {
        self.sizes()[..3].iter().product()
    }
    /// Has y no elements?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Are there positions beyond 2^30, if so many y come out?
    pub(crate) fn is_wide(&self, times: usize) -> bool {
        let layouts = [self.x, self.w].into_iter().chain(self.extra.iter().map(|(l, _)| *l));
        layouts.into_iter().any(indexing::is_wide) || indexing::are_many(self.len() * times)
    }
    /// What its kernels are built for. `pieces`: can so many columns of y be stored at once, if
    /// their number allows it?
    pub(crate) fn config(
        &self,
        k_major: [bool; 2],
        wide: bool,
        pieces: &dyn Fn(u8) -> bool,
    ) -> GemmBaseConfig {
        let columns = self.sizes()[2];
        let stores = [4, 2].into_iter().find(|&p| pieces(p) && columns.is_multiple_of(usize::from(p)));
        GemmBaseConfig {
            dtype: self.dtype,
            extra: self.extra.iter().map(|(_, d)| Elem::from(*d)).collect(),
            k_major,
            stores: stores.unwrap_or(1),
            wide,
        }
    }
    /// How many tiles of so many rows and columns there are along each side.
    pub(crate) fn tiles(&self, size: [u32; 2]) -> [usize; 2] {
        let [_, m, n, _] = self.sizes();
        [m.div_ceil(size[0] as usize), n.div_ceil(size[1] as usize)]
    }
    /// The numbers of a launch over tiles of so many rows and columns, as [`GemmArgs`] asks for
    /// them: sizes, how many tiles there are along each side, offset and strides of each operand.
    /// Gives the number of all tiles, too.
    pub(crate) fn args(&self, size: [u32; 2]) -> (Vec<i64>, usize) {
        let ([b, m, n, k], tiles) = (self.sizes(), self.tiles(size));
        let mut all: Vec<i64> = [b, m, n, k, tiles[0], tiles[1]].map(|v| v as i64).to_vec();
        for l in [self.x, self.w].into_iter().chain(self.extra.iter().map(|(l, _)| *l)) {
            all.push(l.offset() as i64);
            // Of an axis of one there is no second, and its stride may be anything. A copy that
            // brings zeros in its place still has an address, which should be a multiple of 16
            // bytes as others are.
            all.extend(l.shape().iter().zip(l.strides()).map(|(&n, &s)| if n == 1 { 0 } else { s as i64 }));
        }
        (all, b * tiles[0] * tiles[1])
    }
}

/// What a kernel is built for, whatever its tile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GemmBaseConfig {
    /// The dtype of x, w and y.
    pub dtype: DType,
    /// What further operands hold.
    pub extra: Vec<Elem>,
    /// Do neighbouring terms are contiguous in x, and in w? They are read along.
    pub k_major: [bool; 2],
    /// Columns of y that are stored at once.
    pub stores: u8,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

impl GemmBaseConfig {
    /// For names: a letter for each factor.
    pub(crate) fn k_major_word(&self) -> String {
        self.k_major.iter().map(|&a| if a { "k" } else { "x" }).collect()
    }
    /// For names: what follows what.
    pub(crate) fn operands_word(&self, epilogue: &dyn Formula) -> String {
        let extra: String = self.extra.iter().map(|e| format!("_{e}")).collect();
        format!("{}_{}{extra}", epilogue.name(), self.dtype)
    }
}

/// The buffers of a kernel, and the numbers of a launch that come first.
pub(crate) struct GemmArgs<'k> {
    k: &'k Builder,
    pub number: Scalar,
    pub args: LaunchArgs<'k>,
    pub places: [Place; 2],
    extras: Vec<Place>,
    pub y: Place,
    pub batches: Val<'k>,
    /// Sizes of y, by side, and how many terms.
    pub sizes: [Val<'k>; 2],
    pub terms: Val<'k>,
    /// How many tiles there are along each side.
    pub tiles: [Val<'k>; 2],
}

impl<'k> GemmArgs<'k> {
    /// Of a kernel whose result holds `out`; beside the numbers that are read here, and four for
    /// each further operand, it has so many.
    pub fn read(k: &'k Builder, config: &GemmBaseConfig, out: Elem, args: usize) -> Self {
        let places = ["x", "w"].map(|name| k.buffer(name, config.dtype.into(), Access::Read));
        let extras: Vec<Place> = (config.extra.iter().enumerate())
            .map(|(i, &e)| k.buffer(&format!("e{i}"), e, Access::Read))
            .collect();
        let y = k.buffer("y", out, Access::Write);
        let number = indexing::scalar(config.wide);
        let args = LaunchArgs::new(k, number, BASE_ARGS + args + 4 * extras.len());
        let [batches, m, n, terms, tiles_m, tiles_n] =
            ["b", "m", "n", "k", "tiles_m", "tiles_n"].map(|name| args.get(name));
        let (sizes, tiles) = ([m, n], [tiles_m, tiles_n]);
        GemmArgs { k, number, args, places, extras, y, batches, sizes, terms, tiles }
    }
    /// The number of the workgroup, and how many there are for a batch. A grid that is cut into
    /// rows has a few workgroups too many: they go along, and store nothing.
    pub fn group(&self) -> (Val<'k>, Val<'k>) {
        let group = linear_group_id(self.k, self.number);
        (group, self.tiles[0] * self.tiles[1])
    }
    /// The first row and column of a tile that comes in the order of rows.
    pub fn corner(&self, tile: Val<'k>, size: [u32; 2]) -> [Val<'k>; 2] {
        [tile / self.tiles[1] * i64::from(size[0]), tile % self.tiles[1] * i64::from(size[1])]
    }
    /// The factors of a batch.
    pub fn factors(&self, batch: Val<'k>) -> [StridedMatrix<'k>; 2] {
        [("x", self.places[0]), ("w", self.places[1])]
            .map(|(name, p)| StridedMatrix::read(&self.args, name, p, batch))
    }
    /// The further operands of a batch.
    pub fn extra(&self, batch: Val<'k>) -> Vec<StridedMatrix<'k>> {
        (self.extras.iter().enumerate())
            .map(|(i, &p)| StridedMatrix::read(&self.args, &format!("e{i}"), p, batch))
            .collect()
    }
}

/// Numbers that all products have.
pub(crate) const BASE_ARGS: usize = 6;
