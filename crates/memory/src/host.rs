//! Host memory: page-locked buffers, and what may stand as the host side of a copy that owns it.
//!
//! Source: CUDA Driver API 13.x, "Memory Management", `cuMemHostAlloc`.

#![expect(unsafe_code, reason = "hands out slices of memory that the driver allocated")]

use crate::layout;
use bytemuck::Pod;
use cuhold_handles::{
    AsStream, Closed, Context, Driver, Error, ObjectKind, Refused, Result, Users,
    driver_sys::{
        Call, Calls, Failure,
        ffi::{CU_MEMHOSTALLOC_PORTABLE, CUcontext, c_void},
    },
    resource::{Owned, Raw, Resource},
    scope::{self, Undo},
};
use std::{
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    ptr::{self, NonNull},
    slice,
    sync::Arc,
};

/// The address of page-locked memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct HostPtr(*mut u8);

// SAFETY: an address; who may follow it is decided by its owners.
unsafe impl Send for HostPtr {}
// SAFETY: as above.
unsafe impl Sync for HostPtr {}

impl HostPtr {
    pub(crate) fn as_ptr(self) -> *mut u8 {
        self.0
    }
}

impl Raw for HostPtr {
    fn addr(self) -> u64 {
        self.0.addr() as u64
    }
}

/// The resource behind [`HostBuffer`].
#[derive(Debug)]
pub(crate) struct HostRes;

/// What page-locked memory refers to.
#[derive(Debug)]
pub(crate) struct HostDeps {
    context: Context,
    users: Users,
}

// SAFETY: *ends*: `cuMemFreeHost`. *Dependencies*: page-locked memory ends with its context.
unsafe impl Resource for HostRes {
    type Raw = HostPtr;
    type Deps = HostDeps;
    const KIND: ObjectKind = ObjectKind::HostMemory;
    const DESTROY: Option<Call> = Some(Call::cuMemFreeHost);

    fn driver(deps: &HostDeps) -> &Driver {
        deps.context.driver()
    }
    fn context(deps: &HostDeps) -> CUcontext {
        deps.context.as_raw()
    }
    fn users(deps: &HostDeps) -> Option<&Users> {
        Some(&deps.users)
    }
    unsafe fn destroy(calls: Calls<'_>, raw: HostPtr, _: &HostDeps) -> Result<(), Failure> {
        // SAFETY: the caller's promise.
        unsafe { free(calls, raw) }
    }
}

/// Gives page-locked memory back.
///
/// # Safety
/// The memory came from [`allocate`], is freed once, and nobody uses it any more but work of its own context, for which
/// the call waits.
pub(crate) unsafe fn free(calls: Calls<'_>, memory: HostPtr) -> Result<(), Failure> {
    // SAFETY: *pointers*: live, by the caller's promise.
    unsafe { calls.cuMemFreeHost(memory.as_ptr().cast()) }
}

/// Allocates page-locked memory, which copies of all contexts take as such. Its content is undefined.
///
/// Calls `cuMemHostAlloc` in the context.
pub(crate) fn allocate(context: &Context, bytes: usize) -> Result<HostPtr> {
    let undo = Undo {
        columns: Call::cuMemFreeHost.columns(),
        // SAFETY: allocated below, and given to nobody.
        destroy: |calls: Calls<'_>, memory| unsafe { free(calls, memory) },
        raw: HostPtr::addr,
    };
    let memory = scope::create(
        context.target(),
        |calls| {
            let mut memory: *mut c_void = ptr::null_mut();
            // SAFETY: *pointers*: a live local.
            unsafe { calls.cuMemHostAlloc(&raw mut memory, bytes, CU_MEMHOSTALLOC_PORTABLE) }?;
            Ok(HostPtr(memory.cast()))
        },
        undo,
    )?;
    if memory.is_null() { Err(Error::state("the driver gave no address")) } else { Ok(memory) }
}

/// Page-locked memory of the host that holds elements: a slice that the device copies from and to at full speed.
///
/// Unique. While a copy is under way it is inside the copy's [`Pending`](crate::Pending), so nobody else can touch it.
///
/// Its drop calls `cuMemFreeHost` on the reclaimer, since that waits for all work of the context; for users in other
/// contexts ([`used_on`](Self::used_on)) before that `cuStreamIsCapturing`, `cuEventCreate`, `cuEventRecord`,
/// `cuEventSynchronize` and `cuEventDestroy`.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver};
/// # use cuhold_memory::{Buffer, HostBuffer};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let stream = device.new_stream()?;
/// let mut host = HostBuffer::<u32>::zeroed(device.context(), 4)?;
/// host.copy_from_slice(&[1, 2, 3, 4]);
/// let mut buffer = Buffer::<u32>::uninit(&stream, 4)?;
/// let sent = buffer.write_from(host)?;
/// let received = buffer.read_to(vec![0; 4])?;
/// assert_eq!(sent.wait()?[3], 4);
/// assert_eq!(received.wait()?, [1, 2, 3, 4]);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct HostBuffer<T: Pod = u8> {
    /// Invariant: holds `len` initialized elements; `None` where those have no bytes.
    memory: Option<Owned<HostRes>>,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Pod> HostBuffer<T> {
    /// Allocates `len` elements whose bytes are zero. No elements need no memory, and no call.
    ///
    /// Calls `cuMemHostAlloc`, in relaxed capture mode; `cuMemFreeHost` where it is undone.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for too many elements; the call's failure, or that of
    /// making the context current and the caller's again.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, HostBuffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let mut host = HostBuffer::<f32>::zeroed(device.context(), 3)?;
    /// host[1] = 0.5;
    /// assert_eq!(*host, [0.0, 0.5, 0.0]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemHostAlloc")]
    pub fn zeroed(context: &Context, len: usize) -> Result<Self> {
        let bytes = layout::bytes_of::<T>(len)?;
        let memory = if bytes == 0 { None } else { Some(zeroed_memory(context, bytes)?) };
        Ok(Self { memory, len, elements: PhantomData })
    }

    /// Allocates a copy of these elements.
    ///
    /// Calls `cuMemHostAlloc`, in relaxed capture mode; `cuMemFreeHost` where it is undone.
    ///
    /// # Errors
    /// As [`zeroed`](Self::zeroed).
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, HostBuffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let host = HostBuffer::from_slice(device.context(), &[3, 1, 4])?;
    /// assert_eq!(host.iter().sum::<i32>(), 8);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn from_slice(context: &Context, src: &[T]) -> Result<Self> {
        let mut host = Self::zeroed(context, src.len())?;
        host.copy_from_slice(src);
        Ok(host)
    }

    fn elements(&self) -> NonNull<T> {
        let memory = self.memory.as_ref().and_then(|memory| NonNull::new(memory.raw().as_ptr()));
        memory.map_or(NonNull::dangling(), NonNull::cast)
    }

    /// Tells that work which was queued on this stream uses the memory: work that this library doesn't see, such as a kernel
    /// that was given its address. Its end waits for that work then. Copies of this crate own the memory while they are
    /// under way, and streams of its own context are waited for anyway. To be called after the work was queued.
    ///
    /// Calls nothing for a stream that this library can ask later; for a per-thread default stream of another context,
    /// or one that is borrowed without an owner, `cuEventCreate` and `cuEventRecord`; `cuEventDestroy` where that failed.
    ///
    /// # Errors
    /// A stream of another driver; the calls' failures, after which the memory is leaked rather than freed.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{HostBuffer, handles::{Context, ContextFlags, Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let other = Context::new(&device, ContextFlags::default())?.new_stream()?;
    /// let host = HostBuffer::<f32>::zeroed(device.context(), 3)?;
    /// // A kernel on `other` is launched here, and given the address.
    /// host.used_on(&other)?;
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn used_on(&self, stream: &impl AsStream) -> Result<()> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let (stream, deps) = (stream.as_stream(), memory.deps());
        deps.context.driver().check_same(stream.driver(), "stream")?;
        deps.users.used_on(stream, Some(&deps.context))
    }

    /// Frees the memory here and now. Waits for all work of its context, and for users in other contexts.
    ///
    /// Calls `cuMemFreeHost`, in relaxed capture mode; for users in other contexts before that `cuStreamIsCapturing`,
    /// `cuEventCreate`, `cuEventRecord`, `cuEventSynchronize` and `cuEventDestroy`.
    ///
    /// # Errors
    /// [`Refused`] with the call's failure; with the memory where the driver wasn't asked.
    #[doc(alias = "cuMemFreeHost")]
    pub fn close(mut self) -> Result<Closed, Refused<Option<Self>>> {
        let len = self.len;
        let Some(memory) = self.memory.take() else { return Ok(Closed::Destroyed) };
        memory.close().map_err(|Refused { error, value, .. }| {
            let back = |memory| Self { memory: Some(memory), len, elements: PhantomData };
            Refused::new(error, value.map(back))
        })
    }
}

fn zeroed_memory(context: &Context, bytes: usize) -> Result<Owned<HostRes>> {
    let driver = context.driver();
    driver.check_callable()?;
    let memory = scope::neutral(
        driver,
        || allocate(context, bytes),
        |memory, error| {
            let columns = Call::cuMemFreeHost.columns();
            // SAFETY: allocated a moment ago, and given to nobody.
            let free = |calls: Calls<'_>| unsafe { free(calls, memory) };
            scope::cleanup(driver, None, columns, free).note_undo(error, memory.addr())
        },
    )?;
    // SAFETY: as many bytes were allocated, which nobody else knows.
    unsafe { memory.as_ptr().write_bytes(0, bytes) };
    Ok(Owned::own(memory, HostDeps { context: context.clone(), users: Users::default() }))
}

impl<T: Pod> Deref for HostBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: by the invariant of `memory` there are as many elements, aligned since the driver aligns to pages; what
        // borrows the slice borrows this value, and no copy is under way while somebody holds it.
        unsafe { slice::from_raw_parts(self.elements().as_ptr(), self.len) }
    }
}

impl<T: Pod> DerefMut for HostBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and this value is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.elements().as_ptr(), self.len) }
    }
}

impl<T: Pod> AsRef<[T]> for HostBuffer<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: Pod> AsMut<[T]> for HostBuffer<T> {
    fn as_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T: Pod + fmt::Debug> fmt::Debug for HostBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Host memory that a copy may read while it owns it: [`HostBuffer`], [`Vec`], [`Arc`] of a slice.
///
/// # Safety
/// - *stable*: the elements stay where they are when the value is moved, and until it is dropped;
/// - *quiet*: nobody writes them while the value isn't borrowed.
pub unsafe trait HostSource<T: Pod>: Send + 'static {
    /// The elements.
    fn elements(&self) -> &[T];
}

/// Host memory that a copy may write while it owns it: [`HostBuffer`], [`Vec`].
///
/// # Safety
/// - *own*: nobody reads or writes the elements while the value isn't borrowed.
pub unsafe trait HostTarget<T: Pod>: HostSource<T> {
    /// The elements.
    fn elements_mut(&mut self) -> &mut [T];
}

// SAFETY: *stable*: the memory is the driver's. *Quiet*: the value is unique.
unsafe impl<T: Pod + Send> HostSource<T> for HostBuffer<T> {
    fn elements(&self) -> &[T] {
        self
    }
}

// SAFETY: *own*: the value is unique.
unsafe impl<T: Pod + Send> HostTarget<T> for HostBuffer<T> {
    fn elements_mut(&mut self) -> &mut [T] {
        self
    }
}

// SAFETY: *stable*: a vector's elements are on the heap. *Quiet*: the value is unique.
unsafe impl<T: Pod + Send> HostSource<T> for Vec<T> {
    fn elements(&self) -> &[T] {
        self
    }
}

// SAFETY: *own*: the value is unique.
unsafe impl<T: Pod + Send> HostTarget<T> for Vec<T> {
    fn elements_mut(&mut self) -> &mut [T] {
        self
    }
}

// SAFETY: *stable*: the elements are on the heap, and this reference keeps them. *Quiet*: plain data has no interior
// mutability, and while this reference exists nobody gets at the elements exclusively.
unsafe impl<T: Pod + Send + Sync> HostSource<T> for Arc<[T]> {
    fn elements(&self) -> &[T] {
        self
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<HostBuffer<f32>>();
    assert!(size_of::<HostBuffer<f32>>() == 16);
};
