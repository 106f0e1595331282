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

/// Puts this thread in relaxed capture mode for life, once: what it ends disturbs nobody's capture.
///
/// Not before the thread has a record: that keeps the driver alive, which this thread alone must not.
fn relax(queue: &Queue, is_relaxed: &mut bool) {
    if std::mem::replace(is_relaxed, true) {
        return;
    }
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
        relax(queue, &mut is_relaxed);
        for record in batch {
            match record.worker() {
                None => Exit::unless_exiting(queue, || queue.release(record)),
                Some(wanted) => give(queue, wanted, record),
            }
            queue.handled.fetch_add(1, Ordering::SeqCst);
            queue.progressed();
        }
        queue.lanes.lock().forget_ended();
    }
}

/// The lanes by what they are for: a context's address, or 0 for objects of no context in particular.
#[derive(Default)]
pub(super) struct Lanes(BTreeMap<usize, Arc<Lane>>);

impl Lanes {
    fn get(&mut self, wanted: usize) -> Arc<Lane> {
        Arc::clone(self.0.entry(wanted).or_default())
    }

    fn forget_ended(&mut self) {
        self.0.retain(|_, lane| lane.inbox.lock().threads > 0);
    }

    /// How far each has to come to be done with what it was given so far.
    pub(super) fn marks(&self) -> Marks {
        let mark = |lane: &Arc<Lane>| (Arc::clone(lane), lane.inbox.lock().given);
        Marks(self.0.values().map(mark).collect())
    }
}

/// How far each lane has to come.
pub(super) struct Marks(Vec<(Arc<Lane>, u64)>);

impl Marks {
    pub(super) fn are_reached(&self) -> bool {
        self.0.iter().all(|(lane, mark)| lane.inbox.lock().is_past(*mark))
    }
}

/// How many workers a lane of no context in particular has at most: what waits in one of them holds up no other.
const ANY_MAX: usize = 16;

/// What is to be released, and the workers that do it: one for a context, several for objects of none.
#[derive(Default)]
pub(super) struct Lane {
    inbox: Mutex<Inbox>,
    arrived: Condvar,
}

#[derive(Default)]
struct Inbox {
    records: VecDeque<Taken>,
    /// How many records were put in, which numbers them from 1.
    given: u64,
    /// The numbers of those that are being released.
    in_hand: Vec<u64>,
    threads: usize,
    idle: usize,
}

impl Inbox {
    /// The next record and its number.
    fn take(&mut self) -> Option<(Taken, u64)> {
        let record = self.records.pop_front()?;
        let number = self.given - self.records.len() as u64;
        self.in_hand.push(number);
        Some((record, number))
    }

    /// Whether the first `mark` records are released.
    fn is_past(&self, mark: u64) -> bool {
        let taken = self.given - self.records.len() as u64;
        taken >= mark && self.in_hand.iter().all(|number| *number > mark)
    }
}

fn give(queue: &Arc<Queue>, wanted: usize, record: Taken) {
    let most = if wanted == 0 { ANY_MAX } else { 1 };
    let lane = queue.lanes.lock().get(wanted);
    let start = {
        let mut inbox = lane.inbox.lock();
        inbox.records.push_back(record);
        inbox.given += 1;
        let start = inbox.records.len() > inbox.idle && inbox.threads < most;
        inbox.threads += usize::from(start);
        start
    };
    lane.arrived.notify_one();
    if !start {
        return;
    }
    let (its, queue_of) = (Arc::clone(&lane), Arc::clone(queue));
    let spawned = thread::Builder::new()
        .name("cuhold-reclaim-ctx".into())
        .spawn(move || work(&its, &queue_of));
    if spawned.is_err() {
        // No thread to be had: the dispatcher waits itself, rather than leave the records where they are.
        work(&lane, queue);
    }
}

/// A worker: releases what its lane is given, and ends when idle. Whether it goes on is decided under the lock, so no
/// record is left behind.
fn work(lane: &Lane, queue: &Queue) {
    let role = ROLE.replace(Role::Worker);
    let mut is_relaxed = role == Role::Dispatcher;
    loop {
        let (record, number) = {
            let mut inbox = lane.inbox.lock();
            if inbox.records.is_empty() && role == Role::Outside {
                inbox.idle += 1;
                let _: parking_lot::WaitTimeoutResult = lane.arrived.wait_for(&mut inbox, IDLE);
                inbox.idle -= 1;
            }
            let Some(next) = inbox.take() else {
                inbox.threads -= 1;
                break;
            };
            next
        };
        relax(queue, &mut is_relaxed);
        Exit::unless_exiting(queue, || queue.release(record));
        lane.inbox.lock().in_hand.retain(|of| *of != number);
        queue.progressed();
    }
    ROLE.set(role);
}
