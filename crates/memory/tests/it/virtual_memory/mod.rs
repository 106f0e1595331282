//! Virtual memory: made, used, grown, shrunk, given access to.

mod access;
mod counts;
mod grow;
#[cfg(unix)]
mod process;
mod scenario;

use cuhold_handles::{Access, Closed, ErrorKind, LaunchConfig, PhysicalLocation, ShareableHandle};
use cuhold_memory::{
    Buffer, Granularity, MemoryResource as _, Residence, VirtualBuffer, VirtualMemory,
    VirtualMemoryOptions,
};
use cuhold_testkit::{Kit, run, run_simulated};
use std::{sync::Arc, time::Duration};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn memory_with(t: &Kit, options: VirtualMemoryOptions) -> VirtualMemory {
    VirtualMemory::new(t.device(), options).unwrap()
}

pub(crate) fn memory(t: &Kit) -> VirtualMemory {
    memory_with(t, VirtualMemoryOptions::default())
}

/// Words that count up.
pub(crate) fn words(count: u32) -> Vec<u32> {
    (0..count).collect()
}

/// Waits for what was left to the reclaimer.
pub(crate) fn drain(t: &Kit) {
    t.driver().reclaim().drain(PATIENCE).unwrap();
}

#[test]
fn a_plain_buffer_of_virtual_memory_is_used_like_any_other() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let memory = Arc::new(memory(t));
        let mut buffer = Buffer::<u32>::zeroed_in(&memory, &stream, 1000).unwrap();
        assert_eq!(buffer.device_ptr() % memory.granularity_bytes() as u64, 0);
        buffer.view_mut(10..20).unwrap().fill(7).unwrap();
        assert_eq!(buffer.view(9..12).unwrap().to_vec().unwrap(), [0, 7, 7]);
        let other = Buffer::from_slice_in(&memory, &stream, &words(1000)).unwrap();
        buffer.copy_from(&other).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), words(1000));
        assert_ne!(other.device_ptr(), buffer.device_ptr());
        assert!(Buffer::<u8>::uninit_in(&memory, &stream, 0).unwrap().is_empty());
        assert_eq!(buffer.close().unwrap(), Closed::Destroyed);
        drop(other);
        drain(t);
    });
}

#[test]
fn sizes_are_rounded_up_to_the_granularity_and_both_are_told() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let memory = memory(t);
        let granule = memory.granularity_bytes();
        let one = VirtualBuffer::<u8>::uninit(&memory, &stream, 1).unwrap();
        let two = VirtualBuffer::<u8>::uninit(&memory, &stream, granule + 1).unwrap();
        assert_eq!((one.size_bytes(), one.mapped_bytes(), one.parts()), (1, granule, 1));
        assert_eq!((two.size_bytes(), two.mapped_bytes()), (granule + 1, 2 * granule));
        assert_eq!(two.reserved_bytes(), 2 * granule);
        let none = VirtualBuffer::<u8>::uninit(&memory, &stream, 0).unwrap();
        assert_eq!((none.mapped_bytes(), none.device_ptr(), none.parts()), (0, 0, 0));
        let grown = none.grow(10).unwrap();
        assert_eq!(grown.mapped_bytes(), granule);
        drop((one, two, grown));
        drain(t);
    });
}

#[test]
fn a_size_that_can_t_be_had_is_refused_before_any_call() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let memory = memory(t);
        let ((), calls) = t.calls(|| {
            let error = VirtualBuffer::<u64>::uninit(&memory, &stream, usize::MAX).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Argument);
            let buffer = VirtualBuffer::<u8>::uninit(&memory, &stream, 0).unwrap();
            let error = buffer.shrink(1).unwrap_err();
            assert_eq!(
                error.to_string(),
                "len: 1, and the buffer has 0 elements: `grow` makes it larger"
            );
        });
        assert_eq!(calls, [""; 0]);
    });
}

#[test]
fn options_are_checked_as_a_whole_before_anything_is_made() {
    run(|t| {
        let refused = |options: VirtualMemoryOptions| {
            let (error, calls) = t.calls(|| VirtualMemory::new(t.device(), options).unwrap_err());
            assert_eq!((error.kind(), calls.as_slice()), (ErrorKind::Argument, &[""; 0][..]));
            error.to_string()
        };
        let options = VirtualMemoryOptions::default;
        assert_eq!(
            refused(options().alignment_bytes(3)),
            "alignment_bytes: 3, and it must be a power of two, or 0"
        );
        assert_eq!(
            refused(options().peer(t.device(), Access::Read)),
            "peers: device 0 stands in the list twice, or is the device itself"
        );
        assert_eq!(refused(options().access(Access::None)), "access: no device would have any");
        let host = options().location(PhysicalLocation::Host).shareable();
        assert!(refused(host).starts_with("handle: "));
        let driver = t.driver().isolated();
        let other = cuhold_handles::Device::with_driver(&driver, 0).unwrap();
        assert!(refused(options().peer(&other, Access::Read)).starts_with("peers"));
        drop(other);
        driver.close().unwrap();
    });
}

#[test]
fn alignment_room_and_parts_are_as_asked() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let granule = memory(t).granularity_bytes();
        let options = VirtualMemoryOptions::default()
            .granularity(Granularity::Recommended)
            .alignment_bytes(64 << 20)
            .reserve_bytes(16 * granule)
            .part_bytes(granule + 1);
        let memory = memory_with(t, options);
        let granule = memory.granularity_bytes();
        let buffer = VirtualBuffer::<u8>::uninit(&memory, &stream, 5 * granule).unwrap();
        assert_eq!(buffer.device_ptr() % (64 << 20), 0);
        assert!(buffer.reserved_bytes() >= 16 * granule);
        // Of at most two granules each.
        assert_eq!((buffer.mapped_bytes(), buffer.parts()), (5 * granule, 3));
        drop(buffer);
        drain(t);
    });
}

#[test]
fn what_is_copied_and_filled_goes_over_the_seams_between_parts() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let granule = memory(t).granularity_bytes();
        let memory = memory_with(t, VirtualMemoryOptions::default().part_bytes(granule));
        let len = 3 * granule / 4;
        let mut buffer = VirtualBuffer::<u32>::zeroed(&memory, &stream, len).unwrap();
        assert_eq!(buffer.parts(), 3);
        let count = u32::try_from(len).unwrap();
        buffer.as_view_mut().write_slice(&words(count)).unwrap();
        let other = VirtualBuffer::<u32>::zeroed(&memory, &stream, len).unwrap();
        let mut other = other.into_buffer();
        other.copy_from(&buffer).unwrap();
        assert_eq!(other.to_vec().unwrap(), words(count));
        // Across the first seam.
        let seam = granule / 4;
        buffer.view_mut(seam - 2..seam + 2).unwrap().fill(9).unwrap();
        let around = buffer.view(seam - 3..seam + 3).unwrap().to_vec().unwrap();
        let first = u32::try_from(seam).unwrap();
        assert_eq!(around, [first - 3, 9, 9, 9, 9, first + 2]);
        drop((buffer, other));
        drain(t);
    });
}

#[test]
#[expect(unsafe_code, reason = "launches a kernel")]
fn a_kernel_that_gets_a_buffer_tells_it_its_stream() {
    run(|t| {
        let (home, other) = (t.device().new_stream().unwrap(), t.device().new_stream().unwrap());
        let fill = t.kernels().kernel("fill").unwrap();
        let mut buffer = VirtualBuffer::<u32>::uninit(&memory(t), &home, 64).unwrap();
        let config = LaunchConfig::for_len(64);
        let ((), calls) = t.calls(|| {
            // SAFETY: the parameters are (pointer, u32, u32), and the buffer has 64 words, which nothing else uses.
            unsafe { fill.launch(&other, config, (&mut buffer, 7_u32, 64_u32)) }.unwrap();
        });
        assert_eq!(calls, ["cuLaunchKernelEx"]);
        other.synchronize().unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [7; 64]);
        let (_, calls) = t.calls(|| buffer.close().unwrap());
        let waits = calls.iter().filter(|call| **call == "cuEventSynchronize").count();
        assert_eq!(waits, 2, "{calls:?}");
    });
}

#[test]
fn a_stream_of_another_driver_or_without_an_owner_makes_no_buffer() {
    run(|t| {
        let memory = memory(t);
        let driver = t.driver().isolated();
        let other = cuhold_handles::Device::with_driver(&driver, 0).unwrap();
        let foreign = other.new_stream().unwrap();
        let error = VirtualBuffer::<u8>::uninit(&memory, &foreign, 1).unwrap_err();
        assert!(error.to_string().starts_with("stream"), "{error}");
        drop((foreign, other));
        driver.close().unwrap();
    });
}

#[test]
fn memory_of_the_host_is_used_by_the_device() {
    run_simulated(|t, _| {
        let stream = t.device().new_stream().unwrap();
        for (location, residence) in [
            (PhysicalLocation::Host, Residence::Host),
            (PhysicalLocation::HostNuma(0), Residence::HostNuma(0)),
        ] {
            let memory = memory_with(t, VirtualMemoryOptions::default().location(location));
            assert_eq!(memory.residence(), residence);
            let buffer = VirtualBuffer::from_slice(&memory, &stream, &words(100)).unwrap();
            let grown = buffer.grow(10_000_000).unwrap();
            drop(buffer);
            assert_eq!(grown.view(..100).unwrap().to_vec().unwrap(), words(100));
        }
        drain(t);
    });
}

#[test]
fn a_buffer_goes_by_fabric_where_there_is_one_and_is_refused_where_there_is_none() {
    run_simulated(|t, _| {
        let stream = t.device().new_stream().unwrap();
        let options = VirtualMemoryOptions::default().handle(ShareableHandle::Fabric);
        let memory = memory_with(t, options);
        let buffer = VirtualBuffer::from_slice(&memory, &stream, &words(100)).unwrap();
        let handles = buffer.export_fabric().unwrap();
        let imported =
            VirtualBuffer::<u32>::import_fabric(&memory, &stream, &handles, 100).unwrap();
        assert_eq!(imported.to_vec().unwrap(), words(100));
        assert!(buffer.export().is_err(), "it wasn't made for files");
        drop((buffer, imported));
        drain(t);
    });
    let options = {
        let mut options = cuhold_driver_sim::SimOptions::default();
        options.fabric = false;
        options
    };
    cuhold_testkit::run_with(options, |t| {
        if t.sim().is_none() {
            return t.skip("needs a machine without a fabric");
        }
        let stream = t.device().new_stream().unwrap();
        let options = VirtualMemoryOptions::default().handle(ShareableHandle::Fabric);
        let memory = memory_with(t, options);
        let error = VirtualBuffer::<u8>::uninit(&memory, &stream, 1).unwrap_err();
        assert!(error.is(cuhold_driver_sys::CUresult::NOT_PERMITTED), "{error}");
    });
}
