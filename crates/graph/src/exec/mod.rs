//! Executable graphs: made from definitions, launched, changed, ended.
//!
//! ```text
//!   Graph ──instantiate──► GraphExec ─┬─ the driver's executable      ends first; launches under way go on
//!                                     ├─ marks: events behind launches (mark.rs)
//!                                     ├─ kept: what updates brought (kept.rs) ─┐
//!                                     └─ a user object that holds the same ◄───┘ which the driver's executable has, too
//! ```
//!
//! What the nodes used when the executable was made is kept by the graph's user objects, which the driver's executable
//! inherits. What updates bring is kept by a user object of the executable's own, so that it outlives the launch that is
//! under way when the executable is dropped; and what they replace is let go once the launches that could use it are over.
//!
//! # Threads
//! CUDA promises nothing for two calls at once on one executable, not even for two that only read, so everything that
//! makes a call takes `&mut self` and a [`GraphExec`] isn't `Sync`. Eight threads that launched one executable at once met
//! no failure (measured), but launches of one executable run one after the other anyway, whatever their streams, so
//! there is nothing to win: threads that are to launch the same work at once take an executable each, made from the same
//! graph.
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

mod instantiate;
mod kept;
mod mark;
mod memory;
mod node;
mod update;
mod waiting;

pub use instantiate::ExecOptions;
pub use update::{UpdateReason, UpdateRefused};

use crate::{keep::Operand, node::Node};
use cuhold_handles::{
    self as handles, AsStream, Closed, Context, CudaWarning, Driver, Error, Object, ObjectKind,
    Refused, Result, Stream, StreamRef, UserObject, driver_sys::ffi::CUgraphExec, foreign,
};
use kept::Kept;
use mark::Marks;
use std::{cell::Cell, fmt};

/// Where the last launch was queued.
#[derive(Debug)]
enum Last {
    On(Stream),
    /// On a stream that can't be asked later: a thread's default stream, or one that may end before.
    Elsewhere,
}

/// An executable graph, made by [`Graph::instantiate`](crate::Graph::instantiate), and independent of the graph.
///
/// It keeps what its nodes use; a launch that is under way keeps that, too, whatever becomes of the executable. What a
/// change of it replaces is kept until the launches that could use it are over, which the next launch, the next change or
/// [`drain`](Self::drain) finds; at the latest it goes with the executable. For that the executable remembers the stream
/// of its last launch, and keeps it alive.
///
/// It can go to another thread, but isn't `Sync`: CUDA promises nothing for two calls on one executable at once. Launches of
/// one executable run one after the other, whatever their streams; threads that are to launch the same work at once take
/// an executable each.
///
/// Its drop calls `cuGraphExecDestroy` and `cuUserObjectRelease`, and `cuEventDestroy` for each mark. Launches that are under
/// way are done all the same.
///
/// # Examples
/// ```
/// # use cuhold_graph::Graph;
/// # use cuhold_handles::{Device, Driver};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// let stream = device.new_stream()?;
/// let mut graph = Graph::new(device.context())?;
/// let node = graph.host(&[], || println!("first"))?;
/// let mut exec = graph.instantiate()?;
/// exec.launch(&stream)?;
/// exec.set_host(&graph, node, || println!("second"))?;
/// exec.launch(&stream)?;
/// stream.synchronize()?;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct GraphExec {
    raw: handles::GraphExec,
    // In front of the object that holds for the driver what this holds: that is let go on the reclaimer, on whatever thread
    // this is dropped.
    books: Box<Books>,
    object: UserObject,
}

/// What is remembered of an executable.
#[derive(Debug)]
struct Books {
    marks: Marks,
    last: Option<Last>,
    /// What updates brought.
    kept: Kept<Node, Operand>,
    /// Whether others may launch it.
    exposed: Cell<bool>,
    /// The number of the graph that it was made from.
    graph: u64,
    options: ExecOptions,
}

impl Books {
    fn new(graph: u64, options: ExecOptions) -> Self {
        let (marks, exposed) = (Marks::default(), Cell::new(false));
        Self { marks, last: None, kept: Kept::new(), exposed, graph, options }
    }
}

impl GraphExec {
    /// Queues all of the graph on a stream, behind what is there and behind the launches of this executable before. Returns
    /// at once.
    ///
    /// Calls `cuGraphLaunch`; for an exposed stream first `cuStreamIsCapturing`. Where a change has replaced something that
    /// launches may use, also `cuEventQuery`; and `cuEventRecord`, after `cuEventCreate` where no event is at hand and with
    /// `cuEventDestroy` where that is undone, if the launches before couldn't be marked.
    ///
    /// # Errors
    /// The calls' failures, which may be those of earlier work; [completed](Error::completed) where the graph was queued and
    /// only the mark behind it failed. A stream of another driver, and one that is being captured: the driver would
    /// refuse the launch and break the capture (measured).
    #[doc(alias = "cuGraphLaunch")]
    pub fn launch(&mut self, stream: &impl AsStream) -> Result<()> {
        let on = stream.as_stream();
        self.driver().check_same(on.driver(), "stream")?;
        refuse_captured(on)?;
        self.look()?;
        // Also where the call fails: it may have been made all the same.
        self.books.kept.launch();
        self.remember(on);
        // SAFETY: *bounds*: what the nodes use is kept, or alive by the promise of who added them; *ordering*: what is used in
        // conflict is memory of the device, whose bytes are plain data.
        unsafe { self.raw.launch(stream) }?;
        self.mark()
    }

    /// Brings what the graph needs to the device, behind what the stream holds, so that the first launch needn't.
    ///
    /// Calls `cuGraphUpload`; for an exposed stream first `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// The calls' failures, which may be those of earlier work; a stream of another driver, and one that is being captured.
    #[doc(alias = "cuGraphUpload")]
    pub fn upload(&mut self, stream: &impl AsStream) -> Result<()> {
        let on = stream.as_stream();
        self.driver().check_same(on.driver(), "stream")?;
        refuse_captured(on)?;
        self.raw.upload(stream)
    }

    /// Lets go of what changes replaced and no launch can use any more. Waits for nothing: after a wait for the stream of the
    /// last launch, [`retired`](Self::retired) is 0, unless that is a [`PerThreadStream`](handles::PerThreadStream), one that
    /// is borrowed without an owner, or one that was being captured when the change was made.
    ///
    /// Calls `cuEventQuery` where something is kept that was replaced; `cuEventRecord`, after `cuEventCreate` where no event is
    /// at hand and with `cuEventDestroy` where that is undone, and for an exposed stream `cuStreamIsCapturing`, if the launches
    /// that could use it weren't marked yet.
    ///
    /// # Errors
    /// The calls' failures, which may be those of earlier work.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let mut graph = Graph::new(device.context())?;
    /// let node = graph.host(&[], || {})?;
    /// let mut exec = graph.instantiate()?;
    /// for round in 0..3 {
    ///     exec.set_host(&graph, node, move || println!("round {round}"))?;
    ///     exec.launch(&stream)?;
    /// }
    /// stream.synchronize()?;
    /// exec.drain()?;
    /// assert_eq!(exec.retired(), 0);
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    pub fn drain(&mut self) -> Result<()> {
        self.look()?;
        self.mark()
    }

    /// How many values are kept that changes replaced.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn retired(&self) -> usize {
        self.books.kept.retired()
    }

    /// The options that it was made with. The driver isn't asked: `cuGraphExecGetFlags` doesn't tell that the nodes' priorities
    /// are used (measured on an H200).
    ///
    /// Calls nothing.
    #[must_use]
    pub fn options(&self) -> ExecOptions {
        self.books.options
    }

    /// The context that it runs in.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.raw.context()
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.raw.driver()
    }

    /// The driver's handle, which stays this value's. From here on others may launch it, so what changes replace is kept
    /// until its end.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_raw(&self) -> CUgraphExec {
        self.books.exposed.set(true);
        self.raw.as_raw()
    }

    /// Ends the executable here and now. Launches that are under way are done all the same.
    ///
    /// Calls `cuGraphExecDestroy`, `cuUserObjectRelease`; `cuEventDestroy` for each mark.
    ///
    /// # Errors
    /// [`Refused`], with the executable where the driver wasn't asked.
    #[doc(alias = "cuGraphExecDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        let Self { raw, books, object } = self;
        let (closed, error) = match raw.close() {
            Ok(closed) => (Some(closed), None),
            Err(Refused { error, value: Some(raw), .. }) => {
                return Err(Refused::new(error, Some(Self { raw, books, object })));
            }
            Err(refused) => (None, Some(refused.error)),
        };
        drop(books);
        let second = object.close().err().map(|refused| refused.error);
        match (closed, error, second) {
            (Some(closed), None, None) => Ok(closed),
            (_, Some(error), Some(second)) => Err(Refused::new(error.with_second(&second), None)),
            (_, Some(error), None) | (_, None, Some(error)) => Err(Refused::new(error, None)),
            (None, None, None) => Ok(Closed::Destroyed),
        }
    }

    /// Where others may launch the executable, they may have done so by now, with what it has had so far.
    fn count_foreign_launches(&mut self) {
        if self.books.exposed.get() {
            self.books.kept.launch();
        }
    }

    fn remember(&mut self, stream: StreamRef<'_>) {
        match (stream.kept(), &self.books.last) {
            (Some(stream), Some(Last::On(last))) if last == stream => {}
            (Some(stream), _) => self.books.last = Some(Last::On(stream.clone())),
            (None, _) => self.books.last = Some(Last::Elsewhere),
        }
    }

    /// Lets go of what waits for launches that are found to be over.
    #[inline]
    fn look(&mut self) -> Result<()> {
        if self.books.marks.is_empty() { Ok(()) } else { self.look_at_marks() }
    }

    #[cold]
    fn look_at_marks(&mut self) -> Result<()> {
        let driver = self.raw.driver().clone();
        let (over, looked) = self.books.marks.look(&driver);
        if let Some(launch) = over {
            let_go(&driver, self.books.kept.over(launch));
        }
        looked
    }

    /// Puts a mark behind the last launch if something waits for that.
    #[inline]
    fn mark(&mut self) -> Result<()> {
        if self.books.kept.unmarked() { self.put_mark() } else { Ok(()) }
    }

    /// Where no mark can be put, what waits for one waits for a later launch, or for the end.
    #[cold]
    fn put_mark(&mut self) -> Result<()> {
        let Books { marks, last, kept, exposed, .. } = &mut *self.books;
        let Some(Last::On(stream)) = last else { return Ok(()) };
        let mut put = || {
            if exposed.get() || StreamRef::from(&*stream).is_captured()? {
                return Ok(());
            }
            let newest = kept.newest();
            marks.put(newest, stream)?;
            kept.marked(newest);
            Ok(())
        };
        put().map_err(|error: Error| error.with_completed(1))
    }
}

/// Refuses a stream that somebody captures.
fn refuse_captured(stream: StreamRef<'_>) -> Result<()> {
    if stream.is_captured()? {
        return Err(Error::state(
            "stream: it is being captured, and an executable can't become part of a graph: add the graph that it was made from",
        ));
    }
    Ok(())
}

/// Drops what a user may have made, which may panic.
fn let_go(driver: &Driver, values: Vec<Operand>) {
    for value in values {
        if let Err(caught) = foreign::drop_caught(value) {
            let owner = Object::nameless(ObjectKind::Owner);
            driver.warn(CudaWarning::panicked(owner, caught.payload()));
        }
    }
}

impl fmt::Debug for GraphExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphExec").field("raw", &self.raw).finish_non_exhaustive()
    }
}

const _: () = {
    const fn sent<T: Send>() {}
    sent::<GraphExec>();
};
