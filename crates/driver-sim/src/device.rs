//! Devices: what they are asked, and their primary contexts' counts.
//!
//! Source: CUDA Driver API 13.x, "Device Management", "Peer Context Memory Access".

#![expect(unsafe_code, reason = "writes into buffers of the caller")]

use cuhold_driver_sys::ffi::*;

use crate::{
    array::element_bytes,
    audit::{CallSite, ViolationKind},
    context::Context,
    options::{DeviceOptions, SimOptions},
    world::{Answer, In, Key, Out, State, Turn},
};

type Attribute = CUdevice_attribute;

/// A device of the simulated machine.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) options: DeviceOptions,
    pub(crate) primary: Primary,
}

/// A device's primary context: its count outlives its activations.
#[derive(Debug, Default)]
pub(crate) struct Primary {
    /// The handle's value, the same for every activation.
    pub(crate) raw: Option<usize>,
    /// The context while it is active.
    pub(crate) active: Option<Key<Context>>,
    pub(crate) flags: c_uint,
    /// The retains that weren't released, as the calls that made them.
    pub(crate) retains: Vec<CallSite>,
    /// How many green contexts hold it.
    pub(crate) held: u32,
}

impl Primary {
    /// Whether nobody needs it active any more.
    pub(crate) fn is_unused(&self) -> bool {
        self.retains.is_empty() && self.held == 0
    }
}

impl Device {
    pub(crate) fn new(options: DeviceOptions) -> Self {
        Self { options, primary: Primary::default() }
    }
}

impl State {
    /// The index of a device that exists.
    pub(crate) fn device_index(&self, device: CUdevice) -> Result<usize, CUresult> {
        usize::try_from(device)
            .ok()
            .filter(|index| *index < self.devices.len())
            .ok_or(CUresult::INVALID_DEVICE)
    }

    pub(crate) fn device(&self, device: CUdevice) -> Result<&Device, CUresult> {
        self.device_index(device)
            .and_then(|index| self.devices.get(index).ok_or(CUresult::INVALID_DEVICE))
    }

    pub(crate) fn device_mut(&mut self, device: CUdevice) -> Result<&mut Device, CUresult> {
        let index = self.device_index(device)?;
        self.devices.get_mut(index).ok_or(CUresult::INVALID_DEVICE)
    }
}

pub(crate) fn count(turn: &mut Turn<'_>, count: Out<c_int>) -> Answer {
    let devices = c_int::try_from(turn.state.devices.len()).unwrap_or(c_int::MAX);
    count.required()?.write(devices);
    Ok(())
}

pub(crate) fn get(turn: &mut Turn<'_>, device: Out<CUdevice>, ordinal: c_int) -> Answer {
    let device = device.required()?;
    turn.state.device_index(ordinal)?;
    device.write(ordinal);
    Ok(())
}

pub(crate) fn name(turn: &mut Turn<'_>, name: Out<c_char>, len: c_int, device: CUdevice) -> Answer {
    let name = name.required()?;
    let text = &turn.state.device(device)?.options.name;
    let room = usize::try_from(len).map_err(|_negative| CUresult::INVALID_VALUE)?;
    if room == 0 {
        turn.violate(ViolationKind::Crash, None, "no room for the name's end");
        return Err(CUresult::INVALID_VALUE);
    }
    // SAFETY: `len` is what the caller says that its buffer holds.
    unsafe { name.write_text(text, room) };
    Ok(())
}

pub(crate) fn uuid(turn: &mut Turn<'_>, uuid: Out<CUuuid>, device: CUdevice) -> Answer {
    let uuid = uuid.required()?;
    let index = turn.state.device_index(device)?;
    let mut bytes = *b"cuhold sim\0\0\0\0\0\0";
    for (to, from) in bytes.iter_mut().rev().zip(index.to_le_bytes()).take(6) {
        *to = from;
    }
    uuid.write(CUuuid { bytes: bytes.map(|byte| c_char::from_ne_bytes([byte])) });
    Ok(())
}

/// Only a driver on Windows has these identifiers.
pub(crate) fn luid(
    turn: &mut Turn<'_>,
    luid: Out<c_char>,
    mask: Out<c_uint>,
    device: CUdevice,
) -> Answer {
    luid.required()?;
    mask.required()?;
    turn.state.device_index(device)?;
    Err(CUresult::NOT_SUPPORTED)
}

pub(crate) fn total_memory(turn: &mut Turn<'_>, bytes: Out<usize>, device: CUdevice) -> Answer {
    let bytes = bytes.required()?;
    bytes.write(turn.state.device(device)?.options.memory_bytes);
    Ok(())
}

/// As many elements as the table "Technical Specifications per Compute Capability" says.
pub(crate) fn linear_texture_width(
    turn: &mut Turn<'_>,
    width: Out<usize>,
    format: CUarray_format,
    channels: c_uint,
    device: CUdevice,
) -> Answer {
    const WIDTH_MAX: usize = 1 << 28;
    let width = width.required()?;
    turn.state.device_index(device)?;
    element_bytes(format, channels)?;
    width.write(WIDTH_MAX);
    Ok(())
}

pub(crate) fn attribute(
    turn: &mut Turn<'_>,
    value: Out<c_int>,
    attribute: CUdevice_attribute,
    device: CUdevice,
) -> Answer {
    let value = value.required()?;
    let index = turn.state.device_index(device)?;
    let device = turn.state.device(device)?;
    if attribute.0 == 0 || attribute.0 >= Attribute::CU_DEVICE_ATTRIBUTE_MAX.0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let known = attribute_of(index, device, attribute);
    value.write(known.unwrap_or_else(|| c_int::from(is_simulated(&turn.state.options, attribute))));
    Ok(())
}

/// Of a feature: whether the simulator has it. The measured device has all of these.
fn is_simulated(options: &SimOptions, attribute: Attribute) -> bool {
    match attribute {
        Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED => options.fabric,
        Attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY
        | Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS
        | Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING
        | Attribute::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY
        | Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
        | Attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED
        | Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH
        | Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS
        | Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR => true,
        _ => false,
    }
}

/// A number that is known, of the measured device where it isn't an option.
fn attribute_of(index: usize, device: &Device, attribute: Attribute) -> Option<c_int> {
    let (major, minor) = device.options.compute_capability;
    Some(match attribute {
        Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => major,
        Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => minor,
        Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => device.options.multiprocessors,
        Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID => {
            c_int::try_from(index + 1).unwrap_or(c_int::MAX)
        }
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK
        | Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X
        | Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y => 1024,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z => 64,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X => c_int::MAX,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y
        | Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z => 65_535,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK => 49_152,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => 232_448,
        Attribute::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY
        | Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK => 65_536,
        Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE => 32,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR => 2048,
        Attribute::CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT => 512,
        Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT => 3,
        // Pools by files; those of a fabric, which the measured device has too, aren't simulated.
        Attribute::CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES => 1,
        _ => return None,
    })
}

pub(crate) fn pci_bus_id(
    turn: &mut Turn<'_>,
    id: Out<c_char>,
    len: c_int,
    device: CUdevice,
) -> Answer {
    let id = id.required()?;
    let index = turn.state.device_index(device)?;
    let text = bus_id(index);
    let room = usize::try_from(len).map_err(|_negative| CUresult::INVALID_VALUE)?;
    if room <= text.len() {
        return Err(CUresult::INVALID_VALUE);
    }
    // SAFETY: `len` is what the caller says that its buffer holds.
    unsafe { id.write_text(&text, room) };
    Ok(())
}

fn bus_id(index: usize) -> String {
    format!("0000:{:02X}:00.0", index + 1)
}

/// Accepts `domain:bus:device.function`, `domain:bus:device` and `bus:device.function`, in hexadecimal.
pub(crate) fn by_pci_bus_id(turn: &mut Turn<'_>, device: Out<CUdevice>, id: In<c_char>) -> Answer {
    let device = device.required()?;
    let text = id.text().ok_or(CUresult::INVALID_VALUE)?;
    let text = String::from_utf8(text).map_err(|_not_text| CUresult::INVALID_VALUE)?;
    let hex = |part: &str| u32::from_str_radix(part, 16).map_err(|_bad| CUresult::INVALID_VALUE);
    let (place, function) = text.split_once('.').map_or((text.as_str(), "0"), |pair| pair);
    let parts = place.split(':').map(hex).collect::<Result<Vec<_>, _>>()?;
    let (domain, bus, slot) = match *parts.as_slice() {
        [domain, bus, slot] => (domain, bus, slot),
        [bus, slot] if text.contains('.') => (0, bus, slot),
        _ => return Err(CUresult::INVALID_VALUE),
    };
    let index = bus.checked_sub(1).and_then(|index| CUdevice::try_from(index).ok());
    let index = index.filter(|_| domain == 0 && slot == 0 && hex(function) == Ok(0));
    let index = index.ok_or(CUresult::INVALID_DEVICE)?;
    turn.state.device_index(index)?;
    device.write(index);
    Ok(())
}

/// No simulated device has atomics on the host's memory, as its attribute says.
pub(crate) fn host_atomics(
    turn: &mut Turn<'_>,
    capabilities: Out<c_uint>,
    operations: In<CUatomicOperation>,
    count: c_uint,
    device: CUdevice,
) -> Answer {
    let capabilities = capabilities.required()?;
    turn.state.device_index(device)?;
    let count = usize::try_from(count).map_err(|_too_many| CUresult::INVALID_VALUE)?;
    // SAFETY: *pointers*: the caller's array has as many entries as it says.
    let operations = unsafe { operations.read_all(count) }.ok_or(CUresult::INVALID_VALUE)?;
    let newest = CUatomicOperation::CU_ATOMIC_OPERATION_MAX;
    if count == 0 || operations.iter().any(|operation| operation.0 >= newest.0) {
        return Err(CUresult::INVALID_VALUE);
    }
    // SAFETY: *pointers*: the caller gave room for as many answers as it asked.
    unsafe { capabilities.write_all(&vec![0; count]) };
    Ok(())
}

/// No device has execution affinity, whatever kind is asked for: unknown ones aren't refused (measured).
pub(crate) fn exec_affinity_support(
    turn: &mut Turn<'_>,
    supported: Out<c_int>,
    _kind: CUexecAffinityType,
    device: CUdevice,
) -> Answer {
    let supported = supported.required()?;
    turn.state.device_index(device)?;
    supported.write(0);
    Ok(())
}

pub(crate) fn can_access_peer(
    turn: &mut Turn<'_>,
    can: Out<c_int>,
    device: CUdevice,
    peer: CUdevice,
) -> Answer {
    let can = can.required()?;
    let (a, b) = (turn.state.device_index(device)?, turn.state.device_index(peer)?);
    can.write(c_int::from(a != b && turn.state.options.peer_access));
    Ok(())
}

/// The devices are checked before the attribute.
pub(crate) fn p2p_attribute(
    turn: &mut Turn<'_>,
    value: Out<c_int>,
    attribute: CUdevice_P2PAttribute,
    source: CUdevice,
    destination: CUdevice,
) -> Answer {
    let (a, b) = (turn.state.device_index(source)?, turn.state.device_index(destination)?);
    if a == b {
        return Err(CUresult::INVALID_DEVICE);
    }
    let value = value.required()?;
    let peer = c_int::from(turn.state.options.peer_access);
    value.write(match attribute {
        CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED
        | CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED => peer,
        CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK
        | CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED => 0,
        _ => return Err(CUresult::INVALID_VALUE),
    });
    Ok(())
}
