//! NVRTC's programs.

#![expect(unsafe_code, reason = "calls NVRTC")]

use super::{Handled, Tool, c_string, c_strings, pointers, tool_forms};
use crate::{
    driver::Driver,
    error::{Error, Refused, Result},
    object::ObjectKind,
    resource::Closed,
    status::CompilerFailure,
};
use cuhold_driver_sys::nvrtc::{NvrtcApi, NvrtcCalls, nvrtcProgram};
use std::{ptr, sync::Arc};

/// The kind behind [`NvrtcProgram`].
pub(crate) struct NvrtcHandle;

// SAFETY: *ends*: `nvrtcDestroyProgram`.
unsafe impl Handled for NvrtcHandle {
    type Raw = nvrtcProgram;
    type Api = Arc<dyn NvrtcApi>;
    const KIND: ObjectKind = ObjectKind::NvrtcProgram;

    fn addr(raw: nvrtcProgram) -> u64 {
        raw.0.addr() as u64
    }
    unsafe fn destroy(
        api: &Arc<dyn NvrtcApi>,
        mut raw: nvrtcProgram,
    ) -> Result<(), CompilerFailure> {
        // SAFETY: *programs*: live, by the caller's promise; *pointers*: a live local.
        unsafe { NvrtcCalls::new(&**api).nvrtcDestroyProgram(&raw mut raw) }
            .map_err(CompilerFailure::Nvrtc)
    }
}

/// A program of NVRTC: source text on its way to code. It can go to another thread, but isn't `Sync`.
///
/// Its drop calls `nvrtcDestroyProgram`.
pub struct NvrtcProgram(Tool<NvrtcHandle>);

impl NvrtcProgram {
    /// Makes a program of this source text, with headers by name. `name` is what messages call it.
    ///
    /// Calls `nvrtcCreateProgram`.
    ///
    /// # Errors
    /// The call's failure; text with a NUL byte; more headers than C counts.
    pub fn new(
        driver: &Driver,
        api: &Arc<dyn NvrtcApi>,
        source: &str,
        name: Option<&str>,
        headers: &[(&str, &str)],
    ) -> Result<Self> {
        let source = c_string(source, "source")?;
        let name = name.map(|name| c_string(name, "name")).transpose()?;
        let (names, texts): (Vec<&str>, Vec<&str>) = headers.iter().copied().unzip();
        let (names, texts) = (c_strings(&names, "header")?, c_strings(&texts, "header")?);
        let (names, texts) = (pointers(&names), pointers(&texts));
        let count = i32::try_from(headers.len())
            .map_err(|error| Error::argument(format!("headers: {error}")))?;
        let mut raw = nvrtcProgram::NULL;
        // SAFETY: *pointers*: a live local, C strings, and two arrays of `count` C strings; all are read during the call.
        unsafe {
            NvrtcCalls::new(&**api).nvrtcCreateProgram(
                &raw mut raw,
                source.as_ptr(),
                name.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
                count,
                texts.as_ptr(),
                names.as_ptr(),
            )
        }
        .map_err(|failure| Error::nvrtc(failure, None))?;
        if raw.is_null() {
            return Err(Error::state("NVRTC reported success and gave no program"));
        }
        Ok(Self(Tool::own(driver, Arc::clone(api), raw)))
    }

    /// NVRTC's functions by name.
    #[doc(hidden)]
    #[must_use]
    pub fn calls(&self) -> NvrtcCalls<'_> {
        NvrtcCalls::new(&**self.0.api())
    }

    /// Ends the program here and now.
    ///
    /// Calls `nvrtcDestroyProgram`.
    ///
    /// # Errors
    /// [`Refused`], with the program where NVRTC wasn't asked.
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|refused| Refused::new(refused.error, refused.value.map(Self)))
    }
}

tool_forms! { NvrtcProgram(NvrtcHandle): nvrtcProgram, Arc<dyn NvrtcApi>, "NVRTC program" }
