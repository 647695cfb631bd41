//! Recorded work has the bits of work that was not recorded, and its memory is not visible outside.

use elinvar_core::{Error, ErrorKind, Result};
use elinvar_driver::null::Call;
use elinvar_driver::{Driver, Interp, Null, Vulkan};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_nn::layers::{BatchNorm1d, Dropout};
use elinvar_nn::loss::cross_entropy;
use elinvar_nn::models::{Bert, BertConfig, Mlp};
use elinvar_nn::optim::{Adam, Optimizer};
use elinvar_nn::{Layer, Module};
use elinvar_ops::Backend;
use elinvar_ops::backend::Memory;
use elinvar_tensor::{Generator, Gradients, Graph, Tensor};
use std::sync::{Arc, Mutex};

const SIZES: [usize; 3] = [12, 16, 5];

fn model<B: Backend>(d: &B::Device) -> Arc<Mlp<B>> {
    Arc::new(Mlp::new(&SIZES, &mut Generator::new(3), d).unwrap())
}
fn batch<B: Backend>(number: usize, d: &B::Device) -> (Tensor<B>, Tensor<B>) {
    let value = |i: usize| ((i * 7 + number * 13) % 29) as f32 / 29.0 - 0.4;
    let x = Tensor::from_vec((0..6 * 12).map(value).collect::<Vec<f32>>(), &[6, 12], d);
    // Of the first batches, the classes have other ranges.
    let class = |i: usize| ((i + number) % (2 + number).min(5)) as i64;
    (x, Tensor::from_vec((0..6).map(class).collect::<Vec<i64>>(), &[6], d))
}
fn bits<B: Backend>(x: &Tensor<B>) -> Vec<u32> {
    x.to_vec::<f32>().unwrap().iter().map(|v| v.to_bits()).collect()
}
fn weights<B: Backend>(m: &Mlp<B>) -> Vec<Vec<u32>> {
    m.parameters().iter().map(|p| bits(&p.get())).collect()
}
/// The loss, and its gradients by all parameters.
fn descent<B: Backend>(m: &Mlp<B>, x: &Tensor<B>, class: &Tensor<B>) -> Result<Vec<Tensor<B>>> {
    let loss = cross_entropy(&m.forward(x), class);
    let mut gradients = loss.backward();
    let by =
        |p: &elinvar_nn::Param<B>| gradients.take(&p.get()).ok_or_else(|| Error::autograd("no gradient"));
    let all = m.parameters().into_iter().map(by).collect::<Result<Vec<_>>>()?;
    Ok([loss].into_iter().chain(all).collect())
}
fn step<B: Backend>(m: &Mlp<B>, adam: &mut Adam<B>, results: &[Tensor<B>]) -> Vec<u32> {
    let mut gradients = Gradients::new();
    for (p, g) in m.parameters().iter().zip(&results[1..]) {
        gradients.set(&p.get(), g.clone());
    }
    adam.step(m, &gradients).unwrap();
    bits(&results[0])
}

/// Recorded and not, side by side.
fn equal<B: Backend>(d: &B::Device) {
    // A model's forward, with weights that change in between: in place, and to other memory.
    let m = model::<B>(d);
    let (x, _) = batch::<B>(0, d);
    let inner = m.clone();
    let graph = Graph::record(&[&x], move |x| Ok(vec![inner.forward(&x[0])])).unwrap();
    for number in 0..3 {
        let (x, _) = batch::<B>(number, d);
        assert_eq!(bits(&graph.run(&[&x]).unwrap()[0]), bits(&m.forward(&x)));
        // A view that is not whole.
        let t = Tensor::<B>::from_vec(vec![0.25f32 * number as f32; 12 * 6], &[12, 6], d).transpose(0, 1);
        assert_eq!(bits(&graph.run(&[&t]).unwrap()[0]), bits(&m.forward(&t)));
        for p in m.parameters() {
            p.set(&(p.get().detach() * 0.5)).unwrap();
        }
    }

    // Steps of training: the gradients are recorded, the optimiser's step is not.
    let (plain, recorded) = (model::<B>(d), model::<B>(d));
    let (x, class) = batch::<B>(0, d);
    let inner = recorded.clone();
    let graph = Graph::record(&[&x, &class], move |x| descent(&inner, &x[0], &x[1])).unwrap();
    let (mut a, mut b) = (Adam::new(0.01), Adam::new(0.01));
    let mut before: Vec<(Vec<Tensor<B>>, Vec<Vec<u32>>)> = Vec::new();
    for number in 0..6 {
        let (x, class) = batch::<B>(number, d);
        let want = descent(&plain, &x, &class).unwrap();
        let got = graph.run(&[&x, &class]).unwrap();
        assert_eq!(step(&plain, &mut a, &want), step(&recorded, &mut b, &got), "step {number}");
        assert_eq!(weights(&plain), weights(&recorded), "step {number}");
        before.push((got.clone(), got.iter().map(bits).collect()));
    }
    for (results, want) in &before {
        assert_eq!(&results.iter().map(bits).collect::<Vec<_>>(), want, "results never change");
    }

    // A model of tokens, of which each batch has others.
    let config = BertConfig::new(1, 2, 8, 16, 8, 11);
    let bert = Arc::new(Bert::<B>::new(config, &mut Generator::new(5), d).unwrap());
    bert.eval();
    let tokens = |n: i64| Tensor::<B>::from_vec((0..8).map(|i| (i * 5 + n) % (3 + n)).collect(), &[2, 4], d);
    let inner = bert.clone();
    let graph = Graph::record(&[&tokens(0)], move |x| Ok(vec![inner.forward(&x[0], None, None)])).unwrap();
    for n in [2, 8, 1] {
        let want = bits(&bert.forward(&tokens(n), None, None));
        assert_eq!(bits(&graph.run(&[&tokens(n)]).unwrap()[0]), want);
    }

    // What the function reads without its being an input, what is put off, one result twice, an
    // input as a result.
    let k = Tensor::<B>::from_vec(vec![3.0f32; 12], &[12], d);
    let put_off = k.exp() + 1.0;
    let graph = Graph::record(&[&x], move |x| {
        let y = (&x[0] * &put_off).sum_dim(1, true);
        Ok(vec![y.expand([6, 4]), x[0].clone(), y.clone(), x[0].narrow(1, 2, 3)])
    })
    .unwrap();
    let (x, _) = batch::<B>(4, d);
    let y = (&x * &(k.exp() + 1.0)).sum_dim(1, true);
    let want = [y.expand([6, 4]), x.clone(), y.clone(), x.narrow(1, 2, 3)];
    for _ in 0..2 {
        let got = graph.run(&[&x]).unwrap();
        assert_eq!(got.iter().map(bits).collect::<Vec<_>>(), want.iter().map(bits).collect::<Vec<_>>());
    }
}

#[test]
fn recorded_work_has_the_same_bits() {
    equal::<Gpu<Interp>>(&super::interp());
    equal::<Gpu<elinvar_driver::Cuda>>(&super::cuda());
    if let Some(d) = super::vulkan() {
        equal::<Gpu<Vulkan>>(&d);
    }
}

/// Launches that are cut hand over in memory of the recorded work.
#[test]
fn recorded_launches_are_cut() {
    let d = match Vulkan::open(0) {
        Ok(driver) => GpuDevice::new(driver.with_loop_limit(1_300), 0),
        Err(e) if e.kind() == ErrorKind::DriverMissing => return println!("skipped: {e}"),
        Err(e) => panic!("{e}"),
    };
    let long = |seed: usize| {
        let value = |i: usize| ((i * 7 + seed * 13) % 29) as f32 / 29.0 - 0.4;
        Tensor::<Gpu<Vulkan>>::from_vec((0..2 * 3_000).map(value).collect::<Vec<f32>>(), &[2, 3_000], &d)
    };
    let all = |x: &Tensor<_>| vec![x.matmul(&x.transpose(0, 1)), x.cumsum(1), x.softmax(1).sum_dim(1, false)];
    let graph = Graph::record(&[&long(0)], move |x| Ok(all(&x[0]))).unwrap();
    let of = |all: Vec<Tensor<_>>| all.iter().map(bits).collect::<Vec<_>>();
    for seed in 1..4 {
        assert!(of(graph.run(&[&long(seed)]).unwrap()) == of(all(&long(seed))), "{seed}");
    }
}

#[test]
fn backends_without_a_queue_give_the_same() {
    equal::<elinvar_reference::Reference>(&elinvar_reference::ReferenceDevice);
}

/// What a recorded function may not do is an error on every backend, and the next recording is as
/// good as any.
fn refused<B: Backend>(d: &B::Device, leaks: bool) {
    type F<B> = Box<dyn Fn(&[Tensor<B>]) -> Result<Vec<Tensor<B>>> + Send + Sync>;
    let m = model::<B>(d);
    let dropout = Dropout::new(0.5, &mut Generator::new(1));
    let norm = BatchNorm1d::<B>::new(12, d);
    let (x, _) = batch::<B>(0, d);
    let w = m.parameters()[0].share();
    let kept: Arc<Mutex<Vec<Tensor<B>>>> = Arc::default();
    let (a, b, c) = (kept.clone(), kept.clone(), kept.clone());
    let all: Vec<(&str, bool, ErrorKind, F<B>)> = vec![
        (
            "reading numbers",
            false,
            ErrorKind::Unsupported,
            Box::new(|x| Ok(vec![&x[0] * x[0].sum().to_vec::<f32>()?[0]])),
        ),
        (
            "counting",
            false,
            ErrorKind::Unsupported,
            Box::new(|x| Ok(vec![elinvar_ops::catalogue::nonzero(&x[0])?])),
        ),
        ("random", false, ErrorKind::Unsupported, Box::new(move |x| Ok(vec![dropout.forward(&x[0])]))),
        ("buffer", false, ErrorKind::Unsupported, Box::new(move |x| Ok(vec![norm.forward(&x[0])]))),
        (
            "parameter",
            false,
            ErrorKind::Unsupported,
            Box::new(move |x| {
                w.set(&w.get().detach())?;
                Ok(vec![x[0].clone()])
            }),
        ),
        (
            "keeps",
            true,
            ErrorKind::InvalidArgument,
            Box::new(move |x| {
                a.lock().unwrap().push(x[0].clone());
                Ok(vec![x[0].exp()])
            }),
        ),
        (
            "keeps",
            true,
            ErrorKind::InvalidArgument,
            Box::new(move |x| {
                b.lock().unwrap().push(x[0].exp());
                Ok(vec![x[0].exp()])
            }),
        ),
        (
            "keeps",
            true,
            ErrorKind::InvalidArgument,
            Box::new(move |x| {
                let y = x[0].sum();
                c.lock().unwrap().push(y.clone());
                Ok(vec![y.exp()])
            }),
        ),
    ];
    for (what, only_where_recorded, kind, f) in all {
        if only_where_recorded && !leaks {
            continue;
        }
        let e = Graph::record(&[&x], f).unwrap_err();
        assert!(e.kind() == kind && e.message().contains(what), "{what}: {e}");
        kept.lock().unwrap().clear();
    }
    let none: [&Tensor<B>; 0] = [];
    assert_eq!(Graph::record(&none, |_| Ok(vec![])).unwrap_err().kind(), ErrorKind::InvalidArgument);

    let graph = Graph::record(&[&x], |x| Ok(vec![x[0].exp()])).unwrap();
    let half = x.narrow(0, 0, 3);
    assert_eq!(graph.run(&[&half]).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    assert_eq!(graph.run(&[&x, &x]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let wide = x.to_dtype(elinvar_core::DType::F64);
    assert_eq!(graph.run(&[&wide]).unwrap_err().kind(), ErrorKind::DTypeMismatch);
    assert_eq!(bits(&graph.run(&[&x]).unwrap()[0]), bits(&x.exp()));
}

#[test]
fn what_may_not_be_recorded_is_refused() {
    refused::<Gpu<Interp>>(&super::interp(), true);
    refused::<elinvar_reference::Reference>(&elinvar_reference::ReferenceDevice, false);
}

/// An index out of range is the error that it always is, though the recorded indices were in range.
#[test]
fn an_index_out_of_range_is_seen() {
    let d = super::interp();
    let table = Tensor::<Gpu<Interp>>::from_vec((0..10).map(|i| i as f32).collect::<Vec<_>>(), &[5, 2], &d);
    let at = |v: [i64; 2]| Tensor::<Gpu<Interp>>::from_vec(v.to_vec(), &[2], &d);
    let inner = table.clone();
    let graph = Graph::record(&[&at([0, 1])], move |at| Ok(vec![inner.index_select(0, &at[0])])).unwrap();
    assert_eq!(graph.run(&[&at([1, 4])]).unwrap()[0].to_vec::<f32>().unwrap(), [2.0, 3.0, 8.0, 9.0]);
    let e = graph.run(&[&at([1, 5])]).unwrap_err();
    assert!(e.kind() == ErrorKind::InvalidArgument && e.message().contains("index 5"), "{e}");
    assert_eq!(graph.run(&[&at([3, 2])]).unwrap()[0].to_vec::<f32>().unwrap(), [6.0, 7.0, 4.0, 5.0]);
}

#[test]
fn a_run_is_one_call_and_takes_no_memory_but_its_results() {
    let d = GpuDevice::new(Null::open(0).unwrap(), 0);
    let m = model::<Gpu<Null>>(&d);
    let (x, _) = batch::<Gpu<Null>>(0, &d);
    let used = || Gpu::<Null>::memory_stats(&d).unwrap().in_use;
    let before = used();
    let inner = m.clone();
    let graph = Graph::record(&[&x], move |x| Ok(vec![inner.forward(&x[0])])).unwrap();
    drop(graph.run(&[&x]).unwrap());
    let driver = d.driver().unwrap();
    driver.take();
    let y = graph.run(&[&x]).unwrap();
    let calls = driver.take();
    let kinds = |f: fn(&Call) -> bool| calls.iter().filter(|c| f(c)).count();
    assert_eq!(kinds(|c| matches!(c, Call::Replay(n) if *n >= 2)), 1, "{calls:?}");
    assert_eq!(
        (kinds(|c| matches!(c, Call::Copy(_))), calls.len()),
        (1, 3),
        "input, work, result: {calls:?}"
    );
    drop((y, graph));
    assert_eq!(used(), before);
}
