//! What must be done before a pool ends: the work of the streams on which its memory was freed.
//!
//! A driver that destroys a pool while a stream on which memory of it was freed still works ends the process at a later
//! wait for that stream, or hangs (measured: driver 580.159, any kind of stream, any kind of pool, with the stream's work
//! behind or before the destroy). The stream itself, or an event behind its frees, must have been waited for: that the pool
//! has nothing reserved any more doesn't help, and what waits for all work of the context doesn't either where another
//! thread goes on working on the stream. So a pool keeps these streams, and is ended on the reclaimer once the work that
//! they had then is done; its buffers hold it until they are freed.
//!
//! Of many streams those that nobody else has any more are let go of once they are done, on the reclaimer too.

use cuhold_handles::{
    Stream,
    driver_sys::mutant,
    resource::{Handle, Resource},
};

/// Memory of the pool is going to be freed on this stream, or on another that is told then. Allocates where the stream is new
/// to the pool, so that the free needn't.
#[inline]
pub(super) fn keep<R: Resource>(pool: &Handle<R>, stream: &Stream) {
    let Some(users) = R::users(pool.deps()).filter(|_| !mutant::is_out("pool-users")) else {
        return;
    };
    if users.keep_stream(stream) {
        shed(pool);
    }
}

/// Lets go of streams of many that nobody needs any more.
#[cold]
fn shed<R: Resource>(pool: &Handle<R>) {
    let (inlet, pool) = (pool.driver().reclaim().inlet(), pool.clone());
    inlet.defer(None, move || {
        if let Some(users) = R::users(pool.deps()) {
            users.shed();
        }
    });
}
