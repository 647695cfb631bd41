//! Maximum lengths of pages, and widths of comments.

use super::tree::Tree;

/// Pages, and their maximum number of lines.
const LENGTHS: [(&str, usize); 3] =
    [("README.md", 60), ("CONTRIBUTING.md", 60), ("docs/architecture.md", 150)];
/// Maximum columns of a comment line.
const COLUMNS: usize = 100;
/// Folders whose comments are measured.
const FOLDERS: [&str; 3] = ["crates/", "lab/", "testing/"];
/// The number of wider comment lines. It may only decrease: a change that wraps comments lowers it.
const TOO_WIDE: usize = 15;
/// By how many lines it may be lower before the limit has to be updated, so that not every change
/// has to touch it.
const SLACK: usize = 50;

/// Pages that are too long, and comments that are too wide.
pub fn faults(tree: &Tree) -> Vec<String> {
    limits(tree, TOO_WIDE)
}

fn limits(tree: &Tree, too_wide: usize) -> Vec<String> {
    let mut faults = Vec::new();
    for (page, most) in LENGTHS {
        match tree.files.get(page).map(|text| text.lines().count()) {
            None => faults.push(format!("there is no {page}")),
            Some(lines) if lines > most => {
                faults.push(format!("{page} has {lines} lines; {most} are enough"))
            }
            Some(_) => {}
        }
    }
    let sources = tree.ending(".rs").filter(|(path, _)| FOLDERS.iter().any(|f| path.starts_with(f)));
    let mut wide: Vec<(usize, &str)> = sources
        .map(|(path, text)| (text.lines().filter(|line| is_wide_comment(line)).count(), path))
        .filter(|(count, _)| *count > 0)
        .collect();
    let count: usize = wide.iter().map(|(count, _)| count).sum();
    if count > too_wide {
        wide.sort_unstable_by(|a, b| b.cmp(a));
        let most: Vec<String> = wide.iter().take(5).map(|(n, path)| format!("{path}: {n}")).collect();
        faults.push(format!(
            "{count} comment lines are wider than {COLUMNS} columns, and TOO_WIDE allows {too_wide}; most of them: {}",
            most.join(", ")
        ));
    } else if count + SLACK < too_wide {
        faults
            .push(format!("{count} comment lines are wider than {COLUMNS} columns: lower TOO_WIDE to that"));
    }
    faults
}

fn is_wide_comment(line: &str) -> bool {
    line.trim_start().starts_with("//") && line.chars().count() > COLUMNS
}

#[cfg(test)]
mod tests {
    use super::super::tree::small;
    use super::*;

    #[test]
    fn long_pages_and_wide_comments_are_found_and_the_limit_goes_down() {
        let (long, wide) = ("x\n".repeat(61), format!("    // {}\n", "x".repeat(100)).repeat(60));
        let fine = format!("{} {}\n// short\n", "let x = 1;", "y".repeat(100));
        let pages = [("CONTRIBUTING.md", ""), ("docs/architecture.md", ""), ("crates/a.rs", wide.as_str())];
        let tree = small(&[&pages[..], &[("README.md", "x\n"), ("lab/b.rs", fine.as_str())]].concat());
        assert!(limits(&tree, 60).is_empty() && limits(&tree, 110).is_empty());
        assert!(
            limits(&tree, 59)[0].contains("60 comment lines")
                && limits(&tree, 59)[0].contains("crates/a.rs: 60")
        );
        assert!(limits(&tree, 111)[0].ends_with("lower TOO_WIDE to that"));
        let tree = small(&[&pages[..2], &[("README.md", long.as_str())]].concat());
        assert_eq!(limits(&tree, 0), ["README.md has 61 lines; 60 are enough"]);
        assert_eq!(limits(&small(&[]), 0).len(), 3);
    }
}
