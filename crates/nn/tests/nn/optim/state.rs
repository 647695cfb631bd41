//! States of optimisers: saved, loaded, rejected.

use super::{B, Net, bias, number, rows, step};
use elinvar_core::{DType, Element, ErrorKind, HostTensor, Shape};
use elinvar_nn::optim::{Adam, AdamW, Group, Muon, NAdam, Optimizer, OptimizerState, Sgd, names_of};
use elinvar_nn::{Module, Param, StateDict};
use serde_json::json;

/// A round trip through the flat form of files.
fn through_a_file(state: &OptimizerState) -> OptimizerState {
    let (tensors, groups) = state.to_tensors();
    OptimizerState::from_tensors(&tensors, Some(&groups)).unwrap()
}

#[test]
fn five_steps_and_five_from_a_file_are_ten_steps() {
    let muon: fn() -> Box<dyn Optimizer<B>> =
        || Box::new(elinvar_nn::optim::Split::new(Sgd::new(0.1)).with(Muon::new(0.1), |_, s| s.rank() > 1));
    let makes = rows().into_iter().map(|r| (r.what, r.make)).chain([("muon", muon)]);
    for (what, make) in makes {
        let (straight, broken) = (Net::new(), Net::new());
        straight.steps(&mut *make(), 0..10);
        let mut first = make();
        broken.steps(&mut *first, 0..5);
        let saved = first.state_dict(&broken).unwrap();
        let loaded = through_a_file(&saved);
        assert_eq!(loaded, saved, "{what}");
        let (mut second, resumed) = (make(), Net::new());
        // Settings are restored from the state as well.
        second.set_lr(7.0);
        resumed.load_state_dict(&Module::<B>::state_dict(&broken).unwrap(), elinvar_nn::Strict::Yes).unwrap();
        second.load_state_dict(&resumed, &loaded).unwrap();
        resumed.steps(&mut *second, 5..10);
        let bits = |n: &Net| n.values().into_iter().map(f64::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(&straight), bits(&resumed), "{what}");
        // A new optimiser would end elsewhere, unless it has no state.
        let (mut fresh, other) = (make(), Net::new());
        other.load_state_dict(&Module::<B>::state_dict(&broken).unwrap(), elinvar_nn::Strict::Yes).unwrap();
        other.steps(&mut *fresh, 5..10);
        assert_eq!(bits(&straight) == bits(&other), what == "sgd plain", "{what}");
    }
}

#[test]
fn states_of_halves_are_restored_from_a_file() {
    for dtype in [DType::F16, DType::BF16] {
        let run = |cut: usize| {
            let p = Param::new(number(1.0, dtype));
            let mut o = Adam::<B>::new(0.01);
            for t in 0..6 {
                if t == cut {
                    let saved = through_a_file(&o.state_dict(&p).unwrap());
                    o = Adam::new(0.5);
                    o.load_state_dict(&p, &saved).unwrap();
                }
                step(&mut o, &p, [0.3, -0.2, 0.7][t % 3]).unwrap();
            }
            p.get().item::<f64>()
        };
        assert_eq!(run(3), run(usize::MAX));
    }
}

fn host<T: Element>(v: &[T], shape: &[usize]) -> HostTensor {
    HostTensor::from_vec(v.to_vec(), Shape::new(shape).unwrap()).unwrap()
}

/// Tensors as written by a Python script: `state.0.exp_avg` and so on.
fn of_python(all: &[(&str, &[f64])]) -> StateDict {
    all.iter()
        .map(|(name, v)| {
            let t = match (v.len(), name.ends_with("step") || name.ends_with("mu_product")) {
                (1, true) => host(&[v[0] as f32], &[]),
                (4, _) => host(v, &[2, 2]),
                _ => host(v, &[v.len()]),
            };
            (format!("state.{name}"), t)
        })
        .collect()
}

/// PyTorch's own states after five of the ten steps of `rows`, from `o.state_dict()`, and
/// `json.dumps` of its groups.
#[test]
fn states_of_pytorch_are_resumed() {
    // The optimiser has other settings: the state restores the original ones.
    let adam: Box<dyn Optimizer<B>> = Box::new(Adam::new(7.0).eps(0.5).group(bias()));
    let sgd: Box<dyn Optimizer<B>> = Box::new(Sgd::new(7.0).group(Group::matching(|n| n == "bias")));
    let rows = [
        (
            "adam",
            adam,
            r#"[{"lr": 0.1, "betas": [0.9, 0.999], "eps": 1e-08, "weight_decay": 0.1, "amsgrad": false, "maximize": false, "foreach": null, "capturable": false, "differentiable": false, "fused": null, "decoupled_weight_decay": false, "params": [0]}, {"lr": 0.05, "weight_decay": 0.0, "betas": [0.9, 0.999], "eps": 1e-08, "amsgrad": false, "maximize": false, "foreach": null, "capturable": false, "differentiable": false, "fused": null, "decoupled_weight_decay": false, "params": [1]}]"#,
            of_python(&[
                ("0.step", &[5.0]),
                (
                    "0.exp_avg",
                    &[-0.027106644165259482, 0.05224459682303405, 0.017939403998521113, 0.010302474150605227],
                ),
                (
                    "0.exp_avg_sq",
                    &[
                        0.0009141272768727724,
                        0.0006817756571319305,
                        0.0006055707195238303,
                        0.001101822396937931,
                    ],
                ),
                ("1.step", &[5.0]),
                ("1.exp_avg", &[0.017901249999999994, -0.07547874999999998]),
                ("1.exp_avg_sq", &[0.000592422968437516, 0.0007331416088126412]),
            ]),
            [
                0.7351469043364046,
                -0.5193664598298671,
                0.9770150686252527,
                0.5350181879523176,
                0.02530418964613467,
                -0.8768570722444843,
            ],
        ),
        (
            "sgd",
            sgd,
            r#"[{"lr": 0.1, "momentum": 0.9, "dampening": 0.25, "weight_decay": 0.1, "nesterov": false, "maximize": false, "foreach": null, "differentiable": false, "fused": null, "params": [0]}, {"lr": 0.05, "weight_decay": 0.0, "momentum": 0.9, "dampening": 0.25, "nesterov": false, "maximize": false, "foreach": null, "differentiable": false, "fused": null, "params": [1]}]"#,
            of_python(&[
                (
                    "0.momentum_buffer",
                    &[-0.31184111408496085, 0.45360960000878914, 0.09565717177148436, 0.19486806526171882],
                ),
                ("1.momentum_buffer", &[0.15476249999999997, -0.6275999999999999]),
            ]),
            [
                0.6991851168381835,
                -0.4332418833211914,
                0.9405944491509762,
                0.5104412323800782,
                0.08526812500000001,
                -0.90742,
            ],
        ),
    ];
    let wants = super::rows();
    for (what, mut o, groups, tensors, values) in rows {
        let net = Net::new();
        net.weight.set(&[[values[0], values[1]], [values[2], values[3]]].into()).unwrap();
        net.bias.set(&[values[4], values[5]].into()).unwrap();
        let numbered = OptimizerState::from_tensors(&tensors, Some(groups)).unwrap();
        let names = names_of::<B>(&net);
        let named = numbered.named(&names).unwrap();
        assert_eq!(named.numbered(&names).unwrap(), numbered);
        o.load_state_dict(&net, &named).unwrap();
        net.steps(&mut *o, 5..10);
        let want = wants.iter().find(|r| r.what == what).unwrap();
        assert!(net.is_near(&want.want, want.tolerance), "{what}: {:?}, not {:?}", net.values(), want.want);
    }
}

#[test]
fn nadam_takes_the_product_of_pytorch_and_keeps_its_own_in_f64() {
    let (net, mut o) = (Net::new(), NAdam::new(0.1));
    net.steps(&mut o, 0..5);
    let mut saved = o.state_dict(&net).unwrap();
    let product = &saved.state["bias"]["mu_product"];
    // PyTorch's, in f32: 0.01849803701043129
    assert!((product.to_f64_vec()[0] - 0.01849803701043129).abs() < 1e-8 && product.dtype() == DType::F64);
    saved.state.get_mut("bias").unwrap().insert("mu_product".to_owned(), host(&[0.018_498_037_f32], &[]));
    o.load_state_dict(&net, &saved).unwrap();
}

#[test]
fn a_state_that_does_not_fit_is_refused_and_changes_nothing() {
    let net = Net::new();
    let make = || Adam::<B>::new(0.1).group(bias());
    let mut o = make();
    net.steps(&mut o, 0..3);
    let good = o.state_dict(&net).unwrap();
    type Change = fn(&mut OptimizerState);
    let rows: Vec<(Change, ErrorKind, &str)> = vec![
        (
            |s| {
                let of_bias = s.state.remove("bias").unwrap();
                s.state.insert("head.bias".to_owned(), of_bias);
            },
            ErrorKind::InvalidArgument,
            "the state is of a parameter \"head.bias\", which the module has not",
        ),
        (
            |s| {
                s.state.get_mut("bias").unwrap().remove("exp_avg_sq");
            },
            ErrorKind::InvalidArgument,
            "\"bias\": the state lacks exp_avg_sq",
        ),
        (
            |s| {
                s.state.get_mut("bias").unwrap().remove("step");
            },
            ErrorKind::InvalidArgument,
            "\"bias\": the state lacks step",
        ),
        (
            |s| {
                s.state.get_mut("bias").unwrap().insert("exp_inf".to_owned(), host(&[0.0f64, 0.0], &[2]));
            },
            ErrorKind::InvalidArgument,
            "\"bias\": the state has exp_inf, which the optimiser does not keep",
        ),
        (
            |s| {
                s.state.get_mut("bias").unwrap().insert("exp_avg".to_owned(), host(&[0.0f64], &[1]));
            },
            ErrorKind::ShapeMismatch,
            "\"bias\": exp_avg is f64 [1], and should be f64 [2]",
        ),
        (
            |s| {
                s.state.get_mut("bias").unwrap().insert("exp_avg".to_owned(), host(&[0i64, 0], &[2]));
            },
            ErrorKind::DTypeMismatch,
            "\"bias\": exp_avg is i64 [2], and should be f64 [2]",
        ),
        (
            |s| {
                s.state.get_mut("bias").unwrap().insert("step".to_owned(), host(&[2.5f32], &[]));
            },
            ErrorKind::InvalidArgument,
            "\"bias\": step is 2.5, and should be a number of steps",
        ),
        (
            |s| {
                s.state.get_mut("bias").unwrap().insert("step".to_owned(), host::<f32>(&[], &[0]));
            },
            ErrorKind::ShapeMismatch,
            "\"bias\": step has shape [0], and should be one number",
        ),
        (
            |s| {
                s.param_groups[0].insert("lr".to_owned(), json!("fast"));
            },
            ErrorKind::InvalidArgument,
            "group 0: adam: lr is \"fast\", and should be a number",
        ),
        (
            |s| {
                s.param_groups[1].insert("betas".to_owned(), json!([0.5, 1.5]));
            },
            ErrorKind::InvalidArgument,
            "group 1: adam: betas[1] is 1.5, and should be in 0..1",
        ),
        (
            |s| {
                s.param_groups[0].insert("momentum".to_owned(), json!(0.9));
            },
            ErrorKind::InvalidArgument,
            "group 0: adam: the state has a setting momentum, which this optimiser has not",
        ),
        (
            |s| {
                s.param_groups[1].insert("lr_scale".to_owned(), json!("half"));
            },
            ErrorKind::InvalidArgument,
            "group 1: lr_scale is \"half\", and should be a number",
        ),
        (
            |s| {
                s.param_groups[1].insert("lr_scale".to_owned(), json!(-1.0));
            },
            ErrorKind::InvalidArgument,
            "group 1: adam: lr is -0.1, and should be 0 or more",
        ),
        (
            |s| {
                s.param_groups.pop();
            },
            ErrorKind::InvalidArgument,
            "the state has 1 parameter groups, and the optimiser 2, counting that of the parameters in no group",
        ),
        (
            |s| {
                s.param_groups[0].insert("params".to_owned(), json!(["weight", "bias"]));
            },
            ErrorKind::InvalidArgument,
            "\"bias\" is in group 0 of the state, and in group 1 of the optimiser",
        ),
        (
            |s| {
                s.param_groups[0].insert("params".to_owned(), json!([0]));
            },
            ErrorKind::InvalidArgument,
            "group 0 has a parameter 0; give it a name with named()",
        ),
    ];
    for (change, kind, sentence) in rows {
        let mut wrong = good.clone();
        change(&mut wrong);
        let e = o.load_state_dict(&net, &wrong).unwrap_err();
        assert!(e.kind() == kind && e.message().starts_with("adam: load_state_dict: "), "{e:?}");
        assert!(e.message().ends_with(sentence), "{e}, not {sentence}");
        assert_eq!(o.state_dict(&net).unwrap(), good, "{sentence}");
    }
    let e = AdamW::new(0.1).group(bias()).load_state_dict(&net, &good).unwrap_err();
    assert!(e.message().contains("the state was made with decoupled_weight_decay false"), "{e}");
    // Without groups, settings do not change.
    let (tensors, _) = good.to_tensors();
    let mut other = make().eps(0.5);
    other.load_state_dict(&net, &OptimizerState::from_tensors(&tensors, None).unwrap()).unwrap();
    let state = other.state_dict(&net).unwrap();
    assert_eq!((&state.state, &state.param_groups[0]["eps"]), (&good.state, &json!(0.5)));
}

#[test]
fn files_that_are_no_states_are_refused() {
    let t = || host(&[1.0f32], &[]);
    for name in ["weight", "state.", "state.step", "state.weight."] {
        let e = OptimizerState::from_tensors(&StateDict::from([(name.to_owned(), t())]), None).unwrap_err();
        assert!(e.kind() == ErrorKind::Format && e.message().contains(&format!("\"{name}\"")), "{e}");
    }
    for groups in ["", "{}", "[1]", "[{]"] {
        let e = OptimizerState::from_tensors(&StateDict::new(), Some(groups)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Format, "{e}");
    }
    let tensors = StateDict::from([("state.2.step".to_owned(), t())]);
    let e = OptimizerState::from_tensors(&tensors, None).unwrap().named(&["a".to_owned()]).unwrap_err();
    assert_eq!(e.message(), "optimizer state: \"2\" is not the number of one of the 1 parameters");
    // If a parameter is the whole module, its name is empty.
    let p = Param::new(number(1.0, DType::F32));
    let mut o = Sgd::<B>::new(0.5).momentum(0.5);
    step(&mut o, &p, 1.0).unwrap();
    assert_eq!(through_a_file(&o.state_dict(&p).unwrap()), o.state_dict(&p).unwrap());
}
