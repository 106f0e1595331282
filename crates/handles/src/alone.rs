//! The carrier of objects that CUDA doesn't synchronize: graphs, executables, links, programs.
//!
//! CUDA promises nothing for two calls on such an object at once, even where both only read. So a value of it can go to
//! another thread, and can't be reached by two.

use crate::{
    driver::Driver,
    error::{Refused, Result},
    object::Object,
    resource::{Closed, Owned, Owner, Resource},
};
use cuhold_driver_sys::{Call, Calls, Failure};
use std::{cell::Cell, fmt, marker::PhantomData};

/// Unique ownership of a driver object that no two threads may use at once: `Send`, and not `Sync`. One word.
///
/// Public only because other crates of this project define resources.
pub struct Alone<R: Resource, Bound = Cell<()>>(Owned<R>, PhantomData<Bound>);

/// As [`Alone`], for an object that stays on the thread that made it: neither `Send` nor `Sync`.
pub type Here<R> = Alone<R, *const ()>;

impl<R: Resource, Bound> Alone<R, Bound> {
    /// Takes ownership of a new object.
    #[must_use]
    pub fn own(raw: R::Raw, deps: R::Deps) -> Self {
        Self(Owned::own(raw, deps), PhantomData)
    }

    /// Refers to an object that somebody else ends; `owner` is kept alive as long.
    #[must_use]
    pub fn borrow(raw: R::Raw, deps: R::Deps, owner: Option<Owner>) -> Self {
        Self(Owned::borrow(raw, deps, owner), PhantomData)
    }

    /// Makes an object with `call` and owns it.
    ///
    /// # Errors
    /// As [`Owned::create`].
    pub fn create(
        call: Call,
        deps: R::Deps,
        operation: impl FnOnce(Calls<'_>, &R::Deps) -> Result<R::Raw, Failure>,
    ) -> Result<Self> {
        Ok(Self(Owned::create(call, deps, operation)?, PhantomData))
    }

    /// The driver's handle.
    #[must_use]
    pub fn raw(&self) -> R::Raw {
        self.0.raw()
    }

    /// What the object refers to.
    #[must_use]
    pub fn deps(&self) -> &R::Deps {
        self.0.deps()
    }

    /// What the object refers to, to be changed.
    #[must_use]
    pub fn deps_mut(&mut self) -> &mut R::Deps {
        self.0.deps_mut()
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.0.driver()
    }

    /// How warnings name it.
    #[must_use]
    pub fn object(&self) -> Object {
        self.0.object()
    }

    /// Ends the object here and now, unless it is somebody else's to end.
    ///
    /// # Errors
    /// [`Refused`], with the object where the driver was never asked to end it.
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|Refused { error, value, .. }| {
            Refused::new(error, value.map(|owned| Self(owned, PhantomData)))
        })
    }

    /// Gives the object away without ending it: the raw value is the caller's now.
    ///
    /// # Errors
    /// Gives it back where it is somebody else's to end.
    pub fn into_raw(self) -> Result<R::Raw, Self> {
        self.0.into_raw().map_err(|owned| Self(owned, PhantomData))
    }
}

impl<R: Resource, Bound> fmt::Debug for Alone<R, Bound> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
