//! Making an object: one call, where and how its columns say, undone by the end of its resource.

#![expect(unsafe_code, reason = "undoes a creation by the resource's destroy")]

use crate::{
    error::{Error, Result},
    resource::{Handle, Owned, Raw as _, Resource},
    scope::{self, Target, Undo},
};
use cuhold_driver_sys::{Call, Calls, CaptureRule, ContextUse, Failure};

impl<R: Resource> Owned<R> {
    /// Makes an object with `call` and owns it. See [`make`].
    ///
    /// # Errors
    /// As [`make`].
    pub fn create(
        call: Call,
        deps: R::Deps,
        operation: impl FnOnce(Calls<'_>, &R::Deps) -> Result<R::Raw, Failure>,
    ) -> Result<Self> {
        Ok(Self::own(make::<R>(call, &deps, operation)?, deps))
    }
}

impl<R: Resource> Handle<R> {
    /// Makes an object with `call` and owns it. See [`make`].
    ///
    /// # Errors
    /// As [`make`].
    pub fn create(
        call: Call,
        deps: R::Deps,
        operation: impl FnOnce(Calls<'_>, &R::Deps) -> Result<R::Raw, Failure>,
    ) -> Result<Self> {
        Ok(Self::own(make::<R>(call, &deps, operation)?, deps))
    }
}

/// Makes an object with `operation`, whose creating call is `call`: in the object's context if the call's *context*
/// column says "owner", in relaxed capture mode if its *capture* column says "unsafe".
///
/// Calls what `operation` calls; around it as [`scope::create`] and [`scope::neutral`] do.
///
/// # Errors
/// That of `operation`, or of what stands around it: the new object was then destroyed again, and where that was not
/// possible a note says so. A driver that reports success and gives nothing is an error, too.
pub(crate) fn make<R: Resource>(
    call: Call,
    deps: &R::Deps,
    operation: impl FnOnce(Calls<'_>, &R::Deps) -> Result<R::Raw, Failure>,
) -> Result<R::Raw> {
    let driver = R::driver(deps);
    driver.check_callable()?;
    let raw = match call.columns().capture {
        CaptureRule::Neutral => in_context::<R>(call, deps, operation),
        CaptureRule::Unsafe => scope::neutral(
            driver,
            || in_context::<R>(call, deps, operation),
            |raw, error| undone::<R>(deps, raw, error),
        ),
    }?;
    if raw.is_null() {
        return Err(Error::state("the driver reported success and gave no object").with_call(call));
    }
    Ok(raw)
}

fn in_context<R: Resource>(
    call: Call,
    deps: &R::Deps,
    operation: impl FnOnce(Calls<'_>, &R::Deps) -> Result<R::Raw, Failure>,
) -> Result<R::Raw> {
    let driver = R::driver(deps);
    let (Some(destroy), ContextUse::Owner) = (R::DESTROY, call.columns().context) else {
        return operation(driver.callable()?, deps).map_err(|failure| driver.error(failure));
    };
    let undo = Undo {
        columns: destroy.columns(),
        // SAFETY: the operation made it a moment ago, and it was given to nobody.
        destroy: |calls: Calls<'_>, raw| unsafe { R::destroy(calls, raw, deps) },
        raw: R::Raw::addr,
    };
    let target = Target::new(driver, R::context(deps));
    scope::create(target, |calls| operation(calls, deps), undo)
}

/// Only the capture mode couldn't be put back: the object is destroyed again.
#[cold]
fn undone<R: Resource>(deps: &R::Deps, raw: R::Raw, error: Error) -> Error {
    let Some(destroy) = R::DESTROY else { return error };
    let owner = Some(R::context(deps)).filter(|owner| !owner.is_null());
    scope::cleanup(R::driver(deps), owner, destroy.columns(), |calls| {
        // SAFETY: the operation made it a moment ago, and it was given to nobody.
        unsafe { R::destroy(calls, raw, deps) }
    })
    .note_undo(error, raw.addr())
}
