//! The states against a simpler model: all short sequences of events, and random longer ones.

use super::*;
use cuhold_handles::driver_sys::Call;
use proptest::prelude::*;
use std::collections::BTreeSet;

const CALL: Call = Call::cuLaunchKernelEx;

fn failure(status: CUresult) -> Failure {
    Failure { call: CALL, status }
}

/// What may happen, in any order, also where it makes no sense.
#[derive(Clone, Copy, Debug)]
enum Event {
    Fork,
    Join(usize, usize),
    Drop(usize),
    Fail(CUresult),
    FindInvalid,
    Spoil,
    Poison,
    End(Answer),
}

/// What is remembered of a capture, without phases.
#[derive(Clone, Debug)]
struct Model {
    over: Option<Answer>,
    first_trouble: Option<&'static str>,
    members: usize,
    joined: BTreeSet<usize>,
    dropped: BTreeSet<usize>,
}

impl Model {
    fn new() -> Self {
        let none = BTreeSet::new();
        Self { over: None, first_trouble: None, members: 1, joined: none.clone(), dropped: none }
    }

    fn captures(&self) -> bool {
        self.over.is_none() && self.first_trouble.is_none()
    }

    fn is_open(&self, member: usize) -> bool {
        member < self.members && !self.joined.contains(&member) && !self.dropped.contains(&member)
    }

    fn trouble(&mut self, what: &'static str) {
        if self.over.is_none() && self.first_trouble.is_none() {
            self.first_trouble = Some(what);
        }
    }
}

/// Does the event to both, as the builders do: what isn't allowed isn't done.
fn step(state: &mut Capture, model: &mut Model, event: Event) {
    match event {
        Event::Fork => {
            assert_eq!(state.may_work(PRIMARY).is_ok(), model.captures() && model.is_open(0));
            if state.may_work(PRIMARY).is_ok() {
                assert_eq!(state.forked(), Member(model.members));
                model.members += 1;
            }
        }
        Event::Join(fork, into) => {
            let may = state.may_join(Member(fork), Member(into));
            let both = model.is_open(fork) && model.is_open(into);
            assert_eq!(
                may.is_ok(),
                model.captures() && both && fork != into && fork != 0,
                "{may:?}"
            );
            if may.is_ok() {
                state.joined(Member(fork));
                model.joined.insert(fork);
            }
        }
        Event::Drop(member) => {
            state.dropped(Member(member));
            if model.is_open(member) {
                model.dropped.insert(member);
            }
        }
        Event::Fail(status) => {
            state.failed(failure(status));
            match status {
                CUresult::STREAM_CAPTURE_INVALIDATED => model.trouble("noticed"),
                CUresult::STREAM_CAPTURE_MERGE => model.trouble("by"),
                _ => {}
            }
        }
        Event::FindInvalid => {
            state.found_invalid();
            model.trouble("found");
        }
        Event::Spoil => {
            state.spoilt(Some(failure(CUresult::INVALID_VALUE)));
            model.trouble("spoilt");
        }
        Event::Poison => {
            state.poisoned(failure(CUresult::STREAM_CAPTURE_INVALIDATED));
            if model.over.is_none() {
                // Worse than all else: the graph is dangerous from then on.
                model.first_trouble = Some("poisoned");
            }
        }
        Event::End(answer) => {
            let may = state.may_end(PRIMARY).is_ok();
            assert_eq!(may, model.over.is_none());
            if may {
                let belongs = state.ended(answer);
                assert_eq!(belongs, expected(model, answer));
                model.over = Some(answer);
            }
        }
    }
}

fn expected(model: &Model, answer: Answer) -> Belongs {
    let with_graph = matches!(answer, Answer::Graph | Answer::FailedWithGraph);
    match (model.first_trouble, answer) {
        (Some("poisoned"), _) if with_graph => Belongs::ToTheLeaks,
        (Some("spoilt"), Answer::Graph) | (_, Answer::FailedWithGraph) => Belongs::ToNobody,
        (_, Answer::Graph) => Belongs::ToCaller,
        (_, Answer::FailedAndOver) => Belongs::Gone,
        (_, Answer::FailedAndGoesOn) => Belongs::ToDriver,
    }
}

/// What must hold whatever happened.
fn check(state: &Capture, model: &Model) {
    assert_eq!(state.is_open(), model.over.is_none());
    assert_eq!(state.why_not().is_none(), model.captures());
    assert_eq!(state.unjoined(), model.members - 1 - model.joined.len());
    for member in 0..model.members + 1 {
        let may = state.may_work(Member(member));
        assert_eq!(may.is_ok(), model.captures() && model.is_open(member), "{state:?}");
        // A fork is never ended, whatever else holds.
        assert!(member == 0 || state.may_end(Member(member)).is_err());
    }
    let names_call = matches!(model.first_trouble, Some("by" | "noticed" | "spoilt" | "poisoned"));
    if model.over.is_none() && names_call {
        assert!(state.why_not().unwrap().contains("cuLaunchKernelEx"));
    }
}

const EVENTS: [Event; 18] = [
    Event::Fork,
    Event::Join(1, 0),
    Event::Join(2, 0),
    Event::Join(2, 1),
    Event::Join(0, 1),
    Event::Join(1, 1),
    Event::Drop(0),
    Event::Drop(1),
    Event::Fail(CUresult::STREAM_CAPTURE_INVALIDATED),
    Event::Fail(CUresult::STREAM_CAPTURE_MERGE),
    Event::Fail(CUresult::OUT_OF_MEMORY),
    Event::FindInvalid,
    Event::Spoil,
    Event::Poison,
    Event::End(Answer::Graph),
    Event::End(Answer::FailedWithGraph),
    Event::End(Answer::FailedAndOver),
    Event::End(Answer::FailedAndGoesOn),
];

fn all_after(state: &Capture, model: &Model, more: usize) {
    check(state, model);
    if more == 0 {
        return;
    }
    for event in EVENTS {
        let (mut state, mut model) = (state.clone(), model.clone());
        step(&mut state, &mut model, event);
        all_after(&state, &model, more - 1);
    }
}

#[test]
fn all_sequences_of_up_to_four_events_are_as_the_model_says() {
    all_after(&Capture::begun(Role::Graph), &Model::new(), 4);
}

proptest! {
    #[test]
    fn long_sequences_are_as_the_model_says(
        events in prop::collection::vec(
            prop_oneof![
                4 => Just(Event::Fork),
                4 => (0_usize..6, 0_usize..6).prop_map(|(fork, into)| Event::Join(fork, into)),
                2 => (0_usize..6).prop_map(Event::Drop),
                1 => prop::sample::select(EVENTS.to_vec()),
            ],
            0..40,
        )
    ) {
        let (mut state, mut model) = (Capture::begun(Role::Graph), Model::new());
        for event in events {
            step(&mut state, &mut model, event);
            check(&state, &model);
        }
    }
}

#[test]
fn a_body_is_ended_by_its_closure_alone() {
    let state = Capture::begun(Role::Apart);
    let error = state.may_end(PRIMARY).unwrap_err().to_string();
    assert!(error.contains("a body ends when its closure returns"), "{error}");
    assert!(state.is_open());
}

#[test]
fn the_first_call_that_invalidated_a_capture_is_the_one_that_is_named() {
    let mut state = Capture::begun(Role::Graph);
    state.failed(Failure {
        call: Call::cuMemcpyDtoDAsync_v2,
        status: CUresult::STREAM_CAPTURE_MERGE,
    });
    state.failed(failure(CUresult::STREAM_CAPTURE_INVALIDATED));
    let error = state.may_work(PRIMARY).unwrap_err().to_string();
    assert!(error.contains("cuMemcpyDtoDAsync") && !error.contains("cuLaunchKernelEx"), "{error}");
}
