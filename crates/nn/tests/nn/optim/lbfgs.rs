//! L-BFGS, against PyTorch 2.15.

use super::{B, D};
use elinvar_core::ErrorKind;
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_nn::optim::{Lbfgs, LineSearch};
use elinvar_nn::{Backend, Gradients, Module, Param, Tensor};

/// (1 - x)^2 + 4 (y - x^2)^2 + (z - y)^2
#[derive(Module)]
struct Valley<B: Backend> {
    a: Param<B>,
    b: Param<B>,
}

impl<B: Backend> Valley<B> {
    fn new(d: &B::Device) -> Self {
        let of = |v: &[f64], shape: &[usize]| {
            let shape = elinvar_core::Shape::new(shape).unwrap();
            Param::new(
                Tensor::from_host(elinvar_core::HostTensor::from_vec(v.to_vec(), shape).unwrap(), d).unwrap(),
            )
        };
        Valley { a: of(&[-1.5, 0.5], &[2]), b: of(&[2.0], &[1, 1]) }
    }
    fn loss(&self) -> elinvar_core::Result<(Tensor<B>, Gradients<B>)> {
        let (a, z) = (self.a.get(), self.b.get());
        let (x, y) = (a.narrow(0, 0, 1), a.narrow(0, 1, 1));
        let loss =
            (&x - 1.0).square().sum() + ((&y - x.square()).square() * 4.0).sum() + (z - y).square().sum();
        Ok((loss.clone(), loss.backward()))
    }
    fn steps(&self, o: &mut Lbfgs<B>, n: usize) -> (Vec<f64>, usize) {
        let mut calls = 0;
        let losses = (0..n)
            .map(|_| {
                o.step(self, || {
                    calls += 1;
                    self.loss()
                })
                .unwrap()
            })
            .collect();
        (losses, calls)
    }
    fn values(&self) -> Vec<f64> {
        [&self.a, &self.b].iter().flat_map(|p| p.get().to_vec::<f64>().unwrap()).collect()
    }
}

struct Row {
    o: Lbfgs<B>,
    steps: usize,
    losses: &'static [f64],
    calls: usize,
    want: [f64; 3],
}

/// `torch.optim.LBFGS([a, b], ..)`, with a closure that computes the same loss in float64.
fn rows() -> Vec<Row> {
    let search = |o: Lbfgs<B>| o.line_search(LineSearch::StrongWolfe);
    vec![
        Row {
            o: Lbfgs::new(0.1).max_iter(4),
            steps: 3,
            losses: &[20.75, 12.60039899536052, 8.533065463841524],
            calls: 12,
            want: [-1.1246023106875318, 0.8250846109624576, 1.8309422144464176],
        },
        Row {
            o: search(Lbfgs::new(1.0).max_iter(6)),
            steps: 2,
            losses: &[20.75, 2.158261737924269],
            calls: 15,
            want: [0.3828610415737138, 0.016329474603307744, 0.015820028053438517],
        },
        // The oldest change is forgotten.
        Row {
            o: search(Lbfgs::new(0.5).max_iter(5).history_size(2)),
            steps: 2,
            losses: &[20.75, 4.34070609408721],
            calls: 12,
            want: [0.0840453255949527, -0.1751393980518925, -0.9361393570574699],
        },
        Row {
            o: Lbfgs::new(0.05).max_iter(50).max_eval(7),
            steps: 1,
            losses: &[20.75],
            calls: 7,
            want: [-1.3705491635131333, 0.5807657976177326, 1.9730289621928918],
        },
    ]
}

/// Terms are added in another order, which some iterations make larger.
const NEAR: f64 = 1e-11;

fn is_near(got: &[f64], want: &[f64]) -> bool {
    got.len() == want.len() && got.iter().zip(want).all(|(g, w)| (g - w).abs() <= NEAR * (1.0 + w.abs()))
}

#[test]
fn steps_are_pytorchs() {
    for (i, mut row) in rows().into_iter().enumerate() {
        let net = Valley::new(&D);
        let (losses, calls) = net.steps(&mut row.o, row.steps);
        assert!(is_near(&losses, row.losses), "row {i}: {losses:?}");
        assert_eq!(calls, row.calls, "row {i}");
        assert!(is_near(&net.values(), &row.want), "row {i}: {:?}", net.values());
    }
}

#[test]
fn it_finds_the_minimum_with_the_same_bits_on_every_device() {
    fn found<B: Backend>(d: &B::Device) -> Vec<u64> {
        let net = Valley::<B>::new(d);
        net.steps(&mut Lbfgs::new(1.0).max_iter(60).line_search(LineSearch::StrongWolfe), 2);
        net.values().into_iter().map(f64::to_bits).collect()
    }
    let reference = found::<B>(&D);
    assert!(reference.iter().all(|v| (f64::from_bits(*v) - 1.0).abs() < 1e-5), "{reference:?}");
    assert_eq!(found::<Cpu>(&CpuDevice::default()), reference);
}

#[test]
fn up_is_down_of_the_negative() {
    let (up, down) = (Valley::<B>::new(&D), Valley::new(&D));
    let mut o = Lbfgs::new(1.0).line_search(LineSearch::StrongWolfe);
    let (losses, _) = down.steps(&mut o.clone(), 2);
    let negative = || {
        let (loss, mut gradients) = up.loss()?;
        gradients.scale(-1.0)?;
        Ok((-loss.detach(), gradients))
    };
    o = o.maximize(true);
    let got = [o.step(&up, negative).unwrap(), o.step(&up, negative).unwrap()];
    assert_eq!(got.map(|v| -v).to_vec(), losses);
    assert_eq!(up.values(), down.values());
}

#[test]
fn a_saved_state_goes_on_with_the_same_bits() {
    for row in rows() {
        let (whole, first) = (Valley::new(&D), Valley::new(&D));
        let mut o = row.o.clone();
        whole.steps(&mut o, 4);
        let mut o = row.o.clone();
        first.steps(&mut o, 2);
        let (tensors, groups) = o.state_dict(&first).unwrap().to_tensors();
        let state = elinvar_nn::optim::OptimizerState::from_tensors(&tensors, Some(&groups)).unwrap();
        let mut again = Lbfgs::new(9.0);
        again.load_state_dict(&first, &state).unwrap();
        assert_eq!(again.state_dict(&first).unwrap(), state);
        first.steps(&mut again, 2);
        assert_eq!(first.values(), whole.values());
    }
}

#[test]
fn faults() {
    let net = Valley::new(&D);
    let kind = |o: &mut Lbfgs<B>| o.step(&net, || net.loss()).unwrap_err().kind();
    assert_eq!(kind(&mut Lbfgs::new(-1.0)), ErrorKind::InvalidArgument);
    assert_eq!(kind(&mut Lbfgs::new(1.0).history_size(0)), ErrorKind::InvalidArgument);
    assert_eq!(kind(&mut Lbfgs::new(1.0).tolerance_grad(f64::NAN)), ErrorKind::InvalidArgument);
    let stale = net.loss().unwrap();
    net.steps(&mut Lbfgs::new(0.1).max_iter(1), 1);
    let e = Lbfgs::new(1.0).step(&net, || Ok(stale.clone())).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Autograd);
    // A state of other parameters.
    let mut o = Lbfgs::new(0.1).max_iter(2);
    net.steps(&mut o, 1);
    let state = o.state_dict(&net).unwrap();
    let other: Param<B> = Param::new([1.0f64].into());
    assert_eq!(o.load_state_dict(&other, &state).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let mut cut = state.clone();
    cut.state.values_mut().for_each(|keys| drop(keys.remove("ro")));
    assert_eq!(o.load_state_dict(&net, &cut).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
