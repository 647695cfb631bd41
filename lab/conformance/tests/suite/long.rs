//! Long loops on the processor.

use elinvar_conformance::long::differences;
use elinvar_devices::{Any, Device};

#[test]
fn long_loops_have_the_references_bits() {
    let all = differences::<Any>(&Device::cpu(), 70_000, |_, _| true).unwrap();
    assert!(all.is_empty(), "{} differences:\n{}", all.len(), all.join("\n"));
}
