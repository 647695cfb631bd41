//! A model in one safetensors file or in several.

use crate::info::{TensorInfo, no_such_tensor};
use crate::safetensors::write_some;
use crate::{SafetensorsFile, ShardIndex, atomic_write, io_error, mapped::Bytes, writable_dir};
use elinvar_core::{Error, HostTensor, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The usual file name of the index of a sharded model.
pub const INDEX: &str = "model.safetensors.index.json";

/// The usual file name of a model in one file.
pub const SINGLE: &str = "model.safetensors";

/// The metadata key of an index for the size of all tensors.
const TOTAL_SIZE: &str = "total_size";

/// The tensors of a model, in one safetensors file or in several with an index, mapped as by
/// [`SafetensorsFile`] and read one at a time.
#[derive(Debug)]
pub struct ModelFiles {
    shards: Vec<(PathBuf, SafetensorsFile)>,
    /// The shard of each tensor.
    place: BTreeMap<String, usize>,
    metadata: BTreeMap<String, String>,
}

impl ModelFiles {
    /// Opens a safetensors file, an index (a name that ends in `.json`), or a directory with one of
    /// the two: `model.safetensors.index.json` or, if there is none, `model.safetensors`.
    ///
    /// With an index, the tensors are those that it names. The metadata are those of the index and
    /// of the files.
    ///
    /// # Errors
    /// As [`SafetensorsFile::open`], for each file; `Format` if the index is damaged or names a
    /// tensor that its file lacks; `Io` if a directory has neither of the two.
    pub fn open(path: impl AsRef<Path>) -> Result<ModelFiles> {
        let path = path.as_ref();
        if path.is_dir() {
            let (index, single) = (path.join(INDEX), path.join(SINGLE));
            return if there(&index)? {
                ModelFiles::indexed(&index)
            } else if there(&single)? {
                ModelFiles::single(&single)
            } else {
                Err(Error::io(format!("{}: has neither {INDEX} nor {SINGLE}", path.display())))
            };
        }
        match path.extension().is_some_and(|e| e == "json") {
            true => ModelFiles::indexed(path),
            false => ModelFiles::single(path),
        }
    }

    fn single(path: &Path) -> Result<ModelFiles> {
        let file = SafetensorsFile::open(path)?;
        let place = file.tensors().map(|t| (t.name.clone(), 0)).collect();
        let metadata = file.metadata().clone();
        Ok(ModelFiles { shards: vec![(path.to_path_buf(), file)], place, metadata })
    }

    fn indexed(path: &Path) -> Result<ModelFiles> {
        let index = ShardIndex::parse(&Bytes::read(path)?).map_err(|e| e.at(path.display()))?;
        let mut metadata: BTreeMap<String, String> = index
            .metadata
            .into_iter()
            .map(|(key, value)| match value {
                Value::String(text) => (key, text),
                other => (key, other.to_string()),
            })
            .collect();
        let (mut shards, mut place) = (Vec::<(PathBuf, SafetensorsFile)>::new(), BTreeMap::new());
        let mut opened = BTreeMap::new();
        for (name, file) in index.weight_map {
            let i = match opened.get(&file) {
                Some(&i) => i,
                None => {
                    let shard = path.with_file_name(&file);
                    let content = SafetensorsFile::open(&shard).map_err(|e| e.at(path.display()))?;
                    for (key, value) in content.metadata() {
                        metadata.entry(key.clone()).or_insert_with(|| value.clone());
                    }
                    shards.push((shard, content));
                    opened.insert(file, shards.len() - 1);
                    shards.len() - 1
                }
            };
            let (shard, content) = &shards[i];
            if content.info(&name).is_none() {
                return Err(Error::format(format!(
                    "{}: tensor `{name}` is said to be in {}, which does not have it: one of the two files is from \
                     another model",
                    path.display(),
                    shard.display()
                )));
            }
            place.insert(name, i);
        }
        Ok(ModelFiles { shards, place, metadata })
    }

    /// The tensors, in the order of their names.
    pub fn tensors(&self) -> impl Iterator<Item = &TensorInfo> {
        self.place.iter().filter_map(|(name, &i)| self.shards[i].1.info(name))
    }

    /// Free text by key.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Reads one tensor.
    ///
    /// # Errors
    /// As [`SafetensorsFile::tensor`], with the path of the file.
    pub fn tensor(&self, name: &str) -> Result<HostTensor> {
        let &i = self.place.get(name).ok_or_else(|| no_such_tensor(name, self.place.keys()))?;
        let (path, file) = &self.shards[i];
        file.tensor(name).map_err(|e| e.at(path.display()))
    }
}

fn there(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|e| io_error(path, e))
}

/// Writes a model into a directory as files of about `max_bytes` bytes of tensors,
/// `model-00001-of-00002.safetensors` and so on, with an index. A tensor that is larger has a file
/// of its own. The directory is created if it is missing.
///
/// The tensors are distributed in the order of their names, and each file holds the metadata; the
/// same tensors give the same files. An older index is removed first and the new one is written
/// last, so that after an interruption the directory has no index, instead of one over files of two
/// models. Other files are not touched, not even those of an older model with another number of
/// files.
///
/// # Errors
/// `InvalidArgument` if `max_bytes` is 0 or the metadata have the index's own key `total_size`; as
/// [`save_safetensors`](crate::save_safetensors) for each file.
pub fn save_sharded(
    dir: impl AsRef<Path>,
    tensors: &BTreeMap<String, HostTensor>,
    metadata: &BTreeMap<String, String>,
    max_bytes: u64,
) -> Result<()> {
    let dir = dir.as_ref();
    if max_bytes == 0 {
        return Err(Error::argument("save_sharded: a file for 0 bytes of tensors holds none"));
    }
    if metadata.contains_key(TOTAL_SIZE) {
        return Err(Error::argument(format!(
            "save_sharded: metadata cannot have the key `{TOTAL_SIZE}`: the index keeps the size of all tensors there"
        )));
    }
    let (mut shards, mut room, mut total) = (vec![Vec::new()], max_bytes, 0);
    for (name, tensor) in tensors {
        let bytes = (tensor.shape().numel() * tensor.dtype().size()) as u64;
        let last = shards.last_mut().expect("there is a first one from the start");
        if bytes > room && !last.is_empty() {
            shards.push(vec![(name.as_str(), tensor)]);
            room = max_bytes;
        } else {
            last.push((name.as_str(), tensor));
        }
        room = room.saturating_sub(bytes);
        total += bytes;
    }
    writable_dir(dir)?;
    let index_path = dir.join(INDEX);
    match fs::remove_file(&index_path) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(io_error(&index_path, e)),
        _ => {}
    }
    let mut index = ShardIndex::default();
    index.metadata.insert(TOTAL_SIZE.into(), total.into());
    for (i, shard) in shards.iter().enumerate() {
        let file = format!("model-{:05}-of-{:05}.safetensors", i + 1, shards.len());
        atomic_write(dir.join(&file), |w| write_some(w, shard, metadata))?;
        index.weight_map.extend(shard.iter().map(|(name, _)| (name.to_string(), file.clone())));
    }
    atomic_write(&index_path, |w| {
        let json = serde_json::to_vec_pretty(&index).map_err(|e| Error::format(format!("index: {e}")))?;
        Ok(w.write_all(&json)?)
    })
}
