//! A legal call during captures of every kind: each mode, each caller, a stream that is ordered with the legacy default
//! stream or isn't, on the call's device or another one. All of them are one answer, a word each.

#![expect(unsafe_code, reason = "a capture is driver calls")]

use cuhold_driver_sys::ffi::*;

use crate::{
    ctx::{Ctx, word_of},
    probe::{Caller, Mode, Step, Whose},
    setup::Made,
};

/// What makes a probe's step ready.
type Prepare = fn(&mut Ctx) -> Made<Step>;

/// What a machine with one device answers about another one's captures: that it wasn't asked.
pub(crate) const NO_OTHER_DEVICE: &str = "no_other_device";

/// Which stream is captured, and who calls.
#[derive(Clone, Copy)]
struct Cell {
    mode: Mode,
    caller: Caller,
    is_blocking: bool,
    whose: Whose,
}

const MODES: [(&str, Mode); 3] =
    [("global", Mode::Global), ("thread_local", Mode::ThreadLocal), ("relaxed", Mode::Relaxed)];

const CALLERS: [(&str, Caller); 3] =
    [("same", Caller::Same), ("other", Caller::Other), ("other_relaxed", Caller::OtherRelaxed)];

/// How many cells an answer has: each with a stream of either kind.
pub(crate) const CELLS: usize = MODES.len() * CALLERS.len() * 2;

impl Ctx {
    /// Makes the call in every cell, each time made ready anew. A word is the status and what became of the capture; where
    /// it is another with a stream that is ordered with the legacy default stream, that is a word of its own.
    pub(crate) fn through_captures(&mut self, prepare: Prepare, whose: Whose) -> Made<()> {
        self.device()?;
        let mut devices = 0;
        must!(self.cuDeviceGetCount(&raw mut devices));
        if whose == Whose::AnotherDevice && devices < 2 {
            self.say(NO_OTHER_DEVICE);
            return Ok(());
        }
        for (mode_name, mode) in MODES {
            for (caller_name, caller) in CALLERS {
                let cell = |is_blocking| Cell { mode, caller, is_blocking, whose };
                let [plain, blocking] = [false, true].map(|is| self.said_in(cell(is), prepare));
                self.note(&format!("{mode_name}_{caller_name}"), &plain);
                if blocking != plain {
                    self.note(&format!("{mode_name}_{caller_name}_blocking"), blocking);
                }
            }
        }
        Ok(())
    }

    /// The word of one cell.
    fn said_in(&self, cell: Cell, prepare: Prepare) -> String {
        let mut there = self.aside();
        let (became, failed) = match there.call_in(cell, prepare) {
            Ok(status) => (word_of(status), Ok(())),
            Err(failure) => ("unknown", Err(failure)),
        };
        let answer = there.into_answer(failed).replace(' ', "+");
        format!("{answer}/{became}")
    }

    /// Makes the call in one cell, and says what became of the capture.
    fn call_in(&mut self, cell: Cell, prepare: Prepare) -> Made<CUstreamCaptureStatus> {
        self.empty_stack();
        let step = prepare(self)?;
        if self.what_is_current()?.is_null() {
            self.current()?;
        }
        let context = self.what_is_current()?;
        let captured = self.to_capture(cell, context)?;
        self.capture(captured, cell.mode.raw())?;
        let done = match cell.caller {
            Caller::Same => step(self),
            Caller::Other | Caller::OtherRelaxed => self.elsewhere(|c| {
                must!(c.cuCtxSetCurrent(context));
                if cell.caller == Caller::OtherRelaxed {
                    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
                    must!(c.cuThreadExchangeStreamCaptureMode(&raw mut mode));
                }
                step(c)
            }),
        };
        let became = self.capture_status(captured);
        if became.is_ok_and(|status| status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
        {
            self.end_quietly(captured);
        }
        done.and(became)
    }

    fn to_capture(&self, cell: Cell, context: CUcontext) -> Made<CUstream> {
        let another = cell.whose == Whose::AnotherDevice;
        if another {
            let mut device = 0;
            must!(self.cuCtxGetDevice(&raw mut device));
            let (mut other, device) = (CUcontext::NULL, CUdevice::from(device == 0));
            must!(self.cuDevicePrimaryCtxRetain(&raw mut other, device));
            must!(self.cuCtxSetCurrent(other));
        }
        let stream = if cell.is_blocking { self.blocking_stream()? } else { self.stream()? };
        if another {
            must!(self.cuCtxSetCurrent(context));
        }
        Ok(stream)
    }

    /// So that the next cell finds no capture.
    fn end_quietly(&self, captured: CUstream) {
        let mut graph = CUgraph::NULL;
        // SAFETY: *pointers*: a local. *Handles*: a stream of this cell, with whose capture nobody else works. *Calls
        // back*: none.
        let ended = unsafe { self.driver().cuStreamEndCapture(captured, &raw mut graph) };
        if ended.is_success() && !graph.is_null() {
            // SAFETY: *handles*: the graph that the call gave. *Pointers*, *calls back*: none.
            unsafe { self.driver().cuGraphDestroy(graph) };
        }
    }
}
