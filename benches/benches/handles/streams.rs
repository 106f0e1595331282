//! Streams: create and drop, clone and drop; switching the context and back.

use crate::Bed;
use criterion::Criterion;
use cuhold::{Context, ContextFlags, driver_sys::ffi::*};
use cuhold_benches::{Subject, compare};
use std::hint::black_box;

pub(crate) fn benches(criterion: &mut Criterion, bed: &Bed) {
    let peer_stream = bed.peer.as_ref().map(|peer| peer.context.new_stream().unwrap());
    let mut subjects = vec![
        Subject::new("raw", || bed.raw.cuStreamDestroy_v2(bed.raw.new_stream())),
        Subject::new("cuhold", || drop(bed.device.new_stream().unwrap())),
    ];
    if let Some(peer) = &bed.peer {
        subjects.push(Subject::new("cudarc", || drop(peer.context.new_stream().unwrap())));
    }
    compare(criterion, "stream create + drop", 10_000, subjects);

    let stream = bed.device.new_stream().unwrap();
    let shared = std::sync::Arc::new(stream.clone());
    let mut subjects = vec![
        Subject::new("raw", || drop(black_box(std::sync::Arc::clone(&shared)))),
        Subject::new("cuhold", || drop(black_box(stream.clone()))),
    ];
    if let Some(peer) = &peer_stream {
        subjects.push(Subject::new("cudarc", || drop(black_box(std::sync::Arc::clone(peer)))));
    }
    compare(criterion, "stream clone + drop (raw: a bare Arc)", 1_000_000, subjects);

    let other = Context::new(&bed.device, ContextFlags::empty()).unwrap();
    let (here, there) = (bed.device.context().as_raw(), other.as_raw());
    let subjects = vec![
        Subject::new("raw", || {
            let mut current = CUcontext::NULL;
            bed.raw.cuCtxGetCurrent(&raw mut current);
            bed.raw.cuCtxSetCurrent(there);
            bed.raw.cuCtxSetCurrent(here);
        }),
        Subject::new("cuhold", || other.with_current(|| ()).unwrap()),
    ];
    compare(criterion, "context switch + restore", 1_000_000, subjects);
}
