//! A panic inside a scoped operation: the caller's context is put back, then the panic goes on.

use super::{How, POP, Situation, Stage, each, failure, seen_current};
use cuhold_driver_sys::Failure;
use cuhold_handles::{
    Context, ObjectKind, WarningKind,
    scope::{self, Undo},
};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs each scoped operation with a panic inside, and checks that it comes out as it went in.
fn panicking(stage: &Stage<'_>, check: impl Fn(&Stage<'_>)) {
    type Operation = fn(&Stage<'_>);
    let operations: [Operation; 3] = [
        |stage| {
            let result = scope::run(stage.target(), |_| -> Result<(), Failure> { burst(stage) });
            drop(result);
        },
        |stage| {
            let result = scope::call(stage.target(), || -> () { burst(stage) });
            drop(result);
        },
        |stage| {
            let undo = Undo {
                columns: cuhold_driver_sys::Call::cuStreamDestroy_v2.columns(),
                destroy: |_: cuhold_driver_sys::Calls<'_>, ()| -> Result<(), Failure> {
                    panic!("undone")
                },
                raw: |()| 0,
            };
            drop(scope::create(stage.target(), |_| -> Result<(), Failure> { burst(stage) }, undo));
        },
    ];
    for operation in operations {
        let payload = catch_unwind(AssertUnwindSafe(|| operation(stage))).unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"inside"));
        check(stage);
    }
}

/// Panics with the target current.
fn burst(stage: &Stage<'_>) -> ! {
    assert_eq!(seen_current(stage.t), stage.target.as_raw());
    resume_unwind(Box::new("inside"))
}

#[test]
fn a_panic_inside_finds_the_caller_s_context_put_back_and_goes_on() {
    each(&Situation::ALL, |stage, _| panicking(stage, |stage| stage.is_as_before()));
}

#[test]
fn a_panic_inside_whose_restore_is_refused_leaves_one_warning_and_goes_on() {
    each(&Situation::OTHERS, |stage, how| {
        let capture = stage.t.driver().reports().capture(8);
        let arm = || stage.fail(POP, 1, how, 1);
        arm();
        panicking(stage, |stage| {
            let [warning] = capture.take()[..] else { panic!("not one warning") };
            assert_eq!(warning.kind(), WarningKind::RestoreRefused);
            assert_eq!(warning.failure(), Some(failure(POP, 1)));
            assert_eq!(warning.current(), stage.left_by(how));
            assert_eq!(warning.object().kind, ObjectKind::Context);
            stage.is_left_by(how);
            arm();
        });
    });
}

#[test]
fn a_panic_inside_with_current_is_resumed_once_the_caller_s_context_is_back() {
    each(&Situation::ALL, |stage, how| {
        if how == How::Done {
            return;
        }
        let target: &Context = &stage.target;
        let work = || target.with_current(|| -> () { burst(stage) });
        assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
        stage.is_as_before();
    });
}
