//! Page-locked memory of the host.

use cuhold_handles::{PerThreadStream, Stream};
use cuhold_memory::HostBuffer;
use cuhold_testkit::Run;

/// A stream of another device, which others may use.
fn foreign(run: &Run<'_>) -> Stream {
    let stream = run.second_device().new_stream().unwrap();
    let _: cuhold_handles::driver_sys::ffi::CUstream = stream.as_raw();
    stream
}

cuhold_testkit::enrol! {
    HostBuffer::zeroed |run| {
        run.create(|| HostBuffer::<u32>::zeroed(run.context(), 10));
    }

    HostBuffer::from_slice |run| {
        run.create(|| HostBuffer::from_slice(run.context(), &[1, 2]));
    }

    HostBuffer::used_on |run| {
        let host = HostBuffer::<u32>::zeroed(run.context(), 10).unwrap();
        // The calling thread's own stream of another device can't be asked later.
        let stream = PerThreadStream::new(run.second_device().context());
        run.repeat(|| host.used_on(&stream));
    }

    HostBuffer::close |run| {
        let (host, stream) = (HostBuffer::<u32>::zeroed(run.context(), 10).unwrap(), foreign(run));
        host.used_on(&stream).unwrap();
        drop(run.keep_or(run.op(|| host.close())));
    }

    HostBuffer::drop |run| {
        let (host, stream) = (HostBuffer::<u32>::zeroed(run.context(), 10).unwrap(), foreign(run));
        host.used_on(&stream).unwrap();
        run.op(|| drop(host));
    }
}
