//! One compilation: NVRTC's program object from its creation to its end.

#![expect(unsafe_code, reason = "calls NVRTC")]

use super::{Code, CompileOptions, Compiler, Program, compiler::Target};
use cuhold_driver_sys::nvrtc::{NvrtcCalls, NvrtcFailure, nvrtcResult};
use cuhold_handles::{Driver, Error, Note, NvrtcProgram, Result};
use std::{
    ffi::{CStr, CString, c_char},
    ptr,
};

/// A compilation under way.
pub(super) struct Job {
    program: NvrtcProgram,
}

fn c_string(text: &str, what: &'static str) -> Result<CString> {
    CString::new(text).map_err(|error| Error::argument(format!("{what}: {error}")))
}

fn c_strings<T: AsRef<str>>(
    texts: impl IntoIterator<Item = T>,
    what: &'static str,
) -> Result<Vec<CString>> {
    texts.into_iter().map(|text| c_string(text.as_ref(), what)).collect()
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).collect()
}

impl Job {
    pub(super) fn new(
        compiler: &Compiler,
        driver: &Driver,
        source: &str,
        options: &CompileOptions<'_>,
    ) -> Result<Self> {
        let (name, headers) = (options.name, &options.headers);
        let program = NvrtcProgram::new(driver, compiler.api(), source, name, headers)?;
        Ok(Self { program })
    }

    fn calls(&self) -> NvrtcCalls<'_> {
        self.program.calls()
    }

    /// Compiles, takes what came out, and ends the program object.
    pub(super) fn run(self, target: &Target, options: &CompileOptions<'_>) -> Result<Program> {
        let result = self.compile(target, options);
        match (result, self.program.close()) {
            (Ok(program), Ok(_)) => Ok(program),
            (Ok(_), Err(refused)) => Err(refused.error),
            (Err(error), Ok(_)) => Err(error),
            (Err(error), Err(refused)) => Err(error.with_second(&refused.error)),
        }
    }

    fn compile(&self, target: &Target, options: &CompileOptions<'_>) -> Result<Program> {
        let expressions = c_strings(options.expressions.iter().copied(), "name expression")?;
        for expression in &expressions {
            // SAFETY: *handles*: this job's program; *pointers*: a C string, read during the call.
            unsafe {
                self.calls().nvrtcAddNameExpression(self.program.as_raw(), expression.as_ptr())
            }
            .map_err(|failure| Error::nvrtc(failure, None))?;
        }
        let all = [target.option.as_str()].into_iter().chain(options.options.iter().copied());
        let all = c_strings(all, "option")?;
        let (all, count) = (pointers(&all), length(all.len(), "options")?);
        // SAFETY: *handles*: this job's program; *pointers*: `count` C strings, read during the call.
        let result =
            unsafe { self.calls().nvrtcCompileProgram(self.program.as_raw(), count, all.as_ptr()) };
        let log = self.log();
        if let Err(failure) = result {
            return Err(self.failed(failure, log));
        }
        let log = log?;
        let code = if target.cubin { Code::Cubin(self.cubin()?) } else { Code::Ptx(self.ptx()?) };
        let names = options.expressions.iter().zip(&expressions);
        let names = names
            .map(|(text, expression)| Ok(((*text).to_owned(), self.lowered(expression)?)))
            .collect::<Result<_>>()?;
        Ok(Program { code, names, log })
    }

    /// A compilation that failed: with its log, and with what is known about the status.
    fn failed(&self, failure: NvrtcFailure, log: Result<String>) -> Error {
        match log {
            Ok(log) if failure.status == nvrtcResult::COMPILATION => {
                Error::nvrtc(failure, Some(log))
            }
            Ok(log) => {
                let error = Error::nvrtc(failure, None);
                let explained = self.calls().api().explain(failure.status);
                [Some(log).filter(|log| !log.is_empty()), explained]
                    .into_iter()
                    .flatten()
                    .fold(error, |error, text| error.with_note(Note::Text(text.into())))
            }
            Err(no_log) => Error::nvrtc(failure, None).with_second(&no_log),
        }
    }

    /// Reads text or bytes by NVRTC's pair of calls: the size with its NUL byte, then the content.
    fn read(
        &self,
        size: impl FnOnce(&mut usize) -> Result<(), NvrtcFailure>,
        content: impl FnOnce(*mut c_char) -> Result<(), NvrtcFailure>,
    ) -> Result<Vec<u8>> {
        let mut bytes = 0;
        size(&mut bytes).map_err(|failure| Error::nvrtc(failure, None))?;
        let mut buffer = vec![0_u8; bytes];
        if bytes > 0 {
            content(buffer.as_mut_ptr().cast()).map_err(|failure| Error::nvrtc(failure, None))?;
        }
        Ok(buffer)
    }

    fn text(bytes: Vec<u8>) -> String {
        let text =
            CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned());
        text.unwrap_or_default()
    }

    fn log(&self) -> Result<String> {
        let log = self.read(
            // SAFETY: *handles*: this job's program; *pointers*: exclusive.
            |size| unsafe { self.calls().nvrtcGetProgramLogSize(self.program.as_raw(), size) },
            // SAFETY: *handles*: as above; *pointers*: as many bytes as the call before said.
            |log| unsafe { self.calls().nvrtcGetProgramLog(self.program.as_raw(), log) },
        )?;
        Ok(Self::text(log))
    }

    fn ptx(&self) -> Result<String> {
        let ptx = self.read(
            // SAFETY: *handles*: this job's program; *pointers*: exclusive.
            |size| unsafe { self.calls().nvrtcGetPTXSize(self.program.as_raw(), size) },
            // SAFETY: *handles*: as above; *pointers*: as many bytes as the call before said.
            |ptx| unsafe { self.calls().nvrtcGetPTX(self.program.as_raw(), ptx) },
        )?;
        Ok(Self::text(ptx))
    }

    fn cubin(&self) -> Result<Vec<u8>> {
        self.read(
            // SAFETY: *handles*: this job's program; *pointers*: exclusive.
            |size| unsafe { self.calls().nvrtcGetCUBINSize(self.program.as_raw(), size) },
            // SAFETY: *handles*: as above; *pointers*: as many bytes as the call before said.
            |cubin| unsafe { self.calls().nvrtcGetCUBIN(self.program.as_raw(), cubin) },
        )
    }

    fn lowered(&self, expression: &CStr) -> Result<String> {
        let mut lowered = ptr::null();
        // SAFETY: *handles*: this job's program, compiled; *pointers*: a live local, and a C string that was given before
        // the compilation.
        unsafe {
            self.calls().nvrtcGetLoweredName(
                self.program.as_raw(),
                expression.as_ptr(),
                &raw mut lowered,
            )
        }
        .map_err(|failure| Error::nvrtc(failure, None))?;
        if lowered.is_null() {
            return Err(Error::state("the compiler gave no name for a name expression"));
        }
        // SAFETY: *written*: a C string that lives as long as the program.
        let lowered = unsafe { CStr::from_ptr(lowered) };
        Ok(lowered.to_string_lossy().into_owned())
    }
}

fn length(count: usize, what: &'static str) -> Result<i32> {
    i32::try_from(count).map_err(|error| Error::argument(format!("{what}: {error}")))
}
