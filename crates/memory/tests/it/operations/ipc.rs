//! Pools and buffers between processes: exported, imported, ended.

#![expect(unsafe_code, reason = "unmaps what was lost")]

use cuhold_driver_sim::ObjectKind;
use cuhold_driver_sys::ffi::CUstream;
use cuhold_handles::{Device, Driver, Error, Stream};
use cuhold_memory::{
    Buffer, ExportedBuffer, ExportedPool, ImportedPool, IpcChannel, Pool, PoolOptions, PoolPlace,
};
use cuhold_testkit::Run;

/// Another value of the same driver, which exports: an operation that imports shows its own calls alone.
struct Exporter {
    _driver: Driver,
    stream: Stream,
    pool: Pool,
    exported: ExportedPool,
}

impl Exporter {
    fn new(run: &Run<'_>) -> Self {
        let driver = run.new_driver();
        let device = Device::with_driver(&driver, 0).unwrap();
        let stream = device.new_stream().unwrap();
        let pool = shared(&device);
        let exported = pool.export().unwrap();
        Self { _driver: driver, stream, pool, exported }
    }

    fn buffer(&self) -> (Buffer<u32>, ExportedBuffer) {
        let buffer = Buffer::<u32>::zeroed_in(&self.pool, &self.stream, 16).unwrap();
        let token = buffer.export(&self.pool).unwrap();
        self.stream.synchronize().unwrap();
        (buffer, token)
    }
}

fn shared(device: &Device) -> Pool {
    Pool::new(device, PoolOptions::default().shareable()).unwrap()
}

/// Of the host's memory.
fn shared_on_host(device: &Device) -> Pool {
    let options = PoolOptions::default().place(PoolPlace::HostNuma(0));
    Pool::new(device, options.shareable()).unwrap()
}

/// A pool that was exported and imported again.
fn imported(run: &Run<'_>) -> ImportedPool {
    ImportedPool::import_exported(run.device(), &shared(run.device()).export().unwrap()).unwrap()
}

/// The same, of which memory was imported on two streams, so that an event is kept for the next; one is a default stream, and
/// the other, on which it was freed, is one that others may use.
fn used(run: &Run<'_>) -> (ImportedPool, Stream) {
    let pool = shared(run.device());
    let imported = ImportedPool::import_exported(run.device(), &pool.export().unwrap()).unwrap();
    let streams = [run.new_stream(), run.device().legacy_stream()];
    let buffer = Buffer::<u32>::zeroed_in(&pool, &streams[0], 16).unwrap();
    let token = buffer.export(&pool).unwrap();
    let [one, two] = [0, 1]
        .map(|which| imported.import_buffer::<u32>(token.descriptor(), &streams[which]).unwrap());
    drop(two);
    drop(one);
    streams.iter().for_each(|stream| stream.synchronize().unwrap());
    let [freeing, _] = streams;
    let _: CUstream = freeing.as_raw();
    (imported, freeing)
}

/// Unmaps what a failing undo was told to have left mapped: its exporter couldn't free it.
fn unmap(run: &Run<'_>, there: &Exporter, exported: &Buffer<u32>) {
    for left in run.live() {
        if left.kind == ObjectKind::DeviceMemory && left.raw != exported.device_ptr() {
            let calls = there.stream.driver().calls();
            // SAFETY: imported, used by nobody, and lost to the library.
            run.finish(|| Ok(unsafe { calls.cuMemFreeAsync(left.raw, there.stream.raw()) }?));
        }
    }
    run.finish(|| there.stream.synchronize());
}

cuhold_testkit::enrol! {
    Pool::export |run| {
        let pool = shared(run.device());
        run.create(|| pool.export());
    }

    Buffer::export |run| {
        let pool = shared(run.device());
        let _exported = pool.export().unwrap();
        let buffer = Buffer::<u32>::uninit_in(&pool, run.stream(), 16).unwrap();
        run.repeat(|| buffer.export(&pool));
    }

    ImportedPool::import |run| {
        let exported = shared(run.device()).export().unwrap();
        run.create(|| ImportedPool::import(run.device(), &exported));
    }

    ImportedPool::import_exported |run| {
        let exported = shared(run.device()).export().unwrap();
        let on_host = shared_on_host(run.device()).export().unwrap();
        run.create(|| {
            let pool = ImportedPool::import_exported(run.device(), &exported)?;
            Ok::<_, Error>((pool, ImportedPool::import_exported(run.device(), &on_host)?))
        });
    }

    ImportedPool::receive |run| {
        let exported = [shared(run.device()), shared_on_host(run.device())];
        let exported = exported.map(|pool| pool.export().unwrap());
        // Each time by a connection of its own: what failed leaves messages in it.
        run.create(|| {
            let (mut here, mut there) = IpcChannel::pair().unwrap();
            exported.iter().for_each(|pool| here.send_pool(pool).unwrap());
            let pool = ImportedPool::receive(run.device(), &mut there)?;
            Ok::<_, Error>((pool, ImportedPool::receive(run.device(), &mut there)?))
        });
    }

    ImportedPool::import_buffer |run| {
        let there = Exporter::new(run);
        let (buffer, token) = there.buffer();
        let pool = ImportedPool::import_exported(run.device(), &there.exported).unwrap();
        run.create(|| pool.import_buffer::<u32>(token.descriptor(), run.stream()));
        run.finish(|| run.stream().synchronize());
        unmap(run, &there, &buffer);
        drop((buffer, token));
    }

    ImportedPool::close |run| {
        let (imported, _freeing) = used(run);
        let _no_event_is_idle = run.hold_idle_events();
        drop(run.keep_or(run.op(|| imported.close())));
    }

    ImportedPool::drop |run| {
        let (imported, _freeing) = if run.now_current() == cuhold_testkit::NowCurrent::Own {
            let (imported, freeing) = used(run);
            (imported, Some(freeing))
        } else {
            (imported(run), None)
        };
        let _no_event_is_idle = run.hold_idle_events();
        run.op(|| drop(imported));
    }
}
