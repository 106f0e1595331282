//! Events over a whole context: recorded behind all of its work, waited for before all of its later work.
//!
//! Both are refused, and invalidate, while a stream of the context is captured (measured).

use cuhold_driver_sys::ffi::*;

use super::Context;
use crate::{
    audit::CallSite,
    queue::{Ordering, Point, QueueId, Work},
    stream::Target,
    world::{Answer, Key, State, Turn},
};

impl State {
    /// Opens a queue in a context, behind what all later work there has to wait for.
    pub(crate) fn open_queue(
        &mut self,
        context: Key<Context>,
        ordering: Ordering,
        by: CallSite,
    ) -> QueueId {
        let queue = self.begin_queue(context, ordering);
        let barriers = self.contexts.get(context).map(|c| c.barriers.clone()).unwrap_or_default();
        if !barriers.is_empty() {
            let stamp = self.stamp(queue, by, &barriers, None);
            // A marker that completes at once has nothing to do: what it stands behind all work there does.
            self.queues.submit(queue, Work::Marker, stamp, &barriers);
        }
        queue
    }
}

pub(crate) fn record_event(turn: &mut Turn<'_>, ctx: CUcontext, event: CUevent) -> Answer {
    let context = turn.context_or_current(ctx)?;
    let event = turn.event(event)?;
    turn.same_context(event, context)?;
    turn.not_lost()?;
    turn.no_capture_in(context)?;
    let all = turn.state.with_views(context);
    let ends = turn.state.queues.ends(|of| all.contains(&of));
    let queue = turn.state.begin_queue(context, Ordering::NonBlocking);
    let known = turn.state.order.end_of(&all);
    let behind_all = Target::of_queue(queue, context);
    turn.submit_known(behind_all, Work::Marker, &ends, Some(&known));
    turn.record_on(event, behind_all)?;
    turn.state.close_queue(queue);
    Ok(())
}

pub(crate) fn wait_event(turn: &mut Turn<'_>, ctx: CUcontext, event: CUevent) -> Answer {
    let context = turn.context_or_current(ctx)?;
    let event = turn.event(event)?;
    turn.not_lost()?;
    turn.no_capture_in(context)?;
    let Some(point) = turn.event_point(event)? else { return Ok(()) };
    let place = turn.place_of(event, point)?;
    turn.state.order.hold_back(context, &place);
    if turn.state.queues.is_reached(point) {
        return Ok(());
    }
    for queue in turn.state.queues.of(context) {
        turn.submit(Target::of_queue(queue, context), Work::Marker, &[point]);
    }
    let reached = |at: &Point| turn.state.queues.is_reached(*at);
    let old = turn.state.contexts.get(context).map(|c| c.barriers.clone()).unwrap_or_default();
    let mut barriers: Vec<Point> = old.into_iter().filter(|at| !reached(at)).collect();
    barriers.push(point);
    turn.context_data(context)?.barriers = barriers;
    Ok(())
}
