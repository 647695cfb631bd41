//! Transposes by vector registers.

pub(crate) mod transpose;
pub(crate) mod transpose_short_rows;
