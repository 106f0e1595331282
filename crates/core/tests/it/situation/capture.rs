//! Somebody else captures in global mode, on another thread: 11 of the driver's destroys would be refused then and end
//! that capture, on whatever stream and device it is (measured). Every end of an object leaves it alone.

use crate::resources::make;
use cuhold::{Device, Stream, driver_sys::ffi::CUstreamCaptureMode as Mode};
use cuhold_handles::table::{EndsOn, RESOURCES};
use cuhold_testkit::{ForeignCapture, Kit, run};
use std::{sync::mpsc, thread};

/// Does `work` while another thread captures a stream of this device, which must come to its end well.
fn beside_a_capture_of(device: &Device, work: impl FnOnce()) {
    let stream: Stream = device.new_stream().unwrap();
    thread::scope(|s| {
        let ((begun, is_begun), (done, is_done)) = (mpsc::channel(), mpsc::channel::<()>());
        let stream = &stream;
        let foreign = s.spawn(move || {
            let mode = Mode::CU_STREAM_CAPTURE_MODE_GLOBAL;
            let capture = ForeignCapture::begin(device.driver(), stream, mode);
            begun.send(()).unwrap();
            is_done.recv().unwrap();
            capture.is_active();
            capture.end();
        });
        is_begun.recv().unwrap();
        work();
        done.send(()).unwrap();
        foreign.join().unwrap();
    });
}

/// Ends an object of each row beside a capture on this device, by a drop and by the reclaimer.
fn every_end_beside_a_capture_of(t: &Kit, device: &Device) {
    for row in RESOURCES.iter().filter(|row| row.ends_on != EndsOn::Driver) {
        let (object, rest) = make(t, row.kind);
        beside_a_capture_of(device, || {
            let by_hand = t.driver().reclaim().run_by_hand();
            drop((object, rest));
            while by_hand.step() {}
        });
    }
}

#[test]
fn every_end_of_an_object_leaves_a_foreign_thread_s_global_capture_alone() {
    run(|t| every_end_beside_a_capture_of(t, t.device()));
}

#[test]
fn every_end_of_an_object_leaves_a_capture_on_another_device_alone() {
    run(|t| {
        if let Some(other) = t.second_device() {
            every_end_beside_a_capture_of(t, &other);
        }
    });
}
