//! The tape on the reference backend: what is tracked, the gradients, their order, and what is
//! rejected.

use elinvar_core::{DType, ErrorKind};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{
    Backward, Generator, Gradients, backward, check_gradient, checkpoint, enable_grad, no_grad, try_run,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

type Tensor = elinvar_tensor::Tensor<Reference>;

fn t(v: &[f64]) -> Tensor {
    Tensor::from_vec(v.to_vec(), v.len(), &ReferenceDevice)
}
fn v(x: &Tensor) -> Vec<f64> {
    x.to_vec().unwrap()
}

#[test]
fn tracking_is_a_property_of_the_value() {
    let x = t(&[1.0, 2.0]);
    assert!(!x.is_tracked());
    let w = x.requires_grad();
    assert!(w.is_variable() && !x.is_tracked());
    let y = &w * 3.0;
    assert!(y.is_tracked() && !y.is_variable());
    assert!(!y.detach().is_tracked());
    assert!(!no_grad(|| &w * 3.0).is_tracked());
    assert!(no_grad(|| enable_grad(|| &w * 3.0)).is_tracked());
    // A comparison has no gradient, and neither have indices.
    assert!(!w.gt(1.0).is_tracked());
    let (values, places) = w.sort(0, true);
    assert!(values.is_tracked() && !places.is_tracked());
}

#[test]
fn storage_floats_have_the_same_bits_recorded_or_not() {
    // Row-wise ops read storage floats directly if nothing records, and f32 copies of them if a
    // gradient may be needed.
    for dtype in DType::STORAGE {
        let some =
            |n: usize| (0..n).map(|i| ((i * 37) as f64 * 0.618).fract() * 9.0 - 4.0).collect::<Vec<_>>();
        let x = Tensor::from_vec(some(60), [3, 20], &ReferenceDevice).to_dtype(dtype);
        let w = t(&some(20)).to_dtype(dtype);
        let all = |x: &Tensor| {
            let normal = x.layer_norm([20], Some(&w), None, 1e-5);
            [normal, x.softmax(1), x.log_softmax(0), x.rms_norm([20], Some(&w), None), x.mean_dim(1, false)]
        };
        for (plain, recorded) in all(&x).iter().zip(all(&x.requires_grad())) {
            assert!(!plain.is_tracked() && recorded.is_tracked());
            assert_eq!((plain.dtype(), recorded.dtype()), (dtype, dtype));
            let numbers = |x: &Tensor| v(&x.to_dtype(DType::F64));
            assert_eq!(numbers(plain), numbers(&recorded));
            let one = recorded.backward_with(&recorded.ones_like(), Backward::default());
            assert!(one.iter().all(|(_, g)| g.dtype() == dtype));
        }
        // Operands of different types are converted first.
        let wide = x.layer_norm([20], Some(&w.to_dtype(DType::F32)), None, 1e-5);
        assert_eq!(v(&wide.to_dtype(DType::F64)), v(&all(&x)[0].to_dtype(DType::F64)));
    }
}

#[test]
fn counts_do_not_go_through_16_bits() {
    type F = fn(&Tensor) -> Tensor;
    let rows: [(&str, F); 8] = [
        ("amax", |x| x.max()),
        ("amin", |x| x.min()),
        ("amax of an axis", |x| x.reshape([1, -1]).amax_dim(1, false).sum()),
        ("norm inf", |x| x.norm(f64::INFINITY)),
        ("norm -inf", |x| x.norm(f64::NEG_INFINITY)),
        ("mean", |x| x.mean()),
        ("mean of an axis", |x| x.reshape([1, -1]).mean_dim(1, false).sum()),
        ("l1_loss", |x| {
            let none = x.zeros_like();
            elinvar_ops::catalogue::l1_loss(x, &none, elinvar_ops::catalogue::reduction::Reduction::Mean)
                .unwrap()
        }),
    ];
    for (what, f) in rows {
        for (dtype, n) in
            [(DType::F16, 65_519), (DType::F16, 70_000), (DType::BF16, 257), (DType::BF16, 70_001)]
        {
            let x = Tensor::ones(n, dtype, &ReferenceDevice).requires_grad();
            let grad = f(&x).backward().take(&x).unwrap();
            let share = v(&Tensor::full(1, 1.0 / n as f64, dtype, &ReferenceDevice).to_dtype(DType::F64))[0];
            let got = v(&grad.to_dtype(DType::F64));
            assert!(got.iter().all(|g| *g == share), "{what} of {n} {dtype}: {}, not {share}", got[0]);
        }
    }
    // 2^-30 is no f16, and 2^-30 * 2^15 is one.
    let x = Tensor::full(2, 32768.0, DType::F16, &ReferenceDevice).requires_grad();
    let mut all = (&x * &x.detach()).sum().backward();
    all.scale(2f64.powi(-30)).unwrap();
    assert_eq!(v(&all.get(&x).unwrap().to_dtype(DType::F64)), [2f64.powi(-15); 2]);
}

#[test]
fn gradients_come_by_variable_and_by_name() {
    let (x, w) = (t(&[1.0, 2.0]).requires_grad(), t(&[3.0, 4.0]).named("w"));
    let unused = t(&[0.0]).requires_grad();
    let g = (&x * &w).sum().backward();
    assert_eq!(v(g.get(&x).unwrap()), [3.0, 4.0]);
    assert_eq!(v(g.by_name("w").unwrap()), [1.0, 2.0]);
    assert!(g.get(&unused).is_none());
    assert_eq!(g.iter().map(|(n, _)| n).collect::<Vec<_>>(), [None, Some("w")]);
}

#[test]
fn a_value_used_twice_gets_both_gradients() {
    let x = t(&[3.0]).requires_grad();
    let y = (&x * &x + &x).sum();
    assert_eq!(v(y.backward().get(&x).unwrap()), [7.0]);
}

#[test]
fn a_seed_replaces_the_missing_scalar() {
    let x = t(&[1.0, 2.0, 3.0]).requires_grad();
    let y = &x * &x;
    let kind = |r: elinvar_core::Result<Gradients<Reference>>| r.unwrap_err().kind();
    let keep = Backward { retain_graph: true, create_graph: false };
    assert_eq!(kind(backward(&[(&y, None)], keep)), ErrorKind::Autograd);
    assert_eq!(kind(backward(&[(&y, Some(&t(&[1.0])))], keep)), ErrorKind::ShapeMismatch);
    assert_eq!(
        kind(backward(&[(&y, Some(&t(&[1.0; 3]).to_dtype(DType::F32)))], keep)),
        ErrorKind::DTypeMismatch
    );
    assert_eq!(kind(backward(&[(&t(&[1.0]), None)], keep)), ErrorKind::Autograd);
    let g = y.backward_with(&t(&[1.0, 10.0, 100.0]), Backward::default());
    assert_eq!(v(g.get(&x).unwrap()), [2.0, 40.0, 600.0]);
}

#[test]
fn the_graph_is_freed_unless_it_is_retained() {
    let x = t(&[2.0]).requires_grad();
    let y = (&x * &x).sum();
    let keep = Backward { retain_graph: true, create_graph: false };
    let first = v(backward(&[(&y, None)], keep).unwrap().get(&x).unwrap());
    let second = v(y.backward().get(&x).unwrap());
    assert_eq!(first, second);
    let e = backward(&[(&y, None)], keep).unwrap_err();
    assert!(e.kind() == ErrorKind::Autograd && e.message().contains("retain_graph"), "{e}");
}

#[test]
fn gradients_can_be_differentiated_again_and_again() {
    // f = x^4: f' = 4 x^3, f'' = 12 x^2, f''' = 24 x, f'''' = 24
    let x = t(&[1.5]).requires_grad();
    let mut f = (&x * &x * &x * &x).sum();
    for want in [13.5, 27.0, 36.0, 24.0] {
        f = f.grad(&[&x])[0].clone().unwrap().sum();
        assert_eq!(f.item::<f64>(), want);
    }
}

#[test]
fn second_derivatives_of_functions_go_through_their_formulas() {
    // tanh'' = -2 y (1 - y^2); log'' = -1 / x^2; softplus'' = s (1 - s)
    let at = 0.7f64;
    let (y, s) = (at.tanh(), 1.0 / (1.0 + (-at).exp()));
    let table: [(&str, fn(&Tensor) -> Tensor, f64); 3] = [
        ("tanh", |x| x.tanh(), -2.0 * y * (1.0 - y * y)),
        ("log", |x| x.log(), -1.0 / (at * at)),
        ("softplus", |x| x.softplus(1.0, 20.0), s * (1.0 - s)),
    ];
    for (name, f, want) in table {
        let x = t(&[at]).requires_grad();
        let first = f(&x).sum().grad(&[&x])[0].clone().unwrap();
        let second = first.sum().grad(&[&x])[0].clone().unwrap().item::<f64>();
        assert!((second - want).abs() < 1e-12, "{name}: {second}, not {want}");
    }
}

#[test]
fn derivatives_that_vanish_are_zeros_and_not_missing() {
    let table: [(&str, fn(&Tensor) -> Tensor, [f64; 2]); 7] = [
        ("abs", |x| x.abs(), [-1.0, 1.0]),
        ("relu", |x| x.relu(), [0.0, 1.0]),
        ("leaky_relu", |x| x.leaky_relu(0.5), [0.5, 1.0]),
        ("clamp", |x| x.clamp(None, Some(1.0.into())), [1.0, 0.0]),
        ("max", |x| x.max(), [0.0, 1.0]),
        ("sort", |x| x.sort(0, true).0, [1.0, 1.0]),
        ("a linear function", |x| x * 3.0, [3.0, 3.0]),
    ];
    for (name, f, slope) in table {
        let x = t(&[-2.0, 2.0]).requires_grad();
        let first = f(&x).sum().grad(&[&x])[0].clone().unwrap();
        assert_eq!(v(&first), slope, "{name}");
        let mut next = first;
        for _ in 0..3 {
            next = next.sum().grad(&[&x])[0].clone().unwrap();
            assert_eq!((next.dtype(), v(&next)), (DType::F64, vec![0.0; 2]), "{name}");
        }
    }
    // A part that vanishes adds nothing, not even to a sign of zero.
    let (x, w) = (t(&[2.0]).requires_grad(), t(&[-0.0]).requires_grad());
    let first = (x.abs() * &w).sum().grad(&[&x])[0].clone().unwrap();
    let second = first.sum().backward();
    assert_eq!((v(second.get(&x).unwrap()), v(second.get(&w).unwrap())), (vec![0.0], vec![1.0]));
    let first = (&x * &x * &w).sum().grad(&[&x])[0].clone().unwrap();
    assert_eq!(v(first.sum().backward().get(&x).unwrap())[0].to_bits(), (-0.0f64).to_bits());
}

#[test]
fn gradients_of_several_passes_accumulate() {
    let x = t(&[1.0, 2.0]).requires_grad();
    let mut sum = Gradients::new();
    for _ in 0..3 {
        sum.accumulate((&x * &x).sum().backward()).unwrap();
    }
    assert_eq!(v(sum.get(&x).unwrap()), [6.0, 12.0]);
}

#[test]
fn hooks_see_and_replace_gradients() {
    let x = t(&[1.0, 2.0]).requires_grad();
    let y = &x * 2.0;
    let seen = Arc::new(Mutex::new(vec![]));
    let log = seen.clone();
    let handle = y.register_hook(move |g| {
        log.lock().unwrap().push(v(g));
        Some(g * 10.0)
    });
    let keep = Backward { retain_graph: true, create_graph: false };
    let loss = (&y * &y).sum();
    assert_eq!(v(backward(&[(&loss, None)], keep).unwrap().get(&x).unwrap()), [80.0, 160.0]);
    assert_eq!(*seen.lock().unwrap(), [[4.0, 8.0]]);
    handle.remove();
    assert_eq!(v(backward(&[(&loss, None)], keep).unwrap().get(&x).unwrap()), [8.0, 16.0]);
    let wrong = y.register_hook(|g| Some(g.sum()));
    let e = backward(&[(&loss, None)], keep).err().unwrap();
    assert!(e.to_string().contains("a hook was given a gradient f64 [2] and returned one f64 []"), "{e}");
    wrong.remove();
    let e = try_run(|| t(&[1.0]).register_hook(|_| None)).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Autograd);
}

#[test]
fn inner_gradients_are_reported_on_request() {
    let x = t(&[3.0]).requires_grad();
    let y = &x * 2.0;
    y.retain_grad();
    let g = (&y * &y).sum().backward();
    assert_eq!(v(g.get(&y).unwrap()), [12.0]);
}

#[test]
fn a_checkpoint_gives_the_same_gradients_and_runs_its_segment_again() {
    let runs = Arc::new(AtomicUsize::new(0));
    let (x, w) = (t(&[0.3, -0.4]).requires_grad(), t(&[2.0, 5.0]).requires_grad());
    let inner = &w * 0.5; // captured, and no variable
    let segment = |x: &Tensor, w: &Tensor, inner: &Tensor| ((x * w).tanh() * inner).exp();
    let plain = segment(&x, &w, &inner).sum();
    let keep = Backward { retain_graph: true, create_graph: false };
    let want = backward(&[(&plain, None)], keep).unwrap();

    let (count, cw, ci) = (runs.clone(), w.clone(), inner.clone());
    let again = move |x: &[Tensor]| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(segment(&x[0], &cw, &ci))
    };
    let y = checkpoint(again, &[&x]).unwrap();
    let total: Tensor = y.sum();
    let got = backward(&[(&total, None)], keep).unwrap();
    for var in [&x, &w] {
        assert_eq!(v(got.get(var).unwrap()), v(want.get(var).unwrap()));
    }
    assert_eq!(runs.load(Ordering::Relaxed), 2);

    // Through the checkpoint twice.
    let second = |y: &Tensor| y.sum().grad(&[&x])[0].clone().unwrap().sum().grad(&[&w])[0].clone().unwrap();
    assert_eq!(v(&second(&y)), v(&second(&segment(&x, &w, &inner))));
}

#[test]
fn a_chain_of_a_million_nodes_neither_overflows_the_stack_nor_leaks_order() {
    // A thread with a small stack makes recursion show.
    let run = || {
        let x = t(&[1.0]).requires_grad();
        let mut y = x.clone();
        for _ in 0..1_000_000 {
            y = -&y;
        }
        let g = y.sum().backward();
        assert_eq!(v(g.get(&x).unwrap()), [1.0]);
        // And a chain that is dropped without a backward pass.
        let mut z = x.clone();
        for _ in 0..1_000_000 {
            z = -&z;
        }
        drop(z);
    };
    std::thread::Builder::new().stack_size(256 * 1024).spawn(run).unwrap().join().unwrap();
}

#[test]
fn tensors_cross_threads_and_graphs_are_walked_at_the_same_time() {
    fn sendable<T: Send + Sync>() {}
    sendable::<Tensor>();
    sendable::<Gradients<Reference>>();
    let shared = t(&[2.0, 3.0]).requires_grad();
    let work = |k: usize| {
        let mut y = &shared * k as f64;
        for _ in 0..50 {
            y = (&y * &shared).tanh();
        }
        v(y.sum().backward().get(&shared).unwrap())
    };
    let alone: Vec<_> = (0..4).map(work).collect();
    let together: Vec<_> = std::thread::scope(|s| {
        let all: Vec<_> = (0..4).map(|k| s.spawn(move || work(k))).collect();
        all.into_iter().map(|h| h.join().unwrap()).collect()
    });
    assert_eq!(alone, together);
}

#[test]
fn only_floats_have_gradients() {
    let e = try_run(|| Tensor::arange(0, 3, 1, &ReferenceDevice).requires_grad()).unwrap_err();
    assert!(e.message().contains("i64"), "{e}");
}

#[test]
fn mistakes_panic_with_the_callers_line_and_can_be_caught() {
    let (x, y) = (t(&[1.0, 2.0]), t(&[1.0, 2.0, 3.0]));
    let e = try_run(|| &x + &y).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ShapeMismatch);
    assert!(e.message().starts_with("add: shapes [2] and [3] do not broadcast"), "{e}");
    let line = Arc::new(Mutex::new(None));
    let (log, before) = (line.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        *log.lock().unwrap() = info.location().map(|l| l.file().to_owned())
    }));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| &x + &y));
    std::panic::set_hook(before);
    assert!(caught.is_err());
    assert!(line.lock().unwrap().as_deref().unwrap().ends_with("tape.rs"));
}

#[test]
fn gradients_agree_with_differences() {
    let mut rng = Generator::new(5);
    let r = |rng: &mut Generator, s: &[usize]| rng.normal(0.0, 1.0, s, DType::F64, &ReferenceDevice);
    let (x, w, b) = (r(&mut rng, &[3, 4]), r(&mut rng, &[4, 5]), r(&mut rng, &[5]));
    let f = |x: &[Tensor]| Ok((x[0].matmul(&x[1]) + &x[2]).tanh().softmax(-1).log());
    check_gradient(f, &[x.clone(), w.clone(), b.clone()], 1e-5, 1e-7).unwrap();
    // The function may use gradients itself: a gradient penalty, and a recorded gradient.
    let penalty = |x: &[Tensor]| {
        let g = x[0].matmul(&x[1]).tanh().sum().grad(&[&x[0]])[0].clone();
        Ok(g.expect("it depends on x").square())
    };
    check_gradient(penalty, &[x.clone(), w.clone()], 1e-5, 1e-7).unwrap();
    no_grad(|| check_gradient(penalty, &[x.clone(), w.clone()], 1e-5, 1e-7)).unwrap();
    // The check can fail: a detached factor hides half of a derivative.
    let wrong = |x: &[Tensor]| Ok(&x[0] * &x[0].detach());
    assert!(check_gradient(wrong, &[x], 1e-5, 1e-7).is_err());
}
