//! Maps in a row are one kernel, and nobody can tell but by counting.

use elinvar_driver::Driver;
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::Tensor;

/// Ten maps.
fn ten<B: elinvar_ops::Backend>(x: &Tensor<B>, y: &Tensor<B>) -> Tensor<B> {
    ((((x * y).exp() + x).tanh() * y - x).sigmoid() + y * x).sqrt()
}

fn chains<D: Driver>(d: &GpuDevice<D>) {
    let numbers = |f: f32| (0..77).map(|i| f + i as f32 / 50.0).collect::<Vec<f32>>();
    let on = |v: &[f32]| Tensor::<Gpu<D>>::from_vec(v.to_vec(), &[7, 11], d);
    let reference = |v: &[f32]| Tensor::<Reference>::from_vec(v.to_vec(), &[7, 11], &ReferenceDevice);
    let (a, b) = (numbers(0.1), numbers(-0.7));
    let (x, y) = (on(&a), on(&b));
    let want = ten(&reference(&a), &reference(&b)).to_vec::<f32>().unwrap();

    let before = d.launches().unwrap();
    let z = ten(&x, &y);
    assert_eq!(d.launches().unwrap(), before, "nothing has asked for a number yet");
    let same = |got: &[f32], want: &[f32]| got.iter().zip(want).all(|(a, b)| a.to_bits() == b.to_bits());
    assert!(same(&z.to_vec().unwrap(), &want));
    assert_eq!(d.launches().unwrap(), before + 1, "ten maps are one kernel");

    // What somebody holds is stored on the way, and not computed again.
    let before = d.launches().unwrap();
    let p = &x * &y;
    let q = p.exp();
    let r = &q + &p;
    r.to_vec::<f32>().unwrap();
    let (p, q) = (p.to_vec::<f32>().unwrap(), q.to_vec::<f32>().unwrap());
    assert_eq!(d.launches().unwrap(), before + 1);
    let (u, v) = (reference(&a), reference(&b));
    assert!(same(&p, &(&u * &v).to_vec().unwrap()));
    assert!(same(&q, &(&u * &v).exp().to_vec().unwrap()));

    // A transposed operand is another order: the map before it is computed first.
    let t = (x.exp().transpose(0, 1) + on(&a).reshape(&[11, 7])).to_vec::<f32>().unwrap();
    let want = (reference(&a).exp().transpose(0, 1) + reference(&a).reshape(&[11, 7])).to_vec().unwrap();
    assert!(same(&t, &want));

    // Two hundred maps are several kernels, and as right.
    let long = |x: &dyn Fn(usize) -> f32| (0..200).map(x).collect::<Vec<f32>>();
    let steps = long(&|i| (i as f32).sin());
    let mut z = on(&a);
    let mut w = reference(&a);
    for s in steps {
        z = z * f64::from(s) + 0.25;
        w = w * f64::from(s) + 0.25;
    }
    assert!(same(&z.to_vec().unwrap(), &w.to_vec().unwrap()));
}

#[test]
fn maps_in_a_row_are_one_kernel() {
    chains(&super::interp());
    chains(&super::cuda());
    if let Some(d) = super::vulkan() {
        chains(&d);
    }
}

/// Threads that share tensors whose numbers were put off.
#[test]
fn several_threads_share_a_device() {
    share(&super::cuda());
    if let Some(d) = super::vulkan() {
        share(&d);
    }
}

fn share<D: Driver>(d: &GpuDevice<D>) {
    let a: Vec<f32> = (0..5000).map(|i| i as f32 / 999.0).collect();
    let x = Tensor::<Gpu<D>>::from_vec(a.clone(), &[5000], d);
    let y = x.exp() * 0.5;
    let want =
        (Tensor::<Reference>::from_vec(a, &[5000], &ReferenceDevice).exp() * 0.5).to_vec::<f32>().unwrap();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for i in 0..20 {
                    let z = (&y + f64::from(i)) - f64::from(i);
                    assert_eq!(z.dims(), [5000]);
                    z.sum().to_vec::<f32>().unwrap();
                }
                assert_eq!(y.to_vec::<f32>().unwrap(), want);
            });
        }
    });
}
