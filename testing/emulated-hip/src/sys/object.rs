//! Code objects: a magic number, the instruction set, and the text that it was made from.

use std::ffi::c_void;

/// What a code object begins with.
const MAGIC: &[u8; 16] = b"emulated amdgpu\0";

/// A code object of a text.
pub fn write(isa: &str, text: &str) -> Vec<u8> {
    let piece = |s: &str| [&(s.len() as u64).to_le_bytes()[..], s.as_bytes()].concat();
    [&MAGIC[..], &piece(isa), &piece(text)].concat()
}

/// The instruction set and the text; `None` if it is no code object.
///
/// # Safety
/// Behind the magic number is what [`write`] puts there; any other image has 16 bytes.
pub unsafe fn read(image: *const c_void) -> Option<(String, String)> {
    let bytes = image.cast::<u8>();
    // SAFETY: the caller's promise.
    unsafe {
        if std::slice::from_raw_parts(bytes, MAGIC.len()) != MAGIC {
            return None;
        }
        let piece = |at: usize| {
            let len = bytes.add(at).cast::<u64>().read_unaligned() as usize;
            let text = std::slice::from_raw_parts(bytes.add(at + 8), len).to_vec();
            Some((String::from_utf8(text).ok()?, at + 8 + len))
        };
        let (isa, end) = piece(MAGIC.len())?;
        Some((isa, piece(end)?.0))
    }
}
