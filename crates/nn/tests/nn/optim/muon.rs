//! Muon: its steps, and the effect of its iteration on a matrix.

use super::B;
use elinvar_core::DType;
use elinvar_nn::optim::{Muon, Optimizer, Sgd};
use elinvar_nn::{Gradients, Param, Tensor};

/// Element i is ((7 i + 3 t) mod 11 - 5) / 8.
fn gradient(shape: &[usize], t: usize) -> Tensor<B> {
    let v: Vec<f64> =
        (0..shape.iter().product()).map(|i| ((7 * i + 3 * t) % 11) as f64 / 8.0 - 0.625).collect();
    tensor(v, shape)
}

fn tensor(v: Vec<f64>, shape: &[usize]) -> Tensor<B> {
    Tensor::from_vec(v, shape, &super::D)
}

fn ten_steps(mut o: Muon<B>, shape: &[usize]) -> Vec<f64> {
    let n: usize = shape.iter().product();
    let p = Param::new(tensor((0..n).map(|i| ((5 * i) % 7) as f64 / 4.0 - 0.75).collect(), shape));
    for t in 0..10 {
        let mut g = Gradients::new();
        g.set(&p.get(), gradient(shape, t));
        o.step(&p, &g).unwrap();
    }
    p.get().to_vec().unwrap()
}

/// `torch.optim.Muon` of PyTorch 2.15, its iteration in float64 instead of bfloat16:
/// ```python
/// src = inspect.getsource(torch.optim._muon).replace("torch.bfloat16", "torch.float64")
/// w = torch.tensor([((5*i) % 7 - 3) / 4 for i in range(n)], dtype=torch.float64).view(shape).requires_grad_()
/// o = Muon([w], lr=0.1, nesterov=nesterov, adjust_lr_fn=fn)
/// for t in range(10):
///     w.grad = torch.tensor([((7*i + 3*t) % 11 - 5) / 8 for i in range(n)], dtype=torch.float64).view(shape)
///     o.step()
/// ```
#[test]
fn ten_steps_end_where_pytorchs_do() {
    let wide = [
        -0.46457512464918405,
        0.2948419299660889,
        -0.3020274782691029,
        -0.5139013642100895,
        0.5873142579338004,
        0.5795089458654392,
    ];
    let rows: Vec<(Muon<B>, &[usize], Vec<f64>)> = vec![
        (Muon::new(0.1), &[2, 3], wide.to_vec()),
        // A convolution's weight is the matrix [out, rest].
        (Muon::new(0.1), &[2, 1, 3], wide.to_vec()),
        (
            Muon::new(0.1).nesterov(false),
            &[4, 2],
            vec![
                -0.2224547121751354,
                0.29181003858600263,
                -0.2503058575986095,
                -0.630633672923083,
                0.5826353262109988,
                0.7442162157454048,
                -0.5621577256008516,
                -0.6713498133609829,
            ],
        ),
        (
            Muon::new(0.1).match_rms_adamw(),
            &[2, 3],
            vec![
                -0.6042547447161373,
                0.3976837077480067,
                -0.10462538752879824,
                -0.47356812174558705,
                0.6467728277013216,
                0.3485215211196349,
            ],
        ),
    ];
    for (o, shape, want) in rows {
        let got = ten_steps(o, shape);
        // Ten iterations of five steps each amplify rounding errors more than other optimisers.
        let near = got.iter().zip(&want).all(|(g, w)| (g - w).abs() <= 1e-12);
        assert!(near && got.len() == want.len(), "{shape:?}: {got:?}, not {want:?}");
    }
}

#[test]
fn a_step_is_nearly_orthogonal_whatever_the_size_of_the_gradient() {
    for scale in [1e-3, 1.0, 1e6] {
        let shape = [3, 5];
        let p = Param::new(tensor(vec![0.0; 15], &shape));
        let mut g = Gradients::new();
        g.set(&p.get(), gradient(&shape, 1) * scale);
        Muon::new(1.0).step(&p, &g).unwrap();
        let x = p.get().detach();
        let gram = x.matmul(&x.transpose(0, 1)).to_vec::<f64>().unwrap();
        for (i, v) in gram.iter().enumerate() {
            // Squares of singular values between 0.7 and 1.2, as guaranteed by the paper's
            // polynomial.
            let fine = if i % 4 == 0 { (0.4..1.5).contains(v) } else { v.abs() < 0.5 };
            assert!(fine, "{scale}: {gram:?}");
        }
    }
}

#[test]
fn non_matrices_are_rejected_by_name() {
    let net = super::Net::new();
    let (mut g, before) = (Gradients::new(), net.values());
    g.set(&net.weight.get(), gradient(&[2, 2], 0));
    g.set(&net.bias.get(), gradient(&[2], 0));
    let e = Muon::new(0.1).step(&net, &g).unwrap_err();
    assert_eq!(
        e.message(),
        "muon: bias: a parameter of shape [2] is no matrix; give it to another optimiser with Split"
    );
    assert_eq!(net.values(), before);
    // 16-bit floats are computed in f32, and a zero gradient applies only weight decay.
    let p = Param::new(Tensor::<B>::ones([2, 2], DType::BF16, &super::D));
    let mut g = Gradients::new();
    g.set(&p.get(), Tensor::zeros([2, 2], DType::BF16, &super::D));
    Muon::new(1.0).weight_decay(0.5).step(&p, &g).unwrap();
    assert_eq!(p.get().to_dtype(DType::F32).to_vec::<f32>().unwrap(), [0.5; 4]);
    let mut sgd = Sgd::new(1.0);
    sgd.step(&p, &Gradients::new()).unwrap_err();
}
