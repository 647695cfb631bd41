//! The page of the capability table says what it should. That the table is what the ops do is
//! checked by `cargo xtask step capabilities`, which runs all of them on all devices.

use elinvar_conformance::training;
use elinvar_core::DType;
use elinvar_ops::catalogue;

#[test]
fn the_table_has_a_line_for_each_op_and_knows_views_from_work() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/capabilities.md");
    let page = std::fs::read_to_string(path).unwrap();
    let start = page.find("| op |").unwrap();
    let table = &page[start..];
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
