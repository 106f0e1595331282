//! Attributes of streams: the two that the simulator knows, the way of waiting and the priority.
//!
//! Others that CUDA has for streams answer `NOT_SUPPORTED`, everything else `INVALID_VALUE`.

use cuhold_driver_sys::ffi::*;

use super::{Stream, Target};
use crate::world::{Answer, In, Out, Turn};

type Id = CUstreamAttrID;

/// What the way of waiting reads as until it is set (measured).
const UNSET: CUsynchronizationPolicy = CUsynchronizationPolicy(c_uint::MAX);

/// The attributes of a created stream that can be set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes {
    waiting: CUsynchronizationPolicy,
}

impl Attributes {
    pub(super) const NEW: Self = Self { waiting: UNSET };
}

/// What an attribute that isn't kept answers.
fn unknown(id: Id) -> CUresult {
    match id {
        Id::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
        | Id::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
        | Id::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN => CUresult::NOT_SUPPORTED,
        _ => CUresult::INVALID_VALUE,
    }
}

impl Turn<'_> {
    /// Where a created stream's attributes stand. Default streams have none that could be set here.
    fn settable(&mut self, target: Target) -> Result<&mut Stream, CUresult> {
        let stream = target.created.and_then(|key| self.state.streams.get_mut(key));
        stream.ok_or(CUresult::INVALID_HANDLE)
    }
}

pub(crate) fn get_attribute(
    turn: &mut Turn<'_>,
    stream: CUstream,
    id: Id,
    value: Out<CUstreamAttrValue>,
) -> Answer {
    let value = value.required()?;
    let target = turn.stream(stream)?;
    let stream = turn.created(target);
    value.write(match id {
        Id::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY => CUstreamAttrValue {
            syncPolicy: stream.map_or(UNSET, |stream| stream.attributes.waiting),
        },
        Id::CU_LAUNCH_ATTRIBUTE_PRIORITY => {
            CUstreamAttrValue { priority: stream.map_or(0, |stream| stream.priority) }
        }
        _ => return Err(unknown(id)),
    });
    Ok(())
}

#[expect(unsafe_code, reason = "reads a field of a C union")]
pub(crate) fn set_attribute(
    turn: &mut Turn<'_>,
    stream: CUstream,
    id: Id,
    value: In<CUstreamAttrValue>,
) -> Answer {
    let target = turn.stream(stream)?;
    let value = value.read().ok_or(CUresult::INVALID_VALUE)?;
    match id {
        Id::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY => {
            // SAFETY: the id says which field the caller set; it is an integer, for which every value is valid.
            let waiting = unsafe { value.syncPolicy };
            turn.settable(target)?.attributes = Attributes { waiting };
        }
        Id::CU_LAUNCH_ATTRIBUTE_PRIORITY => {
            // SAFETY: as above.
            let priority = unsafe { value.priority };
            turn.settable(target)?.priority = super::clamped(priority);
        }
        _ => return Err(unknown(id)),
    }
    Ok(())
}

/// Copies between streams of one context; else `INVALID_VALUE` (measured).
pub(crate) fn copy_attributes(turn: &mut Turn<'_>, to: CUstream, from: CUstream) -> Answer {
    let (to, from) = (turn.stream(to)?, turn.stream(from)?);
    if to.context != from.context {
        return Err(CUresult::INVALID_VALUE);
    }
    let copied = turn.created(from).map_or(Attributes::NEW, |stream| stream.attributes);
    turn.settable(to)?.attributes = copied;
    Ok(())
}
