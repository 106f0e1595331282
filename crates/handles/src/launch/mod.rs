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
    args.with(driver, |pointers, sizes| {
        parameters.check(sizes)?;
        let (mut attributes, count) = config.attributes();
        let raw = CUlaunchConfig {
            gridDimX: config.grid[0],
            gridDimY: config.grid[1],
            gridDimZ: config.grid[2],
            blockDimX: config.block[0],
            blockDimY: config.block[1],
            blockDimZ: config.block[2],
            sharedMemBytes: config.shared_bytes,
            hStream: stream.raw(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: count,
        };
        stream.run(|calls| {
            // SAFETY: *pointers*: `raw` and the attributes are live locals, `pointers` lead to one live value for each
            // parameter (`KernelArgs`); *handles*: the function and the stream are live, by the caller's promise.
            unsafe {
                calls.cuLaunchKernelEx(
                    &raw const raw,
                    function,
                    pointers.as_mut_ptr(),
                    ptr::null_mut(),
                )
            }
        })
    })
}
