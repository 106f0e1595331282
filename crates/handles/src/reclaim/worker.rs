//! The reclaimer's threads: one dispatcher a driver, and a worker for each context whose objects take their time.

#![expect(unsafe_code, reason = "sets the thread's capture mode through the driver")]

use super::{
    Exit, Queue, ROLE, Role,
    list::{Batch, Taken},
};
use crate::{
    driver::Driver,
    object::{Object, ObjectKind},
    report::{CudaWarning, Fate},
};
use cuhold_driver_sys::ffi::CUstreamCaptureMode;
use parking_lot::{Condvar, Mutex};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{Ordering, fence},
    },
    thread,
    time::Duration,
};

/// How long a worker stays without work.
const IDLE: Duration = Duration::from_secs(1);

/// Puts this thread in relaxed capture mode for life: what it ends disturbs nobody's capture.
fn relax(queue: &Queue) {
    let Some(driver) = Driver::upgrade(&queue.driver) else { return };
    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: *pointers*: `mode` is a live local.
    let result = unsafe { driver.calls().cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    if let Err(failure) = result {
        // Each unsafe destroy is bracketed by itself as well, so nothing else is lost.
        let object = Object { kind: ObjectKind::Reclaimer, raw: 0, id: 0 };
        driver.warn(CudaWarning::failed(failure, object, Fate::Unknown));
    }
}

/// The dispatcher: takes the list, releases what never waits, and gives the rest to its context's worker.
pub(super) fn dispatch(queue: &Arc<Queue>) {
    ROLE.set(Role::Dispatcher);
    // Set by the thread itself, before its first look at the list.
    drop(queue.dispatcher.set(thread::current()));
    fence(Ordering::SeqCst);
    let mut is_relaxed = false;
    loop {
        let ended = queue.ended.load(Ordering::SeqCst);
        let by_hand = !ended && queue.by_hand.load(Ordering::SeqCst) > 0;
        let batch = if by_hand { Batch::default() } else { queue.list.take() };
        if batch.is_empty() {
            if ended {
                return;
            }
            thread::park();
            continue;
        }
        // Only now, since what is on the list keeps the driver, which this thread alone must not.
        if !std::mem::replace(&mut is_relaxed, true) {
            relax(queue);
        }
        for record in batch {
            match record.worker() {
                None => Exit::unless_exiting(queue, || queue.release(record)),
                Some(wanted) => give(queue, wanted, record),
            }
            queue.handled.fetch_add(1, Ordering::SeqCst);
            queue.progressed();
        }
        queue.workers.lock().forget_ended();
    }
}

/// The workers by what they are for: a context's address, or a number up to [`ANY_MAX`].
#[derive(Default)]
pub(super) struct Workers(BTreeMap<usize, Arc<Worker>>);

/// How many workers there are at most for objects of no context in particular. Addresses are greater.
const ANY_MAX: usize = 16;

impl Workers {
    fn get(&mut self, wanted: usize) -> Arc<Worker> {
        let place = if wanted == 0 { self.any() } else { wanted };
        Arc::clone(self.0.entry(place).or_default())
    }

    /// The first that is idle or not there, else the one with the least to do.
    fn any(&self) -> usize {
        let load = |place: &usize| self.0.get(place).map_or(0, |worker| worker.inbox.lock().load());
        (1..=ANY_MAX).min_by_key(load).unwrap_or(1)
    }

    fn forget_ended(&mut self) {
        self.0.retain(|_, worker| worker.inbox.lock().alive);
    }

    /// How far each has to come to be done with what it was given so far.
    pub(super) fn marks(&self) -> Marks {
        let mark = |worker: &Arc<Worker>| (Arc::clone(worker), worker.inbox.lock().given);
        Marks(self.0.values().map(mark).collect())
    }
}

/// How far each worker has to come.
pub(super) struct Marks(Vec<(Arc<Worker>, u64)>);

impl Marks {
    pub(super) fn are_reached(&self) -> bool {
        self.0.iter().all(|(worker, given)| worker.inbox.lock().done >= *given)
    }
}

/// A worker's inbox.
#[derive(Default)]
struct Worker {
    inbox: Mutex<Inbox>,
    arrived: Condvar,
}

#[derive(Default)]
struct Inbox {
    records: VecDeque<Taken>,
    /// Whether the thread still looks into it. Set and cleared under the lock, so no record is left behind.
    alive: bool,
    given: u64,
    done: u64,
}

impl Inbox {
    fn load(&self) -> u64 {
        self.given - self.done
    }
}

fn give(queue: &Arc<Queue>, wanted: usize, record: Taken) {
    let worker = queue.workers.lock().get(wanted);
    let start = {
        let mut inbox = worker.inbox.lock();
        inbox.records.push_back(record);
        inbox.given += 1;
        !std::mem::replace(&mut inbox.alive, true)
    };
    worker.arrived.notify_one();
    if !start {
        return;
    }
    let (inbox, queue_of) = (Arc::clone(&worker), Arc::clone(queue));
    let spawned = thread::Builder::new()
        .name("cuhold-reclaim-ctx".into())
        .spawn(move || work(&inbox, &queue_of));
    if spawned.is_err() {
        // No thread to be had: the dispatcher waits itself, rather than leave the records where they are.
        work(&worker, queue);
    }
}

/// A worker: releases what it is given, and ends when idle.
fn work(worker: &Worker, queue: &Queue) {
    let role = ROLE.replace(Role::Worker);
    relax(queue);
    loop {
        let record = {
            let mut inbox = worker.inbox.lock();
            if inbox.records.is_empty() && role == Role::Outside {
                let _: parking_lot::WaitTimeoutResult = worker.arrived.wait_for(&mut inbox, IDLE);
            }
            let record = inbox.records.pop_front();
            inbox.alive = record.is_some();
            record
        };
        let Some(record) = record else { break };
        Exit::unless_exiting(queue, || queue.release(record));
        worker.inbox.lock().done += 1;
        queue.progressed();
    }
    ROLE.set(role);
}
