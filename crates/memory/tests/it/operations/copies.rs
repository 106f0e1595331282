//! Views: blocking copies in several chunks, asynchronous ones, fills.

#![expect(unsafe_code, reason = "copies from and to pointers")]

use cuhold_memory::{
    Buffer, CopyBatch, CopyOptions, SourceOrder, StagingOptions, copy_2d, copy_3d,
    handles::driver_sys::ffi::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUmemorytype},
};
use cuhold_testkit::{NowCurrent, Run, StreamKind};
use std::cell::RefCell;

/// In one situation a little more than what is staged at once, else little.
fn len(run: &Run<'_>) -> usize {
    match (run.stream_kind(), run.now_current()) {
        (StreamKind::Created, NowCurrent::Nothing) => (1 << 20) + 1,
        _ => 5,
    }
}

fn buffer(run: &Run<'_>, len: usize) -> Buffer<u8> {
    Buffer::uninit(run.stream(), len).unwrap()
}

cuhold_testkit::enrol! {
    BufferView::to_vec |run| {
        let buffer = buffer(run, 10);
        run.repeat(|| buffer.as_view().to_vec());
    }

    BufferView::read_into |run| {
        let (buffer, to) = (buffer(run, len(run)), RefCell::new(vec![0; len(run)]));
        run.repeat(|| buffer.as_view().read_into(&mut to.borrow_mut()));
    }

    BufferView::read_to |run| {
        let buffer = buffer(run, 3);
        drop(run.keep_or(run.op(|| buffer.as_view().read_to(vec![1, 2, 3]))));
    }

    BufferView::read_to_ptr |run| {
        let buffer = buffer(run, 3);
        let to = RefCell::new([0; 3]);
        // SAFETY: the array outlives the copy, for which the body waits below, and is borrowed by nobody.
        run.repeat(|| unsafe { buffer.as_view().read_to_ptr(to.borrow_mut().as_mut_ptr()) });
        run.finish(|| run.stream().synchronize());
    }

    BufferViewMut::fill |run| {
        let one = RefCell::new(buffer(run, 9));
        let two = RefCell::new(Buffer::<u16>::uninit(run.stream(), 9).unwrap());
        let four = RefCell::new(Buffer::<u32>::uninit(run.stream(), 9).unwrap());
        run.repeat(|| {
            one.borrow_mut().as_view_mut().fill(7)?;
            two.borrow_mut().as_view_mut().fill(7)?;
            four.borrow_mut().as_view_mut().fill(7)
        });
    }

    BufferViewMut::write_slice |run| {
        let (buffer, from) = (RefCell::new(buffer(run, len(run))), vec![7; len(run)]);
        run.repeat(|| buffer.borrow_mut().as_view_mut().write_slice(&from));
    }

    BufferViewMut::write_from |run| {
        let mut buffer = buffer(run, 3);
        drop(run.keep_or(run.op(|| buffer.as_view_mut().write_from(vec![1, 2, 3]))));
    }

    BufferViewMut::write_from_ptr |run| {
        let buffer = RefCell::new(buffer(run, 3));
        let from = [1, 2, 3];
        // SAFETY: the array outlives the copy, for which the body waits below, and isn't written.
        run.repeat(|| unsafe { buffer.borrow_mut().as_view_mut().write_from_ptr(from.as_ptr()) });
        run.finish(|| run.stream().synchronize());
    }

    BufferViewMut::copy_from |run| {
        let (to, from) = (RefCell::new(buffer(run, 10)), buffer(run, 10));
        run.repeat(|| to.borrow_mut().as_view_mut().copy_from(&from));
    }

    BufferView::read_into_with |run| {
        let (buffer, to) = (buffer(run, len(run)), RefCell::new(vec![0; len(run)]));
        run.repeat(|| {
            let options = StagingOptions::default().chunk_bytes(1 << 19);
            buffer.as_view().read_into_with(&mut to.borrow_mut(), options, |_| {})
        });
    }

    BufferViewMut::write_slice_with |run| {
        let (buffer, from) = (RefCell::new(buffer(run, len(run))), vec![7; len(run)]);
        run.repeat(|| {
            let options = StagingOptions::default().chunk_bytes(1 << 19);
            buffer.borrow_mut().as_view_mut().write_slice_with(&from, options, |_| {})
        });
    }

    BufferViewMut::copy_from_with |run| {
        let (to, from) = (RefCell::new(buffer(run, 10)), buffer(run, 10));
        // A default stream takes no options.
        let options = match run.stream_kind() {
            StreamKind::Legacy => CopyOptions::default(),
            _ => CopyOptions::default().source_order(SourceOrder::Any),
        };
        run.repeat(|| to.borrow_mut().as_view_mut().copy_from_with(&from, options));
    }

    BufferViewMut::copy_across |run| {
        let to = RefCell::new(buffer(run, 10));
        let near = Buffer::uninit(&run.new_stream(), 10).unwrap();
        let far = Buffer::uninit(&run.second_device().new_stream().unwrap(), 10).unwrap();
        run.repeat(|| {
            to.borrow_mut().as_view_mut().copy_across(&near)?;
            to.borrow_mut().as_view_mut().copy_across(&far)
        });
    }

    CopyBatch::queue |run| {
        let (to, from) = (RefCell::new(buffer(run, 10)), buffer(run, 10));
        run.repeat(|| {
            let mut to = to.borrow_mut();
            let (left, right) = to.split_at_mut(5)?;
            let mut batch = CopyBatch::new();
            batch.push(left, from.view(5..)?)?;
            batch.push(right, from.view(..5)?)?;
            batch.queue()
        });
    }

    copy_2d |run| {
        let (to, from) = (buffer(run, 10), buffer(run, 10));
        let copy = CUDA_MEMCPY2D {
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcDevice: from.device_ptr(),
            srcPitch: 5,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstDevice: to.device_ptr(),
            dstPitch: 4,
            WidthInBytes: 4,
            Height: 2,
            ..CUDA_MEMCPY2D::default()
        };
        // SAFETY: within both buffers, which are used on this stream alone.
        run.repeat(|| unsafe { copy_2d(run.stream(), &copy) });
    }

    copy_3d |run| {
        let (to, from) = (buffer(run, 10), buffer(run, 10));
        let copy = CUDA_MEMCPY3D {
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcDevice: from.device_ptr(),
            srcPitch: 2,
            srcHeight: 2,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstDevice: to.device_ptr(),
            dstPitch: 2,
            dstHeight: 2,
            WidthInBytes: 1,
            Height: 2,
            Depth: 2,
            ..CUDA_MEMCPY3D::default()
        };
        // SAFETY: within both buffers, which are used on this stream alone.
        run.repeat(|| unsafe { copy_3d(run.stream(), &copy) });
    }
}
