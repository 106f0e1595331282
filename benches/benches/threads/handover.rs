//! Memory that one thread allocates and another one frees: threads in pairs, with a stream and a ring for each pair.

use crate::subjects::{RawMemory, RawStreams, Stage, Streams};
use cuhold::{AsSource, Buffer, driver_sys::ffi::CUstream};
use cuhold_benches::{Crowd, Ring, Worker};
use std::{iter, sync::Arc};

/// A ring for each pair of threads, and the stream that they work on.
struct Pairs<M, S>(Vec<(Ring<M>, S)>);

impl<M, S> Pairs<M, S> {
    fn new(threads: usize, stream: impl FnMut() -> S) -> Self {
        let streams = iter::repeat_with(stream).take(threads / 2);
        Self(streams.map(|stream| (Ring::default(), stream)).collect())
    }

    /// The first of a pair allocates, the second frees.
    fn work(&self, thread: usize, iterations: u64, mut allocate: impl FnMut(&S) -> M) -> u64 {
        let (ring, stream) = self.0.get(thread / 2).unwrap();
        if thread.is_multiple_of(2) {
            // SAFETY: one thread of the pair puts, this one.
            (0..iterations).for_each(|_| unsafe { ring.put(allocate(stream)) });
            return iterations;
        }
        // SAFETY: the other one takes.
        (0..iterations).for_each(|_| drop(unsafe { ring.take() }.unwrap()));
        0
    }
}

pub(crate) fn subjects<'s>(stage: &'s Stage<'_>, bytes: usize, threads: usize) -> Vec<Crowd<'s>> {
    let mut all = vec![
        raw(stage, bytes, threads),
        cuhold("pool", stage, stage.pool.clone(), bytes, threads),
        cuhold("cache", stage, stage.cache.clone(), bytes, threads),
    ];
    all.extend(cudarc(stage, bytes, threads));
    all
}

fn raw<'s>(stage: &'s Stage<'_>, bytes: usize, threads: usize) -> Crowd<'s> {
    let pairs = Pairs::new(threads, || RawStreams::new(stage, Streams::Own(1)));
    Crowd::new("raw", {
        let pairs = Arc::new(pairs);
        move |thread| {
            stage.bed.device.set_current().unwrap();
            let (pairs, settled) = (Arc::clone(&pairs), Arc::clone(&pairs));
            Worker::new(move |iterations| {
                pairs.work(thread, iterations, |streams| {
                    let stream: CUstream = streams.first();
                    RawMemory::new(stage, bytes, stream)
                })
            })
            .settle(move || settled.0.get(thread / 2).unwrap().1.synchronize())
        }
    })
}

fn cuhold<'s>(
    name: &'static str,
    stage: &'s Stage<'_>,
    source: impl AsSource + Sync + Send + 's,
    bytes: usize,
    threads: usize,
) -> Crowd<'s> {
    let pairs = Pairs::new(threads, || stage.bed.device.new_stream().unwrap());
    let shared = Arc::new((pairs, source));
    Crowd::new(name, move |thread| {
        stage.bed.device.set_current().unwrap();
        let (shared, settled) = (Arc::clone(&shared), Arc::clone(&shared));
        Worker::new(move |iterations| {
            let (pairs, source) = &*shared;
            pairs.work(thread, iterations, |stream| {
                Buffer::<u8>::uninit_in(source, stream, bytes).unwrap()
            })
        })
        .settle(move || settled.0.0.get(thread / 2).unwrap().1.synchronize().unwrap())
    })
}

fn cudarc<'s>(stage: &'s Stage<'_>, bytes: usize, threads: usize) -> Option<Crowd<'s>> {
    let context = &stage.bed.peer.as_ref()?.context;
    let pairs = Arc::new(Pairs::new(threads, || context.new_stream().unwrap()));
    Some(Crowd::new("cudarc", move |thread| {
        context.bind_to_thread().unwrap();
        let (pairs, settled) = (Arc::clone(&pairs), Arc::clone(&pairs));
        Worker::new(move |iterations| {
            pairs.work(thread, iterations, |stream| {
                // SAFETY: the memory isn't read.
                unsafe { stream.alloc::<u8>(bytes) }.unwrap()
            })
        })
        .settle(move || settled.0.get(thread / 2).unwrap().1.synchronize().unwrap())
    }))
}
