//! What the error sentences name: a reader who is told to call a method must find it.
//!
//! How it can be wrong: a method of another type has the name. What stands behind "with" is
//! therefore looked for among the methods and options of tensors alone.

use super::tree::Tree;

/// The crate of the type that the sentences are about.
const TENSOR: &str = "crates/tensor/src/";

/// Names after "with" in sentences of the crates that are neither a method of a tensor nor a field
/// of its options.
pub fn unknown_methods(tree: &Tree) -> Vec<String> {
    let tensor: String =
        tree.ending(".rs").filter(|(path, _)| path.starts_with(TENSOR)).map(|f| f.1).collect();
    let is_known = |name: &str| {
        [format!("fn {name}("), format!("fn {name}<"), format!("fn {name},"), format!("pub {name}:")]
            .iter()
            .any(|form| tensor.contains(form.as_str()))
    };
    let sources =
        tree.ending(".rs").filter(|(path, _)| path.starts_with("crates/") && path.contains("/src/"));
    let mut faults = vec![];
    for (path, text) in sources {
        for sentence in strings(text) {
            for name in named(&sentence).filter(|name| !is_known(name)) {
                faults.push(format!("{path}: \"{sentence}\" names {name}, which tensors do not have"));
            }
        }
    }
    faults
}

/// Words with an underscore after "with".
fn named(sentence: &str) -> impl Iterator<Item = &str> {
    let words = || sentence.split_whitespace();
    words().zip(words().skip(1)).filter(|(before, _)| *before == "with").filter_map(|(_, word)| {
        let end = word.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(word.len());
        (word[..end].contains('_')).then_some(&word[..end])
    })
}

/// The string literals of a source, with escapes as they are and without line breaks.
fn strings(text: &str) -> Vec<String> {
    let (mut all, mut rest) = (vec![], text);
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let here = &rest[at..];
        let skip = if here.starts_with("//") {
            here.find('\n').unwrap_or(here.len())
        } else if here.starts_with("'\"'") {
            3
        } else if here.starts_with("'\\\"'") {
            4
        } else if let Some(body) = here.strip_prefix('"') {
            let end = end(body);
            let lines = body[..end].split("\\\n").map(str::trim_start).collect::<String>();
            all.push(lines);
            end + 2
        } else {
            1
        };
        rest = here.get(skip..).unwrap_or("");
    }
    all
}

/// The length of a string's body.
fn end(body: &str) -> usize {
    let mut escaped = false;
    for (i, c) in body.char_indices() {
        match c {
            '"' if !escaped => return i,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    body.len()
}

#[cfg(test)]
mod tests {
    use super::super::tree::small;
    use super::*;

    #[test]
    fn a_method_that_tensors_lack_is_found() {
        let tensor = "pub fn copy_to<C>(&self) {}\n/// doc\nfn to_dtype, try_to_dtype(d: DType) -> T;\npub keep_all: bool,";
        let source = "// \"with no_such\"\nlet c = '\"';\nf(\"{}; copy one with copy_to, or with to_dtype, \\\n     with keep_all or with to_nowhere\")";
        let tree = small(&[("crates/tensor/src/a.rs", tensor), ("crates/x/src/b.rs", source)]);
        let found = unknown_methods(&tree);
        assert!(found.len() == 1 && found[0].contains("names to_nowhere"), "{found:?}");
    }
}
