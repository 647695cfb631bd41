//! Clipping, and gradient accumulation.

use super::{B, D, Net};
use elinvar_core::{DType, ErrorKind};
use elinvar_nn::optim::{
    ClipOptions, NormType, clip_grad_norm, clip_grad_norm_with, clip_grad_value, get_total_norm,
};
use elinvar_nn::{Gradients, Param, Tensor};

/// 3 and 4 in the first gradient, 12 in the second; the third parameter has none.
fn three(dtype: DType) -> (Vec<Param<B>>, Gradients<B>) {
    let p: Vec<Param<B>> = [2, 1, 2].iter().map(|n| Param::new(Tensor::ones([*n], dtype, &D))).collect();
    let mut g = Gradients::new();
    // The second one first: the order of gradients does not matter.
    g.set(&p[1].get(), Tensor::from([-12.0f64]).to_dtype(dtype));
    g.set(&p[0].get(), Tensor::from([3.0f64, -4.0]).to_dtype(dtype));
    (p, g)
}

fn values(p: &[Param<B>], g: &Gradients<B>) -> Vec<f64> {
    let of = |p: &Param<B>| g.get(&p.get()).map(|g| g.to_dtype(DType::F64).to_vec::<f64>().unwrap());
    p.iter().filter_map(of).flatten().collect()
}

#[test]
fn norms_are_those_of_one_long_vector() {
    let rows = [
        (NormType::L1, 19.0),
        (NormType::L2, 13.0),
        (NormType::Inf, 12.0),
        (NormType::P(2.0), 13.0),
        // 27 + 64 + 1728
        (NormType::P(3.0), 1819f64.cbrt()),
    ];
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        for (norm_type, want) in rows {
            let (p, mut g) = three(dtype);
            let norm = get_total_norm(&p, &g, norm_type).unwrap();
            let error = (norm.item::<f64>() - want).abs() / want;
            assert!(
                error <= if dtype == DType::F64 { 1e-15 } else { 2e-7 },
                "{norm_type:?} {dtype}: {norm:?}"
            );
            assert_eq!(norm.dtype(), if dtype == DType::F64 { dtype } else { DType::F32 });
            // Below the bound: nothing changes.
            let options = ClipOptions { norm_type, error_if_nonfinite: true };
            clip_grad_norm_with(&p, &mut g, 100.0, options).unwrap();
            assert_eq!(values(&p, &g), [3.0, -4.0, -12.0]);
            clip_grad_norm_with(&p, &mut g, want / 2.0, options).unwrap();
            for (got, was) in values(&p, &g).into_iter().zip([3.0, -4.0, -12.0]) {
                assert!((got - was / 2.0).abs() <= 1e-6 * want, "{norm_type:?} {dtype}: {got}");
            }
            assert_eq!(g.get(&p[0].get()).unwrap().dtype(), dtype);
        }
    }
}

#[test]
fn clipping_errors_leave_gradients_unchanged() {
    let (p, mut g) = three(DType::F32);
    g.set(&p[1].get(), [f32::INFINITY].into());
    let strict = ClipOptions { error_if_nonfinite: true, ..ClipOptions::default() };
    let rows = [
        (
            clip_grad_norm_with(&p, &mut g, 1.0, strict).err(),
            "clip_grad_norm: the norm of the gradients is inf",
        ),
        (clip_grad_norm(&p, &mut g, -1.0).err(), "clip_grad_norm: max_norm is -1, and should be 0 or more"),
        (clip_grad_norm(&p, &mut g, f64::NAN).err(), "clip_grad_norm: max_norm is NaN"),
        (
            clip_grad_value(&p, &mut g, -1.0).err(),
            "clip_grad_value: clip_value is -1, and should be 0 or more",
        ),
        (get_total_norm(&p, &g, NormType::P(0.0)).err(), "norm of gradients: p is 0, and should be above 0"),
    ];
    for (e, sentence) in rows {
        let e = e.expect(sentence);
        assert!(e.kind() == ErrorKind::InvalidArgument && e.message().starts_with(sentence), "{e}");
    }
    assert_eq!(values(&p, &g), [3.0, -4.0, f64::INFINITY]);
    let e = clip_grad_norm(&p, &mut Gradients::new(), 1.0).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Autograd, "{e}");
    // As in PyTorch, an infinite norm makes zeros and NaN unless it is an error.
    clip_grad_norm(&p, &mut g, 1.0).unwrap();
    let after = values(&p, &g);
    assert!(after[..2] == [0.0, 0.0] && after[2].is_nan(), "{after:?}");
}

#[test]
fn clip_grad_value_clamps() {
    let (p, mut g) = three(DType::F16);
    clip_grad_value(&p, &mut g, 3.5).unwrap();
    assert_eq!(values(&p, &g), [3.0, -3.5, -3.5]);
}

#[test]
fn the_mean_of_several_passes_is_the_gradient_of_all() {
    let net = Net::new();
    let loss = |v: f64| (net.weight.get() * net.weight.get()).sum() * v + net.bias.get().sum() * (v * v);
    let mut sum = Gradients::new();
    for v in [1.0, 2.0, 5.0] {
        sum.accumulate(loss(v).backward()).unwrap();
    }
    sum.scale(0.25).unwrap();
    let whole = ((loss(1.0) + loss(2.0) + loss(5.0)) * 0.25).backward();
    for p in [&net.weight, &net.bias] {
        let of = |g: &Gradients<B>| g.get(&p.get()).unwrap().to_vec::<f64>().unwrap();
        assert_eq!(of(&sum), of(&whole));
    }
    assert_eq!(sum.get(&net.bias.get()).unwrap().to_vec::<f64>().unwrap(), [7.5, 7.5]);
}
