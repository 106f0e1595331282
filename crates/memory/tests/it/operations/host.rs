//! Page-locked memory of the host.

use cuhold_memory::HostBuffer;

cuhold_testkit::enrol! {
    HostBuffer::zeroed |run| {
        run.create(|| HostBuffer::<u32>::zeroed(run.context(), 10));
    }

    HostBuffer::from_slice |run| {
        run.create(|| HostBuffer::from_slice(run.context(), &[1, 2]));
    }

    HostBuffer::close |run| {
        let host = HostBuffer::<u32>::zeroed(run.context(), 10).unwrap();
        drop(run.keep_or(run.op(|| host.close())));
    }

    HostBuffer::drop |run| {
        let host = HostBuffer::<u32>::zeroed(run.context(), 10).unwrap();
        run.op(|| drop(host));
    }
}
