//! Pools that end while work of a default stream is pending on their memory.
//!
//! Measured on a real driver: memory of a pool that the program made was used by work of a default stream (the legacy or
//! the per-thread one) and freed, before or after the pool was destroyed; where nobody had waited for the stream by
//! then, a later wait for it ended the process. A pool that was kept did no harm. Of a created stream that is itself waited
//! for afterwards one reading has ended the process, too; only default streams are looked at here.
//!
//! So each pool remembers which of its allocations default streams work on, and where in their queues. What is an error
//! is the moment from which on nobody can help it any more: the destroy, for memory that was freed; the free, for memory
//! of a pool that was destroyed.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Memory,
    pool::Pool,
    space::{Allocation, Origin},
};
use crate::{
    audit::{CallSite, ObjectKind, Violation, ViolationKind},
    queue::{Point, QueueId, Queues},
    stream::Target,
    world::{Key, State, Turn},
};

/// So many entries are kept before those are forgotten whose work is done.
const KEPT: usize = 64;

/// An allocation of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pooled {
    pub(super) pool: Key<Pool>,
    /// The allocation's number.
    pub(super) id: u64,
    pub(super) made: CallSite,
}

/// Work of a default stream on an allocation.
#[derive(Clone, Copy, Debug)]
struct Touch {
    until: Point,
    /// The call that made the allocation, and the one that enqueued the work.
    calls: [CallSite; 2],
}

/// What default streams do with a pool's memory.
#[derive(Debug, Default)]
pub(super) struct Touches {
    /// By allocation and queue.
    last: BTreeMap<(u64, QueueId), Touch>,
    /// Of allocations that were made on a default stream: where the stream was then.
    homes: BTreeMap<u64, (Point, CallSite)>,
    /// Allocations that were freed and that work may be pending on.
    freed: BTreeSet<u64>,
}

impl Touches {
    fn add(&mut self, allocation: u64, touch: Touch, queues: &Queues) {
        if self.last.len() >= KEPT {
            self.last.retain(|_, touch| !queues.is_reached(touch.until));
            let last = &self.last;
            self.freed.retain(|id| last.keys().any(|(pending, _)| pending == id));
        }
        self.last.insert((allocation, touch.until.queue), touch);
    }

    /// The first work that is pending, of the allocations that `which` picks.
    fn pending(&self, queues: &Queues, which: impl Fn(u64) -> bool) -> Option<Touch> {
        let picked = self.last.iter().filter(|((allocation, _), _)| which(*allocation));
        picked.map(|(_, touch)| *touch).find(|touch| !queues.is_reached(touch.until))
    }
}

impl Memory {
    /// The allocation of a pool at an address, if there is one there that wasn't freed.
    pub(crate) fn pooled(&self, address: u64) -> Option<Pooled> {
        let found = self.space.containing(address)?;
        match found.origin {
            Origin::Pool(pool) if found.free_enqueued.is_none() => {
                Some(Pooled { pool, id: found.id, made: found.made })
            }
            _ => None,
        }
    }

    /// The pool, if it is one that the program made.
    fn made_pool(&mut self, key: Key<Pool>) -> Option<&mut Pool> {
        self.pool_mut(key).filter(|pool| !pool.is_default && pool.imported.is_none())
    }
}

impl State {
    /// An allocation was made on a stream.
    pub(super) fn allocated_on(&mut self, target: Target, pool: Key<Pool>, base: u64) {
        let Some((id, made)) = self.memory.space.at(base).map(|found| (found.id, found.made))
        else {
            return;
        };
        let at = self.queues.end(target.queue);
        if target.is_default()
            && let Some(pool) = self.memory.made_pool(pool)
        {
            pool.touches.homes.insert(id, (at, made));
        }
    }

    /// The free of an allocation is enqueued. What a stream's launches use can't be seen, so that each counts as work on
    /// what was allocated on the stream before. Where the pool was destroyed before, the free is the last moment.
    pub(super) fn free_touched(&mut self, pool: Key<Pool>, freed: Freed, by: CallSite) {
        let queues = &self.queues;
        let is_over = self.memory.pools.get(pool).is_none();
        let Some(found) = self.memory.made_pool(pool) else { return };
        let home = found.touches.homes.remove(&freed.id);
        let unseen = home.and_then(|(since, _)| self.memory.unseen.get(&since.queue).copied());
        let Some(found) = self.memory.made_pool(pool) else { return };
        if let Some((since, made)) = home
            && let Some((until, used)) = unseen.filter(|(until, _)| until.is_behind(since))
        {
            found.touches.add(freed.id, Touch { until, calls: [made, used] }, queues);
        }
        let pending = found.touches.pending(queues, |id| id == freed.id);
        found.touches.freed.extend(pending.map(|_| freed.id));
        if let Some(touch) = pending.filter(|_| is_over) {
            self.ended_busy((ObjectKind::DeviceMemory, freed.base), touch, by);
        }
    }

    /// A pool is destroyed: for what was freed of it, that is the last moment.
    pub(super) fn pool_ends_touched(&mut self, key: Key<Pool>, by: CallSite) {
        let Some(pool) = self.memory.pools.get(key) else { return };
        let pending = pool.touches.pending(&self.queues, |id| pool.touches.freed.contains(&id));
        if let Some(touch) = pending.filter(|_| !pool.is_default && pool.imported.is_none()) {
            self.ended_busy((ObjectKind::Pool, key.raw() as u64), touch, by);
        }
    }

    #[cold]
    fn ended_busy(&mut self, object: (ObjectKind, u64), touch: Touch, by: CallSite) {
        let [made, used] = touch.calls;
        self.violate(Violation {
            kind: ViolationKind::PoolEndedBusy,
            object: Some(object),
            calls: if used == by { vec![made, by] } else { vec![made, used, by] },
            note: "a real driver's process can end in a later wait for that stream: wait for it before the memory is \
                   freed or the pool is destroyed",
        });
    }
}

/// An allocation whose free is enqueued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freed {
    pub(super) id: u64,
    pub(super) base: u64,
}

impl From<&Allocation> for Freed {
    fn from(allocation: &Allocation) -> Self {
        Self { id: allocation.id, base: allocation.base }
    }
}

impl Turn<'_> {
    /// A launch was enqueued, which may use what no parameter of it names.
    pub(crate) fn touch_unseen(&mut self, target: Target, until: Option<Point>) {
        if let Some(until) = until.filter(|_| target.is_default()) {
            let by = self.site;
            self.state.memory.unseen.insert(until.queue, (until, by));
        }
    }

    /// Work was enqueued that uses these allocations, and stands at `until`; it was captured if that is nowhere.
    pub(crate) fn touch(
        &mut self,
        target: Target,
        until: Option<Point>,
        used: impl IntoIterator<Item = Pooled>,
    ) {
        let Some(until) = until.filter(|_| target.is_default()) else { return };
        let by = self.site;
        let state = &mut *self.state;
        for Pooled { pool, id, made } in used {
            if let Some(pool) = state.memory.made_pool(pool) {
                pool.touches.add(id, Touch { until, calls: [made, by] }, &state.queues);
            }
        }
    }
}
