//! Where an operation is made: on which thread, inside of what, in which state of the process.

#![expect(unsafe_code, reason = "closures go to other threads and through the driver")]

use super::{
    raw,
    run::{Run, Window},
};
use cuhold_driver_sys::CUresult;
use cuhold_handles::{CudaWarning, Object, ObjectKind, Sink};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr,
    sync::{Mutex, mpsc},
    thread,
};

/// A place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Place {
    /// The calling thread, where nothing is special.
    Here,
    /// A thread that never used CUDA.
    UnusedThread,
    /// A `Drop`, while a panic unwinds.
    Unwinding,
    /// The sink of the driver.
    Sink,
    /// A host function of the driver.
    HostFunction,
    /// A thread on which a context is current that somebody else has destroyed.
    DestroyedCurrent,
    /// While another thread captures a stream of another library's, in global mode.
    ForeignCapture,
    /// The same, of another device.
    ForeignCaptureOfOtherDevice,
    /// After the process began to exit.
    Exiting,
    /// A forked child.
    ForkedChild,
    /// After a fatal error.
    Lost,
}

/// What a closure that is lent for the length of a call becomes where one is asked for that lives for good.
struct Lent {
    /// Invariant: the closure, alive and nobody else's until it was called.
    closure: *mut (),
    call: unsafe fn(*mut ()),
}

// SAFETY: whoever lends it waits until it was called, so that one thread at a time uses what it refers to; what is bound
// to its thread by meaning only, a per-thread stream, is another one on another thread, which hurts no operation.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl Lent {
    /// The lender waits until it was called, and leaves the closure alone meanwhile.
    fn new<F: FnMut()>(closure: &mut F) -> Self {
        /// Calls it.
        ///
        /// # Safety
        ///
        /// - `closure` points to an `F` that is alive and nobody else's.
        unsafe fn call<F: FnMut()>(closure: *mut ()) {
            // SAFETY: the caller's promise.
            let closure = unsafe { &mut *closure.cast::<F>() };
            closure();
        }
        Self { closure: ptr::from_mut(closure).cast(), call: call::<F> }
    }

    fn call(self) {
        // SAFETY: the invariant, which the lender keeps; `new` put the two together.
        unsafe { (self.call)(self.closure) };
    }
}

/// Does its work when it is dropped.
struct InDrop<'a>(&'a mut dyn FnMut());

impl Drop for InDrop<'_> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Place {
    /// Whether nothing can be done with the driver afterwards.
    pub(super) fn is_for_good(self) -> bool {
        self.is_over() || self == Self::Lost
    }

    /// Whether not even the thread's state can be asked for.
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Exiting | Self::ForkedChild)
    }

    /// Does the operation there. What it leaves to the reclaimer is released here.
    pub(super) fn perform(self, run: &Run<'_>, once: &mut dyn FnMut()) -> Window {
        let done = || run.reclaim();
        match self {
            Self::Here => run.watch(|| {
                once();
                done();
            }),
            Self::UnusedThread => on_unused_thread(run, once),
            Self::Unwinding => run.watch(|| {
                let unwound = catch_unwind(AssertUnwindSafe(|| {
                    let _in_drop = InDrop(once);
                    resume_unwind(Box::new(()));
                }));
                assert!(unwound.is_err());
                done();
            }),
            Self::Sink => in_sink(run, once),
            Self::HostFunction => in_host_function(run, once),
            Self::DestroyedCurrent => with_destroyed(run, once),
            Self::ForeignCapture => beside_capture(run, 0, once),
            Self::ForeignCaptureOfOtherDevice => beside_capture(run, 1, once),
            Self::Exiting => run.watch(|| {
                run.simulated().begin_exit();
                once();
                done();
            }),
            Self::ForkedChild => run.watch(|| {
                run.fork();
                once();
                done();
            }),
            Self::Lost => run.watch(|| {
                run.simulated().poison(CUresult::ILLEGAL_ADDRESS);
                once();
                done();
            }),
        }
    }
}

fn on_unused_thread(run: &Run<'_>, once: &mut dyn FnMut()) -> Window {
    let mut window = None;
    let mut work = || window = Some(run.watch(&mut *once));
    let lent = Lent::new(&mut work);
    thread::scope(|scope| scope.spawn(|| lent.call()).join()).unwrap();
    run.reclaim();
    window.unwrap()
}

fn in_sink(run: &Run<'_>, mut once: &mut dyn FnMut()) -> Window {
    let lent = Mutex::new(Some(Lent::new(&mut once)));
    let sink = Sink::new(move |_| {
        let lent = lent.lock().unwrap().take();
        if let Some(lent) = lent {
            lent.call();
        }
    });
    let reports = run.driver().reports();
    let usual = reports.set_sink(sink);
    let window = run.watch(|| {
        reports.raise(CudaWarning::note(Object::nameless(ObjectKind::Callback), "a test's"));
        run.reclaim();
    });
    drop(reports.set_sink(usual));
    window
}

fn in_host_function(run: &Run<'_>, mut once: &mut dyn FnMut()) -> Window {
    let stream = run.new_stream();
    let lent = Lent::new(&mut once);
    let mut queue = Some(move || lent.call());
    run.watch(|| {
        stream.host_fn(queue.take().unwrap()).map_err(|refused| refused.error).unwrap();
        stream.synchronize().unwrap();
        run.reclaim();
    })
}

fn with_destroyed(run: &Run<'_>, once: &mut dyn FnMut()) -> Window {
    let library = run.library().api();
    let raw = run.raw_context();
    let mut stays = true;
    let mut window = run.watch(|| {});
    raw::push(library, raw);
    thread::scope(|scope| scope.spawn(|| raw::end_context(library, raw)).join()).unwrap();
    let ((), calls) = run.journal().during(|| {
        once();
        run.reclaim();
    });
    stays &= raw::current(library) == raw;
    let popped = raw::pop(library);
    stays &= popped == raw;
    window.calls = calls;
    window.after = run.thread_state();
    if !stays {
        // Whatever it was: not what it should be.
        window.after.stack.push(popped);
    }
    window
}

fn beside_capture(run: &Run<'_>, device: i32, once: &mut dyn FnMut()) -> Window {
    let library = run.library().api();
    let (began, begun) = mpsc::channel();
    let (go_on, done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let capture = raw::Capture::begin(library, device);
            began.send(capture.stream()).unwrap();
            done.recv().unwrap();
            capture.end();
        });
        let stream = begun.recv().unwrap();
        let window = run.watch(|| {
            once();
            run.reclaim();
        });
        run.capture.set(Some(raw::is_captured(library, stream)));
        go_on.send(()).unwrap();
        window
    })
}
