//! What each operation has to keep in each place, with nothing failing by plan.

use super::{
    Enrolled,
    check::Complaint,
    place::Place,
    situation::{OF_LEGACY_STREAM, PLAIN},
    stage::{Performed, perform},
};
use crate::{kit, operations::Operations, trace::say};
use cuhold_driver_sys::CUresult;
use cuhold_handles::{CudaWarning, Error, ErrorKind, Status};

/// What doing every operation in a place gave.
#[derive(Default)]
pub(super) struct Kept {
    /// The promises that were broken.
    pub(super) wrong: Vec<String>,
    /// The operations whose set-up needs the simulated driver, which this isn't.
    left_out: Vec<String>,
}

impl Kept {
    /// What has to be said of a test that left operations out.
    pub(super) fn skipped(&self) -> Option<String> {
        (!self.left_out.is_empty()).then(|| {
            let names = self.left_out.join(", ");
            format!("all was done but {names}, which need the simulated driver")
        })
    }
}

/// Does every operation in a place.
pub(super) fn broken(
    operations: &[Enrolled],
    place: Place,
    documented: Option<&Operations>,
) -> Kept {
    let Kept { mut wrong, mut left_out } = Kept::default();
    for operation in operations {
        let path = operation.path();
        let mut captures = Vec::new();
        let mut situations = vec![PLAIN];
        while let Some(situation) = situations.pop() {
            let injected = injected(place);
            if kit::on_real() {
                if NOT_ON_REAL.iter().any(|(of, at, _)| path.starts_with(of) && *at == place) {
                    left_out.push(path.clone());
                    continue;
                }
                say(&format!("{path} {place:?} with {situation:?}\n"));
            }
            let Some(performed) = perform(operation, situation, place, &[], injected) else {
                left_out.push(path.clone());
                continue;
            };
            if performed.asks_for_stream && situation == PLAIN {
                situations.push(OF_LEGACY_STREAM);
            }
            captures.extend(performed.capture);
            let usual = perform(operation, situation, Place::Here, &[], &[]);
            let usual = usual.map(|usual| usual.evidence.told.errors).unwrap_or_default();
            let found = complaints(&path, place, &performed, &usual);
            let excepted = EXCEPTED.iter().any(|(of, at, _)| (*of, *at) == (path.as_str(), place));
            // On a real driver what is current may be luck that holds.
            if excepted && found.is_empty() && !kit::on_real() {
                wrong.push(format!("{path} {place:?}: is excepted, and keeps all promises"));
            }
            if !excepted && !found.is_empty() {
                let story = performed.evidence.story(&found);
                wrong.push(format!("{path} {place:?} with {situation:?}{story}"));
            }
        }
        wrong.extend(
            documented.and_then(|documented| captured(&path, place, &captures, documented)),
        );
    }
    Kept { wrong, left_out }
}

/// Operations that break a promise in a place, and why they have to.
const EXCEPTED: &[(&str, Place, &str)] = &[(
    "Device::set_current",
    Place::DestroyedCurrent,
    "sets its context in the place of the destroyed one, which is what it is for: one call, whose failure leaves the \
     former context current",
)];

/// Operations, by the beginning of their path, that aren't done in a place on a real driver, and why.
const NOT_ON_REAL: &[(&str, Place, &str)] = &[
    (
        "LinkState::",
        Place::UnusedThread,
        "a link stays on its thread, which safe code can't get around; the place does, and the driver then ends the process",
    ),
    (
        "BorrowedMemory::used_on",
        Place::HostFunction,
        "a use that couldn't be marked leaks the memory, and with it the driver: only the simulated driver's host \
         functions run on the thread whose next mark takes its place",
    ),
];

/// The statuses whose every answer must be told.
fn injected(place: Place) -> &'static [Status] {
    match place {
        Place::Lost => &[Status::Driver(CUresult::ILLEGAL_ADDRESS)],
        Place::DestroyedCurrent => &[Status::Driver(CUresult::CONTEXT_IS_DESTROYED)],
        _ => &[],
    }
}

/// `usual` are the errors that the operation gives anywhere: what the simulated driver can't do at all.
fn complaints(path: &str, place: Place, performed: &Performed, usual: &[Error]) -> Vec<Complaint> {
    let Performed { evidence, child_calls, capture, .. } = performed;
    let told = &evidence.told;
    let mut found = match place {
        Place::Exiting | Place::ForkedChild => evidence.violations(),
        Place::Lost => evidence.complaints_of_lost(),
        _ => evidence.complaints(),
    };
    if !matches!(place, Place::Lost | Place::DestroyedCurrent) {
        let warnings = told.warnings.iter().filter(|warning| !may_warn(warning, place));
        found.extend(warnings.map(|warning| format!("it warned: {warning}")));
        if told.folded > 0 {
            found.push(format!("{} warnings were folded", told.folded));
        }
    }
    let is_usual = |error: &Error| {
        error.status().is_some() && usual.iter().any(|usual| usual.status() == error.status())
    };
    let refused =
        told.errors.iter().filter(|error| !may_fail(error, place, *capture) && !is_usual(error));
    found.extend(refused.map(|error| format!("it failed: {error}")));
    // A new call may be made, and is refused without reaching the driver: an end makes none.
    if *child_calls > 0 && (path.ends_with("::drop") || path.ends_with("::close")) {
        found.push(format!("the child made {child_calls} calls"));
    }
    if path.ends_with("::drop") && *capture == Some(false) {
        found.push("a drop invalidated a foreign capture".to_owned());
    }
    found
}

/// Whether an operation may warn so: inside a host function of what can't be handed over, without having asked the
/// driver.
fn may_warn(warning: &CudaWarning, place: Place) -> bool {
    place == Place::HostFunction && warning.call().is_none() && warning.fate().is_some()
}

/// Whether an operation may fail so in this place.
fn may_fail(error: &Error, place: Place, capture: Option<bool>) -> bool {
    match place {
        Place::Here | Place::UnusedThread | Place::Unwinding | Place::Sink => false,
        Place::HostFunction => error.kind() == ErrorKind::NotPermitted,
        Place::Exiting => error.is(CUresult::DEINITIALIZED),
        Place::ForkedChild => error.kind() == ErrorKind::Forked,
        Place::ForeignCapture | Place::ForeignCaptureOfOtherDevice => capture == Some(false),
        Place::DestroyedCurrent => true,
        Place::Lost => error.is(CUresult::ILLEGAL_ADDRESS),
    }
}

/// P11: an operation invalidates a foreign capture if, and only if, its documentation says so.
fn captured(
    path: &str,
    place: Place,
    captures: &[bool],
    documented: &Operations,
) -> Option<String> {
    let operation = documented.operations.get(path)?;
    if captures.is_empty() {
        return None;
    }
    let invalidated = captures.contains(&false);
    match (operation.invalidates_captures, invalidated) {
        (false, true) => Some(format!(
            "{path} invalidated a foreign capture, and its documentation doesn't say that it \"invalidates captures\""
        )),
        (true, false) if place == Place::ForeignCapture => {
            Some(format!("{path} says that it \"invalidates captures\", and didn't"))
        }
        _ => None,
    }
}

/// Why a place can't be had here, if so.
pub(super) fn missing(place: Place) -> Option<&'static str> {
    let simulated = matches!(place, Place::Exiting | Place::ForkedChild | Place::Lost);
    if kit::on_real() && simulated {
        return Some("needs the simulated driver");
    }
    if kit::on_real() && place == Place::ForeignCaptureOfOtherDevice && !has_two_devices() {
        return Some("needs two devices");
    }
    None
}

fn has_two_devices() -> bool {
    cuhold_handles::Driver::load()
        .and_then(|driver| driver.device_count())
        .is_ok_and(|count| count > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_left_an_operation_out_says_which() {
        assert_eq!(Kept::default().skipped(), None);
        let left_out = vec!["A::b".to_owned(), "C::d".to_owned()];
        let said = Kept { left_out, ..Kept::default() }.skipped().unwrap();
        assert_eq!(said, "all was done but A::b, C::d, which need the simulated driver");
    }
}
