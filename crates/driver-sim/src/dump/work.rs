//! What is queued and what it waits for; events and captures.

use std::collections::BTreeMap;

use super::{Count, Page, made};
use crate::{
    capture::Capture,
    event::Record,
    queue::{Point, QueueId, Work},
    world::State,
};

/// Queues by what their streams are called.
struct Names(BTreeMap<QueueId, String>);

impl Names {
    fn of(&self, queue: QueueId) -> &str {
        self.0.get(&queue).map_or("a stream that was destroyed", String::as_str)
    }
}

/// What a piece of work is called.
fn name_of(work: &Work) -> String {
    match work {
        Work::Marker => "a wait".to_owned(),
        Work::Record { event, .. } => format!("record of event {:#x}", event.raw()),
        Work::Host { .. } => "host function".to_owned(),
        Work::Callback { .. } => "callback".to_owned(),
        Work::OnState(_) => "copy, fill or other work on memory".to_owned(),
        Work::Free(_) => "free".to_owned(),
        Work::OnCaller(_) => "kernel".to_owned(),
        Work::Await(_) => "wait for a value in memory".to_owned(),
        Work::Elsewhere(_) => "wait for another process".to_owned(),
        Work::Note(_) => "memory of a graph that begins or ends".to_owned(),
        Work::Branch(_) => "conditional node of a graph".to_owned(),
    }
}

impl State {
    fn stream_names(&self) -> Names {
        let created = self.streams.iter();
        let mut names: BTreeMap<_, _> =
            created.map(|(key, s)| (s.queue, format!("stream {:#x}", key.raw()))).collect();
        for (key, context) in self.contexts.iter() {
            for (thread, stream) in context.default_streams() {
                let whose = match thread {
                    Some(thread) => format!("default stream of {thread:?}"),
                    None => "legacy default stream".to_owned(),
                };
                names.insert(stream.queue, format!("{whose} in context {:#x}", key.raw()));
            }
        }
        Names(names)
    }

    /// A point as text: a stream, and how many pieces of its work it is behind.
    fn place(&self, names: &Names, point: Point) -> String {
        let left = Count(self.queues.left_until(point), "piece");
        format!("{} ({left} to go)", names.of(point.queue))
    }

    pub(super) fn dump_streams(&self, page: &mut Page) {
        let names = self.stream_names();
        page.each(self.streams.iter(), |page, (key, stream)| {
            let flags = if stream.flags == 0 { "blocking" } else { "non-blocking" };
            page.line(format_args!(
                "stream {:#x}: {flags}, priority {}, context {:#x}{}",
                key.raw(),
                stream.priority,
                stream.context.raw(),
                made(&self.streams, key),
            ));
            page.below(|page| self.dump_queue(page, &names, stream.queue));
        });
        // Default streams, and those whose work goes on without them.
        for queue in self.queues.pending_ids() {
            if !self.streams.iter().any(|(_, stream)| stream.queue == queue) {
                page.line(format_args!("{}", names.of(queue)));
                page.below(|page| self.dump_queue(page, &names, queue));
            }
        }
    }

    fn dump_queue(&self, page: &mut Page, names: &Names, queue: QueueId) {
        if self.queues.is_running(queue) {
            page.line(format_args!("running: a piece of work"));
        }
        page.each(self.queues.items(queue), |page, (work, after)| {
            let waits: Vec<_> = after
                .iter()
                .filter(|point| !self.queues.is_reached(**point))
                .map(|point| self.place(names, *point))
                .collect();
            let waits = match waits.as_slice() {
                [] => String::new(),
                waits => format!(", waits for {}", waits.join(" and ")),
            };
            page.line(format_args!("queued: {}{waits}", name_of(work)));
        });
    }

    pub(super) fn dump_events(&self, page: &mut Page) {
        let names = self.stream_names();
        page.each(self.events.iter(), |page, (key, event)| {
            let state = match &event.record {
                Record::Never => "never recorded".to_owned(),
                Record::On { point, time_ns, .. } => match time_ns {
                    _ if !self.queues.is_reached(*point) => {
                        format!("not reached: recorded on {}", self.place(&names, *point))
                    }
                    Some(time_ns) => format!("reached at {time_ns} ns"),
                    None => "reached".to_owned(),
                },
                Record::Captured { capture, .. } => format!("recorded in capture {}", capture.0),
            };
            let (raw, made) = (key.raw(), made(&self.events, key));
            page.line(format_args!("event {raw:#x}: {state}{made}"));
        });
    }

    pub(super) fn dump_captures(&self, page: &mut Page) {
        let names = self.stream_names();
        for id in self.captures.ids(|_| true) {
            let Some(capture) = self.captures.get(id) else { continue };
            let owner = page.thread(capture.owner);
            page.line(format_args!(
                "capture {}: {}, begun by {owner} on {}, into graph {:#x}",
                id.0,
                kind_of(capture),
                names.of(capture.origin),
                capture.graph.raw(),
            ));
            page.below(|page| {
                page.each(capture.members.iter(), |page, (queue, member)| {
                    let (name, behind) = (names.of(*queue), Count(member.set.len() as u64, "node"));
                    page.line(format_args!("{name}: its next work stands behind {behind}"));
                });
            });
        }
    }
}

fn kind_of(capture: &Capture) -> &'static str {
    match (capture.invalidated, capture.is_global(), capture.is_relaxed()) {
        (true, ..) => "invalidated",
        (false, true, _) => "global",
        (false, false, true) => "relaxed",
        (false, false, false) => "thread-local",
    }
}
