//! Training runs: they learn, and they give the same bits every time.

use elinvar_core::{ErrorKind, HostTensor, Shape};
use elinvar_nn::data::{Digits, digits};
use elinvar_nn::layers::{BatchNorm1d, Dropout, Linear, ReLU};
use elinvar_nn::loader::Pairs;
use elinvar_nn::models::{DigitsCnn, DigitsMlp, digit_pairs};
use elinvar_nn::optim::{Adam, Optimizer, Sgd};
use elinvar_nn::train::{Decay, FitOptions, Progress, evaluate, fit, predict};
use elinvar_nn::{Generator, Layer, Module, Sequential};
use elinvar_reference::{Reference, ReferenceDevice};
use std::ops::ControlFlow;
use std::sync::Arc;

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;

/// The first digits of a split, few enough for a test.
fn some(n: usize, d: &Digits) -> Pairs {
    let part = Digits { pixels: d.pixels[..n * Digits::PIXELS].to_vec(), labels: d.labels[..n].to_vec() };
    digit_pairs(&part).unwrap()
}
fn data() -> (Arc<Pairs>, Pairs) {
    let (train, test) = digits().unwrap().split(1, 0.2).unwrap();
    (Arc::new(some(400, &train)), some(100, &test))
}
/// All bits of all weights and buffers.
fn bits(m: &dyn Module<B>) -> Vec<(String, Vec<u8>)> {
    m.state_dict().unwrap().into_iter().map(|(k, v)| (k, v.data().to_le_bytes())).collect()
}
fn quiet(_: Progress<'_, B>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn the_mlp_learns_digits() {
    let (train, test) = data();
    let m = DigitsMlp::<B>::new(&mut Generator::new(1), &D);
    let before = evaluate(&m, &test, 50, &D).unwrap();
    assert!(before.accuracy() < 0.4 && before.samples == 100, "{before:?}");
    let options = FitOptions { epochs: 8, batch_size: 16, decay: Decay::Linear, ..FitOptions::default() };
    let (mut steps, mut rates) = (0, vec![]);
    let mut o = Adam::new(0.003);
    let report = fit(&m, &mut o, &train, Some(&test), &options, &D, &mut |p| {
        if let Progress::Step(s) = p {
            assert_eq!((s.step, s.steps, s.samples, s.epoch), (steps, 200, 16, steps as usize / 25));
            assert!(s.loss().unwrap() > 0.0 && (0.0..=1.0).contains(&s.accuracy().unwrap()));
            steps += 1;
            rates.push(s.lr);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!((steps, report.epochs.len(), report.stopped), (200, 8, false));
    assert_eq!((rates[0], rates[100], o.lr()), (0.003, 0.0015, 0.003));
    let (first, last) = (&report.epochs[0], &report.epochs[7]);
    assert!(last.train.loss < first.train.loss / 4.0, "{first:?} {last:?}");
    let test_score = last.test.unwrap();
    assert!(test_score.accuracy() >= 0.85, "{test_score:?}");
    // Evaluation does not depend on how the samples are cut into batches, but for the rounding of the sum.
    let again = evaluate(&m, &test, 7, &D).unwrap();
    assert_eq!((again.correct, again.samples), (test_score.correct, 100));
    let predictions = predict(&m, test.x(), 33, &D).unwrap();
    let labels = test.y().as_slice::<i64>().unwrap();
    let right = predictions.iter().zip(labels).filter(|(p, l)| p.class as i64 == **l).count();
    assert_eq!((right, predictions.len()), (again.correct, 100));
    assert!(predictions.iter().all(|p| (0.1..=1.0).contains(&p.probability)));
}

/// Everything that draws or keeps something: dropout, batch norm, shuffling.
fn noisy(seed: u64) -> Sequential<B> {
    let g = &mut Generator::new(seed);
    Sequential::new()
        .with(elinvar_nn::layers::Flatten::new())
        .with(Linear::new(64, 16, g, &D))
        .with(BatchNorm1d::new(16, &D))
        .with(ReLU)
        .with(Dropout::new(0.2, g))
        .with(Linear::new(16, 10, g, &D))
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let (train, _) = data();
    let run = |seed, order| {
        let m = noisy(seed);
        let options = FitOptions { epochs: 2, batch_size: 64, seed: order, ..FitOptions::default() };
        let mut o = Sgd::new(0.1).momentum(0.9);
        fit(&m, &mut o, &train, None, &options, &D, &mut quiet).unwrap();
        bits(&m)
    };
    let first = run(1, 1);
    assert_eq!(run(1, 1), first);
    assert_ne!(run(2, 1), first);
    assert_ne!(run(1, 2), first);
}

#[test]
fn the_cnn_takes_digits() {
    let (train, test) = data();
    let m = DigitsCnn::<B>::new(&mut Generator::new(1), &D);
    let options = FitOptions { epochs: 1, batch_size: 100, ..FitOptions::default() };
    let report = fit(&m, &mut Adam::new(0.01), &train, Some(&test), &options, &D, &mut quiet).unwrap();
    let score = report.epochs[0].test.unwrap();
    assert!(score.samples == 100 && score.loss.is_finite());
    let mut modes = m.leaves().modes.into_iter();
    assert!(modes.all(|m| !m.is_training()), "fit leaves the model in evaluation mode");
}

#[test]
fn the_caller_may_stop() {
    let (train, _) = data();
    for (stop_at, want_steps, want_epochs) in [(3, 4, 0), (1000, 8, 2)] {
        let m = noisy(1);
        let options = FitOptions { epochs: 2, batch_size: 100, ..FitOptions::default() };
        let mut steps = 0;
        let report = fit(&m, &mut Sgd::new(0.1), &train, None, &options, &D, &mut |p| match p {
            Progress::Step(s) => {
                steps += 1;
                if s.step == stop_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
            Progress::Epoch(_) => ControlFlow::Continue(()),
        })
        .unwrap();
        assert_eq!((steps, report.epochs.len(), report.stopped), (want_steps, want_epochs, stop_at == 3));
    }
}

#[test]
fn what_cannot_be_trained_is_an_error() {
    let (train, test) = data();
    let host = |v: Vec<i64>| HostTensor::from_vec(v, Shape::new(&[2]).unwrap()).unwrap();
    let two = some(2, &digits().unwrap()).x().clone();
    let wrong = |labels| Arc::new(Pairs::new(two.clone(), host(labels)).unwrap());
    let base = FitOptions { epochs: 1, batch_size: 400, ..FitOptions::default() };
    let rows: Vec<(Arc<Pairs>, FitOptions, f64, ErrorKind)> = vec![
        (train.clone(), FitOptions { batch_size: 0, ..base.clone() }, 0.1, ErrorKind::InvalidArgument),
        (
            train.clone(),
            FitOptions { batch_size: 401, drop_last: true, ..base.clone() },
            0.1,
            ErrorKind::InvalidArgument,
        ),
        (train.clone(), base.clone(), -1.0, ErrorKind::InvalidArgument),
        (wrong(vec![0, 10]), base.clone(), 0.1, ErrorKind::InvalidArgument),
        (train.clone(), FitOptions { label_smoothing: 2.0, ..base.clone() }, 0.1, ErrorKind::InvalidArgument),
        // So large a step that the second epoch has no finite loss.
        (train.clone(), FitOptions { epochs: 2, ..base.clone() }, 1e30, ErrorKind::InvalidArgument),
    ];
    for (i, (pairs, options, lr, kind)) in rows.into_iter().enumerate() {
        let m = DigitsMlp::<B>::new(&mut Generator::new(1), &D);
        let e = fit(&m, &mut Sgd::new(lr), &pairs, None, &options, &D, &mut quiet)
            .expect_err(&format!("row {i}"));
        assert_eq!(e.kind(), kind, "row {i}: {e}");
    }
    let m = Linear::<B>::new(3, 10, &mut Generator::new(1), &D);
    for e in [evaluate(&m, &test, 10, &D).unwrap_err(), predict(&m, test.x(), 10, &D).unwrap_err()] {
        assert_eq!(e.kind(), ErrorKind::ShapeMismatch);
    }
    assert_eq!(evaluate(&m, &test, 0, &D).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let x = &Generator::new(1).randn([2, 3], &D);
    assert_eq!(m.forward(x).dims(), [2, 10]);
}
