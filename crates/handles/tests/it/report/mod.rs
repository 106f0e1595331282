//! The report channel: each row of the table in the failure policy.

mod filter;
mod guards;
#[cfg(unix)]
mod process;
mod sink;
#[cfg(feature = "tracing")]
mod tracing;

use cuhold_driver_sys::{CUresult, Call, Failure};
use cuhold_handles::{CudaWarning, Fate, Object, ObjectKind, Reports, Sink};
use std::sync::{Arc, Mutex};

/// A stream with this id; all of them have the same raw value.
fn stream(id: u64) -> Object {
    Object { kind: ObjectKind::Stream, raw: 0x100, id }
}

fn failure(status: CUresult) -> Failure {
    Failure { call: Call::cuStreamDestroy_v2, status }
}

/// A destroy of the stream with this id failed.
fn warning(id: u64) -> CudaWarning {
    CudaWarning::failed(failure(CUresult::INVALID_HANDLE), stream(id), Fate::Leaked)
}

/// The same with a fatal code.
fn fatal(id: u64) -> CudaWarning {
    CudaWarning::failed(failure(CUresult::ILLEGAL_ADDRESS), stream(id), Fate::Leaked)
}

/// What a sink heard.
type Heard = Arc<Mutex<Vec<CudaWarning>>>;

/// A sink and what it hears.
fn listener() -> (Sink, Heard) {
    let heard = Heard::default();
    let ear = Arc::clone(&heard);
    (Sink::new(move |warning| ear.lock().unwrap().push(*warning)), heard)
}

/// A channel whose sink listens.
fn channel() -> (Reports, Heard) {
    let reports = Reports::new();
    let (sink, heard) = listener();
    drop(reports.set_sink(sink));
    (reports, heard)
}

/// The ids of the objects that were heard of.
fn ids(heard: &Heard) -> Vec<u64> {
    heard.lock().unwrap().iter().map(|warning| warning.object().id).collect()
}
