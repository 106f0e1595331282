//! Pools that end before the streams on which their memory was freed.
//!
//! Measured on a real driver: memory of a pool that the program made was freed on a stream behind pending work, and the
//! pool was destroyed, before the free or behind it, while that work was still pending; then a later wait for that
//! stream (by an event, of the stream, of its context) ended the process. The stream may be a default stream or a created
//! one. It is the one that frees which matters: a stream that worked on the memory and was waited for by it, and every
//! other stream, did no harm. A stream that nobody waited for again did none either, nor one that was destroyed.
//!
//! So each pool remembers the frees that something was in front of, and each stream that such a free makes dangerous is
//! remembered until somebody waits for it: that is the violation.
//!
//! Not asked of a real driver: frees that no stream orders (`cuMemFree`), and waits that other calls do inside.

use super::{Memory, pool::Pool, space::Allocation};
use crate::{
    audit::{CallSite, ObjectKind, Violation, ViolationKind},
    queue::{Point, QueueId},
    world::{Key, State, Turn},
};

/// So many frees are kept before those are forgotten that nothing is in front of any more.
const KEPT: usize = 64;

/// An allocation of a pool whose free is enqueued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freed {
    base: u64,
    /// The calls that made and that freed it.
    calls: [CallSite; 2],
}

impl Freed {
    pub(super) fn new(allocation: &Allocation, by: CallSite) -> Self {
        Self { base: allocation.base, calls: [allocation.made, by] }
    }
}

/// The frees of a pool's memory that work was in front of.
#[derive(Debug, Default)]
pub(super) struct HeldFrees(Vec<(Point, Freed)>);

/// What a stream's next wait would be.
#[derive(Debug)]
pub(super) struct Danger {
    /// From here on.
    at: Point,
    object: (ObjectKind, u64),
    calls: Vec<CallSite>,
}

impl Danger {
    fn violation(&self, by: Option<CallSite>) -> Violation {
        Violation {
            kind: ViolationKind::PoolEndedBusy,
            object: Some(self.object),
            calls: self.calls.iter().copied().chain(by).collect(),
            note: "a wait for the stream on which the memory was freed can end a real driver's process: wait for that \
                   stream before the pool is destroyed",
            operations: Vec::new(),
        }
    }
}

impl Memory {
    /// The pool, if it is one that may end.
    fn mortal_pool(&mut self, key: Key<Pool>) -> Option<&mut Pool> {
        self.pool_mut(key).filter(|pool| !pool.is_default)
    }
}

impl State {
    /// The free of a pool's memory stands at `at`. Where the pool was destroyed before, its stream is dangerous from now on.
    pub(super) fn freed_on(&mut self, pool: Key<Pool>, at: Point, freed: Freed) {
        let is_over = self.memory.pools.get(pool).is_none();
        let Some(found) = self.memory.mortal_pool(pool) else { return };
        if !self.queues.is_held_up(at) {
            return;
        }
        if is_over {
            let object = (ObjectKind::DeviceMemory, freed.base);
            self.endanger(Danger { at, object, calls: freed.calls.to_vec() });
            return;
        }
        let held = &mut found.held_frees.0;
        if held.len() >= KEPT {
            held.retain(|(at, _)| self.queues.is_held_up(*at));
        }
        held.push((at, freed));
    }

    /// Whether a free of the pool's memory isn't done because of work in front of it.
    pub(super) fn has_held_frees(&mut self, key: Key<Pool>) -> bool {
        let Some(pool) = self.memory.mortal_pool(key) else { return false };
        pool.held_frees.0.iter().any(|(at, _)| self.queues.is_held_up(*at))
    }

    /// A pool is destroyed: each stream is dangerous from now on that has a free of its memory before it.
    pub(super) fn pool_ends(&mut self, key: Key<Pool>, by: CallSite) {
        let Some(pool) = self.memory.mortal_pool(key) else { return };
        for (at, Freed { calls: [made, freed], .. }) in std::mem::take(&mut pool.held_frees.0) {
            if self.queues.is_held_up(at) {
                let object = (ObjectKind::Pool, key.raw() as u64);
                self.endanger(Danger { at, object, calls: vec![made, freed, by] });
            }
        }
    }

    #[cold]
    fn endanger(&mut self, danger: Danger) {
        self.memory.dangers.entry(danger.at.queue).or_insert(danger);
    }

    /// What the next wait would have been for each stream that nobody waited for.
    pub(crate) fn dangers(&self) -> Vec<Violation> {
        self.memory.dangers.values().map(|danger| danger.violation(None)).collect()
    }
}

impl Turn<'_> {
    /// The host waits for work of a stream up to there.
    pub(crate) fn host_waits_for(&mut self, point: Point) {
        let is_met = |danger: &Danger| danger.at == point || point.is_behind(danger.at);
        if self.state.memory.dangers.get(&point.queue).is_some_and(is_met) {
            self.meet_danger(point.queue);
        }
    }

    /// The host waits for all work of streams.
    pub(crate) fn host_waits_for_all(&mut self, of: impl Fn(&State, QueueId) -> bool) {
        let state = &*self.state;
        let met = state.memory.dangers.keys().copied().filter(|queue| of(state, *queue));
        for queue in met.collect::<Vec<_>>() {
            self.meet_danger(queue);
        }
    }

    #[cold]
    fn meet_danger(&mut self, queue: QueueId) {
        let by = self.site;
        if self.state.queues.is_open(queue)
            && let Some(danger) = self.state.memory.dangers.remove(&queue)
        {
            self.state.violate(danger.violation(Some(by)));
        }
    }
}
