//! The files of the project, as text.

use crate::root;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Paths relative to the project, with `/`; binary files have no text.
#[derive(Debug, Default)]
pub struct Tree {
    pub files: BTreeMap<String, String>,
    dirs: BTreeSet<String>,
}

impl Tree {
    /// All files that git tracks or does not ignore.
    ///
    /// # Errors
    /// A sentence if there is no git, or this is not a checkout.
    pub fn of_git() -> Result<Tree, String> {
        let list = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"];
        let out = Command::new("git").args(list).current_dir(root()).output();
        let out = out.map_err(|e| format!("git did not start: {e}"))?;
        if !out.status.success() {
            return Err(format!("git: {}", String::from_utf8_lossy(&out.stderr).trim()));
        }
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        // A file that was deleted and not committed is listed, but does not exist.
        let there = text.split('\0').filter(|path| root().join(path).is_file());
        Ok(Tree::of(there.map(|path| {
            let bytes = std::fs::read(root().join(path)).unwrap_or_default();
            (path.to_string(), String::from_utf8(bytes).unwrap_or_default())
        })))
    }
    pub fn of(files: impl IntoIterator<Item = (String, String)>) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            let mut dir = path.as_str();
            while let Some((parent, _)) = dir.rsplit_once('/') {
                tree.dirs.insert(parent.to_string());
                dir = parent;
            }
            tree.files.insert(path, text);
        }
        tree
    }
    /// Files with this suffix.
    pub fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.files.iter().filter(move |(path, _)| path.ends_with(end));
        all.map(|(path, text)| (path.as_str(), text.as_str()))
    }
    /// Is there a file or a folder of this path?
    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        path.is_empty() || self.files.contains_key(path) || self.dirs.contains(path)
    }
}

/// `a/b/../c` as `a/c`; `None` if it leaves the project.
pub fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Lines outside of fenced code, with their numbers from 1.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    text.lines().enumerate().filter_map(move |(i, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        (!code && !fence).then_some((i + 1, line))
    })
}

#[cfg(test)]
pub fn small(files: &[(&str, &str)]) -> Tree {
    Tree::of(files.iter().map(|(path, text)| (path.to_string(), text.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved_within_the_project() {
        for (from, target, want) in [
            ("docs/a.md", "b.md", Some("docs/b.md")),
            ("docs/a/b.md", "../c/./d.md", Some("docs/c/d.md")),
            ("README.md", "docs/", Some("docs")),
            ("README.md", "../x", None),
        ] {
            assert_eq!(resolve(from, target).as_deref(), want, "{from} {target}");
        }
    }

    #[test]
    fn folders_are_those_of_files() {
        let tree = small(&[("a/b/c.rs", "")]);
        assert!(tree.has("a") && tree.has("a/b/") && tree.has("a/b/c.rs") && !tree.has("a/c"));
    }

    #[test]
    fn fenced_code_is_no_prose() {
        let lines: Vec<_> = prose("a\n```rust\nb\n```\nc").collect();
        assert_eq!(lines, [(1, "a"), (5, "c")]);
    }
}
