//! What managed memory is advised, where it is sent, and what it tells of both.
//!
//! Source: CUDA Driver API 13.x, "Unified Addressing".

use cuhold_driver_sys::{
    Call,
    ffi::{CUmem_advise as Advice, CUmemLocationType as Type, *},
};

use crate::{
    ctx::Ctx,
    host::HostMemory,
    probe::Probe,
    setup::{Made, location},
};

/// Enough for a page of any kind.
const BYTES: usize = 1 << 21;

/// The kinds of advice, by name.
const KINDS: [(&str, Advice); 6] = [
    ("read_mostly", Advice::CU_MEM_ADVISE_SET_READ_MOSTLY),
    ("no_read_mostly", Advice::CU_MEM_ADVISE_UNSET_READ_MOSTLY),
    ("prefer", Advice::CU_MEM_ADVISE_SET_PREFERRED_LOCATION),
    ("no_prefer", Advice::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION),
    ("access", Advice::CU_MEM_ADVISE_SET_ACCESSED_BY),
    ("no_access", Advice::CU_MEM_ADVISE_UNSET_ACCESSED_BY),
];

/// Places and what isn't one, by name.
fn places() -> [(&'static str, CUmemLocation); 8] {
    [
        ("device", location(0)),
        ("missing", location(99)),
        ("host", of(Type::CU_MEM_LOCATION_TYPE_HOST, 0)),
        ("numa", of(Type::CU_MEM_LOCATION_TYPE_HOST_NUMA, 0)),
        ("numa_9", of(Type::CU_MEM_LOCATION_TYPE_HOST_NUMA, 9)),
        ("numa_current", of(Type::CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0)),
        ("invalid", of(Type::CU_MEM_LOCATION_TYPE_INVALID, 0)),
        ("unknown", of(Type(77), 0)),
    ]
}

pub(super) const PROBES: &[Probe] = &[
    Probe::case(Call::cuMemAdvise_v2, "advice names a place that there is", |c| {
        c.current()?;
        let memory = c.managed(BYTES)?;
        for (kind, advice) in KINDS {
            for (place, spot) in places() {
                ask!(c.cuMemAdvise_v2(memory, BYTES, advice, spot), &format!("{kind}_{place}"));
            }
        }
        Ok(())
    }),
    Probe::case(Call::cuMemAdvise_v2, "advice is for a part of managed memory", |c| {
        c.current()?;
        let (memory, advice) = (c.managed(BYTES)?, Advice::CU_MEM_ADVISE_SET_READ_MOSTLY);
        ask!(c.cuMemAdvise_v2(memory + 4096, 4096, advice, location(0)), "part");
        ask!(c.cuMemAdvise_v2(memory + 5, 7, advice, location(0)), "unaligned");
        ask!(c.cuMemAdvise_v2(memory, 0, advice, location(0)), "nothing");
        ask!(c.cuMemAdvise_v2(0, 4096, advice, location(0)), "null");
        let pageable = HostMemory::filled(1024, 0);
        let address = pageable.ptr().expose_provenance() as CUdeviceptr;
        ask!(c.cuMemAdvise_v2(address, 4096, advice, location(0)), "pageable");
        told(c, "all", memory, BYTES)?;
        told(c, "part", memory + 4096, 4096)
    }),
    Probe::case(
        Call::cuMemPrefetchAsync_v2,
        "managed memory is sent to a place that there is",
        |c| {
            c.current()?;
            let (stream, memory) = (c.stream()?, c.managed(BYTES)?);
            for (place, spot) in places() {
                ask!(c.cuMemPrefetchAsync_v2(memory, BYTES, spot, 0, stream), place);
                ask!(c.cuStreamSynchronize(stream), "synchronize");
                told(c, "sent", memory, BYTES)?;
            }
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemPrefetchAsync_v2,
        "a part of managed memory is sent on any stream",
        |c| {
            c.current()?;
            let (stream, memory) = (c.stream()?, c.managed(BYTES)?);
            let here = location(0);
            ask!(c.cuMemPrefetchAsync_v2(memory + 4096, 4096, here, 0, stream), "part");
            ask!(c.cuMemPrefetchAsync_v2(memory + 5, 7, here, 0, stream), "unaligned");
            ask!(c.cuMemPrefetchAsync_v2(memory, BYTES, here, 0, CUstream::NULL), "null");
            ask!(c.cuMemPrefetchAsync_v2(memory, BYTES, here, 0, CU_STREAM_LEGACY), "legacy");
            ask!(
                c.cuMemPrefetchAsync_v2(memory, BYTES, here, 0, CU_STREAM_PER_THREAD),
                "per_thread"
            );
            ask!(c.cuMemPrefetchAsync_v2(memory, BYTES + 1, here, 0, stream), "too_long");
            ask!(c.cuCtxSynchronize(), "synchronize");
            Ok(())
        },
    ),
    Probe::case(
        Call::cuMemRangeGetAttribute,
        "a range tells each thing that it was advised",
        |c| {
            c.current()?;
            let (stream, memory) = (c.stream()?, c.managed(BYTES)?);
            told(c, "new", memory, BYTES)?;
            let host = of(Type::CU_MEM_LOCATION_TYPE_HOST, 0);
            let numa = of(Type::CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
            for (label, spot) in [("device", location(0)), ("host", host), ("numa", numa)] {
                for advice in [
                    Advice::CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
                    Advice::CU_MEM_ADVISE_SET_ACCESSED_BY,
                ] {
                    ask!(c.cuMemAdvise_v2(memory, BYTES, advice, spot), label);
                }
                ask!(c.cuMemPrefetchAsync_v2(memory, BYTES, spot, 0, stream), "send");
                ask!(c.cuStreamSynchronize(stream), "synchronize");
                told(c, label, memory, BYTES)?;
            }
            Ok(())
        },
    ),
    Probe::case(Call::cuMemRangeGetAttribute, "other memory has no range", |c| {
        c.current()?;
        let memory = c.memory(BYTES)?;
        told(c, "owned", memory, BYTES)?;
        let managed = c.managed(BYTES)?;
        told(c, "too_long", managed, BYTES + 1)?;
        told(c, "nothing", managed, 0)
    }),
];

fn of(type_: Type, id: c_int) -> CUmemLocation {
    CUmemLocation { type_, ..location(id) }
}

/// Everything that a range tells.
fn told(c: &mut Ctx, label: &str, memory: CUdeviceptr, bytes: usize) -> Made<()> {
    for attribute in 1..=8 {
        let mut value = [99_i32; 3];
        let to = (&raw mut value).cast();
        // Who accesses it is told as a list.
        let room = if attribute == 3 { 12 } else { 4 };
        let kind = CUmem_range_attribute(attribute);
        ask!(c.cuMemRangeGetAttribute(to, room, kind, memory, bytes), label);
        if attribute == 3 {
            c.note("values", format_args!("{}/{}/{}", value[0], value[1], value[2]));
        } else {
            c.note("value", value[0]);
        }
    }
    Ok(())
}
