//! Memory that is mapped and imported: what fails is told then, and what comes later isn't touched by it.

use cuhold_driver_sim::Sim;
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{
    Device, Driver, Mapping, ObjectKind, PhysicalAllocation, PhysicalOptions, Reservation,
    ReservationOptions,
};
use cuhold_testkit::run;
use std::{fs::File, io::Read as _};

fn mapped(device: &Device) -> Mapping {
    let bytes = PhysicalAllocation::granularity_bytes(device, PhysicalOptions::default()).unwrap();
    let range = Reservation::new(device, bytes, ReservationOptions::default()).unwrap();
    let memory = PhysicalAllocation::new(device, bytes, PhysicalOptions::default()).unwrap();
    Mapping::new(&range, 0, &memory).unwrap()
}

/// S21: the failure is told when it happens; the addresses stay taken, and the next mapping is made elsewhere.
#[test]
fn an_unmap_that_failed_is_told_then_and_a_later_mapping_is_tried_and_made() {
    // Its own driver: what can't be unmapped is left.
    let sim = Sim::new();
    let driver = Driver::from_api(sim.clone());
    let device = Device::with_driver(&driver, 0).unwrap();
    let capture = driver.reports().capture(8);
    let first = mapped(&device);
    let address = first.as_raw();
    sim.faults().arm(Fault::refused(CUresult::INVALID_VALUE).on(Call::cuMemUnmap).nth(1));
    drop(first);
    driver.reclaim().drain(crate::drop::PATIENCE).unwrap();
    sim.faults().disarm();
    let told = capture.take();
    let about_mapping: Vec<_> =
        told.iter().filter(|warning| warning.object().kind == ObjectKind::Mapping).collect();
    assert_eq!(about_mapping.len(), 1, "{told:?}");
    assert_eq!(about_mapping[0].object().raw, address);
    assert_eq!(about_mapping[0].call(), Some(Call::cuMemUnmap));

    let second = mapped(&device);
    assert_ne!(second.as_raw(), address, "what may still be mapped isn't handed out");
    second.close().map_err(|refused| refused.error).unwrap();
    assert_eq!(capture.take(), []);
}

/// S24: what is no export is an error that names the call, and the caller's own file stays open.
#[test]
fn importing_a_file_that_is_no_export_is_an_error_that_names_the_call() {
    run(|t| {
        let options = PhysicalOptions::default();
        let bytes = PhysicalAllocation::granularity_bytes(t.device(), options).unwrap();
        let mut file = File::open("/dev/null").unwrap();
        let error = PhysicalAllocation::import(t.device(), &file, bytes).unwrap_err();
        assert!(error.to_string().starts_with("cuMemImportFromShareableHandle "), "{error}");
        assert!(error.status().is_some());
        assert_eq!(file.read(&mut [0; 8]).unwrap(), 0, "the caller's own is open");
        // The driver goes on.
        t.device().new_stream().unwrap().synchronize().unwrap();
    });
}
