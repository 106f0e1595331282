//! Memory of somebody else as a buffer: refused where there is none, kept while it is used, given back where it came from.

#![expect(unsafe_code, reason = "refers to memory by its address")]

use crate::flip::{World, told};
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{
    Attach, DeviceMemory, ErrorKind, Fate, ManagedMemory, ObjectKind, Owner, Result, Stream,
};
use cuhold_memory::{
    Block, Buffer, HostBuffer, MemoryResource, Origin, Pool, PoolOptions, Residence,
};
use cuhold_testkit::{Kit, run};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

fn stream(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

/// Refers to memory that outlives the buffer.
fn lend(stream: &Stream, ptr: u64, len: usize) -> Result<Buffer<u8>> {
    // SAFETY: the tests let the memory live as long, or nothing is there, which is refused.
    unsafe { Buffer::borrow_raw(stream, ptr, len, None) }
}

#[test]
fn memory_of_every_kind_is_told_by_where_it_lies() {
    run(|t| {
        let stream = stream(t);
        let device = DeviceMemory::new(t.context(), 64).unwrap();
        let managed = ManagedMemory::new(t.context(), 64, Attach::Global).unwrap();
        let host = HostBuffer::<u8>::zeroed(t.context(), 64).unwrap();
        let pooled = Buffer::<u8>::zeroed(&stream, 64).unwrap();
        for (ptr, residence) in [
            (device.as_raw(), Residence::Device),
            (managed.as_raw(), Residence::Managed),
            (host.as_ptr().addr() as u64, Residence::Host),
            (pooled.device_ptr(), Residence::Device),
        ] {
            let mut buffer = lend(&stream, ptr, 64).unwrap();
            assert_eq!(buffer.residence(), residence);
            assert_eq!((buffer.origin(), buffer.device()), (Origin::Borrowed, 0));
            buffer.fill(7).unwrap();
            assert_eq!(buffer.view(60..).unwrap().to_vec().unwrap(), [7; 4]);
            let buffer = buffer.into_raw().unwrap_err();
            let (_, calls) = t.calls(|| buffer.close().unwrap());
            assert_eq!(calls, [""; 0], "nothing is freed, and nothing waited for");
        }
        assert_eq!(pooled.origin(), Origin::CurrentPool);
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        assert_eq!(Buffer::<u8>::uninit_in(&pool, &stream, 64).unwrap().origin(), Origin::Pool);
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_pointer_to_nothing_and_one_to_less_are_refused_and_say_so() {
    run(|t| {
        let stream = stream(t);
        let memory = DeviceMemory::new(t.context(), 64).unwrap();
        let on_heap = [0_u8; 64];
        for (ptr, says) in [
            (0x40, "no memory that the driver knows"),
            (on_heap.as_ptr().addr() as u64, "has to be registered first"),
            (0, "null"),
        ] {
            let error = lend(&stream, ptr, 64).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Argument);
            assert!(error.to_string().contains(says), "{error}");
        }
        if t.sim().is_some() {
            // A real driver's allocations are larger than they were asked for.
            let error = lend(&stream, memory.as_raw() + 32, 1 << 20).unwrap_err();
            assert!(error.to_string().contains("more than the 64 bytes"), "{error}");
        }
        assert_eq!(lend(&stream, memory.as_raw() + 32, 32).unwrap().len(), 32);
        assert!(lend(&stream, 0, 0).unwrap().is_empty());
    });
}

/// Counts how often it is dropped.
struct Counted(Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Memory with an owner that is counted.
fn owned(stream: &Stream) -> (Buffer<u8>, Arc<AtomicU32>) {
    let memory = DeviceMemory::new(stream.context(), 64).unwrap();
    let dropped = Arc::<AtomicU32>::default();
    let (ptr, counted) = (memory.as_raw(), Counted(Arc::clone(&dropped)));
    let owner: Owner = Arc::new((counted, memory));
    // SAFETY: the owner keeps the memory alive.
    (unsafe { Buffer::borrow_raw(stream, ptr, 64, Some(owner)) }.unwrap(), dropped)
}

#[test]
fn an_owner_is_let_go_of_once_the_home_stream_s_work_is_done() {
    run(|t| {
        let by_hand = t.driver().reclaim().run_by_hand();
        let stream = stream(t);
        let (mut buffer, dropped) = owned(&stream);
        buffer.fill(1).unwrap();
        let ((), calls) = t.calls(|| drop(buffer));
        assert_eq!((calls.len(), dropped.load(Ordering::SeqCst)), (0, 0));
        let (_, calls) = t.calls(|| while by_hand.step() {});
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
        let at = |name| calls.iter().position(|call| *call == name).unwrap();
        assert!(at("cuStreamSynchronize") < at("cuMemFree"), "{calls:?}");
        let (mut buffer, dropped) = owned(&stream);
        buffer.fill(1).unwrap();
        buffer.close().unwrap();
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
        while by_hand.step() {}
    });
}

#[test]
fn an_owner_of_memory_that_may_be_in_use_is_kept_for_good() {
    let world = World::new();
    let (buffer, dropped) = owned(&world.stream());
    world.faults().arm(Fault::refused(CUresult(9001)).on(Call::cuStreamSynchronize));
    let warning = world.warning(|| {
        drop(buffer);
        world.driver.reclaim().drain(Duration::from_secs(10)).unwrap();
    });
    assert_eq!(told(&warning), (Some("cuStreamSynchronize"), Some(9001), Some(Fate::Leaked)));
    assert_eq!(warning.object().kind, ObjectKind::BorrowedMemory);
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
}

struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("the owner's own");
    }
}

#[test]
fn an_owner_whose_drop_panics_is_one_warning() {
    let world = World::new();
    let (stream, memory) = (world.stream(), Buffer::<u8>::zeroed(&world.stream(), 8).unwrap());
    let owner: Owner = Arc::new(Panics);
    // SAFETY: the memory outlives the buffer.
    let buffer = unsafe { Buffer::<u8>::borrow_raw(&stream, memory.device_ptr(), 8, Some(owner)) };
    let buffer = buffer.unwrap();
    let warning = world.warning(|| {
        drop(buffer);
        world.driver.reclaim().drain(Duration::from_secs(10)).unwrap();
    });
    assert!(warning.to_string().contains("the owner's own"), "{warning}");
}

/// A pool, and how many of its blocks came back.
struct Counting {
    pool: Pool,
    back: AtomicU32,
}

// SAFETY: *memory*, *given back*: the pool's.
unsafe impl MemoryResource for Counting {
    fn allocate(&self, bytes: usize, stream: &Stream) -> Result<Block> {
        self.pool.allocate(bytes, stream)
    }
    unsafe fn deallocate(&self, block: Block, stream: &Stream) -> Result<()> {
        self.back.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the caller's promise.
        unsafe { self.pool.deallocate(block, stream) }
    }
}

#[test]
fn a_block_goes_back_to_the_resource_that_it_is_said_to_be_of() {
    run(|t| {
        let stream = stream(t);
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let counting = Arc::new(Counting { pool, back: AtomicU32::new(0) });
        let resource: Arc<dyn MemoryResource> = Arc::<Counting>::clone(&counting);
        let block = resource.allocate(64, &stream).unwrap();
        // SAFETY: refused, too large.
        let error = unsafe { Buffer::<u64>::from_block(&resource, &stream, block, 9) };
        assert!(error.unwrap_err().to_string().contains("72 bytes"));
        // SAFETY: a block of this resource, given back by the buffer.
        let buffer = unsafe { Buffer::<u64>::from_block(&resource, &stream, block, 8) }.unwrap();
        assert_eq!(buffer.origin(), Origin::Resource);
        assert!(Arc::ptr_eq(buffer.resource().unwrap(), &resource));
        drop(buffer);
        assert_eq!(counting.back.load(Ordering::SeqCst), 1);
        stream.synchronize().unwrap();
        assert_eq!(counting.pool.used_bytes().unwrap(), 0);
    });
}

/// S60: each way to get memory has the way by which it goes back, whatever else the program does in between.
#[test]
fn memory_is_freed_by_the_call_that_matches_its_allocation() {
    run(|t| {
        let stream = stream(t);
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let current = Buffer::<u8>::zeroed(&stream, 64).unwrap();
        let pooled = Buffer::<u8>::zeroed_in(&pool, &stream, 64).unwrap();
        let plain = DeviceMemory::new(t.context(), 64).unwrap();
        let host = HostBuffer::<u8>::zeroed(t.context(), 64).unwrap();
        let (owned, _) = owned(&stream);
        pool.set_release_threshold_bytes(u64::MAX).unwrap();
        let freed = |work: &mut dyn FnMut()| {
            let (_, calls) = t.calls(work);
            let frees = calls.into_iter().filter(|call| call.starts_with("cuMemFree"));
            frees.collect::<Vec<_>>()
        };
        let (mut current, mut pooled, mut owned) = (Some(current), Some(pooled), Some(owned));
        let (mut plain, mut host) = (Some(plain), Some(host));
        assert_eq!(freed(&mut || drop(current.take().unwrap().close())), ["cuMemFreeAsync"]);
        assert_eq!(freed(&mut || drop(pooled.take().unwrap().close())), ["cuMemFreeAsync"]);
        assert_eq!(freed(&mut || drop(plain.take().unwrap().close())), ["cuMemFree"]);
        assert_eq!(freed(&mut || drop(host.take().unwrap().close())), ["cuMemFreeHost"]);
        // Its owner's memory goes as that does: on the reclaimer.
        assert_eq!(freed(&mut || drop(owned.take().unwrap().close())), [""; 0]);
        t.driver().reclaim().drain(Duration::from_secs(10)).unwrap();
    });
}
