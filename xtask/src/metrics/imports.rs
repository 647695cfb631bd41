//! Imports between the files of a crate: circles of files, and imports between its folders.
//!
//! How it can be wrong: a path is an import of the file that holds the module it names; what that
//! file only passes on (`pub use`) is taken for its own. Names that a macro makes are not seen.

use std::collections::{BTreeMap, BTreeSet};

/// Files of a crate, by the path of their modules, and what each imports.
pub struct Imports<'a> {
    /// Module paths, `a::b` for `src/a/b.rs` and `src/a/b/mod.rs`; the crate's root is empty.
    files: BTreeMap<String, &'a str>,
    /// Of each file, the files that it imports.
    pub edges: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Imports<'a> {
    /// `sources`: paths from the crate's `src` folder on, and their code.
    pub fn of(sources: &[(&'a str, &str)]) -> Imports<'a> {
        let files = sources.iter().map(|(path, _)| (module(path), *path)).collect();
        let mut imports = Imports { files, edges: BTreeMap::new() };
        for (path, code) in sources {
            let from = module(path);
            let edges = paths(code).flat_map(|named| imports.target(&from, &named));
            let edges: BTreeSet<&str> = edges.filter(|to| to != path).collect();
            imports.edges.insert(path, edges);
        }
        imports
    }

    /// The file of the longest beginning of a path that is a module, but for the crate's root.
    fn target(&self, from: &str, named: &[String]) -> Option<&'a str> {
        let mut at: Vec<&str> = match named.first().map(String::as_str) {
            Some("crate") => vec![],
            Some("super") | Some("self") => from.split("::").filter(|part| !part.is_empty()).collect(),
            _ => return None,
        };
        let mut rest = named.iter().map(String::as_str).skip(1).peekable();
        if named[0] == "super" {
            at.pop();
            while rest.next_if_eq(&"super").is_some() {
                at.pop();
            }
        }
        for part in rest {
            at.push(part);
            if !self.files.contains_key(&at.join("::")) {
                at.pop();
                break;
            }
        }
        self.files.get(&at.join("::")).filter(|_| !at.is_empty()).copied()
    }

    /// Groups of files that import each other in circles.
    pub fn circles(&self) -> Vec<Vec<&'a str>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.edges.keys().map(|f| (*f, self.reached(f))).collect();
        let mut seen = BTreeSet::new();
        let mut circles = Vec::new();
        for (file, there) in &reach {
            if there.contains(file) && !seen.contains(file) {
                let all: Vec<&str> = there.iter().filter(|f| reach[*f].contains(file)).copied().collect();
                seen.extend(all.iter().copied());
                circles.push(all);
            }
        }
        circles
    }

    fn reached(&self, file: &str) -> BTreeSet<&'a str> {
        let (mut seen, mut next) = (BTreeSet::new(), vec![file]);
        while let Some(file) = next.pop() {
            for to in self.edges.get(file).into_iter().flatten() {
                if seen.insert(*to) {
                    next.push(to);
                }
            }
        }
        seen
    }

    /// Imports from a folder of `order` to a later one, as (importing folder, imported folder).
    /// Files that lie in no folder count as one of their names.
    pub fn upward(&self, order: &[&str]) -> BTreeSet<(String, String)> {
        let room = |path: &str| {
            let first = path.split('/').next().unwrap_or(path);
            first.trim_end_matches(".rs").to_string()
        };
        let at = |room: &str| order.iter().position(|o| *o == room);
        let mut found = BTreeSet::new();
        for (file, edges) in &self.edges {
            for to in edges {
                let pair = (room(file), room(to));
                if let (Some(from), Some(to)) = (at(&pair.0), at(&pair.1))
                    && from < to
                {
                    found.insert(pair);
                }
            }
        }
        found
    }
}

/// `a/b.rs`, `a/b/mod.rs` as `a::b`.
fn module(path: &str) -> String {
    let path = path.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if ["lib", "main", "mod"].contains(&path) { String::new() } else { path.replace('/', "::") }
}

/// The paths in a code that begin with `crate`, `super` or `self`, with the names in braces each.
fn paths(code: &str) -> impl Iterator<Item = Vec<String>> + '_ {
    let starts = ["crate::", "super::", "self::"];
    let all = starts.into_iter().flat_map(move |start| code.match_indices(start).map(|(at, _)| at));
    let all = all.filter(move |at| {
        let before = code[..*at].chars().next_back();
        before.is_none_or(|c| !(c.is_alphanumeric() || c == '_' || c == ':'))
    });
    all.flat_map(move |at| expanded(&code[at..]).0)
}

/// The paths at the beginning of a text, `a::{b, c::d}` as two, and the text's rest.
fn expanded(text: &str) -> (Vec<Vec<String>>, &str) {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        let mut all = Vec::new();
        loop {
            let before = rest.len();
            let (some, after) = expanded(rest);
            all.extend(some);
            rest = after.trim_start();
            // Beyond `as` and its name.
            let to = rest.find([',', '}']).unwrap_or(rest.len());
            rest = &rest[to..];
            match rest.strip_prefix(',') {
                Some(after) if after.len() < before => rest = after.trim_start(),
                _ => return (all, rest.strip_prefix('}').unwrap_or(rest)),
            }
        }
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match rest.strip_prefix("::") {
        Some(after) if !after.starts_with('<') => {
            let (mut all, rest) = expanded(after);
            if all.is_empty() {
                all.push(vec![]);
            }
            all.iter_mut().for_each(|path| path.insert(0, name.to_string()));
            (all, rest)
        }
        _ if name.is_empty() => (vec![], rest),
        _ => (vec![vec![name.to_string()]], rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_and_imports_upward_are_found() {
        let sources = [
            ("a/mod.rs", "use crate::b::{X as Y, c::{self, Z}};"),
            ("b/mod.rs", "mod c; fn f() { crate::d::g() }"),
            ("b/c.rs", "use super::X; use super::super::a::W;"),
            ("d.rs", ""),
            ("lib.rs", "use crate::a::Q;"),
        ];
        let imports = Imports::of(&sources);
        let of = |file| imports.edges[file].iter().copied().collect::<Vec<_>>();
        assert_eq!(of("a/mod.rs"), ["b/c.rs", "b/mod.rs"]);
        assert_eq!(of("b/mod.rs"), ["d.rs"]);
        assert_eq!(of("b/c.rs"), ["a/mod.rs", "b/mod.rs"]);
        assert_eq!(imports.circles(), [["a/mod.rs", "b/c.rs"]]);
        let up: Vec<_> = imports.upward(&["d", "b", "a"]).into_iter().collect();
        assert_eq!(up, [("b".to_string(), "a".to_string())]);
    }
}
