//! The table of environment variables, compared with the sources.

use super::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = "docs/reference/environment.md";
/// The header for C: what it names are its constants.
const HEADER: &str = "crates/capi/include/elinvar.h";
/// The common prefix of all names.
const PREFIX: &str = "ELINVAR_";
/// Files that read variables.
const SOURCES: [&str; 4] = [".rs", ".sh", ".py", ".toml"];

/// Names missing in the table, and rows without a source.
pub fn differences(tree: &Tree) -> Vec<String> {
    let Some(page) = tree.files.get(PAGE) else { return vec![format!("there is no {PAGE}")] };
    let rows: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let constants: BTreeSet<&str> = tree.files.get(HEADER).into_iter().flat_map(|text| names(text)).collect();
    let (mut all, mut read) = (BTreeMap::new(), BTreeMap::new());
    for (path, text) in tree.files.iter().filter(|(path, _)| *path != PAGE) {
        let is_source = SOURCES.iter().any(|end| path.ends_with(end));
        for name in names(text).filter(|name| !constants.contains(name)) {
            all.entry(name).or_insert(path);
            if is_source {
                read.entry(name).or_insert(path);
            }
        }
    }
    let lacks = all.iter().filter(|(name, _)| !rows.contains(name));
    let mut faults: Vec<String> =
        lacks.map(|(name, path)| format!("{path} names {name}, which {PAGE} lacks")).collect();
    let unread = rows.iter().filter(|name| name.starts_with(PREFIX) && !read.contains_key(*name));
    faults.extend(unread.map(|name| format!("{PAGE} has {name}, which no source names")));
    faults
}

/// The names in a text. A prefix that a program completes ends with `_` and is none.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(PREFIX).filter_map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
        let name = &rest[..end.unwrap_or(rest.len())];
        (name.len() > PREFIX.len() && !name.ends_with('_')).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::small;
    use super::*;

    /// A name that does not occur in this file, so that the check of the project does not find it.
    fn name(rest: &str) -> String {
        format!("{PREFIX}{rest}")
    }

    #[test]
    fn names_that_differ_are_found_in_both_directions() {
        let (a, b, c) = (name("A"), name("B2"), name("C"));
        let page = format!("| name | values |\n|---|---|\n| `{a}` | 1 |\n| `{b}` | `0`, `1` |\n");
        let source =
            format!("const X: &str = \"{a}\"; // {c}\nformat!(\"{PREFIX}{{x}}\", \"{PREFIX}D_{{x}}\")");
        let tree = small(&[(PAGE, &page), ("crates/x/src/a.rs", &source), ("docs/b.md", &b)]);
        assert_eq!(
            differences(&tree),
            [
                format!("crates/x/src/a.rs names {c}, which {PAGE} lacks"),
                format!("{PAGE} has {b}, which no source names")
            ]
        );
    }

    #[test]
    fn constants_of_the_header_are_no_variables() {
        let (constant, variable) = (name("OK"), name("A"));
        let page = format!("| `{variable}` | 1 |\n");
        let source = format!("{constant} {variable}");
        let files = [(PAGE, &page[..]), (HEADER, &constant[..]), ("crates/x/src/a.rs", &source[..])];
        assert_eq!(differences(&small(&files)), Vec::<String>::new());
    }

    #[test]
    fn without_a_page_it_fails() {
        assert_eq!(differences(&small(&[])).len(), 1);
    }
}
