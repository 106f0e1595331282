//! From the caller's image pointer to an image: what is behind it, how far it reaches, and who reads it.

#![expect(unsafe_code, reason = "an image is a pointer without a length")]

use super::{
    elf, fatbin,
    image::{Image, Target},
    ptx,
};
use cuhold_driver_sys::CUresult;
use std::{ffi::CStr, slice};

/// An image's bytes, told apart by how they begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source<'a> {
    /// Compiled code.
    Elf(&'a [u8]),
    /// A fat binary.
    Fat(&'a [u8]),
    /// Anything else: text, without its NUL.
    Text(&'a [u8]),
}

/// What an executable holds in front of a fat binary: this word, a version, and the fat binary's address.
const WRAPPER_MAGIC: &[u8] = &0x4662_43b1_u32.to_le_bytes();
const WRAPPER_ADDRESS: usize = 8;

impl Source<'_> {
    /// Looks at what an image pointer points to; `None` if it contradicts itself.
    ///
    /// # Safety
    /// *image*: `image` points to text that ends with a NUL, to a whole ELF file, to a whole fat binary, or to a
    /// wrapper of one; all readable, and unchanged while the result lives.
    pub(crate) unsafe fn at(image: *const u8) -> Option<Self> {
        let mut begin = image;
        // SAFETY: *image*, and the magic word holds no NUL.
        if unsafe { begins_with(image, WRAPPER_MAGIC) } {
            // SAFETY: *image*: a wrapper is longer than that.
            let place: *const *const u8 = unsafe { image.add(WRAPPER_ADDRESS) }.cast();
            // SAFETY: *image*: the wrapper's address field.
            begin = unsafe { place.read_unaligned() };
        }
        // SAFETY: *image*, and the magic word holds no NUL.
        if unsafe { begins_with(begin, fatbin::MAGIC) } {
            // SAFETY: *image*: a fat binary has its header.
            let header = unsafe { slice::from_raw_parts(begin, fatbin::HEADER_BYTES) };
            let len = fatbin::total_bytes(header)?;
            // SAFETY: *image*: a whole fat binary, as long as its header says.
            return Some(Self::Fat(unsafe { slice::from_raw_parts(begin, len) }));
        }
        // SAFETY: *image*, and the magic word holds no NUL.
        if unsafe { begins_with(begin, elf::MAGIC) } {
            // SAFETY: *image*: a whole ELF file.
            let len = unsafe { elf_bytes(begin) }?;
            // SAFETY: *image*: a whole ELF file, as long as its headers say.
            return Some(Self::Elf(unsafe { slice::from_raw_parts(begin, len) }));
        }
        // SAFETY: *image*: none of the binary formats, so text with a NUL.
        Some(Self::Text(unsafe { CStr::from_ptr(begin.cast()) }.to_bytes()))
    }

    /// Reads the image for a device.
    ///
    /// # Errors
    /// `INVALID_IMAGE` for what is no image, `INVALID_PTX`, `UNSUPPORTED_PTX_VERSION`, `NO_BINARY_FOR_GPU`; `MISSING`
    /// for what the simulator can't read.
    pub(crate) fn read(self, target: Target) -> Result<Image, CUresult> {
        let image = match self {
            Self::Elf(file) => elf::read(file)?,
            Self::Fat(file) => return fatbin::select(file, target)?.read(target),
            Self::Text(text) => {
                let text = str::from_utf8(text).ok().filter(|text| ptx::is_ptx(text));
                ptx::read(text.ok_or(CUresult::INVALID_IMAGE)?, target.ptx_version_max())?
            }
        };
        target.check(&image)?;
        Ok(image)
    }
}

/// Compares byte by byte, so that nothing behind the end of a short text is read.
///
/// # Safety
/// `bytes` is readable up to and with its first NUL, or as far as it equals `magic`, which holds no NUL.
unsafe fn begins_with(bytes: *const u8, magic: &[u8]) -> bool {
    magic.iter().enumerate().all(|(index, expected)| {
        // SAFETY: all bytes before this one equalled `magic`, so no NUL was among them: this one is readable.
        let place = unsafe { bytes.add(index) };
        // SAFETY: as above.
        unsafe { place.read() == *expected }
    })
}

/// How long an ELF file is, as far as its sections reach.
///
/// # Safety
/// `file` points to a whole ELF file.
unsafe fn elf_bytes(file: *const u8) -> Option<usize> {
    // SAFETY: the caller's promise: a file has its header.
    let header = unsafe { slice::from_raw_parts(file, elf::HEADER_BYTES) };
    let (offset, size) = elf::section_table(header)?;
    // SAFETY: the caller's promise: the file holds the section headers that its header tells of.
    let table = unsafe { file.add(offset) };
    // SAFETY: as above.
    let table = unsafe { slice::from_raw_parts(table, size) };
    Some(elf::contents_end(table)?.max(offset.checked_add(size)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELF: &[u8] = include_bytes!("../../tests/images/axpy-nvrtc-13.5-sm_90.cubin");
    const FAT: &[u8] = include_bytes!("../../tests/images/axpy-nvrtc-13.5-sm_90.fatbin");
    const H200: Target = Target { architecture: 90, driver_version: 13_000 };

    fn load(bytes: &[u8]) -> Result<Image, CUresult> {
        // SAFETY: each test gives a whole file, or text with its NUL.
        let source = unsafe { Source::at(bytes.as_ptr()) };
        source.ok_or(CUresult::INVALID_IMAGE)?.read(H200)
    }

    #[test]
    fn each_format_is_known_by_its_first_bytes() {
        assert_eq!(load(ELF).unwrap().kernels.len(), 2);
        assert_eq!(load(FAT).unwrap().kernels.len(), 2);
        let text = b".version 8.0\n.target sm_80\n.entry f() { ret; }\0";
        assert_eq!(load(text).unwrap().kernels.len(), 1);
        let mut wrapper = [WRAPPER_MAGIC, &1_u32.to_le_bytes()].concat();
        wrapper.extend(FAT.as_ptr().expose_provenance().to_le_bytes());
        assert_eq!(load(&wrapper).unwrap().kernels.len(), 2);
    }

    #[test]
    fn what_was_measured_for_bad_images_is_answered() {
        let cases: [(&[u8], Option<CUresult>); 6] = [
            (b"garbage\0", Some(CUresult::INVALID_IMAGE)),
            (b"\0", Some(CUresult::INVALID_IMAGE)),
            (b".version 8.0\n.target sm_80\n.address_size 64\n\0", None),
            (b".version 99.0\n.target sm_80\n\0", Some(CUresult::UNSUPPORTED_PTX_VERSION)),
            (b".version 8.8\n.target sm_120\n\0", Some(CUresult::INVALID_PTX)),
            (b".version 8.0\n.target sm_80\nthis is no PTX\0", Some(CUresult::INVALID_PTX)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(load(bytes).err(), expected, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_short_text_that_begins_like_a_format_is_read_to_its_end_only() {
        for bytes in [&b"\x7fE\0"[..], b"P\0", b"\xb1\0"] {
            assert_eq!(load(bytes).err(), Some(CUresult::INVALID_IMAGE));
        }
    }
}
