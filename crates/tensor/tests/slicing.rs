//! Slicing and assignment to slices against NumPy's results, and their gradients against finite
//! differences.
//!
//! The expected values are those of NumPy 2 for the expression in the row, with
//! `x = np.arange(24).reshape(2, 3, 4)` and `s = -1 - np.arange(n).reshape(shape)`. Where a single
//! index and an index tensor are mixed, the single index is applied first, as in PyTorch.

#![allow(clippy::reversed_empty_ranges, reason = "they are written as Python's slices are")]

use elinvar_core::{DType, ErrorKind};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Index, Tensor, check_gradient, step, try_run};

type T = Tensor<Reference>;

fn x() -> T {
    T::arange(0, 24, 1, &ReferenceDevice).reshape([2, 3, 4])
}
fn p<const N: usize>(places: [i64; N], shape: &[usize]) -> T {
    Tensor::from_vec(places.to_vec(), shape, &ReferenceDevice)
}
fn m<const N: usize>(mask: [bool; N], shape: &[usize]) -> T {
    Tensor::from_vec(mask.to_vec(), shape, &ReferenceDevice)
}

/// x, flat.
const ALL: &[i64] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23];

type Slice = fn(&T) -> T;
type Assign = fn(&T, &T) -> T;

fn slices() -> Vec<(&'static str, Slice, Vec<usize>, Vec<i64>)> {
    let rows: &[(&str, Slice, &[usize], &[i64])] = &[
        ("x[1]", |x| x.i(1), &[3, 4], &[12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]),
        ("x[-1]", |x| x.i(-1), &[3, 4], &[12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]),
        ("x[0,1,2]", |x| x.i((0, 1, 2)), &[], &[6]),
        ("x[:,1:3,-1]", |x| x.i((.., 1..3, -1)), &[2, 2], &[7, 11, 19, 23]),
        ("x[:,1:2,:-1]", |x| x.i((.., 1..=1, ..=-2)), &[2, 1, 3], &[4, 5, 6, 16, 17, 18]),
        ("x[:,-2:,2:]", |x| x.i((.., -2.., 2..)), &[2, 2, 2], &[6, 7, 10, 11, 18, 19, 22, 23]),
        (
            "x[:,::-1,::2]",
            |x| x.i((.., step(.., -1), step(.., 2))),
            &[2, 3, 2],
            &[8, 10, 4, 6, 0, 2, 20, 22, 16, 18, 12, 14],
        ),
        ("x[1,2:0:-1,3:-5:-2]", |x| x.i((1, step(2..0, -1), step(3..-5, -2))), &[2, 2], &[23, 21, 19, 17]),
        ("x[:,:,3:1]", |x| x.i((.., .., 3..1)), &[2, 3, 0], &[]),
        (
            "x[:,:,-100:100]",
            |x| x.i((.., .., -100..100)),
            &[2, 3, 4],
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23],
        ),
        ("x[...,1]", |x| x.i((Index::Ellipsis, 1)), &[2, 3], &[1, 5, 9, 13, 17, 21]),
        ("x[0,...,1]", |x| x.i((0, Index::Ellipsis, 1)), &[3], &[1, 5, 9]),
        (
            "x[...,None,1:2]",
            |x| x.i((Index::Ellipsis, Index::NewAxis, 1..2)),
            &[2, 3, 1, 1],
            &[1, 5, 9, 13, 17, 21],
        ),
        (
            "x[None,1,None]",
            |x| x.i((Index::NewAxis, 1, Index::NewAxis)),
            &[1, 1, 3, 4],
            &[12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23],
        ),
        (
            "x[([1,0,1])]",
            |x| x.i(p([1, 0, 1], &[3])),
            &[3, 3, 4],
            &[
                12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
                14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
            ],
        ),
        (
            "x[:,([2,-3])]",
            |x| x.i((.., &p([2, -3], &[2]))),
            &[2, 2, 4],
            &[8, 9, 10, 11, 0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15],
        ),
        (
            "x[:,:,([0,3,3,-1]).reshape(2,2)]",
            |x| x.i((.., .., &p([0, 3, 3, -1], &[2, 2]))),
            &[2, 3, 2, 2],
            &[0, 3, 3, 3, 4, 7, 7, 7, 8, 11, 11, 11, 12, 15, 15, 15, 16, 19, 19, 19, 20, 23, 23, 23],
        ),
        (
            "x[([1,0]),([2,1])]",
            |x| x.i((&p([1, 0], &[2]), &p([2, 1], &[2]))),
            &[2, 4],
            &[20, 21, 22, 23, 4, 5, 6, 7],
        ),
        (
            "x[([[1],[0]]),([2,1,0])]",
            |x| x.i((&p([1, 0], &[2, 1]), &p([2, 1, 0], &[3]))),
            &[2, 3, 4],
            &[20, 21, 22, 23, 16, 17, 18, 19, 12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3],
        ),
        (
            "x[:,([2,0]),([3,1])]",
            |x| x.i((.., &p([2, 0], &[2]), &p([3, 1], &[2]))),
            &[2, 2],
            &[11, 1, 23, 13],
        ),
        (
            "x[([1,0]),:,([3,1])]",
            |x| x.i((&p([1, 0], &[2]), .., &p([3, 1], &[2]))),
            &[2, 3],
            &[15, 19, 23, 1, 5, 9],
        ),
        ("x[1][:,([3,1])]", |x| x.i((1, .., &p([3, 1], &[2]))), &[3, 2], &[15, 13, 19, 17, 23, 21]),
        (
            "x[None,:,([2,0])]",
            |x| x.i((Index::NewAxis, .., &p([2, 0], &[2]))),
            &[1, 2, 2, 4],
            &[8, 9, 10, 11, 0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15],
        ),
        ("x[[]]", |x| x.i(p([], &[0])), &[0, 3, 4], &[]),
        ("x[:2**64-1]", |x| x.i(..usize::MAX), &[2, 3, 4], ALL),
        ("x[:2**64]", |x| x.i(0..=usize::MAX - 1), &[2, 3, 4], ALL),
        ("x[2**64-1:]", |x| x.i(usize::MAX..), &[0, 3, 4], &[]),
        ("x[x>17]", |x| x.i(x.gt(17)), &[6], &[18, 19, 20, 21, 22, 23]),
        (
            "x[([True,False])]",
            |x| x.i(m([true, false], &[2])),
            &[1, 3, 4],
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
        ),
        (
            "x[:,([True,False,True])]",
            |x| x.i((.., &m([true, false, true], &[3]))),
            &[2, 2, 4],
            &[0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23],
        ),
        (
            "x[:,([True,False,True]),1:3]",
            |x| x.i((.., &m([true, false, true], &[3]), 1..3)),
            &[2, 2, 2],
            &[1, 2, 9, 10, 13, 14, 21, 22],
        ),
        ("x[0][x[0]<2]", |x| x.i((0, &x.i(0).lt(2))), &[2], &[0, 1]),
        (
            "x[([False,True]),([2,1])]",
            |x| x.i((&m([false, true], &[2]), &p([2, 1], &[2]))),
            &[2, 4],
            &[20, 21, 22, 23, 16, 17, 18, 19],
        ),
        ("x[([False,False])]", |x| x.i(m([false, false], &[2])), &[0, 3, 4], &[]),
        ("x[:, [2, 0], [1, -1]]", |x| x.i((.., [2, 0], [1, -1])), &[2, 2], &[9, 3, 21, 15]),
        ("x[[1], :, [0, 3]]", |x| x.i(([1], .., [0, 3])), &[2, 3], &[12, 16, 20, 15, 19, 23]),
        // A tensor without axes is a number, so what is left are no separated index tensors.
        ("x[tensor(1), :, [0]]", |x| x.i((p([1], &[]), .., [0])), &[3, 1], &[12, 16, 20]),
        ("x[True, 0, 0]", |x| x.i((true, 0, 0)), &[1, 4], &[0, 1, 2, 3]),
        ("x[False]", |x| x.i(false), &[0, 2, 3, 4], &[]),
    ];
    rows.iter().map(|r| (r.0, r.1, r.2.to_vec(), r.3.to_vec())).collect()
}

fn assignments() -> Vec<(&'static str, Assign, Vec<usize>, Vec<i64>)> {
    let rows: &[(&str, Assign, &[usize], &[i64])] = &[
        (
            "x[:,1:3,-1] = s",
            |x, s| x.slice_assign((.., 1..3, -1), s),
            &[2],
            &[0, 1, 2, 3, 4, 5, 6, -1, 8, 9, 10, -2, 12, 13, 14, 15, 16, 17, 18, -1, 20, 21, 22, -2],
        ),
        (
            "x[1,::-2] = s",
            |x, s| x.slice_assign((1, step(.., -2)), s),
            &[2, 4],
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -5, -6, -7, -8, 16, 17, 18, 19, -1, -2, -3, -4],
        ),
        (
            "x[..., 1] = s",
            |x, s| x.slice_assign((Index::Ellipsis, 1), s),
            &[],
            &[0, -1, 2, 3, 4, -1, 6, 7, 8, -1, 10, 11, 12, -1, 14, 15, 16, -1, 18, 19, 20, -1, 22, 23],
        ),
        (
            "x[0] = s",
            |x, s| x.slice_assign(0, s),
            &[3, 1],
            &[-1, -1, -1, -1, -2, -2, -2, -2, -3, -3, -3, -3, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23],
        ),
        (
            "x[:, [0, 2], 1] = s",
            |x, s| x.slice_assign((.., [0, 2], 1), s),
            &[2, 2],
            &[0, -1, 2, 3, 4, 5, 6, 7, 8, -2, 10, 11, 12, -3, 14, 15, 16, 17, 18, 19, 20, -4, 22, 23],
        ),
        (
            "x[1, [0, 0]] = s: the last one stays",
            |x, s| x.slice_assign((1, [0, 0]), s),
            &[2, 1],
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -2, -2, -2, -2, 16, 17, 18, 19, 20, 21, 22, 23],
        ),
        (
            "x[[1], :, [0, 3]] = s",
            |x, s| x.slice_assign(([1], .., [0, 3]), s),
            &[2, 3],
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -1, 13, 14, -4, -2, 17, 18, -5, -3, 21, 22, -6],
        ),
        (
            "x[x > 20.5] = s",
            |x, s| x.slice_assign(x.gt(20.5), s),
            &[3],
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, -1, -2, -3],
        ),
        (
            "x[1, 0] += s, often",
            |x, s| x.index_put(([1, 1, 0], [0, 0, 2]), s, true),
            &[3, 1],
            &[0, 1, 2, 3, 4, 5, 6, 7, 5, 6, 7, 8, 9, 10, 11, 12, 16, 17, 18, 19, 20, 21, 22, 23],
        ),
        (
            "x[:, 3:1] = s",
            |x, s| x.slice_assign((.., 3..1), s),
            &[1],
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23],
        ),
    ];
    rows.iter().map(|r| (r.0, r.1, r.2.to_vec(), r.3.to_vec())).collect()
}

fn source(shape: &[usize]) -> T {
    let n: usize = shape.iter().product();
    Tensor::from_vec((1..=n as i64).map(|v| -v).collect::<Vec<_>>(), shape, &ReferenceDevice)
}

#[test]
fn slices_are_numpys() {
    for (name, f, shape, want) in slices() {
        let y = try_run(|| f(&x())).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((y.dims(), y.to_vec::<i64>().unwrap()), (&shape[..], want), "{name}");
    }
}

/// Slices of views are slices of their logical elements, whatever the memory layout.
#[test]
fn slices_of_views_are_those_of_copies() {
    let views: [(&str, Slice); 3] = [
        ("transposed twice", |x| x.transpose(0, 2).contiguous().transpose(0, 2)),
        ("backwards twice", |x| x.flip([1]).contiguous().i((.., step(.., -1)))),
        ("the middle of something larger", |x| Tensor::concat(&[x, x, x], 1).i((.., 3..6))),
    ];
    for (name, view) in views {
        for (slice, f, shape, want) in slices() {
            let y = f(&view(&x()));
            assert_eq!((y.dims(), y.to_vec::<i64>().unwrap()), (&shape[..], want), "{slice} of {name}");
        }
    }
}

#[test]
fn assignments_are_numpys() {
    for (name, f, shape, want) in assignments() {
        let before = x();
        let y = try_run(|| f(&before, &source(&shape))).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(y.to_vec::<i64>().unwrap(), want, "{name}");
        assert_eq!(
            before.to_vec::<i64>().unwrap(),
            x().to_vec::<i64>().unwrap(),
            "{name} changed its operand"
        );
    }
}

#[test]
fn gradients_of_slices() {
    let weighted = |y: &T| {
        let n = y.numel();
        let w = T::arange(1, n as i64 + 1, 1, &ReferenceDevice).to_dtype(DType::F64);
        (y.reshape([n as isize]) * w).square()
    };
    for (name, f, ..) in slices() {
        // Half-way between integers, so that a small step changes no mask that is computed from
        // them.
        let x = x().to_dtype(DType::F64) + 0.5;
        check_gradient(|x| try_run(|| weighted(&f(&x[0]))), &[x], 1e-3, 1e-6)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    for (name, f, shape, _) in assignments() {
        // As in PyTorch, an element that another one overwrote gets the gradient of their place.
        if name.ends_with("the last one stays") {
            continue;
        }
        let (x, s) = (x().to_dtype(DType::F64), source(&shape).to_dtype(DType::F64));
        check_gradient(|x| try_run(|| weighted(&f(&x[0], &x[1]))), &[x, s], 1e-3, 1e-6)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn invalid_indices_are_errors() {
    let rows: [(Slice, ErrorKind, &str); 16] = [
        // As an isize this would be -1, the last.
        (|x| x.i(usize::MAX), ErrorKind::InvalidArgument, "is out of range for axis 0 of size 2"),
        (|x| x.i((0, usize::MAX - 1)), ErrorKind::InvalidArgument, "is out of range for axis 1 of size 3"),
        (
            |x| x.slice_assign(usize::MAX, &source(&[3, 4])),
            ErrorKind::InvalidArgument,
            "is out of range for axis 0",
        ),
        (|x| x.i(2), ErrorKind::InvalidArgument, "index: place 2 is out of range for axis 0 of size 2"),
        (
            |x| x.i((0, -4)),
            ErrorKind::InvalidArgument,
            "index: place -4 is out of range for axis 1 of size 3",
        ),
        (
            |x| x.i((0, 0, 0, 0)),
            ErrorKind::InvalidArgument,
            "index: 4 indices (and 0 ellipses) for shape [2, 3, 4]",
        ),
        (|x| x.i((Index::Ellipsis, Index::Ellipsis)), ErrorKind::InvalidArgument, "at most 3 and one fit"),
        (|x| x.i(step(.., 0)), ErrorKind::InvalidArgument, "step"),
        (
            |x| x.i(p([0, 2], &[2])),
            ErrorKind::InvalidArgument,
            "index 2 at position [1] is out of range for axis 0 of size 2",
        ),
        (
            |x| x.i((&p([0, -3], &[2]), &p([0, 0], &[2]))),
            ErrorKind::InvalidArgument,
            "index -3 at position [1] is out of range for axis 0 of size 2",
        ),
        (
            |x| x.i((&p([0, 1], &[2]), &p([0, 0, 0], &[3]))),
            ErrorKind::ShapeMismatch,
            "index: shapes [2] and [3] do not broadcast",
        ),
        (
            |x| x.i(m([true, false, true], &[3])),
            ErrorKind::ShapeMismatch,
            "index: a mask of shape [3] does not fit shape [2, 3, 4] at axis 0",
        ),
        (
            |x| x.i(x.to_dtype(DType::F32)),
            ErrorKind::DTypeMismatch,
            "places must be i64 or i32 and masks bool; this tensor is f32",
        ),
        (
            |x| x.slice_assign(0, &source(&[5])),
            ErrorKind::ShapeMismatch,
            "slice_assign: src [5] does not broadcast to the part [3, 4]",
        ),
        // A number beyond `isize` is no place from the end.
        (|x| x.i(usize::MAX), ErrorKind::InvalidArgument, "index: place 9223372036854775807 is out of range"),
        (
            |x| x.slice_assign((p([0], &[1]), p([3], &[1])), &source(&[1])),
            ErrorKind::InvalidArgument,
            "slice_assign: gather: index 3 at position [0, 0] is out of range for axis 1 of size 3",
        ),
    ];
    for (f, kind, sentence) in rows {
        let e = try_run(|| f(&x())).unwrap_err();
        assert!(
            e.kind() == kind && e.message().contains(sentence),
            "{:?}: {e}; expected: {sentence}",
            e.kind()
        );
    }
}
