//! Streams: borrowed from cudarc, or lent to it.

#![expect(unsafe_code, reason = "hands streams over as raw values")]

use crate::{
    bridge::Bridge,
    context::{give_back, raw_of, warn_of_leak},
    held::Held,
    loan::Loan,
};
use cudarc::driver::{CudaContext, CudaStream, sys};
use cuhold_driver_sys::{
    Call,
    ffi::{CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUstream},
};
use cuhold_handles::{Context, Driver, Error, Object, ObjectKind, Owner, Result, Stream};
use std::{fmt, mem::ManuallyDrop, ops::Deref, sync::Arc};

/// Which stream a raw value of cudarc's is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    Legacy,
    PerThread,
    Created(CUstream),
}

impl Which {
    fn of(raw: sys::CUstream) -> Self {
        match CUstream(raw.cast()) {
            CUstream::NULL | CU_STREAM_LEGACY => Self::Legacy,
            CU_STREAM_PER_THREAD => Self::PerThread,
            raw => Self::Created(raw),
        }
    }
}

impl Bridge {
    /// Refers to a stream of cudarc's, and keeps its `Arc`: cudarc destroys the stream when both have let go of it, on the
    /// [reclaimer](cuhold_handles::Reclaim) where this is the last. It counts as [exposed](Stream::is_exposed).
    ///
    /// The default stream of cudarc's context is its legacy default stream here. A stream that cudarc itself only borrows
    /// (`wrap_borrowed_stream`) lives as its maker has promised to cudarc.
    ///
    /// Calls as [`borrow_context`](Self::borrow_context).
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for the per-thread default stream, which is another
    /// stream on each thread: [`PerThreadStream`](cuhold_handles::PerThreadStream) is that. Those of
    /// [`borrow_context`](Self::borrow_context).
    pub fn borrow_stream(&self, stream: &Arc<CudaStream>) -> Result<Stream> {
        let which = Which::of(stream.cu_stream());
        refuse_per_thread(which)?;
        let context = self.borrow_context(stream.context())?;
        let Which::Created(raw) = which else { return Ok(Stream::legacy(&context)) };
        let object = Object {
            kind: ObjectKind::Stream,
            raw: u64::try_from(raw.addr()).unwrap_or_default(),
            id: self.driver().next_id(),
        };
        let call = Call::cuStreamDestroy_v2;
        let held = Held::new(Arc::clone(stream), stream.context(), &context, object, call);
        let owner: Owner = Arc::new(held);
        // SAFETY: a created stream of this context, which lives as long as its `Arc` by cudarc's type, or by the promise of
        // whoever had cudarc borrow it.
        unsafe { Stream::borrow_raw(&context, raw, Some(owner)) }
    }

    /// As [`borrow_stream`](Self::borrow_stream), for as long as the caller has `stream` in its hands.
    pub(crate) fn stream_within(&self, stream: &Arc<CudaStream>) -> Result<Stream> {
        let which = Which::of(stream.cu_stream());
        refuse_per_thread(which)?;
        let context = self.context_within(stream.context())?;
        let Which::Created(raw) = which else { return Ok(Stream::legacy(&context)) };
        // SAFETY: as above; the caller lets go of what this returns before it lets go of `stream`.
        unsafe { Stream::borrow_raw(&context, raw, None) }
    }

    /// Lends a stream to cudarc, as a stream of its value of the same context, which
    /// [`retain_context`](Self::retain_context), [`lend_context`](Self::lend_context) or cudarc itself gave. cudarc never
    /// destroys it. It is kept alive until cudarc has let go of it and of everything that was made on it, also where the
    /// [`LentStream`] is dropped before that. It counts as [exposed](Stream::is_exposed) from here on.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a stream of another driver, or of another context
    /// than cudarc's value.
    pub fn lend_stream(&self, stream: &Stream, context: &Arc<CudaContext>) -> Result<LentStream> {
        self.driver().check_same(stream.driver(), "stream")?;
        let (own, other) = (stream.context().as_raw(), raw_of(context));
        if own != other {
            return Err(Error::argument(format!(
                "context: it is {other:?}, and the stream belongs to {own:?}"
            )));
        }
        let theirs = if stream.is_token() {
            context.default_stream()
        } else {
            let raw: sys::CUstream = stream.as_raw().0.cast();
            // SAFETY: a live stream of this context, which the loan keeps alive until cudarc has let go of the wrapper and
            // of all that keeps it. Both order what they queue on it by the stream's own order.
            unsafe { context.wrap_borrowed_stream(raw) }
        };
        let loan = StreamLoan { theirs, ours: stream.clone() };
        Ok(LentStream { loan: ManuallyDrop::new(loan), bridge: self.clone() })
    }
}

fn refuse_per_thread(which: Which) -> Result<()> {
    if which == Which::PerThread {
        return Err(Error::argument(
            "stream: it is the per-thread default stream, which is another stream on each thread; \
             `PerThreadStream` is that",
        ));
    }
    Ok(())
}

/// A stream of ours that cudarc uses: [`Bridge::lend_stream`].
///
/// Its `Arc` may be cloned freely, by slices, too: the stream is kept until all of them are gone.
///
/// Its drop calls nothing, but it may let go of the stream.
pub struct LentStream {
    /// Invariant: there until the drop.
    loan: ManuallyDrop<StreamLoan>,
    bridge: Bridge,
}

impl LentStream {
    /// The stream that is lent.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn lent(&self) -> &Stream {
        &self.loan.ours
    }
}

impl Deref for LentStream {
    type Target = Arc<CudaStream>;

    fn deref(&self) -> &Arc<CudaStream> {
        &self.loan.theirs
    }
}

impl Drop for LentStream {
    fn drop(&mut self) {
        // SAFETY: taken once: this is the drop.
        let loan = unsafe { ManuallyDrop::take(&mut self.loan) };
        give_back(&self.bridge, loan, Bridge::streams);
    }
}

impl fmt::Debug for LentStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LentStream").field(self.lent()).finish()
    }
}

pub(crate) struct StreamLoan {
    theirs: Arc<CudaStream>,
    ours: Stream,
}

impl StreamLoan {
    /// cudarc's value, whose `Arc` of its context may be the last one, so that it ends as everything of cudarc's does.
    fn held(theirs: Arc<CudaStream>, ours: &Stream) -> Held<Arc<CudaStream>, CudaContext> {
        let context: &Context = ours.context();
        let object = Object {
            kind: ObjectKind::Stream,
            raw: u64::try_from(ours.raw().addr()).unwrap_or_default(),
            id: ours.id(),
        };
        let keeper = Arc::clone(theirs.context());
        Held::new(theirs, &keeper, context, object, Call::cuDevicePrimaryCtxRelease_v2)
    }
}

impl Loan for StreamLoan {
    fn is_over(&mut self) -> bool {
        Arc::get_mut(&mut self.theirs).is_some()
    }

    fn end(self) {
        drop(Self::held(self.theirs, &self.ours));
        drop(self.ours);
    }

    fn leak(self, driver: &Driver) {
        let kept = ManuallyDrop::new(self);
        warn_of_leak(driver, ObjectKind::Stream, kept.ours.raw().addr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::without_provenance_mut;

    #[test]
    fn default_streams_are_told_by_their_values() {
        let of = |addr| Which::of(without_provenance_mut(addr));
        assert_eq!((of(0), of(1)), (Which::Legacy, Which::Legacy));
        assert_eq!(of(2), Which::PerThread);
        assert_eq!(of(0x7f30), Which::Created(CUstream::from_addr(0x7f30)));
        assert!(refuse_per_thread(Which::PerThread).is_err());
    }
}
