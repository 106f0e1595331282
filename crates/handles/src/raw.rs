//! What an object is made of: its raw value, and what its kind says about it.

#![expect(unsafe_code, reason = "a kind promises that it ends what it says")]

use crate::{
    driver::Driver,
    error::{Error, Result},
    memory::Users,
    object::ObjectKind,
    report::Fate,
    resource::Handle,
};
use cuhold_driver_sys::{Call, Calls, Failure, Waits, ffi::CUcontext, mutant};
use std::{fmt, hash::Hash};

/// A raw value of a driver object.
pub trait Raw: Copy + Eq + Hash + fmt::Debug + Send + Sync + 'static {
    /// The value as an integer.
    fn addr(self) -> u64;
    /// Whether it is null.
    fn is_null(self) -> bool {
        self.addr() == 0
    }
}

macro_rules! raws {
    ($($raw:ident)*) => { $(impl Raw for cuhold_driver_sys::ffi::$raw {
        fn addr(self) -> u64 {
            self.addr() as u64
        }
    })* };
}
raws! { CUcontext CUmodule CUfunction CUlibrary CUkernel CUevent CUstream CUmemoryPool CUgraph CUgraphExec CUuserObject CUlinkState CUgreenCtx }
raws! { CUarray CUmipmappedArray CUexternalMemory CUexternalSemaphore CUgraphicsResource }

/// Addresses on devices, and the handles that C declares as numbers.
impl Raw for u64 {
    fn addr(self) -> u64 {
        self
    }
}

/// A kind of driver object: what it refers to, which call ends it, and what that call's columns are.
///
/// # Safety
/// - *ends*: [`destroy`](Self::destroy) ends exactly `raw`, with the call named [`DESTROY`](Self::DESTROY);
/// - *dependencies*: `Deps` keeps alive all that `raw` refers to.
pub unsafe trait Resource: Sized + Send + Sync + 'static {
    /// The driver's handle.
    type Raw: Raw;
    /// What the object refers to. Dropped after the object, in the order of its fields.
    type Deps: Send + Sync;

    /// What it is called.
    const KIND: ObjectKind;
    /// The call that ends it; `None` for an object that ends with the one it belongs to.
    const DESTROY: Option<Call>;

    /// The driver.
    fn driver(deps: &Self::Deps) -> &Driver;
    /// The context that owns it; null for an object without one.
    fn context(deps: &Self::Deps) -> CUcontext;

    /// The context whose work its end may wait for; null where it is none in particular.
    fn waits_for(deps: &Self::Deps) -> CUcontext {
        Self::context(deps)
    }

    /// What must have succeeded before the object is ended; where it fails, the object isn't.
    ///
    /// # Errors
    /// The failure, because of which the object stays.
    fn before_end(calls: Calls<'_>, deps: &Self::Deps) -> Result<(), Failure> {
        let (_, _): (Calls<'_>, &Self::Deps) = (calls, deps);
        Ok(())
    }

    /// What it is called where its type has objects of several kinds, which the word of state may tell.
    #[must_use]
    fn kind(_: &Self::Deps, _state: u32) -> ObjectKind {
        Self::KIND
    }

    /// The streams that use the object and that its end doesn't wait for, where it keeps those.
    #[must_use]
    fn users(_: &Self::Deps) -> Option<&Users> {
        None
    }

    /// One of its shared carriers is about to go.
    #[inline]
    fn going(_: &Handle<Self>) {}

    /// What became of the object, where its end failed and it knows more than the failure says.
    #[must_use]
    fn fate(_: &Self::Deps, fate: Fate) -> Fate {
        fate
    }

    /// Ends the object.
    ///
    /// # Errors
    /// The call's failure.
    ///
    /// # Safety
    /// `raw` is live, and nobody uses it afterwards.
    unsafe fn destroy(calls: Calls<'_>, raw: Self::Raw, deps: &Self::Deps) -> Result<(), Failure>;

    /// Whether its end may wait for the GPU, so that a `Drop` leaves it to the reclaimer.
    #[must_use]
    fn waits() -> bool {
        Self::DESTROY
            .is_some_and(|call| matches!(call.columns().waits, Waits::Context | Waits::All))
    }
}

/// Refuses a null raw value.
///
/// # Errors
/// [`ErrorKind::Argument`](crate::ErrorKind::Argument), which names the object.
pub fn not_null<T: Raw>(raw: T, what: &'static str) -> Result<T> {
    if !raw.is_null() || mutant::is_out("null") {
        return Ok(raw);
    }
    Err(Error::argument(format!("the raw {what} is null")))
}
