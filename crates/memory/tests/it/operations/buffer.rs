//! Buffers whole: moved, ended, and what views do on all of one.

#![expect(unsafe_code, reason = "refers to memory of somebody else")]

use crate::raw;
use cuhold_handles::Device;
use cuhold_memory::{Buffer, Pool, PoolOptions};
use cuhold_testkit::Run;
use std::{cell::RefCell, sync::Arc};

fn buffer(run: &Run<'_>, len: usize) -> Buffer<u32> {
    Buffer::uninit(run.stream(), len).unwrap()
}

/// A buffer whose memory this device reaches, too.
fn reached(run: &Run<'_>, device: &Device) -> Buffer<u32> {
    let pool = Pool::new(run.device(), PoolOptions::default()).unwrap();
    raw::grant(&pool, device.as_raw());
    Buffer::uninit_in(&pool, run.stream(), 10).unwrap()
}

/// One that is freed in its stream's order, and one whose work is waited for before its owner is let go of; the memory of
/// that one.
fn two_ends(run: &Run<'_>) -> ([Buffer<u32>; 2], Buffer<u32>) {
    let memory = buffer(run, 10);
    // SAFETY: the caller keeps it as long.
    let lent =
        unsafe { Buffer::borrow_raw(run.stream(), memory.device_ptr(), 10, Some(Arc::new(()))) };
    ([buffer(run, 10), lent.unwrap()], memory)
}

cuhold_testkit::enrol! {
    Buffer::move_to |run| {
        let (buffer, other) = (RefCell::new(buffer(run, 10)), run.new_stream());
        let far = run.second_device().new_stream().unwrap();
        let reached = RefCell::new(reached(run, run.second_device()));
        run.repeat(|| {
            buffer.borrow_mut().move_to(&other)?;
            reached.borrow_mut().move_to(&far)
        });
    }

    Buffer::close |run| {
        let (buffers, _memory) = two_ends(run);
        let closed = run.op(|| buffers.map(Buffer::close));
        for closed in closed {
            drop(run.keep_or(closed));
        }
    }

    Buffer::close_after |run| {
        let (([one, two], _memory), other) = (two_ends(run), run.new_stream());
        let event = run.new_event();
        other.record(&event).unwrap();
        let closed = run.op(|| [one.close_after(&other), two.close_after(&event)]);
        for closed in closed {
            drop(run.keep_or(closed));
        }
    }

    Buffer::drop |run| {
        let (buffers, _memory) = two_ends(run);
        run.op(|| drop(buffers));
    }

    Buffer::borrow_raw |run| {
        // Of another device, so that it is asked whether the stream's one reaches it.
        let pool = Pool::new(run.second_device(), PoolOptions::default()).unwrap();
        raw::grant(&pool, run.device().as_raw());
        let far = run.second_device().new_stream().unwrap();
        let memory = Buffer::<u32>::uninit_in(&pool, &far, 16).unwrap();
        let ptr = memory.device_ptr();
        // SAFETY: it outlives the buffer, and isn't used.
        run.create(|| unsafe { Buffer::<u32>::borrow_raw(run.stream(), ptr, 16, None) });
    }

    Buffer::to_vec |run| {
        let buffer = buffer(run, 10);
        run.repeat(|| buffer.to_vec());
    }

    Buffer::read_into |run| {
        let buffer = buffer(run, 3);
        run.repeat(|| buffer.read_into(&mut [0; 3]));
    }

    Buffer::read_to |run| {
        let buffer = buffer(run, 3);
        drop(run.keep_or(run.op(|| buffer.read_to(vec![1, 2, 3]))));
    }

    Buffer::fill |run| {
        // Of each size of an element that the driver fills.
        let one = RefCell::new(Buffer::<u8>::uninit(run.stream(), 9).unwrap());
        let two = RefCell::new(Buffer::<u16>::uninit(run.stream(), 9).unwrap());
        let four = RefCell::new(buffer(run, 9));
        run.repeat(|| {
            one.borrow_mut().fill(7)?;
            two.borrow_mut().fill(7)?;
            four.borrow_mut().fill(7)
        });
    }

    Buffer::write_slice |run| {
        let buffer = RefCell::new(buffer(run, 3));
        run.repeat(|| buffer.borrow_mut().write_slice(&[1, 2, 3]));
    }

    Buffer::write_from |run| {
        let mut buffer = buffer(run, 3);
        drop(run.keep_or(run.op(|| buffer.write_from(vec![1, 2, 3]))));
    }

    Buffer::copy_from |run| {
        let (to, from) = (RefCell::new(buffer(run, 10)), buffer(run, 10));
        run.repeat(|| to.borrow_mut().copy_from(&from));
    }

    Buffer::copy_across |run| {
        let to = RefCell::new(buffer(run, 10));
        let near = Buffer::uninit(&run.new_stream(), 10).unwrap();
        let far = Buffer::uninit(&run.second_device().new_stream().unwrap(), 10).unwrap();
        run.repeat(|| {
            to.borrow_mut().copy_across(&near)?;
            to.borrow_mut().copy_across(&far)
        });
    }
}
