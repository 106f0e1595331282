//! Code to load: PTX text, or a binary for one or several architectures.

use crate::error::{Error, Result};
use std::{borrow::Cow, ffi::CStr};

/// Something that code can be loaded from. The bytes are read during the load alone.
pub trait Image {
    /// The image as the driver takes it: PTX ends with a NUL byte, a cubin or fatbin says its own length.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](crate::ErrorKind::Argument) for an image that can't be one.
    fn image(&self) -> Result<Cow<'_, [u8]>>;
}

/// PTX text; a NUL byte is added.
impl Image for str {
    fn image(&self) -> Result<Cow<'_, [u8]>> {
        if self.contains('\0') {
            return Err(Error::argument("image: PTX text has a NUL byte inside"));
        }
        let mut bytes = Vec::with_capacity(self.len() + 1);
        bytes.extend_from_slice(self.as_bytes());
        bytes.push(0);
        Ok(bytes.into())
    }
}

/// PTX text.
impl Image for String {
    fn image(&self) -> Result<Cow<'_, [u8]>> {
        self.as_str().image()
    }
}

/// PTX text with its NUL byte.
impl Image for CStr {
    fn image(&self) -> Result<Cow<'_, [u8]>> {
        Ok(self.to_bytes_with_nul().into())
    }
}

/// A cubin or fatbin, recognized by its first bytes; anything else is PTX text and must end with a NUL byte, since the
/// driver reads up to it.
impl Image for [u8] {
    fn image(&self) -> Result<Cow<'_, [u8]>> {
        const ELF: &[u8] = b"\x7fELF";
        const FATBIN: &[u8] = &0xba55_ed50_u32.to_le_bytes();
        const FATBIN_WRAPPER: &[u8] = &0x4662_43b1_u32.to_le_bytes();
        let binary = [ELF, FATBIN, FATBIN_WRAPPER].iter().any(|magic| self.starts_with(magic));
        if !binary && !self.contains(&0) {
            return Err(Error::argument(
                "image: neither a cubin nor a fatbin, and PTX bytes must end with a NUL byte",
            ));
        }
        Ok(self.into())
    }
}

/// As `[u8]`.
impl Image for Vec<u8> {
    fn image(&self) -> Result<Cow<'_, [u8]>> {
        self.as_slice().image()
    }
}
