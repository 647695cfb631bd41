//! `cargo xtask code-metrics`: what can be counted of the sources' order, with its goal.
//!
//! `docs/internals/code-metrics.md` holds the table. `cargo xtask docs` fails if a row misses its
//! limit. How it can be wrong: [`Source`] is a scanner, not a parser.

mod imports;
mod items;
mod source;

use crate::docs::Tree;
use imports::Imports;
use source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

/// A measure of the tree.
struct Measure {
    measure: &'static str,
    goal: usize,
    /// A limit that replaces the goal, and the decision that says why.
    decided: Option<(usize, &'static str)>,
    now: usize,
    /// Where: what a reader who wants to lower the number needs.
    places: Vec<String>,
}

/// Columns of a comment line.
const COLUMNS: usize = 100;
/// Lines of a file, and of a function.
const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 80;

/// Rows whose goals are replaced by a decision.
const LONG_FILES: &str = "files of more than 500 lines that are no lists";
const LONG_FUNCTIONS: &str = "functions of more than 80 lines in sources that are no tables";
const CIRCLES: &str = "circles of files, all crates";
const CIRCLES_ACROSS: &str = "circles of files across folders";
const CONSTANTS: &str = "numeric constants of cpu, gpu, gpu-kernels outside plan, machine and kernels";
const CPU_LINES: &str = "lines of cpu";
const KERNEL_LINES: &str = "lines of kernel and gpu-kernels";

/// Files that are lists: a row, a case or a short function for each entry of something outside.
const LISTS: [&str; 4] = [
    "crates/gpu-kernels/tests/suite/mutations.rs",
    "crates/ops/src/door.rs",
    "crates/ops/tests/elementwise.rs",
    "testing/emulated-cuda/src/sys/api.rs",
];
/// Functions that are tables, by file and name: an arm for each variant, or a row for each case.
const TABLES: [(&str, &str); 7] = [
    ("crates/kernel/src/emit/llvm/mod.rs", "op"),
    ("crates/kernel/src/emit/ptx/mod.rs", "op"),
    ("crates/kernel/src/interp/machine/collective.rs", "collective"),
    ("crates/kernel/src/interp/machine/compute.rs", "inst"),
    ("crates/kernel/src/text/parse/op.rs", "op"),
    ("crates/kernel/src/verify/types.rs", "gives"),
    ("crates/gpu-kernels/src/conv/problem.rs", "read_with"),
];

/// Words of a private language.
const WORDS: [&str; 5] = ["nobody", "whoever", "somebody", "what lies", "had better"];

/// Terms by which the field searches; each is to stand in the first line of the file that does it.
const TERMS: [&str; 7] = ["im2col", "microkernel", "epilogue", "split-k", "prefetch", "tma", "tensor core"];

/// Folders and files of `crates/cpu/src` from the bottom to the top, as its `lib.rs` says.
const CPU_LAYERS: [&str; 15] = [
    "machine",
    "explain",
    "runtime",
    "view",
    "layout",
    "elementwise",
    "lazy",
    "reduce",
    "sort",
    "pool",
    "index",
    "gemm",
    "conv",
    "attention",
    "backend",
];

/// Prints the table, and of each row that misses its goal the places.
pub fn metrics() -> ExitCode {
    let tree = match Tree::of_git() {
        Ok(tree) => tree,
        Err(why) => {
            eprintln!("xtask: {why}");
            return ExitCode::FAILURE;
        }
    };
    let rows = rows(&tree);
    print!("{}", table(&rows));
    for row in rows.iter().filter(|row| row.now > row.goal) {
        println!("\n{}:", row.measure);
        row.places.iter().for_each(|place| println!("  {place}"));
    }
    ExitCode::SUCCESS
}

/// Rows that miss their limits, as sentences.
pub fn faults(tree: &Tree) -> Vec<String> {
    let missed =
        rows(tree).into_iter().filter(|row| row.now > row.decided.map_or(row.goal, |(limit, _)| limit));
    missed
        .map(|row| {
            let places: Vec<&str> = row.places.iter().take(8).map(String::as_str).collect();
            format!("{}: {} of {}; {}", row.measure, row.now, row.goal, places.join(", "))
        })
        .collect()
}

fn table(rows: &[Measure]) -> String {
    let mut text = String::from("| measure | goal | now |\n|---|---:|---:|\n");
    for row in rows {
        let goal = match row.decided {
            Some((limit, why)) => format!("{} ({why}: {limit})", row.goal),
            None => row.goal.to_string(),
        };
        text += &format!("| {} | {goal} | {} |\n", row.measure, row.now);
    }
    text
}

/// All sources of the tree by their paths, split once.
struct Sources<'a>(BTreeMap<&'a str, (&'a str, Source)>);

impl<'a> Sources<'a> {
    /// Files below `folder`.
    fn below<'b>(&'b self, folder: &'b str) -> impl Iterator<Item = (&'a str, &'a str, &'b Source)> + 'b {
        self.0
            .iter()
            .filter(move |(path, _)| path.starts_with(folder))
            .map(|(path, (text, source))| (*path, *text, source))
    }
    /// Sources of the crates themselves, without their tests and examples.
    fn products(&self) -> impl Iterator<Item = (&'a str, &'a str, &Source)> {
        let is_product = |path: &str| path.contains("/src/") && !path.ends_with("/tests.rs");
        self.below("crates/").filter(move |(path, ..)| is_product(path))
    }
    /// The crates' folders of sources.
    fn crates(&self) -> BTreeSet<&'a str> {
        self.0.keys().filter_map(|path| path.find("/src/").map(|at| &path[..at + 5])).collect()
    }
    fn lines(&self, folder: &str) -> usize {
        self.below(folder).map(|(_, text, _)| text.lines().count()).sum()
    }
}

fn rows(tree: &Tree) -> Vec<Measure> {
    let all = tree.ending(".rs").filter(|(path, _)| !path.starts_with("fuzz/"));
    let sources = Sources(all.map(|(path, text)| (path, (text, Source::of(text)))).collect());
    let lines = |page: &str| tree.files.get(page).map_or(0, |text| text.lines().count());
    let row = |measure, goal, places: Vec<String>| Measure {
        measure,
        goal,
        decided: None,
        now: places.len(),
        places,
    };
    let count = |measure, goal, now| Measure { measure, goal, decided: None, now, places: vec![] };
    let all = vec![
        count("lines of docs/architecture.md", 150, lines("docs/architecture.md")),
        count("lines of README.md", 60, lines("README.md")),
        count("lines of CONTRIBUTING.md", 60, lines("CONTRIBUTING.md")),
        row("times (ns, us, ms) in comments of sources", 0, times(&sources)),
        row(
            "nobody, whoever, somebody, \"what lies\", \"had better\" in sources and tests",
            0,
            words(&sources),
        ),
        row("terms of the field that no first line of a file has", 0, missing_terms(&sources)),
        row("comment lines wider than 100 columns", 0, wide(&sources)),
        row(LONG_FILES, 0, long_files(&sources)),
        row(LONG_FUNCTIONS, 0, long_functions(&sources)),
        row("names of types that a crate has more than twice", 0, repeated_types(&sources)),
        row("traits of cpu", 25, traits(&sources, "crates/cpu/src/")),
        row(CIRCLES, 5, circles(&sources, false)),
        row(CIRCLES_ACROSS, 0, circles(&sources, true)),
        row("imports of a higher layer inside cpu (folder to folder)", 5, upward(&sources)),
        row(CONSTANTS, 100, constants(&sources)),
        count(CPU_LINES, 25_000, sources.lines("crates/cpu/src/")),
        count(
            KERNEL_LINES,
            23_500,
            sources.lines("crates/kernel/src/") + sources.lines("crates/gpu-kernels/src/"),
        ),
    ];
    // Limits in the place of goals, and the decisions that say why.
    let decided = |measure: Measure| {
        let (sizes, kept) = (
            "[ADR 23](../adr/0023-sizes-of-the-backends.md)",
            "[ADR 24](../adr/0024-circles-constants-and-kernels-as-one-function.md)",
        );
        let limit = match measure.measure {
            LONG_FILES => Some((5, kept)),
            LONG_FUNCTIONS => Some((24, kept)),
            CIRCLES => Some((36, kept)),
            CIRCLES_ACROSS => Some((5, kept)),
            CONSTANTS => Some((155, kept)),
            CPU_LINES => Some((33_000, sizes)),
            KERNEL_LINES => Some((36_500, sizes)),
            _ => None,
        };
        Measure { decided: limit, ..measure }
    };
    all.into_iter().map(decided).collect()
}

fn times(sources: &Sources<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (path, _, source) in sources.products() {
        let with = source.comments.iter().enumerate().filter(|(_, comment)| has_time(comment));
        found.extend(with.map(|(line, _)| format!("{path}:{}", line + 1)));
    }
    found
}

/// Is there a number with a unit of short times?
fn has_time(comment: &str) -> bool {
    let words: Vec<&str> = comment.split(|c: char| !(c.is_alphanumeric() || c == '.')).collect();
    let is_unit = |word: &str| ["ns", "us", "ms", "\u{b5}s"].contains(&word.trim_end_matches('.'));
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let joined = |word: &str| {
        is_number(word) && is_unit(word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.'))
    };
    words.windows(2).any(|w| is_number(w[0]) && is_unit(w[1])) || words.iter().any(|word| joined(word))
}

fn words(sources: &Sources<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text, _) in sources.below("").filter(|(path, ..)| !path.starts_with("xtask/src/metrics")) {
        for (line, text) in text.lines().enumerate() {
            let text = text.to_lowercase();
            let named = WORDS.iter().filter(|word| text.contains(**word));
            found.extend(named.map(|word| format!("{path}:{}: {word}", line + 1)));
        }
    }
    found
}

fn missing_terms(sources: &Sources<'_>) -> Vec<String> {
    let first: Vec<String> =
        sources.products().filter_map(|(_, text, _)| text.lines().next()).map(str::to_lowercase).collect();
    let has = |term: &str| {
        let is_word = |c: char| c.is_alphanumeric();
        first.iter().any(|line| {
            line.match_indices(term).any(|(at, _)| {
                !line[..at].ends_with(is_word)
                    && !line[at + term.len()..].trim_start_matches('s').starts_with(is_word)
            })
        })
    };
    TERMS.iter().filter(|term| !has(term)).map(|term| term.to_string()).collect()
}

fn wide(sources: &Sources<'_>) -> Vec<String> {
    let all = sources.below("").map(|(path, text, _)| (path, wide_comments(text)));
    all.flat_map(|(path, lines)| lines.into_iter().map(move |line| format!("{path}:{line}"))).collect()
}

/// Comment lines that could have been wrapped: rows of tables and code in fences cannot.
fn wide_comments(text: &str) -> Vec<usize> {
    let mut fence = false;
    let mut wide = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            fence = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        let is_fence = comment.starts_with("```");
        fence ^= is_fence;
        if line.chars().count() > COLUMNS && !fence && !is_fence && !comment.starts_with('|') {
            wide.push(i + 1);
        }
    }
    wide
}

fn long_files(sources: &Sources<'_>) -> Vec<String> {
    let lines = sources.below("").map(|(path, text, _)| (text.lines().count(), path));
    let mut long: Vec<_> =
        lines.filter(|(lines, path)| *lines > FILE_LINES && !LISTS.contains(path)).collect();
    long.sort_unstable_by(|a, b| b.cmp(a));
    long.into_iter().map(|(lines, path)| format!("{path} {lines}")).collect()
}

fn long_functions(sources: &Sources<'_>) -> Vec<String> {
    let mut long = Vec::new();
    for (path, _, source) in sources.products() {
        for (name, at, lines) in items::functions(&source.code) {
            if lines > FUNCTION_LINES
                && !TABLES.iter().any(|(file, function)| *file == path && *function == name)
            {
                long.push((lines, format!("{path}:{at} {name}")));
            }
        }
    }
    long.sort_unstable_by(|a, b| b.cmp(a));
    long.into_iter().map(|(lines, place)| format!("{place} {lines}")).collect()
}

/// A crate with one folder for each driver.
const DRIVERS: &str = "crates/driver/src/";

fn repeated_types(sources: &Sources<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for folder in sources.crates() {
        let mut names: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for (path, _, source) in sources.below(folder) {
            let file = &path[folder.len()..];
            // Drivers are built alike, of parts that have the same names in each.
            let driver = if folder == DRIVERS { file.split_once('/').map_or("", |(d, _)| d) } else { "" };
            for (_, name) in items::types(&source.code) {
                names.entry((driver, name)).or_default().push(file);
            }
        }
        let repeated = names.into_iter().filter(|(_, places)| places.len() > 2);
        found.extend(repeated.map(|((_, name), places)| format!("{folder} {name}: {}", places.join(", "))));
    }
    found
}

fn traits(sources: &Sources<'_>, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (path, _, source) in sources.below(folder) {
        let traits = items::types(&source.code).filter(|(keyword, _)| *keyword == "trait");
        found.extend(traits.map(|(_, name)| format!("{path} {name}")));
    }
    found
}

/// The imports of a crate; `folder` ends in `src/`.
fn imports<'a>(sources: &Sources<'a>, folder: &str) -> Imports<'a> {
    let files: Vec<(&str, &str)> = sources
        .below(folder)
        .map(|(path, _, source)| (&path[folder.len()..], source.code.as_str()))
        .collect();
    Imports::of(&files)
}

fn circles(sources: &Sources<'_>, across: bool) -> Vec<String> {
    let mut found = Vec::new();
    for folder in sources.crates() {
        for circle in imports(sources, folder).circles() {
            let folders: BTreeSet<&str> =
                circle.iter().map(|path| path.rsplit_once('/').map_or("", |(folder, _)| folder)).collect();
            if !across || folders.len() > 1 {
                found.push(format!("{folder} {}", circle.join(" ")));
            }
        }
    }
    found
}

fn upward(sources: &Sources<'_>) -> Vec<String> {
    let pairs = imports(sources, "crates/cpu/src/").upward(&CPU_LAYERS);
    pairs.into_iter().map(|(from, to)| format!("{from} -> {to}")).collect()
}

fn constants(sources: &Sources<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["crates/cpu/src/", "crates/gpu/src/", "crates/gpu-kernels/src/"] {
        for (path, _, source) in sources.below(folder) {
            let inner = &path[folder.len()..];
            let is_apart =
                |part: &str| ["plan", "plan.rs", "machine.rs", "kernels", "kernels.rs"].contains(&part);
            if !inner.split('/').any(is_apart) {
                found.extend(items::constants(&source.code).map(|name| format!("{path} {name}")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_with_a_unit() {
        for (comment, want) in [
            ("takes 3 us less", true),
            ("0.5us", true),
            ("40 ms.", true),
            ("3 uses, 5 msb", false),
            ("us", false),
            ("NS_PER 3", false),
        ] {
            assert_eq!(has_time(comment), want, "{comment}");
        }
    }

    #[test]
    fn wide_comments_are_those_that_could_be_wrapped() {
        let wide = "x".repeat(99);
        let text =
            format!("// {wide}\n/// | {wide}\n/// ```\n/// {wide}\n/// ```\n    //! {wide}\nlet {wide};\n");
        assert_eq!(wide_comments(&text), [1, 6]);
    }

    #[test]
    fn a_row_that_misses_its_limit_is_a_fault() {
        let long = "fn f() {}\n".repeat(501);
        let short = "// nobody knows\n// in 3 us\nconst A: usize = 1;\n".to_string();
        // One more than the decision allows.
        let files = (0..8).map(|i| (format!("crates/cpu/src/b{i}.rs"), long.clone()));
        let tree = Tree::of(files.chain([("crates/cpu/src/a.rs".to_string(), short)]));
        let faults = faults(&tree);
        for what in ["times", "nobody", "terms", "files of more than 500"] {
            assert!(faults.iter().any(|fault| fault.starts_with(what)), "{what}: {faults:?}");
        }
        assert_eq!(faults.len(), 4, "{faults:?}");
        assert!(table(&rows(&tree)).contains(") | 4011 |"));
    }
}
