//! Inside a callback of the driver every operation is refused before any call is made and any lock is taken.

#![expect(unsafe_code, reason = "launches kernels, and takes raw handles")]

use crate::drop::PATIENCE;
use cuhold_driver_sys::ffi::{CUdevice_attribute, CUfunction_attribute};
use cuhold_handles::{
    Context, ContextFlags, Device, Driver, Error, ErrorKind, Event, EventOptions, Function, Kernel,
    LaunchConfig, Library, Module, PerThreadStream, Retention, Stream, StreamOptions, scope,
};
use cuhold_testkit::{Kit, PTX, run};
use std::sync::{Arc, Mutex};

/// One of everything.
struct Objects {
    driver: Driver,
    device: Device,
    context: Context,
    stream: Stream,
    event: Event,
    timed: Event,
    library: Library,
    kernel: Kernel,
    module: Module,
    function: Function,
}

impl Objects {
    fn of(t: &Kit) -> Self {
        let library = t.kernels();
        let module = Module::load(t.context(), PTX).unwrap();
        Self {
            driver: t.driver().clone(),
            device: t.device().clone(),
            context: Context::new(t.device(), ContextFlags::default()).unwrap(),
            stream: t.device().new_stream().unwrap(),
            event: t.device().new_event(EventOptions::default()).unwrap(),
            timed: t.device().new_event(EventOptions::timing()).unwrap(),
            kernel: library.kernel("nop").unwrap(),
            function: module.function("nop").unwrap(),
            library,
            module,
        }
    }
}

type Operation = (&'static str, fn(&Objects) -> Result<(), Error>);

const ONE: LaunchConfig = LaunchConfig::new([1; 3], [1; 3]);
const MAJOR: CUdevice_attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
const REGS: CUfunction_attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;

const OPERATIONS: &[Operation] = &[
    ("version", |o| o.driver.version().map(drop)),
    ("device_count", |o| o.driver.device_count().map(drop)),
    ("drain", |o| o.driver.reclaim().drain(PATIENCE)),
    ("close of the driver", |o| Ok(o.driver.clone().close().map(drop)?)),
    ("with_driver", |o| Device::with_driver(&o.driver, 0).map(drop)),
    ("with_retention", |o| Device::with_retention(&o.driver, 0, Retention::UntilLast).map(drop)),
    ("name", |o| o.device.name().map(drop)),
    ("total_bytes", |o| o.device.total_bytes().map(drop)),
    ("attribute", |o| o.device.attribute(MAJOR).map(drop)),
    ("compute_capability", |o| o.device.compute_capability().map(drop)),
    ("new_stream", |o| o.device.new_stream().map(drop)),
    ("stream_with", |o| o.device.stream_with(StreamOptions::blocking()).map(drop)),
    ("new_event", |o| o.device.new_event(EventOptions::timing()).map(drop)),
    ("load", |o| o.device.load(PTX).map(drop)),
    ("device.synchronize", |o| o.device.synchronize()),
    ("set_current", |o| o.device.set_current()),
    ("device.with_current", |o| o.device.with_current(|| panic!("called"))),
    ("Context::new", |o| Context::new(&o.device, ContextFlags::default()).map(drop)),
    ("Context::borrow_raw", |o| {
        // SAFETY: the context outlives the handle.
        unsafe { Context::borrow_raw(&o.driver, o.context.as_raw(), None) }.map(drop)
    }),
    ("context.synchronize", |o| o.context.synchronize()),
    ("context.with_current", |o| o.context.with_current(|| panic!("called"))),
    ("stream.synchronize", |o| o.stream.synchronize()),
    ("stream.is_done", |o| o.stream.is_done().map(drop)),
    ("record", |o| o.stream.record(&o.event)),
    ("record_new", |o| o.stream.record_new(EventOptions::default()).map(drop)),
    ("wait_event", |o| o.stream.wait_event(&o.event)),
    ("host_fn", |o| Ok(o.stream.host_fn(|| panic!("called"))?)),
    ("priority", |o| o.stream.priority().map(drop)),
    ("record on the legacy stream", |o| o.device.legacy_stream().record(&o.event)),
    ("record on the per-thread stream", |o| PerThreadStream::new(&o.context).record(&o.event)),
    ("event.is_done", |o| o.event.is_done().map(drop)),
    ("event.synchronize", |o| o.event.synchronize()),
    ("elapsed_ms_since", |o| o.timed.elapsed_ms_since(&o.timed).map(drop)),
    ("kernel", |o| o.library.kernel("nop").map(drop)),
    ("kernel.attribute", |o| o.kernel.attribute(&o.device, REGS).map(drop)),
    ("kernel.launch", |o| {
        // SAFETY: the kernel has no parameters.
        unsafe { o.kernel.launch(&o.stream, ONE, ()) }
    }),
    ("Module::load", |o| Module::load(&o.context, PTX).map(drop)),
    ("function", |o| o.module.function("nop").map(drop)),
    ("function.launch", |o| {
        // SAFETY: the kernel has no parameters.
        unsafe { o.function.launch(&o.stream, ONE, ()) }
    }),
    ("scope::run", |o| scope::run(o.context.target(), |_| panic!("run"))),
    ("scope::neutral", |o| scope::neutral(&o.driver, || panic!("run"), |(), error| error)),
];

#[test]
fn every_operation_is_refused_in_a_callback_before_any_call_is_made() {
    run(|t| {
        let objects = Arc::new(Objects::of(t));
        let stream = t.device().new_stream().unwrap();
        let said = Arc::<Mutex<Vec<(&str, Error)>>>::default();
        // No thread of the reclaimer's makes calls meanwhile.
        let hand = t.driver().reclaim().run_by_hand();
        let (inside, out) = (Arc::clone(&objects), Arc::clone(&said));
        let before = t.counts().total();
        let closure = move || {
            for (name, operation) in OPERATIONS {
                let error = operation(&inside).unwrap_err();
                out.lock().unwrap().push((name, error));
            }
        };
        stream.host_fn(closure).map_err(|refused| refused.error).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(t.counts().total(), before + 2, "the launch and the wait");
        let said = said.lock().unwrap();
        assert_eq!(said.len(), OPERATIONS.len());
        for (name, error) in said.iter() {
            assert_eq!(error.kind(), ErrorKind::NotPermitted, "{name}: {error}");
            assert_eq!((error.call(), error.status()), (None, None), "{name}");
            assert_eq!(
                error.to_string(),
                "no CUDA call may be made inside a callback of the driver",
                "{name}"
            );
        }
        drop((said, hand, objects));
    });
}

#[test]
fn after_a_callback_its_thread_may_call_again() {
    run(|t| {
        let objects = Objects::of(t);
        objects.stream.host_fn(|| ()).map_err(|refused| refused.error).unwrap();
        // On the simulated driver the closure runs here.
        objects.stream.synchronize().unwrap();
        objects.stream.record(&objects.event).unwrap();
        let panicked = objects.stream.host_fn(|| panic!("on purpose"));
        panicked.map_err(|refused| refused.error).unwrap();
        let capture = t.driver().reports().capture(1);
        objects.stream.synchronize().unwrap();
        objects.stream.record(&objects.event).unwrap();
        assert_eq!(capture.take().len(), 1);
    });
}
