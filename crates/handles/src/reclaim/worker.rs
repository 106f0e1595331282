//! The reclaimer's threads: one dispatcher a driver, and a worker for each context whose objects take their time.

#![expect(unsafe_code, reason = "sets the thread's capture mode through the driver")]

use super::{Queue, ROLE, Role, list::Taken};
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
    relax(queue);
    let mut workers = BTreeMap::new();
    loop {
        let batch = queue.list.take();
        if batch.is_empty() {
            if queue.ended.load(Ordering::SeqCst) {
                return;
            }
            thread::park();
            continue;
        }
        for record in batch {
            match record.worker() {
                None => queue.release(record),
                Some(context) => give(&mut workers, context, record, queue),
            }
        }
        workers.retain(|_, worker: &mut Arc<Worker>| worker.inbox.lock().alive);
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
}

fn give(
    workers: &mut BTreeMap<usize, Arc<Worker>>,
    context: usize,
    record: Taken,
    queue: &Arc<Queue>,
) {
    let worker = workers.entry(context).or_default();
    let start = {
        let mut inbox = worker.inbox.lock();
        inbox.records.push_back(record);
        !std::mem::replace(&mut inbox.alive, true)
    };
    worker.arrived.notify_one();
    if !start {
        return;
    }
    let (inbox, queue_of) = (Arc::clone(worker), Arc::clone(queue));
    let spawned = thread::Builder::new()
        .name("cuhold-reclaim-ctx".into())
        .spawn(move || work(&inbox, &queue_of));
    if spawned.is_err() {
        // No thread to be had: the dispatcher waits itself, rather than leave the records where they are.
        work(worker, queue);
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
        match record {
            Some(record) => queue.release(record),
            None => break,
        }
    }
    ROLE.set(role);
}
