//! Failures of other CUDA libraries that their users reported in public, as far as they are about virtual memory.
//! `docs/scenarios.md` has the reports, and says which test shows which.

use super::{drain, memory, memory_with, words};
use crate::{
    flip::{World, told},
    raw,
};
use cuhold_driver_sim::{ObjectKind as SimKind, Sim, SimOptions};
use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::{Closed, Fate, LaunchConfig, Note, ObjectKind};
use cuhold_memory::{VirtualBuffer, VirtualMemory, VirtualMemoryOptions};
use cuhold_testkit::{Kit, run, run_simulated};

const E: CUresult = CUresult(9001);

fn alive(sim: &Sim) -> [usize; 3] {
    [SimKind::Mapping, SimKind::Reservation, SimKind::PhysicalAllocation].map(|kind| sim.live(kind))
}

/// How much memory the device has left, in bytes.
#[expect(unsafe_code, reason = "asks the driver how much memory is left")]
fn free_bytes(t: &Kit) -> usize {
    let (mut free, mut total) = (0, 0);
    let ask = || {
        // SAFETY: *pointers*: two live locals.
        unsafe { t.driver().calls().cuMemGetInfo_v2(&raw mut free, &raw mut total) }.unwrap();
    };
    t.context().with_current(ask).unwrap();
    free
}

/// S69: what was made, grown and dropped is the device's again, to the granule.
#[test]
fn memory_is_given_back_when_its_buffers_are_gone_however_often_it_was_mapped() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let memory = memory(t);
        let before = free_bytes(t);
        let bytes = 8 << 20;
        for _ in 0..64 {
            let buffer = VirtualBuffer::<u8>::uninit(&memory, &stream, bytes).unwrap();
            let grown = buffer.grow(2 * bytes).unwrap();
            let again = buffer.grow(3 * bytes).unwrap();
            drop((grown, buffer));
            again.close().unwrap();
        }
        drain(t);
        if let Some(sim) = t.sim() {
            assert_eq!(alive(sim), [0, 0, 0]);
            assert_eq!(free_bytes(t), before);
        }
        // On a shared device others come and go, but not 64 times this.
        assert!(before.saturating_sub(free_bytes(t)) < 32 * bytes);
    });
}

/// S70: addresses that weren't given aren't freed; the growth comes about elsewhere, and the refusal is told.
#[test]
fn addresses_behind_that_are_refused_are_not_freed_and_the_growth_comes_about_elsewhere() {
    let world = World::new();
    let stream = world.stream();
    let memory = VirtualMemory::new(&world.device, VirtualMemoryOptions::default()).unwrap();
    let buffer = VirtualBuffer::from_slice(&memory, &stream, &words(100)).unwrap();
    world.faults().arm(Fault::refused(E).on(Call::cuMemAddressReserve).nth(1));
    let mut grown = None;
    let warning = world.warning(|| grown = Some(buffer.grow(1 << 20).unwrap()));
    world.faults().disarm();
    assert_eq!(told(&warning), (Some("cuMemAddressReserve"), Some(E.0), Some(Fate::Released)));
    assert_eq!(warning.object().kind, ObjectKind::Reservation);
    let grown = grown.unwrap();
    assert_ne!(grown.device_ptr(), buffer.device_ptr());
    assert_eq!(grown.view(..100).unwrap().to_vec().unwrap(), words(100));
    drop(grown);
    world.driver.reclaim().drain(super::PATIENCE).unwrap();

    // Refused elsewhere as well: that is the error, with the first one attached, and the buffer is as it was.
    world.faults().arm(Fault::refused(E).on(Call::cuMemAddressReserve).nth(1));
    world.faults().arm(Fault::refused(CUresult(9002)).on(Call::cuMemAddressReserve).nth(2));
    let before = alive(&world.sim);
    let error = buffer.grow(1 << 20).unwrap_err();
    world.faults().disarm();
    assert!(error.is(CUresult(9002)), "{error}");
    let first = |note: &Note| matches!(note, Note::Failed(failure) if failure.status == E);
    assert!(error.notes().iter().any(first), "{error}");
    assert_eq!(alive(&world.sim), before);
    assert_eq!(buffer.to_vec().unwrap(), words(100));
    assert_eq!(world.sim.violations(), []);
}

/// S71: every mapping is unmapped by its own size, whatever sizes were asked for.
#[test]
fn a_buffer_that_grew_by_odd_sizes_twice_is_unmapped_part_by_part() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let memory = memory(t);
        let granule = memory.granularity_bytes();
        let first = VirtualBuffer::<u8>::uninit(&memory, &stream, granule).unwrap();
        let second = first.grow(granule + 1).unwrap();
        let third = second.grow(3 * granule + 1).unwrap();
        assert_eq!((second.size_bytes(), second.mapped_bytes()), (granule + 1, 2 * granule));
        assert_eq!((third.mapped_bytes(), third.parts()), (4 * granule, 3));
        drop(second);
        first.close().unwrap();
        third.close().unwrap();
        drain(t);
        if let Some(sim) = t.sim() {
            assert_eq!(alive(sim), [0, 0, 0]);
        }
    });
}

/// S73: where memory runs out in the middle, what was mapped before is unmapped and released, the last first, and the
/// same is made once there is memory.
#[test]
fn running_out_of_memory_at_any_part_leaves_nothing_mapped_and_a_retry_works() {
    run_simulated(|t, sim| {
        let stream = t.device().new_stream().unwrap();
        let granule = memory(t).granularity_bytes();
        let memory = memory_with(t, VirtualMemoryOptions::default().part_bytes(granule));
        let make = || VirtualBuffer::<u8>::uninit(&memory, &stream, 4 * granule);
        for failing in 1..=4_usize {
            let before = alive(sim);
            let out = Fault::refused(CUresult::OUT_OF_MEMORY).on(Call::cuMemCreate);
            t.faults().arm(out.nth(u64::try_from(failing).unwrap()));
            let (error, calls) = t.calls(|| make().unwrap_err());
            t.faults().disarm();
            assert!(error.is(CUresult::OUT_OF_MEMORY), "{error}");
            assert_eq!(alive(sim), before);
            let undo = ["cuMemUnmap", "cuMemRelease"].repeat(failing - 1);
            let undo = [&undo[..], &["cuMemAddressFree"]].concat();
            assert_eq!(calls[calls.len() - undo.len()..], undo, "{calls:?}");
            drop(make().unwrap());
            drain(t);
        }
    });
}

/// S74: a range is unmapped after the kernels that use it, on its home stream and on one that was told.
#[test]
#[expect(unsafe_code, reason = "launches kernels")]
fn a_range_is_unmapped_after_the_work_that_uses_it() {
    run(|t| {
        let (home, other) = (t.device().new_stream().unwrap(), t.device().new_stream().unwrap());
        let kernels = t.kernels();
        let (fill, spin) = (kernels.kernel("fill").unwrap(), kernels.kernel("spin").unwrap());
        let config = LaunchConfig::for_len(64);
        let once = LaunchConfig::for_len(1);
        for stream in [&home, &other] {
            let mut buffer = VirtualBuffer::<u32>::uninit(&memory(t), &home, 64).unwrap();
            // SAFETY: the parameter is a number.
            unsafe { spin.launch(stream, once, (20_000_000_u64,)) }.unwrap();
            // SAFETY: the parameters are (pointer, u32, u32), and the buffer has 64 words, which nothing else uses.
            unsafe { fill.launch(stream, config, (&mut buffer, 7_u32, 64_u32)) }.unwrap();
            drop(buffer);
            drain(t);
            // Unmapped under the kernel it would be a fault by now.
            stream.synchronize().unwrap();
        }
    });
}

/// S74: what runs on the home stream needn't be told, whichever way the buffer ends.
#[test]
fn a_range_is_unmapped_after_the_fills_and_copies_of_its_home_stream() {
    for seed in 0..10 {
        let mut options = SimOptions::default();
        options.seed = seed;
        let world = World::of(Sim::with_options(options));
        let stream = world.stream();
        let memory = VirtualMemory::new(&world.device, VirtualMemoryOptions::default()).unwrap();
        let ways: [fn(VirtualBuffer<u8>); 3] = [
            drop,
            |buffer| drop(buffer.into_buffer()),
            |buffer| assert_eq!(buffer.close().unwrap(), Closed::Destroyed),
        ];
        for end in ways {
            let buffer = VirtualBuffer::<u8>::zeroed(&memory, &stream, 100).unwrap();
            end(buffer);
            world.driver.reclaim().drain(super::PATIENCE).unwrap();
        }
        stream.synchronize().unwrap();
        assert_eq!(world.sim.violations(), [], "{seed}");
        assert_eq!(world.sim.live(SimKind::Mapping), 0);
    }
}

/// S74: a buffer that is dropped has marked what its home stream has queued by then.
#[test]
fn what_becomes_of_the_home_stream_after_a_buffer_was_dropped_does_not_keep_it_mapped() {
    let world = World::new();
    let stream = world.stream();
    let memory = VirtualMemory::new(&world.device, VirtualMemoryOptions::default()).unwrap();
    let by_hand = world.driver.reclaim().run_by_hand();
    let (buffer, kept) = {
        let make = || VirtualBuffer::<u8>::zeroed(&memory, &stream, 100).unwrap();
        (make(), make())
    };
    let token = kept.as_buffer().keep();
    drop((buffer, kept));
    raw::begin(&stream, raw::RELAXED);
    assert_eq!(world.warnings(|| while by_hand.step() {}), []);
    assert_eq!(world.sim.live(SimKind::Mapping), 1, "the one that is kept");
    assert!(raw::is_captured(&stream));
    raw::end(&stream);
    // Who keeps it may queue work until it lets go of it.
    drop(token);
    assert_eq!(world.warnings(|| while by_hand.step() {}), []);
    assert_eq!(world.sim.live(SimKind::Mapping), 0);
    assert_eq!(world.sim.violations(), []);
}

/// S74: the mark of a dropped buffer is told where it fails, and the range is unmapped all the same.
#[test]
fn a_home_stream_that_can_not_be_marked_at_the_drop_is_asked_at_the_end() {
    let world = World::new();
    let stream = world.stream();
    let memory = VirtualMemory::new(&world.device, VirtualMemoryOptions::default()).unwrap();
    let buffer = VirtualBuffer::<u8>::zeroed(&memory, &stream, 10).unwrap();
    let by_hand = world.driver.reclaim().run_by_hand();
    world.faults().arm(Fault::refused(E).on(Call::cuEventRecord).nth(1));
    let warning = world.warning(|| {
        drop(buffer);
        while by_hand.step() {}
    });
    world.faults().disarm();
    assert_eq!(told(&warning), (Some("cuEventRecord"), Some(E.0), Some(Fate::Unknown)));
    assert_eq!(world.sim.live(SimKind::Mapping), 0);
    assert_eq!(world.sim.violations(), []);
}

/// S74: where it can't be waited for, the range stays mapped, and that is told once.
#[test]
fn a_range_whose_work_can_t_be_waited_for_stays_mapped() {
    let world = World::new();
    let stream = world.stream();
    let memory = VirtualMemory::new(&world.device, VirtualMemoryOptions::default()).unwrap();
    let buffer = VirtualBuffer::<u8>::zeroed(&memory, &stream, 10).unwrap();
    world.faults().arm(Fault::refused(E).on(Call::cuEventSynchronize));
    let warnings = world.warnings(|| {
        drop(buffer);
        world.driver.reclaim().drain(super::PATIENCE).unwrap();
    });
    world.faults().disarm();
    let leaked: Vec<_> =
        warnings.iter().filter(|warning| warning.fate() == Some(Fate::Leaked)).collect();
    assert_eq!(leaked.len(), 1, "{warnings:?}");
    assert_eq!(leaked[0].object().kind, ObjectKind::MappedMemory);
    assert_eq!(world.sim.live(SimKind::Mapping), 1);
    assert_eq!(world.sim.violations(), []);
    assert_eq!(memory.driver().reclaim().pending(), 0);
}

/// S75: addresses are never given up while somebody holds them, so they needn't be had again.
#[test]
fn a_buffer_that_shrinks_and_grows_never_lets_go_of_its_addresses() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let granule = memory(t).granularity_bytes();
        let options =
            VirtualMemoryOptions::default().reserve_bytes(4 * granule).part_bytes(granule);
        let memory = memory_with(t, options);
        let mut buffer = VirtualBuffer::from_slice(&memory, &stream, &words(100)).unwrap();
        let address = buffer.device_ptr();
        let ((), calls) = t.calls(|| {
            for len in [granule, 10, granule / 2, 20] {
                let next =
                    if len > buffer.len() { buffer.grow(len) } else { buffer.shrink(len) }.unwrap();
                std::mem::replace(&mut buffer, next).close().unwrap();
                assert_eq!(buffer.device_ptr(), address);
            }
        });
        assert!(!calls.iter().any(|call| call.starts_with("cuMemAddress")), "{calls:?}");
        assert_eq!(buffer.view(..10).unwrap().to_vec().unwrap(), words(10));
        drop(buffer);
        drain(t);
    });
}
