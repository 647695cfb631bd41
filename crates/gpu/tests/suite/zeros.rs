//! Zeros of 16-bit attention have the sign that the reference gives them, results and gradients
//! alike.
//!
//! Products of numbers that are mostly zeros of either sign, of masked keys, and of numbers that
//! vanish when they are rounded: in a sum of such the sign depends on what it begins with and on
//! how it is padded.

use super::{cuda, interp};
use elinvar_conformance::compare::bits;
use elinvar_conformance::equal::dice::Dice;
use elinvar_core::{DType, HostTensor};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_driver::{Cuda, Interp, Vulkan};
use elinvar_gpu::Gpu;
use elinvar_ops::Backend;
use elinvar_ops::catalogue::scaled_dot_product_attention;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Backward, Tensor, autocast};

/// The smallest number of f16, and two that vanish in it.
const TINY: f32 = 5.960_464_5e-8;
const VALUES: [f32; 10] = [0.0, -0.0, 0.0, -0.0, 1.0, -1.0, TINY, -TINY, TINY / 4.0, -TINY / 4.0];

/// A call: sizes, numbers of q, k, v and the gradient, a mask.
struct Call {
    sizes: [usize; 4],
    numbers: [Vec<f32>; 4],
    mask: Option<Vec<u8>>,
    is_causal: bool,
    is_scope: bool,
}

fn draw(seed: u64) -> Call {
    let mut dice = Dice::new(seed, 1);
    let (l, s, d) = (dice.below(6) + 1, [1, 3, 17, 65][dice.below(4)], [1, 4, 9][dice.below(3)]);
    let heads = 2;
    let mut numbers = |n: usize| (0..n).map(|_| VALUES[dice.below(VALUES.len())]).collect::<Vec<f32>>();
    let numbers =
        [numbers(heads * l * d), numbers(heads * s * d), numbers(heads * s * d), numbers(heads * l * d)];
    let mask = dice.once_in(2).then(|| (0..l * s).map(|_| u8::from(!dice.once_in(3))).collect());
    Call { sizes: [heads, l, s, d], numbers, mask, is_causal: dice.once_in(3), is_scope: dice.once_in(2) }
}

impl Call {
    /// The result, and the gradients by q, k and v.
    fn run<B: Backend>(&self, device: &B::Device) -> Vec<HostTensor> {
        let [h, l, s, d] = self.sizes;
        let dims = [[1, h, l, d], [1, h, s, d], [1, h, s, d], [1, h, l, d]];
        let mut all = self.numbers.iter().zip(dims).map(|(numbers, dims)| {
            let x = Tensor::<B>::from_vec(numbers.clone(), dims, device);
            if self.is_scope { x } else { x.to_dtype(DType::F16) }
        });
        let [q, k, v] = [(); 3].map(|()| all.next().unwrap().requires_grad());
        let g = all.next().unwrap().to_dtype(DType::F16);
        let mask = self
            .mask
            .as_ref()
            .map(|m| Tensor::<B>::from_vec(m.clone(), [l, s], device).to_dtype(DType::Bool));
        let attend = || scaled_dot_product_attention(&q, &k, &v, mask.as_ref(), self.is_causal, None, false);
        let y = if self.is_scope { autocast(DType::F16, attend) } else { attend() }.unwrap();
        assert_eq!(y.dtype(), DType::F16);
        let gradients = y.backward_with(&g, Backward::default());
        let of = |x: &Tensor<B>| gradients.get(x).unwrap().to_host().unwrap();
        vec![y.to_host().unwrap(), of(&q), of(&k), of(&v)]
    }
}

fn same<B: Backend>(device: &B::Device, calls: u64) {
    let mut negative = 0;
    for seed in 0..calls {
        let call = draw(seed);
        let (got, want) = (call.run::<B>(device), call.run::<Reference>(&ReferenceDevice));
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            bits(got, want).unwrap_or_else(|e| panic!("{device}: call {seed}, result {i}: {e}"));
            let zeros = want.to_f64_vec().into_iter().filter(|x| *x == 0.0 && x.is_sign_negative());
            negative += zeros.count();
        }
    }
    // Or there was nothing to see.
    assert!(negative > 5, "{negative}");
}

#[test]
fn zeros_of_attention_have_the_references_sign() {
    same::<Cpu>(&CpuDevice::default(), 200);
    same::<Gpu<Interp>>(&interp(), 12);
    same::<Gpu<Cuda>>(&cuda(), 12);
    if let Some(d) = super::vulkan() {
        same::<Gpu<Vulkan>>(&d, 12);
    }
}
