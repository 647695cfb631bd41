//! Models in the format of Hugging Face's transformers: a directory with `config.json` and
//! `model.safetensors`.
//!
//! The config is not trusted for allocations: each weight is first found in the file and its shape
//! compared, so a config of 10^12 weights fails at the first name.

use super::source::Source;
use crate::layers::MlpActivation;
use crate::{Module, StateDict};
use elinvar_core::{DType, Error, Result};
use elinvar_ops::Backend;
use elinvar_tensor::Generator;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The treatment of weights that are stored in other float types than f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Floats {
    /// They are converted to f32.
    #[default]
    F32,
    /// They keep their type, which must be the same for all.
    Kept,
}

/// Limit in bytes of a config.json: those of real models have one or two thousand.
const MAX_CONFIG: u64 = 1 << 20;

/// The model type in a directory's `config.json`: "gpt2", "llama", "bert", ...
///
/// # Errors
/// `Io` if it cannot be read; `Format` if it is damaged or has no model type.
pub fn model_type(dir: impl AsRef<Path>) -> Result<String> {
    let path = dir.as_ref().join("config.json");
    text(&path)
        .and_then(|text| kind(&text)?.ok_or_else(|| Error::format("there is no model_type in it")))
        .map_err(|e| e.at(path.display()))
}

/// A model of this kind from a directory. `names` maps the file's weights to the names that `build`
/// uses; those of `unused` may be left over. The model is in evaluation mode.
///
/// # Errors
/// Those of [`config`], [`weights`], `names` and `build`; `Format` if a weight is left over.
pub(super) fn load<B: Backend, C: DeserializeOwned, M: Module<B>>(
    dir: &Path,
    kind: &str,
    (floats, device): (Floats, &B::Device),
    names: impl FnOnce(&C, StateDict) -> Result<StateDict>,
    build: impl FnOnce(C, &mut Source<'_, B>) -> Result<M>,
    unused: &[&str],
) -> Result<M> {
    let load = || {
        let config = config(dir, kind)?;
        let tensors = names(&config, weights(dir)?)?;
        // Only for dropout: all weights are in the file.
        let mut g = Generator::new(0);
        let mut source = Source::file(tensors, floats, &mut g, device)?;
        let model = build(config, &mut source)?;
        source.finish(unused)?;
        Ok(model)
    };
    let model = load().map_err(|e: Error| e.at(format!("{kind} in {}", dir.display())))?;
    model.eval();
    Ok(model)
}

/// Reads `config.json` of a directory, of a model of this kind; unknown fields are ignored.
///
/// # Errors
/// `Io` if it cannot be read; `Format` if it is damaged, lacks a field, or is of another kind of
/// model.
fn config<C: DeserializeOwned>(dir: &Path, wanted: &str) -> Result<C> {
    let path = dir.join("config.json");
    let read = || {
        let text = text(&path)?;
        match kind(&text)? {
            Some(other) if other != wanted => {
                Err(Error::format(format!("model_type is \"{other}\"; here a \"{wanted}\" was asked for")))
            }
            Some(_) | None => serde_json::from_str(&text).map_err(damaged),
        }
    };
    read().map_err(|e| e.at(path.display()))
}

fn text(path: &Path) -> Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_CONFIG + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_CONFIG {
        return Err(Error::format(format!("more than {MAX_CONFIG} bytes; this is no model's config")));
    }
    Ok(text)
}

fn kind(text: &str) -> Result<Option<String>> {
    #[derive(Deserialize)]
    struct Kind {
        model_type: Option<String>,
    }
    Ok(serde_json::from_str::<Kind>(text).map_err(damaged)?.model_type)
}

fn damaged(e: serde_json::Error) -> Error {
    Error::format(e.to_string())
}

/// Reads the weights of a directory, from one file or from several with an index, with current
/// names: gamma and beta of old checkpoints become weight and bias.
///
/// # Errors
/// `Io`, `Format`, `Unsupported`, `OutOfMemory` with the path in the sentence.
fn weights(dir: &Path) -> Result<StateDict> {
    let file = elinvar_io::ModelFiles::open(dir)?;
    let renamed = |name: String| match name.rsplit_once('.') {
        Some((layer, "gamma")) => format!("{layer}.weight"),
        Some((layer, "beta")) => format!("{layer}.bias"),
        _ => name,
    };
    let names: Vec<String> = file.tensors().map(|t| t.name.clone()).collect();
    let mut tensors = StateDict::new();
    for name in &names {
        tensors.insert(renamed(name.clone()), file.tensor(name)?);
    }
    if tensors.len() < names.len() {
        return Err(Error::format("a norm has both gamma and weight, or beta and bias").at(dir.display()));
    }
    Ok(tensors)
}

/// Writes `config.json` and `model.safetensors` of a model, so that transformers reads them as its
/// `class`. Weights whose names do not begin with one of `bare` get the prefix.
///
/// # Errors
/// `Io` with the path.
pub(super) fn save<B: Backend>(
    dir: &Path,
    (kind, class): (&str, &str),
    config: &impl Serialize,
    model: &dyn Module<B>,
    prefix: &str,
    bare: &[&str],
) -> Result<()> {
    let named = |name: String| {
        if bare.iter().any(|b| name.starts_with(b)) { name } else { format!("{prefix}{name}") }
    };
    let tensors: StateDict = model.state_dict()?.into_iter().map(|(name, t)| (named(name), t)).collect();
    let mut json = serde_json::to_value(config).map_err(|e| Error::argument(format!("config: {e}")))?;
    if let Value::Object(fields) = &mut json {
        fields.insert("model_type".into(), kind.into());
        fields.insert("architectures".into(), vec![class].into());
    }
    std::fs::create_dir_all(dir).map_err(|e| Error::from(e).at(dir.display()))?;
    // Transformers requires this entry.
    let format = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    elinvar_io::save_safetensors(dir.join("model.safetensors"), &tensors, &format)?;
    elinvar_io::atomic_write(dir.join("config.json"), |w| Ok(writeln!(w, "{json:#}")?))
}

/// Removes this prefix from all names, if the weight `probe` has it. Names without it
/// (those of a head) are unchanged.
pub(super) fn without_prefix(tensors: StateDict, prefix: &str, probe: &str) -> StateDict {
    if !tensors.contains_key(&format!("{prefix}{probe}")) {
        return tensors;
    }
    let cut = |name: String| name.strip_prefix(prefix).map(str::to_owned).unwrap_or(name);
    tensors.into_iter().map(|(name, t)| (cut(name), t)).collect()
}

/// Removes the output layer's weight of a model whose config ties it to the embedding.
///
/// # Errors
/// `Format` if both exist and differ: then the config and the weights are of different models.
pub(super) fn tie(tensors: &mut StateDict, output: &str, embedding: &str) -> Result<()> {
    let Some(own) = tensors.remove(output) else { return Ok(()) };
    match tensors.get(embedding) {
        // Bytes are compared if values differ, because a weight may be NaN.
        Some(e) if *e == own => Ok(()),
        Some(e) if e.shape() == own.shape() && e.data().to_le_bytes() == own.data().to_le_bytes() => Ok(()),
        _ => Err(Error::format(format!(
            "the config says that \"{output}\" is \"{embedding}\" (tie_word_embeddings), but the weights differ"
        ))),
    }
}

/// The float dtype of a model with these weights.
///
/// # Errors
/// `DTypeMismatch` if they are of several types and are to be kept.
pub(super) fn dtype(tensors: &StateDict, floats: Floats) -> Result<DType> {
    if floats == Floats::F32 {
        return Ok(DType::F32);
    }
    let mut found = tensors.iter().filter(|(_, t)| t.dtype().is_float()).map(|(name, t)| (name, t.dtype()));
    let Some((first, dtype)) = found.next() else { return Ok(DType::F32) };
    match found.find(|(_, d)| *d != dtype) {
        None => Ok(dtype),
        Some((name, other)) => Err(Error::dtype(format!(
            "\"{first}\" is of {dtype} and \"{name}\" of {other}; load them as f32 (Floats::F32)"
        ))),
    }
}

/// A size of a config: not 0, and small enough that sizes can be multiplied.
///
/// # Errors
/// `InvalidArgument` with the field's name.
pub(super) fn size(field: &str, value: usize) -> Result<usize> {
    if (1..=1 << 31).contains(&value) {
        Ok(value)
    } else {
        Err(Error::argument(format!("config: {field} is {value}; it should be in 1..=2^31")))
    }
}

/// A probability of a config.
///
/// # Errors
/// `InvalidArgument` with the field's name.
pub(super) fn probability(field: &str, value: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(Error::argument(format!("config: {field} is {value}; it should be in 0..=1")))
    }
}

/// `whole / parts`, which must be exact.
///
/// # Errors
/// `InvalidArgument` with the fields' names.
pub(super) fn share(field: &str, whole: usize, parts_field: &str, parts: usize) -> Result<usize> {
    let parts = size(parts_field, parts)?;
    if size(field, whole)?.is_multiple_of(parts) {
        Ok(whole / parts)
    } else {
        Err(Error::argument(format!(
            "config: {field} is {whole} and {parts_field} {parts}; the first should be a multiple of the second"
        )))
    }
}

/// An activation by its name in transformers.
///
/// # Errors
/// `Unsupported` if elinvar does not have it.
pub(super) fn activation(name: &str) -> Result<MlpActivation> {
    match name {
        "relu" => Ok(MlpActivation::Relu),
        "gelu" => Ok(MlpActivation::Gelu),
        "gelu_new" | "gelu_pytorch_tanh" => Ok(MlpActivation::GeluTanh),
        "silu" | "swish" => Ok(MlpActivation::Silu),
        _ => Err(Error::unsupported(format!(
            "config: activation \"{name}\"; there are relu, gelu, gelu_new, gelu_pytorch_tanh and silu"
        ))),
    }
}
