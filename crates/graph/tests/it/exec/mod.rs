//! Executables: how they are made, launched, changed and ended, and what they keep.

#![expect(unsafe_code, reason = "adds and changes kernels")]

use cuhold_driver_sim::{Destructors, SimOptions};
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_graph::{
    CaptureMode, ExecOptions, Graph, GraphBuilder, GraphExec, Node, NodeKind, UpdateReason,
    handles::{ErrorKind, LaunchConfig, Stream, WarningKind, driver_sys::ffi::CUstreamCaptureMode},
};
use cuhold_memory::{Buffer, Pool};
use cuhold_testkit::{ForeignCapture, Kit, PTX, run, run_simulated, run_with};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
};

mod change;
mod kept;
mod launch;
mod memory;
mod whole;

fn graph_of(t: &Kit) -> Graph {
    Graph::new(t.context()).unwrap()
}

/// Counts who has it.
fn token() -> Arc<AtomicU32> {
    Arc::new(AtomicU32::new(0))
}

/// A function that counts its calls in a token, and has it.
fn counting(token: &Arc<AtomicU32>) -> impl Fn() + Send + Sync + 'static {
    let token = Arc::clone(token);
    move || {
        token.fetch_add(1, Ordering::SeqCst);
    }
}

fn calls(token: &Arc<AtomicU32>) -> u32 {
    token.load(Ordering::SeqCst)
}

fn holders(token: &Arc<AtomicU32>) -> usize {
    Arc::strong_count(token) - 1
}

/// An executable of one host node that does nothing yet.
fn of_one_host_node(t: &Kit) -> (Graph, Node, GraphExec, Stream) {
    let mut graph = graph_of(t);
    let node = graph.host(&[], || {}).unwrap();
    let exec = graph.instantiate().unwrap();
    (graph, node, exec, t.device().new_stream().unwrap())
}

/// Keeps a stream from going on until the sender is dropped or sends.
fn gate(stream: &Stream) -> mpsc::Sender<()> {
    let (open, opened) = mpsc::channel::<()>();
    stream
        .host_fn(move || {
            let _: Result<(), mpsc::RecvError> = opened.recv();
        })
        .map_err(|refused| refused.error)
        .unwrap();
    open
}
