//! The capability table: does its page say what the program prints today?
//!
//! A machine prints the devices that it has, so the columns of those are compared. Which sums
//! `Precision::Fast` changes follows the processor and the graphics card, and is compared only on
//! those that the page names; which calls an op makes is the same on all.

use crate::step::Outcome;
use crate::{cuda, program, rocm, root, vulkan};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const PAGE: &str = "docs/reference/capabilities.md";
/// The first column's title, in the table of ops.
const OP: &str = "op";
/// The last column's title, in each table that is printed.
const REFERENCE: &str = "reference";

/// The card of AMD's that is emulated for the page.
const AMD_ARCH: &str = "gfx942";

/// Compares the page with what the program prints, with the emulated devices of CUDA and ROCm.
pub fn check() -> Outcome {
    match differences_from_page() {
        Ok(all) if all.is_empty() => Outcome::Passed,
        Ok(all) => {
            println!("{}", all.join("\n"));
            let how = "cargo run --release -p elinvar-lab --features webgpu -- conformance --table";
            Outcome::Failed(format!("{} cells of {PAGE} are not what `{how}` prints", all.len()))
        }
        Err(why) => Outcome::Failed(why),
    }
}

fn differences_from_page() -> Result<Vec<String>, String> {
    let page = std::fs::read_to_string(root().join(Path::new(PAGE))).map_err(|e| format!("{PAGE}: {e}"))?;
    let (table, devices) = (printed(&["conformance", "--table"])?, printed(&["devices"])?);
    Ok(differences(&page, &table, |column| match column {
        "cpu" => has_bf16_products(),
        "vulkan:0" | "webgpu:0" => devices.lines().any(|l| l.contains(column) && l.contains("llvmpipe")),
        _ => true,
    }))
}

fn printed(args: &[&str]) -> Result<String, String> {
    // With WebGPU, which is off by default.
    let mut lab = program::lab_with_all_features()?;
    let o = lab
        .args(args)
        .envs([vulkan::UNOPTIMIZED])
        .envs(cuda::emulated()?)
        .envs(rocm::emulated(AMD_ARCH)?)
        .output();
    let o = o.map_err(|e| format!("elinvar-lab did not start: {e}"))?;
    match o.status.success() {
        true => Ok(String::from_utf8_lossy(&o.stdout).into_owned()),
        false => Err(format!("elinvar-lab {}: {}", args.join(" "), String::from_utf8_lossy(&o.stderr))),
    }
}

/// Has the processor the instructions that the page names for the device `cpu`?
fn has_bf16_products() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// The cells of the tables that a program may print, by title of the table, row and column.
fn cells(markdown: &str) -> BTreeMap<[&str; 3], &str> {
    let (mut all, mut head) = (BTreeMap::new(), Vec::new());
    for line in markdown.lines() {
        let row: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if !line.starts_with('|') {
            head.clear();
        } else if head.is_empty() {
            head = row;
        } else if head.last() == Some(&REFERENCE) && !row[0].starts_with("--") {
            all.extend(
                head.iter().zip(&row).skip(1).map(|(column, cell)| ([head[0], row[0], column], *cell)),
            );
        }
    }
    all
}

/// A line for each cell that differs. `is_same_device`: may the page's column be compared with this
/// machine's device also where it follows the hardware?
fn differences(page: &str, table: &str, is_same_device: impl Fn(&str) -> bool) -> Vec<String> {
    let (page, table) = (cells(page), cells(table));
    let there: BTreeSet<&str> = table.keys().map(|[.., column]| *column).collect();
    let all: BTreeSet<&[&str; 3]> = page.keys().chain(table.keys()).collect();
    let compared =
        |[title, _, column]: [&str; 3]| there.contains(column) && (title == OP || is_same_device(column));
    let differing = all.into_iter().filter(|cell| compared(**cell) && page.get(*cell) != table.get(*cell));
    let shown = |cell: Option<&&str>| cell.map_or("nothing", |text| text).to_string();
    differing
        .map(|cell| {
            let [title, row, column] = cell;
            format!(
                "{title}, {row}, {column}: page {}, now {}",
                shown(page.get(cell)),
                shown(table.get(cell))
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
| word | meaning |
|---|---|
| view | no call |

| op | cpu | cuda:0 | reference |
|---|---|---|---|
| exp | native | native | native |
| old | view | view | view |

| products | cpu | cuda:0 | reference |
|---|---|---|---|
| f16 | exact | fast | exact |
";

    #[test]
    fn cells_that_differ_are_told() {
        let of = |table: &str, same| differences(PAGE, table, |_| same);
        assert!(of(PAGE, true).is_empty());
        // Devices that the machine lacks, and another processor.
        let printed = "\
| op | cpu | reference |
|---|---|---|
| exp | composed of 2 | native |
| new | view | view |

| products | cpu | reference |
|---|---|---|
| f16 | fast | exact |
";
        let ops = [
            "op, exp, cpu: page native, now composed of 2",
            "op, new, cpu: page nothing, now view",
            "op, new, reference: page nothing, now view",
            "op, old, cpu: page view, now nothing",
            "op, old, reference: page view, now nothing",
        ];
        assert_eq!(of(printed, false), ops);
        assert_eq!(of(printed, true), [&ops[..], &["products, f16, cpu: page exact, now fast"]].concat());
    }
}
