//! A buffer's home stream: changed, and ordered behind the work of other streams.

use super::{Buffer, Shareable};
use crate::{
    allocation::Facts,
    order::{self, Wait, check_home, order_after, refuse_captured, same_stream},
    resource::Residence,
};
use bytemuck::Pod;
use cuhold_handles::{
    Closed, Error, Event, Mark, Note, Refused, Result, Stream, driver_sys::mutant,
};
use std::mem::{self, ManuallyDrop};

/// The last work that uses a buffer: what an event marks, or all that is queued on a stream by now.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum After<'a> {
    /// What the event marks.
    Event(&'a Event),
    /// What is queued on the stream by now.
    Stream(&'a Stream),
}

impl<'a> From<&'a Event> for After<'a> {
    fn from(event: &'a Event) -> Self {
        Self::Event(event)
    }
}

impl<'a> From<&'a Stream> for After<'a> {
    fn from(stream: &'a Stream) -> Self {
        Self::Stream(stream)
    }
}

impl<T: Pod> Buffer<T> {
    /// Makes another stream the home: what is queued on it from now on waits for what is queued on the former home by
    /// now.
    ///
    /// The stream may be one of another context, or of another device that reaches the memory, which the driver is asked:
    /// memory of a pool that the device was given access to, page-locked memory of the host; managed memory always. Access that is taken away later is the caller's to
    /// order.
    ///
    /// Calls `cuEventRecord`, `cuStreamWaitEvent`; `cuEventCreate` where the context has no idle event; for exposed streams
    /// `cuStreamIsCapturing`; for a stream of another device `cuPointerGetAttribute` and `cuMemPoolGetAccess`; after a failure `cuEventDestroy`;
    /// nothing for the stream that is the home already.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): a stream of another driver, of a device that doesn't
    ///   reach the memory, or borrowed without an owner;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures one of the two streams;
    /// - the calls' failures.
    ///
    /// After an error the home is what it was.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_handles::{Device, Driver};
    /// # use cuhold_memory::Buffer;
    /// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
    /// let device = Device::with_driver(&driver, 0)?;
    /// let (copies, work) = (device.new_stream()?, device.new_stream()?);
    /// let mut x = Buffer::from_slice(&copies, &[1, 2, 3])?;
    /// let mut y = Buffer::<i32>::uninit(&work, 3)?;
    /// assert!(y.copy_from(&x).is_err());
    /// x.move_to(&work)?;
    /// y.copy_from(&x)?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    pub fn move_to(&mut self, stream: &Stream) -> Result<()> {
        self.driver().check_same(stream.driver(), "stream")?;
        if same_stream(&self.home, stream) {
            return Ok(());
        }
        check_home(stream)?;
        self.driver().check_callable()?;
        if self.size_bytes() > 0 {
            check_reached(self.memory.facts(), self.device_ptr(), stream)?;
            refuse_captured(&self.home)?;
            refuse_captured(stream)?;
            order_after(&self.home, stream)?;
        }
        self.hold();
        self.memory.keep_home(stream);
        let former = mem::replace(&mut self.home, ManuallyDrop::new(stream.clone()));
        drop(ManuallyDrop::into_inner(former));
        Ok(())
    }

    /// Frees the memory here and now, behind work of another stream: what an event marks, or what is queued on the stream
    /// by now. The home stream waits for that first.
    ///
    /// Calls `cuStreamWaitEvent`, then as [`close`](Self::close); for a stream before that `cuEventRecord`, and
    /// `cuEventCreate` where its context has no idle event, `cuEventDestroy` after a failure; for exposed streams
    /// `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// [`Refused`], with the buffer where the memory wasn't touched:
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): an event or a stream of another driver;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures one of the streams;
    /// - the calls' failures, as [`close`](Self::close).
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let (home, other) = (device.new_stream()?, device.new_stream()?);
    /// let buffer = Buffer::<u32>::zeroed(&home, 3)?;
    /// // A kernel on `other`, which waits for `home`, is given the buffer's address here.
    /// buffer.close_after(&other)?;
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[expect(single_use_lifetimes, reason = "an elided one isn't possible here")]
    pub fn close_after<'w>(
        self,
        last: impl Into<After<'w>>,
    ) -> Result<Closed, Refused<Option<Self>>> {
        match self.hold_up_home(last.into()) {
            Ok(()) => self.close(),
            Err(error) => Err(Refused::new(error, Some(self))),
        }
    }

    /// Lets the home stream wait.
    fn hold_up_home(&self, last: After<'_>) -> Result<()> {
        let driver = match last {
            After::Event(event) => event.driver(),
            After::Stream(stream) => stream.driver(),
        };
        self.driver().check_same(driver, "last")?;
        self.driver().check_callable()?;
        if self.size_bytes() == 0 {
            return Ok(());
        }
        refuse_captured(&self.home)?;
        match last {
            After::Event(event) => self.home.wait_event(event),
            After::Stream(stream) if same_stream(stream, &self.home) => Ok(()),
            After::Stream(stream) => {
                refuse_captured(stream)?;
                order_after(stream, &self.home)
            }
        }
    }
}

/// Refuses a stream of a device that doesn't reach the memory: work there would fault.
pub(super) fn check_reached(facts: Facts, ptr: u64, stream: &Stream) -> Result<()> {
    let there = stream.context().device();
    if facts.device == there
        || mutant::is_out("home-reach")
        || facts.residence == Residence::Managed
        || order::is_reached(ptr, stream)?
    {
        return Ok(());
    }
    Err(Error::argument(format!(
        "stream: it is of device {there}, which has no access to this memory of device {}",
        facts.device
    )))
}

/// Makes a copy between memory of two different homes, on the one that it is given, in order with both: on that of the
/// destination, or on that of the source if the former is a default stream, which isn't let at memory of which it isn't
/// known that its pool is kept.
pub(super) fn across(
    (dst, to): (&Stream, Option<Shareable<'_>>),
    (src, from): (&Stream, Option<Shareable<'_>>),
    copy: impl FnOnce(&Stream) -> Result<()>,
) -> Result<()> {
    dst.driver().check_callable()?;
    let on_source = dst.is_token() && !src.is_token();
    let (runs, other) = if on_source { (src, dst) } else { (dst, src) };
    let across = Across::begin(runs, other, [to, from])?;
    across.end(copy(runs))
}

/// A copy that the other stream couldn't be told to wait for, and that couldn't be waited for either: tries once more, with an
/// event of its own. Where that fails as well, the memory of both ends is never freed.
#[cold]
fn order_or_leak(
    runs: &Stream,
    other: &Stream,
    ends: [Option<Shareable<'_>>; 2],
    error: Error,
) -> Error {
    let Err(second) = order_after(runs, other) else { return error };
    for end in ends.into_iter().flatten() {
        let _leaked = ManuallyDrop::new(end.keep());
    }
    error.with_second(&second).with_note(Note::Text(UNORDERED.into()))
}

/// A copy on one stream that uses what is another one's: that waits for it, whatever becomes of the copy's own errors.
struct Across<'a> {
    runs: &'a Stream,
    other: &'a Stream,
    mark: Mark<'a>,
    /// Where the memory of both ends can be kept from.
    ends: [Option<Shareable<'a>>; 2],
}

/// What is said of memory that a copy may use for good.
const UNORDERED: &str = "the copy could neither be waited for nor put before later work of the other home stream: the \
                         memory of both ends is leaked, and what is done with it may meet the copy";

impl<'a> Across<'a> {
    /// Lets the stream that runs the copy wait for what is queued on the other one.
    ///
    /// The mark of the way back is taken first: nothing that can fail stands between the copy and its mark but the mark.
    fn begin(
        runs: &'a Stream,
        other: &'a Stream,
        ends: [Option<Shareable<'a>>; 2],
    ) -> Result<Self> {
        refuse_captured(runs)?;
        refuse_captured(other)?;
        let mark = Mark::take(runs.context())?;
        order_after(other, runs)?;
        Ok(Self { runs, other, mark, ends })
    }

    /// Lets the other stream wait for what is queued on the one by now. Where that can't be had the one is waited for here:
    /// the memory may be freed or written right afterwards.
    ///
    /// # Errors
    /// `copied`, or else what failed here, [completed](Error::completed).
    fn end(mut self, copied: Result<()>) -> Result<()> {
        let queued = copied.as_ref().map_or_else(order::may_be_queued, |()| true);
        if !queued || mutant::is_out("across-back") {
            return copied;
        }
        let back =
            self.mark.record_uncaptured(self.runs).and_then(|()| self.mark.hold_up(self.other));
        let Err(second) = back else { return copied };
        let first = match copied {
            Ok(()) => second.with_completed(1),
            Err(first) => first.with_second(&second),
        };
        let (wait, outcome) = order::settle(self.runs);
        let error = match outcome.into_error(self.runs.driver()) {
            Some(third) => first.with_second(&third),
            None => first,
        };
        let error = self.mark.unneeded(order::note_wait(error, wait));
        // A driver that is lost does nothing more to any memory.
        if wait == Wait::Done || self.runs.driver().is_lost() {
            return Err(error);
        }
        Err(order_or_leak(self.runs, self.other, self.ends, error))
    }
}
