//! Derivatives of derivatives: the cases of `grad_grad`.
//!
//! Such a case gives x0, x1, ... and g. Its results are the gradients G_i of sum(g *
//! f(x0, x1, ...)) by each x_i, recorded while they are computed; the gradients of these, by the x
//! and by g, are of second order.

use crate::execute::{gradients, or_zero};
use crate::view::call1;
use elinvar_core::{Error, Result};
use elinvar_ops::args::{Args, Attr};
use elinvar_ops::{Backend, Value};
use elinvar_tensor::{Backward, Tensor};

/// The name under which these cases stand in an index.
pub const NAME: &str = "grad_grad";

/// The gradients G_i, recorded.
///
/// # Errors
/// Those of the function and its gradient; `InvalidArgument` if there is no such function.
pub fn call<B: Backend>(a: &Args<Tensor<B>>) -> Result<Vec<Tensor<B>>> {
    let x: Vec<Tensor<B>> = a.all("x").into_iter().cloned().collect();
    let y = function(a.str("function")?, &x)?;
    let seed = Some(a.input("g")?.clone());
    let first = gradients(&[(&y, &seed)], Backward { retain_graph: true, create_graph: true })?;
    x.iter().map(|x| or_zero(&first, x)).collect()
}

/// The functions by name.
fn function<V: Value>(name: &str, x: &[V]) -> Result<V> {
    let missing = || Error::argument(format!("{NAME}: {name} lacks an operand"));
    let x = |i: usize| x.get(i).ok_or_else(missing);
    let unary = |op: &str, x: &V| call1(op, vec![("x", x.clone())], vec![]);
    let binary = |op: &str, x: &V, y: &V| call1(op, vec![("x", x.clone()), ("y", y.clone())], vec![]);
    let last = || Attr::Int(-1);
    match name {
        "cube_sum" => {
            let cube = binary("mul", &binary("mul", x(0)?, x(0)?)?, x(0)?)?;
            call1("sum", vec![("x", cube)], vec![("dim", Attr::Null), ("keepdim", Attr::Bool(false))])
        }
        "exp" | "tanh" | "sigmoid" | "log" => unary(name, x(0)?),
        "sin_mul" => unary("sin", &binary("mul", x(0)?, x(1)?)?),
        "div" => {
            let operands = vec![("x", x(0)?.clone()), ("y", x(1)?.clone())];
            call1("div", operands, vec![("rounding_mode", Attr::Null)])
        }
        "matmul" => binary("matmul", x(0)?, x(1)?),
        "softmax" | "log_softmax" => call1(name, vec![("x", x(0)?.clone())], vec![("dim", last())]),
        "layer_norm" => {
            let size = *x(0)?.shape().last().ok_or_else(missing)?;
            let operands = vec![("x", x(0)?.clone()), ("weight", x(1)?.clone()), ("bias", x(2)?.clone())];
            let normalized = Attr::List(vec![Attr::Int(size as i64)]);
            call1("layer_norm", operands, vec![("normalized_shape", normalized), ("eps", Attr::Float(1e-5))])
        }
        "mlp" => {
            let hidden = unary("tanh", &binary("add", &binary("matmul", x(0)?, x(1)?)?, x(2)?)?)?;
            binary("add", &binary("matmul", &hidden, x(3)?)?, x(4)?)
        }
        "gelu" => {
            call1("gelu", vec![("x", x(0)?.clone())], vec![("approximate", Attr::Str("none".to_string()))])
        }
        "conv2d" => {
            let both = |v: i64| Attr::List(vec![Attr::Int(v), Attr::Int(v)]);
            let attrs = vec![
                ("stride", both(1)),
                ("padding", both(1)),
                ("dilation", both(1)),
                ("groups", Attr::Int(1)),
            ];
            call1("conv2d", vec![("x", x(0)?.clone()), ("weight", x(1)?.clone())], attrs)
        }
        "cumsum_exp" => call1("cumsum", vec![("x", unary("exp", x(0)?)?)], vec![("dim", last())]),
        other => Err(Error::argument(format!("{NAME}: there is no function {other}"))),
    }
}
