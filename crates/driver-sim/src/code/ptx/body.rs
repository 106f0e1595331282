//! The body of a kernel: what it declares, and whether its lines look like instructions.

use super::{Reader, lex::Kind, opcodes::is_opcode};

/// What a body declares.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Body {
    pub(super) shared_bytes: u32,
    pub(super) local_bytes: u32,
    /// In words of 32 bits, without predicates.
    pub(super) registers: u32,
}

impl<'a> Reader<'_, 'a> {
    /// From the opening brace to its closing one.
    pub(super) fn body(&mut self) -> Option<Body> {
        self.expect(Kind::Sign(b'{'))?;
        let mut body = Body::default();
        let mut outside = self.shared.clone();
        let mut depth = 1_u32;
        while depth > 0 {
            let token = *self.tokens.first()?;
            self.next();
            match token.kind {
                Kind::Sign(b'{') => depth += 1,
                Kind::Sign(b'}') => depth -= 1,
                Kind::Sign(b';') => {}
                Kind::Dot(".loc" | ".file") => self.skip_line(token.line),
                Kind::Dot(".reg") => {
                    body.registers = body.registers.saturating_add(self.registers()?);
                }
                Kind::Dot(".shared") => body.shared_bytes = self.place(body.shared_bytes)?,
                Kind::Dot(".local") => body.local_bytes = self.place(body.local_bytes)?,
                Kind::Dot(_) => self.skip_to_semicolon()?,
                Kind::Sign(b'@') => {
                    self.accept(Kind::Sign(b'!'));
                    self.word()?;
                    let opcode = self.word()?;
                    self.instruction(opcode, &mut outside, &mut body)?;
                }
                Kind::Word(_) if self.accept(Kind::Sign(b':')) => {}
                Kind::Word(opcode) => self.instruction(opcode, &mut outside, &mut body)?,
                _ => return None,
            }
        }
        Some(body)
    }

    /// The operands, to the semicolon. A shared variable from outside of the kernel counts where it is first named.
    fn instruction(
        &mut self,
        opcode: &str,
        outside: &mut Vec<(&'a str, u32)>,
        body: &mut Body,
    ) -> Option<()> {
        if !is_opcode(opcode) {
            return None;
        }
        let mut depth = 0_u32;
        loop {
            match self.next()? {
                Kind::Sign(b';') if depth == 0 => return Some(()),
                Kind::Sign(b'{' | b'(' | b'[') => depth += 1,
                Kind::Sign(b'}' | b')' | b']') => depth = depth.checked_sub(1)?,
                Kind::Sign(b';') => return None,
                Kind::Word(name) => {
                    if let Some(index) = outside.iter().position(|(n, _)| *n == name) {
                        let (_, size) = outside.swap_remove(index);
                        body.shared_bytes = body.shared_bytes.saturating_add(size);
                    }
                }
                _ => {}
            }
        }
    }

    /// `.b64 %rd<9>;` or `.f32 a, b;`.
    fn registers(&mut self) -> Option<u32> {
        let words = match self.peek()? {
            Kind::Dot(".pred") => self.next().map(|_| 0)?,
            _ => self.type_layout()?.0.div_ceil(4),
        };
        let mut count = 0_u64;
        loop {
            self.word()?;
            if self.accept(Kind::Sign(b'<')) {
                count = count.checked_add(self.number()?)?;
                self.expect(Kind::Sign(b'>'))?;
            } else {
                count += 1;
            }
            match self.next()? {
                Kind::Sign(b',') => {}
                Kind::Sign(b';') => return u32::try_from(count.checked_mul(words)?).ok(),
                _ => return None,
            }
        }
    }

    /// Variables of a state space in which `used` bytes are taken: how many then are.
    fn place(&mut self, used: u32) -> Option<u32> {
        self.variables()?.iter().try_fold(used, |used, variable| {
            let start = u64::from(used).checked_next_multiple_of(variable.align.max(1))?;
            u32::try_from(start.checked_add(variable.size_bytes)?).ok()
        })
    }
}
