//! Forks and joins: work of one capture side by side.
//!
//! A fork is a stream of the builder's own that is drawn into the capture by waiting for an event of it. A join is the other
//! way round. One event serves all of a capture: a wait means what it marked at that moment.

#![expect(unsafe_code, reason = "calls the driver's stream functions")]

use super::GraphBuilder;
use cuhold_handles::{
    Error, Event, EventOptions, Result, Stream, StreamOptions,
    driver_sys::{Failure, mutant},
};
use std::sync::Arc;

impl GraphBuilder {
    /// Another builder of the same capture, on a stream of its own: its work comes behind what this one has captured by now,
    /// and side by side with what this one captures from here on, until it is [joined](Self::join).
    ///
    /// A fork that is dropped without having been joined leaves its work in the capture, which then can't end well if there
    /// was any.
    ///
    /// Calls `cuStreamCreateWithPriority`, `cuEventRecord`, `cuStreamWaitEvent`; for the first fork also `cuEventCreate`;
    /// where it is undone `cuStreamDestroy` and `cuEventDestroy`.
    ///
    /// # Errors
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work; the calls' failures, after
    /// which there is no fork.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::{CaptureMode, GraphBuilder, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let mut left = GraphBuilder::begin(&stream, CaptureMode::ThreadLocal)?;
    /// let mut right = left.fork()?;
    /// left.host(|| println!("one"))?;
    /// right.host(|| println!("beside it"))?;
    /// left.join([right])?;
    /// left.host(|| println!("behind both"))?;
    /// assert_eq!(left.end()?.len(), 3);
    /// # Ok::<(), cuhold_graph::handles::Error>(())
    /// ```
    pub fn fork(&mut self) -> Result<Self> {
        self.capture.lock().state.may_work(self.member)?;
        self.driver().check_callable()?;
        self.prepare_order()?;
        let stream = Stream::with_options(self.context(), StreamOptions::default())?;
        if let Err(error) = self.order(&self.stream, &stream) {
            return Err(match stream.close() {
                Ok(_) => error,
                Err(refused) => error.with_undo(&refused.error),
            });
        }
        let mut books = self.capture.lock();
        let member = books.state.forked();
        books.forks.insert(member, stream.clone());
        drop(books);
        Ok(Self::of(stream, member, Arc::clone(&self.capture)))
    }

    /// Puts this builder's next work behind all that the forks have captured, and ends them.
    ///
    /// Where a fork can't be joined, those behind it aren't either: they are dropped, which leaves the capture unjoined.
    ///
    /// Calls `cuEventRecord`, `cuStreamWaitEvent`, `cuStreamDestroy`, for each fork.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): a builder of another capture, or the one that began
    /// this one; [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the capture takes no more work; the calls'
    /// failures. The first counts, and the others are its notes; that a fork's stream couldn't be destroyed keeps no other
    /// fork from being joined.
    pub fn join(&mut self, forks: impl IntoIterator<Item = Self>) -> Result<()> {
        let (mut first, mut broken): (Option<Error>, bool) = (None, false);
        for fork in forks {
            if broken && !mutant::is_out("capture-join-stops") {
                continue;
            }
            let joined = self.join_order(&fork);
            broken = joined.is_err();
            let done = joined.and_then(|()| self.end_fork(fork));
            if let Err(error) = done {
                first = Some(match first {
                    Some(first) => first.with_second(&error),
                    None => error,
                });
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Puts this builder's next work behind all that another builder of the same capture has captured by now. Both go on.
    ///
    /// Calls `cuEventRecord`, `cuStreamWaitEvent`.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn follow(&mut self, other: &Self) -> Result<()> {
        self.check_same_capture(other)?;
        self.capture.lock().state.may_follow(self.member, other.member)?;
        self.driver().check_callable()?;
        self.order(&other.stream, &self.stream)
    }

    fn check_same_capture(&self, other: &Self) -> Result<()> {
        if Arc::ptr_eq(&self.capture, &other.capture) {
            return Ok(());
        }
        Err(Error::argument("forks: a builder of another capture, and captures don't merge"))
    }

    fn join_order(&self, fork: &Self) -> Result<()> {
        self.check_same_capture(fork)?;
        self.capture.lock().state.may_join(fork.member, self.member)?;
        self.driver().check_callable()?;
        self.order(&fork.stream, &self.stream)?;
        self.capture.lock().state.joined(fork.member);
        Ok(())
    }

    /// Ends a fork that was joined.
    fn end_fork(&self, fork: Self) -> Result<()> {
        let stream = self.capture.lock().forks.remove(&fork.member);
        drop(fork);
        let Some(stream) = stream else { return Ok(()) };
        stream.close().map(drop).map_err(|refused| refused.error)
    }

    /// Makes the event that orders the capture's streams, if there is none yet.
    fn prepare_order(&self) -> Result<()> {
        if self.capture.lock().event.is_some() {
            return Ok(());
        }
        let event = Event::with_options(self.context(), EventOptions::default())?;
        self.capture.lock().event = Some(event);
        Ok(())
    }

    /// Puts what one stream captures from here on behind what another one has captured by now.
    fn order(&self, earlier: &Stream, later: &Stream) -> Result<()> {
        let event = self.capture.lock().event.clone();
        let Some(event) = event else { return Err(Error::state("the capture has no event")) };
        if mutant::is_out("capture-order") {
            return Ok(());
        }
        let ordered = || -> Result<(), Failure> {
            let calls = self.driver().calls();
            // SAFETY: *handles*: the capture's event and a stream of it, both live.
            unsafe { calls.cuEventRecord(event.raw(), earlier.raw()) }?;
            // SAFETY: as above.
            unsafe { calls.cuStreamWaitEvent(later.raw(), event.raw(), 0) }
        };
        ordered().map_err(|failure| {
            let error = self.driver().error(failure);
            self.failed(&error);
            error
        })
    }
}
