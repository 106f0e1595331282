//! Imports of memory between processes that hit: what is mapped already is shared, which costs counting. A hit and the end
//! of such an import make no driver call, so that these times are the same on any driver.
//!
//! The raw subject is what sharing costs anyway: a bare `Arc`, cloned and dropped. The exporter is another process of the
//! simulated driver's world, or on a real driver this one, which may import what it exported.
//!
//! A bare `Arc` is one atomic pair: an addition, and a subtraction later. An import that hits is four of them:
//!
//! | pair | whose | why it is there |
//! |---|---|---|
//! | the count of imports | all threads' that import this memory | the last one frees |
//! | the stream's handle | all threads' that work on this stream | a buffer keeps its home |
//! | the share's handle | the thread's | a buffer keeps what its memory goes back to |
//! | the lock of the look-up | the thread's | another thread ends a mapping under it |
//!
//! On one thread that and the rest of a buffer's life, two questions whether the process has forked among it, is some
//! 65 ns where a bare `Arc` is 4 (two cores of an EPYC). Among many threads what is shared decides: with a stream for each
//! thread one line of cache goes from core to core as that of a bare `Arc` does, with one stream for all a second one. So
//! there are three figures of many threads: nothing in common; all in common, beside one `Arc`; and beside the two that
//! any value which keeps its memory and its stream has.

use crate::Bed;
use criterion::Criterion;
use cuhold::{
    Buffer, BufferDescriptor, Device, Driver, ExportedBuffer, ImportedPool, Pool, PoolOptions,
    Stream, sim::SimOptions,
};
use cuhold_benches::{Subject, compare};
use std::{hint::black_box, sync::Arc, thread};

const THREADS: usize = 16;
/// Imports of each thread in one iteration, so that starting the threads doesn't count.
const ROUNDS: usize = 10_000;

pub(crate) fn benches(criterion: &mut Criterion, bed: &Bed) {
    let exporter = match &bed.raw {
        crate::raw::Raw::Loaded(_) => bed.device.clone(),
        crate::raw::Raw::Simulated(sim) => {
            let other = Driver::from_api(sim.other_process(SimOptions::default()));
            Device::with_driver(&other, 0).unwrap()
        }
    };
    let stream = exporter.new_stream().unwrap();
    let pool = Pool::new(&exporter, PoolOptions::default().shareable()).unwrap();
    let imported = ImportedPool::import_exported(&bed.device, &pool.export().unwrap()).unwrap();
    let exports: Vec<(Buffer<u8>, ExportedBuffer)> = (0..THREADS)
        .map(|_| {
            let buffer = Buffer::<u8>::zeroed_in(&pool, &stream, 4096).unwrap();
            let exported = buffer.export(&pool).unwrap();
            (buffer, exported)
        })
        .collect();
    stream.synchronize().unwrap();
    let descriptors: Vec<&BufferDescriptor> =
        exports.iter().map(|(_, exported)| exported.descriptor()).collect();
    let homes: Vec<Stream> = (0..THREADS).map(|_| bed.device.new_stream().unwrap()).collect();
    // Keeps everything mapped, so that each import below hits, and ends on the stream where that calls nothing.
    let kept: Vec<Buffer<u8>> = descriptors
        .iter()
        .zip(&homes)
        .map(|(descriptor, home)| import(&imported, descriptor, home))
        .collect();

    if let (Some(descriptor), Some(home)) = (descriptors.first(), homes.first()) {
        one_thread(criterion, &imported, home, descriptor);
    }
    many_threads(criterion, &imported, &homes, &descriptors);
    drop(kept);
    for home in homes {
        home.synchronize().unwrap();
    }
    drop(exports);
}

fn import(pool: &ImportedPool, descriptor: &BufferDescriptor, home: &Stream) -> Buffer<u8> {
    pool.import_buffer(descriptor, home).unwrap()
}

fn one_thread(
    criterion: &mut Criterion,
    pool: &ImportedPool,
    home: &Stream,
    descriptor: &BufferDescriptor,
) {
    let shared = Arc::new(());
    let subjects = vec![
        Subject::new("raw", || drop(black_box(Arc::clone(&shared)))),
        Subject::new("cuhold", || drop(black_box(import(pool, descriptor, home)))),
    ];
    compare(criterion, "import that hits + drop (raw: a bare Arc)", 100_000, subjects);
}

/// What the threads of a bench have in common, and what stands beside it.
struct Beside {
    bench: &'static str,
    /// The same memory and the same stream for all, or one of each for each.
    is_shared: bool,
    /// How many bare handles are cloned.
    arcs: usize,
}

const BESIDE: [Beside; 3] = [
    Beside {
        bench: "10,000 imports that hit, on each of 16 threads, a piece and a stream for each (raw: bare Arcs)",
        is_shared: false,
        arcs: 1,
    },
    Beside {
        bench: "10,000 imports that hit, on each of 16 threads, one for all (raw: one bare Arc)",
        is_shared: true,
        arcs: 1,
    },
    Beside {
        bench: "10,000 imports that hit, on each of 16 threads, one for all (raw: two bare Arcs)",
        is_shared: true,
        arcs: 2,
    },
];

/// A bare handle, on lines of cache of its own.
#[repr(align(128))]
struct Bare;

/// The time of one import is that of an iteration, divided by `ROUNDS`.
fn many_threads(
    criterion: &mut Criterion,
    pool: &ImportedPool,
    homes: &[Stream],
    descriptors: &[&BufferDescriptor],
) {
    let arcs: Vec<[Arc<Bare>; 2]> =
        homes.iter().map(|_| [Arc::new(Bare), Arc::new(Bare)]).collect();
    for Beside { bench, is_shared, arcs: count } in BESIDE {
        let of = |thread: usize| if is_shared { 0 } else { thread };
        let subjects = vec![
            Subject::new("raw", || {
                on_threads(|thread| {
                    let shared = arcs.get(of(thread)).into_iter().flatten().take(count);
                    for shared in shared {
                        drop(black_box(Arc::clone(shared)));
                    }
                });
            }),
            Subject::new("cuhold", || {
                on_threads(|thread| {
                    let at = of(thread);
                    if let (Some(descriptor), Some(home)) = (descriptors.get(at), homes.get(at)) {
                        drop(black_box(import(pool, descriptor, home)));
                    }
                });
            }),
        ];
        compare(criterion, bench, 1, subjects);
    }
}

fn on_threads(work: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || (0..ROUNDS).for_each(|_| work(thread)));
        }
    });
}
