//! Running queued work: on the thread that waits for it, or that steps it, and nowhere else.
//!
//! The world is unlocked while code of the caller runs, and that code may not call the driver. Host functions of one
//! context run one at a time (measured). Work that fails is a fault of the device: it ends all CUDA work of the process,
//! and what was queued never runs (measured).

#![expect(unsafe_code, reason = "calls host functions of the caller")]

use std::{
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use cuhold_driver_sys::{
    CUresult,
    ffi::{CUhostFn, CUstream, CUstreamCallback},
};

use crate::{
    audit::ViolationKind,
    context::Context,
    elsewhere::Helped,
    graph::Branch,
    order::{Doing, Order, Stamp},
    queue::{Next, OnCaller, Point, QueueId, Start, Taken, Work},
    world::{Answer, Key, Turn, UserData, mixed},
};

/// How far the simulated clock moves with each piece of work, in nanoseconds.
const WORK_NS: u64 = 1_000;

/// How long the host is given to write a value before the simulator looks again.
const MOMENT: Duration = Duration::from_millis(1);

impl Turn<'_> {
    /// Runs what has to complete before `goal` is reached. Answers the fatal status if the driver is or gets lost.
    pub(crate) fn complete(&mut self, goal: Point) -> Answer {
        loop {
            self.not_lost()?;
            match self.next_towards(goal) {
                Next::Done => {
                    self.state.host_reached(goal);
                    return Ok(());
                }
                Next::Busy => self.wait_for_progress(),
                Next::Run(queue) => self.step(queue),
                Next::Blocked => self.pass(),
            }
        }
    }

    /// A value is waited for, or another process. Other streams go on meanwhile, as on a device; where none can, the other
    /// process does; where it can't, the host is given a moment to write the value. Where nobody ever does, the wait doesn't end, as with a real driver.
    pub(crate) fn pass(&mut self) {
        match self.next_anywhere(|_| true) {
            Next::Run(queue) => self.step(queue),
            _ if self.help_others(&mut Vec::new()) == Helped::Ran => {}
            _ => self.wait_for_progress_or(MOMENT),
        }
    }

    /// What comes next in any of the contexts that `which` picks, beginning at a queue drawn at random.
    fn next_anywhere(&mut self, which: impl Fn(Key<Context>) -> bool) -> Next {
        let mut goals = self.state.queues.ends(which);
        let drawn = self.state.draw();
        let begin = drawn.checked_rem(goals.len() as u64).and_then(|at| usize::try_from(at).ok());
        goals.rotate_left(begin.unwrap_or(0));
        let mut best = Next::Done;
        for goal in goals {
            match self.next_towards(goal) {
                Next::Run(queue) => return Next::Run(queue),
                Next::Busy => best = Next::Busy,
                Next::Blocked if best == Next::Done => best = Next::Blocked,
                Next::Blocked | Next::Done => {}
            }
        }
        best
    }

    /// Runs all work of a context, in an order drawn from the seed. Answers the fatal status if the driver is or gets
    /// lost.
    pub(crate) fn complete_context(&mut self, context: Key<Context>) -> Answer {
        let all = self.state.with_views(context);
        while self.complete_most(|of| all.contains(&of)) == Next::Blocked {
            self.pass();
        }
        self.not_lost()?;
        self.state.host_learns(&self.state.order.end_of(&all));
        Ok(())
    }

    /// Runs all work of all contexts. A fault is for other calls to answer.
    pub(crate) fn complete_everything(&mut self) {
        while self.complete_what_can() {
            self.pass();
        }
        if self.state.lost.is_none() && !self.is_inside_callback() {
            let all: Vec<_> = self.state.contexts.keys(|_| true);
            self.state.host_learns(&self.state.order.end_of(&all));
        }
    }

    /// Runs all work of all contexts, except what waits for a value that isn't there. Says whether there is any.
    pub(crate) fn complete_what_can(&mut self) -> bool {
        self.complete_most(|_| true) == Next::Blocked
    }

    /// One step at a time towards goals drawn at random, so that independent queues interleave, until nothing is left
    /// to run. A lost driver has no goals, since its work was discarded.
    ///
    /// Inside a callback nothing is done: it would wait for itself.
    fn complete_most(&mut self, which: impl Fn(Key<Context>) -> bool) -> Next {
        if self.is_inside_callback() {
            return Next::Done;
        }
        loop {
            match self.next_anywhere(&which) {
                Next::Run(queue) => self.step(queue),
                Next::Busy => self.wait_for_progress(),
                end @ (Next::Blocked | Next::Done) => return end,
            }
        }
    }

    pub(crate) fn next_towards(&mut self, goal: Point) -> Next {
        let seed = self.state.random;
        let mut picks = 0;
        let state = &*self.state;
        let start = |work: &Work, context: Key<Context>| match work {
            Work::Await(wait) if !wait.is_over(&state.memory) => Start::Written,
            Work::Elsewhere(wait) if !wait.is_over() => Start::Written,
            work if work.is_on_host() && state.host_running.contains(&context.id()) => Start::Later,
            _ => Start::Now,
        };
        let pick = |several: usize| {
            picks += 1;
            pick_of(seed, picks, several)
        };
        let next = state.queues.next(goal, start, pick);
        if picks > 0 {
            // Another number next time.
            self.state.draw();
        }
        next
    }

    /// Runs one piece of work of this queue, or of one that it waits for. Says whether something ran.
    pub(crate) fn advance(&mut self, queue: QueueId) -> bool {
        match self.next_towards(self.state.queues.end(queue)) {
            Next::Run(next) => {
                self.step(next);
                true
            }
            Next::Busy | Next::Blocked | Next::Done => false,
        }
    }

    /// Runs the front of a queue.
    pub(crate) fn step(&mut self, queue: QueueId) {
        let Some(taken) = self.state.queues.take(queue) else { return };
        let mut next = None;
        let result = match &taken.work {
            Work::Branch(branch) => {
                let branch = Arc::clone(branch);
                next = self.begin_branch(&branch, taken);
                Ok(())
            }
            _ => self.begin(taken),
        };
        self.state.now_ns += WORK_NS;
        match next {
            Some((work, stamp, after)) => self.state.queues.again(queue, work, stamp, after),
            None => self.state.queues.finish(queue),
        }
        while let Some(instant) = self.state.queues.take_instant() {
            self.begin(instant).unwrap_or_default();
        }
        if let Err(status) = result {
            self.lose(status);
        }
        self.progressed();
    }

    /// The turn of a conditional node has come: what comes in its place, if anything does.
    fn begin_branch(
        &mut self,
        branch: &Arc<Branch>,
        taken: Taken,
    ) -> Option<(Work, Stamp, Vec<Point>)> {
        let Taken { context, at, after, mut stamp, .. } = taken;
        let doing = self.state.begin_work(at.queue, at.position(), &stamp, &after);
        let by = std::mem::replace(&mut self.site, stamp.by);
        self.state.order.base = doing.as_ref().map(Order::all_before);
        let next = self.branch(branch, at.queue, context);
        self.state.order.base = None;
        self.site = by;
        let (work, after, parts) = next?;
        stamp.ends(parts);
        Some((work, stamp, after))
    }

    /// Does a piece of work that was taken from its queue.
    pub(crate) fn begin(&mut self, taken: Taken) -> Answer {
        let Taken { work, context, at, after, stamp } = taken;
        let doing = self.state.begin_work(at.queue, at.position(), &stamp, &after);
        self.perform(work, context, doing, at)
    }

    fn perform(
        &mut self,
        work: Work,
        context: Key<Context>,
        mut doing: Option<Doing>,
        at: Point,
    ) -> Answer {
        match work {
            // A conditional node is done by `step`, which puts other work in its place.
            Work::Marker | Work::Branch(_) => Ok(()),
            Work::Elsewhere(wait) => {
                if let Some(doing) = &mut doing {
                    self.state.order.learns(doing, |clock| clock.join(&wait.known()));
                }
                Ok(())
            }
            Work::Record { event, serial, shared } => {
                let place = self.state.order.place(at);
                if let Some((shared, number)) = shared {
                    shared.reach(number, &place);
                }
                self.state.event_happened(event, serial, place);
                Ok(())
            }
            Work::Host { function, data } => {
                self.host_hears_of(doing.as_ref());
                self.as_host_function_of(context, |turn| turn.call_host(function, data));
                Ok(())
            }
            Work::Callback { stream, function, data } => {
                self.host_hears_of(doing.as_ref());
                self.as_host_function_of(context, |turn| {
                    turn.call_back(stream, CUresult::SUCCESS, function, data);
                });
                Ok(())
            }
            Work::OnState(work) | Work::Free(work) | Work::Note(work) => {
                self.state.order.doing = doing;
                let answer = work(&mut self.state);
                self.state.order.doing = None;
                answer
            }
            Work::OnCaller(work) => self.run_caller(work, doing.as_ref()),
            Work::Await(wait) => {
                if let Some(doing) = &mut doing {
                    wait.learn(&mut self.state, doing);
                }
                wait.run(&mut self.state)
            }
        }
    }

    /// Code of the host runs behind this work, and may tell the rest of the program.
    fn host_hears_of(&self, doing: Option<&Doing>) {
        if let Some(doing) = doing {
            self.state.host_learns(&Order::all_before(doing));
        }
    }

    /// Calls a function of the caller, as the driver would on a thread of its own. One that panics ends the process by
    /// Rust's rule for `extern "C"`, before this could catch it.
    pub(crate) fn call_host(&mut self, function: CUhostFn, data: UserData) {
        let Some(function) = function else { return };
        self.unlocked(|| {
            // SAFETY: *calls back*: the caller promised that the function may be called so.
            unsafe { function(data.0) };
        });
    }

    /// Does what no other thread may do for the same context meanwhile.
    fn as_host_function_of(&mut self, context: Key<Context>, call: impl FnOnce(&mut Self)) {
        self.state.host_running.push(context.id());
        call(self);
        self.state.host_running.retain(|running| *running != context.id());
    }

    /// Calls a stream callback of the caller; what is said of [`call_host`](Self::call_host) holds here too.
    fn call_back(
        &mut self,
        stream: CUstream,
        status: CUresult,
        function: CUstreamCallback,
        data: UserData,
    ) {
        let Some(function) = function else { return };
        self.unlocked(|| {
            // SAFETY: *calls back*: the caller promised that the function may be called so.
            unsafe { function(stream, status, data.0) };
        });
    }

    fn run_caller(&mut self, work: OnCaller, doing: Option<&Doing>) -> Answer {
        let world = self.world;
        let ran = self.unlocked(|| catch_unwind(AssertUnwindSafe(|| work(world, doing))));
        ran.unwrap_or_else(|payload| {
            self.unlocked(|| drop_caught(payload));
            self.violate(ViolationKind::Panicked, None, "");
            Err(CUresult::LAUNCH_FAILED)
        })
    }

    /// Puts points into an order drawn from the seed.
    pub(crate) fn shuffle(&mut self, points: &mut [Point]) {
        for end in (2..=points.len()).rev() {
            let other = self.state.draw_below(end);
            points.swap(end - 1, other);
        }
    }

    /// Ends all CUDA work with a fatal status; the first one stays. Work that was queued never runs, but stream callbacks
    /// are called and told (documented).
    pub(crate) fn lose(&mut self, status: CUresult) {
        let status = *self.state.lost.get_or_insert(status);
        for work in self.state.queues.discard() {
            match work {
                Work::Callback { stream, function, data } => {
                    self.call_back(stream, status, function, data);
                }
                work => self.unlocked(|| drop_caught(work)),
            }
        }
        self.progressed();
    }
}

/// The `number`th choice among `several` that are drawn with one seed.
fn pick_of(seed: u64, number: u64, several: usize) -> usize {
    let drawn = mixed(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    usize::try_from(drawn.checked_rem(several as u64).unwrap_or(0)).unwrap_or(0)
}

/// Drops values of the caller, whose drop may panic. What a panic carries is leaked, since its drop may panic too.
fn drop_caught<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        let _leaked = ManuallyDrop::new(payload);
    }
}
