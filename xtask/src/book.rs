//! `cargo xtask book`: the documentation as a book, if mdBook is installed.
//!
//! The book is made of the project as it lies on disk, not of `docs/` alone: pages link to README
//! and to the result pages in `benchmarks/`, so these are chapters too, and links hold as they are.

use crate::docs::{Tree, resolve, targets};
use crate::root;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const SUMMARY: &str = "docs/SUMMARY.md";
const SETTINGS: &str = "docs/book.toml";

/// Builds the book into `target/book`. Without mdBook it prints how to install it, and succeeds:
/// every page is readable as it is.
pub fn book() -> ExitCode {
    let built = Tree::of_git().and_then(|tree| {
        let source = root().join("target/book-source");
        write(&source, &tree).map_err(|e| format!("{}: {e}", source.display()))?;
        run(&source)
    });
    match built {
        Ok(Some(page)) => println!("{}", page.display()),
        Ok(None) => {
            println!(
                "mdBook is not installed: `cargo install mdbook` gets it, and then this builds target/book."
            );
        }
        Err(why) => {
            eprintln!("xtask: {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Runs mdBook; the first page, or `None` if mdBook is not installed.
fn run(source: &Path) -> Result<Option<PathBuf>, String> {
    let to = root().join("target/book");
    match Command::new("mdbook").arg("build").arg(source).arg("--dest-dir").arg(&to).status() {
        Ok(status) if status.success() => Ok(Some(to.join("index.html"))),
        Ok(status) => Err(format!("mdbook: {status}")),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(format!("mdbook did not start: {e}")),
    }
}

/// Writes what mdBook reads: settings, summary, chapters, and the files that they link to.
fn write(source: &Path, tree: &Tree) -> std::io::Result<()> {
    if source.exists() {
        fs::remove_dir_all(source)?;
    }
    let (summary, files) = (summary(tree), files(tree));
    for path in &files {
        let to = source.join(path);
        fs::create_dir_all(to.parent().unwrap_or(source))?;
        fs::copy(root().join(path), to)?;
    }
    fs::write(source.join("SUMMARY.md"), summary)?;
    fs::write(source.join("book.toml"), tree.files.get(SETTINGS).map_or("", String::as_str))
}

/// The summary, the chapters that it lists, and the files that README and chapters link to.
fn files(tree: &Tree) -> BTreeSet<String> {
    let mut next = vec!["README.md".to_string(), SUMMARY.to_string()];
    let mut files = BTreeSet::new();
    while let Some(path) = next.pop() {
        let Some(text) = tree.files.get(&path) else { continue };
        if path.ends_with(".md") && !files.contains(&path) {
            let linked = targets(text).map(|target| target.split('#').next().unwrap_or(target));
            next.extend(linked.filter(|file| !file.is_empty()).filter_map(|file| resolve(&path, file)));
        }
        files.insert(path);
    }
    files
}

/// `docs/SUMMARY.md` with paths from the project's root, README in front of it, and the pages
/// outside of `docs/` behind it.
fn summary(tree: &Tree) -> String {
    let mut lines = vec!["# Summary\n\n[elinvar](README.md)\n[All pages](docs/SUMMARY.md)".to_string()];
    for line in tree.files.get(SUMMARY).map_or("", String::as_str).lines().skip(1) {
        lines.push(line.replace("](", "](docs/"));
    }
    lines.push("\n# Project\n".to_string());
    let outside = files(tree).into_iter().filter(|path| path.ends_with(".md") && !path.starts_with("docs/"));
    for path in outside.filter(|path| path != "README.md") {
        let title = tree.files[&path].lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(&path);
        lines.push(format!("- [{title}]({path})"));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docs::small;

    #[test]
    fn the_book_has_what_its_pages_link_to() {
        let tree = small(&[
            ("README.md", "# r\n[a](docs/a.md) [code](x/y.rs)"),
            ("docs/SUMMARY.md", "# Summary\n\n- [A](a.md)\n  - [B](b/c.md)\n"),
            ("docs/a.md", "[page](../benchmarks/p.md#there) [web](https://a.b)"),
            ("docs/b/c.md", "![](../d.svg)"),
            ("docs/d.svg", ""),
            ("benchmarks/p.md", "# Page\n"),
            ("x/y.rs", ""),
            ("other.md", ""),
        ]);
        let all: Vec<String> = files(&tree).into_iter().collect();
        assert_eq!(
            all,
            [
                "README.md",
                "benchmarks/p.md",
                "docs/SUMMARY.md",
                "docs/a.md",
                "docs/b/c.md",
                "docs/d.svg",
                "x/y.rs"
            ]
        );
        assert_eq!(
            summary(&tree),
            "# Summary\n\n[elinvar](README.md)\n[All pages](docs/SUMMARY.md)\n\n- [A](docs/a.md)\n  - [B](docs/b/c.md)\n\n# Project\n\n- [Page](benchmarks/p.md)\n"
        );
    }
}
