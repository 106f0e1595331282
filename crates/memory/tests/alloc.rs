//! What memory operations allocate on the host's heap, the simulated driver's own allocations aside: counted by a global
//! allocator.
//!
//! A binary of its own, since it replaces the allocator.

#![expect(unsafe_code, reason = "an allocator")]

use cuhold_driver_sim::Sim;
use cuhold_driver_sys::{CUresult, Call, Hook, Hooked, Verdict};
use cuhold_handles::{Device, Driver, Stream};
use cuhold_memory::{
    Buffer, CachingOptions, CachingResource, CachingWay, HostBuffer, Pool, PoolOptions,
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    hint::black_box,
};

/// The system's allocator, counting the allocations of each thread outside of driver calls.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static IN_DRIVER: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    // The cells have neither an initializer to run nor a destructor, so they are there whenever a thread allocates.
    if !IN_DRIVER.get() {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    }
}

// SAFETY: each method is the system allocator's, which keeps the trait's promises; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on; what this allocator gave out is the system's.
        unsafe { System.realloc(pointer, layout, size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on; what this allocator gave out is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Says when the thread is inside the driver.
struct Inside;

impl Hook for Inside {
    fn before(&self, _: Call, _: &[u64]) -> Verdict {
        IN_DRIVER.set(true);
        Verdict::Pass
    }
    fn after(&self, _: Call, _: &[u64], _: CUresult) {
        IN_DRIVER.set(false);
    }
}

/// How often this thread allocates in `work`, outside of driver calls.
fn allocations<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = ALLOCATIONS.get();
    let value = work();
    (value, ALLOCATIONS.get() - before)
}

// `cfg(test)` holds here anyway: written out, it tells the lints that helpers may unwrap.
#[cfg(test)]
fn device() -> (Device, Stream) {
    let driver = Driver::from_api(Hooked::new(Sim::new(), Inside));
    let device = Device::with_driver(&driver, 0).unwrap();
    let stream = device.new_stream().unwrap();
    (device, stream)
}

#[test]
fn the_counter_counts_what_is_not_the_driver_s() {
    assert_eq!(allocations(|| drop(black_box(Box::new(1)))).1, 1);
    assert_eq!(allocations(|| ()).1, 0);
    let (device, _) = device();
    // The block of the handle.
    assert_eq!(allocations(|| drop(device.new_stream().unwrap())).1, 1);
}

#[test]
fn exact_counts_of_allocations_of_stream_ordered_memory() {
    let (device, stream) = device();
    let pool = Pool::new(&device, PoolOptions::default()).unwrap();
    let make = || Buffer::<u32>::uninit_in(&pool, &stream, 64).unwrap();
    let (mut x, count) = allocations(make);
    assert_eq!(count, 1, "the first of a context: the pool gets a place where it keeps that");
    let (y, count) = allocations(make);
    assert_eq!(count, 0, "allocate from a pool");
    assert_eq!(allocations(|| Buffer::<u32>::zeroed(&stream, 64).unwrap()).1, 0, "zeroed, dropped");
    assert_eq!(allocations(|| x.fill(7).unwrap()).1, 0, "fill");
    assert_eq!(allocations(|| x.copy_from(&y).unwrap()).1, 0, "device copy");
    assert_eq!(allocations(|| drop(x)).1, 0, "free in a drop");
    let (kept, count) = allocations(|| y.keep());
    assert_eq!(count, 1, "the first keep");
    assert_eq!(allocations(|| drop(y.keep())).1, 0, "another one");
    assert_eq!(allocations(|| drop((y, kept))).1, 0, "the last that keeps it");
}

#[test]
fn exact_counts_of_allocations_of_slice_copies() {
    let (_device, stream) = device();
    let mut bytes = vec![7_u8; 3 << 20];
    let mut buffer = Buffer::from_slice(&stream, &bytes).unwrap();
    assert_eq!(allocations(|| buffer.write_slice(&bytes).unwrap()).1, 0, "with staging memory");
    assert_eq!(allocations(|| buffer.read_into(&mut bytes).unwrap()).1, 0, "back");
    assert_eq!(allocations(|| buffer.to_vec().unwrap()).1, 1, "the vector");
}

#[test]
fn exact_counts_of_allocations_of_owned_copies() {
    let (device, stream) = device();
    let mut buffer = Buffer::<u8>::zeroed(&stream, 64).unwrap();
    let host = HostBuffer::<u8>::zeroed(device.context(), 64).unwrap();
    let (pending, count) = allocations(|| buffer.write_from(host).unwrap());
    assert_eq!(count, 3, "where the context keeps idle events: for threads, and for all of them");
    let (host, count) = allocations(|| pending.wait().unwrap());
    assert_eq!(count, 0, "wait");
    let (pending, count) = allocations(|| buffer.write_from(host).unwrap());
    assert_eq!(count, 0, "with an idle event");
    let host = pending.wait().unwrap();
    let by_hand = device.driver().reclaim().run_by_hand();
    assert_eq!(allocations(|| drop(host)).1, 0, "what the reclaimer ends carries its record");
    let pending = buffer.read_to(vec![0; 64]).unwrap();
    assert_eq!(allocations(|| drop(pending)).1, 1, "the record of a copy under way");
    drop(by_hand);
}

#[test]
fn exact_counts_of_allocations_of_moving_a_buffer() {
    let (device, stream) = device();
    let other = device.new_stream().unwrap();
    let mut buffer = Buffer::<u8>::zeroed(&stream, 64).unwrap();
    buffer.move_to(&other).unwrap();
    assert_eq!(allocations(|| buffer.move_to(&stream).unwrap()).1, 0, "with an idle event");
    let source = Buffer::<u8>::zeroed(&other, 64).unwrap();
    buffer.copy_across(&source).unwrap();
    assert_eq!(allocations(|| buffer.copy_across(&source).unwrap()).1, 0, "with two idle ones");
}

#[cfg(target_os = "linux")]
#[test]
fn exact_counts_of_allocations_of_imports() {
    use cuhold_memory::ImportedPool;
    let (device, stream) = device();
    let other = device.new_stream().unwrap();
    let pool = Pool::new(&device, PoolOptions::default().shareable()).unwrap();
    let imported = ImportedPool::import_exported(&device, &pool.export().unwrap()).unwrap();
    let buffer = Buffer::<u32>::zeroed_in(&pool, &stream, 64).unwrap();
    let token = buffer.export(&pool).unwrap();
    let import = |home: &Stream| imported.import_buffer::<u32>(token.descriptor(), home).unwrap();
    for round in 0..2 {
        let first = import(&stream);
        let (second, count) = allocations(|| import(&stream));
        assert_eq!(count, 0, "a hit");
        assert_eq!(allocations(|| drop(second)).1, 0, "not the last, on the same stream");
        let (on_other, count) = allocations(|| import(&other));
        assert_eq!(count, 0, "a hit on another stream");
        drop(on_other);
        let again = import(&other);
        assert_eq!(allocations(|| drop(again)).1, 0, "not the last, on another stream, once more");
        let ((), count) = allocations(|| drop(first));
        // At first the events get a place where they are kept.
        assert_eq!(count, u64::from(round == 0), "the last");
    }
    stream.synchronize().unwrap();
}

/// Prints a figure as `cargo xtask figures` reads it.
#[cfg(test)]
#[expect(clippy::print_stdout, reason = "the line is what the figures are read from")]
fn figure(name: &str, value: u64) {
    println!("figure {name}: {value}");
}

#[test]
fn exact_counts_of_allocations_of_cached_memory() {
    for way in [CachingWay::Lock, CachingWay::Biased] {
        let (device, stream) = device();
        let pool = Pool::new(&device, PoolOptions::default()).unwrap();
        let cache = CachingResource::new(&pool, CachingOptions::default().way(way)).unwrap();
        let make = || Buffer::<u8>::uninit_in(&cache, &stream, 1000).unwrap();
        drop(make());
        let (buffer, count) = allocations(make);
        assert_eq!(count, 0, "a hit");
        figure("heap_allocations_per_cached_alloc", count);
        assert_eq!(allocations(|| drop(buffer)).1, 0, "given back");
        let mut many: Vec<_> = (0..2000).map(|_| make()).collect();
        let there = many.split_off(1000);
        // On the way through magazines and the shelf, and on a thread that has nothing yet.
        assert_eq!(allocations(|| drop(many)).1, 0, "many, given back");
        let given = std::thread::scope(|scope| {
            scope.spawn(move || allocations(|| drop(there)).1).join().unwrap()
        });
        assert_eq!(given, 0, "by a thread that never allocated");
        assert_eq!(cache.statistics().in_use_bytes, 0);
    }
}
