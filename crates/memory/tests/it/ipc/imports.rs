//! Imports of one piece of memory: what they share, what they cost, and what is refused.

use super::Exporter;
use cuhold_driver_sys::CUresult;
use cuhold_handles::{Closed, ErrorKind, Stream};
use cuhold_memory::{
    Buffer, ImportedPool, IpcChannel, Pool, PoolDescriptor, PoolOptions, PoolPlace, Residence,
};
use cuhold_testkit::{Kit, run, run_simulated};
use std::thread;

const EXCHANGE: &str = "cuThreadExchangeStreamCaptureMode";
const NONE: [&str; 0] = [];

fn stream(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

#[test]
fn an_import_is_the_exporter_s_memory_in_both_directions() {
    run(|t| {
        let there = Exporter::beside(t);
        let (buffer, token) = there.buffer(&[1, 2, 3]);
        let pool = there.imported(t.device());
        let mut imported = pool.import_buffer::<u32>(token.descriptor(), &stream(t)).unwrap();
        assert_eq!((imported.len(), imported.size_bytes()), (3, 12));
        assert_eq!(imported.to_vec().unwrap(), [1, 2, 3]);
        imported.write_slice(&[4, 5, 6]).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [4, 5, 6]);
        drop((imported, pool));
        there.end(t.context(), (token, buffer));
    });
}

#[test]
fn memory_of_a_pool_of_the_host_is_imported_as_such() {
    run(|t| {
        let there = Exporter::with(t.sim(), t.device(), PoolPlace::HostNuma(0));
        let bytes = there.exported.descriptor().to_bytes().unwrap();
        let told = PoolDescriptor::from_bytes(&bytes).unwrap();
        assert_eq!(
            (told, told.residence()),
            (*there.exported.descriptor(), Residence::HostNuma(0))
        );
        let (mut sending, mut receiving) = IpcChannel::pair().unwrap();
        sending.send_pool(&there.exported).unwrap();
        let pool = ImportedPool::receive(t.device(), &mut receiving).unwrap();
        assert_eq!(pool.residence(), Residence::HostNuma(0));
        let (buffer, token) = there.buffer(&[1, 2, 3]);
        let home = stream(t);
        let mut imported = pool.import_buffer::<u32>(token.descriptor(), &home).unwrap();
        assert_eq!(imported.residence(), Residence::HostNuma(0));
        assert_eq!(imported.to_vec().unwrap(), [1, 2, 3]);
        imported.write_slice(&[4, 5, 6]).unwrap();
        let mut copy = Buffer::<u32>::uninit(&home, 3).unwrap();
        copy.copy_from(&imported).unwrap();
        assert_eq!(copy.to_vec().unwrap(), [4, 5, 6]);
        assert_eq!(buffer.to_vec().unwrap(), [4, 5, 6]);
        // Such memory isn't mapped twice (measured).
        let again = pool.import_buffer::<u32>(token.descriptor(), &home).unwrap();
        assert_eq!(again.device_ptr(), imported.device_ptr());
        // A pool of it doesn't end before the memory is freed (measured), so its end waits for that.
        let second = stream(t);
        drop(pool.import_buffer::<u32>(token.descriptor(), &second).unwrap());
        drop((imported, again, copy));
        drop((pool, sending));
        t.driver().reclaim().drain(std::time::Duration::from_secs(10)).unwrap();
        there.end(t.context(), (token, buffer));
    });
}

#[test]
fn imports_of_one_descriptor_share_its_mapping_and_the_last_one_frees_it() {
    run(|t| {
        let there = Exporter::beside(t);
        let (buffer, token) = there.buffer(&[1, 2, 3]);
        let pool = there.imported(t.device());
        let home = stream(t);
        let import = || pool.import_buffer::<u32>(token.descriptor(), &home).unwrap();
        let (one, two) = (import(), import());
        assert_eq!(one.device_ptr(), two.device_ptr());
        assert_eq!(pool.mapped_buffers(), 1);
        drop(one);
        assert_eq!(two.to_vec().unwrap(), [1, 2, 3], "the first free would have unmapped it");
        drop(two);
        assert_eq!(pool.mapped_buffers(), 0);
        // And it can be imported again.
        assert_eq!(import().to_vec().unwrap(), [1, 2, 3]);
        drop(pool);
        there.end(t.context(), (token, buffer));
    });
}

#[test]
fn a_pool_that_is_imported_twice_shares_what_is_mapped() {
    run(|t| {
        let there = Exporter::beside(t);
        let (buffer, token) = there.buffer(&[1, 2, 3]);
        let (one, two) = (there.imported(t.device()), there.imported(t.device()));
        let home = stream(t);
        let first = one.import_buffer::<u32>(token.descriptor(), &home).unwrap();
        let second = two.import_buffer::<u32>(token.descriptor(), &home).unwrap();
        drop(first);
        assert_eq!(one.close().unwrap(), Closed::StillShared, "the mapping was made through it");
        assert_eq!(second.to_vec().unwrap(), [1, 2, 3]);
        drop((second, two));
        there.end(t.context(), (token, buffer));
    });
}

#[test]
fn an_imported_pool_ends_after_its_imports() {
    run(|t| {
        let there = Exporter::beside(t);
        let (buffer, token) = there.buffer(&[7]);
        let pool = there.imported(t.device());
        let home = stream(t);
        let imported = pool.import_buffer::<u32>(token.descriptor(), &home).unwrap();
        assert_eq!(pool.close().unwrap(), Closed::StillShared);
        let by_hand = t.driver().reclaim().run_by_hand();
        let ((), calls) = t.calls(|| drop(imported));
        assert_eq!(calls[..3], [EXCHANGE, "cuMemFreeAsync", EXCHANGE]);
        let ((), mut calls) = t.calls(|| while by_hand.step() {});
        calls.retain(|call| !call.starts_with("cuCtx") && *call != EXCHANGE);
        assert_eq!(calls, ["cuEventSynchronize", "cuMemPoolDestroy"]);
        drop(by_hand);
        there.end(t.context(), (token, buffer));
    });
}

#[test]
fn exact_counts_of_imports_and_their_ends() {
    run(|t| {
        let there = Exporter::beside(t);
        let (buffer, token) = there.buffer(&[7]);
        let pool = there.imported(t.device());
        // Streams that only this library has seen.
        let (home, other, third) = (stream(t), stream(t), stream(t));
        let import = |home: &Stream| pool.import_buffer::<u32>(token.descriptor(), home).unwrap();
        let (first, calls) = t.calls(|| import(&home));
        assert_eq!(calls, [EXCHANGE, "cuMemPoolImportPointer", EXCHANGE], "a miss");
        let (second, calls) = t.calls(|| import(&home));
        assert_eq!(calls, NONE, "a hit");
        let (on_other, calls) = t.calls(|| import(&other));
        assert_eq!(calls, NONE, "a hit on another stream");
        assert_eq!(t.calls(|| drop(second)).1, NONE, "not the last, same stream");
        let own = |calls: Vec<&'static str>| -> Vec<&'static str> {
            calls.into_iter().filter(|call| !call.starts_with("cuCtx")).collect()
        };
        let calls = own(t.calls(|| drop(on_other)).1);
        assert_eq!(calls, ["cuEventCreate", "cuEventRecord"], "not the last, another stream");
        let again = import(&other);
        assert_eq!(t.calls(|| drop(again)).1, ["cuEventRecord"], "the same stream once more");
        drop(import(&third));
        let free = [EXCHANGE, "cuMemFreeAsync", EXCHANGE];
        let waits = ["cuStreamWaitEvent"; 2];
        let ((), calls) = t.calls(|| drop(first));
        assert_eq!(calls, [&waits[..], &free[..]].concat(), "the last, after two other streams");
        let (first, on_other) = (import(&home), import(&other));
        assert_eq!(t.calls(|| drop(on_other)).1, ["cuEventRecord"], "the events are kept");
        assert_eq!(t.calls(|| drop(first)).1, [&waits[..1], &free[..]].concat());
        let alone = import(&home);
        assert_eq!(t.calls(|| drop(alone)).1, free, "the last, and no other stream");
        // The last on another stream than the one it is freed on marks its own, and waits for that.
        let (first, on_other) = (import(&home), import(&other));
        drop(first);
        let ((), calls) = t.calls(|| drop(on_other));
        assert_eq!(calls, [&["cuEventRecord"], &waits[..1], &free[..]].concat());
        drop(pool);
        there.end(t.context(), (token, buffer));
    });
}

#[test]
fn memory_of_another_pool_is_refused_before_the_driver_is_asked() {
    run(|t| {
        let there = Exporter::beside(t);
        let (buffer, token) = there.buffer(&[7]);
        let other = Pool::new(&there.device, PoolOptions::default().shareable()).unwrap();
        let pool = ImportedPool::import_exported(t.device(), &other.export().unwrap()).unwrap();
        let home = stream(t);
        let (refused, calls) =
            t.calls(|| pool.import_buffer::<u32>(token.descriptor(), &home).unwrap_err());
        assert_eq!((refused.kind(), calls), (ErrorKind::Argument, NONE.to_vec()));
        assert!(refused.to_string().contains("memory of pool"), "{refused}");
        // Without an identity the driver says so.
        let bare = ImportedPool::import(t.device(), other.export().unwrap()).unwrap();
        assert_eq!(bare.identity(), None);
        let refused = bare.import_buffer::<u32>(token.descriptor(), &home).unwrap_err();
        assert!(refused.is(CUresult::INVALID_VALUE), "{refused}");
        assert!(refused.to_string().starts_with("cuMemPoolImportPointer "), "{refused}");
        drop((pool, bare, other));
        there.end(t.context(), (token, buffer));
    });
}

#[test]
fn sizes_and_offsets_that_are_not_those_of_elements_are_refused() {
    run(|t| {
        let there = Exporter::beside(t);
        let (buffer, token) = there.buffer(&[1, 2, 3, 4]);
        let (pool, home) = (there.imported(t.device()), stream(t));
        let whole = token.descriptor();
        let half = pool.import_buffer::<u32>(&whole.slice(8..).unwrap(), &home).unwrap();
        assert_eq!(half.to_vec().unwrap(), [3, 4]);
        let odd = pool.import_buffer::<u32>(&whole.slice(..6).unwrap(), &home).unwrap_err();
        assert!(odd.to_string().contains("6 bytes aren't whole elements of 4 bytes"), "{odd}");
        let askew = pool.import_buffer::<u32>(&whole.slice(2..6).unwrap(), &home).unwrap_err();
        assert!(askew.to_string().contains("offset 2"), "{askew}");
        assert!(pool.import_buffer::<()>(whole, &home).is_err());
        assert!(whole.slice(8..8).is_err() && whole.slice(..17).is_err());
        assert_eq!(pool.mapped_buffers(), 1);
        drop((half, pool));
        there.end(t.context(), (token, buffer));
    });
}

#[test]
fn an_imported_pool_of_another_device_is_refused() {
    run_simulated(|t, sim| {
        let two = sim.other_process(cuhold_driver_sim::SimOptions::with_devices(2));
        let driver = cuhold_handles::Driver::from_api(two);
        let there = cuhold_handles::Device::with_driver(&driver, 1).unwrap();
        let pool = Pool::new(&there, PoolOptions::default().shareable()).unwrap();
        let exported = pool.export().unwrap();
        let refused = ImportedPool::import_exported(t.device(), &exported).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Argument);
        assert!(refused.to_string().contains("lies on another one"), "{refused}");
    });
}

#[test]
fn many_threads_that_import_and_drop_find_the_memory_mapped_whenever_they_use_it() {
    run(|t| {
        let there = Exporter::beside(t);
        let made: Vec<_> = (0..4_u32).map(|word| there.buffer(&[word])).collect();
        let pool = there.imported(t.device());
        let rounds = &|number: usize| {
            let home = stream(t);
            for round in 0..200 {
                let word = (number + round) % 4;
                let descriptor = made[word].1.descriptor();
                let imported = pool.import_buffer::<u32>(descriptor, &home).unwrap();
                if round % 16 == 0 {
                    assert_eq!(imported.to_vec().unwrap(), [u32::try_from(word).unwrap()]);
                }
            }
        };
        thread::scope(|scope| {
            for number in 0..4 {
                scope.spawn(move || rounds(number));
            }
        });
        assert_eq!(pool.mapped_buffers(), 0);
        drop(pool);
        there.end(t.context(), made);
    });
}

#[test]
fn a_hundred_thousand_rounds_of_import_and_drop_leave_nothing() {
    run(|t| {
        let there = Exporter::beside(t);
        let (buffer, token) = there.buffer(&[1, 2, 3]);
        let (pool, home) = (there.imported(t.device()), stream(t));
        // Each round maps the memory and frees it. The simulated driver is no place to find what wears out.
        let rounds = if t.sim().is_some() { 2_000 } else { 100_000 };
        for _ in 0..rounds {
            drop(pool.import_buffer::<u32>(token.descriptor(), &home).unwrap());
        }
        home.synchronize().unwrap();
        assert_eq!(pool.mapped_buffers(), 0);
        let last = pool.import_buffer::<u32>(token.descriptor(), &home).unwrap();
        assert_eq!(last.to_vec().unwrap(), [1, 2, 3]);
        drop((last, pool));
        there.end(t.context(), (token, buffer));
    });
}

#[test]
fn an_imported_buffer_on_a_default_stream_is_ordered_and_freed_there() {
    run(|t| {
        let there = Exporter::beside(t);
        let (buffer, token) = there.buffer(&[1, 2, 3]);
        let (pool, legacy) = (there.imported(t.device()), t.device().legacy_stream());
        let home = stream(t);
        let import = |home: &Stream| pool.import_buffer::<u32>(token.descriptor(), home).unwrap();
        for homes in [[&legacy, &home], [&home, &legacy]] {
            let [one, two] = homes.map(import);
            assert_eq!(one.to_vec().unwrap(), two.to_vec().unwrap());
            drop(two);
            drop(one);
        }
        assert_eq!(pool.mapped_buffers(), 0);
        drop(pool);
        there.end(t.context(), (token, buffer));
        t.driver().reclaim().drain(std::time::Duration::from_secs(10)).unwrap();
    });
}

#[test]
fn a_closed_import_tells_what_its_end_brought() {
    run(|t| {
        let there = Exporter::beside(t);
        let (buffer, token) = there.buffer(&[7]);
        let (pool, home) = (there.imported(t.device()), stream(t));
        let import = || pool.import_buffer::<u32>(token.descriptor(), &home).unwrap();
        let (one, two): (Buffer<u32>, _) = (import(), import());
        assert_eq!(one.close().unwrap(), Closed::Destroyed);
        assert_eq!(pool.mapped_buffers(), 1);
        assert_eq!(two.close().unwrap(), Closed::Destroyed);
        assert_eq!(pool.mapped_buffers(), 0);
        drop(pool);
        there.end(t.context(), (token, buffer));
    });
}
