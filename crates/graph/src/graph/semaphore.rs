//! Nodes that signal semaphores of another API, and wait for them.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Graph, NodeKind, add::To};
use crate::{
    keep::Operand,
    node::{After, Node},
};
use cuhold_handles::{
    Error, ExternalSemaphore, Result,
    driver_sys::{Call, Calls, Failure, ffi::*},
    scope::{self, Undo},
};
use smallvec::SmallVec;
use std::sync::Arc;

/// Semaphores with a value each.
type Values = [(Arc<ExternalSemaphore>, u64)];

impl Graph {
    /// Adds a node that signals semaphores: a timeline's counter becomes the value, which others ignore. The semaphores are
    /// kept alive.
    ///
    /// Calls `cuGraphAddExternalSemaphoresSignalNode`, and `cuGraphDestroyNode` where it is undone; every 256th
    /// time that something is kept also `cuUserObjectCreate` and `cuGraphRetainUserObject`, and `cuUserObjectRelease` where
    /// that failed.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; a place inside of a conditional body; no semaphores, or one of another
    /// driver; the calls' failures, or that of making the context current and the caller's again, after which nothing was added.
    #[doc(alias = "cuGraphAddExternalSemaphoresSignalNode")]
    pub fn signal(&mut self, after: impl After, semaphores: &Values) -> Result<Node> {
        let mut of = self.semaphores(semaphores, signal)?;
        let (params, kept) = (of.params(), std::mem::take(&mut of.kept));
        self.add_with(NodeKind::Signal, after.place(), kept.len(), |_, to| {
            let made = in_context(to, |calls, out, after, count| {
                let params = &raw const params;
                // SAFETY: *pointers*: live locals, live nodes of the number, two lists as long as they say; *handles*: this
                // value's graph, and live semaphores.
                unsafe {
                    calls
                        .cuGraphAddExternalSemaphoresSignalNode(out, to.graph, after, count, params)
                }
            });
            (made, kept)
        })
    }

    /// Adds a node that waits for semaphores: for a timeline's counter to be at least the value, which others ignore. The
    /// semaphores are kept alive.
    ///
    /// Calls `cuGraphAddExternalSemaphoresWaitNode`, and `cuGraphDestroyNode` where it is undone; every 256th
    /// time that something is kept also `cuUserObjectCreate` and `cuGraphRetainUserObject`, and `cuUserObjectRelease` where
    /// that failed.
    ///
    /// # Errors
    /// As [`signal`](Self::signal).
    #[doc(alias = "cuGraphAddExternalSemaphoresWaitNode")]
    pub fn await_signals(&mut self, after: impl After, semaphores: &Values) -> Result<Node> {
        let mut of = self.semaphores(semaphores, wait)?;
        let (params, kept) = (of.params(), std::mem::take(&mut of.kept));
        self.add_with(NodeKind::Await, after.place(), kept.len(), |_, to| {
            let made = in_context(to, |calls, out, after, count| {
                let params = &raw const params;
                // SAFETY: as above.
                unsafe {
                    calls.cuGraphAddExternalSemaphoresWaitNode(out, to.graph, after, count, params)
                }
            });
            (made, kept)
        })
    }

    /// Lets a node signal other semaphores, or with other values. Executables that were made before go on with what they have.
    ///
    /// Calls `cuGraphExternalSemaphoresSignalNodeSetParams`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, one that was removed, or one of another kind; no semaphores, or one of another driver; the
    /// calls' failures, or that of making the context current and the caller's again, after which all semaphores are kept.
    #[doc(alias = "cuGraphExternalSemaphoresSignalNodeSetParams")]
    pub fn set_signal(&mut self, node: Node, semaphores: &Values) -> Result<()> {
        let mut of = self.semaphores(semaphores, signal)?;
        let (params, kept) = (of.params(), std::mem::take(&mut of.kept));
        self.change(node, NodeKind::Signal, (kept.len(), kept), |calls, raw| {
            // SAFETY: *pointers*: a live local, two lists as long as they say; *handles*: a live node, live semaphores.
            unsafe { calls.cuGraphExternalSemaphoresSignalNodeSetParams(raw, &raw const params) }
        })
    }

    /// Lets a node wait for other semaphores, or with other values. Executables that were made before go on with what they have.
    ///
    /// Calls `cuGraphExternalSemaphoresWaitNodeSetParams`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, one that was removed, or one of another kind; no semaphores, or one of another driver; the
    /// calls' failures, or that of making the context current and the caller's again, after which all semaphores are kept.
    #[doc(alias = "cuGraphExternalSemaphoresWaitNodeSetParams")]
    pub fn set_await(&mut self, node: Node, semaphores: &Values) -> Result<()> {
        let mut of = self.semaphores(semaphores, wait)?;
        let (params, kept) = (of.params(), std::mem::take(&mut of.kept));
        self.change(node, NodeKind::Await, (kept.len(), kept), |calls, raw| {
            // SAFETY: *pointers*: a live local, two lists as long as they say; *handles*: a live node, live semaphores.
            unsafe { calls.cuGraphExternalSemaphoresWaitNodeSetParams(raw, &raw const params) }
        })
    }

    /// The semaphores for a call, with the parameters of each.
    pub(crate) fn semaphores<P>(
        &self,
        semaphores: &Values,
        params: fn(u64) -> P,
    ) -> Result<Semaphores<P>> {
        if semaphores.is_empty() {
            return Err(Error::argument("semaphores: none"));
        }
        let count = u32::try_from(semaphores.len()).map_err(|_too_many| {
            Error::argument(format!("semaphores: {} of them", semaphores.len()))
        })?;
        for (semaphore, _) in semaphores {
            self.driver().check_same(semaphore.driver(), "semaphores")?;
        }
        let each = || semaphores.iter();
        let operand = |semaphore: &Arc<_>| Operand::Semaphore(Arc::clone(semaphore));
        Ok(Semaphores {
            raw: each().map(|(semaphore, _)| semaphore.as_raw()).collect(),
            list: each().map(|(_, value)| params(*value)).collect(),
            count,
            kept: each().map(|(semaphore, _)| operand(semaphore)).collect(),
        })
    }
}

/// The semaphores of a call.
pub(crate) struct Semaphores<P> {
    raw: SmallVec<[CUexternalSemaphore; 4]>,
    list: Vec<P>,
    count: u32,
    /// What is kept of them.
    pub(crate) kept: SmallVec<[Operand; 4]>,
}

impl Semaphores<CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS> {
    /// What a node is described by; valid as long as this value.
    pub(crate) fn params(&self) -> CUDA_EXT_SEM_SIGNAL_NODE_PARAMS {
        CUDA_EXT_SEM_SIGNAL_NODE_PARAMS {
            extSemArray: self.raw.as_ptr().cast_mut(),
            paramsArray: self.list.as_ptr(),
            numExtSems: self.count,
        }
    }
}

impl Semaphores<CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS> {
    /// What a node is described by; valid as long as this value.
    pub(crate) fn params(&self) -> CUDA_EXT_SEM_WAIT_NODE_PARAMS {
        CUDA_EXT_SEM_WAIT_NODE_PARAMS {
            extSemArray: self.raw.as_ptr().cast_mut(),
            paramsArray: self.list.as_ptr(),
            numExtSems: self.count,
        }
    }
}

/// Adds a node by a call in the graph's context: semaphores belong to one, and the call isn't told which.
fn in_context(
    to: To<'_>,
    make: impl FnOnce(Calls<'_>, *mut CUgraphNode, *const CUgraphNode, usize) -> Result<(), Failure>,
) -> Result<CUgraphNode> {
    let undo = Undo {
        columns: Call::cuGraphDestroyNode.columns(),
        // SAFETY: *handles*: made a moment ago, and given to nobody.
        destroy: |calls: Calls<'_>, node| unsafe { calls.cuGraphDestroyNode(node) },
        raw: |node: CUgraphNode| node.addr() as u64,
    };
    let make = |calls: Calls<'_>| {
        let mut raw = CUgraphNode::NULL;
        make(calls, &raw mut raw, to.after.as_ptr(), to.after.len())?;
        Ok(raw)
    };
    scope::create(to.context.target(), make, undo)
}

pub(crate) fn signal(value: u64) -> CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS {
    let mut params = CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS::default();
    params.params.fence.value = value;
    params
}

pub(crate) fn wait(value: u64) -> CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS {
    let mut params = CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS::default();
    params.params.fence.value = value;
    params
}
