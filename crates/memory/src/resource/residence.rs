//! Where memory lies, and so who reaches it.

use std::fmt;

/// Where memory lies, as its resource says.
///
/// # Examples
/// ```
/// # use cuhold_memory::{MemoryResource as _, Pool, PoolOptions, Residence, handles::{Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// let pool = Pool::new(&device, PoolOptions::default())?;
/// assert_eq!(pool.residence(), Residence::Device);
/// assert!(!pool.residence().is_host_accessible());
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Residence {
    /// On a device, that of the stream which the memory was allocated for unless its resource names one.
    Device,
    /// On the host, page-locked.
    Host,
    /// On this NUMA node of the host, page-locked.
    HostNuma(i32),
    /// Wherever it is used: the driver moves its pages between the host and the devices.
    Managed,
}

impl Residence {
    /// Whether it is the host's own.
    pub(crate) const fn is_host(self) -> bool {
        matches!(self, Self::Host | Self::HostNuma(_))
    }

    /// Whether kernels reach the memory.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn is_device_accessible(self) -> bool {
        match self {
            Self::Device | Self::Host | Self::HostNuma(_) | Self::Managed => true,
        }
    }

    /// Whether the host reaches the memory by its address.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn is_host_accessible(self) -> bool {
        match self {
            Self::Device => false,
            Self::Host | Self::HostNuma(_) | Self::Managed => true,
        }
    }

    /// Whether the driver moves the memory's pages.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn is_managed(self) -> bool {
        matches!(self, Self::Managed)
    }
}

impl fmt::Display for Residence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device => f.write_str("device"),
            Self::Host => f.write_str("host"),
            Self::HostNuma(node) => write!(f, "host, NUMA node {node}"),
            Self::Managed => f.write_str("managed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Residence;

    #[test]
    fn a_residence_says_who_reaches_the_memory() {
        let all = [Residence::Device, Residence::Host, Residence::HostNuma(1), Residence::Managed];
        let told = all.map(|place| {
            (place.is_device_accessible(), place.is_host_accessible(), place.is_managed())
        });
        assert_eq!(
            told,
            [(true, false, false), (true, true, false), (true, true, false), (true, true, true)]
        );
        assert_eq!(Residence::HostNuma(1).to_string(), "host, NUMA node 1");
    }
}
