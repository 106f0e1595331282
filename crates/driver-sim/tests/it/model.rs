//! Random programs over streams and events, against a model that knows only sets: which work must come before which.

#![expect(clippy::indexing_slicing, reason = "a model; every index is drawn within its bounds")]

use cuhold_driver_sim::{
    Sim,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};
use proptest::prelude::*;
use std::{collections::BTreeSet, sync::Mutex};

use crate::ask::{BLOCKING, NON_BLOCKING, assert_clean, call, event, sim_with_context, stream};

/// 0 is the legacy stream, 1 the thread's own, 2 and 3 are blocking, 4 and 5 aren't.
const STREAMS: usize = 6;
const LEGACY: usize = 0;
const EVENTS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Op {
    Work(usize),
    Record(usize, usize),
    Wait(usize, usize),
    Query(usize),
    QueryEvent(usize),
    Synchronize(usize),
    SynchronizeEvent(usize),
    Step(usize),
    SynchronizeContext,
}

fn op() -> impl Strategy<Value = Op> {
    let (streams, events) = (0..STREAMS, 0..EVENTS);
    prop_oneof![
        6 => streams.clone().prop_map(Op::Work),
        3 => (events.clone(), streams.clone()).prop_map(|(e, s)| Op::Record(e, s)),
        3 => (streams.clone(), events.clone()).prop_map(|(s, e)| Op::Wait(s, e)),
        2 => streams.clone().prop_map(Op::Query),
        2 => events.clone().prop_map(Op::QueryEvent),
        1 => streams.clone().prop_map(Op::Synchronize),
        1 => events.prop_map(Op::SynchronizeEvent),
        2 => streams.prop_map(Op::Step),
        1 => Just(Op::SynchronizeContext),
    ]
}

type Jobs = BTreeSet<usize>;

/// For each stream what its next work must come after, for each event what it stands for.
#[derive(Default)]
struct Model {
    tails: [Jobs; STREAMS],
    events: [Option<Jobs>; EVENTS],
    /// For each job what it must come after.
    before: Vec<Jobs>,
}

impl Model {
    /// The rule of the legacy stream, for anything that is put on `s`.
    fn touch(&mut self, s: usize) {
        let others: Jobs = match s {
            LEGACY => self.tails[1..4].iter().flatten().copied().collect(),
            1..4 => self.tails[LEGACY].clone(),
            _ => Jobs::new(),
        };
        self.tails[s].extend(others);
    }

    fn work(&mut self, s: usize) -> usize {
        self.touch(s);
        let job = self.before.len();
        self.before.push(std::mem::replace(&mut self.tails[s], [job].into()));
        job
    }

    /// What a wait for a stream waits for.
    fn goals(&self, s: usize) -> Jobs {
        let others = if s == LEGACY { &self.tails[1..4] } else { &[] };
        self.tails[s].iter().chain(others.iter().flatten()).copied().collect()
    }

    /// What a wait for an event waits for.
    fn event(&self, e: usize) -> Jobs {
        self.events[e].clone().unwrap_or_default()
    }

    /// These jobs and all that must come before them.
    fn closure(&self, jobs: &Jobs) -> Jobs {
        let mut open: Vec<usize> = jobs.iter().copied().collect();
        let mut found = Jobs::new();
        while let Some(job) = open.pop() {
            if found.insert(job) {
                open.extend(&self.before[job]);
            }
        }
        found
    }
}

/// A job for the driver: it writes its number down.
struct Job<'a>(&'a Mutex<Vec<usize>>, usize);

unsafe extern "C" fn write_down(data: *mut c_void) {
    // SAFETY: the data is a `Job` that was leaked into the driver; this takes it back, once.
    let Job(ran, number) = *unsafe { Box::from_raw(data.cast::<Job<'_>>()) };
    ran.lock().unwrap().push(number);
}

struct Run<'a> {
    sim: Sim,
    model: Model,
    streams: [CUstream; STREAMS],
    events: [CUevent; EVENTS],
    ran: &'a Mutex<Vec<usize>>,
}

impl<'a> Run<'a> {
    fn new(ran: &'a Mutex<Vec<usize>>) -> Self {
        let (sim, _) = sim_with_context();
        let made =
            [BLOCKING, BLOCKING, NON_BLOCKING, NON_BLOCKING].map(|flags| stream(&sim, flags));
        let [a, b, c, d] = made;
        let streams = [CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, a, b, c, d];
        let events = [(); EVENTS].map(|()| event(&sim));
        Self { sim, model: Model::default(), streams, events, ran }
    }

    fn done(&self) -> Jobs {
        self.ran.lock().unwrap().iter().copied().collect()
    }

    /// Checks that a wait ran exactly what it had to.
    fn check_wait(&self, before: &Jobs, goals: &Jobs) {
        let expected: Jobs = before.union(&self.model.closure(goals)).copied().collect();
        assert_eq!(self.done(), expected);
    }

    /// Checks that a query answers what is the case.
    fn check_query(&self, asked: Result<(), CUresult>, goals: &Jobs) {
        let ready = self.model.closure(goals).is_subset(&self.done());
        assert_eq!(asked, if ready { Ok(()) } else { Err(CUresult::NOT_READY) });
    }

    fn step(&mut self, op: Op) {
        let before = self.done();
        match op {
            Op::Work(s) => {
                let job = Box::new(Job(self.ran, self.model.work(s)));
                let data = Box::into_raw(job).cast();
                call!(self.sim, cuLaunchHostFunc(self.streams[s], Some(write_down), data)).unwrap();
            }
            Op::Record(e, s) => {
                call!(self.sim, cuEventRecord(self.events[e], self.streams[s])).unwrap();
                self.model.touch(s);
                self.model.events[e] = Some(self.model.tails[s].clone());
            }
            Op::Wait(s, e) => {
                call!(self.sim, cuStreamWaitEvent(self.streams[s], self.events[e], 0)).unwrap();
                // A wait for an event that was never recorded does nothing at all.
                if let Some(jobs) = self.model.events[e].clone() {
                    self.model.touch(s);
                    self.model.tails[s].extend(jobs);
                }
            }
            Op::Query(s) => {
                let asked = call!(self.sim, cuStreamQuery(self.streams[s]));
                self.check_query(asked, &self.model.goals(s));
            }
            Op::QueryEvent(e) => {
                let asked = call!(self.sim, cuEventQuery(self.events[e]));
                self.check_query(asked, &self.model.event(e));
            }
            Op::Synchronize(s) => {
                call!(self.sim, cuStreamSynchronize(self.streams[s])).unwrap();
                self.check_wait(&before, &self.model.goals(s));
            }
            Op::SynchronizeEvent(e) => {
                call!(self.sim, cuEventSynchronize(self.events[e])).unwrap();
                self.check_wait(&before, &self.model.event(e));
            }
            Op::Step(s) => {
                let stepped = self.sim.stream_step(self.streams[s]);
                assert_eq!(self.done().len(), before.len() + usize::from(stepped));
            }
            Op::SynchronizeContext => {
                call!(self.sim, cuCtxSynchronize()).unwrap();
                assert_eq!(self.done().len(), self.model.before.len());
                assert_eq!(self.sim.pending(), 0);
            }
        }
    }

    /// Every job ran once, after all that it must come after.
    fn check_order(&self) {
        let ran = self.ran.lock().unwrap();
        let mut done = Jobs::new();
        for job in ran.iter() {
            assert!(self.model.before[*job].is_subset(&done), "{job} ran too early: {ran:?}");
            assert!(done.insert(*job), "{job} ran twice");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn work_runs_when_it_must_and_after_what_it_must(ops in prop::collection::vec(op(), 1..60)) {
        let ran = Mutex::new(Vec::new());
        let mut run = Run::new(&ran);
        for op in ops {
            run.step(op);
            run.check_order();
        }
        run.step(Op::SynchronizeContext);
        run.check_order();
        assert_clean(&run.sim);
    }
}
