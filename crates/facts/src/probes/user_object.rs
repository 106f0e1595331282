//! User objects: counted, held by graphs, ended.
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

use core::{
    ptr::null_mut,
    sync::atomic::{AtomicU32, Ordering},
};

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::{Ctx, word},
    host::{self, Inside},
    probe::{Probe, step},
    setup::Made,
};

const NO_SYNC: u32 = CUuserObject_flags::CU_USER_OBJECT_NO_DESTRUCTOR_SYNC.0;
const MOVE: u32 = CUuserObjectRetain_flags::CU_GRAPH_USER_OBJECT_MOVE.0;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuUserObjectCreate, "a user object is made", |c| {
        c.device()?;
        step(|c| {
            let mut object = CUuserObject::NULL;
            let data = host::user(host::leak(AtomicU32::new(0)));
            let end: CUhostFn = Some(host::count);
            ask!(c.cuUserObjectCreate(&raw mut object, data, end, 1, NO_SYNC));
            if c.observes() {
                c.holds("null", object.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuUserObjectCreate, "a user object of no references isn't made", |c| {
        c.device()?;
        let mut object = CUuserObject::NULL;
        let data = host::user(host::leak(AtomicU32::new(0)));
        let end: CUhostFn = Some(host::count);
        ask!(c.cuUserObjectCreate(&raw mut object, data, end, 0, NO_SYNC));
        ask!(c.cuUserObjectCreate(&raw mut object, data, end, 1, 0), "flags");
        ask!(c.cuUserObjectCreate(&raw mut object, data, None, 1, NO_SYNC), "no_end");
        ask!(c.cuUserObjectCreate(null_mut(), data, end, 1, NO_SYNC), "nowhere");
        Ok(())
    }),
    Probe::works(Call::cuUserObjectRetain, "a user object is held twice", |c| {
        let (object, ended) = object(c)?;
        step(move |c| {
            ask!(c.cuUserObjectRetain(object, 1));
            if c.observes() {
                ask!(c.cuUserObjectRelease(object, 1), "release");
                c.note("ended", ended.load(Ordering::SeqCst));
                ask!(c.cuUserObjectRelease(object, 1), "release");
                c.note("ended", ended.load(Ordering::SeqCst));
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuUserObjectRetain, "a user object isn't held no times", |c| {
        let (object, _) = object(c)?;
        ask!(c.cuUserObjectRetain(object, 0));
        ask!(c.cuUserObjectRetain(CUuserObject::NULL, 1), "null");
        Ok(())
    }),
    Probe::works(Call::cuUserObjectRelease, "the last release ends a user object", |c| {
        let (object, ended) = object(c)?;
        step(move |c| {
            ask!(c.cuUserObjectRelease(object, 1));
            if c.observes() {
                c.note("ended", ended.load(Ordering::SeqCst));
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuUserObjectRelease, "no user object is null", |c| {
        c.device()?;
        ask!(c.cuUserObjectRelease(CUuserObject::NULL, 1));
        Ok(())
    }),
    Probe::works(Call::cuGraphRetainUserObject, "a graph holds a user object", |c| {
        let (object, ended) = object(c)?;
        let graph = c.graph()?;
        step(move |c| {
            ask!(c.cuGraphRetainUserObject(graph, object, 1, MOVE));
            if c.observes() {
                c.note("ended", ended.load(Ordering::SeqCst));
                ask!(c.cuGraphDestroy(graph), "destroy");
                c.note("ended", ended.load(Ordering::SeqCst));
            }
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuGraphRetainUserObject,
        "a graph doesn't hold a user object no times",
        |c| {
            let (object, _) = object(c)?;
            let graph = c.graph()?;
            ask!(c.cuGraphRetainUserObject(graph, object, 0, MOVE));
            ask!(c.cuGraphRetainUserObject(graph, CUuserObject::NULL, 1, MOVE), "null");
            ask!(c.cuGraphRetainUserObject(graph, object, 1, 0x8000), "flags");
            Ok(())
        },
    ),
    Probe::works(Call::cuGraphReleaseUserObject, "a graph lets a user object go", |c| {
        let (object, ended) = object(c)?;
        let graph = c.graph()?;
        must!(c.cuGraphRetainUserObject(graph, object, 1, MOVE));
        step(move |c| {
            ask!(c.cuGraphReleaseUserObject(graph, object, 1));
            if c.observes() {
                c.note("ended", ended.load(Ordering::SeqCst));
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGraphReleaseUserObject, "a graph doesn't let null go", |c| {
        c.device()?;
        let graph = c.graph()?;
        ask!(c.cuGraphReleaseUserObject(graph, CUuserObject::NULL, 1));
        Ok(())
    }),
    Probe::case(Call::cuGraphReleaseUserObject, "a graph lets go what it doesn't hold", |c| {
        let (object, ended) = object(c)?;
        let graph = c.graph()?;
        ask!(c.cuGraphReleaseUserObject(graph, object, 1));
        c.note("ended", ended.load(Ordering::SeqCst));
        Ok(())
    }),
    Probe::case(Call::cuGraphRetainUserObject, "a clone holds what its graph holds", |c| {
        let (object, ended) = object(c)?;
        let graph = c.graph()?;
        must!(c.cuGraphRetainUserObject(graph, object, 1, MOVE));
        let mut clone = CUgraph::NULL;
        ask!(c.cuGraphClone(&raw mut clone, graph), "clone");
        ask!(c.cuGraphDestroy(graph), "destroy");
        c.note("ended", ended.load(Ordering::SeqCst));
        ask!(c.cuGraphDestroy(clone), "destroy_clone");
        c.note("ended", ended.load(Ordering::SeqCst));
        Ok(())
    }),
    Probe::case(Call::cuUserObjectCreate, "a user object's end may not call the driver", |c| {
        c.current()?;
        let inside = host::leak(Inside::new(c.driver_arc()));
        let mut object = CUuserObject::NULL;
        let end: CUhostFn = Some(host::create_stream_inside);
        ask!(c.cuUserObjectCreate(&raw mut object, host::user(inside), end, 1, NO_SYNC));
        ask!(c.cuUserObjectRelease(object, 1), "release");
        c.note("inside", inside.heard().map_or_else(|| "not_run".to_owned(), word));
        Ok(())
    }),
];

/// A user object, and how often it was ended.
fn object(c: &Ctx) -> Made<(CUuserObject, &'static AtomicU32)> {
    c.device()?;
    let ended = host::leak(AtomicU32::new(0));
    let mut object = CUuserObject::NULL;
    let end: CUhostFn = Some(host::count);
    must!(c.cuUserObjectCreate(&raw mut object, host::user(ended), end, 1, NO_SYNC));
    Ok((object, ended))
}
