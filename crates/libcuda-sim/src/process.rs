//! The one simulated driver of this process, and what stands between it and C: forks, the end of the process, panics.

use std::{
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use cuhold_driver_sim::Sim;
use cuhold_driver_sys::{
    CUresult, Call, Hooked, Kind,
    process::{ExitHook, ForkWord, on_exit},
};
use parking_lot::Mutex;

use crate::{background::Background, plan::Plan, record::Recorder, report};

/// What the exported functions call.
pub(crate) type Api = Hooked<Sim, Recorder>;

/// The driver with what it knows of its process.
struct Process {
    api: Api,
    sim: Sim,
    /// Why no call is answered: a plan that can't be read isn't replaced by another one.
    refused: bool,
    fork: ForkWord,
    initialized: AtomicBool,
    at_exit: Mutex<Option<ExitHook>>,
    /// Where queued work runs, if it isn't to wait until it is waited for.
    background: Option<Background>,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// Answers one call from C. Nothing unwinds out of it.
pub(crate) fn answer(call: Call, make: impl FnOnce(&Api) -> CUresult) -> CUresult {
    let answered =
        catch_unwind(AssertUnwindSafe(|| PROCESS.get_or_init(Process::new).call(call, make)));
    match answered {
        Ok(CUresult::MISSING) => CUresult::NOT_SUPPORTED,
        Ok(status) => status,
        Err(payload) => {
            // Dropping it may panic again.
            let _: ManuallyDrop<_> = ManuallyDrop::new(payload);
            CUresult::UNKNOWN
        }
    }
}

impl Process {
    fn new() -> Self {
        let (plan, refused) = match Plan::of_environment() {
            Ok(plan) => (plan, false),
            Err(why) => {
                report::say(&format!("{why}; every call answers SYSTEM_NOT_READY"));
                (Plan::default(), true)
            }
        };
        let sim = Sim::with_options(plan.options);
        for fault in plan.faults {
            sim.faults().arm(fault);
        }
        for kernel in plan.kernels {
            let (name, body) = kernel;
            sim.register_kernel(name, move |launch| body.run(launch));
        }
        Self {
            api: Hooked::new(sim.clone(), Recorder::new(plan.log, plan.report)),
            sim,
            refused,
            fork: ForkWord::new(),
            initialized: AtomicBool::new(false),
            at_exit: Mutex::new(None),
            background: plan.background.then(Background::default),
        }
    }

    fn call(&'static self, call: Call, make: impl FnOnce(&Api) -> CUresult) -> CUresult {
        if self.refused {
            return CUresult::SYSTEM_NOT_READY;
        }
        if self.fork.forked() {
            if self.initialized.load(Ordering::Relaxed) {
                return CUresult::NOT_INITIALIZED;
            }
            // Nothing of CUDA was used before the fork: the child starts afresh.
            self.fork.renew();
        }
        let status = make(&self.api);
        if call == Call::cuInit && status.is_success() {
            self.begin();
        }
        if let Some(background) = &self.background
            && matches!(call.columns().kind, Kind::Enqueue | Kind::Create | Kind::Destroy)
        {
            background.wake();
        }
        status
    }

    /// From the first `cuInit` that succeeds: a fork counts, and the end of the process is watched.
    fn begin(&'static self) {
        if !self.initialized.swap(true, Ordering::Relaxed) {
            *self.at_exit.lock() = Some(on_exit(|| self.end()));
            if let Some(background) = &self.background
                && let Err(error) = background.start(self.sim.clone())
            {
                report::say(&format!("no thread for queued work: {error}"));
            }
        }
    }

    /// At exit: what is to be said is said, and later calls answer `DEINITIALIZED`.
    fn end(&self) {
        report::write(&self.sim, self.api.hook());
        self.sim.begin_exit();
        if let Some(background) = &self.background {
            background.end();
        }
    }
}
