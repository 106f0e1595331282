//! What was lent to cudarc and is waited for: values of ours that values of cudarc's refer to without keeping them alive.
//!
//! cudarc's types take a raw handle and no owner. So the value of ours stays here until nobody has the value of cudarc's
//! any more, which is looked at whenever the bridge is used.

use cuhold_driver_sys::mutant;
use cuhold_handles::Driver;
use parking_lot::Mutex;

/// A value of ours with the value of cudarc's that refers to it.
pub(crate) trait Loan {
    /// Whether nobody else has the value of cudarc's, nor can have it again.
    fn is_over(&mut self) -> bool;

    /// Ends both: nobody uses them.
    fn end(self);

    /// Leaves both as they are for good, and says so: somebody uses them.
    fn leak(self, driver: &Driver);
}

/// The loans that are waited for.
pub(crate) struct Loans<L: Loan>(Mutex<Vec<L>>);

impl<L: Loan> Default for Loans<L> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<L: Loan> Loans<L> {
    /// Ends a loan, or waits for it if it isn't over.
    pub(crate) fn give_back(&self, mut loan: L, driver: &Driver) {
        // In a forked child the lock may be held by a thread that isn't there, and nothing is ended.
        if driver.check_callable().is_err() {
            return loan.leak(driver);
        }
        if loan.is_over() || mutant::is_out("cudarc-loan") {
            loan.end();
        } else {
            self.0.lock().push(loan);
        }
        self.sweep(driver);
    }

    /// Ends those that are over.
    pub(crate) fn sweep(&self, driver: &Driver) {
        if driver.check_callable().is_err() {
            return;
        }
        let over: Vec<L> = self.0.lock().extract_if(.., Loan::is_over).collect();
        // Without the lock: what ends may wait, or run foreign code.
        over.into_iter().for_each(Loan::end);
    }

    /// How many are waited for.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// The bridge ends: what isn't over is leaked.
    pub(crate) fn end(&mut self, driver: &Driver) {
        let can_end = driver.check_callable().is_ok();
        for mut loan in std::mem::take(self.0.get_mut()) {
            if can_end && loan.is_over() {
                loan.end();
            } else {
                loan.leak(driver);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuhold_driver_sim::Sim;
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    #[derive(Default)]
    struct Ends {
        ended: AtomicU32,
        leaked: AtomicU32,
    }

    struct Lent {
        value: Arc<()>,
        ends: Arc<Ends>,
    }

    impl Loan for Lent {
        fn is_over(&mut self) -> bool {
            Arc::get_mut(&mut self.value).is_some()
        }

        fn end(self) {
            self.ends.ended.fetch_add(1, Ordering::Relaxed);
        }

        fn leak(self, _: &Driver) {
            self.ends.leaked.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counts(ends: &Ends) -> (u32, u32) {
        (ends.ended.load(Ordering::Relaxed), ends.leaked.load(Ordering::Relaxed))
    }

    #[test]
    fn a_loan_ends_once_nobody_has_the_other_value_and_a_weak_one_counts() {
        let driver = Driver::from_api(Sim::new());
        let (loans, ends, value) = (Loans::default(), Arc::<Ends>::default(), Arc::new(()));
        let weak = Arc::downgrade(&value);
        loans.give_back(Lent { value: Arc::clone(&value), ends: Arc::clone(&ends) }, &driver);
        assert_eq!((loans.len(), counts(&ends)), (1, (0, 0)));
        drop(value);
        loans.sweep(&driver);
        assert_eq!((loans.len(), counts(&ends)), (1, (0, 0)));
        drop(weak);
        loans.sweep(&driver);
        assert_eq!((loans.len(), counts(&ends)), (0, (1, 0)));
        loans.give_back(Lent { value: Arc::new(()), ends: Arc::clone(&ends) }, &driver);
        assert_eq!((loans.len(), counts(&ends)), (0, (2, 0)));
    }

    #[test]
    fn what_is_still_used_at_the_end_is_leaked() {
        let driver = Driver::from_api(Sim::new());
        let (mut loans, ends, value) = (Loans::default(), Arc::<Ends>::default(), Arc::new(()));
        loans.give_back(Lent { value: Arc::clone(&value), ends: Arc::clone(&ends) }, &driver);
        loans.end(&driver);
        assert_eq!(counts(&ends), (0, 1));
        drop(value);
    }
}
