//! What is known of a capture, shared by its builders; and its beginning.

#![expect(unsafe_code, reason = "calls the driver's stream functions")]

use super::{
    CaptureMode,
    ending::{Ending, status_of},
    plan::Plan,
    state::{Capture, Member, Role},
};
use crate::{
    graph::CapturedConditional,
    keep::{Attached, Operand, Operands},
};
use cuhold_handles::{
    self as handles, CudaWarning, Driver, Error, Event, Fate, Result, Stream,
    driver_sys::{Calls, Failure, ffi::*, mutant},
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, ptr, sync::Arc};

/// What a capture is of.
#[derive(Default)]
pub(super) enum Kind {
    /// A graph.
    #[default]
    Root,
    /// A conditional's body, into graphs of its own.
    Apart { root: Arc<Mutex<Books>>, plan: Plan },
    /// A conditional's body, straight into it.
    Direct { root: Arc<Mutex<Books>> },
}

/// A capture's books.
pub(super) struct Books {
    pub(super) state: Capture,
    pub(super) kind: Kind,
    /// The number of the graph that comes of it.
    pub(super) id: u64,
    /// Conditions that were made, and whether a node uses each.
    pub(super) conditions: Vec<(CUgraphConditionalHandle, bool)>,
    pub(super) conditionals: Vec<CapturedConditional>,
    /// The driver's graph, which isn't ours until the end gives it. `None` when that is over.
    graph: Option<handles::Graph>,
    operands: Operands,
    /// The streams of forks, which live until they are joined or the capture is over: the driver forgets the work of one
    /// that ends, and that it wasn't joined (measured).
    pub(super) forks: BTreeMap<Member, Stream>,
    /// What forks and joins are ordered by.
    pub(super) event: Option<Event>,
}

/// What a capture leaves, to be dropped with nothing locked.
pub(super) struct Remains {
    pub(super) graph: Option<handles::Graph>,
    pub(super) operands: Operands,
    pub(super) id: u64,
    pub(super) conditionals: Vec<CapturedConditional>,
    _forks: BTreeMap<Member, Stream>,
    _event: Option<Event>,
}

impl Books {
    /// The driver's graph, while it is being captured.
    pub(super) fn graph(&self) -> Result<CUgraph> {
        match &self.graph {
            Some(graph) => Ok(graph.as_raw()),
            None => Err(Error::state("the capture has ended")),
        }
    }

    /// Keeps what work uses that is about to be captured.
    ///
    /// Calls as `Operands::prepare`.
    pub(super) fn attach(
        &mut self,
        count: usize,
        operands: impl IntoIterator<Item = Operand>,
    ) -> Result<Attached> {
        let Some(graph) = &mut self.graph else {
            return Err(Error::state("the capture has ended"));
        };
        if mutant::is_out("capture-keep") {
            return Ok(Attached::default());
        }
        let reserved = self.operands.prepare(graph, count)?;
        Ok(self.operands.commit(reserved, operands))
    }

    /// The work wasn't captured.
    pub(super) fn detach(&mut self, attached: Attached, driver: &Driver) {
        self.operands.release(attached, driver);
    }

    /// The capture is over.
    pub(super) fn close(&mut self) -> Remains {
        Remains {
            graph: self.graph.take(),
            operands: std::mem::take(&mut self.operands),
            id: self.id,
            conditionals: std::mem::take(&mut self.conditionals),
            _forks: std::mem::take(&mut self.forks),
            _event: self.event.take(),
        }
    }
}

/// Lets go of the claim on a stream, unless it is kept.
struct Claim<'a>(Option<&'a Stream>);

impl<'a> Claim<'a> {
    fn of(stream: &'a Stream) -> Result<Self> {
        if stream.claim_for_builder() {
            return Ok(Self(Some(stream)));
        }
        Err(Error::state(
            "stream: a builder captures it already, or couldn't end its capture of it",
        ))
    }

    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(stream) = self.0 {
            stream.release_from_builder();
        }
    }
}

/// Begins a capture of a stream.
pub(super) fn begin(stream: &Stream, mode: CaptureMode, role: Role) -> Result<Books> {
    begin_with(stream, role, |calls| {
        // SAFETY: *handles*: the stream is live, its handle is borrowed.
        unsafe { calls.cuStreamBeginCapture_v2(stream.raw(), mode.raw()) }
    })
}

/// Begins a capture of a stream by a call.
pub(super) fn begin_with(
    stream: &Stream,
    role: Role,
    call: impl FnOnce(Calls<'_>) -> Result<(), Failure>,
) -> Result<Books> {
    if stream.is_token() {
        return Err(Error::argument(
            "stream: a default stream isn't captured, only created ones are",
        ));
    }
    let driver = stream.driver();
    let calls = driver.callable()?;
    let others_may = stream.is_exposed();
    let claim = Claim::of(stream)?;
    if others_may {
        let status = status_of(calls, stream).map_err(|failure| driver.error(failure))?;
        if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            return Err(Error::state("stream: somebody else is capturing it"));
        }
    }
    if let Err(failure) = call(calls) {
        let error = driver.error(failure);
        // It may have begun all the same; in that state already it was begun by somebody else.
        let is_ours = failure.status != CUresult::ILLEGAL_STATE;
        return Err(if is_ours { undo(claim, stream, (role, false), error) } else { error });
    }
    match graph_of(calls, stream) {
        Ok(graph) => {
            claim.keep();
            Ok(Books {
                state: Capture::begun(role),
                kind: Kind::Root,
                id: driver.next_id(),
                conditions: Vec::new(),
                conditionals: Vec::new(),
                graph: Some(graph),
                operands: Operands::default(),
                forks: BTreeMap::new(),
                event: None,
            })
        }
        Err(error) if mutant::is_out("capture-begin-undo") => Err(error),
        Err(error) => Err(undo(claim, stream, (role, true), error)),
    }
}

#[cold]
fn undo(claim: Claim<'_>, stream: &Stream, (role, began): (Role, bool), error: Error) -> Error {
    let ending = Ending::ask(stream.driver().calls(), stream, role);
    if ending.answer() == super::state::Answer::FailedAndGoesOn {
        claim.keep();
    }
    ending.note_undo(stream, began, error)
}

/// The graph that a stream is captured into: the driver's until the capture ends well.
fn graph_of(calls: Calls<'_>, stream: &Stream) -> Result<handles::Graph> {
    let mut graph = CUgraph::NULL;
    let status =
        info(calls, stream, &mut graph).map_err(|failure| stream.driver().error(failure))?;
    if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE || graph.is_null() {
        return Err(Error::state("the capture was invalidated as soon as it had begun"));
    }
    // SAFETY: it lives as long as its capture, and this value isn't used any longer.
    unsafe { handles::Graph::borrow_raw(stream.context(), graph, None) }
}

fn info(
    calls: Calls<'_>,
    stream: &Stream,
    graph: &mut CUgraph,
) -> Result<CUstreamCaptureStatus, Failure> {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: *handles*: the stream is live, its handle is borrowed; *pointers*: live locals, the others are optional.
    unsafe {
        calls.cuStreamGetCaptureInfo_v2(
            stream.raw(),
            &raw mut status,
            ptr::null_mut(),
            graph,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    }?;
    Ok(status)
}

/// Leaves a graph alone for good, inside of which the driver has freed a body: destroying it would end the process
/// (measured). Said once.
pub(super) fn leaked(graph: handles::Graph, why: Option<String>) -> Error {
    let object = super::object_of(Some(&graph));
    let driver = graph.driver().clone();
    // Not ended: neither is what it holds let go of.
    drop(graph.into_raw());
    driver.warn(
        CudaWarning::note(object, "the driver freed a conditional's body inside of it")
            .with_fate(Fate::Leaked),
    );
    Error::state(why.unwrap_or_default())
}
