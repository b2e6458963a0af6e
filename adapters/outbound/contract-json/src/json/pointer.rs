//! JSON pointers being built.
//!
//! Invariant: every pointer that this crate composes is escaped here, so a name with `/` or `~` in
//! it leads to one place only.

/// Appends one reference token (RFC 6901 §3).
pub(crate) fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    for character in token.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            plain => pointer.push(plain),
        }
    }
}

/// The pointer to `token` below `pointer`.
pub(crate) fn below(pointer: &str, token: &str) -> String {
    let mut below = pointer.to_owned();
    push_token(&mut below, token);
    below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_lead_to_the_member_they_name() {
        for (name, pointer) in [
            ("plain", "/plain"),
            ("", "/"),
            ("a/b", "/a~1b"),
            ("m~n", "/m~0n"),
            ("~1", "/~01"),
            ("/~", "/~1~0"),
            ("é", "/é"),
        ] {
            assert_eq!(below("", name), pointer);
            let document = serde_json::json!({ name: 1 });
            assert_eq!(
                document.pointer(pointer),
                Some(&serde_json::json!(1)),
                "{name}"
            );
        }
        assert_eq!(below("/items/0", "a"), "/items/0/a");
    }
}
