//! Memory that isn't stream-ordered: made, used elsewhere, ended.

#![expect(unsafe_code, reason = "borrows a raw address")]

use cuhold_driver_sim::SimOptions;
use cuhold_handles::{
    Attach, BorrowedMemory, Device, DeviceMemory, Driver, ImportedMemory, ManagedMemory,
    MemoryHandle, PerThreadStream, RegisterOptions, RegisteredMemory, Stream,
};
use cuhold_testkit::Run;
use std::sync::Arc;

fn device_memory(run: &Run<'_>) -> DeviceMemory {
    DeviceMemory::new(run.context(), 64).unwrap()
}

fn managed(run: &Run<'_>) -> ManagedMemory {
    ManagedMemory::new(run.context(), 64, Attach::Global).unwrap()
}

/// So many bytes that they have their pages to themselves: a real driver registers whole pages.
fn pages() -> Vec<u8> {
    vec![0; 256 << 10]
}

fn registered(run: &Run<'_>) -> RegisteredMemory {
    RegisteredMemory::new(run.context(), pages(), RegisterOptions::default()).unwrap()
}

fn borrowed(run: &Run<'_>) -> BorrowedMemory {
    let memory = device_memory(run);
    let raw = memory.as_raw();
    // SAFETY: the owner keeps the memory alive, which has as many bytes.
    unsafe { BorrowedMemory::borrow_raw(run.context(), 64, raw, Some(Arc::new(memory))) }.unwrap()
}

/// Memory of another process, which is kept alive by what comes with it.
fn exported(run: &Run<'_>) -> Option<(MemoryHandle, DeviceMemory)> {
    let there = Driver::from_api(run.sim()?.other_process(SimOptions::default()));
    let device = Device::with_driver(&there, 0).unwrap();
    let memory = DeviceMemory::new(device.context(), 64).unwrap();
    Some((memory.export().unwrap(), memory))
}

fn imported(run: &Run<'_>) -> Option<(ImportedMemory, DeviceMemory)> {
    let (handle, theirs) = exported(run)?;
    Some((ImportedMemory::open(run.context(), handle, 64).unwrap(), theirs))
}

/// A stream of another device, which others may use.
pub(super) fn foreign(run: &Run<'_>) -> Stream {
    let stream = run.second_device().new_stream().unwrap();
    let _: cuhold_handles::driver_sys::ffi::CUstream = stream.as_raw();
    stream
}

/// The calling thread's own stream of another device, which can't be asked later.
pub(super) fn per_thread(run: &Run<'_>) -> PerThreadStream {
    PerThreadStream::new(run.second_device().context())
}

cuhold_testkit::enrol! {
    DeviceMemory::new |run| {
        run.create(|| DeviceMemory::new(run.context(), 64));
    }

    DeviceMemory::used_on |run| {
        let (memory, stream) = (device_memory(run), per_thread(run));
        run.repeat(|| memory.used_on(&stream));
    }

    DeviceMemory::export |run| {
        let memory = device_memory(run);
        run.repeat(|| memory.export());
    }

    DeviceMemory::close |run| {
        let memory = device_memory(run);
        let stream = foreign(run);
        memory.used_on(&stream).unwrap();
        drop(run.keep_or(run.op(|| memory.close())));
    }

    DeviceMemory::drop |run| {
        let memory = device_memory(run);
        let stream = foreign(run);
        memory.used_on(&stream).unwrap();
        run.op(|| drop(memory));
    }

    ManagedMemory::new |run| {
        run.create(|| ManagedMemory::new(run.context(), 64, Attach::Global));
    }

    ManagedMemory::used_on |run| {
        let (memory, stream) = (managed(run), per_thread(run));
        run.repeat(|| memory.used_on(&stream));
    }

    ManagedMemory::close |run| {
        let memory = managed(run);
        let stream = foreign(run);
        memory.used_on(&stream).unwrap();
        drop(run.keep_or(run.op(|| memory.close())));
    }

    ManagedMemory::drop |run| {
        let memory = managed(run);
        let stream = foreign(run);
        memory.used_on(&stream).unwrap();
        run.op(|| drop(memory));
    }

    RegisteredMemory::new |run| {
        let options = RegisterOptions::default();
        run.create(|| RegisteredMemory::new(run.context(), pages(), options));
    }

    RegisteredMemory::with_owner |run| {
        let options = RegisterOptions::default();
        run.create(|| {
            let owner = Arc::new([0_u8; 64]);
            let start = std::ptr::NonNull::from(owner.as_ref()).cast::<u8>();
            // SAFETY: the owner keeps the bytes alive, and nothing uses them.
            unsafe { RegisteredMemory::with_owner(run.context(), start, 64, Some(owner), options) }
        });
    }

    RegisteredMemory::used_on |run| {
        let (memory, stream) = (registered(run), per_thread(run));
        run.repeat(|| memory.used_on(&stream));
    }

    RegisteredMemory::close |run| {
        let memory = registered(run);
        let stream = foreign(run);
        memory.used_on(&stream).unwrap();
        drop(run.keep_or(run.op(|| memory.close())));
    }

    RegisteredMemory::drop |run| {
        let memory = registered(run);
        let stream = foreign(run);
        memory.used_on(&stream).unwrap();
        run.op(|| drop(memory));
    }

    ImportedMemory::open |run| {
        let Some((handle, _theirs)) = exported(run) else { return };
        run.create(|| ImportedMemory::open(run.context(), handle, 64));
    }

    ImportedMemory::used_on |run| {
        let Some((memory, _theirs)) = imported(run) else { return };
        let stream = per_thread(run);
        run.repeat(|| memory.used_on(&stream));
    }

    ImportedMemory::close |run| {
        let Some((memory, _theirs)) = imported(run) else { return };
        let stream = foreign(run);
        memory.used_on(&stream).unwrap();
        drop(run.keep_or(run.op(|| memory.close())));
    }

    ImportedMemory::drop |run| {
        let Some((memory, _theirs)) = imported(run) else { return };
        let stream = foreign(run);
        memory.used_on(&stream).unwrap();
        run.op(|| drop(memory));
    }

    BorrowedMemory::used_on |run| {
        let (memory, stream) = (borrowed(run), per_thread(run));
        run.repeat(|| memory.used_on(&stream));
    }

    BorrowedMemory::close |run| {
        // Nobody's: what an owner's end calls isn't this value's.
        let kept = device_memory(run);
        // SAFETY: the memory outlives what refers to it.
        let memory = unsafe { BorrowedMemory::borrow_raw(run.context(), 64, kept.as_raw(), Some(Arc::new(()))) };
        let memory = memory.unwrap();
        let stream = foreign(run);
        memory.used_on(&stream).unwrap();
        drop(run.keep_or(run.op(|| memory.close())));
    }

    BorrowedMemory::drop |run| {
        let kept = device_memory(run);
        // SAFETY: as above.
        let memory = unsafe { BorrowedMemory::borrow_raw(run.context(), 64, kept.as_raw(), Some(Arc::new(()))) };
        let memory = memory.unwrap();
        let stream = foreign(run);
        memory.used_on(&stream).unwrap();
        run.op(|| drop(memory));
    }
}
