//! Streams in both directions.

#![expect(unsafe_code, reason = "launches kernels")]

use crate::bridge::{bridge, drain, theirs};
use cudarc::driver::{CudaContext, DriverError, sys};
use cuhold_driver_sys::Call;
use cuhold_handles::{Context, ContextFlags, ErrorKind, LaunchConfig};
use cuhold_memory::Buffer;
use cuhold_testkit::run_real;
use std::sync::Arc;

#[test]
fn a_stream_of_cudarc_s_is_used_by_both_and_outlives_cudarc_s_last_handle_of_it() {
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let queue = theirs(kit, || context.new_stream().unwrap());
        let stream = bridge.borrow_stream(&queue).unwrap();
        assert!(stream.is_exposed());
        let mut buffer = Buffer::<u32>::zeroed(&stream, 1000).unwrap();
        theirs(kit, || queue.synchronize().unwrap());
        let weak = Arc::downgrade(&queue);
        theirs(kit, || drop(queue));
        let fill = kit.kernels().kernel("fill").unwrap();
        // SAFETY: the parameters are (u32*, u32, u32), and the buffer has 1000 words.
        unsafe {
            fill.launch(&stream, LaunchConfig::for_len(1000), (&mut buffer, 7_u32, 1000_u32))
        }
        .unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [7; 1000]);
        let before = kit.stack();
        drop((buffer, stream));
        drain(kit);
        assert_eq!(kit.stack(), before);
        assert!(weak.upgrade().is_none());
        theirs(kit, || drop(context));
    });
}

#[test]
fn cudarc_s_default_stream_is_the_legacy_one_and_the_per_thread_one_is_refused() {
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let stream = bridge.borrow_stream(&context.default_stream()).unwrap();
        assert!(stream.is_token());
        assert_eq!(Buffer::from_slice(&stream, &[9_u8]).unwrap().to_vec().unwrap(), [9]);
        let refused = bridge.borrow_stream(&context.per_thread_stream()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Argument);
        let lent = bridge.lend_stream(&stream, &context).unwrap();
        assert_eq!(*lent, context.default_stream());
        theirs(kit, || drop(context));
    });
}

#[test]
fn a_stream_that_is_lent_is_kept_until_the_last_slice_on_it_is_gone() {
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let stream = kit.device().new_stream().unwrap();
        let lent = bridge.lend_stream(&stream, &context).unwrap();
        assert!(stream.is_exposed());
        assert_eq!(lent.lent(), &stream);
        let slice = theirs(kit, || lent.clone_htod(&[1_u32, 2, 3]).unwrap());
        drop((lent, stream));
        assert_eq!(bridge.still_lent(), 1);
        let read = theirs(kit, || slice.stream().clone_dtoh(&slice).unwrap());
        assert_eq!(read, [1, 2, 3]);
        let ends = kit.counts().of(Call::cuStreamDestroy_v2);
        theirs(kit, || drop(slice));
        assert_eq!(kit.counts().of(Call::cuStreamDestroy_v2), ends);
        assert_eq!(bridge.still_lent(), 0);
        assert_eq!(kit.counts().of(Call::cuStreamDestroy_v2), ends + 1);
        drain(kit);
        theirs(kit, || drop(context));
    });
}

#[test]
fn a_stream_is_lent_to_its_own_context_alone() {
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let other = Context::new(kit.device(), ContextFlags::empty()).unwrap();
        let refused = bridge.lend_stream(&other.new_stream().unwrap(), &context).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Argument);
        theirs(kit, || drop(context));
    });
}

#[test]
fn an_error_that_cudarc_has_stored_is_left_for_its_next_call_when_a_borrowed_stream_ends() {
    run_real(|kit, _| {
        let (bridge, context) = bridge(kit);
        let queue = theirs(kit, || context.new_stream().unwrap());
        let stream = bridge.borrow_stream(&queue).unwrap();
        theirs(kit, || drop(queue));
        let stored = || Err::<(), _>(DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND));
        CudaContext::record_err(&context, stored());
        drop(stream);
        drain(kit);
        assert_eq!(context.check_err(), stored());
        theirs(kit, || drop(context));
    });
}
