//! Hints for managed memory: where its pages should be, how they are used, that their content isn't needed.
//!
//! The driver moves the pages by itself all the same; hints save it from finding out by faults. Other memory takes none.
//!
//! | driver | prefetch | prefetch a batch | discard |
//! |---|---|---|---|
//! | 13.0 | one call | one call | one call |
//! | 12.2 | one call | one after the other | refused |
//! | older | one call, devices and the host alone | one after the other | refused |
//!
//! Source: CUDA Driver API 13.x, "Unified Addressing".

#![expect(unsafe_code, reason = "calls the driver's functions for managed memory")]

use super::{BufferView, BufferViewMut};
use crate::{
    location::Location,
    order::{self, Minds, same_stream},
    transfer::Span,
};
use bytemuck::Pod;
use cuhold_handles::{
    Error, ErrorKind, Note, Result, Stream,
    driver_sys::{Calls, Failure, ffi::*},
    scope,
};

/// How managed memory is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Advice {
    /// Mostly read: each place that reads it may have a copy.
    ReadMostly,
    /// Not mostly read any more.
    NotReadMostly,
    /// Best kept there.
    Prefer(Location),
    /// Best kept nowhere in particular any more.
    PreferNowhere,
    /// Accessed from there, so that its pages are mapped there wherever they are.
    AccessedBy(Location),
    /// Not accessed from there any more.
    NotAccessedBy(Location),
}

impl Advice {
    fn raw(self) -> (CUmem_advise, Location) {
        match self {
            // What place is given with these doesn't matter.
            Self::ReadMostly => (CUmem_advise::CU_MEM_ADVISE_SET_READ_MOSTLY, Location::Host),
            Self::NotReadMostly => (CUmem_advise::CU_MEM_ADVISE_UNSET_READ_MOSTLY, Location::Host),
            Self::Prefer(to) => (CUmem_advise::CU_MEM_ADVISE_SET_PREFERRED_LOCATION, to),
            Self::PreferNowhere => {
                (CUmem_advise::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, Location::Host)
            }
            Self::AccessedBy(from) => (CUmem_advise::CU_MEM_ADVISE_SET_ACCESSED_BY, from),
            Self::NotAccessedBy(from) => (CUmem_advise::CU_MEM_ADVISE_UNSET_ACCESSED_BY, from),
        }
    }
}

impl<T: Pod> BufferView<'_, T> {
    /// Queues moving the pages there, of managed memory.
    ///
    /// Calls `cuMemPrefetchAsync`; for an exposed stream also `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// - [`ErrorKind::State`]: somebody captures the home stream;
    /// - [`ErrorKind::Missing`]: a NUMA node, where the driver is older than 12.2;
    /// - the call's failure: `INVALID_VALUE` where the memory isn't managed.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, Location, handles::{Attach, Device, Driver, ManagedMemory}};
    /// # use std::sync::Arc;
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let memory = ManagedMemory::new(device.context(), 4096, Attach::Global)?;
    /// let (ptr, owner) = (memory.as_raw(), Arc::new(memory));
    /// // SAFETY: the owner keeps the memory alive, and nothing else uses it.
    /// let mut buffer = unsafe { Buffer::<f32>::borrow_raw(&stream, ptr, 1024, Some(owner))? };
    /// buffer.fill(1.0)?;
    /// buffer.as_view().prefetch(Location::Host)?;
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemPrefetchAsync")]
    pub fn prefetch(&self, to: Location) -> Result<()> {
        prefetch(self.span(), to)
    }

    /// Says how the memory is used from now on, of managed memory. Not in the stream's order: it holds at once.
    ///
    /// Calls `cuMemAdvise`, in relaxed capture mode and in the home stream's context.
    ///
    /// # Errors
    /// [`ErrorKind::Missing`]: a NUMA node, where the driver is older than 12.2; the
    /// call's failure: `INVALID_VALUE` where the memory isn't managed.
    #[doc(alias = "cuMemAdvise")]
    pub fn advise(&self, advice: Advice) -> Result<()> {
        let span = self.span();
        if span.bytes == 0 {
            return Ok(());
        }
        let driver = span.home.driver();
        driver.check_callable()?;
        let (advice, location) = advice.raw();
        let tell = || {
            scope::run(span.home.context().target(), |calls| advise(calls, span, advice, location))
        };
        scope::neutral(driver, tell, |(), error| error.with_completed(1)).map_err(explained)
    }
}

impl<T: Pod> BufferViewMut<'_, T> {
    /// Queues forgetting the content, of managed memory: it needs not be moved until it is written again, and has no
    /// particular content till then.
    ///
    /// Calls `cuMemDiscardBatchAsync`, in the home stream's context; for an exposed stream also `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`]: a default stream, which the driver doesn't take;
    /// - [`ErrorKind::State`]: somebody captures the home stream;
    /// - [`ErrorKind::Missing`]: a driver older than 13.0;
    /// - the call's failure: `INVALID_VALUE` where the memory isn't managed.
    #[doc(alias = "cuMemDiscardBatchAsync")]
    pub fn discard(&mut self) -> Result<()> {
        discard_all(&[self.span()])
    }

    /// Queues forgetting the content and moving the pages there, of managed memory: as pages without content are moved,
    /// which costs nothing.
    ///
    /// Calls `cuMemDiscardAndPrefetchBatchAsync`, in the home stream's context; for an exposed stream also
    /// `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// As [`discard`](Self::discard).
    #[doc(alias = "cuMemDiscardAndPrefetchBatchAsync")]
    pub fn discard_and_prefetch(&mut self, to: Location) -> Result<()> {
        Batch::of([(self.span(), to)])?.discard_and_prefetch()
    }
}

/// Queues moving the pages of several ranges, each to its place, of managed memory. All have the same home stream.
///
/// Calls `cuMemPrefetchBatchAsync`, in the stream's context; on a default stream, and where the driver is older than 13.0,
/// `cuMemPrefetchAsync` for each; for an exposed stream also `cuStreamIsCapturing`.
///
/// # Errors
/// - [`ErrorKind::Argument`]: ranges of different home streams;
/// - as [`BufferView::prefetch`]; where they are queued one after the other, [`completed`](Error::completed) says how many
///   were.
///
/// # Examples
/// ```
/// # use cuhold_memory::{BufferView, prefetch_batch};
/// prefetch_batch::<u8>(&[])?;
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[doc(alias = "cuMemPrefetchBatchAsync")]
pub fn prefetch_batch<T: Pod>(parts: &[(BufferView<'_, T>, Location)]) -> Result<()> {
    Batch::of(parts.iter().map(|(view, to)| (view.span(), *to)))?.prefetch()
}

/// Queues forgetting the content of several ranges, of managed memory. All have the same home stream.
///
/// Calls `cuMemDiscardBatchAsync`, in the stream's context; for an exposed stream also `cuStreamIsCapturing`.
///
/// # Errors
/// As [`BufferViewMut::discard`]; [`ErrorKind::Argument`] for ranges of different home
/// streams.
#[doc(alias = "cuMemDiscardBatchAsync")]
pub fn discard_batch<T: Pod>(parts: &mut [BufferViewMut<'_, T>]) -> Result<()> {
    let spans: Vec<Span<'_>> = parts.iter().map(BufferViewMut::span).collect();
    discard_all(&spans)
}

/// Queues forgetting the content of several ranges and moving their pages, each to its place, of managed memory. All have
/// the same home stream.
///
/// Calls `cuMemDiscardAndPrefetchBatchAsync`, in the stream's context; for an exposed stream also `cuStreamIsCapturing`.
///
/// # Errors
/// As [`discard_batch`].
#[doc(alias = "cuMemDiscardAndPrefetchBatchAsync")]
pub fn discard_and_prefetch_batch<T: Pod>(
    parts: &mut [(BufferViewMut<'_, T>, Location)],
) -> Result<()> {
    Batch::of(parts.iter().map(|(view, to)| (view.span(), *to)))?.discard_and_prefetch()
}

fn prefetch(span: Span<'_>, to: Location) -> Result<()> {
    if span.bytes == 0 {
        return Ok(());
    }
    order::enqueue(span.home, Minds::Nothing, |calls: Calls<'_>| {
        let stream = span.home.raw();
        // SAFETY: *pointers*: the span lies within a live buffer of this stream; *handles*: the stream is borrowed.
        let newer =
            unsafe { calls.cuMemPrefetchAsync_v2(span.ptr, span.bytes, to.raw(), 0, stream) };
        match (newer, to.as_device()) {
            (Err(Failure { status: CUresult::MISSING, .. }), Some(device)) => {
                // SAFETY: as above.
                unsafe { calls.cuMemPrefetchAsync(span.ptr, span.bytes, device, stream) }
            }
            (answer, _) => answer,
        }
    })
    .map_err(explained)
}

fn advise(
    calls: Calls<'_>,
    span: Span<'_>,
    advice: CUmem_advise,
    location: Location,
) -> Result<(), Failure> {
    // SAFETY: *pointers*: the span lies within a live buffer.
    let newer = unsafe { calls.cuMemAdvise_v2(span.ptr, span.bytes, advice, location.raw()) };
    match (newer, location.as_device()) {
        (Err(Failure { status: CUresult::MISSING, .. }), Some(device)) => {
            // SAFETY: as above.
            unsafe { calls.cuMemAdvise(span.ptr, span.bytes, advice, device) }
        }
        (answer, _) => answer,
    }
}

/// Says of a refusal what it mostly means.
#[cold]
fn explained(error: Error) -> Error {
    if error.is(CUresult::INVALID_VALUE) {
        return error.with_note(Note::Text("only managed memory takes hints".into()));
    }
    error
}

fn discard_all(spans: &[Span<'_>]) -> Result<()> {
    Batch::of(spans.iter().map(|span| (*span, Location::Host)))?.discard()
}

/// Ranges of one home, side by side, as the driver takes them.
#[derive(Default)]
struct Batch<'a> {
    home: Option<&'a Stream>,
    addresses: Vec<CUdeviceptr>,
    bytes: Vec<usize>,
    /// Each run of equal places, and the range with which it begins.
    places: Vec<Location>,
    begins: Vec<usize>,
}

impl<'a> Batch<'a> {
    fn of(parts: impl IntoIterator<Item = (Span<'a>, Location)>) -> Result<Self> {
        let mut batch = Self::default();
        for (span, to) in parts {
            let home = *batch.home.get_or_insert(span.home);
            home.driver().check_same(span.home.driver(), "parts")?;
            if !same_stream(home, span.home) {
                return Err(Error::argument("parts: they have different home streams"));
            }
            if span.bytes == 0 {
                continue;
            }
            if batch.places.last() != Some(&to) {
                batch.places.push(to);
                batch.begins.push(batch.addresses.len());
            }
            batch.addresses.push(span.ptr);
            batch.bytes.push(span.bytes);
        }
        Ok(batch)
    }

    /// The stream, if there is something to do.
    fn stream(&self) -> Option<&'a Stream> {
        self.home.filter(|_| !self.addresses.is_empty())
    }

    /// The same, where there is no way without a stream of its own.
    fn own_stream(&self) -> Result<Option<&'a Stream>> {
        match self.stream() {
            Some(stream) if stream.is_token() => Err(Error::argument(
                "parts: the driver discards on no default stream; `move_to` makes another one the home",
            )),
            stream => Ok(stream),
        }
    }

    fn raw_places(&self) -> Vec<CUmemLocation> {
        self.places.iter().map(|place| place.raw()).collect()
    }

    // The arrays are only read, although C's signature doesn't say so.

    fn prefetch(&self) -> Result<()> {
        let Some(stream) = self.stream() else { return Ok(()) };
        if stream.is_token() {
            return self.prefetch_each(stream);
        }
        let places = self.raw_places();
        let queued = order::enqueue(stream, Minds::Context, |calls: Calls<'_>| {
            // SAFETY: *pointers*: arrays as long as said; the ranges lie within live buffers of this stream; *handles*: the
            // stream is borrowed.
            unsafe {
                calls.cuMemPrefetchBatchAsync(
                    self.addresses.as_ptr().cast_mut(),
                    self.bytes.as_ptr().cast_mut(),
                    self.addresses.len(),
                    places.as_ptr().cast_mut(),
                    self.begins.as_ptr().cast_mut(),
                    places.len(),
                    0,
                    stream.raw(),
                )
            }
        });
        match queued {
            Err(error) if error.kind() == ErrorKind::Missing && error.notes().is_empty() => {
                self.prefetch_each(stream)
            }
            answer => answer.map_err(explained),
        }
    }

    fn prefetch_each(&self, home: &Stream) -> Result<()> {
        let mut places = self.begins.iter().zip(&self.places).peekable();
        let mut place = Location::Host;
        for (index, (ptr, bytes)) in self.addresses.iter().zip(&self.bytes).enumerate() {
            if let Some((_, next)) = places.next_if(|(begin, _)| **begin == index) {
                place = *next;
            }
            let span = Span { home, ptr: *ptr, bytes: *bytes, is_host: false, memory: None };
            prefetch(span, place).map_err(|error| {
                let done = u32::try_from(index).unwrap_or(u32::MAX);
                let all = done.saturating_add(error.completed().unwrap_or(0));
                if all == 0 { error } else { error.with_completed(all) }
            })?;
        }
        Ok(())
    }

    fn discard(&self) -> Result<()> {
        let Some(stream) = self.own_stream()? else { return Ok(()) };
        order::enqueue(stream, Minds::Context, |calls: Calls<'_>| {
            // SAFETY: as for `prefetch`.
            unsafe {
                calls.cuMemDiscardBatchAsync(
                    self.addresses.as_ptr().cast_mut(),
                    self.bytes.as_ptr().cast_mut(),
                    self.addresses.len(),
                    0,
                    stream.raw(),
                )
            }
        })
        .map_err(explained)
    }

    fn discard_and_prefetch(&self) -> Result<()> {
        let Some(stream) = self.own_stream()? else { return Ok(()) };
        let places = self.raw_places();
        order::enqueue(stream, Minds::Context, |calls: Calls<'_>| {
            // SAFETY: as for `prefetch`.
            unsafe {
                calls.cuMemDiscardAndPrefetchBatchAsync(
                    self.addresses.as_ptr().cast_mut(),
                    self.bytes.as_ptr().cast_mut(),
                    self.addresses.len(),
                    places.as_ptr().cast_mut(),
                    self.begins.as_ptr().cast_mut(),
                    places.len(),
                    0,
                    stream.raw(),
                )
            }
        })
        .map_err(explained)
    }
}
