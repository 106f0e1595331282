//! Access between devices, as far as one device can be asked about it.
//!
//! Source: CUDA Driver API 13.x, "Peer Context Memory Access".

use core::ptr::null_mut;

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    probe::{Probe, step},
    setup::Made,
};

const SUPPORTED: CUdevice_P2PAttribute =
    CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuDeviceCanAccessPeer, "a device isn't its own peer", |c| {
        let device = c.device()?;
        step(move |c| {
            let mut can = 9;
            ask!(c.cuDeviceCanAccessPeer(&raw mut can, device, device));
            if c.observes() {
                c.note("can", can);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDeviceCanAccessPeer, "a missing device is nobody's peer", |c| {
        let device = c.device()?;
        let mut can = 9;
        ask!(c.cuDeviceCanAccessPeer(&raw mut can, device, 99));
        ask!(c.cuDeviceCanAccessPeer(null_mut(), device, device), "nowhere");
        Ok(())
    }),
    Probe::case(Call::cuDeviceGetP2PAttribute, "a pair of devices is two devices", |c| {
        let device = c.device()?;
        attribute(c, SUPPORTED, device)?;
        attribute(c, SUPPORTED, 99)?;
        attribute(c, CUdevice_P2PAttribute(99), device)
    }),
    Probe::case(Call::cuCtxEnablePeerAccess, "a context isn't its own peer", |c| {
        let context = c.current()?;
        ask!(c.cuCtxEnablePeerAccess(context, 0), "itself");
        ask!(c.cuCtxEnablePeerAccess(CUcontext::NULL, 0), "null");
        ask!(c.cuCtxEnablePeerAccess(context, 1), "flags");
        let other = c.context_aside()?;
        ask!(c.cuCtxEnablePeerAccess(other, 0), "same_device");
        Ok(())
    }),
    Probe::case(Call::cuMemFree_v2, "beside a capture a free waits for its context's work", |c| {
        c.current()?;
        let (busy, captured) = (c.at_work()?, c.stream()?);
        let memory = c.memory(1)?;
        c.capture_globally(captured)?;
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        must!(c.cuThreadExchangeStreamCaptureMode(&raw mut mode));
        ask!(c.cuMemFree_v2(memory));
        c.note_waited(busy)?;
        c.note_capturing(captured)?;
        c.end(captured)
    }),
    Probe::case(Call::cuCtxDisablePeerAccess, "what wasn't enabled isn't disabled", |c| {
        let context = c.current()?;
        ask!(c.cuCtxDisablePeerAccess(context), "itself");
        ask!(c.cuCtxDisablePeerAccess(CUcontext::NULL), "null");
        let other = c.context_aside()?;
        ask!(c.cuCtxDisablePeerAccess(other), "same_device");
        Ok(())
    }),
];

fn attribute(c: &mut Ctx, kind: CUdevice_P2PAttribute, peer: CUdevice) -> Made<()> {
    let device = c.device()?;
    let mut value = -9;
    ask!(c.cuDeviceGetP2PAttribute(&raw mut value, kind, device, peer));
    Ok(())
}
