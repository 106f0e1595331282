//! Each call of an import, and of each kind of its end, failing in turn: told exactly once, nothing lost untold, nothing
//! freed twice, and the driver ends.

use super::{Exporter, close};
use crate::flip::World;
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{AnyCall, CudaWarning, Error, Fate, Note, ObjectKind, Sink, Status, Stream};
use cuhold_memory::{Buffer, ExportedBuffer, ImportedPool};
use parking_lot::Mutex;
use std::{
    mem::ManuallyDrop,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

const E: CUresult = CUresult(9001);
/// The end of an import in which every kind of call is made: on another stream than the freeing one, as the last.
const CALLS: [Call; 4] =
    [Call::cuEventCreate, Call::cuEventRecord, Call::cuStreamWaitEvent, Call::cuMemFreeAsync];

struct Both {
    world: World,
    there: Exporter,
    pool: ImportedPool,
    exporting: (Buffer<u32>, ExportedBuffer),
    home: Stream,
    other: Stream,
}

impl Both {
    fn new() -> Self {
        let world = World::new();
        let there = Exporter::of(Some(&world.sim), &world.device);
        let exporting = there.buffer(&[1, 2, 3]);
        let pool = there.imported(&world.device);
        let (home, other) = (world.stream(), world.stream());
        Self { world, there, pool, exporting, home, other }
    }

    fn import(&self, home: &Stream) -> Result<Buffer<u32>, Error> {
        self.pool.import_buffer(self.exporting.1.descriptor(), home)
    }

    /// An import on another stream than the freeing one, which is the only one left.
    fn last_on_other(&self) -> Buffer<u32> {
        let first = self.import(&self.home).unwrap();
        let last = self.import(&self.other).unwrap();
        drop(first);
        last
    }

    /// Ends everything. What is left mapped must have been told.
    fn end(self, told: &[CudaWarning]) {
        let Self { world, there, pool, exporting, home, other } = self;
        assert_eq!(pool.mapped_buffers(), 0, "nothing that failed is used again");
        // A pool isn't ended under memory that is still mapped: the driver refuses, which is told.
        let of_pool = world.warnings(|| drop(pool));
        let World { sim, driver, device, .. } = world;
        device.context().synchronize().unwrap();
        drop((home, other, device));
        close(driver);
        assert!(sim.violations().is_empty(), "{:?}", sim.violations());
        let lost = sim.leaks();
        let told = [told, &of_pool].concat();
        let is_told = |raw| told.iter().any(|warning| warning.object().raw == raw);
        assert!(lost.iter().all(|lost| is_told(lost.raw)), "{lost:?} beside {told:?}");
        if lost.is_empty() {
            drop(exporting);
            there.finish();
        } else {
            // What is still mapped must not be freed by its exporter.
            let _: ManuallyDrop<_> = ManuallyDrop::new((exporting, there));
        }
    }
}

fn is_told_once(warnings: &[CudaWarning]) -> bool {
    warnings.iter().filter(|warning| warning.status() == Some(E)).count() == 1
}

#[test]
fn each_call_of_an_import_s_end_may_be_refused_and_is_told_once() {
    for call in CALLS {
        let both = Both::new();
        let last = both.last_on_other();
        let ptr = last.device_ptr();
        both.world.faults().arm(Fault::refused(E).on(call).nth(1));
        let warnings = both.world.warnings(|| drop(last));
        both.world.faults().disarm();
        assert!(is_told_once(&warnings), "{call:?}: {warnings:?}");
        assert_eq!(warnings[0].object().raw, ptr);
        assert_eq!(warnings[0].object().kind, ObjectKind::ImportedMemory);
        let fate = if call == Call::cuMemFreeAsync { Fate::Unknown } else { Fate::Leaked };
        assert_eq!(warnings[0].fate(), Some(fate), "{call:?}");
        both.end(&warnings);
    }
}

#[test]
fn each_call_of_an_import_s_end_may_be_done_and_reported_as_failed() {
    for call in [Call::cuEventRecord, Call::cuStreamWaitEvent, Call::cuMemFreeAsync] {
        let both = Both::new();
        let last = both.last_on_other();
        both.world.faults().arm(Fault::done_but_failed(E).on(call).nth(1));
        let warnings = both.world.warnings(|| drop(last));
        both.world.faults().disarm();
        assert!(is_told_once(&warnings), "{call:?}: {warnings:?}");
        // Another import is a new one: the driver maps it, and its end frees it, unless it is one that is leaked.
        let again = both.import(&both.home).unwrap();
        assert_eq!(again.to_vec().unwrap(), [1, 2, 3]);
        drop(again);
        both.end(&warnings);
    }
}

#[test]
fn an_end_whose_relaxed_mode_is_refused_leaves_the_memory_mapped_and_says_so() {
    for nth in [1, 2] {
        let both = Both::new();
        let only = both.import(&both.home).unwrap();
        let call = Call::cuThreadExchangeStreamCaptureMode;
        both.world.faults().arm(Fault::refused(E).on(call).nth(nth));
        let warnings = both.world.warnings(|| drop(only));
        both.world.faults().disarm();
        assert!(is_told_once(&warnings), "{warnings:?}");
        let leaked = warnings.iter().any(|warning| warning.fate() == Some(Fate::Leaked));
        assert_eq!(leaked, nth == 1, "{warnings:?}");
        both.end(&warnings);
    }
}

#[test]
fn an_end_that_is_closed_gives_its_failure_back() {
    let both = Both::new();
    let only = both.import(&both.home).unwrap();
    both.world.faults().arm(Fault::refused(E).on(Call::cuMemFreeAsync).nth(1));
    let mut error = None;
    let warnings = both.world.warnings(|| error = only.close().err());
    both.world.faults().disarm();
    assert!(warnings.is_empty(), "{warnings:?}");
    let refused = error.unwrap();
    assert_eq!(refused.error.call(), Some(AnyCall::Driver(Call::cuMemFreeAsync)));
    assert!(refused.value.is_none());
    assert_eq!(both.pool.mapped_buffers(), 0);
}

#[test]
fn an_import_whose_mode_is_not_put_back_is_undone_and_a_failing_undo_is_a_note() {
    let both = Both::new();
    let exchange = Call::cuThreadExchangeStreamCaptureMode;
    both.world.faults().arm(Fault::refused(E).on(exchange).nth(2));
    let error = both.import(&both.home).unwrap_err();
    both.world.faults().disarm();
    assert_eq!(error.status(), Some(Status::Driver(E)));
    assert_eq!(both.pool.mapped_buffers(), 0);
    let mapped = both.import(&both.home).unwrap();
    let ptr = mapped.device_ptr();
    drop(mapped);
    // The free of the undo fails as well: the error names what is lost.
    let both = Both::new();
    both.world.faults().arm(Fault::refused(E).on(exchange).nth(2));
    both.world.faults().arm(Fault::refused(CUresult(9002)).on(Call::cuMemFreeAsync).nth(1));
    let error = both.import(&both.home).unwrap_err();
    both.world.faults().disarm();
    assert_eq!(error.status(), Some(Status::Driver(E)));
    let is_noted = |note: &Note| match note {
        Note::UndoFailed(failure) => failure.status == CUresult(9002),
        _ => false,
    };
    assert!(error.notes().iter().any(is_noted), "{error:?} of {ptr:#x}");
}

#[test]
fn a_sink_that_imports_and_drops_while_frees_fail_blocks_nobody() {
    let both = Both::new();
    let told = Arc::new(AtomicU64::new(0));
    let outer = Arc::new(Mutex::new(()));
    let sink = {
        let (pool, told, outer) = (both.pool.clone(), Arc::clone(&told), Arc::clone(&outer));
        let (descriptor, home) = (*both.exporting.1.descriptor(), both.home.clone());
        Sink::new(move |_| {
            // A lock of the user's, and the library called under it: no lock of the library's is held meanwhile.
            let _outer = outer.lock();
            told.fetch_add(1, Ordering::SeqCst);
            drop(pool.import_buffer::<u32>(&descriptor, &home));
        })
    };
    let former = both.world.driver.reports().set_sink(sink);
    for nth in 1..40 {
        let fault = Fault::refused(E).on(Call::cuMemFreeAsync).nth(nth * 3);
        both.world.faults().arm(fault);
    }
    let import_and_drop = || {
        for _ in 0..100 {
            let held = outer.lock();
            let imported = both.import(&both.home);
            drop(held);
            drop(imported);
        }
    };
    thread::scope(|scope| {
        scope.spawn(import_and_drop);
        scope.spawn(import_and_drop);
    });
    both.world.faults().disarm();
    // The sink holds the driver by its pool.
    drop(both.world.driver.reports().set_sink(former));
    assert!(told.load(Ordering::SeqCst) > 0);
    assert_eq!(both.pool.mapped_buffers(), 0);
}

#[test]
fn an_import_that_is_dropped_inside_a_callback_is_freed_by_the_reclaimer() {
    let both = Both::new();
    let (only, work) = (both.import(&both.home).unwrap(), both.world.stream());
    work.host_fn(move || drop(only)).map_err(|refused| refused.error).unwrap();
    work.synchronize().unwrap();
    drop(work);
    both.world.driver.reclaim().drain(std::time::Duration::from_secs(10)).unwrap();
    both.end(&[]);
}

#[test]
fn in_a_forked_child_an_import_s_end_makes_no_call() {
    let both = Both::new();
    let only = both.import(&both.home).unwrap();
    let other = both.import(&both.other).unwrap();
    both.world.fork();
    drop((only, other));
    assert!(both.import(&both.home).is_err());
    assert_eq!(both.world.sim.calls_of_forked_child(), 0);
    // Nothing of a forked child is ended.
    let _: ManuallyDrop<Both> = ManuallyDrop::new(both);
}
