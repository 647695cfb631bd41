//! Elementwise maps: `y[i] = formula(x0[i], x1[i], ..)` for every element i, in row-major order of
//! the result; also several results at once.
//!
//! An operand is read contiguously, as one broadcast element, or by strides (broadcast axes have
//! stride 0). If no operand is strided, an invocation takes a vector of four elements (vectorised
//! load); the tail is loaded element by element into the same vector, so that the formula is
//! compiled once. The same holds for strided operands whose four neighbours along the last axis are
//! contiguous or one element, as in broadcasts along channels or rows. Otherwise the linear index
//! is split into a multi-index, by multiplication with a reciprocal where indices are below 2^30,
//! and each operand has its own offset.

use crate::formula::{Compute, Formula, leave};
use crate::launch::args::{self, LaunchArgs};
use crate::launch::{Key, Work, grid, linear_group_id};
use crate::layout::indexing::{self, Axes, JoinedAxes, is_wide};
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Access, Elem, Kernel, Place, Scalar};
use elinvar_ops::map::Out;

/// Invocations of a workgroup: eight warps or four wavefronts, as many as keep a multiprocessor
/// busy in a few groups.
pub(crate) const BLOCK_THREADS: u32 = 256;

/// How an operand is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadPattern {
    /// Row-major, as the result.
    Dense,
    /// One element for all.
    Broadcast,
    /// By strides.
    Strided,
    /// By strides, and four neighbours are contiguous.
    StridedVec4,
    /// By strides, and four neighbours are one element.
    BroadcastVec4,
}

impl ReadPattern {
    /// Has an operand that is read so strides?
    fn by_strides(self) -> bool {
        match self {
            ReadPattern::Strided | ReadPattern::StridedVec4 | ReadPattern::BroadcastVec4 => true,
            ReadPattern::Dense | ReadPattern::Broadcast => false,
        }
    }
    /// How four neighbours along the last axis of a strided operand can be read together, if all of
    /// them are there.
    fn together(offset: usize, strides: &[isize]) -> Option<ReadPattern> {
        let (&last, others) = strides.split_last()?;
        let even = || offset.is_multiple_of(4) && others.iter().all(|s| s.unsigned_abs().is_multiple_of(4));
        match last {
            0 => Some(ReadPattern::BroadcastVec4),
            1 if even() => Some(ReadPattern::StridedVec4),
            _ => None,
        }
    }
}

/// What is done to elements that were loaded, up to what is stored.
pub trait ElementCode {
    /// A word for kernels.
    fn name(&self) -> String;
    /// The key of a kernel that this is in, from the key of what is around it.
    fn key(&self, around: Key) -> Key;
    /// What is stored in each result, in numbers of `width`, from what was loaded.
    fn emit<'k>(&self, k: &'k Builder, x: &[Val<'k>], width: u8) -> Vec<Val<'k>>;
}

impl<C: ElementCode + ?Sized> ElementCode for &C {
    fn name(&self) -> String {
        (**self).name()
    }
    fn key(&self, around: Key) -> Key {
        (**self).key(around)
    }
    fn emit<'k>(&self, k: &'k Builder, x: &[Val<'k>], width: u8) -> Vec<Val<'k>> {
        (**self).emit(k, x, width)
    }
}

/// A formula in the type in which tensors of a dtype are computed.
struct FormulaCode<'a>(&'a dyn Formula, Compute);

impl ElementCode for FormulaCode<'_> {
    fn name(&self) -> String {
        self.0.name()
    }
    fn key(&self, around: Key) -> Key {
        self.0.key(around.with(&self.1))
    }
    fn emit<'k>(&self, k: &'k Builder, x: &[Val<'k>], width: u8) -> Vec<Val<'k>> {
        let x: Vec<Val> = x.iter().map(|&v| self.1.enter(v)).collect();
        vec![leave(self.0.emit(k, self.1, &x), self.0.out(), self.1, width)]
    }
}

/// What a kernel is built for: launches of the same form share a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MapConfig {
    /// What the operands hold, and how they are read.
    pub operands: Vec<(Elem, ReadPattern)>,
    /// What the results hold.
    pub outs: Vec<Elem>,
    /// Axes that are left of the shape when neighbours that are evenly spaced in all operands are
    /// joined; 0 if no operand is strided.
    pub rank: usize,
    /// Elements that an invocation takes: 1 or 4.
    pub width: u8,
    /// Are there positions beyond 2^30?
    pub wide: bool,
}

/// The numbers of a launch, for a form.
#[derive(Clone, Debug)]
pub(crate) struct MapSizes {
    len: usize,
    /// The joined shape.
    dims: Vec<usize>,
    /// Offset and joined strides of each operand.
    operands: Vec<(usize, Vec<isize>)>,
}

/// The work of a map: operands first, then the result. `None` if there are no elements.
pub fn map<'a>(formula: &'a dyn Formula, dtype: DType, x: &[(&Layout, DType)]) -> Option<Work<'a>> {
    map_by(formula, dtype, x, MapChoice::default())
}

/// What may be chosen about a map; its bits do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapChoice {
    /// Elements that an invocation takes at most: 1 or 4.
    pub most: u8,
    /// 64-bit numbers, also where 32 bits would do.
    pub wide: bool,
}

impl Default for MapChoice {
    fn default() -> Self {
        // 16 bytes of f32 are the widest load there is.
        MapChoice { most: 4, wide: false }
    }
}

/// The same in a chosen form.
pub fn map_by<'a>(
    formula: &'a dyn Formula,
    dtype: DType,
    x: &[(&Layout, DType)],
    choice: MapChoice,
) -> Option<Work<'a>> {
    let out = match formula.out() {
        Out::Same => Elem::from(dtype),
        Out::Bool => Elem::Bool,
    };
    work(FormulaCode(formula, dtype.into()), &[out], x, choice)
}

/// The work of some code at every element: operands first, then the results.
pub fn work<'a>(
    code: impl ElementCode + 'a,
    outs: &[Elem],
    x: &[(&Layout, DType)],
    choice: MapChoice,
) -> Option<Work<'a>> {
    let (config, sizes) = plan(outs, x, choice)?;
    let key = code.key(Key::of("map").with(&config));
    let (scalar, args, groups) = (config.scalar(), args_of(&config, &sizes), config.groups(&sizes));
    Some(args::work(key, move || build(&code, &config), groups, scalar, &args))
}

/// The form of a map of these operands, and its numbers.
pub(crate) fn plan(
    outs: &[Elem],
    x: &[(&Layout, DType)],
    choice: MapChoice,
) -> Option<(MapConfig, MapSizes)> {
    let len = x[0].0.shape().numel();
    if len == 0 {
        return None;
    }
    let layouts: Vec<&Layout> = x.iter().map(|(l, _)| *l).collect();
    let JoinedAxes { dims, strides } = indexing::join(&layouts, 0, layouts[0].rank());
    let walk = |s: &[isize]| match s {
        _ if s.iter().all(|&s| s == 0) => ReadPattern::Broadcast,
        [1] => ReadPattern::Dense,
        _ => ReadPattern::Strided,
    };
    // Joined axes are more than one only if an operand is neither dense nor a single element.
    let dense = |l: &Layout, s: &[isize]| if l.is_contiguous() { ReadPattern::Dense } else { walk(s) };
    let mut operands: Vec<(Elem, ReadPattern)> = (x.iter().zip(&strides))
        .map(|((l, d), s)| (Elem::from(*d), if len == 1 { ReadPattern::Broadcast } else { dense(l, s) }))
        .collect();
    let strided = operands.iter().any(|o| o.1 == ReadPattern::Strided);
    let wide = choice.wide || layouts.iter().any(|l| is_wide(l));
    // A vector is loaded from a multiple of its width.
    let aligned =
        (x.iter().zip(&operands)).all(|((l, _), o)| o.1 != ReadPattern::Dense || l.offset() % 4 == 0);
    let mut width = if strided || !aligned || len == 1 { 1 } else { choice.most };
    if strided && aligned && choice.most == 4 && dims.last().is_some_and(|n| n.is_multiple_of(4)) {
        let together =
            |((_, walk), ((l, _), s)): (&(Elem, ReadPattern), (&(&Layout, DType), &Vec<isize>))| match walk {
                ReadPattern::Strided => ReadPattern::together(l.offset(), s),
                other => Some(*other),
            };
        let walks: Option<Vec<ReadPattern>> =
            operands.iter().zip(x.iter().zip(&strides)).map(together).collect();
        if let Some(walks) = walks {
            width = 4;
            operands.iter_mut().zip(walks).for_each(|(o, walk)| o.1 = walk);
        }
    }
    let rank = if strided { dims.len() } else { 0 };
    let config = MapConfig { operands, outs: outs.to_vec(), rank, width, wide };
    let operands = x.iter().zip(strides).map(|((l, _), s)| (l.offset(), s)).collect();
    Some((config, MapSizes { len, dims, operands }))
}

impl MapConfig {
    pub(crate) fn scalar(&self) -> Scalar {
        indexing::scalar(self.wide)
    }
    pub(crate) fn groups(&self, sizes: &MapSizes) -> [u32; 3] {
        grid((sizes.len as u64).div_ceil(u64::from(BLOCK_THREADS) * u64::from(self.width)))
    }
    /// Numbers of a launch: the length; size and reciprocal of each axis but the first; offset (and
    /// strides) of each operand.
    fn count(&self) -> usize {
        let strided = self.operands.iter().filter(|o| o.1.by_strides()).count();
        1 + indexing::count(self.rank, self.wide) + self.operands.len() + strided * self.rank
    }
    /// A word for the kernel of this form.
    fn name(&self, code: &dyn ElementCode) -> String {
        format!("map_{}{}", code.name(), self.words())
    }
    /// What tells forms apart in a kernel's name.
    pub(crate) fn words(&self) -> String {
        let walks: String = (self.operands.iter())
            .map(|(e, w)| {
                let w = match w {
                    ReadPattern::Dense => "d",
                    ReadPattern::Broadcast => "s",
                    ReadPattern::Strided => "r",
                    ReadPattern::StridedVec4 => "f",
                    ReadPattern::BroadcastVec4 => "o",
                };
                format!("_{e}{w}")
            })
            .collect();
        let wide = if self.wide { "_wide" } else { "" };
        let outs: String = self.outs.iter().map(|e| format!("_{e}")).collect();
        format!("{walks}{outs}_r{}w{}{wide}", self.rank, self.width)
    }
}

/// What the kernel asks for, in its order.
pub(crate) fn args_of(config: &MapConfig, sizes: &MapSizes) -> Vec<i64> {
    let mut args = vec![sizes.len as i64];
    if config.rank > 0 {
        args.extend(indexing::sizes(&sizes.dims, config.wide));
    }
    for ((_, walk), (offset, strides)) in config.operands.iter().zip(&sizes.operands) {
        args.push(*offset as i64);
        if walk.by_strides() {
            args.extend(strides.iter().map(|&s| s as i64));
        }
    }
    assert_eq!(args.len(), config.count(), "as many numbers as the kernel asks for");
    args
}

/// The number of the first element of an invocation.
fn first<'k>(k: &'k Builder, scalar: Scalar, width: u8) -> Val<'k> {
    let group = linear_group_id(k, scalar);
    let i = group * i64::from(BLOCK_THREADS) + k.local_id(0).to(scalar);
    if width == 1 { i } else { i * i64::from(width) }
}

/// The kernel of a form.
pub fn build(code: &dyn ElementCode, config: &MapConfig) -> Kernel {
    let k = Builder::new(&config.name(code), [BLOCK_THREADS, 1, 1]);
    let operands: Vec<Place> = (config.operands.iter().enumerate())
        .map(|(i, (e, _))| k.buffer(&format!("x{i}"), *e, Access::Read))
        .collect();
    let results: Vec<Place> = (config.outs.iter().enumerate())
        .map(|(i, e)| k.buffer(&if i == 0 { "y".into() } else { format!("y{i}") }, *e, Access::Write))
        .collect();
    elements(&k, config, &operands, |ends, x| {
        ends.store(&results, &code.emit(&k, x, config.width));
    });
    k.finish()
}

/// Asks for the numbers of a form, and does something with the operands' elements of an invocation.
pub(crate) fn elements<'k>(
    k: &'k Builder,
    config: &MapConfig,
    operands: &[Place],
    with: impl FnOnce(&VectorTail<'k>, &[Val<'k>]),
) {
    let args = LaunchArgs::new(k, config.scalar(), config.count());
    let len = args.get("len");
    let axes = Axes::read(&args, "size", config.rank, config.wide);
    let places: Vec<(Val, Vec<Val>)> = (config.operands.iter().enumerate())
        .map(|(i, (_, walk))| {
            let offset = args.get(&format!("offset{i}"));
            let axes = if walk.by_strides() { config.rank } else { 0 };
            (offset, indexing::strides(&args, &format!("stride{i}"), axes))
        })
        .collect();

    let i = first(k, config.scalar(), config.width);
    k.if_(i.lt(len), || {
        let at = axes.index(i);
        let dense: Vec<(Place, Val)> = (operands.iter().zip(&config.operands).zip(&places))
            .filter(|((_, (_, walk)), _)| *walk == ReadPattern::Dense)
            .map(|((&p, _), (offset, _))| (p, *offset + i))
            .collect();
        let ends = VectorTail::new(k, i, len, config.width);
        let mut loaded = ends.load(&dense).into_iter();
        let x: Vec<Val> = (operands.iter().zip(&config.operands).zip(&places))
            .map(|((&p, (_, walk)), (offset, strides))| match walk {
                ReadPattern::Broadcast => k.load(p, *offset, 1).splat(config.width),
                ReadPattern::Dense => loaded.next().expect("each of them was loaded"),
                ReadPattern::Strided => k.load(p, indexing::position(*offset, &at, strides), 1),
                ReadPattern::StridedVec4 => {
                    k.load(p, indexing::position(*offset, &at, strides), config.width)
                }
                ReadPattern::BroadcastVec4 => {
                    k.load(p, indexing::position(*offset, &at, strides), 1).splat(config.width)
                }
            })
            .collect();
        with(&ends, &x);
    });
}

/// Vectors from element `i` on, where a tensor may end.
pub(crate) struct VectorTail<'k> {
    k: &'k Builder,
    i: Val<'k>,
    len: Val<'k>,
    width: u8,
}

impl<'k> VectorTail<'k> {
    /// The vector of so many elements from `i` on, of a tensor of `len`.
    pub(crate) fn new(k: &'k Builder, i: Val<'k>, len: Val<'k>, width: u8) -> Self {
        VectorTail { k, i, len, width }
    }
    /// Are all elements of the vector there?
    fn is_whole(&self) -> Val<'k> {
        !self.len.lt(self.i + i64::from(self.width))
    }
    /// Elements of several places; those past the end of the tensor repeat the first.
    pub(crate) fn load(&self, all: &[(Place, Val<'k>)]) -> Vec<Val<'k>> {
        let (k, i, w) = (self.k, self.i, self.width);
        if w == 1 || all.is_empty() {
            return all.iter().map(|&(p, at)| k.load(p, at, 1)).collect();
        }
        let one_by_one = || {
            let there: Vec<Val> = (1..i64::from(w)).map(|e| (i + e).lt(self.len)).collect();
            let vector = |&(p, at): &(Place, Val<'k>)| {
                let mut each = vec![k.load(p, at, 1)];
                each.extend((1..).zip(&there).map(|(e, t)| k.load(p, t.select(at + e, at), 1)));
                k.compose(&each)
            };
            all.iter().map(vector).collect()
        };
        k.if_else(self.is_whole(), || all.iter().map(|&(p, at)| k.load(p, at, w)).collect(), one_by_one)
    }
    /// Stores the elements that the tensors have.
    pub(crate) fn store(&self, results: &[Place], values: &[Val<'k>]) {
        assert_eq!(results.len(), values.len(), "a value for each result");
        let (k, i) = (self.k, self.i);
        let all = || results.iter().copied().zip(values.iter().copied());
        if self.width == 1 {
            return all().for_each(|(y, v)| k.store(y, i, v));
        }
        let one_by_one = || {
            all().for_each(|(y, v)| k.store(y, i, v.extract(0)));
            for e in 1..self.width {
                let at = i + i64::from(e);
                k.if_(at.lt(self.len), || all().for_each(|(y, v)| k.store(y, at, v.extract(e))));
            }
        };
        k.if_or(self.is_whole(), || all().for_each(|(y, v)| k.store(y, i, v)), one_by_one);
    }
}
