//! Host functions on streams. They run on the thread that waits, or steps, and may not call the driver.

use cuhold_driver_sys::ffi::*;

use crate::{
    graph::NodeKind,
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
    turn.enqueue(target, NodeKind::Host, Work::Host { function, data: UserData(data.as_ptr()) })
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
