//! Memory of the device: allocate and free, copy, fill, and another home stream.

use crate::Bed;
use criterion::Criterion;
use cuhold::{Buffer, Pool, SynchronousResource, driver_sys::ffi::*};
use cuhold_benches::{Subject, compare};
use std::sync::Arc;

const KIB: usize = 1024;

pub(crate) fn benches(criterion: &mut Criterion, bed: &Bed) {
    allocate(criterion, bed);
    synchronous(criterion, bed);
    copy_and_fill(criterion, bed);
    moved(criterion, bed);
}

fn allocate(criterion: &mut Criterion, bed: &Bed) {
    let pool = Pool::default_of(&bed.device).unwrap();
    let (stream, raw_stream) = (bed.device.new_stream().unwrap(), bed.raw.new_stream());
    let peer = bed.peer.as_ref().map(|peer| peer.context.new_stream().unwrap());
    let raw_pool = pool.as_raw();
    // Keeps the pool from giving its memory back at each wait, which all three subjects' blocks end with.
    let kept = Buffer::<u8>::uninit_in(&pool, &stream, 32 * KIB * KIB).unwrap();
    pool.set_release_threshold_bytes(1 << 30).unwrap();
    for (bench, bytes) in [("allocate + free 1 KiB", KIB), ("allocate + free 1 MiB", KIB * KIB)] {
        let mut subjects = vec![
            Subject::new("raw", || {
                let mut pointer = 0;
                bed.raw.cuMemAllocFromPoolAsync(&raw mut pointer, bytes, raw_pool, raw_stream);
                bed.raw.cuMemFreeAsync(pointer, raw_stream);
            })
            .settle(|| bed.raw.cuStreamSynchronize(raw_stream)),
            Subject::new("cuhold", || {
                drop(Buffer::<u8>::uninit_in(&pool, &stream, bytes).unwrap());
            })
            .settle(|| stream.synchronize().unwrap()),
        ];
        if let Some(stream) = &peer {
            subjects.push(
                // SAFETY: the memory isn't read.
                Subject::new("cudarc", || drop(unsafe { stream.alloc::<u8>(bytes) }.unwrap()))
                    .settle(|| stream.synchronize().unwrap()),
            );
        }
        compare(criterion, bench, 1_000, subjects);
    }
    pool.set_release_threshold_bytes(0).unwrap();
    drop(kept);
    bed.raw.cuStreamDestroy_v2(raw_stream);
}

/// Memory that isn't allocated in stream order: ended here and now, as the raw call does.
fn synchronous(criterion: &mut Criterion, bed: &Bed) {
    let (resource, stream) =
        (Arc::new(SynchronousResource::new(&bed.device)), bed.device.new_stream().unwrap());
    let subjects = vec![
        Subject::new("raw", || {
            let mut pointer = 0;
            bed.raw.cuMemAlloc_v2(&raw mut pointer, KIB * KIB);
            bed.raw.cuMemFree_v2(pointer);
        }),
        Subject::new("cuhold", || {
            let buffer = Buffer::<u8>::uninit_in(&resource, &stream, KIB * KIB).unwrap();
            buffer.close().unwrap();
        }),
    ];
    compare(criterion, "allocate + free 1 MiB without a pool", 200, subjects);
}

fn copy_and_fill(criterion: &mut Criterion, bed: &Bed) {
    let (stream, raw_stream) = (bed.device.new_stream().unwrap(), bed.raw.new_stream());
    let len = 4 * KIB;
    let from = Buffer::<u8>::zeroed(&stream, len).unwrap();
    let mut to = Buffer::<u8>::zeroed(&stream, len).unwrap();
    let other = Buffer::<u8>::zeroed(&stream, len).unwrap();
    stream.synchronize().unwrap();
    let (raw_from, raw_to): (CUdeviceptr, CUdeviceptr) = (from.device_ptr(), other.device_ptr());
    let peer = bed.peer.as_ref().map(|peer| {
        let stream = peer.context.new_stream().unwrap();
        let (from, to) =
            (stream.alloc_zeros::<u8>(len).unwrap(), stream.alloc_zeros::<u8>(len).unwrap());
        (stream, from, to)
    });
    let (peer_stream, buffers): (Option<_>, Option<_>) = peer.map(|(s, f, t)| (s, (f, t))).unzip();
    let (peer_from, mut peer_to): (Option<_>, Option<_>) = buffers.unzip();
    let mut subjects = vec![
        Subject::new("raw", || bed.raw.cuMemcpyDtoDAsync_v2(raw_to, raw_from, len, raw_stream))
            .settle(|| bed.raw.cuStreamSynchronize(raw_stream)),
        Subject::new("cuhold", || to.copy_from(&from).unwrap())
            .settle(|| stream.synchronize().unwrap()),
    ];
    if let (Some(stream), Some(from), Some(to)) = (&peer_stream, &peer_from, &mut peer_to) {
        subjects.push(
            Subject::new("cudarc", move || stream.memcpy_dtod(from, to).unwrap())
                .settle(|| stream.synchronize().unwrap()),
        );
    }
    compare(criterion, "device copy 4 KiB", 500, subjects);

    let mut subjects = vec![
        Subject::new("raw", || bed.raw.cuMemsetD8Async(raw_to, 0, len, raw_stream))
            .settle(|| bed.raw.cuStreamSynchronize(raw_stream)),
        Subject::new("cuhold", || to.fill(0).unwrap()).settle(|| stream.synchronize().unwrap()),
    ];
    if let (Some(stream), Some(to)) = (&peer_stream, &mut peer_to) {
        subjects.push(
            Subject::new("cudarc", move || stream.memset_zeros(to).unwrap())
                .settle(|| stream.synchronize().unwrap()),
        );
    }
    compare(criterion, "fill 4 KiB", 500, subjects);
    bed.raw.cuStreamDestroy_v2(raw_stream);
}

/// Another stream that waits for the former one: an event that is recorded and waited for.
fn moved(criterion: &mut Criterion, bed: &Bed) {
    let (one, two) = (bed.device.new_stream().unwrap(), bed.device.new_stream().unwrap());
    let (raw_one, raw_two) = (bed.raw.new_stream(), bed.raw.new_stream());
    let mut buffer = Buffer::<u8>::zeroed(&one, KIB).unwrap();
    let peer = bed
        .peer
        .as_ref()
        .map(|peer| (peer.context.new_stream().unwrap(), peer.context.new_stream().unwrap()));
    let event = bed.raw.new_event();
    let mut is_first = true;
    let mut subjects = vec![
        Subject::new("raw", || {
            bed.raw.cuEventRecord(event, raw_one);
            bed.raw.cuStreamWaitEvent(raw_two, event, 0);
        })
        .settle(|| bed.raw.cuStreamSynchronize(raw_two)),
        Subject::new("cuhold", || {
            is_first = !is_first;
            buffer.move_to(if is_first { &one } else { &two }).unwrap();
        })
        .settle(|| {
            one.synchronize().unwrap();
            two.synchronize().unwrap();
        }),
    ];
    if let Some((one, two)) = &peer {
        subjects.push(
            Subject::new("cudarc", || two.join(one).unwrap()).settle(|| two.synchronize().unwrap()),
        );
    }
    compare(criterion, "move a buffer to another stream", 500, subjects);
    bed.raw.cuEventDestroy_v2(event);
    bed.raw.cuStreamDestroy_v2(raw_two);
    bed.raw.cuStreamDestroy_v2(raw_one);
}
