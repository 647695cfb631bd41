//! An archive of NumPy arrays: what was read can be written, if the names allow it, and read again.

#![no_main]

use elinvar_io::{read_npz, write_npz};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(tensors) = read_npz(bytes) {
        for deflate in [false, true] {
            let mut again = Vec::new();
            if write_npz(&mut again, &tensors, deflate).is_ok() {
                let mut twice = Vec::new();
                write_npz(&mut twice, &read_npz(&again).unwrap(), deflate).unwrap();
                // As bytes, for NaN is not equal to itself.
                assert_eq!(again, twice);
            }
        }
    }
});
