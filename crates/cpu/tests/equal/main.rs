//! The bits of the reference, for every instruction set of this processor and several numbers of
//! threads.

mod common;
mod concat;
#[path = "../common/data.rs"]
mod data;
#[allow(dead_code, reason = "other tests draw more than these do")]
#[path = "../../../../lab/conformance/src/equal/dice.rs"]
mod dice;
mod index;
mod linalg;
mod memory;
mod update;
