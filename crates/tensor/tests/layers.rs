//! First, second and third derivatives of layers and losses against finite differences; a gradient
//! that is recorded has the bits of one that is not.

use elinvar_core::philox::Stream;
use elinvar_core::{DType, Element, ErrorKind, HostTensor, Result, Shape};
use elinvar_ops::catalogue as op;
use elinvar_ops::catalogue::conv::Padding;
use elinvar_ops::catalogue::grid_sample::{Padding as Outside, Sampling};
use elinvar_ops::catalogue::interpolate::{Interpolation, Target};
use elinvar_ops::catalogue::multi_head_attention::{HeadWeights, MhaWeights};
use elinvar_ops::catalogue::recurrent::{RnnOptions, RnnWeights};
use elinvar_ops::catalogue::reduction::Reduction;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Backward, Tensor, backward, check_gradient, enable_grad};

type T = Tensor<Reference>;
type Function = Box<dyn Fn(&[T]) -> Result<T>>;

fn of<E: Element>(v: Vec<E>, shape: &[usize]) -> T {
    let host = HostTensor::from_vec(v, Shape::new(shape).unwrap()).unwrap();
    Tensor::from_host(host, &ReferenceDevice).unwrap()
}

/// Distinct numbers in -2..2 without a pattern.
fn numbers(shape: &[usize], seed: usize) -> Vec<f64> {
    let n: usize = shape.iter().product();
    (0..n).map(|i| ((i * 37 + seed * 101) as f64 * 0.618_033_988_75).fract() * 4.0 - 2.0).collect()
}
fn some(shape: &[usize], seed: usize) -> T {
    of(numbers(shape, seed), shape)
}
/// Numbers in 0.1..0.9.
fn share(shape: &[usize], seed: usize) -> T {
    of(numbers(shape, seed).iter().map(|v| 0.5 + v / 5.0).collect(), shape)
}

/// An image, and a grid that reads it in its middle and outside.
fn sampled() -> Vec<T> {
    vec![some(&[1, 2, 3, 4], 1), some(&[1, 2, 2, 2], 2)]
}
fn sample(x: &[T], sampling: Sampling, padding: Outside) -> Result<T> {
    op::square(&op::grid_sample(&x[0], &x[1], sampling, padding, false)?)
}

/// The gradients of sum(w f(x)), multiplied with fixed numbers and summed: a function of x again.
fn derived(f: impl Fn(&[T]) -> Result<T>, x: &[T]) -> Result<T> {
    enable_grad(|| {
        let variable = |v: &T| if v.is_tracked() { v.clone() } else { v.requires_grad() };
        let x: Vec<T> = x.iter().map(variable).collect();
        let y = f(&x)?;
        let options = Backward { retain_graph: true, create_graph: true };
        let gradients = backward(&[(&y, Some(&some(y.shape(), 7)))], options)?;
        let mut total = of(vec![0.0], &[]);
        for (i, v) in x.iter().enumerate() {
            if let Some(g) = gradients.get(v) {
                total = op::add(&total, &op::sum(&op::mul(g, &some(g.shape(), i + 11))?, None, false)?)?;
            }
        }
        Ok(total)
    })
}

/// Checks each function, its gradient, and the gradient of that.
fn check(rows: Vec<(&str, Vec<T>, Function)>) {
    for (name, x, f) in rows {
        let second = |x: &[T]| derived(&f, x);
        let third = |x: &[T]| derived(second, x);
        let checks = [
            check_gradient(&f, &x, 1e-5, 1e-7),
            check_gradient(second, &x, 1e-5, 1e-6),
            check_gradient(third, &x, 1e-5, 1e-5),
        ];
        for (order, result) in checks.into_iter().enumerate() {
            result.unwrap_or_else(|e| panic!("{name}, derivative {}: {e}", order + 1));
        }
    }
}

#[test]
fn derivatives_of_layers() {
    let image = || some(&[1, 2, 4, 3], 1);
    check(vec![
        (
            "conv2d",
            vec![image(), some(&[2, 1, 2, 2], 2), some(&[2], 3)],
            Box::new(|x| op::conv2d(&x[0], &x[1], Some(&x[2]), &[2, 1], &Padding::from([1, 0]), &[1, 2], 2)),
        ),
        (
            "conv2d that keeps sizes",
            vec![image(), some(&[1, 2, 2, 4], 2)],
            Box::new(|x| op::conv2d(&x[0], &x[1], None, &[1], &Padding::Same, &[1], 1)),
        ),
        (
            "conv_transpose2d",
            vec![image(), some(&[2, 1, 2, 2], 2), some(&[2], 3)],
            Box::new(|x| op::conv_transpose2d(&x[0], &x[1], Some(&x[2]), &[2, 3], &[1, 0], &[1, 2], 2, &[1])),
        ),
        (
            "max_pool2d, squared",
            vec![image()],
            Box::new(|x| op::square(&op::max_pool2d(&x[0], &[2], &[1], &[1], &[1], true)?)),
        ),
        (
            "avg_pool2d, squared",
            vec![image()],
            Box::new(|x| op::square(&op::avg_pool2d(&x[0], &[3], &[2], &[1], true, false)?)),
        ),
        (
            "interpolate, squared",
            vec![image()],
            Box::new(|x| {
                let linear = Interpolation::Linear { align_corners: false };
                op::square(&op::interpolate(&x[0], &Target::Size(vec![5, 2]), linear)?)
            }),
        ),
        (
            "interpolate by cubics, squared",
            vec![image()],
            Box::new(|x| {
                let cubic = Interpolation::Cubic { align_corners: false };
                op::square(&op::interpolate(&x[0], &Target::Size(vec![5, 2]), cubic)?)
            }),
        ),
        (
            "interpolate, antialiased, squared",
            vec![image()],
            Box::new(|x| {
                let mode = Interpolation::AntialiasedCubic { align_corners: true };
                op::square(&op::interpolate(&x[0], &Target::Size(vec![2, 2]), mode)?)
            }),
        ),
        ("grid_sample of the border", sampled(), Box::new(|x| sample(x, Sampling::Linear, Outside::Border))),
        ("grid_sample by cubics", sampled(), Box::new(|x| sample(x, Sampling::Cubic, Outside::Reflection))),
        (
            "affine_grid, squared",
            vec![some(&[1, 2, 3], 1)],
            Box::new(|x| op::square(&op::affine_grid(&x[0], &[1, 1, 2, 3], false)?)),
        ),
        (
            "layer_norm",
            vec![some(&[2, 4], 1), some(&[4], 2), some(&[4], 3)],
            Box::new(|x| op::layer_norm(&x[0], &[4], Some(&x[1]), Some(&x[2]), 0.1)),
        ),
        (
            "rms_norm",
            vec![some(&[2, 4], 1), some(&[4], 2)],
            Box::new(|x| op::rms_norm(&x[0], &[4], Some(&x[1]), Some(0.1))),
        ),
        (
            "group_norm",
            vec![image(), some(&[2], 2)],
            Box::new(|x| op::group_norm(&x[0], 1, Some(&x[1]), None, 0.1)),
        ),
        (
            "batch_norm",
            vec![some(&[3, 2], 1), some(&[2], 2), some(&[2], 3)],
            Box::new(|x| op::batch_norm(&x[0], None, Some(&x[1]), Some(&x[2]), true, 0.1, 0.1).map(|b| b.y)),
        ),
        (
            "dropout, squared",
            vec![some(&[9], 1)],
            Box::new(|x| op::square(&op::dropout(&x[0], 0.4, Stream { seed: 1, stream: 2 }, true)?)),
        ),
    ]);
}

#[test]
fn derivatives_of_attention_and_recurrent_nets() {
    let qkv = || vec![some(&[1, 2, 3, 2], 1), some(&[1, 1, 4, 2], 2), some(&[1, 1, 4, 3], 3)];
    let net = |gates: usize| {
        vec![some(&[2, 1, 2], 1), some(&[gates, 2], 2), some(&[gates, 1], 3), some(&[gates], 4)]
    };
    fn weights(x: &[T]) -> [RnnWeights<'_, T>; 1] {
        [RnnWeights { w_ih: &x[1], w_hh: &x[2], b_ih: Some(&x[3]), b_hh: None }]
    }
    let mut masked = qkv();
    masked.push(some(&[2, 3, 4], 4));
    check(vec![
        (
            "attention, causal",
            qkv(),
            Box::new(|x| op::scaled_dot_product_attention(&x[0], &x[1], &x[2], None, true, Some(0.8), true)),
        ),
        (
            "attention with a mask that leaves a query no key",
            qkv(),
            Box::new(|x| {
                let keep = (0..12).map(|i| i % 3 != 1 && i >= 4).collect::<Vec<bool>>();
                let mask = of(keep, &[3, 4]);
                op::scaled_dot_product_attention(&x[0], &x[1], &x[2], Some(&mask), false, None, true)
            }),
        ),
        (
            "attention by its mask, too",
            masked,
            Box::new(|x| {
                op::scaled_dot_product_attention(&x[0], &x[1], &x[2], Some(&x[3]), false, None, true)
            }),
        ),
        (
            "multi_head_attention",
            vec![some(&[3, 1, 2], 1), some(&[6, 2], 2), some(&[2, 2], 3)],
            Box::new(|x| {
                let w = MhaWeights { in_proj: &x[1], in_bias: None, out_proj: &x[2], out_bias: None };
                let give = HeadWeights::Averaged;
                op::multi_head_attention(&x[0], &x[0], &x[0], w, None, None, 2, false, give).map(|r| r.0)
            }),
        ),
        (
            "lstm",
            net(4),
            Box::new(|x| op::lstm(&x[0], None, &weights(x), RnnOptions::default()).map(|r| r.0)),
        ),
        ("gru", net(3), Box::new(|x| op::gru(&x[0], None, &weights(x), RnnOptions::default()).map(|r| r.0))),
        (
            "lstm with a projection",
            vec![
                some(&[2, 1, 2], 1),
                some(&[8, 2], 2),
                some(&[8, 1], 3),
                some(&[8], 4),
                some(&[1, 2], 5),
                some(&[1, 1, 1], 6),
                some(&[1, 1, 2], 7),
            ],
            Box::new(|x| {
                let state = Some((&x[5], &x[6]));
                op::lstm::projected(&x[0], state, &weights(x), &[&x[4]], RnnOptions::default()).map(|r| r.0)
            }),
        ),
        (
            "rnn_relu, backwards too",
            net(1),
            Box::new(|x| {
                let both = RnnOptions { bidirectional: true, batch_first: true };
                op::square(&op::rnn_relu(&x[0], None, &[weights(x)[0]; 2], both)?.0)
            }),
        ),
        (
            "attention with dropout",
            qkv(),
            Box::new(|x| {
                let drops = |p: &T| op::dropout(p, 0.3, Stream { seed: 1, stream: 2 }, true);
                let how = op::scaled_dot_product_attention::with_dropout;
                how(&x[0], &x[1], &x[2], None, true, None, true, Some(&drops))
            }),
        ),
        (
            "rnn_tanh, backwards too",
            net(1),
            Box::new(|x| {
                let both = RnnOptions { bidirectional: true, batch_first: true };
                op::rnn_tanh(&x[0], None, &[weights(x)[0]; 2], both).map(|r| r.0)
            }),
        ),
    ]);
}

/// The initial and final states of a recurrent network, in both directions and through layers.
/// Gradients come from y, from all final states, and from each of them alone, which leaves some
/// gates without a gradient.
/// Before anything is computed: a product would be refused by a backend, not by the op.
#[test]
fn operands_of_recurrent_nets_have_one_dtype() {
    let x = [some(&[3, 2, 2], 0), some(&[6, 2], 1), some(&[6, 2], 2), some(&[6], 3)];
    for wrong in 0..x.len() {
        let mut x = x.each_ref().map(T::detach);
        x[wrong] = x[wrong].to_dtype(DType::Bool);
        let w = RnnWeights { w_ih: &x[1], w_hh: &x[2], b_ih: Some(&x[3]), b_hh: None };
        let e = op::gru(&x[0], None, &[w], RnnOptions::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::DTypeMismatch, "operand {wrong}: {e}");
        assert!(e.to_string().contains("gru: the input is"), "operand {wrong}: {e}");
    }
}

#[test]
fn derivatives_of_states() {
    let net = |gates: usize, inputs: usize| {
        vec![
            some(&[2, 1, inputs], 1),
            some(&[gates, inputs], 2),
            some(&[gates, 1], 3),
            some(&[gates], 4),
            some(&[gates], 5),
        ]
    };
    let with = |gates: usize, states: &[usize]| {
        let mut all = net(gates, 1);
        all.extend(states.iter().enumerate().map(|(i, &n)| some(&[n, 1, 1], 6 + i)));
        all
    };
    fn weights(x: &[T]) -> RnnWeights<'_, T> {
        RnnWeights { w_ih: &x[1], w_hh: &x[2], b_ih: Some(&x[3]), b_hh: Some(&x[4]) }
    }
    fn ways(bidirectional: bool) -> RnnOptions {
        RnnOptions { batch_first: false, bidirectional }
    }
    fn lstm(x: &[T], n: usize, o: RnnOptions) -> Result<(T, T, T)> {
        op::lstm(&x[0], Some((&x[5], &x[6])), &vec![weights(x); n], o)
    }
    let flat = |x: &T| op::flatten(x, 0, -1);
    check(vec![
        ("lstm by y and its last states, from both sides", with(4, &[2, 2]), {
            Box::new(move |x| {
                let (y, h, c) = lstm(x, 2, ways(true))?;
                op::concat(&[&flat(&y)?, &flat(&h)?, &flat(&c)?], 0)
            })
        }),
        ("lstm by its last outputs", with(4, &[1, 1]), Box::new(|x| lstm(x, 1, ways(false)).map(|r| r.1))),
        ("lstm by its last memories", with(4, &[1, 1]), Box::new(|x| lstm(x, 1, ways(false)).map(|r| r.2))),
        ("lstm by its first output", with(4, &[1, 1]), {
            Box::new(|x| op::select(&lstm(x, 1, ways(false))?.0, 0, 0))
        }),
        ("two layers of lstm", with(4, &[2, 2]), Box::new(|x| lstm(x, 2, ways(false)).map(|r| r.0))),
        ("gru by y and its last states, from both sides", with(3, &[2]), {
            Box::new(move |x| {
                let (y, h) = op::gru(&x[0], Some(&x[5]), &[weights(x); 2], ways(true))?;
                op::concat(&[&flat(&y)?, &flat(&h)?], 0)
            })
        }),
        ("two layers of rnn_tanh by their last states", with(1, &[2]), {
            Box::new(|x| op::rnn_tanh(&x[0], Some(&x[5]), &[weights(x); 2], ways(false)).map(|r| r.1))
        }),
    ]);
}

#[test]
fn derivatives_of_losses() {
    let pair = || vec![some(&[2, 3], 1), some(&[2, 3], 5)];
    let classes = || of(vec![2i64, 9], &[2]);
    check(vec![
        ("mse_loss", pair(), Box::new(|x| op::mse_loss(&x[0], &x[1], Reduction::Mean))),
        ("l1_loss, squared", pair(), Box::new(|x| op::square(&op::l1_loss(&x[0], &x[1], Reduction::Mean)?))),
        ("smooth_l1_loss", pair(), Box::new(|x| op::smooth_l1_loss(&x[0], &x[1], Reduction::None, 1.5))),
        ("huber_loss", pair(), Box::new(|x| op::huber_loss(&x[0], &x[1], Reduction::Sum, 0.7))),
        (
            "hinge_embedding_loss, squared",
            vec![some(&[4], 1)],
            Box::new(|x| {
                let t = of(vec![1.0, -1.0, -1.0, 1.0], &[4]);
                op::square(&op::hinge_embedding_loss(&x[0], &t, Reduction::Mean, 1.0)?)
            }),
        ),
        (
            "binary_cross_entropy",
            vec![share(&[4], 1), share(&[4], 2), share(&[4], 3)],
            Box::new(|x| op::binary_cross_entropy(&x[0], &x[1], Some(&x[2]), Reduction::Mean)),
        ),
        (
            "binary_cross_entropy_with_logits",
            vec![some(&[4], 1), share(&[4], 2), share(&[4], 3), share(&[4], 4)],
            Box::new(|x| {
                op::binary_cross_entropy_with_logits(&x[0], &x[1], Some(&x[2]), Some(&x[3]), Reduction::Mean)
            }),
        ),
        ("kl_div", vec![some(&[4], 1), share(&[4], 2)], {
            Box::new(|x| op::kl_div(&x[0], &x[1], Reduction::Sum, false))
        }),
        ("kl_div of logarithms", pair(), Box::new(|x| op::kl_div(&x[0], &x[1], Reduction::BatchMean, true))),
        (
            "cross_entropy",
            vec![some(&[2, 3], 1), share(&[3], 2)],
            Box::new(move |x| op::cross_entropy(&x[0], &classes(), Some(&x[1]), 9, Reduction::Mean, 0.0)),
        ),
        (
            "cross_entropy of smoothed labels",
            vec![some(&[2, 3], 1), share(&[3], 2)],
            Box::new(move |x| op::cross_entropy(&x[0], &classes(), Some(&x[1]), 9, Reduction::None, 0.3)),
        ),
        (
            "cross_entropy of probabilities",
            vec![some(&[2, 3], 1), share(&[2, 3], 2)],
            Box::new(|x| op::cross_entropy(&x[0], &x[1], None, -100, Reduction::Mean, 0.1)),
        ),
        (
            "nll_loss, squared",
            vec![some(&[2, 3], 1)],
            Box::new(move |x| op::square(&op::nll_loss(&x[0], &classes(), None, 9, Reduction::Mean)?)),
        ),
        (
            "cosine_similarity",
            vec![some(&[2, 1, 3], 1), some(&[2, 3], 2)],
            Box::new(|x| op::cosine_similarity(&x[0], &x[1], -1, 1e-8)),
        ),
        (
            "triplet_margin_loss",
            vec![some(&[2, 3], 1), some(&[2, 3], 2), some(&[2, 3], 4)],
            Box::new(|x| {
                op::triplet_margin_loss(&x[0], &x[1], &x[2], 3.0, 2.0, 1e-6, false, Reduction::Mean)
            }),
        ),
        (
            "ctc_loss",
            vec![some(&[4, 2, 3], 1)],
            Box::new(|x| {
                let (labels, times, counts) =
                    (of(vec![1i64, 1, 2, 0], &[2, 2]), of(vec![4i64, 3], &[2]), of(vec![2i64, 1], &[2]));
                let p = op::log_softmax(&x[0], -1)?;
                op::ctc_loss(&p, &labels, &times, &counts, 0, Reduction::None, true)
            }),
        ),
    ]);
}

#[test]
fn a_gradient_has_the_same_bits_whether_it_is_recorded_or_not() {
    let rows: Vec<(&str, Function)> = vec![
        ("layer_norm", Box::new(|x| op::layer_norm(&x[0], &[40], Some(&x[1]), Some(&x[2]), 1e-5))),
        ("layer_norm alone", Box::new(|x| op::layer_norm(&x[0], &[40], None, None, 1e-5))),
        ("rms_norm", Box::new(|x| op::rms_norm(&x[0], &[40], Some(&x[1]), None))),
        (
            "cross_entropy",
            Box::new(|x| {
                let t = of((0..30i64).collect(), &[30]);
                op::cross_entropy(&x[0], &t, None, -100, Reduction::Mean, 0.0)
            }),
        ),
        ("huber_loss", Box::new(|x| op::huber_loss(&x[0], &x[1], Reduction::Mean, 1.0))),
    ];
    let net = |gates: usize| {
        vec![vec![9, 3, 4], vec![gates * 5, 4], vec![gates * 5, 5], vec![gates * 5], vec![gates * 5]]
    };
    fn both(x: &[T]) -> [RnnWeights<'_, T>; 2] {
        [RnnWeights { w_ih: &x[1], w_hh: &x[2], b_ih: Some(&x[3]), b_hh: Some(&x[4]) }; 2]
    }
    let o = RnnOptions { batch_first: false, bidirectional: true };
    let nets: Vec<(&str, usize, Function)> = vec![
        ("lstm", 4, Box::new(move |x| op::lstm(&x[0], None, &both(x), o).map(|r| r.0))),
        ("lstm by its memories", 4, Box::new(move |x| op::lstm(&x[0], None, &both(x), o).map(|r| r.2))),
        ("gru", 3, Box::new(move |x| op::gru(&x[0], None, &both(x), o).map(|r| r.0))),
        ("rnn_tanh", 1, Box::new(move |x| op::rnn_tanh(&x[0], None, &both(x), o).map(|r| r.0))),
        ("rnn_relu", 1, Box::new(move |x| op::rnn_relu(&x[0], None, &both(x), o).map(|r| r.0))),
    ];
    let rows = rows.into_iter().map(|(name, f)| (name, vec![vec![30, 40], vec![40], vec![40]], f));
    let ctc: Function = Box::new(|x| {
        let (labels, times, counts) =
            (of(vec![1i64, 1, 2, 0], &[2, 2]), of(vec![4i64, 3], &[2]), of(vec![2i64, 1], &[2]));
        op::ctc_loss(&x[0], &labels, &times, &counts, 0, Reduction::None, true)
    });
    let rows = rows.chain([("ctc_loss", vec![vec![4, 2, 3]], ctc)]);
    for (name, shapes, f) in rows.chain(nets.into_iter().map(|(name, gates, f)| (name, net(gates), f))) {
        let narrow =
            |v: Vec<f64>, shape: &[usize]| of(v.iter().map(|&v| v as f32).collect(), shape).requires_grad();
        let x: Vec<T> = shapes.iter().enumerate().map(|(i, s)| narrow(numbers(s, 1 + i), s)).collect();
        let y = f(&x).unwrap();
        let seed = of(numbers(y.shape(), 9).iter().map(|&v| v as f32).collect(), y.shape());
        let pass = |create_graph| {
            let g = backward(&[(&y, Some(&seed))], Backward { retain_graph: true, create_graph }).unwrap();
            x.iter().filter_map(|v| g.get(v)).map(|g| g.to_host().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(pass(true), pass(false), "{name}");
    }
}
