//! Memory that changes hands, is held, or is handed over for the length of a closure.

#![expect(unsafe_code, reason = "launches kernels")]

use crate::bridge::{bridge, drain, theirs};
use cudarc::{
    driver::{LaunchConfig, PushKernelArg as _},
    nvrtc::Ptx,
};
use cuhold_driver_sys::{CUresult, Call};
use cuhold_handles::{Closed, ErrorKind};
use cuhold_memory::{Buffer, Pool, PoolOptions};
use cuhold_testkit::{PTX, run_real};
use std::panic::{AssertUnwindSafe, catch_unwind};

const LEN: usize = 100_000;

fn values() -> Vec<u32> {
    (0..100_000).collect()
}

#[test]
fn a_slice_that_is_taken_has_its_values_and_is_freed_here() {
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let (slice, queue) = theirs(kit, || {
            let queue = context.new_stream().unwrap();
            (queue.clone_htod(&values()).unwrap(), queue)
        });
        let before = kit.stack();
        let buffer = bridge.take_slice(slice).unwrap();
        assert_eq!(kit.stack(), before);
        assert_eq!(buffer.stream().raw().addr(), queue.cu_stream().addr());
        assert_eq!(buffer.to_vec().unwrap(), values());
        let frees = kit.counts().of(Call::cuMemFreeAsync);
        assert_eq!(buffer.close().unwrap(), Closed::Destroyed);
        assert_eq!(kit.counts().of(Call::cuMemFreeAsync), frees + 1);
        theirs(kit, || drop(queue));
        drain(kit);
        theirs(kit, || drop(context));
    });
}

#[test]
fn a_slice_that_is_taken_is_behind_what_cudarc_has_other_streams_do_with_it() {
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let slice = theirs(kit, || {
            let (queue, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
            let module = context.load_module(Ptx::from_src(PTX)).unwrap();
            let (spin, fill) =
                (module.load_function("spin").unwrap(), module.load_function("fill").unwrap());
            let mut slice = queue.alloc_zeros::<u32>(LEN).unwrap();
            let one =
                LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
            let ns = 20_000_000_u64;
            // SAFETY: the parameter is a u64.
            unsafe { other.launch_builder(&spin).arg(&ns).launch(one) }.unwrap();
            let (value, len) = (5_u32, u32::try_from(LEN).unwrap());
            let all = LaunchConfig::for_num_elems(len);
            // SAFETY: the parameters are (u32*, u32, u32), and the slice has as many words.
            unsafe {
                other.launch_builder(&fill).arg(&mut slice).arg(&value).arg(&len).launch(all)
            }
            .unwrap();
            slice
        });
        let buffer = bridge.take_slice(slice).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), vec![5; LEN]);
        drop(buffer);
        drain(kit);
        theirs(kit, || drop(context));
    });
}

#[test]
fn a_slice_that_is_held_is_freed_by_cudarc_behind_the_home_stream() {
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let slice = theirs(kit, || context.new_stream().unwrap().clone_htod(&values()).unwrap());
        let mut buffer = bridge.hold_slice(slice).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), values());
        buffer.move_to(&kit.device().new_stream().unwrap()).unwrap();
        buffer.fill(3).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), vec![3; LEN]);
        let (frees, before) = (kit.counts().of(Call::cuMemFreeAsync), kit.stack());
        drop(buffer);
        drain(kit);
        // By cudarc, past the hooks.
        assert_eq!(kit.counts().of(Call::cuMemFreeAsync), frees);
        assert_eq!(kit.stack(), before);
        theirs(kit, || drop(context));
    });
}

#[test]
fn a_failing_free_of_cudarc_s_is_a_warning_and_not_left_for_its_next_call() {
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let queue = theirs(kit, || context.new_stream().unwrap());
        // SAFETY: it isn't one: the memory is never used, and freeing it is refused.
        let slice = theirs(kit, || unsafe { queue.upgrade_device_ptr::<u8>(0x1000, 16) });
        let buffer = bridge.hold_slice(slice).unwrap();
        let warnings = kit.driver().reports().capture(4);
        drop(buffer);
        drain(kit);
        let told = warnings.take();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].call(), Some(Call::cuMemFreeAsync));
        assert_eq!(told[0].status(), Some(CUresult::INVALID_VALUE));
        assert_eq!(context.check_err(), Ok(()));
        drop(warnings);
        theirs(kit, || drop((queue, context)));
    });
}

#[test]
fn a_buffer_that_is_given_is_a_slice_that_cudarc_frees() {
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let home = kit.device().new_stream().unwrap();
        let queue = theirs(kit, || context.new_stream().unwrap());
        let buffer = Buffer::from_slice(&home, &values()).unwrap();
        let before = kit.stack();
        let slice = bridge.give_buffer(buffer, &queue).unwrap();
        assert_eq!(kit.stack(), before);
        assert_eq!(theirs(kit, || queue.clone_dtoh(&slice).unwrap()), values());
        let frees = kit.counts().of(Call::cuMemFreeAsync);
        theirs(kit, || drop((slice, queue)));
        assert_eq!(kit.counts().of(Call::cuMemFreeAsync), frees);
        theirs(kit, || drop(context));
    });
}

#[test]
fn a_buffer_that_cannot_be_given_comes_back() {
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let home = kit.device().new_stream().unwrap();
        let queue = theirs(kit, || context.new_stream().unwrap());
        let empty = Buffer::<u32>::uninit(&home, 0).unwrap();
        let refused = bridge.give_buffer(empty, &queue).unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::Argument);
        assert!(refused.value.is_some());

        let buffer = Buffer::from_slice(&home, &values()).unwrap();
        let kept = buffer.keep();
        let refused = bridge.give_buffer(buffer, &queue).unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::State);
        let buffer = refused.value.unwrap();
        assert_eq!(buffer.to_vec().unwrap(), values());
        drop(kept);
        theirs(kit, || drop((queue, context)));
    });
}

#[test]
fn cudarc_s_error_of_before_does_not_keep_a_buffer_from_being_given() {
    use cudarc::driver::{DriverError, sys};
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let queue = theirs(kit, || context.new_stream().unwrap());
        let buffer = Buffer::from_slice(&kit.device().new_stream().unwrap(), &[1_u8]).unwrap();
        let stored = || Err::<(), _>(DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND));
        context.record_err(stored());
        let slice = bridge.give_buffer(buffer, &queue).unwrap();
        assert_eq!(context.check_err(), stored());
        theirs(kit, || drop((slice, queue, context)));
    });
}

#[test]
fn cudarc_copies_from_and_to_a_buffer_on_any_stream_of_its_own() {
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let pool = Pool::new(kit.device(), PoolOptions::default()).unwrap();
        let home = kit.device().new_stream().unwrap();
        let (queue, other) =
            theirs(kit, || (context.new_stream().unwrap(), context.new_stream().unwrap()));
        let mut buffer = Buffer::<u32>::zeroed_in(&pool, &home, LEN).unwrap();
        theirs(kit, || {
            bridge
                .with_buffer_mut(&mut buffer, &queue, |buffer| {
                    other.memcpy_htod(&values(), buffer).unwrap();
                })
                .unwrap();
        });
        assert_eq!(buffer.to_vec().unwrap(), values());
        buffer.fill(8).unwrap();
        let read = theirs(kit, || {
            bridge.with_buffer(&buffer, &queue, |buffer| queue.clone_dtoh(buffer).unwrap()).unwrap()
        });
        // The home stream waits for cudarc's copy, which is done with it.
        home.synchronize().unwrap();
        assert_eq!(read, vec![8; LEN]);
        theirs(kit, || drop((queue, other, context)));
    });
}

#[test]
fn cudarc_launches_on_buffers_and_the_home_stream_waits_for_it() {
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let home = kit.device().new_stream().unwrap();
        let mut buffer = Buffer::<u32>::zeroed(&home, LEN).unwrap();
        theirs(kit, || {
            let queue = context.new_stream().unwrap();
            let module = context.load_module(Ptx::from_src(PTX)).unwrap();
            let (spin, fill) =
                (module.load_function("spin").unwrap(), module.load_function("fill").unwrap());
            let (ns, value, len) = (20_000_000_u64, 6_u32, u32::try_from(LEN).unwrap());
            let one =
                LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };
            bridge
                .with_buffer_mut(&mut buffer, &queue, |words| {
                    // SAFETY: the parameter is a u64.
                    unsafe { queue.launch_builder(&spin).arg(&ns).launch(one) }.unwrap();
                    let mut builder = queue.launch_builder(&fill);
                    builder.arg(words).arg(&value).arg(&len);
                    // SAFETY: the parameters are (u32*, u32, u32), and the buffer has as many words.
                    unsafe { builder.launch(LaunchConfig::for_num_elems(len)) }.unwrap();
                })
                .unwrap();
        });
        assert_eq!(buffer.to_vec().unwrap(), vec![6; LEN]);
        theirs(kit, || drop(context));
    });
}

#[test]
fn a_panic_of_the_closure_passes_and_the_order_is_made_all_the_same() {
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let home = kit.device().new_stream().unwrap();
        let queue = theirs(kit, || context.new_stream().unwrap());
        let buffer = Buffer::from_slice(&home, &[1_u8]).unwrap();
        let waits = kit.counts().of(Call::cuStreamWaitEvent);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            bridge.with_buffer(&buffer, &queue, |_| std::panic::panic_any(7_u8))
        }));
        assert_eq!(*caught.unwrap_err().downcast::<u8>().unwrap(), 7);
        assert_eq!(kit.counts().of(Call::cuStreamWaitEvent), waits + 2);
        theirs(kit, || drop((queue, context)));
    });
}
