//! Schedules without golden cases: against PyTorch, or by their definition.

use elinvar_core::ErrorKind;
use elinvar_nn::optim::schedule::{
    Anneal, ConstantLr, CosineAnnealingLr, CosineAnnealingWarmRestarts, ExponentialLr, LambdaLr, LinearLr,
    MultiStepLr, OneCycleLr, PlateauMode, PlateauState, PolynomialLr, ReduceLrOnPlateau, Schedule,
    SequentialLr, StepLr, Warmup,
};

/// Rows of PyTorch 2.15:
/// ```python
/// def sched(make, n):
///     o = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5); s = make(o); out = []
///     for _ in range(n): out.append(o.param_groups[0]["lr"]); o.step(); s.step()
///     return out
/// ```
#[test]
fn rates_are_those_of_pytorch() {
    let sequence = SequentialLr::new(ConstantLr::new(0.5, 2).unwrap())
        .then(3, ExponentialLr::new(0.5).unwrap())
        .unwrap()
        .then(6, StepLr::new(2, 0.1).unwrap())
        .unwrap();
    let rows: Vec<(&str, Box<dyn Schedule>, Vec<f64>)> = vec![
        (
            "ConstantLR(o, 0.25, 3)",
            Box::new(ConstantLr::new(0.25, 3).unwrap()),
            vec![0.125, 0.125, 0.125, 0.5, 0.5],
        ),
        (
            "PolynomialLR(o, 4, 1.0)",
            Box::new(PolynomialLr::new(4, 1.0).unwrap()),
            vec![0.5, 0.375, 0.25, 0.125, 0.0, 0.0],
        ),
        (
            "PolynomialLR(o, 4, 2.5)",
            Box::new(PolynomialLr::new(4, 2.5).unwrap()),
            vec![0.5, 0.24356964481437338, 0.08838834764831843, 0.015625, 0.0, 0.0],
        ),
        (
            "SequentialLR(o, [ConstantLR(o, 0.5, 2), ExponentialLR(o, 0.5), StepLR(o, 2, 0.1)], [3, 6])",
            Box::new(sequence),
            vec![0.25, 0.25, 0.5, 0.5, 0.25, 0.125, 0.5, 0.5, 0.05, 0.05],
        ),
        // PyTorch's values are off by up to 6e-17, because it multiplies from step to step.
        (
            "CosineAnnealingLR(o, 3)",
            Box::new(CosineAnnealingLr::new(3).unwrap()),
            vec![
                0.5,
                0.375,
                0.12500000000000006,
                0.0,
                0.12499999999999997,
                0.3750000000000002,
                0.5000000000000002,
                0.3750000000000003,
            ],
        ),
        ("by definition", Box::new(LambdaLr(|t| 1.0 / (1 + t) as f64)), vec![0.5, 0.25, 0.5 / 3.0]),
        (
            "by definition",
            Box::new(Warmup::new(3, LinearLr::new(1.0, 0.0, 2).unwrap())),
            vec![0.125, 0.25, 0.375, 0.5, 0.25, 0.0, 0.0],
        ),
    ];
    for (what, schedule, want) in rows {
        for (t, want) in want.into_iter().enumerate() {
            let got = schedule.lr(0.5, t as u64);
            assert!((got - want).abs() <= 4e-16, "{what} in step {t}: {got}, not {want}");
        }
    }
}

#[test]
fn schedules_accept_the_largest_step() {
    let all: Vec<Box<dyn Schedule>> = vec![
        Box::new(StepLr::new(1, 0.5).unwrap()),
        Box::new(MultiStepLr::new(&[1, u64::MAX], 0.5).unwrap()),
        Box::new(ExponentialLr::new(0.5).unwrap()),
        Box::new(ConstantLr::new(0.5, u64::MAX).unwrap()),
        Box::new(LinearLr::new(1.0, 0.5, u64::MAX).unwrap()),
        Box::new(PolynomialLr::new(u64::MAX, 2.0).unwrap()),
        Box::new(CosineAnnealingLr::new(u64::MAX).unwrap()),
        Box::new(CosineAnnealingWarmRestarts::new(1, 1, 0.0).unwrap()),
        Box::new(CosineAnnealingWarmRestarts::new(u64::MAX, 2, 0.0).unwrap()),
        Box::new(CosineAnnealingWarmRestarts::new(1, u64::MAX, 0.0).unwrap()),
        Box::new(OneCycleLr::new(u64::MAX).unwrap()),
        Box::new(OneCycleLr::new(1).unwrap().three_phase(true)),
        Box::new(OneCycleLr::new(3).unwrap().pct_start(1.0).unwrap().anneal(Anneal::Linear)),
        Box::new(Warmup::new(u64::MAX, LambdaLr(|_| 1.0))),
    ];
    for (i, s) in all.iter().enumerate() {
        for t in [0, 1, 2, u64::MAX - 1, u64::MAX] {
            let lr = s.lr(1.0, t);
            assert!((0.0..=1.0).contains(&lr), "row {i} in step {t}: {lr}");
        }
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    let sequence = SequentialLr::new(LambdaLr(|_| 1.0));
    let rows = [
        (StepLr::new(0, 0.5).err(), "StepLr: step_size is 0, and should be 1 or more"),
        (StepLr::new(1, -0.5).err(), "StepLr: gamma is -0.5, and should be 0 or more"),
        (ExponentialLr::new(f64::NAN).err(), "ExponentialLr: gamma is NaN, and should be 0 or more"),
        (CosineAnnealingLr::new(0).err(), "CosineAnnealingLr: t_max is 0, and should be 1 or more"),
        (LinearLr::new(1.0, 0.0, 0).err(), "LinearLr: total_iters is 0, and should be 1 or more"),
        (PolynomialLr::new(1, 0.0).err(), "PolynomialLr: power is 0, and should be above 0"),
        (OneCycleLr::new(0).err(), "OneCycleLr: total_steps is 0, and should be 1 or more"),
        (
            OneCycleLr::new(2).unwrap().pct_start(1.5).err(),
            "OneCycleLr: pct_start is 1.5, and should be in 0..=1",
        ),
        (
            sequence.then(0, LambdaLr(|_| 1.0)).err(),
            "SequentialLr: a milestone is 0, and should be above 0, where the schedule before it begins",
        ),
        (
            ReduceLrOnPlateau::new(PlateauMode::Min).factor(1.0).err(),
            "ReduceLrOnPlateau: factor is 1, and should be in 0..1",
        ),
    ];
    for (e, sentence) in rows {
        let e = e.expect(sentence);
        assert_eq!((e.kind(), e.message()), (ErrorKind::InvalidArgument, sentence));
    }
}

#[test]
fn a_plateau_is_restored_from_its_state() {
    let make = || ReduceLrOnPlateau::new(PlateauMode::Min).patience(1).cooldown(1);
    let metrics = [2.0, 1.0, 1.5, f64::NAN, 1.2, 1.1, 1.3, 0.5];
    let mut straight = make();
    let mut lr = 1.0;
    let want: Vec<f64> = metrics
        .iter()
        .map(|m| {
            lr = straight.step(*m, lr);
            lr
        })
        .collect();
    // NaN is never better: two bad results after the best. The next is ignored (cooldown), the two
    // after it count.
    assert_eq!(want, [1.0, 1.0, 1.0, 0.1, 0.1, 0.1, 0.1 * 0.1, 0.1 * 0.1]);
    for cut in 0..metrics.len() {
        let (mut first, mut second, mut lr) = (make(), make(), 1.0);
        metrics[..cut].iter().for_each(|m| lr = first.step(*m, lr));
        let text = first.state().to_json().to_string();
        second.set_state(PlateauState::from_json(&serde_json::from_str(&text).unwrap()).unwrap());
        metrics[cut..].iter().for_each(|m| lr = second.step(*m, lr));
        assert_eq!((lr, second.state()), (want[7], straight.state()), "{text}");
    }
    for text in ["[]", "{}", r#"{"best": "good", "num_bad_epochs": 0, "cooldown_counter": 0}"#] {
        let e = PlateauState::from_json(&serde_json::from_str(text).unwrap()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Format, "{e}");
    }
}
