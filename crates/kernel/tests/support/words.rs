//! Buffers as the bytes that a device has, in words.

use elinvar_kernel::interp::Memory;
use elinvar_kernel::ir::Elem;

/// The words of a buffer; the last one is filled up with zeros.
pub fn words(m: &Memory) -> Vec<u32> {
    let size = m.elem.size() as usize;
    let mut bytes: Vec<u8> = m.cells.iter().flat_map(|c| c.to_le_bytes().into_iter().take(size)).collect();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().expect("of four"))).collect()
}

/// The buffer of `len` elements that are in these words.
pub fn from_words(elem: Elem, len: usize, words: &[u32]) -> Memory {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let cell = |c: &[u8]| {
        let mut all = [0; 8];
        all[..c.len()].copy_from_slice(c);
        u64::from_le_bytes(all)
    };
    let cells = bytes.chunks_exact(elem.size() as usize).map(cell).take(len).collect();
    Memory { elem, cells }
}

/// Which element of two buffers differs, if one does. All NaN are one value.
pub fn difference(got: &Memory, want: &Memory) -> Option<usize> {
    (0..want.cells.len()).find(|&i| got.cells[i] != want.cells[i] && !(got.is_nan(i) && want.is_nan(i)))
}
