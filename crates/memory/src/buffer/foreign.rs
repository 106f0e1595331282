//! Buffers of memory that somebody else allocated: kept alive by an owner, or given back to a resource.

#![expect(unsafe_code, reason = "takes raw addresses, and asks the driver about them")]

use super::{Buffer, check_aligned, home::check_reached};
use crate::{
    allocation::{Allocation, Facts, Origin},
    layout,
    order::check_home,
    resource::Residence,
    source::{Block, MemoryResource},
};
use bytemuck::Pod;
use cuhold_handles::{
    Driver, Error, ObjectKind, Owner, Result, Stream,
    driver_sys::{
        ffi::{
            CU_DEVICE_INVALID, CUdevice, CUdeviceptr, CUmemorytype, CUpointer_attribute, c_int,
            c_uint, c_void,
        },
        mutant,
    },
};
use std::sync::Arc;

/// What stands for somebody else's memory as a resource: letting go of it is all that happens to it.
struct Lent {
    residence: Residence,
    /// Dropped with this, in the boundary for foreign code.
    _owner: Option<Owner>,
}

// SAFETY: *memory*: it gives out none. *Given back*: it frees nothing itself, and is itself let go of after the work.
unsafe impl MemoryResource for Lent {
    /// Calls nothing.
    fn allocate(&self, _: usize, _: &Stream) -> Result<Block> {
        Err(Error::state("the memory is somebody else's, and there is no more of it"))
    }

    /// Calls nothing.
    unsafe fn deallocate(&self, _: Block, _: &Stream) -> Result<()> {
        Ok(())
    }

    fn memory_kind(&self) -> ObjectKind {
        ObjectKind::BorrowedMemory
    }

    fn residence(&self) -> Residence {
        self.residence
    }
}

impl<T: Pod> Buffer<T> {
    /// Refers to memory of any kind that somebody else ends; `owner` is kept alive until the buffer is gone and the work on
    /// its home stream is done: how the owner frees the memory isn't known. Without an owner nothing is waited for.
    ///
    /// The driver is asked whether it knows the memory, and where it lies.
    ///
    /// Calls `cuPointerGetAttributes`; for a stream of another device than the memory's `cuPointerGetAttribute` and `cuMemPoolGetAccess`; for no
    /// elements nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): a null pointer to some bytes, one that isn't aligned
    /// for `T`, one that the driver doesn't know or that has fewer bytes behind it, too many elements, a stream of a device
    /// that doesn't reach the memory, or borrowed without an owner; the call's failure.
    ///
    /// # Safety
    /// - `ptr` leads to at least `len` elements of memory that live as long as this buffer and the work on it, or `owner`
    ///   keeps them alive;
    /// - work queued on the stream from now on may use it, and nobody else uses it in conflict.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, Origin, handles::{Device, DeviceMemory, Driver}};
    /// # use std::sync::Arc;
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let memory = DeviceMemory::new(device.context(), 64)?;
    /// let (ptr, owner) = (memory.as_raw(), Arc::new(memory));
    /// // SAFETY: the owner keeps the memory alive, and nothing else uses it.
    /// let mut buffer = unsafe { Buffer::<u32>::borrow_raw(&stream, ptr, 16, Some(owner))? };
    /// buffer.fill(7)?;
    /// assert_eq!((buffer.to_vec()?[3], buffer.origin()), (7, Origin::Borrowed));
    /// // SAFETY: refused, since nothing is there.
    /// assert!(unsafe { Buffer::<u32>::borrow_raw(&stream, 64, 16, None) }.is_err());
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuPointerGetAttributes")]
    pub unsafe fn borrow_raw(
        stream: &Stream,
        ptr: u64,
        len: usize,
        owner: Option<Owner>,
    ) -> Result<Self> {
        let bytes = layout::bytes_of::<T>(len)?;
        check_home(stream)?;
        check_aligned::<T>(ptr, bytes)?;
        let known = known(stream, ptr, bytes)?;
        let waits = owner.is_some() && bytes > 0 && !mutant::is_out("owner-wait");
        let facts = Facts::new(known.residence, known.device, Origin::Borrowed, waits);
        check_reached(facts, ptr, stream)?;
        let lent = Arc::new(Lent { residence: known.residence, _owner: owner });
        let block = Block { ptr, bytes, tag: 0 };
        Ok(Self::of(Allocation::of(block, lent, facts), len, stream.clone()))
    }

    /// Takes over a block that a resource gave out, and gives it back to that one.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): a null block for some bytes, one that isn't aligned for
    /// `T` or is smaller than the elements, or a stream borrowed without an owner. The block is then still the caller's.
    ///
    /// # Safety
    /// - `block` came from `allocate` of this resource, and nobody else gives it back;
    /// - work queued on the stream from now on may use it.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, MemoryResource, Pool, PoolOptions, handles::{Device, Driver}};
    /// # use std::sync::Arc;
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let pool: Arc<dyn MemoryResource> = Arc::new(Pool::new(&device, PoolOptions::default())?);
    /// let block = pool.allocate(64, &stream)?;
    /// // SAFETY: a block of this pool, which the buffer gives back.
    /// let buffer = unsafe { Buffer::<u32>::from_block(&pool, &stream, block, 16)? };
    /// buffer.close()?;
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub unsafe fn from_block(
        resource: &Arc<dyn MemoryResource>,
        stream: &Stream,
        block: Block,
        len: usize,
    ) -> Result<Self> {
        let bytes = layout::bytes_of::<T>(len)?;
        check_home(stream)?;
        check_aligned::<T>(block.ptr, bytes)?;
        if bytes > block.bytes {
            return Err(Error::argument(format!(
                "len: {len} elements are {bytes} bytes, the block has {}",
                block.bytes
            )));
        }
        let device = stream.context().device();
        let facts = Facts::new(resource.residence(), device, Origin::Resource, false);
        let memory = Allocation::of(block, Arc::clone(resource), facts);
        Ok(Self::of(memory, len, stream.clone()))
    }
}

/// What the driver says of memory.
struct Known {
    residence: Residence,
    device: CUdevice,
}

/// Refuses memory that the driver doesn't know.
fn known(stream: &Stream, ptr: u64, bytes: usize) -> Result<Known> {
    let driver = stream.driver();
    if bytes == 0 {
        return Ok(Known { residence: Residence::Device, device: stream.context().device() });
    }
    let first = ask(driver, ptr)?;
    let Some(residence) = first.residence() else {
        return Err(Error::argument(format!(
            "ptr: {ptr:#x} is no memory that the driver knows; that of the host has to be registered first"
        )));
    };
    let last = ptr.saturating_add(bytes as u64).saturating_sub(1);
    // Mappings side by side are several to the driver, so the last byte is asked about by itself.
    let within = last.checked_sub(first.start).is_some_and(|offset| offset < first.bytes as u64);
    if !within && ask(driver, last)?.residence().is_none() {
        return Err(Error::argument(format!(
            "len: {bytes} bytes from {ptr:#x} on are more than the {} bytes of memory at {:#x}",
            first.bytes, first.start
        )));
    }
    Ok(Known { residence, device: first.device })
}

/// A pointer's attributes; of an unknown one all are null.
#[derive(Debug)]
struct Attributes {
    kind: c_uint,
    managed: bool,
    device: c_int,
    start: CUdeviceptr,
    bytes: usize,
}

impl Attributes {
    fn residence(&self) -> Option<Residence> {
        match CUmemorytype(self.kind) {
            _ if self.managed => Some(Residence::Managed),
            CUmemorytype::CU_MEMORYTYPE_HOST => Some(Residence::Host),
            CUmemorytype(0) => None,
            _ => Some(Residence::Device),
        }
    }
}

fn ask(driver: &Driver, ptr: CUdeviceptr) -> Result<Attributes> {
    // A flag has the room of any integer: how many bytes the driver writes isn't said.
    let (mut kind, mut managed, mut device) = (0, 0_u64, CU_DEVICE_INVALID);
    let (mut start, mut bytes): (CUdeviceptr, usize) = (0, 0);
    let mut which = [
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    ];
    let mut places: [*mut c_void; 5] = [
        (&raw mut kind).cast(),
        (&raw mut managed).cast(),
        (&raw mut device).cast(),
        (&raw mut start).cast(),
        (&raw mut bytes).cast(),
    ];
    let calls = driver.callable()?;
    // SAFETY: *pointers*: two arrays of five, each place a live local with room for its attribute.
    unsafe { calls.cuPointerGetAttributes(5, which.as_mut_ptr(), places.as_mut_ptr(), ptr) }
        .map_err(|failure| driver.error(failure))?;
    // Only the first byte counts as written.
    let managed = managed.to_ne_bytes().first().is_some_and(|byte| *byte != 0);
    Ok(Attributes { kind, managed, device, start, bytes })
}
