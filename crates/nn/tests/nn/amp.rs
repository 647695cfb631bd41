//! Mixed precision: scopes, conversions of weights, the scaler, and training with both.

use elinvar_core::{DType, ErrorKind, Precision, Result};
use elinvar_nn::data::{Digits, digits};
use elinvar_nn::layers::Linear;
use elinvar_nn::loader::Loader;
use elinvar_nn::models::{DigitsMlp, digit_pairs};
use elinvar_nn::optim::{Adam, AdamW, GradScaler, Muon, NAdam, Optimizer, ScalerState, Sgd, Split};
use elinvar_nn::train::{
    Callback, Checkpoint, Checkpoints, Classification, Measured, Step, TrainStep, Trainer,
};
use elinvar_nn::{Generator, Gradients, Module, Param};
use elinvar_ops::catalogue::reduction::Reduction;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{
    Backward, Graph, Tensor, autocast, autocast_dtype, autocast_off, checkpoint, no_grad, try_autocast,
    try_run,
};
use serde_json::json;
use std::ops::ControlFlow;
use std::sync::Arc;

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;
type T = Tensor<B>;

fn drawn(seed: u64, shape: &[usize]) -> T {
    Generator::new(seed).randn(shape, &D)
}
fn bits(t: &T) -> Vec<u8> {
    t.to_host().unwrap().data().to_le_bytes()
}

#[test]
fn scopes_nest_and_end_with_a_panic() {
    let (x, w) = (drawn(1, &[2, 3]), drawn(2, &[3, 2]));
    let of = || x.matmul(&w).dtype();
    let (half, single) = (DType::BF16, DType::F32);
    assert_eq!((of(), autocast_dtype()), (single, None));
    autocast(half, || {
        assert_eq!((of(), autocast_dtype()), (half, Some(half)));
        assert_eq!(autocast(DType::F16, of), DType::F16);
        assert_eq!(autocast_off(of), single);
        assert_eq!(autocast_off(|| autocast(DType::F16, of)), DType::F16);
        assert!(std::panic::catch_unwind(|| autocast(DType::F16, || panic!("as it should"))).is_err());
        assert_eq!(of(), half);
        assert_eq!(std::thread::spawn(autocast_dtype).join().unwrap(), None, "a scope is of one thread");
    });
    assert_eq!(of(), single);
}

#[test]
fn a_scope_is_of_16_bits() {
    for dtype in [DType::F32, DType::F64, DType::I64, DType::U8, DType::Bool] {
        let e = try_autocast(dtype, || unreachable!("it is not called")).map(|()| 0).unwrap_err();
        let said = e.to_string();
        assert!(
            e.kind() == ErrorKind::InvalidArgument
                && said.contains(&format!("autocast: to {dtype}; there are f16 and bf16")),
            "{said}"
        );
        assert!(try_run(|| autocast(dtype, || ())).is_err());
    }
    assert_eq!(try_autocast(DType::F16, || 7).unwrap(), 7);
}

#[test]
fn other_types_pass_through() {
    autocast(DType::BF16, || {
        let i = Tensor::new([[1i64, 2], [3, 4]], &D);
        assert_eq!(i.matmul(&i).to_vec::<i64>().unwrap(), [7, 10, 15, 22]);
        let d = drawn(1, &[2, 2]).to_dtype(DType::F64);
        assert_eq!(d.matmul(&d).dtype(), DType::F64);
        assert_eq!((&d + &d).mse_loss(&d, Reduction::Mean).dtype(), DType::F64);
        // Of two types it is what it is elsewhere.
        let e = d.try_add(drawn(1, &[2, 2])).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::DTypeMismatch, "{e}");
        // An operand without axes does not widen.
        let x = drawn(1, &[2]).to_dtype(DType::BF16);
        assert_eq!((&x * Tensor::new(2.0f32, &D)).dtype(), DType::BF16);
        assert_eq!((&x * drawn(1, &[2]).to_dtype(DType::F16)).dtype(), DType::F32);
    });
}

/// What the scope does is what conversions by hand do, forward and backward.
#[test]
fn a_scope_is_conversions() {
    let (x, w, b) = (drawn(1, &[4, 3]), drawn(2, &[5, 3]).requires_grad(), drawn(3, &[5]).requires_grad());
    let y = drawn(4, &[4, 5]);
    let loss = autocast(DType::BF16, || {
        let z = x.linear(&w, Some(&b));
        (z.tanh() + &y).mse_loss(&y, Reduction::Mean)
    });
    let h = |t: &T| t.to_dtype(DType::BF16);
    let z = h(&x).linear(&h(&w), Some(&h(&b)));
    let by_hand = (z.tanh().to_dtype(DType::F32) + &y).mse_loss(&y, Reduction::Mean);
    assert!(loss.same_bits(&by_hand));
    let (got, want) = (loss.backward(), by_hand.backward());
    for v in [&w, &b] {
        let (got, want) = (got.get(v).unwrap(), want.get(v).unwrap());
        assert_eq!(got.dtype(), DType::F32);
        assert!(got.same_bits(want));
    }
}

/// A variable is converted once, by one node, so that the gradients of its uses are added in 16
/// bits before they are converted.
#[test]
fn a_weight_is_converted_once() {
    let (x, w) = (drawn(1, &[8, 16]), drawn(2, &[16, 16]).requires_grad());
    let twice = |first: &T, second: &T| x.to_dtype(DType::BF16).matmul(first).matmul(second).sum();
    let once = w.to_dtype(DType::BF16);
    let shared = twice(&once, &once).backward();
    let apart = twice(&w.to_dtype(DType::BF16), &w.to_dtype(DType::BF16)).backward();
    let got = autocast(DType::BF16, || x.matmul(&w).matmul(&w).sum()).backward();
    let [got, shared, apart] = [&got, &shared, &apart].map(|g| bits(g.get(&w).unwrap()));
    assert!(got == shared && got != apart);
    // Not what was converted without a tape, nor to the other type, nor what has changed since.
    let g = autocast(DType::BF16, || {
        no_grad(|| x.matmul(&w));
        autocast(DType::F16, || assert_eq!(x.matmul(&w).dtype(), DType::F16));
        x.matmul(&w).sum()
    });
    assert!(g.backward().get(&w).is_some());
}

#[test]
fn a_changed_weight_is_converted_anew() {
    let p: Param<B> = Param::new(drawn(2, &[4, 4]));
    let x = drawn(1, &[3, 4]);
    autocast(DType::BF16, || {
        let before = x.matmul(&p.get());
        let g = before.to_dtype(DType::F32).sum().backward();
        Sgd::new(0.5).step(&p, &g).unwrap();
        let after = x.matmul(&p.get());
        assert!(!before.same_bits(&after));
        assert!(
            after.same_bits(&autocast_off(|| {
                x.to_dtype(DType::BF16).matmul(&p.get().to_dtype(DType::BF16))
            }))
        );
        // The same variable, in place.
        let mut v = drawn(3, &[4, 4]).requires_grad();
        let before = x.matmul(&v);
        *v.array_mut() = drawn(4, &[4, 4]).array().clone();
        assert!(!before.same_bits(&x.matmul(&v)));
    });
}

/// Backward passes inside of the scope, and gradients of gradients, are what they are outside.
#[test]
fn backward_is_outside_of_every_scope() {
    let (x, w) = (drawn(1, &[4, 3]), drawn(2, &[3, 3]).requires_grad());
    let f = || x.matmul(&w).tanh().to_dtype(DType::F32).square().sum();
    let outside = autocast(DType::BF16, f).backward();
    let inside = autocast(DType::BF16, || f().backward());
    assert!(outside.get(&w).unwrap().same_bits(inside.get(&w).unwrap()));
    let second =
        |y: T| y.backward_with(None, Backward::create_graph()).get(&w).unwrap().square().sum().backward();
    let (outside, inside) = (second(autocast(DType::BF16, f)), autocast(DType::BF16, || second(f())));
    assert!(outside.get(&w).unwrap().same_bits(inside.get(&w).unwrap()));
}

/// A checkpoint's second run is in the scope of the first, and its conversions are its own: also
/// where the weight is used before and after it.
#[test]
fn a_checkpoint_runs_twice_in_its_scope() {
    let (x, w) = (drawn(1, &[4, 3]), drawn(2, &[3, 3]).requires_grad());
    let plain = |w: &T, x: &T| x.matmul(w).tanh();
    let whole = autocast(DType::BF16, || plain(&w, &plain(&w, &x)).sum()).backward();
    for within in [false, true] {
        let run = || {
            let held = w.clone();
            let y = checkpoint(move |x| Ok(plain(&held, &x[0])), &[&plain(&w, &x)]).unwrap();
            assert_eq!(y.dtype(), DType::BF16);
            let z = plain(&w, &y).sum();
            let inside = within.then(|| z.backward());
            (z, inside)
        };
        let (z, inside) = autocast(DType::BF16, run);
        let g = inside.unwrap_or_else(|| z.backward());
        assert_eq!(g.get(&w).unwrap().dtype(), DType::F32);
    }
    let held = w.clone();
    let one = autocast(DType::BF16, || {
        checkpoint(move |x| Ok(plain(&held, &plain(&held, &x[0]))), &[&x]).unwrap().sum()
    });
    assert!(one.backward().get(&w).unwrap().same_bits(whole.get(&w).unwrap()));
}

#[test]
fn a_graph_runs_in_the_scope_of_its_recording() {
    let p: Param<B> = Param::new(drawn(2, &[3, 3]));
    let x = drawn(1, &[2, 3]);
    let record = || {
        let held = p.share();
        Graph::record(&[&x], move |x: &[T]| Ok(vec![x[0].matmul(&held.get())])).unwrap()
    };
    let (half, single) = (autocast(DType::BF16, record), record());
    let run = |g: &Graph<B>| g.run(&[&x]).unwrap().remove(0).dtype();
    assert_eq!((run(&half), run(&single)), (DType::BF16, DType::F32));
    autocast(DType::F16, || assert_eq!((run(&half), run(&single)), (DType::BF16, DType::F32)));
    p.set(&drawn(5, &[3, 3])).unwrap();
    let now = x.to_dtype(DType::BF16).matmul(&p.get().to_dtype(DType::BF16));
    assert!(half.run(&[&x]).unwrap()[0].same_bits(&now.detach()));
    assert_eq!(Precision::Fast.scope(|| run(&single)), DType::F32);
}

/// A parameter, and a gradient of which `bad` elements are not finite.
fn scaled(scaler: &mut GradScaler<B>, p: &Param<B>, bad: Option<f32>) -> Gradients<B> {
    let x = Tensor::new([0.5f32, -2.0, bad.unwrap_or(1.0)], &D);
    scaler.scale(&(p.get() * x).sum()).unwrap().backward()
}
fn three() -> Param<B> {
    Param::new(Tensor::new([1.0f32, 2.0, 3.0], &D))
}

#[test]
fn the_scale_follows_the_steps() {
    let p = three();
    let mut sgd = Sgd::new(0.25);
    let mut scaler = GradScaler::new().init_scale(8.0).growth_interval(2);
    let rows = [
        // Is a gradient not finite; the scale and the count after it.
        (None, 8.0, 1),
        (None, 16.0, 0),
        (Some(f32::INFINITY), 8.0, 0),
        (Some(f32::NAN), 4.0, 0),
        (None, 4.0, 1),
        (Some(f32::NEG_INFINITY), 2.0, 0),
        (Some(3e38), 1.0, 0), // finite, but not when it is scaled
        (None, 1.0, 1),
        (None, 2.0, 0),
    ];
    for (i, (bad, scale, tracker)) in rows.into_iter().enumerate() {
        let before = bits(&p.get());
        let mut g = scaled(&mut scaler, &p, bad);
        scaler.step(&mut sgd, &p, &mut g).unwrap();
        scaler.update().unwrap();
        let state = scaler.state().unwrap();
        assert_eq!((state.scale, state.growth_tracker), (scale, tracker), "row {i}");
        assert_eq!(before == bits(&p.get()), bad.is_some(), "row {i}");
    }
    // Five steps of 0.25 * (0.5, -2, 1): scaling by powers of two is exact.
    assert_eq!(p.get().to_vec::<f32>().unwrap(), [1.0 - 5.0 * 0.125, 2.0 + 5.0 * 0.5, 3.0 - 5.0 * 0.25]);
    // It does not grow beyond f32.
    let mut scaler = GradScaler::new().init_scale(2f64.powi(127)).growth_interval(1);
    let mut g = scaler.scale(&(p.get() * 1e-30).sum()).unwrap().backward();
    scaler.unscale(&p, &mut g).unwrap();
    scaler.update().unwrap();
    assert_eq!(scaler.state().unwrap().scale, 2f64.powi(127));
}

/// Skipped steps leave no trace in any optimiser: parameters, states and counts are those of a run
/// that never saw them.
#[test]
fn skipped_steps_are_not_counted() {
    type Make = fn() -> Box<dyn Optimizer<B>>;
    let all: [(&str, Make); 6] = [
        ("sgd", || Box::new(Sgd::new(0.1).momentum(0.9).dampening(0.5))),
        ("adam", || Box::new(Adam::new(0.1).amsgrad(true))),
        ("adamw", || Box::new(AdamW::new(0.1))),
        ("nadam", || Box::new(NAdam::new(0.1))),
        ("muon", || Box::new(Muon::new(0.1))),
        ("split", || Box::new(Split::new(Adam::new(0.1)).with(Muon::new(0.1), |_, s| s.rank() > 1))),
    ];
    for (name, make) in all {
        let run = |steps: &[bool]| {
            let p: Param<B> = Param::new(drawn(1, &[3, 4]));
            let (mut o, mut scaler) = (make(), GradScaler::new());
            let mut made = 0;
            for &is_made in steps {
                let bad = if is_made { 1.0 } else { f32::NAN };
                let x = drawn(10 + made, &[3, 4]) * bad;
                let mut g = scaler.scale(&(p.get() * x).sum()).unwrap().backward();
                scaler.step(&mut *o, &p, &mut g).unwrap();
                scaler.update().unwrap();
                made += u64::from(is_made);
            }
            (bits(&p.get()), o.state_dict(&p).unwrap())
        };
        let want = run(&[true, true, true]);
        for steps in [
            [false, true, true, true, false],
            [true, false, true, false, true],
            [true, false, false, true, true],
        ] {
            assert!(run(&steps) == want, "{name} {steps:?}");
        }
        // Nothing but skipped ones: as before the first.
        let none = run(&[false, false]);
        assert!(none.1.state.is_empty() && none.0 == bits(&drawn(1, &[3, 4])), "{name}");
    }
}

#[test]
fn gradients_can_be_looked_at_between() {
    let p = three();
    let mut scaler = GradScaler::new();
    let mut g = scaled(&mut scaler, &p, None);
    scaler.unscale(&p, &mut g).unwrap();
    assert_eq!(g.get(&p.get()).unwrap().to_vec::<f32>().unwrap(), [0.5, -2.0, 1.0]);
    // A step does not divide them again.
    scaler.step(&mut Sgd::new(1.0), &p, &mut g).unwrap();
    assert_eq!(p.get().to_vec::<f32>().unwrap(), [0.5, 4.0, 2.0]);
    // One scaler for two optimisers: each step by its own gradients, the scale by both.
    let (a, b) = (three(), three());
    let (mut ga, mut gb) = (scaled(&mut scaler, &a, None), scaled(&mut scaler, &b, Some(f32::NAN)));
    scaler.update().unwrap();
    scaler.step(&mut Sgd::new(1.0), &a, &mut ga).unwrap();
    scaler.step(&mut Sgd::new(1.0), &b, &mut gb).unwrap();
    scaler.update().unwrap();
    assert_eq!(a.get().to_vec::<f32>().unwrap(), [0.5, 4.0, 2.0]);
    assert_eq!(b.get().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    assert_eq!(scaler.state().unwrap().scale, 32768.0);
}

fn refused<R>(r: Result<R>, kind: ErrorKind, part: &str) {
    let e = r.err().expect("it is refused");
    assert!(e.kind() == kind && e.to_string().contains(part), "{e}");
}

#[test]
fn what_a_scaler_refuses() {
    use ErrorKind::{Autograd, DTypeMismatch, Format, InvalidArgument};
    let (p, mut sgd) = (three(), Sgd::new(1.0));
    // Before anything was scaled, and before a backward pass.
    let mut scaler = GradScaler::new();
    let mut g = Gradients::new();
    refused(scaler.unscale(&p, &mut g), InvalidArgument, "unscale before the first scale(loss)");
    refused(scaler.step(&mut sgd, &p, &mut g), InvalidArgument, "step before the first scale(loss)");
    refused(scaler.update(), InvalidArgument, "no gradients were divided");
    scaler.scale(&p.get().sum()).unwrap();
    refused(scaler.unscale(&p, &mut g), Autograd, "no parameter has a gradient here");
    refused(
        scaler.step(&mut sgd, &p, &mut g),
        Autograd,
        "step: GradScaler: unscale: no parameter has a gradient",
    );
    // Twice.
    let mut g = scaled(&mut scaler, &p, None);
    scaler.unscale(&p, &mut g).unwrap();
    refused(scaler.unscale(&p, &mut g), Autograd, "divided by the scale already");
    assert_eq!(g.get(&p.get()).unwrap().to_vec::<f32>().unwrap(), [0.5, -2.0, 1.0]);
    scaler.step(&mut sgd, &p, &mut g).unwrap();
    refused(scaler.step(&mut sgd, &p, &mut g), Autograd, "no parameter has a gradient here");
    scaler.update().unwrap();
    refused(scaler.update(), InvalidArgument, "step() or unscale() comes first");
    // Types.
    let half: Param<B> = Param::new(Tensor::new([1.0f32], &D).to_dtype(DType::F16));
    let mut g = scaler.scale(&half.get().sum()).unwrap().backward();
    refused(scaler.unscale(&half, &mut g), DTypeMismatch, "is f16");
    refused(scaler.scale(&Tensor::new([1i64], &D)), DTypeMismatch, "a loss of i64");
    // Settings.
    let s = GradScaler::<B>::new;
    for (mut scaler, part) in [
        (s().growth_factor(1.0), "growth_factor is 1, and should be above 1"),
        (s().growth_factor(f64::NAN), "growth_factor is NaN"),
        (s().backoff_factor(1.0), "backoff_factor is 1"),
        (s().backoff_factor(0.0), "backoff_factor is 0"),
        (s().init_scale(0.0), "scale is 0"),
        (s().init_scale(1e39), "scale is 1"),
        (s().growth_interval(0), "growth_interval is 0"),
    ] {
        refused(scaler.scale(&p.get().sum()), InvalidArgument, part);
    }
    // States.
    let good = GradScaler::<B>::new().state().unwrap().to_json();
    assert_eq!(ScalerState::from_json(&good).unwrap(), ScalerState::default());
    for (name, value, kind, part) in [
        ("scale", json!("65536"), Format, "scale of the state is \"65536\", and should be a number"),
        ("scale", json!(-1.0), InvalidArgument, "scale is -1"),
        ("growth_interval", json!(0.5), Format, "growth_interval of the state is 0.5"),
        ("_growth_tracker", json!(null), Format, "_growth_tracker of the state is null"),
        ("_growth_tracker", json!(2000), InvalidArgument, "_growth_tracker is 2000"),
        ("growth_factor", json!(0.5), InvalidArgument, "growth_factor is 0.5"),
    ] {
        let mut bad = good.clone();
        bad[name] = value;
        refused(ScalerState::from_json(&bad), kind, part);
    }
    let bad = ScalerState { backoff_factor: 2.0, ..scaler.state().unwrap() };
    let before = scaler.state().unwrap();
    refused(scaler.load_state(bad), InvalidArgument, "backoff_factor is 2");
    assert_eq!(scaler.state().unwrap(), before);
    // Whether a step is skipped is one bool.
    let mut g = Gradients::new();
    g.set(&p.get(), p.get().detach());
    refused(sgd.step_unless(Some(&Tensor::new([true], &D)), &p, &g), InvalidArgument, "one bool of shape []");
}

/// A step that is refused says why in a sentence, plain and captured; parameters, the scale and the
/// optimiser are what they were, and the next step is made.
#[test]
fn a_step_that_is_refused_loses_nothing() {
    use ErrorKind::{Autograd, InvalidArgument};
    let batch = (drawn(1, &[4, 3]), drawn(2, &[4, 2]));
    let good = |net: &Linear<B>, (x, y): &(T, T)| {
        let loss = autocast_off(|| (x.matmul(&net.weight.get().t()) - y).square().mean());
        Ok(Measured { loss, samples: 4, metrics: vec![] })
    };
    // Its loss depends on no parameter.
    let idle = |_: &Linear<B>, (x, _): &(T, T)| {
        Ok(Measured { loss: x.square().mean().requires_grad() * 1.0, samples: 4, metrics: vec![] })
    };
    for captured in [false, true] {
        let net: Linear<B> = Linear::new(3, 2, &mut Generator::new(0), &D);
        let mut sgd = Sgd::new(0.1);
        let before = net.state_dict().unwrap();
        for half in [DType::I64, DType::I32, DType::U8, DType::Bool, DType::F32] {
            let step = TrainStep::new(&net, good).amp(half);
            let mut step = if captured { step.capture() } else { step };
            let said = format!("autocast: to {half}; there are f16 and bf16");
            refused(step.run(&mut sgd, std::slice::from_ref(&batch)), InvalidArgument, &said);
        }
        let step = TrainStep::new(&net, idle).amp(DType::F16);
        let mut step = if captured { step.capture() } else { step };
        for _ in 0..2 {
            let why = "GradScaler: unscale: no parameter has a gradient here";
            refused(step.run(&mut sgd, std::slice::from_ref(&batch)), Autograd, why);
            assert_eq!(step.scaler().unwrap().state().unwrap(), ScalerState::default());
        }
        assert!(net.state_dict().unwrap() == before);
        let step = TrainStep::new(&net, good).amp(DType::F16);
        let mut step = if captured { step.capture() } else { step };
        step.run(&mut sgd, std::slice::from_ref(&batch)).unwrap();
        assert!(net.state_dict().unwrap() != before);
    }
}

struct Until(u64);

impl Callback<B> for Until {
    fn step(&mut self, s: &Step<'_, B>) -> Result<ControlFlow<()>> {
        Ok(if s.step == self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// A run with a scaler that is stopped and resumed ends with the bits of one that was not, also if
/// steps are skipped around the checkpoint.
#[test]
fn a_resumed_run_has_the_scale() {
    let all = digits().unwrap();
    let some =
        Digits { pixels: all.pixels[..96 * Digits::PIXELS].to_vec(), labels: all.labels[..96].to_vec() };
    let loader = Loader::new(Arc::new(digit_pairs(&some).unwrap()), 16).unwrap().shuffle(0);
    let path = tempfile::tempdir().unwrap().keep().join("checkpoint.safetensors");
    // So large a scale overflows in f16 in the first steps, and grows back later.
    let run = |stop: u64, resume: bool, amp: Option<DType>| {
        let net = DigitsMlp::<B>::new(&mut Generator::new(1), &D);
        let mut adam = AdamW::new(3e-3);
        let mut trainer = Trainer::new(&net, &mut adam, &loader, Classification::new()).epochs(1);
        if let Some(half) = amp {
            trainer = trainer.amp(half);
        }
        if amp == Some(DType::F16) {
            trainer = trainer.grad_scaler(GradScaler::new().init_scale(2f64.powi(21)).growth_interval(2));
        }
        trainer = trainer.callback(Until(stop)).checkpoints(Checkpoints::new(&path).every_steps(1));
        if resume {
            trainer = trainer.resume(Checkpoint::load(&path)?);
        }
        trainer.run(&D)?;
        net.state_dict()
    };
    let whole = run(u64::MAX, false, Some(DType::F16)).unwrap();
    for stop in [0, 1, 3] {
        run(stop, false, Some(DType::F16)).unwrap();
        assert!(run(u64::MAX, true, Some(DType::F16)).unwrap() == whole, "stopped after step {stop}");
    }
    run(1, false, Some(DType::F16)).unwrap();
    refused(run(u64::MAX, true, None), ErrorKind::InvalidArgument, "differ in scaling gradients");
    refused(run(1, false, Some(DType::F32)), ErrorKind::InvalidArgument, "train: autocast: to f32");
    assert!(whole != run(u64::MAX, false, None).unwrap());
}
