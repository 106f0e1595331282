//! Buffers of ours as arguments of cudarc's operations, for the length of a closure.
//!
//! cudarc orders what uses a slice by events of the slice, which a buffer doesn't have, and frees what it owns. So a buffer
//! is handed over for one stream of cudarc's and for the length of a closure: that stream waits for the buffer's home
//! stream before, the home stream waits for it afterwards.

#![expect(unsafe_code, reason = "says how a kernel of cudarc's receives a buffer")]

use crate::{bridge::Bridge, order};
use cudarc::driver::{
    CudaStream, DevicePtr, DevicePtrMut, DeviceSlice, LaunchArgs, PushKernelArg, SyncOnDrop, sys,
};
use cuhold_handles::{CudaWarning, Object, ObjectKind, Result, Stream, foreign};
use cuhold_memory::{Buffer, bytemuck::Pod};
use std::{fmt, marker::PhantomData, mem::ManuallyDrop, sync::Arc};

impl Bridge {
    /// Lets cudarc read a buffer in `work`: in its copies, and as an argument of its kernels.
    ///
    /// What `work` queues on `stream` runs after what is queued on the buffer's home stream by now, and before what is queued
    /// there after this. A *copy* of cudarc's on another stream is ordered as well, by waiting for it; a *launch* on another
    /// stream isn't.
    ///
    /// Calls as [`borrow_stream`](Self::borrow_stream), `cuEventCreate`, `cuEventRecord`, `cuStreamWaitEvent`,
    /// `cuEventDestroy` and, for exposed streams, `cuStreamIsCapturing`; `cuStreamSynchronize` where the order afterwards
    /// fails. Of the streams, nothing where `stream` is the home stream.
    ///
    /// # Errors
    /// Before `work`, which isn't run then: [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a buffer of
    /// another driver, or a stream of another device; [`ErrorKind::State`](cuhold_handles::ErrorKind::State) where somebody
    /// captures one of the two streams; the calls' failures.
    ///
    /// [Completed](cuhold_handles::Error::completed), after `work`, whose value is lost: the order afterwards failed. Where
    /// waiting for `stream` failed as well, the buffer's memory is never freed.
    pub fn with_buffer<T: Pod, R>(
        &self,
        buffer: &Buffer<T>,
        stream: &Arc<CudaStream>,
        work: impl FnOnce(&BufferArg<'_, T>) -> R,
    ) -> Result<R> {
        let ours = self.ordered_before(buffer, stream)?;
        let arg = BufferArg {
            ptr: buffer.device_ptr(),
            len: buffer.len(),
            stream,
            elements: PhantomData,
        };
        let done = foreign::call(|| work(&arg));
        let ordered = ordered_after(&ours, buffer);
        match done {
            Ok(value) => ordered.map(|()| value),
            Err(caught) => {
                warn_of(ordered, buffer);
                caught.resume()
            }
        }
    }

    /// As [`with_buffer`](Self::with_buffer), to be written as well.
    ///
    /// Calls as [`with_buffer`](Self::with_buffer).
    ///
    /// # Errors
    /// As [`with_buffer`](Self::with_buffer).
    pub fn with_buffer_mut<T: Pod, R>(
        &self,
        buffer: &mut Buffer<T>,
        stream: &Arc<CudaStream>,
        work: impl FnOnce(&mut BufferArgMut<'_, T>) -> R,
    ) -> Result<R> {
        let ours = self.ordered_before(buffer, stream)?;
        let mut arg = BufferArgMut {
            ptr: buffer.device_ptr(),
            len: buffer.len(),
            stream,
            elements: PhantomData,
        };
        let done = foreign::call(|| work(&mut arg));
        let ordered = ordered_after(&ours, buffer);
        match done {
            Ok(value) => ordered.map(|()| value),
            Err(caught) => {
                warn_of(ordered, buffer);
                caught.resume()
            }
        }
    }

    fn ordered_before<T: Pod>(
        &self,
        buffer: &Buffer<T>,
        stream: &Arc<CudaStream>,
    ) -> Result<Stream> {
        self.driver().check_same(buffer.driver(), "buffer")?;
        let ours = self.stream_within(stream)?;
        order::refuse_other_device(buffer.stream(), &ours)?;
        order::refuse_captured(&ours)?;
        order::after(buffer.stream(), &ours)?;
        Ok(ours)
    }
}

/// Lets the home stream wait for what cudarc has queued. Where that fails, waits for it; where that fails as well, the
/// memory is kept for good, since it may be in use.
fn ordered_after<T: Pod>(ours: &Stream, buffer: &Buffer<T>) -> Result<()> {
    let Err(error) = order::after(ours, buffer.stream()) else { return Ok(()) };
    let error = match ours.synchronize() {
        Ok(()) => error,
        Err(second) => {
            let _: ManuallyDrop<_> = ManuallyDrop::new(buffer.keep());
            error.with_second(&second)
        }
    };
    Err(error.with_completed(1))
}

/// Tells of an order that failed while a panic passes through.
#[cold]
fn warn_of<T: Pod>(ordered: Result<()>, buffer: &Buffer<T>) {
    if let Err(error) = ordered {
        let object = Object {
            kind: ObjectKind::DeviceMemory,
            raw: buffer.device_ptr(),
            id: buffer.driver().next_id(),
        };
        let warning = CudaWarning::note(object, "it isn't ordered behind what cudarc does with it");
        buffer.driver().warn(warning.with_text(&error.to_string()));
    }
}

/// A buffer that cudarc reads: [`Bridge::with_buffer`].
pub struct BufferArg<'a, T: Pod> {
    ptr: sys::CUdeviceptr,
    len: usize,
    stream: &'a Arc<CudaStream>,
    elements: PhantomData<&'a [T]>,
}

/// A buffer that cudarc reads and writes: [`Bridge::with_buffer_mut`].
pub struct BufferArgMut<'a, T: Pod> {
    ptr: sys::CUdeviceptr,
    len: usize,
    stream: &'a Arc<CudaStream>,
    elements: PhantomData<&'a mut [T]>,
}

/// The guard for a use on `used`, where the buffer was handed over for `own`: another stream waits for `own` first, and is
/// waited for afterwards. A failure goes where cudarc keeps those of its own.
fn guard<'a>(own: &CudaStream, used: &'a CudaStream) -> SyncOnDrop<'a> {
    if own == used {
        return SyncOnDrop::Sync(None);
    }
    used.context().record_err(used.join(own));
    SyncOnDrop::sync_stream(used)
}

macro_rules! arguments {
    ($($arg:ident)+) => { $(
        impl<T: Pod> DeviceSlice<T> for $arg<'_, T> {
            fn len(&self) -> usize {
                self.len
            }

            fn stream(&self) -> &Arc<CudaStream> {
                self.stream
            }
        }

        impl<T: Pod> DevicePtr<T> for $arg<'_, T> {
            fn device_ptr<'a>(
                &'a self,
                stream: &'a CudaStream,
            ) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
                (self.ptr, guard(self.stream, stream))
            }
        }

        impl<T: Pod> fmt::Debug for $arg<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "buffer {:#x} of {} elements", self.ptr, self.len)
            }
        }
    )+ };
}

arguments! { BufferArg BufferArgMut }

impl<T: Pod> DevicePtrMut<T> for BufferArgMut<'_, T> {
    fn device_ptr_mut<'a>(
        &'a mut self,
        stream: &'a CudaStream,
    ) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        (self.ptr, guard(self.stream, stream))
    }
}

// SAFETY: a pointer parameter is a 64-bit address, which is borrowed until the launch.
unsafe impl<'a, 'b: 'a, 'c: 'b, T: Pod> PushKernelArg<&'b BufferArg<'c, T>> for LaunchArgs<'a> {
    #[inline]
    fn arg(&mut self, arg: &'b BufferArg<'c, T>) -> &mut Self {
        self.arg(&arg.ptr)
    }
}

// SAFETY: as above.
unsafe impl<'a, 'b: 'a, 'c: 'b, T: Pod> PushKernelArg<&'b mut BufferArgMut<'c, T>>
    for LaunchArgs<'a>
{
    #[inline]
    fn arg(&mut self, arg: &'b mut BufferArgMut<'c, T>) -> &mut Self {
        self.arg(&arg.ptr)
    }
}
