//! The usual objects, made and ended.

use cuhold_handles::EventOptions;
use cuhold_testkit::run;

#[test]
fn streams_and_events_work_and_nothing_is_left() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let event = stream.record_new(EventOptions::timing()).unwrap();
        event.synchronize().unwrap();
        assert!(stream.is_done().unwrap());
        stream.host_fn(|| ()).map_err(|refused| refused.error).unwrap();
        stream.synchronize().unwrap();
    });
}
