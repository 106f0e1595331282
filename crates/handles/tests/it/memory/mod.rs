//! Memory that isn't stream-ordered, mappings, imports, files: made, refused, given away, ended.

#![expect(unsafe_code, reason = "takes raw values")]

mod descriptor;
mod process;
mod users;

use cuhold_driver_sim::{ObjectKind as SimKind, Sim, SimOptions};
use cuhold_driver_sys::{CUresult, Fault};
use cuhold_handles::{
    Access, Accessor, Attach, BorrowedMemory, Closed, Device, DeviceMemory, Driver, ErrorKind,
    Event, EventOptions, Fate, ManagedMemory, Mapping, ObjectKind, PhysicalAllocation,
    PhysicalLocation, PhysicalOptions, RegisterOptions, RegisteredMemory, Reservation,
    ReservationOptions,
};
use cuhold_testkit::{Kit, run, run_simulated, run_with};
use std::{
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(30);
const E: CUresult = CUresult(9001);

/// Counts its drops.
struct Counted(Arc<AtomicU32>, [u8; 64]);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Such a value, where its bytes are, and the count.
fn counted() -> (Arc<Counted>, NonNull<u8>, Arc<AtomicU32>) {
    let drops = Arc::new(AtomicU32::new(0));
    let owner = Arc::new(Counted(Arc::clone(&drops), [0; 64]));
    let start = NonNull::from(&owner.1).cast();
    (owner, start, drops)
}

fn granule(t: &Kit) -> usize {
    PhysicalAllocation::granularity_bytes(t.device(), PhysicalOptions::default()).unwrap()
}

fn range(t: &Kit, granules: usize) -> Reservation {
    Reservation::new(t.device(), granules * granule(t), ReservationOptions::default()).unwrap()
}

fn allocation(t: &Kit) -> PhysicalAllocation {
    PhysicalAllocation::new(t.device(), granule(t), PhysicalOptions::default()).unwrap()
}

#[test]
fn no_bytes_are_refused_before_any_call() {
    run(|t| {
        let refused = |error: cuhold_handles::Error| {
            assert_eq!(error.kind(), ErrorKind::Argument);
            assert_eq!(error.to_string(), "bytes: 0, and at least 1 is needed");
        };
        let ((), calls) = t.calls(|| {
            refused(DeviceMemory::new(t.context(), 0).unwrap_err());
            refused(ManagedMemory::new(t.context(), 0, Attach::Global).unwrap_err());
            let options = RegisterOptions::default();
            refused(RegisteredMemory::new(t.context(), Vec::new(), options).unwrap_err());
            // SAFETY: refused.
            refused(unsafe { BorrowedMemory::borrow_raw(t.context(), 0, 8, None) }.unwrap_err());
            // SAFETY: refused.
            refused(unsafe { DeviceMemory::from_raw(t.context(), 0, 8) }.unwrap_err());
            refused(PhysicalAllocation::mapped_at(t.device(), 8, 0).unwrap_err());
        });
        assert_eq!(calls, [""; 0]);
    });
}

#[test]
fn sizes_that_aren_t_whole_are_refused_with_the_granularity() {
    run(|t| {
        let bytes = granule(t) + 1;
        let text =
            format!("bytes: {bytes}, and it must be a multiple of {} that isn't 0", granule(t));
        let error = PhysicalAllocation::new(t.device(), bytes, PhysicalOptions::default());
        assert_eq!(error.unwrap_err().to_string(), text);
        let error = Reservation::new(t.device(), bytes, ReservationOptions::default());
        assert_eq!(error.unwrap_err().to_string(), text);
        let error = Reservation::new(t.device(), granule(t), ReservationOptions::aligned(3));
        assert_eq!(
            error.unwrap_err().to_string(),
            "alignment_bytes: 3, and it must be a power of two, or 0"
        );
    });
}

#[test]
fn a_mapping_that_does_not_fit_is_refused_before_any_call() {
    run(|t| {
        let (range, allocation, granule) = (range(t, 2), allocation(t), granule(t));
        for offset in [2 * granule, granule + 1, usize::MAX] {
            let (error, calls) = t.calls(|| Mapping::new(&range, offset, &allocation).unwrap_err());
            assert_eq!(calls, [""; 0]);
            assert_eq!(
                error.to_string(),
                format!(
                    "offset_bytes: {offset}, and {granule} bytes behind it don't fit a reservation of {}",
                    2 * granule
                )
            );
        }
    });
}

#[test]
fn objects_of_two_drivers_never_meet_in_one_call() {
    run(|t| {
        let driver = t.driver().isolated();
        let other = Device::with_driver(&driver, 0).unwrap();
        let (range, allocation) = (range(t, 1), allocation(t));
        let theirs =
            PhysicalAllocation::new(&other, granule(t), PhysicalOptions::default()).unwrap();
        let mapping = Mapping::new(&range, 0, &allocation).unwrap();
        let memory = DeviceMemory::new(t.context(), 64).unwrap();
        let stream = other.new_stream().unwrap();
        let (errors, calls) = t.calls(|| {
            [
                Mapping::new(&range, 0, &theirs).map(drop).unwrap_err(),
                mapping.set_access(&other, Access::ReadWrite).unwrap_err(),
                mapping.access(&other).map(drop).unwrap_err(),
                mapping.used_on(&stream).unwrap_err(),
                memory.used_on(&stream).unwrap_err(),
            ]
        });
        assert_eq!(calls, [""; 0]);
        let named = ["allocation", "device", "device", "stream", "stream"];
        for (error, what) in errors.iter().zip(named) {
            assert_eq!(error.kind(), ErrorKind::Argument);
            assert!(error.to_string().starts_with(what), "{error}");
        }
        drop((theirs, stream, other));
        driver.close().unwrap();
    });
}

#[test]
fn access_is_given_by_a_checked_list_all_of_it_or_nothing() {
    run_with(SimOptions::with_devices(2), |t| {
        let Some(other) = t.second_device() else { return };
        let mapping = Mapping::new(&range(t, 1), 0, &allocation(t)).unwrap();
        let own = Accessor::Device(t.device().clone());
        let peer = Accessor::Device(other.clone());
        let ((), calls) = t.calls(|| {
            let error = mapping.set_access_list(&[]).unwrap_err();
            assert_eq!(error.to_string(), "list: it is empty, and at least one entry is needed");
            let twice = [(own.clone(), Access::Read), (own.clone(), Access::ReadWrite)];
            let error = mapping.set_access_list(&twice).unwrap_err();
            assert!(error.to_string().ends_with("stands in it twice"), "{error}");
        });
        assert_eq!(calls, [""; 0]);
        // The host has no access to a device's memory: nobody gets any.
        let list = [(own.clone(), Access::ReadWrite), (Accessor::Host, Access::Read)];
        mapping.set_access_list(&list).unwrap_err();
        assert_eq!(mapping.access(t.device()).unwrap(), Access::None);
        let list = [(own, Access::ReadWrite), (peer, Access::Read)];
        let ((), calls) = t.calls(|| mapping.set_access_list(&list).unwrap());
        assert_eq!(calls, ["cuMemSetAccess"]);
        assert_eq!(mapping.access(t.device()).unwrap(), Access::ReadWrite);
        assert_eq!(mapping.access(&other).unwrap(), Access::Read);
        assert_eq!(mapping.granted(), list);
        mapping.set_access(&other, Access::None).unwrap();
        assert_eq!(mapping.granted()[1].1, Access::None);
    });
}

#[test]
fn addresses_are_reserved_where_they_are_wished_for_if_they_are_free() {
    run_simulated(|t, _| {
        let first = range(t, 1);
        let behind = first.as_raw() + first.bytes() as u64;
        let reserve = |address| {
            Reservation::new(t.device(), granule(t), ReservationOptions::at(address)).unwrap()
        };
        let second = reserve(behind);
        assert_eq!(second.as_raw(), behind);
        // Taken by now: elsewhere.
        let third = reserve(behind);
        assert_ne!(third.as_raw(), behind);
    });
}

#[test]
fn waiting_for_a_mapping_s_users_keeps_them_for_its_end() {
    run(|t| {
        let mapping = Mapping::new(&range(t, 1), 0, &allocation(t)).unwrap();
        let stream = t.device().new_stream().unwrap();
        let ((), calls) = t.calls(|| mapping.wait().unwrap());
        assert_eq!(calls, [""; 0]);
        mapping.used_on(&stream).unwrap();
        let waits = || t.calls(|| mapping.wait().unwrap()).1;
        assert!(waits().contains(&"cuEventSynchronize"));
        assert!(waits().contains(&"cuEventSynchronize"));
        let (_, calls) = t.calls(|| mapping.clone());
        assert_eq!(calls, [""; 0]);
        let (_, calls) = t.calls(|| mapping.close().unwrap());
        let waited = calls.iter().position(|call| *call == "cuEventSynchronize").unwrap();
        assert!(waited < calls.iter().position(|call| *call == "cuMemUnmap").unwrap());
    });
}

#[test]
fn addresses_stay_reserved_by_every_handle_where_something_could_not_be_unmapped() {
    let sim = Sim::new();
    let driver = Driver::from_api(sim.clone());
    let device = Device::with_driver(&driver, 0).unwrap();
    let bytes = 2 << 20;
    let range = Reservation::new(&device, bytes, ReservationOptions::default()).unwrap();
    let memory = PhysicalAllocation::new(&device, bytes, PhysicalOptions::default()).unwrap();
    let mapping = Mapping::new(&range, 0, &memory).unwrap();
    sim.faults().arm(Fault::done_but_failed(E).on_function("cuMemUnmap").nth(1));
    assert!(mapping.close().unwrap_err().error.is(E));
    let refused = range.close().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::State);
    let capture = driver.reports().capture(1);
    drop(refused.value);
    assert_eq!(capture.take(), []);
    assert_eq!(sim.live(SimKind::Reservation), 1);
}

#[test]
fn memory_of_the_host_is_mapped_for_a_device_and_for_the_host() {
    run_simulated(|t, _| {
        for (location, host) in [
            (PhysicalLocation::Host, Accessor::Host),
            (PhysicalLocation::HostNuma(0), Accessor::HostNuma(0)),
        ] {
            let options = PhysicalOptions::default().location(location);
            let memory = PhysicalAllocation::new(t.device(), granule(t), options).unwrap();
            let mapping = Mapping::new(&range(t, 1), 0, &memory).unwrap();
            let own = Accessor::Device(t.device().clone());
            mapping.set_access_list(&[(own, Access::ReadWrite), (host, Access::Read)]).unwrap();
            assert_eq!(mapping.access(t.device()).unwrap(), Access::ReadWrite);
        }
        // Of a node that there isn't, and memory of no particular one for other processes.
        let missing = PhysicalOptions::default().location(PhysicalLocation::HostNuma(9));
        let shared = PhysicalOptions::shareable().location(PhysicalLocation::Host);
        for options in [missing, shared] {
            let error = PhysicalAllocation::new(t.device(), granule(t), options).unwrap_err();
            assert!(error.is(CUresult::INVALID_VALUE), "{error}");
        }
    });
}

#[test]
fn memory_of_a_mapping_is_used_once_a_device_has_access() {
    run(|t| {
        let mapping = Mapping::new(&range(t, 1), 0, &allocation(t)).unwrap();
        assert_eq!(mapping.access(t.device()).unwrap(), Access::None);
        let error = mapping.memory().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::State);
        mapping.set_access(t.device(), Access::ReadWrite).unwrap();
        assert_eq!(mapping.access(t.device()).unwrap(), Access::ReadWrite);
        let memory = mapping.memory().unwrap();
        assert_eq!((memory.bytes(), memory.mapping()), (granule(t), &mapping));
        let (stream, fill) =
            (t.device().new_stream().unwrap(), t.kernels().kernel("fill").unwrap());
        let config = cuhold_handles::LaunchConfig::for_len(16);
        // SAFETY: the memory has at least 16 words, and remembers who uses it.
        unsafe { fill.launch(&stream, config, (&memory, 7_u32, 16_u32)) }.unwrap();
        stream.synchronize().unwrap();
        // What is the mapping's last handle ends it, then its addresses, then its memory.
        drop(mapping);
        let by_hand = t.driver().reclaim().run_by_hand();
        drop(memory);
        let ((), calls) = t.calls(|| while by_hand.step() {});
        assert_eq!(calls[calls.len() - 3..], ["cuMemUnmap", "cuMemAddressFree", "cuMemRelease"]);
    });
}

#[test]
fn a_mapping_keeps_its_memory_and_its_addresses() {
    run(|t| {
        let (range, allocation) = (range(t, 1), allocation(t));
        let mapping = Mapping::new(&range, 0, &allocation).unwrap();
        assert_eq!(range.close().unwrap(), Closed::StillShared);
        assert_eq!(allocation.close().unwrap(), Closed::StillShared);
        let (closed, calls) = t.calls(|| mapping.close().unwrap());
        assert_eq!(closed, Closed::Destroyed);
        assert_eq!(calls, ["cuMemUnmap", "cuMemAddressFree", "cuMemRelease"]);
    });
}

#[test]
fn a_mapping_s_address_gives_one_more_handle_of_its_memory() {
    run(|t| {
        let mapping = Mapping::new(&range(t, 1), 0, &allocation(t)).unwrap();
        let bytes = mapping.bytes();
        let again = PhysicalAllocation::mapped_at(t.device(), mapping.as_raw(), bytes).unwrap();
        assert_eq!(again.as_raw(), mapping.allocation().as_raw());
        assert_ne!(again, *mapping.allocation());
        assert_eq!(again.close().unwrap(), Closed::Destroyed);
    });
}

#[test]
fn what_was_given_away_can_be_taken_over_and_what_is_borrowed_ends_elsewhere() {
    run(|t| {
        let raw = DeviceMemory::new(t.context(), 64).unwrap().into_raw().unwrap();
        // SAFETY: given away a moment ago.
        let memory = unsafe { DeviceMemory::from_raw(t.context(), 64, raw) }.unwrap();
        // SAFETY: the memory outlives it.
        let borrowed = unsafe { DeviceMemory::borrow_raw(t.context(), 64, raw, None) }.unwrap();
        let borrowed = borrowed.into_raw().unwrap_err();
        let (closed, calls) = t.calls(|| borrowed.close().unwrap());
        assert_eq!((closed, calls.as_slice()), (Closed::StillShared, &[""; 0][..]));
        assert_eq!(memory.close().unwrap(), Closed::Destroyed);
        let range = range(t, 1);
        let raw = range.into_raw().unwrap();
        // SAFETY: given away a moment ago.
        let range = unsafe { Reservation::from_raw(t.device(), granule(t), raw) }.unwrap();
        assert_eq!(range.close().unwrap(), Closed::Destroyed);
        // SAFETY: refused.
        let error = unsafe { Reservation::from_raw(t.device(), 1, 0) }.unwrap_err();
        assert_eq!(error.to_string(), "the raw reserved address is null");
    });
}

#[test]
fn managed_memory_is_reached_by_the_host() {
    run(|t| {
        let memory = ManagedMemory::new(t.context(), 64, Attach::Global).unwrap();
        // SAFETY: nothing else uses the memory.
        unsafe { memory.as_ptr().write(7) };
        // SAFETY: as above.
        assert_eq!(unsafe { memory.as_ptr().read() }, 7);
        assert_eq!((memory.as_raw(), memory.bytes()), (memory.as_ptr().addr() as u64, 64));
        memory.close().unwrap();
    });
}

#[test]
fn registered_memory_is_dropped_once_the_driver_has_let_go_of_it() {
    run(|t| {
        let (owner, start, drops) = counted();
        // SAFETY: the owner keeps the bytes alive.
        let memory = unsafe {
            RegisteredMemory::with_owner(
                t.context(),
                start,
                64,
                Some(owner),
                RegisterOptions::default(),
            )
        };
        let memory = memory.unwrap();
        assert_eq!(memory.as_raw(), start.as_ptr());
        assert_eq!(memory.close().unwrap(), Closed::Destroyed);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn registered_memory_is_leaked_where_it_could_not_be_unregistered() {
    run_simulated(|t, sim| {
        let (owner, start, drops) = counted();
        // SAFETY: the owner keeps the bytes alive.
        let memory = unsafe {
            RegisteredMemory::with_owner(
                t.context(),
                start,
                64,
                Some(owner),
                RegisterOptions::default(),
            )
        };
        let capture = t.driver().reports().capture(2);
        t.faults().arm(Fault::refused(E).on_function("cuMemHostUnregister").nth(1));
        drop(memory.unwrap());
        t.driver().reclaim().drain(PATIENCE).unwrap();
        let [warning] = capture.take()[..] else { panic!("one warning") };
        assert_eq!(warning.object().kind, ObjectKind::RegisteredMemory);
        assert_eq!((warning.status(), warning.fate()), (Some(E), Some(Fate::Leaked)));
        assert_eq!(drops.load(Ordering::SeqCst), 0, "a device may still reach it");
        assert_eq!(sim.live(SimKind::HostRegistration), 1);
        // SAFETY: still registered, and nobody else's now.
        let back = unsafe { RegisteredMemory::from_raw(t.context(), start, 64, None) }.unwrap();
        back.close().unwrap();
    });
}

#[test]
fn memory_that_was_not_registered_is_dropped() {
    run(|t| {
        let (owner, start, drops) = counted();
        t.faults().arm(Fault::refused(E).on_function("cuMemHostRegister").nth(1));
        // SAFETY: the owner keeps the bytes alive.
        let refused = unsafe {
            RegisteredMemory::with_owner(
                t.context(),
                start,
                64,
                Some(owner),
                RegisterOptions::default(),
            )
        };
        assert!(refused.unwrap_err().is(E));
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn borrowed_memory_keeps_its_owner() {
    run(|t| {
        let memory = DeviceMemory::new(t.context(), 64).unwrap();
        let (owner, _, drops) = counted();
        // SAFETY: the memory outlives it.
        let borrowed =
            unsafe { BorrowedMemory::borrow_raw(t.context(), 64, memory.as_raw(), Some(owner)) };
        let borrowed = borrowed.unwrap();
        assert_eq!(borrowed.as_raw(), memory.as_raw());
        assert_eq!(drops.load(Ordering::SeqCst), 0);
        let ((), calls) = t.calls(|| drop(borrowed));
        assert_eq!(calls, [""; 0]);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn an_event_between_processes_has_no_timing_and_others_are_not_exported() {
    run(|t| {
        let mut options = EventOptions::timing();
        options.interprocess = true;
        let error = Event::with_options(t.context(), options).unwrap_err();
        assert_eq!(error.to_string(), "options: an event between processes has no timing");
        let (plain, calls) = (t.device().new_event(EventOptions::default()).unwrap(), ());
        let ((), made) =
            t.calls(|| assert_eq!(plain.export().unwrap_err().kind(), ErrorKind::Argument));
        assert_eq!((made.as_slice(), calls), (&[""; 0][..], ()));
        // Of a raw event only the driver knows.
        // SAFETY: the event outlives it.
        let raw = unsafe { Event::borrow_raw(t.context(), plain.as_raw(), None) }.unwrap();
        assert!(raw.export().unwrap_err().is(CUresult::INVALID_HANDLE));
        let shared = t.device().new_event(EventOptions::interprocess()).unwrap();
        let token = shared.export().unwrap();
        assert_eq!(token.handle(), shared.export().unwrap().handle());
        // The token keeps the event.
        assert_eq!(shared.close().unwrap(), Closed::StillShared);
        assert!(token.event().is_done().unwrap());
    });
}
