//! The rows are those of the catalogue that all libraries share, and each of them runs.

use elinvar::Device;
use elinvar_bench::{Group, OURS, STATIC, Term, Variant, rows};

/// Group, workload, shape, dtype, operations, bytes: the rows that the measurements of other
/// libraries read.
const CATALOGUE: &str = include_str!("catalogue.tsv");

/// Workloads without a peer.
const OTHERWISE: [&str; 4] = ["linear_prepacked", "gemm_nn_fast", "bert_fwd_prepacked", "chain10"];

#[test]
fn the_rows_are_those_of_the_shared_catalogue() {
    let ours: Vec<String> = rows()
        .iter()
        .map(|r| {
            [&r.name().replace('|', "\t"), &r.flops.to_string(), &r.bytes.to_string()]
                .map(String::as_str)
                .join("\t")
        })
        .collect();
    let shared: Vec<&str> = CATALOGUE.lines().skip(1).collect();
    for row in &shared {
        assert!(ours.iter().any(|our| our == row), "{row} is not among our rows");
    }
    // Variants of the same work, which others do not have; and groups that run only when asked for
    // by name.
    let (extra, usual): (Vec<_>, Vec<_>) = rows().into_iter().partition(|r| r.group.is_extra());
    let alone = usual.iter().filter(|r| OTHERWISE.contains(&&*r.workload)).count();
    assert_eq!((ours.len(), alone), (shared.len() + 14 + extra.len(), 14));
}

#[test]
fn rows_are_chosen_by_group_or_text() {
    let rows = rows();
    let count = |term: &str| rows.iter().filter(|row| Term::of(term).takes(row)).count();
    for (term, rows, why) in [
        ("gemm", 28, "the group, products of other names included"),
        ("gemm_", 14, "a text"),
        ("attention", 4, "a group"),
        ("|softmax|", 2, "a workload, whole"),
        ("", 107, "every name has it, but some groups are asked for by their names alone"),
        ("large", 28, "a group"),
        ("models", 5, "a group that takes a large GPU"),
        ("i. large|adam", 1, "a text that begins as these names do"),
        ("j. ops|cumprod|", 3, "a text of the other such group"),
        ("|f16", 1, "a dtype"),
        ("nothing like it", 0, "nothing"),
    ] {
        assert_eq!(count(term), rows, "{term}: {why}");
    }
    let words: usize = Group::ALL.iter().map(|g| count(g.word())).sum();
    assert_eq!(words, rows.len());
}

#[test]
fn only_overhead_runs_with_a_static_backend_too() {
    let (cpu, reference) = (Device::cpu(), Device::reference());
    for row in rows() {
        let both = row.group == Group::Overhead;
        assert_eq!(row.variants(&cpu).contains(&Variant::Static), both, "{row:?}");
        // A training step is captured, too, wherever it runs.
        let captured = row.variants(&reference).contains(&Variant::Graph);
        let all: &[Variant] = if captured { &[Variant::Ours, Variant::Graph] } else { &[Variant::Ours] };
        assert_eq!(row.variants(&reference), all, "{row:?}");
        let trains = row.group == Group::Training || row.workload.starts_with("train");
        assert_eq!(captured, trains, "{row:?}");
        if both {
            for (variant, peer) in [(Variant::Ours, OURS), (Variant::Static, STATIC)] {
                let line = row.measure(variant, &cpu, 1e-3).unwrap();
                assert_eq!((line.peer, &line.workload), (peer, &row.workload));
                assert!(
                    0.0 < line.min_s && line.min_s <= line.median_s && line.median_s <= line.max_s,
                    "{line:?}"
                );
            }
        }
    }
}

/// One small row of each kind of work: the large ones run the same code.
#[test]
fn rows_of_every_group_run() {
    let cpu = Device::cpu();
    for (workload, shape) in [
        ("gemm_nn", "64x64x64"),
        ("bmm", "64x64x64x64"),
        ("linear", "1x1024x1024"),
        ("chain", "1024"),
        ("cast_bf16", "1048576"),
        ("bcast_col", "1024x1024+1024x1"),
        ("cumsum_axis1", "4096x1024"),
        ("layer_norm", "4096x768"),
        ("maxpool_fb", "8x64x112x112_k2s2"),
        ("batchnorm_fb", "8x64x56x56"),
        ("attn_fb", "8x12x128x64"),
        ("train_mlp", "784-512-512-10_b128"),
        ("bert_fwd", "L6_d384_h12_ff1536_b1_s16"),
    ] {
        let row = rows().into_iter().find(|r| r.workload == workload && r.shape == shape);
        row.expect(workload).repeat(&cpu, 1).unwrap();
    }
}

/// The key that joins lines of several libraries.
#[test]
fn no_two_rows_have_one_name() {
    let mut names: Vec<String> =
        rows().iter().map(|r| format!("{}|{}|{}", r.workload, r.shape, r.dtype)).collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
}
