//! A fingerprint of weights: equal exactly when names, types, shapes and bits are equal.

use elinvar_core::HostTensor;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// SHA-256, as 64 lower-case hexadecimal digits, of all tensors in the order of their names.
///
/// The hashed bytes, so that other programs can compute it too (every number is an unsigned 64-bit
/// little-endian integer): for each tensor the length of its name in bytes and the name; the length
/// of its type's name and the name, as in `f32`; the number of axes and the size of each; then the
/// elements, row-major and little-endian, a bool being one byte. Every part is prefixed by its
/// length, so different sets of tensors never give the same bytes.
///
/// It depends on nothing else: not on metadata, nor on how a file arranges its tensors.
pub fn weights_hash(tensors: &BTreeMap<String, HostTensor>) -> String {
    let mut hash = Sha256::new();
    for (name, tensor) in tensors {
        let dtype = tensor.dtype().name();
        for text in [name.as_str(), dtype] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.update((tensor.shape().rank() as u64).to_le_bytes());
        for &size in tensor.shape().dims() {
            hash.update((size as u64).to_le_bytes());
        }
        hash.update(tensor.data().to_le_bytes());
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::{DType, HostData, Shape};

    fn one(name: &str, shape: &[usize], data: HostData) -> BTreeMap<String, HostTensor> {
        BTreeMap::from([(name.to_string(), HostTensor::new(Shape::new(shape).unwrap(), data).unwrap())])
    }

    #[test]
    fn known_answers() {
        // Computed with Python: hashlib.sha256(b"") and
        // hashlib.sha256(pack("<Q1sQ3sQQQ2f", 1, b"w", 3, b"f32", 2, 2, 1, 1.0, -2.0))
        assert_eq!(
            weights_hash(&BTreeMap::new()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(
            weights_hash(&one("w", &[2, 1], HostData::F32([1.0, -2.0].into()))),
            "602b7d53ee33abcfe2c714ccafd21632d098ad316b72a279a3acff2bd90ecb96"
        );
    }

    #[test]
    fn the_hash_depends_on_names_types_shapes_and_bits() {
        let rows = [
            one("w", &[2], HostData::F32([0.0, 1.0].into())),
            one("v", &[2], HostData::F32([0.0, 1.0].into())),
            one("w", &[2, 1], HostData::F32([0.0, 1.0].into())),
            one("w", &[1, 2], HostData::F32([0.0, 1.0].into())),
            one("w", &[2], HostData::F32([-0.0, 1.0].into())),
            one("w", &[2], HostData::I32([0, 0x3f80_0000].into())),
            one("w", &[2], HostData::F64([0.0, 1.0].into())),
            one("w", &[0], HostData::from_le_bytes(DType::F32, &[]).unwrap()),
        ];
        let hashes: std::collections::BTreeSet<_> = rows.iter().map(weights_hash).collect();
        assert_eq!(hashes.len(), rows.len());
    }
}
