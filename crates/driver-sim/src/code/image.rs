//! What an image holds, as far as the simulated driver needs it: kernels with their parameters, and variables.

use cuhold_driver_sys::CUresult;

/// A parameter of a kernel: where it lies in the parameter block, and how large it is, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Param {
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// A kernel of an image.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct KernelInfo {
    pub(crate) name: String,
    /// `None` where the image doesn't say: an ELF image without parameter records.
    pub(crate) params: Option<Vec<Param>>,
    /// The most threads a block of it may have; `None` is the device's own limit.
    pub(crate) block_threads_max: Option<u32>,
    pub(crate) static_shared_bytes: u32,
    pub(crate) constant_bytes: u32,
    pub(crate) local_bytes: u32,
    /// Registers a thread needs. For PTX this is the simulator's own estimate: the registers that the kernel declares, at most
    /// as many as a block of any size has room for.
    pub(crate) registers: u32,
    /// Cluster dimensions that the code requires.
    pub(crate) cluster: Option<(u32, u32, u32)>,
}

impl KernelInfo {
    /// The size of the parameter block, in bytes.
    pub(crate) fn params_bytes(&self) -> usize {
        let params = self.params.as_deref().unwrap_or_default();
        params.iter().map(|p| p.offset + p.size).max().unwrap_or(0)
    }
}

/// A variable of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    pub(crate) is_managed: bool,
    /// What it starts with; zeros from there to its end. `None` where it starts with an address, which only a linker
    /// knows.
    pub(crate) initial: Option<Vec<u8>>,
}

/// An image that was read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Image {
    /// The compute capability it is for, as `10 * major + minor`.
    pub(crate) architecture: u32,
    /// PTX for that one alone, such as `sm_90a`.
    pub(crate) exact_architecture: bool,
    /// The PTX version as `10 * major + minor`; `None` for compiled code.
    pub(crate) ptx_version: Option<u32>,
    pub(crate) kernels: Vec<KernelInfo>,
    pub(crate) variables: Vec<Variable>,
}

/// What a device and its driver can load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    /// The device's compute capability, as `10 * major + minor`.
    pub(crate) architecture: u32,
    /// The driver's version, as `1000 * major + 10 * minor`.
    pub(crate) driver_version: i32,
}

impl Target {
    /// The newest PTX that the driver compiles, as `10 * major + minor`.
    ///
    /// CUDA 11.0 brought PTX 7.0, 12.0 brought 8.0, 13.0 brought 9.0, each minor version the next one; but 12.6 brought
    /// none.
    pub(crate) fn ptx_version_max(self) -> u32 {
        let (major, minor) = (self.driver_version / 1000, self.driver_version % 1000 / 10);
        let (major, minor) = (u32::try_from(major).unwrap_or(0), u32::try_from(minor).unwrap_or(0));
        let minor = if major == 12 && minor > 5 { minor - 1 } else { minor };
        (major.saturating_sub(4)) * 10 + minor
    }

    /// Whether the device runs what an image is for.
    ///
    /// # Errors
    /// For PTX, `INVALID_PTX` for a newer target (measured). For compiled code, `NO_BINARY_FOR_GPU` unless it is for the
    /// same major version and not a newer minor one.
    pub(crate) fn check(self, image: &Image) -> Result<(), CUresult> {
        match image.ptx_version {
            Some(_) if image.architecture > self.architecture => Err(CUresult::INVALID_PTX),
            Some(_) if image.exact_architecture && image.architecture != self.architecture => {
                Err(CUresult::INVALID_PTX)
            }
            Some(_) => Ok(()),
            None if image.architecture / 10 == self.architecture / 10
                && image.architecture <= self.architecture =>
            {
                Ok(())
            }
            None => Err(CUresult::NO_BINARY_FOR_GPU),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Target = Target { architecture: 90, driver_version: 13_000 };

    fn ptx(version: u32, architecture: u32) -> Image {
        Image { architecture, ptx_version: Some(version), ..Image::default() }
    }

    #[test]
    fn each_driver_compiles_ptx_up_to_its_own_version() {
        let newest = |driver_version| Target { driver_version, ..H200 }.ptx_version_max();
        assert_eq!(
            [11_080, 12_000, 12_050, 12_060, 12_090, 13_000, 13_010].map(newest),
            [78, 80, 85, 85, 88, 90, 91]
        );
    }

    #[test]
    fn ptx_is_compiled_for_the_device_it_names_and_for_newer_ones() {
        assert_eq!(H200.check(&ptx(90, 90)), Ok(()));
        assert_eq!(H200.check(&ptx(60, 50)), Ok(()));
        assert_eq!(H200.check(&ptx(90, 100)), Err(CUresult::INVALID_PTX));
        let only = |architecture| Image { exact_architecture: true, ..ptx(80, architecture) };
        assert_eq!(H200.check(&only(90)), Ok(()));
        assert_eq!(H200.check(&only(80)), Err(CUresult::INVALID_PTX));
    }

    #[test]
    fn compiled_code_runs_on_its_own_major_version_only() {
        let code = |architecture| Image { architecture, ..Image::default() };
        assert_eq!(H200.check(&code(90)), Ok(()));
        for other in [80, 86, 100] {
            assert_eq!(H200.check(&code(other)), Err(CUresult::NO_BINARY_FOR_GPU));
        }
    }

    #[test]
    fn the_parameter_block_ends_with_its_last_parameter() {
        let params = Some(vec![Param { offset: 0, size: 4 }, Param { offset: 8, size: 8 }]);
        assert_eq!(KernelInfo { params, ..KernelInfo::default() }.params_bytes(), 16);
        assert_eq!(KernelInfo::default().params_bytes(), 0);
    }
}
