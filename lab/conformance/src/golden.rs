//! Golden cases: inputs, attributes and the results that PyTorch computed from them in float64.
//!
//! A golden directory holds `index.json` and one `OP.safetensors` per op. The program contains a
//! small sample of one. All faults of a directory are detected here and reported in one sentence: a
//! [`Case`] is complete, and needs no further checks.

use crate::filter::Filter;
use crate::index::{self, Entry, Index, Step, ViewEntry};
use crate::view;
use elinvar_core::{DType, Error, HostData, HostTensor, Layout, Result, Shape, each_data};
use elinvar_ops::args::Attr;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::path::Path;

/// One case of an op.
#[derive(Clone, Debug)]
pub struct Case {
    /// The op's name.
    pub op: String,
    /// `op/NN-slug`, unique.
    pub id: String,
    /// The dtype the case runs in.
    pub dtype: DType,
    /// Attributes by name.
    pub attrs: BTreeMap<String, Attr>,
    /// Operands in order.
    pub inputs: Vec<Input>,
    /// Expected results in order.
    pub outputs: Vec<Expected>,
    /// The seeds of backward, per output; `None` for an output that takes no part. Empty if no
    /// gradient is checked.
    pub grad_outputs: Vec<Option<HostTensor>>,
    /// Expected gradients.
    pub grads: Vec<Grad>,
    /// Special properties of the case.
    pub tags: Vec<String>,
}

/// An operand.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its role.
    pub role: String,
    /// Its elements, contiguous.
    pub tensor: HostTensor,
    /// Its view, if it is not contiguous.
    pub view: Option<Strided>,
}

/// An operand that is a view of a larger tensor.
#[derive(Clone, Debug)]
pub struct Strided {
    /// The larger tensor.
    pub base: HostTensor,
    /// The steps from the base to the operand.
    pub steps: Vec<Step>,
    /// The operand's layout in the base.
    pub layout: Layout,
}

/// An expected result and its tolerances.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The elements: f64 for floats, else of `dtype`.
    pub tensor: HostTensor,
    /// The dtype that the result must have.
    pub dtype: DType,
    /// Relative tolerance.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
    /// Must the sign of zero agree?
    pub signed_zero: bool,
}

/// An expected gradient.
#[derive(Clone, Debug)]
pub struct Grad {
    /// The index of the input.
    pub input: usize,
    /// The gradient of the input.
    pub want: Expected,
    /// The gradient of the base of its view.
    pub base: Option<Expected>,
}

/// The cases of a golden directory that the filter lets through, in the order of the index.
///
/// # Errors
/// `Io` if a file cannot be read, `Format` if its content violates the format.
pub fn open(dir: &Path, filter: &Filter) -> Result<Vec<Case>> {
    let index = index(dir)?;
    let entries = filter.select(&index);
    let mut files: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for e in &entries {
        check_name(&e.op)?;
        if !files.contains_key(e.op.as_str()) {
            files.insert(&e.op, read(&dir.join(file_name(&e.op)))?);
        }
    }
    let mut sets = BTreeMap::new();
    for (&op, bytes) in &files {
        sets.insert(op, Tensors::new(bytes, file_name(op), String::new())?);
    }
    entries
        .iter()
        .map(|e| case(e, &sets[e.op.as_str()]).map_err(|x| x.at(format!("golden: {}", e.id))))
        .collect()
}

/// The index of a golden directory.
///
/// # Errors
/// `Io` if it cannot be read, `Format` if its content violates the format.
pub fn index(dir: &Path) -> Result<Index> {
    index::parse(&read(&dir.join("index.json"))?, "golden: index.json")
}

/// The cases of one archive: an index, and one safetensors file in which names begin with `op/`.
///
/// # Errors
/// `Format` if the content violates the format.
pub fn from_archive(index: &[u8], tensors: &[u8], filter: &Filter) -> Result<Vec<Case>> {
    let index = index::parse(index, "golden: index of the archive")?;
    let mut set = Tensors::new(tensors, "archive".to_string(), String::new())?;
    let mut cases = Vec::new();
    for e in filter.select(&index) {
        set.prefix = format!("{}/", e.op);
        cases.push(case(e, &set).map_err(|x| x.at(format!("golden: {}", e.id)))?);
    }
    Ok(cases)
}

/// Puts cases behind the others of their ops, which stay consecutive. A case that is there already
/// is not added.
pub fn put_behind(cases: &mut Vec<Case>, more: impl IntoIterator<Item = Case>) {
    for case in more {
        if cases.iter().all(|c| c.id != case.id) {
            let last = cases.iter().rposition(|c| c.op == case.op);
            cases.insert(last.map_or(cases.len(), |i| i + 1), case);
        }
    }
}

fn file_name(op: &str) -> String {
    format!("{op}.safetensors")
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| Error::io(format!("golden: {} cannot be read: {e}", path.display())))
}

/// An op's name becomes a file name, which must not escape the directory.
fn check_name(op: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !op.is_empty() && op.chars().all(fits) {
        Ok(())
    } else {
        Err(Error::format(format!("golden: {op:?} is no name of an op")))
    }
}

/// The tensors of one file.
struct Tensors<'a> {
    set: SafeTensors<'a>,
    file: String,
    prefix: String,
}

impl<'a> Tensors<'a> {
    fn new(bytes: &'a [u8], file: String, prefix: String) -> Result<Self> {
        match SafeTensors::deserialize(bytes) {
            Ok(set) => Ok(Tensors { set, file, prefix }),
            Err(e) => Err(Error::format(format!("golden: {file}: not a safetensors file: {e}"))),
        }
    }
    fn get(&self, name: &str) -> Result<HostTensor> {
        let name = format!("{}{name}", self.prefix);
        let missing = |_| Error::format(format!("{} holds no tensor {name}", self.file));
        let t = self.set.tensor(&name).map_err(missing)?;
        let dtype = match t.dtype() {
            Dtype::F64 => DType::F64,
            Dtype::F32 => DType::F32,
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            Dtype::I64 => DType::I64,
            Dtype::I32 => DType::I32,
            Dtype::U8 => DType::U8,
            Dtype::BOOL => DType::Bool,
            other => return Err(Error::format(format!("tensor {name} is of {other:?}, which no case uses"))),
        };
        HostTensor::new(Shape::new(t.shape())?, HostData::from_le_bytes(dtype, t.data())?)
            .map_err(|e| e.at(format!("tensor {name}")))
    }
}

fn case(e: &Entry, tensors: &Tensors) -> Result<Case> {
    let wrong = |what: String| Err(Error::format(what));
    if e.id.split_once('/').is_none_or(|(op, slug)| op != e.op || slug.is_empty()) {
        return wrong(format!("the id is not {}/NN-slug", e.op));
    }
    for (what, is, want) in [
        ("roles", e.roles.len(), e.inputs.len()),
        ("out_dtypes", e.out_dtypes.len(), e.outputs.len()),
        ("grad_outputs", e.grad_outputs.len(), if e.diff.is_empty() { 0 } else { e.outputs.len() }),
        ("grads", e.grads.len(), e.diff.len()),
        ("rtol", e.rtol.len(), e.outputs.len() + e.grads.len()),
        ("atol", e.atol.len(), e.outputs.len() + e.grads.len()),
    ] {
        if is != want {
            return wrong(format!("{is} entries in {what} instead of {want}"));
        }
    }
    let mut attrs = BTreeMap::new();
    for (name, v) in &e.attrs {
        attrs.insert(name.clone(), index::attr(v).map_err(|x| x.at(format!("attribute {name}")))?);
    }
    let mut inputs = Vec::new();
    for (role, name) in e.roles.iter().zip(&e.inputs) {
        inputs.push(Input { role: role.clone(), tensor: tensors.get(name)?, view: None });
    }
    let mut base_grads: BTreeMap<usize, Expected> = BTreeMap::new();
    for (number, v) in &e.views {
        let i = number.parse::<usize>().ok().filter(|i| *i < inputs.len());
        let Some(i) = i else { return wrong(format!("a view of input {number}, which there is not")) };
        let view = strided(v, &inputs[i].tensor, tensors)?;
        if let Some(name) = &v.base_grad {
            let tolerance = (v.rtol.unwrap_or(0.0), v.atol.unwrap_or(0.0));
            let want = gradient(tensors.get(name)?, &view.base, tolerance).map_err(|x| x.at(name))?;
            base_grads.insert(i, want);
        }
        inputs[i].view = Some(view);
    }
    let signed_zero = e.tags.iter().any(|t| t == "signed_zero");
    let mut outputs = Vec::new();
    for (k, (name, dtype)) in e.outputs.iter().zip(&e.out_dtypes).enumerate() {
        let (tensor, dtype) = (tensors.get(name)?, parse_dtype(dtype)?);
        let stored = if dtype.is_float() { DType::F64 } else { dtype };
        if tensor.dtype() != stored {
            return wrong(format!("output {k} is stored as {} instead of {stored}", tensor.dtype()));
        }
        outputs.push(Expected { tensor, dtype, rtol: e.rtol[k], atol: e.atol[k], signed_zero });
    }
    let mut grad_outputs = Vec::new();
    for (name, out) in e.grad_outputs.iter().zip(&outputs) {
        let g = name.as_ref().map(|n| tensors.get(n)).transpose()?;
        if let Some(g) = &g
            && (g.shape() != out.tensor.shape() || g.dtype() != out.dtype)
        {
            return wrong(format!("a grad_output of shape {} and dtype {}", g.shape(), g.dtype()));
        }
        grad_outputs.push(g);
    }
    let mut grads = Vec::new();
    for (k, (&input, name)) in e.diff.iter().zip(&e.grads).enumerate() {
        let Some(of) = inputs.get(input) else {
            return wrong(format!("a gradient of input {input}, which there is not"));
        };
        let tolerance = (e.rtol[outputs.len() + k], e.atol[outputs.len() + k]);
        let want = gradient(tensors.get(name)?, &of.tensor, tolerance).map_err(|x| x.at(name))?;
        grads.push(Grad { input, want, base: base_grads.remove(&input) });
    }
    let dtype = parse_dtype(&e.dtype)?;
    let (op, id, tags) = (e.op.clone(), e.id.clone(), e.tags.clone());
    Ok(Case { op, id, dtype, attrs, inputs, outputs, grad_outputs, grads, tags })
}

fn parse_dtype(name: &str) -> Result<DType> {
    DType::parse(name).ok_or_else(|| Error::format(format!("{name} is no dtype")))
}

fn gradient(tensor: HostTensor, of: &HostTensor, (rtol, atol): (f64, f64)) -> Result<Expected> {
    if tensor.dtype() != DType::F64 || tensor.shape() != of.shape() || !of.dtype().is_float() {
        return Err(Error::format(format!(
            "a gradient of shape {} and dtype {} for an input of shape {} and dtype {}",
            tensor.shape(),
            tensor.dtype(),
            of.shape(),
            of.dtype()
        )));
    }
    Ok(Expected { tensor, dtype: of.dtype(), rtol, atol, signed_zero: false })
}

fn strided(v: &ViewEntry, plain: &HostTensor, tensors: &Tensors) -> Result<Strided> {
    let base = tensors.get(&v.base)?;
    let mut layout = Layout::contiguous(base.shape().clone());
    for step in &v.steps {
        layout = view::layout(&layout, step).map_err(|e| Error::format(e.message()))?;
    }
    // The shapes are compared first: the size of a view that repeats elements is not bounded by the
    // file's size, that of the plain tensor is.
    let same =
        layout.shape() == plain.shape() && look(&base, &layout)?.to_le_bytes() == plain.data().to_le_bytes();
    if !same {
        return Err(Error::format(format!("the steps from {} do not lead to the input", v.base)));
    }
    Ok(Strided { base, steps: v.steps.clone(), layout })
}

/// The elements of a view of a tensor, row-major.
fn look(base: &HostTensor, layout: &Layout) -> Result<HostData> {
    fn pick<T: elinvar_core::Element>(v: &[T], layout: &Layout) -> HostData {
        T::wrap(layout.positions().map(|p| v[p]).collect::<Vec<_>>())
    }
    Ok(each_data!(base.data(), v => pick(v, layout)))
}
