//! The probes, a file for each chapter of the driver's manual.

#![expect(unsafe_code, reason = "probes are driver calls; `ask.rs` says what they promise")]

use crate::probe::Probe;

mod capture;
mod context;
mod copy;
mod device;
mod driver;
mod event;
mod fill;
mod graph;
mod host_memory;
mod launch;
mod library;
mod managed;
mod memory;
mod module;
mod occupancy;
mod peer;
mod pool;
mod pool_case;
mod primary;
mod stack;
mod sticky;
mod stream;
mod stream_work;
mod user_object;

/// All of them.
pub(crate) const ALL: &[&[Probe]] = &[
    driver::PROBES,
    device::PROBES,
    primary::PROBES,
    stack::PROBES,
    context::PROBES,
    stream::PROBES,
    stream_work::PROBES,
    capture::PROBES,
    event::PROBES,
    memory::PROBES,
    host_memory::PROBES,
    managed::PROBES,
    pool::PROBES,
    pool_case::PROBES,
    copy::PROBES,
    fill::PROBES,
    module::PROBES,
    library::PROBES,
    launch::PROBES,
    occupancy::PROBES,
    peer::PROBES,
    user_object::PROBES,
    graph::PROBES,
    sticky::PROBES,
];
