//! Everything the simulated driver knows, behind one lock.

use std::{fmt, thread::ThreadId};

use cuhold_driver_sys::{
    CUresult, Call,
    ffi::{CUhostFn, c_void},
};

use crate::{
    array::Arrays,
    audit::{CallSite, Leak, ObjectKind, Violation, ViolationKind},
    capture::Captures,
    code::Code,
    context::Context,
    device::Device,
    driver::Texts,
    event::Event,
    external::External,
    graph::{Conditions, Graph, GraphExec, GraphNode, UserObject},
    green::{Desc, GreenContext},
    log::Log,
    memory::{Exchange, Memory},
    options::SimOptions,
    order::Order,
    queue::Queues,
    stream::Stream,
    texture::Textures,
    world::{Absent, Ending, Table, Threads, Values},
};

/// Beyond so many, violations are only counted.
const VIOLATIONS_MAX: usize = 10_000;

/// How many of the last calls are remembered, for [`State::deny`].
const RECENT: usize = 32;

/// A user-data pointer of the caller: a word that is handed back to the caller's function and never followed here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserData(pub(crate) *mut c_void);

#[expect(unsafe_code, reason = "a pointer isn't Send by itself")]
// SAFETY: the pointer is never followed on this side; by the promise *calls back* the caller's function may be called
// with it on any thread.
unsafe impl Send for UserData {}

#[expect(unsafe_code, reason = "a pointer isn't Sync by itself")]
// SAFETY: as above; sharing it is sharing an integer.
unsafe impl Sync for UserData {}

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p}", self.0)
    }
}

/// The state of a simulated driver.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) options: SimOptions,
    pub(crate) initialized: bool,
    /// How many calls were made so far.
    pub(crate) calls: u64,
    /// Nanoseconds of the simulated clock.
    pub(crate) now_ns: u64,
    /// The fatal status that ended all CUDA work, if one did.
    pub(crate) lost: Option<CUresult>,
    pub(crate) threads: Threads,
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: Table<Context>,
    /// Context ids, unique for good.
    pub(crate) context_ids: u64,
    /// The number of the call that made the newest context.
    pub(crate) newest_context: u64,
    pub(crate) streams: Table<Stream>,
    /// Stream ids, unique for good, those of default streams included.
    pub(crate) stream_ids: u64,
    pub(crate) events: Table<Event>,
    pub(crate) queues: Queues,
    /// The checker of order.
    pub(crate) order: Order,
    /// Contexts of which a host function runs now.
    pub(crate) host_running: Vec<u64>,
    pub(crate) captures: Captures,
    pub(crate) graphs: Table<Graph>,
    pub(crate) nodes: Table<GraphNode>,
    pub(crate) execs: Table<GraphExec>,
    pub(crate) conditions: Conditions,
    pub(crate) user_objects: Table<UserObject>,
    /// References to user objects, by handle, that graphs held which ended in the call in progress.
    pub(crate) user_references: Vec<(usize, u64)>,
    /// Destructors of user objects that were put off.
    pub(crate) destructors: Vec<(CUhostFn, UserData)>,
    pub(crate) greens: Table<GreenContext>,
    /// Descriptions of resources, which are never ended.
    pub(crate) descs: Table<Desc>,
    /// How often multiprocessors were split.
    pub(crate) splits: u64,
    pub(crate) memory: Memory,
    pub(crate) arrays: Arrays,
    pub(crate) textures: Textures,
    pub(crate) external: External,
    pub(crate) code: Code,
    pub(crate) texts: Texts,
    pub(crate) log: Log,
    pub(crate) violations: Vec<Violation>,
    pub(crate) violations_dropped: u64,
    /// The last calls, each at its number modulo the length.
    recent: [Option<CallSite>; RECENT],
    /// Calls that were carried out although the caller heard of a failure.
    pub(crate) denied: Vec<CallSite>,
    /// The state of the generator that draws orders.
    pub(crate) random: u64,
}

impl State {
    pub(crate) fn new(options: SimOptions, exchange: Exchange) -> Self {
        let values = Values { reuse: options.reuse_handles, process: exchange.join() };
        let devices: Vec<Device> = options.devices.iter().cloned().map(Device::new).collect();
        Self {
            initialized: false,
            calls: 0,
            now_ns: 0,
            lost: None,
            threads: Threads::default(),
            contexts: Table::new(ObjectKind::Context, values),
            context_ids: 0,
            newest_context: 0,
            streams: Table::new(ObjectKind::Stream, values),
            stream_ids: 0,
            events: Table::new(ObjectKind::Event, values),
            queues: Queues::of_process(values.process),
            order: Order::new(options.check_order, values.process, exchange.host()),
            host_running: Vec::new(),
            captures: Captures::default(),
            graphs: Table::new(ObjectKind::Graph, values),
            nodes: Table::new(ObjectKind::GraphNode, values),
            execs: Table::new(ObjectKind::GraphExec, values),
            conditions: Conditions::default(),
            user_objects: Table::new(ObjectKind::UserObject, values),
            user_references: Vec::new(),
            destructors: Vec::new(),
            greens: Table::new(ObjectKind::GreenContext, values),
            descs: Table::new(ObjectKind::ResourceDesc, Values { reuse: false, ..values }),
            splits: 0,
            memory: Memory::new(&options, exchange, values),
            arrays: Arrays::new(values),
            textures: Textures::default(),
            external: External::new(values),
            code: Code::new(values),
            texts: Texts::default(),
            log: Log::new(values),
            violations: Vec::new(),
            violations_dropped: 0,
            recent: [None; RECENT],
            denied: Vec::new(),
            random: options.seed,
            devices,
            options,
        }
    }

    /// Counts a call, and says which it is.
    #[inline]
    pub(crate) fn count(&mut self, call: Call, thread: ThreadId) -> CallSite {
        self.calls += 1;
        let site = CallSite::new(self.calls, call, thread);
        let at = self.calls % RECENT as u64;
        if let Some(place) = usize::try_from(at).ok().and_then(|at| self.recent.get_mut(at)) {
            *place = Some(site);
        }
        site
    }

    /// Remembers that the thread's last call of this form was done, although the caller was told otherwise.
    #[cold]
    pub(crate) fn deny(&mut self, call: Call, thread: ThreadId) {
        let made = self.recent.iter().flatten().filter(|s| s.call == call && s.thread == thread);
        self.denied.extend(made.max_by_key(|site| site.number).copied());
    }

    /// Remembers a violation.
    #[cold]
    pub(crate) fn violate(&mut self, violation: Violation) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(violation);
        } else {
            self.violations_dropped += 1;
        }
    }

    /// Everything that was made and not ended.
    pub(crate) fn leaks(&self) -> Vec<Leak> {
        let primaries = self.devices.iter().flat_map(|device| {
            let raw = device.primary.raw.unwrap_or_default() as u64;
            let retains = device.primary.retains.iter();
            retains.map(move |made| Leak::new(ObjectKind::PrimaryRetain, raw, *made))
        });
        let pushed = self
            .threads
            .iter()
            .flat_map(|thread| &thread.stack)
            .map(|(ctx, made)| Leak::new(ObjectKind::PushedContext, ctx.addr() as u64, *made));
        let created = self.contexts.leaks().filter(|leak| {
            let key = usize::try_from(leak.raw).ok().and_then(|raw| self.contexts.find(raw));
            let context = key.and_then(|key| self.contexts.get(key));
            context.is_some_and(|context| !context.is_primary && context.primary.is_none())
        });
        created
            .chain(primaries)
            .chain(pushed)
            .chain(self.streams.leaks())
            .chain(self.events.leaks())
            .chain(self.graph_leaks())
            .chain(self.execs.leaks())
            .chain(self.greens.leaks())
            .chain(self.user_objects.leaks())
            .chain(self.log.leaks())
            .chain(self.memory.leaks())
            .chain(self.arrays.leaks())
            .chain(self.textures.leaks())
            .chain(self.external.leaks())
            .chain(self.code.leaks())
            .collect()
    }

    /// Takes what was freed early among the violations.
    pub(crate) fn collect_early_frees(&mut self) {
        for violation in std::mem::take(&mut self.memory.freed_early) {
            self.violate(violation);
        }
    }

    /// Remembers that a handle was passed that isn't live, as what it is: nothing for null, which the driver answers
    /// cleanly.
    #[cold]
    pub(crate) fn violate_absent(
        &mut self,
        kind: ObjectKind,
        raw: u64,
        absent: Absent,
        by: CallSite,
    ) {
        let destroys = by.call.columns().kind == cuhold_driver_sys::Kind::Destroy;
        let (named, grave) = match absent {
            Absent::Null => return,
            Absent::NeverGiven => (ViolationKind::UnknownHandle, None),
            Absent::Ended(Some(grave)) if matches!(grave.ending, Ending::GoneWithContext(_)) => {
                (ViolationKind::UseAfterContext, Some(grave))
            }
            Absent::Ended(grave) if destroys => (ViolationKind::DoubleDestroy, grave),
            Absent::Ended(grave) => (ViolationKind::UseAfterDestroy, grave),
        };
        let mut calls: Vec<CallSite> =
            grave.map(|g| [g.made, g.ended]).into_iter().flatten().collect();
        let denied = grave.is_some_and(|g| self.denied.contains(&g.ended));
        calls.push(by);
        self.violate(Violation {
            kind: named,
            object: Some((kind, raw)),
            calls,
            note: if denied { "the first destroy was done, but reported as failed" } else { "" },
            operations: Vec::new(),
        });
    }

    /// The next number of a splitmix64 generator.
    pub(crate) fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.random)
    }

    /// A number below `end`, which isn't 0.
    pub(crate) fn draw_below(&mut self, end: usize) -> usize {
        let drawn = self.draw().checked_rem(end as u64).unwrap_or(0);
        usize::try_from(drawn).unwrap_or(0)
    }

    /// Whether a call only looks something up that never changes: it is answered before `cuInit` and in callbacks.
    pub(crate) fn only_looks_up(call: Call) -> bool {
        matches!(
            call,
            Call::cuDriverGetVersion
                | Call::cuGetErrorName
                | Call::cuGetErrorString
                | Call::cuGetProcAddress_v2
        )
    }
}

/// The end of a splitmix64 generator: a number of which every bit depends on every bit of another.
pub(crate) const fn mixed(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
