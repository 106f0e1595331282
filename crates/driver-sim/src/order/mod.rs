//! The checker of order: which pieces of work stand behind which, and what touched the same bytes without an order.
//!
//! ```text
//!   submitted ─► Stamp: what the host knew, what it waits for ─► begins ─► Doing: a clock (clock.rs)
//!                                                                  └─► touches bytes ─► Shadow: what did so before
//!                                                                                         └─► unordered: a violation
//! ```
//!
//! What it sees and what it can't stands in the crate's own description, for its users.

mod clock;
mod judge;
mod operation;
mod shadow;
mod strip;
mod timeline;

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering as Atomic},
    },
};

use parking_lot::Mutex;

pub(crate) use self::{
    clock::Clock,
    judge::Lent,
    shadow::Shadow,
    strip::Strip,
    timeline::{Place, Timeline},
};
use self::{
    judge::Loan,
    timeline::{Track, is_known},
};
pub use self::{
    operation::{Actor, Operation},
    shadow::Touch,
};
use crate::{
    audit::CallSite,
    context::Context,
    queue::{Ordering, Point, QueueId},
    world::{Key, State},
};

/// So many closed queues are kept beside the open ones.
const CLOSED_MAX: usize = 64;

/// A clock that knows more queues forgets those that were closed.
const KNOWN_MAX: usize = 96;

/// What the hosts of a machine know, all threads and processes of it.
pub(crate) type Host = Arc<Mutex<Clock>>;

/// Where something was done.
#[derive(Debug)]
pub(crate) enum At {
    /// By the host: the how-manieth of its doings.
    Host(u64),
    /// At a place of a queue.
    Queue(Arc<Timeline>, u64),
}

/// Something that was done to memory.
#[derive(Debug)]
pub(crate) struct Op {
    /// The call that asked for it: of a graph's node the one that made the node.
    pub(crate) by: CallSite,
    /// Of a graph's node: the launch.
    pub(crate) launched: Option<CallSite>,
    pub(crate) process: u64,
    pub(crate) at: At,
    /// What was done before it, apart from earlier work of its own queue.
    clock: Clock,
}

impl Op {
    /// Whether this one surely comes behind an earlier one.
    fn is_behind(&self, earlier: &Self) -> bool {
        match (&earlier.at, &self.at) {
            (At::Host(_), At::Host(_)) => true,
            (At::Host(number), At::Queue(..)) => self.clock.host >= *number,
            (At::Queue(who, position), At::Host(_)) => is_known(who, *position, &self.clock, None),
            (At::Queue(who, position), At::Queue(own, _)) => {
                is_known(who, *position, &self.clock, Some(own.number))
            }
        }
    }

    /// Whether the host of this clock knows that it is done.
    fn is_known(&self, host: &Clock) -> bool {
        match &self.at {
            At::Host(_) => true,
            At::Queue(who, position) => is_known(who, *position, host, None),
        }
    }

    /// Teaches a clock that it is done, and all before it.
    fn teach(&self, clock: &mut Clock) -> bool {
        let learnt = clock.join(&self.clock);
        match &self.at {
            At::Host(number) => {
                clock.host = clock.host.max(*number);
                learnt
            }
            At::Queue(who, position) => clock.raise(who.number, *position) || learnt,
        }
    }
}

/// What a piece of work is given when it is put on a queue.
#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    /// The call that put it there.
    pub(crate) by: CallSite,
    /// What was known to be done.
    base: Clock,
    /// Queues that are over with this: a graph's chains of nodes.
    parts: Vec<QueueId>,
}

impl Stamp {
    /// With this work those queues are over.
    pub(crate) fn ends(&mut self, parts: Vec<QueueId>) {
        self.parts = parts;
    }
}

/// A piece of work that runs.
#[derive(Clone, Debug)]
pub(crate) struct Doing {
    who: Arc<Timeline>,
    position: u64,
    clock: Clock,
    by: CallSite,
}

impl Doing {
    /// What it does to memory because of a call.
    pub(crate) fn op(&self, by: CallSite) -> Arc<Op> {
        Arc::new(Op {
            by,
            launched: (by != self.by).then_some(self.by),
            process: self.who.process,
            at: At::Queue(Arc::clone(&self.who), self.position),
            clock: self.clock.clone(),
        })
    }
}

/// The checker's state.
#[derive(Debug)]
pub(crate) struct Order {
    is_on: bool,
    process: u64,
    host: Host,
    tracks: BTreeMap<QueueId, Track>,
    /// Closed queues of `tracks`, in the order in which they were closed.
    closed: Vec<QueueId>,
    forgotten_below: Arc<AtomicU64>,
    /// What all later work of a context stands behind, by the number of its key.
    behind: BTreeMap<u64, Clock>,
    /// The work that runs now with the world locked.
    pub(crate) doing: Option<Doing>,
    /// What work stands behind that a conditional node puts on queues now, in place of what the host knows.
    pub(crate) base: Option<Clock>,
    /// What touched host memory that CUDA doesn't know.
    pageable: Arc<Shadow>,
    /// Which devices and contexts used what they were given access to.
    loans: Vec<Loan>,
    /// Which pairs were told already.
    told: BTreeSet<[u64; 4]>,
}

impl Order {
    pub(crate) fn new(is_on: bool, process: u64, host: Host) -> Self {
        Self {
            is_on,
            process,
            host,
            tracks: BTreeMap::new(),
            closed: Vec::new(),
            forgotten_below: Arc::default(),
            behind: BTreeMap::new(),
            doing: None,
            base: None,
            pageable: Arc::default(),
            loans: Vec::new(),
            told: BTreeSet::new(),
        }
    }

    /// What the host knows.
    pub(crate) fn host(&self) -> Clock {
        self.host.lock().clone()
    }

    /// The host does something itself.
    fn host_op(&self, by: CallSite) -> Arc<Op> {
        let mut host = self.host.lock();
        host.host += 1;
        Arc::new(Op {
            by,
            launched: None,
            process: self.process,
            at: At::Host(host.host),
            clock: host.clone(),
        })
    }

    fn host_learns(&self, teach: impl FnOnce(&mut Clock) -> bool) {
        let mut host = self.host.lock();
        // Whether that was news doesn't matter: the host keeps no marks.
        let _learnt = teach(&mut host);
        if host.len() > KNOWN_MAX {
            self.forget_closed(&mut host);
        }
    }

    /// A clock forgets queues of this process that are closed and no longer kept. What they did then counts as done.
    fn forget_closed(&self, clock: &mut Clock) {
        let below = Cell::new(0);
        clock.retain(|number| {
            let is_kept = QueueId::process_of(number) != self.process
                || self.tracks.contains_key(&QueueId::of_number(number));
            if !is_kept {
                below.set(below.get().max(number + 1));
            }
            is_kept
        });
        self.forgotten_below.fetch_max(below.get(), Atomic::Relaxed);
    }

    /// The place of a queue's work; of a queue that isn't kept, a place behind everything.
    pub(crate) fn place(&self, point: Point) -> Place {
        match self.tracks.get(&point.queue) {
            Some(track) => track.place(point.position()),
            None => {
                let mut clock = self.host();
                for track in self.tracks.values() {
                    track.end().teach(&mut clock);
                }
                Place { queue: point.queue.number(), position: point.position(), clock }
            }
        }
    }
}

impl Order {
    fn open(
        &mut self,
        id: QueueId,
        context: Key<Context>,
        device: Option<usize>,
        ordering: Ordering,
    ) {
        if !self.is_on {
            return;
        }
        let who = Timeline {
            number: id.number(),
            process: self.process,
            context,
            device,
            ordering,
            stream: AtomicU64::new(0),
            part_of: OnceLock::new(),
            is_closed: AtomicBool::new(false),
            forgotten_below: Arc::clone(&self.forgotten_below),
        };
        self.tracks.insert(id, Track::new(Arc::new(who)));
    }

    /// The queue is the one of this stream.
    pub(crate) fn name(&self, id: QueueId, stream: usize) {
        if let Some(track) = self.tracks.get(&id) {
            track.who.stream.store(stream as u64, Atomic::Relaxed);
        }
    }

    /// Work that runs learns of more that is done.
    pub(crate) fn learns(&mut self, doing: &mut Doing, teach: impl FnOnce(&mut Clock) -> bool) {
        let learnt = teach(&mut doing.clock);
        let id = QueueId::of_number(doing.who.number);
        if let Some(track) = self.tracks.get_mut(&id)
            && learnt
        {
            track.clock = doing.clock.clone();
            track.reach(doing.position, true);
        }
    }

    /// What work stands behind that stands behind this.
    pub(crate) fn all_before(doing: &Doing) -> Clock {
        let mut clock = doing.clock.clone();
        clock.raise(doing.who.number, doing.position);
        clock
    }

    /// What all work of these contexts has come to.
    pub(crate) fn end_of(&self, contexts: &[Key<Context>]) -> Clock {
        let mut clock = Clock::new();
        for track in self.tracks.values().filter(|track| contexts.contains(&track.who.context)) {
            track.end().teach(&mut clock);
        }
        clock
    }

    /// All later work of a context stands behind this.
    pub(crate) fn hold_back(&mut self, context: Key<Context>, place: &Place) {
        if self.is_on {
            place.teach(self.behind.entry(context.id()).or_default());
        }
    }

    /// The queues that a queue is ordered with because one of them is the legacy default stream.
    fn implied(&self, id: QueueId) -> impl Iterator<Item = &Track> {
        let me = self.tracks.get(&id).map(|track| &track.who);
        let opposite = me.and_then(|who| match who.ordering {
            Ordering::Legacy => Some(Ordering::Blocking),
            Ordering::Blocking => Some(Ordering::Legacy),
            Ordering::NonBlocking => None,
        });
        let all = self.tracks.values().take(if opposite.is_some() { usize::MAX } else { 0 });
        all.filter(move |track| {
            Some(track.who.ordering) == opposite
                && me.is_some_and(|me| me.context == track.who.context)
        })
    }
}

impl State {
    /// Opens a queue in a context.
    pub(crate) fn begin_queue(&mut self, context: Key<Context>, ordering: Ordering) -> QueueId {
        let id = self.queues.open(context, ordering);
        let device = self.contexts.get(context).and_then(|of| usize::try_from(of.device).ok());
        self.order.open(id, context, device, ordering);
        id
    }

    /// No work comes to a queue any more.
    pub(crate) fn close_queue(&mut self, id: QueueId) {
        self.queues.close(id);
        let order = &mut self.order;
        let Some(track) = order.tracks.get(&id) else { return };
        track.who.is_closed.store(true, Atomic::Relaxed);
        order.closed.push(id);
        if order.closed.len() > CLOSED_MAX {
            let queues = &self.queues;
            let over = order.closed.iter().position(|id| !queues.is_there(*id));
            if let Some(over) = over.map(|at| order.closed.remove(at)) {
                order.tracks.remove(&over);
            }
        }
    }

    /// The same, of a graph's chain of nodes, which is over with the launch.
    pub(crate) fn close_part(&mut self, id: QueueId) {
        self.queues.close(id);
        if let Some(track) = self.order.tracks.get(&id) {
            track.who.is_closed.store(true, Atomic::Relaxed);
        }
    }

    /// What work that a call puts on a queue is given: behind these points, and what `known` knows.
    pub(crate) fn stamp(
        &self,
        id: QueueId,
        by: CallSite,
        after: &[Point],
        known: Option<&Clock>,
    ) -> Stamp {
        let order = &self.order;
        if !order.is_on {
            return Stamp { by, base: Clock::new(), parts: Vec::new() };
        }
        let mut base = order.base.clone().unwrap_or_else(|| order.host());
        if let Some(known) = known {
            base.join(known);
        }
        for point in after.iter().filter(|point| self.queues.is_reached(**point)) {
            order.place(*point).teach(&mut base);
        }
        for track in order.implied(id) {
            // What isn't done yet is among the points that the work waits for.
            track.end().teach(&mut base);
        }
        if !order.behind.is_empty()
            && let Some(track) = order.tracks.get(&id)
            && let Some(clock) = order.behind.get(&track.who.context.id())
        {
            base.join(clock);
        }
        Stamp { by, base, parts: Vec::new() }
    }

    /// Work that was taken from a queue begins; `after` is what it waited for.
    pub(crate) fn begin_work(
        &mut self,
        id: QueueId,
        position: u64,
        stamp: &Stamp,
        after: &[Point],
    ) -> Option<Doing> {
        let order = &mut self.order;
        let track = order.tracks.get(&id)?;
        let (who, mut clock) = (Arc::clone(&track.who), track.clock.clone());
        let mut learnt = clock.join(&stamp.base);
        for point in after {
            learnt |= order.place(*point).teach(&mut clock);
        }
        if !stamp.parts.is_empty() {
            for part in &stamp.parts {
                if let Some(part) = order.tracks.remove(part) {
                    // Set once: a queue is a part of one work.
                    part.who.part_of.set((Arc::clone(&who), position)).unwrap_or_default();
                }
            }
            clock.retain(|number| !stamp.parts.contains(&QueueId::of_number(number)));
            learnt = true;
        }
        if clock.len() > KNOWN_MAX {
            order.forget_closed(&mut clock);
        }
        if let Some(track) = order.tracks.get_mut(&id) {
            track.clock = clock.clone();
            track.reach(position, learnt);
        }
        Some(Doing { who, position, clock, by: stamp.by })
    }

    /// The host was told that this is done.
    pub(crate) fn host_knows(&self, place: &Place) {
        if self.order.is_on {
            self.order.host_learns(|host| place.teach(host));
        }
    }

    /// The host was told that work has come this far.
    pub(crate) fn host_reached(&self, point: Point) {
        if self.order.is_on {
            self.host_knows(&self.order.place(point));
        }
    }

    /// The host was told that all work of a stream is done; of the legacy default stream also what that waits for.
    pub(crate) fn host_reached_end(&self, id: QueueId) {
        let is_legacy = self.queues.ordering(id) == Some(Ordering::Legacy);
        let implied = self.order.implied(id).filter(|_| is_legacy);
        let tracks: Vec<Place> =
            self.order.tracks.get(&id).into_iter().chain(implied).map(Track::end).collect();
        for place in tracks {
            self.host_knows(&place);
        }
    }

    /// The host was told what a clock knows.
    pub(crate) fn host_learns(&self, clock: &Clock) {
        if self.order.is_on {
            self.order.host_learns(|host| host.join(clock));
        }
    }
}
