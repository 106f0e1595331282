//! Memory resources of users: what they are asked, and what becomes of their failures and panics.

#![expect(unsafe_code, reason = "implements a memory resource")]
#![expect(clippy::panic_in_result_fn, reason = "the test's resource checks what it is asked")]

use crate::flip::{World, told};
use cuhold_driver_sys::{CUresult, Call, Failure, Fault};
use cuhold_handles::{
    Closed, Error, ErrorKind, Fate, ObjectKind, Result, Stream, WarningKind, callback,
};
use cuhold_memory::{Block, Buffer, MemoryResource, Pool, PoolOptions};
use cuhold_testkit::run;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

const E: CUresult = CUresult(9001);

/// How a resource misbehaves when it gets memory back.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    None,
    Words,
    Panic,
}

/// A pool that tags its blocks and misbehaves on request.
struct Own {
    pool: Pool,
    given: AtomicU64,
    back: AtomicU64,
    trouble: Trouble,
    waits: bool,
    panics_in_drop: bool,
}

impl Own {
    fn new(pool: Pool) -> Self {
        let (given, back) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { pool, given, back, trouble: Trouble::None, waits: false, panics_in_drop: false }
    }

    fn shared(pool: Pool) -> Arc<Self> {
        Arc::new(Self::new(pool))
    }
}

// SAFETY: *memory*, *given back*: the pool's.
unsafe impl MemoryResource for Own {
    fn allocate(&self, bytes: usize, stream: &Stream) -> Result<Block> {
        assert_ne!(bytes, 0);
        let block = self.pool.allocate(bytes, stream)?;
        Ok(Block { tag: self.given.fetch_add(1, Ordering::Relaxed) + 100, ..block })
    }

    unsafe fn deallocate(&self, block: Block, stream: &Stream) -> Result<()> {
        let number = self.back.fetch_add(1, Ordering::Relaxed);
        assert!(block.tag >= 100, "{}", block.tag);
        assert_eq!(number == 0, block.tag == 100);
        // SAFETY: the caller's promise; the tag isn't the pool's.
        unsafe { self.pool.deallocate(Block { tag: 0, ..block }, stream) }?;
        match self.trouble {
            Trouble::None => Ok(()),
            Trouble::Words => Err(Error::state("not today")),
            Trouble::Panic => panic!("not today, on purpose"),
        }
    }

    fn deallocate_waits(&self) -> bool {
        self.waits
    }

    fn memory_kind(&self) -> ObjectKind {
        ObjectKind::ManagedMemory
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        assert!(!self.panics_in_drop, "dropped, on purpose");
    }
}

#[test]
fn a_resource_gives_and_gets_back_what_it_gave() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let own = Own::shared(Pool::new(t.device(), PoolOptions::default()).unwrap());
        let buffer = Buffer::from_slice_in(&own, &stream, &[1, 2, 3]).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
        assert!(Buffer::<u8>::uninit_in(&own, &stream, 0).unwrap().is_empty());
        let buffer = buffer.into_raw().unwrap_err();
        drop(buffer);
        let any: Arc<dyn MemoryResource> = own.clone();
        let buffer = Buffer::<u8>::zeroed_in(&any, &stream, 10).unwrap();
        assert_eq!(buffer.close().unwrap(), Closed::Destroyed);
        assert_eq!((own.given.load(Ordering::Relaxed), own.back.load(Ordering::Relaxed)), (2, 2));
        drop(any);
        assert_eq!(Arc::strong_count(&own), 1);
    });
}

#[test]
fn a_pool_is_a_resource_like_any_other() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let block = pool.allocate(100, &stream).unwrap();
        // SAFETY: allocated above, used by nobody.
        unsafe { pool.deallocate(block, &stream) }.unwrap();
        let empty = pool.allocate(0, &stream).unwrap();
        assert_eq!(empty, Block::EMPTY);
        // SAFETY: as above.
        unsafe { pool.deallocate(empty, &stream) }.unwrap();
        let any: Arc<dyn MemoryResource> = Arc::new(pool.clone());
        drop(Buffer::<u8>::zeroed_in(&any, &stream, 10).unwrap());
        assert_eq!(pool.used_bytes().unwrap(), 0);
    });
}

#[test]
fn a_resource_whose_end_may_wait_is_called_on_the_reclaimer() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let mut own = Own::new(Pool::new(t.device(), PoolOptions::default()).unwrap());
        own.waits = true;
        let own = Arc::new(own);
        let by_hand = t.driver().reclaim().run_by_hand();
        drop(Buffer::<u8>::uninit_in(&own, &stream, 10).unwrap());
        assert_eq!(own.back.load(Ordering::Relaxed), 0);
        assert!(by_hand.step());
        assert_eq!(own.back.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_resource_outlives_its_buffers_in_a_callback() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let own = Own::shared(Pool::new(t.device(), PoolOptions::default()).unwrap());
        let buffer = Buffer::<u8>::uninit_in(&own, &stream, 10).unwrap();
        drop(own);
        let dropped = move || {
            assert!(callback::inside());
            drop(buffer);
        };
        stream.host_fn(dropped).map_err(|refused| refused.error).unwrap();
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_resource_s_error_in_a_drop_is_one_warning_and_in_a_close_an_error() {
    let world = World::new();
    let stream = world.stream();
    let mut own = Own::new(Pool::new(&world.device, PoolOptions::default()).unwrap());
    own.trouble = Trouble::Words;
    let own = Arc::new(own);
    let buffer = || Buffer::<u8>::uninit_in(&own, &stream, 10).unwrap();
    let (one, two) = (buffer(), buffer());
    let warning = world.warning(|| drop(one));
    assert_eq!((warning.kind(), warning.text()), (WarningKind::Note, "not today"));
    assert_eq!(told(&warning), (None, None, Some(Fate::Unknown)));
    assert_eq!(warning.object().kind, ObjectKind::ManagedMemory);
    let refused = two.close().unwrap_err();
    assert_eq!(refused.error.to_string(), "not today");
    assert!(refused.value.is_none());
}

#[test]
fn a_driver_call_that_fails_below_a_resource_is_told_once() {
    let world = World::new();
    let stream = world.stream();
    let own = Own::shared(Pool::new(&world.device, PoolOptions::default()).unwrap());
    let buffer = || Buffer::<u8>::uninit_in(&own, &stream, 10).unwrap();
    let first = buffer();
    world.faults().arm(Fault::done_but_failed(E).on(Call::cuMemFreeAsync));
    let warning = world.warning(|| drop(first));
    assert_eq!(told(&warning), (Some("cuMemFreeAsync"), Some(E.0), Some(Fate::Unknown)));
    world.faults().disarm();
    let second = buffer();
    let exchange = Call::cuThreadExchangeStreamCaptureMode;
    world.faults().arm(Fault::refused(E).on(exchange).nth(2));
    let warnings = world.warnings(|| drop(second));
    let failed = Failure { call: exchange, status: E };
    let failures: Vec<_> = warnings.iter().map(|warning| warning.failure()).collect();
    assert_eq!(failures, [Some(failed)], "{warnings:?}");
}

#[test]
fn a_panic_in_a_resource_becomes_a_warning_in_a_drop_and_goes_on_in_a_close() {
    let world = World::new();
    let stream = world.stream();
    let mut own = Own::new(Pool::new(&world.device, PoolOptions::default()).unwrap());
    own.trouble = Trouble::Panic;
    let own = Arc::new(own);
    let buffer = || Buffer::<u8>::uninit_in(&own, &stream, 10).unwrap();
    let (one, two, three) = (buffer(), buffer(), buffer());
    let warning = world.warning(|| drop(one));
    assert_eq!((warning.kind(), warning.fate()), (WarningKind::Panicked, Some(Fate::Leaked)));
    let unwound = catch_unwind(AssertUnwindSafe(|| two.close()));
    let text = *unwound.unwrap_err().downcast::<&str>().unwrap();
    assert_eq!(text, "not today, on purpose");
    // A panic while another one unwinds doesn't end the process.
    let warning = world.warning(|| {
        let thread = thread::scope(|scope| {
            scope
                .spawn(|| {
                    let _buffer = three;
                    panic!("first, on purpose");
                })
                .join()
        });
        assert!(thread.is_err());
    });
    assert_eq!(warning.kind(), WarningKind::Panicked);
    assert_eq!(Arc::strong_count(&own), 1, "let go all the same");
}

#[test]
fn a_panic_in_a_resource_s_own_drop_is_a_warning() {
    let world = World::new();
    let stream = world.stream();
    let mut own = Own::new(Pool::new(&world.device, PoolOptions::default()).unwrap());
    own.panics_in_drop = true;
    let own = Arc::new(own);
    let buffer = Buffer::<u8>::uninit_in(&own, &stream, 10).unwrap();
    drop(own);
    let warning = world.warning(|| drop(buffer));
    assert_eq!((warning.kind(), warning.object().kind), (WarningKind::Panicked, ObjectKind::Owner));
}

#[test]
fn a_resource_that_refuses_gives_its_own_error() {
    let world = World::new();
    let stream = world.stream();
    let own = Own::shared(Pool::new(&world.device, PoolOptions::default()).unwrap());
    world.faults().arm(Fault::refused(E).on(Call::cuMemAllocFromPoolAsync));
    assert!(Buffer::<u8>::uninit_in(&own, &stream, 10).unwrap_err().is(E));
    assert_eq!(Arc::strong_count(&own), 1);
}

/// What becomes of a block.
type Spoil = fn(Block) -> Block;

/// A pool that spoils what it gives out, and takes back what it has spoilt.
struct Spoilt {
    pool: Pool,
    spoil: Spoil,
    sound: Mutex<Vec<Block>>,
}

impl Spoilt {
    fn push(&self, block: Block) {
        self.sound.lock().unwrap().push(block);
    }

    fn pop(&self) -> Block {
        self.sound.lock().unwrap().pop().unwrap()
    }
}

// SAFETY: none of its blocks is kept by whoever looks at them first, which is what is tested.
unsafe impl MemoryResource for Spoilt {
    fn allocate(&self, bytes: usize, stream: &Stream) -> Result<Block> {
        let block = self.pool.allocate(bytes, stream)?;
        self.push(block);
        Ok((self.spoil)(block))
    }

    unsafe fn deallocate(&self, block: Block, stream: &Stream) -> Result<()> {
        let sound = self.pop();
        assert_eq!(block, (self.spoil)(sound), "as it was given");
        // SAFETY: the caller's promise; the block that the pool gave.
        unsafe { self.pool.deallocate(sound, stream) }
    }
}

#[test]
fn a_block_that_is_not_what_was_asked_for_is_an_error_and_goes_back() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let pool = Pool::new(t.device(), PoolOptions::default()).unwrap();
        let ways: [(Spoil, &str); 3] = [
            (|block| Block { ptr: block.ptr + 4, ..block }, "isn't aligned to 256 bytes"),
            (|block| Block { bytes: block.bytes - 1, ..block }, "399 bytes, where 400"),
            (|block| Block { bytes: usize::MAX, ..block }, "no address space holds"),
        ];
        for (spoil, word) in ways {
            let spoilt = Arc::new(Spoilt { pool: pool.clone(), spoil, sound: Mutex::default() });
            let error = Buffer::<f32>::uninit_in(&spoilt, &stream, 100).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
            assert!(error.to_string().contains(word), "{error}");
            assert!(spoilt.sound.lock().unwrap().is_empty(), "it has its memory back");
        }
        let spoil = |block| Block { ptr: 0, ..block };
        let nothing = Arc::new(Spoilt { pool: pool.clone(), spoil, sound: Mutex::default() });
        let error = Buffer::<f32>::uninit_in(&nothing, &stream, 100).unwrap_err();
        assert!(error.to_string().contains("no address"), "{error}");
        // Nothing is no memory, so that nothing goes back: it is the resource's own to clear away.
        let left = nothing.pop();
        // SAFETY: the pool's, which nothing uses.
        unsafe { pool.deallocate(left, &stream) }.unwrap();
        stream.synchronize().unwrap();
        assert_eq!(pool.used_bytes().unwrap(), 0);
    });
}
