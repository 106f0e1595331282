//! One copy with the attributes that a batch's copies have.
//!
//! Here every source is read in the stream's order, or before where it is pageable memory, which every order allows.
//!
//! Source: CUDA Driver API 13.x, "Memory Management".

use cuhold_driver_sys::ffi::*;

use super::{
    copy::Expect,
    transfer::{Form, Request, transfer},
};
use crate::world::{Answer, Out, Turn};

/// As a batch of one: on a stream of its own, and with an order in which the source is read.
pub(crate) fn copy_with_attributes(
    turn: &mut Turn<'_>,
    destination: CUdeviceptr,
    source: CUdeviceptr,
    count: usize,
    attributes: Out<CUmemcpyAttributes>,
    stream: CUstream,
) -> Answer {
    let attributes = attributes.as_in().read().ok_or(CUresult::INVALID_VALUE)?;
    let known = CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_STREAM.0
        ..=CUmemcpySrcAccessOrder::CU_MEMCPY_SRC_ACCESS_ORDER_ANY.0;
    if !known.contains(&attributes.srcAccessOrder.0) || stream.addr() <= CU_STREAM_LEGACY.addr() {
        return Err(CUresult::INVALID_VALUE);
    }
    let request = Request::linear((destination, Expect::Any), (source, Expect::Any), count);
    transfer(turn, stream, request, Form::Async)
}
