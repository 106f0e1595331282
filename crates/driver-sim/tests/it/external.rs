//! What tests plant in place of other APIs.

use cuhold_driver_sim::{
    ObjectKind, Sim, ViolationKind,
    cuhold_driver_sys::{Call, DriverApi as _, ffi::*},
};

use crate::ask::{
    Asked, NON_BLOCKING, Runs, assert_clean, call, context, get, kinds, sim_with_context, stream,
};

#[test]
fn nothing_is_imported() {
    let (sim, _) = sim_with_context();
    let desc = CUDA_EXTERNAL_MEMORY_HANDLE_DESC::default();
    let memory = get!(sim, cuImportExternalMemory(out, &raw const desc));
    assert_eq!(memory, Err::<CUexternalMemory, _>(CUresult::MISSING));
    let desc = CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC::default();
    let semaphore = get!(sim, cuImportExternalSemaphore(out, &raw const desc));
    assert_eq!(semaphore, Err::<CUexternalSemaphore, _>(CUresult::MISSING));
    let resource = get!(sim, cuGraphicsGLRegisterBuffer(out, 1, 0));
    assert_eq!(resource, Err::<CUgraphicsResource, _>(CUresult::MISSING));
}

#[test]
fn planted_memory_is_mapped_and_its_mapping_outlives_it() {
    let (sim, own) = sim_with_context();
    let memory = sim.plant_external_memory(own, 4096);
    let desc = |offset, size| CUDA_EXTERNAL_MEMORY_BUFFER_DESC {
        offset,
        size,
        ..CUDA_EXTERNAL_MEMORY_BUFFER_DESC::default()
    };
    let (part, beyond) = (desc(1024, 3072), desc(1024, 3073));
    let mapped = get!(sim, cuExternalMemoryGetMappedBuffer(out, memory, &raw const part)).unwrap();
    let refused = get!(sim, cuExternalMemoryGetMappedBuffer(out, memory, &raw const beyond));
    assert_eq!(refused, Err::<CUdeviceptr, _>(CUresult::INVALID_VALUE));
    assert_eq!(sim.live(ObjectKind::ExternalMemory), 1);
    call!(sim, cuDestroyExternalMemory(memory)).unwrap();
    call!(sim, cuMemsetD8_v2(mapped, 1, 3072)).unwrap();
    call!(sim, cuMemFree_v2(mapped)).unwrap();
    assert_clean(&sim);
    assert_eq!(sim.live(ObjectKind::ExternalMemory), 0);
    assert_eq!(call!(sim, cuDestroyExternalMemory(memory)), Err(CUresult::INVALID_HANDLE));
    assert_eq!(kinds(&sim.violations()), [ViolationKind::DoubleDestroy]);
}

#[test]
fn memory_is_ended_anywhere_and_the_rest_in_its_own_context() {
    let (sim, own) = sim_with_context();
    let (memory, semaphore) =
        (sim.plant_external_memory(own, 64), sim.plant_external_semaphore(own));
    let resource = sim.plant_graphics_buffer(own, 64);
    context(&sim);
    call!(sim, cuDestroyExternalMemory(memory)).unwrap();
    assert_clean(&sim);
    call!(sim, cuDestroyExternalSemaphore(semaphore)).unwrap();
    call!(sim, cuGraphicsUnregisterResource(resource)).unwrap();
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::WrongContext; 2]);
    assert!(sim.plant_external_memory(CUcontext::NULL, 64).is_null());
}

#[test]
fn a_planted_semaphore_is_waited_for() {
    let (sim, own) = sim_with_context();
    let semaphore = sim.plant_external_semaphore(own);
    let (waits, signals, runs) =
        (stream(&sim, NON_BLOCKING), stream(&sim, NON_BLOCKING), Runs::default());
    let mut wait = CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS::default();
    wait.params.fence.value = 2;
    let mut signal = CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS::default();
    signal.params.fence.value = 1;
    let (one, stays) = (&raw const semaphore, &raw const wait);
    call!(sim, cuWaitExternalSemaphoresAsync(one, stays, 1, waits)).unwrap();
    runs.queue(&sim, waits).unwrap();
    call!(sim, cuSignalExternalSemaphoresAsync(one, &raw const signal, 1, signals)).unwrap();
    sim.run_all();
    assert_eq!(runs.count(), 0);
    sim.signal_external_semaphore(semaphore, 2);
    sim.run_all();
    assert_eq!(runs.count(), 1);
    call!(sim, cuDestroyExternalSemaphore(semaphore)).unwrap();
    assert_clean(&sim);
}

#[test]
fn a_planted_buffer_has_an_address_while_it_is_mapped() {
    let (sim, own) = sim_with_context();
    let (mut resource, stream) = (sim.plant_graphics_buffer(own, 64), stream(&sim, NON_BLOCKING));
    let pointer = |size: &mut usize| {
        get!(sim, cuGraphicsResourceGetMappedPointer_v2(out, &raw mut *size, resource))
    };
    let mut size = 0;
    assert_eq!(pointer(&mut size), Err::<CUdeviceptr, _>(CUresult::NOT_MAPPED));
    call!(sim, cuGraphicsMapResources(1, &raw mut resource, stream)).unwrap();
    let again = call!(sim, cuGraphicsMapResources(1, &raw mut resource, stream));
    assert_eq!(again, Err(CUresult::ALREADY_MAPPED));
    let pointer = get!(sim, cuGraphicsResourceGetMappedPointer_v2(out, &raw mut size, resource));
    assert_eq!((pointer.is_ok_and(|pointer: CUdeviceptr| pointer != 0), size), (true, 64));
    let array = get!(sim, cuGraphicsSubResourceGetMappedArray(out, resource, 0, 0));
    assert_eq!(array, Err::<CUarray, _>(CUresult::NOT_MAPPED_AS_ARRAY));
    call!(sim, cuGraphicsUnmapResources(1, &raw mut resource, stream)).unwrap();
    let again = call!(sim, cuGraphicsUnmapResources(1, &raw mut resource, stream));
    assert_eq!(again, Err(CUresult::NOT_MAPPED));
    call!(sim, cuGraphicsUnregisterResource(resource)).unwrap();
    assert_clean(&sim);
}

/// Makes the unsafe calls about other APIs, each with arguments that are fine otherwise.
pub(crate) fn make_unsafe_call(sim: &Sim, unsafe_one: Call) -> Option<Asked<()>> {
    let own = sim.current();
    let memory = sim.plant_external_memory(own, 4096);
    Some(match unsafe_one {
        Call::cuDestroyExternalMemory => call!(sim, cuDestroyExternalMemory(memory)),
        Call::cuDestroyExternalSemaphore => {
            call!(sim, cuDestroyExternalSemaphore(sim.plant_external_semaphore(own)))
        }
        Call::cuGraphicsUnregisterResource => {
            call!(sim, cuGraphicsUnregisterResource(sim.plant_graphics_buffer(own, 64)))
        }
        _ => return None,
    })
}
