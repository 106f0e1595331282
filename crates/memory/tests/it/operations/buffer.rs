//! Buffers whole: moved, ended, and what views do on all of one.

use cuhold_memory::Buffer;
use cuhold_testkit::Run;
use std::cell::RefCell;

fn buffer(run: &Run<'_>, len: usize) -> Buffer<u32> {
    Buffer::uninit(run.stream(), len).unwrap()
}

cuhold_testkit::enrol! {
    Buffer::move_to |run| {
        let (buffer, other) = (RefCell::new(buffer(run, 10)), run.new_stream());
        run.repeat(|| buffer.borrow_mut().move_to(&other));
    }

    Buffer::close |run| {
        let buffer = buffer(run, 10);
        drop(run.keep_or(run.op(|| buffer.close())));
    }

    Buffer::drop |run| {
        let buffer = buffer(run, 10);
        run.op(|| drop(buffer));
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
}
