//! Types, array dimensions, and variables with what they start with.

use super::{
    Reader,
    lex::{Kind, whole},
};
use crate::code::image::Variable;

/// A variable as it is declared.
pub(super) struct Declared<'a> {
    pub(super) name: &'a str,
    pub(super) size_bytes: u64,
    pub(super) align: u64,
    is_managed: bool,
    /// `None` where it starts with an address, which only a linker knows.
    initial: Option<Vec<u8>>,
}

impl From<Declared<'_>> for Variable {
    fn from(declared: Declared<'_>) -> Self {
        Self {
            name: declared.name.to_owned(),
            size_bytes: declared.size_bytes,
            is_managed: declared.is_managed,
            initial: declared.initial,
        }
    }
}

impl<'a> Reader<'_, 'a> {
    /// What stands behind the state space, up to and with the semicolon: one variable or several of a type.
    pub(super) fn variables(&mut self) -> Option<Vec<Declared<'a>>> {
        let mut is_managed = false;
        let mut align = None;
        loop {
            if self.accept(Kind::Dot(".align")) {
                align = Some(self.number()?);
            } else if self.accept(Kind::Dot(".attribute")) {
                is_managed |= self.attributes()?;
            } else {
                break;
            }
        }
        let (element_bytes, natural) = self.type_layout()?;
        let align = align.unwrap_or(natural);
        let mut list = Vec::new();
        loop {
            let name = self.word()?;
            let unsized_ = self.accept_empty_dimension();
            let count = self.dimensions()?;
            let mut size_bytes = if unsized_ { 0 } else { element_bytes.checked_mul(count)? };
            let mut initial = Some(Vec::new());
            if self.accept(Kind::Sign(b'=')) {
                let (bytes, written) = self.initial(element_bytes)?;
                size_bytes = size_bytes.max(written);
                initial = bytes;
            }
            list.push(Declared { name, size_bytes, align, is_managed, initial });
            match self.next()? {
                Kind::Sign(b',') => {}
                Kind::Sign(b';') => return Some(list),
                _ => return None,
            }
        }
    }

    /// `(.managed)`, `(.unified(1, 2))`; whether the first is among them.
    fn attributes(&mut self) -> Option<bool> {
        let mut depth = 0_u32;
        let mut is_managed = false;
        loop {
            match self.next()? {
                Kind::Sign(b'(') => depth += 1,
                Kind::Sign(b')') if depth <= 1 => return Some(is_managed),
                Kind::Sign(b')') => depth -= 1,
                kind => is_managed |= kind == Kind::Dot(".managed"),
            }
        }
    }

    /// A type: size and natural alignment of one value, in bytes.
    pub(super) fn type_layout(&mut self) -> Option<(u64, u64)> {
        let mut lanes = 1;
        let Kind::Dot(mut name) = self.next()? else { return None };
        if let ".v2" | ".v4" | ".v8" = name {
            lanes = name.get(2..)?.parse().ok()?;
            let Kind::Dot(element) = self.next()? else { return None };
            name = element;
        }
        let bytes = match name {
            ".b8" | ".u8" | ".s8" => 1,
            ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 2,
            ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => 4,
            ".b64" | ".u64" | ".s64" | ".f64" | ".texref" | ".samplerref" | ".surfref" => 8,
            ".b128" => 16,
            _ => return None,
        };
        Some((bytes * lanes, bytes * lanes))
    }

    /// `[]`, whose size the values say that follow.
    fn accept_empty_dimension(&mut self) -> bool {
        let is_empty = matches!(
            self.tokens,
            [first, second, ..]
                if first.kind == Kind::Sign(b'[') && second.kind == Kind::Sign(b']')
        );
        if is_empty {
            self.tokens = self.tokens.get(2..).unwrap_or_default();
        }
        is_empty
    }

    /// `[2][3]`: how many elements; 1 without brackets.
    pub(super) fn dimensions(&mut self) -> Option<u64> {
        let mut count = 1_u64;
        while self.accept(Kind::Sign(b'[')) {
            count = count.checked_mul(self.number()?)?;
            self.expect(Kind::Sign(b']'))?;
        }
        Some(count)
    }

    /// `5` or `{1, {2, 3}}`: the bytes, if they are numbers, and how many.
    fn initial(&mut self, element_bytes: u64) -> Option<(Option<Vec<u8>>, u64)> {
        let element = usize::try_from(element_bytes).ok()?;
        let mut bytes = Some(Vec::new());
        let mut count = 0_u64;
        let mut depth = 0_u32;
        loop {
            match self.next()? {
                Kind::Sign(b'{') => depth += 1,
                Kind::Sign(b'}') => depth = depth.checked_sub(1)?,
                Kind::Sign(b',') => {}
                kind => {
                    let is_negative = kind == Kind::Sign(b'-');
                    let kind = if is_negative { self.next()? } else { kind };
                    let value = number_bytes(kind, is_negative, element);
                    if value.is_none() {
                        self.skip_expression()?;
                    }
                    bytes = bytes.zip(value).map(|(mut all, one)| {
                        all.extend(one);
                        all
                    });
                    count += 1;
                }
            }
            if depth == 0 {
                return Some((bytes, count.checked_mul(element_bytes)?));
            }
        }
    }

    /// The rest of a value that isn't a number: an address with an offset, `generic(x)`.
    fn skip_expression(&mut self) -> Option<()> {
        let mut depth = 0_u32;
        loop {
            match self.peek()? {
                Kind::Sign(b',' | b'}' | b';') if depth == 0 => return Some(()),
                Kind::Sign(b'(') => depth += 1,
                Kind::Sign(b')') => depth = depth.checked_sub(1)?,
                _ => {}
            }
            self.next();
        }
    }
}

/// A number as `size` bytes: whole, or a float in its hexadecimal form.
fn number_bytes(kind: Kind<'_>, is_negative: bool, size: usize) -> Option<Vec<u8>> {
    let Kind::Number(text) = kind else { return None };
    let is_float = matches!(text.as_bytes(), [b'0', b'f' | b'F' | b'd' | b'D', ..]);
    let mut value = match is_float {
        true => u64::from_str_radix(text.get(2..)?, 16).ok()?,
        false => whole(text)?,
    };
    if is_negative {
        value = match is_float {
            true => value ^ (1_u64 << (size.checked_mul(8)?.checked_sub(1)?)),
            false => value.wrapping_neg(),
        };
    }
    value.to_le_bytes().get(..size).map(<[u8]>::to_vec)
}
