//! A race of allocators: threads that allocate, write, check and free memory of the device, from the driver's pool and from a
//! cache over it, each thread on a stream of its own and all on one. On the real GPU if there is one, else on the simulated
//! driver, which has one lock for everything.
//!
//! Run it with `cargo run --release -p cuhold --features sim --example allocator_race`; `-- 0.05` gives each race so many
//! seconds. Exit code 0 means that all was right: what was written was read back, nothing was reported, no memory is left.

#![expect(clippy::print_stdout, reason = "a program that shows something")]

mod race;
mod table;

use cuhold::{
    Buffer, CachingOptions, CachingResource, Device, Driver, Error, ErrorKind, Pool, PoolOptions,
    Result, Stream,
};
use race::{Racer, Rules};
use std::{env, process::ExitCode, time::Duration};
use table::Table;

/// On how many threads.
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// How long each race takes, if nothing else is said.
const SECONDS: f64 = 0.6;

/// The real driver if it has a device, else the simulated one.
fn driver() -> Driver {
    match real() {
        Ok(real) => {
            println!("driver: the real one");
            real
        }
        Err(why) => {
            println!("driver: the simulated one: {why}");
            Driver::from_api(cuhold::sim::Sim::new())
        }
    }
}

fn real() -> Result<Driver> {
    if env::var("CUHOLD_DRIVER").is_ok_and(|driver| driver == "sim") {
        return Err(Error::new(ErrorKind::Load, "it was asked for"));
    }
    let driver = Driver::load()?;
    match driver.device_count()? {
        0 => Err(Error::new(ErrorKind::Load, "the driver has no device")),
        _ => Ok(driver),
    }
}

/// The seconds of each race, as the first argument says.
fn seconds() -> Result<f64> {
    let Some(argument) = env::args().nth(1) else { return Ok(SECONDS) };
    match argument.parse() {
        Ok(seconds) if (0.001..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err(Error::argument(format!("{argument}: not a number of seconds from 0.001 to 60"))),
    }
}

/// Lets all race, and tells whether all was right.
fn run() -> Result<bool> {
    let time = Duration::from_secs_f64(seconds()?);
    let driver = driver();
    let device = Device::with_driver(&driver, 0)?;
    let mut table = Table::new(&THREADS);
    {
        let pool = Pool::new(&device, PoolOptions::default())?;
        // Both keep what they have: the pool for the driver, the cache for itself.
        pool.set_release_threshold_bytes(u64::MAX)?;
        let cache = CachingResource::new(&pool, CachingOptions::default())?;
        let of_pool = |stream: &Stream, len| Buffer::uninit_in(&pool, stream, len);
        let of_cache = |stream: &Stream, len| Buffer::uninit_in(&cache, stream, len);
        let racers = [
            Racer { name: "pool", shares_stream: false, allocate: &of_pool },
            Racer { name: "pool, one stream", shares_stream: true, allocate: &of_pool },
            Racer { name: "cache", shares_stream: false, allocate: &of_cache },
            Racer { name: "cache, one stream", shares_stream: true, allocate: &of_cache },
        ];
        for racer in &racers {
            table.begin(racer.name);
            for threads in THREADS {
                let rules = Rules { device: &device, threads, time };
                let scores = race::run(&rules, racer, |rate| table.show(rate))?;
                table.end(scores);
            }
            // One racer's memory isn't the next one's.
            cache.trim(0)?;
        }
        println!("\n{}", cache.statistics());
        table.check("no memory is left", pool.used_bytes()? == 0);
    }
    let counts = driver.reports().counts();
    table.check("nothing was reported", counts.raised == 0);
    table.compare("pool", "cache");
    Ok(table.is_right())
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
