//! Parameter groups, and several optimisers at once.

use super::{B, Net, bias, rows};
use elinvar_nn::Gradients;
use elinvar_nn::optim::{Adam, AdamW, Group, Lion, Muon, Optimizer, Sgd, Split};

#[test]
fn ten_steps_with_a_group_end_where_pytorchs_do() {
    for row in rows() {
        let (net, mut o) = (Net::new(), (row.make)());
        net.steps(&mut *o, 0..10);
        assert!(
            net.is_near(&row.want, row.tolerance),
            "{}: {:?}, not {:?}",
            row.what,
            net.values(),
            row.want
        );
    }
}

#[test]
fn a_parameter_is_in_the_first_group_that_matches() {
    let ones = |net: &Net| {
        let mut g = Gradients::new();
        g.set(&net.weight.get(), [[1.0f64, 1.0], [1.0, 1.0]].into());
        g.set(&net.bias.get(), [1.0f64, 1.0].into());
        g
    };
    // (groups, the optimiser's rate after a schedule, the results for the weight 0.5 and the bias
    // 0.125)
    let all = || Group::matching(|_| true);
    let rows: Vec<(Sgd<B>, f64, [f64; 2])> = vec![
        (Sgd::new(0.5), 0.25, [0.25, -0.125]),
        (Sgd::new(0.5).group(bias()), 0.25, [0.25, 0.0]),
        // A fixed rate does not follow the schedule.
        (Sgd::new(0.5).group(Group::matching(|n| n == "bias").lr(0.5)), 0.25, [0.25, -0.375]),
        (Sgd::new(0.5).group(all().lr_scale(2.0)).group(bias()), 0.25, [0.0, -0.375]),
        (Sgd::new(0.5).group(bias()).group(all().lr_scale(0.0)), 0.25, [0.5, 0.0]),
        (Sgd::new(0.5).group(all().set("maximize", true)), 0.25, [0.75, 0.375]),
    ];
    for (i, (mut o, lr, want)) in rows.into_iter().enumerate() {
        let net = Net::new();
        o.set_lr(lr);
        o.step(&net, &ones(&net)).unwrap();
        assert_eq!([net.values()[0], net.values()[4]], want, "row {i}");
    }
}

#[test]
fn split_gives_each_optimiser_its_own_parameters() {
    let (both, matrix, rest) = (Net::new(), Net::new(), Net::new());
    let split = |adamw: AdamW<B>| {
        Split::new(adamw)
            .with(Muon::new(0.25), |_, shape| shape.rank() >= 2)
            .with(Lion::new(0.5), |name, _| name == "nothing")
    };
    let mut o = split(AdamW::new(0.125));
    assert_eq!((o.lr(), o.groups()), (0.125, 3));
    both.steps(&mut o, 0..2);
    o.set_lr(0.0625);
    both.steps(&mut o, 2..4);
    let (mut muon, mut adamw) = (Muon::new(0.25), AdamW::new(0.125));
    matrix.bias.freeze();
    rest.weight.freeze();
    matrix.steps(&mut muon, 0..2);
    rest.steps(&mut adamw, 0..2);
    muon.set_lr(0.125);
    adamw.set_lr(0.0625);
    matrix.steps(&mut muon, 2..4);
    rest.steps(&mut adamw, 2..4);
    assert_eq!(both.values()[..4], matrix.values()[..4]);
    assert_eq!(both.values()[4..], rest.values()[4..]);

    // It restores its state, all parts or none.
    let saved = o.state_dict(&both).unwrap();
    assert_eq!(saved.param_groups.len(), 3);
    let mut next = split(AdamW::new(1.0));
    let mut wrong = saved.clone();
    wrong.state.get_mut("bias").unwrap().remove("exp_avg");
    let e = next.load_state_dict(&both, &wrong).unwrap_err();
    assert_eq!(e.message(), "adamw: load_state_dict: \"bias\": the state lacks exp_avg");
    assert!(next.state_dict(&both).unwrap().state.is_empty());
    next.load_state_dict(&both, &saved).unwrap();
    assert_eq!(next.state_dict(&both).unwrap(), saved);
    let e = Adam::new(0.1).load_state_dict(&both, &saved).unwrap_err();
    assert!(e.message().contains("the state has 3 parameter groups, and the optimiser 1"), "{e}");
}
