//! Contexts: made, ended, asked; what hangs on one ends with it.
//!
//! ```text
//!   created:  cuCtxCreate ──► live ──cuCtxDestroy──► ended
//!   primary:  first retain ──► live ──last release, reset──► ended ──retain──► live, under the same handle
//! ```
//!
//! The stacks of the threads hold handles, not contexts: an ended context stays where it was pushed, and calls that
//! need it answer `CONTEXT_IS_DESTROYED` (measured).
//!
//! Source: CUDA Driver API 13.x, "Context Management", "Primary Context Management".

mod peer;
mod primary;
mod setting;
mod stack;
mod whole;

use std::thread::ThreadId;

use cuhold_driver_sys::ffi::*;

pub(crate) use peer::{disable_peer, enable_peer};
pub(crate) use primary::{
    primary_release, primary_reset, primary_retain, primary_set_flags, primary_state,
};
pub(crate) use setting::{
    cache_config, exec_affinity, flags, limit, priority_range, reset_persisting_l2,
    set_cache_config, set_flags, set_limit,
};
pub(crate) use stack::{get_current, pop, push, set_current};
pub(crate) use whole::{record_event, wait_event};

use crate::{
    audit::CallSite,
    queue::{Ordering, Point, QueueId},
    world::{Answer, Ending, Key, Out, State, Turn},
};

pub(crate) use setting::{GREATEST_PRIORITY, LEAST_PRIORITY};

/// A live context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: CUdevice,
    pub(crate) is_primary: bool,
    /// Of the view of a green context: the primary context, to which all but streams belong that is made in it.
    pub(crate) primary: Option<Key<Self>>,
    /// What `cuCtxGetId` answers.
    id: u64,
    pub(crate) flags: c_uint,
    limits: Vec<(CUlimit, usize)>,
    cache_config: CUfunc_cache,
    /// The contexts whose memory this one may reach.
    pub(crate) peers: Vec<Key<Self>>,
    /// Those that it no longer may, and the calls that said so.
    pub(crate) peers_left: Vec<(Key<Self>, CallSite)>,
    /// What all work waits for that is put on streams made later.
    barriers: Vec<Point>,
    /// The legacy default stream, once something asked for it.
    legacy: Option<DefaultStream>,
    /// The per-thread default streams.
    per_thread: Vec<(ThreadId, DefaultStream)>,
}

/// A default stream of a context: no handle of its own, but a queue and an id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DefaultStream {
    pub(crate) queue: QueueId,
    pub(crate) id: u64,
}

/// The version that `cuCtxGetApiVersion` answers (measured).
const API_VERSION: c_uint = 3020;

const FLAGS_MASK: c_uint = CUctx_flags::CU_CTX_FLAGS_MASK.0;

/// Unknown bits, or more than one scheduling mode.
pub(crate) fn flags_are_valid(flags: c_uint) -> bool {
    flags & !FLAGS_MASK == 0 && matches!(flags & CUctx_flags::CU_CTX_SCHED_MASK.0, 0 | 1 | 2 | 4)
}

impl Context {
    /// The default streams that something asked for: those of threads, with the thread, and the legacy one.
    pub(crate) fn default_streams(
        &self,
    ) -> impl Iterator<Item = (Option<ThreadId>, DefaultStream)> {
        let per_thread = self.per_thread.iter().map(|(thread, stream)| (Some(*thread), *stream));
        per_thread.chain(self.legacy.map(|stream| (None, stream)))
    }
}

impl State {
    /// Makes a context live; under `raw` if that value is given.
    pub(crate) fn begin_context(
        &mut self,
        device: CUdevice,
        flags: c_uint,
        raw: Option<usize>,
        made: CallSite,
    ) -> Key<Context> {
        self.context_ids += 1;
        self.newest_context = made.number;
        let context = Context {
            device,
            is_primary: raw.is_some(),
            primary: None,
            id: self.context_ids,
            flags,
            limits: Vec::new(),
            cache_config: CUfunc_cache(0),
            peers: Vec::new(),
            peers_left: Vec::new(),
            barriers: Vec::new(),
            legacy: None,
            per_thread: Vec::new(),
        };
        match raw {
            Some(raw) => self.contexts.insert_at(raw, made, context),
            None => self.contexts.insert(made, context),
        }
    }

    /// The context that owns what is made in this one: itself, or of a green context's view the primary context.
    pub(crate) fn owner_of(&self, key: Key<Context>) -> Key<Context> {
        self.contexts.get(key).and_then(|context| context.primary).unwrap_or(key)
    }

    /// A context, and the views of green contexts that share what it owns.
    pub(crate) fn with_views(&self, key: Key<Context>) -> Vec<Key<Context>> {
        let mut all = self.contexts.keys(|context| context.primary == Some(key));
        all.push(key);
        all
    }

    /// Ends a context and everything that lives in it, green contexts too. Its work must have been waited for.
    pub(crate) fn end_context(&mut self, key: Key<Context>, by: CallSite) {
        for view in self.contexts.keys(|context| context.primary == Some(key)) {
            self.end_context(view, by);
        }
        let gone = Ending::GoneWithContext(key.raw());
        self.end_captures_in(key, by);
        for stream in self.streams.keys(|stream| stream.context == key) {
            if let Some(stream) = self.streams.remove(stream, by, gone) {
                self.close_queue(stream.queue);
            }
        }
        for event in self.events.keys(|event| event.context == key) {
            self.events.remove(event, by, gone);
        }
        self.end_context_in_arrays(key, by);
        self.end_context_in_textures(key);
        self.end_context_in_external(key, by);
        self.end_context_in_memory(key, by);
        self.end_context_in_code(key, by);
        let Some(primary) = self.contexts.get(key).map(|context| context.is_primary) else {
            return;
        };
        let ended = if primary {
            self.contexts.remove_but_keep_value(key, by, Ending::Destroyed)
        } else {
            self.contexts.remove(key, by, Ending::Destroyed)
        };
        if let Some(context) = ended {
            let defaults = context.per_thread.iter().map(|(_, default)| default);
            for default in defaults.chain(&context.legacy) {
                self.close_queue(default.queue);
            }
        }
    }

    /// The legacy default stream of a context, made on first use.
    pub(crate) fn legacy_stream(
        &mut self,
        key: Key<Context>,
        by: CallSite,
    ) -> Option<DefaultStream> {
        if let Some(found) = self.contexts.get(key)?.legacy {
            return Some(found);
        }
        self.stream_ids += 1;
        let made = DefaultStream {
            queue: self.open_queue(key, Ordering::Legacy, by),
            id: self.stream_ids,
        };
        self.contexts.get_mut(key)?.legacy = Some(made);
        Some(made)
    }

    /// A thread's own default stream in a context, made on first use.
    pub(crate) fn per_thread_stream(
        &mut self,
        key: Key<Context>,
        thread: ThreadId,
        by: CallSite,
    ) -> Option<DefaultStream> {
        let known = &self.contexts.get(key)?.per_thread;
        if let Some((_, found)) = known.iter().find(|(of, _)| *of == thread) {
            return Some(*found);
        }
        self.stream_ids += 1;
        let made = DefaultStream {
            queue: self.open_queue(key, Ordering::Blocking, by),
            id: self.stream_ids,
        };
        self.contexts.get_mut(key)?.per_thread.push((thread, made));
        Some(made)
    }
}

impl Turn<'_> {
    /// The context that an argument names: the current one if it is null. It may be a green context's view.
    pub(crate) fn context_or_current(&mut self, ctx: CUcontext) -> Result<Key<Context>, CUresult> {
        if ctx.is_null() { self.current_view() } else { self.context(ctx) }
    }

    /// The live context with this handle.
    pub(crate) fn context(&mut self, ctx: CUcontext) -> Result<Key<Context>, CUresult> {
        let ended = self.state.contexts.find(ctx.addr()).is_none()
            && matches!(self.state.contexts.absent(ctx.addr()), crate::world::Absent::Ended(_));
        let status = if ended { CUresult::CONTEXT_IS_DESTROYED } else { CUresult::INVALID_CONTEXT };
        self.find(|state| &state.contexts, ctx.addr(), status)
    }

    /// A live context's data. Only a bug of this crate gives a key that isn't live.
    pub(crate) fn context_data(&mut self, key: Key<Context>) -> Result<&mut Context, CUresult> {
        self.state.contexts.get_mut(key).ok_or(CUresult::CONTEXT_IS_DESTROYED)
    }
}

pub(crate) fn create_v4(
    turn: &mut Turn<'_>,
    pctx: Out<CUcontext>,
    params: Out<CUctxCreateParams>,
    flags: c_uint,
    device: CUdevice,
) -> Answer {
    if !params.is_null() {
        // Execution affinity and CIG aren't simulated, and no simulated device supports either.
        return Err(CUresult::NOT_SUPPORTED);
    }
    create(turn, pctx, flags, device)
}

pub(crate) fn create_v3(
    turn: &mut Turn<'_>,
    pctx: Out<CUcontext>,
    _params: Out<CUexecAffinityParam>,
    params_count: c_int,
    flags: c_uint,
    device: CUdevice,
) -> Answer {
    if params_count != 0 {
        return Err(CUresult::UNSUPPORTED_EXEC_AFFINITY);
    }
    create(turn, pctx, flags, device)
}

fn create(turn: &mut Turn<'_>, pctx: Out<CUcontext>, flags: c_uint, device: CUdevice) -> Answer {
    let pctx = pctx.required()?;
    turn.state.device_index(device)?;
    turn.not_lost()?;
    if !flags_are_valid(flags) {
        return Err(CUresult::INVALID_VALUE);
    }
    let site = turn.site;
    let key = turn.state.begin_context(device, flags, None, site);
    let raw = CUcontext::from_addr(key.raw());
    let thread = turn.thread;
    turn.state.threads.get_mut(thread).stack.push((raw, site));
    pctx.write(raw);
    Ok(())
}

/// Ends a created context, after all work of all contexts. Pops the caller's stack if the context is current to it.
pub(crate) fn destroy(turn: &mut Turn<'_>, ctx: CUcontext) -> Answer {
    if ctx.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    let key = turn.find(|state| &state.contexts, ctx.addr(), CUresult::INVALID_CONTEXT)?;
    let data = turn.context_data(key)?;
    // Of a green context's view the destroy isn't defined (documented).
    if data.is_primary || data.primary.is_some() {
        return Err(CUresult::INVALID_CONTEXT);
    }
    turn.complete_everything();
    let site = turn.site;
    turn.state.end_context(key, site);
    let stack = &mut turn.state.threads.get_mut(site.thread).stack;
    stack.pop_if(|(top, _)| *top == ctx);
    Ok(())
}

pub(crate) fn device(turn: &mut Turn<'_>, device: Out<CUdevice>) -> Answer {
    device_v2(turn, device, CUcontext::NULL)
}

pub(crate) fn device_v2(turn: &mut Turn<'_>, device: Out<CUdevice>, ctx: CUcontext) -> Answer {
    let device = device.required()?;
    let key = turn.context_or_current(ctx)?;
    device.write(turn.context_data(key)?.device);
    Ok(())
}

pub(crate) fn id(turn: &mut Turn<'_>, ctx: CUcontext, id: Out<c_ulonglong>) -> Answer {
    let id = id.required()?;
    let key = turn.context_or_current(ctx)?;
    id.write(turn.context_data(key)?.id);
    Ok(())
}

pub(crate) fn api_version(turn: &mut Turn<'_>, ctx: CUcontext, version: Out<c_uint>) -> Answer {
    let version = version.required()?;
    turn.context_or_current(ctx)?;
    version.write(API_VERSION);
    Ok(())
}

pub(crate) fn synchronize(turn: &mut Turn<'_>) -> Answer {
    synchronize_v2(turn, CUcontext::NULL)
}

pub(crate) fn synchronize_v2(turn: &mut Turn<'_>, ctx: CUcontext) -> Answer {
    let key = turn.context_or_current(ctx)?;
    turn.not_lost()?;
    turn.no_capture_in(key)?;
    let all = turn.state.with_views(key);
    turn.host_waits_for_all(|state, queue| {
        state.queues.context(queue).is_some_and(|of| all.contains(&of))
    });
    turn.complete_context(key)?;
    turn.state.memory.synchronized();
    Ok(())
}
