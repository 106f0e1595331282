//! User objects: a count, and a destructor that runs when the count reaches zero.
//!
//! The destructor runs inside the call that released the last reference, on its thread, and every driver call in it is
//! refused (measured for graphs that aren't executed). Over-releasing isn't noticed by the real driver; here it is a
//! violation.
//!
//! Source: CUDA Driver API 13.x, "Graph Management", user objects.

use cuhold_driver_sys::ffi::*;

use crate::{
    audit::{ObjectKind, ViolationKind},
    options::Destructors,
    world::{Answer, Ending, Key, Out, Turn, UserData},
};

const NO_DESTRUCTOR_SYNC: c_uint = CUuserObject_flags::CU_USER_OBJECT_NO_DESTRUCTOR_SYNC.0;
const MOVE: c_uint = CUuserObjectRetain_flags::CU_GRAPH_USER_OBJECT_MOVE.0;
const COUNT_MAX: c_uint = c_int::MAX.cast_unsigned();

/// A user object.
#[derive(Debug)]
pub(crate) struct UserObject {
    /// All references, as the driver counts them.
    count: u64,
    /// Those among them that are the caller's, and not a graph's. The driver doesn't tell them apart.
    own: u64,
    data: UserData,
    destroy: CUhostFn,
}

impl UserObject {
    /// All references, and those among them that are the caller's.
    pub(crate) const fn references(&self) -> (u64, u64) {
        (self.count, self.own)
    }
}

impl Turn<'_> {
    fn user_object(&mut self, raw: CUuserObject) -> Result<Key<UserObject>, CUresult> {
        self.find(|state| &state.user_objects, raw.addr(), CUresult::INVALID_VALUE)
    }

    /// Takes references from the caller's own, and remembers a violation if there aren't as many.
    fn take_own(&mut self, key: Key<UserObject>, count: u64) {
        let Some(object) = self.state.user_objects.get_mut(key) else { return };
        let enough = count <= object.own;
        object.own = object.own.saturating_sub(count);
        if !enough {
            let named = Some((ObjectKind::UserObject, key.raw() as u64));
            self.violate(ViolationKind::OverRelease, named, "");
        }
    }

    /// Counts references that another graph holds.
    pub(super) fn retain_user_object(&mut self, raw: usize, count: u64) {
        let key = self.state.user_objects.find(raw);
        if let Some(object) = key.and_then(|key| self.state.user_objects.get_mut(key)) {
            object.count += count;
        }
    }

    /// Gives references back; with the last one the object ends and its destructor runs.
    fn release(&mut self, key: Key<UserObject>, count: u64) {
        let Some(object) = self.state.user_objects.get_mut(key) else { return };
        if count < object.count {
            object.count -= count;
            return;
        }
        let site = self.site;
        if let Some(ended) = self.state.user_objects.remove(key, site, Ending::Destroyed) {
            match self.state.options.destructors {
                Destructors::AtOnce => self.call_host(ended.destroy, ended.data),
                Destructors::Later => self.state.destructors.push((ended.destroy, ended.data)),
                // The test's choice: as in a process that ends.
                _ => {}
            }
        }
    }

    /// Runs the destructors that were put off. Says how many there were.
    pub(crate) fn run_destructors(&mut self) -> usize {
        let mut ran = 0;
        while let Some((destroy, data)) = self.state.destructors.pop() {
            self.call_host(destroy, data);
            ran += 1;
        }
        ran
    }

    /// Gives back what graphs held that ended in this call.
    #[cold]
    pub(crate) fn release_user_references(&mut self) {
        while let Some((raw, count)) = self.state.user_references.pop() {
            if let Some(key) = self.state.user_objects.find(raw) {
                self.release(key, count);
            }
        }
    }
}

fn count_is_valid(count: c_uint) -> Answer {
    if (1..=COUNT_MAX).contains(&count) { Ok(()) } else { Err(CUresult::INVALID_VALUE) }
}

pub(crate) fn user_object_create(
    turn: &mut Turn<'_>,
    out: Out<CUuserObject>,
    data: Out<c_void>,
    destroy: CUhostFn,
    count: c_uint,
    flags: c_uint,
) -> Answer {
    let out = out.required()?;
    count_is_valid(count)?;
    if destroy.is_none() || flags != NO_DESTRUCTOR_SYNC {
        return Err(CUresult::INVALID_VALUE);
    }
    let count = count.into();
    let object = UserObject { count, own: count, data: UserData(data.as_ptr()), destroy };
    let site = turn.site;
    out.write(CUuserObject::from_addr(turn.state.user_objects.insert(site, object).raw()));
    Ok(())
}

pub(crate) fn user_object_retain(
    turn: &mut Turn<'_>,
    object: CUuserObject,
    count: c_uint,
) -> Answer {
    let key = turn.user_object(object)?;
    count_is_valid(count)?;
    let object = turn.state.user_objects.get_mut(key).ok_or(CUresult::INVALID_VALUE)?;
    object.count += u64::from(count);
    object.own += u64::from(count);
    Ok(())
}

pub(crate) fn user_object_release(
    turn: &mut Turn<'_>,
    object: CUuserObject,
    count: c_uint,
) -> Answer {
    let key = turn.user_object(object)?;
    count_is_valid(count)?;
    turn.take_own(key, count.into());
    turn.release(key, count.into());
    Ok(())
}

/// Gives references to a graph: new ones, or with `MOVE` the caller's.
pub(crate) fn graph_retain(
    turn: &mut Turn<'_>,
    graph: CUgraph,
    object: CUuserObject,
    count: c_uint,
    flags: c_uint,
) -> Answer {
    let graph = turn.graph(graph)?;
    let key = turn.user_object(object)?;
    count_is_valid(count)?;
    if flags & !MOVE != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    if flags == MOVE {
        turn.take_own(key, count.into());
    } else {
        let object = turn.state.user_objects.get_mut(key).ok_or(CUresult::INVALID_VALUE)?;
        object.count += u64::from(count);
    }
    let graph = turn.state.graphs.get_mut(graph).ok_or(CUresult::INVALID_VALUE)?;
    *graph.users.entry(key.raw()).or_default() += u64::from(count);
    Ok(())
}

/// Takes references back from a graph. Those that it doesn't hold are taken from the object all the same (measured),
/// which is a violation.
pub(crate) fn graph_release(
    turn: &mut Turn<'_>,
    graph: CUgraph,
    object: CUuserObject,
    count: c_uint,
) -> Answer {
    let graph = turn.graph(graph)?;
    let key = turn.user_object(object)?;
    count_is_valid(count)?;
    let count = u64::from(count);
    let graph = turn.state.graphs.get_mut(graph).ok_or(CUresult::INVALID_VALUE)?;
    let held = graph.users.get(&key.raw()).copied().unwrap_or(0);
    let left = held.saturating_sub(count);
    if left == 0 {
        graph.users.remove(&key.raw());
    } else {
        graph.users.insert(key.raw(), left);
    }
    if count > held {
        let named = Some((ObjectKind::UserObject, key.raw() as u64));
        turn.violate(ViolationKind::OverRelease, named, "the graph holds fewer references");
        if let Some(object) = turn.state.user_objects.get_mut(key) {
            object.own = object.own.saturating_sub(count - held);
        }
    }
    turn.release(key, count);
    Ok(())
}
