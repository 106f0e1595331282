//! A picture of the simulated world as text, for whoever wants to know why a program waits, leaks or fails.
//!
//! ```text
//!   this file   the page, threads, devices, contexts, the audit     work.rs   streams, events, captures
//!   graph.rs    graphs and executables                              ../memory/dump.rs   memory and pools
//! ```

mod graph;
mod work;

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    thread::{self, ThreadId},
};

use cuhold_driver_sys::ffi::*;

use crate::{
    audit::{CallSite, Leak, ObjectKind},
    context::Context,
    world::{Key, State, Table},
};

/// Of one kind so many are listed; of the rest their number is told.
const LISTED: usize = 100;

/// The simulated world at one moment, as text: what [`Sim::dump`](crate::Sim::dump) gives. Made to be read, not parsed.
///
/// # Examples
/// ```
/// use cuhold_driver_sim::Sim;
///
/// let dump = Sim::new().dump();
/// assert!(dump.to_string().starts_with("simulated driver 13.0: 0 calls so far"), "{dump}");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dump(String);

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text that grows by lines.
pub(crate) struct Page {
    text: String,
    /// How far lines are moved to the right.
    depth: usize,
    /// Who asked.
    here: ThreadId,
}

impl Page {
    /// Appends a line.
    pub(crate) fn line(&mut self, text: fmt::Arguments<'_>) {
        let (depth, separator) = (self.depth * 2, if self.text.is_empty() { "" } else { "\n" });
        // Writing to a String can't fail.
        write!(self.text, "{separator}{:depth$}{text}", "").unwrap_or_default();
    }

    /// Appends lines that belong to the one before.
    pub(crate) fn below(&mut self, lines: impl FnOnce(&mut Self)) {
        self.depth += 1;
        lines(self);
        self.depth -= 1;
    }

    /// Each of them, as `line` tells it, and how many there are beyond [`LISTED`].
    pub(crate) fn each<T>(
        &mut self,
        items: impl Iterator<Item = T>,
        mut line: impl FnMut(&mut Self, T),
    ) {
        let mut beyond = 0_usize;
        for (index, item) in items.enumerate() {
            if index < LISTED { line(self, item) } else { beyond += 1 }
        }
        if beyond > 0 {
            self.line(format_args!("and {beyond} more"));
        }
    }

    /// What a thread is called.
    fn thread(&self, id: ThreadId) -> String {
        if id == self.here { "this thread".to_owned() } else { format!("{id:?}") }
    }
}

/// A number of bytes, in the largest unit that it is a multiple of.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let fits = |bits: u32| self.0 != 0 && self.0.trailing_zeros() >= bits;
        match units.into_iter().find(|(bits, _)| fits(*bits)) {
            Some((bits, unit)) => write!(f, "{} {unit}", self.0 >> bits),
            None => write!(f, "{} B", self.0),
        }
    }
}

/// "1 node", "2 nodes".
pub(crate) struct Count(pub(crate) u64, pub(crate) &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.0, self.1, if self.0 == 1 { "" } else { "s" })
    }
}

/// ", made by call 7 (cuStreamCreate)", if that is known.
struct Made(Option<CallSite>);

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |site| write!(f, ", made by {site}"))
    }
}

fn made<T>(table: &Table<T>, key: Key<T>) -> Made {
    Made(table.made(key))
}

impl State {
    /// The world as text; `leaks` is what was made and not ended.
    pub(crate) fn dump(&self, leaks: &[Leak]) -> Dump {
        let mut page = Page { text: String::new(), depth: 0, here: thread::current().id() };
        page.line(format_args!(
            "simulated driver {}: {} so far, clock at {} ns, seed {}",
            self.options.driver_version,
            Count(self.calls, "call"),
            self.now_ns,
            self.options.seed,
        ));
        if let Some(status) = self.lost {
            page.line(format_args!("all CUDA work has ended with {status}"));
        }
        self.dump_threads(&mut page);
        self.dump_devices(&mut page);
        self.dump_contexts(&mut page);
        self.dump_streams(&mut page);
        self.dump_events(&mut page);
        self.dump_captures(&mut page);
        self.dump_graphs(&mut page);
        self.memory.dump(&mut page);
        self.dump_audit(&mut page, leaks);
        Dump(page.text)
    }

    fn dump_threads(&self, page: &mut Page) {
        for thread in self.threads.iter() {
            let name = page.thread(thread.id);
            let mode = match thread.mode {
                CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL => "thread-local",
                CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED => "relaxed",
                _ => "global",
            };
            let inside = if thread.callbacks > 0 { ", inside a callback" } else { "" };
            page.line(format_args!("{name}: capture mode {mode}{inside}"));
            page.below(|page| self.dump_stack(page, &thread.stack));
        }
    }

    fn dump_stack(&self, page: &mut Page, stack: &[(CUcontext, CallSite)]) {
        for (index, (context, by)) in stack.iter().rev().enumerate() {
            let place = if index == 0 { "current" } else { "below it" };
            let ended = match self.contexts.find(context.addr()) {
                Some(_) => "",
                None => ", which has ended",
            };
            page.line(format_args!("{place}: context {:#x}{ended}, by {by}", context.addr()));
        }
    }

    fn dump_devices(&self, page: &mut Page) {
        for (index, device) in self.devices.iter().enumerate() {
            let (major, minor) = device.options.compute_capability;
            page.line(format_args!(
                "device {index}: {:?}, compute capability {major}.{minor}, {} multiprocessors",
                device.options.name, device.options.multiprocessors,
            ));
            page.below(|page| {
                self.memory.dump_device(page, index);
                let primary = &device.primary;
                let active = if primary.active.is_some() { "active" } else { "not active" };
                let retains = Count(primary.retains.len() as u64, "time");
                page.line(format_args!("primary context {active}, retained {retains}"));
            });
        }
    }

    fn dump_contexts(&self, page: &mut Page) {
        page.each(self.contexts.iter(), |page, (key, context)| {
            let what = match (context.is_primary, context.primary) {
                (true, _) => "primary context",
                (false, Some(_)) => "view of a green context",
                (false, None) => "context",
            };
            page.line(format_args!(
                "{what} {:#x} of device {}{}",
                key.raw(),
                context.device,
                made(&self.contexts, key)
            ));
            page.below(|page| self.dump_who_has_it(page, key, context));
        });
    }

    fn dump_who_has_it(&self, page: &mut Page, key: Key<Context>, context: &Context) {
        for thread in self.threads.iter() {
            if thread.stack.last().is_some_and(|(top, _)| top.addr() == key.raw()) {
                let name = page.thread(thread.id);
                page.line(format_args!("current on {name}"));
            }
        }
        for peer in &context.peers {
            page.line(format_args!("may reach the memory of context {:#x}", peer.raw()));
        }
    }

    /// Objects that have no lines of their own are told here, as what would leak.
    fn dump_audit(&self, page: &mut Page, leaks: &[Leak]) {
        let mut kinds: BTreeMap<ObjectKind, usize> = BTreeMap::new();
        for leak in leaks {
            *kinds.entry(leak.kind).or_default() += 1;
        }
        let count: usize = kinds.values().sum();
        page.line(format_args!("not ended: {count}"));
        page.below(|page| {
            page.each(leaks.iter(), |page, leak| page.line(format_args!("left: {leak}")));
        });
        let violations = self.violations.len() as u64 + self.violations_dropped;
        page.line(format_args!("violations: {violations}"));
        page.below(|page| {
            let known = self.violations.iter();
            page.each(known, |page, violation| page.line(format_args!("{violation}")));
        });
    }
}
