//! Events.

use cuhold_driver_sim::SimOptions;
use cuhold_handles::{Device, Driver, Event, EventOptions};

cuhold_testkit::enrol! {
    Event::with_options |run| {
        run.create(|| Event::with_options(run.context(), EventOptions::default().blocking()));
    }

    Event::is_done |run| {
        let event = run.new_event();
        run.repeat(|| event.is_done());
    }

    Event::synchronize |run| {
        let event = run.new_event();
        run.repeat(|| event.synchronize());
    }

    Event::elapsed_ms_since |run| {
        let stream = run.new_stream();
        let [from, to] = [(); 2].map(|()| stream.record_new(EventOptions::timing()).unwrap());
        stream.synchronize().unwrap();
        run.repeat(|| to.elapsed_ms_since(&from));
    }

    Event::export |run| {
        let event = run.device().new_event(EventOptions::interprocess()).unwrap();
        run.repeat(|| event.export());
    }

    Event::import |run| {
        let Some(sim) = run.sim() else { return };
        let there = Driver::from_api(sim.other_process(SimOptions::default()));
        let device = Device::with_driver(&there, 0).unwrap();
        let token = device.new_event(EventOptions::interprocess()).unwrap().export().unwrap();
        run.create(|| Event::import(run.context(), token.handle()));
    }

    Event::close |run| {
        let event = run.new_event();
        drop(run.keep_or(run.op(|| event.close())));
    }

    Event::drop |run| {
        let event = run.new_event();
        run.op(|| drop(event));
    }
}
