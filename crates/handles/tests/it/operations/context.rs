//! Contexts: created, taken over, borrowed, retained.

#![expect(unsafe_code, reason = "takes over and borrows raw contexts")]

use cuhold_handles::{Context, ContextFlags, Device, Retention};

cuhold_testkit::enrol! {
    Context::new |run| {
        run.create(|| Context::new(run.device(), ContextFlags::default()));
    }

    Context::from_raw |run| {
        let context = run.raw_context();
        // SAFETY: made above, and ended below where it wasn't taken over.
        let taken = run.keep(run.op(|| unsafe { Context::from_raw(run.driver(), context) }));
        match taken {
            Some(taken) => drop(taken),
            None => run.end_raw_context(context),
        }
    }

    Context::borrow_raw |run| {
        let context = run.raw_context();
        // SAFETY: made above, and ended below.
        drop(run.create(|| unsafe { Context::borrow_raw(run.driver(), context, None) }));
        run.end_raw_context(context);
    }

    Context::new_stream |run| {
        run.create(|| run.context().new_stream());
    }

    Context::new_event |run| {
        run.create(|| run.context().new_event());
    }

    Context::synchronize |run| {
        run.repeat(|| run.context().synchronize());
    }

    Context::close |run| {
        let created = Context::new(run.device(), ContextFlags::default()).unwrap();
        let retained = Device::with_retention(run.driver(), 0, Retention::UntilLast).unwrap().context().clone();
        run.op(|| {
            drop(run.keep_or(created.close()));
            drop(run.keep_or(retained.close()));
        });
    }

    Context::drop |run| {
        let created = Context::new(run.device(), ContextFlags::default()).unwrap();
        let retained = Device::with_retention(run.driver(), 0, Retention::UntilLast).unwrap().context().clone();
        run.op(|| drop((created, retained)));
    }
}
