//! Pools, buffers and events between processes.
//!
//! A test with two processes has two simulated ones of one world. On a real driver it imports what it exports itself, which
//! the driver lets it do; what needs real processes stands in `process.rs`.

mod channel;
mod faults;
mod imports;
mod order;
mod process;
mod scenario;
mod wire;

use cuhold_driver_sim::{Sim, SimOptions};
use cuhold_handles::{Closed, Context, Device, Driver, Stream};
use cuhold_memory::{
    Buffer, ExportedBuffer, ExportedPool, ImportedPool, Pool, PoolOptions, PoolPlace,
};
use cuhold_testkit::Kit;
use std::{
    thread,
    time::{Duration, Instant},
};

/// The exporting process.
pub(crate) struct Exporter {
    sim: Option<Sim>,
    pub(crate) device: Device,
    pub(crate) stream: Stream,
    pub(crate) pool: Pool,
    pub(crate) exported: ExportedPool,
}

impl Exporter {
    pub(crate) fn beside(t: &Kit) -> Self {
        Self::of(t.sim(), t.device())
    }

    /// Another process of the simulated driver's world, or this one.
    pub(crate) fn of(sim: Option<&Sim>, here: &Device) -> Self {
        Self::with(sim, here, PoolPlace::Device)
    }

    /// With a pool of this place.
    pub(crate) fn with(sim: Option<&Sim>, here: &Device, place: PoolPlace) -> Self {
        let sim = sim.map(|sim| sim.other_process(SimOptions::default()));
        let device = sim.as_ref().map_or_else(
            || here.clone(),
            |sim| Device::with_driver(&Driver::from_api(sim.clone()), 0).unwrap(),
        );
        let stream = device.new_stream().unwrap();
        let pool = Pool::new(&device, PoolOptions::default().place(place).shareable()).unwrap();
        let exported = pool.export().unwrap();
        Self { sim, device, stream, pool, exported }
    }

    /// Memory with these words, written, and what keeps it for the importers.
    pub(crate) fn buffer(&self, words: &[u32]) -> (Buffer<u32>, ExportedBuffer) {
        let buffer = Buffer::from_slice_in(&self.pool, &self.stream, words).unwrap();
        let exported = buffer.export(&self.pool).unwrap();
        (buffer, exported)
    }

    pub(crate) fn imported(&self, device: &Device) -> ImportedPool {
        ImportedPool::import_exported(device, &self.exported).unwrap()
    }

    /// Ends the process, which must have nothing left and have done nothing wrong. What it exported is freed once the
    /// importing process's frees are done, not only queued: its memory must not be freed before.
    pub(crate) fn end<T>(self, importing: &Context, made: T) {
        importing.synchronize().unwrap();
        drop(made);
        self.finish();
    }

    /// The same, where nothing of it is imported any more.
    pub(crate) fn finish(self) {
        let Self { sim, device, stream, pool, exported } = self;
        let driver = device.driver().clone();
        drop((stream, pool, exported, device));
        let Some(sim) = sim else { return };
        close(driver);
        let (violations, leaks) = (sim.violations(), sim.leaks());
        assert!(violations.is_empty(), "violations: {violations:#?}");
        assert!(leaks.is_empty(), "leaks: {leaks:#?}");
    }
}

/// Closes a driver whose objects have all been dropped; some end on the reclaimer.
pub(crate) fn close(driver: Driver) {
    driver.reclaim().drain(Duration::from_secs(60)).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while !driver.is_unique() {
        assert!(Instant::now() < until, "objects of the driver are still alive");
        thread::yield_now();
    }
    assert_eq!(driver.close().unwrap(), Closed::Destroyed);
}
