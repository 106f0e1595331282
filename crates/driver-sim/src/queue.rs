//! Queued work: one queue a stream, first in first out, and what waits for what between queues.
//!
//! ```text
//!   submitted ─► items (each may wait for points of other queues) ─► front runs ─► completed
//! ```
//!
//! A [`Point`] is a place in a queue: it is reached once as many items have completed. An item waits only for points
//! that were there before it, so there are no cycles. Nothing in this file runs anything: [`Queues::next`] says which
//! queue's front comes next towards a goal, and `run.rs` runs it.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
};

use cuhold_driver_sys::{
    CUresult,
    ffi::{CUhostFn, CUstream, CUstreamCallback},
};

use crate::{
    context::Context,
    elsewhere::Wait,
    event::Event,
    graph::Branch,
    memory::{Await, SharedEvent},
    order::{Doing, Stamp},
    world::{Key, State, UserData, World},
};

/// What is left of a queue's number, in bits, behind its process's.
const PROCESS_SHIFT: u32 = 40;

/// Which queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct QueueId(u64);

impl QueueId {
    /// The number of the queue, which no other ever has.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    pub(crate) const fn of_number(number: u64) -> Self {
        Self(number)
    }

    /// The process that a queue's number is of.
    pub(crate) const fn process_of(number: u64) -> u64 {
        number >> PROCESS_SHIFT
    }
}

/// A place in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Point {
    pub(crate) queue: QueueId,
    position: u64,
}

impl Point {
    pub(crate) fn position(self) -> u64 {
        self.position
    }

    /// Whether it comes later than another of the same queue.
    pub(crate) fn is_behind(self, other: Self) -> bool {
        self.queue == other.queue && self.position > other.position
    }
}

/// Work on state of the world: done with the world locked, and again at each launch of a graph that holds it.
pub(crate) type OnState = Arc<dyn Fn(&mut State) -> Result<(), CUresult> + Send + Sync>;

/// Code of the caller: run with nothing locked, and forbidden to call the driver.
pub(crate) type OnCaller =
    Arc<dyn Fn(&World, Option<&Doing>) -> Result<(), CUresult> + Send + Sync>;

/// One piece of work. A failing one is a fault of the device: it ends everything (see `run.rs`).
#[derive(Clone)]
pub(crate) enum Work {
    /// Nothing by itself: a place to wait for, or a wait.
    Marker,
    /// An event's record, which takes the time.
    Record {
        event: Key<Event>,
        serial: u64,
        /// Of an event between processes: what they see, and the record's number there.
        shared: Option<(Arc<SharedEvent>, u64)>,
    },
    /// A host function. Those of one context run one at a time.
    Host { function: CUhostFn, data: UserData },
    /// A stream callback: like a host function, but called after a fault too, with its status.
    Callback { stream: CUstream, function: CUstreamCallback, data: UserData },
    /// A copy or a fill.
    OnState(OnState),
    /// A stream-ordered free.
    Free(OnState),
    /// A kernel.
    OnCaller(OnCaller),
    /// A wait for a value in memory.
    Await(Await),
    /// A wait for work of another process.
    Elsewhere(Wait),
    /// Memory that begins or ends where this stands, as far as the checker of order is concerned.
    Note(OnState),
    /// A conditional node of a graph: other work in its place.
    Branch(Arc<Branch>),
}

impl Work {
    /// Whether it calls a function of the host: of one context's only one at a time.
    pub(crate) fn is_on_host(&self) -> bool {
        matches!(self, Self::Host { .. } | Self::Callback { .. })
    }

    /// Whether a device is busy with it. With a free it isn't, though here a free is done when somebody waits for it.
    fn keeps_busy(&self) -> bool {
        !self.is_instant() && !matches!(self, Self::Free(_))
    }

    /// Whether it takes no time: it completes as soon as there is nothing left that it waits for.
    fn is_instant(&self) -> bool {
        matches!(self, Self::Marker | Self::Record { .. } | Self::Note(_))
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Marker => "Marker",
            Self::Record { .. } => "Record",
            Self::Host { .. } => "Host",
            Self::Callback { .. } => "Callback",
            Self::OnState(_) => "OnState",
            Self::Free(_) => "Free",
            Self::OnCaller(_) => "OnCaller",
            Self::Await(_) => "Await",
            Self::Elsewhere(_) => "Elsewhere",
            Self::Note(_) => "Note",
            Self::Branch(_) => "Branch",
        })
    }
}

/// How a queue is ordered against the legacy default stream of its context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ordering {
    /// It is the legacy stream.
    Legacy,
    /// Each waits for the other.
    Blocking,
    /// Not at all.
    NonBlocking,
}

#[derive(Debug)]
struct Item {
    work: Work,
    after: Vec<Point>,
    stamp: Stamp,
}

/// A piece of work that was taken from its queue, to be run.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) work: Work,
    pub(crate) context: Key<Context>,
    pub(crate) at: Point,
    /// What it waited for.
    pub(crate) after: Vec<Point>,
    pub(crate) stamp: Stamp,
}

#[derive(Debug)]
struct Queue {
    context: Key<Context>,
    ordering: Ordering,
    items: VecDeque<Item>,
    submitted: u64,
    completed: u64,
    /// The front was taken and hasn't completed.
    running: bool,
    /// No stream submits to it any more; it goes when it is empty.
    closed: bool,
    /// Up to this place nothing keeps a device busy.
    free_until: u64,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.completed == self.submitted
    }
}

/// What comes next towards a goal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// The goal is reached.
    Done,
    /// The front of this queue.
    Run(QueueId),
    /// Another thread runs what has to complete first.
    Busy,
    /// A value is waited for that nobody has written yet.
    Blocked,
}

/// Whether work whose turn it is may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    Now,
    /// Once other work has ended.
    Later,
    /// Once memory holds what it waits for.
    Written,
}

/// All queues of the world.
#[derive(Debug)]
pub(crate) struct Queues {
    ids: u64,
    map: BTreeMap<QueueId, Queue>,
}

impl Queues {
    /// Those of a process, whose queues have numbers that no other process's have.
    pub(crate) const fn of_process(process: u64) -> Self {
        Self { ids: process << PROCESS_SHIFT, map: BTreeMap::new() }
    }

    pub(crate) fn open(&mut self, context: Key<Context>, ordering: Ordering) -> QueueId {
        self.ids += 1;
        let id = QueueId(self.ids);
        let items = VecDeque::new();
        self.map.insert(
            id,
            Queue {
                context,
                ordering,
                items,
                submitted: 0,
                completed: 0,
                running: false,
                closed: false,
                free_until: 0,
            },
        );
        id
    }

    /// Lets a queue go once its work is done.
    pub(crate) fn close(&mut self, id: QueueId) {
        if let Some(queue) = self.map.get_mut(&id) {
            queue.closed = true;
            if queue.is_idle() {
                self.map.remove(&id);
            }
        }
    }

    /// Appends work that waits for `after` and, by the rules of the legacy stream, for what else it must.
    ///
    /// A marker or a record with nothing before it completes at once; then the point returned is reached already, and
    /// the work comes back to be run.
    pub(crate) fn submit(
        &mut self,
        id: QueueId,
        work: Work,
        stamp: Stamp,
        after: &[Point],
    ) -> (Point, Option<Taken>) {
        let mut pending: Vec<Point> =
            after.iter().copied().filter(|point| !self.is_reached(*point)).collect();
        pending.extend(self.legacy_dependencies(id));
        let Some(queue) = self.map.get_mut(&id) else {
            return (Point { queue: id, position: 0 }, None);
        };
        let instant = work.is_instant();
        queue.submitted += 1;
        let point = Point { queue: id, position: queue.submitted };
        if instant && pending.is_empty() && queue.completed + 1 == queue.submitted {
            queue.completed += 1;
            let context = queue.context;
            return (point, Some(Taken { work, context, at: point, after: pending, stamp }));
        }
        queue.items.push_back(Item { work, after: pending, stamp });
        (point, None)
    }

    /// The points that work on `id` waits for because of the legacy default stream.
    fn legacy_dependencies(&self, id: QueueId) -> impl Iterator<Item = Point> {
        let me = self.map.get(&id).map(|queue| (queue.context, queue.ordering));
        let scan = me.is_some_and(|(_, ordering)| ordering != Ordering::NonBlocking);
        self.map
            .iter()
            .take(if scan { usize::MAX } else { 0 })
            .filter(move |(other, queue)| {
                me.is_some_and(|(context, ordering)| {
                    let opposite = match ordering {
                        Ordering::Legacy => Ordering::Blocking,
                        _ => Ordering::Legacy,
                    };
                    **other != id && queue.context == context && queue.ordering == opposite
                })
            })
            .filter(|(_, queue)| !queue.is_idle())
            .map(|(other, queue)| Point { queue: *other, position: queue.submitted })
    }

    /// The end of a queue as it is now.
    pub(crate) fn end(&self, id: QueueId) -> Point {
        Point { queue: id, position: self.map.get(&id).map_or(0, |queue| queue.submitted) }
    }

    /// What a wait for a stream has to reach: its end; for the legacy stream also the ends of all blocking ones.
    pub(crate) fn goals(&self, id: QueueId) -> Vec<Point> {
        let legacy = self.ordering(id) == Some(Ordering::Legacy);
        let others = legacy.then(|| self.legacy_dependencies(id)).into_iter().flatten();
        std::iter::once(self.end(id)).chain(others).collect()
    }

    /// The ends of all queues that `which` picks by their context.
    pub(crate) fn ends(&self, which: impl Fn(Key<Context>) -> bool) -> Vec<Point> {
        self.map
            .iter()
            .filter(|(_, queue)| !queue.is_idle() && which(queue.context))
            .map(|(id, queue)| Point { queue: *id, position: queue.submitted })
            .collect()
    }

    pub(crate) fn is_reached(&self, point: Point) -> bool {
        self.map.get(&point.queue).is_none_or(|queue| queue.completed >= point.position)
    }

    /// Whether work has to be done before `point` is reached that keeps a device busy. Where there is none, there never
    /// is again, and so none of it is looked at twice.
    pub(crate) fn is_held_up(&mut self, point: Point) -> bool {
        let (mut open, mut seen) = (vec![point], BTreeMap::new());
        while let Some(at) = open.pop() {
            let Some(queue) = self.map.get(&at.queue) else { continue };
            let begun = queue.completed + u64::from(queue.running);
            if queue.running && at.position >= begun {
                return true;
            }
            let known = seen.get(&at.queue).copied().unwrap_or(queue.free_until).max(begun);
            seen.insert(at.queue, known.max(at.position));
            let places = (known - begun, at.position.saturating_sub(known));
            let (Ok(skipped), Ok(new)) = (usize::try_from(places.0), usize::try_from(places.1))
            else {
                continue;
            };
            for item in queue.items.iter().skip(skipped).take(new) {
                if item.work.keeps_busy() {
                    return true;
                }
                open.extend(item.after.iter().filter(|point| !self.is_reached(**point)));
            }
        }
        for (id, until) in seen {
            if let Some(queue) = self.map.get_mut(&id) {
                queue.free_until = queue.free_until.max(until);
            }
        }
        false
    }

    /// Whether it is open, or has work.
    pub(crate) fn is_there(&self, id: QueueId) -> bool {
        self.map.contains_key(&id)
    }

    /// Whether a stream submits to it.
    pub(crate) fn is_open(&self, id: QueueId) -> bool {
        self.map.get(&id).is_some_and(|queue| !queue.closed)
    }

    /// Which front comes next towards `goal`. `start` says whether work of a context may start now, `pick` which one of
    /// several pieces of work comes first.
    pub(crate) fn next(
        &self,
        goal: Point,
        start: impl Fn(&Work, Key<Context>) -> Start,
        mut pick: impl FnMut(usize) -> usize,
    ) -> Next {
        let mut at = goal;
        loop {
            if self.is_reached(at) {
                return Next::Done;
            }
            let Some(queue) = self.map.get(&at.queue) else { return Next::Done };
            if queue.running {
                return Next::Busy;
            }
            let Some(front) = queue.items.front() else { return Next::Done };
            let open = || front.after.iter().filter(|point| !self.is_reached(**point));
            let chosen = match open().count() {
                0 | 1 => 0,
                several => pick(several),
            };
            match open().nth(chosen) {
                Some(first) => at = *first,
                None => {
                    return match start(&front.work, queue.context) {
                        Start::Now => Next::Run(at.queue),
                        Start::Later => Next::Busy,
                        Start::Written => Next::Blocked,
                    };
                }
            }
        }
    }

    /// The work that every queue has come to and that nothing else holds up.
    pub(crate) fn fronts(&self) -> impl Iterator<Item = &Work> {
        let idle = self.map.values().filter(|queue| !queue.running);
        let fronts = idle.filter_map(|queue| queue.items.front());
        let free = fronts.filter(|item| item.after.iter().all(|point| self.is_reached(*point)));
        free.map(|item| &item.work)
    }

    /// Takes the front of a queue to run it.
    pub(crate) fn take(&mut self, id: QueueId) -> Option<Taken> {
        let queue = self.map.get_mut(&id)?;
        let Item { work, after, stamp } = queue.items.pop_front()?;
        queue.running = true;
        let at = Point { queue: id, position: queue.completed + 1 };
        Some(Taken { work, context: queue.context, at, after, stamp })
    }

    /// The front that was taken hasn't completed: this comes in its place, behind `after`.
    pub(crate) fn again(&mut self, id: QueueId, work: Work, stamp: Stamp, after: Vec<Point>) {
        if let Some(queue) = self.map.get_mut(&id) {
            queue.running = false;
            queue.items.push_front(Item { work, after, stamp });
        }
    }

    /// The front that was taken has completed.
    pub(crate) fn finish(&mut self, id: QueueId) {
        if let Some(queue) = self.map.get_mut(&id) {
            queue.running = false;
            queue.completed += 1;
            if queue.closed && queue.is_idle() {
                self.map.remove(&id);
            }
        }
    }

    /// Completes a marker or a record that has nothing left to wait for, and hands it over; `None` once there is none.
    pub(crate) fn take_instant(&mut self) -> Option<Taken> {
        let (id, _) = self.map.iter().find(|(_, queue)| {
            let front = queue.items.front().filter(|_| !queue.running);
            front.is_some_and(|item| {
                item.work.is_instant() && item.after.iter().all(|point| self.is_reached(*point))
            })
        })?;
        let id = *id;
        let taken = self.take(id);
        self.finish(id);
        taken
    }

    /// Gives up all work that hasn't begun, and hands it back to be dropped where nothing is locked.
    #[must_use]
    pub(crate) fn discard(&mut self) -> Vec<Work> {
        let mut works = Vec::new();
        for queue in self.map.values_mut() {
            queue.completed += queue.items.len() as u64;
            works.extend(queue.items.drain(..).map(|item| item.work));
        }
        self.map.retain(|_, queue| !(queue.closed && queue.is_idle()));
        works
    }

    /// The queues with work that hasn't completed.
    pub(crate) fn pending_ids(&self) -> Vec<QueueId> {
        self.map.iter().filter(|(_, queue)| !queue.is_idle()).map(|(id, _)| *id).collect()
    }

    /// The work of a queue that hasn't begun, each with what it waits for beyond its queue.
    pub(crate) fn items(&self, id: QueueId) -> impl Iterator<Item = (&Work, &[Point])> {
        let items = self.map.get(&id).into_iter().flat_map(|queue| &queue.items);
        items.map(|item| (&item.work, item.after.as_slice()))
    }

    /// Whether a piece of a queue's work has begun and hasn't completed.
    pub(crate) fn is_running(&self, id: QueueId) -> bool {
        self.map.get(&id).is_some_and(|queue| queue.running)
    }

    /// How many pieces of its queue's work have to complete before a point is reached.
    pub(crate) fn left_until(&self, point: Point) -> u64 {
        self.map.get(&point.queue).map_or(0, |queue| point.position.saturating_sub(queue.completed))
    }

    /// How many pieces of work wait in all queues.
    pub(crate) fn pending_all(&self) -> u64 {
        self.map.values().map(|queue| queue.submitted - queue.completed).sum()
    }

    /// The queues of a context.
    pub(crate) fn of(&self, context: Key<Context>) -> Vec<QueueId> {
        self.map.iter().filter(|(_, queue)| queue.context == context).map(|(id, _)| *id).collect()
    }

    pub(crate) fn context(&self, id: QueueId) -> Option<Key<Context>> {
        self.map.get(&id).map(|queue| queue.context)
    }

    pub(crate) fn ordering(&self, id: QueueId) -> Option<Ordering> {
        self.map.get(&id).map(|queue| queue.ordering)
    }
}
