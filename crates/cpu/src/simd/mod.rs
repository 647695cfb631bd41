//! What needs `unsafe` for speed, each behind an interface that cannot be used wrongly.

pub(crate) mod chains;
pub(crate) mod room;
