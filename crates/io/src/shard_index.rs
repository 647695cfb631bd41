//! `model.safetensors.index.json`: which file of a model that is split over several holds which
//! tensor.

use elinvar_core::{Error, Result};
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// The limit for an index, in bytes: that of a safetensors header, which is longer per tensor.
const MAX_INDEX: usize = crate::header::MAX_HEADER as usize;

/// The index of a sharded model: the file of each tensor.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ShardIndex {
    /// Arbitrary values by key. `total_size` is the number of bytes of all tensors together.
    pub metadata: BTreeMap<String, Value>,
    /// The name of a file in the index's own directory for each tensor.
    pub weight_map: BTreeMap<String, String>,
}

impl ShardIndex {
    /// Reads an index.
    ///
    /// # Errors
    /// `Format` if it is not JSON of this form, names a tensor twice, or names a file outside of
    /// its directory.
    pub fn parse(json: &[u8]) -> Result<ShardIndex> {
        if json.len() > MAX_INDEX {
            return Err(Error::format(format!(
                "an index of {} bytes is more than the {MAX_INDEX} that are read: it is something else",
                json.len()
            )));
        }
        let Parsed { metadata, weight_map } =
            serde_json::from_slice(json).map_err(|e| Error::format(format!("the index is damaged: {e}")))?;
        for (tensor, file) in &weight_map.0 {
            if !is_plain(file) {
                return Err(Error::format(format!(
                    "tensor `{tensor}` is said to be in {file:?}; it must be the name of a file beside the index"
                )));
            }
        }
        Ok(ShardIndex { metadata: metadata.0, weight_map: weight_map.0 })
    }
}

/// Is this a file name that cannot leave its directory, on any system?
fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\\', ':', '\0'])
}

#[derive(Deserialize)]
struct Parsed {
    #[serde(default)]
    metadata: Once<Value>,
    weight_map: Once<String>,
}

/// A map without duplicate keys.
struct Once<T>(BTreeMap<String, T>);

impl<T> Default for Once<T> {
    fn default() -> Self {
        Once(BTreeMap::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Once<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Entries<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Once<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Once<T>, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some((key, value)) = map.next_entry::<String, T>()? {
                    if entries.contains_key(&key) {
                        return Err(A::Error::custom(format!("`{key}` is there twice")));
                    }
                    entries.insert(key, value);
                }
                Ok(Once(entries))
            }
        }
        d.deserialize_map(Entries(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_as_models_have_it() {
        let json = br#"{"metadata": {"total_size": 12, "format": "pt"}, "weight_map": {"b": "m-2.safetensors", "a": "m-1.safetensors"}}"#;
        let index = ShardIndex::parse(json).unwrap();
        assert_eq!(index.metadata["total_size"], 12);
        let map: Vec<_> = index.weight_map.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(map, [("a", "m-1.safetensors"), ("b", "m-2.safetensors")]);
        assert!(ShardIndex::parse(br#"{"weight_map": {}}"#).unwrap().metadata.is_empty());
    }

    #[test]
    fn damage_is_an_error() {
        let leaving = |file: &str| format!(r#"{{"weight_map": {{"a": {file:?}}}}}"#);
        let beside = "must be the name of a file beside the index";
        let rows = [
            ("".to_string(), "the index is damaged: EOF"),
            ("[]".into(), "the index is damaged: invalid"),
            (r#"{"metadata": {}}"#.into(), "missing field `weight_map`"),
            (r#"{"weight_map": {"a": 3}}"#.into(), "the index is damaged: invalid type: integer"),
            (r#"{"weight_map": {"a": "x", "a": "y"}}"#.into(), "`a` is there twice"),
            (r#"{"weight_map": {}, "weight_map": {}}"#.into(), "duplicate field `weight_map`"),
            (format!(r#"{{"metadata": {{"a": {}1}}}}"#, "[".repeat(1000)), "recursion limit"),
            (leaving("../secret"), beside),
            (leaving("/etc/passwd"), beside),
            (leaving("sub/m.safetensors"), beside),
            (leaving("sub\\m.safetensors"), beside),
            (leaving("C:m.safetensors"), beside),
            (leaving(".."), beside),
            (leaving(""), beside),
        ];
        for (json, sentence) in rows {
            let e = ShardIndex::parse(json.as_bytes()).unwrap_err();
            assert_eq!(e.kind(), elinvar_core::ErrorKind::Format, "{e}");
            assert!(e.message().contains(sentence), "{json}: {e}");
        }
    }
}
