//! The forms in which shapes, axes and numbers may be typed, and that every op has a method.

use elinvar_core::{DType, ErrorKind};
use elinvar_ops::catalogue::NAMES;
use elinvar_ops::catalogue::pad::Mode;
use elinvar_ops::catalogue::reduction::Reduction;
use elinvar_reference::{Reference, ReferenceDevice as D};
use elinvar_tensor::{Backward, Generator, Tensor};

type T = Tensor<Reference>;

fn count(shape: &[usize]) -> T {
    T::arange(0, shape.iter().product::<usize>(), 1, &D).reshape(shape).to_dtype(DType::F32)
}

/// Each row must compile as it is, without a suffix; the shape is what shows that it was
/// understood.
#[test]
fn shapes_and_axes_in_any_form() {
    let x = count(&[2, 3, 4]);
    let (n, m, dims) = (x.numel(), x.rank() - 1, vec![4usize, 6]);
    let rows: Vec<(T, &[usize])> = vec![
        (x.reshape([4, 6]), &[4, 6]),
        (x.reshape([4, 6]), &[4, 6]),
        (x.reshape((4, n / 4)), &[4, 6]),
        (x.reshape([n / 6, 6]), &[4, 6]),
        (x.reshape([-1, 6]), &[4, 6]),
        (x.reshape(-1), &[24]),
        (x.reshape(n), &[24]),
        (x.reshape(&dims), &[4, 6]),
        (x.reshape(count(&[4, 6]).shape()), &[4, 6]),
        (x.select(0, 0).select(0usize, 0).select(-1i64, 0).reshape(()), &[]),
        (x.sum_dim(0usize, false), &[3, 4]),
        (x.sum_dim(-1, false), &[2, 3]),
        (x.sum_dim([0, m], false), &[3]),
        (x.sum_dim((0, -1), true), &[1, 3, 1]),
        (x.sum_as([0, m], false, DType::F64), &[3]),
        (x.softmax_as(-1, DType::F64), &[2, 3, 4]),
        (x.permute([2, 0, 1]), &[4, 2, 3]),
        (x.permute((m, 0, 1)), &[4, 2, 3]),
        (x.transpose(0, m), &[4, 3, 2]),
        (x.argmax(-1, false), &[2, 3]),
        (x.argmax(None, false), &[]),
        (x.argmax(Some(0), false), &[3, 4]),
        (x.roll(1, None), &[2, 3, 4]),
        (x.roll([1, 2], [0, 1]), &[2, 3, 4]),
        (x.roll(1, m), &[2, 3, 4]),
        (x.narrow(1, m - 1, 2), &[2, 2, 4]),
        (x.unsqueeze(0).expand([5, -1, -1, -1]), &[5, 2, 3, 4]),
        (x.sum_dim(0, true).expand((n, -1, 4)), &[24, 3, 4]),
        (x.repeat([2, 1, 1]), &[4, 3, 4]),
        (x.pad([1, -1], Mode::Constant(0.into())), &[2, 3, 4]),
        (x.layer_norm(4, None, None, 1e-5), &[2, 3, 4]),
        (x.avg_pool2d(2, 2, 0, false, true), &[2, 1, 2]),
        (x.max_pool2d((2, 2), [1, 1], 0, 1, false), &[2, 2, 3]),
        (x.conv2d(&count(&[5, 2, 1, 1]), None, 1, 0, 1, 1), &[5, 3, 4]),
        (T::zeros([2, n], DType::F32, &D), &[2, 24]),
        (T::zeros((), DType::F32, &D), &[]),
        (T::from_vec(vec![1.0f32; 6], (2, 3), &D), &[2, 3]),
        (Generator::new(0).randn([2, 3], &D), &[2, 3]),
    ];
    for (i, (got, want)) in rows.iter().enumerate() {
        assert_eq!(got.dims(), *want, "row {i}");
    }
    assert_eq!((x.size(m), x.size(-1), x.size(0)), (4, 4, 2));
}

#[test]
fn numbers_in_any_form() {
    let x = T::new([-1.0f32, 0.0, 2.0], &D);
    let (n, mask) = (x.numel(), x.gt(0));
    let v = |x: &T| x.to_host().unwrap().to_f64_vec();
    let rows: Vec<(T, [f64; 3])> = vec![
        (&x * n, [-3.0, 0.0, 6.0]),
        (n * &x, [-3.0, 0.0, 6.0]),
        (&x + 1, [0.0, 1.0, 3.0]),
        (1.5 - &x, [2.5, 1.5, -0.5]),
        (x.add(&x), [-2.0, 0.0, 4.0]),
        (x.div(2), [-0.5, 0.0, 1.0]),
        (x.clamp(0.0, None), [0.0, 0.0, 2.0]),
        (x.clamp(None, 1), [-1.0, 0.0, 1.0]),
        (x.clamp(-0.5, n), [-0.5, 0.0, 2.0]),
        (mask.where_(&x, 7), [7.0, 7.0, 2.0]),
        (mask.where_(0.5, &x), [-1.0, 0.0, 0.5]),
        (mask.where_(1, 0), [0.0, 0.0, 1.0]),
        (x.lerp(&(&x + 2.0), 0.5), [0.0, 1.0, 3.0]),
        (x.masked_fill(&mask, 0), [-1.0, 0.0, 0.0]),
    ];
    for (i, (got, want)) in rows.iter().enumerate() {
        assert_eq!(v(got), want, "row {i}");
    }
    // A number has the dtype of the tensor beside it; two have one of their own.
    let dtypes = [mask.where_(&x, 7), mask.where_(1.0, 0), mask.where_(1, 0), mask.where_(true, false)];
    assert_eq!(dtypes.map(|x| x.dtype()), [DType::F32, DType::F32, DType::I64, DType::Bool]);
}

#[test]
fn one_element_as_any_type() {
    let big = T::new([(1i64 << 60) + 1], &D);
    assert_eq!(big.item::<i64>(), (1 << 60) + 1);
    assert_eq!(T::new(2.5f32, &D).item::<f64>(), 2.5);
    let whole: i64 = T::new(-2.5f64, &D).item();
    assert_eq!(whole, -2);
    assert!(T::new([3u8], &D).item::<bool>());
    assert_eq!(count(&[2]).try_item::<f32>().unwrap_err().kind(), ErrorKind::ShapeMismatch);
}

#[test]
fn bits_are_compared_and_not_values() {
    let x = T::new([0.0f32, f32::NAN], &D);
    assert!(x.same_bits(&x.clone()) && x.eq(&x).to_vec::<bool>().unwrap() == [true, false]);
    assert!(!x.same_bits(&T::new([-0.0f32, f32::NAN], &D)));
    assert!(!x.same_bits(&x.reshape([2, 1])) && !x.same_bits(&x.to_dtype(DType::F64)));
}

#[test]
fn a_twin_returns_what_its_method_panics_with() {
    let (x, w) = (count(&[2, 3]), count(&[2, 3]));
    let rows = [
        (x.try_matmul(&w), ErrorKind::ShapeMismatch),
        (x.try_reshape([5, -1]), ErrorKind::ShapeMismatch),
        (x.try_sum_dim(2, false), ErrorKind::InvalidArgument),
        (x.try_expand([-1, 2, 3]), ErrorKind::InvalidArgument),
        (x.try_repeat([-1, 1]), ErrorKind::InvalidArgument),
        (x.try_add(count(&[4])), ErrorKind::ShapeMismatch),
        (T::try_concat(&[], 0), ErrorKind::InvalidArgument),
        (x.try_huber_loss(&count(&[4]), 1.0, Reduction::Mean), ErrorKind::ShapeMismatch),
        (x.try_conv1d(&w, None, -1, 0, 1, 1), ErrorKind::InvalidArgument),
    ];
    for (i, (got, kind)) in rows.into_iter().enumerate() {
        let e = got.expect_err("it does not fit");
        assert_eq!(e.kind(), kind, "row {i}: {e}");
    }
    assert_eq!(x.try_sum().unwrap().item::<f32>(), 15.0);
    assert_eq!(x.try_backward().unwrap_err().kind(), ErrorKind::Autograd);
}

#[test]
fn a_graph_is_kept_without_a_seed() {
    let x = T::new(3.0f64, &D).requires_grad();
    let y = &x * &x;
    for options in [Backward::retain_graph(), Backward::create_graph(), Backward::default()] {
        assert_eq!(y.backward_with(None, options).get(&x).unwrap().item::<f64>(), 6.0);
    }
    assert!(y.try_backward_with(None, Backward::default()).is_err(), "it is freed by now");
}

/// Every op is a method, and every method of a table has its twin.
#[test]
fn every_op_is_a_method() {
    let sources = [
        include_str!("../src/methods/unary.rs"),
        include_str!("../src/methods/binary.rs"),
        include_str!("../src/methods/reduce.rs"),
        include_str!("../src/methods/movement.rs"),
        include_str!("../src/methods/select.rs"),
        include_str!("../src/methods/product.rs"),
        include_str!("../src/methods/linalg.rs"),
        include_str!("../src/methods/fourier.rs"),
        include_str!("../src/methods/layers.rs"),
        include_str!("../src/methods/losses.rs"),
    ]
    .concat();
    for name in NAMES {
        // Other names: the first two are words of the language or of std; a cast is `to_dtype`, and
        // slices are `i`, `slice_assign` and `index_put`, of another file.
        let method = match *name {
            "where" => "where_",
            "cast" => "to_dtype",
            "slice" | "slice_assign" | "index" | "index_put" => continue,
            name => name,
        };
        let row = [
            format!("fn {method}, try_{method}("),
            format!("\" {method} try_{method}"),
            format!(" {method} try_{method} "),
        ];
        assert!(row.iter().any(|row| sources.contains(row.as_str())), "{name} has no method {method}");
    }
}
