//! Streams: made, ended, asked, waited for; and how work gets onto them.
//!
//! A stream's handle and its queue are two things: a destroyed stream's work goes on, and the default streams have
//! queues without handles of their own. Every enqueue of every topic goes through [`Turn::enqueue`], which knows about
//! captures and about the legacy default stream.
//!
//! Source: CUDA Driver API 13.x, "Stream Management", "Stream synchronization behavior".

mod attribute;
mod host;

use cuhold_driver_sys::ffi::*;

pub(crate) use attribute::{copy_attributes, get_attribute, set_attribute};
pub(crate) use host::{add_callback, launch_host, launch_host_v2};

use crate::{
    context::{Context, GREATEST_PRIORITY, LEAST_PRIORITY},
    graph::{NodeKind, Params, Task},
    order::{Clock, Stamp},
    queue::{Ordering, Point, QueueId, Work},
    world::{Absent, Answer, Ending, Grave, Key, Out, Turn},
};

/// A created stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: Key<Context>,
    pub(crate) queue: QueueId,
    pub(crate) flags: c_uint,
    pub(crate) priority: c_int,
    /// What `cuStreamGetId` answers.
    id: u64,
    attributes: attribute::Attributes,
}

/// The stream that an argument names, as long as it was live when the call began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) queue: QueueId,
    pub(crate) context: Key<Context>,
    /// The created stream; none for a default stream.
    pub(crate) created: Option<Key<Stream>>,
    id: u64,
}

impl Target {
    /// A queue that no stream of the caller has.
    pub(crate) fn of_queue(queue: QueueId, context: Key<Context>) -> Self {
        Self { queue, context, created: None, id: 0 }
    }
}

impl Turn<'_> {
    /// The stream that an argument names: a created one whatever is current, a default one of the current context.
    pub(crate) fn stream(&mut self, raw: CUstream) -> Result<Target, CUresult> {
        let default = match raw.addr() {
            0 | 1 => {
                let (context, by) = (self.current_view()?, self.site);
                self.state.legacy_stream(context, by).map(|stream| (context, stream))
            }
            2 => {
                let (context, thread, by) = (self.current_view()?, self.thread, self.site);
                self.state.per_thread_stream(context, thread, by).map(|stream| (context, stream))
            }
            _ => return self.created_stream(raw),
        };
        let (context, stream) = default.ok_or(CUresult::CONTEXT_IS_DESTROYED)?;
        Ok(Target { queue: stream.queue, context, created: None, id: stream.id })
    }

    fn created_stream(&mut self, raw: CUstream) -> Result<Target, CUresult> {
        let status = match self.state.streams.absent(raw.addr()) {
            Absent::Ended(Some(grave)) => self.status_of_gone(grave),
            _ => CUresult::INVALID_HANDLE,
        };
        let key = self.find(|state| &state.streams, raw.addr(), status)?;
        let stream = self.state.streams.get(key).ok_or(CUresult::INVALID_HANDLE)?;
        Ok(Target {
            queue: stream.queue,
            context: stream.context,
            created: Some(key),
            id: stream.id,
        })
    }

    /// What a call on a stream or an event answers that ended with its context. The real driver looks at memory that it
    /// freed: `CONTEXT_IS_DESTROYED`, but `INVALID_HANDLE` where the context's handle is live again or the ended one is
    /// current, and `INVALID_CONTEXT` where another context was made since (measured; it may also crash).
    pub(crate) fn status_of_gone(&self, grave: Grave) -> CUresult {
        let Ending::GoneWithContext(context) = grave.ending else {
            return CUresult::INVALID_HANDLE;
        };
        let current = self.state.threads.current(self.thread).addr();
        if self.state.contexts.find(context).is_some() || current == context {
            CUresult::INVALID_HANDLE
        } else if self.state.newest_context > grave.ended.number {
            CUresult::INVALID_CONTEXT
        } else {
            CUresult::CONTEXT_IS_DESTROYED
        }
    }

    /// Makes a stream in a context.
    pub(crate) fn new_stream(
        &mut self,
        context: Key<Context>,
        flags: c_uint,
        priority: c_int,
    ) -> CUstream {
        let ordering = if flags == 0 { Ordering::Blocking } else { Ordering::NonBlocking };
        let site = self.site;
        let state = &mut *self.state;
        state.stream_ids += 1;
        let stream = Stream {
            context,
            queue: state.open_queue(context, ordering, site),
            flags,
            priority: clamped(priority),
            id: state.stream_ids,
            attributes: attribute::Attributes::NEW,
        };
        let queue = stream.queue;
        let raw = state.streams.insert(site, stream).raw();
        state.order.name(queue, raw);
        CUstream::from_addr(raw)
    }

    /// Puts work on a stream, or a node into the graph if the stream is captured: then `work` is done when the graph is
    /// launched.
    pub(crate) fn enqueue(&mut self, to: Target, node: NodeKind, work: Work) -> Answer {
        self.enqueue_with(to, node, work, || Params::Unknown)
    }

    /// The same; `params` are those of the node.
    pub(crate) fn enqueue_with(
        &mut self,
        to: Target,
        node: NodeKind,
        work: Work,
        params: impl FnOnce() -> Params,
    ) -> Answer {
        self.enqueue_told(to, node, work, params).map(|_point| ())
    }

    /// The same. Answers where the work stands, unless it was captured.
    pub(crate) fn enqueue_told(
        &mut self,
        to: Target,
        node: NodeKind,
        work: Work,
        params: impl FnOnce() -> Params,
    ) -> Result<Option<Point>, CUresult> {
        self.not_lost()?;
        if let Some(place) = self.captured_place(to)? {
            self.add_captured(to, place, Task::captured(node, params(), work))?;
            return Ok(None);
        }
        Ok(Some(self.submit(to, work, &[])))
    }

    /// Puts work on a stream that isn't captured.
    pub(crate) fn submit(&mut self, to: Target, work: Work, after: &[Point]) -> Point {
        self.submit_known(to, work, after, None)
    }

    /// The same, behind what a clock knows as well.
    pub(crate) fn submit_known(
        &mut self,
        to: Target,
        work: Work,
        after: &[Point],
        known: Option<&Clock>,
    ) -> Point {
        let stamp = self.state.stamp(to.queue, self.site, after, known);
        self.submit_stamped(to, work, after, stamp)
    }

    /// The same, with what it is given.
    pub(crate) fn submit_stamped(
        &mut self,
        to: Target,
        work: Work,
        after: &[Point],
        stamp: Stamp,
    ) -> Point {
        let (point, at_once) = self.state.queues.submit(to.queue, work, stamp, after);
        if let Some(taken) = at_once {
            // A marker, a record or a note: none fails.
            self.begin(taken).unwrap_or_default();
        }
        point
    }

    /// Waits for all work of a stream, and for what a wait for it must wait for by the rules of the legacy stream.
    pub(crate) fn complete_stream(&mut self, stream: Target) -> Answer {
        for goal in self.state.queues.goals(stream.queue) {
            self.complete(goal)?;
        }
        self.state.host_reached_end(stream.queue);
        Ok(())
    }
}

pub(crate) fn create(turn: &mut Turn<'_>, out: Out<CUstream>, flags: c_uint) -> Answer {
    create_with_priority(turn, out, flags, LEAST_PRIORITY)
}

/// A priority outside the range is moved into it without a word.
pub(crate) fn create_with_priority(
    turn: &mut Turn<'_>,
    out: Out<CUstream>,
    flags: c_uint,
    priority: c_int,
) -> Answer {
    let out = out.required()?;
    // The flags come before the context (measured); of an event it is the other way round.
    if flags & !CUstream_flags::CU_STREAM_NON_BLOCKING.0 != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let context = turn.current_view()?;
    turn.not_lost()?;
    out.write(turn.new_stream(context, flags, priority));
    Ok(())
}

fn clamped(priority: c_int) -> c_int {
    priority.clamp(GREATEST_PRIORITY, LEAST_PRIORITY)
}

/// Returns at once: queued work goes on. The capture of an origin ends, its graph with it; a fork leaves its capture.
pub(crate) fn destroy(turn: &mut Turn<'_>, stream: CUstream) -> Answer {
    if stream.addr() <= CU_STREAM_PER_THREAD.addr() {
        return Err(CUresult::INVALID_HANDLE);
    }
    // A lost driver destroys nothing, and says so the second time as well (measured).
    turn.not_lost()?;
    let target = turn.stream(stream)?;
    let site = turn.site;
    turn.state.forget_in_captures(target.queue, site);
    if let Some(key) = target.created {
        turn.state.streams.remove(key, site, Ending::Destroyed);
    }
    turn.state.close_queue(target.queue);
    Ok(())
}

pub(crate) fn query(turn: &mut Turn<'_>, stream: CUstream) -> Answer {
    let target = turn.stream(stream)?;
    turn.not_lost()?;
    turn.not_captured(target)?;
    let pending = turn.state.queues.goals(target.queue);
    let pending = pending.into_iter().find(|goal| !turn.state.queues.is_reached(*goal));
    let Some(goal) = pending else {
        turn.state.host_reached_end(target.queue);
        return Ok(());
    };
    if turn.state.options.queries_advance {
        turn.advance(goal.queue);
    }
    Err(CUresult::NOT_READY)
}

pub(crate) fn synchronize(turn: &mut Turn<'_>, stream: CUstream) -> Answer {
    let target = turn.stream(stream)?;
    turn.not_lost()?;
    turn.not_captured(target)?;
    turn.host_waits_for_all(|_, queue| queue == target.queue);
    turn.complete_stream(target)?;
    turn.state.memory.synchronized();
    Ok(())
}

pub(crate) fn id(turn: &mut Turn<'_>, stream: CUstream, id: Out<c_ulonglong>) -> Answer {
    let id = id.required()?;
    id.write(turn.stream(stream)?.id);
    Ok(())
}

pub(crate) fn flags(turn: &mut Turn<'_>, stream: CUstream, flags: Out<c_uint>) -> Answer {
    let flags = flags.required()?;
    let target = turn.stream(stream)?;
    flags.write(turn.created(target).map_or(0, |stream| stream.flags));
    Ok(())
}

pub(crate) fn priority(turn: &mut Turn<'_>, stream: CUstream, priority: Out<c_int>) -> Answer {
    let priority = priority.required()?;
    let target = turn.stream(stream)?;
    priority.write(turn.created(target).map_or(LEAST_PRIORITY, |stream| stream.priority));
    Ok(())
}

pub(crate) fn context(turn: &mut Turn<'_>, stream: CUstream, pctx: Out<CUcontext>) -> Answer {
    let pctx = pctx.required()?;
    pctx.write(CUcontext::from_addr(turn.stream(stream)?.context.raw()));
    Ok(())
}

/// Of a green context's stream: the primary context, and the green one.
pub(crate) fn context_v2(
    turn: &mut Turn<'_>,
    stream: CUstream,
    pctx: Out<CUcontext>,
    green: Out<CUgreenCtx>,
) -> Answer {
    let pctx = pctx.required()?;
    let context = turn.stream(stream)?.context;
    pctx.write(CUcontext::from_addr(turn.state.owner_of(context).raw()));
    green.write(turn.green_of(context));
    Ok(())
}

pub(crate) fn device(turn: &mut Turn<'_>, stream: CUstream, device: Out<CUdevice>) -> Answer {
    let device = device.required()?;
    let target = turn.stream(stream)?;
    device.write(turn.context_data(target.context)?.device);
    Ok(())
}

impl Turn<'_> {
    /// The created stream behind a target; `None` for a default stream.
    fn created(&self, target: Target) -> Option<&Stream> {
        target.created.and_then(|key| self.state.streams.get(key))
    }
}
