//! Hints for managed memory.

#![expect(unsafe_code, reason = "refers to memory by its address")]

use cuhold_handles::{Attach, ManagedMemory, Stream};
use cuhold_memory::{
    Advice, Buffer, Location, discard_and_prefetch_batch, discard_batch, prefetch_batch,
};
use cuhold_testkit::{Run, StreamKind};
use std::{cell::RefCell, sync::Arc};

/// Managed memory on this stream.
fn managed(run: &Run<'_>, stream: &Stream) -> Buffer<u32> {
    let memory = ManagedMemory::new(run.context(), 4096, Attach::Global).unwrap();
    let (ptr, owner) = (memory.as_raw(), Arc::new(memory));
    // SAFETY: the owner keeps the memory alive, and nobody else uses it.
    unsafe { Buffer::borrow_raw(stream, ptr, 1024, Some(owner)) }.unwrap()
}

/// The run's stream, but that the driver discards on no default stream.
fn own(run: &Run<'_>) -> Stream {
    match run.stream_kind() {
        StreamKind::Legacy => run.new_stream(),
        _ => run.stream().clone(),
    }
}

cuhold_testkit::enrol! {
    BufferView::prefetch |run| {
        let buffer = managed(run, run.stream());
        run.repeat(|| buffer.as_view().prefetch(Location::Host));
    }

    BufferView::advise |run| {
        let buffer = managed(run, run.stream());
        run.repeat(|| buffer.as_view().advise(Advice::Prefer(Location::Host)));
    }

    BufferViewMut::discard |run| {
        let buffer = RefCell::new(managed(run, &own(run)));
        run.repeat(|| buffer.borrow_mut().as_view_mut().discard());
    }

    BufferViewMut::discard_and_prefetch |run| {
        let buffer = RefCell::new(managed(run, &own(run)));
        run.repeat(|| buffer.borrow_mut().as_view_mut().discard_and_prefetch(Location::Host));
    }

    prefetch_batch |run| {
        let buffer = managed(run, run.stream());
        let here = Location::Device(run.device().as_raw());
        run.repeat(|| {
            let (left, right) = buffer.split_at(512)?;
            prefetch_batch(&[(left, Location::Host), (right, here)])
        });
    }

    discard_batch |run| {
        let buffer = RefCell::new(managed(run, &own(run)));
        run.repeat(|| {
            let mut buffer = buffer.borrow_mut();
            discard_batch(&mut <[_; 2]>::from(buffer.split_at_mut(512)?))
        });
    }

    discard_and_prefetch_batch |run| {
        let buffer = RefCell::new(managed(run, &own(run)));
        let here = Location::Device(run.device().as_raw());
        run.repeat(|| {
            let mut buffer = buffer.borrow_mut();
            let (left, right) = buffer.split_at_mut(512)?;
            discard_and_prefetch_batch(&mut [(left, Location::Host), (right, here)])
        });
    }
}
