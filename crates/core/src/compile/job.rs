//! One compilation: NVRTC's program object from its creation to its end.

#![expect(unsafe_code, reason = "calls NVRTC")]

use super::{Code, CompileOptions, Compiler, Program, compiler::Target};
use cuhold_driver_sys::nvrtc::{NvrtcCalls, NvrtcFailure, nvrtcProgram, nvrtcResult};
use cuhold_handles::{CudaWarning, Driver, Error, Fate, Note, Object, ObjectKind, Result};
use std::{
    ffi::{CStr, CString, c_char},
    ptr,
};

/// A program object of NVRTC. Ended by [`run`](Self::run), or by its `Drop` where something failed on the way.
pub(super) struct Job<'a> {
    compiler: &'a Compiler,
    driver: &'a Driver,
    raw: nvrtcProgram,
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

impl<'a> Job<'a> {
    pub(super) fn new(
        compiler: &'a Compiler,
        driver: &'a Driver,
        source: &str,
        options: &CompileOptions<'_>,
    ) -> Result<Self> {
        let source = c_string(source, "source")?;
        let name = options.name.map(|name| c_string(name, "name")).transpose()?;
        let names = c_strings(options.headers.iter().map(|(name, _)| *name), "header")?;
        let texts = c_strings(options.headers.iter().map(|(_, text)| *text), "header")?;
        let (names, texts, count) =
            (pointers(&names), pointers(&texts), length(options.headers.len(), "headers")?);
        let mut raw = nvrtcProgram::NULL;
        // SAFETY: *pointers*: a live local, C strings, and two arrays of `count` C strings; all are read during the call.
        let result = unsafe {
            compiler.calls().nvrtcCreateProgram(
                &raw mut raw,
                source.as_ptr(),
                name.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
                count,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        result.map_err(|failure| Error::nvrtc(failure, None))?;
        Ok(Self { compiler, driver, raw })
    }

    fn calls(&self) -> NvrtcCalls<'a> {
        self.compiler.calls()
    }

    /// Compiles, takes what came out, and ends the program object.
    pub(super) fn run(self, target: &Target, options: &CompileOptions<'_>) -> Result<Program> {
        let result = self.compile(target, options);
        match (result, self.end()) {
            (Ok(program), Ok(())) => Ok(program),
            (Ok(_), Err(failure)) => Err(Error::nvrtc(failure, None)),
            (Err(error), Ok(())) => Err(error),
            (Err(error), Err(failure)) => {
                Err(error.with_note(Note::Text(failure.to_string().into())))
            }
        }
    }

    fn compile(&self, target: &Target, options: &CompileOptions<'_>) -> Result<Program> {
        let expressions = c_strings(options.expressions.iter().copied(), "name expression")?;
        for expression in &expressions {
            // SAFETY: *handles*: this job's program; *pointers*: a C string, read during the call.
            unsafe { self.calls().nvrtcAddNameExpression(self.raw, expression.as_ptr()) }
                .map_err(|failure| Error::nvrtc(failure, None))?;
        }
        let all = [target.option.as_str()].into_iter().chain(options.options.iter().copied());
        let all = c_strings(all, "option")?;
        let (all, count) = (pointers(&all), length(all.len(), "options")?);
        // SAFETY: *handles*: this job's program; *pointers*: `count` C strings, read during the call.
        let result = unsafe { self.calls().nvrtcCompileProgram(self.raw, count, all.as_ptr()) };
        let log = self.log();
        if let Err(failure) = result {
            return Err(self.failed(failure, log));
        }
        let code = if target.cubin { Code::Cubin(self.cubin()?) } else { Code::Ptx(self.ptx()?) };
        let names = options.expressions.iter().zip(&expressions);
        let names = names
            .map(|(text, expression)| Ok(((*text).to_owned(), self.lowered(expression)?)))
            .collect::<Result<_>>()?;
        Ok(Program { code, names, log: log? })
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
            Err(no_log) => {
                Error::nvrtc(failure, None).with_note(Note::Text(no_log.to_string().into()))
            }
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
            |size| unsafe { self.calls().nvrtcGetProgramLogSize(self.raw, size) },
            // SAFETY: *handles*: as above; *pointers*: as many bytes as the call before said.
            |log| unsafe { self.calls().nvrtcGetProgramLog(self.raw, log) },
        )?;
        Ok(Self::text(log))
    }

    fn ptx(&self) -> Result<String> {
        let ptx = self.read(
            // SAFETY: *handles*: this job's program; *pointers*: exclusive.
            |size| unsafe { self.calls().nvrtcGetPTXSize(self.raw, size) },
            // SAFETY: *handles*: as above; *pointers*: as many bytes as the call before said.
            |ptx| unsafe { self.calls().nvrtcGetPTX(self.raw, ptx) },
        )?;
        Ok(Self::text(ptx))
    }

    fn cubin(&self) -> Result<Vec<u8>> {
        self.read(
            // SAFETY: *handles*: this job's program; *pointers*: exclusive.
            |size| unsafe { self.calls().nvrtcGetCUBINSize(self.raw, size) },
            // SAFETY: *handles*: as above; *pointers*: as many bytes as the call before said.
            |cubin| unsafe { self.calls().nvrtcGetCUBIN(self.raw, cubin) },
        )
    }

    fn lowered(&self, expression: &CStr) -> Result<String> {
        let mut lowered = ptr::null();
        // SAFETY: *handles*: this job's program, compiled; *pointers*: a live local, and a C string that was given before
        // the compilation.
        unsafe {
            self.calls().nvrtcGetLoweredName(self.raw, expression.as_ptr(), &raw mut lowered)
        }
        .map_err(|failure| Error::nvrtc(failure, None))?;
        if lowered.is_null() {
            return Err(Error::state("the compiler gave no name for a name expression"));
        }
        // SAFETY: *written*: a C string that lives as long as the program.
        let lowered = unsafe { CStr::from_ptr(lowered) };
        Ok(lowered.to_string_lossy().into_owned())
    }

    fn destroy(&mut self) -> Result<(), NvrtcFailure> {
        if self.raw.is_null() {
            return Ok(());
        }
        let mut raw = std::mem::replace(&mut self.raw, nvrtcProgram::NULL);
        // SAFETY: *handles*: this job's program, ended once.
        unsafe { self.calls().nvrtcDestroyProgram(&raw mut raw) }
    }

    fn end(mut self) -> Result<(), NvrtcFailure> {
        self.destroy()
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        let raw = self.raw.0.addr() as u64;
        if let Err(failure) = self.destroy() {
            let object = Object { kind: ObjectKind::NvrtcProgram, raw, id: 0 };
            let warning =
                CudaWarning::note(object, "the program object of the compiler wasn't ended");
            self.driver.warn(warning.with_fate(Fate::Leaked).with_text(&failure.to_string()));
        }
    }
}

fn length(count: usize, what: &'static str) -> Result<i32> {
    i32::try_from(count).map_err(|error| Error::argument(format!("{what}: {error}")))
}
