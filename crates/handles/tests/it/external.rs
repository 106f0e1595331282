//! Memory, semaphores and resources of other APIs, planted in the simulated driver.

#![expect(unsafe_code, reason = "takes over what was planted")]

use cuhold_driver_sim::{ObjectKind as SimKind, Sim};
use cuhold_driver_sys::CUresult;
use cuhold_handles::{
    ArrayDesc, ArrayFormat, Closed, Context, ContextFlags, Device, Driver, ErrorKind,
    ExternalMemory, ExternalMemoryOptions, ExternalSemaphore, ExternalSemaphoreKind, GraphicsPlace,
    GraphicsResource, Stream,
};
use cuhold_testkit::{Kit, run_simulated};
use std::{
    fs::File,
    os::fd::{AsRawFd as _, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

fn memory(t: &Kit, sim: &Sim, size_bytes: u64) -> ExternalMemory {
    let raw = sim.plant_external_memory(t.context().as_raw(), size_bytes);
    // SAFETY: planted for this handle alone, in this context.
    unsafe { ExternalMemory::from_raw(t.context(), raw) }.unwrap()
}

fn semaphore(t: &Kit, sim: &Sim) -> ExternalSemaphore {
    let raw = sim.plant_external_semaphore(t.context().as_raw());
    // SAFETY: as above.
    unsafe { ExternalSemaphore::from_raw(t.context(), raw) }.unwrap()
}

fn graphics(t: &Kit, sim: &Sim) -> GraphicsResource {
    let raw = sim.plant_graphics_buffer(t.context().as_raw(), 64);
    // SAFETY: as above.
    unsafe { GraphicsResource::from_raw(t.context(), raw) }.unwrap()
}

fn descriptor() -> OwnedFd {
    File::open("/dev/null").unwrap().into()
}

#[test]
fn a_descriptor_that_isn_t_imported_comes_back() {
    run_simulated(|t, _| {
        let fd = descriptor();
        let number = fd.as_raw_fd();
        let empty = ExternalMemoryOptions::default();
        let refused = ExternalMemory::import(t.context(), fd, empty).unwrap_err();
        assert!(refused.error.to_string().contains("size_bytes is 0"), "{}", refused.error);
        let fd = refused.value.unwrap();
        let options = ExternalMemoryOptions::new(64);
        let refused = ExternalMemory::import(t.context(), fd, options).unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::Missing);
        let fd = refused.value.unwrap();
        let kind = ExternalSemaphoreKind::OpaqueFd;
        let refused = ExternalSemaphore::import(t.context(), fd, kind).unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::Missing);
        assert_eq!(refused.value.unwrap().as_raw_fd(), number);
    });
}

#[test]
fn a_mapping_ends_before_the_memory_that_it_keeps() {
    run_simulated(|t, sim| {
        let memory = Arc::new(memory(t, sim, 1 << 16));
        let buffer = memory.map_buffer(4096..8192).unwrap();
        let desc = ArrayDesc::flat(16, 16, ArrayFormat::F32, 1).unwrap();
        let array = memory.map_mipmapped(8192, &desc, 2).unwrap();
        let hand = t.driver().reclaim().run_by_hand();
        let ((), calls) = t.calls(|| drop((memory, buffer, array)));
        assert_eq!(calls, [""; 0], "both mappings wait");
        let ((), calls) = t.calls(|| while hand.step() {});
        let place = |name| calls.iter().position(|call| *call == name).unwrap();
        let ended = place("cuDestroyExternalMemory");
        assert!(place("cuMemFree") < ended && place("cuMipmappedArrayDestroy") < ended);
        assert_eq!(sim.live(SimKind::ExternalMemory), 0);
    });
}

#[test]
fn a_range_that_isn_t_in_the_memory_is_refused() {
    run_simulated(|t, sim| {
        let memory = Arc::new(memory(t, sim, 4096));
        let (empty, calls) = t.calls(|| memory.map_buffer(64..64));
        assert_eq!(
            empty.unwrap_err().to_string(),
            "range: it is empty, and at least 1 byte is mapped"
        );
        assert_eq!(calls, [""; 0]);
        // Of memory that was taken over the size isn't known: the driver says it.
        let beyond = memory.map_buffer(0..4097).unwrap_err();
        assert!(beyond.is(CUresult::INVALID_VALUE), "{beyond}");
        assert_eq!(memory.size_bytes(), None);
    });
}

#[test]
fn a_stream_waits_for_an_external_semaphore() {
    run_simulated(|t, sim| {
        let semaphore = semaphore(t, sim);
        let (stream, other) = (t.device().new_stream().unwrap(), t.device().new_stream().unwrap());
        let ran = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&ran);
        semaphore.await_signal(&stream, 3).unwrap();
        let queued = stream.host_fn(move || runs.store(true, Ordering::Relaxed));
        queued.map_err(|refused| refused.error).unwrap();
        semaphore.signal(&other, 2).unwrap();
        sim.run_all();
        assert!(!ran.load(Ordering::Relaxed));
        semaphore.signal(&other, 3).unwrap();
        sim.run_all();
        assert!(ran.load(Ordering::Relaxed));
        stream.synchronize().unwrap();
        assert_eq!(semaphore.close().unwrap(), Closed::Destroyed);
    });
}

#[test]
fn a_stream_of_another_driver_or_another_context_s_default_stream_is_refused() {
    run_simulated(|t, sim| {
        let (semaphore, mut resource) = (semaphore(t, sim), graphics(t, sim));
        let foreign = Driver::from_api(Sim::new());
        let device = Device::with_driver(&foreign, 0).unwrap();
        let stream = device.new_stream().unwrap();
        let text = "stream belongs to another driver than the object it is used with";
        let (errors, calls) = t.calls(|| {
            [
                semaphore.signal(&stream, 1).unwrap_err(),
                semaphore.await_signal(&stream, 1).unwrap_err(),
                resource.map(&stream).map(drop).unwrap_err(),
            ]
        });
        assert_eq!(calls, [""; 0]);
        for error in errors {
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Argument, text));
        }
        let other = Context::new(t.device(), ContextFlags::default()).unwrap();
        let error = semaphore.signal(&Stream::legacy(&other), 1).unwrap_err();
        assert_eq!(error.to_string(), "stream: it is the default stream of another context");
    });
}

#[test]
fn a_graphics_resource_is_mapped_as_long_as_its_guard_lives() {
    run_simulated(|t, sim| {
        let (mut resource, stream) = (graphics(t, sim), t.device().new_stream().unwrap());
        let mapped = resource.map(&stream).unwrap();
        let (address, bytes) = mapped.pointer().unwrap();
        assert!(address != 0 && bytes == 64);
        let error = mapped.array(GraphicsPlace::default()).unwrap_err();
        assert!(error.is(CUresult::NOT_MAPPED_AS_ARRAY), "{error}");
        let ((), calls) = t.calls(|| drop(mapped));
        assert!(calls.contains(&"cuGraphicsUnmapResources"), "{calls:?}");
        resource.map(&stream).unwrap().close().unwrap();
        assert_eq!(resource.close().unwrap(), Closed::Destroyed);
        assert_eq!(sim.live(SimKind::GraphicsResource), 0);
    });
}
