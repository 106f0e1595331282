//! Copies between the host and the device: of borrowed slices, of slices overlapped in both directions, of memory that the
//! copy owns.
//!
//! Raw and cudarc copy borrowed slices by the driver's own pageable copy, here they are staged. A copy of page-locked memory
//! of as many bytes is what the way between the two allows.

use crate::Bed;
use criterion::Criterion;
use cudarc::driver::{CudaSlice, CudaStream};
use cuhold::{Buffer, HostBuffer, driver_sys::ffi::*};
use cuhold_benches::{Subject, compare};
use std::{cell::Cell, sync::Arc};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// How much is copied: its name, bytes, and how often in a row.
const SIZES: &[(&str, usize, u64)] = &[
    ("64 KiB", 64 * KIB, 200),
    ("1 MiB", MIB, 50),
    ("64 MiB", 64 * MIB, 4),
    ("512 MiB", 512 * MIB, 1),
];
/// What the simulated driver's copies are measured up to: they are copies of the host's.
const SIMULATED_BYTES_MAX: usize = 64 * MIB;

pub(crate) fn benches(criterion: &mut Criterion, bed: &Bed) {
    for &(name, bytes, in_a_row) in SIZES {
        if bed.peer.is_some() || bytes <= SIMULATED_BYTES_MAX {
            slices(criterion, bed, (name, bytes, in_a_row));
            owned(criterion, bed, (name, bytes, in_a_row));
        }
    }
}

/// The device's side of each subject, and a stream for it.
struct Devices {
    raw_stream: CUstream,
    raw: Buffer<u8>,
    own: Buffer<u8>,
    peer: Option<(Arc<CudaStream>, CudaSlice<u8>)>,
}

impl Devices {
    fn new(bed: &Bed, bytes: usize) -> Self {
        let stream = bed.device.new_stream().unwrap();
        let (raw, own) = (
            Buffer::<u8>::zeroed(&stream, bytes).unwrap(),
            Buffer::<u8>::zeroed(&stream, bytes).unwrap(),
        );
        stream.synchronize().unwrap();
        let peer = bed.peer.as_ref().map(|peer| {
            let stream = peer.context.new_stream().unwrap();
            let slice = stream.alloc_zeros::<u8>(bytes).unwrap();
            stream.synchronize().unwrap();
            (stream, slice)
        });
        Self { raw_stream: bed.raw.new_stream(), raw, own, peer }
    }
}

/// A borrowed slice to the device and back. Each subject has host memory of its own, all of it touched before.
fn slices(criterion: &mut Criterion, bed: &Bed, (name, bytes, in_a_row): (&str, usize, u64)) {
    let Devices { raw_stream, raw, mut own, mut peer } = Devices::new(bed, bytes);
    let pointer = raw.device_ptr();
    let (mut raw_host, mut own_host, mut peer_host) =
        (vec![1_u8; bytes], vec![2_u8; bytes], vec![3_u8; bytes]);
    let raw_slice: *mut c_void = raw_host.as_mut_ptr().cast();
    let locked = bed.raw.new_host(bytes);
    let mut subjects = vec![
        Subject::new("raw", || {
            bed.raw.cuMemcpyHtoDAsync_v2(pointer, raw_slice.cast_const(), bytes, raw_stream);
            bed.raw.cuStreamSynchronize(raw_stream);
        }),
        Subject::new("page-locked", || {
            bed.raw.cuMemcpyHtoDAsync_v2(pointer, locked.cast_const(), bytes, raw_stream);
            bed.raw.cuStreamSynchronize(raw_stream);
        }),
        Subject::new("cuhold", || own.write_slice(&own_host).unwrap()),
    ];
    if let Some((stream, slice)) = &mut peer {
        let host = &peer_host;
        subjects.push(Subject::new("cudarc", move || {
            stream.memcpy_htod(host, slice).unwrap();
            stream.synchronize().unwrap();
        }));
    }
    compare(criterion, &format!("write a slice of {name}"), in_a_row, subjects);

    let mut subjects = vec![
        Subject::new("raw", || {
            bed.raw.cuMemcpyDtoHAsync_v2(raw_slice, pointer, bytes, raw_stream);
            bed.raw.cuStreamSynchronize(raw_stream);
        }),
        Subject::new("page-locked", || {
            bed.raw.cuMemcpyDtoHAsync_v2(locked, pointer, bytes, raw_stream);
            bed.raw.cuStreamSynchronize(raw_stream);
        }),
        Subject::new("cuhold", || own.read_into(&mut own_host).unwrap()),
    ];
    if let Some((stream, slice)) = &peer {
        let host = &mut peer_host;
        subjects.push(Subject::new("cudarc", move || {
            stream.memcpy_dtoh(slice, host).unwrap();
            stream.synchronize().unwrap();
        }));
    }
    compare(criterion, &format!("read into a slice of {name}"), in_a_row, subjects);
    bed.raw.cuMemFreeHost(locked);
    bed.raw.cuStreamDestroy_v2(raw_stream);
}

/// Page-locked memory that the copy owns, there and back, each waited for.
fn owned(criterion: &mut Criterion, bed: &Bed, (name, bytes, in_a_row): (&str, usize, u64)) {
    let Devices { raw_stream, raw, mut own, mut peer } = Devices::new(bed, bytes);
    let pointer = raw.device_ptr();
    let locked = bed.raw.new_host(bytes);
    // In and out of the copy each time.
    let host = Cell::new(HostBuffer::<u8>::zeroed(bed.device.context(), bytes).ok());
    // SAFETY: it is written by copies alone, and never read here.
    let peer_host =
        bed.peer.as_ref().map(|peer| unsafe { peer.context.alloc_pinned(bytes) }.unwrap());
    let mut peer_host = peer_host;
    let mut subjects = vec![
        Subject::new("raw", || {
            bed.raw.cuMemcpyHtoDAsync_v2(pointer, locked.cast_const(), bytes, raw_stream);
            bed.raw.cuStreamSynchronize(raw_stream);
        }),
        Subject::new("cuhold", || {
            let pending = own.write_from(host.take().unwrap()).unwrap();
            host.set(Some(pending.wait().unwrap()));
        }),
    ];
    if let (Some((stream, slice)), Some(host)) = (&mut peer, &peer_host) {
        subjects.push(Subject::new("cudarc", move || {
            stream.memcpy_htod(host, slice).unwrap();
            stream.synchronize().unwrap();
        }));
    }
    compare(criterion, &format!("write from owned memory of {name}"), in_a_row, subjects);

    let mut subjects = vec![
        Subject::new("raw", || {
            bed.raw.cuMemcpyDtoHAsync_v2(locked, pointer, bytes, raw_stream);
            bed.raw.cuStreamSynchronize(raw_stream);
        }),
        Subject::new("cuhold", || {
            let pending = own.read_to(host.take().unwrap()).unwrap();
            host.set(Some(pending.wait().unwrap()));
        }),
    ];
    if let (Some((stream, slice)), Some(host)) = (&peer, &mut peer_host) {
        subjects.push(Subject::new("cudarc", move || {
            stream.memcpy_dtoh(slice, host).unwrap();
            stream.synchronize().unwrap();
        }));
    }
    compare(criterion, &format!("read to owned memory of {name}"), in_a_row, subjects);
    bed.raw.cuMemFreeHost(locked);
    bed.raw.cuStreamDestroy_v2(raw_stream);
}
