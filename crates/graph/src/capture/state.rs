//! The states of a capture, and what may be asked of its builders in each. Nothing here calls the driver.
//!
//! One capture has a primary builder and any number of forks, which are its *members*.
//!
//! | phase | work, fork, join | end of the primary | drop of the primary | leaves |
//! |---|---|---|---|---|
//! | capturing | yes | asks the driver | asks the driver | by an end, or by work that the driver says invalidated it |
//! | invalidated | `Err`, names the call | asks the driver, which has no graph | asks the driver | by an end |
//! | ended | `Err` | `Err` | nothing | never |
//! | stuck | `Err` | `Err` | nothing | never: the driver refused to end it, and it goes on |
//!
//! | member | work, fork, join into it | may be joined | its drop |
//! |---|---|---|---|
//! | open | as the phase says | if it is a fork | leaves the capture unjoined |
//! | joined | `Err` | `Err` | nothing |
//! | dropped | — | `Err` | — |
//!
//! What the driver answers to the end decides who has the graph:
//!
//! | answer | graph given | phase | the graph |
//! |---|---|---|---|
//! | success | yes | ended | the caller's |
//! | a failure | no, and the stream captures no more | ended | there is none: the driver has destroyed it |
//! | a failure | yes | ended | destroyed by the library: nobody was promised it |
//! | a failure | no, and the stream goes on capturing, or can't be asked | stuck | the driver's, with the stream |

use cuhold_handles::{
    Error, Result,
    driver_sys::{CUresult, Call, Failure},
};

/// How far a capture is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Capturing,
    /// By this call, where it is known.
    Invalidated(Option<Failure>),
    Ended,
    Stuck,
}

/// A builder of the capture: the primary one is the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Member(usize);

/// The builder that began the capture.
pub(crate) const PRIMARY: Member = Member(0);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    Open,
    Joined,
    Dropped,
}

/// What the driver answered to the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Graph,
    /// It failed and gave a graph all the same.
    FailedWithGraph,
    /// It failed, and the stream captures no more.
    FailedAndOver,
    /// It failed, and the stream goes on capturing, or that isn't known.
    FailedAndGoesOn,
}

/// Who has the graph after the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Belongs {
    ToCaller,
    /// To be destroyed.
    ToNobody,
    /// There is none.
    Gone,
    /// To the driver, for good.
    ToDriver,
}

/// A capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Capture {
    phase: Phase,
    members: Vec<Standing>,
}

impl Capture {
    /// It has begun.
    pub(crate) fn begun() -> Self {
        Self { phase: Phase::Capturing, members: vec![Standing::Open] }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    fn standing(&self, member: Member) -> Standing {
        self.members.get(member.0).copied().unwrap_or(Standing::Dropped)
    }

    /// Whether this builder may add work now.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn may_work(&self, member: Member) -> Result<()> {
        match self.standing(member) {
            Standing::Open => self.is_capturing(),
            Standing::Joined => Err(Error::state("the builder was joined into another one")),
            Standing::Dropped => Err(Error::state("the builder is gone")),
        }
    }

    fn is_capturing(&self) -> Result<()> {
        Err(match self.phase {
            Phase::Capturing => return Ok(()),
            Phase::Invalidated(Some(Failure { call, status })) => Error::state(format!(
                "the capture was invalidated: {call} answered {status}; it can only be ended"
            )),
            Phase::Invalidated(None) => {
                Error::state("the capture was invalidated by somebody else; it can only be ended")
            }
            Phase::Ended => Error::state("the capture has ended"),
            Phase::Stuck => Error::state("the capture couldn't be ended, and its stream is lost to it"),
        })
    }

    /// A call of this capture's failed: those of capturing invalidate it. The first counts.
    pub(crate) fn failed(&mut self, failure: Failure) {
        if self.phase == Phase::Capturing && invalidates(failure.status) {
            self.phase = Phase::Invalidated(Some(failure));
        }
    }

    /// The driver says that the capture is invalid, and nobody here knows by what.
    pub(crate) fn found_invalid(&mut self) {
        if self.phase == Phase::Capturing {
            self.phase = Phase::Invalidated(None);
        }
    }

    /// Another stream was drawn in.
    pub(crate) fn forked(&mut self) -> Member {
        self.members.push(Standing::Open);
        Member(self.members.len() - 1)
    }

    /// Whether a builder may be joined into another one.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn may_join(&self, fork: Member, into: Member) -> Result<()> {
        if fork == into {
            return Err(Error::argument("forks: a builder into itself"));
        }
        if fork == PRIMARY {
            return Err(Error::argument("forks: the builder that began the capture is none"));
        }
        self.may_work(into)?;
        match self.standing(fork) {
            Standing::Open => Ok(()),
            Standing::Joined | Standing::Dropped => {
                Err(Error::argument("forks: a builder that was joined already"))
            }
        }
    }

    /// The fork's work is in front of another builder's from here on.
    pub(crate) fn joined(&mut self, fork: Member) {
        self.stand(fork, Standing::Joined);
    }

    /// The builder is gone. A fork that wasn't joined leaves the capture unjoined.
    pub(crate) fn dropped(&mut self, member: Member) {
        if self.standing(member) == Standing::Open {
            self.stand(member, Standing::Dropped);
        }
    }

    fn stand(&mut self, member: Member, standing: Standing) {
        if let Some(place) = self.members.get_mut(member.0) {
            *place = standing;
        }
    }

    /// How many forks weren't joined.
    pub(crate) fn unjoined(&self) -> usize {
        self.members.iter().skip(1).filter(|standing| **standing != Standing::Joined).count()
    }

    /// Whether the driver is to be asked to end the capture by this builder.
    ///
    /// # Errors
    /// A fork, which the driver isn't asked for: it would end nothing; a capture that is over.
    pub(crate) fn may_end(&self, member: Member) -> Result<()> {
        if member != PRIMARY {
            return Err(Error::state("a fork isn't ended but joined into the builder it came from"));
        }
        match self.phase {
            Phase::Capturing | Phase::Invalidated(_) => Ok(()),
            Phase::Ended | Phase::Stuck => self.is_capturing(),
        }
    }

    /// The driver was asked to end it.
    pub(crate) fn ended(&mut self, answer: Answer) -> Belongs {
        let (phase, belongs) = match answer {
            Answer::Graph => (Phase::Ended, Belongs::ToCaller),
            Answer::FailedWithGraph => (Phase::Ended, Belongs::ToNobody),
            Answer::FailedAndOver => (Phase::Ended, Belongs::Gone),
            Answer::FailedAndGoesOn => (Phase::Stuck, Belongs::ToDriver),
        };
        self.phase = phase;
        belongs
    }

    /// Whether a drop of the primary builder has something to end.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Capturing | Phase::Invalidated(_))
    }
}

/// Whether a status says that the capture is invalid from then on. (A wrong thread is refused, and changes nothing.)
fn invalidates(status: CUresult) -> bool {
    [
        CUresult::STREAM_CAPTURE_UNSUPPORTED,
        CUresult::STREAM_CAPTURE_INVALIDATED,
        CUresult::STREAM_CAPTURE_MERGE,
        CUresult::STREAM_CAPTURE_ISOLATION,
        CUresult::STREAM_CAPTURE_IMPLICIT,
    ]
    .contains(&status)
}

/// The end's own call.
pub(crate) const END: Call = Call::cuStreamEndCapture;
