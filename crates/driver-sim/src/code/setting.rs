//! A function's attributes: what its code needs, and what was set.
//!
//! Source: CUDA Driver API 13.x, `CUfunction_attribute`.

use std::collections::BTreeMap;

use cuhold_driver_sys::ffi::{CUfunction_attribute as Attribute, CUresult};

use super::image::{Image, KernelInfo};

/// The limits of a multiprocessor and a block: those of the measured device, as the simulated devices have them.
pub(super) mod limit {
    /// Threads of a block.
    pub(crate) const BLOCK_THREADS: u32 = 1024;
    /// Threads of a block in each direction.
    pub(crate) const BLOCK: [u32; 3] = [1024, 1024, 64];
    /// Blocks of a grid in each direction.
    pub(crate) const GRID: [u32; 3] = [i32::MAX.cast_unsigned(), 65_535, 65_535];
    /// Threads that a multiprocessor holds at once.
    pub(crate) const THREADS: u32 = 2048;
    /// Blocks that a multiprocessor holds at once.
    pub(crate) const BLOCKS: u32 = 32;
    /// Threads of a warp.
    pub(crate) const WARP: u32 = 32;
    /// Registers of a multiprocessor.
    pub(crate) const REGISTERS: u32 = 65_536;
    /// Registers are given to a warp in multiples of this.
    pub(crate) const REGISTERS_UNIT: u32 = 256;
    /// Shared memory of a multiprocessor, in bytes.
    pub(crate) const SHARED: u32 = 233_472;
    /// Shared memory that the driver takes for each block, in bytes.
    pub(crate) const SHARED_RESERVED: u32 = 1024;
    /// Shared memory of a block that didn't ask for more, in bytes.
    pub(crate) const BLOCK_SHARED: u32 = 49_152;
    /// Shared memory of a block that asked for all, in bytes.
    pub(crate) const BLOCK_SHARED_MAX: u32 = 232_448;
    /// Blocks of a cluster, for code that is to run on every device; and where it needn't.
    pub(crate) const CLUSTER: [u32; 2] = [8, 16];
}

/// What was set, by attribute.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings(BTreeMap<u32, i32>);

impl Settings {
    /// Sets an attribute.
    ///
    /// # Errors
    /// `INVALID_VALUE` for one that can't be set, and for a value outside its range; `NOT_PERMITTED` for cluster
    /// dimensions that the code itself requires.
    pub(super) fn set(
        &mut self,
        kernel: &KernelInfo,
        attribute: Attribute,
        value: i32,
    ) -> Result<(), CUresult> {
        let shared_max = limit::BLOCK_SHARED_MAX.saturating_sub(kernel.static_shared_bytes);
        let fits = match attribute {
            Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                u32::try_from(value).is_ok_and(|value| value <= shared_max)
            }
            Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => {
                (-1..=100).contains(&value)
            }
            Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH
            | Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT
            | Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH => {
                if kernel.cluster.is_some() {
                    return Err(CUresult::NOT_PERMITTED);
                }
                value >= 0
            }
            Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED => {
                (0..=1).contains(&value)
            }
            Attribute::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE => {
                (0..=2).contains(&value)
            }
            _ => false,
        };
        if !fits {
            return Err(CUresult::INVALID_VALUE);
        }
        self.0.insert(attribute.0, value);
        Ok(())
    }

    fn get(&self, attribute: Attribute) -> Option<i32> {
        self.0.get(&attribute.0).copied()
    }
}

/// A kernel's attributes on a device: its code, what was set for it, and where its own setting lacks, its kernel's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes<'a> {
    pub(super) image: &'a Image,
    pub(super) kernel: &'a KernelInfo,
    pub(super) own: Option<&'a Settings>,
    pub(super) kernels: Option<&'a Settings>,
    /// The device's compute capability, as `10 * major + minor`.
    pub(super) architecture: u32,
}

impl Attributes<'_> {
    /// An attribute's value.
    ///
    /// # Errors
    /// `INVALID_VALUE` for an unknown attribute.
    pub(super) fn get(&self, attribute: Attribute) -> Result<i32, CUresult> {
        let set = self.own.and_then(|own| own.get(attribute));
        if let Some(set) = set.or_else(|| self.kernels.and_then(|kernels| kernels.get(attribute))) {
            return Ok(set);
        }
        let kernel = self.kernel;
        let (width, height, depth) = kernel.cluster.unwrap_or((0, 0, 0));
        let value = match attribute {
            Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK => self.block_threads_max(),
            Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES => kernel.static_shared_bytes,
            Attribute::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES => kernel.constant_bytes,
            Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES => kernel.local_bytes,
            Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS => kernel.registers,
            Attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION => self.image.architecture,
            Attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION => self.architecture,
            Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                limit::BLOCK_SHARED.saturating_sub(kernel.static_shared_bytes)
            }
            Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => return Ok(-1),
            Attribute::CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET
            | Attribute::CU_FUNC_ATTRIBUTE_CACHE_MODE_CA
            | Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            | Attribute::CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE => 0,
            Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH => width,
            Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT => height,
            Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH => depth,
            _ => return Err(CUresult::INVALID_VALUE),
        };
        Ok(i32::try_from(value).unwrap_or(i32::MAX))
    }

    /// The most threads that a block of it may have, as far as its limit and its registers go.
    pub(super) fn block_threads_max(&self) -> u32 {
        let by_registers =
            limit::REGISTERS / self.kernel.registers.max(1) / limit::WARP * limit::WARP;
        let own = self.kernel.block_threads_max.unwrap_or(limit::BLOCK_THREADS);
        own.min(by_registers).min(limit::BLOCK_THREADS)
    }

    /// The most dynamic shared memory that a block may have, in bytes.
    pub(super) fn dynamic_shared_max(&self) -> u32 {
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        self.get(attribute).ok().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0)
    }

    /// How many blocks of this size a multiprocessor holds at once.
    pub(super) fn active_blocks(&self, block_threads: u32, dynamic_shared: u64) -> u32 {
        if block_threads == 0
            || block_threads > self.block_threads_max()
            || dynamic_shared > u64::from(self.dynamic_shared_max())
        {
            return 0;
        }
        let warps = block_threads.div_ceil(limit::WARP);
        let by_threads = limit::THREADS / limit::WARP / warps;
        let warp_registers =
            (self.kernel.registers.max(1) * limit::WARP).next_multiple_of(limit::REGISTERS_UNIT);
        let by_registers = limit::REGISTERS / warp_registers / warps;
        let shared = u64::from(self.kernel.static_shared_bytes + limit::SHARED_RESERVED);
        let by_shared = u64::from(limit::SHARED) / (shared + dynamic_shared);
        let by_shared = u32::try_from(by_shared).unwrap_or(u32::MAX);
        limit::BLOCKS.min(by_threads).min(by_registers).min(by_shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(registers: u32, static_shared_bytes: u32) -> KernelInfo {
        KernelInfo { registers, static_shared_bytes, ..KernelInfo::default() }
    }

    fn blocks(kernel: &KernelInfo, threads: u32, shared: u64) -> u32 {
        let image = Image::default();
        let attributes =
            Attributes { image: &image, kernel, own: None, kernels: None, architecture: 90 };
        attributes.active_blocks(threads, shared)
    }

    #[test]
    fn each_resource_can_be_the_one_that_limits_the_blocks() {
        assert_eq!(blocks(&kernel(16, 0), 256, 0), 8, "threads");
        assert_eq!(blocks(&kernel(16, 0), 32, 0), 32, "blocks");
        assert_eq!(blocks(&kernel(64, 0), 256, 0), 4, "registers");
        assert_eq!(blocks(&kernel(16, 40_000), 64, 0), 5, "static shared memory");
        assert_eq!(blocks(&kernel(16, 0), 64, 40_000), 5, "dynamic shared memory");
    }

    #[test]
    fn a_block_that_can_not_run_has_no_occupancy() {
        assert_eq!(blocks(&kernel(16, 0), 0, 0), 0);
        assert_eq!(blocks(&kernel(16, 0), 1025, 0), 0);
        assert_eq!(blocks(&kernel(255, 0), 512, 0), 0);
        assert_eq!(blocks(&kernel(16, 0), 32, 49_153), 0);
    }

    #[test]
    fn a_function_s_own_setting_counts_before_its_kernel_s() {
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let (image, kernel) = (Image::default(), kernel(16, 1000));
        let (mut own, mut kernels) = (Settings::default(), Settings::default());
        let get = |own: &Settings, kernels: &Settings| {
            let (own, kernels) = (Some(own), Some(kernels));
            let kernel = &kernel;
            Attributes { image: &image, kernel, own, kernels, architecture: 90 }.get(attribute)
        };
        assert_eq!(get(&own, &kernels), Ok(49_152 - 1000));
        kernels.set(&kernel, attribute, 100_000).unwrap();
        assert_eq!(get(&own, &kernels), Ok(100_000));
        own.set(&kernel, attribute, 5).unwrap();
        assert_eq!(get(&own, &kernels), Ok(5));
        let too_much = own.set(&kernel, attribute, 232_448);
        assert_eq!(too_much, Err(CUresult::INVALID_VALUE));
    }

    #[test]
    fn what_the_code_says_can_not_be_set() {
        let mut settings = Settings::default();
        let width = Attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
        settings.set(&kernel(16, 0), width, 2).unwrap();
        let fixed = KernelInfo { cluster: Some((2, 1, 1)), ..kernel(16, 0) };
        assert_eq!(settings.set(&fixed, width, 2), Err(CUresult::NOT_PERMITTED));
        let registers = Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
        assert_eq!(settings.set(&fixed, registers, 2), Err(CUresult::INVALID_VALUE));
    }
}
