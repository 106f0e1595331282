//! The error that cudarc keeps: what fails in a `Drop` of its own is stored in the context, and answered to the next call
//! that asks. Here such an error is told by whoever caused it.

use cudarc::driver::{CudaContext, DriverError, sys};
use cuhold_driver_sys::{CUresult, mutant};

/// Where a library keeps the error of something that couldn't return it: one place, the last error wins.
pub(crate) trait Keeps {
    /// What it stores.
    type Stored;

    /// Takes what is stored.
    fn take(&self) -> Option<Self::Stored>;

    /// Stores it again.
    fn put_back(&self, stored: Self::Stored);

    /// Its status.
    fn status(stored: &Self::Stored) -> CUresult;
}

impl Keeps for CudaContext {
    type Stored = DriverError;

    fn take(&self) -> Option<DriverError> {
        self.check_err().err()
    }

    fn put_back(&self, stored: DriverError) {
        self.record_err::<()>(Err(stored));
    }

    fn status(stored: &DriverError) -> CUresult {
        status(*stored)
    }
}

/// A cudarc error's status as ours.
pub(crate) fn status(DriverError(status): DriverError) -> CUresult {
    CUresult(number(status))
}

/// Its number: none is negative.
fn number(status: sys::CUresult) -> u32 {
    status as u32
}

/// Has the library do something, and gives the error that it stored meanwhile. What was stored before is stored again, for
/// whom it is meant: without that, what is done here would pay for it, or do nothing.
///
/// Another thread's failure at the same moment can't be told apart.
pub(crate) fn during<K: Keeps, R>(keeper: &K, work: impl FnOnce() -> R) -> (R, Option<CUresult>) {
    let before = keeper.take();
    let value = work();
    let after = keeper.take();
    if let Some(before) = before.filter(|_| !mutant::is_out("cudarc-stored")) {
        keeper.put_back(before);
    }
    (value, after.as_ref().map(K::status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[derive(Default)]
    struct Slot(Cell<Option<u32>>);

    impl Keeps for Slot {
        type Stored = u32;

        fn take(&self) -> Option<u32> {
            self.0.take()
        }

        fn put_back(&self, stored: u32) {
            self.0.set(Some(stored));
        }

        fn status(stored: &u32) -> CUresult {
            CUresult(*stored)
        }
    }

    #[test]
    fn an_error_of_the_work_is_given_and_one_from_before_it_is_left_where_it_was() {
        let slot = Slot(Cell::new(Some(1)));
        let (seen, failed) = during(&slot, || {
            let seen = slot.0.get();
            slot.0.set(Some(700));
            seen
        });
        assert_eq!((seen, failed), (None, Some(CUresult(700))));
        assert_eq!(slot.0.get(), Some(1));
    }

    #[test]
    fn where_nothing_fails_nothing_is_given_and_nothing_is_stored() {
        let slot = Slot::default();
        assert_eq!(during(&slot, || 7), (7, None));
        assert_eq!(slot.0.get(), None);
    }

    #[test]
    fn a_status_keeps_its_number() {
        assert_eq!(status(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)), CUresult(2));
    }
}
