//! Devices.

use cuhold_driver_sim::{
    Sim, SimOptions,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

use crate::ask::{Asked, call, get, sim, sim_with};

type Attribute = CUdevice_attribute;

#[test]
fn devices_are_numbered_from_zero() {
    let sim = sim_with(SimOptions::with_devices(2));
    assert_eq!(get!(sim, cuDeviceGetCount(out)), Ok(2));
    assert_eq!(get!(sim, cuDeviceGet(out, 1)), Ok(1));
    assert_eq!(get!(sim, cuDeviceGet(out, 2)), Err::<CUdevice, _>(CUresult::INVALID_DEVICE));
    assert_eq!(get!(sim, cuDeviceGet(out, -1)), Err::<CUdevice, _>(CUresult::INVALID_DEVICE));
}

fn c_text(buffer: &[c_char]) -> String {
    let bytes = buffer.iter().map(|byte| byte.to_ne_bytes()[0]).take_while(|byte| *byte != 0);
    String::from_utf8(bytes.collect()).unwrap()
}

#[test]
fn a_name_is_cut_to_the_buffer() {
    let sim = sim();
    let mut buffer = [0x55; 7];
    call!(sim, cuDeviceGetName(buffer.as_mut_ptr(), 7, 0)).unwrap();
    assert_eq!(c_text(&buffer), "cuhold");
    let asked = call!(sim, cuDeviceGetName(buffer.as_mut_ptr(), 7, 9));
    assert_eq!(asked, Err(CUresult::INVALID_DEVICE));
    let asked = call!(sim, cuDeviceGetName(buffer.as_mut_ptr(), -1, 0));
    assert_eq!(asked, Err(CUresult::INVALID_VALUE));
}

#[test]
fn memory_and_attributes_are_those_of_the_options() {
    let mut options = SimOptions::default();
    options.devices[0].memory_bytes = 1 << 20;
    options.devices[0].multiprocessors = 7;
    let sim = sim_with(options);
    assert_eq!(get!(sim, cuDeviceTotalMem_v2(out, 0)), Ok(1 << 20));
    assert_eq!(get!(sim, cuDeviceTotalMem_v2(out, 3)), Err::<usize, _>(CUresult::INVALID_DEVICE));
    let ask = |attribute, device| get!(sim, cuDeviceGetAttribute(out, attribute, device));
    assert_eq!(ask(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0), Ok(7));
    assert_eq!(ask(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0), Ok(32));
    assert_eq!(ask(CUdevice_attribute(9999), 0), Err(CUresult::INVALID_VALUE));
    assert_eq!(ask(CUdevice_attribute(9999), 5), Err(CUresult::INVALID_DEVICE), "device first");
}

#[test]
fn a_device_says_that_it_has_what_is_simulated_and_not_what_isn_t() {
    let ask = |sim: &Sim, attribute| get!(sim, cuDeviceGetAttribute(out, attribute, 0)).unwrap();
    let mut options = SimOptions::default();
    options.fabric = false;
    let (with, without) = (sim(), sim_with(options));
    for there in [
        Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED,
        Attribute::CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED,
        Attribute::CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
    ] {
        assert_eq!([&with, &without].map(|sim| ask(sim, there)), [1, 1], "{there:?}");
    }
    let fabric = Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED;
    assert_eq!([&with, &without].map(|sim| ask(sim, fabric)), [1, 0]);
    assert_eq!(ask(&with, Attribute::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED), 0);
}

#[test]
fn uuids_differ() {
    let sim = sim_with(SimOptions::with_devices(2));
    let uuid = |device| -> Asked<CUuuid> { get!(sim, cuDeviceGetUuid_v2(out, device)) };
    assert_ne!(uuid(0).unwrap(), uuid(1).unwrap());
    assert_eq!(uuid(2), Err(CUresult::INVALID_DEVICE));
}

fn by_bus(sim: &Sim, id: &std::ffi::CStr) -> Asked<CUdevice> {
    get!(sim, cuDeviceGetByPCIBusId(out, id.as_ptr()))
}

#[test]
fn a_device_is_found_by_the_bus_id_that_it_answers() {
    let sim = sim_with(SimOptions::with_devices(2));
    let mut buffer = [0; 13];
    call!(sim, cuDeviceGetPCIBusId(buffer.as_mut_ptr(), 13, 1)).unwrap();
    assert_eq!(c_text(&buffer), "0000:02:00.0");
    assert_eq!(by_bus(&sim, c"0000:02:00.0"), Ok(1));
    assert_eq!(by_bus(&sim, c"0000:02:00"), Ok(1));
    assert_eq!(by_bus(&sim, c"02:00.0"), Ok(1));
    assert_eq!(by_bus(&sim, c"0000:09:00.0"), Err(CUresult::INVALID_DEVICE));
    assert_eq!(by_bus(&sim, c"nonsense"), Err(CUresult::INVALID_VALUE));
    let asked = call!(sim, cuDeviceGetPCIBusId(buffer.as_mut_ptr(), 12, 1));
    assert_eq!(asked, Err(CUresult::INVALID_VALUE), "no room for the text and its NUL");
}

#[test]
fn no_device_has_execution_affinity() {
    let sim = sim();
    let sm = CUexecAffinityType::CU_EXEC_AFFINITY_TYPE_SM_COUNT;
    assert_eq!(get!(sim, cuDeviceGetExecAffinitySupport(out, sm, 0)), Ok(0));
    let asked: Asked<c_int> = get!(sim, cuDeviceGetExecAffinitySupport(out, sm, 1));
    assert_eq!(asked, Err(CUresult::INVALID_DEVICE));
}

#[test]
fn peer_access_is_between_different_devices() {
    let sim = sim_with(SimOptions::with_devices(2));
    assert_eq!(get!(sim, cuDeviceCanAccessPeer(out, 0, 1)), Ok(1));
    assert_eq!(get!(sim, cuDeviceCanAccessPeer(out, 0, 0)), Ok(0));
    let bad: Asked<c_int> = get!(sim, cuDeviceCanAccessPeer(out, 0, 2));
    assert_eq!(bad, Err(CUresult::INVALID_DEVICE));
    let supported = CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
    let ask = |attribute, from, to| get!(sim, cuDeviceGetP2PAttribute(out, attribute, from, to));
    assert_eq!(ask(supported, 0, 1), Ok(1));
    assert_eq!(ask(supported, 0, 0), Err(CUresult::INVALID_DEVICE));
    assert_eq!(ask(CUdevice_P2PAttribute(99), 0, 1), Err(CUresult::INVALID_VALUE));
    assert_eq!(
        ask(CUdevice_P2PAttribute(99), 0, 0),
        Err(CUresult::INVALID_DEVICE),
        "devices first"
    );
}

#[test]
fn each_operation_is_told_to_be_no_atomic_on_the_host() {
    let sim = sim();
    let (add, max) = (CUatomicOperation::CU_ATOMIC_OPERATION_INTEGER_ADD, CUatomicOperation(13));
    let ask = |operations: &[CUatomicOperation], device| {
        let mut told = [7_u32; 3];
        let count = u32::try_from(operations.len()).unwrap();
        let (to, of) = (told.as_mut_ptr(), operations.as_ptr());
        call!(sim, cuDeviceGetHostAtomicCapabilities(to, of, count, device)).map(|()| told)
    };
    assert_eq!(ask(&[add, add], 0), Ok([0, 0, 7]));
    assert_eq!(ask(&[add, max], 0), Err(CUresult::INVALID_VALUE));
    assert_eq!(ask(&[], 0), Err(CUresult::INVALID_VALUE));
    assert_eq!(ask(&[add], 9), Err(CUresult::INVALID_DEVICE));
}
