//! Maps in a row are one kernel, which shows only in the number of launches.

use crate::out_of_memory::Short;
use elinvar_driver::{Driver, Interp};
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

    // A result with another handle is stored on the way, and not computed again.
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
    let t = (x.exp().transpose(0, 1) + on(&a).reshape([11, 7])).to_vec::<f32>().unwrap();
    let want = (reference(&a).exp().transpose(0, 1) + reference(&a).reshape([11, 7])).to_vec().unwrap();
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

/// Where kernels should be short, light maps are one kernel all the same, and each other is one,
/// with a few light ones.
fn short_kernels<D: Driver>(d: &GpuDevice<D>) {
    let numbers: Vec<f32> = (0..300).map(|i| 0.3 + i as f32 / 250.0).collect();
    let x = Tensor::<Gpu<D>>::from_vec(numbers.clone(), &[300], d);
    let y = Tensor::<Reference>::from_vec(numbers, &[300], &ReferenceDevice);
    fn light<B: elinvar_ops::Backend>(x: &Tensor<B>) -> Tensor<B> {
        (0..5).fold(x.clone(), |y, _| (&y * x).abs())
    }
    fn heavy<B: elinvar_ops::Backend>(x: &Tensor<B>) -> Tensor<B> {
        ((x * x).exp() * x - x).tanh() + x
    }
    let launches = |got: fn(&Tensor<Gpu<D>>) -> Tensor<Gpu<D>>, want: Tensor<Reference>| {
        let before = d.launches().unwrap();
        let (got, want) = (got(&x).to_vec::<f32>().unwrap(), want.to_vec::<f32>().unwrap());
        assert!(got.iter().zip(&want).all(|(a, b)| a.to_bits() == b.to_bits()));
        d.launches().unwrap() - before
    };
    assert_eq!(launches(light, light(&y)), 1);
    assert_eq!(launches(heavy, heavy(&y)), 1 + u64::from(d.info().unwrap().short));
}

#[test]
fn light_maps_are_one_kernel_where_kernels_are_short() {
    short_kernels(&super::interp());
    short_kernels(&GpuDevice::new(Interp::open(0).unwrap().with_short_kernels(), 0));
    #[cfg(feature = "webgpu")]
    if let Some(d) = super::webgpu() {
        short_kernels(&d);
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

/// Few numbers that are read for many elements: the reader computes them, unless another handle
/// wants them, too.
#[test]
fn few_numbers_are_computed_by_who_reads_them() {
    let d = &GpuDevice::new(Short::card(), 0);
    let numbers = |n: usize, f: f32| (0..n).map(|i| f + (i * i % 17) as f32 / 9.0).collect::<Vec<f32>>();
    let on = |v: &[f32], dims: &[usize]| Tensor::<Gpu<Short>>::from_vec(v.to_vec(), dims, d);
    let reference =
        |v: &[f32], dims: &[usize]| Tensor::<Reference>::from_vec(v.to_vec(), dims, &ReferenceDevice);
    let same = |got: Vec<f32>, want: Vec<f32>| {
        assert!(got.len() == want.len() && got.iter().zip(&want).all(|(a, b)| a.to_bits() == b.to_bits()));
    };
    // Single numbers are made once, and kept.
    let launches = |work: &dyn Fn() -> Tensor<Gpu<Short>>| {
        work().to_vec::<f32>().unwrap();
        let before = d.launches().unwrap();
        (work().to_vec().unwrap(), d.launches().unwrap() - before)
    };
    let (a, b, e, q) = (numbers(3 * 5 * 8, 0.3), numbers(5, 0.7), numbers(3 * 8, -0.2), numbers(40, 0.1));
    let (x, c, r) = (on(&a, &[3, 5, 8]), on(&b, &[5]), on(&e, &[3, 1, 8]));
    let (u, v, w) = (reference(&a, &[3, 5, 8]), reference(&b, &[5]), reference(&e, &[3, 1, 8]));

    // A chain of them, along an axis in the midst, and beside it another one along the others.
    let (got, n) = launches(&|| &x * ((&c + 0.5).rsqrt().reshape([5, 1])) + (&r * 2.0).tanh());
    same(got, (&u * ((&v + 0.5).rsqrt().reshape([5, 1])) + (&w * 2.0).tanh()).to_vec().unwrap());
    assert_eq!(n, 1, "all in one kernel");

    // Turned around, and a part of it, which is no result as it is.
    let part = |q: &Tensor<Gpu<Short>>| q.narrow(2, 1, 3) + 1.0;
    let (got, n) = launches(&|| x.transpose(0, 2) * (&c * 3.0).reshape([5, 1]) * part(&on(&q, &[8, 1, 5])));
    let part = reference(&q, &[8, 1, 5]).narrow(2, 1, 3) + 1.0;
    same(got, (u.transpose(0, 2) * (&v * 3.0).reshape([5, 1]) * part).to_vec().unwrap());
    assert_eq!(n, 1, "all in one kernel");

    // What has another handle, or two readers, is computed once, by itself, and is right for both.
    let few = (&c + 0.5).exp().reshape([5, 1]);
    let held = (&v + 0.5).exp().reshape([5, 1]);
    let before = d.launches().unwrap();
    let y = &x - &few;
    same(y.to_vec().unwrap(), (&u - &held).to_vec().unwrap());
    same(few.to_vec().unwrap(), held.to_vec().unwrap());
    assert_eq!(d.launches().unwrap() - before, 2);
    let twice = |few: Tensor<Gpu<Short>>| &x * &few + few;
    let (got, n) = launches(&|| twice((&c + 0.5).exp().reshape([5, 1])));
    same(got, (&u * &held + &held).to_vec().unwrap());
    assert_eq!(n, 2);

    // The same numbers in another shape, as a channel's statistics have.
    let (got, n) = launches(&|| (&on(&b, &[1, 5, 1]) * 3.0).reshape([5]) - c.sqrt());
    same(got, (&v * 3.0 - v.sqrt()).to_vec().unwrap());
    assert_eq!(n, 1, "all in one kernel");

    // Of f16, values between maps are rounded as ever.
    let half = |x: &Tensor<Gpu<Short>>| x.to_dtype(elinvar_core::DType::F16);
    let (hx, hc) = (half(&x), half(&c));
    let got = (&hx * (&hc * 1.3).exp().reshape([5, 1])).to_dtype(elinvar_core::DType::F32).to_vec().unwrap();
    let half = |x: &Tensor<Reference>| x.to_dtype(elinvar_core::DType::F16);
    let want = &half(&u) * (&half(&v) * 1.3).exp().reshape([5, 1]);
    same(got, want.to_dtype(elinvar_core::DType::F32).to_vec().unwrap());
}
