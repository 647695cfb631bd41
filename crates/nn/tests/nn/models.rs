//! Complete networks: sizes, names, training. Their outputs are compared with PyTorch's in
//! `torch.rs`.

use elinvar_core::{DType, ErrorKind};
use elinvar_nn::models::{LeNet, LeNetOptions, LstmLmOptions, ResNet, ResNetOptions};
use elinvar_nn::{Generator, Layer, Module, Tensor};
use elinvar_nn::{init, loss};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::try_run;

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;
type T = Tensor<B>;

/// torchvision: `sum(p.numel() for p in resnet18().parameters())`, as in its documentation.
///
/// The number is a polynomial of degree 2 in the width, so three narrow networks determine that of
/// 64 channels without allocating 60 million weights.
#[test]
fn residual_networks_are_as_large_as_torchvisions() {
    let rows = [
        (ResNetOptions::resnet18(), 11_689_512),
        (ResNetOptions::resnet34(), 21_797_672),
        (ResNetOptions::resnet50(), 25_557_032),
    ];
    for (options, weights) in rows {
        let count = |width| -> i64 {
            let net: ResNet<B> = options.width(width).init(&mut Generator::new(1), &D);
            net.num_parameters() as i64
        };
        let (one, two, three) = (count(1), count(2), count(3));
        // Newton's interpolation.
        let (slope, bend) = (two - one, three - 2 * two + one);
        assert_eq!(one + 63 * slope + 63 * 62 / 2 * bend, weights);
    }
}

#[test]
fn names_are_torchvisions() {
    let net: ResNet<B> = ResNetOptions::resnet50().width(1).init(&mut Generator::new(1), &D);
    let names: Vec<String> = net.state_dict().unwrap().into_keys().collect();
    for name in [
        "conv1.weight",
        "bn1.num_batches_tracked",
        "layer1.0.conv3.weight",
        "layer1.0.downsample.0.weight",
        "layer1.0.downsample.1.running_var",
        "layer3.5.bn2.bias",
        "layer4.2.bn3.running_mean",
        "fc.weight",
        "fc.bias",
    ] {
        assert!(names.iter().any(|n| n == name), "{name}");
    }
    // len(resnet50().state_dict())
    assert_eq!(names.len(), 320);
}

#[test]
fn small_images_are_not_reduced_at_first() {
    let g = &mut Generator::new(1);
    let net: ResNet<B> =
        ResNetOptions::basic([1, 1, 1, 1]).width(2).inputs(1).classes(3).small_images(true).init(g, &D);
    let x = g.randn([2, 1, 8, 8], &D);
    assert_eq!((net.forward(&x).dims(), net.features(&x).dims()), (&[2, 3][..], &[2, 16][..]));
    assert!(!net.summary().contains("MaxPool2d"), "{}", net.summary());
}

/// Twenty steps of plain SGD on one batch reduce the loss, and every parameter has a gradient.
fn learns(net: &dyn Module<B>, rate: f64, loss: impl Fn() -> T) {
    let before = loss().item::<f64>();
    for _ in 0..20 {
        let gradients = loss().backward();
        for (name, p) in net.named_parameters() {
            let g = gradients.get(&p.get()).unwrap_or_else(|| panic!("{name} has no gradient"));
            p.set(&(p.get().detach() - g * rate)).unwrap();
        }
    }
    let after = loss().item::<f64>();
    assert!(after < 0.9 * before, "{before} to {after}");
}

#[test]
fn networks_learn() {
    let g = &mut Generator::new(1);
    let classes: T = [0i64, 1, 2, 1].into();
    let lenet: LeNet<B> = LeNetOptions::new().side(16).channels(2, 4).hidden(8, 8).classes(3).init(g, &D);
    // Averages over noise are small, so its variance is increased.
    let x = g.randn([4, 1, 16, 16], &D) * 4.0;
    learns(&lenet, 1.0, || loss::cross_entropy(&lenet.forward(&x), &classes));
    let resnet: ResNet<B> =
        ResNetOptions::bottleneck([1, 1, 0, 0]).width(2).inputs(1).classes(3).small_images(true).init(g, &D);
    let x = g.randn([4, 1, 4, 4], &D);
    learns(&resnet, 0.1, || loss::cross_entropy(&resnet.forward(&x), &classes));
    let lm = LstmLmOptions::new(5, 8, 8).tied(true).init::<B>(g, &D);
    // With its usual small weights it would need hundreds of steps.
    init::apply(&lm, |_, p| Some(init::uniform(p.shape(), 1.0, g, &D))).unwrap();
    let tokens: T = [[0i64], [1], [2], [3], [4], [0]].into();
    let (x, y) = (tokens.narrow(0, 0, 5), tokens.narrow(0, 1, 5).flatten(0, 1));
    learns(&lm, 0.3, || loss::cross_entropy(&lm.forward(&x, None).0.flatten(0, 1), &y));
}

#[test]
fn the_language_model_ties_its_weights() {
    let g = &mut Generator::new(1);
    let lm = |tied| LstmLmOptions::new(10, 4, 4).layers(1).tied(tied).init::<B>(&mut Generator::new(2), &D);
    assert_eq!(lm(false).num_parameters() - lm(true).num_parameters(), 40);
    let names: Vec<String> = lm(true).state_dict().unwrap().into_keys().collect();
    assert_eq!(
        names,
        [
            "decoder.bias",
            "decoder.weight",
            "encoder.weight",
            "rnn.bias_hh_l0",
            "rnn.bias_ih_l0",
            "rnn.weight_hh_l0",
            "rnn.weight_ih_l0"
        ]
    );
    // It continues from a state.
    let net = lm(true);
    let tokens: T = [[1i64, 2], [3, 4], [5, 6]].into();
    let (y, _) = net.forward(&tokens, None);
    let (_, state) = net.forward(&tokens.narrow(0, 0, 2), None);
    let (rest, _) = net.forward(&tokens.narrow(0, 2, 1), Some(&state));
    assert_eq!(rest.to_vec::<f32>().unwrap(), y.narrow(0, 2, 1).to_vec::<f32>().unwrap());
    let e = try_run(|| drop(LstmLmOptions::new(10, 4, 5).tied(true).init::<B>(g, &D))).unwrap_err();
    assert!(
        e.kind() == ErrorKind::InvalidArgument && e.message().starts_with("lstm_lm: tied weights"),
        "{e}"
    );
}

#[test]
fn lenet_is_that_of_the_paper_for_32_by_32() {
    let g = &mut Generator::new(1);
    let net = LeNet::<B>::new(g, &D);
    // 156 + 2416 + 48120 + 10164 + 850
    assert_eq!(net.num_parameters(), 61_706);
    assert_eq!(net.forward(&T::zeros([1, 1, 32, 32], DType::F32, &D)).dims(), [1, 10]);
    let e = try_run(|| drop(LeNetOptions::new().side(15).init::<B>(g, &D))).unwrap_err();
    assert!(e.message().starts_with("lenet: images of side 15; 16 is the least"), "{e}");
}
