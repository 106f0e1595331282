//! Launches of executable graphs.
//!
//! ```text
//!   stream ─► begin ─► a queue for each chain of nodes, behind the nodes before it ─► end, on the stream
//! ```
//!
//! Where several nodes could come next, the seed decides. One executable's launches come one after the other, whatever
//! their streams (documented). A conditional node looks at its condition when its turn comes, and then queues a body.

use std::{collections::BTreeMap, sync::Arc};

use cuhold_driver_sys::ffi::*;

use super::{Deed, GraphExec, body::Body};
use crate::{
    audit::{CallSite, ObjectKind, ViolationKind},
    context::Context,
    event::{Event, Record},
    order::{Order, Touch},
    queue::{Ordering, Point, QueueId, Work},
    stream::Target,
    world::{Answer, Key, Turn},
};

type Kind = CUgraphConditionalNodeType;

/// A conditional node at work.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    condition: Arc<super::Condition>,
    kind: Kind,
    bodies: Vec<Arc<Body>>,
}

impl Branch {
    /// The body that is to be done now.
    fn body(&self) -> Option<&Arc<Body>> {
        let value = self.condition.value();
        let place = match self.kind {
            Kind::CU_GRAPH_COND_TYPE_SWITCH => usize::try_from(value).unwrap_or(usize::MAX),
            // An else, where there is one.
            Kind::CU_GRAPH_COND_TYPE_IF => usize::from(value == 0),
            _ if value == 0 => return None,
            _ => 0,
        };
        self.bodies.get(place)
    }
}

impl Turn<'_> {
    /// Queues the nodes of an executable behind `begin`; gives where they end, and the queues that are over then.
    fn submit_body(
        &mut self,
        body: &Body,
        to: Target,
        begin: &[Point],
    ) -> (Vec<Point>, Vec<QueueId>) {
        let mut ends: Vec<Option<(Target, Point)>> = vec![None; body.nodes.len()];
        let mut open = Vec::new();
        for place in &body.order {
            let Some(node) = body.nodes.get(*place) else { continue };
            // Alone behind a node that has nobody else behind it: the same queue goes on.
            let chained = match node.after.as_slice() {
                [before] if body.nodes.get(*before).is_some_and(|node| node.behind == 1) => {
                    ends.get(*before).copied().flatten().map(|(queue, _)| queue)
                }
                _ => None,
            };
            let queue = chained.unwrap_or_else(|| {
                let queue = self.state.begin_queue(to.context, Ordering::NonBlocking);
                let queue = Target::of_queue(queue, to.context);
                let before = node.after.iter().filter_map(|at| ends.get(*at).copied().flatten());
                let mut before: Vec<Point> = before.map(|(_, point)| point).collect();
                if before.is_empty() {
                    before = begin.to_vec();
                }
                self.shuffle(&mut before);
                self.submit(queue, Work::Marker, &before);
                open.push(queue.queue);
                queue
            });
            let end = if node.enabled {
                self.submit_deed(&node.deed, queue)
            } else {
                self.submit(queue, Work::Marker, &[])
            };
            if let Some(slot) = ends.get_mut(*place) {
                *slot = Some((queue, end));
            }
        }
        for queue in &open {
            self.state.close_part(*queue);
        }
        // Those that nothing stands behind: the rest is done before them.
        let last = ends.iter().zip(&body.nodes).filter(|(_, node)| node.behind == 0);
        let mut last: Vec<Point> =
            last.filter_map(|(end, _)| end.map(|(_, point)| point)).collect();
        if last.is_empty() {
            last = begin.to_vec();
        }
        self.shuffle(&mut last);
        (last, open)
    }

    /// Queues the work that comes behind the nodes of an executable, with which they are over.
    fn submit_end(&mut self, to: Target, work: Work, ends: (Vec<Point>, Vec<QueueId>)) -> Point {
        let (ends, parts) = ends;
        let mut stamp = self.state.stamp(to.queue, self.site, &ends, None);
        stamp.ends(parts);
        self.submit_stamped(to, work, &ends, stamp)
    }

    fn submit_deed(&mut self, deed: &Deed<Arc<Body>>, queue: Target) -> Point {
        match deed {
            Deed::Works(works) => {
                let mut end = self.state.queues.end(queue.queue);
                for work in works {
                    end = self.submit(queue, work.clone(), &[]);
                }
                end
            }
            Deed::Record(event) => {
                if self.event_is_there(*event) {
                    self.record_on(*event, queue).unwrap_or_default();
                }
                self.state.queues.end(queue.queue)
            }
            Deed::Await(event) => {
                let record = match self.event_is_there(*event) {
                    true => self.event_data(*event).ok().map(|event| event.record.clone()),
                    false => None,
                };
                match record {
                    Some(Record::On { point, place, .. }) => {
                        self.submit_behind(queue, point, place, None)
                    }
                    _ => self.submit(queue, Work::Marker, &[]),
                }
            }
            // Its effect is on who may name the memory, and that changed when the launch was made.
            Deed::Alloc(base, by) => self.submit_note(queue, *base, Touch::Begin, *by),
            Deed::Free(base, by) => self.submit_note(queue, *base, Touch::End, *by),
            Deed::Child(body) => {
                let begin = self.submit(queue, Work::Marker, &[]);
                let ends = self.submit_body(body, queue, &[begin]);
                self.submit_end(queue, Work::Marker, ends)
            }
            Deed::Conditional { condition, kind, bodies } => {
                let condition = Arc::clone(condition);
                let branch = Branch { condition, kind: *kind, bodies: bodies.clone() };
                self.submit(queue, Work::Branch(Arc::new(branch)), &[])
            }
        }
    }

    /// Memory of a graph begins or ends on a queue, as a call has it.
    pub(crate) fn submit_note(
        &mut self,
        queue: Target,
        base: u64,
        touch: Touch,
        by: CallSite,
    ) -> Point {
        let note = Work::Note(Arc::new(move |state| {
            if let Some(op) = state.op(by) {
                state.touch_whole(&op, base, touch);
            }
            Ok(())
        }));
        self.submit(queue, note, &[])
    }

    fn event_is_there(&mut self, event: Key<Event>) -> bool {
        let there = self.state.events.get(event).is_some();
        if !there {
            let object = Some((ObjectKind::Event, event.raw() as u64));
            self.violate(ViolationKind::UseAfterDestroy, object, "a launched graph names it");
        }
        there
    }

    /// A conditional node's turn has come: what is to be done in its place, and behind what.
    pub(crate) fn branch(
        &mut self,
        branch: &Arc<Branch>,
        queue: QueueId,
        context: Key<Context>,
    ) -> Option<(Work, Vec<Point>, Vec<QueueId>)> {
        let body = Arc::clone(branch.body()?);
        let (ends, parts) = self.submit_body(&body, Target::of_queue(queue, context), &[]);
        let next = match branch.kind {
            Kind::CU_GRAPH_COND_TYPE_WHILE => Work::Branch(Arc::clone(branch)),
            _ => Work::Marker,
        };
        Some((next, ends, parts))
    }

    /// The last piece of a launch: then what it held is given back.
    fn let_go(&mut self, users: BTreeMap<usize, u64>, memory: Vec<u64>) -> Work {
        if users.is_empty() && memory.is_empty() {
            return Work::Marker;
        }
        for (object, count) in &users {
            self.retain_user_object(*object, *count);
        }
        self.state.memory.hold_graph_memory(&memory);
        let by = self.site;
        Work::OnState(Arc::new(move |state| {
            if !users.is_empty()
                && let Some(doing) = &state.order.doing
            {
                // A destructor may tell the rest of the program.
                state.host_learns(&Order::all_before(doing));
            }
            state.user_references.extend(users.iter().map(|(object, count)| (*object, *count)));
            state.memory.let_graph_memory_go(&memory, by);
            Ok(())
        }))
    }

    /// The first piece of a launch: conditions are as they begin.
    fn begin_work(&self, exec: &GraphExec) -> Work {
        let with_default = exec.conditions.iter().filter(|condition| condition.default.is_some());
        let conditions: Vec<_> = with_default.cloned().collect();
        if conditions.is_empty() {
            return Work::Marker;
        }
        Work::OnState(Arc::new(move |_| {
            for condition in &conditions {
                condition.set(condition.default.unwrap_or_default());
            }
            Ok(())
        }))
    }

    /// Memory that the last launch left is in the way, unless launches free it; memory of other graphs that is to be
    /// freed must be there (a choice). Nothing that another process has to do first can be waited for.
    fn may_launch(&mut self, key: Key<GraphExec>) -> Answer {
        let exec = self.exec_data(key)?;
        let memory = &self.state.memory;
        let left = exec.unfreed.iter().any(|base| memory.graph_memory_is_live(*base));
        let gone = exec.frees.iter().any(|base| !memory.graph_memory_is_live(*base));
        if (left && !exec.frees_first()) || gone {
            return Err(CUresult::INVALID_VALUE);
        }
        let mut waits = Vec::new();
        exec.body.visit(&mut |node| {
            if let Deed::Await(event) = node.deed {
                waits.push(event);
            }
        });
        for event in waits {
            if self.state.events.get(event).is_some() && self.waits_for_another(event)? {
                return Err(CUresult::MISSING);
            }
        }
        Ok(())
    }
}

/// Does all of an executable behind what the stream holds. A stream that is captured doesn't take it.
pub(crate) fn launch(turn: &mut Turn<'_>, exec: CUgraphExec, stream: CUstream) -> Answer {
    let key = turn.exec(exec)?;
    let target = turn.stream(stream)?;
    turn.not_lost()?;
    turn.not_member(target)?;
    turn.not_implicit(target)?;
    turn.may_launch(key)?;
    let data = turn.exec_data(key)?;
    let (body, last) = (Arc::clone(&data.body), data.last);
    let (memory, unfreed, frees) = (data.memory.clone(), data.unfreed.clone(), data.frees.clone());
    let first = turn.begin_work(data);
    let begin = turn.submit(target, first, last.as_slice());
    let ends = turn.submit_body(&body, target, &[begin]);
    let end = turn.let_go(body.all_users(), memory.clone());
    let end = turn.submit_end(target, end, ends);
    let by = turn.site;
    turn.state.memory.begin_graph_memory(&memory, &unfreed);
    for base in frees {
        turn.state.memory.free_graph_memory(base, by);
    }
    if let Some(exec) = turn.state.execs.get_mut(key) {
        exec.last = Some(end);
    }
    Ok(())
}
