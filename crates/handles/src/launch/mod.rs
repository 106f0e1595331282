//! The launch itself: one driver call, checked arguments, nothing allocated.
//!
//! Source: CUDA Driver API 13.x, "Execution Control", `cuLaunchKernelEx`.

#![expect(unsafe_code, reason = "launches a kernel")]

mod args;
mod config;
mod parameters;

pub use args::{KernelArg, KernelArgs};
pub use config::LaunchConfig;
pub use parameters::{Parameter, Parameters};

use crate::{driver::Driver, error::Result, stream::StreamRef};
use cuhold_driver_sys::ffi::*;
use std::ptr;

/// Queues a function on a stream.
///
/// # Safety
/// *layout*, *bounds*, *ordering* of [`Kernel::launch`](crate::Kernel::launch); `function` is live.
#[inline]
pub(crate) unsafe fn launch<A: KernelArgs>(
    driver: &Driver,
    function: CUfunction,
    parameters: &Parameters,
    stream: StreamRef<'_>,
    config: LaunchConfig,
    args: A,
) -> Result<()> {
    driver.check_same(stream.driver(), "stream")?;
    config.check()?;
    let mut is_asked = false;
    let launched = args.with(driver, |pointers, sizes| {
        parameters.check(sizes)?;
        is_asked = true;
        let mut raw = CUlaunchConfig {
            gridDimX: config.grid[0],
            gridDimY: config.grid[1],
            gridDimZ: config.grid[2],
            blockDimX: config.block[0],
            blockDimY: config.block[1],
            blockDimZ: config.block[2],
            sharedMemBytes: config.shared_bytes,
            hStream: stream.raw(),
            attrs: ptr::null_mut(),
            numAttrs: 0,
        };
        let mut launch = |raw: &CUlaunchConfig| {
            stream.run(|calls| {
                // SAFETY: *pointers*: `raw` and its attributes are live, `pointers` lead to one live value for each
                // parameter (`KernelArgs`); *handles*: the function and the stream are live, by the caller's promise.
                unsafe {
                    calls.cuLaunchKernelEx(raw, function, pointers.as_mut_ptr(), ptr::null_mut())
                }
            })
        };
        // The usual launch has none, and then nothing is made for them.
        if config.has_attributes() {
            config.with_attributes(&mut raw, launch)
        } else {
            launch(&raw)
        }
    });
    if !is_asked {
        return launched;
    }
    // Also where the launch failed: it may be queued all the same.
    match (launched, args.used_on(stream)) {
        (Ok(()), Ok(())) => Ok(()),
        (Ok(()), Err(error)) => Err(error.with_completed(1)),
        (Err(error), Ok(())) => Err(error),
        (Err(error), Err(second)) => Err(error.with_second(&second)),
    }
}

/// Hands out what a graph's node of a function is made with: its parameters, and its attributes, which are set afterwards.
/// The arguments' values live as long as the call.
///
/// # Errors
/// As a launch's that isn't made; that of `use_them`.
pub(crate) fn as_node<A: KernelArgs, T>(
    driver: &Driver,
    (kernel, context): (CUkernel, CUcontext),
    parameters: &Parameters,
    config: LaunchConfig,
    args: &A,
    use_them: impl FnOnce(&CUDA_KERNEL_NODE_PARAMS, &[CUlaunchAttribute]) -> Result<T>,
) -> Result<T> {
    config.check()?;
    args.with(driver, |pointers, sizes| {
        parameters.check(sizes)?;
        let params = CUDA_KERNEL_NODE_PARAMS {
            func: CUfunction::NULL,
            gridDimX: config.grid[0],
            gridDimY: config.grid[1],
            gridDimZ: config.grid[2],
            blockDimX: config.block[0],
            blockDimY: config.block[1],
            blockDimZ: config.block[2],
            sharedMemBytes: config.shared_bytes,
            kernelParams: pointers.as_mut_ptr(),
            extra: ptr::null_mut(),
            kern: kernel,
            ctx: context,
        };
        let (attributes, count) = config.attributes();
        use_them(&params, attributes.get(..count as usize).unwrap_or_default())
    })
}
