//! Safetensors: both ways of reading agree on what can be read, and what was read can be written
//! and read again.

#![no_main]

use elinvar_io::{SafetensorsFile, read_safetensors, write_safetensors};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = read_safetensors(&mut &bytes[..], bytes.len() as u64);
    let Ok(file) = SafetensorsFile::from_bytes(bytes.to_vec()) else {
        assert!(whole.is_err());
        return;
    };
    let single = file.tensors().try_for_each(|t| file.tensor(&t.name).map(drop));
    assert_eq!(single.is_ok(), whole.is_ok());
    if let Ok(whole) = whole {
        let mut again = Vec::new();
        write_safetensors(&mut again, &whole.tensors, &whole.metadata).unwrap();
        let read = read_safetensors(&mut &again[..], again.len() as u64).unwrap();
        let mut twice = Vec::new();
        write_safetensors(&mut twice, &read.tensors, &read.metadata).unwrap();
        // As bytes, for NaN is not equal to itself.
        assert_eq!(again, twice);
    }
});
