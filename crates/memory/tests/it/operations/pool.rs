//! Pools: made, asked, ended, and as a source of memory.

#![expect(unsafe_code, reason = "gives memory back to a pool by hand")]

use crate::raw;
use cuhold_driver_sys::ffi::CUmemoryPool;
use cuhold_driver_sys::ffi::CUstream;
use cuhold_handles::{Device, Error, Stream};
use cuhold_memory::{Buffer, MemoryResource as _, Pool, PoolOptions, PoolPlace, Reuse};
use cuhold_testkit::Run;

fn pool(run: &Run<'_>) -> Pool {
    Pool::new(run.device(), PoolOptions::default()).unwrap()
}

/// A stream that others may use.
fn exposed(run: &Run<'_>) -> Stream {
    let stream = run.device().new_stream().unwrap();
    let _: CUstream = stream.as_raw();
    stream
}

/// A pool that another device reaches, and that a stream was told to, which outlives it.
fn with_peer(run: &Run<'_>) -> (Pool, Stream) {
    let (pool, stream) = (pool(run), exposed(run));
    pool.add_peer(run.second_device()).unwrap();
    pool.used_on(&stream).unwrap();
    (pool, stream)
}

/// A pool that was the current one for a while.
fn once_current(run: &Run<'_>) -> (Pool, CUmemoryPool) {
    let pool = pool(run);
    pool.make_current().unwrap();
    Pool::default_of(run.device()).unwrap().make_current().unwrap();
    let raw = pool.as_raw();
    (pool, raw)
}

/// Ends a pool that is left for good.
fn destroy(run: &Run<'_>, raw: CUmemoryPool) {
    // SAFETY: nobody has memory of it.
    run.finish(|| Ok(unsafe { run.driver().calls().cuMemPoolDestroy(raw) }?));
}

cuhold_testkit::enrol! {
    Pool::new |run| {
        run.create(|| {
            let on = |place| PoolOptions::default().release_threshold_bytes(9).place(place);
            let of_device = Pool::new(run.device(), on(PoolPlace::Device))?;
            let of_host = Pool::new(run.device(), on(PoolPlace::Host))?;
            Ok::<_, Error>((of_device, of_host, Pool::new(run.device(), on(PoolPlace::Managed))?))
        });
    }

    Pool::is_supported |run| {
        run.repeat(|| Pool::is_supported(run.device()));
    }

    Pool::default_at |run| {
        run.repeat(|| {
            drop(Pool::default_at(run.device(), PoolPlace::Host)?);
            Pool::default_at(run.device(), PoolPlace::Managed)
        });
    }

    Pool::current_at |run| {
        run.repeat(|| {
            drop(Pool::current_at(run.device(), PoolPlace::Host)?);
            Pool::current_at(run.device(), PoolPlace::Managed)
        });
    }

    Pool::make_current |run| {
        // The drivers' own: others would be left for good.
        let of_device = Pool::default_of(run.device()).unwrap();
        let of_host = Pool::default_at(run.device(), PoolPlace::Host).unwrap();
        run.repeat(|| {
            of_device.make_current()?;
            of_host.make_current()
        });
    }

    Pool::usage |run| {
        let pool = pool(run);
        run.repeat(|| pool.usage());
    }

    Pool::allows |run| {
        let pool = pool(run);
        run.repeat(|| pool.allows(Reuse::Opportunistic));
    }

    Pool::allow |run| {
        let pool = pool(run);
        run.repeat(|| pool.allow(Reuse::Opportunistic));
    }

    Pool::forbid |run| {
        let pool = pool(run);
        run.repeat(|| pool.forbid(Reuse::Opportunistic));
    }

    Pool::default_of |run| {
        run.create(|| Pool::default_of(run.device()));
    }

    Pool::current_of |run| {
        run.create(|| Pool::current_of(run.device()));
    }

    Pool::peers |run| {
        let pool = pool(run);
        run.repeat(|| pool.peers());
    }

    Pool::add_peer |run| {
        let (pool, second) = (pool(run), run.second_device());
        run.repeat(|| pool.add_peer(second));
    }

    Pool::remove_peer |run| {
        let ((pool, _stream), second) = (with_peer(run), run.second_device());
        run.repeat(|| pool.remove_peer(second));
    }

    Pool::set_peers |run| {
        let (pool, told) = (pool(run), exposed(run));
        // As another library would, for a device that this one doesn't know.
        let lent = Pool::default_of(run.device()).unwrap();
        raw::grant(&lent, 1);
        run.repeat(|| {
            lent.set_peers(&[])?;
            let second = Device::with_driver(run.driver(), 1)?;
            pool.set_peers(&[second])?;
            pool.used_on(&told)?;
            pool.set_peers(&[])
        });
    }

    Pool::close |run| {
        let (pool, _stream) = with_peer(run);
        // What freed its memory is what its end waits for.
        drop(Buffer::<u32>::zeroed_in(&pool, run.stream(), 10).unwrap());
        let (was_current, raw) = once_current(run);
        let closed = run.op(|| (pool.close(), was_current.close()));
        drop((run.keep_or(closed.0), run.keep_or(closed.1)));
        destroy(run, raw);
    }

    Pool::drop |run| {
        let (pool, _stream) = with_peer(run);
        drop(Buffer::<u32>::zeroed_in(&pool, run.stream(), 10).unwrap());
        let (was_current, raw) = once_current(run);
        run.op(|| drop((pool, was_current)));
        destroy(run, raw);
    }

    Pool::used_bytes |run| {
        let pool = pool(run);
        run.repeat(|| pool.used_bytes());
    }

    Pool::used_high_bytes |run| {
        let pool = pool(run);
        run.repeat(|| pool.used_high_bytes());
    }

    Pool::reserved_bytes |run| {
        let pool = pool(run);
        run.repeat(|| pool.reserved_bytes());
    }

    Pool::reserved_high_bytes |run| {
        let pool = pool(run);
        run.repeat(|| pool.reserved_high_bytes());
    }

    Pool::reset_used_high |run| {
        let pool = pool(run);
        run.repeat(|| pool.reset_used_high());
    }

    Pool::reset_reserved_high |run| {
        let pool = pool(run);
        run.repeat(|| pool.reset_reserved_high());
    }

    Pool::release_threshold_bytes |run| {
        let pool = pool(run);
        run.repeat(|| pool.release_threshold_bytes());
    }

    Pool::set_release_threshold_bytes |run| {
        let pool = pool(run);
        run.repeat(|| pool.set_release_threshold_bytes(5));
    }

    Pool::trim_to |run| {
        let pool = pool(run);
        run.repeat(|| pool.trim_to(0));
    }

    Pool::allocate |run| {
        let pool = pool(run);
        let block = run.keep(run.op(|| pool.allocate(100, run.stream())));
        if let Some(block) = block {
            // SAFETY: allocated above, and nothing uses it.
            run.finish(|| unsafe { pool.deallocate(block, run.stream()) });
        }
    }

    Pool::deallocate |run| {
        let pool = pool(run);
        let block = pool.allocate(100, run.stream()).unwrap();
        // SAFETY: allocated above, and nothing uses it.
        run.keep(run.op(|| unsafe { pool.deallocate(block, run.stream()) }));
    }
}
