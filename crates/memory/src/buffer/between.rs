//! Copies between device memory.

use super::{BufferView, BufferViewMut, home};
use crate::{
    layout,
    order::same_stream,
    transfer::{self, CopyOptions, Span},
};
use bytemuck::Pod;
use cuhold_handles::Result;

impl<T: Pod> BufferViewMut<'_, T> {
    /// Queues a copy from other device memory of the same home stream and length.
    ///
    /// Calls `cuMemcpyDtoDAsync`; for an exposed stream also `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): `src` is of another driver, has another home
    ///   stream ([`Buffer::move_to`](super::Buffer::move_to) changes it), or another length;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures the home stream;
    /// - the call's failure.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let x = Buffer::from_slice(&stream, &[1, 2, 3, 4])?;
    /// let mut y = Buffer::<i32>::zeroed(&stream, 3)?;
    /// y.view_mut(1..)?.copy_from(x.view(..2)?)?;
    /// assert_eq!(y.to_vec()?, [0, 1, 2]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn copy_from<'s>(&mut self, src: impl Into<BufferView<'s, T>>) -> Result<()>
    where
        T: 's,
    {
        self.copy_from_with(src, CopyOptions::default())
    }

    /// As [`copy_from`](Self::copy_from), with options.
    ///
    /// Calls `cuMemcpyWithAttributesAsync`, in the stream's context; where the driver lacks that `cuMemcpyBatchAsync`; where
    /// it lacks both, and without options, `cuMemcpyDtoDAsync`; for an exposed stream also `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// As [`copy_from`](Self::copy_from); [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) for options on a
    /// default stream; [`ErrorKind::Missing`](cuhold_handles::ErrorKind::Missing) where the source is to be read during the
    /// call, and the driver can't promise that.
    #[doc(alias = "cuMemcpyWithAttributesAsync")]
    pub fn copy_from_with<'s>(
        &mut self,
        src: impl Into<BufferView<'s, T>>,
        options: CopyOptions,
    ) -> Result<()>
    where
        T: 's,
    {
        let src = self.same_size(src.into())?;
        if !same_stream(self.span().home, src.home) {
            return Err(transfer::other_home());
        }
        transfer::copy_with(self.span(), src, options)
    }

    /// Queues a copy from device memory of another home stream: one of this context, of another one, or of another device.
    /// It runs on the home stream of the destination, or on that of the source if the former is a default stream, behind
    /// what is queued on both by now; what is queued on the other one later, a free as well, waits for it. Between devices
    /// neither needs access to the other's memory.
    ///
    /// Calls `cuMemcpyDtoDAsync`, between devices `cuMemcpyPeerAsync`; before and after it `cuEventRecord`,
    /// `cuStreamWaitEvent`, and `cuEventCreate` where a context has no idle event; for exposed streams
    /// `cuStreamIsCapturing`; after a failure `cuEventDestroy`, and `cuStreamSynchronize` where the other stream can't wait
    /// for the copy.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): `src` is of another driver or another length;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): somebody captures one of the streams;
    /// - the calls' failures; [completed](cuhold_handles::Error::completed) where the copy was queued.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let (one, two) = (device.new_stream()?, device.new_stream()?);
    /// let x = Buffer::from_slice(&one, &[1, 2, 3])?;
    /// let mut y = Buffer::<i32>::uninit(&two, 3)?;
    /// y.as_view_mut().copy_across(&x)?;
    /// drop(x);
    /// assert_eq!(y.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemcpyPeerAsync")]
    pub fn copy_across<'s>(&mut self, src: impl Into<BufferView<'s, T>>) -> Result<()>
    where
        T: 's,
    {
        let src = self.same_size(src.into())?;
        if same_stream(self.span().home, src.home) {
            return transfer::copy(self.span(), src);
        }
        if src.bytes == 0 {
            return Ok(());
        }
        let dst = self.span();
        let (to, from) = ((dst.home, dst.memory), (src.home, src.memory));
        home::across(to, from, |runs| transfer::copy_across(runs, dst, src))
    }

    /// The memory of a view that isn't of another driver or length.
    fn same_size<'s>(&self, src: BufferView<'s, T>) -> Result<Span<'s>> {
        self.driver().check_same(src.driver(), "src")?;
        layout::same_len("src", src.len(), self.len())?;
        Ok(src.span())
    }
}
