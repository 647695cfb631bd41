//! Edge cases of movement, indexing, reductions and products: empty axes, scalars, indices out of
//! range, sizes beyond memory. Common results are checked by the conformance suite.

use elinvar_core::{Element, ErrorKind, Result, Scalar, Shape};
use elinvar_ops::Array;
use elinvar_ops::catalogue::index::Item;
use elinvar_ops::catalogue::pad::Mode;
use elinvar_ops::catalogue::quantile::Between;
use elinvar_ops::catalogue::scatter_reduce::Reduce;
use elinvar_ops::catalogue::segment_reduce::Segments;
use elinvar_ops::catalogue::slice::{self, Range, Run};
use elinvar_ops::catalogue::unfold::Patches;
use elinvar_ops::catalogue::*;
use elinvar_reference::{Reference, ReferenceDevice};

type A = Array<Reference>;

const NAN: f32 = f32::NAN;

fn array<T: Element>(v: &[T], shape: &[usize]) -> A {
    A::from_vec(&ReferenceDevice, v.to_vec(), shape).unwrap()
}
fn f(v: &[f32]) -> A {
    array(v, &[v.len()])
}
fn i(v: &[i64]) -> A {
    array(v, &[v.len()])
}
/// 0, 1, 2, .. in this shape.
fn count(shape: &[usize]) -> A {
    array(&(0..shape.iter().product()).map(|i: usize| i as f32).collect::<Vec<_>>(), shape)
}
fn empty(shape: &[usize]) -> A {
    array::<f32>(&[], shape)
}
/// Shape, dtype and elements, as text.
fn show(a: &A) -> String {
    format!("{} {} {:?}", a.dtype(), a.shape(), a.to_host().unwrap().to_f64_vec())
}
fn check(rows: Vec<(&str, Result<A>, A)>) {
    for (what, got, want) in rows {
        assert_eq!(show(&got.unwrap_or_else(|e| panic!("{what}: {e}"))), show(&want), "{what}");
    }
}

#[test]
fn movement() {
    let range = |start, stop, step| Range { start, stop, step };
    let m = count(&[2, 3]);
    check(vec![
        (
            "a walk down",
            slice(&m, &[Range::ALL, range(None, None, -2)]),
            array(&[2f32, 0.0, 5.0, 3.0], &[2, 2]),
        ),
        ("a walk past the end", slice(&m, &[range(Some(5), None, 1)]), empty(&[0, 3])),
        (
            "resolved runs",
            slice::runs(&m, &[Run { start: 1, len: 2, step: -1 }]),
            array(&[3f32, 4.0, 5.0, 0.0, 1.0, 2.0], &[2, 3]),
        ),
        ("a reshape to nothing", reshape(&empty(&[0, 3]), &[3, -1]), empty(&[3, 0])),
        ("a circle", pad(&f(&[1.0, 2.0, 3.0]), &[2, 1], Mode::Circular), f(&[2.0, 3.0, 1.0, 2.0, 3.0, 1.0])),
        (
            "cut, then around what is left",
            pad(&f(&[1.0, 2.0, 3.0]), &[-1, 2], Mode::Circular),
            f(&[2.0, 3.0, 2.0, 3.0]),
        ),
        ("cut behind", pad(&f(&[1.0, 2.0, 3.0]), &[2, -1], Mode::Circular), f(&[1.0, 2.0, 1.0, 2.0])),
        ("cut off", pad(&f(&[1.0, 2.0, 3.0]), &[-3, 0], Mode::Circular), f(&[])),
        ("cut and mirrored", pad(&f(&[1.0, 2.0, 3.0]), &[-1, 2], Mode::Reflect), f(&[2.0, 3.0, 2.0, 1.0])),
        ("all cut off", pad(&f(&[1.0, 2.0]), &[-1, -1], Mode::Constant(Scalar::Int(0))), empty(&[0])),
        ("nothing among tensors", concat(&[&empty(&[0]), &m], 1), m.clone()),
        ("a roll by more than the axis", roll(&f(&[1.0, 2.0, 3.0]), &[-4], Some(&[0])), f(&[2.0, 3.0, 1.0])),
        ("a roll of nothing", roll(&empty(&[0, 2]), &[1], Some(&[0])), empty(&[0, 2])),
        ("a scalar as a window", unfold_dim(&array(&[7f32], &[]), 0, 1, 1), f(&[7.0])),
        ("windows far apart", unfold_dim(&f(&[1.0, 2.0]), 0, 1, usize::MAX), array(&[1f32], &[1, 1])),
        (
            "a vector as a diagonal",
            diag(&f(&[1.0, 2.0]), 1),
            array(&[0f32, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0], &[3, 3]),
        ),
        ("a diagonal outside", diagonal(&m, 9, 0, 1), empty(&[0])),
        ("a triangle far away", tril(&m, isize::MIN), array(&[0f32; 6], &[2, 3])),
        ("every element twice", repeat_interleave(&f(&[1.0, 2.0]), 2, None), f(&[1.0, 1.0, 2.0, 2.0])),
        ("axes moved", movedim(&m, &[0], &[-1]), array(&[0f32, 3.0, 1.0, 4.0, 2.0, 5.0], &[3, 2])),
        (
            "a grid for plots",
            meshgrid(&[&f(&[1.0, 2.0]), &f(&[5.0])], true).map(|g| g[0].clone()),
            array(&[1f32, 2.0], &[1, 2]),
        ),
    ]);
    let parts = |r: Result<Vec<A>>| r.unwrap().iter().map(|p| p.shape().to_vec()).collect::<Vec<_>>();
    assert_eq!(parts(split(&empty(&[0, 3]), 2, 0)), [[0, 3]]);
    assert_eq!(parts(chunk(&empty(&[0, 3]), 2, 0)), [[0, 3], [0, 3]]);
    assert_eq!(parts(chunk(&count(&[5]), 4, 0)), [[2], [2], [1]]);
    assert_eq!(parts(unbind(&m, 1)), [[2], [2], [2]]);
}

#[test]
fn unfold_and_fold_count_how_often_an_element_is_in_a_window() {
    let p = Patches { kernel: [2, 2], dilation: [1, 1], padding: [0, 0], stride: [1, 1] };
    let ones = array(&[1f32; 9], &[1, 1, 3, 3]);
    let columns = unfold(&ones, &p).unwrap();
    assert_eq!(columns.shape().dims(), [1, 4, 4]);
    let back = fold(&columns, [3, 3], &p).unwrap();
    assert_eq!(show(&back), show(&array(&[1f32, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0], &[1, 1, 3, 3])));
}

#[test]
fn by_index() {
    let m = count(&[2, 3]);
    check(vec![
        ("a scalar picked often", gather(&array(&[7f32], &[]), 0, &i(&[0, 0])), f(&[7.0, 7.0])),
        ("an index of i32", index_select(&m, 1, &array(&[2i32], &[1])), array(&[2f32, 5.0], &[2, 1])),
        (
            "from the end",
            take_along_dim(&m, &array(&[-1i64, -3], &[2, 1]), Some(1)),
            array(&[2f32, 3.0], &[2, 1]),
        ),
        ("the last one stays", scatter(&f(&[0.0, 0.0]), 0, &i(&[1, 1]), &f(&[3.0, 4.0])), f(&[0.0, 4.0])),
        ("filled", index_fill(&f(&[1.0, 2.0, 3.0]), 0, &i(&[-1, 0]), 9.0), f(&[9.0, 2.0, 9.0])),
        ("a scalar is one element", nonzero(&array(&[2f32], &[])), array::<i64>(&[], &[1, 0])),
        ("no classes asked for", one_hot(&i(&[]), 0), array::<i64>(&[], &[0, 0])),
        (
            "left of equals",
            searchsorted(&f(&[1.0, 2.0, 2.0, 3.0]), &f(&[2.0, 9.0, 0.0, 2.5]), false),
            i(&[1, 4, 0, 3]),
        ),
        (
            "right of equals",
            searchsorted(&f(&[1.0, 2.0, 2.0, 3.0]), &f(&[2.0, 9.0, 0.0, 2.5]), true),
            i(&[3, 4, 0, 3]),
        ),
        (
            "a value without an axis",
            searchsorted(&f(&[1.0, 2.0]), &array(&[1.5f32], &[]), false),
            array(&[1i64], &[]),
        ),
        (
            "one row for values of any rank",
            searchsorted(&f(&[1.0, 2.0]), &array(&[0f32, 1.0, 1.5, 2.0, 3.0, 1.0], &[3, 1, 2]), true),
            array(&[0i64, 1, 1, 2, 2, 1], &[3, 1, 2]),
        ),
        ("counted", bincount(&i(&[2, 0, 2]), 5), i(&[1, 0, 2, 0, 0])),
        ("nothing counted", bincount(&i(&[]), 0), i(&[])),
        ("NaN differs from itself", unique(&f(&[NAN, 1.0, NAN]), None).map(|u| u.counts), i(&[1, 1, 1])),
        (
            "equal slices",
            unique(&array(&[1i64, 2, 0, 2, 1, 2], &[3, 2]), Some(0)).map(|u| u.values),
            array(&[0i64, 2, 1, 2], &[2, 2]),
        ),
        (
            "where they went",
            unique(&array(&[1i64, 2, 0, 2, 1, 2], &[3, 2]), Some(0)).map(|u| u.inverse),
            i(&[1, 0, 1]),
        ),
        ("neighbours", unique_consecutive(&i(&[2, 2, 1, 2]), None).map(|u| u.values), i(&[2, 1, 2])),
        ("a sorter", searchsorted::by(&f(&[3.0, 1.0, 2.0]), &i(&[1, 2, 0]), &f(&[2.5]), false), i(&[2])),
        ("weights", bincount::weighted(&i(&[1, 1]), &f(&[0.5, 2.0]), 0), f(&[0.0, 2.5])),
        ("as often as said", repeat_interleave::by(&f(&[1.0, 2.0]), &i(&[0, 2]), None), f(&[2.0, 2.0])),
        (
            "the last copy stays",
            index_copy(&f(&[0.0, 0.0]), 0, &i(&[-1, 1]), &f(&[3.0, 4.0])),
            f(&[0.0, 4.0]),
        ),
        ("the last put stays", put(&f(&[0.0, 0.0]), &i(&[1, -1]), &f(&[3.0, 4.0]), false), f(&[0.0, 4.0])),
        // 2^24 + 1 is not a number of f32, so the order is seen.
        (
            "added in order",
            put(&f(&[0.0]), &i(&[0, 0, 0]), &f(&[16777216.0, 1.0, -16777216.0]), true),
            f(&[0.0]),
        ),
        (
            "a product that starts with itself",
            scatter_reduce(&f(&[2.0, 5.0]), 0, &i(&[0, 0]), &f(&[3.0, 4.0]), Reduce::Prod, true),
            f(&[24.0, 5.0]),
        ),
        (
            "a mean of integers, rounded down",
            scatter_reduce(&i(&[0, 5]), 0, &i(&[0, 0]), &i(&[-3, 2]), Reduce::Mean, false),
            i(&[-1, 5]),
        ),
        (
            "an empty segment",
            segment_reduce(&f(&[1.0, 2.0]), Reduce::Mean, Segments::Lengths(&i(&[0, 2])), 0, None),
            f(&[NAN, 1.5]),
        ),
        ("nothing to be in", isin(&i(&[1, 2]), &i(&[]), true), array(&[true, true], &[2])),
        ("a running maximum of equals", cummax(&f(&[1.0, 1.0, 0.0]), 0).map(|c| c.1), i(&[0, 1, 1])),
        ("twice as much", add::scaled(&f(&[1.0]), &f(&[3.0]), 2.0), f(&[7.0])),
        ("twice less", sub::scaled(&i(&[1]), &i(&[3]), 2i64), i(&[-5])),
        ("sorted down, equals in order", argsort(&f(&[1.0, NAN, 1.0, NAN]), 0, true), i(&[1, 3, 0, 2])),
    ]);
}

#[test]
fn reductions() {
    let none = empty(&[2, 0]);
    let inf = f32::INFINITY;
    check(vec![
        (
            "an empty index of another rank",
            gather(&f(&[1.0, 2.0]), 0, &array::<i64>(&[], &[2, 0])),
            none.clone(),
        ),
        (
            "an empty index larger elsewhere",
            gather(&count(&[2, 3]), 0, &array::<i64>(&[], &[0, 7])),
            array::<f32>(&[], &[0, 7]),
        ),
        (
            "nothing written",
            scatter(&f(&[1.0, 2.0]), 0, &array::<i64>(&[], &[2, 0]), &f(&[3.0])),
            f(&[1.0, 2.0]),
        ),
        ("an empty sum", sum(&none, Some(&[1]), false), f(&[0.0, 0.0])),
        ("an empty product", prod(&none, Some(&[1]), false), f(&[1.0, 1.0])),
        ("an empty logsumexp", logsumexp(&none, Some(&[1]), false), f(&[-inf, -inf])),
        ("an empty any", any(&none, Some(&[1]), false), array(&[false, false], &[2])),
        ("an empty all", all(&none, Some(&[1]), false), array(&[true, true], &[2])),
        ("an empty norm", norm(&none, 3.0, Some(&[1]), false), f(&[0.0, 0.0])),
        ("no rows at all", amax(&empty(&[0, 3]), Some(&[1]), false), empty(&[0])),
        ("an empty list names all axes", sum(&count(&[2, 3]), Some(&[]), false), array(&[15f32], &[])),
        ("only infinities", logsumexp(&f(&[-inf, -inf]), None, false), array(&[-inf], &[])),
        ("one infinity", logsumexp(&f(&[inf, 1.0]), None, false), array(&[inf], &[])),
        ("too little for a variance", var(&f(&[1.0, 3.0]), None, 2.0, false), array(&[inf], &[])),
        ("a large mean", var(&f(&[1e6, 1e6 + 1.0]), None, 0.0, false), array(&[0.25f32], &[])),
        ("the lower median", median(&f(&[4.0, 1.0, 3.0, 2.0]), 0, false).map(|m| m.0), array(&[2f32], &[])),
        ("a median with NaN", median(&f(&[1.0, NAN, NAN]), 0, false).map(|m| m.1), array(&[1i64], &[])),
        ("small integers do not wrap", sum(&array(&[200u8, 200], &[2]), None, false), array(&[400i64], &[])),
        ("truth counts", cumsum(&array(&[true, false, true], &[3]), 0), i(&[1, 1, 2])),
        ("how many", norm(&f(&[0.0, -2.0, NAN]), 0.0, None, false), array(&[2f32], &[])),
    ]);
}

#[test]
fn products() {
    let (x, y) = (count(&[2, 2]), f(&[1.0, 10.0]));
    check(vec![
        ("nothing to contract", matmul(&empty(&[2, 0]), &empty(&[0, 1])), array(&[0f32, 0.0], &[2, 1])),
        ("blocks", kron(&y, &f(&[1.0, 2.0])), f(&[1.0, 2.0, 10.0, 20.0])),
        ("an axis of 1 stretched", tensordot(&array(&[2f32], &[1]), &y, &[0], &[0]), array(&[22f32], &[])),
        (
            "the other one stretched",
            tensordot(&x, &array(&[2f32], &[1, 1]), &[0, 1], &[0, 1]),
            array(&[12f32], &[]),
        ),
        ("two axes at once", tensordot(&x, &x, &[0, 1], &[1, 0]), array(&[13f32], &[])),
        (
            "an input that is not looked at",
            addmm(&array(&[NAN], &[]), &x, &x, 0, 1),
            array(&[2f32, 3.0, 6.0, 11.0], &[2, 2]),
        ),
        (
            "integers",
            baddbmm(&array(&[1i64], &[]), &array(&[2i64], &[1, 1, 1]), &array(&[3i64], &[1, 1, 1]), 2, 5),
            array(&[32i64], &[1, 1, 1]),
        ),
        ("a diagonal summed", einsum("ii", &[&x]), array(&[3f32], &[])),
        ("alphabetical, capitals first", einsum("aB", &[&count(&[1, 2])]), array(&[0f32, 1.0], &[2, 1])),
        ("a sum of integers", einsum("i->", &[&array(&[200u8, 100], &[2])]), array(&[300i64], &[])),
        (
            "a diagonal of integers",
            einsum("ii", &[&array(&[200u8, 1, 1, 100], &[2, 2])]),
            array(&[300i64], &[]),
        ),
        ("a sum of truth", einsum("ij->j", &[&array(&[true, true, true, false], &[2, 2])]), i(&[2, 1])),
        (
            "integers that are not summed",
            einsum("ij->ji", &[&array(&[1u8, 2], &[1, 2])]),
            array(&[1u8, 2], &[2, 1]),
        ),
        (
            "products of integers wrap",
            einsum("i,i->", &[&array(&[200u8, 1], &[2]), &array(&[2u8, 1], &[2])]),
            array(&[145u8], &[]),
        ),
        ("an ellipsis summed over", einsum("i...->i", &[&x]), f(&[1.0, 5.0])),
        (
            "a size of 1 stretched",
            einsum("ij,jk->ik", &[&array(&[2f32], &[1, 1]), &x]),
            array(&[4f32, 8.0], &[1, 2]),
        ),
        ("a layer on one vector", linear(&y, &x, Some(&y)), f(&[11.0, 42.0])),
    ]);
}

#[test]
fn mistakes_are_named() {
    use ErrorKind::{DTypeMismatch, InvalidArgument, OutOfMemory, ShapeMismatch};
    let (x, none, one) = (count(&[2, 3]), empty(&[2, 0]), array(&[1f32], &[]));
    let first = |r: Result<Vec<A>>| r.map(|v| v[0].clone());
    let huge = 1usize << 59;
    let p = Patches { kernel: [2, 2], dilation: [1, 1], padding: [0, 0], stride: [1, 0] };
    let wide = Patches { kernel: [usize::MAX, 2], stride: [1, 1], ..p };
    let rows: Vec<(Result<A>, ErrorKind, &str)> = vec![
        (
            reshape(&x, &[4, -1]),
            ShapeMismatch,
            "reshape: shape [2, 3] has 6 elements, which [4, -1] cannot take",
        ),
        (reshape(&none, &[0, -1]), InvalidArgument, "reshape: the size -1"),
        (reshape(&x, &[-1, -1]), InvalidArgument, "reshape: size -1"),
        (reshape(&x, &[-2]), InvalidArgument, "reshape: size -2"),
        (permute(&x, &[0]), InvalidArgument, "permute: [0] has 1 axes"),
        (permute(&x, &[0, -2]), InvalidArgument, "permute: axis -2 is named twice"),
        (transpose(&x, 0, 2), InvalidArgument, "transpose: axis 2 does not exist in shape [2, 3]"),
        (slice(&x, &[Range { step: 0, ..Range::ALL }]), InvalidArgument, "slice: a step of 0"),
        (slice::runs(&x, &[Run { start: 1, len: 2, step: 1 }]), InvalidArgument, "slice: Run"),
        (
            slice::runs(&x, &[Run { start: 0, len: usize::MAX, step: isize::MAX }]),
            InvalidArgument,
            "slice: Run",
        ),
        (select(&x, 1, 3), InvalidArgument, "select: index 3 does not exist in axis 1 of shape [2, 3]"),
        (select(&one, 0, 0), InvalidArgument, "select: a scalar"),
        (narrow(&x, 1, 2, usize::MAX), InvalidArgument, "narrow: 18446744073709551615 elements from 2"),
        (repeat(&x, &[2]), InvalidArgument, "repeat: [2] has 1 entries"),
        (repeat(&x, &[1, usize::MAX]), OutOfMemory, "repeat: 18446744073709551615 times 3"),
        (repeat(&count(&[2]), &[huge]), OutOfMemory, "shape [1152921504606846976] has more elements"),
        (repeat_interleave(&x, usize::MAX, None), OutOfMemory, "shape [6, 18446744073709551615] has more"),
        (concat::<A>(&[], 0), InvalidArgument, "concat: no operands"),
        (concat(&[&x, &i(&[1])], 0), DTypeMismatch, "concat: operands are f32 and i64"),
        (concat(&[&x, &none], 0), ShapeMismatch, "concat: operand 0 has shape [2, 3], operand 1 has [2, 0]"),
        (stack(&[&x, &none], 0), ShapeMismatch, "stack: operand 0 has shape [2, 3]"),
        (first(split(&x, 0, 1)), InvalidArgument, "split: parts of 0 elements"),
        (first(split::sizes(&x, &[1, usize::MAX], 1)), InvalidArgument, "split: sizes"),
        (first(chunk(&x, 0, 1)), InvalidArgument, "chunk: 0 chunks"),
        (first(chunk(&none, huge, 1)), OutOfMemory, "out of memory: 576460752303423488 elements"),
        (pad(&x, &[1], Mode::Replicate), InvalidArgument, "pad: [1] for shape [2, 3]"),
        (
            pad(&x, &[3, 0], Mode::Reflect),
            InvalidArgument,
            "pad: 3 and 0 at axis 1 of shape [2, 3]; a reflection",
        ),
        (
            pad(&x, &[-2, 2], Mode::Circular),
            InvalidArgument,
            "pad: -2 and 2 at axis 1 of shape [2, 3]; an axis goes",
        ),
        (pad(&x, &[-2, -2], Mode::Constant(Scalar::Int(0))), InvalidArgument, "pad: -2 and -2"),
        (pad(&x, &[isize::MAX, isize::MIN], Mode::Constant(Scalar::Int(0))), InvalidArgument, "pad:"),
        (
            pad(&i(&[1]), &[1, 1], Mode::Constant(Scalar::Float(0.5))),
            DTypeMismatch,
            "pad: the number 0.5 does not fit",
        ),
        (index_select(&empty(&[3, 0]), 0, &i(&[9])), InvalidArgument, "index_select: "),
        (index(&empty(&[3, 0]), &[Item::List(vec![9])]), InvalidArgument, "index: "),
        (
            index_put(&x, &[Item::List(vec![0, -3])], &one, true),
            InvalidArgument,
            "index_put: gather: index -3 at position [1] is out of range for axis 0 of size 2",
        ),
        (
            index_put(&x, &[Item::List(vec![0])], &i(&[1]), false),
            DTypeMismatch,
            "index_put: operands are f32 and i64",
        ),
        (take(&x, &i(&[6])), InvalidArgument, "take: "),
        (put(&x, &i(&[-7]), &f(&[1.0]), false), InvalidArgument, "put: "),
        (put(&x, &i(&[0]), &x, false), ShapeMismatch, "put: 1 positions for a source of shape [2, 3]"),
        (index_copy(&x, 0, &i(&[2]), &count(&[1, 3])), InvalidArgument, "index_copy: "),
        (
            scatter_reduce(&x, 0, &array(&[2i64], &[1, 1]), &array(&[1f32], &[1, 1]), Reduce::Amax, true),
            InvalidArgument,
            "scatter_reduce: ",
        ),
        (
            segment_reduce(&x, Reduce::Sum, Segments::Offsets(&i(&[0, 3])), 0, None),
            InvalidArgument,
            "segment_reduce: lengths",
        ),
        (
            masked_scatter(&x, &array(&[true], &[1]), &f(&[1.0])),
            InvalidArgument,
            "masked_scatter: a source of shape [1] for 6 elements",
        ),
        (kthvalue(&f(&[1.0]), 2, 0, false).map(|k| k.0), InvalidArgument, "kthvalue: k is 2"),
        (quantile(&f(&[1.0, 2.0]), &f(&[2.0]), None, false, Between::Lower), InvalidArgument, "quantile: "),
        (diff(&one, 1, 0, None, None), InvalidArgument, "diff: a scalar"),
        (isclose(&x, &x, -1.0, 0.0, false), InvalidArgument, "isclose: rtol -1"),
        (cross(&x, &count(&[2, 1]), Some(0)), ShapeMismatch, "cross: operands of shapes [2, 3] and [2, 1]"),
        (cdist(&x, &x, -1.0), InvalidArgument, "cdist: p is -1"),
        (pdist(&array::<f32>(&[], &[1 << 40, 0]), 2.0), OutOfMemory, "shape [1099511627776"),
        (rot90(&x, 1, &[0]), InvalidArgument, "rot90: axes [0]"),
        (histc(&x, 0, 0.0, 1.0), InvalidArgument, "histc: 0 bins"),
        (repeat_interleave::by(&x, &i(&[-1]), Some(0)), InvalidArgument, "repeat_interleave: -1 repeats"),
        (channel_shuffle(&count(&[1, 3, 1]), 2), InvalidArgument, "channel_shuffle: 3 channels"),
        (
            max_unpool1d(&count(&[1, 1, 2]), &array(&[0i64, 9], &[1, 1, 2]), &[2], &[], &[], None),
            InvalidArgument,
            "max_unpool1d: ",
        ),
        (index_select(&empty(&[3, 0]), 0, &i(&[0, -1])), InvalidArgument, "index_select: "),
        (index_select(&empty(&[0, 0]), 0, &i(&[0])), InvalidArgument, "index_select: "),
        (index_fill(&empty(&[3, 0]), 0, &i(&[9]), 1.0), InvalidArgument, "index_fill: "),
        (index_add(&empty(&[3, 0]), 0, &i(&[9]), &empty(&[1, 0]), 1.0), InvalidArgument, "index_add: "),
        (embedding(&i(&[9]), &empty(&[3, 0]), None), InvalidArgument, "embedding: "),
        (embedding(&i(&[9]), &empty(&[3, 0]), Some(0)), InvalidArgument, "embedding: "),
        (
            take_along_dim(&empty(&[3, 0]), &array(&[9i64], &[1, 1]), Some(0)),
            InvalidArgument,
            "take_along_dim: ",
        ),
        (unfold_dim(&x, 1, 4, 1), InvalidArgument, "unfold_dim: windows of 4"),
        (unfold_dim(&x, 1, 1, 0), InvalidArgument, "unfold_dim: windows of 1, 0 apart"),
        (unfold(&count(&[1, 1, 3, 3]), &p), InvalidArgument, "unfold: windows of [2, 2]"),
        (unfold(&count(&[1, 1, 3, 3]), &wide), InvalidArgument, "unfold: windows of"),
        (diagonal(&x, 0, 1, -1), InvalidArgument, "diagonal: axes 1 and -1"),
        (diag(&f(&[1.0]), isize::MAX), OutOfMemory, "shape [9223372036854775808, 9223372036854775808]"),
        (trace(&one), ShapeMismatch, "trace: shape []"),
        (gather(&x, 1, &i(&[0])), ShapeMismatch, "gather: index of shape [1] for shape [2, 3]"),
        (gather(&x, 1, &array(&[3i64], &[1, 1])), InvalidArgument, "gather: index 3"),
        (gather(&x, 1, &array(&[-1i64], &[1, 1])), InvalidArgument, "gather: index -1"),
        (gather(&x, 1, &x), DTypeMismatch, "gather: the index is f32"),
        (index_select(&x, 0, &i(&[2])), InvalidArgument, "index_select: gather: index 2"),
        (scatter_add(&x, 0, &array(&[9i64], &[1, 1]), &x), InvalidArgument, "scatter_add: scatter: index 9"),
        (scatter(&x, 0, &array(&[0i64; 8], &[2, 4]), &x), ShapeMismatch, "scatter: index of shape [2, 4]"),
        (
            index_add(&i(&[1]), 0, &i(&[0]), &i(&[1]), 0.5),
            DTypeMismatch,
            "index_add: the number 0.5 does not fit a tensor of i64",
        ),
        (masked_select(&x, &x), DTypeMismatch, "masked_select: the mask is f32"),
        (one_hot(&i(&[3]), 3), InvalidArgument, "one_hot: scatter: index 3"),
        (topk(&x, 4, 1, true).map(|t| t.0), InvalidArgument, "topk: 4 elements of axis 1"),
        (bincount(&i(&[-1]), 1), InvalidArgument, "bincount: scatter: index -1"),
        (embedding(&i(&[0]), &x, Some(2)), InvalidArgument, "embedding: padding_idx 2 names no row"),
        (unique(&none, Some(0)).map(|u| u.values), InvalidArgument, "unique: slices of shape [2, 0]"),
        (amax(&none, Some(&[1]), false), InvalidArgument, "amax: axis 1 of shape [2, 0] is empty"),
        (argmin(&none, None, false), InvalidArgument, "argmin: axis 1 of shape [2, 0] is empty"),
        (max(&none, 1, false).map(|m| m.0), InvalidArgument, "max: axis 1 of shape [2, 0] is empty"),
        (norm(&none, f64::INFINITY, None, false), InvalidArgument, "norm: axis 1 of shape [2, 0] is empty"),
        (norm(&x, f64::NAN, None, false), InvalidArgument, "norm: p is NaN"),
        (mean(&i(&[1]), None, false), DTypeMismatch, "mean: not defined for i64"),
        (sum(&x, Some(&[1, -1]), false), InvalidArgument, "sum: axis -1 is named twice"),
        (
            matmul(&x, &x),
            ShapeMismatch,
            "matmul: inner sizes differ: left [2, 3], right [2, 3]; 3 and 2 must be equal",
        ),
        (matmul(&one, &x), ShapeMismatch, "matmul: operands of shapes [] and [2, 3]; a scalar"),
        (bmm(&x, &x), ShapeMismatch, "bmm: operands of shapes [2, 3] and [2, 3]"),
        (dot(&x, &x), ShapeMismatch, "dot: operands of shapes"),
        (addmm(&x, &x, &x, 1, 1), ShapeMismatch, "addmm: matmul: inner sizes differ"),
        (linear(&x, &x, Some(&x)), ShapeMismatch, "linear: bias [2, 3] for weight [2, 3]; it must be [2]"),
        (tensordot(&x, &x, &[0], &[1]), ShapeMismatch, "tensordot: axes [0] of shape [2, 3] and [1]"),
        (einsum("ij,jk", &[&x]), InvalidArgument, "einsum: \"ij,jk\": 2 operands are named, and there are 1"),
        (einsum("ijk", &[&x]), ShapeMismatch, "einsum: \"ijk\": operand 0 has shape [2, 3]"),
        (einsum("i...jk", &[&x]), ShapeMismatch, "einsum: \"i...jk\": operand 0 has shape [2, 3]"),
        (einsum("ij->ik", &[&x]), InvalidArgument, "einsum: \"ij->ik\": the result names k"),
        (einsum("ij->ii", &[&x]), InvalidArgument, "einsum: \"ij->ii\": the result names i twice"),
        (einsum("i1", &[&x]), InvalidArgument, "einsum: \"i1\": '1' is no letter"),
        (einsum("ii", &[&x]), ShapeMismatch, "einsum: "),
        (
            einsum("ij,ij", &[&x, &count(&[2, 2])]),
            ShapeMismatch,
            "einsum: \"ij,ij\": axis j is 3 in one place and 2",
        ),
    ];
    for (result, kind, sentence) in rows {
        match result {
            Ok(y) => panic!("{sentence}..: gave {}", show(&y)),
            Err(e) => {
                assert!(e.message().starts_with(sentence), "{sentence}..: said {e}");
                assert_eq!(e.kind(), kind, "{e}");
            }
        }
    }
    // A view may be larger than any memory; an op that has to materialise it fails.
    let vast = expand(&one, &Shape::new(&[1 << 45, 2]).unwrap()).unwrap();
    assert_eq!(tril(&vast, 0).unwrap_err().kind(), OutOfMemory);
    assert_eq!(unbind(&vast, 0).unwrap_err().kind(), OutOfMemory);
}

/// An index out of range is told as it was given, although it may count from the end.
#[test]
fn indices_out_of_range() {
    let x = f(&[0.0, 1.0, 2.0]);
    for bad in [-4i64, -9, 3, i64::MIN, i64::MAX] {
        let at = i(&[bad]);
        for (op, got) in [
            ("index_fill", index_fill(&x, 0, &at, 1.0)),
            ("take_along_dim", take_along_dim(&x, &at, Some(0))),
            ("index_select", index_select(&x, 0, &at)),
            ("gather", gather(&x, 0, &at)),
            ("scatter", scatter(&x, 0, &at, &f(&[1.0]))),
            ("index_add", index_add(&x, 0, &at, &f(&[1.0]), 1.0)),
        ] {
            let e = got.unwrap_err();
            assert!(e.message().contains(op) && e.message().contains(&format!("index {bad} ")), "{op}: {e}");
        }
    }
}
