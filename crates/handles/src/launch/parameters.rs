//! The layout of a kernel's parameters, as the driver tells it, and the check of arguments against it.

use crate::error::{Error, Result};
use cuhold_driver_sys::{CUresult, Failure};

/// One parameter of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub struct Parameter {
    /// Where it stands in the packed parameters, in bytes.
    pub offset_bytes: usize,
    /// Its size in bytes.
    pub size_bytes: usize,
}

/// The parameters of a kernel, or that the driver doesn't tell them (before CUDA 12.4).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parameters(Option<Box<[Parameter]>>);

impl Parameters {
    /// Asks for one parameter after the other until the driver says that there is none.
    pub(crate) fn read(
        mut ask: impl FnMut(usize, &mut usize, &mut usize) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let mut known = Vec::new();
        loop {
            let (mut offset_bytes, mut size_bytes) = (0, 0);
            match ask(known.len(), &mut offset_bytes, &mut size_bytes) {
                Ok(()) => known.push(Parameter { offset_bytes, size_bytes }),
                Err(Failure { status: CUresult::INVALID_VALUE, .. }) => {
                    return Ok(Self(Some(known.into())));
                }
                Err(Failure { status: CUresult::MISSING, .. }) => return Ok(Self(None)),
                Err(failure) => return Err(failure),
            }
        }
    }

    /// The parameters in order; `None` where the driver doesn't tell them.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn known(&self) -> Option<&[Parameter]> {
        self.0.as_deref()
    }

    /// Compares the sizes of arguments with the parameters.
    #[inline]
    pub(crate) fn check(&self, sizes: &[usize]) -> Result<()> {
        let Some(known) = &self.0 else { return Ok(()) };
        let fits = known.len() == sizes.len()
            && known.iter().zip(sizes).all(|(parameter, size)| parameter.size_bytes == *size);
        if fits { Ok(()) } else { Err(mismatch(known, sizes)) }
    }
}

#[cold]
fn mismatch(known: &[Parameter], sizes: &[usize]) -> Error {
    if known.len() != sizes.len() {
        return Error::argument(format!(
            "args: the kernel has {} parameters, {} arguments were given",
            known.len(),
            sizes.len()
        ));
    }
    let wrong = known
        .iter()
        .zip(sizes)
        .enumerate()
        .find(|(_, (parameter, size))| parameter.size_bytes != **size);
    let Some((index, (parameter, size))) = wrong else {
        return Error::argument("args: they don't fit the kernel");
    };
    Error::argument(format!(
        "args: argument {index} has {size} bytes, the kernel's parameter {index} has {}",
        parameter.size_bytes
    ))
}
