//! The built-in sample: a few small cases of every op, from a whole golden directory.
//!
//! It is one archive, `index.json` and `sample.safetensors`, in the format of the directory but for
//! the names of tensors, which begin with `op/`. The expected values were computed by PyTorch 2.15
//! in float64.

use crate::filter::Filter;
use crate::golden::{self, Case};
use crate::run::refuses_zeros;
use crate::{edges, index, own};
use elinvar_core::{DType, Error, HostTensor, Result, float8};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const INDEX: &[u8] = include_bytes!("../golden-sample/index.json");
const TENSORS: &[u8] = include_bytes!("../golden-sample/sample.safetensors");

/// The sample is part of the program, so it stays below this many bytes, index and tensors
/// together.
const BUDGET: usize = 390_000;

/// All built-in cases that the filter selects: the sample, the project's own, and those of edges.
///
/// # Errors
/// `Format` if an archive was damaged when it was made.
pub fn cases(filter: &Filter) -> Result<Vec<Case>> {
    let mut cases = golden::from_archive(INDEX, TENSORS, filter)?;
    cases.extend(own::cases(filter, &index::parse(INDEX, "golden: index of the sample")?.ops())?);
    own::extend(&mut cases, filter)?;
    edges::add(&mut cases, filter)?;
    Ok(cases)
}

/// Makes the archive in `out` from the golden directory `dir`.
///
/// # Errors
/// `Io` if a file cannot be read or written, `Format` if the directory is not valid.
pub fn make(dir: &Path, out: &Path) -> Result<()> {
    let cases = golden::open(dir, &Filter::default())?;
    let text = std::fs::read(dir.join("index.json"))?;
    let mut index: Value = serde_json::from_slice(&text).map_err(|e| Error::format(e.to_string()))?;
    let lines = index["cases"].as_array_mut().ok_or_else(|| Error::format("the index has no cases"))?;
    let mut by_id: BTreeMap<String, &mut Value> =
        lines.iter_mut().filter_map(|l| Some((l["id"].as_str()?.to_string(), l))).collect();
    for line in by_id.values_mut() {
        line.as_object_mut().map(|l| l.remove("torch_f32_max_abs_err"));
    }
    let mut taken = Vec::new();
    let mut tensors = BTreeMap::new();
    for case in choose(&cases, |c| size(c) + by_id.get(&c.id).map_or(0, |l| l.to_string().len())) {
        let line =
            by_id.get(&case.id).ok_or_else(|| Error::format(format!("{} is not in the index", case.id)))?;
        taken.push(line.to_string());
        named(line, case, &mut tensors)?;
    }
    std::fs::create_dir_all(out)?;
    std::fs::write(
        out.join("index.json"),
        format!("{{\"format\":1,\"cases\":[\n{}\n]}}\n", taken.join(",\n")),
    )?;
    std::fs::write(out.join("sample.safetensors"), pack(tensors)?)?;
    Ok(())
}

/// The smallest case of every op that has a gradient (if any has) and some axes; then, within the
/// budget, the smallest strided one and the smallest of another dtype than f32, cheapest first.
fn choose(cases: &[Case], cost: impl Fn(&Case) -> usize) -> Vec<&Case> {
    let (mut chosen, mut further) = (Vec::new(), Vec::new());
    for op in cases.chunk_by(|a, b| a.op == b.op) {
        let mut by_cost: Vec<&Case> = op.iter().collect();
        let special = |c: &Case| c.tags.iter().any(|t| matches!(t.as_str(), "scalar0d" | "empty"));
        by_cost.sort_by_key(|c| {
            let plain = !c.grads.is_empty() && c.dtype == DType::F32;
            (!refuses_zeros(c), !plain, special(c), cost(c), &c.id)
        });
        let Some(first) = by_cost.first().copied() else { continue };
        chosen.push(first);
        let others = || by_cost.iter().copied().filter(|c| c.id != first.id && refuses_zeros(c));
        let strided = others().find(|c| c.inputs.iter().any(|i| i.view.is_some()));
        let other_dtype = others().filter(|c| c.dtype != first.dtype).min_by_key(|c| cost(c));
        further.extend(strided.into_iter().chain(other_dtype));
    }
    let mut total: usize = chosen.iter().map(|c| cost(c)).sum();
    further.sort_by_key(|c| (cost(c), &c.id));
    for c in further {
        total += cost(c);
        if total <= BUDGET && chosen.iter().all(|o| o.id != c.id) {
            chosen.push(c);
        }
    }
    // The report needs the cases of an op to be consecutive.
    chosen.sort_by_key(|c| cases.iter().position(|o| o.id == c.id));
    chosen
}

/// The bytes of a case's tensors in the archive, with about 85 each in its header.
fn size(c: &Case) -> usize {
    let inputs = c.inputs.iter().flat_map(|i| [Some(&i.tensor), i.view.as_ref().map(|v| &v.base)]);
    let outputs = c.outputs.iter().map(|o| Some(&o.tensor));
    let seeds = c.grad_outputs.iter().map(Option::as_ref);
    let grads = c.grads.iter().flat_map(|g| [Some(&g.want.tensor), g.base.as_ref().map(|b| &b.tensor)]);
    let all = inputs.chain(outputs).chain(seeds).chain(grads).flatten();
    all.map(|t| 85 + t.shape().numel() * t.dtype().size()).sum()
}

/// The tensors of a case by the names that the index gives them.
fn named<'a>(line: &Value, c: &'a Case, into: &mut BTreeMap<String, &'a HostTensor>) -> Result<()> {
    let mut put = |name: &Value, t: &'a HostTensor| match name.as_str() {
        Some(name) => {
            into.insert(format!("{}/{name}", c.op), t);
            Ok(())
        }
        None => Err(Error::format(format!("{}: {name} is no name of a tensor", c.id))),
    };
    for (i, input) in c.inputs.iter().enumerate() {
        put(&line["inputs"][i], &input.tensor)?;
        if let Some(v) = &input.view {
            put(&line["views"][i.to_string()]["base"], &v.base)?;
        }
    }
    for (i, o) in c.outputs.iter().enumerate() {
        put(&line["outputs"][i], &o.tensor)?;
    }
    for (i, g) in c.grad_outputs.iter().enumerate() {
        if let Some(g) = g {
            put(&line["grad_outputs"][i], g)?;
        }
    }
    for (i, g) in c.grads.iter().enumerate() {
        put(&line["grads"][i], &g.want.tensor)?;
        if let Some(b) = &g.base {
            put(&line["views"][g.input.to_string()]["base_grad"], &b.tensor)?;
        }
    }
    Ok(())
}

fn pack(tensors: BTreeMap<String, &HostTensor>) -> Result<Vec<u8>> {
    let data: BTreeMap<String, Vec<u8>> =
        tensors.iter().map(|(name, t)| (name.clone(), t.data().to_le_bytes())).collect();
    let mut views = BTreeMap::new();
    for (name, t) in &tensors {
        let dtype = match t.dtype() {
            DType::F64 => Dtype::F64,
            DType::F32 => Dtype::F32,
            DType::F16 => Dtype::F16,
            DType::BF16 => Dtype::BF16,
            d @ float8!(DType) => {
                return Err(Error::unsupported(format!("{name}: {d} is not sampled; f32 holds the same")));
            }
            DType::I64 => Dtype::I64,
            DType::I32 => Dtype::I32,
            DType::U8 => Dtype::U8,
            DType::Bool => Dtype::BOOL,
        };
        let view = TensorView::new(dtype, t.shape().to_vec(), &data[name]);
        views.insert(name, view.map_err(|e| Error::format(format!("{name}: {e}")))?);
    }
    safetensors::serialize(&views, None).map_err(|e| Error::format(e.to_string()))
}
