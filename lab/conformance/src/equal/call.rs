//! One call of a backend as data: the work and its memory. It can be printed, and run on any
//! backend.

mod formulas;

use crate::twist::Work;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, HostData, HostTensor, Layout, Precision, Result, Scalar, Shape};
use elinvar_ops::Array;
use elinvar_ops::backend::{
    AddBias, ArgFold, Attention, Backend, Changed, CompiledEpilogue, Conv, Fold, Placed, Pool, Random, Scan,
    Scatter, UpdateItem, View,
};
use elinvar_ops::casting::{All, Halves};
use elinvar_ops::fold;
use elinvar_ops::int::Int;
use elinvar_ops::lane::Lane;
use elinvar_ops::map::{Compiled, IntMap, Map, Out};
use elinvar_ops::op::{Context, Saves};
use elinvar_ops::rows::{CompiledRows, RowFormula, RowOut, Rows, STATS};
use elinvar_ops::update::{CompiledUpdate, Update, Updating};
use elinvar_ops::value::Value;
use formulas::{Averages, Elementary, Inside, Integers, Primitives, Rounding, Spread, Standard};
use std::fmt;

/// Memory and a view of it.
#[derive(Clone)]
pub struct Operand {
    /// The whole buffer.
    pub data: HostData,
    /// The layout of the view.
    pub layout: Layout,
}

impl fmt::Debug for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let l = &self.layout;
        write!(f, "{}{} strides {:?} offset {}", self.data.dtype(), l.shape(), l.strides(), l.offset())
    }
}

/// A call. Operands and parameters are those of the method of [`Backend`] of the same name.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "one call at a time is in memory")]
#[allow(missing_docs, reason = "fields have the names of the parameters of Backend's methods")]
pub enum Call {
    Upload {
        x: Operand,
    },
    Download {
        x: Operand,
    },
    Fill {
        value: Scalar,
        dtype: DType,
        len: usize,
    },
    Random {
        r: Random,
        seed: u64,
        /// Is the stream in the device's memory?
        in_memory: bool,
        dtype: DType,
        len: usize,
    },
    Copy {
        x: Operand,
        to: DType,
    },
    Assemble {
        fill: Scalar,
        dtype: DType,
        shape: Vec<usize>,
        parts: Vec<(Operand, Layout)>,
    },
    Map {
        formula: usize,
        x: [Operand; 3],
        dtype: DType,
    },
    MapInt {
        x: [Operand; 2],
        dtype: DType,
    },
    Fold {
        f: Fold,
        x: Operand,
        kept: usize,
        to: DType,
    },
    ArgFold {
        f: ArgFold,
        x: Operand,
        kept: usize,
    },
    Scan {
        f: Scan,
        x: Operand,
        to: DType,
    },
    Rows {
        once: bool,
        x: [Operand; 2],
        kept: usize,
        dtype: DType,
    },
    Sort {
        x: Operand,
        descending: bool,
        first: usize,
    },
    Contract {
        x: Operand,
        w: Operand,
        bias: Option<Operand>,
    },
    Conv {
        c: Conv,
        x: Operand,
        w: Operand,
        out: Vec<usize>,
        bias: Option<Operand>,
    },
    ConvInputGrad {
        c: Conv,
        g: Operand,
        w: Operand,
        spatial: Vec<usize>,
    },
    ConvWeightGrad {
        c: Conv,
        x: Operand,
        g: Operand,
        taps: Vec<usize>,
    },
    Pool {
        p: Pool,
        x: Operand,
    },
    AvgPoolGrad {
        p: Pool,
        g: Operand,
        spatial: Vec<usize>,
    },
    Attention {
        a: Attention,
        q: Operand,
        k: Operand,
        v: Operand,
        mask: Option<Operand>,
    },
    AttentionGrad {
        a: Attention,
        q: Operand,
        k: Operand,
        v: Operand,
        mask: Option<Operand>,
        o: Operand,
        lse: Operand,
        g: Operand,
    },
    Gather {
        x: Operand,
        axis: usize,
        index: Operand,
    },
    Scatter {
        how: Scatter,
        base: Operand,
        axis: usize,
        index: Operand,
        src: Operand,
    },
    Nonzero {
        x: Operand,
    },
    /// For each item: two buffers that change, and two that are read.
    Update {
        items: Vec<[Operand; 4]>,
    },
}

impl Call {
    /// Its kind of work.
    pub fn work(&self) -> Work {
        match self {
            Call::Upload { .. } => Work::Upload,
            Call::Download { .. } => Work::Download,
            Call::Fill { .. } => Work::Fill,
            Call::Random { .. } => Work::Random,
            Call::Copy { .. } => Work::Copy,
            Call::Assemble { .. } => Work::Assemble,
            Call::Map { .. } => Work::Map,
            Call::MapInt { .. } => Work::MapInt,
            Call::Fold { .. } => Work::Fold,
            Call::ArgFold { .. } => Work::ArgFold,
            Call::Scan { .. } => Work::Scan,
            Call::Rows { .. } => Work::Rows,
            Call::Sort { .. } => Work::Sort,
            Call::Contract { .. } => Work::Contract,
            Call::Conv { .. } => Work::Conv,
            Call::ConvInputGrad { .. } => Work::ConvInputGrad,
            Call::ConvWeightGrad { .. } => Work::ConvWeightGrad,
            Call::Pool { .. } => Work::Pool,
            Call::AvgPoolGrad { .. } => Work::AvgPoolGrad,
            Call::Attention { .. } => Work::Attention,
            Call::AttentionGrad { .. } => Work::AttentionGrad,
            Call::Gather { .. } => Work::Gather,
            Call::Scatter { .. } => Work::Scatter,
            Call::Nonzero { .. } => Work::Nonzero,
            Call::Update { .. } => Work::Update,
        }
    }

    /// Runs it. The results are flat.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn run<B: Backend>(&self, d: &B::Device) -> Result<Vec<HostTensor>> {
        let up = |x: &Operand| Held::<B>::new(d, x);
        let ups = |x: &Option<Operand>| x.as_ref().map(up).transpose();
        let down = |b: B::Buffer, dtype: DType, len: usize| flat::<B>(d, &b, dtype, len);
        let placed = |y: Placed<B::Buffer>, dtype: DType, shape: Shape| {
            let layout = y.layout.unwrap_or_else(|| Layout::contiguous(shape));
            let len = layout.shape().numel();
            let data = B::download(d, View { buffer: &y.buffer, layout: &layout, dtype })?;
            HostTensor::new(Shape::new(&[len])?, data)
        };
        let area = |sizes: &[usize]| sizes.iter().product::<usize>();
        Ok(match self {
            Call::Upload { x } => {
                let buffer = B::upload(d, x.data.clone())?;
                vec![down(buffer, x.data.dtype(), x.data.len())?]
            }
            Call::Download { x } => {
                let data = B::download(d, up(x)?.view())?;
                vec![HostTensor::new(x.layout.shape().clone(), data)?]
            }
            Call::Fill { value, dtype, len } => vec![down(B::fill(d, *value, *dtype, *len)?, *dtype, *len)?],
            Call::Random { r, seed, in_memory, dtype, len } => {
                let stream = Stream { seed: *seed, stream: 1 };
                let words = Array::<B>::from_vec(d, stream.to_words().to_vec(), &[4])?;
                let (s, at) = match in_memory {
                    true => (Stream { seed: 0, stream: 0 }, Some(words.view())),
                    false => (stream, None),
                };
                vec![down(B::random(d, *r, s, at, *dtype, *len)?, *dtype, *len)?]
            }
            Call::Copy { x, to } => {
                let (x, from, len) = (up(x)?, x.data.dtype(), x.layout.shape().numel());
                let mut all = vec![down(B::cast::<All>(d, x.view(), *to)?, *to, len)?];
                if from == *to {
                    all.push(down(B::copy(d, x.view())?, *to, len)?);
                }
                let halves = |x: DType, y: DType| x.is_storage() && y == DType::F32;
                if halves(from, *to) || halves(*to, from) {
                    all.push(down(B::cast::<Halves>(d, x.view(), *to)?, *to, len)?);
                }
                all
            }
            Call::Assemble { fill, dtype, shape, parts } => {
                let held = parts.iter().map(|(x, _)| up(x)).collect::<Result<Vec<_>>>()?;
                let parts: Vec<_> = held.iter().zip(parts).map(|(h, (_, l))| (h.view(), l.clone())).collect();
                let buffer = B::assemble(d, *fill, *dtype, &Shape::new(shape)?, &parts)?;
                vec![down(buffer, *dtype, area(shape))?]
            }
            Call::Map { formula, x: [x, y, z], dtype } => {
                let (hx, hy, hz) = (up(x)?, up(y)?, up(z)?);
                let len = x.layout.shape().numel();
                match formula {
                    0 => vec![down(
                        B::map(d, &Compiled::<_, 3>(Primitives), &[hx.view(), hy.view(), hz.view()], *dtype)?,
                        *dtype,
                        len,
                    )?],
                    1 => vec![down(
                        B::map(d, &Compiled::<_, 1>(Rounding), &[hx.view()], *dtype)?,
                        *dtype,
                        len,
                    )?],
                    2 => vec![down(
                        B::map(d, &Compiled::<_, 3>(Inside), &[hx.view(), hy.view(), hz.view()], *dtype)?,
                        DType::Bool,
                        len,
                    )?],
                    _ => vec![down(
                        B::map(d, &Compiled::<_, 2>(Elementary), &[hx.view(), hy.view()], *dtype)?,
                        *dtype,
                        len,
                    )?],
                }
            }
            Call::MapInt { x: [x, y], dtype } => {
                let buffer =
                    B::map_int(d, &Compiled::<_, 2>(Integers), &[up(x)?.view(), up(y)?.view()], *dtype)?;
                vec![down(buffer, *dtype, x.layout.shape().numel())?]
            }
            Call::Fold { f, x, kept, to } => {
                vec![down(
                    fold::by::<B>(d, *f, up(x)?.view(), *kept, *to)?,
                    *to,
                    area(&x.layout.shape()[..*kept]),
                )?]
            }
            Call::ArgFold { f, x, kept } => {
                let buffer = B::arg_fold(d, *f, up(x)?.view(), *kept)?;
                vec![down(buffer, DType::I64, area(&x.layout.shape()[..*kept]))?]
            }
            Call::Scan { f, x, to } => {
                vec![placed(B::scan(d, *f, up(x)?.view(), *to)?, *to, x.layout.shape().clone())?]
            }
            Call::Rows { once, x: [x, y], kept, dtype } => {
                let (hx, hy) = (up(x)?, up(y)?);
                let views = [hx.view(), hy.view()];
                if *once {
                    let y = B::rows(d, Spread::object(&Compiled(Spread)), &views, *kept, *dtype)?;
                    vec![placed(y, *dtype, Shape::new(&x.layout.shape()[..*kept])?)?]
                } else {
                    let y = B::rows(d, Standard::object(&Compiled(Standard)), &views, *kept, *dtype)?;
                    vec![placed(y, *dtype, x.layout.shape().clone())?]
                }
            }
            Call::Sort { x, descending, first } => {
                let (values, indices) = B::sort(d, up(x)?.view(), *descending, *first)?;
                let len = area(&x.layout.shape()[..x.layout.rank() - 1]) * first;
                vec![down(values, x.data.dtype(), len)?, down(indices, DType::I64, len)?]
            }
            Call::Contract { x, w, bias } => {
                let (hx, hw, hb) = (up(x)?, up(w)?, ups(bias)?);
                let (xs, ws) = (x.layout.shape(), w.layout.shape());
                let len = xs[0] * xs[1] * ws[2];
                let buffer = match &hb {
                    None => B::contract(d, Precision::Exact, hx.view(), hw.view(), None, &[])?,
                    Some(b) => B::contract(
                        d,
                        Precision::Exact,
                        hx.view(),
                        hw.view(),
                        Some(AddBias::object(&Compiled(AddBias))),
                        &[b.view()],
                    )?,
                };
                vec![down(buffer, x.data.dtype(), len)?]
            }
            Call::Conv { c, x, w, out, bias } => {
                let (hx, hw, hb) = (up(x)?, up(w)?, ups(bias)?);
                let len = x.layout.shape()[0] * w.layout.shape()[0] * area(out);
                let buffer = match &hb {
                    None => B::conv(d, c, hx.view(), hw.view(), out, None, &[])?,
                    Some(b) => B::conv(
                        d,
                        c,
                        hx.view(),
                        hw.view(),
                        out,
                        Some(AddBias::object(&Compiled(AddBias))),
                        &[b.view()],
                    )?,
                };
                vec![down(buffer, x.data.dtype(), len)?]
            }
            Call::ConvInputGrad { c, g, w, spatial } => {
                let len = g.layout.shape()[0] * w.layout.shape()[1] * c.groups * area(spatial);
                let buffer = B::conv_input_grad(d, c, up(g)?.view(), up(w)?.view(), spatial)?;
                vec![down(buffer, g.data.dtype(), len)?]
            }
            Call::ConvWeightGrad { c, x, g, taps } => {
                let len = g.layout.shape()[1] * (x.layout.shape()[1] / c.groups) * area(taps);
                let buffer = B::conv_weight_grad(d, c, up(x)?.view(), up(g)?.view(), taps)?;
                vec![down(buffer, x.data.dtype(), len)?]
            }
            Call::Pool { p, x } => {
                let planes = area(&x.layout.shape()[..x.layout.rank() - p.axes.len()]);
                let len = planes * p.axes.iter().map(|a| a.start.len()).product::<usize>();
                let (y, winners) = B::pool(d, p, up(x)?.view())?;
                let mut all = vec![down(y, x.data.dtype(), len)?];
                if let Some(w) = winners {
                    all.push(down(w, DType::I64, len)?);
                }
                all
            }
            Call::AvgPoolGrad { p, g, spatial } => {
                let planes = area(&g.layout.shape()[..g.layout.rank() - p.axes.len()]);
                let buffer = B::avg_pool_grad(d, p, up(g)?.view(), spatial)?;
                vec![down(buffer, g.data.dtype(), planes * area(spatial))?]
            }
            Call::Attention { a, q, k, v, mask } => {
                let rows = area(&q.layout.shape()[..3]);
                let (hq, hk, hv, hm) = (up(q)?, up(k)?, up(v)?, ups(mask)?);
                let mask = hm.as_ref().map(Held::view);
                let (o, lse) = B::attention(d, a, hq.view(), hk.view(), hv.view(), mask)?;
                let dtype = q.data.dtype();
                vec![down(o, dtype, rows * v.layout.shape()[3])?, down(lse, dtype.compute(), rows)?]
            }
            Call::AttentionGrad { a, q, k, v, mask, o, lse, g } => {
                let (hq, hk, hv, hm) = (up(q)?, up(k)?, up(v)?, ups(mask)?);
                let (ho, hl, hg) = (up(o)?, up(lse)?, up(g)?);
                let mask = hm.as_ref().map(Held::view);
                let (dq, dk, dv) = B::attention_grad(
                    d,
                    a,
                    hq.view(),
                    hk.view(),
                    hv.view(),
                    mask,
                    ho.view(),
                    hl.view(),
                    hg.view(),
                )?;
                let (dtype, len) = (q.data.dtype(), |x: &Operand| x.layout.shape().numel());
                vec![down(dq, dtype, len(q))?, down(dk, dtype, len(k))?, down(dv, dtype, len(v))?]
            }
            Call::Gather { x, axis, index } => {
                let buffer = B::gather(d, up(x)?.view(), *axis, up(index)?.view())?;
                vec![down(buffer, x.data.dtype(), index.layout.shape().numel())?]
            }
            Call::Scatter { how, base, axis, index, src } => {
                let (hb, hi, hs) = (up(base)?, up(index)?, up(src)?);
                let buffer = B::scatter(d, *how, hb.view(), *axis, hi.view(), hs.view())?;
                vec![down(buffer, base.data.dtype(), base.layout.shape().numel())?]
            }
            Call::Nonzero { x } => {
                let (buffer, count) = B::nonzero(d, up(x)?.view())?;
                vec![down(buffer, DType::I64, count)?]
            }
            Call::Update { items } => {
                let mut held = vec![];
                for [a, b, g, s] in items {
                    held.push((B::upload(d, a.data.clone())?, B::upload(d, b.data.clone())?, up(g)?, up(s)?));
                }
                let mut parts = vec![];
                for ((a, b, g, s), x) in held.iter_mut().zip(items) {
                    parts.push(UpdateItem::new(
                        x[0].layout.shape().clone(),
                        x[0].data.dtype().compute(),
                        [
                            Changed { buffer: a, dtype: x[0].data.dtype() },
                            Changed { buffer: b, dtype: x[1].data.dtype() },
                        ],
                        [g.view(), s.view()],
                    ));
                }
                B::update(d, Averages::object(&Updating(Averages)), parts)?;
                let mut all = vec![];
                for ((a, b, ..), x) in held.into_iter().zip(items) {
                    let len = x[0].layout.shape().numel();
                    all.extend([down(a, x[0].data.dtype(), len)?, down(b, x[1].data.dtype(), len)?]);
                }
                all
            }
        })
    }
}

/// An operand on a device.
struct Held<B: Backend> {
    buffer: B::Buffer,
    layout: Layout,
    dtype: DType,
}

impl<B: Backend> Held<B> {
    fn new(d: &B::Device, x: &Operand) -> Result<Self> {
        Ok(Held { buffer: B::upload(d, x.data.clone())?, layout: x.layout.clone(), dtype: x.data.dtype() })
    }
    fn view(&self) -> View<'_, B> {
        View { buffer: &self.buffer, layout: &self.layout, dtype: self.dtype }
    }
}

fn flat<B: Backend>(d: &B::Device, buffer: &B::Buffer, dtype: DType, len: usize) -> Result<HostTensor> {
    let layout = Layout::contiguous(Shape::new(&[len])?);
    let shape = layout.shape().clone();
    HostTensor::new(shape, B::download(d, View { buffer, layout: &layout, dtype })?)
}

elinvar_ops::compile_map! { 3 Primitives; }

elinvar_ops::compile_map! { 1 Rounding; }

elinvar_ops::compile_map! { 3 Inside; }

elinvar_ops::compile_map! { 2 Elementary; }

elinvar_ops::compile_int_map! { 2 Integers; }

elinvar_ops::compile_rows! { 2 Standard; }

elinvar_ops::compile_rows! { 2 Spread; }

elinvar_ops::compile_update! { 2 2 Averages; }
