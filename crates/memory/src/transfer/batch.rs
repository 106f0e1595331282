//! Several copies in one driver call, and what is said of a copy beyond its ends.
//!
//! | driver | several copies | one with options |
//! |---|---|---|
//! | 13.2 | one call | `cuMemcpyWithAttributesAsync` |
//! | 12.8 | one call | a batch of one |
//! | older | one after the other, without the options | a plain copy |
//!
//! Options are hints but for one: that the source is read before the call returns. Where the driver can't promise that, it
//! is refused.
//!
//! Source: CUDA Driver API 13.x, "Memory Management", `cuMemcpyBatchAsync`, `cuMemcpyWithAttributesAsync`.

#![expect(unsafe_code, reason = "calls the driver's copies")]

use super::Span;
use crate::{
    buffer::{BufferView, BufferViewMut},
    layout,
    location::Location,
    order::{self, Minds, same_stream},
};
use bytemuck::Pod;
use cuhold_handles::{
    Error, ErrorKind, Result, Stream,
    driver_sys::{Calls, Failure, ffi::*, mutant},
};
use std::{fmt, marker::PhantomData};

/// When a copy may read its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[non_exhaustive]
pub enum SourceOrder {
    /// In the stream's order.
    #[default]
    Stream,
    /// Before the call returns: the caller may write or free the source then, whatever the stream is at.
    DuringCall,
    /// At any time, also before work that is queued earlier: nothing that is queued writes it.
    Any,
}

impl SourceOrder {
    fn raw(self) -> CUmemcpySrcAccessOrder {
        match self {
            Self::Stream => CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
            Self::DuringCall => CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
            Self::Any => CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_ANY,
        }
    }
}

/// What is said of a copy beyond its ends. The default says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[non_exhaustive]
pub struct CopyOptions {
    /// When the source may be read.
    pub source_order: SourceOrder,
    /// Where the source is, for memory that may be in several places.
    pub source_hint: Option<Location>,
    /// Where the destination is, for memory that may be in several places.
    pub destination_hint: Option<Location>,
    /// Whether the copy should leave the multiprocessors to kernels, if need be at some speed.
    pub overlaps_compute: bool,
}

impl CopyOptions {
    /// With a source that may be read then.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn source_order(mut self, order: SourceOrder) -> Self {
        self.source_order = order;
        self
    }

    /// With a source that is there.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn source_hint(mut self, location: Location) -> Self {
        self.source_hint = Some(location);
        self
    }

    /// With a destination that is there.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn destination_hint(mut self, location: Location) -> Self {
        self.destination_hint = Some(location);
        self
    }

    /// Leaving the multiprocessors to kernels.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn overlapping_compute(mut self) -> Self {
        self.overlaps_compute = true;
        self
    }

    fn raw(self) -> CUmemcpyAttributes {
        let hint = |location: Option<Location>| location.map(Location::raw).unwrap_or_default();
        let flags = if self.overlaps_compute {
            CUmemcpyFlags::CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE
        } else {
            CUmemcpyFlags::CU_MEMCPY_FLAG_DEFAULT
        };
        CUmemcpyAttributes {
            srcAccessOrder: self.source_order.raw(),
            srcLocHint: hint(self.source_hint),
            dstLocHint: hint(self.destination_hint),
            flags: flags.0,
        }
    }

    /// Refuses to go on without them where that would break what they promise.
    fn check_dispensable(self) -> Result<()> {
        if self.source_order != SourceOrder::DuringCall || mutant::is_out("source-order") {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Missing,
            "options: this driver can't promise that the source is read during the call; a driver since 12.8 can",
        ))
    }

    fn check_stream(self, stream: &Stream) -> Result<()> {
        if self == Self::default() || !stream.is_token() {
            return Ok(());
        }
        Err(Error::argument("options: the driver takes none on a default stream"))
    }
}

/// Raw copies, side by side, as the driver takes them.
#[derive(Debug, Default)]
struct Copies {
    to: Vec<CUdeviceptr>,
    from: Vec<CUdeviceptr>,
    bytes: Vec<usize>,
    /// Each run of equal options, and the copy with which it begins.
    options: Vec<CopyOptions>,
    begins: Vec<usize>,
}

impl Copies {
    fn push(&mut self, dst: u64, src: u64, bytes: usize, options: CopyOptions) {
        if self.options.last() != Some(&options) {
            self.options.push(options);
            self.begins.push(self.to.len());
        }
        self.to.push(dst);
        self.from.push(src);
        self.bytes.push(bytes);
    }

    /// Queues all of them in one call. `Ok(false)`: the driver has no such function.
    fn queue_at_once(&self, stream: &Stream) -> Result<bool> {
        let attributes: Vec<CUmemcpyAttributes> =
            self.options.iter().map(|options| options.raw()).collect();
        let queued = order::enqueue(stream, Minds::Context, |calls: Calls<'_>| {
            match self.call(calls, &attributes, stream) {
                Err(Failure { status: CUresult::MISSING, .. }) => {
                    self.call_12_8(calls, &attributes, stream)
                }
                answer => answer,
            }
        });
        match queued {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Missing && error.notes().is_empty() => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    // The arrays are only read, although C's signature doesn't say so.

    fn call(
        &self,
        calls: Calls<'_>,
        attributes: &[CUmemcpyAttributes],
        stream: &Stream,
    ) -> Result<(), Failure> {
        // SAFETY: *pointers*: arrays as long as said; the memory is the promise of whoever pushed it; *handles*: the stream
        // is borrowed.
        unsafe {
            calls.cuMemcpyBatchAsync_v2(
                self.to.as_ptr().cast_mut(),
                self.from.as_ptr().cast_mut(),
                self.bytes.as_ptr().cast_mut(),
                self.to.len(),
                attributes.as_ptr().cast_mut(),
                self.begins.as_ptr().cast_mut(),
                attributes.len(),
                stream.raw(),
            )
        }
    }

    fn call_12_8(
        &self,
        calls: Calls<'_>,
        attributes: &[CUmemcpyAttributes],
        stream: &Stream,
    ) -> Result<(), Failure> {
        let mut failed = usize::MAX;
        // SAFETY: as above; a live local.
        unsafe {
            calls.cuMemcpyBatchAsync(
                self.to.as_ptr().cast_mut(),
                self.from.as_ptr().cast_mut(),
                self.bytes.as_ptr().cast_mut(),
                self.to.len(),
                attributes.as_ptr().cast_mut(),
                self.begins.as_ptr().cast_mut(),
                attributes.len(),
                &raw mut failed,
                stream.raw(),
            )
        }
    }

    /// Queues them one after the other.
    fn queue_each(&self, stream: &Stream) -> Result<()> {
        let ends = self.to.iter().zip(&self.from).zip(&self.bytes);
        for (index, ((to, from), bytes)) in ends.enumerate() {
            let copy = |calls: Calls<'_>| {
                // SAFETY: as above.
                unsafe { calls.cuMemcpyAsync(*to, *from, *bytes, stream.raw()) }
            };
            order::enqueue(stream, Minds::Device, copy).map_err(|error| {
                let done = u32::try_from(index).unwrap_or(u32::MAX);
                let all = done.saturating_add(error.completed().unwrap_or(0));
                if all == 0 { error } else { error.with_completed(all) }
            })?;
        }
        Ok(())
    }

    fn queue(&self, stream: &Stream) -> Result<()> {
        if self.to.is_empty() {
            return Ok(());
        }
        self.options.iter().try_for_each(|options| options.check_stream(stream))?;
        if !stream.is_token() && self.queue_at_once(stream)? {
            return Ok(());
        }
        self.options.iter().try_for_each(|options| options.check_dispensable())?;
        self.queue_each(stream)
    }
}

/// Queues a copy between two ranges of the same size and home, with options.
pub(crate) fn copy_with(dst: Span<'_>, src: Span<'_>, options: CopyOptions) -> Result<()> {
    if options == CopyOptions::default() || dst.bytes == 0 {
        return super::copy(dst, src);
    }
    options.check_stream(dst.home)?;
    let attributes = options.raw();
    let queued = order::enqueue(dst.home, Minds::Context, |calls: Calls<'_>| {
        let mut attributes = attributes;
        let (to, from, stream) = (dst.ptr, src.ptr, dst.home.raw());
        // SAFETY: *pointers*: both ranges lie within live buffers of this stream, and are as large; a live local;
        // *handles*: the stream is borrowed.
        unsafe {
            calls.cuMemcpyWithAttributesAsync(to, from, dst.bytes, &raw mut attributes, stream)
        }
    });
    match queued {
        Err(error) if error.kind() == ErrorKind::Missing && error.notes().is_empty() => {
            let mut one = Copies::default();
            one.push(dst.ptr, src.ptr, dst.bytes, options);
            if one.queue_at_once(dst.home)? {
                return Ok(());
            }
            options.check_dispensable()?;
            super::copy(dst, src)
        }
        answer => answer,
    }
}

/// Copies that are queued together, on the home stream that all their ends have. In what order they are made among
/// themselves isn't said; all of them come after what was queued before, and before what is queued later.
///
/// # Examples
/// ```
/// # use cuhold_memory::{Buffer, CopyBatch, handles::{Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// # let stream = device.new_stream()?;
/// let pieces = [Buffer::from_slice(&stream, &[1, 2])?, Buffer::from_slice(&stream, &[3, 4])?];
/// let mut whole = Buffer::<i32>::uninit(&stream, 4)?;
/// let (left, right) = whole.split_at_mut(2)?;
/// let mut batch = CopyBatch::new();
/// batch.push(left, &pieces[0])?;
/// batch.push(right, &pieces[1])?;
/// batch.queue()?;
/// assert_eq!(whole.to_vec()?, [1, 2, 3, 4]);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[derive(Default)]
#[must_use = "nothing is copied before it is queued"]
pub struct CopyBatch<'a> {
    home: Option<&'a Stream>,
    copies: Copies,
    views: PhantomData<&'a mut [u8]>,
}

impl<'a> CopyBatch<'a> {
    /// Without copies.
    ///
    /// Calls nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many copies it has; those of no bytes don't count.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn len(&self) -> usize {
        self.copies.to.len()
    }

    /// Whether it has none.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.copies.to.is_empty()
    }

    /// Adds a copy between device memory of the same length.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`]: ends of different length, driver or home stream, or
    /// of another one than the copies before.
    pub fn push<T: Pod>(
        &mut self,
        dst: BufferViewMut<'a, T>,
        src: impl Into<BufferView<'a, T>>,
    ) -> Result<()> {
        self.push_with(dst, src, CopyOptions::default())
    }

    /// As [`push`](Self::push), with options.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    #[expect(clippy::needless_pass_by_value, reason = "borrowed by the batch from here on")]
    pub fn push_with<T: Pod>(
        &mut self,
        dst: BufferViewMut<'a, T>,
        src: impl Into<BufferView<'a, T>>,
        options: CopyOptions,
    ) -> Result<()> {
        let (to, from) = (dst.span(), src.into());
        to.home.driver().check_same(from.driver(), "src")?;
        layout::same_len("src", from.len(), dst.len())?;
        let from = from.span();
        if !same_stream(to.home, from.home) {
            return Err(super::other_home());
        }
        self.join(to.home)?;
        if to.bytes > 0 {
            self.copies.push(to.ptr, from.ptr, to.bytes, options);
        }
        Ok(())
    }

    /// Adds a copy between any memory that the driver reaches, on this stream.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    ///
    /// # Safety
    /// Both lead to so many bytes, which nobody uses in conflict from when the batch is queued until the copy is done: the
    /// source as long as the options say.
    pub unsafe fn push_raw(
        &mut self,
        stream: &'a Stream,
        ends: [u64; 2],
        bytes: usize,
        options: CopyOptions,
    ) -> Result<()> {
        self.join(stream)?;
        let [dst, src] = ends;
        if bytes > 0 {
            self.copies.push(dst, src, bytes, options);
        }
        Ok(())
    }

    fn join(&mut self, stream: &'a Stream) -> Result<()> {
        let home = *self.home.get_or_insert(stream);
        home.driver().check_same(stream.driver(), "dst")?;
        if same_stream(home, stream) {
            return Ok(());
        }
        Err(Error::argument("dst: its home stream is another one than that of the copies before"))
    }

    /// Queues the copies.
    ///
    /// Calls `cuMemcpyBatchAsync`, in the stream's context; on a default stream, and where the driver lacks that,
    /// `cuMemcpyAsync` for each; for an exposed stream also `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// - [`ErrorKind::State`]: somebody captures the stream;
    /// - [`ErrorKind::Argument`]: options on a default stream;
    /// - [`ErrorKind::Missing`]: a source that is to be read during the call, where the
    ///   driver can't promise that;
    /// - the calls' failures, after which some of the copies may be queued; where they are queued one after the other,
    ///   [`completed`](Error::completed) says how many were.
    #[doc(alias = "cuMemcpyBatchAsync")]
    pub fn queue(self) -> Result<()> {
        self.home.map_or(Ok(()), |home| self.copies.queue(home))
    }
}

impl fmt::Debug for CopyBatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} copies on {:?}", self.len(), self.home)
    }
}
