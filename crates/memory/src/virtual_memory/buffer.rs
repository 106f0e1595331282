//! Buffers of virtual memory: made, grown, shrunk, used, ended.

#![expect(unsafe_code, reason = "is its buffer's memory resource, and a kernel's argument")]

use super::{VirtualMemory, options::Spec, range::Range, residence};
use crate::{
    buffer::{Buffer, BufferView, BufferViewMut},
    layout,
    order::refuse_captured,
    resource::Residence,
    source::{Block, MemoryResource},
};
use bytemuck::Pod;
use cuhold_handles::{
    AsStream, Closed, Driver, Error, KernelArg, Object, ObjectKind, Refused, Result, Stream,
    StreamRef, Users, driver_sys::mutant,
};
use parking_lot::Mutex;
use std::{
    fmt,
    mem::ManuallyDrop,
    ops::RangeBounds,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Device memory that can grow without being copied, and without moving what uses it.
///
/// It is a [`Buffer`] (`as_buffer`, `as_view`, `view` and so on give what that has: copies, fills, host memory, kernel
/// arguments) with a size in whole granules behind it: [`size_bytes`](Self::size_bytes) is what its elements need,
/// [`mapped_bytes`](Self::mapped_bytes) what was mapped for them, [`reserved_bytes`](Self::reserved_bytes) the addresses.
///
/// # Growing
/// [`grow`](Self::grow) gives another buffer that begins with the *same memory*, and leaves this one as it is. Where the
/// addresses behind it are reserved, or can be had, what is new is mapped there: both buffers then have the same address.
/// Else the same physical memory is mapped a second time at new addresses. Either way nothing is copied, nothing that runs
/// is disturbed, and a growth that fails leaves the old buffer readable and writable.
///
/// # Two buffers of the same bytes
/// What one writes, the other reads. Both have the same home stream at first, on which their work is in order; on another
/// one it has to be ordered by events like that of any two buffers. Of two *addresses* of the same memory one kernel must
/// not rely on: what it writes through one of them is seen through the other by what begins after it, not within it
/// (that is how CUDA's manual has it).
///
/// # The end
/// Memory is unmapped with the last buffer that holds it, once the work on its home streams is done, and that of all
/// streams that were told to it: a kernel that gets `&buffer` as an argument tells its own stream, others by
/// [`used_on`](Self::used_on). The driver's call waits for nobody, so this does, on the reclaimer. What is queued on the home
/// stream after this was dropped isn't waited for.
///
/// Where that work can't be waited for, the memory stays mapped for good, and a warning names its addresses.
///
/// Its drop calls `cuEventCreate` and `cuEventRecord`, for an exposed stream also `cuStreamIsCapturing`, and leaves to the
/// reclaimer `cuEventSynchronize`, `cuEventDestroy`, `cuMemUnmap`, `cuMemRelease`, `cuMemAddressFree`, and the same events for
/// streams that were told.
///
/// # Examples
/// ```
/// # use cuhold_memory::{VirtualBuffer, VirtualMemory, VirtualMemoryOptions, handles::{Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// let stream = device.new_stream()?;
/// let memory = VirtualMemory::new(&device, VirtualMemoryOptions::default())?;
/// let small = VirtualBuffer::from_slice(&memory, &stream, &[1, 2, 3])?;
/// assert_eq!((small.size_bytes(), small.mapped_bytes()), (12, memory.granularity_bytes()));
///
/// let mut large = small.grow(1 << 20)?;
/// large.view_mut(3..6)?.write_slice(&[4, 5, 6])?;
/// large.view_mut(0..1)?.fill(9)?;
/// assert_eq!(small.to_vec()?, [9, 2, 3]);
/// drop(small);
/// assert_eq!(large.view(..6)?.to_vec()?, [9, 2, 3, 4, 5, 6]);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
pub struct VirtualBuffer<T: Pod = u8> {
    /// Invariant: there until the value is taken apart or dropped.
    buffer: ManuallyDrop<Buffer<T>>,
    /// Invariant: as above.
    whole: ManuallyDrop<Arc<Whole>>,
}

/// What a buffer's memory is: the resource of that one buffer.
pub(super) struct Whole {
    pub(super) spec: Arc<Spec>,
    /// `None` where it has no bytes, and once it was given back.
    pub(super) range: Mutex<Option<Range>>,
    /// Whether the range knows by an event what its home stream has queued, so that the stream isn't asked at the end.
    is_marked: AtomicBool,
}

// SAFETY: *memory*: the range is as large as asked and mapped, and aligned to the granularity. It overlaps no block of this
// resource, which gives out this one; that another buffer maps the same memory is what both were made for, and
// documented. *Given back*: it is unmapped after the work that is queued on the stream.
unsafe impl MemoryResource for Whole {
    fn allocate(&self, bytes: usize, _: &Stream) -> Result<Block> {
        match &*self.range.lock() {
            Some(range) if range.mapped_bytes() >= bytes => {
                Ok(Block { ptr: range.start(), bytes, tag: 0 })
            }
            _ => Err(Error::state("the range isn't large enough, or was given back")),
        }
    }

    unsafe fn deallocate(&self, _: Block, stream: &Stream) -> Result<()> {
        let range = self.range.lock().take();
        let home = Some(stream).filter(|_| !self.is_marked.load(Ordering::Acquire));
        range.map_or(Ok(()), |range| range.close(home))
    }

    fn deallocate_waits(&self) -> bool {
        true
    }

    fn memory_kind(&self) -> ObjectKind {
        ObjectKind::MappedMemory
    }

    fn residence(&self) -> Residence {
        residence(&self.spec)
    }
}

impl<T: Pod> VirtualBuffer<T> {
    /// Makes a buffer of `len` elements of no particular content. No elements need no memory, and no call.
    ///
    /// Calls `cuMemAddressReserve`, `cuMemCreate`, `cuMemMap`, `cuMemSetAccess`; where they are undone `cuMemUnmap`,
    /// `cuMemRelease`, `cuMemAddressFree`.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): too many elements; a stream of another driver, of a
    ///   device without access, or borrowed without an owner;
    /// - the calls' failures, with how many parts were mapped before; nothing is left.
    #[doc(alias = "cuMemCreate")]
    pub fn uninit(memory: &VirtualMemory, stream: &Stream, len: usize) -> Result<Self> {
        Self::make(memory, stream, len, |whole| Buffer::uninit_in(whole, stream, len))
    }

    /// Makes a buffer of `len` elements whose bytes are zero.
    ///
    /// Calls as [`uninit`](Self::uninit), and `cuMemsetD8Async`; for an exposed stream also `cuStreamIsCapturing`; where the
    /// fill fails also `cuEventCreate`, `cuEventRecord`, `cuEventSynchronize`, `cuEventDestroy`.
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit), and the fill's failure; nothing is left.
    pub fn zeroed(memory: &VirtualMemory, stream: &Stream, len: usize) -> Result<Self> {
        Self::make(memory, stream, len, |whole| Buffer::zeroed_in(whole, stream, len))
    }

    /// Makes a buffer with a copy of these elements, and waits until they are there.
    ///
    /// Calls as [`uninit`](Self::uninit), then as [`Buffer::write_slice`].
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit) and [`Buffer::write_slice`]; nothing is left.
    pub fn from_slice(memory: &VirtualMemory, stream: &Stream, src: &[T]) -> Result<Self> {
        Self::make(memory, stream, src.len(), |whole| Buffer::from_slice_in(whole, stream, src))
    }

    fn make(
        memory: &VirtualMemory,
        stream: &Stream,
        len: usize,
        fill: impl FnOnce(&Arc<Whole>) -> Result<Buffer<T>>,
    ) -> Result<Self> {
        let (bytes, spec) = (layout::bytes_of::<T>(len)?, &memory.spec);
        spec.check_stream(stream)?;
        let range = if bytes == 0 { None } else { Some(Range::new(spec, bytes)?) };
        Self::over(spec, range, fill)
    }

    /// The buffer of a range. Where it can't be made, the range ends.
    pub(super) fn over(
        spec: &Arc<Spec>,
        range: Option<Range>,
        fill: impl FnOnce(&Arc<Whole>) -> Result<Buffer<T>>,
    ) -> Result<Self> {
        let (range, is_marked) = (Mutex::new(range), AtomicBool::new(false));
        let whole = Arc::new(Whole { spec: Arc::clone(spec), range, is_marked });
        match fill(&whole) {
            Ok(buffer) => Ok(Self::of(buffer, whole)),
            Err(error) => {
                let range = whole.range.lock().take();
                Err(match range.map(|range| range.close(None)) {
                    None | Some(Ok(())) => error,
                    Some(Err(undo)) => error.with_undo(&undo),
                })
            }
        }
    }

    fn of(buffer: Buffer<T>, whole: Arc<Whole>) -> Self {
        Self { buffer: ManuallyDrop::new(buffer), whole: ManuallyDrop::new(whole) }
    }

    fn into_parts(self) -> (Buffer<T>, Arc<Whole>) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: the value is neither used nor dropped afterwards.
        let buffer = unsafe { ManuallyDrop::take(&mut this.buffer) };
        // SAFETY: as above.
        (buffer, unsafe { ManuallyDrop::take(&mut this.whole) })
    }

    /// Marks what the home stream has queued by now: the range is unmapped later, on the reclaimer, when the stream may have
    /// been given other work, or may be captured. Not where others keep the memory, who may still queue work on it, nor on
    /// a default stream, beside which others may capture now as well as later.
    fn mark_home(&self) {
        let driver = self.driver();
        let is_callable = driver.check_callable().is_ok() && !driver.is_lost();
        let is_late = self.buffer.is_kept() || mutant::is_out("virtual-mark");
        if !is_callable || is_late || self.stream().is_token() {
            return;
        }
        let Some(range) = self.range() else { return };
        let kind = ObjectKind::MappedMemory;
        let object = Object { kind, raw: range.start(), id: driver.next_id() };
        if let Some(mark) = Users::mark_of(self.stream(), object) {
            range.used_until(self.stream(), &mark);
            self.whole.is_marked.store(true, Ordering::Release);
        }
    }

    /// A buffer of `len` elements that begins with the memory of this one, on the same home stream. This one stays as it
    /// is, and usable; so does all work on it. The elements behind its own have no particular content.
    ///
    /// Calls nothing where `len` elements are mapped already; else `cuMemCreate`, `cuMemMap`, `cuMemSetAccess`, where the
    /// addresses behind aren't this buffer's also `cuMemAddressReserve`; where that gives others `cuMemAddressFree`; where
    /// it is undone also `cuMemUnmap` and `cuMemRelease`.
    ///
    /// Where the driver refuses the addresses behind, and the growth comes about elsewhere, a warning tells.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): fewer elements than this one has, or too many;
    /// - the calls' failures, with how many parts were mapped before, and the refusal of the addresses behind as a note.
    ///   Nothing that is new is left.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{VirtualBuffer, VirtualMemory, VirtualMemoryOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// // Addresses for 64 MiB: up to there a growth stays in place.
    /// let options = VirtualMemoryOptions::default().reserve_bytes(64 << 20);
    /// let memory = VirtualMemory::new(&device, options)?;
    /// let mut buffer = VirtualBuffer::<u8>::zeroed(&memory, &stream, 1 << 20)?;
    /// let address = buffer.device_ptr();
    /// buffer = buffer.grow(32 << 20)?;
    /// assert_eq!(buffer.device_ptr(), address);
    /// buffer = buffer.grow(128 << 20)?;
    /// assert_ne!(buffer.device_ptr(), address);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemMap")]
    pub fn grow(&self, len: usize) -> Result<Self> {
        let bytes = layout::bytes_of::<T>(len)?;
        if len < self.len() {
            return Err(Error::argument(format!(
                "len: {len}, and the buffer has {} elements: `shrink` makes it smaller",
                self.len()
            )));
        }
        let (spec, base) = (&self.whole.spec, self.range());
        let range = match base {
            _ if bytes == 0 => None,
            None => Some(Range::new(spec, bytes)?),
            Some(base) => Some(base.grown(spec, bytes)?),
        };
        Self::over(spec, range, |whole| Buffer::uninit_in(whole, self.stream(), len))
    }

    /// A buffer of the first `len` elements of this one. What else this one has is unmapped with it, in whole parts
    /// ([`part_bytes`](super::VirtualMemoryOptions::part_bytes)).
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for more elements than this one has.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{VirtualBuffer, VirtualMemory, VirtualMemoryOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let options = VirtualMemoryOptions::default().part_bytes(2 << 20);
    /// let memory = VirtualMemory::new(&device, options)?;
    /// let large = VirtualBuffer::<u8>::zeroed(&memory, &stream, 8 << 20)?;
    /// let small = large.shrink(3 << 20)?;
    /// assert_eq!((large.mapped_bytes(), small.mapped_bytes()), (8 << 20, 4 << 20));
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn shrink(&self, len: usize) -> Result<Self> {
        if len > self.len() {
            return Err(Error::argument(format!(
                "len: {len}, and the buffer has {} elements: `grow` makes it larger",
                self.len()
            )));
        }
        let bytes = layout::bytes_of::<T>(len)?;
        let range = self.range().filter(|_| bytes > 0).map(|range| range.shrunk(bytes));
        Self::over(&self.whole.spec, range, |whole| Buffer::uninit_in(whole, self.stream(), len))
    }

    /// The range as it is now: it is there as long as the buffer.
    pub(super) fn range(&self) -> Option<Range> {
        self.whole.range.lock().clone()
    }

    pub(super) fn spec(&self) -> &Arc<Spec> {
        &self.whole.spec
    }

    /// How many elements it holds.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether it holds none.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// What its elements need, in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.buffer.size_bytes()
    }

    /// What is mapped for them, in bytes: a multiple of the granularity.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn mapped_bytes(&self) -> usize {
        self.whole.range.lock().as_ref().map_or(0, Range::mapped_bytes)
    }

    /// How many bytes of addresses are reserved for it, and for the buffers that it shares them with.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn reserved_bytes(&self) -> usize {
        self.whole.range.lock().as_ref().map_or(0, Range::reserved_bytes)
    }

    /// Of how many physical allocations it is made.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.whole.range.lock().as_ref().map_or(0, |range| range.parts().len())
    }

    /// Its address on the device; 0 where it has no bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn device_ptr(&self) -> u64 {
        self.buffer.device_ptr()
    }

    /// The home stream.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.buffer.stream()
    }

    /// The driver.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.buffer.driver()
    }

    /// The same as a buffer.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_buffer(&self) -> &Buffer<T> {
        &self.buffer
    }

    /// The same as a buffer that doesn't grow.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn into_buffer(self) -> Buffer<T> {
        self.into_parts().0
    }

    /// All of it, for reading.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_view(&self) -> BufferView<'_, T> {
        self.buffer.as_view()
    }

    /// All of it, for reading and writing.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_view_mut(&mut self) -> BufferViewMut<'_, T> {
        self.buffer.as_view_mut()
    }

    /// A range of it, for reading.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`Buffer::view`].
    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<BufferView<'_, T>> {
        self.buffer.view(range)
    }

    /// A range of it, for reading and writing.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`Buffer::view_mut`].
    pub fn view_mut(&mut self, range: impl RangeBounds<usize>) -> Result<BufferViewMut<'_, T>> {
        self.buffer.view_mut(range)
    }

    /// Copies the elements to the host and waits until they are there.
    ///
    /// Calls as [`Buffer::to_vec`].
    ///
    /// # Errors
    /// As [`Buffer::to_vec`].
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.buffer.to_vec()
    }

    /// Makes another stream the home of this buffer, in order behind what is queued on it by now. Buffers that share its
    /// memory keep theirs.
    ///
    /// Calls `cuEventCreate`, `cuEventRecord`, `cuStreamWaitEvent`, `cuEventDestroy`; for exposed streams
    /// `cuStreamIsCapturing`; nothing for the stream that is the home already.
    ///
    /// # Errors
    /// As [`Buffer::move_to`].
    pub fn move_to(&mut self, stream: &Stream) -> Result<()> {
        self.buffer.move_to(stream)
    }

    /// Tells that work which was queued on this stream uses the memory, so that its end waits for that work. To be called
    /// after the work was queued; not needed for the home stream.
    ///
    /// Calls nothing for a stream that this library can ask later; for a per-thread default stream `cuEventCreate` and
    /// `cuEventRecord`; `cuEventDestroy` where that failed.
    ///
    /// # Errors
    /// A stream of another driver; the calls' failures, after which the memory stays mapped for good.
    pub fn used_on(&self, stream: &impl AsStream) -> Result<()> {
        self.used_by(stream.as_stream())
    }

    fn used_by(&self, stream: StreamRef<'_>) -> Result<()> {
        self.driver().check_same(stream.driver(), "stream")?;
        let range = self.whole.range.lock();
        let Some(range) = &*range else { return Ok(()) };
        range.for_each(|part| part.used_by(stream))
    }

    /// Unmaps the memory here and now, once the work that uses it is done. What other buffers hold as well stays.
    ///
    /// Calls `cuMemUnmap`, `cuMemRelease`, `cuMemAddressFree`, and before them `cuEventCreate`, `cuEventRecord`,
    /// `cuEventSynchronize`, `cuEventDestroy`; for an exposed stream also `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// [`Refused`] with the first failure and the others, after which the rest was ended all the same: where work can't be
    /// waited for, what it uses stays mapped for good, and notes name the addresses; with the buffer
    /// where nothing was touched: inside a callback, in a forked child, while somebody captures the home stream.
    #[doc(alias = "cuMemUnmap")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        let ready = self.driver().check_callable().and_then(|()| refuse_captured(self.stream()));
        if let Err(error) = ready {
            return Err(Refused::new(error, Some(self)));
        }
        let (buffer, whole) = self.into_parts();
        buffer.close().map_err(|Refused { error, value, .. }| {
            Refused::new(error, value.map(|buffer| Self::of(buffer, whole)))
        })
    }
}

impl<T: Pod> Drop for VirtualBuffer<T> {
    fn drop(&mut self) {
        self.mark_home();
        // SAFETY: this is the drop.
        unsafe { ManuallyDrop::drop(&mut self.buffer) };
        // SAFETY: as above.
        unsafe { ManuallyDrop::drop(&mut self.whole) };
    }
}

impl<'a, T: Pod> From<&'a VirtualBuffer<T>> for BufferView<'a, T> {
    fn from(buffer: &'a VirtualBuffer<T>) -> Self {
        buffer.as_view()
    }
}

macro_rules! arguments {
    ($($argument:ty),+ $(,)?) => { $(
        // SAFETY: a pointer parameter is a 64-bit address.
        unsafe impl<T: Pod> KernelArg for $argument {
            type Repr = u64;

            fn repr(&self, driver: &Driver) -> Result<u64> {
                driver.check_same(self.driver(), "args: a buffer")?;
                Ok(self.device_ptr())
            }

            fn used_on(&self, stream: StreamRef<'_>) -> Result<()> {
                self.used_by(stream)
            }
        }
    )+ };
}

arguments! { &VirtualBuffer<T>, &mut VirtualBuffer<T> }

impl<T: Pod> fmt::Debug for VirtualBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "virtual {:?}, {} bytes mapped", *self.buffer, self.mapped_bytes())
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<VirtualBuffer<f32>>();
};
