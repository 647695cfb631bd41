//! Training runs: they learn, and are reproducible bit for bit.

use elinvar_core::{ErrorKind, HostTensor, Result, Shape};
use elinvar_nn::data::{Digits, digits};
use elinvar_nn::ema::{Average, BufferAverage, Ema};
use elinvar_nn::layers::{BatchNorm1d, Dropout, Flatten, Linear, ReLU};
use elinvar_nn::loader::{Loader, Pairs};
use elinvar_nn::models::{DigitsCnn, DigitsMlp, DigitsTransformer, digit_pairs};
use elinvar_nn::optim::schedule::{CosineAnnealingLr, LinearLr, PlateauMode, ReduceLrOnPlateau};
use elinvar_nn::optim::{Adam, AdamW, Optimizer, Sgd};
use elinvar_nn::train::{
    Callback, Checkpoint, Checkpoints, Classification, EarlyStopping, Report, Step, Trainer, evaluate,
    evaluate_on, predict,
};
use elinvar_nn::{Generator, Layer, Module, Sequential, StateDict};
use elinvar_reference::{Reference, ReferenceDevice};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

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
/// A callback that ends the run after the step of this number.
struct Until {
    last: u64,
    seen: Arc<Mutex<Vec<(u64, f64, f64)>>>,
}

impl Until {
    fn step(last: u64) -> Self {
        Until { last, seen: Arc::default() }
    }
}

impl Callback<B> for Until {
    fn step(&mut self, s: &Step<'_, B>) -> Result<ControlFlow<()>> {
        self.seen.lock().unwrap().push((s.step, s.lr, s.loss()?));
        Ok(if s.step == self.last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

#[test]
fn the_mlp_learns_digits() {
    let (train, test) = data();
    let m = DigitsMlp::<B>::new(&mut Generator::new(1), &D);
    let before = evaluate(&m, &test, 50, &D).unwrap();
    assert!(before.accuracy().unwrap() < 0.4 && before.samples == 100, "{before:?}");
    let mut o = Adam::new(0.003);
    let loader = Loader::new(train, 16).unwrap().shuffle(0);
    let watch = Until::step(u64::MAX);
    let seen = watch.seen.clone();
    let report = Trainer::new(&m, &mut o, &loader, Classification::new())
        .epochs(8)
        .schedule(LinearLr::new(1.0, 0.0, 200).unwrap())
        .validate(|m: &DigitsMlp<B>| evaluate(m, &test, 50, &D))
        .callback(watch)
        .run(&D)
        .unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen.iter().map(|s| s.0).eq(0..200));
    assert!(seen.iter().all(|s| s.2 > 0.0));
    assert_eq!((report.epochs.len(), report.stopped, report.resumed), (8, false, None));
    assert_eq!((seen[0].1, seen[100].1, o.lr()), (0.003, 0.0015, 0.003));
    let (first, last) = (&report.epochs[0], &report.epochs[7]);
    assert!(last.train.loss < first.train.loss / 4.0, "{first:?} {last:?}");
    assert_eq!((first.train.samples, first.steps, last.steps), (400, 25, 200));
    let score = last.validation.clone().unwrap();
    assert!(score.accuracy().unwrap() >= 0.85, "{score:?}");
    // Evaluation does not depend on the batch size, up to the rounding of the sum.
    let again = evaluate(&m, &test, 7, &D).unwrap();
    assert_eq!((again.accuracy(), again.samples), (score.accuracy(), 100));
    let source = Loader::new(Arc::new(test.clone()), 30).unwrap();
    let on = evaluate_on(&m, &source, &Classification::new(), None, &D).unwrap();
    assert_eq!((on.accuracy(), on.samples), (score.accuracy(), 100));
    assert_eq!(evaluate_on(&m, &source, &Classification::new(), Some(2), &D).unwrap().samples, 60);
    let predictions = predict(&m, test.x(), 33, &D).unwrap();
    let labels = test.y().as_slice::<i64>().unwrap();
    let right = predictions.iter().zip(labels).filter(|(p, l)| p.class as i64 == **l).count();
    assert_eq!((right as f64 / 100.0, predictions.len()), (again.accuracy().unwrap(), 100));
    assert!(predictions.iter().all(|p| (0.1..=1.0).contains(&p.probability)));
}

/// Everything with random numbers or state: dropout, batch norm, shuffling.
fn noisy(seed: u64) -> Sequential<B> {
    let g = &mut Generator::new(seed);
    Sequential::new()
        .with(Flatten::new())
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
        let loader = Loader::new(train.clone(), 64).unwrap().shuffle(order);
        let mut o = Sgd::new(0.1).momentum(0.9);
        Trainer::new(&m, &mut o, &loader, Classification::new()).epochs(2).run(&D).unwrap();
        bits(&m)
    };
    let first = run(1, 1);
    assert_eq!(run(1, 1), first);
    assert_ne!(run(2, 1), first);
    assert_ne!(run(1, 2), first);
}

/// A run with every kind of state, in a directory: its bits, those of the average, and its report.
struct Kept {
    dir: tempfile::TempDir,
}

impl Kept {
    fn new() -> Self {
        Kept { dir: tempfile::tempdir().unwrap() }
    }
    fn path(&self) -> PathBuf {
        self.dir.path().join("checkpoint.safetensors")
    }
    /// Ends after the step `until`; resumes from the checkpoint if there is one.
    fn run(&self, until: u64) -> (Vec<(String, Vec<u8>)>, StateDict, Report) {
        let (train, test) = data();
        // Initial weights of another seed if they are to be restored, which reveals a weight that
        // is not.
        let m = noisy(if self.path().exists() { 77 } else { 1 });
        let mut o = AdamW::new(0.01).weight_decay(0.1);
        let mut ema = Ema::new(Average::Exponential { decay: 0.9 }, BufferAverage::Copied).unwrap();
        let loader = Loader::new(train, 48).unwrap().shuffle(3);
        let mut trainer = Trainer::new(&m, &mut o, &loader, Classification::new())
            .epochs(4)
            .accumulate(2)
            .clip_grad_norm(0.5)
            .schedule(CosineAnnealingLr::new(20).unwrap())
            .ema(&mut ema)
            .validate(|m: &Sequential<B>| evaluate(m, &test, 50, &D))
            .early_stopping(EarlyStopping::new(3))
            .callback(Until::step(until))
            .checkpoints(
                Checkpoints::new(self.path()).every_steps(1).best(self.dir.path().join("best.safetensors")),
            );
        if self.path().exists() {
            trainer = trainer.resume(Checkpoint::load(self.path()).unwrap());
        }
        let report = trainer.run(&D).unwrap();
        let average = ema.state_dict().unwrap();
        (bits(&m), average, report)
    }
}

/// A run that is interrupted at any step and resumed has the bits of an uninterrupted one: weights,
/// running statistics, averages, dropout, order, sums of the epoch's loss.
#[test]
fn a_resumed_run_has_the_bits_of_an_uninterrupted_one() {
    let whole = Kept::new().run(u64::MAX);
    // 400 samples make 9 batches of 48, which make 5 steps.
    assert_eq!((whole.2.epochs.len(), whole.2.epochs[3].steps), (4, 20));
    for stops in [&[0][..], &[3], &[4], &[5], &[1, 2, 7, 13], &[19]] {
        let kept = Kept::new();
        for (i, &stop) in stops.iter().enumerate() {
            let (.., report) = kept.run(stop);
            assert!(report.stopped && (i == 0) == report.resumed.is_none(), "{stops:?} {report:?}");
        }
        let (weights, average, report) = kept.run(u64::MAX);
        // The last step of an epoch has its checkpoint after the validation, which did not run.
        let last = stops[stops.len() - 1];
        assert_eq!(report.resumed, Some(if last % 5 == 4 { last } else { last + 1 }), "{stops:?}");
        assert_eq!(weights, whole.0, "{stops:?}");
        assert_eq!(average, whole.1, "{stops:?}");
        assert_eq!(report.epochs, whole.2.epochs, "{stops:?}");
        assert!(kept.dir.path().join("best.safetensors").exists());
        // Resuming a finished run changes nothing.
        let (weights, average, report) = kept.run(u64::MAX);
        assert_eq!((weights, average, report.resumed), (whole.0.clone(), whole.1.clone(), Some(20)));
    }
}

/// A run of a few steps at a time, with its state as bytes in between, has the bits of an
/// uninterrupted one.
#[test]
fn a_run_goes_on_from_the_state_that_it_returned() {
    let (train, test) = data();
    let loader = Loader::new(train, 100).unwrap().shuffle(3);
    let settings = BTreeMap::from([("seed".to_owned(), "1".to_owned())]);
    let run = |steps: u64| {
        let net = DigitsCnn::<B>::new(&mut Generator::new(1), &D);
        let (mut adam, mut state, mut runs) = (AdamW::new(1e-2), None::<Vec<u8>>, 0);
        loop {
            let from = state.as_ref().map(|bytes| Checkpoint::from_bytes(bytes).unwrap());
            let last = from.as_ref().map_or(0, |c| c.position().step) + steps - 1;
            let mut trainer = Trainer::new(&net, &mut adam, &loader, Classification::new())
                .epochs(2)
                .validate(|m: &DigitsCnn<B>| evaluate(m, &test, 50, &D))
                .callback(Until::step(last));
            if let Some(from) = from {
                trainer = trainer.resume(from);
            }
            let (report, checkpoint) = trainer.run_resumable(&D, &settings).unwrap();
            runs += 1;
            assert_eq!((report.stopped, checkpoint.settings()), (!checkpoint.is_finished(), &settings));
            if checkpoint.is_finished() {
                return (runs, bits(&net), report.epochs);
            }
            state = Some(checkpoint.to_bytes().unwrap());
        }
    };
    let whole = run(100);
    assert_eq!((whole.0, whole.2.len()), (1, 2));
    // 4 steps an epoch; a stop at an epoch's last step leaves its end to the next run.
    for (steps, runs) in [(3, 3), (4, 3)] {
        assert_eq!(run(steps), (runs, whole.1.clone(), whole.2.clone()), "{steps} steps at a time");
    }
    assert_eq!(Checkpoint::from_bytes(b"nothing").unwrap_err().kind(), ErrorKind::Format);
}

#[test]
fn a_checkpoint_that_does_not_fit_is_an_error() {
    let kept = Kept::new();
    kept.run(7);
    let checkpoint = || Checkpoint::load(kept.path()).unwrap();
    assert_eq!((checkpoint().position().step, checkpoint().history().len()), (8, 1));
    let (train, test) = data();
    let loader = Loader::new(train, 48).unwrap();
    let run = |m: &dyn Fn() -> Sequential<B>, early: bool| {
        let m = m();
        let before = bits(&m);
        let mut o = AdamW::new(0.01);
        let mut t = Trainer::new(&m, &mut o, &loader, Classification::new()).resume(checkpoint());
        if early {
            t = t.early_stopping(EarlyStopping::new(3));
        }
        let e = t.run(&D).unwrap_err();
        assert_eq!(bits(&m), before, "nothing changes");
        e
    };
    assert!(run(&|| noisy(1), true).message().contains("needs a validation"));
    assert!(run(&|| noisy(1), false).message().contains("the checkpoint has averaged weights"));
    let other = || Sequential::new().with(Linear::new(64, 10, &mut Generator::new(1), &D));
    assert!(run(&other, false).message().contains("random numbers"));

    // Only one part does not match: the optimiser, or early stopping. None of the others changes.
    let sgd = || -> Box<dyn Optimizer<B>> { Box::new(Sgd::new(0.01)) };
    let adamw = || -> Box<dyn Optimizer<B>> { Box::new(AdamW::new(0.01)) };
    for (mut o, early, sentence) in [
        (sgd(), true, "sgd: load_state_dict: "),
        (adamw(), false, "resume: the checkpoint's run and this one differ in early"),
    ] {
        let m = noisy(1);
        let mut ema = Ema::new(Average::Exponential { decay: 0.9 }, BufferAverage::Copied).unwrap();
        ema.update(&m).unwrap();
        let before = (bits(&m), ema.state_dict().unwrap(), o.state_dict(&m).unwrap());
        let mut t = Trainer::new(&m, &mut *o, &loader, Classification::new())
            .ema(&mut ema)
            .validate(|m: &Sequential<B>| evaluate(m, &test, 50, &D))
            .resume(checkpoint());
        if early {
            t = t.early_stopping(EarlyStopping::new(3));
        }
        let e = t.run(&D).unwrap_err();
        assert!(e.message().contains(sentence), "{e}");
        assert!((bits(&m), ema.state_dict().unwrap(), o.state_dict(&m).unwrap()) == before, "{e}");
    }

    let file = kept.dir.path().join("weights.safetensors");
    elinvar_io::save_safetensors(&file, checkpoint().model(), &BTreeMap::new()).unwrap();
    let e = Checkpoint::load(&file).unwrap_err();
    assert!(e.kind() == ErrorKind::Format && e.message().contains("is no checkpoint"), "{e}");
    let whole = std::fs::read(kept.path()).unwrap();
    for n in [0, 7, 8, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&file, &whole[..n]).unwrap();
        assert_eq!(Checkpoint::load(&file).unwrap_err().kind(), ErrorKind::Format, "{n} bytes");
    }
}

/// A checkpoint that cannot be written ends the run with an error, and keeps the previous one.
#[cfg(unix)]
#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_last_one() {
    use std::os::unix::fs::PermissionsExt;
    let kept = Kept::new();
    kept.run(7);
    let before = std::fs::read(kept.path()).unwrap();
    let locked = std::fs::Permissions::from_mode(0o500);
    std::fs::set_permissions(kept.dir.path(), locked).unwrap();
    if std::fs::write(kept.dir.path().join("probe"), "").is_ok() {
        eprintln!("skipped: this user may write everywhere");
        std::fs::set_permissions(kept.dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        return;
    }
    let (train, _) = data();
    let loader = Loader::new(train, 48).unwrap();
    let (m, mut o) = (noisy(1), AdamW::new(0.01));
    let e = Trainer::new(&m, &mut o, &loader, Classification::new())
        .epochs(1)
        .checkpoints(Checkpoints::new(kept.path()))
        .run(&D)
        .unwrap_err();
    std::fs::set_permissions(kept.dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    assert!(e.kind() == ErrorKind::Io && e.message().contains("checkpoint.safetensors"), "{e}");
    assert_eq!(std::fs::read(kept.path()).unwrap(), before);
}

/// Two batches of half the size give the gradients of a whole one, up to rounding.
#[test]
fn gradients_add_up() {
    let (train, _) = data();
    let run = |batch, accumulate| {
        let m = DigitsMlp::<B>::new(&mut Generator::new(1), &D);
        let loader = Loader::new(train.clone(), batch).unwrap();
        let report = Trainer::new(&m, &mut Sgd::new(0.1), &loader, Classification::new())
            .epochs(1)
            .accumulate(accumulate)
            .run(&D)
            .unwrap();
        (report.epochs[0].train.loss, report.epochs[0].steps)
    };
    let (whole, halves) = (run(100, 1), run(50, 2));
    assert_eq!((whole.1, halves.1), (4, 4));
    assert!((whole.0 - halves.0).abs() < 1e-5, "{whole:?} {halves:?}");
}

#[test]
fn a_plateau_lowers_the_rate() {
    let (train, test) = data();
    let m = noisy(1);
    let watch = Until::step(u64::MAX);
    let seen = watch.seen.clone();
    let loader = Loader::new(train, 200).unwrap();
    // A rate so small that nothing improves: every epoch is a bad one.
    let mut o = Sgd::new(1e-12);
    Trainer::new(&m, &mut o, &loader, Classification::new())
        .epochs(4)
        .validate(|m: &Sequential<B>| evaluate(m, &test, 100, &D))
        .reduce_on_plateau(ReduceLrOnPlateau::new(PlateauMode::Min).factor(0.5).unwrap().patience(0).eps(0.0))
        .callback(watch)
        .run(&D)
        .unwrap();
    let rates: Vec<f64> = seen.lock().unwrap().iter().step_by(2).map(|s| s.1).collect();
    assert_eq!(rates, [1e-12, 1e-12, 5e-13, 2.5e-13]);
}

#[test]
fn the_cnn_and_the_transformer_take_digits() {
    let (train, test) = data();
    let loader = Loader::new(train, 100).unwrap();
    fn run<M: Layer<B>>(m: M, loader: &Loader, test: &Pairs) {
        let report = Trainer::new(&m, &mut Adam::new(0.01), loader, Classification::new())
            .epochs(1)
            .validate(|m: &M| evaluate(m, test, 100, &D))
            .run(&D)
            .unwrap();
        let score = report.epochs[0].validation.clone().unwrap();
        assert!(score.samples == 100 && score.loss.is_finite());
        let mut modes = m.leaves().modes.into_iter();
        assert!(modes.all(|m| !m.is_training()), "training leaves the model in evaluation mode");
    }
    run(DigitsCnn::<B>::new(&mut Generator::new(1), &D), &loader, &test);
    run(DigitsTransformer::<B>::new(&mut Generator::new(1), &D), &loader, &test);
}

#[test]
fn untrainable_setups_are_errors() {
    let (train, test) = data();
    let host = |v: Vec<i64>| HostTensor::from_vec(v, Shape::new(&[2]).unwrap()).unwrap();
    let two = some(2, &digits().unwrap()).x().clone();
    let wrong = |labels| Arc::new(Pairs::new(two.clone(), host(labels)).unwrap());
    let loader = |pairs: &Arc<Pairs>, n| Loader::new(pairs.clone(), n).unwrap();
    let rows: Vec<(&str, Loader, usize, f64, f64)> = vec![
        ("no whole batch", loader(&train, 401).drop_last(true), 1, 0.1, 0.0),
        ("a negative rate", loader(&train, 400), 1, -1.0, 0.0),
        ("a class that does not exist", loader(&wrong(vec![0, 10]), 2), 1, 0.1, 0.0),
        ("twice the targets", loader(&train, 400), 1, 0.1, 2.0),
        // A step so large that the second epoch has no finite loss.
        ("a rate too large", loader(&train, 400), 2, 1e30, 0.0),
    ];
    for (name, loader, epochs, lr, smoothing) in rows {
        let m = DigitsMlp::<B>::new(&mut Generator::new(1), &D);
        let e =
            Trainer::new(&m, &mut Sgd::new(lr), &loader, Classification::new().label_smoothing(smoothing))
                .epochs(epochs)
                .run(&D)
                .expect_err(name);
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{name}: {e}");
    }
    let m = DigitsMlp::<B>::new(&mut Generator::new(1), &D);
    let mut sgd = Sgd::new(0.1);
    let none = loader(&train, 400);
    let e = Trainer::new(&m, &mut sgd, &none, Classification::new()).accumulate(0).run(&D).unwrap_err();
    assert_eq!(e.message(), "train: a step of 0 batches has no gradient; accumulate 1 at least");
    let m = Linear::<B>::new(3, 10, &mut Generator::new(1), &D);
    for e in [evaluate(&m, &test, 10, &D).unwrap_err(), predict(&m, test.x(), 10, &D).unwrap_err()] {
        assert_eq!(e.kind(), ErrorKind::ShapeMismatch);
    }
    assert_eq!(evaluate(&m, &test, 0, &D).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let x = &Generator::new(1).randn([2, 3], &D);
    assert_eq!(m.forward(x).dims(), [2, 10]);
}
