//! Steps of the optimisers against independent trajectories in f64.

use super::{B, D, number, step};
use elinvar_core::{DType, ErrorKind, HostTensor, Shape};
use elinvar_nn::layers::Linear;
use elinvar_nn::optim::{Adam, AdamW, Group, Muon, Optimizer, RmsProp, Sgd};
use elinvar_nn::{Generator, Gradients, Layer, Module, Param, Tensor};

/// One weight, its gradients in ten steps, and its value after each.
struct Trajectory {
    what: &'static str,
    dtype: DType,
    optimizer: Box<dyn Optimizer<B>>,
    /// |got - want| <= tolerance * (1 + |want|). PyTorch's runs in f32 are off by up to 5e-7.
    tolerance: f64,
    start: f64,
    gradients: [f64; 10],
    values: [f64; 10],
}

fn trajectories() -> Vec<Trajectory> {
    vec![
        Trajectory {
            what: "sgd/03-dampening",
            dtype: DType::F32,
            optimizer: Box::new(Sgd::new(0.1).momentum(0.8).dampening(0.3)),
            tolerance: 2e-06,
            start: 1.221560001373291,
            gradients: [
                0.16695724427700043,
                0.37749144434928894,
                0.5171960592269897,
                0.7935290336608887,
                0.09864407032728195,
                -1.4005829095840454,
                0.662744402885437,
                -0.7100884318351746,
                0.9274994134902954,
                1.2692822217941284,
            ],
            values: [
                1.204864276945591,
                1.1650832962989808,
                1.0970547876358032,
                0.9870849483489991,
                0.892203991996646,
                0.9143400305856467,
                0.8856567532548667,
                0.9124163216187049,
                0.8688990173654547,
                0.7452354184372656,
            ],
        },
        Trajectory {
            what: "sgd/05-all",
            dtype: DType::F32,
            optimizer: Box::new(Sgd::new(0.1).momentum(0.9).weight_decay(0.05).nesterov(true)),
            tolerance: 2e-06,
            start: -1.527657389640808,
            gradients: [
                2.151458263397217,
                0.6289709806442261,
                -1.329939842224121,
                0.3099958002567291,
                -0.11748532205820084,
                0.8875601887702942,
                0.5135170817375183,
                0.8503875136375427,
                -1.7134419679641724,
                0.6047748327255249,
            ],
            values: [
                -1.9219217144846916,
                -2.1912490514266194,
                -2.112179478120419,
                -2.2094055656830642,
                -2.235202666052834,
                -2.426338070955292,
                -2.6030559642314692,
                -2.863648648073885,
                -2.6806023030738273,
                -2.7723982849455315,
            ],
        },
        Trajectory {
            what: "sgd/06-maximize",
            dtype: DType::F32,
            optimizer: Box::new(Sgd::new(0.1).momentum(0.5).maximize(true)),
            tolerance: 2e-06,
            start: 1.1058672666549683,
            gradients: [
                1.1106622219085693,
                -0.30460894107818604,
                1.2890514135360718,
                -0.412341833114624,
                1.8185462951660156,
                0.35782772302627563,
                0.004987800028175116,
                1.835025668144226,
                0.0022980119101703167,
                -0.540472686290741,
            ],
            values: [
                1.2169334888458252,
                1.242005705833435,
                1.383446955680847,
                1.4129333972930906,
                1.6095312476158141,
                1.7436129450798035,
                1.8111525738146157,
                2.0284249549964444,
                2.137290946778376,
                2.1376766740402675,
            ],
        },
        Trajectory {
            what: "sgd/11-f64",
            dtype: DType::F64,
            optimizer: Box::new(Sgd::new(0.1)),
            tolerance: 4e-15,
            start: 1.2179032564163208,
            gradients: [
                -1.0499773025512695,
                0.7047561407089233,
                1.5013536214828491,
                0.7436605095863342,
                1.138218879699707,
                0.34610968828201294,
                0.4678356647491455,
                0.2769007980823517,
                1.0033338069915771,
                0.0740041509270668,
            ],
            values: [
                1.3229009866714478,
                1.2524253726005554,
                1.1022900104522706,
                1.0279239594936371,
                0.9141020715236664,
                0.8794911026954652,
                0.8327075362205506,
                0.8050174564123155,
                0.7046840757131577,
                0.697283660620451,
            ],
        },
        Trajectory {
            what: "adam/04-amsgrad_weight_decay",
            dtype: DType::F32,
            optimizer: Box::new(Adam::new(0.01).weight_decay(0.05).amsgrad(true)),
            tolerance: 2e-06,
            start: 0.043233513832092285,
            gradients: [
                -1.2394310235977173,
                -0.3577921986579895,
                -0.32791826128959656,
                -0.2564132809638977,
                0.9743227362632751,
                -0.08838251233100891,
                -1.033270239830017,
                0.5444787740707397,
                0.5575686097145081,
                -0.31654584407806396,
            ],
            values: [
                0.05323351375126914,
                0.06172773333529673,
                0.06965830233100795,
                0.07712852081699265,
                0.0790378456038178,
                0.08094567571816343,
                0.08502381534474215,
                0.08714771427004664,
                0.0876625118487553,
                0.08882676534252502,
            ],
        },
        Trajectory {
            what: "adam/06-maximize",
            dtype: DType::F32,
            optimizer: Box::new(Adam::new(0.01).maximize(true)),
            tolerance: 2e-06,
            start: 0.21047620475292206,
            gradients: [
                -0.08198010176420212,
                -0.826155960559845,
                1.997770071029663,
                -0.7181814908981323,
                0.6714325547218323,
                -0.3884871006011963,
                -0.28468209505081177,
                0.27112293243408203,
                -0.967326819896698,
                1.3303011655807495,
            ],
            values: [
                0.2004762059727301,
                0.1924098432833114,
                0.19591752774295285,
                0.1968124660374923,
                0.19908073628994835,
                0.2001664422610098,
                0.20051234956986433,
                0.2013675996374214,
                0.20026726961754734,
                0.20158717785189056,
            ],
        },
        Trajectory {
            what: "adam/12-f64",
            dtype: DType::F64,
            optimizer: Box::new(Adam::new(0.01)),
            tolerance: 4e-15,
            start: 0.23741671442985535,
            gradients: [
                0.3695269227027893,
                -1.3648545742034912,
                -0.5893397927284241,
                0.6721677780151367,
                -0.49286147952079773,
                0.38065892457962036,
                -0.9180719256401062,
                0.5998085141181946,
                0.4144399166107178,
                -1.7319730520248413,
            ],
            values: [
                0.22741671470047162,
                0.23284944078911893,
                0.2391841554998328,
                0.2415982653950929,
                0.24509880598976383,
                0.2469309651251507,
                0.25067311077777144,
                0.2524111533939388,
                0.25297382153434217,
                0.25642011345008686,
            ],
        },
        Trajectory {
            what: "adamw/04-amsgrad_weight_decay",
            dtype: DType::F32,
            optimizer: Box::new(AdamW::new(0.01).weight_decay(0.05).amsgrad(true)),
            tolerance: 2e-06,
            start: 0.43141597509384155,
            gradients: [
                0.9327855110168457,
                1.0816246271133423,
                -0.6535994410514832,
                -1.723607063293457,
                -0.8189279437065125,
                -0.451254278421402,
                -0.6683648824691772,
                -1.275648832321167,
                1.1614141464233398,
                -2.0732569694519043,
            ],
            values: [
                0.42120026721350046,
                0.4109784382484087,
                0.4063966549297988,
                0.40807768361503427,
                0.41118513916156185,
                0.414726116380843,
                0.41898433990908956,
                0.4244951979824033,
                0.4271717971936836,
                0.43178956310504363,
            ],
        },
        Trajectory {
            what: "adamw/12-f64",
            dtype: DType::F64,
            optimizer: Box::new(AdamW::new(0.01)),
            tolerance: 4e-15,
            start: 1.4964808225631714,
            gradients: [
                -0.5316064953804016,
                -0.13077159225940704,
                -0.6243796944618225,
                -0.2745838165283203,
                -0.8375086188316345,
                0.6147460341453552,
                -0.8172339797019958,
                -0.026218513026833534,
                0.010627713054418564,
                -0.09237256646156311,
            ],
            values: [
                1.506331174292806,
                1.5144653359788627,
                1.5233389543446343,
                1.5320309459919241,
                1.5410488827037596,
                1.5455754603712293,
                1.5515356705370489,
                1.5568524367188696,
                1.5615214270794198,
                1.5659463799127122,
            ],
        },
    ]
}

#[test]
fn trajectories_are_those_of_pytorch() {
    for mut t in trajectories() {
        let p = Param::new(number(t.start, t.dtype));
        for (i, (g, want)) in t.gradients.into_iter().zip(t.values).enumerate() {
            step(&mut *t.optimizer, &p, g).unwrap();
            let got = p.get().item::<f64>();
            assert!(
                (got - want).abs() <= t.tolerance * (1.0 + want.abs()),
                "{} after step {}: {got}, not {want}",
                t.what,
                i + 1
            );
        }
    }
}

#[test]
fn halves_keep_their_state_in_f32() {
    for dtype in [DType::F16, DType::BF16] {
        let p = Param::new(number(1.0, dtype));
        let mut o = Adam::<B>::new(0.125);
        step(&mut o, &p, 1.0).unwrap();
        assert_eq!((p.get().item::<f64>(), p.get().dtype()), (0.875, dtype));
        let state = o.state_dict(&p).unwrap().state;
        let kept: Vec<_> = state[""].iter().map(|(name, t)| (name.as_str(), t.dtype())).collect();
        assert_eq!(kept, [("exp_avg", DType::F32), ("exp_avg_sq", DType::F32), ("step", DType::F32)]);
    }
}

#[test]
fn sgd_descends() {
    let m = Linear::<B>::new(2, 1, &mut Generator::new(1), &D);
    m.load_state_dict(
        &[("weight", vec![1.0f32, 2.0], vec![1, 2]), ("bias", vec![0.0], vec![1])]
            .map(|(k, v, s)| (k.to_owned(), HostTensor::from_vec(v, Shape::new(&s).unwrap()).unwrap()))
            .into(),
        elinvar_nn::Strict::Yes,
    )
    .unwrap();
    let x: Tensor<B> = [[3.0f32, 4.0]].into();
    let g = m.forward(&x).sum().backward();
    let mut o = Sgd::new(0.5);
    o.step(&m, &g).unwrap();
    assert_eq!(m.weight.get().to_vec::<f32>().unwrap(), [-0.5, 0.0]);
    assert_eq!(m.bias.as_ref().unwrap().get().item::<f64>(), -0.5);
    assert!(m.weight.get().is_variable() && m.weight.get().op_name() == Some("variable"));
    // These gradients belong to earlier weights.
    let e = o.step(&m, &g).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Autograd, "{e}");
    // Frozen parameters do not change, even if the optimiser has a state for them.
    m.weight.freeze();
    o.set_lr(1.0);
    o.step(&m, &m.forward(&x).sum().backward()).unwrap();
    assert_eq!(
        (m.weight.get().to_vec::<f32>().unwrap(), m.bias.as_ref().unwrap().get().item::<f64>()),
        (vec![-0.5, 0.0], -1.5)
    );
    m.freeze();
    o.step(&m, &Gradients::new()).unwrap();
}

#[test]
fn a_shared_parameter_makes_one_step() {
    let p = Param::new(number(1.0, DType::F32));
    let both = (p.share(), p.share());
    let y = both.0.get() * 2.0 + both.1.get();
    Sgd::new(1.0).step(&both, &y.backward()).unwrap();
    assert_eq!(p.get().item::<f64>(), -2.0);
}

#[test]
fn settings_out_of_range_are_refused() {
    let p = Param::new(number(1.0, DType::F32));
    let rows: Vec<(Box<dyn Optimizer<B>>, &str)> = vec![
        (Box::new(Sgd::new(-0.1)), "sgd: lr is -0.1, and should be 0 or more"),
        (Box::new(Sgd::new(f64::NAN)), "sgd: lr is NaN"),
        (Box::new(Sgd::new(0.1).momentum(1.0)), "sgd: momentum is 1"),
        (
            Box::new(Sgd::new(0.1).nesterov(true)),
            "sgd: nesterov with momentum 0 and dampening 0; momentum should",
        ),
        (
            Box::new(Sgd::new(0.1).momentum(0.9).dampening(0.1).nesterov(true)),
            "sgd: nesterov with momentum 0.9 and dampening 0.1",
        ),
        (Box::new(Sgd::new(0.1).weight_decay(f64::INFINITY)), "sgd: weight_decay is inf"),
        (Box::new(Adam::new(0.1).betas(0.9, 1.0)), "adam: betas[1] is 1, and should be in 0..1"),
        (Box::new(Adam::new(0.1).betas(-0.1, 0.9)), "adam: betas[0] is -0.1"),
        (Box::new(AdamW::new(0.1).eps(-1.0)), "adamw: eps is -1"),
        (Box::new(RmsProp::new(0.1).alpha(2.0)), "rmsprop: alpha is 2, and should be in 0..1"),
        (Box::new(Muon::new(0.1).ns_steps(101)), "muon: ns_steps is 101, and should be 100 or less"),
        (
            Box::new(Muon::new(0.1)),
            "muon: : a parameter of shape [] is no matrix; give it to another optimiser",
        ),
        (Box::new(Adam::new(0.1).group(Group::matching(|_| true).lr(-1.0))), "group 1: adam: lr is -1"),
        (
            Box::new(Adam::new(0.1).group(Group::matching(|_| true).set("momentum", 0.5))),
            "group 1: adam: there is no setting momentum; there are lr, weight_decay, maximize, betas, eps, amsgrad",
        ),
        (
            Box::new(Adam::new(0.1).group(Group::matching(|_| true).set("betas", 0.5))),
            "group 1: adam: betas is 0.5, and should be a list of 2 numbers",
        ),
    ];
    for (mut o, sentence) in rows {
        let e = step(&mut *o, &p, 1.0).unwrap_err();
        let kind =
            if sentence.contains("shape") { ErrorKind::ShapeMismatch } else { ErrorKind::InvalidArgument };
        assert!(e.kind() == kind && e.message().starts_with(sentence), "{e}, not {sentence}");
        assert_eq!(p.get().item::<f64>(), 1.0);
    }
    let mut g = Gradients::new();
    g.set(&p.get(), [1.0f32, 2.0].into());
    let e = Sgd::new(0.1).step(&p, &g).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ShapeMismatch, "{e}");
}
