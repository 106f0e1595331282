//! Errors: their exact texts, what they are asked, and where each kind comes from.

#![expect(unsafe_code, reason = "pops a context that an operation left")]

use cuhold_driver_sim::{Sim, SimOptions};
use cuhold_driver_sys::{CUresult, Call, Failure, Fault, ffi::CUcontext};
use cuhold_handles::{
    AnyCall, Closed, Context, ContextFlags, Current, Device, Driver, Error, ErrorKind, Note,
    Refused, Result, Status, Stream,
};
use cuhold_testkit::{run, run_simulated};
use std::{env, error::Error as _, process::Command, sync::mpsc};

const E: CUresult = CUresult(9001);
const F: CUresult = CUresult(9002);

fn failed(call: Call, status: CUresult) -> Error {
    Error::from(Failure { call, status })
}

const FATAL: &str = "queued work failed earlier, and no CUDA work can be done in this process now; find the failing \
                     kernel with compute-sanitizer, and go on in a new process";

#[test]
fn a_failed_call_is_told_with_its_code_its_meaning_and_the_cause_where_it_is_known() {
    for (call, status, text) in [
        (
            Call::cuStreamCreate,
            CUresult::OUT_OF_MEMORY,
            "cuStreamCreate failed with CUDA_ERROR_OUT_OF_MEMORY (2): not enough memory, or not enough address space, \
             for the request"
                .to_owned(),
        ),
        (Call::cuStreamSynchronize, CUresult(9999), "cuStreamSynchronize failed with status 9999".to_owned()),
        (
            Call::cuStreamSynchronize,
            CUresult::LAUNCH_FAILED,
            format!(
                "cuStreamSynchronize failed with CUDA_ERROR_LAUNCH_FAILED (719): a kernel failed while it ran; {FATAL}"
            ),
        ),
        (
            Call::cuCtxCreate_v4,
            CUresult::MISSING,
            "cuCtxCreate is missing from this driver; it came with CUDA 12.5".to_owned(),
        ),
        (
            Call::cuStreamBeginCaptureToGraph,
            CUresult::MISSING,
            "cuStreamBeginCaptureToGraph is missing from this driver; it came with CUDA 12.3".to_owned(),
        ),
        (
            Call::cuEventRecord,
            CUresult::INVALID_HANDLE,
            "cuEventRecord failed with CUDA_ERROR_INVALID_HANDLE (400): the handle isn't one, or is another \
             context's; an event is recorded only on streams of the context that it was made in; make the event in \
             the stream's context"
                .to_owned(),
        ),
        (
            Call::cuMemcpyDtoD_v2,
            CUresult::INVALID_VALUE,
            "cuMemcpyDtoD failed with CUDA_ERROR_INVALID_VALUE (1): an argument is outside its range, or the handle \
             isn't known; a range lies outside its allocation, or memory of a pool is copied with another device's \
             context current; compare offset and length with both allocations"
                .to_owned(),
        ),
    ] {
        assert_eq!(failed(call, status).to_string(), text);
    }
}

#[test]
fn every_known_status_has_a_text_in_the_grammar_of_errors() {
    for call in [Call::cuInit, Call::cuLaunchKernelEx, Call::cuMemcpyHtoDAsync_v2] {
        for status in CUresult::KNOWN {
            let text = failed(call, *status).to_string();
            let head = format!("{} failed with {status}: ", call.name());
            assert!(text.starts_with(&head), "{text}");
            assert!(!text.ends_with('.') && !text.contains('\n') && !text.contains(". "), "{text}");
        }
    }
}

#[test]
fn what_is_refused_without_a_call_is_told_in_a_sentence() {
    for (error, kind, text) in [
        (
            Error::two_drivers("stream"),
            ErrorKind::Argument,
            "stream belongs to another driver than the object it is used with",
        ),
        (
            Error::in_callback(),
            ErrorKind::NotPermitted,
            "no CUDA call may be made inside a callback of the driver",
        ),
        (
            Error::forked(),
            ErrorKind::Forked,
            "this process was forked from one that used CUDA, and CUDA can't be used in it",
        ),
        (Error::state("the graph is done"), ErrorKind::State, "the graph is done"),
        (Error::new(ErrorKind::Load, "nothing found"), ErrorKind::Load, "nothing found"),
    ] {
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
        assert_eq!(format!("{error:?}"), format!("{kind:?}({text})"));
        assert_eq!((error.call(), error.notes(), error.completed()), (None, &[][..], None));
    }
}

#[test]
fn what_else_went_wrong_is_told_in_order_behind_the_first_failure() {
    let first = || failed(Call::cuEventRecord, E);
    let pop = Failure { call: Call::cuCtxPopCurrent_v2, status: F };
    for (error, tail) in [
        (first(), ""),
        (first().with_current(Current::None), "; no context is current"),
        (first().with_current(Current::Is(0x20)), "; context 0x20 is current"),
        (first().with_completed(1), "; the operation itself was carried out"),
        (first().with_completed(3), "; 3 parts of the operation were carried out"),
        (
            first().with_current(Current::Is(0x20)).with_completed(1),
            "; context 0x20 is current; the operation itself was carried out",
        ),
        (
            first().with_current(Current::Unknown(pop)),
            "; what is current isn't known, cuCtxPopCurrent answered status 9002",
        ),
        (
            first().with_note(Note::Failed(pop)).with_note(Note::Leaked { raw: 16 }),
            "; cuCtxPopCurrent answered status 9002; the object 0x10 is leaked, since it couldn't be ended here",
        ),
        (
            // A note that says what is current says it for the error, too.
            first()
                .with_note(Note::NotRestored { failure: Some(pop), now: Current::Is(0x20) })
                .with_current(Current::Is(0x20)),
            "; the caller's context wasn't restored (cuCtxPopCurrent answered status 9002); context 0x20 is current",
        ),
        (
            first().with_note(Note::NotRestored { failure: None, now: Current::None }),
            "; the caller's context may not be current; no context is current",
        ),
        (
            first().with_note(Note::ModeNotRestored(pop)),
            "; the thread's capture mode wasn't restored (cuCtxPopCurrent answered status 9002); it is relaxed now",
        ),
        (
            first().with_note(Note::UndoFailed(pop)),
            "; undoing it failed (cuCtxPopCurrent answered status 9002)",
        ),
        (first().with_note(Note::Text("in words".into())), "; in words"),
    ] {
        assert_eq!(error.to_string(), format!("cuEventRecord failed with status 9001{tail}"));
        // Whatever was added, the first failure is still it.
        assert_eq!(error.call(), Some(AnyCall::Driver(Call::cuEventRecord)));
        assert_eq!((error.kind(), error.status()), (ErrorKind::Driver, Some(Status::Driver(E))));
        assert!(error.is(E) && !error.is(F));
    }
}

#[test]
fn an_error_is_asked_for_its_kind_its_status_and_its_call() {
    let call = Call::cuStreamQuery;
    for (status, kind, told) in [
        (E, ErrorKind::Driver, Some(E)),
        (CUresult::INVALID_VALUE, ErrorKind::Driver, Some(CUresult::INVALID_VALUE)),
        (CUresult::NOT_PERMITTED, ErrorKind::NotPermitted, Some(CUresult::NOT_PERMITTED)),
        (CUresult::MISSING, ErrorKind::Missing, None),
    ] {
        // The short form and the long one answer alike.
        for error in [failed(call, status), failed(call, status).with_completed(1)] {
            assert_eq!((error.kind(), error.call()), (kind, Some(AnyCall::Driver(call))));
            assert_eq!(error.status(), told.map(Status::Driver));
            assert_eq!(error.is(status), told.is_some());
            assert_eq!(error.now_current(), Current::NotAsked);
        }
    }
    assert!(Error::forked().is(CUresult::NOT_INITIALIZED));
    assert_eq!(AnyCall::Driver(call).to_string(), "cuStreamQuery");
}

#[test]
fn an_error_is_two_words_and_can_be_cloned_and_sent() {
    fn is_shared<T: Send + Sync + Clone + std::error::Error + 'static>() {}
    is_shared::<Error>();
    assert_eq!((size_of::<Error>(), size_of::<Result<()>>()), (16, 16));
    let error = failed(Call::cuInit, E).with_note(Note::Text("more".into()));
    let clone = error.clone();
    let longer = clone.clone().with_note(Note::Text("and more".into()));
    assert_eq!(error.to_string(), clone.to_string());
    assert_eq!((error.notes().len(), longer.notes().len()), (1, 2));
}

#[test]
fn a_refusal_turns_into_its_error_by_a_question_mark() {
    fn close(stream: Stream) -> Result<Closed> {
        Ok(stream.close()?)
    }
    run(|t| {
        t.faults().arm(Fault::done_but_failed(E).on(Call::cuStreamDestroy_v2).nth(1));
        let error = close(t.device().new_stream().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "cuStreamDestroy failed with status 9001");
        assert_eq!(close(t.device().new_stream().unwrap()).unwrap(), Closed::Destroyed);
    });
    let refused = Refused::new(Error::state("not now"), 7);
    assert_eq!((refused.to_string().as_str(), refused.value), ("not now", 7));
    assert_eq!(refused.source().unwrap().to_string(), "not now");
    assert_eq!(Error::from(refused).kind(), ErrorKind::State);
}

#[test]
fn an_operation_that_was_carried_out_says_so_where_the_caller_s_context_is_not_back() {
    run(|t| {
        let other = Context::new(t.device(), ContextFlags::default()).unwrap();
        t.faults().arm(Fault::refused(E).on(Call::cuCtxPopCurrent_v2).nth(1));
        let error = other.synchronize().unwrap_err();
        t.faults().disarm();
        let raw = other.as_raw();
        assert_eq!(
            error.to_string(),
            format!(
                "cuCtxPopCurrent failed with status 9001; context {:#x} is current; the operation itself was carried \
                 out",
                raw.addr()
            )
        );
        assert_eq!((error.completed(), error.now_current()), (Some(1), Current::Is(raw.addr())));
        let mut popped = CUcontext::NULL;
        // SAFETY: *pointers*: a live local.
        unsafe { t.driver().calls().cuCtxPopCurrent_v2(&raw mut popped) }.unwrap();
        assert_eq!(popped, raw);
        other.close().unwrap();
    });
}

#[test]
fn in_a_callback_every_operation_is_refused_before_the_driver_is_asked() {
    run(|t| {
        let (stream, device) = (t.device().new_stream().unwrap(), t.device().clone());
        let (said, heard) = mpsc::channel();
        let inside = stream.clone();
        let asked = move || {
            let errors = [
                inside.synchronize().unwrap_err(),
                device.new_stream().unwrap_err(),
                device.name().unwrap_err(),
                Device::with_driver(device.driver(), 0).unwrap_err(),
            ];
            said.send(errors).unwrap();
        };
        // The closure's own handles are dropped there, and left to the reclaimer.
        stream.host_fn(asked).map_err(|refused| refused.error).unwrap();
        stream.synchronize().unwrap();
        for error in heard.recv().unwrap() {
            assert_eq!(error.kind(), ErrorKind::NotPermitted);
            assert_eq!(error.to_string(), Error::in_callback().to_string());
        }
    });
}

#[test]
fn in_a_forked_child_an_operation_is_refused_and_no_call_is_made() {
    run_simulated(|_, sim| {
        let child = Driver::from_api(sim.forked_child());
        let error = Device::with_driver(&child, 0).unwrap_err();
        assert_eq!((error.kind(), error.call()), (ErrorKind::Forked, None));
        assert_eq!(error.status(), Some(Status::Driver(CUresult::NOT_INITIALIZED)));
        assert_eq!(error.to_string(), Error::forked().to_string());
        assert_eq!(sim.calls_of_forked_child(), 0);
    });
}

#[test]
fn an_ordinal_without_a_device_is_told_with_its_cause() {
    run(|t| {
        let count = t.driver().device_count().unwrap();
        for ordinal in [count, 1000] {
            let error = Device::with_driver(t.driver(), ordinal).unwrap_err();
            assert_eq!(
                error.to_string(),
                "cuDeviceGet failed with CUDA_ERROR_INVALID_DEVICE (101): there is no device of that number, or it \
                 can't do what was asked; device ordinals count from 0 to one less than the device count; ask the \
                 driver for its device count first"
            );
        }
        let (result, calls) = t.calls(|| Device::with_driver(t.driver(), u32::MAX));
        let error = result.unwrap_err();
        assert_eq!((error.kind(), calls.as_slice()), (ErrorKind::Argument, &[][..]));
        assert_eq!(
            error.to_string(),
            "ordinal: 4294967295: out of range integral type conversion attempted"
        );
    });
}

#[test]
fn a_driver_without_devices_says_so_each_time_it_is_asked() {
    let driver = Driver::from_api(Sim::with_options(SimOptions::with_devices(0)));
    for _ in 0..2 {
        assert!(Device::with_driver(&driver, 0).unwrap_err().is(CUresult::NO_DEVICE));
    }
}

const CHILD: &str = "CUHOLD_TEST_CHILD";

/// Runs the test of this name again as a process with these variables, and answers what `body` printed there; in that
/// process runs `body`, and answers `None`.
#[expect(clippy::print_stdout, reason = "the line is what the parent reads")]
fn said_by_a_child(
    test: &str,
    variables: &[(&str, &str)],
    body: impl FnOnce() -> Result<String>,
) -> Option<String> {
    if env::var_os(CHILD).is_some() {
        let said = body().unwrap_or_else(|error| format!("{error:?}"));
        println!("\nsaid: {said}");
        return None;
    }
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", &format!("errors::{test}"), "--nocapture"]).env(CHILD, "");
    for name in ["CUHOLD_DRIVER", "CUHOLD_LIBCUDA", "CUHOLD_WARNINGS"] {
        child.env_remove(name);
    }
    let output = child.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let line = printed.lines().find_map(|line| line.strip_prefix("said: "));
    Some(line.unwrap_or_else(|| panic!("nothing said: {printed}")).to_owned())
}

const ABSENT: (&str, &str) = ("CUHOLD_LIBCUDA", "/nonexistent/libcuda.so.1");

#[test]
fn without_a_driver_a_device_says_what_was_tried() {
    let said = said_by_a_child("without_a_driver_a_device_says_what_was_tried", &[ABSENT], || {
        // A failure isn't remembered, so the second one is as good.
        drop(Device::new(0).unwrap_err());
        Device::new(0).map(|device| format!("{device:?}"))
    });
    let Some(said) = said else { return };
    let head = "Load(no CUDA driver could be loaded: `/nonexistent/libcuda.so.1`: ";
    assert!(said.starts_with(head), "{said}");
    let tail = "CUHOLD_LIBCUDA is set, so nothing else was tried)";
    assert!(said.ends_with(tail), "{said}");
}

#[test]
fn a_driver_of_an_unknown_name_is_refused() {
    for (word, expected) in [
        ("loud", "Argument(CUHOLD_DRIVER: `loud` is neither `real` nor `sim`)"),
        ("", "Argument(CUHOLD_DRIVER: `` is neither `real` nor `sim`)"),
        ("Sim", "Argument(CUHOLD_DRIVER: `Sim` is neither `real` nor `sim`)"),
    ] {
        let test = "a_driver_of_an_unknown_name_is_refused";
        let said = said_by_a_child(test, &[("CUHOLD_DRIVER", word), ABSENT], || {
            Device::new(0).map(|device| format!("{device:?}"))
        });
        let Some(said) = said else { return };
        assert_eq!(said, expected);
    }
}

#[test]
fn the_simulated_driver_is_taken_only_where_it_is_asked_for_and_is_one_a_process() {
    let test = "the_simulated_driver_is_taken_only_where_it_is_asked_for_and_is_one_a_process";
    let said = said_by_a_child(test, &[("CUHOLD_DRIVER", "sim"), ABSENT], || {
        let (one, two) = (Device::new(0)?, Device::new(0)?);
        assert!(one.driver().same(two.driver()) && one == two);
        one.name()
    });
    let Some(said) = said else { return };
    assert_eq!(said, "cuhold simulated device");
}

#[test]
fn an_unknown_word_for_warnings_is_refused_before_the_driver_is_loaded() {
    let test = "an_unknown_word_for_warnings_is_refused_before_the_driver_is_loaded";
    let said = said_by_a_child(test, &[("CUHOLD_WARNINGS", "loud"), ABSENT], || {
        Device::new(0).map(|device| format!("{device:?}"))
    });
    let Some(said) = said else { return };
    assert!(said.starts_with("Argument(") && said.contains("loud"), "{said}");
}
