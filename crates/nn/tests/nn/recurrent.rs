//! Recurrent networks: properties other than single results.

use elinvar_core::{DType, ErrorKind};
use elinvar_nn::layers::*;
use elinvar_nn::{Generator, Layer, Module, Sequential, Tensor};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{check_gradient, try_run};

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;
type T = Tensor<B>;

fn numbers(t: &T) -> Vec<f64> {
    t.to_host().unwrap().to_f64_vec()
}

#[test]
fn repeated_cells_equal_a_network() {
    let g = &mut Generator::new(1);
    let x = g.randn([3, 2, 4], &D);
    let net = LSTM::<B>::new(4, 5, g, &D);
    let cell = LSTMCell::<B>::new(4, 5, g, &D);
    // The same weights under the names without a layer.
    let renamed = net.state_dict().unwrap().into_iter().map(|(k, v)| (k.replace("_l0", ""), v)).collect();
    cell.load_state_dict(&renamed, elinvar_nn::Strict::Yes).unwrap();
    let (y, (h, c)) = net.forward(&x, None);
    let mut state = None;
    for t in 0..3 {
        let next = cell.forward(&x.select(0, t), state.as_ref());
        assert_eq!(numbers(&next.0), numbers(&y.select(0, t)), "step {t}");
        state = Some(next);
    }
    let (last_h, last_c) = state.unwrap();
    assert_eq!((numbers(&last_h), numbers(&last_c)), (numbers(&h.select(0, 0)), numbers(&c.select(0, 0))));
    // Half of a sequence, and the other half from its state.
    let (_, half) = net.forward(&x.narrow(0, 0, 1), None);
    let (rest, _) = net.forward(&x.narrow(0, 1, 2), Some(&half));
    assert_eq!(numbers(&rest), numbers(&y.narrow(0, 1, 2)));
    // A sequence and an input without a batch axis.
    let (alone, _) = net.forward(&x.select(1, 1), None);
    assert_eq!((alone.dims(), numbers(&alone)), (&[3, 5][..], numbers(&y.select(1, 1))));
    let (h, _) = cell.forward(&x.select(0, 0).select(0, 1), None);
    assert_eq!((h.dims(), numbers(&h)), (&[5][..], numbers(&y.select(0, 0).select(0, 1))));
}

#[test]
fn dropout_is_only_between_layers() {
    let g = &mut Generator::new(2);
    let x = g.randn([4, 3, 2], &D);
    let make = |p: f64, layers: usize| {
        LSTMOptions::new(2, 6)
            .layers(layers)
            .bidirectional(true)
            .dropout(p)
            .init::<B>(&mut Generator::new(5), &D)
    };
    let y = |net: &LSTM<B>| numbers(&net.forward(&x, None).0);
    let (with, without) = (make(0.5, 2), make(0.0, 2));
    let plain = y(&without);
    let (first, second) = (y(&with), y(&with));
    assert!(first != plain && second != plain && first != second, "every run drops something else");
    assert!(first.iter().all(|v| *v != 0.0), "what is dropped is no output");
    // The first layer has no dropout of its input, so its final state is that of a network without
    // dropout.
    let state = |net: &LSTM<B>| numbers(&net.forward(&x, None).1.0.narrow(0, 0, 2));
    assert_eq!(state(&with), state(&without));
    // With probability 1 the input of the second layer is zeros, for any x.
    let all = make(1.0, 2);
    let top = |x: &T| numbers(&all.forward(x, None).0);
    assert_eq!(top(&x), top(&g.randn([4, 3, 2], &D)));
    with.eval();
    assert_eq!(y(&with), plain, "nothing is dropped in evaluation");
    with.train();
    // The same seed drops the same elements.
    assert_eq!(y(&make(0.5, 2)), first);
    // A single layer has no dropout, which is between layers.
    assert_eq!(y(&make(0.5, 1)), y(&make(0.0, 1)));
    // Run layer by layer, states are split and concatenated: a state of zeros is the same as none.
    let zeros = T::zeros([4, 3, 6], DType::F32, &D);
    let (a, (h, c)) = make(0.5, 2).forward(&x, Some(&(zeros.clone(), zeros)));
    assert_eq!((numbers(&a), h.dims(), c.dims()), (first, &[4, 3, 6][..], &[4, 3, 6][..]));
    let odd = T::zeros([3, 3, 6], DType::F32, &D);
    let e = try_run(|| drop(with.forward(&x, Some(&(odd.clone(), odd.clone()))))).unwrap_err();
    assert!(
        e.kind() == ErrorKind::ShapeMismatch
            && e.message().starts_with("LSTM: an initial state of shape [3, 3, 6]"),
        "{e}"
    );
}

/// Gradients pass through dropout between layers: the random state is restored, so every run has
/// the same mask.
#[test]
fn gradients_pass_through_the_dropout() {
    let x = Generator::new(3).normal(0.0, 1.0, [3, 1, 2], DType::F64, &D);
    let run = |x: &[T]| {
        let net = GRUOptions::new(2, 2).layers(2).dropout(0.4).init::<B>(&mut Generator::new(8), &D);
        net.to_dtype(DType::F64)?;
        Ok(net.forward(&x[0], None).0)
    };
    check_gradient(run, std::slice::from_ref(&x), 1e-5, 1e-6).unwrap();
}

#[test]
fn a_network_in_a_chain_gives_its_output() {
    let g = &mut Generator::new(4);
    let gru = GRUOptions::new(2, 3).batch_first(true).init::<B>(g, &D);
    let x = g.randn([2, 4, 2], &D);
    let want = numbers(&gru.forward(&x, None).0);
    let chain = Sequential::new().with(gru).with(Identity);
    assert_eq!(numbers(&chain.forward(&x)), want);
    let summary = chain.summary();
    assert!(summary.contains("GRU(2, 3)") && summary.contains("63"), "{summary}");
}

#[test]
fn names_and_numbers_are_those_of_pytorch() {
    let g = &mut Generator::new(1);
    let net = LSTMOptions::new(3, 2).layers(2).bidirectional(true).init::<B>(g, &D);
    // list(nn.LSTM(3, 2, num_layers=2, bidirectional=True).state_dict()), in its order
    let want = [
        ("weight_ih_l0", &[8, 3][..]),
        ("weight_hh_l0", &[8, 2]),
        ("bias_ih_l0", &[8]),
        ("bias_hh_l0", &[8]),
        ("weight_ih_l0_reverse", &[8, 3]),
        ("weight_hh_l0_reverse", &[8, 2]),
        ("bias_ih_l0_reverse", &[8]),
        ("bias_hh_l0_reverse", &[8]),
        ("weight_ih_l1", &[8, 4]),
        ("weight_hh_l1", &[8, 2]),
        ("bias_ih_l1", &[8]),
        ("bias_hh_l1", &[8]),
        ("weight_ih_l1_reverse", &[8, 4]),
        ("weight_hh_l1_reverse", &[8, 2]),
        ("bias_ih_l1_reverse", &[8]),
        ("bias_hh_l1_reverse", &[8]),
    ];
    let got = net.named_parameters();
    assert_eq!(got.len(), want.len());
    for ((name, p), (want, dims)) in got.iter().zip(want) {
        assert_eq!((name.as_str(), p.get().dims()), (want, dims));
        let bound = 1.0 / 2f64.sqrt();
        assert!(numbers(&p.get()).iter().all(|v| v.abs() <= bound), "{name}");
    }
    assert_eq!(net.to_string(), "LSTM(3, 2, 2 layers, both directions)");
}

#[test]
fn a_mistake_is_a_sentence() {
    let g = &mut Generator::new(1);
    let net = GRU::<B>::new(2, 3, g, &D);
    let x = |sizes: &[usize]| T::ones(sizes, DType::F32, &D);
    let rows = [
        (try_run(|| drop(GRUOptions::new(2, 3).layers(0).init::<B>(g, &D))), "GRU: 0 layers"),
        (try_run(|| drop(GRUOptions::new(2, 3).dropout(2.0).init::<B>(g, &D))), "dropout: probability 2"),
        (try_run(|| drop(net.forward(&x(&[4, 1, 5]), None))), "gru: "),
        (try_run(|| drop(net.forward(&x(&[4, 1, 2]), Some(&x(&[2, 1, 3]))))), "gru: "),
    ];
    for (result, sentence) in rows {
        let e = result.expect_err(sentence);
        assert!(e.message().starts_with(sentence), "{e}, not {sentence}");
    }
}

/// PyTorch's names of a projection, and what one may be.
#[test]
fn projections() {
    let g = &mut Generator::new(1);
    let net = LSTMOptions::new(3, 4).proj_size(2).layers(2).dropout(0.5).init::<B>(g, &D);
    let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names[..5], ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0"]);
    assert_eq!(net.to_string(), "LSTM(3, 4, projected to 2, 2 layers, dropout 0.5)");
    // Layer by layer, because of the dropout between them.
    let (y, (h, c)) = net.forward(&Generator::new(2).randn([5, 1, 3], &D), None);
    assert_eq!((y.dims(), h.dims(), c.dims()), (&[5, 1, 2][..], &[2, 1, 2][..], &[2, 1, 4][..]));
    let e = try_run(|| drop(LSTMOptions::new(3, 4).proj_size(4).init::<B>(g, &D))).unwrap_err();
    assert_eq!(e.message(), "LSTM: proj_size 4 for a state of 4; it should be smaller, or 0 for none");
}
