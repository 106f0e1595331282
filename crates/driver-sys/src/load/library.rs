//! A shared library while it is looked at: opened, its symbols asked for, then kept for good or closed.

#![expect(unsafe_code, reason = "runs the library's constructors, reads its symbols")]

use core::{ffi::c_void, ptr::NonNull};
use std::{
    error::Error as _,
    path::{Path, PathBuf},
};

use libloading::Library;

use super::{Attempt, Reason};

/// An open library. Closed when dropped, unless it is kept.
pub(crate) struct Opened {
    library: Library,
    asked: PathBuf,
}

impl Opened {
    /// Opens what `asked` names: a file if it has a slash, else what the search path has.
    ///
    /// # Safety
    /// - *code*: the library's constructors and destructors are sound to run in this process.
    pub(crate) unsafe fn open(asked: &Path) -> Result<Self, Attempt> {
        // SAFETY: *code*: the caller's promise.
        match unsafe { Library::new(asked) } {
            Ok(library) => Ok(Self { library, asked: asked.to_owned() }),
            Err(error) => {
                let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                // The linker begins with the name, which the attempt has already.
                let name = format!("{}: ", asked.display());
                let text = text.strip_prefix(&name).unwrap_or(&text);
                Err(Attempt::new(asked, Reason::NotOpened(text.to_owned())))
            }
        }
    }

    /// The address of an exported symbol. Valid while the library is open.
    pub(crate) fn symbol(&self, name: &str) -> Option<NonNull<c_void>> {
        // SAFETY: the symbol is taken as an address and not followed.
        let symbol = unsafe { self.library.get::<*mut c_void>(name) };
        NonNull::new(*symbol.ok()?)
    }

    /// The library isn't used: closes it and says why. `within` is an address in it, if one is known.
    pub(crate) fn refuse(self, within: Option<NonNull<c_void>>, reason: Reason) -> Attempt {
        Attempt { file: within.and_then(file_of), ..Attempt::new(&self.asked, reason) }
    }

    /// Keeps the library open for the life of the process; gives its file, or the name asked for where the system
    /// doesn't tell. `within` is an address in it.
    pub(crate) fn keep(self, within: NonNull<c_void>) -> PathBuf {
        let _: &'static Library = Box::leak(Box::new(self.library));
        file_of(within).unwrap_or(self.asked)
    }
}

/// The file that holds this address, as the dynamic linker opened it.
#[cfg(unix)]
fn file_of(address: NonNull<c_void>) -> Option<PathBuf> {
    use core::{ffi::CStr, ptr};
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: `info` is writable, and the address is only looked up.
    let found = unsafe { libc::dladdr(address.as_ptr(), &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the linker's own string, terminated, and there while the library is open: it is, during this call.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(OsStr::from_bytes(name.to_bytes()).into())
}

/// Not asked here.
#[cfg(not(unix))]
fn file_of(_: NonNull<c_void>) -> Option<PathBuf> {
    None
}
