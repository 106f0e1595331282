//! Drivers that stand over the same functions: what each has for itself, and which ends first.

#![expect(unsafe_code, reason = "launches a kernel")]

use cuhold_driver_sys::{CallCounts, Fault, ffi::CUdevice_attribute};
use cuhold_handles::{Closed, Device, Driver, EventOptions, LaunchConfig, Module, Retention};
use cuhold_testkit::{PTX, run};
use std::sync::Arc;

/// The same context, known through another handle.
#[test]
fn a_function_runs_on_a_stream_of_its_context_through_whatever_handle() {
    run(|t| {
        let device = Device::with_retention(t.driver(), 0, Retention::UntilLast).unwrap();
        assert_ne!(device.context(), t.context());
        let stream = device.new_stream().unwrap();
        let function = Module::load(t.context(), PTX).unwrap().function("nop").unwrap();
        // SAFETY: the kernel has no parameters.
        unsafe { function.launch(&stream, LaunchConfig::for_len(1), ()) }.unwrap();
        stream.synchronize().unwrap();
    });
}

#[test]
fn an_isolated_driver_and_a_hooked_one_have_channels_of_their_own() {
    run(|t| {
        let counts = Arc::<CallCounts>::default();
        for other in [t.driver().isolated(), t.driver().hooked(Arc::clone(&counts))] {
            assert!(!other.same(t.driver()));
            let capture = other.reports().capture(2);
            let device = Device::with_driver(&other, 0).unwrap();
            let event = device.new_event(EventOptions::default()).unwrap();
            let call = cuhold_driver_sys::Call::cuEventDestroy_v2;
            t.faults().arm(Fault::done_but_failed(crate::scope::status(1)).on(call).nth(1));
            drop(event);
            // The calls go through the driver below, whose channel hears nothing of it.
            assert_eq!(capture.take().len(), 1);
            assert_eq!(t.driver().reports().counts().raised, 0);
            drop((capture, device));
            other.close().unwrap();
        }
        assert!(counts.total() > 0);
    });
}

#[test]
fn drivers_over_the_same_functions_retain_primary_contexts_of_their_own() {
    run(|t| {
        let other = t.driver().isolated();
        let device = Device::with_driver(&other, 0).unwrap();
        assert_eq!(device.context().as_raw(), t.context().as_raw());
        assert_ne!(device, *t.device());
        drop(device);
        assert_eq!(other.close().unwrap(), Closed::Destroyed);
        // The other one's retain is still there.
        t.device().new_stream().unwrap().synchronize().unwrap();
        let major = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
        assert!(t.device().attribute(major).unwrap() > 0);
    });
}

#[test]
fn a_driver_that_another_one_stands_over_ends_after_it() {
    let sim = cuhold_driver_sim::Sim::new();
    let below = Driver::from_api(sim.clone());
    let above = below.isolated();
    drop(Device::with_driver(&above, 0).unwrap());
    drop(Device::with_driver(&below, 0).unwrap());
    assert!(!below.is_unique());
    assert_eq!(above.close().unwrap(), Closed::Destroyed);
    assert!(below.is_unique());
    assert_eq!(below.close().unwrap(), Closed::Destroyed);
    assert_eq!(sim.leaks(), []);
}
