//! Two processes of one machine: what one exports and the other opens.

use cuhold_driver_sim::{
    ObjectKind, Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{Call, DriverApi as _, ffi::*},
};

use crate::{
    ask::{Asked, assert_clean, call, get, kinds, primary, sim_with_context, stream},
    virtual_memory::location,
};

const LAZY: c_uint = 1;
const SHARED: c_uint = 2 | 4;
const FILE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// Two processes, each with its primary context current.
fn two() -> (Sim, Sim) {
    let (here, _) = sim_with_context();
    let there = here.other_process(SimOptions::default());
    call!(there, cuInit(0)).unwrap();
    call!(there, cuCtxSetCurrent(primary(&there, 0))).unwrap();
    (here, there)
}

fn fill(sim: &Sim, start: CUdeviceptr, value: c_uint) {
    let s = stream(sim, 1);
    call!(sim, cuMemsetD32Async(start, value, 1, s)).unwrap();
    call!(sim, cuStreamSynchronize(s)).unwrap();
}

fn first(sim: &Sim, start: CUdeviceptr) -> u32 {
    let mut word = 0_u32;
    call!(sim, cuMemcpyDtoH_v2((&raw mut word).cast(), start, 4)).unwrap();
    word
}

fn memory(sim: &Sim) -> CUdeviceptr {
    get!(sim, cuMemAlloc_v2(out, 64)).unwrap()
}

#[test]
fn a_handle_of_one_process_means_nothing_to_another_and_their_addresses_differ() {
    let (here, there) = two();
    let (mine, theirs) = (stream(&here, 1), stream(&there, 1));
    assert_ne!(mine, theirs);
    assert_eq!(call!(there, cuStreamQuery(mine)), Err(CUresult::INVALID_HANDLE));
    assert_eq!(kinds(&there.take_violations()), [ViolationKind::UnknownHandle]);
    let (one, other) = (memory(&here), memory(&there));
    assert_ne!(one, other);
    assert_eq!(call!(there, cuMemFree_v2(one)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&there.take_violations()), [ViolationKind::UnknownHandle]);
    assert_clean(&here);
}

#[test]
fn opened_memory_is_the_exporter_s_and_is_closed_as_often_as_it_was_opened() {
    let (here, there) = two();
    let mine = memory(&here);
    fill(&here, mine, 7);
    let handle: CUipcMemHandle = get!(here, cuIpcGetMemHandle(out, mine)).unwrap();
    let opened: u64 = get!(there, cuIpcOpenMemHandle_v2(out, handle, LAZY)).unwrap();
    let again: u64 = get!(there, cuIpcOpenMemHandle_v2(out, handle, LAZY)).unwrap();
    assert_eq!(opened, again);
    assert_eq!(first(&there, opened), 7);
    fill(&there, opened, 8);
    assert_eq!(first(&here, mine), 8);
    assert_eq!(there.live(ObjectKind::ImportedMemory), 1);
    call!(there, cuIpcCloseMemHandle(opened)).unwrap();
    assert_eq!(first(&there, opened), 8, "it is open once more");
    call!(there, cuIpcCloseMemHandle(opened)).unwrap();
    assert_eq!(there.live(ObjectKind::ImportedMemory), 0);
    assert_eq!(call!(there, cuIpcCloseMemHandle(opened)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&there.violations()), [ViolationKind::DoubleDestroy]);
    call!(here, cuMemFree_v2(mine)).unwrap();
    assert_clean(&here);
}

#[test]
fn freeing_what_another_process_has_open_is_a_violation() {
    let (here, there) = two();
    let mine = memory(&here);
    let handle: CUipcMemHandle = get!(here, cuIpcGetMemHandle(out, mine)).unwrap();
    let opened: u64 = get!(there, cuIpcOpenMemHandle_v2(out, handle, LAZY)).unwrap();
    call!(here, cuMemFree_v2(mine)).unwrap();
    assert_eq!(kinds(&here.violations()), [ViolationKind::EarlyFree]);
    let late = get!(there, cuIpcOpenMemHandle_v2(out, handle, LAZY)).map(|_: u64| ());
    assert_eq!(late, Err(CUresult::INVALID_VALUE));
    call!(there, cuIpcCloseMemHandle(opened)).unwrap();
}

#[test]
fn memory_that_ended_with_the_opening_context_is_no_longer_open() {
    let (here, there) = two();
    let mine = memory(&here);
    let handle: CUipcMemHandle = get!(here, cuIpcGetMemHandle(out, mine)).unwrap();
    let ctx = crate::ask::context(&there);
    let _opened: u64 = get!(there, cuIpcOpenMemHandle_v2(out, handle, LAZY)).unwrap();
    call!(there, cuCtxDestroy_v2(ctx)).unwrap();
    call!(here, cuMemFree_v2(mine)).unwrap();
    assert_clean(&here);
}

#[test]
fn the_exporting_process_opens_neither_its_memory_nor_its_event() {
    let (here, _) = two();
    let handle: CUipcMemHandle = get!(here, cuIpcGetMemHandle(out, memory(&here))).unwrap();
    let refused = Err(CUresult::INVALID_CONTEXT);
    let opened = get!(here, cuIpcOpenMemHandle_v2(out, handle, LAZY)).map(|_: u64| ());
    assert_eq!(opened, refused);
    let event: CUevent = get!(here, cuEventCreate(out, SHARED)).unwrap();
    let handle: CUipcEventHandle = get!(here, cuIpcGetEventHandle(out, event)).unwrap();
    let opened = get!(here, cuIpcOpenEventHandle(out, handle)).map(|_: CUevent| ());
    assert_eq!(opened, refused);
}

/// An event of one process, opened by another.
fn shared_event(here: &Sim, there: &Sim) -> (CUevent, CUevent) {
    let event: CUevent = get!(here, cuEventCreate(out, SHARED)).unwrap();
    let handle: CUipcEventHandle = get!(here, cuIpcGetEventHandle(out, event)).unwrap();
    (event, get!(there, cuIpcOpenEventHandle(out, handle)).unwrap())
}

#[test]
fn an_opened_event_shows_the_exporter_s_work_and_waiting_for_it_lets_that_work_run() {
    let (here, there) = two();
    let (event, opened) = shared_event(&here, &there);
    call!(there, cuEventQuery(opened)).unwrap();
    let (s, t) = (stream(&here, 1), stream(&there, 1));
    let (runs, later) = (crate::ask::Runs::default(), crate::ask::Runs::default());
    runs.queue(&here, s).unwrap();
    call!(here, cuEventRecord(event, s)).unwrap();
    later.queue(&here, s).unwrap();
    assert_eq!(call!(there, cuEventQuery(opened)), Err(CUresult::NOT_READY));
    call!(there, cuStreamWaitEvent(t, opened, 0)).unwrap();
    assert_eq!(runs.count(), 0, "nobody waits yet");
    call!(there, cuEventSynchronize(opened)).unwrap();
    call!(there, cuEventQuery(opened)).unwrap();
    call!(there, cuStreamSynchronize(t)).unwrap();
    assert_eq!([runs.count(), later.count()], [1, 0], "only what the record is behind");
    call!(there, cuEventSynchronize(opened)).unwrap();
    assert_clean(&here);
    assert_clean(&there);
}

#[test]
fn a_stream_waits_for_the_record_of_another_process_at_the_time_of_the_wait() {
    let (here, there) = two();
    let (event, opened) = shared_event(&here, &there);
    let mine = memory(&here);
    let handle: CUipcMemHandle = get!(here, cuIpcGetMemHandle(out, mine)).unwrap();
    let theirs: u64 = get!(there, cuIpcOpenMemHandle_v2(out, handle, LAZY)).unwrap();
    let (s, t) = (stream(&here, 1), stream(&there, 1));
    call!(here, cuMemsetD32Async(mine, 7, 1, s)).unwrap();
    call!(here, cuEventRecord(event, s)).unwrap();
    call!(there, cuStreamWaitEvent(t, opened, 0)).unwrap();
    let mut word = 0_u32;
    call!(there, cuMemcpyDtoHAsync_v2((&raw mut word).cast(), theirs, 4, t)).unwrap();
    call!(here, cuMemsetD32Async(mine, 8, 1, s)).unwrap();
    call!(here, cuEventRecord(event, s)).unwrap();
    assert_eq!(call!(there, cuStreamQuery(t)), Err(CUresult::NOT_READY));
    there.run_all();
    assert_eq!(there.pending(), 2, "what waits for another process stays");
    call!(there, cuStreamSynchronize(t)).unwrap();
    assert_eq!(word, 7);
    assert_eq!(here.pending(), 2, "the second fill and record");
    assert_clean(&there);
}

#[test]
fn two_processes_that_wait_for_each_other_in_turn_both_go_on() {
    let (here, there) = two();
    let (ping, ping_there) = shared_event(&here, &there);
    let (pong_there, pong) = shared_event(&there, &here);
    let (s, t) = (stream(&here, 1), stream(&there, 1));
    let runs = crate::ask::Runs::default();
    for _ in 0..3 {
        runs.queue(&here, s).unwrap();
        call!(here, cuEventRecord(ping, s)).unwrap();
        call!(there, cuStreamWaitEvent(t, ping_there, 0)).unwrap();
        runs.queue(&there, t).unwrap();
        call!(there, cuEventRecord(pong_there, t)).unwrap();
        call!(here, cuStreamWaitEvent(s, pong, 0)).unwrap();
    }
    call!(here, cuStreamSynchronize(s)).unwrap();
    assert_eq!(runs.count(), 6);
    assert_eq!((here.pending(), there.pending()), (0, 0));
    assert_clean(&here);
    assert_clean(&there);
}

#[test]
fn processes_wait_for_each_other_from_threads_of_their_own() {
    let (here, there) = two();
    let (event, opened) = shared_event(&here, &there);
    let runs = crate::ask::Runs::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            call!(there, cuCtxSetCurrent(primary(&there, 0))).unwrap();
            let t = stream(&there, 1);
            for _ in 0..100 {
                call!(there, cuStreamWaitEvent(t, opened, 0)).unwrap();
                call!(there, cuStreamSynchronize(t)).unwrap();
                call!(there, cuEventSynchronize(opened)).unwrap();
            }
        });
        let s = stream(&here, 1);
        for _ in 0..100 {
            runs.queue(&here, s).unwrap();
            call!(here, cuEventRecord(event, s)).unwrap();
        }
        call!(here, cuStreamSynchronize(s)).unwrap();
    });
    assert_eq!(runs.count(), 100);
    assert_clean(&here);
    assert_clean(&there);
}

#[test]
fn work_of_a_process_that_is_gone_is_not_waited_for() {
    let (here, there) = two();
    let (event, opened) = shared_event(&here, &there);
    let (s, t) = (stream(&here, 1), stream(&there, 1));
    let runs = crate::ask::Runs::default();
    runs.queue(&here, s).unwrap();
    call!(here, cuEventRecord(event, s)).unwrap();
    call!(there, cuStreamWaitEvent(t, opened, 0)).unwrap();
    drop(here);
    call!(there, cuStreamSynchronize(t)).unwrap();
    call!(there, cuEventSynchronize(opened)).unwrap();
    assert_eq!(runs.count(), 0);
}

#[test]
fn an_opened_event_that_its_process_destroyed_is_used_after_its_end() {
    let (here, there) = two();
    let event: CUevent = get!(here, cuEventCreate(out, SHARED)).unwrap();
    let handle: CUipcEventHandle = get!(here, cuIpcGetEventHandle(out, event)).unwrap();
    let opened: CUevent = get!(there, cuIpcOpenEventHandle(out, handle)).unwrap();
    call!(here, cuEventDestroy_v2(event)).unwrap();
    call!(there, cuEventQuery(opened)).unwrap();
    assert_eq!(kinds(&there.violations()), [ViolationKind::UseAfterDestroy]);
}

#[cfg(unix)]
#[test]
fn an_imported_pool_gives_the_exporter_s_memory_and_none_of_its_own() {
    use std::os::fd::{FromRawFd as _, OwnedFd};
    let (here, there) = two();
    let props = CUmemPoolProps {
        allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        handleTypes: FILE,
        location: location(0),
        ..CUmemPoolProps::default()
    };
    let pool: CUmemoryPool = get!(here, cuMemPoolCreate(out, &raw const props)).unwrap();
    let s = stream(&here, 1);
    let mine: u64 = get!(here, cuMemAllocFromPoolAsync(out, 64, pool, s)).unwrap();
    fill(&here, mine, 9);
    let mut number: c_int = -1;
    let to = (&raw mut number).cast();
    call!(here, cuMemPoolExportToShareableHandle(to, pool, FILE, 0)).unwrap();
    // SAFETY: the driver gave it out for this test to close.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    let from = core::ptr::without_provenance_mut(usize::try_from(number).unwrap());
    let imported = get!(there, cuMemPoolImportFromShareableHandle(out, from, FILE, 0));
    let imported: CUmemoryPool = imported.unwrap();
    drop(file);
    let t = stream(&there, 1);
    let own = get!(there, cuMemAllocFromPoolAsync(out, 64, imported, t)).map(|_: u64| ());
    assert_eq!(own, Err(CUresult::INVALID_VALUE));
    let mut data = get!(here, cuMemPoolExportPointer(out, mine)).unwrap();
    let data: *mut CUmemPoolPtrExportData = &raw mut data;
    let shared: u64 = get!(there, cuMemPoolImportPointer(out, imported, data)).unwrap();
    assert_eq!(first(&there, shared), 9);
    call!(there, cuMemFreeAsync(shared, t)).unwrap();
    call!(there, cuStreamSynchronize(t)).unwrap();
    call!(there, cuMemPoolDestroy(imported)).unwrap();
    call!(here, cuMemFreeAsync(mine, s)).unwrap();
    call!(here, cuStreamSynchronize(s)).unwrap();
    assert_clean(&here);
    assert_clean(&there);
}

/// Makes the unsafe calls among those of pools between processes.
pub(crate) fn make_unsafe_call(sim: &Sim, unsafe_one: Call) -> Option<Asked<()>> {
    let (mut address, mut number) = (8, 0_usize);
    let pointer = core::ptr::without_provenance_mut(8);
    let (out, value): (_, *mut c_void) = (&raw mut address, (&raw mut number).cast());
    let pool: CUmemoryPool = get!(sim, cuDeviceGetDefaultMemPool(out, 0)).unwrap();
    Some(match unsafe_one {
        Call::cuMemPoolExportToShareableHandle => {
            call!(
                sim,
                cuMemPoolExportToShareableHandle(value, pool, CUmemAllocationHandleType(1), 0)
            )
        }
        Call::cuMemPoolImportFromShareableHandle => {
            let (mut imported, kind) = (CUmemoryPool::NULL, CUmemAllocationHandleType(1));
            call!(sim, cuMemPoolImportFromShareableHandle(&raw mut imported, pointer, kind, 0))
        }
        Call::cuMemPoolExportPointer => {
            let mut data = CUmemPoolPtrExportData::default();
            call!(sim, cuMemPoolExportPointer(&raw mut data, 8))
        }
        Call::cuMemPoolImportPointer => {
            let mut data = CUmemPoolPtrExportData::default();
            call!(sim, cuMemPoolImportPointer(out, pool, &raw mut data))
        }
        _ => return None,
    })
}

#[test]
fn of_a_process_that_has_ended_memory_isn_t_opened_and_an_event_is() {
    let (here, there) = two();
    let memory: CUipcMemHandle = get!(here, cuIpcGetMemHandle(out, memory(&here))).unwrap();
    let event: CUevent = get!(here, cuEventCreate(out, SHARED)).unwrap();
    let event: CUipcEventHandle = get!(here, cuIpcGetEventHandle(out, event)).unwrap();
    here.end_process();
    let opened = get!(there, cuIpcOpenMemHandle_v2(out, memory, LAZY)).map(|_: u64| ());
    assert_eq!(opened, Err(CUresult::INVALID_HANDLE));
    let opened: CUevent = get!(there, cuIpcOpenEventHandle(out, event)).unwrap();
    call!(there, cuEventSynchronize(opened)).unwrap();
    call!(there, cuEventDestroy_v2(opened)).unwrap();
    assert_clean(&there);
}
