//! Events.

use cuhold_handles::{Event, EventOptions};

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

    Event::close |run| {
        let event = run.new_event();
        drop(run.keep_or(run.op(|| event.close())));
    }

    Event::drop |run| {
        let event = run.new_event();
        run.op(|| drop(event));
    }
}
