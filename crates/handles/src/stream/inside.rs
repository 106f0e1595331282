//! Handles of a stream that the library keeps for itself, and how it learns that nobody else has one any more.
//!
//! A pool keeps the streams on which its memory was freed, a caching resource those for which it keeps memory. Such a
//! handle is counted like any other, and once more in the state word as one from inside. Whoever lets go of a handle
//! compares: if all others are from inside, the watches of the driver are told, before the handle goes, so that the stream
//! ends on that thread if they let go of theirs.
//!
//! The two counts are read one after the other, so that of two threads which let go of the last two handles at the same
//! moment neither may notice. A watch therefore also asks, where it comes by, which of its streams [nobody
//! else](InsideStream::is_left) has.

use super::{INSIDE_ONE, Stream, StreamRes};
use crate::{callback, driver::Driver, resource::Handle};
use cuhold_driver_sys::{Life, mutant};
use parking_lot::Mutex;
use std::{
    fmt,
    mem::ManuallyDrop,
    ops::Deref,
    sync::{Arc, Weak, atomic::Ordering},
};

/// Told of streams that nobody has any more but the library itself.
#[doc(hidden)]
pub trait StreamWatch: Send + Sync {
    /// Nobody else has a handle of the stream of this number. Called where calls may be made, in a `Drop` it may be, with
    /// nothing locked.
    fn is_left(&self, stream: u64);
}

/// Who is told. Held weakly: a watch holds the driver.
#[derive(Default)]
pub(crate) struct Watches(Mutex<Vec<Weak<dyn StreamWatch>>>);

impl Watches {
    fn tell(&self, stream: u64) {
        // One at a time, and none while it is locked: a watch makes calls.
        for index in 0.. {
            let Some(watch) = self.0.lock().get(index).cloned() else { return };
            if let Some(watch) = watch.upgrade() {
                watch.is_left(stream);
            }
        }
    }
}

impl Driver {
    /// Tells this watch of left streams as long as it lives.
    #[doc(hidden)]
    pub fn watch_streams(&self, watch: Weak<dyn StreamWatch>) {
        let mut watches = self.watches().0.lock();
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(watch);
    }
}

/// A handle of a stream that the library keeps for itself.
#[doc(hidden)]
pub struct InsideStream(ManuallyDrop<Stream>);

impl InsideStream {
    /// Keeps the stream.
    #[must_use]
    pub fn new(stream: &Stream) -> Self {
        stream.0.state().fetch_add(INSIDE_ONE, Ordering::Relaxed);
        Self(ManuallyDrop::new(stream.clone()))
    }

    /// Whether all handles of the stream are from inside.
    #[must_use]
    pub fn is_left(&self) -> bool {
        self.0.0.count() <= inside(&self.0.0)
    }
}

impl Deref for InsideStream {
    type Target = Stream;
    fn deref(&self) -> &Stream {
        &self.0
    }
}

impl Drop for InsideStream {
    #[expect(unsafe_code, reason = "takes the handle out, to let go of it as what it is")]
    fn drop(&mut self) {
        self.0.0.state().fetch_sub(INSIDE_ONE, Ordering::Relaxed);
        // SAFETY: taken once: this is the drop.
        unsafe { ManuallyDrop::take(&mut self.0) }.0.let_go();
    }
}

impl fmt::Debug for InsideStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

fn inside(handle: &Handle<StreamRes>) -> usize {
    (handle.state().load(Ordering::Acquire) / INSIDE_ONE) as usize
}

/// A handle is about to go: the last that isn't from inside?
#[inline]
pub(super) fn going(handle: &Handle<StreamRes>) {
    let inside = inside(handle);
    if inside > 0 && handle.count() == inside.saturating_add(1) {
        left(handle);
    }
}

#[cold]
fn left(handle: &Handle<StreamRes>) {
    let driver = handle.driver();
    if driver.api().life() == Life::Forked || mutant::is_out("left-stream") {
        return;
    }
    let stream = handle.id();
    if !callback::inside() {
        return driver.watches().tell(stream);
    }
    // No call may be made here, and no lock taken. Not the driver, which could end with what is left to the reclaimer.
    let weak = driver.downgrade();
    driver.reclaim().inlet().defer(None, move || {
        if let Some(driver) = Driver::upgrade(&weak) {
            driver.watches().tell(stream);
        }
    });
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Arc<dyn StreamWatch>>();
    shared::<InsideStream>();
    assert!(size_of::<InsideStream>() == 8);
};
