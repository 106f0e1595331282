//! One piece of staging memory: page-locked, with an event that marks its last copy.
//!
//! It holds raw values, not handles, which would keep alive the context that keeps it. It doesn't end by itself: whoever
//! holds it gives it back, or ends it, or leaks it.

#![expect(unsafe_code, reason = "copies through raw memory, and ends raw objects")]

use crate::host::{self, HostPtr};
use cuhold_handles::{
    Context, CudaWarning, Error, Event, EventOptions, Note, Object, ObjectKind, Result, Stream,
    driver_sys::{Call, Calls, Failure, ffi::CUevent},
    resource::Raw as _,
    scope::{self, Outcome},
};

/// A chunk.
#[derive(Debug)]
pub(super) struct Chunk {
    memory: HostPtr,
    bytes: usize,
    event: CUevent,
    /// The numbers by which warnings name the two.
    memory_id: u64,
    event_id: u64,
}

impl Chunk {
    /// Makes a chunk of so many bytes in the context.
    ///
    /// Calls `cuEventCreate`, `cuMemHostAlloc`.
    pub(super) fn new(context: &Context, bytes: usize) -> Result<Self> {
        let driver = context.driver();
        // The event first: it ends at once where the memory is refused.
        let event = Event::with_options(context, EventOptions::default())?;
        let event = event.into_raw().map_err(|event| {
            // Not met: nobody else has it yet.
            Error::state(format!("the new {event:?} is shared"))
        })?;
        let memory = match host::allocate(context, bytes) {
            Ok(memory) => memory,
            Err(error) => {
                // SAFETY: *handles*: made above, and given to nobody.
                return Err(match unsafe { driver.calls().cuEventDestroy_v2(event) } {
                    Ok(()) => error,
                    Err(failure) => error.with_note(Note::UndoFailed(failure)),
                });
            }
        };
        let (memory_id, event_id) = (driver.next_id(), driver.next_id());
        Ok(Self { memory, bytes, event, memory_id, event_id })
    }

    /// Where its memory is.
    pub(super) fn memory(&self) -> *mut u8 {
        self.memory.as_ptr()
    }

    /// How much it holds, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Lets the event mark what is queued on the stream by now.
    pub(super) fn mark(&self, stream: &Stream) -> Result<()> {
        stream.run(|calls| {
            // SAFETY: *handles*: the chunk's event, made in the stream's context; the stream is borrowed.
            unsafe { calls.cuEventRecord(self.event, stream.raw()) }
        })
    }

    /// Waits for what the event marks. Capture-unsafe: the caller is in relaxed mode.
    pub(super) fn wait(&self, calls: Calls<'_>) -> Result<(), Failure> {
        // SAFETY: *handles*: the chunk's event.
        unsafe { calls.cuEventSynchronize(self.event) }
    }

    /// How warnings name its memory.
    pub(super) fn object(&self) -> Object {
        Object { kind: ObjectKind::HostMemory, raw: self.memory.addr(), id: self.memory_id }
    }

    /// Ends it; waits for all work of its context.
    ///
    /// Calls `cuEventDestroy`, `cuMemFreeHost`.
    pub(super) fn end(self, calls: Calls<'_>, warn: &mut dyn FnMut(CudaWarning)) {
        self.end_event(calls, warn);
        let outcome = scope::relaxed(calls, Call::cuMemFreeHost.columns(), |calls| {
            // SAFETY: the chunk's memory, which ends with this value; copies from and to it are done, or of its own
            // context.
            Outcome::of(unsafe { host::free(calls, self.memory) })
        });
        outcome.warn_to(self.object(), Call::cuMemFreeHost, outcome.fate(), warn);
    }

    /// Keeps the memory for good, which the device may still reach; the event may end at any time.
    ///
    /// Calls `cuEventDestroy`.
    pub(super) fn leak(self, calls: Calls<'_>, warn: &mut dyn FnMut(CudaWarning)) {
        self.end_event(calls, warn);
    }

    fn end_event(&self, calls: Calls<'_>, warn: &mut dyn FnMut(CudaWarning)) {
        let event =
            Object { kind: ObjectKind::Event, raw: self.event.addr() as u64, id: self.event_id };
        // SAFETY: *handles*: the chunk's event, which ends once: `end` and `leak` take the value.
        let ended = unsafe { calls.cuEventDestroy_v2(self.event) };
        let outcome = Outcome::of(ended);
        outcome.warn_to(event, Call::cuEventDestroy_v2, outcome.fate(), warn);
    }
}
