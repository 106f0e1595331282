//! The captures under way, as data: nothing here answers a call.
//!
//! A capture ends when its origin's `cuStreamEndCapture` returns, well or not (but for `ILLEGAL_STATE` and `UNMATCHED`).
//! Until then an invalidated one still has its members, and still prohibits what it prohibited.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread::ThreadId,
};

use cuhold_driver_sys::ffi::{CUgraphEdgeData, CUgraphNode, CUstreamCaptureMode};

use crate::{
    graph::{Edge, Graph, GraphNode},
    queue::QueueId,
    world::{Key, Table},
};

/// Which capture; never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct CaptureId(pub(crate) u64);

/// A stream that is captured: the nodes that its next work depends on.
#[derive(Debug, Default)]
pub(crate) struct Member {
    pub(crate) set: Vec<Edge>,
    /// What `cuStreamGetCaptureInfo` lent out last, as the caller sees it.
    pub(crate) lent: Vec<CUgraphNode>,
    pub(crate) lent_data: Vec<CUgraphEdgeData>,
}

/// A capture.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) graph: Key<Graph>,
    pub(crate) origin: QueueId,
    pub(crate) mode: CUstreamCaptureMode,
    /// The thread that began it.
    pub(crate) owner: ThreadId,
    pub(crate) invalidated: bool,
    pub(crate) members: BTreeMap<QueueId, Member>,
    /// What the next work of members that have ended would have depended on: their end joins nothing (measured).
    pub(crate) left: Vec<Edge>,
}

impl Capture {
    pub(crate) fn is_relaxed(&self) -> bool {
        self.mode == CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED
    }

    pub(crate) fn is_global(&self) -> bool {
        self.mode == CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL
    }

    /// Whether a member other than the origin has work that the origin doesn't wait for, also one that has ended.
    pub(crate) fn has_unjoined(&self, nodes: &Table<GraphNode>) -> bool {
        let mut joined = BTreeSet::new();
        let mut open: Vec<_> =
            self.members.get(&self.origin).map(|member| member.set.clone()).unwrap_or_default();
        while let Some(edge) = open.pop() {
            if joined.insert(edge.node.id()) {
                let node = nodes.get(edge.node);
                open.extend(node.into_iter().flat_map(|node| node.before.iter().copied()));
            }
        }
        self.members
            .values()
            .flat_map(|member| &member.set)
            .chain(&self.left)
            .any(|edge| !joined.contains(&edge.node.id()))
    }
}

/// All captures that began and didn't end.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    ids: u64,
    map: BTreeMap<CaptureId, Capture>,
}

impl Captures {
    pub(crate) fn begin(&mut self, capture: Capture) -> CaptureId {
        self.ids += 1;
        self.map.insert(CaptureId(self.ids), capture);
        CaptureId(self.ids)
    }

    pub(crate) fn end(&mut self, id: CaptureId) -> Option<Capture> {
        self.map.remove(&id)
    }

    pub(crate) fn get(&self, id: CaptureId) -> Option<&Capture> {
        self.map.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: CaptureId) -> Option<&mut Capture> {
        self.map.get_mut(&id)
    }

    /// The capture that a stream takes part in.
    pub(crate) fn of(&self, queue: QueueId) -> Option<CaptureId> {
        self.map.iter().find(|(_, capture)| capture.members.contains_key(&queue)).map(|(id, _)| *id)
    }

    /// The captures that `which` picks.
    pub(crate) fn ids(&self, which: impl Fn(&Capture) -> bool) -> Vec<CaptureId> {
        self.map.iter().filter(|(_, capture)| which(capture)).map(|(id, _)| *id).collect()
    }

    /// The captures because of which a thread in `mode` may make no unsafe call.
    pub(crate) fn prohibiting(
        &self,
        thread: ThreadId,
        mode: CUstreamCaptureMode,
    ) -> Vec<CaptureId> {
        if self.map.is_empty() {
            return Vec::new();
        }
        match mode {
            CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED => Vec::new(),
            CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL => {
                self.ids(|capture| capture.owner == thread && !capture.is_relaxed())
            }
            _ => self.ids(|c| c.is_global() || c.owner == thread && !c.is_relaxed()),
        }
    }

    pub(crate) fn invalidate(&mut self, ids: &[CaptureId]) {
        for id in ids {
            if let Some(capture) = self.map.get_mut(id) {
                capture.invalidated = true;
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }
}
