//! The project's own cases; with them every op has a case.

use elinvar_conformance::filter::Filter;
use elinvar_conformance::{own, sample, training};
use elinvar_ops::catalogue;
use std::collections::BTreeSet;

/// An op without a case has never been compared with PyTorch: `tools/golden` makes one.
#[test]
fn every_op_has_a_case() {
    let cases = sample::cases(&Filter::default()).unwrap();
    let there: BTreeSet<&str> = cases.iter().map(|c| c.op.as_str()).collect();
    let all = catalogue::NAMES.iter().chain(training::NAMES);
    let without: Vec<&&str> = all.filter(|op| !there.contains(**op)).collect();
    assert!(without.is_empty(), "no case of {without:?}");
}

#[test]
fn no_case_is_there_twice() {
    let cases = sample::cases(&Filter::default()).unwrap();
    let ids: BTreeSet<&str> = cases.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(ids.len(), cases.len());
    // Consecutive, as the report requires.
    let ops: Vec<&str> = cases.chunk_by(|a, b| a.op == b.op).map(|c| c[0].op.as_str()).collect();
    assert_eq!(ops.iter().collect::<BTreeSet<_>>().len(), ops.len());
}

#[test]
fn an_op_that_has_cases_elsewhere_has_none_here() {
    let all = own::cases(&Filter::default(), &BTreeSet::new()).unwrap();
    let less = own::cases(&Filter::default(), &BTreeSet::from(["fold".to_string()])).unwrap();
    let fold = all.iter().filter(|c| c.op == "fold").count();
    assert!(fold > 0 && less.len() == all.len() - fold);
}

/// It is built into the program.
#[test]
fn it_is_small() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("golden-own");
    let size = |name: &str| std::fs::metadata(dir.join(name)).unwrap().len();
    assert!(size("index.json") + size("own.safetensors") < 1_800_000);
}
