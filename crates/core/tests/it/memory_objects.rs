//! What is memory or looks like it, or comes from another process, for the tests that walk the resource table.

#![expect(unsafe_code, reason = "refers to a raw address")]

use crate::resources::Value;
use cuhold_driver_sim::SimOptions;
use cuhold_handles::{
    Access, Attach, BorrowedMemory, Device, DeviceMemory, Driver, Event, EventOptions,
    FileDescriptor, ImportedMemory, ManagedMemory, Mapping, ObjectKind, PhysicalAllocation,
    PhysicalOptions, RegisterOptions, RegisteredMemory, Reservation, ReservationOptions,
};
use cuhold_memory::{ImportedPool, Pool, PoolOptions};
use cuhold_testkit::Kit;

/// The only handle of an object of this kind, and what else was made for it, which outlives it: as
/// [`make`](crate::resources::make), of what is memory or looks like it, or comes from another process.
pub(crate) fn make(t: &Kit, kind: ObjectKind) -> (Value, Value) {
    let (device, context) = (t.device(), t.context());
    let alone = |object: Value| -> (Value, Value) { (object, Box::new(())) };
    let granule =
        || PhysicalAllocation::granularity_bytes(device, PhysicalOptions::default()).unwrap();
    let allocation =
        || PhysicalAllocation::new(device, granule(), PhysicalOptions::default()).unwrap();
    let range = || Reservation::new(device, granule(), ReservationOptions::default()).unwrap();
    let mapping = || {
        let (range, allocation) = (range(), allocation());
        let mapping = Mapping::new(&range, 0, &allocation).unwrap();
        mapping.set_access(device, Access::ReadWrite).unwrap();
        (mapping, (range, allocation))
    };
    match kind {
        ObjectKind::ImportedEvent => {
            let Some(there) = elsewhere(t) else { return alone(Box::new(())) };
            let token = there.new_event(EventOptions::interprocess()).unwrap();
            let token = token.export().unwrap();
            (Box::new(Event::import(t.context(), token.handle()).unwrap()), Box::new(token))
        }
        ObjectKind::ImportedPool => {
            let pool = Pool::new(device, PoolOptions::default().shareable()).unwrap();
            let file = pool.export().unwrap();
            (Box::new(ImportedPool::import(device, file).unwrap()), Box::new(pool))
        }
        ObjectKind::DeviceMemory => alone(Box::new(DeviceMemory::new(context, 8).unwrap())),
        ObjectKind::ManagedMemory => {
            alone(Box::new(ManagedMemory::new(context, 8, Attach::Global).unwrap()))
        }
        ObjectKind::RegisteredMemory => {
            let options = RegisterOptions::default();
            alone(Box::new(RegisteredMemory::new(context, vec![0; 64], options).unwrap()))
        }
        ObjectKind::PhysicalAllocation => alone(Box::new(allocation())),
        ObjectKind::Reservation => alone(Box::new(range())),
        ObjectKind::Mapping => {
            let (mapping, rest) = mapping();
            (Box::new(mapping), Box::new(rest))
        }
        ObjectKind::MappedMemory => {
            let (mapping, rest) = mapping();
            (Box::new(mapping.memory().unwrap()), Box::new((mapping, rest)))
        }
        ObjectKind::ImportedMemory => {
            let Some(there) = elsewhere(t) else { return alone(Box::new(())) };
            let memory = DeviceMemory::new(there.context(), 8).unwrap();
            let handle = memory.export().unwrap();
            (Box::new(ImportedMemory::open(context, handle, 8).unwrap()), Box::new(memory))
        }
        ObjectKind::BorrowedMemory => {
            let memory = DeviceMemory::new(context, 8).unwrap();
            // SAFETY: the memory is what outlives it.
            let borrowed = unsafe { BorrowedMemory::borrow_raw(context, 8, memory.as_raw(), None) };
            (Box::new(borrowed.unwrap()), Box::new(memory))
        }
        ObjectKind::FileDescriptor => {
            let (read, write) = std::io::pipe().unwrap();
            (Box::new(FileDescriptor::new(t.driver(), write.into())), Box::new(read))
        }
        other => panic!("the table has a row for a {other}, and this test makes none"),
    }
}

/// A device of another process, which a real driver's test hasn't.
fn elsewhere(t: &Kit) -> Option<Device> {
    let sim = t.sim()?.other_process(SimOptions::default());
    Some(Device::with_driver(&Driver::from_api(sim), 0).unwrap())
}

/// Whether an object of this kind takes another process.
pub(crate) fn is_of_another_process(kind: ObjectKind) -> bool {
    matches!(kind, ObjectKind::ImportedEvent | ObjectKind::ImportedMemory)
}
