//! The index of a model in several files: no name leads out of its directory.

#![no_main]

use elinvar_io::ShardIndex;
use libfuzzer_sys::fuzz_target;
use std::path::{Component, Path};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(index) = ShardIndex::parse(bytes) {
        for file in index.weight_map.values() {
            let parts: Vec<_> = Path::new(file).components().collect();
            assert!(matches!(parts[..], [Component::Normal(_)]), "{file:?}");
        }
    }
});
