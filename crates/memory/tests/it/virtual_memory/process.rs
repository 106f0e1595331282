//! Virtual memory between processes: two real ones on a real driver, two simulated ones of one machine.

#![expect(unsafe_code, reason = "a child takes over files that it inherits")]

use super::{drain, memory, memory_with, words};
use cuhold_driver_sim::{Sim, SimOptions};
use cuhold_driver_sys::{CUresult, Fault};
use cuhold_handles::{Device, Driver, ErrorKind};
use cuhold_memory::{ExportedPart, VirtualBuffer, VirtualMemory, VirtualMemoryOptions};
use cuhold_testkit::{Alone, Kit, is_alone, run, run_real, run_simulated};
use std::{
    env,
    io::Read as _,
    os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd},
};

const E: CUresult = CUresult(9001);

/// Memory in parts that other processes import.
fn shareable(device: &Device) -> VirtualMemory {
    let options = VirtualMemoryOptions::default().shareable();
    let bytes = VirtualMemory::new(device, options.clone()).unwrap().granularity_bytes();
    VirtualMemory::new(device, options.part_bytes(bytes)).unwrap()
}

/// Another process of the simulated machine.
fn elsewhere(sim: &Sim) -> (Sim, Driver) {
    let there = sim.other_process(SimOptions::default());
    (there.clone(), Driver::from_api(there))
}

#[test]
fn another_process_maps_all_parts_side_by_side_and_frees_by_itself() {
    run_simulated(|t, sim| {
        let (there, driver) = elsewhere(sim);
        let far = Device::with_driver(&driver, 0).unwrap();
        let memory = shareable(t.device());
        let granule = memory.granularity_bytes();
        let stream = t.device().new_stream().unwrap();
        let mut buffer = VirtualBuffer::<u32>::zeroed(&memory, &stream, 3 * granule / 4).unwrap();
        buffer.view_mut(..100).unwrap().write_slice(&words(100)).unwrap();
        let parts = buffer.export().unwrap();
        assert_eq!(parts.iter().map(|part| part.bytes).collect::<Vec<_>>(), [granule; 3]);

        let imports = shareable(&far);
        let its_stream = far.new_stream().unwrap();
        let mut imported =
            VirtualBuffer::<u32>::import(&imports, &its_stream, parts, buffer.len()).unwrap();
        assert_eq!(imported.parts(), 3);
        assert_eq!(imported.view(..100).unwrap().to_vec().unwrap(), words(100));
        // Over a seam, and seen by the exporter.
        imported.view_mut(granule / 4 - 1..granule / 4 + 1).unwrap().fill(9).unwrap();
        its_stream.synchronize().unwrap();
        let around = buffer.view(granule / 4 - 2..granule / 4 + 2).unwrap();
        assert_eq!(around.to_vec().unwrap(), [0, 9, 9, 0]);
        // The exporter goes, and the memory stays.
        buffer.close().unwrap();
        assert_eq!(imported.view(..100).unwrap().to_vec().unwrap(), words(100));
        let grown = imported.grow(4 * granule / 4).unwrap();
        assert_eq!(grown.view(..100).unwrap().to_vec().unwrap(), words(100));
        imported.close().unwrap();
        grown.close().unwrap();
        drop((its_stream, imports, far));
        driver.close().unwrap();
        assert_eq!((there.violations(), there.leaks()), (Vec::new(), Vec::new()));
    });
}

#[test]
fn what_can_t_be_imported_gives_all_files_back_open_and_leaves_nothing() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let memory = shareable(t.device());
        let granule = memory.granularity_bytes();
        let buffer = VirtualBuffer::<u8>::uninit(&memory, &stream, 2 * granule).unwrap();
        let (read, write) = std::io::pipe().unwrap();
        let mut parts = buffer.export().unwrap();
        parts.push(ExportedPart { file: OwnedFd::from(write), bytes: granule });
        let import = |parts| VirtualBuffer::<u8>::import(&memory, &stream, parts, 3 * granule);
        let (refused, calls) = t.calls(|| import(parts).unwrap_err());
        assert!(refused.error.is(CUresult::UNKNOWN), "{}", refused.error);
        let mapped = calls.iter().filter(|call| **call == "cuMemMap").count();
        let unmapped = calls.iter().filter(|call| **call == "cuMemUnmap").count();
        assert_eq!((mapped, unmapped), (2, 2));
        // Each of the files is as good as before.
        let mut parts = refused.value;
        let foreign = parts.pop().unwrap();
        std::io::Write::write_all(&mut std::fs::File::from(foreign.file), b"open").unwrap();
        let mut said = Vec::new();
        std::fs::File::from(OwnedFd::from(read)).read_to_end(&mut said).unwrap();
        assert_eq!(said, b"open");
        let imported = VirtualBuffer::<u8>::import(&memory, &stream, parts, 2 * granule).unwrap();
        drop((buffer, imported));
        drain(t);
    });
}

#[test]
fn parts_that_can_t_be_a_buffer_s_are_refused_before_any_call() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let memory = shareable(t.device());
        let granule = memory.granularity_bytes();
        let buffer = VirtualBuffer::<u8>::uninit(&memory, &stream, granule).unwrap();
        let parts = buffer.export().unwrap();
        let ((), calls) = t.calls(|| {
            let import = |parts, len| VirtualBuffer::<u8>::import(&memory, &stream, parts, len);
            let refused = import(parts, granule + 1).unwrap_err();
            assert_eq!(refused.error.kind(), ErrorKind::Argument);
            let refused = import(refused.value, 0).unwrap_err();
            let mut parts = refused.value;
            parts[0].bytes = granule - 1;
            let refused = import(parts, 1).unwrap_err();
            assert!(refused.error.to_string().starts_with("parts: one has"), "{}", refused.error);
            assert_eq!(refused.value.len(), 1);
        });
        assert_eq!(calls, [""; 0]);
        drop(buffer);
        drain(t);
    });
}

#[test]
fn an_import_that_fails_at_any_call_leaves_nothing() {
    run_simulated(|t, sim| {
        let stream = t.device().new_stream().unwrap();
        let memory = shareable(t.device());
        let granule = memory.granularity_bytes();
        let buffer = VirtualBuffer::from_slice(&memory, &stream, &words(100)).unwrap();
        let buffer = buffer.grow(3 * granule / 4).unwrap();
        let alive = || sim.live(cuhold_driver_sim::ObjectKind::PhysicalAllocation);
        let (before, mut parts) = (alive(), buffer.export().unwrap());
        for call in ["cuMemImportFromShareableHandle", "cuMemMap", "cuMemSetAccess"] {
            for nth in 1..=3 {
                t.faults().arm(Fault::refused(E).on_function(call).nth(nth));
                let refused =
                    VirtualBuffer::<u32>::import(&memory, &stream, parts, 100).unwrap_err();
                t.faults().disarm();
                assert!(refused.error.is(E), "{call} {nth}: {}", refused.error);
                assert_eq!(alive(), before, "{call} {nth}");
                parts = refused.value;
            }
        }
        let imported = VirtualBuffer::<u32>::import(&memory, &stream, parts, 100).unwrap();
        assert_eq!(imported.to_vec().unwrap(), words(100));
        drop((buffer, imported));
        drain(t);
    });
}

#[test]
fn memory_that_was_not_made_for_it_is_not_exported() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let buffer = VirtualBuffer::<u8>::uninit(&memory(t), &stream, 1).unwrap();
        assert!(buffer.export().unwrap_err().is(CUresult::INVALID_VALUE));
        let empty = VirtualBuffer::<u8>::uninit(
            &memory_with(t, VirtualMemoryOptions::default()),
            &stream,
            0,
        );
        assert_eq!(empty.unwrap().export().unwrap().len(), 0);
        drop(buffer);
        drain(t);
    });
}

const NAME: &str = "virtual_memory::process::two_processes_share_a_range_that_each_maps_by_itself";
const PARTS: &str = "CUHOLD_TEST_PARTS";

/// A copy of a file that a child inherits, by its number.
fn inherited(file: &OwnedFd) -> OwnedFd {
    // SAFETY: duplicates an open file; the copy isn't closed by starting a program.
    let copy = unsafe { libc::dup(std::os::fd::AsRawFd::as_raw_fd(file)) };
    assert!(copy >= 0);
    // SAFETY: made above, and nobody else's.
    unsafe { OwnedFd::from_raw_fd(copy) }
}

#[test]
fn two_processes_share_a_range_that_each_maps_by_itself() {
    run_real(|t, _| if is_alone(NAME) { import_in_child(t) } else { export_to_child(t) });
}

fn export_to_child(t: &Kit) {
    let stream = t.device().new_stream().unwrap();
    let memory = shareable(t.device());
    let granule = memory.granularity_bytes();
    let len = 3 * granule / 4;
    let mut buffer = VirtualBuffer::<u32>::zeroed(&memory, &stream, len).unwrap();
    buffer.view_mut(..1000).unwrap().write_slice(&words(1000)).unwrap();
    let parts = buffer.export().unwrap();
    let copies: Vec<OwnedFd> = parts.iter().map(|part| inherited(&part.file)).collect();
    let said: Vec<String> = copies
        .iter()
        .zip(&parts)
        .map(|(file, part)| format!("{}:{}", std::os::fd::AsRawFd::as_raw_fd(file), part.bytes))
        .collect();
    Alone::new(NAME).with(PARTS, said.join(",")).run();
    drop((copies, parts));
    // The child wrote over the seams, and is gone.
    for seam in [granule / 4, 2 * granule / 4] {
        let around = buffer.view(seam - 1..seam + 1).unwrap().to_vec().unwrap();
        assert_eq!(around, [77, 77]);
    }
    assert_eq!(buffer.view(..1000).unwrap().to_vec().unwrap(), words(1000));
    buffer.close().unwrap();
}

fn import_in_child(t: &Kit) {
    let said = env::var(PARTS).unwrap();
    let part = |one: &str| {
        let (file, bytes) = one.split_once(':').unwrap();
        let number: RawFd = file.parse().unwrap();
        // SAFETY: inherited under this number, for this to take over.
        let file = unsafe { OwnedFd::from_raw_fd(number) };
        ExportedPart { file, bytes: bytes.parse().unwrap() }
    };
    let parts: Vec<ExportedPart> = said.split(',').map(part).collect();
    let bytes: usize = parts.iter().map(|part| part.bytes).sum();
    let granule = parts[0].bytes;
    let stream = t.device().new_stream().unwrap();
    let memory = shareable(t.device());
    let mut imported = VirtualBuffer::<u32>::import(&memory, &stream, parts, bytes / 4).unwrap();
    assert_eq!(imported.view(..1000).unwrap().to_vec().unwrap(), words(1000));
    for seam in [granule / 4, 2 * granule / 4] {
        imported.view_mut(seam - 1..seam + 1).unwrap().fill(77).unwrap();
    }
    stream.synchronize().unwrap();
    imported.close().unwrap();
}

/// A number that a child was given must be the file's own.
#[test]
fn a_copy_of_a_file_has_a_number_of_its_own() {
    let (read, write) = std::io::pipe().unwrap();
    let (read, copy) = (OwnedFd::from(read), inherited(&OwnedFd::from(write)));
    drop(copy);
    let mut rest = Vec::new();
    let number = read.into_raw_fd();
    // SAFETY: given up a moment ago.
    let read = unsafe { OwnedFd::from_raw_fd(number) };
    std::fs::File::from(read).read_to_end(&mut rest).unwrap();
    assert_eq!(rest, [0; 0]);
}
