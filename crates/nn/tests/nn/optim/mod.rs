//! Optimisers, schedules, clipping, averages of weights.

mod clip;
mod devices;
mod ema;
mod groups;
mod lbfgs;
mod muon;
mod schedule;
mod state;
mod steps;

use elinvar_core::{DType, Element, HostData, HostTensor, Scalar, Shape};
use elinvar_nn::optim::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, Group, Lion, NAdam, Optimizer, RAdam, RmsProp, Sgd,
};
use elinvar_nn::{Gradients, Module, Param, Tensor};
use elinvar_reference::{Reference, ReferenceDevice};

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;

fn number(v: f64, dtype: DType) -> Tensor<B> {
    let mut data = HostData::full(dtype, 1, Scalar::Int(0)).unwrap();
    elinvar_core::each_data!(&mut data, d => d[0] = Element::from_f64(v));
    Tensor::from_host(HostTensor::new(Shape::scalar(), data).unwrap(), &D).unwrap()
}
fn step(o: &mut dyn Optimizer<B>, p: &Param<B>, gradient: f64) -> elinvar_core::Result<()> {
    let mut g = Gradients::new();
    g.set(&p.get(), number(gradient, p.get().dtype()));
    o.step(p, &g)
}

/// Two parameters of f64, the start of all rows with groups.
#[derive(Module)]
struct Net {
    weight: Param<B>,
    bias: Param<B>,
}

impl Net {
    fn new() -> Net {
        Net {
            weight: Param::new([[0.5f64, -0.25], [1.0, 0.75]].into()),
            bias: Param::new([0.125f64, -1.0].into()),
        }
    }
    /// Steps with gradients that depend on the step numbers.
    fn steps(&self, o: &mut dyn Optimizer<B>, numbers: std::ops::Range<usize>) {
        for t in numbers {
            let of = |i: usize| ((7 * i + 3 * t) % 11) as f64 / 8.0 - 0.625;
            let mut g = Gradients::new();
            g.set(&self.weight.get(), [[of(0), of(1)], [of(2), of(3)]].into());
            g.set(&self.bias.get(), [of(4), of(5)].into());
            o.step(self, &g).unwrap();
        }
    }
    fn values(&self) -> Vec<f64> {
        let of = |p: &Param<B>| p.get().to_vec::<f64>().unwrap();
        [of(&self.weight), of(&self.bias)].concat()
    }
    fn is_near(&self, want: &[f64], tolerance: f64) -> bool {
        let got = self.values();
        got.len() == want.len()
            && got.iter().zip(want).all(|(g, w)| (g - w).abs() <= tolerance * (1.0 + w.abs()))
    }
}

/// Half the learning rate and no weight decay for the bias.
fn bias() -> Group {
    Group::matching(|name| name.ends_with("bias")).lr_scale(0.5).weight_decay(0.0)
}

/// An optimiser, and the parameters of [`Net`] after ten steps with the group [`bias`].
struct Row {
    what: &'static str,
    make: fn() -> Box<dyn Optimizer<B>>,
    want: [f64; 6],
    /// |got - want| <= tolerance * (1 + |want|)
    tolerance: f64,
}

/// f64 has about 16 digits; the terms of ten steps are added in another order than in PyTorch.
const NEAR: f64 = 4e-15;
/// r_t of RAdam is the difference of two numbers near 2000 (cancellation), here as in PyTorch.
const RADAM: f64 = 1e-13;

/// The results of PyTorch 2.15:
/// ```python
/// def run(cls, **kw):
///     w = torch.tensor([[0.5, -0.25], [1.0, 0.75]], dtype=torch.float64, requires_grad=True)
///     b = torch.tensor([0.125, -1.0], dtype=torch.float64, requires_grad=True)
///     o = cls([{"params": [w]}, {"params": [b], "lr": kw["lr"] / 2, "weight_decay": 0.0}], **kw)
///     for t in range(10):
///         g = [((7*i + 3*t) % 11 - 5) / 8 for i in range(6)]
///         w.grad = torch.tensor(g[:4], dtype=torch.float64).view(2, 2)
///         b.grad = torch.tensor(g[4:], dtype=torch.float64)
///         o.step()
///     return w.flatten().tolist() + b.tolist()
/// ```
/// with `torch.set_default_dtype(torch.float64)`, or else NAdam's `mu_product` is an f32.
/// Lion is not part of PyTorch; its row is algorithm 2 of the paper in the place of `o.step()`:
/// ```python
/// c = torch.sign(b1*m + (1-b1)*g); x = x - lr*(c + wd*x); m = b2*m + (1-b2)*g
/// ```
fn rows() -> Vec<Row> {
    vec![
        Row {
            what: "sgd",
            make: || Box::new(Sgd::new(0.1).momentum(0.9).dampening(0.25).weight_decay(0.1).group(bias())),
            want: [
                0.6443221282266788,
                -0.36267147036829056,
                0.6302073873094429,
                0.41399090151358203,
                0.005849350131250024,
                -0.8250994670499999,
            ],
            tolerance: NEAR,
        },
        Row {
            what: "sgd plain",
            make: || Box::new(Sgd::new(0.1).weight_decay(0.1).group(bias())),
            want: [
                0.48479788613394037,
                -0.23477119404077507,
                0.8426389754639969,
                0.7048071895961353,
                0.1125,
                -0.96875,
            ],
            tolerance: NEAR,
        },
        Row {
            what: "sgd nesterov",
            make: || Box::new(Sgd::new(0.1).momentum(0.9).nesterov(true).weight_decay(0.1).group(bias())),
            want: [
                0.5298602961631191,
                -0.3053339436426935,
                0.4012707412924763,
                0.45875683728997774,
                -0.018268500594375015,
                -0.795506198204375,
            ],
            tolerance: NEAR,
        },
        Row {
            what: "adam",
            make: || Box::new(Adam::new(0.1).weight_decay(0.1).group(bias())),
            want: [
                0.6878406899423807,
                -0.46010271780422557,
                0.7803685826568655,
                0.5046600634674864,
                -0.023527963051135404,
                -0.8309614858614371,
            ],
            tolerance: NEAR,
        },
        Row {
            what: "adam amsgrad",
            make: || Box::new(Adam::new(0.1).betas(0.5, 0.6).amsgrad(true).weight_decay(0.1).group(bias())),
            want: [
                0.5215037029037591,
                -0.3385785185919198,
                0.7735436868860893,
                0.623350793913977,
                0.016247926493307106,
                -0.8946187597641464,
            ],
            tolerance: NEAR,
        },
        Row {
            what: "adamw",
            make: || Box::new(AdamW::new(0.1).weight_decay(0.1).group(bias())),
            want: [
                0.7459097619925807,
                -0.4964481711843457,
                0.9290357369778738,
                0.5652084178236194,
                -0.023527963051135404,
                -0.8309614858614371,
            ],
            tolerance: NEAR,
        },
        Row {
            what: "rmsprop",
            make: || Box::new(RmsProp::new(0.1).weight_decay(0.1).group(bias())),
            want: [
                0.36506958636287395,
                -0.5558334099162485,
                -0.1315961916453932,
                0.4051322548008912,
                -0.6502868927769083,
                -0.4793649750880704,
            ],
            tolerance: NEAR,
        },
        Row {
            what: "rmsprop momentum",
            make: || Box::new(RmsProp::new(0.1).momentum(0.5).weight_decay(0.1).group(bias())),
            want: [
                -0.0380535700123339,
                -0.4795250375105693,
                -0.6950219891601523,
                0.33063687720728874,
                -1.5866573397831973,
                0.09471122326464484,
            ],
            tolerance: NEAR,
        },
        Row {
            what: "rmsprop centered",
            make: || Box::new(RmsProp::new(0.1).alpha(0.9).centered(true).weight_decay(0.1).group(bias())),
            want: [
                0.5132132209307099,
                -0.4871528860678017,
                0.494368627932922,
                0.5360995814316994,
                -0.14700189337752875,
                -0.8255862100903036,
            ],
            tolerance: NEAR,
        },
        Row {
            what: "rmsprop both",
            make: || {
                Box::new(
                    RmsProp::new(0.1).alpha(0.9).momentum(0.5).centered(true).weight_decay(0.1).group(bias()),
                )
            },
            want: [
                0.4786750619863637,
                -0.6856669291632274,
                0.19020917800135834,
                0.36186709785182314,
                -0.4774125493925064,
                -0.6294238485145703,
            ],
            tolerance: NEAR,
        },
        Row {
            what: "adagrad",
            make: || {
                Box::new(
                    Adagrad::new(0.1)
                        .lr_decay(0.5)
                        .initial_accumulator_value(0.25)
                        .weight_decay(0.1)
                        .group(bias()),
                )
            },
            want: [
                0.5587685314400824,
                -0.3081625084754302,
                0.9564205325321729,
                0.6836559639595745,
                0.09927130788995661,
                -0.9692775020121119,
            ],
            tolerance: NEAR,
        },
        Row {
            what: "adadelta",
            make: || Box::new(Adadelta::new(1.0).rho(0.75).eps(1e-3).weight_decay(0.1).group(bias())),
            want: [
                0.47612210754064804,
                -0.24570822629027478,
                0.7423521223065057,
                0.7219272547385379,
                0.0865345123283404,
                -0.9591878301612319,
            ],
            tolerance: NEAR,
        },
        Row {
            what: "adamax",
            make: || Box::new(Adamax::new(0.1).weight_decay(0.1).group(bias())),
            want: [
                0.6712839113707986,
                -0.43759407076146306,
                0.903925654255298,
                0.5518795237529023,
                0.008164460507822695,
                -0.8746570395043762,
            ],
            tolerance: NEAR,
        },
        Row {
            what: "nadam",
            make: || Box::new(NAdam::new(0.1).weight_decay(0.1).group(bias())),
            want: [
                0.5050352344942477,
                -0.32444749193499073,
                0.7426442489613599,
                0.6476269058676127,
                0.03179106680698599,
                -0.9217245593064902,
            ],
            tolerance: NEAR,
        },
        Row {
            what: "nadam decoupled",
            make: || {
                Box::new(
                    NAdam::new(0.1)
                        .momentum_decay(0.5)
                        .decoupled_weight_decay(true)
                        .weight_decay(0.1)
                        .group(bias()),
                )
            },
            want: [
                0.5473746933752781,
                -0.35084385110637695,
                0.8274600239408195,
                0.6754563928863504,
                0.028356966514392557,
                -0.9189088683534501,
            ],
            tolerance: NEAR,
        },
        Row {
            what: "radam",
            make: || Box::new(RAdam::new(0.1).weight_decay(0.1).group(bias())),
            want: [
                0.6130074705688868,
                -0.3457060399712852,
                0.9671422536899063,
                0.6231169057226018,
                0.09900400026037098,
                -0.954625971891071,
            ],
            tolerance: RADAM,
        },
        Row {
            what: "radam decoupled",
            make: || {
                Box::new(
                    RAdam::new(0.1)
                        .betas(0.9, 0.99)
                        .decoupled_weight_decay(true)
                        .weight_decay(0.1)
                        .group(bias()),
                )
            },
            want: [
                0.5862944660141896,
                -0.32904925461572054,
                0.9178696915444069,
                0.5995628690021028,
                0.09544872571000433,
                -0.95097375499827,
            ],
            tolerance: RADAM,
        },
        Row {
            what: "lion",
            make: || Box::new(Lion::new(0.1).weight_decay(0.1).group(bias())),
            want: [
                0.6435813879547594,
                -0.4096826970827582,
                0.7054203144537776,
                0.6869734572102323,
                0.024999999999999994,
                -0.8999999999999999,
            ],
            tolerance: NEAR,
        },
    ]
}
