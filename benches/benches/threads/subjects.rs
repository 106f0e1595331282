//! Whoever gives memory: the raw driver, cuhold's pool and its cache, and cudarc.

use crate::{
    bed::Bed,
    raw::Raw,
    scene::{Actor, Scene},
};
use cuhold::{
    AsSource, Buffer, CachingOptions, CachingResource, MemoryResource, Pool, PoolOptions, Stream,
    driver_sys::ffi::*,
};
use cuhold_benches::{Crowd, Worker};
use std::{iter, sync::Arc};

/// What the subjects share.
pub(crate) struct Stage<'b> {
    pub(crate) bed: &'b Bed,
    /// Of cuhold, and of the raw driver.
    pub(crate) pool: Pool,
    pub(crate) raw_pool: CUmemoryPool,
    pub(crate) cache: CachingResource,
    shared: Stream,
    raw_shared: CUstream,
}

impl<'b> Stage<'b> {
    pub(crate) fn new(bed: &'b Bed) -> Self {
        // The same for all: a pool that keeps what it has.
        let pool = Pool::new(&bed.device, PoolOptions::default()).unwrap();
        pool.set_release_threshold_bytes(u64::MAX).unwrap();
        let raw_pool = pool.as_raw();
        let cache = CachingResource::new(&pool, CachingOptions::default()).unwrap();
        let (shared, raw_shared) = (bed.device.new_stream().unwrap(), bed.raw.new_stream());
        Self { bed, pool, raw_pool, cache, shared, raw_shared }
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.bed.raw.cuStreamDestroy_v2(self.raw_shared);
    }
}

/// On which streams a thread works.
#[derive(Clone, Copy)]
pub(crate) enum Streams {
    /// On so many of its own, in turn.
    Own(usize),
    /// On one for all threads.
    Shared,
}

/// Streams of the raw driver that a thread works on.
pub(crate) struct RawStreams<'s> {
    raw: &'s Raw,
    streams: Vec<CUstream>,
    own: bool,
}

impl<'s> RawStreams<'s> {
    pub(crate) fn new(stage: &'s Stage<'_>, streams: Streams) -> Self {
        let raw = &stage.bed.raw;
        match streams {
            Streams::Own(count) => {
                Self { raw, streams: (0..count).map(|_| raw.new_stream()).collect(), own: true }
            }
            Streams::Shared => Self { raw, streams: vec![stage.raw_shared], own: false },
        }
    }

    /// The first of them.
    pub(crate) fn first(&self) -> CUstream {
        *self.streams.first().unwrap()
    }

    pub(crate) fn synchronize(&self) {
        self.streams.iter().for_each(|stream| self.raw.cuStreamSynchronize(*stream));
    }
}

impl Drop for RawStreams<'_> {
    fn drop(&mut self) {
        if self.own {
            self.streams.iter().for_each(|stream| self.raw.cuStreamDestroy_v2(*stream));
        }
    }
}

/// Memory of the raw driver.
pub(crate) struct RawMemory<'s> {
    raw: &'s Raw,
    pointer: CUdeviceptr,
    stream: CUstream,
}

impl<'s> RawMemory<'s> {
    #[inline]
    pub(crate) fn new(stage: &'s Stage<'_>, bytes: usize, stream: CUstream) -> Self {
        let (raw, mut pointer) = (&stage.bed.raw, 0);
        raw.cuMemAllocFromPoolAsync(&raw mut pointer, bytes, stage.raw_pool, stream);
        Self { raw, pointer, stream }
    }
}

impl Drop for RawMemory<'_> {
    #[inline]
    fn drop(&mut self) {
        self.raw.cuMemFreeAsync(self.pointer, self.stream);
    }
}

/// All of them, in one scene.
pub(crate) fn with<'s>(stage: &'s Stage<'_>, scene: Scene<'s>, streams: Streams) -> Vec<Crowd<'s>> {
    let mut all = vec![
        raw(stage, scene, streams),
        cuhold("pool", stage, stage.pool.clone(), scene, streams),
        cuhold("cache", stage, stage.cache.clone(), scene, streams),
    ];
    all.extend(cudarc(stage, scene, streams));
    all
}

/// Those whose resource is known at run time alone; the raw driver beside them.
pub(crate) fn through_dyn<'s>(
    stage: &'s Stage<'_>,
    scene: Scene<'s>,
    streams: Streams,
) -> Vec<Crowd<'s>> {
    let pool: Arc<dyn MemoryResource> = Arc::new(stage.pool.clone());
    let cache: Arc<dyn MemoryResource> = Arc::new(stage.cache.clone());
    vec![
        raw(stage, scene, streams),
        cuhold("pool", stage, pool, scene, streams),
        cuhold("cache", stage, cache, scene, streams),
    ]
}

fn raw<'s>(stage: &'s Stage<'_>, scene: Scene<'s>, streams: Streams) -> Crowd<'s> {
    Crowd::new("raw", move |thread| {
        stage.bed.device.set_current().unwrap();
        let streams = Arc::new(RawStreams::new(stage, streams));
        let (settled, mut actor) = (Arc::clone(&streams), Actor::new(scene, thread));
        let mut turn = 0..0;
        Worker::new(move |iterations| {
            actor.act(iterations, |bytes| {
                let at = next(&mut turn, streams.streams.len());
                RawMemory::new(stage, bytes, *streams.streams.get(at).unwrap())
            })
        })
        .settle(move || settled.synchronize())
    })
}

fn cuhold<'s>(
    name: &'static str,
    stage: &'s Stage<'_>,
    source: impl AsSource + Sync + Send + 's,
    scene: Scene<'s>,
    streams: Streams,
) -> Crowd<'s> {
    let source = Arc::new(source);
    Crowd::new(name, move |thread| {
        stage.bed.device.set_current().unwrap();
        let new = || stage.bed.device.new_stream().unwrap();
        let streams: Arc<[Stream]> = match streams {
            Streams::Own(count) => iter::repeat_with(new).take(count).collect(),
            Streams::Shared => Arc::new([stage.shared.clone()]),
        };
        let (settled, source, mut actor) =
            (Arc::clone(&streams), Arc::clone(&source), Actor::new(scene, thread));
        let mut turn = 0..0;
        Worker::new(move |iterations| {
            actor.act(iterations, |bytes| {
                let at = next(&mut turn, streams.len());
                Buffer::<u8>::uninit_in(&*source, streams.get(at).unwrap(), bytes).unwrap()
            })
        })
        .settle(move || settled.iter().for_each(|stream| stream.synchronize().unwrap()))
    })
}

fn cudarc<'s>(stage: &'s Stage<'_>, scene: Scene<'s>, streams: Streams) -> Option<Crowd<'s>> {
    let context = &stage.bed.peer.as_ref()?.context;
    let shared = context.new_stream().unwrap();
    Some(Crowd::new("cudarc", move |thread| {
        context.bind_to_thread().unwrap();
        let streams: Vec<_> = match streams {
            Streams::Own(count) => (0..count).map(|_| context.new_stream().unwrap()).collect(),
            Streams::Shared => vec![Arc::clone(&shared)],
        };
        let (settled, mut actor) = (streams.clone(), Actor::new(scene, thread));
        let mut turn = 0..0;
        Worker::new(move |iterations| {
            actor.act(iterations, |bytes| {
                let stream = streams.get(next(&mut turn, streams.len())).unwrap();
                // SAFETY: the memory isn't read.
                unsafe { stream.alloc::<u8>(bytes) }.unwrap()
            })
        })
        .settle(move || settled.iter().for_each(|stream| stream.synchronize().unwrap()))
    }))
}

/// The next of so many, in turn.
#[inline]
fn next(turn: &mut std::ops::Range<usize>, count: usize) -> usize {
    turn.next().unwrap_or_else(|| {
        *turn = 1..count;
        0
    })
}
