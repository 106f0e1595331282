//! Compiling CUDA C++ at run time: from source text to code that a device loads.
//!
//! Source: NVRTC 13.x.

mod compiler;
mod job;
mod options;

pub use compiler::Compiler;
pub use options::{CompileOptions, Output};

use cuhold_handles::{Device, Error, Image, Kernel, Library, Result};
use std::{borrow::Cow, fmt};

/// Compiled code.
///
/// # Examples
/// ```no_run
/// use cuhold::{Device, Program};
///
/// let device = Device::new(0)?;
/// let source = r#"extern "C" __global__ void nop() {}"#;
/// let nop = device.load(&Program::compile(&device, source, &[])?)?.kernel("nop")?;
/// # Ok::<(), cuhold::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    code: Code,
    /// Name expressions with the names that they were lowered to.
    names: Vec<(String, String)>,
    log: String,
}

/// What a compilation gave.
#[derive(Clone, PartialEq, Eq)]
enum Code {
    /// For any device at or above an architecture; compiled by the driver when it is loaded.
    Ptx(String),
    /// For one architecture.
    Cubin(Vec<u8>),
}

impl Program {
    /// Compiles source text for a device, with NVRTC as it is found on this machine.
    ///
    /// The code is made for the device's own architecture where the compiler knows it, which needs no compiler in the
    /// driver, and else as PTX for the nearest older one. `options` are NVRTC's, such as `--use_fast_math`.
    ///
    /// Calls `cuDeviceGetAttribute`, `nvrtcGetNumSupportedArchs`, `nvrtcGetSupportedArchs`, `nvrtcCreateProgram`,
    /// `nvrtcCompileProgram`, `nvrtcGetProgramLogSize`, `nvrtcGetProgramLog`, `nvrtcGetCUBINSize`, `nvrtcGetCUBIN` (or
    /// `nvrtcGetPTXSize`, `nvrtcGetPTX`), `nvrtcDestroyProgram`.
    ///
    /// # Errors
    /// - [`ErrorKind::Compile`](crate::ErrorKind::Compile) with the compiler's log;
    /// - [`ErrorKind::Load`](crate::ErrorKind::Load) without NVRTC, with what was tried;
    /// - [`ErrorKind::Argument`](crate::ErrorKind::Argument) for text or options with a NUL byte inside;
    /// - the calls' failures.
    pub fn compile(device: &Device, source: &str, options: &[&str]) -> Result<Self> {
        Self::compile_with(device, source, CompileOptions::new().options(options))
    }

    /// As [`compile`](Self::compile), with all that can be chosen.
    ///
    /// Calls as [`compile`](Self::compile); for name expressions also `nvrtcAddNameExpression`, `nvrtcGetLoweredName`.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn compile_with(
        device: &Device,
        source: &str,
        options: CompileOptions<'_>,
    ) -> Result<Self> {
        Compiler::load()?.compile(device, source, options)
    }

    /// The PTX, where that was made.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn ptx(&self) -> Option<&str> {
        match &self.code {
            Code::Ptx(text) => Some(text),
            Code::Cubin(_) => None,
        }
    }

    /// The code for one architecture, where that was made.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn cubin(&self) -> Option<&[u8]> {
        match &self.code {
            Code::Ptx(_) => None,
            Code::Cubin(bytes) => Some(bytes),
        }
    }

    /// What the compiler said, warnings too; empty where it said nothing.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn log(&self) -> &str {
        &self.log
    }

    /// The mangled name of a name expression, such as `axpy<float>`; `None` for one that wasn't given to the compiler.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn lowered_name(&self, expression: &str) -> Option<&str> {
        self.names
            .iter()
            .find(|(known, _)| known == expression)
            .map(|(_, lowered)| lowered.as_str())
    }

    /// The kernel of a name expression, from a library that was loaded from this program.
    ///
    /// Calls `cuLibraryGetKernel`, `cuKernelGetParamInfo`.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](crate::ErrorKind::Argument) for an expression that wasn't given to the compiler; as
    /// [`Library::kernel`].
    pub fn kernel(&self, library: &Library, expression: &str) -> Result<Kernel> {
        match self.lowered_name(expression) {
            Some(name) => library.kernel(name),
            None => Err(Error::argument(format!(
                "expression: `{expression}` wasn't given to the compiler"
            ))),
        }
    }
}

impl Image for Program {
    fn image(&self) -> Result<Cow<'_, [u8]>> {
        match &self.code {
            Code::Ptx(text) => text.image(),
            Code::Cubin(bytes) => bytes.image(),
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (form, bytes) = match &self.code {
            Code::Ptx(text) => ("PTX", text.len()),
            Code::Cubin(code) => ("cubin", code.len()),
        };
        write!(f, "Program({form}, {bytes} bytes)")
    }
}
