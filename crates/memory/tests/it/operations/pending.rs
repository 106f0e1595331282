//! Copies under way: those that an event marks, and those of which it isn't known whether they were queued.

use cuhold_driver_sys::{CUresult, Call, Fault};
use cuhold_memory::{Buffer, Pending};
use cuhold_testkit::Run;

type Copy = Pending<Vec<u32>>;

fn marked(run: &Run<'_>) -> Copy {
    let mut buffer = Buffer::uninit(run.stream(), 3).unwrap();
    buffer.write_from(vec![1, 2, 3]).unwrap()
}

/// A copy that the driver carried out, and denied.
fn unknown(run: &Run<'_>) -> Copy {
    let mut buffer = Buffer::uninit(run.stream(), 3).unwrap();
    let denied = Fault::done_but_failed(CUresult::UNKNOWN).on(Call::cuMemcpyHtoDAsync_v2);
    run.faults().arm(denied);
    let refused = buffer.write_from(vec![1, 2, 3]).unwrap_err();
    run.faults().disarm();
    refused.value
}

cuhold_testkit::enrol! {
    Pending::is_done |run| {
        let (marked, unknown) = (marked(run), unknown(run));
        run.repeat(|| {
            marked.is_done()?;
            unknown.is_done()
        });
    }

    Pending::wait |run| {
        let copies = [marked(run), unknown(run)];
        // What is refused comes back, and is dropped where nothing fails.
        let waited = run.op(|| copies.map(|copy| run.keep_or(copy.wait())));
        for memory in waited.into_iter().flatten() {
            assert_eq!(memory, [1, 2, 3]);
        }
    }

    Pending::drop |run| {
        let copies = [marked(run), unknown(run)];
        run.op(|| drop(copies));
    }
}
