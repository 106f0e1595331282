//! What the library relies on and no manual promises holds on the driver at hand; where it doesn't, the fallback works.

use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_handles::EventOptions;
use cuhold_testkit::{run, run_simulated};

#[test]
fn the_driver_behaves_as_measured() {
    run(|t| {
        let verified = t.driver().verify().unwrap();
        assert!(verified.streams_need_no_context);
    });
}

#[test]
fn a_driver_whose_streams_need_their_context_gets_it() {
    run_simulated(|t, _| {
        t.faults().arm(Fault::refused(CUresult::INVALID_CONTEXT).on(Call::cuEventRecord).nth(1));
        let verified = t.driver().verify().unwrap();
        assert!(!verified.streams_need_no_context);
        let (stream, event) = (
            t.device().new_stream().unwrap(),
            t.device().new_event(EventOptions::default()).unwrap(),
        );
        let (result, calls) = t.calls(|| stream.record(&event));
        result.unwrap();
        let switched = ["cuCtxGetCurrent", "cuCtxPushCurrent", "cuEventRecord", "cuCtxPopCurrent"];
        assert_eq!(calls, switched);
    });
}
