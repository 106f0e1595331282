//! Contexts: a retain for each library where the context is a primary one, else borrowed in one direction or the other.

#![expect(unsafe_code, reason = "hands contexts over as raw values")]

use crate::{
    bridge::Bridge,
    kept::{self, Keeps as _},
    loan::{Loan, Loans},
};
use cudarc::driver::{CudaContext, sys};
use cuhold_driver_sys::{Call, ContextUse, Life, ffi::CUcontext};
use cuhold_handles::{
    Context, CudaWarning, Device, Driver, Error, Fate, Object, ObjectKind, Owner, Result, callback,
    foreign, scope,
};
use std::{fmt, mem::ManuallyDrop, ops::Deref, sync::Arc};

/// cudarc's handle as ours.
pub(crate) fn raw_of(context: &CudaContext) -> CUcontext {
    CUcontext(context.cu_ctx().cast())
}

/// Has cudarc do something in a context, with the caller's put back. `by` says what, should it fail.
///
/// Calls nothing of its own but to switch.
pub(crate) fn in_cudarc<T>(
    context: &Context,
    by: &'static str,
    work: impl FnOnce() -> Result<T, cudarc::driver::DriverError>,
) -> Result<T> {
    context
        .with_current(work)?
        .map_err(|error| context.driver().error_elsewhere(kept::status(error), by))
}

impl Bridge {
    /// The device whose primary context this is, with a retain of its own: it goes on when cudarc has dropped its last
    /// `Arc`, and cudarc's when this is gone.
    ///
    /// Calls `cuInit`, `cuDeviceGet`, `cuDevicePrimaryCtxRetain`.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a context that was created, or that isn't the
    /// device's primary one any more; the calls' failures.
    pub fn device(&self, context: &Arc<CudaContext>) -> Result<Device> {
        if !context.is_primary() {
            return Err(Error::argument(
                "context: it was created and is no primary context; `borrow_context` takes it",
            ));
        }
        let ordinal = u32::try_from(context.ordinal())
            .map_err(|error| Error::argument(format!("context: its ordinal: {error}")))?;
        let device = Device::with_driver(self.driver(), ordinal)?;
        if device.context().as_raw() == raw_of(context) {
            return Ok(device);
        }
        Err(Error::argument("context: it isn't the device's primary context any more"))
    }

    /// Refers to cudarc's context. A primary context is retained, as by [`device`](Self::device); a created one is
    /// borrowed, and what is returned keeps the `Arc`. Should that be the last one, cudarc destroys the context on the
    /// [reclaimer](cuhold_handles::Reclaim), which waits for its work.
    ///
    /// Calls as [`device`](Self::device); for a created context `cuCtxGetDevice` in it.
    ///
    /// # Errors
    /// As [`device`](Self::device).
    pub fn borrow_context(&self, context: &Arc<CudaContext>) -> Result<Context> {
        if context.is_primary() {
            return Ok(self.device(context)?.context().clone());
        }
        let owner: Owner = Arc::new(HeldContext {
            context: ManuallyDrop::new(Arc::clone(context)),
            driver: self.driver().clone(),
        });
        // SAFETY: a live context of the library that this driver is, as the bridge made sure; the owner keeps it alive.
        unsafe { Context::borrow_raw(self.driver(), raw_of(context), Some(owner)) }
    }

    /// As [`borrow_context`](Self::borrow_context), for as long as the caller has `context` in its hands.
    pub(crate) fn context_within(&self, context: &Arc<CudaContext>) -> Result<Context> {
        if context.is_primary() {
            return Ok(self.device(context)?.context().clone());
        }
        // SAFETY: a live context of the library that this driver is, as the bridge made sure; the caller lets go of what
        // this returns before it lets go of `context`.
        unsafe { Context::borrow_raw(self.driver(), raw_of(context), None) }
    }

    /// cudarc's value for a device's primary context, with a retain of its own, which cudarc releases with its last `Arc`.
    /// What is current stays as it was.
    ///
    /// cudarc calls `cuInit`, `cuDeviceGet`, `cuDevicePrimaryCtxRetain`, `cuDeviceGetAttribute` by itself.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a device of another driver; cudarc's failure.
    pub fn retain_context(&self, device: &Device) -> Result<Arc<CudaContext>> {
        self.driver().check_same(device.driver(), "device")?;
        let ordinal = usize::try_from(device.ordinal())
            .map_err(|error| Error::argument(format!("device: its ordinal: {error}")))?;
        in_cudarc(device.context(), "cudarc's CudaContext::new", || CudaContext::new(ordinal))
    }

    /// Lends a created context to cudarc, which never destroys it. It is kept alive until cudarc has let go of everything
    /// that was made from it, also where the [`LentContext`] is dropped before that.
    ///
    /// For a primary context, [`retain_context`](Self::retain_context) costs nothing for good; this leaves some hundred
    /// bytes behind, since cudarc's value can't be ended without the context.
    ///
    /// cudarc calls `cuDeviceGetAttribute` by itself.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a context of another driver; cudarc's failure.
    pub fn lend_context(&self, context: &Context) -> Result<LentContext> {
        self.driver().check_same(context.driver(), "context")?;
        // CUDA's number of a device is its ordinal.
        let ordinal = usize::try_from(context.device())
            .map_err(|error| Error::argument(format!("context: its device: {error}")))?;
        let raw: sys::CUcontext = context.as_raw().0.cast();
        let theirs = in_cudarc(context, "cudarc's CudaContext::from_raw_context", || {
            // SAFETY: a live context of this device. cudarc's value of it is never dropped, so that it destroys nothing.
            unsafe { CudaContext::from_raw_context(ordinal, context.device(), raw) }
        })?;
        let loan = ContextLoan { theirs: ManuallyDrop::new(theirs), ours: context.clone() };
        Ok(LentContext { loan: ManuallyDrop::new(loan), bridge: self.clone() })
    }
}

/// A context of ours that cudarc uses: [`Bridge::lend_context`].
///
/// Its `Arc` may be cloned freely: the context is kept until all of them are gone.
///
/// Its drop calls nothing, but it may let go of the context.
pub struct LentContext {
    /// Invariant: there until the drop.
    loan: ManuallyDrop<ContextLoan>,
    bridge: Bridge,
}

impl LentContext {
    /// The context that is lent.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn lent(&self) -> &Context {
        &self.loan.ours
    }
}

impl Deref for LentContext {
    type Target = Arc<CudaContext>;

    fn deref(&self) -> &Arc<CudaContext> {
        &self.loan.theirs
    }
}

impl Drop for LentContext {
    fn drop(&mut self) {
        // SAFETY: taken once: this is the drop.
        let loan = unsafe { ManuallyDrop::take(&mut self.loan) };
        give_back(&self.bridge, loan, Bridge::contexts);
    }
}

impl fmt::Debug for LentContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LentContext").field(self.lent()).finish()
    }
}

/// Ends a loan or keeps it; inside a callback that is left to the reclaimer.
pub(crate) fn give_back<L: Loan + Send + 'static>(
    bridge: &Bridge,
    loan: L,
    loans: fn(&Bridge) -> &Loans<L>,
) {
    if callback::inside() {
        let inlet = bridge.driver().reclaim().inlet();
        let bridge = bridge.clone();
        inlet.defer(None, move || loans(&bridge).give_back(loan, bridge.driver()));
    } else {
        loans(bridge).give_back(loan, bridge.driver());
    }
}

pub(crate) struct ContextLoan {
    /// Never dropped: cudarc would destroy the context.
    theirs: ManuallyDrop<Arc<CudaContext>>,
    ours: Context,
}

impl Loan for ContextLoan {
    fn is_over(&mut self) -> bool {
        Arc::get_mut(&mut self.theirs).is_some()
    }

    fn end(self) {
        drop(self.ours);
    }

    fn leak(self, driver: &Driver) {
        let ours = ManuallyDrop::new(self.ours);
        warn_of_leak(driver, ObjectKind::Context, ours.as_raw().addr());
    }
}

/// Says that what was lent is left alone.
pub(crate) fn warn_of_leak(driver: &Driver, kind: ObjectKind, raw: usize) {
    let object = Object { kind, raw: u64::try_from(raw).unwrap_or_default(), id: driver.next_id() };
    let text = "it was lent to cudarc, which still used it when the bridge ended";
    driver.warn(CudaWarning::note(object, text).with_fate(Fate::Leaked));
}

/// The owner of a borrowed context: an `Arc` that may be the last one, with which cudarc destroys the context.
struct HeldContext {
    context: ManuallyDrop<Arc<CudaContext>>,
    driver: Driver,
}

impl Drop for HeldContext {
    fn drop(&mut self) {
        if self.driver.api().life() == Life::Forked {
            return;
        }
        // SAFETY: taken once: this is the drop.
        let context = unsafe { ManuallyDrop::take(&mut self.context) };
        let driver = self.driver.clone();
        // It may wait for all work of the context.
        let waits_for = raw_of(&context);
        self.driver.reclaim().inlet().defer(Some(waits_for), move || end_context(context, &driver));
    }
}

/// Drops what may be the last `Arc` of a created context. cudarc makes the context current, and destroys it, which takes it
/// off the thread's stack again: over another context it is laid before that, so that the other one isn't replaced. Should
/// the destroy fail, that is stored in the value that goes, and lost.
fn end_context(context: Arc<CudaContext>, driver: &Driver) {
    let Some(last) = Arc::into_inner(context) else { return };
    let raw = raw_of(&last);
    let object = Object {
        kind: ObjectKind::Context,
        raw: u64::try_from(raw.addr()).unwrap_or_default(),
        id: driver.next_id(),
    };
    if let Some(stored) = last.take() {
        let text = kept::status(stored).to_string();
        let warning = CudaWarning::note(object, "cudarc kept an error in it that nobody asked for");
        driver.warn(warning.with_text(&text));
    }
    let dropped = if is_any_current(driver) {
        let mut columns = Call::cuCtxDestroy_v2.columns();
        columns.context = ContextUse::Owner;
        let mut last = ManuallyDrop::new(Some(last));
        let mut dropped = Ok(());
        let outcome = scope::cleanup(driver, Some(raw), columns, |_| {
            if let Some(last) = last.take() {
                dropped = foreign::drop_caught(last);
            }
            Ok(())
        });
        outcome.warn(driver, object, Call::cuCtxDestroy_v2);
        dropped
    } else {
        foreign::drop_caught(last)
    };
    if let Err(caught) = dropped {
        driver.warn(CudaWarning::panicked(object, caught.payload()));
    }
}

/// Whether a context is current on this thread, or that isn't known.
fn is_any_current(driver: &Driver) -> bool {
    let mut raw = CUcontext::NULL;
    // SAFETY: *pointers*: a live local.
    unsafe { driver.calls().cuCtxGetCurrent(&raw mut raw) }.is_err() || !raw.is_null()
}
