//! Text without the heap: a few bytes inside a warning, or a line on the stack for a sink to write.

use std::fmt;

const MARK: &str = "…";

/// A text of at most `N` bytes. What doesn't fit is cut at a character's boundary and marked with `…`; control
/// characters become spaces, so that it stays on one line.
#[derive(Clone, Copy)]
pub(crate) struct Text<const N: usize> {
    /// Invariant: the first `len` bytes are UTF-8.
    bytes: [u8; N],
    len: u16,
}

impl<const N: usize> Text<N> {
    /// Nothing.
    pub(crate) const EMPTY: Self = {
        assert!(N > MARK.len() + 1 && N <= u16::MAX as usize);
        Self { bytes: [0; N], len: 0 }
    };

    /// `text`, as far as it fits.
    pub(crate) fn new(text: &str) -> Self {
        let mut new = Self::EMPTY;
        new.push(text);
        new
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        // The default isn't reached: see the invariant of `bytes`.
        self.bytes
            .get(..usize::from(self.len))
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }

    /// Adds `text`; where it doesn't fit, cuts and marks what is there and answers `false`.
    fn push(&mut self, text: &str) -> bool {
        for character in text.chars() {
            let character = if character.is_control() { ' ' } else { character };
            if !self.append(character) {
                self.cut(N);
                return false;
            }
        }
        true
    }

    /// Adds one character if there is room.
    fn append(&mut self, character: char) -> bool {
        let start = usize::from(self.len);
        let end = start + character.len_utf8();
        let Some(room) = self.bytes.get_mut(start..end) else { return false };
        character.encode_utf8(room);
        self.len = u16::try_from(end).unwrap_or(self.len);
        true
    }

    /// Shortens the text until the mark fits below `limit`, and adds the mark.
    fn cut(&mut self, limit: usize) {
        let end = self.as_str().floor_char_boundary(limit.saturating_sub(MARK.len()));
        self.len = u16::try_from(end).unwrap_or(0);
        for character in MARK.chars() {
            self.append(character);
        }
    }
}

impl<const N: usize> PartialEq for Text<N> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl<const N: usize> Eq for Text<N> {}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// A line that is written piece by piece, as [`Text`] is; once something was cut, it takes nothing more.
pub(crate) struct Line<const N: usize> {
    text: Text<N>,
    is_cut: bool,
}

impl<const N: usize> Line<N> {
    /// An empty line.
    pub(crate) const fn new() -> Self {
        Self { text: Text::EMPTY, is_cut: false }
    }

    /// Ends the line with a newline, for which its last characters give way if need be.
    pub(crate) fn end(mut self) -> Text<N> {
        if usize::from(self.text.len) == N {
            self.text.cut(N - 1);
        }
        self.text.append('\n');
        self.text
    }
}

impl<const N: usize> fmt::Write for Line<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !self.is_cut {
            self.is_cut = !self.text.push(text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    #[test]
    fn a_text_that_fits_stays_whole() {
        assert_eq!(Text::<8>::new("12345678").as_str(), "12345678");
        assert_eq!(Text::<8>::new("").as_str(), "");
    }

    #[test]
    fn a_text_that_does_not_fit_is_cut_and_marked() {
        assert_eq!(Text::<8>::new("123456789").as_str(), "12345…");
    }

    #[test]
    fn a_cut_falls_between_characters() {
        for (text, cut) in
            [("ääääää", "ää…"), ("1ääääää", "1ää…"), ("€€€€", "€…"), ("🦀🦀🦀", "🦀…")]
        {
            assert_eq!(Text::<8>::new(text).as_str(), cut);
        }
    }

    #[test]
    fn nothing_is_added_to_a_line_after_a_cut() {
        let mut line = Line::<16>::new();
        write!(line, "12345678901234567").unwrap();
        write!(line, "8").unwrap();
        assert_eq!(line.end().as_str(), "123456789012…\n");
    }

    #[test]
    fn control_characters_become_spaces() {
        assert_eq!(Text::<16>::new("a\nb\tc\u{7f}d\u{85}").as_str(), "a b c d ");
    }

    #[test]
    fn a_line_always_has_room_for_its_end() {
        for (text, line) in [
            ("1234", "1234\n"),
            ("1234567", "1234567\n"),
            ("12345678", "1234…\n"),
            ("123456789", "1234…\n"),
            ("ääää", "ää…\n"),
        ] {
            let mut buffer = Line::<8>::new();
            write!(buffer, "{text}").unwrap();
            assert_eq!(buffer.end().as_str(), line);
        }
    }
}
