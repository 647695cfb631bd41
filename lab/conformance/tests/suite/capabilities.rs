//! The capability table states what was observed when the ops ran.

use elinvar_conformance::capabilities::capabilities;
use elinvar_conformance::training;
use elinvar_core::DType;
use elinvar_ops::catalogue;

#[test]
fn the_table_has_a_line_for_each_op_and_knows_views_from_work() {
    let table = capabilities().unwrap();
    let cell = |op: &str| {
        let line =
            table.lines().find(|l| l.starts_with(&format!("| {op} |"))).unwrap_or_else(|| panic!("{op}"));
        line.rsplit(" | ").next().unwrap().trim_end_matches(" |").to_string()
    };
    // After the ops, the `Precision::Fast` rows: products, convolutions, and attention.
    assert_eq!(
        table.lines().count(),
        catalogue::NAMES.len() + training::NAMES.len() + 2 + 3 * (3 + DType::FLOATS.len())
    );
    // Independent of bf16 arithmetic on the CPU, the reference is exact, and so is f32 everywhere.
    assert!(
        DType::FLOATS.iter().all(|d| cell(d.name()) == "exact")
            && cell("f32") == "exact"
            && !table.contains("not the same"),
        "{table}"
    );
    for (op, want) in [("transpose", "view"), ("exp", "native"), ("matmul", "native"), ("softmax", "native")]
    {
        assert_eq!(cell(op), want, "{op}");
    }
    assert!(cell("multi_head_attention").starts_with("composed of "));
    assert!(!table.contains("fails"), "{table}");
    // Devices without f64 say so in its rows.
    let mut others = table.lines().filter(|line| !line.starts_with("| f64 "));
    assert!(others.all(|line| !line.contains("unsupported")), "{table}");
}
