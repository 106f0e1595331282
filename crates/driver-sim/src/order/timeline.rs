//! What is kept of a queue: who it is, and what was known at each of its places.

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering as Atomic},
    },
};

use super::clock::Clock;
use crate::{context::Context, queue::Ordering, world::Key};

/// So many places of a queue are kept at which it learnt something; an older place then counts as the oldest of them.
const MARKS_MAX: usize = 64;

/// Who a queue is. Work refers to it for as long as it is remembered.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) number: u64,
    pub(crate) process: u64,
    pub(crate) context: Key<Context>,
    /// The index of the context's device.
    pub(crate) device: Option<usize>,
    pub(crate) ordering: Ordering,
    /// The stream's handle; 0 for a default stream and for what has none.
    pub(crate) stream: AtomicU64,
    /// It is a part of this one's work, and over when that is: a graph's chain of nodes.
    pub(super) part_of: OnceLock<(Arc<Self>, u64)>,
    /// Nothing is put on it any more.
    pub(super) is_closed: AtomicBool,
    /// Of this process: closed queues with lower numbers may be forgotten.
    pub(super) forgotten_below: Arc<AtomicU64>,
}

impl Timeline {
    /// Whether clocks may know nothing of it any more.
    fn is_forgotten(&self) -> bool {
        self.is_closed.load(Atomic::Relaxed)
            && self.number < self.forgotten_below.load(Atomic::Relaxed)
    }
}

/// A place in a queue's work.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(super) queue: u64,
    pub(super) position: u64,
    pub(super) clock: Clock,
}

impl Place {
    /// Teaches a clock all that is done at this place.
    pub(crate) fn teach(&self, clock: &mut Clock) -> bool {
        let learnt = clock.join(&self.clock);
        clock.raise(self.queue, self.position) || learnt
    }
}

/// A queue's progress.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) who: Arc<Timeline>,
    /// What its latest work knew, apart from the queue itself.
    pub(super) clock: Clock,
    /// Where its latest work stood.
    pub(super) position: u64,
    /// Where it learnt something, oldest first.
    marks: VecDeque<(u64, Clock)>,
}

impl Track {
    pub(super) const fn new(who: Arc<Timeline>) -> Self {
        Self { who, clock: Clock::new(), position: 0, marks: VecDeque::new() }
    }

    /// Its work at this position begins, and knows this as well.
    pub(super) fn reach(&mut self, position: u64, learnt: bool) {
        self.position = self.position.max(position);
        if !learnt {
            return;
        }
        if let Some((at, clock)) = self.marks.back_mut()
            && *at == position
        {
            *clock = self.clock.clone();
            return;
        }
        if self.marks.len() >= MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back((position, self.clock.clone()));
    }

    /// What is done once its work has come this far.
    pub(super) fn place(&self, position: u64) -> Place {
        let known = self.marks.iter().rev().find(|(at, _)| *at <= position);
        let is_whole = self.marks.len() < MARKS_MAX;
        let clock = match known.or_else(|| self.marks.front().filter(|_| !is_whole)) {
            Some((_, clock)) => clock.clone(),
            None => Clock::default(),
        };
        Place { queue: self.who.number, position, clock }
    }

    /// What is done once all of its work is that has begun.
    pub(super) fn end(&self) -> Place {
        Place { queue: self.who.number, position: self.position, clock: self.clock.clone() }
    }
}

/// Whether work of a queue, up to a position, is done for who knows this; `own` is the queue that asks, whose earlier work
/// is done.
pub(super) fn is_known(
    who: &Arc<Timeline>,
    position: u64,
    clock: &Clock,
    own: Option<u64>,
) -> bool {
    let (mut who, mut position) = (who, position);
    loop {
        if own == Some(who.number) || clock.at(who.number) >= position || who.is_forgotten() {
            return true;
        }
        match who.part_of.get() {
            Some((whole, end)) => (who, position) = (whole, *end),
            None => return false,
        }
    }
}
