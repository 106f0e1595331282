//! What the simulated processes of one machine share: files, and what was exported through handles.
//!
//! A file is a real one: the writing end of a pipe, of which the machine keeps the other. So it can be sent, duplicated
//! and closed by the program as any file, and the machine sees when its last copy is closed. What the program writes
//! into it is never read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use cuhold_driver_sys::ffi::{c_char, c_int};
use parking_lot::Mutex;

use super::{
    bytes::SharedBytes, file, physical::PhysicalData, pool::Location, shared_block::SharedFile,
};
use crate::{
    elsewhere::Elsewhere,
    order::{Clock, Host, Place},
    queue::Point,
};

/// What a file stands for.
#[derive(Clone, Debug)]
pub(crate) enum Filed {
    Physical(Arc<PhysicalData>),
    Pool(Arc<SharedPool>),
}

/// A pool that was exported.
#[derive(Debug)]
pub(crate) struct SharedPool {
    pub(crate) location: Location,
    /// The exporting process, and the number of its pool's key there.
    pub(crate) of: (u64, u64),
}

/// Bytes that several allocations are.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Device(Arc<SharedBytes>),
    Host(SharedFile),
}

/// Memory that was exported through a handle.
#[derive(Debug)]
pub(crate) struct ExportedMemory {
    pub(crate) content: Content,
    pub(crate) size_bytes: u64,
    /// The exporting process.
    pub(crate) process: u64,
    /// How often it is open now, in all processes.
    pub(crate) opens: AtomicU64,
    /// The number of the exporting pool's key, for memory of a pool.
    pub(crate) pool: Option<u64>,
}

/// An event that other processes may open.
#[derive(Debug, Default)]
pub(crate) struct SharedEvent {
    /// The exporting process.
    pub(crate) process: u64,
    /// Counts records, in all processes.
    pub(crate) recorded: AtomicU64,
    /// The newest record that was reached.
    pub(crate) reached: AtomicU64,
    /// Whether the exporting process destroyed it.
    pub(crate) destroyed: AtomicBool,
    /// Records that may not be reached: their numbers, and where they stand in which process.
    made: Mutex<Vec<(u64, Elsewhere, Point)>>,
    /// What was done before the records that were reached.
    known: Mutex<Clock>,
}

impl SharedEvent {
    /// One of this process, which was never recorded.
    pub(crate) fn of(process: u64) -> Self {
        Self { process, ..Self::default() }
    }

    /// One more record; gives its number.
    pub(crate) fn record(&self) -> u64 {
        self.recorded.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Where the record of this number stands.
    pub(crate) fn made(&self, number: u64, process: Elsewhere, point: Point) {
        let mut made = self.made.lock();
        made.retain(|(number, ..)| !self.is_reached(*number));
        made.push((number, process, point));
    }

    /// Where the record of this number stands, if it was said and there is still something to wait for.
    pub(crate) fn maker(&self, number: u64) -> Option<(Elsewhere, Point)> {
        let made = self.made.lock();
        let found = made.iter().find(|(made, ..)| *made == number);
        found.map(|(_, process, point)| (process.clone(), *point))
    }

    /// The newest record's number.
    pub(crate) fn newest(&self) -> u64 {
        self.recorded.load(Ordering::Relaxed)
    }

    pub(crate) fn is_reached(&self, number: u64) -> bool {
        self.reached.load(Ordering::Relaxed) >= number
    }

    /// The record of this number was reached, at this place.
    pub(crate) fn reach(&self, number: u64, place: &Place) {
        place.teach(&mut self.known.lock());
        self.give_up(number);
    }

    /// The record of this number isn't waited for any more.
    pub(crate) fn give_up(&self, number: u64) {
        self.reached.fetch_max(number, Ordering::Relaxed);
    }

    /// What was done before the records that were reached.
    pub(crate) fn known(&self) -> Clock {
        self.known.lock().clone()
    }

    /// Whether the newest record is one of another process, which is behind work that isn't done: `mine` is the newest
    /// of this process.
    pub(crate) fn waits_for_another(&self, mine: u64) -> bool {
        let newest = self.recorded.load(Ordering::Relaxed);
        newest != mine && self.reached.load(Ordering::Relaxed) < newest
    }
}

#[derive(Debug, Default)]
struct Machine {
    processes: u64,
    files: Vec<(file::Kept, Filed)>,
    memory: BTreeMap<Number, Arc<ExportedMemory>>,
    events: BTreeMap<Number, Arc<SharedEvent>>,
    /// Physical memory that was named on the fabric: it ends without regard to that.
    fabric: Vec<Weak<PhysicalData>>,
    /// The processes that have ended.
    ended: BTreeSet<u64>,
}

/// The process that exported something, and the number that it has there.
pub(crate) type Number = (u64, u64);

/// What the processes of a machine share. Locked for a moment only, and behind the lock of a process, never before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchange(Arc<Mutex<Machine>>, Host);

impl Exchange {
    /// What the machine's hosts know to be done.
    pub(crate) fn host(&self) -> Host {
        Arc::clone(&self.1)
    }

    /// The number of one more process.
    pub(crate) fn join(&self) -> u64 {
        let mut machine = self.0.lock();
        machine.processes += 1;
        machine.processes
    }

    /// A new file that stands for something; the program closes it. `None` where the host gives none.
    pub(crate) fn file(&self, what: Filed) -> Option<c_int> {
        let (kept, given) = file::pair()?;
        self.0.lock().files.push((kept, what));
        Some(given)
    }

    /// What a file stands for.
    pub(crate) fn filed(&self, given: c_int) -> Option<Filed> {
        let identity = file::identity(given)?;
        let machine = self.0.lock();
        let found = machine.files.iter().find(|(kept, _)| kept.identity() == identity);
        found.map(|(_, what)| what.clone())
    }

    /// Forgets the files whose last copy was closed.
    pub(crate) fn forget_closed(&self) {
        let mut machine = self.0.lock();
        let (open, closed) = machine.files.drain(..).partition(|(kept, _)| kept.is_open());
        machine.files = open;
        drop(machine);
        // What they stood for may go now, with nothing locked.
        let closed: Vec<(file::Kept, Filed)> = closed;
        drop(closed);
    }

    /// The bytes that physical memory is imported by.
    pub(crate) fn name_on_fabric(&self, data: &Arc<PhysicalData>) -> [u8; 64] {
        let mut machine = self.0.lock();
        machine.fabric.push(Arc::downgrade(data));
        handle(HandleOf::Fabric, (0, machine.fabric.len() as u64))
    }

    /// The physical memory of that name, if it is still there.
    pub(crate) fn on_fabric(&self, name: &[u8; 64]) -> Option<Arc<PhysicalData>> {
        let (_, number) = named(HandleOf::Fabric, name)?;
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        self.0.lock().fabric.get(place)?.upgrade()
    }

    pub(crate) fn export_memory(&self, number: Number, memory: Arc<ExportedMemory>) {
        self.0.lock().memory.insert(number, memory);
    }

    pub(crate) fn memory(&self, number: Number) -> Option<Arc<ExportedMemory>> {
        self.0.lock().memory.get(&number).cloned()
    }

    /// The exported memory went.
    pub(crate) fn withdraw_memory(&self, number: Number) {
        self.0.lock().memory.remove(&number);
    }

    /// The process has ended. Memory of its contexts can't be opened any more; that of its pools can, as long as the pool
    /// can be imported, and so can its events (measured).
    pub(crate) fn end_process(&self, process: u64) {
        let mut machine = self.0.lock();
        machine.memory.retain(|(of, _), memory| *of != process || memory.pool.is_some());
        machine.ended.insert(process);
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&self, process: u64) -> bool {
        self.0.lock().ended.contains(&process)
    }

    pub(crate) fn export_event(&self, number: Number, event: Arc<SharedEvent>) {
        self.0.lock().events.insert(number, event);
    }

    pub(crate) fn event(&self, number: Number) -> Option<Arc<SharedEvent>> {
        self.0.lock().events.get(&number).cloned()
    }

    /// The exported event went.
    pub(crate) fn withdraw_event(&self, number: Number) {
        self.0.lock().events.remove(&number);
    }
}

/// What a handle is of, written into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HandleOf {
    Memory,
    Event,
    PoolMemory,
    Fabric,
}

/// What each handle begins with, so that garbage is told from one.
const MAGIC: u64 = 0x6375_686f_6c64_0001;

/// The bytes of a handle.
pub(crate) fn handle(of: HandleOf, (process, number): Number) -> [u8; 64] {
    let mut bytes = [0; 64];
    let words = [MAGIC, of as u64, process, number];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// What a handle names; `None` for garbage.
pub(crate) fn named(of: HandleOf, bytes: &[u8; 64]) -> Option<Number> {
    let mut words = bytes.chunks_exact(8).map(|word| {
        let mut whole = [0; 8];
        whole.copy_from_slice(word);
        u64::from_le_bytes(whole)
    });
    let (magic, kind) = (words.next()?, words.next()?);
    (magic == MAGIC && kind == of as u64).then_some((words.next()?, words.next()?))
}

/// C's bytes of a handle.
pub(crate) fn to_c(bytes: [u8; 64]) -> [c_char; 64] {
    bytes.map(|byte| c_char::from_ne_bytes([byte]))
}

/// A handle's bytes from C's.
pub(crate) fn from_c(bytes: [c_char; 64]) -> [u8; 64] {
    bytes.map(|byte| byte.to_ne_bytes()[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_names_what_it_was_made_of_and_nothing_else() {
        let bytes = from_c(to_c(handle(HandleOf::Event, (3, u64::MAX))));
        assert_eq!(named(HandleOf::Event, &bytes), Some((3, u64::MAX)));
        assert_eq!(named(HandleOf::Memory, &bytes), None);
        assert_eq!(named(HandleOf::Event, &[0; 64]), None);
    }

    #[test]
    fn only_a_pending_record_of_another_process_is_waited_for() {
        let event = SharedEvent::default();
        assert!(!event.waits_for_another(0));
        let mine = event.record();
        assert!(!event.waits_for_another(mine));
        assert!(event.waits_for_another(0));
        event.give_up(mine);
        assert!(!event.waits_for_another(0));
    }
}
