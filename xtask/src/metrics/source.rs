//! A Rust source apart: its code without comments, texts and tests, and its comments.
//!
//! How it can be wrong: this is a scanner, not a parser. It knows comments, literals and braces; a
//! macro that makes items is seen as its text.

/// A source file, split.
pub struct Source {
    /// The code: comments and the contents of literals are blanks, lines are those of the file.
    /// Test modules are left out.
    pub code: String,
    /// Each line's comment, without its slashes; empty where there is none.
    pub comments: Vec<String>,
}

impl Source {
    pub fn of(text: &str) -> Source {
        let (code, comments) = split(text);
        Source { code: without_tests(code), comments }
    }
}

/// Code with blanks for comments and contents of literals, and the comments of the lines.
fn split(text: &str) -> (String, Vec<String>) {
    let chars: Vec<char> = text.chars().collect();
    let (mut code, mut comments) = (String::with_capacity(text.len()), vec![String::new()]);
    let mut i = 0;
    let starts = |i: usize, with: &str| with.chars().enumerate().all(|(k, c)| chars.get(i + k) == Some(&c));
    // Copies or blanks the characters up to `end`, with line breaks kept.
    let blank = |from: usize, end: usize, code: &mut String, comments: &mut Vec<String>| {
        for &c in &chars[from..end.min(chars.len())] {
            if c == '\n' {
                code.push('\n');
                comments.push(String::new());
            } else {
                code.push(' ');
            }
        }
    };
    while i < chars.len() {
        let c = chars[i];
        let end = if starts(i, "//") {
            let end = (i..chars.len()).find(|&k| chars[k] == '\n').unwrap_or(chars.len());
            let text: String = chars[i..end].iter().collect();
            if let Some(line) = comments.last_mut() {
                *line = text.trim_start_matches(['/', '!']).to_string();
            }
            end
        } else if starts(i, "/*") {
            (i + 2..chars.len()).find(|&k| starts(k, "*/")).map_or(chars.len(), |k| k + 2)
        } else if c == '"' {
            end_of_string(&chars, i + 1)
        } else if c == 'r' && !is_word_before(&chars, i) && raw_hashes(&chars, i + 1).is_some() {
            let hashes = raw_hashes(&chars, i + 1).unwrap_or(0);
            let close = format!("\"{}", "#".repeat(hashes));
            let from = i + 2 + hashes;
            (from..chars.len()).find(|&k| starts(k, &close)).map_or(chars.len(), |k| k + 1 + hashes)
        } else if c == '\'' {
            end_of_char(&chars, i)
        } else {
            i
        };
        if end > i {
            blank(i, end, &mut code, &mut comments);
            i = end;
            continue;
        }
        code.push(c);
        if c == '\n' {
            comments.push(String::new());
        }
        i += 1;
    }
    (code, comments)
}

fn is_word_before(chars: &[char], i: usize) -> bool {
    i > 0 && (chars[i - 1].is_alphanumeric() || chars[i - 1] == '_') && chars[i - 1] != 'b'
}

/// The number of `#` between `r` and the quote of a raw string.
fn raw_hashes(chars: &[char], from: usize) -> Option<usize> {
    let hashes = chars[from..].iter().take_while(|c| **c == '#').count();
    (chars.get(from + hashes) == Some(&'"')).then_some(hashes)
}

fn end_of_string(chars: &[char], from: usize) -> usize {
    let mut i = from;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// Behind a character literal, or the quote itself for a lifetime.
fn end_of_char(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => {
            let end = (at + 3..chars.len()).find(|&k| chars[k] == '\'');
            end.map_or(chars.len(), |k| k + 1)
        }
        (Some(_), Some('\'')) => at + 3,
        _ => at,
    }
}

/// Blanks the bodies of modules behind `#[cfg(test)]`.
fn without_tests(mut code: String) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut from = 0;
    while let Some(at) = code[from..].find(MARK).map(|at| at + from) {
        from = at + MARK.len();
        let rest = &code[from..];
        let is_module = rest.trim_start().trim_start_matches("pub(crate) ").starts_with("mod ");
        let (open, semicolon) = (rest.find('{'), rest.find(';'));
        if let (true, Some(open)) = (is_module, open.filter(|open| semicolon.is_none_or(|s| *open < s))) {
            let end = from + open + body_len(&rest[open..]);
            let blanks: String = code[from..end].chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
            code.replace_range(from..end, &blanks);
        }
    }
    code
}

/// The length of a body that begins with its brace.
pub fn body_len(text: &str) -> usize {
    let mut depth = 0usize;
    for (i, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return i + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_without_comments_texts_and_tests() {
        let text = "let a = \"x // y\"; // why\n/* no */ fn f<'a>(c: char) { c == '{' || c == '\\'' }\n\
                    let r = r#\"\"quoted\"\"#;\n#[cfg(test)]\nmod tests { fn g() {} }\nfn h() {}\n";
        let source = Source::of(text);
        assert_eq!(source.comments[0], " why");
        assert_eq!(source.comments.len(), 7);
        let code: Vec<&str> = source.code.lines().map(str::trim).collect();
        assert_eq!(code[0].trim_end(), "let a =         ;");
        assert!(code[1].starts_with("fn f<'a>(c: char) { c ==") && !code[1].contains("'{'"), "{:?}", code[1]);
        assert!(code[2].starts_with("let r =") && code[2].ends_with(';'));
        assert!(!source.code.contains("fn g") && source.code.contains("fn h"));
        assert_eq!(body_len("{ a { b } } c"), 11);
    }
}
