//! Indices that the device computed: one out of range is the same error as on the reference.

use elinvar_core::{ErrorKind, Scalar};
use elinvar_gpu::Gpu;
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue::pad::Mode;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::Tensor;

/// Ways to make an index that ends with 5 by other work than an upload. The first ones begin with
/// memory that is filled with one number.
fn indices<B: Backend>(d: &B::Device) -> Vec<(&'static str, Tensor<B>)> {
    let of = |v: &[i64]| Tensor::<B>::from_vec(v.to_vec(), &[v.len()], d);
    let zeros = Tensor::<B>::from_vec(vec![0i64], &[1], d).expand([4]).zeros_like();
    vec![
        ("concat", Tensor::concat(&[&of(&[0, 1]), &of(&[2, 5])], 0)),
        ("stack", Tensor::stack(&[&of(&[0, 1]), &of(&[2, 5])], 0).reshape([4])),
        ("pad", of(&[0, 1, 2]).pad([0, 1], Mode::Constant(Scalar::Int(5)))),
        ("slice_assign", zeros.slice_assign(2..4, &of(&[2, 5]))),
        ("scatter", zeros.scatter(0, &of(&[3, 2, 1]), &of(&[5, 2, 1]))),
        ("scatter_add", zeros.scatter_add(0, &of(&[3, 2, 1, 3]), &of(&[4, 2, 1, 1]))),
        ("cumsum", of(&[0, 1, 1, 3]).cumsum(0)),
        ("sum", Tensor::stack(&[&of(&[0, 1, 1, 2]), &of(&[0, 0, 1, 3])], 0).sum_dim(0, false)),
        ("sort", of(&[5, 0, 2, 1]).sort(0, false).0),
        ("map", &(&of(&[0, 1, 2, 4]) * 2) - &of(&[0, 1, 2, 3])),
    ]
}

#[test]
fn an_index_out_of_range_is_seen_whatever_made_it() {
    fn errors<B: Backend>(d: &B::Device) -> Vec<(&'static str, String)> {
        let x = Tensor::<B>::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[4], d);
        let error = |index: &Tensor<B>| {
            let e = x.try_gather(0, index).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
            e.message().to_string()
        };
        indices::<B>(d).iter().map(|(name, index)| (*name, error(index))).collect()
    }
    let want = errors::<Reference>(&ReferenceDevice);
    assert_eq!(errors::<Gpu<_>>(&super::interp()), want);
    assert_eq!(errors::<Gpu<_>>(&super::cuda()), want);
}
