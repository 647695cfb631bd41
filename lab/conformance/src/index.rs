//! `index.json`: the cases as the file has them. [`crate::golden`] checks it and loads the tensors.

use elinvar_core::{Error, Result};
use elinvar_ops::args::Attr;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The only version of the format so far.
pub const FORMAT: u64 = 1;

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
pub struct Index {
    /// Version of the format.
    pub format: u64,
    /// The cases, grouped by op.
    pub cases: Vec<Entry>,
}

impl Index {
    /// The ops that have a case.
    pub fn ops(&self) -> BTreeSet<String> {
        self.cases.iter().map(|e| e.op.clone()).collect()
    }
}

/// One case; tensors by their names.
#[derive(Clone, Debug, Deserialize)]
pub struct Entry {
    /// The op's name.
    pub op: String,
    /// `op/NN-slug`.
    pub id: String,
    /// The dtype the case runs in.
    pub dtype: String,
    /// Attributes.
    pub attrs: BTreeMap<String, serde_json::Value>,
    /// Role of each input.
    pub roles: Vec<String>,
    /// Each input, contiguous.
    pub inputs: Vec<String>,
    /// Inputs to be fed as views, by their index.
    pub views: BTreeMap<String, ViewEntry>,
    /// Indices of the inputs whose gradient is checked.
    pub diff: Vec<usize>,
    /// Expected results.
    pub outputs: Vec<String>,
    /// Their dtypes.
    pub out_dtypes: Vec<String>,
    /// The seed of backward, per output.
    pub grad_outputs: Vec<Option<String>>,
    /// Expected gradients, parallel to `diff`.
    pub grads: Vec<String>,
    /// Relative tolerances: one per output, then one per gradient.
    pub rtol: Vec<f64>,
    /// Absolute tolerances, likewise.
    pub atol: Vec<f64>,
    /// Special properties of the case.
    pub tags: Vec<String>,
}

/// How an input is made from a larger tensor.
#[derive(Clone, Debug, Deserialize)]
pub struct ViewEntry {
    /// The larger tensor.
    pub base: String,
    /// The view ops applied to it, in order.
    pub steps: Vec<Step>,
    /// Expected gradient of the base.
    pub base_grad: Option<String>,
    /// Its relative tolerance.
    pub rtol: Option<f64>,
    /// Its absolute tolerance.
    pub atol: Option<f64>,
}

/// One step from a tensor to a view of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Step {
    /// Axes in another order.
    Permute {
        /// The old axis for each new one.
        dims: Vec<isize>,
    },
    /// Part of an axis.
    Slice {
        /// The axis.
        dim: isize,
        /// First index; from the end if negative.
        start: Option<isize>,
        /// First index that is left out; `None`: to the end.
        stop: Option<isize>,
        /// Distance between indices.
        step: usize,
    },
    /// Axes of size 1 repeated.
    Expand {
        /// The new shape; -1 keeps a size.
        shape: Vec<isize>,
    },
    /// One index of an axis, which is dropped.
    Select {
        /// The axis.
        dim: isize,
        /// The index; from the end if negative.
        index: isize,
    },
}

/// The index in these bytes.
///
/// # Errors
/// `Format` if they are no JSON of this form, or of another version.
pub fn parse(bytes: &[u8], place: &str) -> Result<Index> {
    let index: Index = serde_json::from_slice(bytes)
        .map_err(|e| Error::format(format!("{place}: not an index of cases: {e}")))?;
    if index.format != FORMAT {
        return Err(Error::format(format!("{place}: format {} instead of {FORMAT}", index.format)));
    }
    Ok(index)
}

/// A JSON value as an attribute.
///
/// # Errors
/// `Format` if it is an object, or an integer beyond i64.
pub fn attr(v: &serde_json::Value) -> Result<Attr> {
    use serde_json::Value;
    Ok(match v {
        Value::Null => Attr::Null,
        Value::Bool(b) => Attr::Bool(*b),
        Value::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(i), _) => Attr::Int(i),
            (None, Some(f)) if !n.is_u64() => Attr::Float(f),
            (None, _) => return Err(Error::format(format!("the number {n} does not fit into i64"))),
        },
        Value::String(s) => Attr::Str(s.clone()),
        Value::Array(items) => Attr::List(items.iter().map(attr).collect::<Result<_>>()?),
        Value::Object(_) => return Err(Error::format("an object where a value is wanted")),
    })
}
