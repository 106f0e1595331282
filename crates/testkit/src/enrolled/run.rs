//! What the body of an enrolled operation is given, and the one part of it in which calls fail and are logged.

use super::{
    NowCurrent, StreamKind,
    check::Lost,
    journal::{AnyFault, Journal, Made},
    place::Place,
    raw,
    situation::Situation,
    stage::Ground,
    told::Told,
};
use crate::{PTX, kernels, stack::ThreadState};
use cuhold_driver_sim::{Leak, Sim};
use cuhold_driver_sys::{
    DriverApi, Faults, Hooked, ffi::*, forward_driver_api, nvjitlink::NvJitLinkApi,
    nvrtc::NvrtcApi, nvvm::NvvmApi,
};
use cuhold_handles::{
    ByHand, Context, CudaWarning, Device, Driver, Error, Event, EventOptions, Kernel, Library,
    Mark, Refused, Sink, Stream,
};
use std::{
    cell::{Cell, OnceCell, RefCell},
    fmt, iter,
    sync::{Arc, Mutex, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// One run of an enrolled operation: a simulated driver of its own, and objects to work with.
///
/// A body sets up what it needs, does exactly the operation in [`op`](Self::op), [`create`](Self::create) or
/// [`repeat`](Self::repeat), once, and drops the rest. Only in that part calls fail and are logged.
pub struct Run<'a> {
    pub(super) ground: &'a Ground,
    pub(super) place: Place,
    pub(super) device: &'a Device,
    pub(super) other: OnceCell<Device>,
    pub(super) situation: Situation,
    pub(super) stream: Stream,
    pub(super) by_hand: &'a ByHand<'a>,
    pub(super) faults: &'a [AnyFault],
    pub(super) heard: Heard,
    pub(super) stream_was_asked_for: Cell<bool>,
    /// Held by each other driver value until it has ended.
    pub(super) drivers: Arc<()>,
    pub(super) window: RefCell<Option<Window>>,
    pub(super) unusable: RefCell<Option<String>>,
    /// Of a foreign thread's capture meanwhile, whether it is still valid.
    pub(super) capture: Cell<Option<bool>>,
}

/// What was told so far, on whatever thread.
#[derive(Clone, Default)]
pub(super) struct Heard(Arc<Mutex<Told>>);

impl Heard {
    fn warning(&self, warning: CudaWarning) {
        self.0.lock().unwrap().warnings.push(warning);
    }

    fn error(&self, error: Error) {
        self.0.lock().unwrap().errors.push(error);
    }

    fn warnings(&self) -> usize {
        self.0.lock().unwrap().warnings.len()
    }

    /// All warnings of the driver come here.
    pub(super) fn listen_to(&self, driver: &Driver) {
        let heard = self.clone();
        drop(driver.reports().set_sink(Sink::new(move |warning| heard.warning(*warning))));
    }

    pub(super) fn take(&self) -> Told {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// What was seen while the operation was made.
pub(super) struct Window {
    pub(super) calls: Vec<Made>,
    pub(super) before: ThreadState,
    pub(super) after: ThreadState,
    /// What a failed creation left.
    pub(super) created: Vec<Lost>,
    /// How many warnings there were by then, and how many that were only counted.
    pub(super) warnings: usize,
    pub(super) folded: usize,
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl Run<'_> {
    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.device.driver()
    }

    /// The device that the operation is about.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.device
    }

    /// Its primary context.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.device.context()
    }

    /// Another device.
    #[must_use]
    pub fn second_device(&self) -> &Device {
        self.other.get_or_init(|| Device::with_driver(self.driver(), 1).unwrap())
    }

    /// A stream of the device. An operation that works on a stream uses this one: it is another kind of stream in each
    /// situation, which one is [`stream_kind`](Self::stream_kind).
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.stream_was_asked_for.set(true);
        &self.stream
    }

    /// Which kind of stream that is.
    #[must_use]
    pub fn stream_kind(&self) -> StreamKind {
        self.situation.stream
    }

    /// What is current meanwhile.
    #[must_use]
    pub fn now_current(&self) -> NowCurrent {
        self.situation.current
    }

    /// A new stream of the device.
    #[must_use]
    pub fn new_stream(&self) -> Stream {
        self.device.new_stream().unwrap()
    }

    /// A new event of the device.
    #[must_use]
    pub fn new_event(&self) -> Event {
        self.device.new_event(EventOptions::default()).unwrap()
    }

    /// The test kernels, loaded: see [`PTX`].
    #[must_use]
    pub fn kernels(&self) -> Library {
        if let Some(sim) = &self.ground.sim {
            kernels::register(sim);
        }
        self.device.load(PTX).unwrap()
    }

    /// The test kernel of this name.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Kernel {
        self.kernels().kernel(name).unwrap()
    }

    /// The simulated driver, for a set-up that no other has. On the real one there is none: the body returns without
    /// doing the operation, and the test says that it left the operation out.
    #[must_use]
    pub fn sim(&self) -> Option<&Sim> {
        self.ground.sim.as_ref()
    }

    /// The same, in a place that only the simulated driver has.
    pub(super) fn simulated(&self) -> &Sim {
        self.ground.sim.as_ref().unwrap()
    }

    /// A small NVRTC, for an operation that works on one: it compiles nothing, and its calls fail like the driver's.
    #[must_use]
    pub fn nvrtc(&self) -> Arc<dyn NvrtcApi> {
        let hooks = (Arc::clone(&self.ground.journal), Arc::clone(&self.ground.injectors.nvrtc));
        Arc::new(Hooked::new(self.ground.compilers.clone(), hooks))
    }

    /// A small NVVM, as [`nvrtc`](Self::nvrtc) gives one.
    #[must_use]
    pub fn nvvm(&self) -> Arc<dyn NvvmApi> {
        let hooks = (Arc::clone(&self.ground.journal), Arc::clone(&self.ground.injectors.nvvm));
        Arc::new(Hooked::new(self.ground.compilers.clone(), hooks))
    }

    /// A small nvJitLink, as [`nvrtc`](Self::nvrtc) gives one.
    #[must_use]
    pub fn nvjitlink(&self) -> Arc<dyn NvJitLinkApi> {
        let hooks =
            (Arc::clone(&self.ground.journal), Arc::clone(&self.ground.injectors.nvjitlink));
        Arc::new(Hooked::new(self.ground.compilers.clone(), hooks))
    }

    /// What fails, for a set-up that needs something to have failed; to be disarmed before the operation.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.ground.injectors.driver
    }

    /// A context that the library knows nothing of, to be taken over or borrowed.
    #[must_use]
    pub fn raw_context(&self) -> CUcontext {
        raw::new_context(self.ground.library.api())
    }

    /// Ends it, if nobody took it over.
    pub fn end_raw_context(&self, raw: CUcontext) {
        if self.place.is_for_good() {
            return;
        }
        raw::end_context(self.ground.library.api(), raw);
    }

    /// Another driver value over the same driver, not initialized. What it warns of is heard here, too.
    #[must_use]
    pub fn new_driver(&self) -> Driver {
        let (below, _alive) = (self.driver().clone(), Arc::clone(&self.drivers));
        let driver = Driver::from_api(Watched { below, _alive });
        self.heard.listen_to(&driver);
        driver
    }

    /// Waits until the values of [`new_driver`](Self::new_driver) have ended, which they do on a thread of theirs.
    pub fn wait_for_new_drivers(&self) {
        let until = Instant::now() + Duration::from_secs(10);
        while Arc::strong_count(&self.drivers) > 1 {
            assert!(Instant::now() < until, "something still holds another driver value");
            thread::yield_now();
        }
    }

    /// Does the operation. In here calls fail and are logged; what it leaves to the reclaimer is done in here, too.
    pub fn op<T>(&self, operation: impl FnOnce() -> T) -> T {
        // What the set-up has left to the reclaimer.
        self.reclaim();
        let (mut operation, mut value) = (Some(operation), None);
        let window =
            self.place.perform(self, &mut || value = operation.take().map(|operation| operation()));
        assert!(self.window.replace(Some(window)).is_none(), "a body does one operation");
        value.unwrap()
    }

    /// Another library's driver.
    pub(super) fn library(&self) -> &Driver {
        &self.ground.library
    }

    pub(super) fn journal(&self) -> &Journal {
        &self.ground.journal
    }

    pub(super) fn thread_state(&self) -> ThreadState {
        ThreadState::of(self.driver().api())
    }

    /// From here on this is a forked child.
    pub(super) fn fork(&self) {
        self.ground.is_child.store(true, Ordering::SeqCst);
    }

    /// Does something after the operation that must work, but where nothing can be done with the driver any more.
    pub fn finish(&self, work: impl FnOnce() -> Result<(), Error>) {
        if !self.place.is_for_good() {
            work().unwrap();
        }
    }

    /// Releases what the reclaimer was left.
    pub(super) fn reclaim(&self) {
        while self.by_hand.step() {}
    }

    /// Does something on the calling thread, with what is to fail armed, and watches it.
    pub(super) fn watch(&self, work: impl FnOnce()) -> Window {
        let api = self.driver().api();
        let before = ThreadState::of(api);
        self.faults.iter().for_each(|fault| self.ground.injectors.arm(*fault));
        let ((), calls) = self.journal().during(work);
        self.ground.injectors.disarm();
        let after = if self.place.is_over() { before.clone() } else { ThreadState::of(api) };
        let (warnings, folded) = (self.heard.warnings(), self.driver().reports().counts().folded);
        let folded = usize::try_from(folded).unwrap();
        Window { calls, before, after, created: Vec::new(), warnings, folded }
    }

    /// Does an operation that can be done again, and keeps its error. Afterwards it is done again, with nothing failing:
    /// the objects that it works on must be usable whatever happened to them (P2).
    pub fn repeat<T, E: Into<Error>>(
        &self,
        mut operation: impl FnMut() -> Result<T, E>,
    ) -> Option<T> {
        let value = self.keep(self.op(&mut operation));
        self.again(|| operation().map(drop).map_err(Into::into));
        value
    }

    /// Does an operation that makes something, and keeps its error. If it fails, everything that it made is gone by then
    /// (P2), and it can be done again.
    pub fn create<T, E: Into<Error>>(&self, operation: impl Fn() -> Result<T, E>) -> Option<T> {
        let before = self.alive();
        let result = self.op(&operation);
        if result.is_err() {
            let idle = self.idle_events();
            let is_left = |lost: &Lost| {
                !before.iter().any(|b| b.raw == lost.raw) && !idle.contains(&lost.raw)
            };
            let left = self.alive().into_iter().filter(is_left);
            if let Some(window) = self.window.borrow_mut().as_mut() {
                window.created = left.collect();
            }
        }
        let value = self.keep(result);
        self.again(|| operation().map(drop).map_err(Into::into));
        value
    }

    /// As [`repeat`](Self::repeat), of an operation that makes a context current on purpose: where it succeeds, that one
    /// stands in the place of the former.
    pub fn set_current<E: Into<Error>>(
        &self,
        target: &Context,
        operation: impl Fn() -> Result<(), E>,
    ) {
        let result = self.op(&operation);
        if result.is_ok()
            && let Some(window) = self.window.borrow_mut().as_mut()
        {
            let mut meant = window.before.clone();
            if !meant.stack.is_empty() {
                meant.stack.remove(0);
            }
            meant.stack.insert(0, target.as_raw());
            if meant == window.after {
                window.after = window.before.clone();
            }
        }
        self.keep(result);
        self.again(|| operation().map_err(Into::into));
    }

    /// What is alive in the simulated driver; of the real one it isn't known.
    #[must_use]
    pub fn live(&self) -> Vec<Leak> {
        self.ground.sim.as_ref().map(Sim::leaks).unwrap_or_default()
    }

    /// The same, of the compilers as well.
    fn alive(&self) -> Vec<Lost> {
        Lost::of(self.live()).chain(self.ground.compilers.lost()).collect()
    }

    /// The events that the devices' contexts keep for the next mark.
    fn idle_events(&self) -> Vec<u64> {
        let devices = iter::once(self.device).chain(self.other.get());
        let events = devices.flat_map(|device| device.context().idle_events());
        events.map(|event| event.addr() as u64).collect()
    }

    /// Takes every idle event of the device's context, for an operation that is to make its own.
    #[must_use]
    pub fn hold_idle_events(&self) -> Vec<Mark<'_>> {
        // What the set-up has left to the reclaimer gives its events back.
        self.reclaim();
        let idle = self.context().idle_events();
        idle.iter().map(|_| Mark::take(self.context()).unwrap()).collect()
    }

    /// Does something with nothing failing, which must work.
    fn again(&self, operation: impl FnOnce() -> Result<(), Error>) {
        if self.place.is_for_good() {
            return;
        }
        self.put_thread_back();
        if let Err(error) = operation() {
            self.unusable.replace(Some(error.to_string()));
        }
    }

    /// Makes the thread's state what it was before the operation, which may have told that it couldn't.
    pub(super) fn put_thread_back(&self) {
        if let Some(window) = self.window.borrow().as_ref()
            && !self.place.is_for_good()
        {
            window.before.put_back(self.driver().api());
        }
    }

    /// The value, or a note of the error.
    pub fn keep<T>(&self, result: Result<T, impl Into<Error>>) -> Option<T> {
        result.map_err(|error| self.heard.error(error.into())).ok()
    }

    /// The same of a refusal, whose value comes back.
    ///
    /// # Errors
    /// The refusal's value.
    pub fn keep_or<T, V>(&self, result: Result<T, Refused<V>>) -> Result<T, V> {
        result.map_err(|refused| {
            self.heard.error(refused.error);
            refused.value
        })
    }
}

/// A driver whose end can be seen.
struct Watched {
    below: Driver,
    _alive: Arc<()>,
}

impl Watched {
    fn api(&self) -> &dyn DriverApi {
        self.below.api()
    }
}

forward_driver_api!(Watched, |this| this.api());
