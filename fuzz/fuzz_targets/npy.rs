//! One NumPy array: what was read can be written and read again.

#![no_main]

use elinvar_io::{read_npy, write_npy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(tensor) = read_npy(bytes) {
        let mut again = Vec::new();
        write_npy(&mut again, &tensor).unwrap();
        let mut twice = Vec::new();
        write_npy(&mut twice, &read_npy(&again).unwrap()).unwrap();
        // As bytes, for NaN is not equal to itself.
        assert_eq!(again, twice);
    }
});
