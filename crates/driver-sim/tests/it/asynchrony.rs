//! Work that comes later: in an order that streams and events allow and the seed picks, at waits and steps alone, with
//! queries that say what is so. Random programs, held against a model that knows nothing but who stands behind whom.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use cuhold_driver_sim::{
    Sim,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};
use proptest::prelude::*;

use crate::{
    ask::{BLOCKING, NON_BLOCKING, call, event, stream},
    graph_kit::seeded,
};

/// What was done, in its order.
type Done = Arc<Mutex<Vec<usize>>>;

/// A host function's data: never freed, since work may be done as late as the driver's end.
struct Note {
    done: Done,
    number: usize,
}

unsafe extern "C" fn note(data: *mut c_void) {
    // SAFETY: the data of these tests is a `Note`, which is never freed.
    let note = unsafe { &*data.cast::<Note>() };
    note.done.lock().unwrap().push(note.number);
}

/// A program under way, and what the model knows of it.
struct Program {
    sim: Sim,
    streams: Vec<CUstream>,
    events: Vec<CUevent>,
    done: Done,
    /// Of each piece of work: all that it stands behind.
    behind: Vec<BTreeSet<usize>>,
    /// What all later work of each stream stands behind, and what each event stands for, once it was recorded.
    on_stream: Vec<BTreeSet<usize>>,
    at_event: Vec<Option<BTreeSet<usize>>>,
}

const STREAMS: usize = 4;
const EVENTS: usize = 3;

impl Program {
    fn new(seed: u64) -> Self {
        let (sim, _) = seeded(seed);
        // The first one is the default stream, which the second one is ordered with.
        let made = [BLOCKING, NON_BLOCKING, NON_BLOCKING].map(|flags| stream(&sim, flags));
        let streams = [CU_STREAM_LEGACY].into_iter().chain(made).collect();
        let events = (0..EVENTS).map(|_| event(&sim)).collect();
        Self {
            sim,
            streams,
            events,
            done: Done::default(),
            behind: Vec::new(),
            on_stream: vec![BTreeSet::new(); STREAMS],
            at_event: vec![None; EVENTS],
        }
    }

    /// What work that is put on a stream now stands behind.
    fn before(&self, s: usize) -> BTreeSet<usize> {
        let ordered_with: &[usize] = match s {
            0 => &[0, 1],
            1 => &[1, 0],
            _ => std::slice::from_ref(&s),
        };
        let all = ordered_with.iter().filter_map(|s| self.on_stream.get(*s));
        all.flatten().copied().collect()
    }

    fn make(&mut self, which: u8, s: usize, e: usize) {
        let (sim, stream, event) =
            (&self.sim, *self.streams.get(s).unwrap(), *self.events.get(e).unwrap());
        match which % 5 {
            0 | 1 => {
                let (number, done) = (self.behind.len(), Arc::clone(&self.done));
                let data: *mut Note = Box::leak(Box::new(Note { done, number }));
                call!(sim, cuLaunchHostFunc(stream, Some(note), data.cast())).unwrap();
                let mut before = self.before(s);
                self.behind.push(before.clone());
                before.insert(number);
                *self.on_stream.get_mut(s).unwrap() = before;
            }
            2 => {
                call!(sim, cuEventRecord(event, stream)).unwrap();
                let before = self.before(s);
                *self.on_stream.get_mut(s).unwrap() = before.clone();
                *self.at_event.get_mut(e).unwrap() = Some(before);
            }
            3 => {
                call!(sim, cuStreamWaitEvent(stream, event, 0)).unwrap();
                let Some(Some(work)) = self.at_event.get(e) else { return };
                let mut before = self.before(s);
                before.extend(work);
                *self.on_stream.get_mut(s).unwrap() = before;
            }
            _ => {
                sim.stream_step(stream);
            }
        }
    }

    /// Whether all of this is done.
    fn are_done(&self, work: &BTreeSet<usize>) -> bool {
        let done = self.done.lock().unwrap();
        work.iter().all(|number| done.contains(number))
    }

    /// Every query says what is so.
    fn check_queries(&self) {
        let answer = |is_done: bool| if is_done { Ok(()) } else { Err(CUresult::NOT_READY) };
        for (event, work) in self.events.iter().zip(&self.at_event) {
            // One that was never recorded counts as done.
            let is_done = work.as_ref().is_none_or(|work| self.are_done(work));
            assert_eq!(call!(self.sim, cuEventQuery(*event)), answer(is_done));
        }
        for (number, stream) in self.streams.iter().enumerate() {
            // A wait for a blocking stream isn't one for the default stream, beyond what the stream itself waits for.
            let work = match number {
                0 => &self.before(0),
                _ => self.on_stream.get(number).unwrap(),
            };
            assert_eq!(call!(self.sim, cuStreamQuery(*stream)), answer(self.are_done(work)));
        }
    }

    /// Each piece of work was done behind all that it stands behind, and once.
    fn check_order(&self) {
        let done = self.done.lock().unwrap();
        let mut seen = BTreeSet::new();
        for number in &*done {
            assert!(self.behind.get(*number).unwrap().is_subset(&seen), "{number} in {done:?}");
            assert!(seen.insert(*number), "{number} twice in {done:?}");
        }
    }
}

fn calls() -> impl Strategy<Value = Vec<(u8, usize, usize)>> {
    prop::collection::vec((any::<u8>(), 0..STREAMS, 0..EVENTS), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn queries_tell_what_is_done_and_work_is_done_in_an_order_that_was_asked_for(
        calls in calls(),
        seed in any::<u64>(),
    ) {
        let mut program = Program::new(seed);
        for (which, s, e) in calls {
            let before = program.done.lock().unwrap().len();
            program.make(which, s, e);
            let after = program.done.lock().unwrap().len();
            prop_assert!(after - before <= usize::from(which % 5 == 4), "work came without a step");
            program.check_queries();
            program.check_order();
        }
        program.sim.run_all();
        program.check_order();
        prop_assert_eq!(program.done.lock().unwrap().len(), program.behind.len());
        program.check_queries();
        crate::ask::assert_clean(&program.sim);
    }

    #[test]
    fn the_same_calls_with_the_same_seed_are_done_in_the_same_order(calls in calls(), seed in any::<u64>()) {
        let order = || {
            let mut program = Program::new(seed);
            for (which, s, e) in &calls {
                program.make(*which, *s, *e);
            }
            program.sim.run_all();
            let done = program.done.lock().unwrap().clone();
            (done, program.sim.now_ns())
        };
        prop_assert_eq!(order(), order());
    }
}
