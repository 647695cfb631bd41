//! Numbers in the README: each must occur in a generated page, or have its command next to it.
//!
//! The rule: outside of fenced code, a number counts if it has a decimal point, or at least three
//! digits, or a unit after it, or is part of "N of M". It is supported if the same number occurs in
//! one of the pages. A hash of 64 digits counts, too.

use super::tree::{Tree, prose};

const README: &str = "README.md";
/// Pages with numbers, by the prefixes of their paths. The manifest has the version of Rust.
const PAGES: [&str; 4] =
    ["benchmarks/", "docs/reference/capabilities.md", "docs/reference/numerics.md", "Cargo.toml"];
/// Units, which make the number before them a measurement.
const UNITS: [&str; 15] =
    ["%", "s", "ms", "us", "µs", "ns", "KiB", "MiB", "GiB", "MB", "GB", "ULP", "times", "cases", "rows"];

/// Numbers of the README that occur in no page.
pub fn unheld(tree: &Tree) -> Vec<String> {
    let Some(readme) = tree.files.get(README) else { return vec![format!("there is no {README}")] };
    let pages = tree.files.iter().filter(|(path, _)| PAGES.iter().any(|p| path.starts_with(p)));
    let pages = pages.filter(|(path, _)| path.ends_with(".md") || path.ends_with(".toml"));
    let held: Vec<&str> = pages.flat_map(|(_, text)| words(text)).collect();
    let mut faults = Vec::new();
    for (line, text) in prose(readme) {
        let lost = measured(text).into_iter().filter(|number| !held.contains(number));
        faults.extend(lost.map(|number| format!("{README}:{line}: {number} stands on no generated page")));
    }
    faults
}

/// Words and numbers of a text; a number keeps its decimal point.
fn words(text: &str) -> Vec<&str> {
    let all = text.split(|c: char| !(c.is_alphanumeric() || ".%_".contains(c)));
    all.map(|word| word.trim_matches('.')).filter(|word| !word.is_empty()).collect()
}

/// The numbers that count.
fn measured(text: &str) -> Vec<&str> {
    let words = words(text);
    let is_number = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit()) && word.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    let at = |i: usize| words.get(i).copied().unwrap_or_default();
    let counts = |i: usize| {
        let word = at(i);
        let pair =
            at(i + 1) == "of" && is_number(at(i + 2)) || i > 1 && at(i - 1) == "of" && is_number(at(i - 2));
        let large = word.contains('.') || word.len() > 2;
        let hash = word.len() == 64 && word.chars().all(|c| c.is_ascii_hexdigit());
        hash || is_number(word) && (large || pair || UNITS.contains(&at(i + 1)))
    };
    (0..words.len()).filter(|i| counts(*i)).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::small;
    use super::*;

    #[test]
    fn numbers_that_count_are_measurements() {
        for (text, want) in [
            ("98.33 %, 9 s, f32, seeds 0 to 9", &["98.33", "9"][..]),
            ("97 of 103 rows; `[32, 8]`", &["97", "103"]),
            ("all 2335 golden cases, H100, Rust 1.95.", &["2335", "1.95"]),
            ("nothing here: 1, 2 and cuda:0", &[]),
        ] {
            assert_eq!(measured(text), want, "{text}");
        }
        let hash = "0123456789abcdef".repeat(4);
        assert_eq!(measured(&hash), [hash.as_str()]);
    }

    #[test]
    fn a_number_that_no_page_holds_is_found() {
        let held = ("benchmarks/a.md", "| mlp | 98.33 % | 0.5 s |");
        let other = ("docs/a.md", "12.5 %");
        let tree = small(&[("README.md", "98.33 % in 0.5 s\n\n12.5 %\n```\n77.7\n```\n"), held, other]);
        assert_eq!(unheld(&tree), ["README.md:3: 12.5 stands on no generated page"]);
        // A part of another number does not match.
        assert_eq!(unheld(&small(&[("README.md", "8.33 %"), held])).len(), 1);
    }
}
