//! One run of a scenario with faults, and what is checked after it.

use crate::{flip::World, raw};
use cuhold_driver_sim::{ObjectKind as Simulated, Sim, SimOptions};
use cuhold_driver_sys::{CUresult, Call, Fault, Kind};
use cuhold_handles::{
    AnyCall, CudaWarning, Current, Device, Driver, Error, Fate, Note, Refused, Status, Stream,
    WarningKind,
};
use cuhold_memory::Buffer;
use std::cell::RefCell;

/// The statuses of the first and the second fault. Nobody else answers them.
pub(super) const FIRST: CUresult = CUresult(9001);
pub(super) const SECOND: CUresult = CUresult(9002);

/// A status after which a driver answers nothing else.
pub(super) const FATAL: CUresult = CUresult::ILLEGAL_ADDRESS;

/// Which stream a scenario works on, and what is current meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Situation {
    Created,
    CreatedWithAnotherDeviceCurrent,
    ExposedWithItsOwnContextCurrent,
    Default,
    DefaultWithAnotherDeviceCurrent,
}

pub(super) const SITUATIONS: [Situation; 5] = [
    Situation::Created,
    Situation::CreatedWithAnotherDeviceCurrent,
    Situation::ExposedWithItsOwnContextCurrent,
    Situation::Default,
    Situation::DefaultWithAnotherDeviceCurrent,
];

impl Situation {
    fn stream(self, device: &Device) -> Stream {
        match self {
            Self::Default | Self::DefaultWithAnotherDeviceCurrent => device.legacy_stream(),
            Self::ExposedWithItsOwnContextCurrent => raw::exposed(device.new_stream().unwrap()),
            Self::Created | Self::CreatedWithAnotherDeviceCurrent => device.new_stream().unwrap(),
        }
    }

    fn current<'a>(self, own: &'a Device, other: &'a Device) -> Option<&'a Device> {
        match self {
            Self::Created | Self::Default => None,
            Self::ExposedWithItsOwnContextCurrent => Some(own),
            _ => Some(other),
        }
    }
}

/// What a scenario works with.
pub(super) struct Run {
    pub(super) world: World,
    pub(super) stream: Stream,
    heard: RefCell<Vec<Error>>,
}

impl Run {
    /// The value, or a note of the error.
    pub(super) fn keep<T>(&self, result: Result<T, impl Into<Error>>) -> Option<T> {
        result.map_err(|error| self.heard.borrow_mut().push(error.into())).ok()
    }

    /// The same of a refusal, whose value is then the scenario's.
    pub(super) fn keep_or<T, V>(&self, result: Result<T, Refused<V>>) -> Result<T, V> {
        result.map_err(|refused| {
            self.heard.borrow_mut().push(refused.error);
            refused.value
        })
    }

    pub(super) fn buffer(&self, len: usize) -> Option<Buffer<u32>> {
        self.keep(Buffer::uninit(&self.stream, len))
    }
}

pub(super) type Scenario = fn(&Run) -> Option<()>;

/// What was heard of in a run.
#[derive(Debug)]
struct Told {
    errors: Vec<Error>,
    warnings: Vec<CudaWarning>,
}

impl Told {
    fn times(&self, status: CUresult) -> usize {
        let by_errors = self.errors.iter().map(|error| in_error(error, status));
        let by_warnings = self.warnings.iter().map(|warning| {
            let own = usize::from(warning.status() == Some(status));
            own.max(in_current(warning.current(), status))
        });
        by_errors.chain(by_warnings).sum()
    }

    /// Whether something was said to be leaked, or not known to be gone.
    fn is_leak(&self) -> bool {
        let ended = |error: &Error| matches!(error.call(), Some(AnyCall::Driver(call)) if call.columns().kind == Kind::Destroy);
        let noted = |note: &Note| match note {
            Note::Leaked { .. } | Note::UndoFailed(_) => true,
            Note::Failed(failure) => failure.call.columns().kind == Kind::Destroy,
            _ => false,
        };
        let by_error = |error: &Error| ended(error) || error.notes().iter().any(noted);
        self.errors.iter().any(by_error)
            || self
                .warnings
                .iter()
                .any(|warning| matches!(warning.fate(), Some(Fate::Leaked | Fate::Unknown)))
    }

    fn is_context_lost(&self) -> bool {
        self.errors.iter().any(|error| error.now_current() != Current::NotAsked)
            || self.warnings.iter().any(|warning| warning.current() != Current::NotAsked)
    }

    fn is_mode_lost(&self) -> bool {
        let noted = |note: &Note| matches!(note, Note::ModeNotRestored(_));
        self.errors.iter().any(|error| error.notes().iter().any(noted))
            || self.warnings.iter().any(|w| w.kind() == WarningKind::ModeNotRestored)
    }
}

fn in_error(error: &Error, status: CUresult) -> usize {
    let own = usize::from(error.status() == Some(Status::Driver(status)));
    let is_current_noted =
        error.notes().iter().any(|note| matches!(note, Note::NotRestored { .. }));
    let current = if is_current_noted { 0 } else { in_current(error.now_current(), status) };
    let notes = error.notes().iter().map(|note| match note {
        Note::Failed(failure) | Note::UndoFailed(failure) | Note::ModeNotRestored(failure) => {
            // The mode's failure is a note on itself where nothing else failed.
            let is_error = own == 1 && matches!(note, Note::ModeNotRestored(_));
            usize::from(failure.status == status && !is_error)
        }
        Note::NotRestored { failure, now } => {
            let restore = failure.is_some_and(|failure| failure.status == status);
            usize::from(restore) + in_current(*now, status)
        }
        _ => 0,
    });
    own + current + notes.sum::<usize>()
}

fn in_current(current: Current, status: CUresult) -> usize {
    usize::from(matches!(current, Current::Unknown(failure) if failure.status == status))
}

/// Runs the scenario with these faults and checks it. The calls that it made.
pub(super) fn once(scenario: Scenario, situation: Situation, faults: &[Fault]) -> Vec<Call> {
    let sim = Sim::with_options(SimOptions::with_devices(2));
    let world = World::of(sim.clone());
    let driver = world.driver.clone();
    let other = Device::with_driver(&driver, 1).unwrap();
    let stream = situation.stream(&world.device);
    let run = Run { world, stream, heard: RefCell::default() };
    let by_hand = driver.reclaim().run_by_hand();
    let capture = driver.reports().capture(64);
    let work = || {
        let before = (raw::current(&driver), sim.stack_depth());
        faults.iter().for_each(|fault| sim.faults().arm(*fault));
        let ((), calls) = sim.log().during(|| {
            scenario(&run);
            while by_hand.step() {}
        });
        sim.faults().disarm();
        (calls, before == (raw::current(&driver), sim.stack_depth()))
    };
    let (calls, context_is_back) = match situation.current(&run.world.device, &other) {
        Some(device) => device.with_current(work).unwrap(),
        None => work(),
    };
    let told = Told { errors: run.heard.take(), warnings: capture.take() };
    let folded = usize::try_from(driver.reports().counts().folded).unwrap();
    let about = || format!("{situation:?} {faults:#?}\n{calls:#?}\n{told:#?}");
    for status in [FIRST, SECOND, FATAL] {
        let failed = calls.iter().filter(|entry| entry.status() == status).count();
        // After a fatal status further warnings of an object are only counted.
        let folded = if status == FATAL { folded } else { 0 };
        assert_eq!(told.times(status) + folded, failed, "{status} told: {}", about());
    }
    assert!(context_is_back || told.is_context_lost(), "the context moved: {}", about());
    assert!(
        raw::mode(&driver) == raw::GLOBAL || told.is_mode_lost(),
        "the mode is lost: {}",
        about()
    );
    raw::set_mode(&driver, raw::GLOBAL);
    drop(capture);
    let Run { world, stream, .. } = run;
    drop((stream, other, world, by_hand));
    ended(driver);
    let is_lost = calls.iter().any(|entry| entry.status() == FATAL);
    assert!(sim.violations().is_empty(), "{:#?} {}", sim.violations(), about());
    let leaks: Vec<_> = sim
        .leaks()
        .into_iter()
        .filter(|leak| leak.kind != Simulated::PushedContext || context_is_back)
        .collect();
    assert!(leaks.is_empty() || told.is_leak() || is_lost, "{leaks:#?} {}", about());
    calls.iter().map(|entry| entry.call()).collect()
}

/// Nothing is held any more, and nothing fails any more.
fn ended(driver: Driver) {
    drop(driver.reports().deny());
    driver.close().map_err(|refused| refused.error).unwrap();
}
