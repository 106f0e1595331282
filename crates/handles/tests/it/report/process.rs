//! What reaches stderr, seen from outside: each of these tests runs itself again as a child process.
//!
//! The child's stderr is a datagram socket, so that each of its writes arrives by itself.

use super::{failure, stream, warning};
use cuhold_driver_sys::CUresult;
use cuhold_handles::{Action, CudaWarning, Current, Fate, Reports, Sink};
use std::{
    env,
    os::{fd::OwnedFd, unix::net::UnixDatagram},
    panic,
    process::{Command, ExitStatus, Stdio},
};

const CHILD: &str = "CUHOLD_TEST_CHILD";

/// Runs the test of this name again, with its stderr there.
fn run_again(test: &str, stderr: Stdio) -> ExitStatus {
    again(test).stderr(stderr).status().unwrap()
}

fn again(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", &format!("report::process::{test}"), "--nocapture"])
        .env(CHILD, test)
        .stdout(Stdio::null());
    command
}

/// In the child runs `body` and answers `None`; in the parent answers what the child wrote, write by write.
fn writes_of(test: &str, body: impl FnOnce()) -> Option<Vec<String>> {
    if env::var_os(CHILD).is_some() {
        // The default hook would write to stderr too.
        panic::set_hook(Box::new(|_| ()));
        body();
        return None;
    }
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let status = run_again(test, Stdio::from(OwnedFd::from(theirs)));
    assert!(status.success(), "{status}");
    ours.set_nonblocking(true).unwrap();
    let mut writes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = ours.recv(&mut buffer) {
        writes.push(String::from_utf8(buffer[..len].to_vec()).unwrap());
    }
    Some(writes)
}

const LINE: &str = "cuStreamDestroy answered CUDA_ERROR_INVALID_HANDLE (400) for stream 0x100 (#1), leaked: the handle \
                    isn't one, or is another context's";

#[test]
fn the_default_sink_writes_one_line_in_one_write() {
    let writes = writes_of("the_default_sink_writes_one_line_in_one_write", || {
        let reports = Reports::new();
        reports.raise(warning(1));
        reports.raise(CudaWarning::note(stream(2), "two\nlines\u{1b}[0m"));
    });
    let Some(writes) = writes else { return };
    let expected = [
        format!("cuhold: warning: {LINE}\n"),
        "cuhold: warning: stream 0x100 (#2): two lines [0m\n".to_owned(),
    ];
    assert_eq!(writes, expected);
}

#[test]
fn a_line_that_is_too_long_is_cut_with_a_mark() {
    const LONG: &str = include_str!("mod.rs");
    let writes = writes_of("a_line_that_is_too_long_is_cut_with_a_mark", || {
        Reports::new().raise(CudaWarning::note(stream(1), LONG));
    });
    let Some(writes) = writes else { return };
    assert_eq!(writes.len(), 1);
    assert!(writes[0].ends_with("…\n") && writes[0].len() < 1024, "{writes:?}");
    assert_eq!(writes[0].matches('\n').count(), 1);
}

#[test]
fn a_sink_that_panics_costs_one_plain_line_that_has_the_warning() {
    let name = "a_sink_that_panics_costs_one_plain_line_that_has_the_warning";
    let writes = writes_of(name, || {
        let reports = Reports::new();
        drop(reports.set_sink(Sink::new(|_| panic!("disk {}", "full"))));
        reports.raise(warning(1));
        reports.raise(warning(1));
    });
    let Some(writes) = writes else { return };
    let line = format!("cuhold: the sink panicked, disk full, over: {LINE}\n");
    assert_eq!(writes, [line.clone(), line]);
}

#[test]
fn a_sink_that_cannot_be_dropped_costs_one_plain_line() {
    struct PanicsInDrop;
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("{:-<100}", "");
        }
    }
    let writes = writes_of("a_sink_that_cannot_be_dropped_costs_one_plain_line", || {
        let captured = PanicsInDrop;
        let reports = Reports::new();
        drop(reports.set_sink(Sink::new(move |_| {
            let _captured = &captured;
        })));
    });
    let Some(writes) = writes else { return };
    assert_eq!(writes, [format!("cuhold: dropping a sink panicked, {:-<45}…\n", "")]);
}

#[test]
fn a_user_s_sink_leaves_stderr_alone() {
    let writes = writes_of("a_user_s_sink_leaves_stderr_alone", || {
        let reports = Reports::new();
        drop(reports.set_sink(Sink::new(|_| ())));
        reports.raise(warning(1));
        let _capture = reports.capture(1);
        drop(reports.set_sink(Sink::default()));
        reports.raise(warning(1));
    });
    let Some(writes) = writes else { return };
    assert!(writes.is_empty(), "{writes:?}");
}

#[test]
fn the_default_sink_bears_a_stderr_that_nobody_reads() {
    let name = "the_default_sink_bears_a_stderr_that_nobody_reads";
    if env::var_os(CHILD).is_some() {
        let reports = Reports::new();
        let failed = CudaWarning::failed(failure(CUresult::UNKNOWN), stream(1), Fate::Unknown);
        reports.raise(failed.with_current(Current::None));
        assert_eq!(reports.counts().delivered, 1);
        return;
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = run_again(name, Stdio::from(OwnedFd::from(writer)));
    assert!(status.success(), "{status}");
}

#[test]
fn the_environment_is_read_by_its_variable() {
    let name = "the_environment_is_read_by_its_variable";
    if let Some(expected) = env::var_os(CHILD) {
        let expected = expected.into_string().unwrap();
        assert_eq!(format!("{:?}", Action::from_env().map_err(|error| error.word)), expected);
        return;
    }
    for (word, expected) in
        [(None, "Ok(None)"), (Some("once"), "Ok(Some(Once))"), (Some("loud"), "Err(\"loud\")")]
    {
        let mut child = again(name);
        child.env_remove("CUHOLD_WARNINGS").env(CHILD, expected);
        child.envs(word.map(|word| ("CUHOLD_WARNINGS", word)));
        let output = child.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
