//! What a test body is given, and the checks around it.

use crate::{kernels, stack, trace::Trace};
use cuhold_driver_sim::{Leak, ObjectKind, Sim, SimOptions};
use cuhold_driver_sys::{CallCounts, CallLog, Entry, Faults, Hooked, ffi::CUcontext};
use cuhold_handles::{Closed, Context, Device, Driver, Library};
use std::{
    env, fmt,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// How long is waited for what is about to happen.
const PATIENCE: Duration = Duration::from_secs(10);

type Hooks = (Arc<CallLog>, (Arc<CallCounts>, Arc<Faults>));

/// A driver for one test, with its hooks and a device.
pub struct Kit {
    device: Device,
    log: Arc<CallLog>,
    counts: Arc<CallCounts>,
    faults: Arc<Faults>,
    sim: Option<Sim>,
}

/// Says that the body runs on a real driver.
#[derive(Clone, Copy, Debug)]
pub struct Real(());

impl Kit {
    /// The driver, with this test's hooks around it.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.device.driver()
    }

    /// Device 0.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Device 0's primary context.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.device.context()
    }

    /// Device 1, where there is one; else the test says that it is skipped.
    #[must_use]
    pub fn second_device(&self) -> Option<Device> {
        match self.driver().device_count() {
            Ok(count) if count > 1 => Some(Device::with_driver(self.driver(), 1).unwrap()),
            _ => {
                self.skip("needs two devices");
                None
            }
        }
    }

    /// The test kernels, loaded: see [`PTX`](crate::PTX).
    #[must_use]
    pub fn kernels(&self) -> Library {
        self.device.load(kernels::PTX).unwrap()
    }

    /// The log of all calls, off until it is started.
    #[must_use]
    pub fn log(&self) -> &CallLog {
        &self.log
    }

    /// Which calls were made how often.
    #[must_use]
    pub fn counts(&self) -> &CallCounts {
        &self.counts
    }

    /// What is to fail.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The simulated driver, where the body runs on it.
    #[must_use]
    pub fn sim(&self) -> Option<&Sim> {
        self.sim.as_ref()
    }

    /// The calls that `work` makes on this thread, by their documented names, in order.
    pub fn calls<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<&'static str>) {
        let (value, entries) = self.log.during(work);
        let here = thread::current().id();
        let names =
            entries.iter().filter(|entry| entry.thread() == here).map(|entry| entry.call().name());
        (value, names.collect())
    }

    /// The calls that `work` makes, on all threads, whole.
    pub fn entries<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<Entry>) {
        self.log.during(work)
    }

    /// The calling thread's contexts, the current one first.
    #[must_use]
    pub fn stack(&self) -> Vec<CUcontext> {
        stack::contexts(self.driver().api())
    }

    /// Waits until the reclaimer has nothing to do.
    ///
    /// What is on its list by now is done then. What a driver lets go of a moment later, on a thread of its own, isn't:
    /// [`becomes`](Self::becomes) waits for that.
    pub fn settle(&self) {
        assert!(is_reclaimed(self.driver()), "objects are left on the reclaimer's list");
    }

    /// Waits until `value` gives what is expected, for values that change once the reclaimer, or a thread of the driver's own,
    /// let go of something.
    #[track_caller]
    pub fn becomes<T: PartialEq<U> + fmt::Debug, U: fmt::Debug>(
        &self,
        value: impl Fn() -> T,
        expected: U,
    ) {
        let until = Instant::now() + PATIENCE;
        loop {
            self.settle();
            let value = value();
            if value == expected {
                return;
            }
            assert!(Instant::now() < until, "it stays {value:?}, and doesn't become {expected:?}");
            thread::yield_now();
        }
    }

    /// Says that this test can't run here. The body then returns.
    #[expect(clippy::print_stdout, reason = "the line is what the runner reads")]
    pub fn skip(&self, reason: &str) {
        println!("cuhold-skip: {reason}");
    }
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kit").field("real", &self.sim.is_none()).finish_non_exhaustive()
    }
}

/// Whether tests run on the real driver.
pub(crate) fn on_real() -> bool {
    match env::var("CUHOLD_TEST_DRIVER").as_deref() {
        Ok("real") => true,
        Ok("sim") | Err(env::VarError::NotPresent) => false,
        other => panic!("CUHOLD_TEST_DRIVER: {other:?} is neither `real` nor `sim`"),
    }
}

/// Runs a body on the driver that the environment names.
pub fn run(body: impl FnOnce(&Kit)) {
    run_with(SimOptions::default(), body);
}

/// As [`run`]; so many memory pools are left at the end, since they were made current ones.
pub fn run_leaving_pools(pools: usize, body: impl FnOnce(&Kit)) {
    if on_real() {
        run(body);
    } else {
        let left = simulated_leaving(SimOptions::default(), |kit, _| body(kit));
        let is_pool = |left: &Leak| left.kind == ObjectKind::Pool;
        assert!(left.iter().all(is_pool) && left.len() == pools, "left: {left:#?}");
    }
}

/// As [`run`]; the simulated driver is made with these options.
pub fn run_with(options: SimOptions, body: impl FnOnce(&Kit)) {
    if on_real() {
        let real = Driver::load().unwrap_or_else(|error| panic!("no real driver: {error}"));
        with_driver(|hooks| real.hooked((Trace::new(), hooks)), None, body);
    } else {
        simulated(options, |kit, _| body(kit));
    }
}

/// Runs a body that needs the simulated driver: on the real one it says that it is skipped.
#[expect(clippy::print_stdout, reason = "the line is what the runner reads")]
pub fn run_simulated(body: impl FnOnce(&Kit, &Sim)) {
    if on_real() {
        println!("cuhold-skip: needs the simulated driver");
    } else {
        simulated(SimOptions::default(), body);
    }
}

/// Runs a body that needs the real driver: on the simulated one it says that it is skipped.
#[expect(clippy::print_stdout, reason = "the line is what the runner reads")]
pub fn run_real(body: impl FnOnce(&Kit, Real)) {
    if on_real() {
        run(|kit| body(kit, Real(())));
    } else {
        println!("cuhold-skip: needs a real driver");
    }
}

fn simulated(options: SimOptions, body: impl FnOnce(&Kit, &Sim)) {
    let leaks = simulated_leaving(options, body);
    assert!(leaks.is_empty(), "leaks: {leaks:#?}");
}

/// Draws the order of work from the seed that `CUHOLD_SEED` names, if it does: a test that fails with one says which it was.
fn with_seed(options: SimOptions) -> (SimOptions, Seed) {
    let named = env::var("CUHOLD_SEED").ok().map(|seed| match seed.parse() {
        Ok(seed) => seed,
        Err(error) => panic!("CUHOLD_SEED: {seed:?} isn't a number: {error}"),
    });
    let mut options = options;
    // A test that asks for a seed has its reasons.
    if options.seed == SimOptions::default().seed {
        options.seed = named.unwrap_or(options.seed);
    }
    let seed = Seed(options.seed);
    (options, seed)
}

/// Says which seed it was, where a test fails.
struct Seed(u64);

impl Drop for Seed {
    #[expect(clippy::print_stdout, reason = "shown with what else a failing test printed")]
    fn drop(&mut self) {
        if thread::panicking() {
            println!("CUHOLD_SEED={}", self.0);
        }
    }
}

/// Gives what is left.
fn simulated_leaving(options: SimOptions, body: impl FnOnce(&Kit, &Sim)) -> Vec<Leak> {
    let (options, _seed) = with_seed(options);
    let sim = Sim::with_options(options);
    kernels::register(&sim);
    let api = sim.clone();
    with_driver(
        |hooks| Driver::from_api(Hooked::new(api, hooks)),
        Some(sim.clone()),
        |kit| body(kit, &sim),
    );
    let violations = sim.violations();
    assert!(violations.is_empty(), "violations: {violations:#?}");
    assert_eq!(sim.dangers(), []);
    sim.leaks()
}

fn with_driver(make: impl FnOnce(Hooks) -> Driver, sim: Option<Sim>, body: impl FnOnce(&Kit)) {
    let (log, counts, faults) =
        (Arc::<CallLog>::default(), Arc::<CallCounts>::default(), Arc::<Faults>::default());
    let driver = make((Arc::clone(&log), (Arc::clone(&counts), Arc::clone(&faults))));
    let device = Device::with_driver(&driver, 0).unwrap();
    let kit = Kit { device, log, counts, faults, sim };
    let before = stack::contexts(driver.api());
    {
        let _nothing_reported = driver.reports().deny();
        body(&kit);
        kit.faults.disarm();
    }
    assert_eq!(
        stack::contexts(driver.api()),
        before,
        "the thread's context stack isn't what it was"
    );
    assert!(is_reclaimed(&driver), "objects are left on the reclaimer's list");
    drop(kit);
    settle(&driver);
    let closed = driver.close().unwrap();
    assert_eq!(closed, Closed::Destroyed, "objects of this driver are still alive");
}

/// Waits until the reclaimer has nothing to do: a driver may let go of what a graph holds a moment later, on a thread of its own.
fn is_reclaimed(driver: &Driver) -> bool {
    let until = Instant::now() + PATIENCE;
    while driver.reclaim().pending() > 0 {
        // Where it is run by hand, nothing else does it. Whether it came to an end is asked above.
        drop(driver.reclaim().drain(PATIENCE));
        if Instant::now() >= until {
            return false;
        }
        thread::yield_now();
    }
    true
}

fn settle(driver: &Driver) {
    assert!(becomes_unique(driver), "objects of this driver are still alive");
}

/// Waits until nothing but `driver` itself holds the driver: a reclaimer's thread, or one of the driver's own, may do so a
/// moment longer. Says whether that came about.
pub(crate) fn becomes_unique(driver: &Driver) -> bool {
    let until = Instant::now() + PATIENCE;
    while !driver.is_unique() {
        if Instant::now() >= until {
            return false;
        }
        thread::yield_now();
    }
    true
}
