//! Imports of memory between processes that hit: what is mapped already is shared, which costs counting.
//!
//! The raw subject is what sharing costs anyway: a bare `Arc`, cloned and dropped. The exporter is another process of the
//! simulated driver's world, or on a real driver this one, which may import what it exported.

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
    let home = bed.device.new_stream().unwrap();
    // Keeps everything mapped, so that each import below hits.
    let kept: Vec<Buffer<u8>> =
        descriptors.iter().map(|descriptor| import(&imported, descriptor, &home)).collect();

    one_thread(criterion, &imported, &home, descriptors.first().copied());
    many_threads(criterion, &imported, &home, &descriptors);
    drop(kept);
    home.synchronize().unwrap();
    drop(exports);
}

fn import(pool: &ImportedPool, descriptor: &BufferDescriptor, home: &Stream) -> Buffer<u8> {
    pool.import_buffer(descriptor, home).unwrap()
}

fn one_thread(
    criterion: &mut Criterion,
    pool: &ImportedPool,
    home: &Stream,
    descriptor: Option<&BufferDescriptor>,
) {
    let Some(descriptor) = descriptor else { return };
    let shared = Arc::new(());
    let subjects = vec![
        Subject::new("raw", || drop(black_box(Arc::clone(&shared)))),
        Subject::new("cuhold", || drop(black_box(import(pool, descriptor, home)))),
    ];
    compare(criterion, "import that hits + drop (raw: a bare Arc)", 100_000, subjects);
}

/// The time of one import is that of an iteration, divided by `ROUNDS`.
fn many_threads(
    criterion: &mut Criterion,
    pool: &ImportedPool,
    home: &Stream,
    descriptors: &[&BufferDescriptor],
) {
    for (bench, are_distinct) in [
        ("10,000 imports that hit, on each of 16 threads, a piece for each (raw: bare Arcs)", true),
        ("10,000 imports that hit, on each of 16 threads, one for all (raw: one bare Arc)", false),
    ] {
        let arcs: Vec<Arc<u64>> = (0..THREADS as u64).map(Arc::new).collect();
        let of = |thread: usize| if are_distinct { thread } else { 0 };
        let subjects = vec![
            Subject::new("raw", || {
                on_threads(|thread| {
                    if let Some(shared) = arcs.get(of(thread)) {
                        drop(black_box(Arc::clone(shared)));
                    }
                });
            }),
            Subject::new("cuhold", || {
                on_threads(|thread| {
                    if let Some(descriptor) = descriptors.get(of(thread)) {
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
