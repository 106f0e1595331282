//! What the driver keeps for each thread: the stack of contexts, the capture mode, and whether it is inside a callback.

use std::thread::ThreadId;

use cuhold_driver_sys::ffi::{CUcontext, CUstreamCaptureMode};

use crate::audit::CallSite;

/// Beyond so many threads, those in their initial state are forgotten before one is added.
const THREADS_KEPT: usize = 32;

/// One thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) id: ThreadId,
    /// The contexts, the current one last, as the caller gave them; each with the call that put it there.
    pub(crate) stack: Vec<(CUcontext, CallSite)>,
    /// How the thread's unsafe calls and other captures get along.
    pub(crate) mode: CUstreamCaptureMode,
    /// How many callbacks of the caller are on this thread's call stack.
    pub(crate) callbacks: u32,
}

impl Thread {
    fn new(id: ThreadId) -> Self {
        Self {
            id,
            stack: Vec::new(),
            mode: CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
            callbacks: 0,
        }
    }

    fn is_initial(&self) -> bool {
        self.stack.is_empty()
            && self.mode == CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL
            && self.callbacks == 0
    }
}

/// All threads that aren't in their initial state, and some that are.
#[derive(Debug, Default)]
pub(crate) struct Threads(Vec<Thread>);

impl Threads {
    pub(crate) fn get(&self, id: ThreadId) -> Option<&Thread> {
        self.0.iter().find(|thread| thread.id == id)
    }

    pub(crate) fn get_mut(&mut self, id: ThreadId) -> &mut Thread {
        let at = self.0.iter().position(|thread| thread.id == id).unwrap_or_else(|| {
            if self.0.len() >= THREADS_KEPT {
                self.0.retain(|thread| !thread.is_initial());
            }
            self.0.push(Thread::new(id));
            self.0.len() - 1
        });
        // `at` is the place of an element that was just found or pushed.
        #[expect(clippy::indexing_slicing, reason = "found or pushed just above")]
        &mut self.0[at]
    }

    pub(crate) fn mode(&self, id: ThreadId) -> CUstreamCaptureMode {
        self.get(id).map_or(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL, |t| t.mode)
    }

    pub(crate) fn current(&self, id: ThreadId) -> CUcontext {
        self.get(id).and_then(|t| t.stack.last()).map_or(CUcontext::NULL, |(ctx, _)| *ctx)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Thread> {
        self.0.iter()
    }
}
