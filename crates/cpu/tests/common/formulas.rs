//! Every elementwise op of the catalogue, by name; shared by tests of several backends.

use elinvar_core::DType;
use elinvar_ops::Value;
use elinvar_ops::args::{Args, Attr};
use std::collections::BTreeMap;

/// Names of ops, their operands, and attributes that choose another formula.
#[rustfmt::skip]
pub const OPS: &[(&str, &[&str], &[&str])] = &[
    ("abs neg sign square floor ceil round trunc frac relu relu6 isnan isinf isfinite logical_not bitwise_not \
      exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc \
      erfcx erfinv ndtr log_ndtr ndtri lgamma digamma entr sinc frexp rrelu sigmoid \
      log_sigmoid logit leaky_relu elu celu selu silu mish softplus softsign hardtanh hardswish hardsigmoid \
      softshrink hardshrink tanhshrink threshold clamp", &["x"], &[""]),
    ("heaviside", &["x", "values"], &[""]),
    ("gelu", &["x"], &["approximate=none", "approximate=tanh"]),
    ("add sub mul floor_divide fmod remainder pow maximum minimum atan2 hypot xlogy xlog1py ldexp fmax fmin copysign eq ne lt le gt ge logical_and \
      logical_or logical_xor bitwise_and bitwise_or bitwise_xor shift_left shift_right", &["x", "y"], &[""]),
    ("pow", &["x"], &["scalar=2,scalar_side=right", "scalar=3,scalar_side=right", "scalar=-1,scalar_side=right",
      "scalar=2.5,scalar_side=right", "scalar=2,scalar_side=left"]),
    ("div", &["x", "y"], &["", "rounding_mode=trunc", "rounding_mode=floor"]),
    ("lerp", &["x", "y"], &[""]),
    ("lerp", &["x", "y", "weight"], &[""]),
    ("fma", &["x", "y", "z"], &[""]),
    ("addcmul", &["x", "t1", "t2"], &[""]),
    ("where", &["cond", "x", "y"], &[""]),
    ("masked_fill", &["x", "mask"], &[""]),
    ("clamp", &["x", "min", "max"], &[""]),
    ("mse_loss l1_loss smooth_l1_loss huber_loss hinge_embedding_loss binary_cross_entropy \
      binary_cross_entropy_with_logits kl_div", &["x", "target"], &["reduction=none"]),
];

fn attributes(choice: &str) -> BTreeMap<String, Attr> {
    let numbers = [
        ("negative_slope", 0.3),
        ("alpha", 1.25),
        ("beta", 1.5),
        ("delta", 0.75),
        ("margin", 0.5),
        ("threshold", 0.25),
        ("lambd", 0.5),
        ("min_val", -0.7),
        ("max_val", 0.9),
        ("min", -1.0),
        ("max", 1.0),
        ("value", 2.0),
        ("weight", 0.3),
        ("eps", 0.01),
    ];
    let mut all: BTreeMap<String, Attr> = numbers.map(|(k, v)| (k.to_string(), Attr::Float(v))).into();
    all.insert("log_target".into(), Attr::Bool(false));
    for (name, value) in choice.split(',').filter_map(|c| c.split_once('=')) {
        let attr = value.parse().map_or_else(|_| Attr::Str(value.into()), Attr::Float);
        all.insert(name.into(), attr);
    }
    all
}

/// What kind an operand is of, for an op on `dtype`.
pub fn kind(role: &str, dtype: DType) -> DType {
    if role == "cond" || role == "mask" { DType::Bool } else { dtype }
}

/// A call of an op by name.
pub fn args<V: Value>(name: &str, roles: &[&str], choice: &str, x: Vec<V>) -> Args<V> {
    let mut attrs = attributes(choice);
    attrs.retain(|k, _| !roles.contains(&k.as_str()));
    Args { op: name.into(), inputs: roles.iter().map(|r| r.to_string()).zip(x).collect(), attrs }
}
