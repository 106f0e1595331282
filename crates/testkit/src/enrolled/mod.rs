//! Public operations, enrolled with a body each, and what is done with them: every call of every operation, of the driver or
//! of a compiler, fails in turn, and the promises of the failure policy are checked after each.
//!
//! # How to enrol an operation
//! An operation is a public function whose documentation has a line "Calls `cuX`, …", or a type that says "Its drop calls
//! `cuX`.": see [`Operations`]. It is enrolled under its path in the crate's `tests/it/operations/`, in a module for its
//! noun:
//! ```ignore
//! cuhold_testkit::enrol! {
//!     Event::with_options |run| {                       // makes something: gone after an `Err`, and works again
//!         run.create(|| Event::with_options(run.context(), EventOptions::default()));
//!     }
//!     Event::synchronize |run| {                        // can be done again: must work after it failed
//!         let event = run.new_event();
//!         run.repeat(|| event.synchronize());
//!     }
//!     Event::close |run| {                              // anything else: exactly the operation in `op`, errors kept
//!         let event = run.new_event();
//!         drop(run.keep_or(run.op(|| event.close())));
//!     }
//!     Event::drop |run| {
//!         let event = run.new_event();
//!         run.op(|| drop(event));
//!     }
//! }
//! ```
//! What stands outside of `op`, `create` and `repeat` is set-up and clearing away: nothing fails there, and nothing is
//! logged. What an operation leaves to the reclaimer happens in it. An operation that works on a stream takes
//! [`Run::stream`], which is of another kind in each situation; one that works on a compiler takes [`Run::nvrtc`],
//! [`Run::nvvm`] or [`Run::nvjitlink`], small ones whose calls fail in turn with the driver's. The module's `OPERATIONS` goes
//! into the list that the crate's `tests/it/operations/mod.rs` hands to [`compare()`]. What can't be enrolled is exempt there,
//! and in `docs/enumeration.md`, with the reason.
//!
//! # What is then tested
//! - With nothing current, its own context, another one of the device, one of another device; on a created stream, one
//!   that others may use, the legacy default stream: clean, each call failing alone in each way in which it can, each
//!   such fault with each later call failing as well, whichever list it is of.
//! - After each run: each failed call was told exactly once; contexts and capture mode are what they were, or what was
//!   told names what they are; nothing is lost that wasn't told to be; nothing is used after its end; what can be done
//!   again works again; the driver ends.
//! - All calls that were made in some run are those that the documentation names.
//!
//! And in each [`Place`], with nothing failing: on a thread that never used CUDA, while a panic unwinds, inside a sink,
//! inside a host function, with a destroyed context current, beside a foreign capture, after exit began, in a forked
//! child, after a fatal error. Those that a real driver can show run there, too.

#[cfg(test)]
mod bites;
mod check;
mod compare;
mod compilers;
mod faults;
mod journal;
mod place;
mod raw;
mod run;
mod settings;
mod situation;
mod stage;
mod told;

pub use compare::compare;
pub use place::Place;
pub use run::Run;
pub use situation::{NowCurrent, StreamKind};

use crate::{kit, operations::Operations};
use std::path::Path;

/// A public operation with a body that does it.
#[derive(Clone, Copy, Debug)]
pub struct Enrolled {
    path: &'static str,
    body: fn(&Run<'_>),
}

impl Enrolled {
    /// The operation of this path.
    #[must_use]
    pub const fn new(path: &'static str, body: fn(&Run<'_>)) -> Self {
        Self { path, body }
    }

    /// Its path, such as `Stream::record`.
    #[must_use]
    pub fn path(&self) -> String {
        self.path.replace(' ', "")
    }
}

/// Enrols operations by their paths: see the crate's documentation.
///
/// Makes `OPERATIONS`, and a test that enumerates their faults.
#[macro_export]
macro_rules! enrol {
    ($($path:path |$run:ident| $body:block)*) => {
        pub(super) const OPERATIONS: &[$crate::Enrolled] =
            &[$($crate::Enrolled::new(stringify!($path), |$run: &$crate::Run<'_>| $body)),*];

        #[test]
        fn each_call_of_each_operation_may_fail_exact_counts() {
            $crate::enumerate(env!("CARGO_MANIFEST_DIR"), OPERATIONS);
        }

        $crate::enrol_places! {
            each_operation_works_on_a_thread_that_never_used_cuda UnusedThread
            each_operation_works_in_a_drop_while_a_panic_unwinds Unwinding
            each_operation_works_inside_a_sink Sink
            inside_a_host_function_each_operation_is_refused_and_each_end_is_handed_over HostFunction
            with_a_destroyed_context_current_nothing_is_lost DestroyedCurrent
            a_foreign_capture_goes_on_unless_the_documentation_says_otherwise ForeignCapture
            a_foreign_capture_of_another_device_goes_on_as_well ForeignCaptureOfOtherDevice
            after_exit_began_nothing_is_reported Exiting
            in_a_forked_child_no_call_is_made ForkedChild
            after_a_fatal_error_each_failure_is_told_once Lost
        }
    };
}

/// A test for each place.
#[doc(hidden)]
#[macro_export]
macro_rules! enrol_places {
    ($($name:ident $place:ident)*) => { $(
        #[test]
        fn $name() {
            $crate::in_place(env!("CARGO_MANIFEST_DIR"), OPERATIONS, $crate::Place::$place);
        }
    )* };
}

/// Does each operation in a place, with nothing failing by plan, and checks the promises that hold there.
#[expect(clippy::print_stdout, reason = "the line is what the runner reads")]
pub fn in_place(manifest_folder: &str, operations: &[Enrolled], place: Place) {
    if let Some(reason) = settings::missing(place) {
        println!("cuhold-skip: {reason}");
        return;
    }
    let sources = Path::new(manifest_folder).join("src");
    let documented = sources.exists().then(|| Operations::read(&sources).unwrap());
    let kept = settings::broken(operations, place, documented.as_ref());
    assert!(kept.wrong.is_empty(), "\n{}", kept.wrong.join("\n\n"));
    if let Some(reason) = kept.skipped() {
        println!("cuhold-skip: {reason}");
    }
}

/// Enumerates the faults of these operations, and compares the calls that they made with their documentation. Prints how
/// many runs there were.
#[expect(clippy::print_stdout, reason = "figures are lines of a test's output")]
pub fn enumerate(manifest_folder: &str, operations: &[Enrolled]) {
    let Some(documented) = simulated_sources(manifest_folder) else { return };
    let mut wrong = Vec::new();
    let (mut singles, mut pairs, mut violations) = (0, 0, 0);
    for operation in operations {
        let tally = faults::enumerate(operation);
        singles += tally.singles;
        pairs += tally.pairs;
        violations += tally.violations;
        wrong.extend(tally.first);
        wrong.extend(compare::line(&operation.path(), &tally.calls, &documented));
    }
    println!("figure faults_single: {singles}");
    println!("figure faults_pairs: {pairs}");
    println!("figure policy_violations: {violations}");
    assert!(wrong.is_empty(), "{violations} runs broke a promise\n\n{}", wrong.join("\n\n"));
}

/// The crate's operations, unless the test can't run here, which it then says.
#[expect(clippy::print_stdout, reason = "the line is what the runner reads")]
fn simulated_sources(manifest_folder: &str) -> Option<Operations> {
    let sources = Path::new(manifest_folder).join("src");
    if kit::on_real() {
        println!("cuhold-skip: needs the simulated driver");
        return None;
    }
    if !sources.exists() {
        println!("cuhold-skip: compares with the sources, which aren't here");
        return None;
    }
    Some(Operations::read(&sources).unwrap())
}
