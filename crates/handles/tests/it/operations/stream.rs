//! Streams: created ones, and the two default ones.

use cuhold_handles::{EventOptions, PerThreadStream, Stream, StreamOptions};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

cuhold_testkit::enrol! {
    Stream::with_options |run| {
        run.create(|| Stream::with_options(run.context(), StreamOptions::default()));
    }

    Stream::synchronize |run| {
        run.repeat(|| run.stream().synchronize());
    }

    Stream::is_done |run| {
        run.repeat(|| run.stream().is_done());
    }

    Stream::record |run| {
        let event = run.new_event();
        run.repeat(|| run.stream().record(&event));
    }

    Stream::record_new |run| {
        run.create(|| run.stream().record_new(EventOptions::default()));
    }

    Stream::wait_event |run| {
        let (stream, event) = (run.stream(), run.new_event());
        let _others_may_record_it = event.as_raw();
        run.repeat(|| stream.wait_event(&event));
    }

    Stream::host_fn |run| {
        let calls = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&calls);
        let closure = move || _ = count.fetch_add(1, Ordering::Relaxed);
        // Done with: it runs, or it came back.
        let given_back = run.keep_or(run.op(|| run.stream().host_fn(closure))).err().flatten();
        run.finish(|| run.stream().synchronize());
        let ran = calls.load(Ordering::Relaxed);
        assert!(ran == 0 || given_back.is_none(), "it ran, and came back");
    }

    Stream::priority |run| {
        run.repeat(|| run.stream().priority());
    }

    Stream::close |run| {
        let stream = run.new_stream();
        drop(run.keep_or(run.op(|| stream.close())));
    }

    Stream::drop |run| {
        let stream = run.new_stream();
        run.op(|| drop(stream));
    }

    PerThreadStream::synchronize |run| {
        let stream = PerThreadStream::new(run.context());
        run.repeat(|| stream.synchronize());
    }

    PerThreadStream::is_done |run| {
        let stream = PerThreadStream::new(run.context());
        run.repeat(|| stream.is_done());
    }

    PerThreadStream::record |run| {
        let (stream, event) = (PerThreadStream::new(run.context()), run.new_event());
        run.repeat(|| stream.record(&event));
    }

    PerThreadStream::wait_event |run| {
        let (stream, event) = (PerThreadStream::new(run.context()), run.new_event());
        run.repeat(|| stream.wait_event(&event));
    }

    PerThreadStream::host_fn |run| {
        let stream = PerThreadStream::new(run.context());
        let _: Result<(), _> = run.keep_or(run.op(|| stream.host_fn(|| ())));
        // The context whole: on another thread it is another stream.
        run.finish(|| run.context().synchronize());
    }
}
