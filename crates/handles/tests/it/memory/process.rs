//! What one process exports and another one opens, as two simulated processes of one machine.

use cuhold_driver_sim::{Sim, SimOptions, ViolationKind};
use cuhold_driver_sys::CUresult;
use cuhold_handles::{
    Closed, Device, DeviceMemory, Driver, Event, EventHandle, EventOptions, ImportedMemory,
    MemoryHandle,
};
use cuhold_testkit::run_simulated;

/// A device of another process.
fn elsewhere(sim: &Sim) -> (Sim, Device) {
    let there = sim.other_process(SimOptions::default());
    let device = Device::with_driver(&Driver::from_api(there.clone()), 0).unwrap();
    (there, device)
}

#[test]
fn memory_is_opened_elsewhere_and_closed_before_it_is_freed() {
    run_simulated(|t, sim| {
        let (there, device) = elsewhere(sim);
        let memory = DeviceMemory::new(t.context(), 64).unwrap();
        let handle = MemoryHandle::from_bytes(memory.export().unwrap().to_bytes());
        let imported = ImportedMemory::open(device.context(), handle, 64).unwrap();
        assert_eq!(imported.bytes(), 64);
        assert_eq!(imported.close().unwrap(), Closed::Destroyed);
        memory.close().unwrap();
        assert_eq!(there.violations(), []);
    });
}

#[test]
fn freeing_memory_that_is_open_elsewhere_is_seen() {
    run_simulated(|t, sim| {
        let (_there, device) = elsewhere(sim);
        let memory = DeviceMemory::new(t.context(), 64).unwrap();
        let handle = memory.export().unwrap();
        let _imported = ImportedMemory::open(device.context(), handle, 64).unwrap();
        memory.close().unwrap();
        let [violation] = &sim.take_violations()[..] else { panic!("one violation") };
        assert_eq!(violation.kind, ViolationKind::EarlyFree);
    });
}

#[test]
fn a_process_does_not_open_what_it_exported_itself() {
    run_simulated(|t, _| {
        let memory = DeviceMemory::new(t.context(), 64).unwrap();
        let error = ImportedMemory::open(t.context(), memory.export().unwrap(), 64).unwrap_err();
        assert!(error.is(CUresult::INVALID_CONTEXT));
        let event = t.device().new_event(EventOptions::interprocess()).unwrap();
        let error = Event::import(t.context(), event.export().unwrap().handle()).unwrap_err();
        assert!(error.is(CUresult::INVALID_CONTEXT));
    });
}

#[test]
fn an_event_is_opened_elsewhere_and_its_token_keeps_it() {
    run_simulated(|t, sim| {
        let (there, device) = elsewhere(sim);
        let event = t.device().new_event(EventOptions::interprocess()).unwrap();
        let token = event.export().unwrap();
        let handle = EventHandle::from_bytes(token.handle().to_bytes());
        drop(event);
        let imported = Event::import(device.context(), handle).unwrap();
        assert!(imported.is_done().unwrap());
        let stream = device.new_stream().unwrap();
        stream.record(&imported).unwrap();
        stream.wait_event(&imported).unwrap();
        stream.synchronize().unwrap();
        assert!(imported.export().is_err(), "it is another process's");
        drop(token);
        // Without the token the event is gone, and using it elsewhere is seen.
        assert!(imported.is_done().unwrap());
        let [violation] = &there.take_violations()[..] else { panic!("one violation") };
        assert_eq!(violation.kind, ViolationKind::UseAfterDestroy);
    });
}
