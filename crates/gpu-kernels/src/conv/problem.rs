//! The convolution problem in a kernel: configuration, launch arguments, columns and terms, and how
//! results are stored. See the table in `mod.rs`.

use crate::formula::{Compute, Formula};
use crate::gemm::SimtTile;
use crate::gemm::split_k_reduce;
use crate::launch::args::LaunchArgs;
use crate::launch::linear_group_id;
use crate::layout::indexing::{self, Axes};
use elinvar_core::DType;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Elem, Place, Scalar};

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConvPass {
    /// The convolution.
    Forward,
    /// Its gradient by x.
    GradInput,
    /// Its gradient by w.
    GradWeight,
}

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvConfig {
    /// Which of the three.
    pub of: ConvPass,
    /// The dtype of both factors and of the result.
    pub dtype: DType,
    /// What further operands hold.
    pub extra: Vec<Elem>,
    /// How the result is cut into pieces: rows and columns. The depth is not looked at.
    pub tile: SimtTile,
    /// Spatial axes.
    pub rank: usize,
    /// May a coordinate be outside?
    pub padded: bool,
    /// Are the axes of a term at most 32 taps? Then which of them are inside is found out once for
    /// each column, and not again for each channel.
    pub masked: bool,
    /// Has the right factor no elements? Then it is +0 everywhere.
    pub void: bool,
    /// May there be several chunks of terms?
    pub multi_chunk: bool,
    /// Does each chunk have a workgroup of its own, and its sums a place of their own?
    pub split_k: bool,
    /// Does the outer part of a term (in the gradient by w, of a column), a channel, count faster
    /// than the taps? Only where any order of sums will do.
    pub channels_last: bool,
    /// How terms come to shared memory; none: each is read where it is needed.
    pub staged: Option<StagingConfig>,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// How a workgroup brings terms to shared memory; by side, where it is an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StagingConfig {
    /// Are neighbouring terms read by neighbours, and not neighbouring rows or columns?
    pub k_major: [bool; 2],
    /// How many numbers are read at once.
    pub width: [u8; 2],
    /// Is the left factor a matrix, with one stride for all terms?
    pub matrix: bool,
    /// Words of 32 bits that say which taps are outside: 1 or 3.
    pub words: u8,
    /// Is the number of terms a multiple of those of a step?
    pub whole: bool,
    /// Columns of the result that are stored at once.
    pub stores: u8,
}

impl ConvConfig {
    pub(super) fn name(&self, epilogue: &dyn Formula) -> String {
        let SimtTile { group: [a, b], each: [c, d], depth, slots } = self.tile;
        let of = match self.of {
            ConvPass::Forward => "conv",
            ConvPass::GradInput => "conv_input_grad",
            ConvPass::GradWeight => "conv_weight_grad",
        };
        let extra: String = self.extra.iter().map(|e| format!("_{e}")).collect();
        let flags = [
            (self.padded, "_padded"),
            (self.masked, "_masked"),
            (self.void, "_void"),
            (self.multi_chunk, "_multi_chunk"),
            (self.split_k, "_split_k"),
            (self.channels_last, "_last"),
            (self.wide, "_wide"),
        ];
        let flags: String = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
        let staged = self.staged.as_ref().map_or(String::new(), |s| {
            let k_major: String = s.k_major.iter().map(|&a| if a { "k" } else { "x" }).collect();
            let StagingConfig { width: [vl, vr], words, stores, .. } = s;
            let matrix = if s.matrix { "_matrix" } else { "" };
            let whole = if s.whole { "_whole" } else { "" };
            format!("d{depth}s{slots}_{k_major}_v{vl}{vr}{stores}_m{words}{matrix}{whole}")
        });
        let name = epilogue.name();
        format!("{of}{}d_{name}_{}{extra}_{a}x{b}of{c}x{d}{staged}{flags}", self.rank, self.dtype)
    }
    /// Are columns counted along channels first?
    pub(super) fn columns_last(&self) -> bool {
        self.channels_last && self.of == ConvPass::GradWeight
    }
    pub(super) fn count(&self) -> usize {
        let r = self.rank;
        let classes = if self.of == ConvPass::GradInput { 5 * r } else { 0 };
        let factors = 2 + self.extra.len();
        6 + indexing::count(r + 1 + usize::from(self.columns_last()), self.wide)
            + (1 + r)
            + 4 * r
            + classes
            + (3 + r)
            + usize::from(self.split_k)
            + factors * (4 + r)
            + usize::from(self.staged.is_some())
            + usize::from(self.columns_last())
    }
}

/// A factor, or the result: where it begins, and its strides (group, row or outer column, outer
/// term, axes).
pub(super) struct ConvStrides<'k> {
    pub first: Val<'k>,
    pub group: Val<'k>,
    pub one: Val<'k>,
    pub two: Val<'k>,
    pub axes: Vec<Val<'k>>,
}

impl<'k> ConvStrides<'k> {
    pub fn read(args: &LaunchArgs<'k>, name: &str, rank: usize) -> Self {
        let get = |what: &str| args.get(&format!("{name}_{what}"));
        let (first, group, one, two) = (get("offset"), get("group"), get("one"), get("two"));
        ConvStrides { first, group, one, two, axes: indexing::strides(args, &format!("{name}_axis"), rank) }
    }
}

impl<'k> ConvStrides<'k> {
    pub fn at(&self, [group, one, two]: [Val<'k>; 3], axes: &[Val<'k>]) -> Val<'k> {
        indexing::position(
            self.first + group * self.group + one * self.one + two * self.two,
            axes,
            &self.axes,
        )
    }
}

/// A column: its outer part, its place along each axis, and whether it exists.
#[derive(Clone)]
pub(super) struct OutputColumn<'k> {
    pub outer: Val<'k>,
    pub axes: Vec<Val<'k>>,
    pub there: Val<'k>,
    /// Where the coordinate of term 0 is, along each axis.
    pub start: Vec<Val<'k>>,
    /// Where the right factor of that is.
    pub base: Val<'k>,
}

/// The terms of all columns of a workgroup.
pub(super) struct KTerms<'k> {
    /// How many along each part.
    pub counts: Vec<Val<'k>>,
    /// Per axis: the first of the left factor's places, from one to the next, and what a step moves
    /// the coordinate by.
    pub axes: Vec<[Val<'k>; 3]>,
    /// Per axis: the size of the right factor.
    pub sizes: Vec<Val<'k>>,
}

impl<'k> KTerms<'k> {
    /// How many there are.
    pub fn count(&self) -> Val<'k> {
        self.counts[1..].iter().fold(self.counts[0], |n, &c| n * c)
    }
}

/// The numbers of a launch, and which piece of its work a workgroup has.
pub(super) struct ConvArgs<'k> {
    pub number: Scalar,
    /// Memory of the left and of the right factor.
    pub places: [Place; 2],
    extras: Vec<Place>,
    y: Place,
    dtype: DType,
    /// Rows and columns of a group.
    pub rows: Val<'k>,
    pub columns: Val<'k>,
    pub column_axes: Axes<'k>,
    /// Which chunk (or class) was asked for, and which there is: the last row of a grid may have
    /// workgroups too many, which go along, and store nothing.
    exists: Val<'k>,
    pub outer_number: Val<'k>,
    pub group: Val<'k>,
    /// Which tile, along rows and along columns.
    pub tile: [Val<'k>; 2],
    pub terms: KTerms<'k>,
    /// Per axis: what a step of the column moves the coordinate by, and where it begins.
    starts: Vec<(Val<'k>, Val<'k>)>,
    /// Per axis: the first position of the result, from one to the next, and where they end if
    /// columns may go beyond.
    results: Vec<(Val<'k>, Val<'k>, Option<Val<'k>>)>,
    pub left: ConvStrides<'k>,
    pub right: ConvStrides<'k>,
    /// From term to term of the left factor, where that is a matrix.
    left_step: Option<Val<'k>>,
    /// With channels last, how many of a column's outer parts there are: memory may have more.
    outers: Option<Val<'k>>,
    further: Vec<ConvStrides<'k>>,
    result: ConvStrides<'k>,
    len: Option<Val<'k>>,
}

impl<'k> ConvArgs<'k> {
    pub fn read(k: &'k Builder, config: &ConvConfig) -> Self {
        ConvArgs::read_with(k, config, None).0
    }

    /// The same with one more number behind them, if a name of it is given.
    pub fn read_with(k: &'k Builder, config: &ConvConfig, more: Option<&str>) -> (Self, Option<Val<'k>>) {
        // Operands are bound in the order of the work: what comes first is said there.
        let elem = Elem::from(config.dtype);
        let names = match config.of {
            ConvPass::Forward => ["x", "w"],
            ConvPass::GradInput | ConvPass::GradWeight => ["left", "right"],
        };
        let places = names.map(|name| k.buffer(name, elem, Access::Read));
        let [left_place, right_place] = match config.of {
            ConvPass::Forward => [places[1], places[0]],
            ConvPass::GradInput | ConvPass::GradWeight => places,
        };
        let extras: Vec<Place> = (config.extra.iter().enumerate())
            .map(|(i, &e)| k.buffer(&format!("e{i}"), e, Access::Read))
            .collect();
        let out = if config.split_k { split_k_reduce::elem(config.dtype) } else { elem };
        let y = k.buffer("y", out, Access::Write);
        let number = indexing::scalar(config.wide);
        let rank = config.rank;
        let args = LaunchArgs::new(k, number, config.count() + usize::from(more.is_some()));
        let [outermost, groups, tiles_m, tiles_n, rows, columns] =
            ["outermost", "groups", "tiles_m", "tiles_n", "m", "n"].map(|n| args.get(n));
        // With channels last, there is nothing before the axes.
        let parts = rank + 1 + usize::from(config.columns_last());
        let column_axes = Axes::read_any(&args, "column", parts, config.wide);
        let term_counts: Vec<Val> = (0..=rank).map(|a| args.get(&format!("terms{a}"))).collect();
        let windows: Vec<[Val; 4]> = (0..rank)
            .map(|a| ["by", "from", "move", "size"].map(|what| args.get(&format!("{what}{a}"))))
            .collect();
        let classes: Vec<[Val; 5]> = (0..if config.of == ConvPass::GradInput { rank } else { 0 })
            .map(|a| {
                let names = ["stride", "dilation", "padding", "spatial", "every"];
                names.map(|what| args.get(&format!("{what}{a}")))
            })
            .collect();
        let result = {
            let [group, one, outer] = ["y_group", "y_row", "y_outer"].map(|n| args.get(n));
            let axes = indexing::strides(&args, "y_axis", rank);
            ConvStrides { first: group.like(0), group, one, two: outer, axes }
        };
        let len = config.split_k.then(|| args.get("len"));
        let left = ConvStrides::read(&args, "left", rank);
        let right = ConvStrides::read(&args, "right", rank);
        let further: Vec<ConvStrides> =
            (0..extras.len()).map(|i| ConvStrides::read(&args, &format!("e{i}"), rank)).collect();
        let left_step = config.staged.is_some().then(|| args.get("left_step"));
        let outers = config.columns_last().then(|| args.get("outers"));
        let more = more.map(|name| args.get(name));

        // Which piece.
        let unit = linear_group_id(k, number);
        let in_group = tiles_m * tiles_n;
        let asked = unit / (in_group * groups);
        let outer_number = asked.min(outermost - 1);
        let group = unit / in_group % groups;
        let tile = unit % in_group;
        // What a class says.
        let mut terms = KTerms { counts: vec![term_counts[0]], axes: Vec::new(), sizes: Vec::new() };
        let mut starts: Vec<(Val, Val)> = Vec::new();
        let mut results: Vec<(Val, Val, Option<Val>)> = Vec::new();
        let mut digits = outer_number;
        for a in (0..rank).rev() {
            let [by, from, step, size] = windows[a];
            terms.sizes.push(size);
            let zero = by.like(0);
            if config.of != ConvPass::GradInput {
                terms.counts.push(term_counts[a + 1]);
                terms.axes.push([zero, by.like(1), step]);
                starts.push((by, from));
                results.push((zero, by.like(1), None));
                continue;
            }
            let [stride, dilation, padding, spatial, every] = classes[a];
            let s0 = digits % stride;
            digits = digits / stride;
            let residue = (s0 + padding) % stride;
            // The first tap that meets the grid, which is among the first `every` if there is one;
            // then each `every`-th does.
            let taps = term_counts[a + 1];
            let first = k.for_(zero, taps.min(every), by.like(1), &[taps], |t, c| {
                let meets = (t * dilation % stride).eq(residue);
                vec![(meets & c[0].eq(taps)).select(t, c[0])]
            })[0];
            terms.counts.push((taps - first + (every - 1)) / every);
            // Where none does, there are no terms; what is loaded ahead of them is in the tensor.
            let first = first.eq(taps).select(zero, first);
            terms.axes.push([first, every, step]);
            // Whole, if a tap meets the grid.
            starts.push((by, (s0 + padding - first * dilation) / stride));
            results.push((s0, stride, Some(spatial)));
        }
        terms.counts[1..].reverse();
        terms.axes.reverse();
        terms.sizes.reverse();
        starts.reverse();
        results.reverse();
        let head = ConvArgs {
            number,
            places: [left_place, right_place],
            extras,
            y,
            dtype: config.dtype,
            rows,
            columns,
            column_axes,
            exists: asked.lt(outermost),
            outer_number,
            group,
            // Those of the same columns run side by side: what they read is large, and filters are
            // few.
            tile: [tile % tiles_m, tile / tiles_m],
            terms,
            starts,
            results,
            left,
            right,
            left_step,
            outers,
            further,
            result,
            len,
        };
        (head, more)
    }

    /// Where the left factor of a group begins.
    pub fn left_group(&self) -> Val<'k> {
        self.left.first + self.group * self.left.group
    }
    /// Where the left factor of a row begins, without what axes begin with. Rows past the last one
    /// are the first one.
    pub fn row(&self, r: Val<'k>) -> Val<'k> {
        self.left_group() + r.lt(self.rows).select(r, r.like(0)) * self.left.one
    }
    /// The same with it: where the first of the terms is that there are.
    pub fn first_of_row(&self, r: Val<'k>) -> Val<'k> {
        let firsts = self.terms.axes.iter().zip(&self.left.axes);
        firsts.fold(self.row(r), |at, (&[first, ..], &stride)| at + first * stride)
    }
    /// From term to term of the left factor, where that is a matrix.
    pub fn left_step(&self) -> Val<'k> {
        self.left_step.expect("a form whose terms are staged has this number")
    }
    /// What a step of the column moves the coordinate of an axis by.
    pub fn by(&self, a: usize) -> Val<'k> {
        self.starts[a].0
    }
    /// Where the coordinate of an axis begins.
    pub fn start(&self, a: usize) -> Val<'k> {
        self.starts[a].1
    }

    /// A column. Those past the last one are the first one (and so begin where pieces of several
    /// do).
    pub fn column(&self, c: Val<'k>) -> OutputColumn<'k> {
        let mut there = c.lt(self.columns);
        let mut at = self.column_axes.index(there.select(c, c.like(0)));
        if let Some(outers) = self.outers {
            at[0] = at.pop().expect("the outer part is the last");
            there = there & at[0].lt(outers);
        }
        let axes = at.split_off(1);
        let start: Vec<Val> = axes.iter().zip(&self.starts).map(|(&i, &(by, from))| i * by + from).collect();
        let right = self.right.first + self.group * self.right.group;
        let base = indexing::position(right + at[0] * self.right.one, &start, &self.right.axes);
        OutputColumn { outer: at[0], axes, there, start, base }
    }

    /// Stores what the epilogue makes of sums of neighbouring columns, which are all there or none,
    /// and of which the results are contiguous.
    pub fn store(
        &self,
        k: &'k Builder,
        epilogue: &dyn Formula,
        r: Val<'k>,
        columns: &[OutputColumn<'k>],
        sums: &[Val<'k>],
    ) {
        let c = Compute::from(self.dtype);
        let place_of = |col: &OutputColumn<'k>| -> ([Val<'k>; 3], Vec<Val<'k>>) {
            let axes = col.axes.iter().zip(&self.results).map(|(&i, &(from, by, _))| from + i * by);
            ([self.group, r, col.outer], axes.collect())
        };
        let places: Vec<_> = columns.iter().map(place_of).collect();
        let (first, axes) = &places[0];
        let mut there = r.lt(self.rows) & columns[0].there & self.exists;
        for (&s, (_, _, size)) in axes.iter().zip(&self.results) {
            if let Some(size) = *size {
                there = there & s.lt(size);
            }
        }
        k.if_(there, || {
            let sum = k.join(sums);
            if let Some(len) = self.len {
                return k.store(self.y, self.outer_number * len + self.result.at(*first, axes), sum);
            }
            let mut given = vec![sum];
            given.extend(self.extras.iter().zip(&self.further).map(|(&e, s)| {
                let each: Vec<Val> =
                    places.iter().map(|(place, axes)| k.load(e, s.at(*place, axes), 1)).collect();
                c.enter(k.join(&each))
            }));
            let result = epilogue.emit(k, c, &given).splat(columns.len() as u8);
            k.store(self.y, self.result.at(*first, axes), result);
        });
    }
}
