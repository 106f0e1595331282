//! Objects of two drivers in one call: refused before any call is made. And what each of two drivers keeps to itself:
//! its channel, its hooks.

#![expect(unsafe_code, reason = "launches")]

use cuhold_driver_sim::Sim;
use cuhold_driver_sys::{CUresult, Call, CallLog, Effect, Fault, ffi::CUfunction_attribute};
use cuhold_handles::{
    Context, ContextFlags, Device, Driver, Error, ErrorKind, Event, EventOptions, Function, Kernel,
    LaunchConfig, Module, PerThreadStream, Result, Stream,
};
use cuhold_testkit::{Kit, PTX, run};
use std::sync::Arc;

const E: CUresult = CUresult(9001);

/// One object of each kind that can stand in a call with another one.
struct Side {
    device: Device,
    stream: Stream,
    event: Event,
    kernel: Kernel,
    function: Function,
}

impl Side {
    fn of(driver: &Driver) -> Self {
        let device = Device::with_driver(driver, 0).unwrap();
        Self::with(&device, device.context())
    }

    fn with(device: &Device, context: &Context) -> Self {
        Self {
            device: device.clone(),
            stream: context.new_stream().unwrap(),
            event: Event::with_options(context, EventOptions::timing()).unwrap(),
            kernel: device.load(PTX).unwrap().kernel("nop").unwrap(),
            function: Module::load(context, PTX).unwrap().function("nop").unwrap(),
        }
    }

    fn per_thread(&self) -> PerThreadStream {
        PerThreadStream::new(self.stream.context())
    }
}

/// An operation on an object of the first side with one of the second.
type Operation = fn(&Side, &Side) -> Result<()>;

const ONE: LaunchConfig = LaunchConfig::new([1; 3], [1; 3]);

/// Every operation that takes two objects, by which argument it names in its refusal.
const OPERATIONS: &[(&str, Operation)] = &[
    ("event", |a, b| a.stream.record(&b.event)),
    ("event", |a, b| a.stream.wait_event(&b.event)),
    ("event", |a, b| a.device.legacy_stream().record(&b.event)),
    ("event", |a, b| a.device.legacy_stream().wait_event(&b.event)),
    ("event", |a, b| a.per_thread().record(&b.event)),
    ("event", |a, b| a.per_thread().wait_event(&b.event)),
    ("earlier", |a, b| a.event.elapsed_ms_since(&b.event).map(drop)),
    ("device", |a, b| {
        let registers = CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
        a.kernel.attribute(&b.device, registers).map(drop)
    }),
    // SAFETY: in each, the kernel has no parameters and touches no memory.
    ("stream", |a, b| unsafe { a.kernel.launch(&b.stream, ONE, ()) }),
    // SAFETY: as above.
    ("stream", |a, b| unsafe { a.kernel.launch(&b.per_thread(), ONE, ()) }),
    // SAFETY: as above.
    ("stream", |a, b| unsafe { a.function.launch(&b.stream, ONE, ()) }),
    // SAFETY: as above.
    ("stream", |a, b| unsafe { a.function.launch(&b.per_thread(), ONE, ()) }),
];

fn is_two_drivers(error: &Error, argument: &str) {
    let text = format!("{argument} belongs to another driver than the object it is used with");
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Argument, text));
    assert_eq!((error.call(), error.status()), (None, None));
}

/// Each operation, both ways round: refused, and neither driver is called.
fn never_meet(t: &Kit, other: &Driver, others_calls: &CallLog) {
    let (ours, theirs) = (Side::of(t.driver()), Side::of(other));
    for (index, (argument, operation)) in OPERATIONS.iter().enumerate() {
        for (a, b) in [(&ours, &theirs), (&theirs, &ours)] {
            let ((result, here), there) = others_calls.during(|| t.calls(|| operation(a, b)));
            is_two_drivers(&result.unwrap_err(), argument);
            assert_eq!(here, [""; 0], "operation {index}");
            assert!(there.is_empty(), "operation {index}: {there:?}");
        }
    }
}

#[test]
fn objects_of_an_isolated_driver_and_of_the_one_below_it_never_meet_in_one_call() {
    run(|t| never_meet(t, &t.driver().isolated(), &CallLog::new()));
}

#[test]
fn objects_of_two_unrelated_drivers_never_meet_in_one_call() {
    run(|t| {
        let sim = Sim::new();
        never_meet(t, &Driver::from_api(sim.clone()), sim.log());
    });
}

#[test]
fn every_operation_works_on_objects_of_one_driver() {
    run(|t| {
        let (a, b) = (Side::of(t.driver()), Side::of(t.driver()));
        // Recorded before they are waited for and measured between.
        a.stream.record(&a.event).unwrap();
        b.stream.record(&b.event).unwrap();
        t.device().synchronize().unwrap();
        for (index, (_, operation)) in OPERATIONS.iter().enumerate() {
            operation(&a, &b).unwrap_or_else(|error| panic!("operation {index}: {error}"));
            t.device().synchronize().unwrap();
        }
    });
}

#[test]
fn a_function_is_refused_on_a_stream_of_another_context() {
    run(|t| {
        let other = Context::new(t.device(), ContextFlags::default()).unwrap();
        let (ours, theirs) = (Side::of(t.driver()), Side::with(t.device(), &other));
        let operations: [Operation; 2] = [
            // SAFETY: in each, the kernel has no parameters and touches no memory.
            |a, b| unsafe { a.function.launch(&b.stream, ONE, ()) },
            // SAFETY: as above.
            |a, b| unsafe { a.function.launch(&b.per_thread(), ONE, ()) },
        ];
        for operation in operations {
            let (result, calls) = t.calls(|| operation(&ours, &theirs));
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Argument);
            assert_eq!(
                error.to_string(),
                "stream: it is of another context than the function's module"
            );
            assert_eq!(calls, [""; 0]);
            operation(&theirs, &theirs).unwrap();
        }
        other.synchronize().unwrap();
    });
}

#[test]
fn a_kernel_runs_on_streams_of_every_context() {
    run(|t| {
        let other = Context::new(t.device(), ContextFlags::default()).unwrap();
        let (kernel, stream) = (t.kernels().kernel("nop").unwrap(), other.new_stream().unwrap());
        // SAFETY: the kernel has no parameters and touches no memory.
        unsafe { kernel.launch(&stream, ONE, ()) }.unwrap();
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_failure_is_reported_on_the_channel_of_the_object_s_own_driver() {
    run(|t| {
        let isolated = t.driver().isolated();
        let device = Device::with_driver(&isolated, 0).unwrap();
        for (dropped, own, others) in [
            (device.new_stream().unwrap(), isolated.clone(), t.driver().clone()),
            (t.device().new_stream().unwrap(), t.driver().clone(), isolated.clone()),
        ] {
            let (warnings, elsewhere) = (own.reports().capture(8), others.reports().counts());
            let fault = Fault::new(Effect::DoneButFailed(E)).on(Call::cuStreamDestroy_v2).nth(1);
            t.faults().arm(fault);
            drop(dropped);
            t.faults().disarm();
            let heard = warnings.take();
            assert_eq!(heard.len(), 1, "{heard:?}");
            assert_eq!(
                (heard[0].call(), heard[0].status()),
                (Some(Call::cuStreamDestroy_v2), Some(E))
            );
            assert_eq!(others.reports().counts(), elsewhere);
        }
    });
}

#[test]
fn a_hook_sees_the_calls_of_its_own_driver_and_not_of_the_one_below() {
    run(|t| {
        let log = Arc::<CallLog>::default();
        let hooked = t.driver().hooked(Arc::clone(&log));
        let device = Device::with_driver(&hooked, 0).unwrap();
        let seen = |work: &dyn Fn()| {
            let ((), entries) = log.during(work);
            entries.iter().map(|entry| entry.call().name()).collect::<Vec<_>>()
        };
        let of_hooked = seen(&|| device.synchronize().unwrap());
        assert!(of_hooked.contains(&"cuCtxSynchronize"), "{of_hooked:?}");
        assert_eq!(seen(&|| t.device().synchronize().unwrap()), [""; 0]);
    });
}

#[test]
fn a_fault_in_a_hook_leaves_the_driver_below_alone() {
    run(|t| {
        let faults = Arc::<cuhold_driver_sys::Faults>::default();
        let hooked = t.driver().hooked(Arc::clone(&faults));
        let device = Device::with_driver(&hooked, 0).unwrap();
        faults.arm(Fault::refused(E));
        assert!(device.new_stream().unwrap_err().is(E));
        t.device().new_stream().unwrap();
        faults.disarm();
    });
}
