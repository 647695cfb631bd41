//! Edge cases of the elementwise ops: zeros and their signs, NaN, infinities, subnormals, integers
//! that wrap, and the points at which a derivative is a convention. Whole ranges are checked by the
//! conformance suite.

use elinvar_core::{DType, Element, ErrorKind, HostData};
use elinvar_ops::args::{Args, Attr};
use elinvar_ops::catalogue::{self, *};
use elinvar_ops::lane::Lane;
use elinvar_ops::map::{CompiledMap, Map, Pointwise};
use elinvar_ops::op::{Context, Op};
use elinvar_ops::{Array, Value};
use elinvar_reference::{Reference, ReferenceDevice};
use std::collections::BTreeMap;

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;
/// The smallest subnormal.
const TINY: f32 = 1e-45;

type A = Array<Reference>;

fn array<T: Element>(v: &[T]) -> A {
    A::from_vec(&ReferenceDevice, v.to_vec(), &[v.len()]).unwrap()
}

/// An operand of a row.
fn f(v: &[f32]) -> A {
    array(v)
}
fn i(v: &[i64]) -> A {
    array(v)
}
fn b(v: &[bool]) -> A {
    array(v)
}

fn call(op: &str, attrs: &[(&str, Attr)], inputs: &[(&str, A)]) -> elinvar_core::Result<A> {
    let attrs: BTreeMap<String, Attr> = attrs.iter().map(|(n, a)| (n.to_string(), a.clone())).collect();
    let inputs = inputs.iter().map(|(r, a)| (r.to_string(), a.clone())).collect();
    Ok(catalogue::call(&Args { op: op.to_string(), inputs, attrs })?.remove(0))
}

/// Bits as text: all NaNs are the same, zeros keep their sign.
fn show(a: &A) -> Vec<String> {
    match a.to_host().unwrap().into_data() {
        HostData::F32(v) => {
            v.iter().map(|x| if x.is_nan() { "NaN".into() } else { format!("{x:?}") }).collect()
        }
        other => vec![format!("{other:?}")],
    }
}

fn check(op: &str, attrs: &[(&str, Attr)], inputs: &[(&str, A)], gives: A, why: &str) {
    let got = call(op, attrs, inputs).unwrap_or_else(|e| panic!("{op} ({why}): {e}"));
    assert_eq!(got.dtype(), gives.dtype(), "{op} ({why})");
    assert_eq!(
        show(&got),
        show(&gives),
        "{op} ({why}) of {:?}",
        inputs.iter().map(|x| show(&x.1)).collect::<Vec<_>>()
    );
}

#[test]
fn unary() {
    let rows: Vec<(&str, A, A, &str)> = vec![
        ("neg", f(&[0.0, -0.0, TINY]), f(&[-0.0, 0.0, -TINY]), "only the sign changes"),
        ("neg", i(&[i64::MIN, 3]), i(&[i64::MIN, -3]), "the smallest integer wraps"),
        ("abs", f(&[-0.0, -TINY, -INF, NAN]), f(&[0.0, TINY, INF, NAN]), "only the sign changes"),
        (
            "sign",
            f(&[-0.0, TINY, -INF, NAN]),
            f(&[0.0, 1.0, -1.0, 0.0]),
            "subnormals have a sign, NaN has none",
        ),
        ("sign", i(&[-7, 0, 9]), i(&[-1, 0, 1]), "integers"),
        ("sqrt", f(&[-0.0, -1.0, INF]), f(&[-0.0, NAN, INF]), "IEEE 754 keeps -0"),
        ("exp", f(&[-INF, INF, 0.0, 89.0, -104.0]), f(&[0.0, INF, 1.0, INF, 0.0]), "both ends"),
        ("log", f(&[0.0, -0.0, -1.0, 1.0, INF]), f(&[-INF, -INF, NAN, 0.0, INF]), "the pole and beyond"),
        ("log1p", f(&[-1.0, -0.0, TINY]), f(&[-INF, -0.0, TINY]), "tiny arguments come back"),
        ("expm1", f(&[-0.0, TINY, -INF]), f(&[-0.0, TINY, -1.0]), "tiny arguments come back"),
        ("reciprocal", f(&[0.0, -0.0, INF]), f(&[INF, -INF, 0.0]), "poles keep the sign"),
        ("square", f(&[-0.0, -INF, 1e-30]), f(&[0.0, INF, 0.0]), "underflow"),
        ("square", i(&[1 << 32]), i(&[0]), "integers wrap"),
        ("relu", f(&[-0.0, -1.0, NAN, INF]), f(&[-0.0, 0.0, NAN, INF]), "NaN propagates"),
        ("relu", i(&[-3, 3]), i(&[0, 3]), "integers"),
        ("sigmoid", f(&[-INF, INF, 0.0]), f(&[0.0, 1.0, 0.5]), "both ends"),
        ("log_sigmoid", f(&[-INF, -1000.0]), f(&[-INF, -1000.0]), "no overflow in exp"),
        ("silu", f(&[INF, -0.0]), f(&[INF, -0.0]), "the upper end"),
        ("mish", f(&[INF, 60.0]), f(&[INF, 60.0]), "no overflow in exp^2"),
        ("softsign", f(&[3e38]), f(&[1.0]), "large"),
        ("hardswish", f(&[3e38, -3.0, 3.0, -4.0]), f(&[3e38, -0.0, 3.0, -0.0]), "6 x would overflow"),
        ("tanh", f(&[INF, -INF, TINY]), f(&[1.0, -1.0, TINY]), "both ends, and the middle"),
        ("floor", f(&[-0.0, -0.5, 0.5, -INF]), f(&[-0.0, -1.0, 0.0, -INF]), "zeros"),
        ("ceil", f(&[-0.5, 0.5]), f(&[-0.0, 1.0]), "zeros"),
        ("round", f(&[0.5, 1.5, 2.5, -0.5]), f(&[0.0, 2.0, 2.0, -0.0]), "halves to even"),
        ("trunc", f(&[-0.9, 1.9]), f(&[-0.0, 1.0]), "towards zero"),
        ("floor", i(&[-3]), i(&[-3]), "integers are whole"),
        ("frac", f(&[-2.5, 2.25, INF]), f(&[-0.5, 0.25, NAN]), "infinity has no fraction"),
        ("square", b(&[true, false]), i(&[1, 0]), "an integer"),
        ("isnan", f(&[NAN, INF, 0.0]), b(&[true, false, false]), "bool comes out"),
        ("isinf", f(&[NAN, -INF, 3e38]), b(&[false, true, false]), "both infinities"),
        ("isfinite", f(&[NAN, -INF, 3e38]), b(&[false, false, true]), "neither"),
        ("isfinite", i(&[1]), b(&[true]), "integers are finite"),
        ("logical_not", f(&[NAN, -0.0, TINY]), b(&[false, true, false]), "NaN and subnormals are true"),
        ("logical_not", b(&[true, false]), b(&[false, true]), "bool"),
        ("bitwise_not", i(&[0, -1]), i(&[-1, 0]), "two's complement"),
        ("bitwise_not", b(&[true, false]), b(&[false, true]), "logical for bool"),
        ("bitwise_not", array(&[0u8, 0xf0]), array(&[0xffu8, 0x0f]), "unsigned"),
    ];
    for (op, x, gives, why) in rows {
        check(op, &[], &[("x", x)], gives, why);
    }
}

#[test]
fn with_attributes() {
    let number = Attr::Float;
    let rows: Vec<(&str, Vec<(&str, Attr)>, A, A, &str)> = vec![
        (
            "leaky_relu",
            vec![("negative_slope", number(0.5))],
            f(&[-2.0, 2.0, NAN]),
            f(&[-1.0, 2.0, NAN]),
            "slope",
        ),
        (
            "elu",
            vec![("alpha", number(2.0))],
            f(&[-INF, 100.0, -0.0]),
            f(&[-2.0, 100.0, -0.0]),
            "exp may overflow",
        ),
        ("celu", vec![("alpha", number(2.0))], f(&[-INF, 1e30]), f(&[-2.0, 1e30]), "both ends"),
        (
            "softplus",
            vec![("beta", number(1.0)), ("threshold", number(20.0))],
            f(&[21.0, 1000.0, -INF]),
            f(&[21.0, 1000.0, 0.0]),
            "above the threshold",
        ),
        (
            "hardtanh",
            vec![("min_val", number(-1.0)), ("max_val", number(2.0))],
            f(&[-INF, 5.0, NAN, 0.5]),
            f(&[-1.0, 2.0, NAN, 0.5]),
            "NaN propagates",
        ),
        (
            "softshrink",
            vec![("lambd", number(0.5))],
            f(&[-1.0, 0.25, 1.0, NAN]),
            f(&[-0.5, 0.0, 0.5, NAN]),
            "NaN too",
        ),
        (
            "hardshrink",
            vec![("lambd", number(0.5))],
            f(&[-0.5, -1.0, NAN]),
            f(&[0.0, -1.0, NAN]),
            "the end is inside",
        ),
        (
            "threshold",
            vec![("threshold", number(1.0)), ("value", number(-3.0))],
            f(&[1.0, 1.5, NAN]),
            f(&[-3.0, 1.5, NAN]),
            "the threshold itself is replaced",
        ),
        (
            "logit",
            vec![("eps", Attr::Null)],
            f(&[0.0, 0.5, 1.0, 1.5]),
            f(&[-INF, 0.0, INF, NAN]),
            "inside only",
        ),
        ("gelu", vec![("approximate", Attr::Str("none".into()))], f(&[INF, 0.0]), f(&[INF, 0.0]), "erf"),
        (
            "gelu",
            vec![("approximate", Attr::Str("tanh".into()))],
            f(&[3e38, 0.0]),
            f(&[3e38, 0.0]),
            "x^3 overflows",
        ),
        (
            "clamp",
            vec![("min", number(1.0)), ("max", number(-1.0))],
            f(&[-5.0, 0.0, 5.0, NAN]),
            f(&[-1.0, -1.0, -1.0, NAN]),
            "min above max gives max",
        ),
        (
            "clamp",
            vec![("min", Attr::Str("-inf".into())), ("max", Attr::Null)],
            f(&[-INF]),
            f(&[-INF]),
            "no bound",
        ),
        (
            "clamp",
            vec![("min", Attr::Int(-3)), ("max", Attr::Int(i64::MAX))],
            array(&[-9i32, i32::MAX]),
            array(&[-3i32, i32::MAX]),
            "a bound outside of the dtype's range",
        ),
        (
            "cast",
            vec![("to", Attr::Str("I64".into()))],
            f(&[-1.9, 1.9, NAN]),
            i(&[-1, 1, 0]),
            "cut towards zero",
        ),
        (
            "cast",
            vec![("to", Attr::Str("bool".into()))],
            f(&[-0.0, TINY, NAN]),
            b(&[false, true, true]),
            "not zero",
        ),
        ("cast", vec![("to", Attr::Str("U8".into()))], i(&[256, -1]), array(&[0u8, 255]), "integers wrap"),
    ];
    for (op, attrs, x, gives, why) in rows {
        check(op, &attrs, &[("x", x)], gives, why);
    }
}

#[test]
fn binary() {
    let rows: Vec<(&str, A, A, A, &str)> = vec![
        ("add", f(&[-0.0, INF]), f(&[-0.0, -INF]), f(&[-0.0, NAN]), "IEEE 754"),
        ("add", array(&[i32::MAX]), array(&[1i32]), array(&[i32::MIN]), "integers wrap"),
        ("sub", array(&[0u8]), array(&[1u8]), array(&[255u8]), "unsigned integers wrap"),
        ("mul", f(&[0.0, -0.0]), f(&[INF, 1.0]), f(&[NAN, -0.0]), "0 times infinity"),
        ("div", f(&[1.0, -1.0, 0.0]), f(&[0.0, 0.0, 0.0]), f(&[INF, -INF, NAN]), "by zero"),
        ("div", i(&[7, 1]), i(&[2, 0]), f(&[3.5, INF]), "integers become f32"),
        ("maximum", f(&[NAN, 1.0, 0.0]), f(&[1.0, NAN, -0.0]), f(&[NAN, NAN, 0.0]), "NaN wins"),
        (
            "copysign",
            f(&[2.0, -2.0, -2.0, 0.0, NAN]),
            f(&[NAN, NAN, -NAN, -NAN, -1.0]),
            f(&[2.0, 2.0, 2.0, 0.0, NAN]),
            "NaN has no sign",
        ),
        ("minimum", f(&[NAN, 1.0, 0.0]), f(&[1.0, NAN, -0.0]), f(&[NAN, NAN, -0.0]), "NaN wins"),
        (
            "fmod",
            f(&[-5.5, 5.5, 1.0, INF]),
            f(&[2.0, -2.0, 0.0, 1.0]),
            f(&[-1.5, 1.5, NAN, NAN]),
            "sign of x",
        ),
        ("fmod", i(&[-7, 7, 7]), i(&[2, -2, 0]), i(&[-1, 1, 0]), "integers; by zero"),
        (
            "remainder",
            f(&[-5.5, 5.5, -4.0, -1.0]),
            f(&[2.0, -2.0, 2.0, INF]),
            f(&[0.5, -0.5, -0.0, INF]),
            "sign of y",
        ),
        ("remainder", i(&[-7, 7, 7]), i(&[2, -2, 0]), i(&[1, -1, 0]), "integers; by zero"),
        ("floor_divide", f(&[-7.0, 7.0, -0.3]), f(&[2.0, 0.0, 1.0]), f(&[-4.0, INF, -1.0]), "down; by zero"),
        ("floor_divide", f(&[16777215.0]), f(&[0.99999994]), f(&[16777216.0]), "a large quotient"),
        (
            "floor_divide",
            i(&[-7, 7, i64::MIN, 1]),
            i(&[2, -2, -1, 0]),
            i(&[-4, -4, i64::MIN, 0]),
            "down; wraps",
        ),
        ("pow", f(&[NAN, 1.0, 0.0, -2.0]), f(&[0.0, NAN, -1.0, 3.0]), f(&[1.0, 1.0, INF, -8.0]), "IEEE 754"),
        ("pow", f(&[-2.0, -0.0]), f(&[0.5, 3.0]), f(&[NAN, -0.0]), "roots; odd powers"),
        (
            "pow",
            i(&[2, -1, -1, 1, 0, 3]),
            i(&[64, -3, -2, -9, -1, -1]),
            i(&[0, -1, 1, 1, 0, 0]),
            "negative exponents",
        ),
        ("atan2", f(&[0.0, -0.0]), f(&[1.0, 1.0]), f(&[0.0, -0.0]), "the sign of zero chooses the side"),
        ("copysign", f(&[1.0, NAN]), f(&[-0.0, 1.0]), f(&[-1.0, NAN]), "-0 is negative"),
        ("eq", f(&[NAN, 0.0]), f(&[NAN, -0.0]), b(&[false, true]), "IEEE 754"),
        ("ne", f(&[NAN, 0.0]), f(&[NAN, -0.0]), b(&[true, false]), "IEEE 754"),
        ("lt", f(&[NAN, TINY]), f(&[1.0, 0.0]), b(&[false, false]), "subnormals are not zero"),
        ("ge", f(&[NAN, TINY]), f(&[1.0, 0.0]), b(&[false, true]), "subnormals are not zero"),
        ("le", b(&[true, false]), b(&[false, true]), b(&[false, true]), "false is less than true"),
        ("gt", i(&[i64::MAX]), i(&[i64::MAX - 1]), b(&[true]), "more digits than a float has"),
        ("logical_and", f(&[NAN, 0.0]), f(&[TINY, 1.0]), b(&[true, false]), "NaN and subnormals are true"),
        ("logical_or", i(&[0, 2]), i(&[0, 0]), b(&[false, true]), "integers"),
        ("logical_xor", i(&[1, 2]), i(&[2, 0]), b(&[false, true]), "truth values, not bits"),
        ("bitwise_and", i(&[12]), i(&[10]), i(&[8]), "bits"),
        ("bitwise_or", b(&[true]), b(&[false]), b(&[true]), "logical for bool"),
        ("bitwise_xor", i(&[-1]), i(&[1]), i(&[-2]), "two's complement"),
        ("shift_left", i(&[1, 1, 1]), i(&[63, 64, -1]), i(&[i64::MIN, 0, 0]), "all bits gone"),
        ("shift_right", i(&[-8, -8, 8]), i(&[1, 64, 64]), i(&[-4, -1, 0]), "the sign stays"),
        ("shift_right", array(&[0x80u8]), array(&[8u8]), array(&[0u8]), "unsigned"),
    ];
    for (op, x, y, gives, why) in rows {
        let attrs = if op == "div" { vec![("rounding_mode", Attr::Null)] } else { vec![] };
        check(op, &attrs, &[("x", x), ("y", y)], gives, why);
    }
}

/// A constant exponent whose power is a product or a quotient: IEEE 754's special values, and
/// one rounding for each multiplication or division.
#[test]
fn powers_by_a_number() {
    let x = f(&[0.0, -0.0, INF, -INF, NAN, -3.0, 1e30, -1e-30, 1.1]);
    let tiny = 1e-30f32 * 1e-30;
    let rows = [
        (2.0, [0.0, 0.0, INF, INF, NAN, 9.0, INF, tiny, 1.1 * 1.1]),
        (3.0, [0.0, -0.0, INF, -INF, NAN, -27.0, INF, -0.0, 1.1 * 1.1 * 1.1]),
        (-1.0, [INF, -INF, 0.0, -0.0, NAN, 1.0 / -3.0, 1.0 / 1e30, 1.0 / -1e-30, 1.0 / 1.1]),
    ];
    for (y, want) in rows {
        for attr in [Attr::Float(y), Attr::Int(y as i64)] {
            let attrs = [("scalar", attr), ("scalar_side", Attr::Str("right".into()))];
            check("pow", &attrs, &[("x", x.clone())], f(&want), "a number");
        }
        // The tensor op is the function of two variables, whose special values are the same.
        let general = pow(&x, &x.full_like(y).unwrap()).unwrap();
        assert_eq!(show(&general)[..6], show(&f(&want))[..6], "to the power of {y}");
    }
    let left = [("scalar", Attr::Float(2.0)), ("scalar_side", Attr::Str("left".into()))];
    check("pow", &left, &[("x", f(&[-3.0, 0.5]))], f(&[0.125, 2f32.sqrt()]), "on the left it is the base");
    let whole = [("scalar", Attr::Int(-1)), ("scalar_side", Attr::Str("right".into()))];
    check("pow", &whole, &[("x", i(&[2, -1]))], i(&[0, -1]), "integers");
}

#[test]
fn rounded_quotients() {
    // The last quotient is 2.9999999, and as a float it is 3: the whole part is that of the exact
    // quotient.
    let (x, y) = (f(&[-7.0, 5.0, -0.0, -1.0, 3.873]), f(&[2.0, 0.0, 3.0, INF, 1.291]));
    assert_eq!(show(&div(&x, &y).unwrap())[4], "3.0");
    let rows = [
        (Attr::Str("trunc".into()), f(&[-3.0, INF, -0.0, -0.0, 2.0])),
        (Attr::Str("floor".into()), f(&[-4.0, INF, -0.0, -1.0, 2.0])),
    ];
    for (mode, gives) in rows {
        check(
            "div",
            &[("rounding_mode", mode)],
            &[("x", x.clone()), ("y", y.clone())],
            gives,
            "exact quotient",
        );
    }
}

#[test]
fn select_and_blend() {
    let c = b(&[true, false]);
    check(
        "where",
        &[],
        &[("cond", c.clone()), ("x", f(&[1.0, NAN])), ("y", f(&[NAN, -0.0]))],
        f(&[1.0, -0.0]),
        "NaN not taken",
    );
    check("where", &[], &[("cond", c.clone()), ("x", i(&[1, 2])), ("y", i(&[3, 4]))], i(&[1, 4]), "integers");
    check(
        "where",
        &[],
        &[("cond", c.clone()), ("x", b(&[true])), ("y", b(&[false]))],
        b(&[true, false]),
        "bool",
    );
    let fill = [("value", Attr::Str("-inf".into()))];
    check(
        "masked_fill",
        &fill,
        &[("x", f(&[NAN, 2.0])), ("mask", c.clone())],
        f(&[-INF, 2.0]),
        "NaN under the mask",
    );
    let (x, y) = (("x", f(&[1e8, 1.0])), ("y", f(&[1.0, 1e8])));
    check("lerp", &[("weight", Attr::Float(1.0))], &[x.clone(), y.clone()], f(&[1.0, 1e8]), "exactly y at 1");
    check("lerp", &[("weight", Attr::Int(0))], &[x, y], f(&[1e8, 1.0]), "exactly x at 0");
    let bounds = [("x", f(&[-2.0, 5.0])), ("min", f(&[-1.0, 3.0])), ("max", f(&[1.0, 2.0]))];
    check("clamp", &[], &bounds, f(&[-1.0, 2.0]), "tensor bounds; the upper one wins");
    let three = [("x", f(&[16777217.0, 3.0])), ("y", f(&[1.0, 1.0 / 3.0])), ("z", f(&[0.0, -1.0]))];
    check("fma", &[], &three, f(&[16777216.0, 3.0f32.mul_add(1.0 / 3.0, -1.0)]), "one rounding");
}

/// Error messages.
#[test]
fn errors() {
    let whole = Attr::Str("float".into());
    let rows: Vec<(&str, Vec<(&str, Attr)>, Vec<(&str, A)>, ErrorKind, &str)> = vec![
        ("exp", vec![], vec![("x", i(&[1]))], ErrorKind::DTypeMismatch, "exp: not defined for i64"),
        (
            "bitwise_and",
            vec![],
            vec![("x", f(&[1.0])), ("y", f(&[1.0]))],
            ErrorKind::DTypeMismatch,
            "bitwise_and",
        ),
        (
            "mul",
            vec![],
            vec![("x", f(&[1.0])), ("y", i(&[1]))],
            ErrorKind::DTypeMismatch,
            "mul: operands are",
        ),
        ("mul", vec![], vec![("x", f(&[1.0; 2])), ("y", f(&[1.0; 3]))], ErrorKind::ShapeMismatch, "mul"),
        (
            "where",
            vec![],
            vec![("cond", i(&[1])), ("x", i(&[1])), ("y", i(&[1]))],
            ErrorKind::DTypeMismatch,
            "cond is i64",
        ),
        (
            "clamp",
            vec![("min", Attr::Null)],
            vec![("x", f(&[1.0]))],
            ErrorKind::InvalidArgument,
            "neither min nor max",
        ),
        (
            "clamp",
            vec![("min", Attr::Float(0.5))],
            vec![("x", i(&[1]))],
            ErrorKind::DTypeMismatch,
            "the number 0.5 does not fit a tensor of i64",
        ),
        (
            "hardtanh",
            vec![("min_val", Attr::Float(2.0)), ("max_val", Attr::Float(1.0))],
            vec![("x", f(&[1.0]))],
            ErrorKind::InvalidArgument,
            "min_val 2 is above max_val 1",
        ),
        (
            "cast",
            vec![("to", whole)],
            vec![("x", f(&[1.0]))],
            ErrorKind::InvalidArgument,
            "no dtype \"float\"",
        ),
        ("neg", vec![], vec![], ErrorKind::InvalidArgument, "operand x is missing"),
        ("neg", vec![], vec![("x", b(&[true]))], ErrorKind::DTypeMismatch, "neg: not defined for bool"),
        (
            "sub",
            vec![],
            vec![("x", b(&[true])), ("y", b(&[true]))],
            ErrorKind::DTypeMismatch,
            "sub: not defined for bool; use logical_xor",
        ),
    ];
    for (op, attrs, inputs, kind, says) in rows {
        let e = call(op, &attrs, &inputs).expect_err(op);
        assert_eq!(e.kind(), kind, "{op}: {e}");
        assert!(e.to_string().contains(says), "{op}: {e}");
    }
}

/// The gradients of a map at one point, for g = 1.
fn gradient<M: CompiledMap<N>, const N: usize>(m: M, x: [f32; N]) -> Vec<f32> {
    let op = Pointwise::of(m);
    let x = x.map(|v| f(&[v]));
    let y = op.forward::<Reference>(&x.each_ref()).unwrap();
    let saves = op.saves(DType::F32);
    let operands: Vec<_> = x.iter().map(|a| (a.layout().clone(), a.dtype())).collect();
    let inputs: &[A] = if saves.inputs { &x } else { &[] };
    let outputs: &[A] = if saves.outputs { &y } else { &[] };
    let context = Context::new(inputs, outputs, &operands, &[true; N]);
    let g = y[0].full_like(1.0).unwrap();
    let all = op.backward(&context, &[Some(g)]).unwrap();
    let one = |a: Option<A>| f32::unwrap(a.unwrap().to_host().unwrap().into_data()).unwrap()[0];
    all.into_iter().map(one).collect()
}

/// Where a derivative is a convention, or where its formula could become NaN or infinite.
#[test]
fn gradients() {
    let rows: Vec<(&str, Vec<f32>, Vec<f32>)> = vec![
        ("abs at 0", gradient(abs::Abs, [0.0]), vec![0.0]),
        ("sign", gradient(sign::Sign, [3.0]), vec![0.0]),
        ("floor", gradient(floor::Floor, [3.5]), vec![0.0]),
        ("frac", gradient(frac::Frac, [3.5]), vec![1.0]),
        ("sqrt at 0", gradient(sqrt::Sqrt, [0.0]), vec![INF]),
        ("relu at 0", gradient(relu::Relu, [0.0]), vec![0.0]),
        ("relu below", gradient(relu::Relu, [-1.0]), vec![0.0]),
        ("relu at NaN", gradient(relu::Relu, [NAN]), vec![1.0]),
        ("relu6 at NaN", gradient(relu6::Relu6, [NAN]), vec![1.0]),
        ("relu6 at its ends", gradient(relu6::Relu6, [6.0]), vec![0.0]),
        ("hardtanh at NaN", gradient(hardtanh::Hardtanh { min_val: -1.0, max_val: 1.0 }, [NAN]), vec![1.0]),
        (
            "hardtanh at its end",
            gradient(hardtanh::Hardtanh { min_val: -1.0, max_val: 1.0 }, [-1.0]),
            vec![0.0],
        ),
        ("hardshrink at NaN", gradient(hardshrink::Hardshrink { lambd: 0.5 }, [NAN]), vec![1.0]),
        ("hardshrink at its bound", gradient(hardshrink::Hardshrink { lambd: 0.5 }, [-0.5]), vec![0.0]),
        ("softshrink at NaN", gradient(softshrink::Softshrink { lambd: 0.5 }, [NAN]), vec![1.0]),
        ("softshrink at its bound", gradient(softshrink::Softshrink { lambd: 0.5 }, [0.5]), vec![0.0]),
        ("threshold at NaN", gradient(threshold::Threshold { threshold: 0.5, value: 2.0 }, [NAN]), vec![1.0]),
        ("logit, bounds crossed", gradient(logit::Logit { eps: Some(0.6) }, [0.5]), vec![0.0]),
        ("relu6 inside", gradient(relu6::Relu6, [5.0]), vec![1.0]),
        ("leaky_relu at 0", gradient(leaky_relu::LeakyRelu { negative_slope: 0.25 }, [0.0]), vec![0.25]),
        ("elu at 0", gradient(elu::Elu { alpha: 0.5 }, [0.0]), vec![0.5]),
        ("elu, exp overflows", gradient(elu::Elu { alpha: 0.5 }, [200.0]), vec![1.0]),
        ("celu at 0", gradient(celu::Celu { alpha: 0.5 }, [0.0]), vec![1.0]),
        ("silu far out", gradient(silu::Silu, [INF]), vec![1.0]),
        ("mish far out", gradient(mish::Mish, [200.0]), vec![1.0]),
        ("mish below", gradient(mish::Mish, [-INF]), vec![0.0]),
        ("hardswish at 3", gradient(hardswish::Hardswish, [3.0]), vec![1.0]),
        ("hardswish at -3", gradient(hardswish::Hardswish, [-3.0]), vec![0.0]),
        ("softplus, linear", gradient(softplus::Softplus { beta: 2.0, threshold: 20.0 }, [11.0]), vec![1.0]),
        ("gelu far out", gradient(gelu::GeluTanh, [1e20]), vec![1.0]),
        ("gelu below", gradient(gelu::Gelu, [-1e20]), vec![0.0]),
        ("hardtanh outside", gradient(hardtanh::Hardtanh { min_val: -1.0, max_val: 1.0 }, [2.0]), vec![0.0]),
        ("square, 2 x overflows", gradient(square::Square, [2e38]), vec![INF]),
        ("maximum", gradient(maximum::Maximum, [1.0, 2.0]), vec![0.0, 1.0]),
        ("maximum, tie", gradient(maximum::Maximum, [2.0, 2.0]), vec![0.5, 0.5]),
        ("minimum, tie of zeros", gradient(minimum::Minimum, [0.0, -0.0]), vec![0.5, 0.5]),
        ("fmod", gradient(fmod::Fmod, [-7.0, 2.0]), vec![1.0, 3.0]),
        ("fmod, the quotient rounds up", gradient(fmod::Fmod, [3.873, 1.291]), vec![1.0, -2.0]),
        ("remainder", gradient(remainder::Remainder, [-7.0, 2.0]), vec![1.0, 4.0]),
        ("div trunc", gradient(div::DivWhole { floor: false }, [7.0, 2.0]), vec![0.0, 0.0]),
        ("div", gradient(div::Div, [8.0, 2.0]), vec![0.5, -2.0]),
        ("div, y^2 overflows", gradient(div::Div, [1e30, 1e30]), vec![1e-30, -1e-30]),
        ("pow 0^0", gradient(pow::Pow, [0.0, 0.0]), vec![0.0, 0.0]),
        ("pow 0^2", gradient(pow::Pow, [0.0, 2.0]), vec![0.0, 0.0]),
        ("pow 0^1", gradient(pow::Pow, [0.0, 1.0]), vec![1.0, 0.0]),
        ("pow 0^-1", gradient(pow::Pow, [0.0, -1.0]), vec![-INF, -INF]),
        ("cube", gradient(pow::Cube, [-2.0]), vec![12.0]),
        ("pow of a negative", gradient(pow::Pow, [-2.0, 3.0]), vec![12.0, NAN]),
        ("atan2 at the origin", gradient(atan2::Atan2, [0.0, 0.0]), vec![0.0, 0.0]),
        ("atan2, squares overflow", gradient(atan2::Atan2, [1e30, 0.0]), vec![0.0, -1e-30]),
        ("copysign", gradient(copysign::Copysign, [-2.0, 1.0]), vec![-1.0, 0.0]),
        ("clamp inside", gradient(clamp::ClampBoth, [0.0, -1.0, 1.0]), vec![1.0, 0.0, 0.0]),
        ("clamp below", gradient(clamp::ClampBoth, [-2.0, -1.0, 1.0]), vec![0.0, 1.0, 0.0]),
        ("clamp, bounds crossed", gradient(clamp::ClampBoth, [0.0, 1.0, -1.0]), vec![0.0, 0.0, 1.0]),
        ("where, NaN not taken", gradient(where_::Where, [1.0, 2.0, NAN]), vec![0.0, 1.0, 0.0]),
        ("fma", gradient(fma::Fma, [2.0, 3.0, 5.0]), vec![3.0, 2.0, 1.0]),
    ];
    for (what, got, want) in rows {
        let same = |(a, b): (&f32, &f32)| a == b || (a.is_nan() && b.is_nan());
        assert!(got.iter().zip(&want).all(same), "{what}: got {got:?}, should be {want:?}");
    }
}

/// The written gradients against the dual reading of the formulas, away from corners.
#[test]
fn gradients_agree_with_duals() {
    fn agree<M: Map<N>, const N: usize>(m: M, points: &[f64]) {
        for &p in points {
            let x: [f64; N] = std::array::from_fn(|k| p + 0.3 * k as f64);
            let y = m.lane(x);
            for i in 0..N {
                let nan = f64::NAN;
                let (xs, ys) =
                    (if M::SAVES.inputs { x } else { [nan; N] }, if M::SAVES.outputs { y } else { nan });
                let (got, want) = (m.vjp(i, xs, ys, 1.5), 1.5 * elinvar_ops::map::dual(&m, i, x));
                assert!(
                    (got - want).abs() <= 1e-12 * (1.0 + want.abs()),
                    "{} by {i} at {x:?}: {got}, {want}",
                    M::NAME
                );
            }
        }
    }
    let (all, inner, positive) =
        (&[-2.3, -0.4, 0.2, 0.9, 4.1][..], &[-0.6, 0.2, 0.65][..], &[0.2, 0.9, 4.1][..]);
    agree(exp2::Exp2, all);
    agree(expm1::Expm1, all);
    agree(log::Log, positive);
    agree(log2::Log2, positive);
    agree(log10::Log10, positive);
    agree(log1p::Log1p, positive);
    agree(sqrt::Sqrt, positive);
    agree(rsqrt::Rsqrt, positive);
    agree(reciprocal::Reciprocal, all);
    agree(square::Square, all);
    agree(sin::Sin, all);
    agree(cos::Cos, all);
    agree(tan::Tan, inner);
    agree(asin::Asin, inner);
    agree(acos::Acos, inner);
    agree(atan::Atan, all);
    agree(sinh::Sinh, all);
    agree(cosh::Cosh, all);
    agree(tanh::Tanh, all);
    agree(erf::Erf, all);
    agree(asinh::Asinh, all);
    agree(acosh::Acosh, &[1.1, 1.5, 3.0, 20.0]);
    agree(atanh::Atanh, inner);
    agree(erfc::Erfc, all);
    agree(erfcx::Erfcx, &[-1.5, 0.3, 0.7, 2.0]);
    agree(erfinv::Erfinv, inner);
    agree(ndtr::Ndtr, all);
    agree(log_ndtr::LogNdtr, all);
    agree(ndtri::Ndtri, &[0.1, 0.2, 0.4, 0.7, 0.9]);
    agree(lgamma::Lgamma, positive);
    agree(digamma::Digamma, positive);
    agree(entr::Entr, positive);
    agree(hypot::Hypot, positive);
    agree(xlogy::Xlogy, positive);
    agree(xlog1py::Xlog1py, positive);
    agree(fmax::Fmax, positive);
    agree(fmin::Fmin, positive);
    agree(sigmoid::Sigmoid, all);
    agree(log_sigmoid::LogSigmoid, all);
    agree(logit::Logit { eps: None }, &[0.1, 0.2, 0.4, 0.7, 0.9]);
    agree(elu::Elu { alpha: 1.3 }, all);
    agree(celu::Celu { alpha: 1.3 }, all);
    agree(selu::Selu, all);
    agree(gelu::Gelu, all);
    agree(gelu::GeluTanh, all);
    agree(silu::Silu, all);
    agree(mish::Mish, all);
    agree(softplus::Softplus { beta: 1.7, threshold: 5.0 }, all);
    agree(softsign::Softsign, all);
    agree(hardswish::Hardswish, all);
    agree(hardsigmoid::Hardsigmoid, all);
    agree(softshrink::Softshrink { lambd: 0.5 }, all);
    agree(tanhshrink::Tanhshrink, all);
    agree(mul::Mul, all);
    agree(div::Div, all);
    agree(fmod::Fmod, all);
    agree(remainder::Remainder, all);
    agree(pow::Pow, positive);
    agree(pow::Cube, all);
    agree(maximum::Maximum, all);
    agree(minimum::Minimum, all);
    agree(atan2::Atan2, all);
    agree(copysign::Copysign, &[-2.3, 0.2, 0.9]);
    agree(fma::Fma, all);
    agree(lerp::Lerp, all);
    agree(lerp::LerpBy { weight: 0.3 }, all);
    agree(addcmul::Addcmul { value: -0.7 }, all);
}

/// Half precision is computed in f32 and rounded once, at the end, in the gradient too.
#[test]
fn halves_round_once() {
    use half::f16;
    let x: Vec<f16> = (0..200).map(|k| f16::from_f32(k as f32 * 0.037 - 3.7)).collect();
    let y = silu(&array(&x)).unwrap();
    let want: Vec<f16> = x.iter().map(|v| f16::from_f32(silu::Silu.lane([v.to_f32()]))).collect();
    assert_eq!(show(&y), show(&array(&want)));
    let op = Pointwise::of(tanh::Tanh);
    assert!(op.saves(DType::F16).inputs, "a gradient from a rounded result would be too coarse");
    let (x, g) = (array(&x), array(&vec![f16::from_f32(0.7); 200]));
    let (inputs, operands) = ([x.clone()], [(x.layout().clone(), DType::F16)]);
    let c = Context::new(&inputs, &[], &operands, &[true]);
    let got = op.backward(&c, &[Some(g)]).unwrap().remove(0).unwrap();
    let one = |v: &f16| {
        let t = Lane::tanh(v.to_f32());
        f16::from_f32(f16::from_f32(0.7).to_f32() * ((1.0 - t) * (1.0 + t)))
    };
    let want: Vec<f16> = f16::unwrap(x.to_host().unwrap().into_data()).unwrap().iter().map(one).collect();
    assert_eq!(show(&got), show(&array(&want)));
}

/// Integers of all sizes and distances, against the definition in integers that hold every number.
#[test]
fn integers_are_close_by_their_exact_distance() {
    let near = |v: i64| (-2..=2).map(move |k| v.wrapping_add(k));
    let some = [0, 1 << 24, 1 << 31, 1 << 53, 1 << 62, i64::MIN, -(1 << 53)];
    let all: Vec<i64> = some.into_iter().flat_map(near).collect();
    let pairs = all.iter().flat_map(|x| all.iter().map(move |y| (*x, *y)));
    let (x, y): (Vec<i64>, Vec<i64>) = pairs.unzip();
    let rtols = [0.0, 1e-300, 2f64.powi(-53), 1e-5, 0.5, 1.0, 3.0, 1e300, INF.into()];
    let atols = [0.0, 0.5, 1.0, 2f64.powi(62), 2f64.powi(63), 1.5 * 2f64.powi(63), 2f64.powi(64), INF.into()];
    for dtype in [DType::I64, DType::I32, DType::U8, DType::Bool] {
        let [x, y] = [&x, &y].map(|v| i(v).cast(dtype).unwrap());
        let [u, v] = [&x, &y].map(|v| match v.cast(DType::I64).unwrap().to_host().unwrap().into_data() {
            HostData::I64(v) => v,
            other => panic!("{other:?}"),
        });
        for (rtol, atol) in rtols.into_iter().flat_map(|r| atols.map(|a| (r, a))) {
            let is_close = |(x, y): (&i64, &i64)| {
                let allowed = atol + (rtol * *y as f64).abs();
                let within = (i128::from(*x) - i128::from(*y)).unsigned_abs() <= allowed as u128;
                x == y || (within && !allowed.is_nan())
            };
            let want: Vec<bool> = u.iter().zip(&v).map(is_close).collect();
            let got = isclose(&x, &y, rtol, atol, false).unwrap();
            assert_eq!(show(&got), show(&b(&want)), "{dtype}, rtol {rtol}, atol {atol}");
            let all = allclose(&x, &y, rtol, atol, false).unwrap();
            assert_eq!(all.to_host().unwrap().to_f64_vec(), [f64::from(want.iter().all(|c| *c))], "{dtype}");
        }
    }
}
