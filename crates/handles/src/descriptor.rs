//! File descriptors that the driver gave out or that are given to it: closed once, and a failing close is told.
//!
//! The standard library's `OwnedFd` stands in every signature; it drops the error of `close`, so inside it is this.

#![expect(unsafe_code, reason = "closes a file by its number")]

use crate::{
    driver::Driver,
    errno::Errno,
    error::{Error, Refused, Result},
    object::{Object, ObjectKind},
    report::{CudaWarning, Fate},
    resource::Closed,
};
use cuhold_driver_sys::{Life, ffi::c_void};
use std::{
    fmt,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd},
};

/// A file descriptor. Unique.
///
/// Its drop calls nothing of the driver: it closes the file. Where that fails, the driver's channel is told, once; the
/// descriptor is gone all the same, as the system has it.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Driver, FileDescriptor};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let (read, _write) = std::io::pipe()?;
/// let file = FileDescriptor::new(&driver, read.into());
/// file.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FileDescriptor {
    /// Invariant: an open file that only this value closes.
    file: RawFd,
    driver: Driver,
    id: u64,
}

impl FileDescriptor {
    /// Takes over an open file.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn new(driver: &Driver, file: OwnedFd) -> Self {
        Self { file: file.into_raw_fd(), driver: driver.clone(), id: driver.next_id() }
    }

    /// Takes over an open file by its number.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// A negative number is refused.
    ///
    /// # Safety
    /// `file` is open, and nobody else closes it.
    pub unsafe fn from_raw(driver: &Driver, file: RawFd) -> Result<Self> {
        if file < 0 {
            return Err(Error::argument(format!("file: {file}, and it must be at least 0")));
        }
        Ok(Self { file, driver: driver.clone(), id: driver.next_id() })
    }

    /// The file's number, which stays this value's.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_raw(&self) -> RawFd {
        self.file
    }

    /// The driver whose channel is told.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Gives the file away, open.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn into_owned(self) -> OwnedFd {
        // SAFETY: open and this value's alone, by the invariant, and given up here.
        unsafe { OwnedFd::from_raw_fd(self.into_raw()) }
    }

    /// Gives the file away by its number, open.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn into_raw(self) -> RawFd {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: read once: `this` is never dropped, and its driver goes here.
        drop(unsafe { std::ptr::read(&raw const this.driver) });
        this.file
    }

    /// Closes the file here and now.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`Refused`] with what the system answered, such as `EIO`. The descriptor is gone all the same.
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        match close(self.into_raw()) {
            Ok(()) => Ok(Closed::Destroyed),
            Err(errno) => Err(Refused::new(Error::system("close", errno), None)),
        }
    }

    fn object(&self) -> Object {
        let raw = u64::try_from(self.file).unwrap_or_default();
        Object { kind: ObjectKind::FileDescriptor, raw, id: self.id }
    }
}

/// The file's number where a driver call takes it as a pointer.
#[doc(hidden)]
#[must_use]
pub fn file_pointer(file: BorrowedFd<'_>) -> *mut c_void {
    std::ptr::without_provenance_mut(usize::try_from(file.as_raw_fd()).unwrap_or(usize::MAX))
}

/// Closes a file once. On Linux the number is free again whatever it answers, so it isn't tried twice.
fn close(file: RawFd) -> Result<(), Errno> {
    // SAFETY: the caller gives up an open file that it owns.
    match unsafe { libc::close(file) } {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}

/// What a warning says, without allocating.
const fn said_of(errno: Errno) -> &'static str {
    match errno.0 {
        libc::EBADF => "closing it failed: EBADF, it isn't open",
        libc::EIO => "closing it failed: EIO, what was written may be lost",
        libc::EINTR => "closing it failed: EINTR",
        libc::ENOSPC => "closing it failed: ENOSPC, what was written may be lost",
        libc::EDQUOT => "closing it failed: EDQUOT, what was written may be lost",
        _ => "closing it failed",
    }
}

impl Drop for FileDescriptor {
    fn drop(&mut self) {
        let Err(errno) = close(self.file) else { return };
        if self.driver.api().life() == Life::Forked {
            return;
        }
        let warning = CudaWarning::note(self.object(), said_of(errno));
        self.driver.warn(warning.with_fate(Fate::Unknown));
    }
}

impl AsFd for FileDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as this value lives, by the invariant.
        unsafe { BorrowedFd::borrow_raw(self.file) }
    }
}

impl fmt::Debug for FileDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.object())
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<FileDescriptor>();
};
