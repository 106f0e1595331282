//! Copies. The blocking forms work on the legacy default stream and wait for it where the host's memory is concerned.
//!
//! Source: CUDA Driver API 13.x, "Memory Management", "API synchronization behavior".

#![expect(unsafe_code, reason = "pageable memory is reached through the caller's pointers")]

use std::sync::Arc;

use cuhold_driver_sys::ffi::*;

use super::{
    copy::{Asker, Copy, Expect, Extent, Refusal, Side},
    page_locked::address_of,
    space::{Allocation, Origin},
};
use crate::{
    graph::{NodeKind, Params, StoredCopy},
    queue::{Point, Work},
    stream::Target,
    world::{Answer, In, Out, Turn},
};

/// What a copy is to move.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) extent: Extent,
    pub(super) source: (Side, Expect),
    pub(super) destination: (Side, Expect),
    /// The call says itself which contexts its addresses belong to.
    pub(super) names_contexts: bool,
}

impl Request {
    pub(super) fn linear(destination: (u64, Expect), source: (u64, Expect), count: usize) -> Self {
        Self {
            extent: Extent::row(count as u64),
            source: (Side::linear(source.0), source.1),
            destination: (Side::linear(destination.0), destination.1),
            names_contexts: false,
        }
    }
}

/// Whether the call waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Blocking,
    Async,
}

impl Turn<'_> {
    /// The index of the current context's device.
    pub(super) fn current_device(&self) -> Option<usize> {
        let raw = self.state.threads.current(self.thread).addr();
        let current = self.state.contexts.find(raw).and_then(|key| self.state.contexts.get(key));
        current.and_then(|context| usize::try_from(context.device).ok())
    }

    /// Who asks for work on a stream.
    pub(super) fn asker(&mut self, target: Target) -> Asker {
        let current_device = self.current_device();
        let working_device = self.device_of(target).ok();
        let captured = self.is_capturing(target);
        Asker { current_device, working_device, captured, by: self.site }
    }

    /// `INVALID_VALUE`, and a violation where memory was misused.
    pub(super) fn refuse_plan(&mut self, refusal: Refusal) -> CUresult {
        match refusal {
            Refusal::Value => CUresult::INVALID_VALUE,
            Refusal::Misplaced(misplaced) => self.refuse_misplaced(misplaced),
        }
    }

    /// Waits for work that was enqueued, unless it was captured.
    pub(super) fn complete_point(&mut self, point: Option<Point>) -> Answer {
        point.map_or(Ok(()), |point| self.complete(point))
    }
}

pub(super) fn transfer(
    turn: &mut Turn<'_>,
    stream: CUstream,
    request: Request,
    form: Form,
) -> Answer {
    let target = turn.stream(stream)?;
    turn.not_lost()?;
    turn.capture_usable(target)?;
    if request.extent.is_empty() {
        return Ok(());
    }
    let copy = plan(turn, target, request)?;
    enqueue(turn, target, (copy, request), form)
}

/// Checks a copy of at least one byte.
pub(super) fn plan(
    turn: &mut Turn<'_>,
    target: Target,
    request: Request,
) -> Result<Copy, CUresult> {
    let mut asker = turn.asker(target);
    if request.names_contexts {
        asker.current_device = None;
    }
    plan_for(turn, asker, request)
}

/// The same for who asks.
pub(super) fn plan_for(
    turn: &mut Turn<'_>,
    asker: Asker,
    request: Request,
) -> Result<Copy, CUresult> {
    let Request { extent, source, destination, .. } = request;
    // SAFETY: *pointers*: the caller of a copy promised both ranges, for as long as CUDA uses them.
    let planned = unsafe { turn.state.memory.plan_copy(extent, source, destination, asker) };
    let copy = planned.map_err(|refusal| turn.refuse_plan(refusal))?;
    if copy.is_staged() {
        let by = turn.site;
        turn.state.host_reads_pageable(by, source.0.strip(extent));
    }
    Ok(copy)
}

pub(super) fn enqueue(
    turn: &mut Turn<'_>,
    target: Target,
    (copy, request): (Copy, Request),
    form: Form,
) -> Answer {
    let waits = match form {
        Form::Blocking => copy.blocks(&turn.state.memory),
        Form::Async => {
            let told = turn.state.options.pageable_copies_wait && copy.ends_pageable();
            told || copy.is_on_host(&turn.state.memory)
        }
    };
    let work = Work::OnState(Arc::new(move |state| copy.run(state)));
    let captured = turn.is_capturing(target).then(|| turn.told(request));
    let params = || captured.unwrap_or(Params::Unknown);
    let point = turn.enqueue_told(target, NodeKind::Memcpy, work, params)?;
    if waits { turn.complete_point(point) } else { Ok(()) }
}

impl Turn<'_> {
    /// A captured copy, as its node tells it; one of an array isn't told.
    fn told(&self, request: Request) -> Params {
        let space = &self.state.memory.space;
        let found = |side: Side| space.containing(side.address);
        let (from, to) = (request.source.0, request.destination.0);
        let is_array = |side| found(side).is_some_and(|a| matches!(a.origin, Origin::Behind(_)));
        if is_array(from) || is_array(to) {
            return Params::Unknown;
        }
        let is_host = |side| found(side).is_none_or(Allocation::is_on_host);
        let wide = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let kind = |side| match is_host(side) {
            true => CUmemorytype::CU_MEMORYTYPE_HOST,
            false => CUmemorytype::CU_MEMORYTYPE_DEVICE,
        };
        let height = |side: Side| wide(side.slice_bytes.checked_div(side.pitch_bytes).unwrap_or(0));
        let at = |side: Side| match is_host(side) {
            true => (host_pointer(side.address), 0),
            false => (std::ptr::null_mut(), side.address),
        };
        let (src_host, src_device) = at(from);
        let (dst_host, dst_device) = at(to);
        Params::Memcpy(
            StoredCopy::new(CUDA_MEMCPY3D {
                srcMemoryType: kind(from),
                srcHost: src_host.cast_const(),
                srcDevice: src_device,
                srcPitch: wide(from.pitch_bytes),
                srcHeight: height(from),
                dstMemoryType: kind(to),
                dstHost: dst_host,
                dstDevice: dst_device,
                dstPitch: wide(to.pitch_bytes),
                dstHeight: height(to),
                WidthInBytes: wide(request.extent.width_bytes),
                Height: wide(request.extent.rows),
                Depth: wide(request.extent.slices),
                ..CUDA_MEMCPY3D::default()
            }),
            CUcontext::NULL,
        )
    }
}

/// An address of the host as its program knows it.
fn host_pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
}

pub(crate) fn copy(
    turn: &mut Turn<'_>,
    destination: CUdeviceptr,
    source: CUdeviceptr,
    count: usize,
) -> Answer {
    let request = Request::linear((destination, Expect::Any), (source, Expect::Any), count);
    transfer(turn, CU_STREAM_LEGACY, request, Form::Blocking)
}

pub(crate) fn host_to_device(
    turn: &mut Turn<'_>,
    destination: CUdeviceptr,
    source: In<c_void>,
    count: usize,
) -> Answer {
    let source = (address_of(source.as_ptr()), Expect::Any);
    let request = Request::linear((destination, Expect::Device), source, count);
    transfer(turn, CU_STREAM_LEGACY, request, Form::Blocking)
}

pub(crate) fn device_to_host(
    turn: &mut Turn<'_>,
    destination: Out<c_void>,
    source: CUdeviceptr,
    count: usize,
) -> Answer {
    let destination = (address_of(destination.as_ptr()), Expect::Any);
    let request = Request::linear(destination, (source, Expect::Device), count);
    transfer(turn, CU_STREAM_LEGACY, request, Form::Blocking)
}

pub(crate) fn device_to_device(
    turn: &mut Turn<'_>,
    destination: CUdeviceptr,
    source: CUdeviceptr,
    count: usize,
) -> Answer {
    let request = Request::linear((destination, Expect::Device), (source, Expect::Device), count);
    transfer(turn, CU_STREAM_LEGACY, request, Form::Blocking)
}

pub(crate) fn copy_async(
    turn: &mut Turn<'_>,
    destination: CUdeviceptr,
    source: CUdeviceptr,
    count: usize,
    stream: CUstream,
) -> Answer {
    let request = Request::linear((destination, Expect::Any), (source, Expect::Any), count);
    transfer(turn, stream, request, Form::Async)
}

pub(crate) fn host_to_device_async(
    turn: &mut Turn<'_>,
    destination: CUdeviceptr,
    source: In<c_void>,
    count: usize,
    stream: CUstream,
) -> Answer {
    let source = (address_of(source.as_ptr()), Expect::Any);
    let request = Request::linear((destination, Expect::Device), source, count);
    transfer(turn, stream, request, Form::Async)
}

pub(crate) fn device_to_host_async(
    turn: &mut Turn<'_>,
    destination: Out<c_void>,
    source: CUdeviceptr,
    count: usize,
    stream: CUstream,
) -> Answer {
    let destination = (address_of(destination.as_ptr()), Expect::Any);
    let request = Request::linear(destination, (source, Expect::Device), count);
    transfer(turn, stream, request, Form::Async)
}

pub(crate) fn device_to_device_async(
    turn: &mut Turn<'_>,
    destination: CUdeviceptr,
    source: CUdeviceptr,
    count: usize,
    stream: CUstream,
) -> Answer {
    let request = Request::linear((destination, Expect::Device), (source, Expect::Device), count);
    transfer(turn, stream, request, Form::Async)
}

/// Works without peer access (the driver stages it).
#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn copy_peer_async(
    turn: &mut Turn<'_>,
    destination: CUdeviceptr,
    destination_context: CUcontext,
    source: CUdeviceptr,
    source_context: CUcontext,
    count: usize,
    stream: CUstream,
) -> Answer {
    turn.context(destination_context)?;
    turn.context(source_context)?;
    let mut request =
        Request::linear((destination, Expect::Device), (source, Expect::Device), count);
    request.names_contexts = true;
    transfer(turn, stream, request, Form::Async)
}
