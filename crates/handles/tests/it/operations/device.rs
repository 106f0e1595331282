//! Devices, and what they make in their primary context.

use cuhold_handles::{
    Device, EventOptions, Retention, StreamOptions, driver_sys::ffi::CUdevice_attribute,
};
use cuhold_testkit::PTX;

cuhold_testkit::enrol! {
    Device::with_driver |run| {
        let driver = run.new_driver();
        run.create(|| Device::with_driver(&driver, 0));
    }

    Device::with_retention |run| {
        let driver = run.new_driver();
        run.create(|| Device::with_retention(&driver, 0, Retention::UntilLast));
    }

    Device::name |run| {
        run.repeat(|| run.device().name());
    }

    Device::total_bytes |run| {
        run.repeat(|| run.device().total_bytes());
    }

    Device::attribute |run| {
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE;
        run.repeat(|| run.device().attribute(attribute));
    }

    Device::compute_capability |run| {
        run.repeat(|| run.device().compute_capability());
    }

    Device::new_stream |run| {
        run.create(|| run.device().new_stream());
    }

    Device::stream_with |run| {
        run.create(|| run.device().stream_with(StreamOptions::blocking()));
    }

    Device::new_event |run| {
        run.create(|| run.device().new_event(EventOptions::timing()));
    }

    Device::load |run| {
        run.create(|| run.device().load(PTX));
    }

    Device::synchronize |run| {
        run.repeat(|| run.device().synchronize());
    }

    Device::set_current |run| {
        let driver = run.new_driver();
        let device = Device::with_retention(&driver, 0, Retention::UntilLast).unwrap();
        run.set_current(device.context(), || device.set_current());
    }

    Device::release_primary |run| {
        let driver = run.new_driver();
        let device = Device::with_driver(&driver, 0).unwrap();
        drop(run.keep_or(run.op(|| device.release_primary())));
    }
}
