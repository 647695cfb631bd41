//! The gradient of a maximum over windows is one launch that sorts nothing, if the places are known
//! to be a pool's; and what says "places" otherwise has the same bits.

use elinvar_driver::Driver;
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_ops::catalogue::max_pool2d::with_indices;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::Tensor;

/// Of windows of three taps, two apart.
fn gradient<B: elinvar_ops::Backend>(x: &Tensor<B>, g: &Tensor<B>) -> Tensor<B> {
    let x = x.requires_grad();
    let y = x.max_pool2d([3], [2], [1], [1], false);
    (y * g).sum().backward().get(&x).expect("it has one").clone()
}

fn gathers<D: Driver>(d: &GpuDevice<D>) {
    // Many are equally large.
    let x: Vec<f32> = (0..2 * 3 * 72).map(|i| ((i * 37) % 11) as f32 - 4.0).collect();
    let g: Vec<f32> = (0..2 * 3 * 20).map(|i| (i as f32 * 0.7).sin()).collect();
    let (shape, pooled) = ([2, 3, 8, 9], [2, 3, 4, 5]);
    let on = |v: &[f32], s: [usize; 4]| Tensor::<Gpu<D>>::from_vec(v.to_vec(), s, d);
    let reference = |v: &[f32], s: [usize; 4]| Tensor::<Reference>::from_vec(v.to_vec(), s, &ReferenceDevice);
    let want = gradient(&reference(&x, shape), &reference(&g, pooled)).to_vec::<f32>().unwrap();
    let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<u32>>();
    let (x, g) = (on(&x, shape), on(&g, pooled));
    let got = gradient(&x, &g).to_vec::<f32>().unwrap();
    assert_eq!(bits(&got), bits(&want));

    // The places themselves, and the same ones by way of the host, of which it is not known where
    // they come from.
    let (_, places) = with_indices(&x, &[3], &[2], &[1], &[1], false).unwrap();
    let zeros = Tensor::<Gpu<D>>::zeros([2, 3, 72], elinvar_core::DType::F32, d);
    let (flat, source) = (places.reshape([2, 3, 20]), g.reshape([2, 3, 20]));
    let add = |index: &Tensor<Gpu<D>>| {
        let before = d.launches().unwrap();
        let y = zeros.scatter_add(-1, index, &source);
        y.block_until_ready().unwrap();
        (d.launches().unwrap() - before, y.to_vec::<f32>().unwrap())
    };
    drop(add(&flat));
    let (one, known) = add(&flat);
    let (several, unknown) = add(&Tensor::from_vec(flat.to_vec::<i64>().unwrap(), [2, 3, 20], d));
    assert_eq!((one, several > 1), (1, true));
    assert_eq!((bits(&known), bits(&unknown)), (bits(&want), bits(&want)));
    // Copied, they are places like any others.
    let (_, copied) = add(&flat.flip([2]).contiguous().flip([2]).contiguous());
    assert_eq!(bits(&copied), bits(&want));
}

#[test]
fn gradients_of_maxima_sort_nothing() {
    gathers(&super::interp());
    gathers(&super::cuda());
    if let Some(d) = super::vulkan() {
        gathers(&d);
    }
}
