//! What a kernel of the plan does. A program in C or Python can't hand over a closure, and nothing here runs PTX: so a
//! plan names one of a few bodies, each with the parameters that it takes.

use cuhold_driver_sim::{KernelFault, KernelLaunch, cuhold_driver_sys::ffi::CUdeviceptr};
use serde::Deserialize;

/// A body, over elements counted by the last parameter. Each thread of the grid whose number is below the count does one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Body {
    /// Nothing, whatever the parameters.
    Nothing,
    /// `(u32 *to, u32 value, u32 count)`: `to[i] = value`.
    FillU32,
    /// `(u32 *to, const u32 *from, u32 count)`: `to[i] = from[i]`.
    CopyU32,
    /// `(float a, const float *x, float *y, u32 count)`: `y[i] += a * x[i]`, rounded once.
    AxpyF32,
}

impl Body {
    /// Runs the grid.
    pub(crate) fn run(self, launch: &mut KernelLaunch<'_>) -> Result<(), KernelFault> {
        match self {
            Self::Nothing => Ok(()),
            Self::FillU32 => {
                let (to, value): (CUdeviceptr, u32) = (launch.param(0)?, launch.param(1)?);
                each(launch, 2, |launch, i| launch.write(element(to, i), value))
            }
            Self::CopyU32 => {
                let (to, from): (CUdeviceptr, CUdeviceptr) = (launch.param(0)?, launch.param(1)?);
                each(launch, 2, |launch, i| {
                    let value: u32 = launch.read(element(from, i))?;
                    launch.write(element(to, i), value)
                })
            }
            Self::AxpyF32 => {
                let a: f32 = launch.param(0)?;
                let (x, y): (CUdeviceptr, CUdeviceptr) = (launch.param(1)?, launch.param(2)?);
                each(launch, 3, |launch, i| {
                    let (x, sum): (f32, f32) =
                        (launch.read(element(x, i))?, launch.read(element(y, i))?);
                    launch.write(element(y, i), a.mul_add(x, sum))
                })
            }
        }
    }
}

/// Does `one` for each thread below the count, which is the parameter at `count`.
fn each(
    launch: &mut KernelLaunch<'_>,
    count: usize,
    one: impl Fn(&mut KernelLaunch<'_>, u64) -> Result<(), KernelFault>,
) -> Result<(), KernelFault> {
    let count: u32 = launch.param(count)?;
    let threads = launch.threads().map(|thread| thread.global_x() as u64);
    for i in threads.filter(|i| *i < u64::from(count)) {
        one(launch, i)?;
    }
    Ok(())
}

/// Where the element of four bytes is.
const fn element(base: CUdeviceptr, index: u64) -> CUdeviceptr {
    base.wrapping_add(index.wrapping_mul(4))
}
