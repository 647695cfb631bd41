//! Captured training steps where the backend makes the steps itself: the same rules and bits.

use elinvar_core::{ErrorKind, Result};
use elinvar_nn::data::digits;
use elinvar_nn::layers::{Dropout, Linear};
use elinvar_nn::loader::Loader;
use elinvar_nn::models::{DigitsMlp, digit_pairs};
use elinvar_nn::optim::schedule::LinearLr;
use elinvar_nn::optim::{Adam, AdamW, GradScaler, Named, Optimizer, OptimizerState, Sgd};
use elinvar_nn::train::{Checkpoint, Checkpoints, Classification, Measured, TrainStep, Trainer};
use elinvar_nn::{Generator, Gradients, Layer, Module, RandomState, Reader, Sequential, Tensor};
use elinvar_ops::catalogue::reduction::Reduction;
use elinvar_reference::{Reference, ReferenceDevice};
use std::sync::Arc;

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;
type T = Tensor<B>;
type Net = Sequential<B>;

fn net(dropout: f64) -> Net {
    let g = &mut Generator::new(3);
    Sequential::new()
        .with(Linear::new(2, 2, g, &D))
        .with(Dropout::new(dropout, g))
        .with(Linear::new(2, 1, g, &D))
}
fn pair() -> (T, T) {
    (Tensor::from([[1.0f32, 2.0], [0.5, -1.0]]), Tensor::from([[1.0f32], [-1.0]]))
}
fn fit(net: &Net, (x, y): &(T, T)) -> Result<Measured<B>> {
    Ok(Measured { loss: net.forward(x).mse_loss(y, Reduction::Mean), samples: 2, metrics: vec![] })
}
fn state(net: &Net, o: &dyn Optimizer<B>) -> String {
    let randoms: Vec<_> = net.leaves().randoms.iter().map(|(_, r)| r.state()).collect();
    format!("{:?} {:?} {randoms:?}", net.state_dict().unwrap(), o.state_dict(net).unwrap())
}

#[test]
fn a_thousand_captured_steps() {
    let (a, b) = (net(0.25), net(0.25));
    let (mut p, mut q) = (Adam::new(0.01), Adam::new(0.01));
    let schedule = || LinearLr::new(1.0, 0.0, 2000).unwrap();
    let scaler = || GradScaler::new().init_scale(1e38).growth_factor(1e10).growth_interval(300);
    let mut plain = TrainStep::new(&a, fit).schedule(0.01, schedule()).grad_scaler(scaler());
    let mut captured = TrainStep::new(&b, fit).schedule(0.01, schedule()).grad_scaler(scaler()).capture();
    for _ in 0..1000 {
        plain.run(&mut p, &[pair(), pair()]).unwrap();
        captured.run(&mut q, &[pair(), pair()]).unwrap();
    }
    assert!(state(&a, &p) == state(&b, &q));
    assert_eq!(plain.scaler().unwrap().state().unwrap(), captured.scaler().unwrap().state().unwrap());
    assert_eq!(captured.recordings(), 0);
}

#[test]
fn the_rules_are_those_of_every_backend() {
    let model = net(0.5);
    let mut adam = Adam::new(0.01);
    let random = RandomState::fork(&mut Generator::new(1));
    let reads = |net: &Net, batch: &(T, T)| {
        let m = fit(net, batch)?;
        m.loss.to_vec::<f32>()?;
        Ok(m)
    };
    let before = format!("{:?}", model.state_dict().unwrap());
    let e = TrainStep::new(&model, reads).capture().run(&mut adam, &[pair()]).unwrap_err();
    assert!(e.kind() == ErrorKind::Unsupported && e.message().contains("reading numbers"), "{e}");
    let no_gradient = |_: &Net, (x, _): &(T, T)| {
        Ok(Measured { loss: x.sum().requires_grad(), samples: 1, metrics: vec![] })
    };
    for scaled in [false, true] {
        let mut step = TrainStep::new(&model, no_gradient).capture();
        if scaled {
            step = step.grad_scaler(GradScaler::new());
        }
        let e = step.run(&mut adam, &[pair()]).unwrap_err();
        assert!(e.kind() == ErrorKind::Autograd && e.message().contains("has a gradient"), "{e}");
    }
    let none: &[(T, T)] = &[];
    let e = TrainStep::new(&model, fit).capture().run(&mut adam, none).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert_eq!(format!("{:?}", model.state_dict().unwrap()), before);
    // Outside of a recording each stream is another one.
    let ones = Tensor::ones([64], elinvar_core::DType::F32, &D);
    let [a, b]: [T; 2] = [(); 2].map(|()| random.dropout(&ones, 0.5).unwrap());
    assert!(!a.same_bits(&b));
}

/// An optimiser that does not record its step.
struct Own(Sgd<B>);

impl Optimizer<B> for Own {
    fn step_some(&mut self, p: &Named<'_, B>, g: &Gradients<B>, skip: Option<&T>) -> Result<usize> {
        self.0.step_some(p, g, skip)
    }
    fn lr(&self) -> f64 {
        Optimizer::lr(&self.0)
    }
    fn set_lr(&mut self, lr: f64) {
        self.0.set_lr(lr);
    }
    fn groups(&self) -> usize {
        Optimizer::groups(&self.0)
    }
    fn state_of(&self, p: &Named<'_, B>, read: &mut Reader<'_, B>) -> Result<OptimizerState> {
        self.0.state_of(p, read)
    }
    fn prepare<'a>(&'a mut self, p: &Named<'_, B>, from: &OptimizerState) -> Result<Box<dyn FnOnce() + 'a>> {
        self.0.prepare(p, from)
    }
}

#[test]
fn an_optimiser_of_ones_own_is_refused_by_name() {
    let model = net(0.0);
    let mut own = Own(Sgd::new(0.1));
    let mut step = TrainStep::new(&model, fit).capture();
    step.run(&mut own, &[pair()]).unwrap();
    let e = step.run(&mut own, &[pair()]).unwrap_err();
    assert!(e.kind() == ErrorKind::Unsupported && e.message().contains("cannot be captured"), "{e}");
}

/// A trainer that captures, is stopped by its checkpoint, and goes on.
#[test]
fn a_trainer_captures() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.safetensors");
    let (few, _) = digits().unwrap().split(0, 0.95).unwrap();
    let loader = Loader::new(Arc::new(digit_pairs(&few).unwrap()), 32).unwrap().shuffle(1);
    let run = |epochs: usize, captured: bool, from: Option<Checkpoint>| {
        let net = DigitsMlp::<B>::new(&mut Generator::new(0), &D);
        let mut adam = AdamW::new(3e-3);
        let mut t = Trainer::new(&net, &mut adam, &loader, Classification::new())
            .epochs(epochs)
            .accumulate(2)
            .clip_grad_norm(1.0)
            .checkpoints(Checkpoints::new(&path));
        if captured {
            t = t.capture();
        }
        if let Some(from) = from {
            t = t.resume(from);
        }
        let losses: Vec<f64> = t.run(&D).unwrap().epochs.iter().map(|e| e.train.loss).collect();
        (net.state_dict().unwrap(), losses)
    };
    let want = run(2, false, None);
    run(1, true, None);
    assert!(run(2, true, Some(Checkpoint::load(&path).unwrap())) == want);
}
