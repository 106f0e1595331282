//! The arguments of a C call as the topic files see them: pointers as [`Out`] and [`In`], everything else as it is.
//!
//! Neither is `Send`, and the world's state is: so a pointer of a caller can't be kept beyond its call by mistake.

#![expect(unsafe_code, reason = "the one place that follows pointers of the caller")]

use std::ffi::CStr;

use cuhold_driver_sys::ffi::*;

/// A `*mut T` argument: where an answer goes, now and then also where a value comes from.
///
/// Invariant: null, or valid for reading and writing a `T` while the call lasts (the caller's promise *pointers*).
pub(crate) struct Out<T>(*mut T);

/// A `*const T` argument.
///
/// Invariant: null, or valid for reading a `T` while the call lasts; a NUL-terminated string if `T` is `c_char`.
pub(crate) struct In<T>(*const T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}
impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for In<T> {}

impl<T> Out<T> {
    /// No pointer.
    pub(crate) const fn null() -> Self {
        Self(std::ptr::null_mut())
    }

    /// The pointer itself, for arguments that are words to the driver (a user-data pointer).
    pub(crate) fn as_ptr(self) -> *mut T {
        self.0
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Refuses null, as CUDA does for an out-parameter that it must write.
    pub(crate) fn required(self) -> Result<Self, CUresult> {
        if self.0.is_null() { Err(CUresult::INVALID_VALUE) } else { Ok(self) }
    }

    /// Writes, unless the pointer is null.
    pub(crate) fn write(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null (checked above), so valid for writing by the invariant.
            unsafe { self.0.write(value) };
        }
    }

    /// The place of an element of an array.
    ///
    /// # Safety
    /// The pointer isn't null, and the caller's array has this element.
    pub(crate) unsafe fn nth(self, index: usize) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { self.0.add(index) })
    }

    /// Writes `values` to consecutive places.
    ///
    /// # Safety
    /// The pointer is null, or valid for writing as many values as are given.
    pub(crate) unsafe fn write_all(self, values: &[T])
    where
        T: Copy,
    {
        if !self.0.is_null() {
            // SAFETY: the caller's promise; the two don't overlap, since `values` is this crate's own memory.
            unsafe { self.0.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        }
    }
}

impl Out<c_char> {
    /// Writes a text and a NUL, cut to `room` bytes; nothing if there is no room.
    ///
    /// # Safety
    /// The pointer is null, or valid for writing `room` bytes.
    pub(crate) unsafe fn write_text(self, text: &str, room: usize) {
        let Some(len) = room.checked_sub(1).map(|most| most.min(text.len())) else { return };
        let bytes: Vec<c_char> = text
            .bytes()
            .take(len)
            .chain(std::iter::once(0))
            .map(|byte| c_char::from_ne_bytes([byte]))
            .collect();
        // SAFETY: at most `room` bytes, which the caller promises room for.
        unsafe { self.write_all(&bytes) };
    }
}

impl<T: Copy> Out<T> {
    /// The same pointer, for an array that C declares as `*mut` and that is only read.
    pub(crate) fn as_in(self) -> In<T> {
        In(self.0)
    }

    /// What stands there; `None` if the pointer is null.
    pub(crate) fn read(self) -> Option<T> {
        // SAFETY: not null (checked), so valid for reading by the invariant.
        (!self.0.is_null()).then(|| unsafe { self.0.read() })
    }
}

impl<T> In<T> {
    /// No pointer.
    pub(crate) const fn null() -> Self {
        Self(std::ptr::null())
    }

    /// The pointer itself, for arguments that are addresses to the driver (host memory of a copy).
    pub(crate) fn as_ptr(self) -> *const T {
        self.0
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl<T: Copy> In<T> {
    /// What stands there; `None` if the pointer is null.
    pub(crate) fn read(self) -> Option<T> {
        // SAFETY: not null (checked), so valid for reading by the invariant.
        (!self.0.is_null()).then(|| unsafe { self.0.read() })
    }

    /// `len` values from consecutive places; `None` if the pointer is null and `len` isn't 0.
    ///
    /// # Safety
    /// The pointer is null, or valid for reading `len` values.
    pub(crate) unsafe fn read_all(self, len: usize) -> Option<Vec<T>> {
        if len == 0 {
            return Some(Vec::new());
        }
        if self.0.is_null() {
            return None;
        }
        // SAFETY: not null (checked); valid for `len` values by the caller's promise; only read while borrowed.
        Some(unsafe { std::slice::from_raw_parts(self.0, len) }.to_vec())
    }
}

impl In<c_char> {
    /// The string's bytes, without the NUL; `None` if the pointer is null.
    pub(crate) fn text(self) -> Option<Vec<u8>> {
        // SAFETY: not null (checked), so a NUL-terminated string by the invariant; copied before the call ends.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) }.to_bytes().to_vec())
    }
}

/// How an argument of the C call is handed to a topic function.
pub(crate) trait Argument: Sized {
    /// What the topic function gets.
    type Given;

    /// Hands it over.
    ///
    /// # Safety
    /// A pointer fulfils the invariant of what it becomes.
    unsafe fn give(self) -> Self::Given;
}

impl<T> Argument for *mut T {
    type Given = Out<T>;

    unsafe fn give(self) -> Out<T> {
        Out(self)
    }
}

impl<T> Argument for *const T {
    type Given = In<T>;

    unsafe fn give(self) -> In<T> {
        In(self)
    }
}

macro_rules! as_they_are {
    ($($type:ty)*) => { $(
        impl Argument for $type {
            type Given = Self;

            unsafe fn give(self) -> Self {
                self
            }
        }
    )* };
}

as_they_are! {
    c_int c_uint c_ulonglong usize u8 u16
    CUresult CUcontext CUstream CUevent CUgraph CUgraphNode CUuserObject CUmodule CUfunction CUlibrary CUkernel CUmemoryPool
    CUdevice_attribute CUdevice_P2PAttribute CUexecAffinityType CUlimit CUfunc_cache CUstreamCaptureMode
    CUfunction_attribute CUpointer_attribute CUmemPool_attribute CUgraphMem_attribute CUmemAllocationType CUmemAllocationHandleType
    CUhostFn CUlogsCallback CUlogsCallbackHandle CUmem_advise CUmem_range_attribute CUstreamCallback CUoccupancyB2DSize CUstreamAttrID
    CUipcEventHandle CUipcMemHandle CUmemLocation CUmemAllocationGranularity_flags
    CUgreenCtx CUdevResourceDesc CUdevResourceType CUgraphExec CUlinkState CUjitInputType
    CUarray CUmipmappedArray CUexternalMemory CUexternalSemaphore CUgraphicsResource CUarray_format
}
