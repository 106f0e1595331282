//! Making a legal call while somebody's capture is under way, or after something bad has happened.

#![expect(unsafe_code, reason = "what is made to happen is driver calls")]

use cuhold_driver_sys::ffi::*;

use crate::{
    ctx::{Ctx, word},
    host::{self, Work},
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

    /// Makes the call with a context current that another thread has destroyed.
    pub(crate) fn with_destroyed_context(&mut self, step: Step) -> Made<()> {
        let gone = self.context()?;
        self.elsewhere(|c| {
            must!(c.cuCtxDestroy_v2(gone));
            Ok(())
        })?;
        step(self)
    }

    /// Makes the call after a kernel wrote to a wrong address, and a wait told of it.
    pub(crate) fn after_fault(&mut self, step: Step) -> Made<()> {
        if self.what_is_current()?.is_null() {
            self.current()?;
        }
        let stream = self.stream()?;
        self.fault(stream)?;
        // SAFETY: *handles*: the stream that was made above. *Pointers*, *calls back*: none.
        let status = unsafe { self.driver().cuStreamSynchronize(stream) };
        self.note("fault", word(status));
        step(self)
    }

    /// Makes the call while another stream of the current context works, and says whether it came back only afterwards.
    pub(crate) fn while_busy(&mut self, step: Step) -> Made<()> {
        if self.what_is_current()?.is_null() {
            self.current()?;
        }
        let stream = self.stream()?;
        let work = host::leak(Work::new());
        // A simulated driver does what it is waited for, and nothing else.
        if self.is_simulated() {
            work.hurry();
        }
        must!(self.cuLaunchHostFunc(stream, Some(host::work), host::user(work)));
        step(self)?;
        self.holds("waited", work.is_done());
        work.hurry();
        Ok(())
    }
}
