//! Virtual memory between processes: each physical allocation goes by itself, and all are mapped side by side again.
//!
//! What is imported is as good as memory of this process: it is unmapped and released here, whatever the exporter does
//! (measured). Who may use it is decided by the importer for its own addresses: access isn't inherited.

use super::{VirtualBuffer, VirtualMemory, range::Range};
use crate::{buffer::Buffer, layout};
use bytemuck::Pod;
use cuhold_handles::{Error, FabricHandle, Mapping, PhysicalAllocation, Result, Stream};
#[cfg(unix)]
use {
    cuhold_handles::{FileDescriptor, Refused},
    std::os::fd::OwnedFd,
};

/// A part of a buffer, for another process: a file to send to it, and a size to send along.
#[cfg(unix)]
#[derive(Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "two plain values that the program sends and receives"
)]
pub struct ExportedPart {
    /// The file. The memory lives as long as it is open anywhere.
    pub file: OwnedFd,
    /// How much of the memory it is, in bytes.
    pub bytes: usize,
}

impl<T: Pod> VirtualBuffer<T> {
    /// What another process imports the buffer by: a file for each of its physical allocations, in the order of their
    /// addresses. They make up all that is [mapped](Self::mapped_bytes), which is the buffer's elements and what was
    /// rounded up.
    ///
    /// Calls `cuMemExportToShareableHandle`, once a part.
    ///
    /// # Errors
    /// The call's failure: `INVALID_VALUE` for memory that wasn't made
    /// [`shareable`](super::VirtualMemoryOptions::shareable).
    #[cfg(unix)]
    #[doc(alias = "cuMemExportToShareableHandle")]
    pub fn export(&self) -> Result<Vec<ExportedPart>> {
        let Some(range) = self.range() else { return Ok(Vec::new()) };
        let mut parts = Vec::with_capacity(range.parts().len());
        for part in range.parts() {
            match part.allocation().export() {
                Ok(file) => parts.push(ExportedPart { file, bytes: part.bytes() }),
                Err(error) => {
                    closed(self.driver(), parts);
                    return Err(error);
                }
            }
        }
        Ok(parts)
    }

    /// The buffer that another process exported as these files, which are closed; `len` is how many elements it has there,
    /// in all parts together.
    ///
    /// Who may use it, and what its addresses are like, is as `memory` says. It can be grown; what is new is this process's
    /// own.
    ///
    /// Calls `cuMemAddressReserve`, and for each part `cuMemImportFromShareableHandle`, `cuMemMap`, `cuMemSetAccess`; where
    /// they are undone `cuMemUnmap`, `cuMemRelease`, `cuMemAddressFree`. A file that can't be closed is reported.
    ///
    /// # Errors
    /// [`Refused`], with all files, open:
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): no parts, or of another size than whole granules, or
    ///   too small for `len` elements; a stream of another driver, of a device without access, or borrowed without an owner;
    /// - the calls' failures: `UNKNOWN` for a file that is something else (measured), `NOT_SUPPORTED` for another size than
    ///   the memory has. Nothing is left.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{VirtualBuffer, VirtualMemory, VirtualMemoryOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let memory = VirtualMemory::new(&device, VirtualMemoryOptions::default().shareable())?;
    /// let buffer = VirtualBuffer::from_slice(&memory, &stream, &[3, 1, 4])?;
    /// // To be sent over a Unix socket, and received in another process.
    /// let parts = buffer.export()?;
    /// let imported = VirtualBuffer::<i32>::import(&memory, &stream, parts, 3)?;
    /// assert_eq!(imported.to_vec()?, [3, 1, 4]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[cfg(unix)]
    #[doc(alias = "cuMemImportFromShareableHandle")]
    pub fn import(
        memory: &VirtualMemory,
        stream: &Stream,
        parts: Vec<ExportedPart>,
        len: usize,
    ) -> Result<Self, Refused<Vec<ExportedPart>>> {
        let sizes: Vec<usize> = parts.iter().map(|part| part.bytes).collect();
        let import = |place: usize, bytes: usize| match parts.get(place) {
            Some(part) => PhysicalAllocation::import(memory.device(), &part.file, bytes),
            None => Err(Error::state("there is no such part")),
        };
        match Self::imported(memory, stream, &sizes, len, import) {
            Ok(buffer) => {
                closed(memory.driver(), parts);
                Ok(buffer)
            }
            Err(error) => Err(Refused::new(error, parts)),
        }
    }

    /// What processes of the same fabric import the buffer by, also on other machines: a handle and a size in bytes for each
    /// of its physical allocations, in the order of their addresses.
    ///
    /// Calls `cuMemExportToShareableHandle`, once a part.
    ///
    /// # Errors
    /// The call's failure: `INVALID_VALUE` for memory that wasn't made for it
    /// ([`ShareableHandle::Fabric`](cuhold_handles::ShareableHandle::Fabric)).
    #[doc(alias = "cuMemExportToShareableHandle")]
    pub fn export_fabric(&self) -> Result<Vec<(FabricHandle, usize)>> {
        let range = self.range();
        let parts: &[Mapping] = range.as_ref().map_or(&[], Range::parts);
        let export = |part: &Mapping| Ok((part.allocation().export_fabric()?, part.bytes()));
        parts.iter().map(export).collect()
    }

    /// The buffer that another process of the fabric exported by these handles: as [`import`](Self::import).
    ///
    /// Calls `cuMemAddressReserve`, and for each part `cuMemImportFromShareableHandle`, `cuMemMap`, `cuMemSetAccess`; where
    /// they are undone `cuMemUnmap`, `cuMemRelease`, `cuMemAddressFree`.
    ///
    /// # Errors
    /// As `import`; `NOT_PERMITTED` where this process may not use the fabric.
    #[doc(alias = "cuMemImportFromShareableHandle")]
    pub fn import_fabric(
        memory: &VirtualMemory,
        stream: &Stream,
        parts: &[(FabricHandle, usize)],
        len: usize,
    ) -> Result<Self> {
        let sizes: Vec<usize> = parts.iter().map(|(_, bytes)| *bytes).collect();
        Self::imported(memory, stream, &sizes, len, |place, bytes| match parts.get(place) {
            Some((handle, _)) => PhysicalAllocation::import_fabric(memory.device(), *handle, bytes),
            None => Err(Error::state("there is no such part")),
        })
    }

    fn imported(
        memory: &VirtualMemory,
        stream: &Stream,
        sizes: &[usize],
        len: usize,
        import: impl Fn(usize, usize) -> Result<PhysicalAllocation>,
    ) -> Result<Self> {
        memory.spec.check_stream(stream)?;
        check_sizes(memory, sizes, layout::bytes_of::<T>(len)?)?;
        let range = Range::of_parts(&memory.spec, sizes, import)?;
        Self::over(&memory.spec, Some(range), |whole| Buffer::uninit_in(whole, stream, len))
    }
}

/// Refuses parts that can't be those of a buffer of that many bytes.
fn check_sizes(memory: &VirtualMemory, sizes: &[usize], bytes: usize) -> Result<()> {
    let granularity = memory.granularity_bytes();
    if bytes == 0 {
        return Err(Error::argument("len: no bytes, and nothing is imported for none"));
    }
    if let Some(odd) = sizes.iter().find(|size| **size == 0 || !size.is_multiple_of(granularity)) {
        return Err(Error::argument(format!(
            "parts: one has {odd} bytes, and each must have a multiple of {granularity} that isn't 0"
        )));
    }
    let total = sizes.iter().fold(0_usize, |sum, size| sum.saturating_add(*size));
    if total < bytes {
        return Err(Error::argument(format!(
            "parts: {total} bytes in all, and the elements need {bytes}"
        )));
    }
    Ok(())
}

/// Closes files that aren't needed any more; one that can't be closed is told.
#[cfg(unix)]
fn closed(driver: &cuhold_handles::Driver, parts: Vec<ExportedPart>) {
    for part in parts {
        drop(FileDescriptor::new(driver, part.file));
    }
}
