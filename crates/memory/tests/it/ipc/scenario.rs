//! What went wrong elsewhere between processes, asked of this library.

use super::Exporter;
use cuhold_driver_sim::SimOptions;
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{AnyCall, DeviceMemory, ErrorKind, Event, EventOptions, Fate};
use cuhold_memory::{
    Buffer, ImportedPool, IpcChannel, Pool, PoolOptions, VirtualBuffer, VirtualMemory,
    VirtualMemoryOptions,
};
use cuhold_testkit::{Alone, is_alone, run, run_simulated, run_with};
use std::{
    fs::File,
    io::Read as _,
    os::fd::{AsFd as _, AsRawFd as _},
    time::Duration,
};

#[test]
fn a_file_that_is_no_pool_is_an_error_that_names_the_call_and_stays_the_caller_s() {
    run(|t| {
        let mut file = File::open("/dev/null").unwrap();
        let error = ImportedPool::import(t.device(), &file).unwrap_err();
        assert!(error.to_string().starts_with("cuMemPoolImportFromShareableHandle "), "{error}");
        assert!(error.is(CUresult::UNKNOWN), "{error}");
        assert_eq!(file.read(&mut [0; 8]).unwrap(), 0, "the caller's own is open");
        t.device().new_stream().unwrap().synchronize().unwrap();
    });
}

#[test]
fn a_pool_that_is_not_shareable_is_not_exported_nor_is_its_memory_and_it_stays_as_it_was() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let own = Pool::new(t.device(), PoolOptions::default()).unwrap();
        for pool in [Pool::default_of(t.device()).unwrap(), own] {
            let buffer = Buffer::<u32>::zeroed_in(&pool, &stream, 100).unwrap();
            let used = pool.used_bytes().unwrap();
            let error = pool.export().unwrap_err();
            assert!(error.is(CUresult::INVALID_VALUE), "{error}");
            let (error, calls) = t.calls(|| buffer.export(&pool).unwrap_err());
            assert_eq!((error.kind(), calls), (ErrorKind::State, Vec::new()));
            assert_eq!(pool.used_bytes().unwrap(), used);
            assert_eq!(buffer.to_vec().unwrap(), [0; 100]);
        }
    });
}

#[test]
fn memory_of_another_resource_than_the_exported_pool_is_not_exported() {
    run(|t| {
        let there = Exporter::beside(t);
        let plain = Pool::new(&there.device, PoolOptions::default()).unwrap();
        let buffer = Buffer::<u32>::zeroed_in(&plain, &there.stream, 100).unwrap();
        let error = buffer.export(&there.pool).unwrap_err();
        assert!(error.is(CUresult::INVALID_VALUE), "{error}");
        assert!(error.to_string().starts_with("cuMemPoolExportPointer "), "{error}");
        let empty = Buffer::<u32>::zeroed_in(&there.pool, &there.stream, 0).unwrap();
        assert_eq!(empty.export(&there.pool).unwrap_err().kind(), ErrorKind::Argument);
        there.end(t.context(), (buffer, empty, plain));
    });
}

/// How many files this process has open.
fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn exported_and_imported_files_are_each_closed_once_by_their_owner() {
    const TEST: &str =
        "ipc::scenario::exported_and_imported_files_are_each_closed_once_by_their_owner";
    // Counted in a process of its own: other tests open files, too.
    if !is_alone(TEST) {
        Alone::new(TEST).run();
        return;
    }
    run(|t| {
        let there = Exporter::beside(t);
        let (mut here, mut other) = IpcChannel::pair().unwrap();
        let round = |here: &mut IpcChannel, other: &mut IpcChannel| {
            let exported = there.pool.export().unwrap();
            here.send_pool(&exported).unwrap();
            drop(exported);
            let imported = ImportedPool::receive(t.device(), other).unwrap();
            let (buffer, token) = there.buffer(&[7]);
            let stream = t.device().new_stream().unwrap();
            let memory = imported.import_buffer::<u32>(token.descriptor(), &stream).unwrap();
            assert_eq!(memory.to_vec().unwrap(), [7]);
            drop((memory, imported));
            stream.synchronize().unwrap();
            drop((token, buffer));
            // A file that is no pool, and one that nobody receives.
            let pipe = std::io::pipe().unwrap();
            assert!(ImportedPool::import(t.device(), &pipe.0).is_err());
            assert!(rustix::io::fcntl_getfd(&pipe.0).is_ok(), "{}", pipe.0.as_raw_fd());
            let (mut lost, unread) = IpcChannel::pair().unwrap();
            lost.send_bytes(&[], &[pipe.1.as_fd()]).unwrap();
            drop((lost, unread));
        };
        // What the driver opens for good at its first use.
        round(&mut here, &mut other);
        // Imported pools end on the reclaimer, and their watches with them.
        let settled = || t.driver().reclaim().drain(Duration::from_secs(60)).unwrap();
        settled();
        let before = open_files();
        for _ in 0..100 {
            round(&mut here, &mut other);
        }
        settled();
        assert_eq!(open_files(), before);
        let used = there.pool.used_bytes().unwrap();
        assert_eq!(used, 0);
        drop((here, other));
        there.end(t.context(), ());
    });
}

#[test]
fn memory_that_works_on_another_device_s_stream_is_exported_of_its_own_pool_alone() {
    run_with(SimOptions::with_devices(2), |t| {
        let Some(second) = t.second_device() else { return };
        let pools = [t.device(), &second].map(|device| {
            let pool = Pool::new(device, PoolOptions::default().shareable()).unwrap();
            let _file = pool.export().unwrap();
            pool
        });
        if pools[0].add_peer(&second).is_err() {
            return t.skip("needs two devices that reach each other's memory");
        }
        let (here, there) = (t.device().new_stream().unwrap(), second.new_stream().unwrap());
        let mut buffer = Buffer::<u32>::zeroed_in(&pools[0], &here, 4).unwrap();
        buffer.move_to(&there).unwrap();
        assert_eq!(buffer.export(&pools[0]).unwrap().descriptor().bytes(), 16);
        let error = buffer.export(&pools[1]).unwrap_err();
        assert_eq!(error.to_string(), "pool: it is of device 1, the memory of device 0");
        buffer.close().unwrap();
        there.synchronize().unwrap();
    });
}

#[test]
fn an_exported_event_outlives_its_handle_as_long_as_its_token_is_held() {
    run_simulated(|t, sim| {
        let there = Exporter::of(Some(sim), t.device());
        let (mut here, mut other) = IpcChannel::pair().unwrap();
        let token = {
            let event = there.device.new_event(EventOptions::interprocess()).unwrap();
            there.stream.record(&event).unwrap();
            event.export().unwrap()
        };
        here.send_event(&token).unwrap();
        let imported = Event::import(t.context(), other.receive_event().unwrap()).unwrap();
        let stream = t.device().new_stream().unwrap();
        there.stream.synchronize().unwrap();
        stream.wait_event(&imported).unwrap();
        stream.synchronize().unwrap();
        // The import ends by itself, before the exporter's or after it.
        drop(imported);
        drop(token);
        let gone = Event::import(t.context(), cuhold_handles::EventHandle::from_bytes([0; 64]));
        assert!(gone.unwrap_err().status().is_some());
        there.end(t.context(), ());
    });
}

#[test]
fn pool_memory_is_refused_by_the_older_export_which_names_itself_and_leaves_no_trace() {
    #[expect(unsafe_code, reason = "refers to pool memory as other libraries do")]
    fn as_plain(t: &cuhold_testkit::Kit, ptr: u64) -> DeviceMemory {
        // SAFETY: the buffer outlives it, and it is given up again.
        unsafe { DeviceMemory::from_raw(t.context(), 400, ptr) }.unwrap()
    }
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let pool = Pool::new(t.device(), PoolOptions::default().shareable()).unwrap();
        let buffer = Buffer::<u32>::zeroed_in(&pool, &stream, 100).unwrap();
        let plain = as_plain(t, buffer.device_ptr());
        let error = plain.export().unwrap_err();
        assert_eq!(error.call(), Some(AnyCall::Driver(Call::cuIpcGetMemHandle)), "{error}");
        assert!(error.is(CUresult::INVALID_VALUE), "{error}");
        assert_eq!(plain.into_raw().unwrap(), buffer.device_ptr());
        assert_eq!(buffer.to_vec().unwrap(), [0; 100]);
        let memory = VirtualMemory::new(t.device(), VirtualMemoryOptions::default()).unwrap();
        let mapped = VirtualBuffer::<u32>::zeroed(&memory, &stream, 100).unwrap();
        let plain = as_plain(t, mapped.device_ptr());
        assert!(plain.export().unwrap_err().is(CUresult::INVALID_VALUE));
        assert_eq!(plain.into_raw().unwrap(), mapped.device_ptr());
        assert_eq!(mapped.to_vec().unwrap(), [0; 100]);
        mapped.close().unwrap();
        stream.synchronize().unwrap();
    });
}

#[test]
fn an_import_that_other_work_keeps_is_closed_once_and_as_soon_as_the_last_owner_is_gone() {
    run(|t| {
        let there = Exporter::beside(t);
        let (buffer, token) = there.buffer(&[1, 2, 3]);
        let pool = there.imported(t.device());
        let stream = t.device().new_stream().unwrap();
        for _ in 0..10 {
            let imported = pool.import_buffer::<u32>(token.descriptor(), &stream).unwrap();
            // As a graph keeps what its nodes use.
            let kept = imported.keep();
            drop(imported);
            assert_eq!(pool.mapped_buffers(), 1);
            let (freed, calls) = t.calls(|| drop(kept));
            assert_eq!(calls.iter().filter(|call| **call == "cuMemFreeAsync").count(), 1);
            assert_eq!((freed, pool.mapped_buffers()), ((), 0));
        }
        drop(pool);
        there.end(t.context(), (token, buffer));
    });
}

#[test]
fn a_close_that_failed_is_told_once_and_its_address_is_not_used_again_by_the_cache() {
    run_simulated(|t, sim| {
        let there = Exporter::of(Some(sim), t.device());
        let (buffer, token) = there.buffer(&[1, 2, 3]);
        let pool = there.imported(t.device());
        let stream = t.device().new_stream().unwrap();
        let imported = pool.import_buffer::<u32>(token.descriptor(), &stream).unwrap();
        let capture = t.driver().reports().capture(4);
        let fault = Fault::done_but_failed(CUresult::UNKNOWN);
        t.faults().arm(fault.on(Call::cuMemFreeAsync).nth(1));
        drop(imported);
        t.faults().disarm();
        let [warning] = capture.take()[..] else { panic!("one warning") };
        drop(capture);
        assert_eq!(warning.fate(), Some(Fate::Unknown));
        assert_eq!(pool.mapped_buffers(), 0);
        let (again, calls) =
            t.calls(|| pool.import_buffer::<u32>(token.descriptor(), &stream).unwrap());
        assert!(calls.contains(&"cuMemPoolImportPointer"), "{calls:?}");
        assert_eq!(again.to_vec().unwrap(), [1, 2, 3]);
        drop((again, pool));
        there.end(t.context(), (token, buffer));
    });
}

#[test]
fn once_the_exporter_has_ended_nothing_new_is_imported_and_what_is_imported_goes_on() {
    run(|t| {
        let there = Exporter::beside(t);
        let (mut here, mut other) = IpcChannel::pair().unwrap();
        here.send_pool(&there.exported).unwrap();
        let pool = ImportedPool::receive(t.device(), &mut other).unwrap();
        let stream = t.device().new_stream().unwrap();
        let (first, second) = (there.buffer(&[1]), there.buffer(&[2]));
        let imported = pool.import_buffer::<u32>(first.1.descriptor(), &stream).unwrap();
        assert_eq!(pool.exporter_has_ended().unwrap(), Some(false));
        // Its end of the connection goes with it, however it ends.
        drop(here);
        assert_eq!(pool.exporter_has_ended().unwrap(), Some(true));
        let (error, calls) =
            t.calls(|| pool.import_buffer::<u32>(second.1.descriptor(), &stream).unwrap_err());
        assert_eq!((error.kind(), calls), (ErrorKind::State, Vec::new()));
        assert!(error.to_string().contains("has ended"), "{error}");
        let again = pool.import_buffer::<u32>(first.1.descriptor(), &stream).unwrap();
        assert_eq!(again.to_vec().unwrap(), [1]);
        drop(imported);
        assert_eq!(again.to_vec().unwrap(), [1]);
        drop((again, pool));
        there.end(t.context(), (first, second));
    });
}
