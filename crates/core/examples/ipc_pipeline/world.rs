//! Where the producer and its consumers run: in processes of the real driver, or as threads of one simulated world.

use crate::{Amount, CONSUMERS, consumer, kernel, producer};
use cuhold::{
    Device, Driver, Error, ErrorKind, IpcChannel, Result,
    sim::{Sim, SimOptions},
};
use std::{
    env, io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Child, Command},
    thread,
};

/// Set for a consumer: this program again, with its end of the connection as its standard input.
const ROLE: &str = "IPC_PIPELINE_CONSUMER";

/// The connection of a consumer's process; `None`: this is the producer.
pub(crate) fn role() -> Result<Option<IpcChannel>> {
    if env::var_os(ROLE).is_none() {
        return Ok(None);
    }
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(|error| said(&error))?;
    Ok(Some(UnixStream::from(socket).into()))
}

fn said(error: &io::Error) -> Error {
    Error::new(ErrorKind::System, error.to_string())
}

/// The real driver if it has a device, unless the environment asks for the simulated one.
fn real() -> Result<Driver> {
    if env::var("CUHOLD_DRIVER").is_ok_and(|driver| driver == "sim") {
        return Err(Error::new(ErrorKind::Load, "CUHOLD_DRIVER asks for it"));
    }
    let driver = Driver::load()?;
    match driver.device_count()? {
        0 => Err(Error::new(ErrorKind::Load, "the driver has no device")),
        _ => Ok(driver),
    }
}

pub(crate) fn begin() -> Result<()> {
    match real() {
        Ok(driver) => {
            println!("driver: the real one, {CONSUMERS} consumers in processes of their own");
            with_processes(&driver)
        }
        Err(why) => {
            println!("driver: the simulated one ({why}), {CONSUMERS} consumers on threads");
            with_threads()
        }
    }
}

/// Consumers that are killed if the producer goes without them.
struct Consumers(Vec<Child>);

impl Drop for Consumers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended already can't be killed, which is as well.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn with_processes(driver: &Driver) -> Result<()> {
    let program = env::current_exe().map_err(|error| said(&error))?;
    let (mut consumers, mut channels) = (Consumers(Vec::new()), Vec::new());
    for _ in 0..CONSUMERS {
        let (here, there) = UnixStream::pair().map_err(|error| said(&error))?;
        let child = Command::new(&program).env(ROLE, "1").stdin(OwnedFd::from(there)).spawn();
        consumers.0.push(child.map_err(|error| said(&error))?);
        channels.push(IpcChannel::from(here));
    }
    let device = Device::with_driver(driver, 0)?;
    let produced = producer::run(&device, channels, Amount::of(true), &|| {});
    for child in &mut consumers.0 {
        let status = child.wait().map_err(|error| said(&error))?;
        if !status.success() {
            let error = Error::state(format!("a consumer ended with {status}"));
            return Err(produced.err().unwrap_or(error));
        }
    }
    produced
}

/// The same in one process: every party has a driver of its own.
fn with_threads() -> Result<()> {
    let sim = Sim::new();
    kernel::register(&sim);
    let mut channels = Vec::new();
    let results: Vec<Result<()>> = thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..CONSUMERS {
            let (here, mut there) = match IpcChannel::pair() {
                Ok(pair) => pair,
                Err(error) => {
                    channels.clear();
                    return vec![Err(error)];
                }
            };
            channels.push(here);
            let other = sim.other_process(SimOptions::default());
            threads.push(scope.spawn(move || {
                let device = Device::with_driver(&Driver::from_api(other.clone()), 0)?;
                consumer::run(&device, &mut there)?;
                nothing_wrong(&other)
            }));
        }
        let device = Device::with_driver(&Driver::from_api(sim.clone()), 0);
        let produced = device.and_then(|device| {
            // Nothing runs by itself on the simulated driver, and one process can't wait for another's work.
            producer::run(&device, std::mem::take(&mut channels), Amount::of(false), &|| {
                sim.run_all();
            })
        });
        // Consumers see the connections end, whatever happened here.
        channels.clear();
        let mut results = vec![produced];
        for thread in threads {
            results
                .push(thread.join().unwrap_or_else(|_| Err(Error::state("a consumer panicked"))));
        }
        results
    });
    results.into_iter().collect::<Result<()>>()?;
    nothing_wrong(&sim)
}

fn nothing_wrong(sim: &Sim) -> Result<()> {
    match sim.violations().first() {
        None => Ok(()),
        Some(violation) => Err(Error::state(format!("the simulated driver saw a {violation}"))),
    }
}
