//! What captures allow: which calls are refused because of one, with which status, and what they do to it.
//!
//! | call | refused with | invalidates |
//! |---|---|---|
//! | *unsafe* by its column, in a thread that some capture prohibits it | 900 | the prohibiting ones |
//! | waits for or asks a captured stream | 900 | its capture |
//! | waits for a context with a captured stream | 900 | all captures there |
//! | waits for or asks an event recorded in a valid capture | 907 | that capture |
//! | uses the legacy stream beside a captured blocking stream | 906 | the captures of those |
//! | makes captured work depend on work outside | 905 | its capture |
//! | makes captured work depend on another capture | 902 | both |
//! | uses a stream of an invalidated capture | 901 | – |
//!
//! All but the last row are measured. The captures of the legacy rule are those in the legacy stream's own context.

use cuhold_driver_sys::{CUresult, CaptureRule};

use super::state::CaptureId;
use crate::{
    audit::CallSite,
    context::Context,
    graph::{Edge, Graph, Task},
    queue::{Ordering, QueueId},
    stream::Target,
    world::{Answer, Key, State, Turn},
};

/// A place in a capture: behind these nodes.
pub(crate) type Place = (CaptureId, Vec<Edge>);

impl State {
    /// Takes a stream that ends out of its capture. With the origin the capture ends.
    pub(crate) fn forget_in_captures(&mut self, queue: QueueId, by: CallSite) {
        let Some(id) = self.captures.of(queue) else { return };
        if self.captures.get(id).is_some_and(|capture| capture.origin == queue) {
            self.drop_capture(id, by);
        } else if let Some(capture) = self.captures.get_mut(id) {
            let gone = capture.members.remove(&queue);
            capture.left.extend(gone.into_iter().flat_map(|member| member.set));
        }
    }

    /// Ends a capture and its graph.
    pub(crate) fn drop_capture(&mut self, id: CaptureId, by: CallSite) {
        if let Some(capture) = self.captures.end(id) {
            self.end_graph(capture.graph, by);
        }
    }

    /// Takes the streams of a context that ends out of all captures.
    pub(crate) fn end_captures_in(&mut self, context: Key<Context>, by: CallSite) {
        for id in self.captures_in(context) {
            let members =
                self.captures.get(id).map(|c| c.members.keys().copied().collect::<Vec<_>>());
            for queue in members.unwrap_or_default() {
                if self.queues.context(queue) == Some(context) {
                    self.forget_in_captures(queue, by);
                }
            }
        }
    }

    /// The captures with a stream of this context.
    fn captures_in(&self, context: Key<Context>) -> Vec<CaptureId> {
        self.captures.ids(|capture| {
            capture.members.keys().any(|queue| self.queues.context(*queue) == Some(context))
        })
    }

    /// The captures because of which a stream may not be used for the legacy default stream's sake.
    fn implicit_conflicts(&self, target: Target) -> Vec<CaptureId> {
        if self.captures.len() == 0 || self.queues.ordering(target.queue) != Some(Ordering::Legacy)
        {
            return Vec::new();
        }
        self.captures.ids(|capture| {
            capture.members.keys().any(|queue| {
                self.queues.context(*queue) == Some(target.context)
                    && self.queues.ordering(*queue) == Some(Ordering::Blocking)
            })
        })
    }
}

impl Turn<'_> {
    /// Refuses an unsafe call where the thread's mode and the captures under way prohibit it.
    pub(crate) fn check_capture(&mut self) -> Answer {
        if self.call().columns().capture != CaptureRule::Unsafe {
            return Ok(());
        }
        let mode = self.state.threads.mode(self.thread);
        let prohibiting = self.state.captures.prohibiting(self.thread, mode);
        self.refuse(&prohibiting, CUresult::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Answers `status` and invalidates, if there are any.
    fn refuse(&mut self, captures: &[CaptureId], status: CUresult) -> Answer {
        if captures.is_empty() {
            return Ok(());
        }
        self.state.captures.invalidate(captures);
        Err(status)
    }

    /// For calls that wait for a whole context.
    pub(crate) fn no_capture_in(&mut self, context: Key<Context>) -> Answer {
        let captures = self.state.captures_in(context);
        self.refuse(&captures, CUresult::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// For calls that wait for a stream or ask it.
    pub(crate) fn not_captured(&mut self, target: Target) -> Answer {
        self.not_member(target)?;
        self.not_implicit(target)?;
        self.check_capture()
    }

    /// For calls that a captured stream doesn't take.
    pub(crate) fn not_member(&mut self, target: Target) -> Answer {
        let member: Vec<_> = self.state.captures.of(target.queue).into_iter().collect();
        self.refuse(&member, CUresult::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// For every use of a stream: the legacy one conflicts with captured blocking ones.
    pub(crate) fn not_implicit(&mut self, target: Target) -> Answer {
        let conflicts = self.state.implicit_conflicts(target);
        self.refuse(&conflicts, CUresult::STREAM_CAPTURE_IMPLICIT)
    }

    /// Whether asking about the legacy stream's capture is refused: with the same status, but nothing is invalidated.
    pub(crate) fn not_implicit_to_ask(&self, target: Target) -> Answer {
        if self.state.implicit_conflicts(target).is_empty() {
            Ok(())
        } else {
            Err(CUresult::STREAM_CAPTURE_IMPLICIT)
        }
    }

    /// Whether work on this stream is captured, valid or not.
    pub(crate) fn is_capturing(&self, target: Target) -> bool {
        self.state.captures.of(target.queue).is_some()
    }

    /// The valid capture that work on this stream goes into.
    pub(crate) fn capture_usable(&mut self, target: Target) -> Result<Option<CaptureId>, CUresult> {
        let Some(id) = self.state.captures.of(target.queue) else {
            return self.not_implicit(target).map(|()| None);
        };
        match self.state.captures.get(id) {
            Some(capture) if capture.invalidated => Err(CUresult::STREAM_CAPTURE_INVALIDATED),
            _ => Ok(Some(id)),
        }
    }

    /// The graph that a capture fills.
    pub(crate) fn graph_of_capture(&mut self, id: CaptureId) -> Result<Key<Graph>, CUresult> {
        match self.state.captures.get(id).map(|capture| capture.graph) {
            Some(graph) => Ok(graph),
            None => Err(self.broken("capture")),
        }
    }

    /// Where an event recorded on this stream now would stand in a capture.
    pub(crate) fn captured_place(&mut self, target: Target) -> Result<Option<Place>, CUresult> {
        let Some(id) = self.capture_usable(target)? else { return Ok(None) };
        let capture = self.state.captures.get(id);
        let member = capture.and_then(|capture| capture.members.get(&target.queue));
        Ok(Some((id, member.map(|member| member.set.clone()).unwrap_or_default())))
    }

    /// Puts a node into the graph that work on this stream is captured into.
    pub(crate) fn add_captured(&mut self, to: Target, (id, after): Place, task: Task) -> Answer {
        let site = self.site;
        let state = &mut *self.state;
        let graph = state.captures.get(id).map(|capture| capture.graph);
        let node = graph.and_then(|graph| state.add_node(graph, task, after, site));
        let member =
            state.captures.get_mut(id).and_then(|capture| capture.members.get_mut(&to.queue));
        let (Some(node), Some(member)) = (node, member) else { return Err(self.broken("capture")) };
        member.set = vec![Edge::plain(node)];
        Ok(())
    }

    /// What a wait for, or a question about, an event that was recorded in this capture answers.
    pub(crate) fn captured_event_asked(&mut self, id: CaptureId) -> CUresult {
        match self.state.captures.get_mut(id) {
            Some(capture) if !capture.invalidated => {
                capture.invalidated = true;
                CUresult::CAPTURED_EVENT
            }
            _ => CUresult::INVALID_VALUE,
        }
    }

    /// For a wait on an event of the outside world: captured work may not depend on it.
    pub(crate) fn isolated(&mut self, target: Target) -> Answer {
        let Some(id) = self.capture_usable(target)? else { return Ok(()) };
        self.refuse(&[id], CUresult::STREAM_CAPTURE_ISOLATION)
    }

    /// A stream waits for an event of a capture: it joins that capture, or depends on more of it.
    pub(crate) fn join_capture(&mut self, target: Target, id: CaptureId, after: &[Edge]) -> Answer {
        let own = self.capture_usable(target)?;
        if self.state.captures.get(id).is_none_or(|capture| capture.invalidated) {
            return Err(CUresult::INVALID_VALUE);
        }
        if let Some(other) = own.filter(|own| *own != id) {
            return self.refuse(&[id, other], CUresult::STREAM_CAPTURE_MERGE);
        }
        if self.state.queues.ordering(target.queue) == Some(Ordering::Legacy) {
            return self.refuse(&[id], CUresult::STREAM_CAPTURE_IMPLICIT);
        }
        let Some(capture) = self.state.captures.get_mut(id) else {
            return Err(CUresult::INVALID_VALUE);
        };
        let set = &mut capture.members.entry(target.queue).or_default().set;
        join(set, after);
        Ok(())
    }
}

/// Adds edges to a set of them: each node once.
pub(super) fn join(set: &mut Vec<Edge>, more: &[Edge]) {
    for edge in more {
        if !set.iter().any(|other| other.node == edge.node) {
            set.push(*edge);
        }
    }
}
