//! How a kernel is laid out on the device: grid, block, shared memory, and the attributes of a launch.

#![expect(unsafe_code, reason = "launch attributes are a C union, made from zeroes")]

use crate::error::{Error, Result};
use cuhold_driver_sys::ffi::*;

/// The most attributes that a [`LaunchConfig`] can make.
const ATTRIBUTES_MAX: usize = 4;

/// The shape of a launch.
///
/// # Examples
/// ```
/// use cuhold_handles::LaunchConfig;
///
/// let config = LaunchConfig::for_len(1_000_000).shared_bytes(1024);
/// assert_eq!(config.grid, [3907, 1, 1]);
/// assert_eq!(config.block, [256, 1, 1]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub struct LaunchConfig {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Blocks of a cluster in each dimension; each must divide the grid's. `None`: the kernel's own.
    pub cluster: Option<[u32; 3]>,
    /// Whether all blocks run at once and may wait for each other.
    pub cooperative: bool,
    /// The launch's priority; `None`: the stream's.
    pub priority: Option<i32>,
    /// Whether the kernel may begin before the one in front of it on the stream is done, and waits for it itself.
    pub programmatic_serialization: bool,
}

impl LaunchConfig {
    /// This grid of these blocks, without dynamic shared memory.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        Self {
            grid,
            block,
            shared_bytes: 0,
            cluster: None,
            cooperative: false,
            priority: None,
            programmatic_serialization: false,
        }
    }

    /// One thread an element, in one dimension, in blocks of 256; at least one block.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn for_len(len: u32) -> Self {
        let blocks = if len == 0 { 1 } else { len.div_ceil(256) };
        Self::new([blocks, 1, 1], [256, 1, 1])
    }

    /// With this much dynamic shared memory for a block, in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn shared_bytes(mut self, bytes: u32) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// In clusters of this many blocks in each dimension.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn cluster(mut self, blocks: [u32; 3]) -> Self {
        self.cluster = Some(blocks);
        self
    }

    /// With all blocks at once.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn cooperative(mut self) -> Self {
        self.cooperative = true;
        self
    }

    /// With this priority: lower numbers first.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// The kernel may begin before the one in front of it is done.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn programmatic_serialization(mut self) -> Self {
        self.programmatic_serialization = true;
        self
    }

    /// Refuses dimensions of zero; the upper bounds are the device's, which the driver knows.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        let cluster = self.cluster.unwrap_or([1; 3]);
        if [self.grid, self.block, cluster].as_flattened().contains(&0) {
            return Err(Error::argument(format!(
                "config: a dimension is zero in grid {:?}, block {:?}, cluster {cluster:?}",
                self.grid, self.block
            )));
        }
        Ok(())
    }

    /// Whether a launch of this shape needs attributes.
    #[inline]
    pub(crate) fn has_attributes(&self) -> bool {
        self.cluster.is_some()
            || self.cooperative
            || self.priority.is_some()
            || self.programmatic_serialization
    }

    /// Calls `launch` with the attributes in place; they live as long.
    #[cold]
    pub(crate) fn with_attributes<T>(
        &self,
        raw: &mut CUlaunchConfig,
        launch: impl FnOnce(&CUlaunchConfig) -> T,
    ) -> T {
        let (mut attributes, count) = self.attributes();
        (raw.attrs, raw.numAttrs) = (attributes.as_mut_ptr(), count);
        launch(raw)
    }

    /// The attributes as the driver takes them, and how many there are.
    pub(super) fn attributes(&self) -> ([CUlaunchAttribute; ATTRIBUTES_MAX], u32) {
        // SAFETY: a C struct of integers and a union of plain data: all zeroes is a value of it (the attribute "ignore").
        let mut attributes: [CUlaunchAttribute; ATTRIBUTES_MAX] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        let mut rest = attributes.iter_mut();
        let mut add = |id, fill: &dyn Fn(&mut CUlaunchAttributeValue)| {
            if let Some(attribute) = rest.next() {
                attribute.id = id;
                fill(&mut attribute.value);
                count += 1;
            }
        };
        if let Some([x, y, z]) = self.cluster {
            add(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &|value| {
                value.clusterDim = CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
            });
        }
        if self.cooperative {
            add(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &|value| {
                value.cooperative = 1;
            });
        }
        if let Some(priority) = self.priority {
            add(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PRIORITY, &|value| {
                value.priority = priority;
            });
        }
        if self.programmatic_serialization {
            add(
                CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                &|value| {
                    value.programmaticStreamSerializationAllowed = 1;
                },
            );
        }
        (attributes, count)
    }
}
