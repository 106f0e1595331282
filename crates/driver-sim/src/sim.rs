//! [`Sim`]: the simulated driver as its users hold it, with its controls and audits.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use cuhold_driver_sys::{
    Call, CallLog, DriverApi, Faults, Hooked, Life, ffi::*, forward_driver_api,
};

use crate::{
    audit::{CallSite, Leak, ObjectKind, Violation},
    code::{KernelCode, KernelFault, KernelLaunch},
    dump::Dump,
    memory::Exchange,
    options::SimOptions,
    world::{SIMULATED, World},
};

/// A simulated CUDA driver. Clones are the same driver.
///
/// Calls go through a call log and a fault injector on their way in; both are off at first.
///
/// # Examples
/// ```
/// use cuhold_driver_sim::{ObjectKind, Sim, ViolationKind};
/// use cuhold_driver_sim::cuhold_driver_sys::{CUresult, Calls, Fault, ffi::*};
///
/// let sim = Sim::new();
/// let calls = Calls::new(&sim);
/// let (mut ctx, mut stream) = (CUcontext::NULL, CUstream::NULL);
/// // SAFETY: the pointers are of locals; the handles are the driver's own.
/// unsafe {
///     calls.cuInit(0)?;
///     calls.cuCtxCreate_v4(&mut ctx, std::ptr::null_mut(), 0, 0)?;
///     calls.cuStreamCreate(&mut stream, 0)?;
/// }
/// assert_eq!(sim.live(ObjectKind::Stream), 1);
///
/// // A destroy that is done, but reported as failed: the stream is gone, and destroying it again is a violation.
/// sim.faults().arm(Fault::done_but_failed(CUresult::UNKNOWN).on_function("cuStreamDestroy").nth(1));
/// // SAFETY: as above; the simulator survives the second destroy.
/// let answers = [(); 2].map(|()| unsafe { calls.cuStreamDestroy_v2(stream) });
/// assert_eq!(answers.map(|a| a.map_err(|f| f.status)), [Err(CUresult::UNKNOWN), Err(CUresult::INVALID_HANDLE)]);
/// assert_eq!(sim.live(ObjectKind::Stream), 0);
/// assert_eq!(sim.violations()[0].kind, ViolationKind::DoubleDestroy);
/// # Ok::<(), cuhold_driver_sim::cuhold_driver_sys::Failure>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sim {
    shared: Arc<Shared>,
    /// Whether this handle is how a forked child sees the driver.
    forked: bool,
}

#[derive(Debug)]
struct Shared {
    world: World,
    hooked: Hooked<World, (Arc<CallLog>, Arc<Faults>)>,
    log: Arc<CallLog>,
    faults: Arc<Faults>,
    forked: Forked,
}

/// The driver in a forked child: every call is counted and answers `NOT_INITIALIZED`, nothing else is touched.
#[derive(Debug, Default)]
struct Forked {
    calls: AtomicU64,
}

#[expect(unsafe_code, reason = "implements the driver's trait")]
// SAFETY: *written*: no method answers success. *No unwinding*, *any thread*: each counts and answers.
unsafe impl DriverApi for Forked {
    fn life(&self) -> Life {
        Life::Forked
    }

    fn unsupported(&self, _: Call) -> CUresult {
        self.calls.fetch_add(1, Ordering::Relaxed);
        CUresult::NOT_INITIALIZED
    }
}

forward_driver_api!(Sim, |this| this.api());

impl Sim {
    /// One device, driver 13.0; see [`SimOptions`]. Starts no thread.
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(SimOptions::default())
    }

    /// A driver set up so.
    #[must_use]
    pub fn with_options(options: SimOptions) -> Self {
        Self::of_process(options, Exchange::default())
    }

    /// Another process on the same machine, set up so: a driver of its own, which can open and import what this one
    /// exports, and the other way round. Device memory is counted for each process by itself, and no handle or address of
    /// one means anything to another. Where one waits for another's work, that work runs on the waiting thread.
    ///
    /// # Examples
    /// ```
    /// use cuhold_driver_sim::{Sim, SimOptions};
    ///
    /// let here = Sim::new();
    /// let there = here.other_process(SimOptions::default());
    /// # drop(there);
    /// ```
    #[must_use]
    pub fn other_process(&self, options: SimOptions) -> Self {
        let exchange = self.shared.world.state().memory.exchange.clone();
        Self::of_process(options, exchange)
    }

    fn of_process(options: SimOptions, exchange: Exchange) -> Self {
        let world = World::new(options, exchange);
        let (log, faults) = (Arc::new(CallLog::new()), Arc::new(Faults::new()));
        let hooked = Hooked::new(world.clone(), (Arc::clone(&log), Arc::clone(&faults)));
        let shared = Shared { world, hooked, log, faults, forked: Forked::default() };
        Self { shared: Arc::new(shared), forked: false }
    }

    /// The functions that are simulated; each other one answers *missing*.
    #[must_use]
    pub fn simulated() -> &'static [Call] {
        SIMULATED
    }

    fn api(&self) -> &dyn DriverApi {
        if self.forked { &self.shared.forked } else { &self.shared.hooked }
    }

    /// The log of calls; start it to keep them.
    #[must_use]
    pub fn log(&self) -> &CallLog {
        &self.shared.log
    }

    /// The fault injector.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Says what a kernel does: `kernel` runs the whole grid when the launch's stream comes to it, in every image that
    /// has a kernel of this name. Launches made before keep what was registered then.
    ///
    /// A kernel without one can't be launched: the launch answers *missing*. One that panics faults (`LAUNCH_FAILED`).
    ///
    /// # Examples
    /// ```
    /// use cuhold_driver_sim::Sim;
    ///
    /// let sim = Sim::new();
    /// sim.register_kernel("axpy", |launch| {
    ///     let (a, n) = (launch.param::<f32>(0)?, launch.param::<u32>(3)? as usize);
    ///     let x = launch.slice::<f32>(launch.param(1)?, n)?;
    ///     let mut y = launch.slice_mut::<f32>(launch.param(2)?, n)?;
    ///     for i in launch.threads().map(|thread| thread.global_x()).filter(|i| *i < n) {
    ///         y[i] += a * x[i];
    ///     }
    ///     Ok(())
    /// });
    /// ```
    pub fn register_kernel(
        &self,
        name: impl Into<String>,
        kernel: impl Fn(&mut KernelLaunch<'_>) -> Result<(), KernelFault> + Send + Sync + 'static,
    ) {
        let before = self.shared.world.state().code.register(name.into(), KernelCode::new(kernel));
        // Dropped with nothing locked: what it owns is the caller's.
        drop(before);
    }

    /// Puts memory there that another API would have exported and this driver imported in a context, and gives its
    /// handle; null where the context isn't live. It is ended as imported memory is.
    #[must_use]
    pub fn plant_external_memory(&self, context: CUcontext, size_bytes: u64) -> CUexternalMemory {
        let mut turn = self.shared.world.turn(Call::cuImportExternalMemory);
        turn.plant_memory(context, size_bytes)
    }

    /// The same for a semaphore: a counter, 0 at first, that signals set and waits wait for.
    #[must_use]
    pub fn plant_external_semaphore(&self, context: CUcontext) -> CUexternalSemaphore {
        self.shared.world.turn(Call::cuImportExternalSemaphore).plant_semaphore(context)
    }

    /// Sets a planted semaphore's counter, as the other API would.
    pub fn signal_external_semaphore(&self, semaphore: CUexternalSemaphore, value: u64) {
        self.shared
            .world
            .turn(Call::cuSignalExternalSemaphoresAsync)
            .signal_planted(semaphore, value);
    }

    /// The same for a buffer of a graphics API, zeroed.
    #[must_use]
    pub fn plant_graphics_buffer(
        &self,
        context: CUcontext,
        size_bytes: usize,
    ) -> CUgraphicsResource {
        let mut turn = self.shared.world.turn(Call::cuGraphicsGLRegisterBuffer);
        turn.plant_graphics(context, size_bytes)
    }

    /// How many calls reached this driver so far: the number of the last one, as a [`CallSite`] has it.
    #[must_use]
    pub fn calls_made(&self) -> u64 {
        self.shared.world.state().calls
    }

    /// The violations so far, oldest first; of very many the first ten thousand.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        let mut state = self.shared.world.state();
        state.collect_early_frees();
        state.violations.clone()
    }

    /// The same, and forgets them.
    #[must_use]
    pub fn take_violations(&self) -> Vec<Violation> {
        let mut state = self.shared.world.state();
        state.collect_early_frees();
        std::mem::take(&mut state.violations)
    }

    /// What would have become a violation with one more wait: pools that ended too early for streams that nobody has
    /// waited for since, streams that are gone included. A layer over the driver, which doesn't know whether its caller
    /// will wait, leaves none.
    #[must_use]
    pub fn dangers(&self) -> Vec<Violation> {
        self.shared.world.state().dangers()
    }

    /// Everything that was made and not ended: live objects, retained primary contexts, contexts on the stacks of
    /// threads. What a context's end took along isn't here, but in [`gone_with_context`](Self::gone_with_context).
    #[must_use]
    pub fn leaks(&self) -> Vec<Leak> {
        self.shared.world.state().leaks()
    }

    /// The simulated world as it is, to be read: who has which context current, what each stream has queued and waits for,
    /// events, memory and pools with their counters, captures, graphs, what isn't ended yet, and the violations so far. No
    /// call is made and nothing runs.
    ///
    /// # Examples
    /// ```
    /// use cuhold_driver_sim::Sim;
    /// use cuhold_driver_sim::cuhold_driver_sys::{Calls, ffi::*};
    ///
    /// let sim = Sim::new();
    /// let calls = Calls::new(&sim);
    /// let (mut context, mut first, mut second) = (CUcontext::NULL, CUstream::NULL, CUstream::NULL);
    /// let mut event = CUevent::NULL;
    /// unsafe extern "C" fn nothing(_: *mut c_void) {}
    /// // SAFETY: the pointers are of locals, the handles the driver's own; the function uses no data.
    /// unsafe {
    ///     calls.cuInit(0)?;
    ///     calls.cuCtxCreate_v4(&mut context, std::ptr::null_mut(), 0, 0)?;
    ///     calls.cuStreamCreate(&mut first, 1)?;
    ///     calls.cuStreamCreate(&mut second, 1)?;
    ///     calls.cuEventCreate(&mut event, 0)?;
    ///     calls.cuLaunchHostFunc(first, Some(nothing), std::ptr::null_mut())?;
    ///     calls.cuEventRecord(event, first)?;
    ///     calls.cuStreamWaitEvent(second, event, 0)?;
    /// }
    /// let dump = sim.dump().to_string();
    /// assert!(dump.contains("queued: host function"), "{dump}");
    /// assert!(dump.contains("queued: a wait, waits for stream 0x"), "{dump}");
    /// # Ok::<(), cuhold_driver_sim::cuhold_driver_sys::Failure>(())
    /// ```
    #[must_use]
    pub fn dump(&self) -> Dump {
        let mut state = self.shared.world.state();
        state.collect_early_frees();
        let leaks = state.leaks();
        state.dump(&leaks)
    }

    /// Streams, events, memory and modules that nobody ended before their context ended and took them along.
    #[must_use]
    pub fn gone_with_context(&self) -> Vec<Leak> {
        let state = self.shared.world.state();
        let streams = state.streams.gone_with_context();
        streams
            .chain(state.events.gone_with_context())
            .chain(state.memory.gone_with_context())
            .chain(state.arrays.gone_with_context())
            .chain(state.textures.gone_with_context())
            .chain(state.external.gone_with_context())
            .chain(state.code.gone_with_context())
            .collect()
    }

    /// How many live objects of a kind there are.
    #[must_use]
    pub fn live(&self, kind: ObjectKind) -> usize {
        self.leaks().iter().filter(|leak| leak.kind == kind).count()
    }

    /// How many contexts are on the calling thread's stack.
    #[must_use]
    pub fn stack_depth(&self) -> usize {
        let thread = std::thread::current().id();
        self.shared.world.state().threads.get(thread).map_or(0, |thread| thread.stack.len())
    }

    /// What is current on the calling thread, null if nothing is; no call is made.
    #[must_use]
    pub fn current(&self) -> CUcontext {
        self.shared.world.state().threads.current(std::thread::current().id())
    }

    /// The calling thread's capture mode; no call is made.
    #[must_use]
    pub fn capture_mode(&self) -> CUstreamCaptureMode {
        self.shared.world.state().threads.mode(std::thread::current().id())
    }

    /// How many captures are under way, invalidated ones included.
    #[must_use]
    pub fn captures(&self) -> usize {
        self.shared.world.state().captures.len()
    }

    /// The calls that were carried out although the caller heard of a failure.
    #[must_use]
    pub fn denied(&self) -> Vec<CallSite> {
        self.shared.world.state().denied.clone()
    }

    /// From here on `life()` is `Exiting`, and every call answers `DEINITIALIZED`.
    pub fn begin_exit(&self) {
        self.shared.world.begin_exit();
    }

    /// Ends the process as a kill does: queued work never runs, its memory and events can't be opened any more, and what it
    /// had open of others is no longer in use. What others have open of it stays theirs. Every later call of it answers
    /// `DEINITIALIZED`, as after [`begin_exit`](Self::begin_exit).
    ///
    /// # Examples
    /// ```
    /// use cuhold_driver_sim::{Sim, SimOptions};
    /// use cuhold_driver_sim::cuhold_driver_sys::{CUresult, DriverApi as _};
    ///
    /// let here = Sim::new();
    /// let there = here.other_process(SimOptions::default());
    /// there.end_process();
    /// // SAFETY: the call takes no pointer.
    /// assert_eq!(unsafe { there.cuInit(0) }, CUresult::DEINITIALIZED);
    /// // SAFETY: as above.
    /// assert_eq!(unsafe { here.cuInit(0) }, CUresult::SUCCESS);
    /// ```
    pub fn end_process(&self) {
        self.begin_exit();
        let mut state = self.shared.world.state();
        let never_run = state.queues.discard();
        state.memory.end_process();
        drop(state);
        // Dropped with nothing locked: what it owns is the caller's.
        drop(never_run);
    }

    /// The driver as a forked child sees it: `life()` is `Forked`, and every call answers `NOT_INITIALIZED` and touches
    /// nothing. They are counted: [`calls_of_forked_child`](Self::calls_of_forked_child).
    #[must_use]
    pub fn forked_child(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), forked: true }
    }

    /// How many calls forked children made.
    #[must_use]
    pub fn calls_of_forked_child(&self) -> u64 {
        self.shared.forked.calls.load(Ordering::Relaxed)
    }

    /// Ends all CUDA work with a fatal status, as a faulting kernel does. Queued work never runs.
    pub fn poison(&self, status: CUresult) {
        self.shared.world.turn(Call::cuInit).lose(status);
    }

    /// Lets one piece of a stream's queued work run, or one that it waits for. Says whether there was one.
    ///
    /// Runs it on the calling thread. A default stream is that of the calling thread's current context.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn stream_step(&self, stream: CUstream) -> bool {
        let mut turn = self.shared.world.turn(Call::cuStreamQuery);
        let target = turn.stream(stream);
        let ran = target.is_ok_and(|target| turn.advance(target.queue));
        turn.release_user_references();
        ran
    }

    /// Lets all queued work run, in an order drawn from the seed. What waits for a value in memory that nobody has
    /// written stays, and what is behind it.
    pub fn run_all(&self) {
        let mut turn = self.shared.world.turn(Call::cuCtxSynchronize);
        turn.complete_what_can();
        turn.release_user_references();
        turn.run_destructors();
    }

    /// Runs the destructors of user objects that [`Destructors::Later`](crate::Destructors::Later) put off, on this
    /// thread. Says how many there were.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn run_destructors(&self) -> usize {
        self.shared.world.turn(Call::cuUserObjectRelease).run_destructors()
    }

    /// How many pieces of queued work haven't completed.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.shared.world.state().queues.pending_all()
    }

    /// The simulated clock, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.shared.world.state().now_ns
    }

    /// Sets the simulated clock, in nanoseconds.
    pub fn set_time(&self, now_ns: u64) {
        self.shared.world.state().now_ns = now_ns;
    }

    /// Moves the simulated clock on.
    pub fn advance(&self, by_ns: u64) {
        self.shared.world.state().now_ns += by_ns;
    }
}

impl Default for Sim {
    fn default() -> Self {
        Self::new()
    }
}
