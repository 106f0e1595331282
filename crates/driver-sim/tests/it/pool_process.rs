//! Memory of pools in two processes: the host's, twice the same, in use when it is freed, and of a process that ended.

use std::os::{
    fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    unix::net::UnixStream,
};

use cuhold_driver_sim::{
    ObjectKind, Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

use crate::ask::{Asked, assert_clean, call, get, kinds, primary, sim_with_context, stream};

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

fn make(sim: &Sim, place: CUmemLocationType) -> CUmemoryPool {
    let properties = CUmemPoolProps {
        allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        handleTypes: FILE,
        location: CUmemLocation { type_: place, ..CUmemLocation::default() },
        ..CUmemPoolProps::default()
    };
    get!(sim, cuMemPoolCreate(out, &raw const properties)).unwrap()
}

pub(crate) fn on_device(sim: &Sim) -> CUmemoryPool {
    make(sim, CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE)
}

fn on_host(sim: &Sim) -> CUmemoryPool {
    make(sim, CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA)
}

pub(crate) fn allocate(sim: &Sim, pool: CUmemoryPool, stream: CUstream) -> CUdeviceptr {
    get!(sim, cuMemAllocFromPoolAsync(out, 64, pool, stream)).unwrap()
}

pub(crate) fn export(sim: &Sim, pool: CUmemoryPool) -> OwnedFd {
    let mut number: c_int = -1;
    let to = (&raw mut number).cast();
    call!(sim, cuMemPoolExportToShareableHandle(to, pool, FILE, 0)).unwrap();
    // SAFETY: the driver gave it out for this test to close.
    unsafe { OwnedFd::from_raw_fd(number) }
}

pub(crate) fn import(sim: &Sim, file: &OwnedFd) -> Asked<CUmemoryPool> {
    let number = file.as_raw_fd().cast_unsigned() as usize;
    let from = core::ptr::without_provenance_mut(number);
    get!(sim, cuMemPoolImportFromShareableHandle(out, from, FILE, 0))
}

pub(crate) fn exported(sim: &Sim, memory: CUdeviceptr) -> CUmemPoolPtrExportData {
    get!(sim, cuMemPoolExportPointer(out, memory)).unwrap()
}

pub(crate) fn import_memory(
    sim: &Sim,
    pool: CUmemoryPool,
    data: CUmemPoolPtrExportData,
) -> Asked<CUdeviceptr> {
    let mut data = data;
    get!(sim, cuMemPoolImportPointer(out, pool, &raw mut data))
}

/// The first word, as the host reads it.
fn on_host_at(memory: CUdeviceptr) -> *mut u32 {
    core::ptr::with_exposed_provenance_mut(memory.try_into().unwrap())
}

/// Calls with a message of one byte that has room for one file's number beside it.
fn with_message<R>(work: impl FnOnce(&mut libc::msghdr) -> R) -> R {
    let (mut beside, mut byte) = ([0_u64; 4], 1_u8);
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: C's struct of pointers and numbers, for which all zeros mean that there is nothing.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = beside.as_mut_ptr().cast();
    // SAFETY: a calculation without memory.
    let room = unsafe { libc::CMSG_SPACE(4) };
    message.msg_controllen = room.try_into().unwrap();
    work(&mut message)
}

fn send(socket: &UnixStream, file: &OwnedFd) {
    with_message(|message| {
        // SAFETY: there is room for the header of one file.
        let header = unsafe { libc::CMSG_FIRSTHDR(message) };
        // SAFETY: as above.
        let header = unsafe { &mut *header };
        (header.cmsg_level, header.cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        // SAFETY: a calculation without memory.
        let length = unsafe { libc::CMSG_LEN(4) };
        header.cmsg_len = length.try_into().unwrap();
        // SAFETY: behind the header there is room for a number.
        let place = unsafe { libc::CMSG_DATA(header) };
        let number = file.as_raw_fd().to_ne_bytes();
        // SAFETY: as above; the two are different memory.
        unsafe { place.copy_from_nonoverlapping(number.as_ptr(), number.len()) };
        // SAFETY: all that the message points at is alive.
        assert_eq!(unsafe { libc::sendmsg(socket.as_raw_fd(), message, 0) }, 1);
    });
}

fn receive(socket: &UnixStream) -> OwnedFd {
    with_message(|message| {
        // SAFETY: all that the message points at is alive.
        assert_eq!(unsafe { libc::recvmsg(socket.as_raw_fd(), message, 0) }, 1);
        // SAFETY: the message is as the system filled it in.
        let header = unsafe { libc::CMSG_FIRSTHDR(message) };
        assert!(!header.is_null(), "no file came along");
        // SAFETY: what stands beside the message is a file's number.
        let place = unsafe { libc::CMSG_DATA(header) };
        let mut number = [0; 4];
        // SAFETY: as above; the two are different memory.
        unsafe { place.copy_to_nonoverlapping(number.as_mut_ptr(), number.len()) };
        // SAFETY: the system made it for this receiver.
        unsafe { OwnedFd::from_raw_fd(c_int::from_ne_bytes(number)) }
    })
}

#[test]
fn an_exported_file_is_a_file_and_goes_over_a_socket() {
    let (here, there) = two();
    let pool = on_device(&here);
    let data = exported_with(&here, pool);
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            call!(there, cuCtxSetCurrent(primary(&there, 0))).unwrap();
            let received = receive(&theirs);
            let imported = import(&there, &received).unwrap();
            drop(received);
            import_memory(&there, imported, data).unwrap();
        });
        send(&ours, &export(&here, pool));
    });
    assert_clean(&there);
}

/// What another process imports of a new allocation of a pool.
fn exported_with(sim: &Sim, pool: CUmemoryPool) -> CUmemPoolPtrExportData {
    let memory = allocate(sim, pool, stream(sim, 1));
    drop(export(sim, pool));
    exported(sim, memory)
}

#[test]
fn the_host_s_memory_is_imported_at_an_address_of_its_own_and_once() {
    let (here, there) = two();
    let (s, t, pool) = (stream(&here, 1), stream(&there, 1), on_host(&here));
    let mine = allocate(&here, pool, s);
    // SAFETY: memory of the host that this test holds.
    unsafe { on_host_at(mine).write(7) };
    let imported = import(&there, &export(&here, pool)).unwrap();
    let data = exported(&here, mine);
    let theirs = import_memory(&there, imported, data).unwrap();
    assert_ne!(theirs, mine);
    // SAFETY: as above.
    assert_eq!(unsafe { on_host_at(theirs).read() }, 7);
    // SAFETY: as above.
    unsafe { on_host_at(theirs).write(8) };
    // SAFETY: as above.
    assert_eq!(unsafe { on_host_at(mine).read() }, 8);
    assert_eq!(import_memory(&there, imported, data), Err(CUresult::ALREADY_MAPPED));
    assert_eq!(call!(there, cuMemPoolDestroy(imported)), Err(CUresult::INVALID_VALUE));
    call!(there, cuMemFreeAsync(theirs, t)).unwrap();
    call!(there, cuStreamSynchronize(t)).unwrap();
    let again = import_memory(&there, imported, data).unwrap();
    call!(there, cuMemFree_v2(again)).unwrap();
    call!(there, cuMemPoolDestroy(imported)).unwrap();
    call!(here, cuMemFreeAsync(mine, s)).unwrap();
    call!(here, cuStreamSynchronize(s)).unwrap();
    assert_clean(&here);
    assert_clean(&there);
}

#[test]
fn an_imported_pool_ends_once_its_memory_is_freed_and_nothing_is_in_front_of_the_free() {
    let (here, there) = two();
    let pool = on_device(&here);
    let data = exported_with(&here, pool);
    let imported = import(&there, &export(&here, pool)).unwrap();
    let [busy, idle] = [(); 2].map(|()| stream(&there, 1));
    let theirs = import_memory(&there, imported, data).unwrap();
    assert_eq!(call!(there, cuMemPoolDestroy(imported)), Err(CUresult::INVALID_VALUE));
    call!(there, cuMemsetD8Async(theirs, 1, 64, busy)).unwrap();
    call!(there, cuMemFreeAsync(theirs, busy)).unwrap();
    assert_eq!(call!(there, cuMemPoolDestroy(imported)), Err(CUresult::INVALID_VALUE));
    call!(there, cuStreamSynchronize(busy)).unwrap();
    let theirs = import_memory(&there, imported, data).unwrap();
    call!(there, cuMemFreeAsync(theirs, idle)).unwrap();
    call!(there, cuMemPoolDestroy(imported)).unwrap();
    call!(there, cuStreamSynchronize(idle)).unwrap();
    assert_clean(&there);
    assert_eq!(there.dangers(), []);
}

#[test]
fn the_first_free_of_an_import_takes_it_from_work_that_another_stream_still_does_on_it() {
    let (here, there) = two();
    let pool = on_device(&here);
    let data = exported_with(&here, pool);
    let imported = import(&there, &export(&here, pool)).unwrap();
    let (s, t) = (stream(&there, 1), stream(&there, 1));
    let one = import_memory(&there, imported, data).unwrap();
    let two = import_memory(&there, imported, data).unwrap();
    assert_eq!(one, two);
    call!(there, cuMemsetD8Async(two, 1, 64, t)).unwrap();
    call!(there, cuMemFreeAsync(one, s)).unwrap();
    call!(there, cuStreamSynchronize(s)).unwrap();
    assert_clean(&there);
    assert_eq!(call!(there, cuStreamSynchronize(t)), Err(CUresult::ILLEGAL_ADDRESS));
    assert_eq!(kinds(&there.take_violations()), [ViolationKind::UseAfterDestroy]);
}

#[test]
fn the_second_free_of_memory_that_was_imported_twice_is_a_violation() {
    let (here, there) = two();
    let pool = on_device(&here);
    let data = exported_with(&here, pool);
    let imported = import(&there, &export(&here, pool)).unwrap();
    let t = stream(&there, 1);
    let one = import_memory(&there, imported, data).unwrap();
    let two = import_memory(&there, imported, data).unwrap();
    call!(there, cuMemFreeAsync(one, t)).unwrap();
    assert_eq!(call!(there, cuMemFreeAsync(two, t)), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&there.take_violations()), [ViolationKind::DoubleDestroy]);
}

#[test]
fn an_exporter_that_frees_what_is_imported_frees_early_and_one_whose_importer_ended_does_not() {
    let (here, there) = two();
    let pool = on_device(&here);
    let s = stream(&here, 1);
    let (one, two) = (allocate(&here, pool, s), allocate(&here, pool, s));
    let imported = import(&there, &export(&here, pool)).unwrap();
    import_memory(&there, imported, exported(&here, one)).unwrap();
    import_memory(&there, imported, exported(&here, two)).unwrap();
    call!(here, cuMemFree_v2(one)).unwrap();
    assert_eq!(kinds(&here.take_violations()), [ViolationKind::EarlyFree]);
    there.end_process();
    call!(here, cuMemFree_v2(two)).unwrap();
    assert_clean(&here);
}

#[test]
fn what_a_process_exported_stays_after_its_end_where_it_is_imported_and_can_be_imported() {
    let (here, there) = two();
    let pool = on_device(&here);
    let s = stream(&here, 1);
    let mine = allocate(&here, pool, s);
    call!(here, cuMemsetD8Async(mine, 5, 64, s)).unwrap();
    call!(here, cuStreamSynchronize(s)).unwrap();
    let (file, data) = (export(&here, pool), exported(&here, mine));
    let imported = import(&there, &file).unwrap();
    let theirs = import_memory(&there, imported, data).unwrap();
    call!(here, cuMemsetD8Async(mine, 6, 64, s)).unwrap();
    here.end_process();
    assert_eq!(here.pending(), 0);
    assert_eq!(call!(here, cuStreamSynchronize(s)), Err(CUresult::DEINITIALIZED));
    let mut word = 0_u32;
    call!(there, cuMemcpyDtoH_v2((&raw mut word).cast(), theirs, 4)).unwrap();
    assert_eq!(word, 0x0505_0505, "what was queued never ran");
    call!(there, cuMemFree_v2(theirs)).unwrap();
    let again = import_memory(&there, imported, data).unwrap();
    assert_eq!(call!(there, cuMemPoolDestroy(imported)), Err(CUresult::INVALID_VALUE));
    call!(there, cuMemFree_v2(again)).unwrap();
    call!(there, cuMemPoolDestroy(imported)).unwrap();
    assert_eq!(there.live(ObjectKind::Pool), 0);
    assert_clean(&there);
}
