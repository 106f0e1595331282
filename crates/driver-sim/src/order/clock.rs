//! What one piece of work, or the host, knows to be done: a vector clock.
//!
//! A clock has an entry for each queue that it knows of, by number: up to which of its pieces of work it stands behind.
//! The host's own doings are counted in one entry of their own. Clocks are shared until they differ: most work learns
//! nothing that its stream didn't know.

use std::sync::Arc;

/// Up to where a queue is known: its number, and the position of a piece of work.
type Part = (u64, u64);

/// What is known to be done.
#[derive(Clone, Default, Debug)]
pub(crate) struct Clock {
    /// How many of the host's own doings.
    pub(crate) host: u64,
    /// Of queues, by number; none at all for a fresh one.
    parts: Option<Arc<[Part]>>,
}

impl Clock {
    pub(crate) const fn new() -> Self {
        Self { host: 0, parts: None }
    }

    fn parts(&self) -> &[Part] {
        self.parts.as_deref().unwrap_or_default()
    }

    /// How many queues it knows of.
    pub(crate) fn len(&self) -> usize {
        self.parts().len()
    }

    /// Up to where it knows a queue.
    pub(crate) fn at(&self, queue: u64) -> u64 {
        let parts = self.parts();
        let found = parts.binary_search_by_key(&queue, |(queue, _)| *queue).ok();
        found.and_then(|at| parts.get(at)).map_or(0, |(_, position)| *position)
    }

    /// Whether the other knows nothing of queues that this one doesn't.
    fn knows_all_of(&self, other: &[Part]) -> bool {
        let mine = self.parts();
        if other.len() > mine.len() {
            return false;
        }
        let mut mine = mine.iter();
        other.iter().all(|(queue, position)| {
            mine.by_ref()
                .find(|(known, _)| known >= queue)
                .is_some_and(|(known, at)| known == queue && at >= position)
        })
    }

    /// Learns what another one knows. Says whether that was anything about queues.
    pub(crate) fn join(&mut self, other: &Self) -> bool {
        self.host = self.host.max(other.host);
        let Some(theirs) = &other.parts else { return false };
        let Some(mine) = &self.parts else {
            self.parts = Some(Arc::clone(theirs));
            return true;
        };
        if Arc::ptr_eq(mine, theirs) || self.knows_all_of(theirs) {
            return false;
        }
        self.parts = Some(if other.knows_all_of(mine) {
            Arc::clone(theirs)
        } else {
            merged(mine, theirs).into()
        });
        true
    }

    /// Learns of one piece of work. Says whether that was new.
    pub(crate) fn raise(&mut self, queue: u64, position: u64) -> bool {
        if position == 0 || self.at(queue) >= position {
            return false;
        }
        match (self.parts().binary_search_by_key(&queue, |(queue, _)| *queue), &mut self.parts) {
            (Ok(at), Some(parts)) => {
                if let Some(part) = Arc::make_mut(parts).get_mut(at) {
                    part.1 = position;
                }
            }
            (_, parts) => {
                let mine = parts.as_deref().unwrap_or_default();
                *parts = Some(merged(mine, &[(queue, position)]).into());
            }
        }
        true
    }

    /// Forgets queues.
    pub(crate) fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        if self.parts().iter().all(|(queue, _)| keep(*queue)) {
            return;
        }
        self.parts = Some(self.parts().iter().filter(|(queue, _)| keep(*queue)).copied().collect());
    }
}

/// Both, by number, with the later position of each.
fn merged(mine: &[Part], theirs: &[Part]) -> Vec<Part> {
    let mut all = Vec::with_capacity(mine.len() + theirs.len());
    let (mut mine, mut theirs) = (mine.iter().peekable(), theirs.iter().peekable());
    loop {
        let next = match (mine.peek(), theirs.peek()) {
            (Some(a), Some(b)) if a.0 == b.0 => {
                let part = (a.0, a.1.max(b.1));
                theirs.next();
                mine.next();
                part
            }
            (Some(a), Some(b)) if a.0 > b.0 => {
                let part = **b;
                theirs.next();
                part
            }
            (Some(a), _) => {
                let part = **a;
                mine.next();
                part
            }
            (None, Some(b)) => {
                let part = **b;
                theirs.next();
                part
            }
            (None, None) => return all,
        };
        all.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(parts: &[Part]) -> Clock {
        let mut clock = Clock::default();
        for (queue, position) in parts {
            clock.raise(*queue, *position);
        }
        clock
    }

    #[test]
    fn a_joined_clock_knows_the_later_position_of_each_queue() {
        let mut clock = clock(&[(1, 5), (3, 1), (9, 9)]);
        assert!(clock.join(&self::clock(&[(2, 7), (3, 4), (9, 2)])));
        assert_eq!(clock.parts(), [(1, 5), (2, 7), (3, 4), (9, 9)]);
        assert_eq!([1, 2, 3, 4].map(|queue| clock.at(queue)), [5, 7, 4, 0]);
    }

    #[test]
    fn what_is_known_already_is_nothing_new_and_leaves_the_clock_shared() {
        let mut first = clock(&[(1, 5), (3, 1)]);
        let shared = first.clone();
        assert!(!first.join(&clock(&[(3, 1)])));
        assert!(!first.raise(1, 4));
        assert!(matches!((&first.parts, &shared.parts), (Some(a), Some(b)) if Arc::ptr_eq(a, b)));
    }

    #[test]
    fn the_host_s_count_is_joined_even_where_no_queue_is_known() {
        let mut clock = Clock::default();
        assert!(!clock.join(&Clock { host: 3, parts: None }));
        assert_eq!((clock.host, clock.len()), (3, 0));
    }

    #[test]
    fn a_forgotten_queue_is_known_up_to_nowhere() {
        let mut clock = clock(&[(1, 5), (3, 1)]);
        clock.retain(|queue| queue != 1);
        assert_eq!((clock.at(1), clock.at(3)), (0, 1));
    }
}
