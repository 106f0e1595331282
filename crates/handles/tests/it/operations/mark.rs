//! Marks, of a context that has an idle event and of one that has none.

use cuhold_handles::Mark;
use cuhold_testkit::Run;

/// A mark of what is queued on the stream.
fn marked<'a>(run: &'a Run<'_>) -> Mark<'a> {
    run.stream().mark().unwrap()
}

cuhold_testkit::enrol! {
    Mark::take |run| {
        run.create(|| Mark::take(run.context()).map(Mark::keep));
    }

    Mark::record |run| {
        let mut mark = Mark::take(run.context()).unwrap();
        run.repeat(|| mark.record(run.stream()));
    }

    Mark::hold_up |run| {
        let (mark, later) = (marked(run), run.new_stream());
        run.repeat(|| mark.hold_up(&later));
    }

    Mark::is_done |run| {
        let mark = marked(run);
        run.repeat(|| mark.is_done());
    }

    Mark::synchronize |run| {
        let mark = marked(run);
        run.repeat(|| mark.synchronize());
    }

    Mark::drop |run| {
        // One is idle again, the other isn't where others may use the stream.
        let (idle, mark) = (Mark::take(run.context()).unwrap(), marked(run));
        run.op(|| drop((idle, mark)));
    }

    Stream::mark |run| {
        run.create(|| run.stream().mark().map(Mark::keep));
    }
}
