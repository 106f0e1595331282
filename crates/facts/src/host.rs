//! What runs on the host for the driver: functions that streams and user objects call, and the memory that they see.
//!
//! Everything here is leaked: a probe's process or simulated driver ends right after it, and what the driver may still
//! reach must not go first.

#![expect(unsafe_code, reason = "the driver calls these through C pointers")]

use core::{
    ffi::{c_char, c_int, c_void},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::Duration,
};
use std::sync::Arc;

use cuhold_driver_sys::{
    DriverApi,
    ffi::{CUlogLevel, CUresult, CUstream},
};
use parking_lot::{Condvar, Mutex};

/// How long a gate stays closed at most, so that a driver that runs host functions inside the call that enqueues them
/// answers late instead of never.
const GATE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a gate stays closed that nobody opens: longer than a call takes that doesn't wait.
const BRIEF_TIMEOUT: Duration = Duration::from_millis(200);

/// A value that is never freed.
pub(crate) fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// A leaked value's address, as the driver's calls take it.
pub(crate) fn user<T>(value: &'static T) -> *mut c_void {
    core::ptr::from_ref(value).cast_mut().cast()
}

#[repr(align(4096))]
#[derive(Clone, Copy)]
#[expect(dead_code, reason = "read and written through the pointer alone")]
struct Page([u32; 1024]);

/// Host memory that is never freed, for copies: `words` of 4 bytes.
#[derive(Clone, Copy)]
pub(crate) struct HostMemory {
    start: usize,
    words: usize,
}

impl HostMemory {
    /// All words hold `value`. Starts at a page, so that it can be registered.
    pub(crate) fn filled(words: usize, value: u32) -> Self {
        let pages = vec![Page([0; 1024]); words.div_ceil(1024)].into_boxed_slice();
        let memory = Self { start: Box::leak(pages).as_mut_ptr().expose_provenance(), words };
        memory.fill(value);
        memory
    }

    /// Memory that the driver allocated.
    pub(crate) fn of_driver(start: *mut c_void, words: usize) -> Self {
        Self { start: start.expose_provenance(), words }
    }

    /// Memory of the driver that the host may follow by its address.
    pub(crate) fn at(address: u64, words: usize) -> Self {
        let start = usize::try_from(address).unwrap_or_default();
        Self { start, words }
    }

    /// Where it starts.
    pub(crate) fn ptr(self) -> *mut c_void {
        core::ptr::with_exposed_provenance_mut(self.start)
    }

    /// How long it is, in bytes.
    pub(crate) fn bytes(self) -> usize {
        self.words * 4
    }

    /// Sets every word.
    pub(crate) fn fill(self, value: u32) {
        for i in 0..self.words {
            let word = self.ptr().cast::<u32>().wrapping_add(i);
            // SAFETY: `word` is inside the memory, aligned, and nothing else refers to it.
            unsafe { word.write_volatile(value) };
        }
    }

    /// The first word, as the driver left it.
    pub(crate) fn first(self) -> u32 {
        // SAFETY: the memory holds at least one word, is aligned, and is never freed while a probe runs.
        unsafe { self.ptr().cast::<u32>().read_volatile() }
    }

    /// The last word, as the driver left it.
    pub(crate) fn last(self) -> u32 {
        let word = self.ptr().cast::<u32>().wrapping_add(self.words.saturating_sub(1));
        // SAFETY: as for `first`.
        unsafe { word.read_volatile() }
    }
}

/// Counts how often it was called. The user data is a leaked `AtomicU32`.
pub(crate) unsafe extern "C" fn count(data: *mut c_void) {
    // SAFETY: every probe hands over a leaked `AtomicU32`.
    let counter = unsafe { &*data.cast::<AtomicU32>() };
    counter.fetch_add(1, Ordering::SeqCst);
}

/// Counts how often it was called, and takes the arguments of a stream callback.
pub(crate) unsafe extern "C" fn count_callback(_: CUstream, status: CUresult, data: *mut c_void) {
    if status.is_success() {
        // SAFETY: `count` asks for what every probe hands over: a leaked `AtomicU32`.
        unsafe { count(data) };
    }
}

/// Takes a line of the driver's log and counts it. The user data is a leaked `AtomicU32`.
pub(crate) unsafe extern "C" fn count_log(
    data: *mut c_void,
    _: CUlogLevel,
    _: *mut c_char,
    _: usize,
) {
    // SAFETY: `count` asks for what every probe hands over: a leaked `AtomicU32`.
    unsafe { count(data) };
}

/// Dynamic shared memory per block size: none.
pub(crate) unsafe extern "C" fn no_shared_memory(_: c_int) -> usize {
    0
}

/// A gate that a stream waits at until the probe opens it.
pub(crate) struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
    timeout: Duration,
}

impl Default for Gate {
    fn default() -> Self {
        Self::closed_for(GATE_TIMEOUT)
    }
}

impl Gate {
    /// A gate that opens by itself in a moment.
    pub(crate) fn brief() -> Self {
        Self::closed_for(BRIEF_TIMEOUT)
    }

    fn closed_for(timeout: Duration) -> Self {
        Self { open: Mutex::new(false), changed: Condvar::new(), timeout }
    }

    /// Lets the stream go on.
    pub(crate) fn open(&self) {
        *self.open.lock() = true;
        self.changed.notify_all();
    }
}

/// Waits until the gate is opened. The user data is a leaked `Gate`.
pub(crate) unsafe extern "C" fn wait_at_gate(data: *mut c_void) {
    // SAFETY: every probe hands over a leaked `Gate`.
    let gate = unsafe { &*data.cast::<Gate>() };
    let mut open = gate.open.lock();
    while !*open {
        if gate.changed.wait_for(&mut open, gate.timeout).timed_out() {
            return;
        }
    }
}

/// Work of a stream, done a moment after it has begun.
pub(crate) struct Work {
    gate: Gate,
    done: AtomicBool,
}

impl Work {
    pub(crate) fn new() -> Self {
        Self { gate: Gate::brief(), done: AtomicBool::new(false) }
    }

    /// Takes no time from here on.
    pub(crate) fn hurry(&self) {
        self.gate.open();
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::SeqCst)
    }
}

/// Takes a while. The user data is a leaked `Work`.
pub(crate) unsafe extern "C" fn work(data: *mut c_void) {
    // SAFETY: every probe hands over a leaked `Work`.
    let work = unsafe { &*data.cast::<Work>() };
    let gate = core::ptr::from_ref(&work.gate).cast_mut().cast();
    // SAFETY: a gate that is leaked with its work.
    unsafe { wait_at_gate(gate) };
    work.done.store(true, Ordering::SeqCst);
}

/// What a driver call answered that was made inside a host function.
pub(crate) struct Inside {
    driver: Arc<dyn DriverApi>,
    heard: Mutex<Option<CUresult>>,
}

impl Inside {
    /// Nothing heard yet.
    pub(crate) fn new(driver: Arc<dyn DriverApi>) -> Self {
        Self { driver, heard: Mutex::new(None) }
    }

    /// What the call answered, if it was made.
    pub(crate) fn heard(&self) -> Option<CUresult> {
        *self.heard.lock()
    }
}

/// Creates a stream inside a host function. The user data is a leaked `Inside`.
pub(crate) unsafe extern "C" fn create_stream_inside(data: *mut c_void) {
    // SAFETY: every probe hands over a leaked `Inside`.
    let inside = unsafe { &*data.cast::<Inside>() };
    let mut stream = CUstream::NULL;
    // SAFETY: *pointers*: to a local. *Handles*, *calls back*: none.
    let status = unsafe { inside.driver.cuStreamCreate(&raw mut stream, 0) };
    *inside.heard.lock() = Some(status);
}

/// Closes a file that the driver made. Does nothing for a number that is none.
#[cfg(unix)]
pub(crate) fn close_file(file: c_int) {
    use std::os::fd::{FromRawFd as _, OwnedFd};
    if file >= 0 {
        // SAFETY: the driver gave the number out, or `other_file` did; every probe closes it once.
        drop(unsafe { OwnedFd::from_raw_fd(file) });
    }
}

/// Elsewhere drivers make no files.
#[cfg(not(unix))]
pub(crate) const fn close_file(_: c_int) {}

/// A file that has nothing to do with a driver; -9 where there is none.
#[cfg(unix)]
pub(crate) fn other_file() -> c_int {
    use std::os::fd::IntoRawFd as _;
    std::fs::File::open("/dev/null").map_or(-9, |file| file.into_raw_fd())
}

/// Elsewhere there is none.
#[cfg(not(unix))]
pub(crate) const fn other_file() -> c_int {
    -9
}
