//! Who may use a buffer: a list that is checked as a whole, and never taken away from running work.

use super::{drain, memory, memory_with, words};
use cuhold_driver_sim::SimOptions;
use cuhold_driver_sys::{CUresult, Fault};
use cuhold_handles::{Access, ErrorKind};
use cuhold_memory::{VirtualBuffer, VirtualMemory, VirtualMemoryOptions};
use cuhold_testkit::{run, run_with};

const E: CUresult = CUresult(9001);

#[test]
fn access_is_a_list_that_is_checked_as_a_whole_before_any_call() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let mut buffer = VirtualBuffer::<u8>::uninit(&memory(t), &stream, 10).unwrap();
        let own = t.device();
        let ((), calls) = t.calls(|| {
            let refused: [&[_]; 3] =
                [&[], &[(own, Access::ReadWrite), (own, Access::Read)], &[(own, Access::None)]];
            for list in refused {
                let error = buffer.set_access(list).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Argument);
                assert!(error.to_string().starts_with("list: "), "{error}");
            }
        });
        assert_eq!(calls, [""; 0]);
        assert_eq!(buffer.access(own).unwrap(), Access::ReadWrite);
        drop(buffer);
        drain(t);
    });
}

#[test]
fn a_peer_reads_and_writes_what_it_has_access_to() {
    run_with(SimOptions::with_devices(2), |t| {
        let Some(other) = t.second_device() else { return };
        let options = VirtualMemoryOptions::default().peer(&other, Access::ReadWrite);
        let memory = memory_with(t, options);
        let (here, there) = (t.device().new_stream().unwrap(), other.new_stream().unwrap());
        let buffer = VirtualBuffer::from_slice(&memory, &here, &words(100)).unwrap();
        assert_eq!(buffer.access(&other).unwrap(), Access::ReadWrite);
        here.synchronize().unwrap();
        // A peer's stream is as good a home.
        let far = VirtualBuffer::from_slice(&memory, &there, &words(100)).unwrap();
        assert_eq!(far.to_vec().unwrap(), words(100));
        drop((buffer, far));
        drain(t);
        let alone = VirtualMemory::new(t.device(), VirtualMemoryOptions::default()).unwrap();
        let error = VirtualBuffer::<u8>::uninit(&alone, &there, 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "stream: it is of device 1, which has no access to the memory"
        );
    });
}

#[test]
fn more_access_is_given_at_once_and_less_once_the_work_is_done() {
    run_with(SimOptions::with_devices(2), |t| {
        let Some(other) = t.second_device() else { return };
        let (home, user) = (t.device().new_stream().unwrap(), t.device().new_stream().unwrap());
        let mut buffer = VirtualBuffer::<u8>::zeroed(&memory(t), &home, 10).unwrap();
        let mut set = |access| {
            let ((), calls) = t.calls(|| buffer.set_access(&[(&other, access)]).unwrap());
            calls
        };
        let ask = "cuDeviceCanAccessPeer";
        assert_eq!(set(Access::ReadWrite), [ask, "cuMemSetAccess"]);
        assert_eq!(set(Access::ReadWrite), [ask, "cuMemSetAccess"]);
        let calls = set(Access::Read);
        let waits =
            |calls: &[&str]| calls.iter().filter(|call| **call == "cuEventSynchronize").count();
        assert_eq!(waits(&calls), 1, "the home stream: {calls:?}");
        assert_eq!(calls.last(), Some(&"cuMemSetAccess"));
        buffer.used_on(&user).unwrap();
        let ((), calls) = t.calls(|| buffer.set_access(&[(&other, Access::None)]).unwrap());
        assert_eq!(waits(&calls), 2, "and the one that was told: {calls:?}");
        assert_eq!(buffer.access(&other).unwrap(), Access::None);
        drop(buffer);
        drain(t);
    });
}

#[test]
fn a_change_of_access_that_fails_at_a_part_changes_nothing() {
    run_with(SimOptions::with_devices(2), |t| {
        let Some(other) = t.second_device() else { return };
        let stream = t.device().new_stream().unwrap();
        let granule = memory(t).granularity_bytes();
        let memory = memory_with(t, VirtualMemoryOptions::default().part_bytes(granule));
        let mut buffer = VirtualBuffer::<u8>::uninit(&memory, &stream, 3 * granule).unwrap();
        t.faults().arm(Fault::refused(E).on_function("cuMemSetAccess").nth(3));
        let list = [(&other, Access::Read)];
        let (error, calls) = t.calls(|| buffer.set_access(&list).unwrap_err());
        t.faults().disarm();
        assert!(error.is(E), "{error}");
        let set = calls.iter().filter(|call| **call == "cuMemSetAccess").count();
        assert_eq!(set, 5, "three, and two put back: {calls:?}");
        assert_eq!(buffer.access(&other).unwrap(), Access::None);
        buffer.set_access(&list).unwrap();
        assert_eq!(buffer.access(&other).unwrap(), Access::Read);
        drop(buffer);
        drain(t);
    });
}

#[test]
fn what_is_grown_by_has_the_access_that_the_rest_was_given_since() {
    run_with(SimOptions::with_devices(2), |t| {
        let Some(other) = t.second_device() else { return };
        let stream = t.device().new_stream().unwrap();
        let memory = memory(t);
        let granule = memory.granularity_bytes();
        let mut buffer = VirtualBuffer::<u8>::uninit(&memory, &stream, granule).unwrap();
        buffer.set_access(&[(&other, Access::Read)]).unwrap();
        let grown = buffer.grow(2 * granule).unwrap();
        let elsewhere = buffer.grow(3 * granule).unwrap();
        for larger in [&grown, &elsewhere] {
            assert_eq!(larger.access(&other).unwrap(), Access::Read);
            let last = larger.device_ptr() + larger.mapped_bytes() as u64 - 1;
            assert_eq!(raw_access(t, &other, last), 1);
        }
        drop((buffer, grown, elsewhere));
        drain(t);
    });
}

/// What the driver says of an address.
#[expect(unsafe_code, reason = "asks the driver about an address")]
fn raw_access(t: &cuhold_testkit::Kit, device: &cuhold_handles::Device, address: u64) -> u64 {
    let location = cuhold_driver_sys::ffi::CUmemLocation::device(device.as_raw());
    let mut flags = 0;
    let calls = t.driver().calls();
    // SAFETY: *pointers*: two live locals.
    unsafe { calls.cuMemGetAccess(&raw mut flags, &raw const location, address) }.unwrap();
    flags
}

#[test]
fn memory_that_is_only_read_is_read() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let memory = memory(t);
        let mut buffer = VirtualBuffer::from_slice(&memory, &stream, &words(100)).unwrap();
        buffer.set_access(&[(t.device(), Access::Read)]).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), words(100));
        drop(buffer);
        drain(t);
    });
}
