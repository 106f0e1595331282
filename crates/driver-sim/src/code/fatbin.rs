//! Reads a fat binary: several images for several devices, of which one is taken.
//!
//! The format isn't documented; what is read here was seen in the output of `fatbinary` 13.0. An entry is its header
//! (kind, header size, payload size, size when compressed, architecture) and its payload. PTX is compressed by
//! default; the simulator has no decompressor, and says *missing* where only such an entry fits.

use super::{image::Target, load::Source, number};
use cuhold_driver_sys::CUresult;

/// The header's size, in bytes.
pub(super) const HEADER_BYTES: usize = 16;
/// How a fat binary begins.
pub(super) const MAGIC: &[u8] = &0xba55_ed50_u32.to_le_bytes();
const KIND_PTX: u64 = 1;
const KIND_ELF: u64 = 2;

/// The whole size of a fat binary in bytes, from its header.
pub(super) fn total_bytes(header: &[u8]) -> Option<usize> {
    usize::try_from(number(header, 8, 8)?.checked_add(number(header, 6, 2)?)?).ok()
}

struct Entry<'a> {
    kind: u64,
    architecture: u32,
    is_compressed: bool,
    payload: &'a [u8],
}

/// The entry that fits `target` best: compiled code before text, the newest that fits before others.
///
/// # Errors
/// `NO_BINARY_FOR_GPU` if none fits, `MISSING` if the one that fits is compressed, `INVALID_IMAGE` for what isn't a fat
/// binary.
pub(super) fn select(file: &[u8], target: Target) -> Result<Source<'_>, CUresult> {
    let entries = entries(file).ok_or(CUresult::INVALID_IMAGE)?;
    let best = entries
        .iter()
        .filter(|entry| match entry.kind {
            KIND_ELF => {
                entry.architecture / 10 == target.architecture / 10
                    && entry.architecture <= target.architecture
            }
            KIND_PTX => entry.architecture <= target.architecture,
            _ => false,
        })
        .max_by_key(|entry| (entry.kind, entry.architecture))
        .ok_or(CUresult::NO_BINARY_FOR_GPU)?;
    match best.kind {
        _ if best.is_compressed => Err(CUresult::MISSING),
        KIND_ELF => Ok(Source::Elf(best.payload)),
        _ => Ok(Source::Text(best.payload)),
    }
}

fn entries(file: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut rest = file.get(usize::try_from(number(file, 6, 2)?).ok()?..)?;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let header_bytes = usize::try_from(number(rest, 4, 4)?).ok()?;
        let payload_bytes = usize::try_from(number(rest, 8, 8)?).ok()?;
        let end = header_bytes.checked_add(payload_bytes)?;
        entries.push(Entry {
            kind: number(rest, 0, 2)?,
            architecture: u32::try_from(number(rest, 28, 4)?).ok()?,
            is_compressed: number(rest, 16, 4)? != 0,
            payload: rest.get(header_bytes..end)?,
        });
        if end == 0 {
            return None;
        }
        rest = rest.get(end..)?;
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = include_bytes!("../../tests/images/axpy-nvrtc-13.5-sm_90.fatbin");

    fn target(architecture: u32) -> Target {
        Target { architecture, driver_version: 13_000 }
    }

    #[test]
    fn compiled_code_for_the_device_is_taken() {
        assert_eq!(total_bytes(&FILE[..HEADER_BYTES]), Some(FILE.len()));
        assert!(
            matches!(select(FILE, target(90)), Ok(Source::Elf(elf)) if elf.starts_with(super::super::elf::MAGIC))
        );
    }

    #[test]
    fn where_only_compressed_text_fits_the_simulator_says_that_it_can_not() {
        assert_eq!(select(FILE, target(100)).err(), Some(CUresult::MISSING));
        assert_eq!(select(FILE, target(80)).err(), Some(CUresult::NO_BINARY_FOR_GPU));
    }

    #[test]
    fn a_cut_file_is_refused() {
        for len in [17, 100, FILE.len() - 1] {
            assert_eq!(select(&FILE[..len], target(90)).err(), Some(CUresult::INVALID_IMAGE));
        }
    }
}
