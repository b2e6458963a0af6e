//! Just enough of Rust's lexical rules to look at code without being fooled by comments.
//!
//! Invariant: what is blanked is exactly comments, string and character literals; line numbers
//! stay as they are.

/// The text with comments and literals replaced by spaces.
pub(crate) fn without_comments_and_literals(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let length = match chars[at] {
            '/' if chars.get(at + 1) == Some(&'/') => line_comment(&chars[at..]),
            '/' if chars.get(at + 1) == Some(&'*') => block_comment(&chars[at..]),
            '"' => quoted(&chars[at..]),
            'r' if !continues_a_word(&chars, at) => raw_string(&chars[at..]),
            '\'' => character(&chars[at..]),
            _ => 0,
        };
        if length == 0 {
            out.push(chars[at]);
            at += 1;
        } else {
            let end = (at + length).min(chars.len());
            out.extend(
                chars[at..end]
                    .iter()
                    .map(|c| if *c == '\n' { '\n' } else { ' ' }),
            );
            at = end;
        }
    }
    out
}

/// The same without the modules behind `#[cfg(test)]`; expects blanked text.
pub(crate) fn without_test_modules(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find("#[cfg(test)]") {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let length = item_length(from);
        out.extend(from[..length].chars().filter(|c| *c == '\n'));
        rest = &from[length..];
    }
    out.push_str(rest);
    out
}

/// Whether `word` stands in `code` as a whole identifier.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn continues_a_word(chars: &[char], at: usize) -> bool {
    // `br"…"` is a raw string as well, so a lone `b` in front does not count.
    match at.checked_sub(1).map(|before| chars[before]) {
        Some('b') => at >= 2 && is_word(chars[at - 2]),
        Some(before) => is_word(before),
        None => false,
    }
}

fn line_comment(chars: &[char]) -> usize {
    chars.iter().position(|c| *c == '\n').unwrap_or(chars.len())
}

fn block_comment(chars: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                at += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    chars.len()
}

fn quoted(chars: &[char]) -> usize {
    let mut at = 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn raw_string(chars: &[char]) -> usize {
    let hashes = chars[1..].iter().take_while(|c| **c == '#').count();
    if chars.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let mut at = 2 + hashes;
    while at < chars.len() {
        if chars[at] == '"'
            && chars[at + 1..]
                .iter()
                .take(hashes)
                .filter(|c| **c == '#')
                .count()
                == hashes
        {
            return at + 1 + hashes;
        }
        at += 1;
    }
    chars.len()
}

/// A character literal, or 0 for a lifetime.
fn character(chars: &[char]) -> usize {
    match (chars.get(1), chars.get(2)) {
        (Some('\\'), Some(_)) => {
            let close = chars.iter().skip(3).position(|c| *c == '\'');
            close.map_or(0, |position| position + 4)
        }
        (Some(_), Some('\'')) => 3,
        _ => 0,
    }
}

/// From the attribute to the end of the item behind it.
fn item_length(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            ';' if depth == 0 => return at + 1,
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        without_comments_and_literals(text)
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        for hidden in [
            "// tokio",
            "/* a /* tokio */ tokio */",
            "\"\\\" tokio\"",
            "r#\"a \" tokio\"#",
            "br\"tokio\"",
            "//! tokio",
        ] {
            assert!(
                !has_word(&code(&format!("let a = {hidden}\n;")), "tokio"),
                "{hidden}"
            );
        }
        assert!(has_word(&code("/* */ use tokio::sync;"), "tokio"));
        assert!(has_word(
            &code("let c = '\"'; use tokio; let d = '\\'';"),
            "tokio"
        ));
        assert!(has_word(&code("fn f<'a>(x: &'a str) -> tokio::X"), "tokio"));
    }

    #[test]
    fn a_word_is_whole() {
        assert!(!has_word("my_tokio tokio_util", "tokio"));
        assert!(has_word("a(tokio)", "tokio"));
    }

    #[test]
    fn line_numbers_stay() {
        let text = "a\n/* x\ny */\n#[cfg(test)]\nmod tests {\n  { }\n}\nb\n";
        let kept = without_test_modules(&code(text));
        assert_eq!(kept.lines().count(), text.lines().count());
        assert!(has_word(&kept, "b"));
        assert!(!has_word(&kept, "tests"));
    }

    #[test]
    fn a_test_module_in_its_own_file_is_one_item() {
        let kept = without_test_modules("#[cfg(test)]\nmod tests;\nuse tokio;\n");
        assert!(has_word(&kept, "tokio"));
        assert!(!has_word(&kept, "tests"));
    }
}
