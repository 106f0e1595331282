//! A child of a process that uses a GPU: everything that it inherited goes silently, and a new call is an error that says
//! why. On the simulated driver the child is one in name only, and the driver is reached: those tests are elsewhere.

use super::everything;
use cuhold::{ErrorKind, Sink, driver_sys::CUresult};
use cuhold_testkit::{in_fork, run_real};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

#[test]
fn a_child_of_a_fork_lets_go_of_everything_silently_and_a_new_call_says_that_it_is_one() {
    run_real(|t, _| {
        let (heard, ear) = {
            let heard = Arc::<AtomicBool>::default();
            (Arc::clone(&heard), heard)
        };
        drop(t.driver().reports().set_sink(Sink::new(move |_| ear.store(true, Ordering::SeqCst))));
        let (made, device) = (everything(t), t.device().clone());
        let code = in_fork(|| {
            drop(made);
            let refused = device.new_stream().is_err_and(|error| {
                error.kind() == ErrorKind::Forked && error.is(CUresult::NOT_INITIALIZED)
            });
            i32::from(!refused) + 2 * i32::from(heard.load(Ordering::SeqCst))
        });
        assert_eq!(code, 0);
        drop(t.driver().reports().set_sink(Sink::default()));
    });
}
