//! Marks: events without timing that come from a cache of their context and go back to it.
//!
//! ```text
//!   context ─ idle events ── take ──► Mark ── record, wait ──► dropped: idle again
//!                 └─ none there: one is made     └─ after a failure, or maybe captured: destroyed
//! ```
//!
//! A record replaces what an event marked before, and a wait that is queued means what it marked at that moment, so an
//! event can be used again as soon as nobody wants to ask it any more.
//!
//! An idle event holds nothing: it is a raw value that the context keeps (`cache.rs`), and that ends before the context
//! does. A context of somebody else's keeps none, since its end isn't known.

#![expect(unsafe_code, reason = "calls the driver's event functions on raw events")]

mod cache;
mod seat;
mod shelf;
mod sync;

pub(crate) use cache::MarkCache;

use crate::{
    callback,
    context::Context,
    driver::Driver,
    error::{Error, Result},
    event::{Event, EventOptions},
    object::{Object, ObjectKind},
    reclaim, scope,
    stream::{AsStream, Stream, StreamRef},
};
use cuhold_driver_sys::{CUresult, Call, Calls, Failure, Life, ffi::CUevent, mutant};
use shelf::Idle;
use std::{
    fmt,
    mem::ManuallyDrop,
    ptr,
    sync::atomic::{AtomicU8, Ordering},
};

/// Bit of the state: the event was recorded.
const RECORDED: u8 = 1;
/// Bit of the state: it was recorded on a stream that others may capture, so that who waits for it may be captured then.
const EXPOSED: u8 = 2;
/// Bit of the state: it may mark work of a capture, and isn't used again unless the driver answers about it.
const UNSURE: u8 = 4;
/// Bit of the state: something failed with it, so that it isn't used again.
const SPOILT: u8 = 8;

/// An event that marks what is queued on a stream of its context, from the context's cache.
///
/// Taking one and dropping it makes no driver call, takes no lock and allocates nothing where the context has an idle
/// event: at most 64 are kept for all its threads, and seven for each of them. A thread that has dropped some finds them
/// first.
///
/// Dropped, the event is idle again, also while a wait for it is queued on a stream. Its drop calls `cuEventDestroy` where
/// it isn't used again: where there is no room for it, after a call of it has failed, in a context of somebody else's, and
/// where it may mark work of a capture. That is, it was last recorded on a stream that others may use, and the driver
/// hasn't answered about it since.
///
/// [`stream.mark()`](Stream::mark) makes one of what is queued by now. It borrows its context; [`keep`](Self::keep) makes
/// one that can go anywhere.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let (copies, work) = (device.new_stream()?, device.new_stream()?);
/// // What is queued on `work` from here on comes after what is queued on `copies` by now.
/// copies.mark()?.hold_up(&work)?;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct Mark<'a> {
    /// Invariant: live, and nobody else's.
    event: CUevent,
    id: u64,
    context: Whose<'a>,
    state: AtomicU8,
}

/// The context of a mark.
enum Whose<'a> {
    Lent(&'a Context),
    Own(Context),
}

impl Whose<'_> {
    #[inline]
    fn get(&self) -> &Context {
        match self {
            Whose::Lent(context) => context,
            Whose::Own(context) => context,
        }
    }
}

impl<'a> Mark<'a> {
    /// Takes an event of the context, which marks nothing yet.
    ///
    /// Calls `cuEventCreate` where none is idle; `cuEventDestroy` where that is undone.
    ///
    /// # Errors
    /// As [`Event::with_options`], where one must be made; inside a callback and in a forked child.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_handles::{Device, Driver, Mark};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let mut mark = Mark::take(device.context())?;
    /// // From here on nothing but the record itself can fail.
    /// mark.record(&stream)?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[inline]
    pub fn take(context: &'a Context) -> Result<Self> {
        context.driver().check_callable()?;
        let idle = match context.marks().and_then(MarkCache::take) {
            Some(idle) => idle,
            None => make(context)?,
        };
        let Idle { event, id } = idle;
        Ok(Self { event, id, context: Whose::Lent(context), state: AtomicU8::new(0) })
    }

    /// The same mark, which keeps its context alive.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn keep(self) -> Mark<'static> {
        let this = ManuallyDrop::new(self);
        // SAFETY: taken once: `this` is neither used afterwards nor dropped.
        let context = match unsafe { ptr::read(&raw const this.context) } {
            Whose::Lent(context) => context.clone(),
            Whose::Own(context) => context,
        };
        let state = AtomicU8::new(this.state());
        Mark { event: this.event, id: this.id, context: Whose::Own(context), state }
    }

    /// The context.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn context(&self) -> &Context {
        self.context.get()
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn driver(&self) -> &Driver {
        self.context().driver()
    }

    /// The event, for a call of ours.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn raw(&self) -> CUevent {
        self.event
    }

    #[inline]
    fn state(&self) -> u8 {
        self.state.load(Ordering::Relaxed)
    }

    /// Marks what is queued on the stream by now, in place of what it marked before.
    ///
    /// Calls `cuEventRecord`.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](crate::ErrorKind::Argument) for a stream of another driver or context; the call's failure,
    /// after which the event isn't used for another mark.
    #[doc(alias = "cuEventRecord")]
    #[inline]
    pub fn record(&mut self, stream: &(impl AsStream + ?Sized)) -> Result<()> {
        self.record_here(stream.as_stream(), true)
    }

    /// As [`record`](Self::record), for a caller who has asked whether somebody captures the stream: nobody does.
    #[doc(hidden)]
    #[inline]
    pub fn record_uncaptured(&mut self, stream: &Stream) -> Result<()> {
        self.record_here(stream.into(), false)
    }

    /// `unsure`: nobody has asked whether somebody captures the stream.
    #[inline]
    pub(crate) fn record_here(&self, stream: StreamRef<'_>, unsure: bool) -> Result<()> {
        self.driver().check_same(stream.driver(), "stream")?;
        if !self.context().is_same(stream.context()) && !mutant::is_out("mark-context") {
            return Err(Error::argument("stream: it is of another context than the mark"));
        }
        let exposed = match (stream.is_exposed(), unsure) {
            (true, true) => EXPOSED | UNSURE,
            (true, false) => EXPOSED,
            (false, _) => 0,
        };
        self.state.store(RECORDED | exposed | (self.state() & SPOILT), Ordering::Relaxed);
        // SAFETY: *handles*: this value's event; the stream is live, its handle is borrowed.
        let recorded = stream.run(|calls| unsafe { calls.cuEventRecord(self.event, stream.raw()) });
        if recorded.is_err() {
            self.spoil();
        }
        recorded
    }

    /// Lets what is queued on the stream from now on wait for what is marked: for nothing, if that is nothing. Returns at
    /// once.
    ///
    /// Calls `cuStreamWaitEvent`; for a mark of a stream that others may use also `cuStreamIsCapturing`, since this stream
    /// may then be part of their capture.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](crate::ErrorKind::Argument) for a stream of another driver; the calls' failures,
    /// [completed](Error::completed) where only the question failed.
    #[doc(alias = "cuStreamWaitEvent")]
    #[inline]
    pub fn hold_up(&self, stream: &(impl AsStream + ?Sized)) -> Result<()> {
        let stream = stream.as_stream();
        self.driver().check_same(stream.driver(), "stream")?;
        let state = self.state();
        if state & RECORDED == 0 {
            return Ok(());
        }
        // SAFETY: *handles*: this value's event; the stream is live, its handle is borrowed.
        let wait =
            |calls: Calls<'_>| unsafe { calls.cuStreamWaitEvent(stream.raw(), self.event, 0) };
        stream.run(wait).inspect_err(|_| self.spoil())?;
        if state & EXPOSED == 0 { Ok(()) } else { self.may_have_joined(stream) }
    }

    /// A stream waits for what may be work of a capture, and is part of it then.
    #[cold]
    fn may_have_joined(&self, stream: StreamRef<'_>) -> Result<()> {
        if stream.joined()? == Some(false) {
            self.answered();
        }
        Ok(())
    }

    /// Whether what is marked is done; also true where nothing is marked.
    ///
    /// Calls `cuEventQuery`. It invalidates captures in global mode on any thread, as the driver's call does.
    ///
    /// # Errors
    /// The call's failure, which may be that of earlier work. "Not ready" is `Ok(false)`.
    #[doc(alias = "cuEventQuery")]
    pub fn is_done(&self) -> Result<bool> {
        let calls = self.driver().callable()?;
        if self.state() & RECORDED == 0 {
            return Ok(true);
        }
        // SAFETY: *handles*: this value's event.
        let done = match unsafe { calls.cuEventQuery(self.event) } {
            Ok(()) => true,
            Err(Failure { status: CUresult::NOT_READY, .. }) => false,
            Err(failure) => return Err(self.failed(failure)),
        };
        self.answered();
        Ok(done)
    }

    /// Waits until what is marked is done.
    ///
    /// Calls `cuEventSynchronize`. Blocks the thread; holds no lock. It invalidates captures in global mode on any thread,
    /// as the driver's call does.
    ///
    /// # Errors
    /// The call's failure, which may be that of earlier work.
    #[doc(alias = "cuEventSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        let calls = self.driver().callable()?;
        if self.state() & RECORDED == 0 {
            return Ok(());
        }
        // SAFETY: *handles*: this value's event.
        unsafe { calls.cuEventSynchronize(self.event) }.map_err(|failure| self.failed(failure))?;
        self.answered();
        Ok(())
    }

    /// The driver answered about the event, as it doesn't for one that marks work of a capture.
    #[doc(hidden)]
    pub fn answered(&self) {
        self.state.fetch_and(!UNSURE, Ordering::Relaxed);
    }

    #[cold]
    fn failed(&self, failure: Failure) -> Error {
        self.spoil();
        self.driver().error(failure)
    }

    /// From here on the event isn't used again: something failed with it.
    #[doc(hidden)]
    #[cold]
    pub fn spoil(&self) {
        self.state.fetch_or(SPOILT, Ordering::Relaxed);
    }

    /// Destroys the event of something that failed, with whose error a second failure is told.
    ///
    /// Calls `cuEventDestroy`.
    #[doc(hidden)]
    #[cold]
    #[must_use]
    pub fn unneeded(self, error: Error) -> Error {
        let this = ManuallyDrop::new(self);
        // SAFETY: taken once: `this` is neither used afterwards nor dropped.
        let context = unsafe { ptr::read(&raw const this.context) };
        // SAFETY: *handles*: this value's, which isn't dropped.
        let event = unsafe { Event::from_raw(context.get(), this.event) };
        match event.map(Event::close) {
            Ok(Ok(_)) => error,
            Ok(Err(refused)) => error.with_undo(&refused.error),
            Err(second) => error.with_second(&second),
        }
    }

    fn is_usable_again(&self) -> bool {
        let state = self.state();
        let captured = state & UNSURE != 0 && !mutant::is_out("mark-captured");
        let failed = state & SPOILT != 0 && !mutant::is_out("mark-failed");
        !captured && !failed
    }

    /// Destroys the event, where nothing can be returned.
    #[cold]
    fn end(&self) {
        let (context, driver) = (self.context(), self.driver());
        if driver.api().life() == Life::Forked {
            return;
        }
        if !callback::inside() {
            let (call, target) = (Call::cuEventDestroy_v2, Some(context.as_raw()));
            let outcome = scope::cleanup(driver, target, call.columns(), |calls| {
                // SAFETY: *handles*: this value's, which is being dropped.
                unsafe { calls.cuEventDestroy_v2(self.event) }
            });
            let in_callback = outcome.is_not_permitted()
                && !reclaim::on_thread()
                && scope::is_in_callback(driver.calls());
            if !in_callback {
                return outcome.warn(driver, self.object(), call);
            }
        }
        // Inside a callback its end is the reclaimer's.
        // SAFETY: *handles*: this value's, which is being dropped.
        drop(unsafe { Event::from_raw(context, self.event) });
    }

    fn object(&self) -> Object {
        Object { kind: ObjectKind::Event, raw: self.event.addr() as u64, id: self.id }
    }
}

/// Makes an event where none is idle.
#[cold]
fn make(context: &Context) -> Result<Idle> {
    let event = Event::make(context, EventOptions::default())?;
    Ok(Idle { event, id: context.driver().next_id() })
}

impl Drop for Mark<'_> {
    #[inline]
    fn drop(&mut self) {
        let idle = Idle { event: self.event, id: self.id };
        let kept = self.is_usable_again()
            && self.context().marks().is_some_and(|marks| marks.give_back(idle));
        if !kept {
            self.end();
        }
    }
}

impl Stream {
    /// Marks what is queued by now with an event of the context's cache.
    ///
    /// Calls `cuEventRecord`; `cuEventCreate` where none is idle; `cuEventDestroy` where something fails.
    ///
    /// # Errors
    /// As [`Mark::take`] and [`Mark::record`].
    ///
    /// # Examples
    /// ```
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let stream = device.new_stream()?;
    /// let mark = stream.mark()?;
    /// mark.synchronize()?;
    /// assert!(mark.is_done()?);
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[inline]
    pub fn mark(&self) -> Result<Mark<'_>> {
        let mut mark = Mark::take(self.context())?;
        match mark.record(self) {
            Ok(()) => Ok(mark),
            Err(error) => Err(mark.unneeded(error)),
        }
    }
}

impl fmt::Debug for Mark<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.object(), f)
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Mark<'_>>();
};
