//! Draws a call: for each kind of work, shapes around the edges, all dtypes that it is defined for,
//! strided memory.

use super::call::{Call, Operand};
use super::dice::{Dice, Values};
use crate::twist::Work;
use elinvar_core::{DType, HostData, Layout, Precision, Result, Scalar, Shape};
use elinvar_ops::backend::{ArgFold, Attention, Conv, Fold, Pool, PoolKind, Random, Scan, Scatter, Windows};
use elinvar_reference::Reference;

/// f32 as often as all storage floats together.
const FLOATS: &[DType] = &{
    let (storage, mut all) = (DType::STORAGE, [DType::F32; 2 * DType::STORAGE.len() + 1]);
    all[0] = DType::F64;
    let mut i = 0;
    while i < storage.len() {
        all[i + 1] = storage[i];
        i += 1;
    }
    all
};
const INTS: &[DType] = &[DType::I64, DType::I32, DType::U8, DType::Bool];

/// The kinds of work of which calls are drawn.
pub const WORKS: [Work; 25] = [
    Work::Upload,
    Work::Download,
    Work::Fill,
    Work::Random,
    Work::Copy,
    Work::Assemble,
    Work::Map,
    Work::MapInt,
    Work::Fold,
    Work::ArgFold,
    Work::Scan,
    Work::Rows,
    Work::Sort,
    Work::Contract,
    Work::Conv,
    Work::ConvInputGrad,
    Work::ConvWeightGrad,
    Work::Pool,
    Work::AvgPoolGrad,
    Work::Attention,
    Work::AttentionGrad,
    Work::Gather,
    Work::Scatter,
    Work::Nonzero,
    Work::Update,
];

/// A call of this kind of work, with tensors of at most about `largest` elements.
///
/// # Errors
/// Those of the reference backend, which computes the forward results that the gradient of
/// attention reads.
pub fn draw(work: Work, dice: &mut Dice, largest: usize) -> Result<Call> {
    let any = *dice.pick(&[&FLOATS, &FLOATS, &INTS]);
    let any = dice.pick(any);
    let float = dice.pick(FLOATS);
    let number = dice.pick(&[float, float, DType::I64, DType::I32, DType::U8]);
    let values = dice.values();
    let rank = dice.between(0, 4);
    let shape = dice.shape(rank, largest);
    Ok(match work {
        Work::Upload => Call::Upload { x: operand(dice, any, &shape, values) },
        Work::Download => Call::Download { x: operand(dice, any, &shape, values) },
        Work::Fill => {
            let value = dice.pick(&[
                Scalar::Float(0.1),
                Scalar::Float(-0.0),
                Scalar::Float(f64::NAN),
                Scalar::Float(1e300),
                Scalar::Int(-1),
                Scalar::Int(300),
                Scalar::Bool(true),
            ]);
            Call::Fill { value, dtype: any, len: dice.size(largest) }
        }
        Work::Random => {
            let (r, dtype) = dice.pick(&[
                (Random::Uniform { low: -1.5, high: 2.25 }, float),
                (Random::Uniform { low: 0.0, high: 1.0 }, float),
                (Random::Normal { mean: 0.5, std: 3.0 }, float),
                (Random::Bernoulli { p: 0.3 }, any),
                (Random::Int { low: -7, high: 1000 }, DType::I64),
                (Random::Int { low: i64::MIN, high: i64::MAX }, DType::I64),
                (Random::Int { low: -7, high: 1000 }, DType::I32),
                (Random::Int { low: 0, high: 256 }, DType::U8),
            ]);
            let in_memory = dice.below(2) == 0;
            // As far as a number of elements reaches: on 32-bit targets not so far.
            let seed = dice.below(usize::try_from(1u64 << 40).unwrap_or(usize::MAX)) as u64;
            Call::Random { r, seed, in_memory, dtype, len: dice.size(largest) }
        }
        Work::Copy => Call::Copy { x: operand(dice, any, &shape, values), to: dice.pick(&DType::ALL) },
        Work::Assemble => assemble(dice, any, values, largest),
        Work::Map => {
            let kind = |dice: &mut Dice| if dice.once_in(8) { DType::Bool } else { float };
            let (a, b) = (kind(dice), kind(dice));
            let x = [
                operand(dice, float, &shape, values),
                operand(dice, a, &shape, values),
                operand(dice, b, &shape, values),
            ];
            Call::Map { formula: dice.below(4), x, dtype: float }
        }
        Work::MapInt => {
            let dtype = dice.pick(INTS);
            let x = [operand(dice, dtype, &shape, values), operand(dice, dtype, &shape, values)];
            Call::MapInt { x, dtype }
        }
        Work::Fold => {
            let f = dice.pick(&[Fold::Sum, Fold::Sum, Fold::Prod, Fold::Max, Fold::Min]);
            let (x, kept) = reduced(dice, any, values, largest);
            let adds = matches!(f, Fold::Sum | Fold::Prod);
            let to = match (adds, any.is_float(), any.is_storage()) {
                (true, false, _) => DType::I64,
                (_, true, true) => dice.pick(&[any, DType::F32]),
                _ => any,
            };
            Call::Fold { f, x, kept, to }
        }
        Work::ArgFold => {
            let (x, kept) = reduced(dice, any, values, largest);
            let empty = x.layout.shape()[kept..].contains(&0);
            // Rows must not be empty: a precondition of the call.
            let x = if empty { operand(dice, any, &vec![1; x.layout.rank()], values) } else { x };
            Call::ArgFold { f: dice.pick(&[ArgFold::Max, ArgFold::Min]), x, kept }
        }
        Work::Scan => {
            let rank = dice.between(1, 3);
            let shape = dice.shape(rank, largest);
            let to = match (any.is_float(), any.is_storage()) {
                (false, _) => DType::I64,
                (true, true) => dice.pick(&[any, DType::F32]),
                (true, false) => any,
            };
            Call::Scan { f: dice.pick(&[Scan::Sum, Scan::Prod]), x: operand(dice, any, &shape, values), to }
        }
        Work::Rows => {
            let (x, kept) = reduced(dice, float, values, largest);
            let shape = x.layout.shape().to_vec();
            let y = operand(dice, float, &shape, values);
            Call::Rows { once: dice.once_in(2), x: [x, y], kept, dtype: float }
        }
        Work::Sort => {
            let rank = dice.between(1, 3);
            let shape = dice.shape(rank, largest);
            let first = if dice.once_in(2) { shape[rank - 1] } else { dice.below(shape[rank - 1] + 1) };
            Call::Sort { x: operand(dice, any, &shape, values), descending: dice.once_in(2), first }
        }
        Work::Contract => {
            let (b, k) = (dice.between(1, 3), dice.size(1537.min(largest)));
            let (m, n) = (dice.size(129.min(largest)), dice.size(129.min(largest)));
            // Long sums or large results, not both.
            let cut = |s: usize| if k > 128 { s.min(33) } else { s };
            let (m, n) = (cut(m), cut(n));
            let (x, w) =
                (operand(dice, number, &[b, m, k], values), operand(dice, number, &[b, k, n], values));
            let bias = number.is_float() && dice.once_in(2);
            let bias = bias.then(|| operand(dice, number, &[b, m, n], values));
            Call::Contract { x, w, bias }
        }
        Work::Conv | Work::ConvInputGrad | Work::ConvWeightGrad => convolution(dice, work, float, values),
        Work::Pool | Work::AvgPoolGrad => pool(dice, work, float, values),
        Work::Attention | Work::AttentionGrad => attention(dice, work, float)?,
        Work::Gather | Work::Scatter => by_index(dice, work, any, values, largest),
        Work::Nonzero => Call::Nonzero { x: operand(dice, any, &shape, Values::Few) },
        Work::Update => {
            let count = dice.between(1, 3);
            let items = (0..count).map(|_| {
                let rank = dice.between(0, 2);
                let shape = dice.shape(rank, largest);
                let float = dice.pick(FLOATS);
                updated(dice, float, &shape, values)
            });
            Call::Update { items: items.collect() }
        }
        // A new kind of work is drawn here once there are calls of it.
        #[allow(unreachable_patterns, reason = "today there are calls of all kinds")]
        other => unreachable!("no calls of {other:?} are drawn"),
    })
}

pub(super) fn operand(dice: &mut Dice, dtype: DType, shape: &[usize], values: Values) -> Operand {
    let (layout, len) = dice.layout(shape);
    Operand { data: dice.data(dtype, len, values), layout }
}

/// Memory of this shape without gaps.
pub(super) fn packed(data: HostData, shape: &[usize]) -> Operand {
    Operand { data, layout: Layout::contiguous(Shape::new(shape).expect("sizes are small")) }
}

/// A parameter, a state in the type in which it is computed, a gradient and a scalar.
fn updated(dice: &mut Dice, dtype: DType, shape: &[usize], values: Values) -> [Operand; 4] {
    let layout = Layout::contiguous(Shape::new(shape).expect("sizes are small"));
    let n = layout.shape().numel();
    let mut flat = |dtype| Operand { data: dice.data(dtype, n, values), layout: layout.clone() };
    let (x, m) = (flat(dtype), flat(dtype.compute()));
    let s = Operand {
        data: dice.data(dtype.compute(), 1, Values::Tame),
        layout: Layout::contiguous(Shape::scalar())
            .broadcast_to(layout.shape(), "draw")
            .expect("a scalar fits every shape"),
    };
    [x, m, operand(dice, dtype, shape, values), s]
}

/// An operand whose last axes are rows.
fn reduced(dice: &mut Dice, dtype: DType, values: Values, largest: usize) -> (Operand, usize) {
    let rank = dice.between(0, 4);
    let shape = dice.shape(rank, largest);
    (operand(dice, dtype, &shape, values), dice.between(0, rank))
}

/// Parts of a new tensor along one axis, some of them left at the fill value, some written
/// backwards.
fn assemble(dice: &mut Dice, dtype: DType, values: Values, largest: usize) -> Call {
    let rank = dice.between(1, 4);
    let shape = dice.shape(rank, largest);
    let axis = dice.below(rank);
    let whole = Layout::contiguous(Shape::new(&shape).expect("sizes are small"));
    let (mut parts, mut at) = (Vec::new(), 0);
    while at < shape[axis] {
        let len = dice.between(1, shape[axis] - at);
        if !dice.once_in(4) {
            let mut place = whole.slice(axis, at, len, 1);
            if dice.once_in(4) {
                place = place.flip(axis);
            }
            parts.push((operand(dice, dtype, place.shape(), values), place));
        }
        at += len;
    }
    Call::Assemble { fill: Scalar::Int(1), dtype, shape, parts }
}

fn convolution(dice: &mut Dice, work: Work, dtype: DType, values: Values) -> Call {
    let spatial_rank = dice.between(1, 3);
    let groups = dice.between(1, 3);
    let channels = groups * dice.pick(&[1, 2, 3, 17]);
    let outs = groups * dice.pick(&[1, 2, 5, 16]);
    let n = dice.between(1, 2);
    let mut c =
        Conv { stride: vec![], padding: vec![], dilation: vec![], groups, precision: Precision::Exact };
    let (mut spatial, mut taps, mut out) = (vec![], vec![], vec![]);
    for _ in 0..spatial_rank {
        let (tap, stride, dilation) = (dice.between(1, 3), dice.between(1, 3), dice.between(1, 2));
        let padding = dice.between(0, 2);
        let reach = dilation * (tap - 1) + 1;
        // At least one window fits.
        let size = reach.saturating_sub(2 * padding).max(1) + dice.below([40, 8, 4][spatial_rank - 1]);
        out.push((size + 2 * padding - reach) / stride + 1);
        spatial.push(size);
        taps.push(tap);
        c.stride.push(stride);
        c.padding.push(padding);
        c.dilation.push(dilation);
    }
    let sizes = |a: usize, b: usize, rest: &[usize]| [&[a, b], rest].concat();
    let x = sizes(n, channels, &spatial);
    let w = sizes(outs, channels / groups, &taps);
    let y = sizes(n, outs, &out);
    match work {
        Work::ConvInputGrad => {
            let (g, w) = (operand(dice, dtype, &y, values), operand(dice, dtype, &w, values));
            Call::ConvInputGrad { c, g, w, spatial }
        }
        Work::ConvWeightGrad => {
            let (x, g) = (operand(dice, dtype, &x, values), operand(dice, dtype, &y, values));
            Call::ConvWeightGrad { c, x, g, taps }
        }
        _ => {
            let bias = dice.once_in(2).then(|| operand(dice, dtype, &y, values));
            let (x, w) = (operand(dice, dtype, &x, values), operand(dice, dtype, &w, values));
            Call::Conv { c, x, w, out, bias }
        }
    }
}

fn pool(dice: &mut Dice, work: Work, dtype: DType, values: Values) -> Call {
    let kind = if work == Work::Pool { dice.pick(&[PoolKind::Max, PoolKind::Avg]) } else { PoolKind::Avg };
    let spatial_rank = dice.between(1, 3);
    let (mut axes, mut shape, mut spatial) = (vec![], vec![dice.between(1, 3), dice.between(1, 3)], vec![]);
    for _ in 0..spatial_rank {
        let (tap, stride, dilation) = (dice.between(1, 3), dice.between(1, 3), dice.between(1, 2));
        // With dilation, a window in the padding could miss the input altogether.
        let padding = if dilation == 1 { dice.between(0, tap / 2) } else { 0 };
        let reach = dilation * (tap - 1) + 1;
        let size = reach + dice.below([40, 9, 5][spatial_rank - 1]);
        let count = (size + 2 * padding - reach) / stride + 1;
        let start: Vec<isize> = (0..count).map(|i| (i * stride) as isize - padding as isize).collect();
        let inside = |s: &isize| {
            (0..tap as isize).filter(|t| (0..size as isize).contains(&(s + t * dilation as isize))).count()
        };
        let divisor = if dice.once_in(2) { vec![tap; count] } else { start.iter().map(inside).collect() };
        axes.push(Windows { start, len: vec![tap; count], divisor, dilation });
        spatial.push(size);
    }
    let p = Pool { kind, axes };
    if work == Work::Pool {
        shape.extend(&spatial);
        Call::Pool { x: operand(dice, dtype, &shape, values), p }
    } else {
        shape.extend(p.axes.iter().map(|a| a.start.len()));
        Call::AvgPoolGrad { g: operand(dice, dtype, &shape, values), p, spatial }
    }
}

fn attention(dice: &mut Dice, work: Work, dtype: DType) -> Result<Call> {
    let (b, j) = (dice.between(1, 2), dice.between(1, 2));
    let h = j * dice.between(1, 3);
    let (l, s) = (
        dice.pick(&[1, 2, 5, 17, 33, 70]),
        dice.pick(&[1, 2, 15, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200]),
    );
    let (d, e) = (dice.pick(&[1, 3, 8, 16, 33]), dice.pick(&[1, 4, 16, 17]));
    let values = dice.pick(&[Values::Tame, Values::Tame, Values::Sparse]);
    let q = operand(dice, dtype, &[b, h, l, d], values);
    let k = operand(dice, dtype, &[b, j, s, d], values);
    let v = operand(dice, dtype, &[b, j, s, e], values);
    let mask = match dice.below(3) {
        0 => None,
        1 => Some(operand(dice, DType::Bool, &[b, h, l, s], Values::Few)),
        _ => Some(operand(dice, dtype, &[b, h, l, s], Values::Tame)),
    };
    let a = Attention::exact(1.0 / (d as f64).sqrt(), dice.once_in(3));
    let call = Call::Attention { a, q: q.clone(), k: k.clone(), v: v.clone(), mask: mask.clone() };
    if work == Work::Attention {
        return Ok(call);
    }
    let forward = call.run::<Reference>(&Default::default())?;
    let held = |t: usize, shape: &[usize]| -> Result<Operand> {
        Ok(Operand { data: forward[t].data().clone(), layout: Layout::contiguous(Shape::new(shape)?) })
    };
    let (o, lse) = (held(0, &[b, h, l, e])?, held(1, &[b, h, l])?);
    let g = operand(dice, dtype, &[b, h, l, e], values);
    Ok(Call::AttentionGrad { a, q, k, v, mask, o, lse, g })
}

/// Gather or scatter along an axis; one time in ten an index is out of range, which must be an
/// error on every backend.
fn by_index(dice: &mut Dice, work: Work, dtype: DType, values: Values, largest: usize) -> Call {
    let rank = dice.between(1, 4);
    let shape = dice.shape(rank, largest);
    let axis = dice.below(rank);
    let mut index_shape = shape.clone();
    index_shape[axis] = if shape[axis] == 0 { 0 } else { dice.between(0, 9) };
    let (layout, len) = dice.layout(&index_shape);
    let mut index: Vec<i64> = (0..len).map(|_| dice.below(shape[axis]) as i64).collect();
    if dice.once_in(10) {
        let bad = dice.pick(&[-1, shape[axis] as i64, i64::MIN, i64::MAX]);
        // Only inside the view: a backend need not read the rest.
        if let Some(p) = layout.positions().next() {
            index[p] = bad;
        }
    }
    let index = Operand { data: HostData::I64(index.into()), layout };
    let x = operand(dice, dtype, &shape, values);
    if work == Work::Gather {
        return Call::Gather { x, axis, index };
    }
    // Bool has no addition.
    let how = if dtype == DType::Bool { Scatter::Set } else { dice.pick(&[Scatter::Set, Scatter::Add]) };
    let src = operand(dice, dtype, &index_shape, values);
    Call::Scatter { how, base: x, axis, index, src }
}
