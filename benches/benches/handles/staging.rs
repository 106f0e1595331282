//! Staged copies of a borrowed slice of 64 MiB, with each of a table of options, beside the driver's own pageable copy; into
//! memory that was touched before and into fresh memory.

use crate::Bed;
use criterion::Criterion;
use cuhold::{Buffer, Context, ContextFlags, StagingOptions, driver_sys::ffi::*};
use cuhold_benches::{Subject, compare};
use std::hint::black_box;

const MIB: usize = 1 << 20;
const LEN: usize = 64 * MIB;

/// What is tried: the default first.
fn table() -> [(&'static str, StagingOptions); 7] {
    let default = StagingOptions::default();
    [
        ("default", default),
        ("1 thread", default.threads(1)),
        ("1 thread, through the caches", default.threads(1).streaming_bytes(usize::MAX)),
        ("2 threads, chunks of 512 KiB", default.chunk_bytes(MIB / 2)),
        ("2 threads, chunks of 2 MiB", default.chunk_bytes(2 * MIB)),
        ("2 threads, 2 chunks each", default.chunks(2)),
        ("4 threads", default.threads(4).bytes_per_thread(8 * MIB)),
    ]
}

pub(crate) fn benches(criterion: &mut Criterion, bed: &Bed) {
    let raw_stream = bed.raw.new_stream();
    let home = bed.device.new_stream().unwrap();
    let (mut host, mut back) = (vec![1_u8; LEN], vec![0_u8; LEN]);
    let raw_buffer = Buffer::<u8>::zeroed(&home, LEN).unwrap();
    home.synchronize().unwrap();
    let pointer = raw_buffer.device_ptr();
    let source: *const c_void = host.as_mut_ptr().cast();
    let target: *mut c_void = back.as_mut_ptr().cast();
    for (name, options) in table() {
        // A context keeps chunks of one size: each row has its own.
        let context = Context::new(&bed.device, ContextFlags::default()).unwrap();
        let stream = context.new_stream().unwrap();
        let mut buffer = Buffer::<u8>::zeroed(&stream, LEN).unwrap();
        let subjects = vec![
            Subject::new("raw", || {
                bed.raw.cuMemcpyHtoDAsync_v2(pointer, source, LEN, raw_stream);
                bed.raw.cuStreamSynchronize(raw_stream);
            }),
            Subject::new("cuhold", || {
                buffer.as_view_mut().write_slice_with(&host, options, |_| {}).unwrap();
            }),
        ];
        compare(criterion, &format!("write 64 MiB, {name}"), 2, subjects);
        let mut mine = vec![0_u8; LEN];
        let subjects = vec![
            Subject::new("raw", || {
                bed.raw.cuMemcpyDtoHAsync_v2(target, pointer, LEN, raw_stream);
                bed.raw.cuStreamSynchronize(raw_stream);
            }),
            Subject::new("cuhold", || {
                buffer.as_view().read_into_with(&mut mine, options, |_| {}).unwrap();
            }),
        ];
        compare(criterion, &format!("read 64 MiB, {name}"), 2, subjects);
        drop((buffer, stream));
        context.close().unwrap();
    }
    fresh(criterion, bed, &raw_buffer, raw_stream);
    bed.raw.cuStreamDestroy_v2(raw_stream);
}

/// Into memory that nobody has touched: its pages come to be while the copy is made.
fn fresh(criterion: &mut Criterion, bed: &Bed, buffer: &Buffer<u8>, raw_stream: CUstream) {
    let pointer = buffer.device_ptr();
    let subjects = vec![
        Subject::new("raw", || {
            let mut vec = vec![0_u8; LEN];
            bed.raw.cuMemcpyDtoHAsync_v2(vec.as_mut_ptr().cast(), pointer, LEN, raw_stream);
            bed.raw.cuStreamSynchronize(raw_stream);
            black_box(vec);
        }),
        Subject::new("cuhold", || drop(black_box(buffer.to_vec().unwrap()))),
    ];
    compare(criterion, "read 64 MiB into a new vector", 2, subjects);
}
