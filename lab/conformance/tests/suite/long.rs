//! Long loops on the processor.

use elinvar_conformance::long::differences;
use elinvar_devices::{Any, Device};

#[test]
fn long_loops_have_the_references_bits() {
    for n in [70_000, 300_000] {
        let all = differences::<Any>(&Device::cpu(), n, |_| true).unwrap();
        assert!(all.is_empty(), "{} differences:\n{}", all.len(), all.join("\n"));
    }
}
