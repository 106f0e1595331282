//! PTX text as tokens.
//!
//! Source: PTX ISA 9.x, "Syntax".

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind<'a> {
    /// `.entry`, `.global`, `.u32`: with its dot.
    Dot(&'a str),
    /// `axpy`, `%r1`, `ld`.
    Word(&'a str),
    /// A number as it is written.
    Number(&'a str),
    /// A string, without its quotes.
    Text,
    /// Any other character.
    Sign(u8),
}

/// A token and the line it stands on, from 1: a few directives end with their line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) line: u32,
}

/// Splits the text; `None` if a comment or a string doesn't end, or a byte can't stand in PTX.
pub(super) fn lex(text: &str) -> Option<Vec<Token<'_>>> {
    Lexer { rest: text, line: 1 }.collect()
}

/// The first token of a text, whatever follows.
pub(super) fn first(text: &str) -> Option<Kind<'_>> {
    Lexer { rest: text, line: 1 }.next().flatten().map(|token| token.kind)
}

struct Lexer<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Option<Token<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let line = self.line;
            match self.step() {
                Some(Some(kind)) => return Some(Some(Token { kind, line })),
                Some(None) => {}
                None => {
                    self.rest = "";
                    return Some(None);
                }
            }
        }
        None
    }
}

impl<'a> Lexer<'a> {
    /// Passes over one token, or over what stands between tokens; `None` if it can't be either.
    #[expect(clippy::option_option, reason = "the outer one is broken text")]
    fn step(&mut self) -> Option<Option<Kind<'a>>> {
        let rest = self.rest;
        let first = rest.bytes().next()?;
        let (kind, len) = match first {
            b if b.is_ascii_whitespace() => (None, 1),
            b'/' if rest.starts_with("//") => (None, rest.find('\n').unwrap_or(rest.len())),
            b'/' if rest.starts_with("/*") => (None, rest.find("*/")? + 2),
            b'"' => (Some(Kind::Text), rest.get(1..)?.find('"')? + 2),
            b'.' if starts_word(rest.as_bytes().get(1).copied()) => {
                let len = 1 + word_len(rest.get(1..)?);
                (Some(Kind::Dot(rest.get(..len)?)), len)
            }
            b if b.is_ascii_digit() => {
                let len = number_len(rest);
                (Some(Kind::Number(rest.get(..len)?)), len)
            }
            b if starts_word(Some(b)) => {
                let len = word_len(rest);
                (Some(Kind::Word(rest.get(..len)?)), len)
            }
            b if b.is_ascii_graphic() => (Some(Kind::Sign(b)), 1),
            _ => return None,
        };
        let (taken, left) = rest.split_at_checked(len)?;
        self.line = self.line.saturating_add(u32::try_from(taken.matches('\n').count()).ok()?);
        self.rest = left;
        Some(kind)
    }
}

fn starts_word(byte: Option<u8>) -> bool {
    byte.is_some_and(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'$' | b'%'))
}

fn word_len(text: &str) -> usize {
    let inside = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'%');
    text.as_bytes().iter().take_while(|b| inside(b)).count()
}

/// Digits, letters (of `0x1F`, `0f3F800000`, `12U`, `1e5`) and a fraction.
fn number_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut len = 0;
    while let Some(byte) = bytes.get(len) {
        let is_fraction = *byte == b'.' && bytes.get(len + 1).is_some_and(u8::is_ascii_digit);
        if !byte.is_ascii_alphanumeric() && !is_fraction {
            break;
        }
        len += 1;
    }
    len
}

/// The value of a whole number as PTX writes it: decimal, `0x`, `0b`, octal with a leading 0, with or without `U`.
pub(super) fn whole(number: &str) -> Option<u64> {
    let digits = number.trim_end_matches('U');
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (digits.get(2..)?, 16),
        [b'0', b'b' | b'B', ..] => (digits.get(2..)?, 2),
        [b'0', _, ..] => (digits.get(1..)?, 8),
        _ => (digits, 10),
    };
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind<'_>> {
        lex(text).unwrap().into_iter().map(|t| t.kind).collect()
    }

    #[test]
    fn an_instruction_is_a_word_its_modifiers_and_operands() {
        assert_eq!(
            kinds("@%p1 ld.global.f32 %f1, [%rd1+4]; // load"),
            [
                Kind::Sign(b'@'),
                Kind::Word("%p1"),
                Kind::Word("ld"),
                Kind::Dot(".global"),
                Kind::Dot(".f32"),
                Kind::Word("%f1"),
                Kind::Sign(b','),
                Kind::Sign(b'['),
                Kind::Word("%rd1"),
                Kind::Sign(b'+'),
                Kind::Number("4"),
                Kind::Sign(b']'),
                Kind::Sign(b';'),
            ]
        );
    }

    #[test]
    fn lines_are_counted_through_comments() {
        let tokens = lex("a /* x\ny\n*/ b\n// c\nd").unwrap();
        assert_eq!(tokens.iter().map(|t| t.line).collect::<Vec<_>>(), [1, 3, 5]);
    }

    #[test]
    fn what_does_not_end_is_refused() {
        for text in ["/* x", "\"x", "\u{1}", "\u{e9}"] {
            assert_eq!(lex(text), None, "{text:?}");
        }
    }

    #[test]
    fn whole_numbers_are_read_in_every_base() {
        assert_eq!(
            ["12", "0x1F", "017", "0b101", "12U", "0"].map(whole),
            [Some(12), Some(31), Some(15), Some(5), Some(12), Some(0)]
        );
        assert_eq!(["0f3F800000", "1.5", "x", ""].map(whole), [None; 4]);
        assert_eq!(kinds("9.0"), [Kind::Number("9.0")]);
    }
}
