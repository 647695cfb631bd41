//! Sizes beyond any machine's memory: each is an error that a program can catch, without allocating
//! first.

use elinvar_core::{DType, ErrorKind, HostTensor, Shape};
use elinvar_ops::catalogue::fourier::Norm;
use elinvar_ops::catalogue::interpolate::{Interpolation, Target};
use elinvar_ops::catalogue::pad::Mode;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Generator, Tensor, try_run};

type T = Tensor<Reference>;

const D: ReferenceDevice = ReferenceDevice;
/// Not addressable: 2^62 elements.
const BEYOND: usize = 1 << 62;
/// Addressable, but larger than any machine's memory: 2^46 elements.
const VAST: usize = 1 << 46;

/// To a size of which the taps alone, on the host, are beyond memory.
fn enlarged(x: &T) -> T {
    let mode = Interpolation::AntialiasedLinear { align_corners: false };
    x.interpolate(&Target::Size(vec![1, VAST]), mode)
}

#[test]
fn sizes_beyond_memory_are_errors() {
    let zeros = |dims: &[usize]| T::zeros(dims, DType::F32, &D);
    let rows: Vec<(&str, Box<dyn Fn() -> T>)> = vec![
        ("zeros beyond addresses", Box::new(move || zeros(&[BEYOND]))),
        ("a product that overflows", Box::new(move || zeros(&[usize::MAX, usize::MAX]))),
        ("a product that overflows to 0", Box::new(move || zeros(&[1 << 32, 1 << 32]))),
        ("an overflow hidden behind 0", Box::new(move || zeros(&[usize::MAX, 4, 0]))),
        ("zeros beyond memory", Box::new(move || zeros(&[VAST]))),
        ("random numbers", Box::new(|| Generator::new(0).randn([VAST], &D))),
        ("permutation", Box::new(|| Generator::new(0).permutation(VAST, &D))),
        ("a permutation beyond addresses", Box::new(|| Generator::new(0).permutation(BEYOND, &D))),
        ("arange", Box::new(|| T::arange(0, i64::MAX, 1, &D))),
        ("eye", Box::new(|| T::eye(1 << 31, DType::F64, &D))),
        ("an expansion that is written out", Box::new(move || zeros(&[1]).expand([VAST]).contiguous())),
        ("an expansion and a map", Box::new(move || zeros(&[1]).expand([VAST]).exp())),
        ("an outer sum", Box::new(move || zeros(&[1 << 23, 1]) + zeros(&[1, 1 << 23]))),
        ("an outer product", Box::new(move || zeros(&[1 << 23, 1]).matmul(&zeros(&[1, 1 << 23])))),
        ("repeat", Box::new(move || zeros(&[4]).repeat([BEYOND]))),
        ("one_hot", Box::new(|| T::from_vec(vec![0i64; 4], 4, &D).one_hot(BEYOND))),
        ("antialiased interpolation", Box::new(move || enlarged(&zeros(&[1, 1, 1, 4])))),
        ("a transform of a view", Box::new(move || zeros(&[1]).expand([VAST]).rfft(None, 0, Norm::Backward))),
        ("the triangle of no columns", Box::new(move || zeros(&[VAST, 0]).triu(0))),
        ("indices of a triangle", Box::new(move || zeros(&[1]).tril_indices(VAST, 2, 0))),
        ("indices beyond addresses", Box::new(move || zeros(&[1]).triu_indices(BEYOND, BEYOND, 0))),
        ("pad", Box::new(move || zeros(&[4]).pad([0, VAST as isize], Mode::Constant(0.0.into())))),
    ];
    for (name, f) in rows {
        let e = try_run(f).map(|t| t.shape().clone()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::OutOfMemory, "{name}: {e}");
    }
}

/// A view needs no memory, whatever its shape; a sum over it would take too long, so it is not
/// tested.
#[test]
fn views_may_be_vast() {
    let x = T::ones([1], DType::F32, &D).expand([VAST]);
    assert_eq!(x.numel(), VAST);
    assert_eq!(x.i(VAST - 1).item::<f64>(), 1.0);
}

/// Rows without elements take no time.
#[test]
fn vast_matrices_may_have_small_triangles() {
    let x = T::ones([1], DType::F32, &D);
    let indices = |t: T| t.to_vec::<i64>().unwrap();
    let last = BEYOND as i64 - 1;
    assert_eq!(indices(x.tril_indices(BEYOND, 0, 0)), []);
    assert_eq!(indices(x.tril_indices(BEYOND, 3, 2 - BEYOND as isize)), [last - 1, last, last, 0, 0, 1]);
    assert_eq!(indices(x.triu_indices(BEYOND, 2, 0)), [0, 0, 1, 0, 1, 1]);
    assert_eq!(indices(x.triu_indices(BEYOND, 2, 2)), []);
}

/// Tables are for the rows that there are.
#[test]
fn no_rows_may_be_transformed_to_any_length() {
    let x = T::zeros([0, 3], DType::F32, &D);
    assert_eq!(x.rfft(Some(VAST), 1, Norm::Backward).shape()[..], [0, VAST / 2 + 1, 2]);
}

/// Also one of as many axes.
#[test]
fn tensors_of_many_axes_can_be_printed() {
    let x = T::ones([2], DType::F32, &D).reshape([vec![1isize; 100_000], vec![2]].concat());
    assert!(x.to_string().starts_with("[1. 1.] (shape [1, 1, 1, "));
    assert!(format!("{x:?}").starts_with("tensor([1., 1.] (shape [1, "));
}

#[test]
fn host_memory_is_checked() {
    assert!(Shape::new(&[usize::MAX, 2]).is_err());
    let e = HostTensor::from_vec(vec![1.0f32; 3], Shape::new(&[2, 2]).unwrap()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ShapeMismatch, "{e}");
}
