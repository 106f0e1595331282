//! How buffers are made.

use super::Buffer;
use crate::{
    allocation::Allocation,
    layout,
    order::check_home,
    source::{AsSource, Source},
};
use bytemuck::Pod;
use cuhold_handles::{Error, Result, Stream};

impl<T: Pod> Buffer<T> {
    /// Makes a buffer of `len` elements of no particular content, from the current pool of the stream's device.
    ///
    /// No elements need no memory, and no call.
    ///
    /// Calls `cuMemAllocAsync`; for an exposed stream also `cuStreamIsCapturing`; `cuMemFreeAsync` where it is undone.
    /// It invalidates captures in global mode on any thread, as the driver's call does.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): too many elements, or a stream borrowed without an
    ///   owner, on which the memory couldn't be freed later;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures the stream;
    /// - the call's failure. As the driver's call does, it invalidates a capture that another thread makes in global
    ///   mode, and is refused beside it.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_handles::{Device, Driver};
    /// # use cuhold_memory::Buffer;
    /// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
    /// let device = Device::with_driver(&driver, 0)?;
    /// let stream = device.new_stream()?;
    /// let buffer = Buffer::<[f32; 4]>::uninit(&stream, 1000)?;
    /// assert_eq!((buffer.len(), buffer.size_bytes()), (1000, 16_000));
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuMemAllocAsync")]
    #[inline]
    pub fn uninit(stream: &Stream, len: usize) -> Result<Self> {
        Self::make(Source::Current, stream, len)
    }

    /// As [`uninit`](Self::uninit), from a pool, or from any memory resource.
    ///
    /// Calls `cuMemAllocFromPoolAsync` for a pool; for an exposed stream also `cuStreamIsCapturing`; `cuMemFreeAsync` where
    /// it is undone.
    /// It invalidates captures in global mode on any thread, as the driver's call does.
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit); [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for a pool of another
    /// driver or device than the stream's; a resource's own errors.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let pool = Pool::new(&device, PoolOptions::default())?;
    /// let buffer = Buffer::<f32>::uninit_in(&pool, &stream, 1000)?;
    /// assert_eq!(pool.used_bytes()?, 4000);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemAllocFromPoolAsync")]
    #[inline]
    pub fn uninit_in(source: &impl AsSource, stream: &Stream, len: usize) -> Result<Self> {
        Self::make(source.as_source().0, stream, len)
    }

    /// Makes a buffer of `len` elements whose bytes are zero.
    ///
    /// Calls `cuMemAllocAsync`, `cuMemsetD8Async`; for an exposed stream also `cuStreamIsCapturing`; where the fill fails
    /// `cuMemFreeAsync`.
    /// It invalidates captures in global mode on any thread, as the driver's call does.
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit), and the fill's failure; nothing is left allocated.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let buffer = Buffer::<u32>::zeroed(&stream, 3)?;
    /// assert_eq!(buffer.to_vec()?, [0, 0, 0]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn zeroed(stream: &Stream, len: usize) -> Result<Self> {
        Self::uninit(stream, len)?.filled_with_zeroes()
    }

    /// As [`zeroed`](Self::zeroed), from a pool, or from any memory resource.
    ///
    /// Calls `cuMemAllocFromPoolAsync` for a pool, `cuMemsetD8Async`; for an exposed stream also `cuStreamIsCapturing`;
    /// where the fill fails `cuMemFreeAsync`.
    /// It invalidates captures in global mode on any thread, as the driver's call does.
    ///
    /// # Errors
    /// As [`uninit_in`](Self::uninit_in), and the fill's failure; nothing is left allocated.
    pub fn zeroed_in(source: &impl AsSource, stream: &Stream, len: usize) -> Result<Self> {
        Self::uninit_in(source, stream, len)?.filled_with_zeroes()
    }

    /// Makes a buffer with a copy of these elements, and waits until they are there.
    ///
    /// Calls `cuMemAllocAsync`, then as [`write_slice`](Self::write_slice); where that fails `cuMemFreeAsync`.
    /// It invalidates captures in global mode on any thread, as the driver's call does.
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit) and [`write_slice`](Self::write_slice); nothing is left allocated.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_handles::{Device, Driver};
    /// # use cuhold_memory::Buffer;
    /// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
    /// let device = Device::with_driver(&driver, 0)?;
    /// let buffer = Buffer::from_slice(&device.new_stream()?, &[3, 1, 4])?;
    /// assert_eq!(buffer.to_vec()?, [3, 1, 4]);
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    pub fn from_slice(stream: &Stream, src: &[T]) -> Result<Self> {
        Self::uninit(stream, src.len())?.filled_from(src)
    }

    /// As [`from_slice`](Self::from_slice), from a pool, or from any memory resource.
    ///
    /// Calls `cuMemAllocFromPoolAsync` for a pool, then as [`write_slice`](Self::write_slice); where that fails
    /// `cuMemFreeAsync`.
    /// It invalidates captures in global mode on any thread, as the driver's call does.
    ///
    /// # Errors
    /// As [`uninit_in`](Self::uninit_in) and [`write_slice`](Self::write_slice); nothing is left allocated.
    pub fn from_slice_in(source: &impl AsSource, stream: &Stream, src: &[T]) -> Result<Self> {
        Self::uninit_in(source, stream, src.len())?.filled_from(src)
    }

    #[inline]
    fn make(source: Source<'_>, stream: &Stream, len: usize) -> Result<Self> {
        let bytes = layout::bytes_of::<T>(len)?;
        if let Source::Cache(cache) = source
            && let Some(memory) = Allocation::cached_quickly(cache, bytes, stream)
        {
            return Ok(Self::on(memory, len, stream));
        }
        check_home(stream)?;
        let memory = Allocation::new(source, bytes, stream)?;
        Ok(Self::on(memory, len, stream))
    }

    fn filled_with_zeroes(mut self) -> Result<Self> {
        match self.as_view_mut().fill_bytes(0) {
            Ok(()) => Ok(self),
            Err(error) => Err(self.unmade(error)),
        }
    }

    fn filled_from(mut self, src: &[T]) -> Result<Self> {
        match self.write_slice(src) {
            Ok(()) => Ok(self),
            Err(error) => Err(self.unmade(error)),
        }
    }

    /// Frees a buffer that can't be handed out.
    #[cold]
    fn unmade(self, error: Error) -> Error {
        match self.close() {
            Ok(_) => error,
            Err(refused) => error.with_undo(&refused.error),
        }
    }
}
