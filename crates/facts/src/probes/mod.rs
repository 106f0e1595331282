//! The probes, a file for each chapter of the driver's manual.

#![expect(unsafe_code, reason = "probes are driver calls; `ask.rs` says what they promise")]

use crate::probe::Probe;

mod array;
mod array_copy;
mod capture;
mod capture_hold;
mod context;
mod copy;
mod device;
mod driver;
mod event;
mod external;
mod fill;
mod graph;
mod graph_any;
mod graph_case;
mod graph_edge;
mod graph_exec;
mod graph_inside;
mod graph_kit;
mod graph_node;
mod graph_update;
mod green;
mod green_stream;
mod host_memory;
mod ipc;
mod launch;
mod library;
mod link;
mod managed;
mod managed_batch;
mod managed_case;
mod mapping;
mod mapping_side;
mod memory;
mod mipmap;
mod module;
mod occupancy;
mod peer;
mod pool;
mod pool_case;
mod pool_default;
mod pool_end;
mod pool_place;
mod pool_process;
mod pool_share;
mod primary;
mod stack;
mod sticky;
mod stream;
mod stream_work;
mod surface;
mod texture;
mod user_object;
mod virtual_memory;

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
    capture_hold::PROBES,
    event::PROBES,
    memory::PROBES,
    host_memory::PROBES,
    managed::PROBES,
    managed_batch::PROBES,
    managed_case::PROBES,
    pool::PROBES,
    pool_case::PROBES,
    pool_default::PROBES,
    pool_end::PROBES,
    pool_place::PROBES,
    pool_process::PROBES,
    pool_share::PROBES,
    virtual_memory::PROBES,
    mapping::PROBES,
    mapping_side::PROBES,
    ipc::PROBES,
    copy::PROBES,
    fill::PROBES,
    array::PROBES,
    mipmap::PROBES,
    array_copy::PROBES,
    texture::PROBES,
    surface::PROBES,
    external::PROBES,
    module::PROBES,
    library::PROBES,
    launch::PROBES,
    occupancy::PROBES,
    peer::PROBES,
    user_object::PROBES,
    graph::PROBES,
    graph_exec::PROBES,
    graph_node::PROBES,
    graph_any::PROBES,
    graph_case::PROBES,
    graph_edge::PROBES,
    graph_inside::PROBES,
    graph_update::PROBES,
    green::PROBES,
    green_stream::PROBES,
    link::PROBES,
    sticky::PROBES,
];
