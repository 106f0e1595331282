//! Who uses memory behind its owner's back: streams whose work the memory's end doesn't wait for.
//!
//! `cuMemFree`, `cuMemFreeHost` and `cuMemHostUnregister` wait for the context that owns the memory and for no other;
//! `cuMemUnmap` waits for nothing. A kernel that still uses the memory then faults, and with it everything in its
//! process (measured). So memory keeps the streams that its end wouldn't wait for:
//!
//! ```text
//!   used on a stream ──► kept ──drop──► an event recorded on each ──reclaimer──► waited for ──► freed
//!                                         refused: leaked, one warning   failed: leaked, one warning
//! ```
//!
//! A stream that can't be asked later, a thread's own default stream or one that somebody else may end, is marked by an
//! event at once instead.
//!
//! Where the streams aren't known it is all work of a context that is waited for: a small piece of page-locked memory is
//! made in it and freed, which waits for that work, that of streams that were destroyed included, and leaves captures
//! alone. What waits for a context by name ends the captures of its streams (both measured).

#![expect(unsafe_code, reason = "asks and waits through the driver")]

use crate::{
    context::Context,
    current::Current,
    driver::Driver,
    error::{Error, ErrorKind, Note, Result},
    mark::Mark,
    object::{Object, ObjectKind},
    report::{CudaWarning, Fate},
    scope::{self, Outcome},
    status::{AnyCall, Status},
    stream::{InsideStream, Stream, StreamRef},
};
use cuhold_driver_sys::{
    CUresult, Call, ContextUse, Failure,
    ffi::{CUstreamCaptureStatus, c_void},
    mutant,
};
use parking_lot::Mutex;
use std::{fmt, mem, ptr, sync::Arc, thread::ThreadId};

/// What is said of memory whose users aren't known to be done.
const IN_USE: &str = "work of another context may still use it";

const CAPTURED: &str = "a stream that uses the memory is being captured and can't be waited for";

/// Streams that use memory, beyond those that its end waits for anyway.
#[derive(Default)]
pub struct Users(Mutex<Vec<User>>);

struct User {
    key: Key,
    how: How,
}

/// One stream: its object's number, and the thread for a thread's own.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    id: u64,
    thread: Option<ThreadId>,
    /// A context, whose default stream has its number.
    whole: bool,
}

/// From this many streams on, those that nobody else has any more are looked for now and then.
const MANY: usize = 64;

/// How the stream's work is to be waited for.
enum How {
    /// An event is recorded when the memory ends.
    Kept(InsideStream),
    /// An event was recorded behind it.
    Marked(Mark<'static>),
    /// The same event, which others ask about, too.
    Shared(Arc<Mark<'static>>),
    /// All work of the context is waited for.
    Whole(Context),
    /// It couldn't be marked.
    Unknown,
}

/// Why memory can't be ended.
enum InUse {
    /// An error, of recording or of waiting.
    Failed(Error),
    /// The wait's outcome, and what was made for it and may be left: see [`wait_for_all`].
    Waited(Outcome, Option<Piece>),
    /// It was told before.
    Told,
}

impl Users {
    /// Remembers that work which was queued on this stream uses memory of `owner`, the context that its end waits for;
    /// `None` where it waits for none.
    ///
    /// Calls nothing for a stream that can be asked later; else `cuEventRecord`, and `cuEventCreate` where the context has
    /// no idle event.
    ///
    /// # Errors
    /// A stream of another driver; the calls' failures, after which the memory is leaked rather than freed.
    pub fn used_on(&self, stream: StreamRef<'_>, owner: Option<&Context>) -> Result<()> {
        if owner.is_some_and(|owner| owner.is_same(stream.context())) {
            return Ok(());
        }
        match stream.kept() {
            Some(stream) => {
                let _: bool = self.keep(stream);
                Ok(())
            }
            None => self.mark_now(stream),
        }
    }

    /// Remembers that any work of this context may use memory that its end doesn't wait for: all of it is waited for. The
    /// context is kept until then.
    ///
    /// Calls nothing.
    pub fn used_in(&self, context: &Context) {
        let key = Key { id: context.id(), thread: None, whole: true };
        let mut users = self.0.lock();
        if !users.iter().any(|user| user.key == key) {
            users.push(User { key, how: How::Whole(context.clone()) });
        }
    }

    /// Keeps a stream that can be asked later. `true`: there are many, and [`shed`](Self::shed) should be called.
    ///
    /// Calls nothing.
    #[doc(hidden)]
    #[must_use]
    pub fn keep_stream(&self, stream: &Stream) -> bool {
        stream.is_kept_alive() && self.keep(stream)
    }

    /// Lets go of streams that nobody else has and whose work is done: on a thread that may make calls.
    #[doc(hidden)]
    pub fn shed(&self) {
        let is_left = |user: &mut User| match &user.how {
            How::Kept(stream) => stream.is_ours_alone(),
            How::Marked(_) | How::Shared(_) | How::Whole(_) | How::Unknown => false,
        };
        let left: Vec<User> = self.0.lock().extract_if(.., is_left).collect();
        for user in left {
            let How::Kept(stream) = &user.how else { continue };
            let driver = stream.driver();
            match scope::neutral(driver, || stream.is_done(), |_, error| error) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => warn(driver, stream.object(), &error, Fate::Unknown),
            }
            self.0.lock().push(user);
        }
    }

    /// `true`: it is one of many, at a count that comes seldom.
    fn keep(&self, stream: &Stream) -> bool {
        let key = Key { id: stream.id(), thread: None, whole: false };
        let mut users = self.0.lock();
        let (mut former, mut is_many) = (None, false);
        match users.iter_mut().find(|user| user.key == key) {
            // What was marked before comes before what is queued by now.
            Some(User { how: how @ (How::Marked(_) | How::Shared(_)), .. }) => {
                former = Some(mem::replace(how, How::Kept(InsideStream::new(stream))));
            }
            Some(_) => {}
            None => {
                users.push(User { key, how: How::Kept(InsideStream::new(stream)) });
                is_many = users.len() >= MANY && users.len().is_power_of_two();
            }
        }
        drop(users);
        // An event that goes does so with nothing locked.
        drop(former);
        is_many
    }

    /// Marks what is queued on the stream by now, for [`used_until`](Self::used_until), on a thread that must not wait. `None`:
    /// it couldn't be marked, which was told where a call failed; the stream itself may still be kept.
    #[doc(hidden)]
    #[must_use]
    pub fn mark_of(stream: &Stream, object: Object) -> Option<Arc<Mark<'static>>> {
        match mark(stream) {
            Ok(mark) => Some(Arc::new(mark.keep())),
            Err(error) => {
                // Inside a callback, or captured: no call was made, or none failed.
                if error.failure().is_some() && error.kind() != ErrorKind::NotPermitted {
                    warn(stream.driver(), object, &error, Fate::Unknown);
                }
                None
            }
        }
    }

    /// Remembers that work of this stream up to this mark uses memory whose end waits for none. Of the same stream a later
    /// mark takes the place of an earlier one, and a stream that is kept stays so.
    pub(crate) fn used_until(&self, stream: &Stream, mark: &Arc<Mark<'static>>) {
        let key = Key { id: stream.id(), thread: None, whole: false };
        let mut users = self.0.lock();
        let former = match users.iter_mut().find(|user| user.key == key) {
            Some(User { how: how @ (How::Marked(_) | How::Shared(_)), .. }) => {
                Some(mem::replace(how, How::Shared(Arc::clone(mark))))
            }
            Some(_) => None,
            None => {
                users.push(User { key, how: How::Shared(Arc::clone(mark)) });
                None
            }
        };
        drop(users);
        drop(former);
    }

    #[cold]
    fn mark_now(&self, stream: StreamRef<'_>) -> Result<()> {
        let key = stream.user_key();
        let key = Key { id: key.0, thread: key.1, whole: false };
        let known = {
            let mut users = self.0.lock();
            users.iter_mut().find(|user| user.key == key).and_then(|user| user.how.share())
        };
        let marked = match known {
            Some(mark) => mark.record_here(stream, true).map(|()| How::Shared(mark)),
            None => mark_unasked(stream).map(How::Marked),
        };
        let (how, result) = match marked {
            Ok(how) => (how, Ok(())),
            Err(error) => (How::Unknown, Err(error)),
        };
        let mut users = self.0.lock();
        let former = match users.iter_mut().find(|user| user.key == key) {
            Some(user) => Some(mem::replace(&mut user.how, how)),
            None => {
                users.push(User { key, how });
                None
            }
        };
        drop(users);
        // An event that goes does so with nothing locked.
        drop(former);
        result
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty() || mutant::is_out("foreign-users")
    }

    /// Records an event behind what each of the streams has queued, where the memory is dropped. What fails is told.
    pub(crate) fn mark(&self, object: Object, driver: &Driver) {
        let mut users = mem::take(&mut *self.0.lock());
        for user in &mut users {
            if let Err(error) = user.mark() {
                if error.kind() == ErrorKind::NotPermitted {
                    // Inside somebody else's callback: the reclaimer marks it.
                    break;
                }
                user.how = How::Unknown;
                warn(driver, object, &error, Fate::Leaked);
                // One that isn't known is enough to leak the memory, and to say so once.
                break;
            }
        }
        *self.0.lock() = users;
    }

    /// Waits for all of them, on a thread that may wait. `false`: the memory must be leaked, which was told.
    pub(crate) fn wait(&self, object: Object, driver: &Driver) -> bool {
        let (untidy, cause) = self.settle(driver);
        for error in &untidy {
            warn(driver, object, error, Fate::Released);
        }
        match cause {
            None => return true,
            Some(InUse::Told) => {}
            Some(InUse::Failed(error)) => warn(driver, object, &error, Fate::Leaked),
            Some(InUse::Waited(outcome, piece)) => {
                outcome.warn_to(object, Call::cuEventSynchronize, Fate::Leaked, &mut |warning| {
                    driver.warn(if warning.skipped_call().is_none() {
                        warning.with_text(IN_USE)
                    } else {
                        warning
                    });
                });
                if let Some(piece) = piece {
                    let lost = CudaWarning::note(piece.object(), "it may be left of the wait");
                    driver.warn(lost.with_fate(Fate::Unknown));
                }
            }
        }
        false
    }

    /// Waits for all of them here, where an error can be returned.
    ///
    /// # Errors
    /// What kept the driver from saying that they are done; the memory is as it was.
    #[doc(hidden)]
    pub fn wait_here(&self, driver: &Driver) -> Result<()> {
        let (untidy, cause) = self.settle(driver);
        let cause = cause.map(|cause| match cause {
            InUse::Told => Error::state(IN_USE),
            InUse::Failed(error) => error,
            InUse::Waited(outcome, piece) => {
                let error = outcome.into_error(driver).unwrap_or_else(|| Error::state(IN_USE));
                match piece {
                    Some(piece) => error.with_note(Note::Leaked { raw: piece.object().raw }),
                    None => error,
                }
            }
        });
        // The cause came last.
        let latest = cause.iter().chain(untidy.iter().rev()).map(Error::now_current);
        let now = latest.into_iter().find(|now| *now != Current::NotAsked);
        let all = cause.into_iter().chain(untidy);
        all.reduce(|first, next| attached(first, &next))
            .map_or(Ok(()), |error| Err(error.with_current(now.unwrap_or(Current::NotAsked))))
    }

    /// Waits for what all of them have queued by now, here, where an error can be returned; they stay.
    ///
    /// # Errors
    /// As [`wait_here`](Self::wait_here).
    pub(crate) fn wait_for_now(&self, driver: &Driver) -> Result<()> {
        let now = Self(Mutex::new(self.0.lock().iter_mut().map(User::again).collect()));
        now.wait_here(driver)
    }

    /// Marks those that aren't marked yet and waits for each. Gives what couldn't be put back after waits that were over,
    /// and what kept the driver from saying that all are done.
    fn settle(&self, driver: &Driver) -> (Vec<Error>, Option<InUse>) {
        let (mut users, mut untidy) = (mem::take(&mut *self.0.lock()), Vec::new());
        let cause = settle_all(&mut users, driver, &mut untidy).err();
        if cause.is_some() {
            // Still in use, for whoever asks again.
            self.0.lock().append(&mut users);
        }
        (untidy, cause)
    }
}

/// A second error, as notes on the first.
fn attached(first: Error, next: &Error) -> Error {
    let mut error = first;
    if let Some(failure) = next.failure()
        && !next.notes().contains(&Note::ModeNotRestored(failure))
    {
        error = error.with_note(Note::Failed(failure));
    }
    next.notes().iter().fold(error, |error, note| error.with_note(note.clone()))
}

fn settle_all(users: &mut [User], driver: &Driver, untidy: &mut Vec<Error>) -> Result<(), InUse> {
    for user in users {
        user.mark().map_err(InUse::Failed)?;
        let (outcome, piece) = match &user.how {
            How::Marked(mark) => (wait_for(mark, driver), None),
            How::Shared(mark) => (wait_for(mark, driver), None),
            How::Whole(context) => wait_for_all(context),
            // Its context ended, and all its work with it.
            How::Kept(_) => continue,
            How::Unknown => return Err(InUse::Told),
        };
        let failure = outcome.operation.or(outcome.activate);
        let is_gone =
            failure.is_some_and(|failure| failure.status == CUresult::CONTEXT_IS_DESTROYED);
        if !is_gone && (outcome.operation.is_some() || !outcome.is_asked()) {
            return Err(InUse::Waited(outcome, piece));
        }
        if !is_gone {
            untidy.extend(outcome.into_error(driver));
        }
    }
    Ok(())
}

/// Waits for what an event marks.
fn wait_for(mark: &Mark<'_>, driver: &Driver) -> Outcome {
    let columns = Call::cuEventSynchronize.columns();
    let outcome = scope::cleanup(driver, None, columns, |calls| {
        // SAFETY: *handles*: this mark's event.
        unsafe { calls.cuEventSynchronize(mark.raw()) }
    });
    match outcome.operation {
        Some(_) => mark.spoil(),
        None if outcome.is_asked() => mark.answered(),
        None => {}
    }
    outcome
}

/// A piece of page-locked memory.
#[derive(Clone, Copy)]
struct Piece(*mut c_void);

impl Piece {
    fn object(self) -> Object {
        Object { kind: ObjectKind::HostMemory, raw: self.0.addr() as u64, id: 0 }
    }
}

/// Waits for all work of a context. The piece is given where it isn't known to be freed.
fn wait_for_all(context: &Context) -> (Outcome, Option<Piece>) {
    let mut columns = Call::cuMemFreeHost.columns();
    columns.context = ContextUse::Owner;
    let mut piece = None;
    if mutant::is_out("whole-wait") {
        return (Outcome::default(), None);
    }
    let outcome = scope::cleanup(context.driver(), Some(context.as_raw()), columns, |calls| {
        let mut made = ptr::null_mut();
        // SAFETY: *pointers*: a live local.
        let allocated = unsafe { calls.cuMemHostAlloc(&raw mut made, 1, 0) };
        piece = (!made.is_null()).then_some(Piece(made));
        allocated?;
        // SAFETY: *pointers*: allocated a moment ago, and nobody's.
        unsafe { calls.cuMemFreeHost(made) }?;
        piece = None;
        Ok(())
    });
    (outcome, piece)
}

impl How {
    /// The mark, from now on shared, if it is one.
    fn share(&mut self) -> Option<Arc<Mark<'static>>> {
        let mark = match mem::replace(self, Self::Unknown) {
            Self::Marked(mark) => Arc::new(mark),
            Self::Shared(mark) => mark,
            other @ (Self::Kept(_) | Self::Whole(_) | Self::Unknown) => {
                *self = other;
                return None;
            }
        };
        *self = Self::Shared(Arc::clone(&mark));
        Some(mark)
    }
}

impl User {
    /// The same user, to be waited for by itself.
    fn again(&mut self) -> Self {
        let shared = self.how.share();
        let how = match &self.how {
            How::Kept(stream) => How::Kept(InsideStream::new(stream)),
            How::Whole(context) => How::Whole(context.clone()),
            How::Marked(_) | How::Shared(_) | How::Unknown => {
                shared.map_or(How::Unknown, How::Shared)
            }
        };
        Self { key: self.key, how }
    }

    /// Records an event behind what the stream has queued, unless it was done, or its context ended.
    fn mark(&mut self) -> Result<()> {
        let How::Kept(stream) = &self.how else { return Ok(()) };
        match mark(stream).map(Mark::keep) {
            Ok(mark) => {
                self.how = How::Marked(mark);
                Ok(())
            }
            Err(error) if error.is(CUresult::CONTEXT_IS_DESTROYED) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Records an event on a stream that nobody captures: there it would be the capture's.
fn mark(stream: &Stream) -> Result<Mark<'_>> {
    if stream.is_exposed() {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        stream.run(|calls| {
            // SAFETY: *pointers*: a live local; *handles*: the stream is kept.
            unsafe { calls.cuStreamIsCapturing(stream.raw(), &raw mut status) }
        })?;
        if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            return Err(Error::state(CAPTURED));
        }
    }
    let mark = Mark::take(stream.context())?;
    match mark.record_here(stream.into(), false) {
        Ok(()) => Ok(mark),
        Err(error) => Err(mark.unneeded(error)),
    }
}

/// Records an event on a stream of which it isn't known whether somebody captures it.
#[cold]
fn mark_unasked(stream: StreamRef<'_>) -> Result<Mark<'static>> {
    let mark = Mark::take(stream.context())?;
    match mark.record_here(stream, true) {
        Ok(()) => Ok(mark.keep()),
        Err(error) => Err(mark.unneeded(error)),
    }
}

fn is_first(error: &Error, failure: Failure) -> bool {
    error.call() == Some(AnyCall::Driver(failure.call))
        && error.status() == Some(Status::Driver(failure.status))
}

/// Tells what went wrong, and what became of the memory: one warning for each failed driver call.
#[cold]
fn warn(driver: &Driver, object: Object, error: &Error, fate: Fate) {
    let first = match (error.call(), error.status()) {
        (Some(AnyCall::Driver(call)), Some(Status::Driver(status))) => {
            let failure = Failure { call, status };
            if error.notes().contains(&Note::ModeNotRestored(failure)) {
                CudaWarning::mode_not_restored(failure, object, "relaxed")
            } else if fate == Fate::Leaked {
                CudaWarning::failed(failure, object, fate).with_text(IN_USE)
            } else {
                CudaWarning::failed(failure, object, fate)
            }
        }
        _ => CudaWarning::note(object, CAPTURED).with_fate(fate),
    };
    let is_noted = error.notes().iter().any(|note| matches!(note, Note::NotRestored { .. }));
    driver.warn(if is_noted { first } else { first.with_current(error.now_current()) });
    for note in error.notes() {
        match note {
            Note::NotRestored { failure: Some(failure), now } => {
                driver.warn(CudaWarning::restore_refused(*failure, object, *now));
            }
            Note::NotRestored { failure: None, now: now @ Current::Unknown(failure) } => {
                let asked = CudaWarning::failed(*failure, object, Fate::Unknown);
                driver.warn(asked.with_current(*now));
            }
            Note::Failed(failure) => {
                driver.warn(CudaWarning::failed(*failure, object, Fate::Unknown));
            }
            Note::ModeNotRestored(failure) if !is_first(error, *failure) => {
                driver.warn(CudaWarning::mode_not_restored(*failure, object, "relaxed"));
            }
            // The event that was to mark the work: what is known of it is that it isn't gone.
            Note::UndoFailed(failure) => {
                let event = Object::nameless(ObjectKind::Event);
                driver.warn(CudaWarning::failed(*failure, event, Fate::Unknown));
            }
            Note::Leaked { raw } => {
                let event = Object { kind: ObjectKind::Event, raw: *raw, id: 0 };
                driver.warn(
                    CudaWarning::note(event, "it is lost, its context could not be made sure of")
                        .with_fate(Fate::Leaked),
                );
            }
            _ => {}
        }
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").field("streams", &self.0.lock().len()).finish()
    }
}
