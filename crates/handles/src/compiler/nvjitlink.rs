//! nvJitLink's links.

#![expect(unsafe_code, reason = "calls nvJitLink")]

use super::{Handled, Tool, c_string, c_strings, pointers, read, text, tool_forms};
use crate::{
    driver::Driver,
    error::{Error, Note, Refused, Result},
    object::ObjectKind,
    resource::Closed,
    status::CompilerFailure,
};
use cuhold_driver_sys::nvjitlink::{
    NvJitLinkApi, NvJitLinkCalls, NvJitLinkFailure, nvJitLinkHandle, nvJitLinkInputType,
};
use std::sync::Arc;

/// The kind behind [`NvJitLink`].
pub(crate) struct NvJitLinkRes;

// SAFETY: *ends*: `nvJitLinkDestroy`.
unsafe impl Handled for NvJitLinkRes {
    type Raw = nvJitLinkHandle;
    type Api = Arc<dyn NvJitLinkApi>;
    const KIND: ObjectKind = ObjectKind::NvJitLink;

    fn addr(raw: nvJitLinkHandle) -> u64 {
        raw.0.addr() as u64
    }
    unsafe fn destroy(
        api: &Arc<dyn NvJitLinkApi>,
        mut raw: nvJitLinkHandle,
    ) -> Result<(), CompilerFailure> {
        // SAFETY: *programs*: live, by the caller's promise; *pointers*: a live local.
        unsafe { NvJitLinkCalls::new(&**api).nvJitLinkDestroy(&raw mut raw) }
            .map_err(CompilerFailure::NvJitLink)
    }
}

/// What an input of a link is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum NvJitLinkInput {
    /// Code for one architecture.
    Cubin,
    /// PTX text.
    Ptx,
    /// Code for link-time optimization.
    LtoIr,
    /// Several of these in one.
    Fatbin,
    /// Whatever it is found to be.
    Any,
}

impl NvJitLinkInput {
    fn raw(self) -> nvJitLinkInputType {
        match self {
            Self::Cubin => nvJitLinkInputType::CUBIN,
            Self::Ptx => nvJitLinkInputType::PTX,
            Self::LtoIr => nvJitLinkInputType::LTOIR,
            Self::Fatbin => nvJitLinkInputType::FATBIN,
            Self::Any => nvJitLinkInputType::ANY,
        }
    }
}

/// A link of nvJitLink. It can go to another thread, but isn't `Sync`.
///
/// Its drop calls `nvJitLinkDestroy`.
pub struct NvJitLink(Tool<NvJitLinkRes>);

impl NvJitLink {
    /// Begins a link with nvJitLink's own options, of which `-arch=sm_NN` must be one.
    ///
    /// Calls `nvJitLinkCreate`.
    ///
    /// # Errors
    /// The call's failure; an option with a NUL byte, or more than C counts.
    pub fn new(driver: &Driver, api: &Arc<dyn NvJitLinkApi>, options: &[&str]) -> Result<Self> {
        let count = u32::try_from(options.len())
            .map_err(|error| Error::argument(format!("options: {error}")))?;
        let options = c_strings(options, "option")?;
        let options = pointers(&options);
        let mut raw = nvJitLinkHandle::NULL;
        // SAFETY: *pointers*: a live local, and `count` C strings, read during the call.
        unsafe {
            NvJitLinkCalls::new(&**api).nvJitLinkCreate(&raw mut raw, count, options.as_ptr())
        }
        .map_err(Error::nvjitlink)?;
        if raw.is_null() {
            return Err(Error::state("nvJitLink reported success and gave no handle"));
        }
        Ok(Self(Tool::own(driver, Arc::clone(api), raw)))
    }

    fn calls(&self) -> NvJitLinkCalls<'_> {
        NvJitLinkCalls::new(&**self.0.api())
    }

    /// Adds an input, under a name for messages. It is copied during the call.
    ///
    /// Calls `nvJitLinkAddData`; where it fails `nvJitLinkGetErrorLogSize` and `nvJitLinkGetErrorLog`.
    ///
    /// # Errors
    /// The call's failure, with the log; no bytes; a name with a NUL byte.
    pub fn add_data(&mut self, input: NvJitLinkInput, data: &[u8], name: &str) -> Result<()> {
        if data.is_empty() {
            return Err(Error::argument("data: an input has at least 1 byte"));
        }
        let name = c_string(name, "name")?;
        let (bytes, len) = (data.as_ptr().cast(), data.len());
        // SAFETY: *programs*: this value's; *pointers*: as many bytes as said, and a C string.
        unsafe {
            self.calls().nvJitLinkAddData(self.as_raw(), input.raw(), bytes, len, name.as_ptr())
        }
        .map_err(|failure| self.said(failure))
    }

    /// Links what was added, to code for the architecture.
    ///
    /// Calls `nvJitLinkComplete`, `nvJitLinkGetLinkedCubinSize`, `nvJitLinkGetLinkedCubin`; where the first fails
    /// `nvJitLinkGetErrorLogSize` and `nvJitLinkGetErrorLog`.
    ///
    /// # Errors
    /// The calls' failures, with the log.
    pub fn complete(&mut self) -> Result<Vec<u8>> {
        let (calls, raw) = (self.calls(), self.as_raw());
        // SAFETY: *programs*: this value's.
        unsafe { calls.nvJitLinkComplete(raw) }.map_err(|failure| self.said(failure))?;
        read(
            |size| {
                // SAFETY: *programs*: this value's; *pointers*: exclusive.
                unsafe { calls.nvJitLinkGetLinkedCubinSize(raw, size) }.map_err(Error::nvjitlink)
            },
            |cubin| {
                // SAFETY: *programs*: as above; *pointers*: as many bytes as the call before said.
                unsafe { calls.nvJitLinkGetLinkedCubin(raw, cubin.cast()) }
                    .map_err(Error::nvjitlink)
            },
        )
    }

    /// What the linker complained about.
    ///
    /// Calls `nvJitLinkGetErrorLogSize`, `nvJitLinkGetErrorLog`.
    ///
    /// # Errors
    /// The calls' failures.
    pub fn error_log(&self) -> Result<String> {
        let (calls, raw) = (self.calls(), self.as_raw());
        let log = read(
            |size| {
                // SAFETY: *programs*: this value's; *pointers*: exclusive.
                unsafe { calls.nvJitLinkGetErrorLogSize(raw, size) }.map_err(Error::nvjitlink)
            },
            |log| {
                // SAFETY: *programs*: as above; *pointers*: as many bytes as the call before said.
                unsafe { calls.nvJitLinkGetErrorLog(raw, log.cast()) }.map_err(Error::nvjitlink)
            },
        )?;
        Ok(text(log))
    }

    /// The failure, with what the linker says about it.
    fn said(&self, failure: NvJitLinkFailure) -> Error {
        let error = Error::nvjitlink(failure);
        match self.error_log() {
            Ok(log) if log.trim().is_empty() => error,
            Ok(log) => error.with_note(Note::Text(log.trim().to_owned().into())),
            Err(second) => error.with_second(&second),
        }
    }

    /// Ends the link here and now.
    ///
    /// Calls `nvJitLinkDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the link where nvJitLink wasn't asked.
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|refused| Refused::new(refused.error, refused.value.map(Self)))
    }
}

tool_forms! { NvJitLink(NvJitLinkRes): nvJitLinkHandle, Arc<dyn NvJitLinkApi>, "nvJitLink handle" }
