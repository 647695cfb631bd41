//! Ops whose kernels loop, on operands that make the loops long: many sources of one target, long
//! contractions, large windows. A device may end a loop that it takes for endless; so this is a
//! suite of its own, in which few elements have much to do.

use crate::compare::bits;
use crate::execute::{gradients, or_zero};
use crate::guard::caught;
use elinvar_core::philox::{Stream, unit_f32};
use elinvar_core::{HostData, HostTensor, Result, Shape};
use elinvar_ops::args::{Args, Attr};
use elinvar_ops::{Backend, catalogue};
use elinvar_reference::Reference;
use elinvar_tensor::{Backward, Tensor};

/// An op with its operands.
#[derive(Clone, Debug)]
pub struct LongCase {
    /// The op's name.
    pub op: &'static str,
    /// Operands, and whether the gradient by them is asked for.
    inputs: Vec<(&'static str, HostTensor, bool)>,
    attrs: Vec<(&'static str, Attr)>,
    /// Is there much to do for many invocations, not only for a few?
    pub wide: bool,
}

impl LongCase {
    /// The results of the op, and the gradients.
    ///
    /// # Errors
    /// Those of the op.
    pub fn run<B: Backend>(&self, device: &B::Device) -> Result<Vec<HostTensor>> {
        let mut leaves = Vec::new();
        for (_, x, variable) in &self.inputs {
            let x = Tensor::<B>::from_host(x.clone(), device)?;
            leaves.push(if *variable { x.requires_grad() } else { x });
        }
        let names = self.inputs.iter().map(|(name, ..)| name.to_string());
        let args = Args {
            op: self.op.to_string(),
            inputs: names.zip(leaves.iter().cloned()).collect(),
            attrs: self.attrs.iter().map(|(name, a)| (name.to_string(), a.clone())).collect(),
        };
        let outputs = catalogue::call(&args)?;
        let mut all = outputs.iter().map(Tensor::to_host).collect::<Result<Vec<_>>>()?;
        let tracked = outputs.first().filter(|y| y.is_tracked());
        if let Some(y) = tracked {
            let seed = Some(Tensor::from_host(noise(y.shape(), 99)?, device)?);
            let found = gradients(&[(y, &seed)], Backward::default())?;
            for (leaf, (_, _, variable)) in leaves.iter().zip(&self.inputs) {
                if *variable {
                    all.push(or_zero(&found, leaf)?.to_host()?);
                }
            }
        }
        Ok(all)
    }
}

fn noise(shape: &Shape, stream: u64) -> Result<HostTensor> {
    let s = Stream { seed: 11, stream };
    let data = (0..shape.numel() as u64).map(|i| unit_f32(s.word(i)) * 2.0 - 1.0).collect();
    HostTensor::new(shape.clone(), HostData::F32(data))
}

/// Numbers below `most`, nearly all of them the same.
fn indices(n: usize, most: i64) -> Result<HostTensor> {
    let s = Stream { seed: 12, stream: 1 };
    let one = |i: u64| if i % 1009 == 5 { i64::from(s.word(i)) % most } else { most / 2 };
    HostTensor::new(Shape::new(&[n])?, HostData::I64((0..n as u64).map(one).collect()))
}

/// The cases: of `n` terms, sources or taps each.
///
/// # Errors
/// `ShapeMismatch` if a shape is too large.
pub fn cases(n: usize) -> Result<Vec<LongCase>> {
    let mut all = Vec::new();
    let mut stream = 0;
    let mut x = |dims: &[usize]| {
        stream += 1;
        noise(&Shape::new(dims)?, stream)
    };
    let int = |v: i64| Attr::Int(v);
    let one = |v: usize| Attr::List(vec![Attr::Int(v as i64)]);
    let mut case =
        |op, inputs: Vec<(&'static str, HostTensor, bool)>, attrs: Vec<(&'static str, Attr)>, wide| {
            all.push(LongCase { op, inputs, attrs, wide });
        };
    let keep = || ("keepdim", Attr::Bool(false));

    // Many sources of one target.
    let at = || indices(n, 3);
    case(
        "index_add",
        vec![("x", x(&[3])?, true), ("index", at()?, false), ("src", x(&[n])?, true)],
        vec![("dim", int(0)), ("alpha", Attr::Float(1.0))],
        true,
    );
    case(
        "scatter_add",
        vec![("x", x(&[3])?, true), ("index", at()?, false), ("src", x(&[n])?, true)],
        vec![("dim", int(0))],
        true,
    );
    case("bincount", vec![("x", at()?, false)], vec![("min_length", int(0))], true);
    case("gather", vec![("x", x(&[3])?, true), ("index", at()?, false)], vec![("dim", int(0))], true);
    case(
        "index_select",
        vec![("x", x(&[3, 2])?, true), ("index", at()?, false)],
        vec![("dim", int(0))],
        true,
    );
    case(
        "embedding",
        vec![("index", at()?, false), ("weight", x(&[3, 2])?, true)],
        vec![("padding_idx", Attr::Null)],
        true,
    );

    // Folds, scans, rows, sorts.
    for op in ["sum", "prod", "amax", "amin", "mean"] {
        case(op, vec![("x", x(&[2, n])?, true)], vec![("dim", int(1)), keep()], false);
        case(op, vec![("x", x(&[n, 2])?, true)], vec![("dim", int(0)), keep()], false);
    }
    for op in ["argmax", "argmin"] {
        case(op, vec![("x", x(&[2, n])?, false)], vec![("dim", int(1)), keep()], false);
    }
    for op in ["cumsum", "cumprod"] {
        case(op, vec![("x", x(&[2, n])?, true)], vec![("dim", int(1))], false);
        case(op, vec![("x", x(&[n, 2])?, true)], vec![("dim", int(0))], false);
    }
    for op in ["softmax", "log_softmax"] {
        case(op, vec![("x", x(&[2, n])?, true)], vec![("dim", int(1))], true);
    }
    case("logsumexp", vec![("x", x(&[2, n])?, true)], vec![("dim", int(1)), keep()], true);
    case("norm", vec![("x", x(&[2, n])?, true)], vec![("p", int(2)), ("dim", int(1)), keep()], false);
    case("var", vec![("x", x(&[2, n])?, true)], vec![("correction", int(1)), ("dim", int(1)), keep()], false);
    case(
        "layer_norm",
        vec![("x", x(&[2, n])?, true)],
        vec![("normalized_shape", one(n)), ("eps", Attr::Float(1e-5))],
        true,
    );
    case(
        "argsort",
        vec![("x", x(&[n])?, false)],
        vec![("dim", int(0)), ("descending", Attr::Bool(false))],
        true,
    );
    case("nonzero", vec![("x", x(&[n])?, false)], vec![], false);
    case("unique", vec![("x", at()?, false)], vec![("dim", Attr::Null)], true);

    // Contractions.
    case("matmul", vec![("x", x(&[2, n])?, true), ("y", x(&[n, 3])?, true)], vec![], false);
    case("dot", vec![("x", x(&[n])?, true), ("y", x(&[n])?, true)], vec![], false);
    let conv = |op, x, w, by_x: bool, more: Option<(&'static str, Attr)>| {
        let mut attrs =
            vec![("stride", one(1)), ("padding", one(0)), ("dilation", one(1)), ("groups", int(1))];
        attrs.extend(more);
        (op, vec![("x", x, by_x), ("weight", w, true)], attrs)
    };
    // Over channels, over places, over taps.
    for (a, w, by_x) in
        [([1, n, 3], [2, n, 2], true), ([1, 1, n], [2, 1, 3], true), ([1, 1, n + 2], [2, 1, n], false)]
    {
        let (op, inputs, attrs) = conv("conv1d", x(&a)?, x(&w)?, by_x, None);
        case(op, inputs, attrs, false);
    }
    let padding = ("output_padding", one(0));
    let (op, inputs, attrs) = conv("conv_transpose1d", x(&[1, n, 3])?, x(&[n, 2, 2])?, true, Some(padding));
    case(op, inputs, attrs, false);

    // Windows.
    for op in ["max_pool1d", "avg_pool1d"] {
        let mut attrs = vec![
            ("kernel_size", one(n)),
            ("stride", one(1)),
            ("padding", one(0)),
            ("ceil_mode", Attr::Bool(false)),
        ];
        attrs.push(if op == "max_pool1d" {
            ("dilation", one(1))
        } else {
            ("count_include_pad", Attr::Bool(true))
        });
        case(op, vec![("x", x(&[1, 1, n + 2])?, true)], attrs, false);
    }
    // A square window of about as many, in a plane that is a little larger.
    let side = n.isqrt();
    let both = |v: usize| Attr::List(vec![Attr::Int(v as i64); 2]);
    case(
        "max_pool2d",
        vec![("x", x(&[1, 1, side + 1, side + 1])?, true)],
        vec![
            ("kernel_size", both(side)),
            ("stride", both(1)),
            ("padding", both(0)),
            ("dilation", both(1)),
            ("ceil_mode", Attr::Bool(false)),
        ],
        false,
    );
    // Elements in many windows.
    case("adaptive_avg_pool1d", vec![("x", x(&[1, 1, 2])?, true)], vec![("output_size", one(n))], false);
    case("adaptive_max_pool1d", vec![("x", x(&[1, 1, 2])?, true)], vec![("output_size", one(n))], false);
    for (mode, align) in [("nearest", Attr::Null), ("linear", Attr::Bool(false))] {
        case(
            "interpolate",
            vec![("x", x(&[1, 1, 2])?, true)],
            vec![
                ("size", one(n)),
                ("scale_factor", Attr::Null),
                ("mode", Attr::Str(mode.into())),
                ("align_corners", align),
            ],
            false,
        );
    }

    // Attention: many keys, and many queries.
    for (queries, keys) in [(2, n), (n, 2)] {
        let operands = vec![
            ("q", x(&[1, 1, queries, 4])?, true),
            ("k", x(&[1, 1, keys, 4])?, true),
            ("v", x(&[1, 1, keys, 4])?, true),
        ];
        let attrs =
            vec![("enable_gqa", Attr::Bool(false)), ("is_causal", Attr::Bool(false)), ("scale", Attr::Null)];
        case("scaled_dot_product_attention", operands, attrs, true);
    }
    Ok(all)
}

/// Compares a device with the reference, on the cases that `only` lets through, by their places and
/// themselves; gives what differs.
///
/// # Errors
/// As [`cases`].
pub fn differences<B: Backend>(
    device: &B::Device,
    n: usize,
    only: impl Fn(usize, &LongCase) -> bool,
) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (i, case) in cases(n)?.iter().enumerate().filter(|(i, c)| only(*i, c)) {
        let name = format!("case {i} of {n}, {}", case.op);
        let want = caught(|| case.run::<Reference>(&Default::default()));
        match (caught(|| case.run::<B>(device)), want) {
            (Ok(Ok(got)), Ok(Ok(want))) if got.len() == want.len() => {
                let each = got.iter().zip(&want).enumerate();
                let found =
                    each.filter_map(|(i, (a, b))| bits(a, b).err().map(|m| format!("{name}: {i}: {m}")));
                wrong.extend(found);
            }
            (Ok(Err(e)), _) | (_, Ok(Err(e))) => wrong.push(format!("{name}: {e}")),
            (Err(panic), _) | (_, Err(panic)) => wrong.push(format!("{name}: {panic}")),
            (Ok(Ok(got)), Ok(Ok(want))) => {
                wrong.push(format!("{name}: {} and {} results", got.len(), want.len()))
            }
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::DType;

    #[test]
    fn every_case_runs_on_the_reference() {
        for case in cases(300).unwrap() {
            let results = case.run::<Reference>(&Default::default());
            assert!(results.is_ok_and(|r| !r.is_empty()), "{}", case.op);
            assert!(case.inputs.iter().all(|(_, x, v)| !v || x.dtype() == DType::F32), "{}", case.op);
        }
    }
}
