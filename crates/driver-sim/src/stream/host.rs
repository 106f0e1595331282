//! Host functions on streams. They run on the thread that waits, or steps, and may not call the driver.

use cuhold_driver_sys::ffi::*;

use crate::{
    graph::{NodeKind, Params},
    queue::Work,
    world::{Answer, Out, Turn, UserData},
};

pub(crate) fn launch_host(
    turn: &mut Turn<'_>,
    stream: CUstream,
    function: CUhostFn,
    data: Out<c_void>,
) -> Answer {
    let target = turn.stream(stream)?;
    if function.is_none() {
        return Err(CUresult::INVALID_VALUE);
    }
    let data = UserData(data.as_ptr());
    let work = Work::Host { function, data };
    turn.enqueue_with(target, NodeKind::Host, work, || Params::Host(function, data))
}

pub(crate) fn launch_host_v2(
    turn: &mut Turn<'_>,
    stream: CUstream,
    function: CUhostFn,
    data: Out<c_void>,
    sync_mode: c_uint,
) -> Answer {
    if sync_mode > 1 {
        return Err(CUresult::INVALID_VALUE);
    }
    launch_host(turn, stream, function, data)
}

/// Refused on a stream that is captured, whose capture it invalidates.
pub(crate) fn add_callback(
    turn: &mut Turn<'_>,
    stream: CUstream,
    function: CUstreamCallback,
    data: Out<c_void>,
    flags: c_uint,
) -> Answer {
    let target = turn.stream(stream)?;
    turn.not_lost()?;
    turn.not_member(target)?;
    if function.is_none() || flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let data = UserData(data.as_ptr());
    turn.enqueue(target, NodeKind::Host, Work::Callback { stream, function, data })
}
