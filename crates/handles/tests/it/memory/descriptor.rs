//! File descriptors: closed once, and a failing close is told.

use cuhold_handles::{
    Closed, ErrorKind, Fate, FileDescriptor, ObjectKind, PhysicalAllocation, PhysicalOptions,
    Status, WarningKind,
};
use cuhold_testkit::run;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

fn pipe() -> (OwnedFd, OwnedFd) {
    let (read, write) = std::io::pipe().unwrap();
    (read.into(), write.into())
}

/// A number that no open file of this process has.
fn closed_number() -> RawFd {
    RawFd::MAX
}

#[test]
fn a_closed_file_is_closed() {
    run(|t| {
        let (read, write) = pipe();
        let file = FileDescriptor::new(t.driver(), write);
        let (closed, calls) = t.calls(|| file.close().unwrap());
        assert_eq!((closed, calls.as_slice()), (Closed::Destroyed, &[""; 0][..]));
        // The other end sees it.
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut std::fs::File::from(read), &mut rest).unwrap();
        assert_eq!(rest, [0; 0]);
    });
}

#[test]
fn a_dropped_file_is_closed_and_one_that_was_given_away_is_not() {
    run(|t| {
        let (read, write) = pipe();
        let file = FileDescriptor::new(t.driver(), write);
        let owned = file.into_owned();
        drop(FileDescriptor::new(t.driver(), owned));
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut std::fs::File::from(read), &mut rest).unwrap();
    });
}

#[test]
fn a_failing_close_is_an_error_of_the_system_with_its_number() {
    run(|t| {
        // SAFETY: no file is open under the number, which nothing but the close finds out.
        let file = unsafe { FileDescriptor::from_raw(t.driver(), closed_number()) }.unwrap();
        let refused = file.close().unwrap_err();
        assert!(refused.value.is_none());
        assert_eq!(refused.error.kind(), ErrorKind::System);
        let Some(Status::Errno(errno)) = refused.error.status() else { panic!("an errno") };
        assert_eq!(errno.0, 9, "EBADF");
        assert!(refused.error.to_string().starts_with("close failed: "), "{}", refused.error);
    });
}

#[test]
fn a_failing_close_in_a_drop_is_one_warning_that_names_the_file() {
    run(|t| {
        let capture = t.driver().reports().capture(2);
        // SAFETY: as above.
        drop(unsafe { FileDescriptor::from_raw(t.driver(), closed_number()) }.unwrap());
        let [warning] = capture.take()[..] else { panic!("one warning") };
        assert_eq!(warning.kind(), WarningKind::Note);
        assert_eq!(warning.object().kind, ObjectKind::FileDescriptor);
        assert_eq!(warning.object().raw, u64::try_from(closed_number()).unwrap());
        assert_eq!(warning.fate(), Some(Fate::Unknown));
        assert!(warning.to_string().contains("closing it failed"), "{warning}");
    });
}

#[test]
fn negative_numbers_are_no_files() {
    run(|t| {
        // SAFETY: refused.
        let error = unsafe { FileDescriptor::from_raw(t.driver(), -1) }.unwrap_err();
        assert_eq!(error.to_string(), "file: -1, and it must be at least 0");
    });
}

#[test]
fn physical_memory_goes_through_a_file_which_stays_the_caller_s() {
    run(|t| {
        let bytes =
            PhysicalAllocation::granularity_bytes(t.device(), PhysicalOptions::default()).unwrap();
        let memory =
            PhysicalAllocation::new(t.device(), bytes, PhysicalOptions::shareable()).unwrap();
        let file = memory.export().unwrap();
        assert!(file.as_raw_fd() >= 0);
        let imported = PhysicalAllocation::import(t.device(), &file, bytes).unwrap();
        assert_eq!(imported.bytes(), bytes);
        assert_ne!(imported, memory);
        // It is open still, and gives the memory once more.
        PhysicalAllocation::import(t.device(), &file, bytes).unwrap().close().unwrap();
        // What is no such file is refused, and is open still.
        let (read, write) = pipe();
        assert!(PhysicalAllocation::import(t.device(), &write, bytes).is_err());
        std::io::Write::write_all(&mut std::fs::File::from(write), b"open").unwrap();
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut std::fs::File::from(read), &mut rest).unwrap();
        assert_eq!(rest, b"open");
        let plain = PhysicalAllocation::new(t.device(), bytes, PhysicalOptions::default()).unwrap();
        assert!(plain.export().unwrap_err().is(cuhold_driver_sys::CUresult::INVALID_VALUE));
    });
}
