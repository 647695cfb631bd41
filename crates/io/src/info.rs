//! The description of a tensor in a file, known before its elements are read.

use elinvar_core::{DType, Error, Result, Shape};
use std::fmt;

/// The type of a tensor's elements in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredType {
    /// A type of elinvar.
    Known(DType),
    /// Another one, by the name that the file gives it, such as `F8_E8M0` or `<c8`. The tensor is
    /// listed, but it cannot be read.
    Other(String),
}

impl fmt::Display for StoredType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoredType::Known(dtype) => f.pad(dtype.name()),
            StoredType::Other(name) => f.pad(name),
        }
    }
}

/// A tensor in a file, without its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: StoredType,
    /// Its shape.
    pub shape: Shape,
    /// The size of its elements in bytes; in a compressed file, the decompressed size.
    pub bytes: u64,
}

impl TensorInfo {
    /// The element type, if elinvar has it.
    pub(crate) fn known(&self) -> Result<DType> {
        match &self.dtype {
            StoredType::Known(dtype) => Ok(*dtype),
            StoredType::Other(name) => Err(Error::unsupported(format!(
                "tensor `{}` has elements of type {name:?}; the types that can be read are {}",
                self.name,
                DType::ALL.map(DType::name).join(", ")
            ))),
        }
    }
}

/// The error for a name that is not in the file; the message names a tensor that is.
pub(crate) fn no_such_tensor<'a>(asked: &str, mut names: impl ExactSizeIterator<Item = &'a String>) -> Error {
    let there = match (names.len(), names.next()) {
        (n, Some(first)) => format!("there are {n}, the first is `{first}`"),
        (_, None) => "there is none at all".into(),
    };
    Error::argument(format!("there is no tensor `{asked}`; {there}"))
}
