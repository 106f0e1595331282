//! Streams.

use cuhold_driver_sim::cuhold_driver_sys::{DriverApi as _, ffi::*};

use crate::ask::{call, get, sim_with_context};

#[test]
fn a_created_stream_is_empty_and_can_be_destroyed() {
    let (sim, _) = sim_with_context();
    let stream: CUstream = get!(sim, cuStreamCreate(out, 1)).unwrap();
    call!(sim, cuStreamQuery(stream)).unwrap();
    call!(sim, cuStreamDestroy_v2(stream)).unwrap();
    assert_eq!(call!(sim, cuStreamDestroy_v2(stream)), Err(CUresult::INVALID_HANDLE));
    assert_eq!(sim.violations().len(), 1);
}
