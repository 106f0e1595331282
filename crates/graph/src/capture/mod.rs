//! Graphs by capture: builders, through which work goes into a graph instead of onto a stream.
//!
//! ```text
//!   begin ──► GraphBuilder ── launch, copy, fill, host, record, wait, child ──► end ──► Graph
//!                │   ▲  └── fork ──► GraphBuilder ── … ──┐
//!                │   └──────────── join ◄────────────────┘
//!                └── conditionals: a body is a GraphBuilder for the length of a closure
//! ```
//!
//! `state/` is what may be asked for when, and makes no call; `ending.rs` is the driver's answer to an end; the other files
//! make the calls.
//!
//! Source: CUDA Driver API 13.x, "Stream Management", capture.

mod body;
mod books;
mod closure;
mod ending;
mod fork;
mod memory;
mod node;
mod plan;
mod state;
mod work;

pub use closure::capture;
pub use memory::CapturedMemory;

use self::{
    books::{Books, Remains, begin},
    ending::{Ending, discard, object_of, status_of, strand},
    state::{Belongs, Member, PRIMARY, Role},
};
use crate::graph::Graph;
use cuhold_handles::{
    Context, Driver, Error, Note, Object, Result, Stream, StreamOptions, callback,
    driver_sys::{
        Failure, Life,
        ffi::{CUstream, CUstreamCaptureMode, CUstreamCaptureStatus},
        mutant,
    },
    scope,
};
use parking_lot::Mutex;
use std::{fmt, marker::PhantomData, sync::Arc};

/// What a capture forbids meanwhile: calls that may wait for the GPU, such as synchronous allocations, are refused, and
/// invalidate the capture. The library's own housekeeping disturbs no capture, whatever its mode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CaptureMode {
    /// To every thread of the process.
    Global,
    /// To the thread that captures.
    ThreadLocal,
    /// To nobody.
    Relaxed,
}

impl CaptureMode {
    fn raw(self) -> CUstreamCaptureMode {
        match self {
            Self::Global => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
            Self::ThreadLocal => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
            Self::Relaxed => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
        }
    }
}

/// What the driver says of a builder's stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CaptureStatus {
    /// It is being captured.
    Capturing,
    /// Its capture was invalidated, and has to be ended.
    Invalidated,
    /// It isn't being captured.
    NotCapturing,
}

/// Builds a graph by capture: what is asked of it isn't run but becomes nodes of a graph, each behind what was asked for
/// before.
///
/// What the nodes use (kernels, the memory of buffers, events, closures, the host side of copies) is kept alive by the
/// capture, then by the graph, its copies and executables, and their launches under way.
///
/// While the capture goes on, the stream's work goes through the builder: other safe work on the stream, through a clone of
/// it, is refused with [`ErrorKind::State`](cuhold_handles::ErrorKind::State), and the capture isn't disturbed by it.
///
/// A builder stays on its thread, since a capture that isn't relaxed ends on the thread on which it began.
///
/// Its drop calls `cuStreamEndCapture`, `cuGraphDestroy`; where the end fails `cuStreamIsCapturing`. That is so for a builder
/// that began a capture and didn't end it; the drop of a fork calls nothing. What the capture used for itself ends with it:
/// `cuStreamDestroy`, `cuEventDestroy`, `cuUserObjectRelease`.
///
/// # Examples
/// ```
/// # use cuhold_graph::{CaptureMode, GraphBuilder, handles::{Device, Driver}};
/// # use cuhold_memory::Buffer;
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// let stream = device.new_stream()?;
/// let mut values = Buffer::<u32>::zeroed(&stream, 100)?;
///
/// let mut builder = GraphBuilder::begin(&stream, CaptureMode::ThreadLocal)?;
/// builder.fill(&mut values, 7)?;
/// builder.host(|| println!("filled"))?;
/// let mut graph = builder.end()?;
///
/// let mut exec = graph.instantiate()?;
/// exec.launch(&stream)?;
/// assert_eq!(values.to_vec()?, [7; 100]);
/// # Ok::<(), cuhold_graph::handles::Error>(())
/// ```
pub struct GraphBuilder {
    stream: Stream,
    member: Member,
    capture: Arc<Mutex<Books>>,
    here: PhantomData<*const ()>,
}

impl GraphBuilder {
    /// Begins a capture of the stream.
    ///
    /// Calls `cuStreamBeginCapture`, `cuStreamGetCaptureInfo`; for a stream that others may use before that
    /// `cuStreamIsCapturing`; where it is undone `cuStreamEndCapture`, `cuGraphDestroy` and `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a default stream, which isn't captured;
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State) for a stream that is being captured, by a builder or by
    /// somebody else; the calls' failures, after which no capture is left.
    #[doc(alias = "cuStreamBeginCapture")]
    pub fn begin(stream: &Stream, mode: CaptureMode) -> Result<Self> {
        let books = begin(stream, mode, Role::Graph)?;
        Ok(Self::of(stream.clone(), PRIMARY, Arc::new(Mutex::new(books))))
    }

    /// Begins a capture on a stream of its own.
    ///
    /// Calls `cuStreamCreateWithPriority`, `cuStreamBeginCapture`, `cuStreamGetCaptureInfo`; where it is undone
    /// `cuStreamEndCapture`, `cuGraphDestroy`, `cuStreamIsCapturing` and `cuStreamDestroy`.
    ///
    /// # Errors
    /// The calls' failures, after which neither a capture nor a stream is left.
    pub fn on_own_stream(context: &Context, mode: CaptureMode) -> Result<Self> {
        let stream = Stream::with_options(context, StreamOptions::default())?;
        match begin(&stream, mode, Role::Graph) {
            Ok(books) => Ok(Self::of(stream, PRIMARY, Arc::new(Mutex::new(books)))),
            Err(error) => Err(match stream.close() {
                Ok(_) => error,
                Err(refused) => error.with_undo(&refused.error),
            }),
        }
    }

    fn of(stream: Stream, member: Member, capture: Arc<Mutex<Books>>) -> Self {
        Self { stream, member, capture, here: PhantomData }
    }

    /// Begins another capture with a builder that ended its own, on the same stream.
    ///
    /// Calls as [`begin`](Self::begin): `cuStreamBeginCapture`, `cuStreamGetCaptureInfo`; for a stream that others may use
    /// before that `cuStreamIsCapturing`; where it is undone `cuStreamEndCapture`, `cuGraphDestroy` and
    /// `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State) for a fork, and while the former capture isn't over; as
    /// [`begin`](Self::begin).
    pub fn begin_again(&mut self, mode: CaptureMode) -> Result<()> {
        if self.member != PRIMARY {
            return Err(Error::state("a fork begins no capture"));
        }
        if self.capture.lock().state.is_open() {
            return Err(Error::state("the builder's capture hasn't ended yet"));
        }
        let books = begin(&self.stream, mode, Role::Graph)?;
        self.capture = Arc::new(Mutex::new(books));
        Ok(())
    }

    /// What the driver says of the builder's stream. What it says of an invalidated capture is remembered.
    ///
    /// Calls `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuStreamIsCapturing")]
    pub fn status(&self) -> Result<CaptureStatus> {
        let driver = self.driver();
        let status = status_of(driver.callable()?, &self.stream);
        match status.map_err(|failure| driver.error(failure))? {
            CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => Ok(CaptureStatus::NotCapturing),
            CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE => Ok(CaptureStatus::Capturing),
            _ => {
                self.capture.lock().state.found_invalid();
                Ok(CaptureStatus::Invalidated)
            }
        }
    }

    /// Ends the capture and gives its graph. The stream takes other work again, and the builder can
    /// [begin again](Self::begin_again).
    ///
    /// Calls `cuStreamEndCapture`, `cuGraphGetNodes`, `cuGraphGetEdges`, and `cuGraphNodeGetType` for each node; before that
    /// `cuGraphAddNode` for each condition that no node uses; where the end failed `cuStreamIsCapturing`; where the graph isn't handed out `cuGraphDestroy`. What the capture used for itself ends:
    /// `cuStreamDestroy`, `cuEventDestroy`, `cuUserObjectRelease`.
    ///
    /// # Errors
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): a fork, a body, or a capture that is over; one whose graph
    ///   isn't what was asked for: it was destroyed;
    /// - `STREAM_CAPTURE_INVALIDATED`, with the call that did it where that is known; `STREAM_CAPTURE_UNJOINED`: forks
    ///   weren't joined. The driver has destroyed the graph, and the stream takes other work again;
    /// - another failure of the calls. Where the driver says that the stream is still captured, nothing can be done with it
    ///   any more: it is leaked, which is reported, and safe work on it is refused.
    #[doc(alias = "cuStreamEndCapture")]
    pub fn end(&mut self) -> Result<Graph> {
        if !mutant::is_out("capture-end-fork") {
            self.capture.lock().state.may_end(self.member)?;
        }
        match self.use_all_conditions() {
            Ok(()) => self.close(),
            Err(error) => Err(self.end_because(error)),
        }
    }

    /// As [`end`](Self::end), of any capture that goes on.
    fn close(&mut self) -> Result<Graph> {
        let driver = self.stream.driver();
        let role = self.capture.lock().state.role();
        let ending = Ending::ask(driver.callable()?, &self.stream, role);
        let mut books = self.capture.lock();
        let (why, unjoined) = (books.state.why_not(), books.state.unjoined());
        let belongs = books.state.ended(ending.answer());
        let left = books.close();
        drop(books);
        if belongs != Belongs::ToDriver {
            self.stream.release_from_builder();
        }
        let graph = ending.graph(self.stream.context());
        let error = match (belongs, graph) {
            (Belongs::ToCaller, Some(graph)) => {
                return Graph::captured(graph, left.id, left.operands, &left.conditionals);
            }
            (Belongs::ToTheLeaks, Some(graph)) => {
                return Err(books::leaked(graph, why));
            }
            (Belongs::ToNobody, Some(graph)) if ending.answer() == state::Answer::Graph => {
                discard(graph, Error::state(why.unwrap_or_default()))
            }
            (_, Some(graph)) => discard(graph, ending.error(driver)),
            (_, None) => {
                let error = ending.error(driver);
                match (why, unjoined) {
                    (Some(why), _) => error.with_note(Note::Text(why.into())),
                    (None, 0) => error,
                    (None, forks) => {
                        error.with_note(Note::Text(format!("{forks} forks weren't joined").into()))
                    }
                }
            }
        };
        if belongs == Belongs::ToDriver {
            strand(&self.stream);
        }
        Err(error)
    }

    /// Ends the capture and destroys its graph; a failure goes along with the error because of which.
    fn abandon(mut self, error: Error) -> Error {
        self.end_because(error)
    }

    fn end_because(&mut self, error: Error) -> Error {
        if !self.has_something_to_end() {
            return error;
        }
        if self.capture.lock().state.role() == Role::Direct {
            return match self.close_direct(false) {
                Ok(()) => error,
                Err(second) => error.with_second(&second),
            };
        }
        match self.close() {
            Ok(graph) => match graph.close() {
                Ok(_) => error,
                Err(refused) => error.with_undo(&refused.error),
            },
            Err(second) => error.with_second(&second),
        }
    }

    /// Ends the capture of a body straight into it. `whole`: all that was asked for is in there.
    fn close_direct(&mut self, whole: bool) -> Result<()> {
        let driver = self.stream.driver();
        let ending = Ending::ask(driver.callable()?, &self.stream, Role::Direct);
        let why = self.capture.lock().state.why_not();
        let (belongs, _left) = self.left().ended(&ending, whole);
        let Some(_) = ending.failure() else { return Ok(()) };
        if belongs == Belongs::ToDriver {
            strand(&self.stream);
        }
        let error = ending.error(driver);
        Err(match why {
            Some(why) => error.with_note(Note::Text(why.into())),
            None => error,
        })
    }

    fn has_something_to_end(&self) -> bool {
        self.member == PRIMARY && self.is_open()
    }

    fn is_open(&self) -> bool {
        self.capture.lock().state.is_open()
    }

    fn left(&self) -> Left {
        let role = self.capture.lock().state.role();
        let root = match role {
            Role::Direct => Some(self.root()),
            Role::Graph | Role::Apart => None,
        };
        Left { stream: self.stream.clone(), capture: Arc::clone(&self.capture), root }
    }

    /// A call of this builder failed.
    fn failed(&self, error: &Error) {
        if let Some(failure) = failure_of(error) {
            self.capture.lock().state.failed(failure);
        }
    }

    /// The driver's handle of the stream, for work that others capture: what that uses isn't kept by the builder.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_raw(&self) -> CUstream {
        self.stream.as_raw()
    }

    /// The stream that is captured.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The context that the captured work is for.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.stream.context()
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.stream.driver()
    }
}

impl Drop for GraphBuilder {
    fn drop(&mut self) {
        let open = self.has_something_to_end();
        self.capture.lock().state.dropped(self.member);
        if !open || mutant::is_out("capture-drop") || self.driver().api().life() == Life::Forked {
            return;
        }
        let left = self.left();
        if callback::inside() {
            return left.hand_over();
        }
        left.end();
    }
}

/// A capture that nobody ended.
struct Left {
    stream: Stream,
    capture: Arc<Mutex<Books>>,
    /// Of a body that is captured straight into it: the capture that it is inside of.
    root: Option<Arc<Mutex<Books>>>,
}

impl Left {
    /// Leaves the end to the reclaimer. The graph isn't wanted, so that it doesn't matter that it is another thread.
    #[cold]
    fn hand_over(self) {
        let inlet = self.stream.driver().reclaim().inlet();
        inlet.defer(None, move || self.end());
    }

    /// Notes that the driver was asked for the end.
    fn ended(&self, ending: &Ending, whole: bool) -> (Belongs, Remains) {
        let mut books = self.capture.lock();
        let belongs = books.state.ended(ending.answer());
        let left = books.close();
        drop(books);
        if belongs != Belongs::ToDriver {
            self.stream.release_from_builder();
        }
        if let Some(root) = &self.root {
            let state = &mut root.lock().state;
            match ending.failure() {
                // The driver has freed the body under its node (measured), or isn't known to have left it alone.
                Some(failure) if !mutant::is_out("capture-poison") => state.poisoned(failure),
                None if !whole => state.spoilt(None),
                _ => {}
            }
        }
        (belongs, left)
    }

    fn end(self) {
        let driver = self.stream.driver().clone();
        let role = self.capture.lock().state.role();
        let ending = Ending::ask(driver.calls(), &self.stream, role);
        if ending.is_not_permitted() && scope::is_in_callback(driver.calls()) {
            return self.hand_over();
        }
        let why = self.capture.lock().state.why_not();
        let (belongs, left) = self.ended(&ending, false);
        if belongs == Belongs::ToDriver {
            self.stream.retire();
        }
        let named: Object = object_of(left.graph.as_ref());
        match (belongs, ending.graph(self.stream.context())) {
            (Belongs::ToTheLeaks, Some(graph)) => drop(books::leaked(graph, why)),
            (_, graph) => drop(graph),
        }
        drop(left);
        ending.warn(&self.stream, named);
    }
}

impl fmt::Debug for GraphBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = self.capture.lock().state.phase();
        let mut text = f.debug_struct("GraphBuilder");
        text.field("stream", &self.stream).field("member", &self.member);
        text.field("phase", &phase).finish_non_exhaustive()
    }
}

/// The driver call behind an error.
fn failure_of(error: &Error) -> Option<Failure> {
    use cuhold_handles::{AnyCall, Status};
    match (error.call(), error.status()) {
        (Some(AnyCall::Driver(call)), Some(Status::Driver(status))) => {
            Some(Failure { call, status })
        }
        _ => None,
    }
}
