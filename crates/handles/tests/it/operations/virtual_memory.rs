//! Physical memory, reservations and mappings.

use super::memory::{foreign, per_thread};
use cuhold_handles::{
    Access, Accessor, Mapping, PhysicalAllocation, PhysicalOptions, Reservation,
    ReservationOptions, ShareableHandle,
};
use cuhold_testkit::Run;

const BYTES: usize = 2 << 20;

fn allocation(run: &Run<'_>) -> PhysicalAllocation {
    PhysicalAllocation::new(run.device(), BYTES, PhysicalOptions::shareable()).unwrap()
}

/// Memory that can be exported on a fabric, where there is one.
fn on_fabric(run: &Run<'_>) -> Option<PhysicalAllocation> {
    let options = PhysicalOptions::default().handle(ShareableHandle::Fabric);
    run.sim().map(|_| PhysicalAllocation::new(run.device(), BYTES, options).unwrap())
}

fn reservation(run: &Run<'_>) -> Reservation {
    Reservation::new(run.device(), 2 * BYTES, ReservationOptions::default()).unwrap()
}

fn mapping(run: &Run<'_>) -> Mapping {
    Mapping::new(&reservation(run), 0, &allocation(run)).unwrap()
}

/// A mapping whose end is that of nothing else.
fn mapping_alone(run: &Run<'_>) -> (Mapping, (Reservation, PhysicalAllocation)) {
    let (range, memory) = (reservation(run), allocation(run));
    (Mapping::new(&range, 0, &memory).unwrap(), (range, memory))
}

cuhold_testkit::enrol! {
    PhysicalAllocation::granularity_bytes |run| {
        run.repeat(|| {
            PhysicalAllocation::granularity_bytes(run.device(), PhysicalOptions::default())
        });
    }

    PhysicalAllocation::recommended_granularity_bytes |run| {
        run.repeat(|| {
            PhysicalAllocation::recommended_granularity_bytes(
                run.device(),
                PhysicalOptions::default(),
            )
        });
    }

    PhysicalAllocation::new |run| {
        run.create(|| PhysicalAllocation::new(run.device(), BYTES, PhysicalOptions::default()));
    }

    PhysicalAllocation::mapped_at |run| {
        let mapping = mapping(run);
        run.create(|| PhysicalAllocation::mapped_at(run.device(), mapping.as_raw(), BYTES));
    }

    PhysicalAllocation::export |run| {
        let memory = allocation(run);
        run.create(|| memory.export());
    }

    PhysicalAllocation::import |run| {
        let memory = allocation(run);
        let file = memory.export().unwrap();
        run.create(|| PhysicalAllocation::import(run.device(), &file, BYTES));
    }

    PhysicalAllocation::export_fabric |run| {
        // A machine without the fabric's service makes no such memory.
        let Some(memory) = on_fabric(run) else { return };
        run.create(|| memory.export_fabric());
    }

    PhysicalAllocation::import_fabric |run| {
        let Some(memory) = on_fabric(run) else { return };
        let handle = memory.export_fabric().unwrap();
        run.create(|| PhysicalAllocation::import_fabric(run.device(), handle, BYTES));
    }

    PhysicalAllocation::close |run| {
        let memory = allocation(run);
        drop(run.keep_or(run.op(|| memory.close())));
    }

    PhysicalAllocation::drop |run| {
        let memory = allocation(run);
        run.op(|| drop(memory));
    }

    Reservation::new |run| {
        run.create(|| Reservation::new(run.device(), BYTES, ReservationOptions::default()));
    }

    Reservation::close |run| {
        let range = reservation(run);
        drop(run.keep_or(run.op(|| range.close())));
    }

    Reservation::drop |run| {
        let range = reservation(run);
        run.op(|| drop(range));
    }

    Mapping::new |run| {
        let (range, memory) = (reservation(run), allocation(run));
        // What is made first is still there when it is made again.
        let place = std::cell::Cell::new(0);
        run.create(|| Mapping::new(&range, place.replace(BYTES), &memory));
    }

    Mapping::set_access |run| {
        let mapping = mapping(run);
        run.repeat(|| mapping.set_access(run.device(), Access::ReadWrite));
    }

    Mapping::set_access_list |run| {
        let mapping = mapping(run);
        let list = [(Accessor::Device(run.device().clone()), Access::ReadWrite)];
        run.repeat(|| mapping.set_access_list(&list));
    }

    Mapping::wait |run| {
        let (mapping, stream) = (mapping(run), foreign(run));
        mapping.used_on(&stream).unwrap();
        run.repeat(|| mapping.wait());
    }

    Mapping::access |run| {
        let mapping = mapping(run);
        run.repeat(|| mapping.access(run.device()));
    }

    Mapping::used_on |run| {
        let (mapping, stream) = (mapping(run), per_thread(run));
        run.repeat(|| mapping.used_on(&stream));
    }

    MappedMemory::used_on |run| {
        let (mapping, stream) = (mapping(run), per_thread(run));
        mapping.set_access(run.device(), Access::ReadWrite).unwrap();
        let memory = mapping.memory().unwrap();
        run.repeat(|| memory.used_on(&stream));
    }

    Mapping::close |run| {
        let (mapping, _rest) = mapping_alone(run);
        let stream = foreign(run);
        mapping.used_on(&stream).unwrap();
        drop(run.keep_or(run.op(|| mapping.close())));
    }

    Mapping::drop |run| {
        let (mapping, _rest) = mapping_alone(run);
        let stream = foreign(run);
        mapping.used_on(&stream).unwrap();
        run.op(|| drop(mapping));
    }
}
