//! Objects by handle: live ones, and what is remembered of those that ended.
//!
//! A handle is a number that can't be an address (its top bits name the kind), and by default no number is given twice,
//! so that a stale handle is always recognized. With reuse on, the number of the object that ended last is given again
//! first, as real drivers do.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use crate::audit::{CallSite, Leak, ObjectKind};

/// How many ended objects a table remembers. An older stale handle is still known as one that was given out, but not
/// by which calls its object was made and ended.
const GRAVES_MAX: usize = 1 << 14;

/// A live object's place in its table: the handle's value, and a number that no other object of the table ever has.
/// So a key stays wrong for an object that got the same handle later.
pub(crate) struct Key<T> {
    raw: usize,
    id: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    /// The handle's value.
    pub(crate) fn raw(self) -> usize {
        self.raw
    }

    /// The number that is the object's own, for good.
    pub(crate) fn id(self) -> u64 {
        self.id
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Key<T> {}
impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}
impl<T> Eq for Key<T> {}
impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}#{}", self.raw, self.id)
    }
}

/// Why an object is no longer there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The caller destroyed it, or the driver did in a call that is documented to.
    Destroyed,
    /// The context with this handle ended, and took it along.
    GoneWithContext(usize),
}

/// What is remembered of an object that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grave {
    pub(crate) made: CallSite,
    pub(crate) ended: CallSite,
    pub(crate) ending: Ending,
}

/// What a handle that isn't live is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Absent {
    Null,
    /// Its object ended; the grave is missing if that was long ago.
    Ended(Option<Grave>),
    NeverGiven,
}

/// How handles get their values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values {
    /// Whether those of ended objects are given again.
    pub(crate) reuse: bool,
    /// The process on its machine, the first one is 1: those of no two processes are the same.
    pub(crate) process: u64,
}

impl Values {
    /// What tells the values of processes apart, for numbers that begin at this bit.
    pub(crate) const fn mark(self, bit: u32) -> u64 {
        (self.process.saturating_sub(1) & 0xff) << bit
    }
}

#[derive(Debug)]
struct Entry<T> {
    id: u64,
    made: CallSite,
    value: T,
}

/// The objects of one kind.
#[derive(Debug)]
pub(crate) struct Table<T> {
    kind: ObjectKind,
    given: Values,
    ids: u64,
    values: usize,
    free: Vec<usize>,
    live: BTreeMap<usize, Entry<T>>,
    graves: BTreeMap<usize, Grave>,
}

impl<T> Table<T> {
    pub(crate) fn new(kind: ObjectKind, given: Values) -> Self {
        Self {
            kind,
            given,
            ids: 0,
            values: 0,
            free: Vec::new(),
            live: BTreeMap::new(),
            graves: BTreeMap::new(),
        }
    }

    pub(crate) fn kind(&self) -> ObjectKind {
        self.kind
    }

    /// Whether values are given again.
    pub(crate) fn is_reusing(&self) -> bool {
        self.given.reuse
    }

    fn base(&self) -> usize {
        let mark = usize::try_from(self.given.mark(32)).unwrap_or_default();
        ((0x5a00 + self.kind as usize) << 48) | mark
    }

    /// A handle's value that was never given before, or the one that ended last.
    pub(crate) fn fresh_value(&mut self) -> usize {
        if let Some(value) = self.free.pop() {
            return value;
        }
        self.values += 1;
        self.base() | (self.values << 4)
    }

    /// Puts an object in, under a value of the table's choice.
    pub(crate) fn insert(&mut self, made: CallSite, value: T) -> Key<T> {
        let raw = self.fresh_value();
        self.insert_at(raw, made, value)
    }

    /// Puts an object in under a value that [`fresh_value`](Self::fresh_value) gave.
    pub(crate) fn insert_at(&mut self, raw: usize, made: CallSite, value: T) -> Key<T> {
        self.ids += 1;
        self.graves.remove(&raw);
        self.live.insert(raw, Entry { id: self.ids, made, value });
        Key { raw, id: self.ids, of: PhantomData }
    }

    /// Takes an object out and remembers how it ended.
    pub(crate) fn remove(&mut self, key: Key<T>, ended: CallSite, ending: Ending) -> Option<T> {
        self.remove_but_keep_value(key, ended, ending).inspect(|_| {
            if self.given.reuse {
                self.free.push(key.raw);
            }
        })
    }

    /// The same; the value stays taken, for an object that comes back under it.
    pub(crate) fn remove_but_keep_value(
        &mut self,
        key: Key<T>,
        ended: CallSite,
        ending: Ending,
    ) -> Option<T> {
        self.get(key)?;
        let entry = self.live.remove(&key.raw)?;
        if self.graves.len() >= GRAVES_MAX {
            self.graves.pop_first();
        }
        self.graves.insert(key.raw, Grave { made: entry.made, ended, ending });
        Some(entry.value)
    }

    /// The key of the live object with this handle.
    pub(crate) fn find(&self, raw: usize) -> Option<Key<T>> {
        self.live.get(&raw).map(|entry| Key { raw, id: entry.id, of: PhantomData })
    }

    pub(crate) fn get(&self, key: Key<T>) -> Option<&T> {
        self.live.get(&key.raw).filter(|entry| entry.id == key.id).map(|entry| &entry.value)
    }

    pub(crate) fn get_mut(&mut self, key: Key<T>) -> Option<&mut T> {
        self.live.get_mut(&key.raw).filter(|entry| entry.id == key.id).map(|entry| &mut entry.value)
    }

    /// The call that made a live object.
    pub(crate) fn made(&self, key: Key<T>) -> Option<CallSite> {
        self.live.get(&key.raw).filter(|entry| entry.id == key.id).map(|entry| entry.made)
    }

    /// What a handle is that [`find`](Self::find) doesn't find.
    pub(crate) fn absent(&self, raw: usize) -> Absent {
        if raw == 0 {
            return Absent::Null;
        }
        let given = raw & 0xf == 0 && (1..=self.values).contains(&((raw ^ self.base()) >> 4));
        match self.graves.get(&raw) {
            Some(grave) => Absent::Ended(Some(*grave)),
            None if given => Absent::Ended(None),
            None => Absent::NeverGiven,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key<T>, &T)> {
        self.live.iter().map(|(raw, e)| (Key { raw: *raw, id: e.id, of: PhantomData }, &e.value))
    }

    /// The keys of the live objects that `which` picks.
    pub(crate) fn keys(&self, which: impl Fn(&T) -> bool) -> Vec<Key<T>> {
        self.iter().filter(|(_, value)| which(value)).map(|(key, _)| key).collect()
    }

    #[expect(dead_code, reason = "for memory and code, which are about to come")]
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    /// The live objects, as leaks.
    pub(crate) fn leaks(&self) -> impl Iterator<Item = Leak> {
        self.live.iter().map(|(raw, e)| Leak::new(self.kind, *raw as u64, e.made))
    }

    /// The objects that ended with their context and weren't destroyed, as leaks.
    pub(crate) fn gone_with_context(&self) -> impl Iterator<Item = Leak> {
        self.graves
            .iter()
            .filter(|(_, grave)| matches!(grave.ending, Ending::GoneWithContext(_)))
            .map(|(raw, grave)| Leak::new(self.kind, *raw as u64, grave.made))
    }
}
