//! Making a legal call while somebody's capture is under way.

#![expect(unsafe_code, reason = "a capture is driver calls")]

use cuhold_driver_sys::ffi::*;

use crate::{
    ctx::Ctx,
    probe::{Caller, Step},
    setup::Made,
};

impl Ctx {
    /// Makes the call while a stream of the current context is captured, and says what became of the capture.
    pub(crate) fn during_capture(
        &mut self,
        step: Step,
        mode: CUstreamCaptureMode,
        caller: Caller,
    ) -> Made<()> {
        self.device()?;
        if self.what_is_current()?.is_null() {
            self.current()?;
        }
        let context = self.what_is_current()?;
        let captured = self.stream()?;
        self.capture(captured, mode)?;
        match caller {
            Caller::Same => step(self)?,
            Caller::Other | Caller::OtherRelaxed => self.elsewhere(|c| {
                must!(c.cuCtxSetCurrent(context));
                if caller == Caller::OtherRelaxed {
                    let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
                    must!(c.cuThreadExchangeStreamCaptureMode(&raw mut mode));
                }
                step(c)
            })?,
        }
        self.note_capturing(captured)
    }
}
