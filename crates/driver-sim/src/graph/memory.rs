//! The memory that a device keeps for graphs: none, since graphs with memory nodes aren't made
//! executable here.
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

#![expect(unsafe_code, reason = "an attribute's type depends on the attribute")]

use cuhold_driver_sys::ffi::*;

use crate::world::{Answer, Out, Turn};

type Attribute = CUgraphMem_attribute;

pub(crate) fn device_trim(turn: &mut Turn<'_>, device: CUdevice) -> Answer {
    turn.state.device_index(device).map(|_index| ())
}

pub(crate) fn device_memory(
    turn: &mut Turn<'_>,
    device: CUdevice,
    attribute: Attribute,
    value: Out<c_void>,
) -> Answer {
    let value = value.required()?;
    turn.state.device_index(device)?;
    match attribute {
        Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT
        | Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH
        | Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT
        | Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => {
            // SAFETY: *pointers*: the caller gave room for this attribute, which is of 64 bits.
            unsafe { value.as_ptr().cast::<cuuint64_t>().write_unaligned(0) };
            Ok(())
        }
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// The highest counts can be set, to 0 alone (documented).
pub(crate) fn device_set_memory(
    turn: &mut Turn<'_>,
    device: CUdevice,
    attribute: Attribute,
    value: Out<c_void>,
) -> Answer {
    let value = value.required()?;
    turn.state.device_index(device)?;
    match attribute {
        Attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH
        | Attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => {
            // SAFETY: *pointers*: the caller gave a value of this attribute's 64 bits.
            let bytes = unsafe { value.as_ptr().cast::<cuuint64_t>().read_unaligned() };
            if bytes == 0 { Ok(()) } else { Err(CUresult::INVALID_VALUE) }
        }
        _ => Err(CUresult::INVALID_VALUE),
    }
}
