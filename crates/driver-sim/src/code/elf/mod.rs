//! Reads compiled code (an ELF "cubin"): kernels with their parameters and needs, and variables.
//!
//! NVIDIA documents neither the section names nor the records; what is read here was seen in the output of NVRTC 12.9
//! and 13.5 for `sm_90`, and is checked against it by `tests`. Records that aren't known are passed over.

mod info;

use super::{
    image::{Image, KernelInfo, Variable},
    number,
};
use cuhold_driver_sys::CUresult;
use info::Info;

const MACHINE_CUDA: u16 = 190;
const TYPE_OBJECT: u8 = 1;
const TYPE_FUNCTION: u8 = 2;
/// In a symbol's `other`: a kernel, not a function that only kernels call.
const OTHER_ENTRY: u8 = 0x10;
/// In a symbol's `other`: a managed variable.
const OTHER_MANAGED: u8 = 0x04;
const SECTION_NOBITS: u32 = 8;
const SECTION_RELA: u32 = 4;
/// Shared memory that the driver takes for itself in each block is part of a kernel's shared section where this stands.
const RESERVED_SECTION: &str = ".nv.shared.reserved.0";
const RESERVED_BYTES: u64 = 1024;

/// The ELF header's size, in bytes.
pub(super) const HEADER_BYTES: usize = 64;
/// A section header's size, in bytes.
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const RELOCATION_BYTES: usize = 24;

/// How an ELF file begins.
pub(super) const MAGIC: &[u8] = b"\x7fELF";

/// Where the section headers stand, from the file's header: their offset and their size together, in bytes.
pub(super) fn section_table(header: &[u8]) -> Option<(usize, usize)> {
    let offset = usize::try_from(number(header, 40, 8)?).ok()?;
    let count = usize::try_from(number(header, 60, 2)?).ok()?;
    (number(header, 58, 2)? == SECTION_BYTES as u64).then_some((offset, count * SECTION_BYTES))
}

/// How far the contents of the sections reach into the file, from the section headers.
pub(super) fn contents_end(table: &[u8]) -> Option<usize> {
    let mut end = 0;
    for header in table.chunks_exact(SECTION_BYTES) {
        if number(header, 4, 4)? != u64::from(SECTION_NOBITS) {
            let section_end = number(header, 24, 8)?.checked_add(number(header, 32, 8)?)?;
            end = end.max(usize::try_from(section_end).ok()?);
        }
    }
    Some(end)
}

/// Reads a whole ELF file.
///
/// # Errors
/// `INVALID_IMAGE` for what isn't one, or isn't CUDA's.
pub(super) fn read(file: &[u8]) -> Result<Image, CUresult> {
    File::open(file).and_then(|file| file.image()).ok_or(CUresult::INVALID_IMAGE)
}

/// The text from `at` to its NUL.
fn text(bytes: &[u8], at: u64) -> Option<&str> {
    let from = bytes.get(usize::try_from(at).ok()?..)?;
    let end = from.iter().position(|b| *b == 0)?;
    str::from_utf8(from.get(..end)?).ok()
}

#[derive(Clone, Copy)]
struct Section<'a> {
    name: &'a str,
    kind: u32,
    size: u64,
    /// Empty for a section without contents in the file.
    bytes: &'a [u8],
    /// The section's `info` field: for relocations the section that they change.
    info: u64,
}

#[derive(Clone, Copy)]
struct Symbol<'a> {
    name: &'a str,
    kind: u8,
    other: u8,
    section: usize,
    value: u64,
    size: u64,
}

struct File<'a> {
    architecture: u32,
    sections: Vec<Section<'a>>,
    symbols: Vec<Symbol<'a>>,
}

impl<'a> File<'a> {
    fn open(file: &'a [u8]) -> Option<Self> {
        let is_cuda = file.starts_with(MAGIC)
            && number(file, 4, 1)? == 2
            && number(file, 18, 2)? == u64::from(MACHINE_CUDA);
        if !is_cuda {
            return None;
        }
        // The flags hold the architecture in their second byte since ABI 8, in their first before.
        let flags = number(file, 48, 4)?;
        let shift = if number(file, 8, 1)? >= 8 { 8 } else { 0 };
        let architecture = u32::try_from(flags >> shift & 0xff).ok()?;

        let (offset, size) = section_table(file)?;
        let headers = file.get(offset..offset.checked_add(size)?)?;
        let names_index = usize::try_from(number(file, 62, 2)?).ok()?;
        let contents = |header: &[u8]| -> Option<&'a [u8]> {
            let at = usize::try_from(number(header, 24, 8)?).ok()?;
            let size = usize::try_from(number(header, 32, 8)?).ok()?;
            match number(header, 4, 4)? == u64::from(SECTION_NOBITS) {
                true => Some(&[]),
                false => file.get(at..at.checked_add(size)?),
            }
        };
        let names = contents(headers.chunks_exact(SECTION_BYTES).nth(names_index)?)?;
        let sections: Vec<_> = headers
            .chunks_exact(SECTION_BYTES)
            .map(|header| {
                Some(Section {
                    name: text(names, number(header, 0, 4)?)?,
                    kind: u32::try_from(number(header, 4, 4)?).ok()?,
                    size: number(header, 32, 8)?,
                    bytes: contents(header)?,
                    info: number(header, 44, 4)?,
                })
            })
            .collect::<Option<_>>()?;
        let symbols = match sections.iter().position(|s| s.name == ".symtab") {
            Some(index) => {
                let header = headers.chunks_exact(SECTION_BYTES).nth(index)?;
                let strings = sections.get(usize::try_from(number(header, 40, 4)?).ok()?)?.bytes;
                symbols(sections.get(index)?.bytes, strings)?
            }
            None => Vec::new(),
        };
        Some(Self { architecture, sections, symbols })
    }

    fn section(&self, name: &str) -> Option<&Section<'a>> {
        self.sections.iter().find(|s| s.name == name)
    }

    fn image(&self) -> Option<Image> {
        let mut image = Image { architecture: self.architecture, ..Image::default() };
        let whole = Info::read(self.section(".nv.info").map_or(&[], |s| s.bytes))?;
        for (index, symbol) in self.symbols.iter().enumerate() {
            let is_kernel = symbol.kind == TYPE_FUNCTION && symbol.other & OTHER_ENTRY != 0;
            if is_kernel
                && self.sections.get(symbol.section).is_some_and(|s| s.name.starts_with(".text."))
            {
                image.kernels.push(self.kernel(symbol.name, index, &whole)?);
            } else if symbol.kind == TYPE_OBJECT {
                image.variables.extend(self.variable(symbol)?);
            }
        }
        Some(image)
    }

    fn kernel(&self, name: &str, symbol: usize, whole: &Info) -> Option<KernelInfo> {
        let records = self.section(&format!(".nv.info.{name}"));
        let info = Info::read(records.map_or(&[], |s| s.bytes))?;
        let of_symbol = |list: &[(u32, u32)]| {
            list.iter().find(|(index, _)| *index as usize == symbol).map_or(0, |(_, value)| *value)
        };
        let reserved = self.section(RESERVED_SECTION).map_or(0, |_| RESERVED_BYTES);
        let shared = self.section(&format!(".nv.shared.{name}")).map_or(0, |s| s.size);
        Some(KernelInfo {
            name: name.to_owned(),
            block_threads_max: info.block_threads_max,
            static_shared_bytes: u32::try_from(shared.saturating_sub(reserved)).ok()?,
            constant_bytes: 0,
            local_bytes: of_symbol(&whole.frames),
            registers: of_symbol(&whole.registers),
            cluster: info.cluster,
            params: records.and_then(|_| info.into_params()),
        })
    }

    /// `None` inside for what is no variable of the program: a symbol without a section or a size.
    #[expect(clippy::option_option, reason = "the outer one is a broken file")]
    fn variable(&self, symbol: &Symbol<'_>) -> Option<Option<Variable>> {
        let Some(section) = self.sections.get(symbol.section) else { return Some(None) };
        let is_place = [".nv.global", ".nv.constant3"].iter().any(|p| section.name.starts_with(p));
        if symbol.section == 0 || symbol.size == 0 || !is_place {
            return Some(None);
        }
        let is_address = self
            .sections
            .iter()
            .filter(|s| s.kind == SECTION_RELA && s.info == symbol.section as u64)
            .flat_map(|s| s.bytes.chunks_exact(RELOCATION_BYTES))
            .filter_map(|relocation| number(relocation, 0, 8))
            .any(|at| at.wrapping_sub(symbol.value) < symbol.size);
        let start = usize::try_from(symbol.value).ok()?;
        let end = usize::try_from(symbol.value.checked_add(symbol.size)?).ok()?;
        let initial = section.bytes.get(start..end).unwrap_or_default().to_vec();
        Some(Some(Variable {
            name: symbol.name.to_owned(),
            size_bytes: symbol.size,
            is_managed: symbol.other & OTHER_MANAGED != 0,
            initial: (!is_address).then_some(initial),
        }))
    }
}

fn symbols<'a>(table: &[u8], strings: &'a [u8]) -> Option<Vec<Symbol<'a>>> {
    table
        .chunks_exact(SYMBOL_BYTES)
        .map(|entry| {
            Some(Symbol {
                name: text(strings, number(entry, 0, 4)?)?,
                kind: u8::try_from(number(entry, 4, 1)? & 0xf).ok()?,
                other: u8::try_from(number(entry, 5, 1)?).ok()?,
                section: usize::try_from(number(entry, 6, 2)?).ok()?,
                value: number(entry, 8, 8)?,
                size: number(entry, 16, 8)?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
