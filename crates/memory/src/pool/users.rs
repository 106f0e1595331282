//! What must be done before a pool ends: the work of the contexts in which its memory was freed.
//!
//! A driver that destroys a pool while a stream on which memory of it was freed still works ends the process at a later
//! wait for that stream, or hangs where the stream was destroyed before (measured: driver 580.159, any kind of stream,
//! any kind of pool, with the stream's work behind or before the destroy). That the pool has nothing reserved any more
//! doesn't help. So a pool keeps the contexts, and is ended on the reclaimer once all their work is done; its buffers hold
//! it until they are freed.

use cuhold_handles::{Device, Stream, Users, driver_sys::mutant};

/// Memory of the device's pool is, or may be, freed on this stream. Called where it is allocated, so that the free finds the
/// context there and allocates nothing, and where it is freed, which may be on another stream.
#[inline]
pub(super) fn keep_context(users: &Users, device: &Device, stream: &Stream) {
    let (own, freed_in) = (device.context(), stream.context());
    // What waits for a primary context waits for the streams of its device's green contexts as well (measured).
    let is_own = freed_in.is_view() && freed_in.device() == own.device();
    if !mutant::is_out("pool-users") {
        users.used_in(if is_own { own } else { freed_in });
    }
}
