//! A backend from outside: here, one that counts what it is asked for and lets the reference do the work.
//!
//! `Tensor<Counting>` has every method, operator and gradient without another line.
//!
//! ```sh
//! cargo run -p elinvar --example own_backend
//! ```

use elinvar::core::philox::Stream;
use elinvar::core::{DType, HostData, Layout, MemoryStats, Precision, Scalar, Shape};
use elinvar::ops::backend::*;
use elinvar::ops::casting::Casting;
use elinvar::ops::fold::Folding;
use elinvar::ops::map::{IntMapObject, Map, MapObject};
use elinvar::ops::rows::{ColumnsObject, RowObject};
use elinvar::ops::update::Update;
use elinvar::{Reference, ReferenceDevice, Result};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

type Tensor = elinvar::Tensor<Counting>;

#[derive(Clone, Copy, Debug, Default)]
struct Counting;

/// Clones share the counts.
#[derive(Clone, Debug, Default)]
struct Counter {
    counts: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

impl DeviceOf for Counter {
    type Backend = Counting;
}

impl PartialEq for Counter {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.counts, &other.counts)
    }
}

impl std::fmt::Display for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("counting")
    }
}

impl Counter {
    fn count(&self, kind: &'static str) -> &'static ReferenceDevice {
        *self.counts.lock().unwrap().entry(kind).or_default() += 1;
        &ReferenceDevice
    }
}

fn to(v: View<'_, Counting>) -> View<'_, Reference> {
    View { buffer: v.buffer, layout: v.layout, dtype: v.dtype }
}

fn all<'a>(x: &[View<'a, Counting>]) -> Vec<View<'a, Reference>> {
    x.iter().copied().map(to).collect()
}

impl Memory for Counting {
    type Device = Counter;
    type Buffer = HostData;
    const NAME: &'static str = "counting";
    fn upload(d: &Counter, data: HostData) -> Result<HostData> {
        Reference::upload(d.count("upload"), data)
    }
    fn download(d: &Counter, x: View<'_, Self>) -> Result<HostData> {
        Reference::download(d.count("download"), to(x))
    }
    fn receive(_: &Counter, _: &Counter, _: View<'_, Self>) -> Result<Option<HostData>> {
        // All of its devices are the host.
        Ok(None)
    }
    fn finish(d: &Counter, buffer: &HostData) -> Result<()> {
        Reference::finish(d.count("finish"), buffer)
    }
    fn synchronize(d: &Counter) -> Result<()> {
        Reference::synchronize(d.count("synchronize"))
    }
    fn memory_stats(d: &Counter) -> Result<MemoryStats> {
        Reference::memory_stats(d.count("memory_stats"))
    }
    fn set_memory_limit(d: &Counter, limit: Option<u64>) -> Result<()> {
        Reference::set_memory_limit(d.count("set_memory_limit"), limit)
    }
    fn release_memory(d: &Counter) -> Result<()> {
        Reference::release_memory(d.count("release_memory"))
    }
    fn prepack(d: &Counter, w: View<'_, Self>) -> Result<bool> {
        Reference::prepack(d.count("prepack"), to(w))
    }
    fn fill(d: &Counter, value: Scalar, dtype: DType, len: usize) -> Result<HostData> {
        Reference::fill(d.count("fill"), value, dtype, len)
    }
    fn copy(d: &Counter, x: View<'_, Self>) -> Result<HostData> {
        Reference::copy(d.count("copy"), to(x))
    }
    fn cast<C: Casting>(d: &Counter, x: View<'_, Self>, dtype: DType) -> Result<HostData> {
        Reference::cast::<C>(d.count("cast"), to(x), dtype)
    }
    fn assemble(
        d: &Counter,
        fill: Scalar,
        dtype: DType,
        shape: &Shape,
        parts: &[(View<'_, Self>, Layout)],
    ) -> Result<HostData> {
        Reference::assemble(
            d.count("assemble"),
            fill,
            dtype,
            shape,
            &parts.iter().map(|(v, l)| (to(*v), l.clone())).collect::<Vec<_>>(),
        )
    }
}

impl Compute for Counting {
    fn precision(d: &Counter) -> Precision {
        Reference::precision(d.count("precision"))
    }
    fn random(d: &Counter, r: Random, s: Stream, dtype: DType, len: usize) -> Result<HostData> {
        Reference::random(d.count("random"), r, s, dtype, len)
    }
    fn map(d: &Counter, f: &dyn MapObject, x: &[View<'_, Self>], dtype: DType) -> Result<HostData> {
        Reference::map(d.count("map"), f, &all(x), dtype)
    }
    fn map_int(d: &Counter, f: &dyn IntMapObject, x: &[View<'_, Self>], dtype: DType) -> Result<HostData> {
        Reference::map_int(d.count("map_int"), f, &all(x), dtype)
    }
    fn update<U: Update<M, R>, const M: usize, const R: usize>(
        d: &Counter,
        u: &U,
        items: Vec<UpdateItem<'_, Self, M, R>>,
    ) -> Result<()> {
        let items = items.into_iter().map(|i| i.of(std::convert::identity, to)).collect();
        Reference::update(d.count("update"), u, items)
    }
    fn fold<F: Folding>(d: &Counter, x: View<'_, Self>, kept: usize, dtype: DType) -> Result<HostData> {
        Reference::fold::<F>(d.count("fold"), to(x), kept, dtype)
    }
    fn arg_fold(d: &Counter, f: ArgFold, x: View<'_, Self>, kept: usize) -> Result<HostData> {
        Reference::arg_fold(d.count("arg_fold"), f, to(x), kept)
    }
    fn scan(d: &Counter, f: Scan, x: View<'_, Self>, dtype: DType) -> Result<Placed<HostData>> {
        Reference::scan(d.count("scan"), f, to(x), dtype)
    }
    fn rows(
        d: &Counter,
        f: &dyn RowObject,
        x: &[View<'_, Self>],
        kept: usize,
        dtype: DType,
    ) -> Result<Placed<HostData>> {
        Reference::rows(d.count("rows"), f, &all(x), kept, dtype)
    }
    fn rows_and_columns(
        d: &Counter,
        f: &dyn ColumnsObject,
        x: &[View<'_, Self>],
        kept: usize,
        dtype: DType,
        sums: usize,
    ) -> Result<Option<RowsAndColumns<HostData>>> {
        Reference::rows_and_columns(d.count("rows_and_columns"), f, &all(x), kept, dtype, sums)
    }
    fn lattice<F: Map<4>>(
        d: &Counter,
        f: &F,
        x: [View<'_, Self>; 3],
        ends: &[usize],
    ) -> Result<Option<HostData>> {
        Reference::lattice(d.count("lattice"), f, x.map(to), ends)
    }
    fn lattice_grad<F: Map<5>>(
        d: &Counter,
        f: &F,
        x: [View<'_, Self>; 4],
        ends: &[usize],
    ) -> Result<Option<HostData>> {
        Reference::lattice_grad(d.count("lattice_grad"), f, x.map(to), ends)
    }
    fn sort(d: &Counter, x: View<'_, Self>, descending: bool, first: usize) -> Result<(HostData, HostData)> {
        Reference::sort(d.count("sort"), to(x), descending, first)
    }
    fn contract<E: Epilogue<N>, const N: usize>(
        d: &Counter,
        p: Precision,
        x: View<'_, Self>,
        w: View<'_, Self>,
        e: &E,
        extra: [View<'_, Self>; N],
    ) -> Result<HostData> {
        Reference::contract(d.count("contract"), p, to(x), to(w), e, extra.map(to))
    }
    fn conv<E: Epilogue<N>, const N: usize>(
        d: &Counter,
        c: &Conv,
        x: View<'_, Self>,
        w: View<'_, Self>,
        out: &[usize],
        e: &E,
        extra: [View<'_, Self>; N],
    ) -> Result<HostData> {
        Reference::conv(d.count("conv"), c, to(x), to(w), out, e, extra.map(to))
    }
    fn conv_input_grad(
        d: &Counter,
        c: &Conv,
        g: View<'_, Self>,
        w: View<'_, Self>,
        spatial: &[usize],
    ) -> Result<HostData> {
        Reference::conv_input_grad(d.count("conv_input_grad"), c, to(g), to(w), spatial)
    }
    fn conv_weight_grad(
        d: &Counter,
        c: &Conv,
        x: View<'_, Self>,
        g: View<'_, Self>,
        taps: &[usize],
    ) -> Result<HostData> {
        Reference::conv_weight_grad(d.count("conv_weight_grad"), c, to(x), to(g), taps)
    }
    fn pool(d: &Counter, p: &Pool, x: View<'_, Self>) -> Result<(HostData, Option<HostData>)> {
        Reference::pool(d.count("pool"), p, to(x))
    }
    fn avg_pool_grad(d: &Counter, p: &Pool, g: View<'_, Self>, spatial: &[usize]) -> Result<HostData> {
        Reference::avg_pool_grad(d.count("avg_pool_grad"), p, to(g), spatial)
    }
    fn attention(
        d: &Counter,
        a: &Attention,
        q: View<'_, Self>,
        k: View<'_, Self>,
        v: View<'_, Self>,
        mask: Option<View<'_, Self>>,
    ) -> Result<(HostData, HostData)> {
        Reference::attention(d.count("attention"), a, to(q), to(k), to(v), mask.map(to))
    }
    fn attention_grad(
        d: &Counter,
        a: &Attention,
        q: View<'_, Self>,
        k: View<'_, Self>,
        v: View<'_, Self>,
        mask: Option<View<'_, Self>>,
        o: View<'_, Self>,
        lse: View<'_, Self>,
        g: View<'_, Self>,
    ) -> Result<(HostData, HostData, HostData)> {
        Reference::attention_grad(
            d.count("attention_grad"),
            a,
            to(q),
            to(k),
            to(v),
            mask.map(to),
            to(o),
            to(lse),
            to(g),
        )
    }
    fn gather(d: &Counter, x: View<'_, Self>, axis: usize, index: View<'_, Self>) -> Result<HostData> {
        Reference::gather(d.count("gather"), to(x), axis, to(index))
    }
    fn scatter(
        d: &Counter,
        how: Scatter,
        base: View<'_, Self>,
        axis: usize,
        index: View<'_, Self>,
        src: View<'_, Self>,
    ) -> Result<HostData> {
        Reference::scatter(d.count("scatter"), how, to(base), axis, to(index), to(src))
    }
    fn nonzero(d: &Counter, x: View<'_, Self>) -> Result<(HostData, usize)> {
        Reference::nonzero(d.count("nonzero"), to(x))
    }
}

impl Capture for Counting {
    type Graph = Infallible;
    fn record(_: &Counter, _: &mut Recorded<'_, Self>) -> Result<Option<Infallible>> {
        // Called again, it counts again.
        Ok(None)
    }
    fn input(d: &Counter, x: View<'_, Self>, _: Option<&HostData>) -> Result<HostData> {
        Self::copy(d, x)
    }
    fn replay(_: &Counter, g: &Infallible, _: &[(View<'_, Self>, &HostData)]) -> Result<bool> {
        match *g {}
    }
    fn memory_id(_: &Counter, buffer: &HostData) -> Result<usize> {
        Ok(std::ptr::from_ref(buffer).addr())
    }
}

/// A loss and its gradient.
fn run(d: &Counter) -> (Tensor, Tensor) {
    let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]], d).requires_grad();
    let loss = x.matmul(&x.t()).tanh().mean();
    let g = loss.backward().take(&x).expect("the loss depends on x");
    (loss, g)
}

fn main() {
    let d = Counter::default();
    let (loss, g) = run(&d);
    println!("loss {loss}");
    println!("gradient\n{g}");
    for (kind, n) in d.counts.lock().unwrap().iter() {
        println!("{kind:>12} {n}");
    }
}

#[test]
fn it_counts_and_gives_what_the_reference_gives() {
    let d = Counter::default();
    let (loss, g) = run(&d);
    let x = elinvar::Tensor::new([[1.0f32, 2.0], [3.0, 4.0]], &ReferenceDevice).requires_grad();
    let want = x.matmul(&x.t()).tanh().mean();
    assert_eq!(loss.to_vec::<f32>().unwrap(), want.to_vec::<f32>().unwrap());
    let of_want = want.backward().take(&x).unwrap();
    assert_eq!(g.to_vec::<f32>().unwrap(), of_want.to_vec::<f32>().unwrap());
    let counts = d.counts.lock().unwrap();
    // x x^T, and two products for its gradient.
    assert_eq!((counts.get("contract"), counts.get("sort")), (Some(&3), None), "{counts:?}");
}
