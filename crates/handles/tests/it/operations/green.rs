//! Green contexts, and multiprocessors as a resource.

#![expect(unsafe_code, reason = "takes a raw green context over")]

use cuhold_handles::{GreenContext, SmResource};
use cuhold_testkit::Run;

fn part(run: &Run<'_>) -> Vec<SmResource> {
    SmResource::of_device(run.device()).unwrap().split_by_count(1, 16).unwrap().groups
}

fn green(run: &Run<'_>) -> GreenContext {
    GreenContext::new(&part(run)).unwrap()
}

cuhold_testkit::enrol! {
    SmResource::of_device |run| {
        run.repeat(|| SmResource::of_device(run.device()));
    }

    SmResource::of_context |run| {
        run.repeat(|| SmResource::of_context(run.context()));
    }

    SmResource::groups_of |run| {
        let all = SmResource::of_device(run.device()).unwrap();
        run.repeat(|| all.groups_of(16));
    }

    SmResource::split_by_count |run| {
        let all = SmResource::of_device(run.device()).unwrap();
        run.repeat(|| all.split_by_count(2, 16));
    }

    GreenContext::new |run| {
        let part = part(run);
        run.create(|| GreenContext::new(&part));
    }

    GreenContext::from_raw |run| {
        let raw = green(run).into_raw().unwrap();
        // SAFETY: a live green context of this device, and nobody else's.
        let taken = run.op(|| unsafe { GreenContext::from_raw(run.device(), raw) });
        if run.keep(taken).is_none() {
            // SAFETY: as above: it was left alone.
            run.finish(|| unsafe { GreenContext::from_raw(run.device(), raw) }.map(drop));
        }
    }

    GreenContext::borrow_raw |run| {
        let green = green(run);
        // SAFETY: the green context outlives what refers to it.
        run.repeat(|| unsafe { GreenContext::borrow_raw(run.device(), green.as_raw(), None) });
    }

    GreenContext::new_stream |run| {
        let green = green(run);
        run.create(|| green.new_stream(0));
    }

    GreenContext::record |run| {
        let (green, event) = (green(run), run.new_event());
        run.repeat(|| green.record(&event));
    }

    GreenContext::wait_event |run| {
        let (green, event) = (green(run), run.new_event());
        run.repeat(|| green.wait_event(&event));
    }

    GreenContext::id |run| {
        let green = green(run);
        run.repeat(|| green.id());
    }

    GreenContext::sm_resource |run| {
        let green = green(run);
        run.repeat(|| green.sm_resource());
    }

    GreenContext::close |run| {
        let green = green(run);
        drop(run.keep_or(run.op(|| green.close())));
    }

    GreenContext::drop |run| {
        let green = green(run);
        run.op(|| drop(green));
    }
}
