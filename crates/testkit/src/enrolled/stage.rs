//! One run of an operation: a driver and what stands around the body, set up before it and cleared away after it.

use super::{
    Enrolled, NowCurrent, StreamKind,
    check::{Evidence, Lost},
    compilers::Small,
    journal::{AnyFault, Injectors, Journal},
    place::Place,
    run::{Heard, Run, Window},
    situation::Situation,
    told::Told,
};
use crate::{kit, stack, trace::Trace};
use cuhold_driver_sim::{Sim, SimOptions};
use cuhold_driver_sys::{DriverApi, Hooked, ffi::*, forward_driver_api};
use cuhold_handles::{AnyCall, Context, ContextFlags, Device, Driver, Status, Stream};
use std::{
    cell::{Cell, OnceCell, RefCell},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// The driver of one run: a simulated one of its own, or the real one with hooks of its own.
pub(super) struct Ground {
    pub(super) sim: Option<Sim>,
    pub(super) driver: Driver,
    /// Another library's value of the same driver.
    pub(super) library: Driver,
    /// The calls of the driver and of the compilers, and what is to fail of them.
    pub(super) journal: Arc<Journal>,
    pub(super) injectors: Injectors,
    pub(super) compilers: Small,
    /// Whether the process is a forked child's from here on. (Of a simulated driver.)
    pub(super) is_child: Arc<AtomicBool>,
}

/// A simulated driver that becomes that of a forked child.
struct Forking {
    parent: Sim,
    child: Sim,
    is_child: Arc<AtomicBool>,
}

impl Forking {
    fn api(&self) -> &dyn DriverApi {
        if self.is_child.load(Ordering::SeqCst) { &self.child } else { &self.parent }
    }
}

forward_driver_api!(Forking, |this| this.api());

impl Ground {
    pub(super) fn new(place: Place) -> Self {
        if kit::on_real() { Self::real() } else { Self::simulated(place) }
    }

    fn simulated(place: Place) -> Self {
        let sim = Sim::with_options(SimOptions::with_devices(2));
        let is_child = Arc::<AtomicBool>::default();
        let (journal, injectors) = (Arc::<Journal>::default(), Injectors::default());
        let hooks = (Arc::clone(&journal), Arc::clone(&injectors.driver));
        let driver = if place == Place::ForkedChild {
            let (parent, child) = (sim.clone(), sim.forked_child());
            let forking = Forking { parent, child, is_child: Arc::clone(&is_child) };
            Driver::from_api(Hooked::new(forking, hooks))
        } else {
            Driver::from_api(Hooked::new(sim.clone(), hooks))
        };
        let library = Driver::from_api(sim.clone());
        let (sim, compilers) = (Some(sim), Small::default());
        Self { sim, driver, library, journal, injectors, compilers, is_child }
    }

    fn real() -> Self {
        let library = Driver::load().unwrap_or_else(|error| panic!("no real driver: {error}"));
        // Kept by the library's value, so that the run's own releases it cheaply.
        drop(Device::with_driver(&library, 0).unwrap());
        let (journal, injectors) = (Arc::<Journal>::default(), Injectors::default());
        let hooks = (Arc::clone(&journal), (Trace::new(), Arc::clone(&injectors.driver)));
        let driver = library.hooked(hooks);
        let (compilers, is_child) = (Small::default(), Arc::default());
        Self { sim: None, driver, library, journal, injectors, compilers, is_child }
    }
}

/// What one run gave.
pub(super) struct Performed {
    pub(super) evidence: Evidence,
    /// How many faults came about.
    pub(super) fired: u64,
    pub(super) asks_for_stream: bool,
    /// Calls of a forked child.
    pub(super) child_calls: u64,
    /// Of a foreign thread's capture meanwhile, whether it is still valid.
    pub(super) capture: Option<bool>,
}

/// Runs an operation once, on a driver of its own; `None` where its set-up needs the simulated one, and this isn't it.
pub(super) fn perform(
    operation: &Enrolled,
    situation: Situation,
    place: Place,
    faults: &[AnyFault],
    injected: &[Status],
) -> Option<Performed> {
    let ground = Ground::new(place);
    let Ground { driver, library, .. } = &ground;
    let heard = Heard::default();
    heard.listen_to(driver);
    let device = Device::with_driver(driver, 0).unwrap();
    let other = OnceCell::new();
    let current = match situation.current {
        NowCurrent::Nothing => None,
        NowCurrent::Own => Some(device.context().clone()),
        NowCurrent::OfSameDevice => Some(Context::new(&device, ContextFlags::default()).unwrap()),
        NowCurrent::OfOtherDevice => {
            let other = other.get_or_init(|| Device::with_driver(driver, 1).unwrap());
            Some(other.context().clone())
        }
        NowCurrent::OfUnknownDevice => {
            Some(Device::with_driver(library, 1).unwrap().context().clone())
        }
    };
    if let Some(context) = &current {
        stack::push(library.api(), context.as_raw());
    }
    let by_hand = driver.reclaim().run_by_hand();
    let run = Run {
        ground: &ground,
        place,
        device: &device,
        other,
        situation,
        stream: stream(&device, situation.stream),
        by_hand: &by_hand,
        faults,
        heard: heard.clone(),
        stream_was_asked_for: Cell::new(false),
        drivers: Arc::new(()),
        window: RefCell::new(None),
        unusable: RefCell::new(None),
        capture: Cell::new(None),
    };
    (operation.body)(&run);
    run.put_thread_back();
    run.wait_for_new_drivers();
    let Run { stream, other, window, unusable, stream_was_asked_for, capture, .. } = run;
    stack::take_down(library.api());
    drop((stream, current, by_hand, device, other));
    let window = window.into_inner();
    assert!(window.is_some() || kit::on_real(), "{} does nothing", operation.path());
    let window = window?;
    let gathered = Gathered { place, window, unusable: unusable.into_inner(), heard, injected };
    Some(Performed {
        asks_for_stream: stream_was_asked_for.get(),
        capture: capture.get(),
        ..gathered.end(ground)
    })
}

/// What was seen before the driver ends.
struct Gathered<'a> {
    place: Place,
    window: Window,
    unusable: Option<String>,
    heard: Heard,
    injected: &'a [Status],
}

impl Gathered<'_> {
    /// Ends the driver, and looks at what is left.
    fn end(self, ground: Ground) -> Performed {
        let Ground { sim, driver, library, injectors, compilers, .. } = ground;
        let folded = driver.reports().counts().folded;
        let is_lost = driver.is_lost();
        if sim.is_none() {
            // What holds it still is told below.
            let _unique: bool = kit::becomes_unique(&driver);
        }
        let closed = driver.close().map_err(|refused| refused.error.to_string());
        // The real one's lives as long as the process.
        if sim.is_some() {
            drop(library.close());
        }
        let mut told = Told { folded: usize::try_from(folded).unwrap(), ..self.heard.take() };
        let Window { calls, before, after, created, warnings, folded } = self.window;
        if self.place.is_for_good() {
            // What came later is about the end of everything.
            told.warnings.truncate(warnings);
            told.folded = folded;
        }
        let of_compilers = calls.iter().filter(|made| !matches!(made.call, AnyCall::Driver(_)));
        let of_compilers = if self.place == Place::ForkedChild { of_compilers.count() } else { 0 };
        let evidence = Evidence {
            calls,
            injected: self.injected.to_vec(),
            before,
            after,
            told,
            created,
            unusable: self.unusable,
            closed,
            leaks: lost(sim.as_ref(), &compilers),
            violations: violations(sim.as_ref(), &compilers, is_lost),
        };
        Performed {
            evidence,
            fired: injectors.fired(),
            asks_for_stream: false,
            child_calls: sim.as_ref().map_or(0, Sim::calls_of_forked_child) + of_compilers as u64,
            capture: None,
        }
    }
}

/// What nobody ended; of a real driver's objects it isn't known.
fn lost(sim: Option<&Sim>, compilers: &Small) -> Vec<Lost> {
    let of_driver = |sim: &Sim| sim.leaks().into_iter().chain(sim.gone_with_context());
    Lost::of(sim.into_iter().flat_map(of_driver)).chain(compilers.lost()).collect()
}

/// What the simulated driver and the compilers noticed. A driver that was said to be lost does no more work, and so none
/// that could be out of order: here it does, once the fault is disarmed.
fn violations(sim: Option<&Sim>, compilers: &Small, is_lost: bool) -> Vec<String> {
    let of_driver = sim.into_iter().flat_map(|sim| [sim.violations(), sim.dangers()].concat());
    let of_driver = of_driver.filter(|violation| violation.operations.is_empty() || !is_lost);
    of_driver.map(|violation| violation.to_string()).chain(compilers.violations()).collect()
}

fn stream(device: &Device, kind: StreamKind) -> Stream {
    match kind {
        StreamKind::Legacy => device.legacy_stream(),
        StreamKind::Created => device.new_stream().unwrap(),
        StreamKind::Exposed => {
            let stream = device.new_stream().unwrap();
            let _: CUstream = stream.as_raw();
            stream
        }
    }
}
