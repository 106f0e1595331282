//! Boxes of elements within a buffer: rows with gaps between them, slices of rows with gaps between those.
//!
//! ```text
//!   ┌─ width ─┐gap      pitch: from one row to the next
//!   ■ ■ ■ ■ ■ · ·
//!   ■ ■ ■ ■ ■ · ·       height
//!   · · · · · · ·       slice rows: from one slice to the next, gaps included
//!   ■ ■ ■ ■ ■ · ·       … depth
//! ```

#![expect(unsafe_code, reason = "copies of memory that a `Pending` owns")]

use super::{BufferView, BufferViewMut, home, keep::Shareable};
use crate::{
    host::{HostSource, HostTarget},
    layout,
    order::same_stream,
    pending::{self, Pending},
    transfer::{self, BoxSpan, Span, StagingOptions, blocking, boxed},
};
use bytemuck::Pod;
use cuhold_handles::{Driver, Error, KeepAlive, Refused, Result, Stream};
use std::{fmt, marker::PhantomData};

/// How a box of elements lies in linear memory, in elements.
///
/// # Examples
/// ```
/// # use cuhold_memory::Grid;
/// let image = Grid::rect([640, 480]).pitch(1024);
/// assert_eq!((image.len(), image.span()), (640 * 480, 1024 * 479 + 640));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Grid {
    size: [usize; 3],
    pitch: usize,
    slice_rows: usize,
}

impl Grid {
    /// Rows without gaps: their width and how many there are.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn rect([width, height]: [usize; 2]) -> Self {
        Self::cube([width, height, 1])
    }

    /// Slices of rows without gaps: the width and the number of rows of each, and how many there are.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn cube(size: [usize; 3]) -> Self {
        let [width, height, _] = size;
        Self { size, pitch: width, slice_rows: height }
    }

    /// With so many elements from one row to the next.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn pitch(mut self, elements: usize) -> Self {
        self.pitch = elements;
        self
    }

    /// With so many rows from one slice to the next.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn slice_rows(mut self, rows: usize) -> Self {
        self.slice_rows = rows;
        self
    }

    /// Width, height and depth.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn size(self) -> [usize; 3] {
        self.size
    }

    /// How many elements it has, without the gaps; [`usize::MAX`] where that is more.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn len(self) -> usize {
        let [width, height, depth] = self.size;
        width.saturating_mul(height).saturating_mul(depth)
    }

    /// Whether it has no elements.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.size.contains(&0)
    }

    /// How many elements lie from its first to its last one, the gaps included; [`usize::MAX`] where that is more.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn span(self) -> usize {
        layout::grid_span(self.size, self.pitch, self.slice_rows)
    }

    /// Refuses a box that isn't within so many elements, or whose rows or slices overlap.
    fn check(self, len: usize) -> Result<()> {
        let [width, height, _] = self.size;
        if self.pitch < width || self.slice_rows < height {
            return Err(Error::argument(format!(
                "grid: a pitch of {} elements and {} rows from slice to slice, where a slice has {height} rows of {width}",
                self.pitch, self.slice_rows
            )));
        }
        if self.span() > len {
            return Err(Error::argument(format!(
                "grid: it spans {} elements where there are {len}",
                self.span()
            )));
        }
        Ok(())
    }

    /// Where it is in memory, if it isn't empty.
    fn place<T>(self, span: Span<'_>) -> Option<BoxSpan<'_>> {
        let [width, height, depth] = self.size;
        let place = BoxSpan {
            home: span.home,
            ptr: span.ptr,
            is_host: span.is_host,
            memory: span.memory,
            width_bytes: layout::known_bytes::<T>(width),
            height,
            depth,
            pitch_bytes: layout::known_bytes::<T>(self.pitch),
            slice_rows: self.slice_rows,
        };
        (!self.is_empty() && size_of::<T>() > 0).then_some(place)
    }
}

/// A box of device memory as CUDA describes it, in bytes. None of its sizes is 0.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "made by the crate for graphs")]
pub struct GridPlace {
    /// Where its first byte is.
    pub ptr: u64,
    /// Whether that is memory of the host, which isn't called a device's.
    pub is_host: bool,
    /// The width in bytes, rows, slices.
    pub size: [usize; 3],
    /// From one row to the next.
    pub pitch_bytes: usize,
    /// From one slice to the next, in rows.
    pub slice_rows: usize,
}

impl GridPlace {
    /// One row of device memory; none of no bytes.
    #[must_use]
    pub fn row(ptr: u64, bytes: usize) -> Option<Self> {
        let size = [bytes, 1, 1];
        let row = Self { ptr, is_host: false, size, pitch_bytes: bytes, slice_rows: 1 };
        (bytes > 0).then_some(row)
    }
}

/// A box within a [`Buffer`](crate::Buffer), for reading.
///
/// # Examples
/// ```
/// # use cuhold_memory::{Buffer, Grid, handles::{Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// # let stream = device.new_stream()?;
/// let image = Buffer::from_slice(&stream, &[1, 2, 3, 4, 5, 6, 7, 8, 9])?;
/// // The lower right corner of three rows of three.
/// let corner = image.view(4..)?.grid(Grid::rect([2, 2]).pitch(3))?;
/// assert_eq!(corner.to_vec()?, [5, 6, 8, 9]);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
pub struct GridView<'a, T: Pod = u8> {
    span: Span<'a>,
    grid: Grid,
    elements: PhantomData<&'a [T]>,
}

/// A box within a [`Buffer`](crate::Buffer), for reading and writing.
///
/// # Examples
/// ```
/// # use cuhold_memory::{Buffer, Grid, handles::{Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// # let stream = device.new_stream()?;
/// let mut image = Buffer::<u8>::zeroed(&stream, 9)?;
/// let mut corner = image.view_mut(4..)?.into_grid(Grid::rect([2, 2]).pitch(3))?;
/// corner.fill(7)?;
/// assert_eq!(image.to_vec()?, [0, 0, 0, 0, 7, 7, 0, 7, 7]);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
pub struct GridViewMut<'a, T: Pod = u8> {
    span: Span<'a>,
    grid: Grid,
    elements: PhantomData<&'a mut [T]>,
}

impl<'a, T: Pod> BufferView<'a, T> {
    /// A box within it that begins with its first element.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a box that isn't within it, or whose rows or slices
    /// overlap.
    pub fn grid(&self, grid: Grid) -> Result<GridView<'a, T>> {
        grid.check(self.len())?;
        Ok(GridView { span: self.span(), grid, elements: PhantomData })
    }
}

impl<'a, T: Pod> BufferViewMut<'a, T> {
    /// A box within it that begins with its first element.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a box that isn't within it, or whose rows or slices
    /// overlap.
    pub fn into_grid(self, grid: Grid) -> Result<GridViewMut<'a, T>> {
        grid.check(self.len())?;
        Ok(GridViewMut { span: self.span(), grid, elements: PhantomData })
    }
}

macro_rules! common {
    ($view:ident) => {
        impl<'a, T: Pod> $view<'a, T> {
            /// How it lies in memory.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn grid(&self) -> Grid {
                self.grid
            }

            /// The address of its first element on the device; 0 where there is none.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn device_ptr(&self) -> u64 {
                self.place().map_or(0, |place| place.ptr)
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

            /// Keeps the buffer's memory alive, as [`Buffer::keep`](crate::Buffer::keep) does.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn keep(&self) -> Option<KeepAlive> {
                self.span.memory.map(Shareable::keep)
            }

            /// Where it is in memory, for other crates of this library; `None` where there is nothing.
            #[doc(hidden)]
            #[must_use]
            pub fn grid_place(&self) -> Option<GridPlace> {
                let BoxSpan {
                    ptr,
                    is_host,
                    width_bytes,
                    height,
                    depth,
                    pitch_bytes,
                    slice_rows,
                    ..
                } = self.place()?;
                Some(GridPlace {
                    ptr,
                    is_host,
                    size: [width_bytes, height, depth],
                    pitch_bytes,
                    slice_rows,
                })
            }

            fn place(&self) -> Option<BoxSpan<'a>> {
                self.grid.place::<T>(self.span)
            }
        }

        impl<T: Pod> fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?} at {:#x} on {:?}", self.grid, self.span.ptr, self.span.home)
            }
        }
    };
}

common!(GridView);
common!(GridViewMut);

impl<T: Pod> Clone for GridView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Pod> Copy for GridView<'_, T> {}

impl<'a, T: Pod> From<&'a GridViewMut<'_, T>> for GridView<'a, T> {
    fn from(view: &'a GridViewMut<'_, T>) -> Self {
        view.as_view()
    }
}

impl<T: Pod> GridView<'_, T> {
    /// Copies the elements to the host, without the gaps, and waits until they are there.
    ///
    /// Calls `cuMemcpy2DAsync`, for a box without gaps `cuMemcpyDtoHAsync`, else as [`BufferView::to_vec`].
    ///
    /// # Errors
    /// As [`BufferView::to_vec`].
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut vec = bytemuck::zeroed_vec(self.grid.len());
        self.read_into(&mut vec)?;
        Ok(vec)
    }

    /// Copies the elements into a slice of as many, without the gaps, and waits until they are there.
    ///
    /// Calls as [`to_vec`](Self::to_vec).
    ///
    /// # Errors
    /// As [`BufferView::read_into`].
    pub fn read_into(&self, dst: &mut [T]) -> Result<()> {
        layout::same_len("dst", dst.len(), self.grid.len())?;
        let Some(place) = self.place() else { return Ok(()) };
        blocking::download(place.plan(), dst, StagingOptions::DEFAULT, &mut |_| {})
    }

    /// Queues a copy of the elements, without the gaps, to host memory that the copy owns while it is under way.
    ///
    /// Calls `cuMemcpy2DAsync`, for several slices `cuMemcpy3DAsync`, else as [`BufferView::read_to`].
    ///
    /// # Errors
    /// As [`BufferView::read_to`].
    pub fn read_to<D: HostTarget<T>>(&self, dst: D) -> Result<Pending<D>, Refused<Pending<D>>> {
        let copy = |to: *mut T| match self.place() {
            // SAFETY: the memory stays where it is and is nobody else's while the `Pending` keeps the value.
            Some(place) => unsafe { place.plan().copy_out(to.cast()) },
            None => Ok(()),
        };
        pending::receive(self.span.home, self.grid.len(), dst, copy)
    }
}

impl<T: Pod> GridViewMut<'_, T> {
    /// The same, for reading.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn as_view(&self) -> GridView<'_, T> {
        GridView { span: self.span, grid: self.grid, elements: PhantomData }
    }

    /// Queues fills of every element with the value; what is in the gaps stays.
    ///
    /// Calls `cuMemsetD2D8Async`, `cuMemsetD2D16Async` or `cuMemsetD2D32Async`, for slices with gaps between them one for
    /// each; for a box without gaps as [`BufferViewMut::fill`]; for an exposed stream also `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// As [`BufferViewMut::fill`]; where there are several, [`completed`](Error::completed) says how many were queued.
    #[doc(alias = "cuMemsetD2D8Async")]
    pub fn fill(&mut self, value: T) -> Result<()> {
        let Some(place) = self.place() else { return Ok(()) };
        boxed::fill_box(place, bytemuck::bytes_of(&value))
    }

    /// Copies a slice of as many elements to the device, row by row, and waits until it is there.
    ///
    /// Calls `cuMemcpy2DAsync`, for a box without gaps `cuMemcpyHtoDAsync`, else as [`BufferViewMut::write_slice`].
    ///
    /// # Errors
    /// As [`BufferViewMut::write_slice`].
    pub fn write_slice(&mut self, src: &[T]) -> Result<()> {
        layout::same_len("src", src.len(), self.grid.len())?;
        let Some(place) = self.place() else { return Ok(()) };
        blocking::upload(place.plan(), src, StagingOptions::DEFAULT, &mut |_| {})
    }

    /// Queues a copy from host memory without gaps that the copy owns while it is under way.
    ///
    /// Calls `cuMemcpy2DAsync`, for several slices `cuMemcpy3DAsync`, else as [`BufferViewMut::write_from`].
    ///
    /// # Errors
    /// As [`BufferViewMut::write_from`].
    pub fn write_from<S: HostSource<T>>(
        &mut self,
        src: S,
    ) -> Result<Pending<S>, Refused<Pending<S>>> {
        let copy = |from: *const T| match self.place() {
            // SAFETY: the memory stays where it is and as it is while the `Pending` keeps the value.
            Some(place) => unsafe { place.plan().copy_in(from.cast()) },
            None => Ok(()),
        };
        pending::send(self.span.home, self.grid.len(), src, copy)
    }

    /// Queues a copy from a box of the same size and home stream; each has gaps of its own.
    ///
    /// Calls `cuMemcpy2DAsync`, for several slices `cuMemcpy3DAsync`, for boxes without gaps `cuMemcpyDtoDAsync`; for an
    /// exposed stream also `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): `src` is of another driver, home stream or size;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures the home stream;
    /// - the call's failure.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, Grid, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let tile = Buffer::from_slice(&stream, &[1, 2, 3, 4])?;
    /// let mut image = Buffer::<i32>::zeroed(&stream, 6)?;
    /// let mut left = image.as_view_mut().into_grid(Grid::rect([2, 2]).pitch(3))?;
    /// left.copy_from(tile.as_view().grid(Grid::rect([2, 2]))?)?;
    /// assert_eq!(image.to_vec()?, [1, 2, 0, 3, 4, 0]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemcpy2DAsync")]
    #[doc(alias = "cuMemcpy3DAsync")]
    pub fn copy_from<'s>(&mut self, src: impl Into<GridView<'s, T>>) -> Result<()>
    where
        T: 's,
    {
        let src = self.same_size(src.into())?;
        if !same_stream(self.span.home, src.span.home) {
            return Err(transfer::other_home());
        }
        match (self.place(), src.place()) {
            (Some(dst), Some(src)) => boxed::copy(dst, src),
            _ => Ok(()),
        }
    }

    /// Queues a copy from a box of the same size and of another home stream: one of this context, of another one, or of
    /// another device. It is ordered as [`BufferViewMut::copy_across`] is; each box has gaps of its own.
    ///
    /// Calls `cuMemcpy2DAsync`, for several slices `cuMemcpy3DAsync`, between devices `cuMemcpy3DPeerAsync`; for boxes without
    /// gaps as [`BufferViewMut::copy_across`], `cuMemcpyDtoDAsync` and `cuMemcpyPeerAsync`; before and after it
    /// `cuEventRecord`, `cuStreamWaitEvent`, and `cuEventCreate` where a context has no idle event; for exposed streams
    /// `cuStreamIsCapturing`; after a failure `cuEventDestroy`, and `cuStreamSynchronize` where the other stream can't wait
    /// for the copy.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): `src` is of another driver or size;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures one of the streams;
    /// - the calls' failures; [completed](Error::completed) where the copy was queued.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, Grid, handles::{Device, Driver}};
    /// # use cuhold_driver_sim::{Sim, SimOptions};
    /// # let driver = Driver::from_api(Sim::with_options(SimOptions::with_devices(2)));
    /// # let (one, two) = (Device::with_driver(&driver, 0)?, Device::with_driver(&driver, 1)?);
    /// let image = Buffer::from_slice(&one.new_stream()?, &[1, 2, 3, 4, 5, 6, 7, 8, 9])?;
    /// let mut tile = Buffer::<i32>::uninit(&two.new_stream()?, 4)?;
    /// let corner = image.view(4..)?.grid(Grid::rect([2, 2]).pitch(3))?;
    /// tile.as_view_mut().into_grid(Grid::rect([2, 2]))?.copy_across(corner)?;
    /// assert_eq!(tile.to_vec()?, [5, 6, 8, 9]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemcpy3DPeerAsync")]
    pub fn copy_across<'s>(&mut self, src: impl Into<GridView<'s, T>>) -> Result<()>
    where
        T: 's,
    {
        let src = self.same_size(src.into())?;
        let (Some(dst), Some(src)) = (self.place(), src.place()) else { return Ok(()) };
        if same_stream(dst.home, src.home) {
            return boxed::copy(dst, src);
        }
        let (to, from) = ((dst.home, dst.memory), (src.home, src.memory));
        home::across(to, from, |runs| boxed::copy_across(runs, dst, src))
    }

    /// A box that isn't of another driver or size.
    fn same_size<'s>(&self, src: GridView<'s, T>) -> Result<GridView<'s, T>> {
        self.driver().check_same(src.driver(), "src")?;
        if self.grid.size == src.grid.size {
            return Ok(src);
        }
        Err(Error::argument(format!(
            "src: a box of {:?} where the destination has {:?}",
            src.grid.size, self.grid.size
        )))
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<GridView<'_, f32>>();
    shared::<GridViewMut<'_, f32>>();
};
