//! The matrix: memory of every resource, beside a capture of somebody else's in every mode, with every kind of context
//! current. What happens in each cell is printed; what must happen in all of them is asserted.

#![expect(unsafe_code, reason = "puts contexts on the thread's stack as other libraries do")]

use crate::raw::{self, Mode};
use cuhold_driver_sys::{CUresult, ffi::CUcontext};
use cuhold_handles::{Context, ContextFlags, Error, Stream};
use cuhold_memory::{
    Buffer, ManagedResource, MemoryResource, Pool, PoolOptions, PoolPlace, SynchronousResource,
};
use cuhold_testkit::{Kit, run};
use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

/// What is current.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Current {
    Nothing,
    Own,
    /// Another one of the device.
    Another,
    /// One that was destroyed while it was current.
    Destroyed,
}

const CURRENT: [Current; 4] =
    [Current::Nothing, Current::Own, Current::Another, Current::Destroyed];

const MODES: [(&str, Option<Mode>); 4] = [
    ("none", None),
    ("relaxed", Some(raw::RELAXED)),
    ("thread-local", Some(Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)),
    ("global", Some(raw::GLOBAL)),
];

const RESOURCES: [&str; 7] = [
    "current pool",
    "own pool",
    "host pool",
    "NUMA pool",
    "managed pool",
    "managed",
    "synchronous",
];

type Resource = Arc<dyn MemoryResource>;

/// Makes a resource; an `Err` where the device or the driver has none such.
fn resource(t: &Kit, name: &str) -> Result<Resource, Error> {
    let device = t.device();
    let at = |place| -> Result<Resource, Error> {
        Ok(Arc::new(Pool::new(device, PoolOptions::default().place(place))?))
    };
    Ok(match name {
        "current pool" => Arc::new(Pool::current_of(device)?),
        "own pool" => return at(PoolPlace::Device),
        "host pool" => return at(PoolPlace::Host),
        "NUMA pool" => return at(PoolPlace::HostNuma(0)),
        "managed pool" => return at(PoolPlace::Managed),
        "managed" => Arc::new(ManagedResource::new(device)),
        _ => Arc::new(SynchronousResource::new(device)),
    })
}

/// Makes a context current for a while.
fn with_current(t: &Kit, current: Current, body: impl FnOnce()) {
    let other = Context::new(t.device(), ContextFlags::default()).unwrap();
    let pushed = match current {
        Current::Nothing => None,
        Current::Own => Some(t.context().as_raw()),
        Current::Another | Current::Destroyed => Some(other.as_raw()),
    };
    let calls = t.driver().calls();
    if let Some(context) = pushed {
        // SAFETY: *handles*: a live context.
        unsafe { calls.cuCtxPushCurrent_v2(context) }.unwrap();
    }
    let mut other = Some(other);
    if current == Current::Destroyed {
        let other = other.take().unwrap();
        thread::scope(|s| s.spawn(move || other.close().map_err(|refused| refused.error)).join())
            .unwrap()
            .unwrap();
    }
    let before = raw::current(t.driver());
    body();
    assert_eq!(raw::current(t.driver()), before, "{current:?}");
    if pushed.is_some() {
        let mut popped = CUcontext::NULL;
        // SAFETY: *pointers*: a live local.
        unsafe { calls.cuCtxPopCurrent_v2(&raw mut popped) }.unwrap();
    }
}

/// Runs `body` while another thread captures a stream of its own, and tells whether that capture went on.
fn beside(t: &Kit, mode: Option<Mode>, body: impl FnOnce()) -> bool {
    let Some(mode) = mode else {
        body();
        return true;
    };
    let foreign = t.device().new_stream().unwrap();
    let (begun, is_begun) = mpsc::channel();
    let (over, is_over) = mpsc::channel();
    thread::scope(|s| {
        let captures = s.spawn(move || {
            raw::begin(&foreign, mode);
            begun.send(()).unwrap();
            is_over.recv().unwrap();
            let goes_on = raw::is_captured(&foreign);
            raw::end_anyhow(&foreign);
            goes_on
        });
        is_begun.recv().unwrap();
        body();
        over.send(()).unwrap();
        captures.join().unwrap()
    })
}

/// Makes memory, uses it, and reads it back.
fn used(source: &Resource, stream: &Stream) -> Result<Buffer<u32>, Error> {
    let mut buffer = Buffer::<u32>::uninit_in(source, stream, 300)?;
    buffer.fill(7)?;
    let is_read = buffer.to_vec()? == [7; 300];
    is_read.then_some(buffer).ok_or_else(|| Error::state("other values were read"))
}

#[expect(clippy::print_stdout, reason = "the table is what the test is run for, too")]
fn print(name: &str, mode: &str, current: Current, outcome: &str) {
    println!("matrix {name:13} {mode:13} {current:?}: {outcome}");
}

/// One cell: everything is made, used and ended beside the capture.
fn cell(t: &Kit, name: &str, (mode_name, mode): (&str, Option<Mode>), current: Current) {
    let stream = t.device().new_stream().unwrap();
    let mut outcome = String::new();
    with_current(t, current, || {
        let mut made = Ok(());
        let goes_on = beside(t, mode, || {
            made = resource(t, name).and_then(|source| used(&source, &stream)).map(drop);
            t.driver().reclaim().drain(Duration::from_secs(20)).unwrap();
        });
        outcome = match &made {
            Ok(()) => "works, the capture goes on".to_owned(),
            Err(error) => format!(
                "{:?}, the capture {}",
                error.status(),
                ["ended", "goes on"][usize::from(goes_on)]
            ),
        };
        let is_refused = |error: &Error| error.is(CUresult::STREAM_CAPTURE_UNSUPPORTED);
        match made {
            Ok(()) => assert!(goes_on, "{name} {mode_name} {current:?}: disturbed the capture"),
            // What isn't there, a context that somebody destroyed, or the driver's own rule about allocating beside a
            // capture in global mode.
            Err(error) if goes_on => {
                let is_plain =
                    current == Current::Destroyed && error.is(CUresult::CONTEXT_IS_DESTROYED);
                assert!(is_plain || is_missing(&error), "{name} {mode_name} {current:?}: {error}");
            }
            Err(error) => {
                assert!(is_refused(&error), "{name} {mode_name} {current:?}: {error}");
                assert_eq!(mode, Some(raw::GLOBAL));
            }
        }
    });
    print(name, mode_name, current, &outcome);
    // The stream and the driver are as usable as before.
    assert_eq!(Buffer::from_slice(&stream, &[1]).unwrap().to_vec().unwrap(), [1]);
}

/// Whether it isn't to be had on this device.
fn is_missing(error: &Error) -> bool {
    error.is(CUresult::NOT_SUPPORTED) || error.is(CUresult::MISSING)
}

/// One cell of the other kind: memory and resource are there before the capture, and end beside it.
fn ending(t: &Kit, name: &str, (mode_name, mode): (&str, Option<Mode>), current: Current) {
    let stream = t.device().new_stream().unwrap();
    let Ok(buffer) = resource(t, name).and_then(|source| used(&source, &stream)) else { return };
    with_current(t, current, || {
        let goes_on = beside(t, mode, || {
            drop(buffer);
            t.driver().reclaim().drain(Duration::from_secs(20)).unwrap();
        });
        assert!(goes_on, "{name} {mode_name} {current:?}: an end disturbed the capture");
    });
}

macro_rules! matrix {
    ($($name:ident $resource:literal)*) => { $(
        #[test]
        fn $name() {
            assert!(RESOURCES.contains(&$resource));
            run(|t| {
                for mode in MODES {
                    for current in CURRENT {
                        cell(t, $resource, mode, current);
                        ending(t, $resource, mode, current);
                    }
                }
            });
        }
    )* };
}

matrix! {
    the_current_pool_works_beside_captures_with_any_context_current "current pool"
    an_own_pool_works_beside_captures_with_any_context_current "own pool"
    a_host_pool_works_beside_captures_with_any_context_current "host pool"
    a_numa_pool_works_beside_captures_with_any_context_current "NUMA pool"
    a_managed_pool_works_beside_captures_with_any_context_current "managed pool"
    managed_memory_works_beside_captures_with_any_context_current "managed"
    synchronous_memory_works_beside_captures_with_any_context_current "synchronous"
}
