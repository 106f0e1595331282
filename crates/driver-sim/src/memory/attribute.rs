//! What a pointer is asked.
//!
//! Source: CUDA Driver API 13.x, "Unified Addressing".

#![expect(unsafe_code, reason = "an attribute's type depends on the attribute")]

use cuhold_driver_sys::ffi::*;

use super::space::{Misplaced, Origin};
use crate::world::{Answer, In, Out, Turn};

type Attribute = CUpointer_attribute;

/// An attribute's value, in the size of its C type.
enum Value {
    Flag(bool),
    Int(c_uint),
    Word(u64),
}

impl Value {
    /// Writes it where the caller gave room. A flag is documented as "a boolean" and nothing more: only its first byte
    /// is written, which fits every type that it may have.
    ///
    /// # Safety
    /// *room*: `data` is valid for writing the attribute's type.
    unsafe fn write(self, data: *mut c_void) {
        match self {
            // SAFETY: *room*.
            Self::Flag(flag) => unsafe { data.cast::<bool>().write_unaligned(flag) },
            // SAFETY: *room*.
            Self::Int(value) => unsafe { data.cast::<c_uint>().write_unaligned(value) },
            // SAFETY: *room*.
            Self::Word(value) => unsafe { data.cast::<u64>().write_unaligned(value) },
        }
    }

    /// What `cuPointerGetAttributes` answers for a pointer that isn't known.
    fn of_unknown(attribute: Attribute) -> Option<Self> {
        Some(match attribute {
            Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED
            | Attribute::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
            | Attribute::CU_POINTER_ATTRIBUTE_MAPPED
            | Attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS => Self::Flag(false),
            Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE
            | Attribute::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS => Self::Int(0),
            // The documentation gives the invalid device's number.
            Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => {
                Self::Int(CU_DEVICE_INVALID.cast_unsigned())
            }
            Attribute::CU_POINTER_ATTRIBUTE_CONTEXT
            | Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER
            | Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER
            | Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID
            | Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
            | Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE
            | Attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE => Self::Word(0),
            _ => return None,
        })
    }
}

impl Turn<'_> {
    /// An attribute of what an address lies in.
    fn pointer_attribute(&mut self, attribute: Attribute, address: u64) -> Result<Value, CUresult> {
        let newest = Attribute::CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE;
        if attribute.0 == 0 || attribute.0 > newest.0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let base = self.found(address)?;
        let found = self.state.memory.space.at(base).ok_or(CUresult::INVALID_VALUE)?;
        let is_host = match found.origin {
            Origin::Host(..) | Origin::Registered(_) => true,
            Origin::Pool(_) => found.is_on_host() && !self.state.memory.is_managed(found.origin),
            _ => false,
        };
        let value = match attribute {
            Attribute::CU_POINTER_ATTRIBUTE_CONTEXT => {
                Value::Word(found.origin.owner().map_or(0, |owner| owner.raw() as u64))
            }
            Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE => Value::Int(match is_host {
                true => CUmemorytype::CU_MEMORYTYPE_HOST.0,
                false => CUmemorytype::CU_MEMORYTYPE_DEVICE.0,
            }),
            Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER => Value::Word(address),
            Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER if found.is_on_host() => {
                Value::Word(address)
            }
            Attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER => return Err(CUresult::INVALID_VALUE),
            Attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS => Value::Flag(found.sync_memops),
            Attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID => Value::Word(found.id),
            Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED => {
                Value::Flag(self.state.memory.is_managed(found.origin))
            }
            Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => {
                Value::Int(c_uint::try_from(found.device).unwrap_or(c_uint::MAX))
            }
            Attribute::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE => {
                Value::Flag(matches!(found.origin, Origin::Device(_)))
            }
            Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR => Value::Word(found.base),
            Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE => Value::Word(found.size_bytes),
            Attribute::CU_POINTER_ATTRIBUTE_MAPPED => Value::Flag(true),
            Attribute::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS => {
                let (device, owner) = (self.current_device(), found.device);
                let reached = found.is_on_host()
                    || device.is_none_or(|device| {
                        device == owner || self.state.memory.may_reach(device, address)
                    });
                Value::Int(match reached {
                    true => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE.0,
                    false => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE.0,
                })
            }
            Attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE => Value::Word(match found.origin {
                Origin::Pool(pool) => pool.raw() as u64,
                _ => 0,
            }),
            _ => return Err(CUresult::MISSING),
        };
        Ok(value)
    }

    /// Where the allocation begins that an address lies in: not one whose free was enqueued, and not a graph's while no
    /// graph runs.
    fn found(&mut self, address: u64) -> Result<u64, CUresult> {
        match self.state.memory.space.locate(address, 1) {
            Err(misplaced @ Misplaced::Freed(_)) => return Err(self.refuse_misplaced(misplaced)),
            Err(_) => return Err(CUresult::INVALID_VALUE),
            Ok(_) => {}
        }
        let found = self.state.memory.space.containing(address);
        let found = found.filter(|a| !matches!(a.origin, Origin::Graph(_)));
        found.map(|a| a.base).ok_or(CUresult::INVALID_VALUE)
    }
}

pub(crate) fn attribute(
    turn: &mut Turn<'_>,
    data: Out<c_void>,
    attribute: Attribute,
    address: CUdeviceptr,
) -> Answer {
    let data = data.required()?;
    if attribute == Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER {
        turn.current()?;
    }
    let value = turn.pointer_attribute(attribute, address)?;
    // SAFETY: *pointers*: the caller gave room for this attribute.
    unsafe { value.write(data.as_ptr()) };
    Ok(())
}

/// An unknown pointer isn't refused: each attribute then is its null value.
pub(crate) fn attributes(
    turn: &mut Turn<'_>,
    count: c_uint,
    attributes: Out<Attribute>,
    data: Out<*mut c_void>,
    address: CUdeviceptr,
) -> Answer {
    let (attributes, data) = (attributes.required()?.as_in(), data.required()?.as_in());
    let count = usize::try_from(count).map_err(|_too_many| CUresult::INVALID_VALUE)?;
    // SAFETY: *pointers*: both arrays have as many entries as the caller says.
    let attributes = unsafe { attributes.read_all(count) }.ok_or(CUresult::INVALID_VALUE)?;
    // SAFETY: as above.
    let places = unsafe { data.read_all(count) }.ok_or(CUresult::INVALID_VALUE)?;
    let is_known = turn.state.memory.space.containing(address).is_some();
    let mut values = Vec::with_capacity(count);
    for attribute in attributes {
        values.push(match is_known {
            true => turn.pointer_attribute(attribute, address)?,
            false => Value::of_unknown(attribute).ok_or(CUresult::INVALID_VALUE)?,
        });
    }
    for (value, place) in values.into_iter().zip(places) {
        // SAFETY: *pointers*: each place has room for its attribute.
        unsafe { value.write(place) };
    }
    Ok(())
}

/// Only `SYNC_MEMOPS` can be set.
pub(crate) fn set_attribute(
    turn: &mut Turn<'_>,
    value: In<c_void>,
    attribute: Attribute,
    address: CUdeviceptr,
) -> Answer {
    if value.is_null() || attribute != Attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS {
        return Err(CUresult::INVALID_VALUE);
    }
    turn.check_capture()?;
    let base = turn.found(address)?;
    // SAFETY: *pointers*: the caller gave a boolean, of which every type has at least this byte.
    let on = unsafe { value.as_ptr().cast::<u8>().read() } != 0;
    if let Some(found) = turn.state.memory.space.at_mut(base) {
        found.sync_memops = on;
    }
    Ok(())
}
