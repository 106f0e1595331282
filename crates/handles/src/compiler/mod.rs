//! Handles of the compilers as owned objects: NVRTC's and NVVM's programs, nvJitLink's links.
//!
//! Their ends make no driver call, but may not be made in a callback of the driver either, where nothing is freed; and what
//! fails in them is told through a driver's channel. So each names the [`Driver`] that it is used for.
//!
//! ```text
//!   Tool<T> ──drop──► ended here, or on the reclaimer where it was dropped inside a callback
//! ```

#![expect(unsafe_code, reason = "hands blocks to the reclaimer as raw records")]

mod nvjitlink;
mod nvrtc;
mod nvvm;

pub use nvjitlink::{NvJitLink, NvJitLinkInput};
pub use nvrtc::NvrtcProgram;
pub use nvvm::NvvmProgram;

use crate::{
    callback,
    driver::Driver,
    error::{Error, Refused, Result},
    object::{Object, ObjectKind},
    reclaim::{Record, Recorded},
    report::{CudaWarning, Fate},
    resource::Closed,
    status::CompilerFailure,
};
use cuhold_driver_sys::Life;
use std::{
    cell::Cell,
    ffi::{CString, c_char},
    fmt,
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::NonNull,
};

/// A kind of handle: its library, and which call ends it.
///
/// # Safety
/// - *ends*: [`destroy`](Self::destroy) ends exactly `raw`, with one call.
pub(crate) unsafe trait Handled: Sized + Send + 'static {
    /// The library's handle.
    type Raw: Copy + Send + Sync + 'static;
    /// The library.
    type Api: Clone + Send + Sync + 'static;
    /// What it is called.
    const KIND: ObjectKind;

    /// The handle's value.
    fn addr(raw: Self::Raw) -> u64;

    /// Ends the handle.
    ///
    /// # Errors
    /// The call's failure.
    ///
    /// # Safety
    /// `raw` is live, and nobody uses it afterwards.
    unsafe fn destroy(api: &Self::Api, raw: Self::Raw) -> Result<(), CompilerFailure>;
}

/// One handle: its list record first, so that a pointer to the block is a pointer to the record.
#[repr(C)]
struct Block<T: Handled> {
    record: Record,
    raw: T::Raw,
    id: u64,
    api: T::Api,
    driver: Driver,
}

impl<T: Handled> Block<T> {
    fn object(&self) -> Object {
        Object { kind: T::KIND, raw: T::addr(self.raw), id: self.id }
    }

    /// Ends the handle and tells what failed.
    fn end(self) {
        if self.driver.api().life() == Life::Forked {
            return;
        }
        // SAFETY: this block owns the handle, and is used up.
        if let Err(failure) = unsafe { T::destroy(&self.api, self.raw) } {
            self.driver.warn(CudaWarning::compiler_failed(failure, self.object(), Fate::Unknown));
        }
    }
}

// SAFETY: *first field*: `repr(C)`, the record in front. *Release*: as the trait asks; all of it is `Send`.
unsafe impl<T: Handled> Recorded for Block<T> {
    unsafe fn release(record: NonNull<Record>) {
        // SAFETY: the record was made from a box by `Tool`'s drop, and is released once.
        let block = unsafe { Box::from_raw(record.cast::<Self>().as_ptr()) };
        block.end();
    }

    unsafe fn worker(_: NonNull<Record>) -> Option<usize> {
        None
    }
}

/// Unique ownership of a compiler's handle: `Send`, and not `Sync`, since its library takes one call on it at a time.
pub(crate) struct Tool<T: Handled> {
    block: ManuallyDrop<Box<Block<T>>>,
    alone: PhantomData<Cell<()>>,
}

impl<T: Handled> Tool<T> {
    pub(crate) fn own(driver: &Driver, api: T::Api, raw: T::Raw) -> Self {
        let (record, id, driver) = (Record::of::<Block<T>>(), driver.next_id(), driver.clone());
        let block = Box::new(Block { record, raw, id, api, driver });
        Self { block: ManuallyDrop::new(block), alone: PhantomData }
    }

    pub(crate) fn raw(&self) -> T::Raw {
        self.block.raw
    }

    pub(crate) fn api(&self) -> &T::Api {
        &self.block.api
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.block.driver
    }

    fn take(self) -> Box<Block<T>> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: `this` is never dropped.
        unsafe { ManuallyDrop::take(&mut this.block) }
    }

    pub(crate) fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        if let Err(error) = self.driver().check_callable() {
            return Err(Refused::new(error, Some(self)));
        }
        let block = self.take();
        // SAFETY: this block owns the handle, and is dropped right after.
        match unsafe { T::destroy(&block.api, block.raw) } {
            Ok(()) => Ok(Closed::Destroyed),
            Err(failure) => Err(Refused::new(failure.into(), None)),
        }
    }

    pub(crate) fn into_raw(self) -> T::Raw {
        self.take().raw
    }
}

impl<T: Handled> Drop for Tool<T> {
    fn drop(&mut self) {
        // SAFETY: taken once: this is the drop.
        let block = unsafe { ManuallyDrop::take(&mut self.block) };
        if !callback::inside() {
            return block.end();
        }
        let inlet = block.driver.reclaim().inlet();
        // SAFETY: *first field*; nobody else has the box, which is given to the list.
        unsafe { inlet.push(NonNull::from(Box::leak(block)).cast()) };
    }
}

impl<T: Handled> fmt::Debug for Tool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.block.object())
    }
}

/// The forms that each handle's type has in common and that make no call.
macro_rules! tool_forms {
    ($Type:ident($Res:ty): $Raw:ty, $Api:ty, $words:literal) => {
        impl $Type {
            #[doc = concat!("Takes over a raw ", $words, " that the caller created with this library.")]
            ///
            /// Calls nothing.
            ///
            /// # Errors
            /// Null is refused; the raw value is then still the caller's.
            ///
            /// # Safety
            #[doc = concat!("`raw` is a live ", $words, " of `api`, and nobody else ends or uses it.")]
            pub unsafe fn from_raw(
                driver: &$crate::Driver,
                api: &$Api,
                raw: $Raw,
            ) -> $crate::Result<Self> {
                if raw.is_null() {
                    return Err($crate::Error::argument(concat!("the raw ", $words, " is null")));
                }
                Ok(Self($crate::compiler::Tool::own(driver, std::sync::Arc::clone(api), raw)))
            }

            /// The library's handle, which stays this value's.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn as_raw(&self) -> $Raw {
                self.0.raw()
            }

            /// The driver through whose channel it reports.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn driver(&self) -> &$crate::Driver {
                self.0.driver()
            }

            #[doc = concat!("Gives the ", $words, " away without ending it: the raw value is the caller's now.")]
            ///
            /// Calls nothing.
            #[must_use]
            pub fn into_raw(self) -> $Raw {
                self.0.into_raw()
            }
        }

        impl std::fmt::Debug for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.0, f)
            }
        }

        const _: () = {
            const fn sent<T: Send>() {}
            sent::<$Type>();
        };
    };
}
use tool_forms;

/// Text as C takes it.
fn c_string(text: &str, what: &str) -> Result<CString> {
    CString::new(text).map_err(|error| Error::argument(format!("{what}: {error}")))
}

/// Texts as C takes them.
fn c_strings(texts: &[&str], what: &str) -> Result<Vec<CString>> {
    texts.iter().map(|text| c_string(text, what)).collect()
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).collect()
}

/// Bytes by a library's pair of calls: how many, then what.
fn read(
    size: impl FnOnce(&mut usize) -> Result<()>,
    content: impl FnOnce(*mut u8) -> Result<()>,
) -> Result<Vec<u8>> {
    let mut bytes = 0;
    size(&mut bytes)?;
    let mut buffer = Vec::new();
    buffer
        .try_reserve_exact(bytes)
        .map_err(|error| Error::state(format!("the answer of {bytes} bytes: {error}")))?;
    buffer.resize(bytes, 0);
    if bytes > 0 {
        content(buffer.as_mut_ptr())?;
    }
    Ok(buffer)
}

/// A text that ends with a NUL byte, as the libraries write it.
fn text(mut bytes: Vec<u8>) -> String {
    if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
        bytes.truncate(end);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
