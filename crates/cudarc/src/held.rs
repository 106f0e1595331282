//! Values of cudarc's that objects of ours keep alive, and their end: on the reclaimer, in their context, with what was
//! current put back, and with the error told that cudarc would keep to itself.
//!
//! cudarc's drops make their context current and leave it so, make their calls wherever they run, and may wait. So none of
//! them is run where an object of ours happens to be dropped.

#![expect(unsafe_code, reason = "takes itself apart once")]

use crate::kept::{self, Keeps};
use cuhold_driver_sys::{Call, ContextUse, Failure, Life, mutant};
use cuhold_handles::{Context, CudaWarning, Fate, Object, foreign, scope};
use std::{mem::ManuallyDrop, sync::Arc};

/// A value of cudarc's, to be dropped on the reclaimer.
pub(crate) struct Held<T: Send + 'static, K: Keeps + Send + Sync + 'static>(
    ManuallyDrop<Parts<T, K>>,
);

struct Parts<T, K> {
    value: T,
    /// Where cudarc keeps the errors of its drop; also what its drop needs.
    keeper: Arc<K>,
    /// Kept until the value has ended: its drop works in it.
    context: Context,
    object: Object,
    call: Call,
}

impl<T: Send + 'static, K: Keeps + Send + Sync + 'static> Held<T, K> {
    /// `object` and `call` are what a warning says of its end: the call that ends it, as far as it is known.
    pub(crate) fn new(
        value: T,
        keeper: &Arc<K>,
        context: &Context,
        object: Object,
        call: Call,
    ) -> Self {
        let (keeper, context) = (Arc::clone(keeper), context.clone());
        Self(ManuallyDrop::new(Parts { value, keeper, context, object, call }))
    }
}

impl<T: Send + 'static, K: Keeps + Send + Sync + 'static> Drop for Held<T, K> {
    fn drop(&mut self) {
        if self.0.context.driver().api().life() == Life::Forked {
            return;
        }
        let inlet = self.0.context.driver().reclaim().inlet();
        let waits_for = self.0.context.as_raw();
        // SAFETY: taken once: this is the drop.
        let parts = unsafe { ManuallyDrop::take(&mut self.0) };
        if mutant::is_out("cudarc-reclaimer") {
            return end(parts);
        }
        inlet.defer(Some(waits_for), move || end(parts));
    }
}

/// Drops the value. Where its context can't be made current it is leaked, since its drop would make it so by itself.
fn end<T, K: Keeps>(parts: Parts<T, K>) {
    let Parts { value, keeper, context, object, call } = parts;
    let driver = context.driver();
    let mut columns = call.columns();
    columns.context = ContextUse::Owner;
    let mut value = ManuallyDrop::new(Some(value));
    let mut caught = None;
    let (outcome, failed) = kept::during(&*keeper, || {
        scope::cleanup(driver, Some(context.as_raw()), columns, |_| {
            if let Some(value) = value.take() {
                caught = foreign::drop_caught(value).err();
            }
            Ok(())
        })
    });
    outcome.warn_to(object, call, outcome.fate(), &mut |warning| driver.warn(warning));
    if let Some(status) = failed.filter(|_| !mutant::is_out("cudarc-error")) {
        let warning = CudaWarning::failed(Failure { call, status }, object, Fate::Unknown);
        driver.warn(warning.with_text("kept by cudarc; another call of its drop, maybe"));
    }
    if let Some(caught) = caught {
        driver.warn(CudaWarning::panicked(object, caught.payload()));
    }
    // Not the last one of its context: `context` keeps either a retain of ours or the value that is.
    drop(keeper);
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuhold_driver_sim::Sim;
    use cuhold_driver_sys::{CUresult, DriverApi as _, Fault, ffi::CUcontext};
    use cuhold_handles::{ContextFlags, ObjectKind};
    use cuhold_testkit::{Kit, run_simulated};
    use parking_lot::Mutex;

    /// What stands for cudarc's context: it stores one error.
    #[derive(Default)]
    struct Slot(Mutex<Option<u32>>);

    impl Keeps for Slot {
        type Stored = u32;

        fn take(&self) -> Option<u32> {
            self.0.lock().take()
        }

        fn put_back(&self, stored: u32) {
            *self.0.lock() = Some(stored);
        }

        fn status(stored: &u32) -> CUresult {
            CUresult(*stored)
        }
    }

    /// What stands for a value of cudarc's: its drop looks what is current, and may fail or panic.
    struct Value {
        /// Not a driver, which a value that is left alone would keep.
        sim: Sim,
        slot: Arc<Slot>,
        seen: Arc<Mutex<Vec<CUcontext>>>,
        fails: Option<u32>,
        panics: bool,
    }

    impl Drop for Value {
        fn drop(&mut self) {
            let mut current = CUcontext::NULL;
            // SAFETY: *pointers*: a live local.
            let status = unsafe { self.sim.cuCtxGetCurrent(&raw mut current) };
            assert!(status.is_success());
            self.seen.lock().push(current);
            if let Some(status) = self.fails {
                self.slot.put_back(status);
            }
            assert!(!self.panics, "a drop of cudarc's");
        }
    }

    const OBJECT: Object = Object { kind: ObjectKind::Stream, raw: 0x10, id: 7 };

    type Seen = Arc<Mutex<Vec<CUcontext>>>;

    fn held(
        kit: &Kit,
        context: &Context,
        (fails, panics): (Option<u32>, bool),
    ) -> (Held<Value, Slot>, Arc<Slot>, Seen) {
        let (slot, seen) = (Arc::<Slot>::default(), Seen::default());
        let value = Value {
            sim: kit.sim().unwrap().clone(),
            slot: Arc::clone(&slot),
            seen: Arc::clone(&seen),
            fails,
            panics,
        };
        let held = Held::new(value, &slot, context, OBJECT, Call::cuStreamDestroy_v2);
        (held, slot, seen)
    }

    #[test]
    fn it_ends_on_the_reclaimer_in_its_context_and_what_was_current_is_so_again() {
        run_simulated(|kit, _| {
            let by_hand = kit.driver().reclaim().run_by_hand();
            let other = Context::new(kit.device(), ContextFlags::empty()).unwrap();
            let (held, _, seen) = held(kit, &other, (None, false));
            drop(held);
            assert!(seen.lock().is_empty());
            let before = kit.stack();
            while by_hand.step() {}
            assert_eq!(*seen.lock(), [other.as_raw()]);
            assert_eq!(kit.stack(), before);
        });
    }

    #[test]
    fn an_error_that_its_drop_stores_is_a_warning_and_one_from_before_is_left_for_its_owner() {
        run_simulated(|kit, _| {
            let (held, slot, _) = held(kit, kit.context(), (Some(1), false));
            slot.put_back(999);
            let warnings = kit.driver().reports().capture(4);
            drop(held);
            let told = warnings.take();
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!(told[0].status(), Some(CUresult::INVALID_VALUE));
            assert_eq!(told[0].call(), Some(Call::cuStreamDestroy_v2));
            assert_eq!(slot.take(), Some(999));
        });
    }

    #[test]
    fn a_drop_that_panics_is_told_and_the_context_is_put_back() {
        run_simulated(|kit, _| {
            let (held, ..) = held(kit, kit.context(), (None, true));
            let warnings = kit.driver().reports().capture(4);
            drop(held);
            let told = warnings.take();
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!(told[0].text(), "a drop of cudarc's");
        });
    }

    #[test]
    fn where_its_context_cannot_be_made_current_it_is_left_alone_and_that_is_told() {
        run_simulated(|kit, _| {
            let (held, _, seen) = held(kit, kit.context(), (None, false));
            let warnings = kit.driver().reports().capture(4);
            kit.faults()
                .arm(Fault::refused(CUresult::INVALID_CONTEXT).on(Call::cuCtxPushCurrent_v2));
            drop(held);
            let told = warnings.take();
            kit.faults().disarm();
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!(told[0].fate(), Some(Fate::Leaked));
            assert!(seen.lock().is_empty());
        });
    }
}
