//! Making buffers.

use cuhold_memory::{Buffer, Pool, PoolOptions};
use cuhold_testkit::Run;

fn pool(run: &Run<'_>) -> Pool {
    Pool::new(run.device(), PoolOptions::default()).unwrap()
}

cuhold_testkit::enrol! {
    Buffer::uninit |run| {
        run.create(|| Buffer::<u32>::uninit(run.stream(), 10));
    }

    Buffer::uninit_in |run| {
        let pool = pool(run);
        run.create(|| Buffer::<u32>::uninit_in(&pool, run.stream(), 10));
    }

    Buffer::zeroed |run| {
        run.create(|| Buffer::<u32>::zeroed(run.stream(), 10));
    }

    Buffer::zeroed_in |run| {
        let pool = pool(run);
        run.create(|| Buffer::<u32>::zeroed_in(&pool, run.stream(), 10));
    }

    // Their context keeps the staging memory, so the buffer alone is gone after a failure.
    Buffer::from_slice |run| {
        run.repeat(|| Buffer::from_slice(run.stream(), &[1, 2, 3]));
    }

    Buffer::from_slice_in |run| {
        let pool = pool(run);
        run.repeat(|| Buffer::from_slice_in(&pool, run.stream(), &[1, 2, 3]));
    }
}
