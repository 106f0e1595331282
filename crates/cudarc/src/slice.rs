//! Memory that changes hands, or is held for the other: slices of cudarc's as buffers, buffers as slices.

#![expect(unsafe_code, reason = "hands device memory over as raw addresses")]

use crate::{bridge::Bridge, held::Held, kept, order};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtrMut as _};
use cuhold_driver_sys::Call;
use cuhold_handles::{
    Context, Error, Object, ObjectKind, Refused, Result, Stream,
    foreign::{self, Caught},
};
use cuhold_memory::{Block, Buffer, MemoryResource, bytemuck::Pod};
use parking_lot::Mutex;
use std::{mem::ManuallyDrop, sync::Arc};

/// What stands in errors for the calls that cudarc makes.
const ORDERING: &str = "cudarc's wait for the events of the slice";

impl Bridge {
    /// Takes a slice over: its memory is freed by this library from now on, on the buffer's home stream, which is the one
    /// that the slice was allocated on, and what cudarc has the slice used for by now is done before that.
    ///
    /// Where cudarc's event tracking is off, what uses the slice on other streams must be ordered by the caller, as ever
    /// with cudarc.
    ///
    /// cudarc calls `cuStreamWaitEvent`, `cuEventRecord`, `cuEventDestroy` by itself.
    ///
    /// Calls as [`borrow_stream`](Self::borrow_stream).
    ///
    /// # Errors
    /// With the slice, which is as it was: [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) where its memory
    /// isn't freed in stream order (a device without pools), or isn't aligned for `T`; those of
    /// [`borrow_stream`](Self::borrow_stream); cudarc's failure to order what uses it.
    ///
    /// Without the slice: what was current couldn't be put back, and the memory is freed; or cudarc failed to order what
    /// uses the memory when it had let go already, and it is leaked.
    pub fn take_slice<T: Pod>(
        &self,
        mut slice: CudaSlice<T>,
    ) -> Result<Buffer<T>, Refused<Option<CudaSlice<T>>>> {
        let stream = match self.check_slice(&mut slice) {
            Ok((_, stream)) => stream,
            Err(error) => return Err(Refused::new(error, Some(slice))),
        };
        let (len, context) = (slice.len(), Arc::clone(slice.context()));
        let (mut slice, mut leaked) = (Some(slice), None);
        let result = stream.context().with_current(|| {
            leaked = slice.take().map(|slice| kept::during(&*context, || slice.leak()));
        });
        let Some((ptr, failed)) = leaked else {
            let error = result.err().unwrap_or_else(|| Error::state("the slice wasn't let go of"));
            return Err(Refused::new(error, slice));
        };
        if let Some(status) = failed {
            return Err(Refused::new(self.driver().error_elsewhere(status, ORDERING), None));
        }
        // SAFETY: memory of `len` elements that cudarc has let go of; what used it is ordered before what is queued on the
        // stream from now on, as `leak` has it, or as the caller has who switched that off.
        let buffer = unsafe { Buffer::from_raw(&stream, ptr, len) };
        match (buffer, result) {
            (Ok(buffer), Ok(())) => Ok(buffer),
            (Err(error), _) | (Ok(_), Err(error)) => Err(Refused::new(error, None)),
        }
    }

    /// A buffer over the memory of a slice, which is kept until the buffer is gone; cudarc then frees it, on the stream
    /// that the slice was allocated on, behind what is queued on the buffer's home stream by then, and on the
    /// [reclaimer](cuhold_handles::Reclaim). Also for memory that isn't freed in stream order.
    ///
    /// cudarc calls `cuStreamWaitEvent`, `cuEventRecord` by itself.
    ///
    /// Calls as [`borrow_stream`](Self::borrow_stream).
    ///
    /// # Errors
    /// With the slice, which is as it was: [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) where its address
    /// isn't a multiple of 256 or it has no bytes; those of [`borrow_stream`](Self::borrow_stream); cudarc's failure to
    /// order what uses it.
    pub fn hold_slice<T: Pod>(
        &self,
        mut slice: CudaSlice<T>,
    ) -> Result<Buffer<T>, Refused<Option<CudaSlice<T>>>> {
        let (ptr, stream) = match self.check_slice_held(&mut slice) {
            Ok(checked) => checked,
            Err(error) => return Err(Refused::new(error, Some(slice))),
        };
        let len = slice.len();
        let bytes = slice.num_bytes();
        let object =
            Object { kind: ObjectKind::AsyncMemory, raw: ptr, id: self.driver().next_id() };
        let context = Arc::clone(slice.context());
        let held = Held::new(slice, &context, stream.context(), object, Call::cuMemFreeAsync);
        let memory = Arc::new(SliceMemory {
            block: Block { ptr, bytes, tag: 0 },
            stream: stream.clone(),
            held: Mutex::new(Some(held)),
        });
        Buffer::uninit_in(&memory, &stream, len).map_err(|error| {
            // The slice goes with the resource, on the reclaimer.
            Refused::new(error, None)
        })
    }

    /// Gives a buffer's memory to cudarc, which frees it on `stream` when the slice is dropped. What is queued on the
    /// buffer's home stream by now is done before what is queued on `stream` from now on.
    ///
    /// cudarc calls `cuEventCreate`, twice, by itself.
    ///
    /// Calls as [`borrow_stream`](Self::borrow_stream), `cuEventCreate`,
    /// `cuEventRecord`, `cuStreamWaitEvent`, `cuEventDestroy` and, for exposed streams, `cuStreamIsCapturing`; nothing of
    /// that where `stream` is the home stream.
    ///
    /// # Errors
    /// With the buffer: [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for an empty buffer, a stream of another
    /// driver or device, or a device whose memory cudarc doesn't free in stream order;
    /// [`ErrorKind::State`](cuhold_handles::ErrorKind::State) where its memory is
    /// [kept](Buffer::keep) by others or came from a resource of another kind than a pool, or somebody captures one of the
    /// two streams; the calls' failures; cudarc's, which panics where it can't make its events: the panic is caught, after
    /// the panic hook has run.
    pub fn give_buffer<T: Pod>(
        &self,
        buffer: Buffer<T>,
        stream: &Arc<CudaStream>,
    ) -> Result<CudaSlice<T>, Refused<Option<Buffer<T>>>> {
        let ready = self.ready_to_give(&buffer, stream);
        let (home, len) = (buffer.stream().clone(), buffer.len());
        let context = match ready {
            Ok(context) => context,
            Err(error) => return Err(Refused::new(error, Some(buffer))),
        };
        let ptr = match buffer.into_raw() {
            Ok(ptr) => ptr,
            Err(buffer) => {
                let error = Error::state(
                    "buffer: its memory is kept by others, or came from a resource that takes it back",
                );
                return Err(Refused::new(error, Some(buffer)));
            }
        };
        let keeper = stream.context();
        let upgrade = || {
            kept::during(&**keeper, || {
                // SAFETY: memory of `len` elements that nobody else frees from here on; every bit pattern is a `T`.
                foreign::call(|| unsafe { stream.upgrade_device_ptr(ptr, len) })
            })
        };
        let error = match context.with_current(upgrade) {
            Ok((Ok(slice), _)) => return Ok(slice),
            Ok((Err(caught), _)) => panicked(&caught),
            Err(error) if error.completed().is_some() => {
                // The slice was made and dropped again, which freed the memory.
                return Err(Refused::new(error, None));
            }
            Err(error) => error,
        };
        // SAFETY: given away above, and taken by nobody.
        match unsafe { Buffer::from_raw(&home, ptr, len) } {
            Ok(buffer) => Err(Refused::new(error, Some(buffer))),
            Err(second) => Err(Refused::new(error.with_second(&second), None)),
        }
    }

    /// The address of a slice and the stream that it was allocated on, behind everything that cudarc has it used for.
    fn check_slice<T: Pod>(&self, slice: &mut CudaSlice<T>) -> Result<(u64, Stream)> {
        if !slice.context().has_async_alloc() {
            return Err(Error::argument(
                "slice: its device has no memory pools, so its memory isn't freed in stream order; `hold_slice` takes it",
            ));
        }
        self.checked_address(slice, align_of::<T>())
    }

    fn check_slice_held<T: Pod>(&self, slice: &mut CudaSlice<T>) -> Result<(u64, Stream)> {
        if slice.num_bytes() == 0 {
            return Err(Error::argument("slice: it has no bytes, so there is nothing to hold"));
        }
        self.checked_address(slice, BLOCK_ALIGN)
    }

    fn checked_address<T: Pod>(
        &self,
        slice: &mut CudaSlice<T>,
        align: usize,
    ) -> Result<(u64, Stream)> {
        let stream = self.borrow_stream(slice.stream())?;
        let (own, context) = (Arc::clone(slice.stream()), Arc::clone(slice.context()));
        let address = || kept::during(&*context, || slice.device_ptr_mut(&own).0);
        let (ptr, failed) = stream.context().with_current(address)?;
        if let Some(status) = failed {
            return Err(self.driver().error_elsewhere(status, ORDERING));
        }
        let align = u64::try_from(align).unwrap_or(u64::MAX);
        if slice.num_bytes() > 0 && (ptr == 0 || !ptr.is_multiple_of(align)) {
            return Err(Error::argument(format!(
                "slice: its address {ptr:#x} is null or no multiple of {align}"
            )));
        }
        Ok((ptr, stream))
    }

    /// Everything that can be refused before the buffer is taken apart; orders the two streams.
    fn ready_to_give<T: Pod>(
        &self,
        buffer: &Buffer<T>,
        stream: &Arc<CudaStream>,
    ) -> Result<Context> {
        self.driver().check_same(buffer.driver(), "buffer")?;
        if buffer.size_bytes() == 0 {
            return Err(Error::argument("buffer: it has no bytes, so there is nothing to give"));
        }
        if !stream.context().has_async_alloc() {
            return Err(Error::argument(
                "stream: its device has no memory pools, so cudarc wouldn't free the memory in stream order",
            ));
        }
        let ours = self.stream_within(stream)?;
        order::refuse_other_device(buffer.stream(), &ours)?;
        order::after(buffer.stream(), &ours)?;
        Ok(ours.context().clone())
    }
}

/// What a [`MemoryResource`] promises of its blocks' addresses.
const BLOCK_ALIGN: usize = 256;

#[cold]
fn panicked(caught: &Caught) -> Error {
    let text = caught.payload().downcast_ref::<String>().map_or("no text", String::as_str);
    Error::state(format!("cudarc panicked while it took the memory over: {text}"))
}

/// A slice as the resource of the one block that it is.
struct SliceMemory<T: Pod> {
    block: Block,
    /// The stream that cudarc frees the slice on.
    stream: Stream,
    held: Mutex<Option<Held<CudaSlice<T>, CudaContext>>>,
}

// SAFETY: *memory*: the slice's, checked for its alignment, and asked for once, by `hold_slice`, for all of its bytes;
// *given back*: freed by cudarc on its own stream, behind what is queued on the given one.
unsafe impl<T: Pod> MemoryResource for SliceMemory<T> {
    fn allocate(&self, bytes: usize, _: &Stream) -> Result<Block> {
        if bytes == self.block.bytes {
            return Ok(self.block);
        }
        Err(Error::argument(format!("bytes: {bytes}, where the slice has {}", self.block.bytes)))
    }

    unsafe fn deallocate(&self, _: Block, stream: &Stream) -> Result<()> {
        let held = self.held.lock().take();
        if let Err(error) = order::after(stream, &self.stream) {
            // Not behind what may still use it: leaked, as the buffer's end says.
            let _: ManuallyDrop<_> = ManuallyDrop::new(held);
            return Err(error);
        }
        drop(held);
        Ok(())
    }

    fn memory_kind(&self) -> ObjectKind {
        ObjectKind::AsyncMemory
    }
}
