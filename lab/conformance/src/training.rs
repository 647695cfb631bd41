//! Optimisers, learning rate schedules and gradient clipping, as cases.
//!
//! An optimiser's case gives a parameter and its gradients in ten steps, and expects the parameter
//! after each; a schedule's expects the learning rate of each step; a clipping case gives gradients
//! and expects them clipped.

use elinvar_core::{Error, HostTensor, Result, Shape};
use elinvar_nn::optim::schedule::{
    Anneal, CosineAnnealingLr, CosineAnnealingWarmRestarts, ExponentialLr, LinearLr, MultiStepLr, OneCycleLr,
    PlateauMode, ReduceLrOnPlateau, Schedule, StepLr, ThresholdMode,
};
use elinvar_nn::optim::{
    Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, Asgd, ClipOptions, NAdam, NormType, Optimizer, RAdam,
    RmsProp, Rprop, Sgd, clip_grad_norm_with, clip_grad_value,
};
use elinvar_nn::{Gradients, Param};
use elinvar_ops::args::{Args, Attr};
use elinvar_ops::{Backend, catalogue};
use elinvar_tensor::Tensor;

/// The runner of a case name.
enum Kind<B: Backend> {
    Optimizer(fn(&Args<Tensor<B>>) -> Result<Box<dyn Optimizer<B>>>),
    Schedule(fn(&Args<Tensor<B>>) -> Result<Box<dyn Schedule>>),
    Plateau,
    ClipNorm,
    ClipValue,
}

/// The names of these cases.
pub const NAMES: &[&str] = &[
    "sgd",
    "adam",
    "adamw",
    "rmsprop",
    "adagrad",
    "adadelta",
    "adamax",
    "nadam",
    "radam",
    "asgd",
    "rprop",
    "adafactor",
    "lr_step",
    "lr_multistep",
    "lr_exponential",
    "lr_cosine",
    "lr_cosine_warm_restarts",
    "lr_linear",
    "lr_one_cycle",
    "lr_reduce_on_plateau",
    "clip_grad_norm",
    "clip_grad_value",
];

fn kind<B: Backend>(name: &str) -> Option<Kind<B>> {
    use Kind::{Optimizer, Schedule};
    Some(match name {
        "sgd" => Optimizer(|a| {
            let o = Sgd::new(a.f64("lr")?).momentum(a.f64("momentum")?).dampening(a.f64("dampening")?);
            let o = o.weight_decay(a.f64("weight_decay")?).maximize(a.bool("maximize")?);
            Ok(Box::new(o.nesterov(a.bool("nesterov")?)))
        }),
        "adam" => Optimizer(|a| {
            let o = Adam::new(a.f64("lr")?).weight_decay(a.f64("weight_decay")?).eps(a.f64("eps")?);
            let (b1, b2) = betas(a)?;
            Ok(Box::new(o.betas(b1, b2).amsgrad(a.bool("amsgrad")?).maximize(a.bool("maximize")?)))
        }),
        "adamw" => Optimizer(|a| {
            let o = AdamW::new(a.f64("lr")?).weight_decay(a.f64("weight_decay")?).eps(a.f64("eps")?);
            let (b1, b2) = betas(a)?;
            Ok(Box::new(o.betas(b1, b2).amsgrad(a.bool("amsgrad")?).maximize(a.bool("maximize")?)))
        }),
        "rmsprop" => Optimizer(|a| {
            let o = RmsProp::new(a.f64("lr")?).weight_decay(a.f64("weight_decay")?).eps(a.f64("eps")?);
            let o = o.alpha(a.f64("alpha")?).momentum(a.f64("momentum")?);
            Ok(Box::new(o.centered(a.bool("centered")?)))
        }),
        "adagrad" => Optimizer(|a| {
            let o = Adagrad::new(a.f64("lr")?).weight_decay(a.f64("weight_decay")?).eps(a.f64("eps")?);
            let start = a.f64("initial_accumulator_value")?;
            Ok(Box::new(o.lr_decay(a.f64("lr_decay")?).initial_accumulator_value(start)))
        }),
        "adadelta" => Optimizer(|a| {
            let o = Adadelta::new(a.f64("lr")?).weight_decay(a.f64("weight_decay")?).eps(a.f64("eps")?);
            Ok(Box::new(o.rho(a.f64("rho")?)))
        }),
        "adafactor" => Optimizer(|a| {
            let o = Adafactor::new(a.f64("lr")?).weight_decay(a.f64("weight_decay")?).d(a.f64("d")?);
            let o = o.beta2_decay(a.f64("beta2_decay")?).maximize(a.bool("maximize")?);
            let eps = |v: &Attr| match v {
                Attr::Null => Ok(None),
                Attr::Float(v) => Ok(Some(*v)),
                other => Err(Error::argument(format!("adafactor: eps {other:?} is no number"))),
            };
            match a.list("eps")? {
                [first, second] => Ok(Box::new(o.eps([eps(first)?, eps(second)?]))),
                other => {
                    Err(Error::argument(format!("adafactor: eps is {other:?}, and should be two numbers")))
                }
            }
        }),
        "adamax" => Optimizer(|a| {
            let o = Adamax::new(a.f64("lr")?).weight_decay(a.f64("weight_decay")?).eps(a.f64("eps")?);
            let (b1, b2) = betas(a)?;
            Ok(Box::new(o.betas(b1, b2)))
        }),
        "asgd" => Optimizer(|a| {
            let o =
                Asgd::new(a.f64("lr")?).weight_decay(a.f64("weight_decay")?).maximize(a.bool("maximize")?);
            Ok(Box::new(o.lambd(a.f64("lambd")?).alpha(a.f64("alpha")?).t0(a.f64("t0")?)))
        }),
        "rprop" => Optimizer(|a| {
            let o = Rprop::new(a.f64("lr")?).maximize(a.bool("maximize")?);
            let pair = |name: &str| match a.list(name)? {
                [Attr::Float(low), Attr::Float(high)] => Ok([*low, *high]),
                other => {
                    Err(Error::argument(format!("rprop: {name} is {other:?}, and should be two numbers")))
                }
            };
            Ok(Box::new(o.etas(pair("etas")?).step_sizes(pair("step_sizes")?)))
        }),
        "nadam" => Optimizer(|a| {
            let o = NAdam::new(a.f64("lr")?).weight_decay(a.f64("weight_decay")?).eps(a.f64("eps")?);
            let (b1, b2) = betas(a)?;
            let o = o.betas(b1, b2).momentum_decay(a.f64("momentum_decay")?);
            Ok(Box::new(o.decoupled_weight_decay(a.bool("decoupled_weight_decay")?)))
        }),
        "radam" => Optimizer(|a| {
            let o = RAdam::new(a.f64("lr")?).weight_decay(a.f64("weight_decay")?).eps(a.f64("eps")?);
            let (b1, b2) = betas(a)?;
            Ok(Box::new(o.betas(b1, b2).decoupled_weight_decay(a.bool("decoupled_weight_decay")?)))
        }),
        "lr_step" => Schedule(|a| Ok(Box::new(StepLr::new(count(a, "step_size")?, a.f64("gamma")?)?))),
        "lr_multistep" => Schedule(|a| {
            let milestones: Vec<u64> = a.sizes("milestones")?.into_iter().map(|m| m as u64).collect();
            Ok(Box::new(MultiStepLr::new(&milestones, a.f64("gamma")?)?))
        }),
        "lr_exponential" => Schedule(|a| Ok(Box::new(ExponentialLr::new(a.f64("gamma")?)?))),
        "lr_cosine" => {
            Schedule(|a| Ok(Box::new(CosineAnnealingLr::with_min(count(a, "T_max")?, a.f64("eta_min")?)?)))
        }
        "lr_cosine_warm_restarts" => Schedule(|a| {
            let (first, times) = (count(a, "T_0")?, count(a, "T_mult")?);
            Ok(Box::new(CosineAnnealingWarmRestarts::new(first, times, a.f64("eta_min")?)?))
        }),
        "lr_linear" => Schedule(|a| {
            let (from, to) = (a.f64("start_factor")?, a.f64("end_factor")?);
            Ok(Box::new(LinearLr::new(from, to, count(a, "total_iters")?)?))
        }),
        "lr_one_cycle" => Schedule(|a| {
            let anneal = word(a, "anneal_strategy", &[("cos", Anneal::Cos), ("linear", Anneal::Linear)])?;
            let s = OneCycleLr::new(count(a, "total_steps")?)?.pct_start(a.f64("pct_start")?)?;
            let s = s.div_factors(a.f64("div_factor")?, a.f64("final_div_factor")?)?;
            Ok(Box::new(s.anneal(anneal).three_phase(a.bool("three_phase")?)))
        }),
        "lr_reduce_on_plateau" => Kind::Plateau,
        "clip_grad_norm" => Kind::ClipNorm,
        "clip_grad_value" => Kind::ClipValue,
        _ => return None,
    })
}

/// Is it a name of these cases?
pub fn has(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Runs a case.
///
/// # Errors
/// Those of what it runs; `InvalidArgument` if the name is unknown, or an operand or attribute is
/// missing.
pub fn call<B: Backend>(a: &Args<Tensor<B>>, device: &B::Device) -> Result<Vec<Tensor<B>>> {
    match kind::<B>(&a.op).ok_or_else(|| Error::argument(format!("{} is not about training", a.op)))? {
        Kind::Optimizer(make) => trajectory(&mut *make(a)?, a.input("param")?, a.input("grads")?),
        Kind::Schedule(make) => {
            let schedule = make(a)?;
            let base = a.f64(if a.has("max_lr") { "max_lr" } else { "base_lr" })?;
            rates((0..count(a, "steps")?).map(|t| schedule.lr(base, t)).collect(), device)
        }
        Kind::Plateau => plateau(a, device),
        Kind::ClipNorm => {
            let p = a.f64("norm_type")?;
            let norm_type = match p {
                1.0 => NormType::L1,
                2.0 => NormType::L2,
                f64::INFINITY => NormType::Inf,
                p => NormType::P(p),
            };
            let options = ClipOptions { norm_type, ..ClipOptions::default() };
            let max = a.f64("max_norm")?;
            clipped(a, |m, g| Ok(Some(clip_grad_norm_with(m, g, max, options)?)))
        }
        Kind::ClipValue => {
            let most = a.f64("clip_value")?;
            clipped(a, |m, g| clip_grad_value(m, g, most).map(|()| None))
        }
    }
}

/// The parameter after each step.
fn trajectory<B: Backend>(
    optimizer: &mut dyn Optimizer<B>,
    start: &Tensor<B>,
    grads: &Tensor<B>,
) -> Result<Vec<Tensor<B>>> {
    let p = Param::new(start.clone());
    let mut after = vec![];
    for i in 0..*grads.dims().first().unwrap_or(&0) {
        let mut g = Gradients::new();
        g.set(&p.get(), catalogue::select(grads, 0, i as isize)?);
        optimizer.step(&p, &g)?;
        after.push(p.get().detach());
    }
    Ok(vec![catalogue::stack(&after.iter().collect::<Vec<_>>(), 0)?])
}

fn plateau<B: Backend>(a: &Args<Tensor<B>>, device: &B::Device) -> Result<Vec<Tensor<B>>> {
    let mode = word(a, "mode", &[("min", PlateauMode::Min), ("max", PlateauMode::Max)])?;
    let by = word(a, "threshold_mode", &[("rel", ThresholdMode::Rel), ("abs", ThresholdMode::Abs)])?;
    let mut s = ReduceLrOnPlateau::new(mode)
        .factor(a.f64("factor")?)?
        .patience(count(a, "patience")?)
        .threshold(a.f64("threshold")?, by)
        .cooldown(count(a, "cooldown")?)
        .min_lr(a.f64("min_lr")?)
        .eps(a.f64("eps")?);
    let mut lr = a.f64("base_lr")?;
    let mut all = vec![];
    for metric in a.input("metrics")?.to_host()?.to_f64_vec() {
        lr = s.step(metric, lr);
        all.push(lr);
    }
    rates(all, device)
}

/// The result of `clip`, then the gradients g0, g1, ... after it.
fn clipped<B: Backend>(
    a: &Args<Tensor<B>>,
    clip: impl FnOnce(&Vec<Param<B>>, &mut Gradients<B>) -> Result<Option<Tensor<B>>>,
) -> Result<Vec<Tensor<B>>> {
    let (mut params, mut gradients) = (vec![], Gradients::new());
    for g in a.all("g") {
        let p = Param::new(g.detach());
        gradients.set(&p.get(), g.clone());
        params.push(p);
    }
    let mut out: Vec<Tensor<B>> = clip(&params, &mut gradients)?.into_iter().collect();
    for p in &params {
        let lost = || Error::autograd(format!("{}: a gradient is gone", a.op));
        out.push(gradients.get(&p.get()).ok_or_else(lost)?.clone());
    }
    Ok(out)
}

fn rates<B: Backend>(all: Vec<f64>, device: &B::Device) -> Result<Vec<Tensor<B>>> {
    let shape = Shape::new(&[all.len()])?;
    Ok(vec![Tensor::from_host(HostTensor::from_vec(all, shape)?, device)?])
}

fn betas<B: Backend>(a: &Args<Tensor<B>>) -> Result<(f64, f64)> {
    match a.list("betas")? {
        [Attr::Float(b1), Attr::Float(b2)] => Ok((*b1, *b2)),
        other => Err(Error::argument(format!("{}: betas is {other:?}, and should be two numbers", a.op))),
    }
}

fn count<B: Backend>(a: &Args<Tensor<B>>, name: &str) -> Result<u64> {
    Ok(a.size(name)? as u64)
}

fn word<B: Backend, T: Copy>(a: &Args<Tensor<B>>, name: &str, words: &[(&str, T)]) -> Result<T> {
    let word = a.str(name)?;
    let known = words.iter().find(|(w, _)| *w == word);
    known.map(|(_, t)| *t).ok_or_else(|| Error::argument(format!("{}: {name} is {word}", a.op)))
}
