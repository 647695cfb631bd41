//! Transforms in vector registers: levels on the elements of a register's worth of lines, and
//! lines that are cut into such.

mod abreast;
pub(super) mod job;
mod levels;
pub(super) mod lines;
pub(super) mod rows;
