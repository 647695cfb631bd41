//! A backend whose work is done by the library's kernels, run by the interpreter; what the library
//! has not yet is done by the reference. Every kernel that it runs is also printed, read again and
//! compared.

mod run;

use crate::plans::LAVAPIPE;
use crate::ptx_machine;
use crate::vulkan_device::FULL;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, Element, Error, HostData, Layout, Precision, Result, Scalar, Shape, each_data};
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::attention;
use elinvar_gpu_kernels::conv::{self, ConvPass, ConvProblem};
use elinvar_gpu_kernels::elementwise::random::{self, StreamSource};
use elinvar_gpu_kernels::elementwise::update;
use elinvar_gpu_kernels::elementwise::{fill, map};
use elinvar_gpu_kernels::formula::{FloatFormula, Formula, IntFormula};
use elinvar_gpu_kernels::gemm::{self, CatalogueEpilogue, GemmProblem};
use elinvar_gpu_kernels::index::{gather, nonzero, scatter, sort};
use elinvar_gpu_kernels::launch::{BufferSlot, Key, LaunchSequence, Machine, Work};
use elinvar_gpu_kernels::layout::copy;
use elinvar_gpu_kernels::pool;
use elinvar_gpu_kernels::reduce::block_reduce::{RegisterBudget, RowTile};
use elinvar_gpu_kernels::reduce::rowwise::CatalogueRows;
use elinvar_gpu_kernels::reduce::{arg_fold, fold, multi_block_rowwise, plan, scan};
use elinvar_kernel::emit::ptx;
use elinvar_kernel::emit::spirv::{self, Device as SpirvDevice};
use elinvar_kernel::interp::{Launch, Memory, run};
use elinvar_kernel::ir::{Constant, Elem};
use elinvar_kernel::{Kernel, pass, text};
use elinvar_ops::DeviceOf;
use elinvar_ops::backend::{
    self, ArgFold, Attention, Conv, Delegate, EpilogueObject, Placed, Pool, PoolKind, Random, Scan, Scatter,
    UpdateItem, View, delegate,
};
use elinvar_ops::casting::{Casting, Halves};
use elinvar_ops::fold::Folding;
use elinvar_ops::map::{IntMapObject, MapObject, Out};
use elinvar_ops::rows::RowObject;
use elinvar_ops::update::UpdateObject;
use elinvar_reference::{Reference, ReferenceDevice};
use run::host;
pub use run::{run_steps, run_work, start};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

/// Kernels, interpreted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interpreted;

/// Its device; the form of kernels that it prefers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Of maps.
    pub map: map::MapChoice,
    /// How folds give rows to invocations.
    pub tile: Option<RowTile>,
    /// What invocations may hold of rows.
    pub hold: RegisterBudget,
    /// How products are cut into pieces.
    pub product: Option<gemm::SimtTile>,
    /// How convolutions are, if not as products.
    pub conv: Option<conv::ConvPath>,
    /// In which of the ways that there are then.
    pub way: Option<conv::ConvCandidate>,
    /// How attention is.
    pub attention: Option<attention::AttentionPath>,
}

impl Device {
    /// As plans see it.
    fn machine(&self) -> Machine<'static> {
        Machine { registers: self.hold, ..LAVAPIPE }
    }
    fn conv(&self) -> conv::ConvPath {
        self.conv.unwrap_or_else(|| self.product.map_or(conv::ConvPath::Direct, conv::ConvPath::ImplicitGemm))
    }
    fn attention(&self) -> attention::AttentionPath {
        self.attention.unwrap_or(attention::AttentionPath::Direct)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interpreted kernels")
    }
}
impl DeviceOf for Device {
    type Backend = Interpreted;
}

const R: ReferenceDevice = ReferenceDevice;

fn map_any(d: &Device, f: &dyn Formula, x: &[View<'_, Interpreted>], dtype: DType) -> Result<HostData> {
    let len = x[0].shape().numel();
    let to = match f.out() {
        Out::Same => dtype,
        Out::Bool => DType::Bool,
    };
    let operands: Vec<(&Layout, DType)> = x.iter().map(|v| (v.layout, v.dtype)).collect();
    let work = map::map_by(f, dtype, &operands, d.map);
    let Some(work) = work else { return HostData::full(to, 0, 0.into()) };
    let inputs: Vec<&HostData> = x.iter().map(|v| v.buffer).collect();
    Ok(start(&work, &inputs, &[(to, len)]).remove(0))
}

/// How many rows there are, and elements of each.
fn sizes(x: &View<'_, Interpreted>, kept: usize) -> [usize; 2] {
    [&x.shape()[..kept], &x.shape()[kept..]].map(|axes| axes.iter().product())
}

/// # Errors
/// `Unsupported` in a way that there is not.
fn convolve(d: &Device, asked: &ConvProblem<'_, '_>, inputs: &[&HostData]) -> Result<HostData> {
    let steps = conv::steps_by(asked, d.conv(), d.way.unwrap_or(conv::ConvCandidate::Default));
    let steps = steps.ok_or_else(|| Error::unsupported(format!("not {:?}", d.way)))?;
    Ok(host(&run_steps(&steps, inputs)[0]))
}

impl Delegate<Reference> for Interpreted {
    fn inner(buffer: &HostData) -> &HostData {
        buffer
    }
    fn inner_mut(buffer: &mut HostData) -> &mut HostData {
        buffer
    }
    fn results<const N: usize>(
        _: &Device,
        _: backend::Kind,
        y: [HostData; N],
        _: impl FnOnce() -> [(DType, usize); N],
    ) -> Result<[HostData; N]> {
        Ok(y)
    }
}

macro_rules! on {
    ($d:ident $call:tt) => {
        elinvar_ops::hand_over!(Reference, &R, $d $call)
    };
}
elinvar_ops::delegate_backend! {
    impl [] Memory for Interpreted, by on, except [fill, copy, cast, assemble] {
        type Device = Device;
        type Buffer = HostData;
        const NAME: &'static str = "interpreted";

        fn receive(_: &Device, _: &Device, _: View<'_, Self>) -> Result<Option<HostData>> {
            // All of its devices are the host.
            Ok(None)
        }
        fn fill(_: &Device, value: Scalar, dtype: DType, len: usize) -> Result<HostData> {
            match fill::fill(value, dtype, len) {
                Some(work) => Ok(start(&work, &[], &[(dtype, len)]).remove(0)),
                None => HostData::full(dtype, 0, 0.into()),
            }
        }
        fn copy(d: &Device, x: View<'_, Self>) -> Result<HostData> {
            Self::cast::<Halves>(d, x, x.dtype)
        }
        fn cast<C: Casting>(_: &Device, x: View<'_, Self>, to: DType) -> Result<HostData> {
            match copy::copy(x.layout, x.dtype, to) {
                Some(work) => Ok(start(&work, &[x.buffer], &[(to, x.shape().numel())]).remove(0)),
                None => HostData::full(to, 0, 0.into()),
            }
        }
        fn assemble(
            d: &Device,
            fill: Scalar,
            dtype: DType,
            shape: &Shape,
            parts: &[(View<'_, Self>, Layout)],
        ) -> Result<HostData> {
            let mut y = Memory::from_host(&Interpreted::fill(d, fill, dtype, shape.numel())?);
            for (part, to) in parts {
                if let Some(work) = copy::copy_into(part.layout, dtype, to) {
                    let mut buffers = vec![Memory::from_host(part.buffer), y];
                    run_work(&work, &mut buffers);
                    y = buffers.swap_remove(1);
                }
            }
            Ok(host(&y))
        }
    }
    impl [] Compute for Interpreted, by on, except [
        random, map, map_int, update, fold, arg_fold, scan, rows, sort, contract, conv, conv_input_grad,
        conv_weight_grad, pool, avg_pool_grad, attention, attention_grad, gather, scatter, nonzero
    ] {
        fn random(
            _: &Device,
            x: Random,
            s: Stream,
            at: Option<View<'_, Self>>,
            dtype: DType,
            len: usize,
        ) -> Result<HostData> {
            let source =
                at.map_or(StreamSource::Given(s), |at| StreamSource::Memory(at.layout.offset()));
            match random::random(x, source, dtype, len) {
                Some(work) => {
                    let inputs: Vec<&HostData> = at.iter().map(|at| at.buffer).collect();
                    Ok(start(&work, &inputs, &[(dtype, len)]).remove(0))
                }
                None => HostData::full(dtype, 0, 0.into()),
            }
        }
        fn map(d: &Device, f: &dyn MapObject, x: &[View<'_, Self>], dtype: DType) -> Result<HostData> {
            map_any(d, &FloatFormula(f.boxed()), x, dtype)
        }
        fn map_int(d: &Device, f: &dyn IntMapObject, x: &[View<'_, Self>], dtype: DType) -> Result<HostData> {
            map_any(d, &IntFormula(f.boxed()), x, dtype)
        }
        fn update(_: &Device, f: &dyn UpdateObject, items: Vec<UpdateItem<'_, Self>>) -> Result<()> {
            for item in items {
                let own = update::Item {
                    shape: item.shape,
                    dtype: item.dtype,
                    changes: item.changes.iter().map(|x| x.dtype).collect(),
                    reads: item.reads.iter().map(|v| (v.layout, v.dtype)).collect(),
                };
                let mut buffers: Vec<Memory> = item.changes.iter().map(|x| Memory::from_host(x.buffer)).collect();
                buffers.extend(item.reads.iter().map(|v| Memory::from_host(v.buffer)));
                let Some(work) = update::update(f, &own) else { continue };
                // Alone, and twice in one launch.
                let mut both = [&buffers[..], &buffers[..]].concat();
                run_work(&work, &mut buffers);
                if let Some(alike) = own.signature() {
                    run_work(&update::batched(f, &alike, &[&own, &own]), &mut both);
                    for i in 0..f.changes() {
                        for twice in [&both[i], &both[alike.buffers() + i]] {
                            assert_eq!(twice.cells, buffers[i].cells, "together");
                        }
                    }
                }
                for (x, after) in item.changes.into_iter().zip(&buffers) {
                    *x.buffer = host(after);
                }
            }
            Ok(())
        }
        fn fold<F: Folding>(d: &Device, x: View<'_, Self>, kept: usize, to: DType) -> Result<HostData> {
            let [rows, n] = sizes(&x, kept);
            if d.tile.is_none() {
                let path = plan::fold(rows, n, &d.machine()).path;
                let steps = fold::steps(F::FOLD, x.layout, x.dtype, kept, to, path, d.hold);
                return Ok(host(&run_steps(&steps, &[x.buffer])[0]));
            }
            let choice = fold::FoldChoice { tile: d.tile, budget: d.hold };
            match fold::fold(F::FOLD, x.layout, x.dtype, kept, to, choice) {
                Some(work) => Ok(start(&work, &[x.buffer], &[(to, rows)]).remove(0)),
                None => HostData::full(to, 0, 0.into()),
            }
        }
        fn arg_fold(d: &Device, f: ArgFold, x: View<'_, Self>, kept: usize) -> Result<HostData> {
            let [rows, n] = sizes(&x, kept);
            let steps = arg_fold::arg_fold(f, x.layout, x.dtype, kept, plan::arg_fold(rows, n, &d.machine()).path);
            Ok(host(&run_steps(&steps, &[x.buffer])[0]))
        }
        fn scan(d: &Device, f: Scan, x: View<'_, Self>, to: DType) -> Result<Placed<HostData>> {
            let [rows, n] = sizes(&x, x.shape().rank().saturating_sub(1));
            let steps = scan::steps(f, x.layout, x.dtype, to, plan::scan(rows, n, &d.machine()).path);
            Ok(host(&run_steps(&steps, &[x.buffer])[0]).into())
        }
        fn rows(
            d: &Device,
            f: &dyn RowObject,
            x: &[View<'_, Self>],
            kept: usize,
            dtype: DType,
        ) -> Result<Placed<HostData>> {
            let operands: Vec<(&Layout, DType)> = x.iter().map(|v| (v.layout, v.dtype)).collect();
            let [rows, n] = sizes(&x[0], kept);
            let len = rows * f.out().width(n, f.folds().len());
            let inputs: Vec<&HostData> = x.iter().map(|v| v.buffer).collect();
            let f = CatalogueRows(f.boxed());
            let path = plan::rowwise(rows, n, &d.machine()).path;
            let all = run_steps(&multi_block_rowwise::steps(&f, dtype, &operands, kept, path, d.hold), &inputs);
            assert_eq!(all[0].cells.len(), len);
            Ok(host(&all[0]).into())
        }
        fn sort(_: &Device, x: View<'_, Self>, descending: bool, first: usize) -> Result<(HostData, HostData)> {
            let all = run_steps(&sort::sort(x.layout, x.dtype, descending), &[x.buffer]);
            // Kernels sort whole rows.
            fn some<T: Element>(all: &[T], n: usize, first: usize) -> HostData {
                T::wrap(all.chunks(n.max(1)).flat_map(|row| &row[..first]).copied().collect::<Vec<_>>())
            }
            let n = x.shape().last().copied().unwrap_or(1);
            let some = |all: HostData| each_data!(&all, v => some(v, n, first));
            Ok((some(host(&all[0])), some(host(&all[1]))))
        }
        fn contract(
            d: &Device,
            p: Precision,
            x: View<'_, Self>,
            w: View<'_, Self>,
            e: Option<&dyn EpilogueObject>,
            extra: &[View<'_, Self>],
        ) -> Result<HostData> {
            if e.is_some() && !x.dtype.is_float() {
                return delegate::contract::<Self, Reference>(d, &R, p, x, w, e, extra);
            }
            let operands: Vec<(&Layout, DType)> = extra.iter().map(|v| (v.layout, v.dtype)).collect();
            let len = x.shape()[0] * x.shape()[1] * w.shape()[2];
            let e = CatalogueEpilogue(e);
            let mut inputs = vec![x.buffer, w.buffer];
            inputs.extend(extra.iter().map(|v| v.buffer));
            let Some(tile) = d.product else {
                let tile = gemm::SimtTile { group: [2, 4], each: [2, 2], depth: 4, slots: 0 };
                let steps = gemm::steps(
                    &GemmProblem::new(&e, x.dtype, x.layout, w.layout, &operands),
                    tile,
                    ComputeUnits::default(),
                );
                return Ok(host(&run_steps(&steps, &inputs)[0]));
            };
            match gemm::contract(&GemmProblem::new(&e, x.dtype, x.layout, w.layout, &operands), tile) {
                Some(work) => Ok(start(&work, &inputs, &[(x.dtype, len)]).remove(0)),
                None => HostData::full(x.dtype, 0, 0.into()),
            }
        }
        fn conv(
            d: &Device,
            c: &Conv,
            x: View<'_, Self>,
            w: View<'_, Self>,
            out: &[usize],
            e: Option<&dyn EpilogueObject>,
            extra: &[View<'_, Self>],
        ) -> Result<HostData> {
            let operands: Vec<(&Layout, DType)> = extra.iter().map(|v| (v.layout, v.dtype)).collect();
            let e = CatalogueEpilogue(e);
            let mut inputs = vec![x.buffer, w.buffer];
            inputs.extend(extra.iter().map(|v| v.buffer));
            convolve(d, &ConvProblem::forward(&e, c, x.dtype, [x.layout, w.layout], out, &operands), &inputs)
        }
        fn conv_input_grad(
            d: &Device,
            c: &Conv,
            g: View<'_, Self>,
            w: View<'_, Self>,
            spatial: &[usize],
        ) -> Result<HostData> {
            let asked = ConvProblem::gradient(ConvPass::GradInput, c, g.dtype, [g.layout, w.layout], spatial);
            convolve(d, &asked, &[g.buffer, w.buffer])
        }
        fn conv_weight_grad(
            d: &Device,
            c: &Conv,
            x: View<'_, Self>,
            g: View<'_, Self>,
            taps: &[usize],
        ) -> Result<HostData> {
            let asked = ConvProblem::gradient(ConvPass::GradWeight, c, x.dtype, [x.layout, g.layout], taps);
            convolve(d, &asked, &[x.buffer, g.buffer])
        }
        fn pool(_: &Device, p: &Pool, x: View<'_, Self>) -> Result<(HostData, Option<HostData>)> {
            let planes: usize = x.shape()[..x.shape().rank() - p.axes.len()].iter().product();
            let len = planes * p.axes.iter().map(|a| a.start.len()).product::<usize>();
            let outs = [(x.dtype, len), (DType::I64, len)];
            let outs = if p.kind == PoolKind::Max { &outs[..] } else { &outs[..1] };
            let mut made = match pool::pool(p, x.dtype, x.layout) {
                Some(work) => start(&work, &[x.buffer], outs),
                None => outs.iter().map(|&(d, _)| HostData::full(d, 0, 0.into())).collect::<Result<_>>()?,
            };
            let y = made.remove(0);
            Ok((y, made.pop()))
        }
        fn avg_pool_grad(_: &Device, p: &Pool, g: View<'_, Self>, spatial: &[usize]) -> Result<HostData> {
            let planes: usize = g.shape()[..g.shape().rank() - p.axes.len()].iter().product();
            let len = planes * spatial.iter().product::<usize>();
            match pool::backward::average(p, g.dtype, g.layout, spatial) {
                Some(work) => Ok(start(&work, &[g.buffer], &[(g.dtype, len)]).remove(0)),
                None => HostData::full(g.dtype, 0, 0.into()),
            }
        }
        fn attention(
            d: &Device,
            a: &Attention,
            q: View<'_, Self>,
            k: View<'_, Self>,
            v: View<'_, Self>,
            mask: Option<View<'_, Self>>,
        ) -> Result<(HostData, HostData)> {
            let rows: usize = q.shape()[..3].iter().product();
            let outs = [(q.dtype, rows * v.shape()[3]), (q.dtype.compute(), rows)];
            let layouts = [q.layout, k.layout, v.layout];
            let of_mask = mask.map(|m| (m.layout, m.dtype));
            let work = attention::attention(a, q.dtype, layouts, of_mask, d.attention());
            let mut made = match work {
                Some(work) => {
                    let mut inputs = vec![q.buffer, k.buffer, v.buffer];
                    inputs.extend(mask.map(|m| m.buffer));
                    start(&work, &inputs, &outs)
                }
                None => outs.iter().map(|&(d, _)| HostData::full(d, 0, 0.into())).collect::<Result<_>>()?,
            };
            let y = made.remove(0);
            Ok((y, made.remove(0)))
        }
        fn attention_grad(
            d: &Device,
            a: &Attention,
            q: View<'_, Self>,
            k: View<'_, Self>,
            v: View<'_, Self>,
            mask: Option<View<'_, Self>>,
            o: View<'_, Self>,
            lse: View<'_, Self>,
            g: View<'_, Self>,
        ) -> Result<(HostData, HostData, HostData)> {
            let given = attention::BackwardInputs {
                q: q.layout,
                k: k.layout,
                v: v.layout,
                o: o.layout,
                lse: lse.layout,
                g: g.layout,
                mask: mask.map(|m| (m.layout, m.dtype)),
            };
            let steps = attention::attention_grad(a, q.dtype, given, d.attention());
            let mut inputs = vec![q.buffer, k.buffer, v.buffer, o.buffer, lse.buffer, g.buffer];
            inputs.extend(mask.map(|m| m.buffer));
            let all = run_steps(&steps, &inputs);
            Ok((host(&all[0]), host(&all[1]), host(&all[2])))
        }
        fn gather(_: &Device, x: View<'_, Self>, axis: usize, index: View<'_, Self>) -> Result<HostData> {
            let Some(work) = gather::gather(x.layout, x.dtype, axis, index.layout) else {
                return HostData::full(x.dtype, 0, 0.into());
            };
            let mut buffers = vec![Memory::from_host(x.buffer), Memory::from_host(index.buffer)];
            buffers.push(Memory::of(x.dtype, index.shape().numel()));
            buffers.push(Memory::zeros(Elem::U32, 1));
            run_work(&work, &mut buffers);
            if buffers[3].cells[0] != 0 {
                return Err(Error::argument("gather: an index is out of range"));
            }
            Ok(buffers[2].to_host().expect("a result has a dtype"))
        }
        fn scatter(
            _: &Device,
            how: Scatter,
            base: View<'_, Self>,
            axis: usize,
            index: View<'_, Self>,
            src: View<'_, Self>,
        ) -> Result<HostData> {
            let steps = scatter::scatter(how, base.dtype, base.layout, axis, index.layout, src.layout);
            let all = run_steps(&steps, &[base.buffer, index.buffer, src.buffer]);
            if all[1].cells[0] != 0 {
                return Err(Error::argument("scatter: an index is out of range"));
            }
            Ok(host(&all[0]))
        }
        fn nonzero(_: &Device, x: View<'_, Self>) -> Result<(HostData, usize)> {
            let mut all = run_steps(&nonzero::nonzero(x.layout, x.dtype), &[x.buffer]);
            let count = all[1].cells[0] as usize;
            all[0].cells.truncate(count);
            Ok((host(&all[0]), count))
        }
    }
}
// Running a function again costs what its work costs: there is no queue to fill.
elinvar_ops::without_capture! { impl [] Interpreted }
elinvar_ops::host_streams! { impl [] Interpreted }
