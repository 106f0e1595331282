//! After a fatal error: a kernel that writes where there is no memory, and one that traps. Everything that was made before
//! is dropped, everything that can be asked answers the driver's own code, and nobody is told twice of one object.

use super::{THROUGH, everything, through, times};
use cuhold::{
    Buffer, Device, Event, EventOptions, Kernel, LaunchConfig, Result, Stream, driver_sys::CUresult,
};
use cuhold_testkit::{Alone, Kit, is_alone, run};

/// Has a kernel of this name fault, sees that it did, and then that everything ends.
fn faulted(test: &str, status: CUresult, name: &str, fault: fn(&Kernel, &Stream) -> Result<()>) {
    if !is_alone(test) {
        Alone::new(test).run_to_exit(THROUGH);
        return;
    }
    run(|t| {
        let (stream, event) = (t.device().new_stream().unwrap(), timed(t));
        let kernel = t.kernels().kernel(name).unwrap();
        let made = everything(t);
        let captured = t.driver().reports().capture(1000);
        assert!(!t.driver().is_lost());
        fault(&kernel, &stream).unwrap();
        let error = stream.synchronize().unwrap_err();
        assert!(error.is(status), "{error}");
        assert!(t.driver().is_lost());
        assert_eq!(captured.take().len(), 0, "what is returned isn't reported");

        every_answer_is(status, t, &stream, &event);
        drop((made, event, stream, kernel));
        let warnings = captured.take();
        for (object, count) in times(warnings.iter().map(|warning| warning.object())) {
            assert_eq!(count, 1, "{object} is told of {count} times");
        }
        for warning in &warnings {
            assert_eq!(warning.status(), Some(status), "{warning}");
        }
        through();
    });
}

fn timed(t: &Kit) -> Event {
    t.device().new_event(EventOptions::timing()).unwrap()
}

/// What is asked of a lost driver is answered with its code, and nothing is made.
fn every_answer_is(status: CUresult, t: &Kit, stream: &Stream, event: &Event) {
    let device: &Device = t.device();
    let answers = [
        stream.synchronize().err(),
        stream.record(event).err(),
        event.is_done().err(),
        device.new_stream().err(),
        device.new_event(EventOptions::default()).err(),
        Buffer::<u8>::uninit(stream, 8).err(),
    ];
    for (at, answer) in answers.into_iter().enumerate() {
        let error = answer.unwrap_or_else(|| panic!("answer {at} is no error"));
        assert!(error.is(status), "answer {at}: {error}");
    }
}

#[test]
fn after_a_write_to_a_wrong_address_everything_ends_and_each_object_is_told_of_once() {
    const TEST: &str = "situation::fatal::after_a_write_to_a_wrong_address_everything_ends_and_each_object_is_told_of_once";
    faulted(TEST, CUresult::ILLEGAL_ADDRESS, "poke", |poke, stream| {
        // SAFETY: the parameter is a u64; that the address is wrong is what is tested, in a process of its own.
        unsafe { poke.launch(stream, LaunchConfig::for_len(1), (16u64,)) }
    });
}

#[test]
fn after_a_trap_everything_ends_and_each_object_is_told_of_once() {
    const TEST: &str =
        "situation::fatal::after_a_trap_everything_ends_and_each_object_is_told_of_once";
    faulted(TEST, CUresult::LAUNCH_FAILED, "trap", |trap, stream| {
        // SAFETY: no parameter; the trap is what is tested, in a process of its own.
        unsafe { trap.launch(stream, LaunchConfig::for_len(1), ()) }
    });
}
