//! Items of a source: types, traits, numeric constants, functions and their lengths.

use super::source::body_len;

/// Types that a numeric constant can have.
const NUMBERS: [&str; 13] =
    ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "isize", "f32", "f64"];

/// Names of the types and traits that the code defines, with their keywords.
pub fn types(code: &str) -> impl Iterator<Item = (&str, &str)> {
    code.lines().filter_map(|line| {
        let line = bare(line);
        let (keyword, rest) = line.split_once(' ')?;
        let rest = rest.strip_prefix("trait ").filter(|_| keyword == "unsafe").unwrap_or(rest);
        let is_type = ["struct", "enum", "union", "trait", "unsafe"].contains(&keyword);
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let is_name = rest.starts_with(char::is_uppercase);
        (is_type && is_name).then_some((if keyword == "unsafe" { "trait" } else { keyword }, &rest[..end]))
    })
}

/// Names of the constants of a numeric type.
pub fn constants(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| {
        let (name, rest) = bare(line).strip_prefix("const ")?.split_once(':')?;
        let (kind, _) = rest.split_once('=')?;
        NUMBERS.contains(&kind.trim()).then_some(name)
    })
}

/// Functions with the line on which each begins, from 1, and its number of lines.
pub fn functions(code: &str) -> Vec<(&str, usize, usize)> {
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(at) = code[from..].find("fn ").map(|at| at + from) {
        from = at + 3;
        let is_word = code[..at].chars().next_back().is_none_or(|c| !(c.is_alphanumeric() || c == '_'));
        let name = &code[from..];
        let len = name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(name.len());
        if !is_word || len == 0 {
            continue;
        }
        // A declaration ends with a semicolon, where no bracket is open.
        let mut depth = 0i32;
        let open = name.char_indices().find(|(_, c)| {
            depth += i32::from("([".contains(*c)) - i32::from(")]".contains(*c));
            depth == 0 && "{;".contains(*c)
        });
        if let Some((open, '{')) = open {
            let body = &name[open..];
            let text = &code[at..from + open + body_len(body)];
            all.push((&name[..len], code[..at].lines().count().max(1), text.lines().count()));
        }
    }
    all
}

/// A line without indentation and visibility.
fn bare(line: &str) -> &str {
    let line = line.trim_start();
    let Some(rest) = line.strip_prefix("pub") else { return line };
    match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or(line, |(_, rest)| rest.trim_start()),
        None => rest.strip_prefix(' ').unwrap_or(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found() {
        let code = "pub(crate) struct A<T>;\nenum B { C }\n    pub unsafe trait D {}\ntype E = u8;\nimpl A {\n\
                    pub(super) const F: usize = 3;\nconst G: &str = x;\n    fn h(x: [u8; 2]) -> u8\n    {\n        1\n    }\n\
                    fn i(&self);\n}\nlet f: fn () = i;\n";
        assert_eq!(types(code).collect::<Vec<_>>(), [("struct", "A"), ("enum", "B"), ("trait", "D")]);
        assert_eq!(constants(code).collect::<Vec<_>>(), ["F"]);
        assert_eq!(functions(code), [("h", 8, 4)]);
    }
}
