//! Physical memory: allocations without an address, and their way through files.
//!
//! A handle is counted: it is there as often as it was made, retained or imported. The memory is given back to its
//! device once no handle, no mapping and no open file stands for it.
//!
//! Source: CUDA Driver API 13.x, "Virtual Memory Management".

#![expect(
    unsafe_code,
    reason = "a location is a union; an exported file is written through a pointer"
)]

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use cuhold_driver_sys::ffi::*;

use super::{
    Memory, bytes::SharedBytes, page_locked::address_of, pool::Location, pools::location_of,
    share::Filed, space::Origin,
};
use crate::world::{Absent, Answer, Ending, In, Key, Out, Turn};

/// Physical memory is made and mapped in multiples of this, in bytes (measured).
pub(crate) const GRANULARITY_BYTES: u64 = 2 << 20;

const FILE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
const FABRIC: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC;

/// The memory itself, however many handles and mappings stand for it.
#[derive(Debug)]
pub(crate) struct PhysicalData {
    pub(crate) bytes: Arc<SharedBytes>,
    pub(crate) size_bytes: u64,
    pub(crate) location: Location,
    handle_types: CUmemAllocationHandleType,
    /// What physical memory takes of its device, in bytes; `None` for the host's.
    taken: Option<Arc<AtomicU64>>,
}

impl PhysicalData {
    /// The index of the device; the host's counts as the first one's.
    pub(crate) const fn device(&self) -> usize {
        match self.location {
            Location::Device(device) => device,
            Location::Host | Location::HostNuma(_) | Location::Anywhere => 0,
        }
    }
}

impl Drop for PhysicalData {
    fn drop(&mut self) {
        if let Some(taken) = &self.taken {
            taken.fetch_sub(self.size_bytes, Ordering::Relaxed);
        }
    }
}

/// One handle's value, with how many handles of this value there are.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) data: Arc<PhysicalData>,
    handles: u64,
}

/// What is asked for.
struct Properties {
    location: Location,
    handle_types: CUmemAllocationHandleType,
}

impl Turn<'_> {
    /// The live physical memory with this handle.
    pub(super) fn physical(&mut self, handle: u64) -> Result<Key<Physical>, CUresult> {
        let raw = usize::try_from(handle).unwrap_or_default();
        self.find(|state| &state.memory.physical, raw, CUresult::INVALID_VALUE)
    }

    pub(super) fn physical_data(
        &mut self,
        key: Key<Physical>,
    ) -> Result<Arc<PhysicalData>, CUresult> {
        let found = self.state.memory.physical.get(key).map(|found| Arc::clone(&found.data));
        found.ok_or(CUresult::INVALID_VALUE)
    }

    /// A host has one NUMA node here. What is refused of the host's memory is documented, not measured.
    fn properties(&self, given: In<CUmemAllocationProp>) -> Result<Properties, CUresult> {
        let given = given.read().ok_or(CUresult::INVALID_VALUE)?;
        if given.type_ != CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED {
            return Err(CUresult::INVALID_VALUE);
        }
        let is_device = given.location.type_ == CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        let location = match location_of(given.location) {
            _ if is_device => {
                // SAFETY: each view of the union is a plain number, of which any bytes are one.
                let id = unsafe { given.location.__bindgen_anon_1.id };
                Location::Device(self.state.device_index(id)?)
            }
            Some(host @ (Location::Host | Location::HostNuma(0))) => host,
            Some(_) | None => return Err(CUresult::INVALID_VALUE),
        };
        match given.requestedHandleTypes {
            CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE => {}
            _ if location == Location::Host => return Err(CUresult::INVALID_VALUE),
            FILE => {}
            FABRIC if self.state.options.fabric => {}
            // The service that fabric handles need isn't there.
            FABRIC => return Err(CUresult::NOT_PERMITTED),
            _ => return Err(CUresult::INVALID_VALUE),
        }
        Ok(Properties { location, handle_types: given.requestedHandleTypes })
    }
}

impl Memory {
    /// One more handle of what a mapping maps, of the value that it was mapped by if that isn't another's now.
    fn retain(
        &mut self,
        raw: usize,
        data: &Arc<PhysicalData>,
        made: crate::audit::CallSite,
    ) -> usize {
        if let Some(key) = self.physical.find(raw)
            && let Some(found) = self.physical.get_mut(key)
        {
            if Arc::ptr_eq(&found.data, data) {
                found.handles += 1;
                return raw;
            }
            return self.add_physical(Arc::clone(data), made);
        }
        let again = Physical { data: Arc::clone(data), handles: 1 };
        self.physical.insert_at(raw, made, again).raw()
    }

    fn add_physical(&mut self, data: Arc<PhysicalData>, made: crate::audit::CallSite) -> usize {
        self.physical.insert(made, Physical { data, handles: 1 }).raw()
    }
}

pub(crate) fn granularity(
    _: &mut Turn<'_>,
    out: Out<usize>,
    properties: In<CUmemAllocationProp>,
    option: CUmemAllocationGranularity_flags,
) -> Answer {
    let out = out.required()?;
    // What isn't any memory has one, too (measured).
    if properties.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    match option {
        CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM
        | CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED => {}
        _ => return Err(CUresult::INVALID_VALUE),
    }
    out.write(usize::try_from(GRANULARITY_BYTES).unwrap_or(usize::MAX));
    Ok(())
}

pub(crate) fn physical_create(
    turn: &mut Turn<'_>,
    out: Out<CUmemGenericAllocationHandle>,
    size: usize,
    properties: In<CUmemAllocationProp>,
    flags: c_ulonglong,
) -> Answer {
    let out = out.required()?;
    let Properties { location, handle_types } = turn.properties(properties)?;
    let size_bytes = size as u64;
    if flags != 0 || size == 0 || !size_bytes.is_multiple_of(GRANULARITY_BYTES) {
        return Err(CUresult::INVALID_VALUE);
    }
    let made = turn.site;
    let memory = &mut turn.state.memory;
    memory.exchange.forget_closed();
    let taken = match location {
        Location::Device(device) if size_bytes > memory.free_bytes(device) => {
            return Err(CUresult::OUT_OF_MEMORY);
        }
        Location::Device(device) => {
            let taken = memory.devices.get(device).map(|device| Arc::clone(&device.physical_bytes));
            Some(taken.ok_or(CUresult::INVALID_DEVICE)?)
        }
        Location::Host | Location::HostNuma(_) | Location::Anywhere => None,
    };
    if let Some(taken) = &taken {
        taken.fetch_add(size_bytes, Ordering::Relaxed);
    }
    let bytes = Arc::new(SharedBytes::new(size));
    let data = Arc::new(PhysicalData { bytes, size_bytes, location, handle_types, taken });
    out.write(memory.add_physical(data, made) as u64);
    Ok(())
}

/// Doesn't wait; what is mapped stays.
pub(crate) fn physical_release(
    turn: &mut Turn<'_>,
    handle: CUmemGenericAllocationHandle,
) -> Answer {
    let key = turn.physical(handle)?;
    let by = turn.site;
    let memory = &mut turn.state.memory;
    let found = memory.physical.get_mut(key).ok_or(CUresult::INVALID_VALUE)?;
    found.handles -= 1;
    if found.handles == 0 {
        drop(memory.physical.remove(key, by, Ending::Destroyed));
    }
    Ok(())
}

pub(crate) fn physical_properties(
    turn: &mut Turn<'_>,
    out: Out<CUmemAllocationProp>,
    handle: CUmemGenericAllocationHandle,
) -> Answer {
    let out = out.required()?;
    let key = match turn.physical(handle) {
        Ok(key) => key,
        Err(status) => {
            let raw = usize::try_from(handle).unwrap_or_default();
            let was_there = matches!(turn.state.memory.physical.absent(raw), Absent::Ended(_));
            // What was released still answers (measured): of what, is luck.
            return if was_there {
                out.write(CUmemAllocationProp::default());
                Ok(())
            } else {
                Err(status)
            };
        }
    };
    let data = turn.physical_data(key)?;
    out.write(CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: data.handle_types,
        location: raw_location(data.location),
        ..CUmemAllocationProp::default()
    });
    Ok(())
}

fn raw_location(location: Location) -> CUmemLocation {
    let (type_, id) = match location {
        Location::Device(device) => (
            CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            c_int::try_from(device).unwrap_or(c_int::MAX),
        ),
        Location::Host => (CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, 0),
        Location::HostNuma(node) => (CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA, node),
        Location::Anywhere => (CUmemLocationType::CU_MEM_LOCATION_TYPE_NONE, 0),
    };
    CUmemLocation::new(type_, id)
}

/// The handle of what is mapped at an address.
pub(crate) fn physical_retain(
    turn: &mut Turn<'_>,
    out: Out<CUmemGenericAllocationHandle>,
    address: Out<c_void>,
) -> Answer {
    let out = out.required()?;
    let address = address_of(address.as_ptr());
    let found = turn.state.memory.space.containing(address);
    let found = found.filter(|found| found.origin == Origin::Mapped);
    let (raw, data) =
        found.and_then(|found| found.physical.clone()).ok_or(CUresult::INVALID_VALUE)?;
    let made = turn.site;
    out.write(turn.state.memory.retain(raw, &data, made) as u64);
    Ok(())
}

pub(crate) fn physical_export(
    turn: &mut Turn<'_>,
    out: Out<c_void>,
    handle: CUmemGenericAllocationHandle,
    kind: CUmemAllocationHandleType,
    flags: c_ulonglong,
) -> Answer {
    let out = out.required()?;
    let key = turn.physical(handle)?;
    let data = turn.physical_data(key)?;
    if flags != 0 || !matches!(kind, FILE | FABRIC) || data.handle_types != kind {
        return Err(CUresult::INVALID_VALUE);
    }
    if kind == FABRIC {
        let name = turn.state.memory.exchange.name_on_fabric(&data);
        // SAFETY: *pointers*: for this kind of handle the caller gave room for its bytes.
        unsafe { out.as_ptr().cast::<[u8; 64]>().write_unaligned(name) };
        return Ok(());
    }
    turn.export_file(out, Filed::Physical(data))
}

pub(crate) fn physical_import(
    turn: &mut Turn<'_>,
    out: Out<CUmemGenericAllocationHandle>,
    file: Out<c_void>,
    kind: CUmemAllocationHandleType,
) -> Answer {
    let out = out.required()?;
    if kind == FABRIC {
        return import_fabric(turn, out, file);
    }
    if kind != FILE {
        return Err(CUresult::INVALID_VALUE);
    }
    match turn.filed(file) {
        Some(Filed::Physical(data)) => {
            let made = turn.site;
            out.write(turn.state.memory.add_physical(data, made) as u64);
            Ok(())
        }
        // Whatever else the number is (measured).
        Some(Filed::Pool(_)) | None => Err(CUresult::UNKNOWN),
    }
}

fn import_fabric(
    turn: &mut Turn<'_>,
    out: Out<CUmemGenericAllocationHandle>,
    name: Out<c_void>,
) -> Answer {
    if !turn.state.options.fabric {
        return Err(CUresult::NOT_PERMITTED);
    }
    let name = name.required()?;
    // SAFETY: *pointers*: this kind of handle is given as its bytes.
    let name = unsafe { name.as_ptr().cast::<[u8; 64]>().read_unaligned() };
    let data = turn.state.memory.exchange.on_fabric(&name).ok_or(CUresult::INVALID_VALUE)?;
    let made = turn.site;
    out.write(turn.state.memory.add_physical(data, made) as u64);
    Ok(())
}

impl Turn<'_> {
    /// Writes a new file's number where the caller of an exporting function wants it.
    pub(super) fn export_file(&mut self, out: Out<c_void>, what: Filed) -> Answer {
        let exchange = self.state.memory.exchange.clone();
        exchange.forget_closed();
        let file = exchange.file(what).ok_or(CUresult::OPERATING_SYSTEM)?;
        // SAFETY: *pointers*: for this kind of handle the caller gave room for a file's number.
        unsafe { out.as_ptr().cast::<c_int>().write_unaligned(file) };
        Ok(())
    }

    /// What a file stands for that an importing function was given, as CUDA's pointer of its number.
    pub(super) fn filed(&mut self, file: Out<c_void>) -> Option<Filed> {
        let number = file.as_ptr().addr();
        // A negative number comes widened.
        let number = c_int::try_from(number).ok()?;
        let exchange = self.state.memory.exchange.clone();
        exchange.forget_closed();
        exchange.filed(number)
    }
}
