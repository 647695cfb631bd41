//! Formulas of layers and losses: second derivatives, and 16-bit floats.

use elinvar_core::DType;
use elinvar_nn::layers::*;
use elinvar_nn::loss::{self, Reduction};
use elinvar_nn::{Generator, Layer, Module, Tensor};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{check_gradient, enable_grad};

const D: ReferenceDevice = ReferenceDevice;
type B = Reference;
type T = Tensor<B>;
type F = Box<dyn Fn(&T) -> T>;

/// All layers and losses with formulas of their own, on x: [3, 4], far from kinks.
fn rows(dtype: DType) -> Vec<(&'static str, F)> {
    let each = Reduction::None;
    let g = &mut Generator::new(2);
    let other = g.normal(0.0, 1.0, [3, 4], dtype, &D);
    let variance = g.uniform(0.5, 2.0, [3, 4], dtype, &D);
    let counts = T::from([[0.0f64, 1.0, 2.0, 3.0]; 3]).to_dtype(dtype);
    let signs = T::from([1.0f64, -1.0, 1.0, -1.0]).to_dtype(dtype);
    let pairs = T::from([1.0f64, -1.0, 1.0]).to_dtype(dtype);
    let classes = T::from([3i64, 0, 1]);
    let prelu = PReLU::<B>::new(4, &D);
    prelu.to_dtype(dtype).unwrap();
    let (t1, t2, t3, s1) = (other.clone(), other.clone(), other.clone(), signs.clone());
    vec![
        ("prelu", Box::new(move |x| prelu.forward(x))),
        ("glu", Box::new(|x| GLU::new(-1).forward(x))),
        ("swiglu", Box::new(|x| swiglu(x, 1))),
        (
            "local_response_norm",
            Box::new(|x| LocalResponseNorm::new(3).alpha(0.5).forward(&x.reshape([1, 3, 4]))),
        ),
        ("gaussian", Box::new(move |x| loss::gaussian_nll_loss(x, &t1, &variance, true, 1e-6, each))),
        // The target as a mean, and x as the variance.
        (
            "gaussian variance",
            Box::new(move |x| loss::gaussian_nll_loss(&t2, &t2, &(x * x + 1.0), false, 1e-6, each)),
        ),
        ("poisson", Box::new(move |x| loss::poisson_nll_loss(x, &counts, true, true, 1e-8, each))),
        ("ranking", Box::new(move |x| loss::margin_ranking_loss(x, &t3, &s1, 0.5, each))),
        ("soft margin", Box::new(move |x| loss::soft_margin_loss(x, &signs, each))),
        ("cosine", Box::new(move |x| loss::cosine_embedding_loss(x, &other, &pairs, -0.5, each))),
        ("multi margin", Box::new(move |x| loss::multi_margin_loss(x, &classes, 2, 1.0, None, each))),
    ]
}

#[test]
fn gradients_and_their_gradients_agree_with_differences() {
    let x = Generator::new(1).normal(0.0, 1.0, [3, 4], DType::F64, &D);
    for (what, f) in rows(DType::F64) {
        check_gradient(|x| Ok(f(&x[0])), std::slice::from_ref(&x), 1e-5, 1e-6)
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let slope = |x: &[T]| {
            // The finite differences run without a tape; the first gradient needs one.
            enable_grad(|| {
                let x = if x[0].is_tracked() { x[0].clone() } else { x[0].requires_grad() };
                let y = f(&x);
                Ok((&y * &y).sum().grad(&[&x])[0].clone().expect("a gradient"))
            })
        };
        check_gradient(slope, std::slice::from_ref(&x), 1e-5, 1e-5)
            .unwrap_or_else(|e| panic!("{what}, its gradient: {e}"));
    }
}

/// 16-bit floats are computed in f32 and rounded once.
#[test]
fn halves_are_the_rounded_results_of_f32() {
    let x = Generator::new(1).normal(0.0, 1.0, [3, 4], DType::F16, &D);
    for ((what, half), (_, wide)) in rows(DType::F16).into_iter().zip(rows(DType::F32)) {
        // The constants of the f32 row differ, except where they are exact in 16 bits.
        if ["gaussian", "gaussian variance", "ranking", "cosine"].contains(&what) {
            continue;
        }
        let (half, wide) = (half(&x), wide(&x.to_dtype(DType::F32)).to_dtype(DType::F16));
        assert_eq!(half.to_host().unwrap(), wide.to_host().unwrap(), "{what}");
    }
}

#[test]
fn means_and_sums() {
    let (x, y): (T, T) = ([[1.0f32, 2.0, 6.0], [0.0, 0.0, 0.0]].into(), T::zeros([2, 3], DType::F32, &D));
    let below: T = [-1.0f32].into();
    let of = |r| loss::margin_ranking_loss(&x, &y, &below, 0.0, r);
    assert_eq!((of(Reduction::Mean).item::<f64>(), of(Reduction::Sum).item::<f64>()), (1.5, 9.0));
}

/// A loss with settings is its function with these arguments; without, PyTorch's defaults.
#[test]
fn settings_are_the_arguments_of_functions() {
    let x: T = Generator::new(1).normal(0.0, 1.0, [3, 4], DType::F64, &D);
    let (t, p) = (Generator::new(2).normal(0.0, 1.0, [3, 4], DType::F64, &D), x.softmax(1));
    let (classes, w): (T, T) = ([3i64, 0, 1].into(), [1.0f64, 2.0, 0.5, 1.5].into());
    let (mean, sum) = (Reduction::Mean, Reduction::Sum);
    let rows: Vec<(&str, T, T)> = vec![
        ("mse", loss::Mse::new().of(&x, &t), loss::mse_loss(&x, &t, mean)),
        ("l1", loss::L1::new().reduction(sum).of(&x, &t), loss::l1_loss(&x, &t, sum)),
        ("smooth l1", loss::SmoothL1::new().of(&x, &t), loss::smooth_l1_loss(&x, &t, 1.0, mean)),
        ("huber", loss::Huber::new().delta(0.5).of(&x, &t), loss::huber_loss(&x, &t, 0.5, mean)),
        (
            "nll",
            loss::Nll::new().weight(&w).of(&x, &classes),
            loss::nll_loss(&x, &classes, Some(&w), -100, mean),
        ),
        (
            "binary cross entropy",
            loss::BinaryCrossEntropy::new().of(&p, &p),
            loss::binary_cross_entropy(&p, &p, None, mean),
        ),
        (
            "its logits",
            loss::BinaryCrossEntropyWithLogits::new().pos_weight(&w).of(&x, &p),
            loss::binary_cross_entropy_with_logits(&x, &p, None, Some(&w), mean),
        ),
        ("kl_div", loss::KlDiv::new().log_target(true).of(&x, &t), loss::kl_div(&x, &t, true, mean)),
        ("hinge", loss::HingeEmbedding::new().of(&x, &t), loss::hinge_embedding_loss(&x, &t, 1.0, mean)),
        ("cross entropy", loss::CrossEntropy::new().of(&x, &classes), loss::cross_entropy(&x, &classes)),
    ];
    for (what, got, want) in rows {
        assert!(got.same_bits(&want), "{what}: {got}, not {want}");
    }
}
