//! Views: a range of a buffer, as one end of a copy, as the target of a fill, as a kernel's argument.

use super::Buffer;
use crate::{
    host::{HostSource, HostTarget},
    layout,
    order::same_stream,
    pending::{self, Pending},
    transfer::{self, Span, blocking},
};
use bytemuck::Pod;
use cuhold_handles::{Driver, Error, Refused, Result, Stream};
use std::{fmt, marker::PhantomData, ops::RangeBounds};

/// A range of a [`Buffer`], for reading.
pub struct BufferView<'a, T: Pod = u8> {
    span: Span<'a>,
    len: usize,
    elements: PhantomData<&'a [T]>,
}

/// A range of a [`Buffer`], for reading and writing.
pub struct BufferViewMut<'a, T: Pod = u8> {
    span: Span<'a>,
    len: usize,
    elements: PhantomData<&'a mut [T]>,
}

impl<T: Pod> Buffer<T> {
    /// All of it, for reading.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn as_view(&self) -> BufferView<'_, T> {
        let span = Span { home: &self.home, ptr: self.device_ptr(), bytes: self.size_bytes() };
        BufferView { span, len: self.len, elements: PhantomData }
    }

    /// All of it, for reading and writing.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn as_view_mut(&mut self) -> BufferViewMut<'_, T> {
        let BufferView { span, len, .. } = self.as_view();
        BufferViewMut { span, len, elements: PhantomData }
    }
}

/// A range within a range.
fn part<'a, T>(
    span: Span<'a>,
    len: usize,
    range: &impl RangeBounds<usize>,
) -> Result<(Span<'a>, usize)> {
    let (start, count) = layout::range_within(range, len)?;
    let bytes = layout::known_bytes::<T>(count);
    let offset = layout::known_bytes::<T>(start) as u64;
    // Of no bytes there is no address.
    let ptr = if bytes == 0 { 0 } else { span.ptr.saturating_add(offset) };
    Ok((Span { ptr, bytes, ..span }, count))
}

macro_rules! common {
    ($view:ident) => {
        impl<'a, T: Pod> $view<'a, T> {
            /// How many elements it shows.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether it shows none.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// Its size in bytes.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn size_bytes(&self) -> usize {
                self.span.bytes
            }

            /// The address of its first element on the device; 0 where it has no bytes.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn device_ptr(&self) -> u64 {
                self.span.ptr
            }

            /// The buffer's home stream.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn stream(&self) -> &'a Stream {
                self.span.home
            }

            /// The driver.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn driver(&self) -> &'a Driver {
                self.span.home.driver()
            }
        }

        impl<T: Pod> fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    "view {:#x} of {} elements on {:?}",
                    self.span.ptr, self.len, self.span.home
                )
            }
        }
    };
}

common!(BufferView);
common!(BufferViewMut);

impl<T: Pod> Clone for BufferView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Pod> Copy for BufferView<'_, T> {}

impl<'a, T: Pod> From<&'a Buffer<T>> for BufferView<'a, T> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        buffer.as_view()
    }
}

impl<'a, T: Pod> From<&'a BufferViewMut<'_, T>> for BufferView<'a, T> {
    fn from(view: &'a BufferViewMut<'_, T>) -> Self {
        view.as_view()
    }
}

impl<'a, T: Pod> BufferView<'a, T> {
    /// A range of it.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a range that isn't within it.
    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<Self> {
        let (span, len) = part::<T>(self.span, self.len, &range)?;
        Ok(Self { span, len, elements: PhantomData })
    }

    /// Copies the elements to the host and waits until they are there, and everything that was queued on the home stream
    /// before.
    ///
    /// The device never writes borrowed memory: the bytes go through page-locked memory of this library, in chunks.
    ///
    /// Calls `cuMemcpyDtoHAsync`, `cuEventRecord`, `cuEventSynchronize`, each once a MiB, in relaxed capture mode; for an
    /// exposed stream also `cuStreamIsCapturing`; until there is staging memory enough `cuEventCreate`,
    /// `cuMemHostAlloc`; after a failure `cuStreamSynchronize`.
    ///
    /// # Errors
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures the home stream;
    /// - the calls' failures, which may be those of earlier work; [`completed`](Error::completed) says how many chunks
    ///   were queued.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut vec = bytemuck::zeroed_vec(self.len);
        self.read_into(&mut vec)?;
        Ok(vec)
    }

    /// Copies the elements into a slice of the same length, and waits until they are there.
    ///
    /// Calls as [`to_vec`](Self::to_vec).
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec), after which the slice may hold a part of the elements;
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a slice of another length.
    pub fn read_into(&self, dst: &mut [T]) -> Result<()> {
        layout::same_len("dst", dst.len(), self.len)?;
        blocking::download(self.span, dst)
    }

    /// Queues a copy of the elements into host memory that the copy owns while it is under way.
    ///
    /// With a [`HostBuffer`](crate::HostBuffer) it returns at once; with memory that isn't page-locked the driver may
    /// wait for the stream.
    ///
    /// Calls `cuEventCreate`, `cuMemcpyDtoHAsync`, `cuEventRecord`; for an exposed stream also `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// [`Refused`], with what waits for the memory and gives it back:
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): `dst` has another length;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures the home stream;
    /// - the calls' failures. A copy that failed may have been queued all the same.
    pub fn read_to<D: HostTarget<T>>(&self, dst: D) -> Result<Pending<D>, Refused<Pending<D>>> {
        pending::receive(self.span, self.len, dst)
    }

    pub(crate) fn span(&self) -> Span<'a> {
        self.span
    }
}

impl<T: Pod> BufferViewMut<'_, T> {
    pub(super) fn into_part(self, range: impl RangeBounds<usize>) -> Result<Self> {
        let (span, len) = part::<T>(self.span, self.len, &range)?;
        Ok(Self { span, len, elements: PhantomData })
    }

    /// The same, for reading.
    ///
    /// Calls nothing.
    #[must_use]
    #[inline]
    pub fn as_view(&self) -> BufferView<'_, T> {
        BufferView { span: self.span, len: self.len, elements: PhantomData }
    }

    /// A range of it, for reading and writing.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a range that isn't within it.
    pub fn view_mut(&mut self, range: impl RangeBounds<usize>) -> Result<BufferViewMut<'_, T>> {
        BufferViewMut { elements: PhantomData, ..*self }.into_part(range)
    }

    /// Queues a fill of every element with the value.
    ///
    /// Calls `cuMemsetD8Async`, `cuMemsetD16Async` or `cuMemsetD32Async`; for an exposed stream also
    /// `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): a value that isn't 1, 2 or 4 bytes over and over,
    ///   which is all that the driver can fill with;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures the home stream;
    /// - the call's failure.
    pub fn fill(&mut self, value: T) -> Result<()> {
        transfer::fill(self.span, bytemuck::bytes_of(&value))
    }

    /// Fills every byte.
    pub(super) fn fill_bytes(&mut self, value: u8) -> Result<()> {
        transfer::fill(self.span, &[value])
    }

    /// Copies a slice of the same length to the device, and waits until it is there, and everything that was queued on
    /// the home stream before.
    ///
    /// The device never reads borrowed memory: the bytes go through page-locked memory of this library, in chunks.
    ///
    /// Calls `cuMemcpyHtoDAsync`, `cuEventRecord`, `cuEventSynchronize`, each once a MiB, in relaxed capture mode; for an
    /// exposed stream also `cuStreamIsCapturing`; until there is staging memory enough `cuEventCreate`,
    /// `cuMemHostAlloc`; after a failure `cuStreamSynchronize`.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): a slice of another length;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures the home stream;
    /// - the calls' failures, which may be those of earlier work, after which a part of the elements may be there;
    ///   [`completed`](Error::completed) says how many chunks were queued.
    pub fn write_slice(&mut self, src: &[T]) -> Result<()> {
        layout::same_len("src", src.len(), self.len)?;
        blocking::upload(self.span, src)
    }

    /// Queues a copy from host memory that the copy owns while it is under way.
    ///
    /// With a [`HostBuffer`](crate::HostBuffer) it returns at once; with memory that isn't page-locked the driver may
    /// wait for the stream.
    ///
    /// Calls `cuEventCreate`, `cuMemcpyHtoDAsync`, `cuEventRecord`; for an exposed stream also `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// [`Refused`], with what waits for the memory and gives it back:
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): `src` has another length;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures the home stream;
    /// - the calls' failures. A copy that failed may have been queued all the same.
    pub fn write_from<S: HostSource<T>>(
        &mut self,
        src: S,
    ) -> Result<Pending<S>, Refused<Pending<S>>> {
        pending::send(self.span, self.len, src)
    }

    /// Queues a copy from other device memory of the same home stream and length.
    ///
    /// Calls `cuMemcpyDtoDAsync`; for an exposed stream also `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): `src` is of another driver, has another home
    ///   stream ([`Buffer::move_to`] changes it), or another length;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures the home stream;
    /// - the call's failure.
    pub fn copy_from<'s>(&mut self, src: impl Into<BufferView<'s, T>>) -> Result<()>
    where
        T: 's,
    {
        let src = src.into();
        self.driver().check_same(src.driver(), "src")?;
        if !same_stream(self.span.home, src.span.home) {
            return Err(other_home());
        }
        layout::same_len("src", src.len, self.len)?;
        transfer::copy(self.span, src.span())
    }
}

#[cold]
fn other_home() -> Error {
    Error::argument(
        "src: its home stream is another one than the destination's; `move_to` makes them the same",
    )
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<BufferView<'_, f32>>();
    shared::<BufferViewMut<'_, f32>>();
};
