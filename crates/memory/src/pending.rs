//! Asynchronous copies: what owns the host side while the device may reach it.
//!
//! | the copy | `wait` | dropped |
//! |---|---|---|
//! | never reached the driver, or is known to be done | gives the memory back at once | drops the memory |
//! | is queued and marked by an event | waits for the event | the reclaimer waits for it, then drops the memory |
//! | may be queued: its call failed, or the marking did | waits for everything on the stream | the same, for the stream |
//! | the wait fails | the error, and this back | the memory is leaked, with a warning |
//!
//! A value that is forgotten leaks its memory. Nothing is freed on a guess.

#![expect(unsafe_code, reason = "waits through raw handles, and takes a value apart once")]

use crate::{
    host::{HostSource, HostTarget},
    layout,
    order::{self, Wait, captured, may_be_queued},
};
use bytemuck::Pod;
use cuhold_handles::{
    CudaWarning, Mark, Object, ObjectKind, Refused, Result, Stream,
    driver_sys::{Call, Life, mutant},
    foreign,
    scope::{self, Outcome},
};
use std::{
    fmt,
    mem::ManuallyDrop,
    sync::atomic::{AtomicBool, Ordering},
};

/// How the copy is to be waited for.
#[derive(Debug)]
enum Progress {
    /// The driver has nothing of it.
    Idle,
    /// The event marks it.
    Marked(Mark<'static>),
    /// It is one of the things that are queued on the stream, or none.
    Unknown,
}

/// A copy under way, with the host memory that it uses: a [`HostBuffer`](crate::HostBuffer), a [`Vec`], an
/// [`Arc`](std::sync::Arc) of a slice.
///
/// [`wait`](Self::wait) gives the memory back. Dropped, the memory goes once the copy is done: the reclaimer waits for
/// that, not the dropping thread. Its drop calls there what `wait` calls: `cuEventSynchronize`, and `cuEventDestroy` where
/// that failed; where it isn't known whether the copy was queued `cuStreamSynchronize`, for an exposed stream after
/// `cuStreamIsCapturing`.
///
/// `Send` and `Sync` where the memory is.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver};
/// # use cuhold_memory::Buffer;
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let mut buffer = Buffer::<u8>::uninit(&device.new_stream()?, 3)?;
/// let sent = buffer.write_from(vec![1, 2, 3])?;
/// let mut vec = sent.wait()?;
/// vec.push(4);
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[must_use = "dropped, the memory is given up once the copy is done"]
pub struct Pending<B: Send + 'static> {
    parts: ManuallyDrop<Parts<B>>,
}

struct Parts<B> {
    /// A user's value: dropped within the boundary for foreign code.
    value: ManuallyDrop<B>,
    progress: Progress,
    is_done: AtomicBool,
    home: Stream,
    /// Where the host memory is, to name it in a warning.
    address: u64,
}

impl<B: Send + 'static> Pending<B> {
    fn new(value: B, progress: Progress, home: &Stream, address: u64) -> Self {
        let parts = Parts {
            value: ManuallyDrop::new(value),
            progress,
            is_done: AtomicBool::new(false),
            home: home.clone(),
            address,
        };
        Self { parts: ManuallyDrop::new(parts) }
    }

    /// Whether the copy is done.
    ///
    /// Calls `cuEventQuery`, in relaxed capture mode; where it isn't known whether the copy was queued `cuStreamQuery`,
    /// for an exposed stream after `cuStreamIsCapturing`; nothing once it is known to be done.
    ///
    /// # Errors
    /// The call's failure, which may be that of earlier work; [`ErrorKind::State`](cuhold_handles::ErrorKind::State)
    /// while somebody captures the stream that must be asked. "Not ready" is `Ok(false)`.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let mut buffer = Buffer::<u8>::uninit(&stream, 3)?;
    /// let sent = buffer.write_from(vec![1, 2, 3])?;
    /// stream.synchronize()?;
    /// assert!(sent.is_done()?);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn is_done(&self) -> Result<bool> {
        let Parts { progress, is_done, home, .. } = &*self.parts;
        if matches!(progress, Progress::Idle) || is_done.load(Ordering::Acquire) {
            return Ok(true);
        }
        let driver = home.driver();
        driver.check_callable()?;
        let ask = || match progress {
            Progress::Marked(mark) => mark.is_done(),
            _ => {
                order::refuse_captured(home)?;
                home.is_done()
            }
        };
        let answer = scope::neutral(driver, ask, |_, error| error.with_completed(1))?;
        if answer {
            is_done.store(true, Ordering::Release);
        }
        Ok(answer)
    }

    /// Waits until the copy is done and gives the memory back.
    ///
    /// Calls `cuEventSynchronize`, in relaxed capture mode; where it isn't known whether the copy was queued
    /// `cuStreamSynchronize`, for an exposed stream after `cuStreamIsCapturing`; nothing where the driver has nothing of
    /// it. Blocks the thread; holds no lock.
    ///
    /// # Errors
    /// [`Refused`], with this value, since the device may still reach the memory: the call's failure, which may be that
    /// of earlier work.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// let buffer = Buffer::from_slice(&stream, &[1_u8, 2, 3])?;
    /// // A vector of the wrong length comes back with the error.
    /// let refused = buffer.read_to(vec![0; 2]).unwrap_err();
    /// assert_eq!(refused.value.wait()?, [0; 2]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn wait(self) -> Result<B, Refused<Self>> {
        match self.parts.wait_here() {
            Ok(()) => Ok(self.into_value()),
            Err(error) => Err(Refused::new(error, self)),
        }
    }

    /// The memory, of a copy that is done.
    fn into_value(self) -> B {
        let parts = self.into_parts();
        ManuallyDrop::into_inner(parts.value)
    }

    fn into_parts(self) -> Parts<B> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: `this` is never dropped.
        unsafe { ManuallyDrop::take(&mut this.parts) }
    }
}

impl<B> Parts<B> {
    fn is_free(&self) -> bool {
        matches!(self.progress, Progress::Idle) || self.is_done.load(Ordering::Acquire)
    }

    fn wait_here(&self) -> Result<()> {
        if self.is_free() {
            return Ok(());
        }
        let driver = self.home.driver();
        driver.check_callable()?;
        let (wait, outcome) = self.settle();
        if wait == Wait::Done {
            // Remembered, for a caller who hears of another failure and waits again.
            self.is_done.store(true, Ordering::Release);
        }
        match outcome.into_error(driver) {
            Some(error) => Err(error),
            None if wait == Wait::Captured => Err(captured()),
            None => Ok(()),
        }
    }

    /// Waits for the copy, capture-neutral.
    fn settle(&self) -> (Wait, Outcome) {
        let Progress::Marked(mark) = &self.progress else { return order::settle(&self.home) };
        let outcome = order::cleanup(&self.home, Call::cuEventSynchronize, |calls| {
            // SAFETY: *handles*: this value's event.
            unsafe { calls.cuEventSynchronize(mark.raw()) }
        });
        let done = outcome.is_asked() && outcome.operation.is_none();
        (if done { Wait::Done } else { Wait::Failed }, outcome)
    }

    /// Drops a user's value.
    fn drop_value(self) {
        let Self { value, home, address, .. } = self;
        if let Err(caught) = foreign::drop_caught(ManuallyDrop::into_inner(value)) {
            let driver = home.driver();
            let object =
                Object { kind: ObjectKind::HostMemory, raw: address, id: driver.next_id() };
            driver.warn(CudaWarning::panicked(object, caught.payload()));
        }
    }

    /// On the reclaimer: waits, then drops the value, or leaks it.
    fn retire(self) {
        let (wait, outcome) = self.settle();
        let driver = self.home.driver();
        if !outcome.is_clean() || wait != Wait::Done {
            let call = match self.progress {
                Progress::Marked(_) => Call::cuEventSynchronize,
                _ => Call::cuStreamSynchronize,
            };
            let kind = ObjectKind::HostMemory;
            let object = Object { kind, raw: self.address, id: driver.next_id() };
            order::warn_of_wait(driver, wait, outcome, call, object);
        }
        if let (Progress::Marked(mark), false) = (&self.progress, wait == Wait::Done) {
            mark.spoil();
        }
        // Else the value stays for good: its wrapper doesn't drop it.
        if wait == Wait::Done || mutant::is_out("leak") {
            self.drop_value();
        }
    }
}

impl<B: Send + 'static> Drop for Pending<B> {
    fn drop(&mut self) {
        // SAFETY: taken once: this is the drop.
        let parts = unsafe { ManuallyDrop::take(&mut self.parts) };
        if parts.is_free() || mutant::is_out("retire") {
            return parts.drop_value();
        }
        let driver = parts.home.driver();
        if driver.api().life() == Life::Forked {
            // The copy is the parent's, and so is the memory that it reaches.
            return parts.drop_value();
        }
        let inlet = driver.reclaim().inlet();
        let context = parts.home.context().as_raw();
        inlet.defer(Some(context), move || parts.retire());
    }
}

impl<B: Send + 'static> fmt::Debug for Pending<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { progress, home, address, .. } = &*self.parts;
        write!(f, "copy of host memory {address:#x} on {home:?}, {progress:?}")
    }
}

/// Queues a copy to the device, by `copy`, which is given where the elements are.
pub(crate) fn send<T: Pod, S: HostSource<T>>(
    home: &Stream,
    len: usize,
    src: S,
    copy: impl FnOnce(*const T) -> Result<()>,
) -> Result<Pending<S>, Refused<Pending<S>>> {
    let elements = src.elements();
    let (from, checked) = (elements.as_ptr(), layout::same_len("src", elements.len(), len));
    let bytes = layout::known_bytes::<T>(len);
    start((home, bytes), src, from.addr() as u64, checked, || copy(from))
}

/// Queues a copy from the device, by `copy`, which is given where the elements are to be.
pub(crate) fn receive<T: Pod, D: HostTarget<T>>(
    home: &Stream,
    len: usize,
    mut dst: D,
    copy: impl FnOnce(*mut T) -> Result<()>,
) -> Result<Pending<D>, Refused<Pending<D>>> {
    let elements = dst.elements_mut();
    let (to, checked) = (elements.as_mut_ptr(), layout::same_len("dst", elements.len(), len));
    let bytes = layout::known_bytes::<T>(len);
    start((home, bytes), dst, to.addr() as u64, checked, || copy(to))
}

/// Queues a copy and marks it. Whatever fails, the value stays in the `Pending` that comes back.
fn start<B: Send + 'static>(
    (home, bytes): (&Stream, usize),
    value: B,
    address: u64,
    checked: Result<()>,
    copy: impl FnOnce() -> Result<()>,
) -> Result<Pending<B>, Refused<Pending<B>>> {
    let pending = |progress| Pending::new(value, progress, home, address);
    // Taken before the copy: nothing that can fail stands between the copy and its mark but the mark itself.
    let mark = checked.and_then(|()| {
        home.driver().check_callable()?;
        if bytes == 0 {
            return Ok(None);
        }
        Mark::take(home.context()).map(|mark| Some(mark.keep()))
    });
    let mut mark = match mark {
        Ok(Some(mark)) => mark,
        Ok(None) => return Ok(pending(Progress::Idle)),
        Err(error) => return Err(Refused::new(error, pending(Progress::Idle))),
    };
    if let Err(error) = copy() {
        let progress = if may_be_queued(&error) { Progress::Unknown } else { Progress::Idle };
        return Err(Refused::new(mark.unneeded(error), pending(progress)));
    }
    match mark.record_uncaptured(home) {
        Ok(()) => Ok(pending(Progress::Marked(mark))),
        Err(error) => {
            let error = mark.unneeded(error.with_completed(1));
            Err(Refused::new(error, pending(Progress::Unknown)))
        }
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Pending<crate::HostBuffer<f32>>>();
};
