//! Streams: what an operation of several calls leaves where one fails, and what a fatal code does to the driver value.

use cuhold_driver_sys::{CUresult, Call, Failure, Fault};
use cuhold_handles::{EventOptions, Note};
use cuhold_testkit::run;

const MINE: CUresult = CUresult(9001);
const SYNC: Call = Call::cuStreamSynchronize;

fn failure(call: Call, status: CUresult) -> Failure {
    Failure { call, status }
}

/// The event that was made for it is gone, and what its destroy answered isn't lost.
#[test]
fn an_event_that_could_not_be_recorded_is_ended_and_a_failure_of_that_is_a_note() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let live = || crate::drop::Thing::Event.live(t);
        let before = live();
        t.faults().arm(Fault::refused(MINE).on(Call::cuEventRecord).nth(1));
        let (error, calls) = t.calls(|| stream.record_new(EventOptions::default()).unwrap_err());
        assert!(error.is(MINE) && error.notes().is_empty());
        assert_eq!(calls[calls.len() - 2..], ["cuEventRecord", "cuEventDestroy"]);
        assert_eq!(live(), before);

        let destroy = Call::cuEventDestroy_v2;
        t.faults().arm(Fault::refused(MINE).on(Call::cuEventRecord).nth(1));
        t.faults().arm(Fault::done_but_failed(CUresult(9002)).on(destroy).nth(1));
        let error = stream.record_new(EventOptions::default()).unwrap_err();
        assert_eq!(error.notes(), [Note::UndoFailed(failure(destroy, CUresult(9002)))]);
        assert_eq!(live(), before);
    });
}

#[test]
fn a_fatal_code_marks_the_driver_as_lost_and_no_other_does() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        for (status, lost) in [(CUresult::UNKNOWN, false), (CUresult::LAUNCH_FAILED, true)] {
            t.faults().arm(Fault::refused(status).on(SYNC).nth(1));
            assert!(stream.synchronize().unwrap_err().is(status));
            t.faults().disarm();
            assert_eq!(t.driver().is_lost(), lost);
        }
        // A flag for reports, never an answer to a call.
        stream.synchronize().unwrap();
    });
}
