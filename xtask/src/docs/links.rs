//! Links between pages, paths named by pages, and unlisted pages.

use super::tree::{Tree, prose, resolve};

/// Folders of the project; a path in a code span that begins with one should exist.
const FOLDERS: [&str; 9] =
    ["crates", "lab", "testing", "docs", "benchmarks", "tools", "xtask", "fuzz", "web"];
/// Generated folders.
const MADE: [&str; 1] = ["fuzz/artifacts"];
/// Historical pages: paths in them may no longer exist.
const PAST: [&str; 3] = ["CHANGELOG.md", "docs/adr/", "docs/performance/log/"];

/// Relative links whose file, or whose heading, does not exist.
pub fn dead(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (line, text) in prose(text) {
            for target in targets(text).filter(|t| !is_elsewhere(t)) {
                let (file, anchor) = target.split_once('#').map_or((target, None), |(f, a)| (f, Some(a)));
                let full = if file.is_empty() { Some(path.to_string()) } else { resolve(path, file) };
                match full.filter(|full| tree.has(full)) {
                    None => faults.push(format!("{path}:{line}: {target} does not exist")),
                    Some(full) => {
                        let there = tree.files.get(&full).map_or("", String::as_str);
                        if anchor.is_some_and(|a| !anchors(there).any(|other| other == a)) {
                            faults.push(format!("{path}:{line}: {target}: there is no such heading"));
                        }
                    }
                }
            }
        }
    }
    faults
}

/// Paths in code spans that do not exist.
pub fn lost_paths(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in tree.ending(".md").filter(|(path, _)| !PAST.iter().any(|p| path.starts_with(p))) {
        for (line, text) in prose(text) {
            let named = spans(text).filter(|span| is_path(span)).flat_map(expanded);
            let lost = named.filter(|named| !is_there(tree, named));
            faults.extend(lost.map(|named| format!("{path}:{line}: `{named}` does not exist")));
        }
    }
    faults
}

/// Pages of `docs/` that its summary does not link to.
pub fn unlisted(tree: &Tree) -> Vec<String> {
    const SUMMARY: &str = "docs/SUMMARY.md";
    let Some(summary) = tree.files.get(SUMMARY) else { return vec![format!("there is no {SUMMARY}")] };
    let listed: Vec<String> = targets(summary).filter_map(|target| resolve(SUMMARY, target)).collect();
    let pages = tree.ending(".md").map(|(path, _)| path);
    let pages = pages.filter(|path| path.starts_with("docs/") && *path != SUMMARY);
    pages.filter(|path| !listed.iter().any(|l| l == path)).map(str::to_string).collect()
}

/// Crates that the architecture does not name.
pub fn unnamed_crates(tree: &Tree) -> Vec<String> {
    const PAGE: &str = "docs/architecture.md";
    let Some(page) = tree.files.get(PAGE) else { return vec![format!("there is no {PAGE}")] };
    let manifests = tree.ending("/Cargo.toml").filter_map(|(path, _)| path.strip_suffix("/Cargo.toml"));
    let crates = manifests
        .filter(|path| matches!(path.split('/').collect::<Vec<_>>()[..], ["crates" | "lab" | "testing", _]));
    let short = |path: &str| path.strip_prefix("crates/").unwrap_or(path).to_string();
    let lost = crates.map(short).filter(|name| !spans(page).any(|span| span == name));
    lost.map(|name| format!("{PAGE} does not name the crate {name}")).collect()
}

/// The targets of a text's links and images: the text in `](...)`, outside of code spans.
pub fn targets(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let link = rest.find("](")?;
            match rest.find('`').filter(|code| *code < link) {
                // A code span that begins before the link extends to its end; without an end it is
                // a plain character.
                Some(code) => {
                    let after = &rest[code + 1..];
                    rest = &after[after.find('`').map_or(0, |end| end + 1)..];
                }
                None => {
                    let after = &rest[link + 2..];
                    let end = after.find(')')?;
                    rest = &after[end..];
                    return Some(after[..end].trim());
                }
            }
        }
    })
}

fn is_elsewhere(target: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme))
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = prose(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len() && title.starts_with(' ')).then_some(title.trim())
    });
    headings.map(|title| {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

/// The text between backticks.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Is it a path from the project's root, or the end of the path of a source file?
fn is_path(span: &str) -> bool {
    let is_rooted = span.split_once('/').is_some_and(|(folder, _)| FOLDERS.contains(&folder));
    let is_plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "/_-.{},".contains(c));
    is_plain && (is_rooted || span.ends_with(".rs")) && !span.contains("NAME") && !MADE.contains(&span)
}

fn is_there(tree: &Tree, path: &str) -> bool {
    let ends_so = |other: &str| other.strip_suffix(path).is_some_and(|rest| rest.ends_with('/'));
    tree.has(path) || path.ends_with(".rs") && tree.files.keys().any(|other| ends_so(other))
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn expanded(span: &str) -> Vec<String> {
    let parts = span.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?)));
    match parts {
        None => vec![span.to_string()],
        Some((head, (list, tail))) => {
            list.split(',').map(|one| format!("{head}{}{tail}", one.trim())).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::small;
    use super::*;

    #[test]
    fn a_link_to_nothing_is_found_and_others_are_not() {
        let page = "[a](b.md) [gone](c.md) [web](https://x.y) `[code](d.md)` [up](../README.md#say-it)\n\
                    [no heading](b.md#there) [heading](b.md#precisionfast) ![](p.png)\n```\n[fenced](e.md)\n```\n";
        let tree = small(&[
            ("docs/a.md", page),
            ("docs/b.md", "# One\n## `Precision::Fast`\n"),
            ("README.md", "# Say it!\n"),
        ]);
        assert_eq!(
            dead(&tree),
            [
                "docs/a.md:1: c.md does not exist",
                "docs/a.md:2: b.md#there: there is no such heading",
                "docs/a.md:2: p.png does not exist"
            ]
        );
    }

    #[test]
    fn a_path_that_is_gone_is_found() {
        let tree = small(&[
            ("docs/a.md", "`crates/x/src/{a,b}.rs` `crates/x` `crates/*/src` `crates/NAME` `docs/gone.md`\n"),
            ("docs/b.md", "`src/a.rs` `a.rs` `rc/a.rs` `a.md`\n"),
            ("docs/adr/0001.md", "`crates/gone.rs`\n"),
            ("crates/x/src/a.rs", ""),
        ]);
        assert_eq!(
            lost_paths(&tree),
            [
                "docs/a.md:1: `crates/x/src/b.rs` does not exist",
                "docs/a.md:1: `docs/gone.md` does not exist",
                "docs/b.md:1: `rc/a.rs` does not exist"
            ]
        );
    }

    #[test]
    fn a_page_that_the_summary_lacks_is_found() {
        let tree = small(&[("docs/SUMMARY.md", "- [a](a.md)\n"), ("docs/a.md", ""), ("docs/x/b.md", "")]);
        assert_eq!(unlisted(&tree), ["docs/x/b.md"]);
        assert_eq!(unlisted(&small(&[])).len(), 1);
    }

    #[test]
    fn a_crate_that_the_architecture_lacks_is_found() {
        let tree = small(&[
            ("docs/architecture.md", "| `core` | `lab/x`\n"),
            ("crates/core/Cargo.toml", ""),
            ("crates/new/Cargo.toml", ""),
            ("lab/x/Cargo.toml", ""),
            ("lab/y/Cargo.toml", ""),
        ]);
        let lacks = |name| format!("docs/architecture.md does not name the crate {name}");
        assert_eq!(unnamed_crates(&tree), [lacks("new"), lacks("lab/y")]);
    }
}
