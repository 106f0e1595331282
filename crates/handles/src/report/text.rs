//! Text without the heap: a few bytes inside a warning.

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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn control_characters_become_spaces() {
        assert_eq!(Text::<16>::new("a\nb\tc\u{7f}d\u{85}").as_str(), "a b c d ");
    }
}
