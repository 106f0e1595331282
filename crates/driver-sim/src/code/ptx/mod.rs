//! Reads PTX text: the header, kernels with their parameters and limits, and variables.
//!
//! This isn't a compiler. Instructions are looked at only so far that text which isn't PTX is refused: each must begin
//! with an instruction's name and end with a semicolon, and braces must pair. Operands aren't checked.
//!
//! Source: PTX ISA 9.x, "Directives".

mod body;
mod lex;
mod opcodes;
mod variable;

use super::image::{Image, KernelInfo, Param};
use cuhold_driver_sys::CUresult;
use lex::{Kind, Token, first, lex, whole};

/// The fewest registers that a kernel is taken to need.
const REGISTERS_LEAST: u32 = 16;
/// The most that one is taken to need that sets no limit itself. PTX declares a register for each value, and a compiler lets
/// many values share one: how many are left isn't known here, so no block is refused for them. With 64 the largest fits.
const REGISTERS_MOST: u32 = 64;

/// Whether a text says that it is PTX: its first word is `.version`.
pub(super) fn is_ptx(text: &str) -> bool {
    first(text) == Some(Kind::Dot(".version"))
}

/// Reads a PTX text for a driver that knows PTX up to `version_max`, as `10 * major + minor`.
///
/// # Errors
/// `UNSUPPORTED_PTX_VERSION` for a newer one; `INVALID_PTX`, as the driver's compiler answers for what it can't read.
pub(super) fn read(text: &str, version_max: u32) -> Result<Image, CUresult> {
    let tokens = lex(text).ok_or(CUresult::INVALID_PTX)?;
    let mut reader = Reader { tokens: &tokens, shared: Vec::new() };
    let version = reader.version().ok_or(CUresult::INVALID_PTX)?;
    if version > version_max {
        return Err(CUresult::UNSUPPORTED_PTX_VERSION);
    }
    reader.module(version).ok_or(CUresult::INVALID_PTX)
}

/// Reads from the front of its tokens. `None` anywhere means that the text isn't PTX.
struct Reader<'t, 'a> {
    tokens: &'t [Token<'a>],
    /// Names and sizes of shared variables that stand outside of kernels.
    shared: Vec<(&'a str, u32)>,
}

impl<'a> Reader<'_, 'a> {
    fn next(&mut self) -> Option<Kind<'a>> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first.kind)
    }

    fn peek(&self) -> Option<Kind<'a>> {
        self.tokens.first().map(|t| t.kind)
    }

    /// Takes the next token if it is this one.
    fn accept(&mut self, kind: Kind<'_>) -> bool {
        let is_it = self.peek() == Some(kind);
        if is_it {
            self.next();
        }
        is_it
    }

    fn expect(&mut self, kind: Kind<'_>) -> Option<()> {
        self.accept(kind).then_some(())
    }

    fn word(&mut self) -> Option<&'a str> {
        match self.next()? {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        match self.next()? {
            Kind::Number(number) => whole(number),
            _ => None,
        }
    }

    fn small(&mut self) -> Option<u32> {
        self.number().and_then(|n| u32::try_from(n).ok())
    }

    /// Skips what is left of the line that `line` is.
    fn skip_line(&mut self, line: u32) {
        let left = self.tokens.iter().take_while(|t| t.line == line).count();
        self.tokens = self.tokens.get(left..).unwrap_or_default();
    }

    fn skip_to_semicolon(&mut self) -> Option<()> {
        while self.next()? != Kind::Sign(b';') {}
        Some(())
    }

    fn version(&mut self) -> Option<u32> {
        self.expect(Kind::Dot(".version"))?;
        let Kind::Number(version) = self.next()? else { return None };
        let (major, minor) = version.split_once('.')?;
        Some(u32::from(major.parse::<u8>().ok()?) * 10 + u32::from(minor.parse::<u8>().ok()?))
    }

    fn module(mut self, version: u32) -> Option<Image> {
        let mut image = Image { ptx_version: Some(version), ..Image::default() };
        self.expect(Kind::Dot(".target"))?;
        (image.architecture, image.exact_architecture) = architecture(self.word()?)?;
        while self.accept(Kind::Sign(b',')) {
            self.word()?;
        }
        while let Some(token) = self.tokens.first().copied() {
            self.next();
            match token.kind {
                Kind::Dot(".address_size") => {
                    self.number().filter(|bits| *bits == 64)?;
                }
                Kind::Dot(".file") => self.skip_line(token.line),
                Kind::Dot(".section") => self.skip_section()?,
                Kind::Dot(".pragma" | ".alias") => self.skip_to_semicolon()?,
                Kind::Dot(_) => self.declaration(token.kind, &mut image)?,
                _ => return None,
            }
        }
        Some(image)
    }

    fn skip_section(&mut self) -> Option<()> {
        while self.next()? != Kind::Sign(b'{') {}
        while self.next()? != Kind::Sign(b'}') {}
        Some(())
    }

    /// A kernel, a function or a variable; `first` is its first directive.
    fn declaration(&mut self, first: Kind<'a>, image: &mut Image) -> Option<()> {
        let mut kind = first;
        let mut is_extern = false;
        while matches!(kind, Kind::Dot(".visible" | ".extern" | ".weak" | ".common")) {
            is_extern |= kind == Kind::Dot(".extern");
            kind = self.next()?;
        }
        match kind {
            Kind::Dot(".entry") => {
                let kernel = self.kernel()?;
                if image.kernels.iter().any(|k| k.name == kernel.name) {
                    return None;
                }
                image.kernels.push(kernel);
            }
            Kind::Dot(".func") => self.function()?,
            Kind::Dot(space @ (".global" | ".const" | ".shared")) => {
                for declared in self.variables()? {
                    match space {
                        ".shared" if is_extern => {}
                        ".shared" => {
                            let size = u32::try_from(declared.size_bytes).ok()?;
                            self.shared.push((declared.name, size));
                        }
                        _ if is_extern => {}
                        _ => image.variables.push(declared.into()),
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn kernel(&mut self) -> Option<KernelInfo> {
        let name = self.word()?.to_owned();
        let mut params = Vec::new();
        if self.accept(Kind::Sign(b'(')) && !self.accept(Kind::Sign(b')')) {
            loop {
                self.expect(Kind::Dot(".param"))?;
                params.push(self.param(&params)?);
                match self.next()? {
                    Kind::Sign(b',') => {}
                    Kind::Sign(b')') => break,
                    _ => return None,
                }
            }
        }
        let mut kernel = KernelInfo { name, params: Some(params), ..KernelInfo::default() };
        let registers_max = self.limits(&mut kernel)?;
        let body = self.body()?;
        kernel.static_shared_bytes = body.shared_bytes;
        kernel.local_bytes = body.local_bytes;
        let most = registers_max.unwrap_or(REGISTERS_MOST).clamp(REGISTERS_LEAST, 255);
        kernel.registers = body.registers.clamp(REGISTERS_LEAST, most);
        Some(kernel)
    }

    /// One parameter behind those before it. An `.align` behind `.ptr` is what it points to, not its own.
    fn param(&mut self, before: &[Param]) -> Option<Param> {
        let mut align = None;
        if self.accept(Kind::Dot(".align")) {
            align = Some(self.number()?);
        }
        let (size, natural) = self.type_layout()?;
        if self.accept(Kind::Dot(".ptr")) {
            while let Some(Kind::Dot(part)) = self.peek() {
                self.next();
                if part == ".align" {
                    self.number()?;
                }
            }
        }
        self.word()?;
        let size = usize::try_from(size.checked_mul(self.dimensions()?)?).ok()?;
        let align =
            usize::try_from(align.unwrap_or(natural)).ok().filter(|a| a.is_power_of_two())?;
        let end = before.last().map_or(0, |p| p.offset + p.size);
        let offset = end.checked_next_multiple_of(align)?;
        offset.checked_add(size)?;
        Some(Param { offset, size })
    }

    /// Performance directives of a kernel; the result is what `.maxnreg` says.
    fn limits(&mut self, kernel: &mut KernelInfo) -> Option<Option<u32>> {
        let mut registers_max = None;
        while let Some(Kind::Dot(directive)) = self.peek() {
            self.next();
            match directive {
                ".maxntid" | ".reqntid" => {
                    let (x, y, z) = self.triple()?;
                    kernel.block_threads_max = Some(x.checked_mul(y)?.checked_mul(z)?);
                }
                ".reqnctapercluster" => kernel.cluster = Some(self.triple()?),
                ".maxnreg" => registers_max = Some(self.small()?),
                ".minnctapersm" | ".maxnctapersm" | ".maxclusterrank" => {
                    self.small()?;
                }
                ".explicitcluster" | ".blocksareclusters" => {}
                ".pragma" => self.skip_to_semicolon()?,
                _ => return None,
            }
        }
        Some(registers_max)
    }

    fn triple(&mut self) -> Option<(u32, u32, u32)> {
        let mut values = [self.small()?, 1, 1];
        let mut index = 1;
        while self.accept(Kind::Sign(b',')) {
            *values.get_mut(index)? = self.small()?;
            index += 1;
        }
        Some(values.into())
    }

    /// A device function, of which nothing is kept.
    fn function(&mut self) -> Option<()> {
        loop {
            match self.peek()? {
                Kind::Sign(b'{') => return self.body().map(|_| ()),
                Kind::Sign(b';') => return self.next().map(|_| ()),
                _ => self.next()?,
            };
        }
    }
}

/// `sm_90` is 90, `sm_90a` the same but for no other.
fn architecture(target: &str) -> Option<(u32, bool)> {
    let number = target.strip_prefix("sm_")?;
    let digits = number.trim_end_matches(['a', 'f']);
    Some((digits.parse().ok()?, number.ends_with('a')))
}

#[cfg(test)]
mod tests;
