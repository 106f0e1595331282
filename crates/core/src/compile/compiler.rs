//! The compiler as a value: NVRTC as it is installed, or another implementation of its functions.

#![expect(unsafe_code, reason = "calls NVRTC")]

use super::{CompileOptions, Output, Program, job::Job};
use cuhold_driver_sys::nvrtc::{Libnvrtc, NvrtcApi, NvrtcCalls};
use cuhold_handles::{Device, Error, ErrorKind, Result};
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// A compiler of CUDA C++. Clones are the same compiler; several threads may compile at once.
#[derive(Clone)]
pub struct Compiler(Arc<dyn NvrtcApi>);

impl Compiler {
    /// NVRTC as it is found on this machine: by `CUHOLD_NVRTC`, by name, then in the usual folders. A success is
    /// remembered for the life of the process, a failure isn't.
    ///
    /// Calls `nvrtcVersion`.
    ///
    /// # Errors
    /// [`ErrorKind::Load`] with everything that was tried.
    pub fn load() -> Result<Self> {
        static LOADED: OnceLock<Compiler> = OnceLock::new();
        if let Some(compiler) = LOADED.get() {
            return Ok(compiler.clone());
        }
        let library =
            Libnvrtc::load().map_err(|error| Error::new(ErrorKind::Load, error.to_string()))?;
        Ok(LOADED.get_or_init(|| Self(Arc::new(library))).clone())
    }

    /// A compiler over these functions: a hooked one, a user's own.
    ///
    /// Calls nothing.
    pub fn from_api(api: impl NvrtcApi) -> Self {
        Self(Arc::new(api))
    }

    /// The compiler's functions, shared.
    pub(super) fn api(&self) -> &Arc<dyn NvrtcApi> {
        &self.0
    }

    /// The compiler's functions by name.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn calls(&self) -> NvrtcCalls<'_> {
        NvrtcCalls::new(&*self.0)
    }

    /// The compiler's version, major and minor. PTX that it makes needs a driver of at least this version.
    ///
    /// Calls `nvrtcVersion`.
    ///
    /// # Errors
    /// The call's failure.
    pub fn version(&self) -> Result<(i32, i32)> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: *pointers*: live locals.
        unsafe { self.calls().nvrtcVersion(&raw mut major, &raw mut minor) }
            .map_err(|failure| Error::nvrtc(failure, None))?;
        Ok((major, minor))
    }

    /// The architectures that the compiler makes code for, in rising order: 90 is `sm_90`.
    ///
    /// Calls `nvrtcGetNumSupportedArchs`, `nvrtcGetSupportedArchs`.
    ///
    /// # Errors
    /// The calls' failures.
    pub fn architectures(&self) -> Result<Vec<i32>> {
        let mut count = 0;
        // SAFETY: *pointers*: a live local.
        unsafe { self.calls().nvrtcGetNumSupportedArchs(&raw mut count) }
            .map_err(|failure| Error::nvrtc(failure, None))?;
        let mut architectures = vec![0; usize::try_from(count).unwrap_or_default()];
        // SAFETY: *pointers*: as many elements as the compiler just said it writes.
        unsafe { self.calls().nvrtcGetSupportedArchs(architectures.as_mut_ptr()) }
            .map_err(|failure| Error::nvrtc(failure, None))?;
        Ok(architectures)
    }

    /// As [`Program::compile_with`], with this compiler.
    ///
    /// Calls as [`Program::compile_with`].
    ///
    /// # Errors
    /// As [`Program::compile_with`].
    pub fn compile(
        &self,
        device: &Device,
        source: &str,
        options: CompileOptions<'_>,
    ) -> Result<Program> {
        let (major, minor) = device.compute_capability()?;
        let target = self.target(major * 10 + minor, options.output)?;
        Job::new(self, device.driver(), source, &options)?.run(&target, &options)
    }

    /// The architecture option for a device of this compute capability.
    fn target(&self, wanted: i32, output: Output) -> Result<Target> {
        let known = self.architectures()?;
        if output == Output::ForDevice && known.contains(&wanted) {
            return Ok(Target { option: format!("--gpu-architecture=sm_{wanted}"), cubin: true });
        }
        match known.iter().copied().filter(|known| *known <= wanted).max() {
            Some(nearest) => {
                Ok(Target { option: format!("--gpu-architecture=compute_{nearest}"), cubin: false })
            }
            None => Err(Error::new(
                ErrorKind::Compile,
                format!(
                    "this compiler makes code for the architectures {known:?}, the device is {wanted}"
                ),
            )),
        }
    }
}

/// What is compiled for.
pub(super) struct Target {
    pub(super) option: String,
    pub(super) cubin: bool,
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler").finish_non_exhaustive()
    }
}
