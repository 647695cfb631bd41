//! Training that waits for no device: the bits, scores and states of training that does.

use elinvar_core::ErrorKind;
use elinvar_core::ready::ready;
use elinvar_nn::data::{Digits, digits};
use elinvar_nn::ema::{Average, BufferAverage, Ema};
use elinvar_nn::loader::{Loader, Pairs};
use elinvar_nn::models::{DigitsMlp, digit_pairs};
use elinvar_nn::optim::AdamW;
use elinvar_nn::train::{
    Callback, Checkpoint, Classification, LossLater, Report, Step, Trainer, evaluate, evaluate_async,
    predict, predict_async,
};
use elinvar_nn::{Generator, Module};
use elinvar_reference::{Reference, ReferenceDevice};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;

fn data() -> Arc<Pairs> {
    let all = digits().unwrap();
    let few =
        Digits { pixels: all.pixels[..96 * Digits::PIXELS].to_vec(), labels: all.labels[..96].to_vec() };
    Arc::new(digit_pairs(&few).unwrap())
}

/// Losses as both kinds of run may read them, and the end of a run.
#[derive(Default)]
struct Watch {
    losses: Vec<f64>,
    later: Vec<LossLater<B>>,
    until: Option<u64>,
}

impl Callback<B> for &mut Watch {
    fn step(&mut self, step: &Step<'_, B>) -> elinvar_core::Result<ControlFlow<()>> {
        self.losses.push(step.loss()?);
        self.later.push(step.loss_later());
        Ok(if self.until == Some(step.step) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// A run of 3 epochs; `stops`: it is stopped in the second one, and goes on.
fn run(is_async: bool, stops: bool) -> (Vec<Report>, Vec<f64>, Vec<u8>) {
    let data = data();
    let net = DigitsMlp::<B>::new(&mut Generator::new(3), &D);
    let mut adam = AdamW::new(3e-3);
    let mut ema = Ema::new(Average::Exponential { decay: 0.9 }, BufferAverage::Copied).unwrap();
    let loader = Loader::new(data.clone(), 16).unwrap().shuffle(2);
    let (mut state, mut reports, mut losses): (Option<Checkpoint>, _, _) = (None, Vec::new(), Vec::new());
    for until in if stops { &[Some(7), None][..] } else { &[None] } {
        let mut watch = Watch { until: *until, ..Watch::default() };
        let mut trainer = Trainer::new(&net, &mut adam, &loader, Classification::new())
            .epochs(3)
            .ema(&mut ema)
            .callback(&mut watch);
        if let Some(state) = state.take() {
            trainer = trainer.resume(state);
        }
        let settings = BTreeMap::from([("net".to_owned(), "mlp".to_owned())]);
        let (report, checkpoint) = if is_async {
            let trainer =
                trainer.validate_async(async |net: &DigitsMlp<B>| evaluate_async(net, &data, 40, &D).await);
            ready(trainer.run_resumable_async(&D, &settings)).unwrap()
        } else {
            let trainer = trainer.validate(|net: &DigitsMlp<B>| evaluate(net, &data, 40, &D));
            trainer.run_resumable(&D, &settings).unwrap()
        };
        for (now, later) in watch.losses.iter().zip(&watch.later) {
            assert_eq!(*now, ready(later.read()).unwrap());
        }
        losses.extend(watch.losses);
        reports.push(report);
        state = Some(checkpoint);
    }
    let x = data.x();
    assert_eq!(ready(predict_async(&net, x, 40, &D)).unwrap(), predict(&net, x, 40, &D).unwrap());
    (reports, losses, state.unwrap().to_bytes().unwrap())
}

#[test]
fn what_is_awaited_is_what_is_waited_for() {
    let want = run(false, false);
    assert_eq!(want.1.len(), 18);
    assert!(run(true, false) == want);
    let (stopped, losses, bytes) = run(true, true);
    assert!(stopped[0].stopped && stopped[1].resumed == Some(8));
    assert!(losses == want.1 && bytes == want.2);
    assert_eq!(stopped[1].epochs, want.0[0].epochs);
}

#[test]
fn a_validation_that_does_not_block_needs_such_a_run() {
    let data = data();
    let net = DigitsMlp::<B>::new(&mut Generator::new(3), &D);
    let before = net.state_dict().unwrap();
    let mut adam = AdamW::new(3e-3);
    let loader = Loader::new(data.clone(), 16).unwrap();
    let e = Trainer::new(&net, &mut adam, &loader, Classification::new())
        .validate_async(async |net: &DigitsMlp<B>| evaluate_async(net, &data, 40, &D).await)
        .run(&D)
        .unwrap_err();
    assert!(e.kind() == ErrorKind::InvalidArgument && e.message().contains("does not block"), "{e}");
    assert_eq!(net.state_dict().unwrap(), before);
}
