//! NVVM's programs.

#![expect(unsafe_code, reason = "calls NVVM")]

use super::{Handled, Tool, c_string, c_strings, pointers, read, text, tool_forms};
use crate::{
    driver::Driver,
    error::{Error, Refused, Result},
    object::ObjectKind,
    resource::Closed,
    status::CompilerFailure,
};
use cuhold_driver_sys::nvvm::{NvvmApi, NvvmCalls, nvvmProgram};
use std::sync::Arc;

/// The kind behind [`NvvmProgram`].
pub(crate) struct NvvmHandle;

// SAFETY: *ends*: `nvvmDestroyProgram`.
unsafe impl Handled for NvvmHandle {
    type Raw = nvvmProgram;
    type Api = Arc<dyn NvvmApi>;
    const KIND: ObjectKind = ObjectKind::NvvmProgram;

    fn addr(raw: nvvmProgram) -> u64 {
        raw.0.addr() as u64
    }
    unsafe fn destroy(api: &Arc<dyn NvvmApi>, mut raw: nvvmProgram) -> Result<(), CompilerFailure> {
        // SAFETY: *programs*: live, by the caller's promise; *pointers*: a live local.
        unsafe { NvvmCalls::new(&**api).nvvmDestroyProgram(&raw mut raw) }
            .map_err(CompilerFailure::Nvvm)
    }
}

/// A program of NVVM: modules of NVVM IR on their way to PTX. It can go to another thread, but isn't `Sync`.
///
/// Its drop calls `nvvmDestroyProgram`.
pub struct NvvmProgram(Tool<NvvmHandle>);

impl NvvmProgram {
    /// Makes a program without modules.
    ///
    /// Calls `nvvmCreateProgram`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn new(driver: &Driver, api: &Arc<dyn NvvmApi>) -> Result<Self> {
        let mut raw = nvvmProgram::NULL;
        // SAFETY: *pointers*: a live local.
        unsafe { NvvmCalls::new(&**api).nvvmCreateProgram(&raw mut raw) }
            .map_err(|failure| Error::nvvm(failure, None))?;
        if raw.is_null() {
            return Err(Error::state("NVVM reported success and gave no program"));
        }
        Ok(Self(Tool::own(driver, Arc::clone(api), raw)))
    }

    fn calls(&self) -> NvvmCalls<'_> {
        NvvmCalls::new(&**self.0.api())
    }

    /// Adds a module, as text or as bitcode, under a name for messages. It is copied during the call.
    ///
    /// Calls `nvvmAddModuleToProgram`.
    ///
    /// # Errors
    /// The call's failure; no bytes; a name with a NUL byte.
    pub fn add_module(&mut self, module: &[u8], name: &str) -> Result<()> {
        if module.is_empty() {
            return Err(Error::argument("module: it has at least 1 byte"));
        }
        let name = c_string(name, "name")?;
        let (bytes, len) = (module.as_ptr().cast(), module.len());
        // SAFETY: *programs*: this value's; *pointers*: as many bytes as said, and a C string.
        unsafe { self.calls().nvvmAddModuleToProgram(self.as_raw(), bytes, len, name.as_ptr()) }
            .map_err(|failure| Error::nvvm(failure, None))
    }

    /// Compiles the modules to PTX, with NVVM's own options, such as `-arch=compute_90`.
    ///
    /// Calls `nvvmCompileProgram`, `nvvmGetCompiledResultSize`, `nvvmGetCompiledResult`; where it fails `nvvmGetProgramLogSize`
    /// and `nvvmGetProgramLog`.
    ///
    /// # Errors
    /// [`ErrorKind::Compile`](crate::ErrorKind::Compile) with the log where the modules have errors; the calls' failures; an
    /// option with a NUL byte, or more than C counts.
    pub fn compile(&mut self, options: &[&str]) -> Result<String> {
        let count = i32::try_from(options.len())
            .map_err(|error| Error::argument(format!("options: {error}")))?;
        let options = c_strings(options, "option")?;
        let options = pointers(&options);
        // SAFETY: *programs*: this value's; *pointers*: `count` C strings, read during the call.
        let compiled =
            unsafe { self.calls().nvvmCompileProgram(self.as_raw(), count, options.as_ptr()) };
        if let Err(failure) = compiled {
            let log = self.log();
            return Err(match log {
                Ok(log) => Error::nvvm(failure, Some(log).filter(|log| !log.is_empty())),
                Err(second) => Error::nvvm(failure, None).with_second(&second),
            });
        }
        let (calls, raw) = (self.calls(), self.as_raw());
        let ptx = read(
            |size| {
                // SAFETY: *programs*: this value's; *pointers*: exclusive.
                unsafe { calls.nvvmGetCompiledResultSize(raw, size) }
                    .map_err(|failure| Error::nvvm(failure, None))
            },
            |ptx| {
                // SAFETY: *programs*: as above; *pointers*: as many bytes as the call before said.
                unsafe { calls.nvvmGetCompiledResult(raw, ptx.cast()) }
                    .map_err(|failure| Error::nvvm(failure, None))
            },
        )?;
        Ok(text(ptx))
    }

    /// What the compiler had to say.
    ///
    /// Calls `nvvmGetProgramLogSize`, `nvvmGetProgramLog`.
    ///
    /// # Errors
    /// The calls' failures.
    pub fn log(&self) -> Result<String> {
        let (calls, raw) = (self.calls(), self.as_raw());
        let log = read(
            |size| {
                // SAFETY: *programs*: this value's; *pointers*: exclusive.
                unsafe { calls.nvvmGetProgramLogSize(raw, size) }
                    .map_err(|failure| Error::nvvm(failure, None))
            },
            |log| {
                // SAFETY: *programs*: as above; *pointers*: as many bytes as the call before said.
                unsafe { calls.nvvmGetProgramLog(raw, log.cast()) }
                    .map_err(|failure| Error::nvvm(failure, None))
            },
        )?;
        Ok(text(log))
    }

    /// Ends the program here and now.
    ///
    /// Calls `nvvmDestroyProgram`.
    ///
    /// # Errors
    /// [`Refused`], with the program where NVVM wasn't asked.
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|refused| Refused::new(refused.error, refused.value.map(Self)))
    }
}

tool_forms! { NvvmProgram(NvvmHandle): nvvmProgram, Arc<dyn NvvmApi>, "NVVM program" }
