//! Asking the driver to end a capture, and what came of it as plain values.
//!
//! Measured: of an invalidated capture, one with unjoined work, and one that isn't relaxed and is ended on another thread
//! than it began on, the end fails, gives no graph, and the stream is free again. For everything else the driver is asked
//! whether the stream is still captured.

#![expect(unsafe_code, reason = "calls the driver's stream functions")]

use super::state::{Answer, Role};
use cuhold_handles::{
    self as handles, Context, CudaWarning, Driver, Error, Fate, Note, Object, ObjectKind, Result,
    Stream,
    driver_sys::{Calls, Failure, ffi::*, mutant},
};

/// Whether the stream is captured, and how.
pub(super) fn status_of(
    calls: Calls<'_>,
    stream: &Stream,
) -> Result<CUstreamCaptureStatus, Failure> {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: *handles*: the stream is live, its handle is borrowed; *pointers*: a live local.
    unsafe { calls.cuStreamIsCapturing(stream.raw(), &raw mut status) }?;
    Ok(status)
}

/// What the driver answered to an end.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(super) struct Ending {
    graph: Option<CUgraph>,
    /// The end's failure.
    failure: Option<Failure>,
    /// The failure of the question whether the stream is still captured.
    asked: Option<Failure>,
    goes_on: bool,
    /// Whether the graph is the ender's: not that of a body, which is its node's.
    owned: bool,
}

impl Ending {
    /// Asks for the end.
    ///
    /// Calls `cuStreamEndCapture`; where that failed and gave no graph `cuStreamIsCapturing`.
    pub(super) fn ask(calls: Calls<'_>, stream: &Stream, role: Role) -> Self {
        let mut graph = CUgraph::NULL;
        // SAFETY: *handles*: the stream is live, its handle is borrowed; *pointers*: a live local.
        let failure = unsafe { calls.cuStreamEndCapture(stream.raw(), &raw mut graph) }.err();
        let (graph, owned) = ((!graph.is_null()).then_some(graph), role != Role::Direct);
        let mut ending = Self { graph, failure, asked: None, goes_on: false, owned };
        if failure.is_some() && graph.is_none() && !mutant::is_out("capture-end-asked") {
            match status_of(calls, stream) {
                Ok(status) => {
                    ending.goes_on = status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
                }
                Err(failure) => {
                    (ending.asked, ending.goes_on) = (Some(failure), true);
                }
            }
        }
        ending
    }

    pub(super) fn answer(&self) -> Answer {
        match (self.failure, self.graph) {
            (None, Some(_)) => Answer::Graph,
            (Some(_), Some(_)) => Answer::FailedWithGraph,
            _ if self.goes_on => Answer::FailedAndGoesOn,
            _ => Answer::FailedAndOver,
        }
    }

    /// Whether the driver refused because it was called in a callback: nothing was done then.
    pub(super) fn is_not_permitted(&self) -> bool {
        self.failure.is_some_and(|failure| failure.status == CUresult::NOT_PERMITTED)
    }

    /// The end's failure.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// The graph as an owned object.
    pub(super) fn graph(&self, context: &Context) -> Option<handles::Graph> {
        let raw = self.graph.filter(|_| self.owned)?;
        // SAFETY: the driver gave it to whoever ended its capture, a moment ago. Not null, so not refused.
        unsafe { handles::Graph::from_raw(context, raw) }.ok()
    }

    /// The failure of the end as an error, with that of the question.
    pub(super) fn error(&self, driver: &Driver) -> Error {
        let error = match self.failure {
            Some(failure) => driver.error(failure),
            None => Error::state("the driver reported success and gave no graph"),
        };
        self.note_question(error)
    }

    fn note_question(&self, error: Error) -> Error {
        match self.asked {
            Some(failure) => error.with_note(Note::Failed(failure)),
            None => error,
        }
    }

    /// Adds what went wrong while a capture was ended because of an error; destroys its graph.
    ///
    /// `began` says whether the capture is known to have begun: else that there is none to end is no failure.
    pub(super) fn note_undo(self, stream: &Stream, began: bool, mut error: Error) -> Error {
        let nothing = |failure: &Failure| {
            failure.status == CUresult::ILLEGAL_STATE && !began && !self.goes_on
        };
        if let Some(failure) = self.failure.filter(|failure| !nothing(failure)) {
            error = error.with_note(Note::UndoFailed(failure));
        }
        error = self.note_question(error);
        if self.goes_on {
            strand(stream);
        }
        match self.graph(stream.context()) {
            Some(graph) => discard(graph, error),
            None => error,
        }
    }

    /// Tells what went wrong where nothing can be returned. `graph` names what was captured into.
    pub(super) fn warn(&self, stream: &Stream, graph: Object) {
        let driver = stream.driver();
        if let Some(failure) = self.failure {
            let (object, fate) = match self.goes_on {
                true => (stream.object(), Fate::Leaked),
                false => (graph, Fate::Released),
            };
            driver.warn(CudaWarning::failed(failure, object, fate));
        }
        if let Some(failure) = self.asked {
            driver.warn(CudaWarning::failed(failure, stream.object(), Fate::Leaked));
        }
    }
}

/// Destroys a graph that nobody was promised; a failure is a note.
pub(super) fn discard(graph: handles::Graph, error: Error) -> Error {
    match graph.close() {
        Ok(_) => error,
        Err(refused) => error.with_undo(&refused.error),
    }
}

/// Leaves a stream to a capture that couldn't be ended: it is never ended, and takes no safe work any more. Said once,
/// beside the error.
pub(super) fn strand(stream: &Stream) {
    stream.retire();
    stream.driver().warn(
        CudaWarning::note(
            stream.object(),
            "its capture couldn't be ended; it is never ended either, and takes no more work",
        )
        .with_fate(Fate::Leaked),
    );
}

/// What is captured into, as warnings name it.
pub(super) fn object_of(graph: Option<&handles::Graph>) -> Object {
    let raw = graph.map_or(0, |graph| graph.as_raw().addr() as u64);
    Object { kind: ObjectKind::Graph, raw, id: 0 }
}
