//! The states of a capture, and what may be asked of its builders in each. Nothing here calls the driver.
//!
//! One capture has a primary builder and any number of forks, which are its *members*. The primary builder of a conditional's
//! body is ended by the library when its closure returns; that of a graph by its user.
//!
//! | phase | work, fork, join | end, drop of the primary | left by |
//! |---|---|---|---|
//! | capturing | yes | asks the driver | an end; a call that invalidated or spoilt it |
//! | invalid | `Err`, names the call where it is known | asks the driver, which has no graph | an end |
//! | spoilt: the graph isn't what was asked for | `Err`, names the call | asks the driver; its graph is destroyed | an end |
//! | poisoned: a body was freed inside of it | `Err`, names the call | asks the driver; its graph is leaked | an end |
//! | ended | `Err` | end: `Err`; drop: nothing | – |
//! | stuck: the driver didn't end it | `Err` | end: `Err`; drop: nothing | – |
//!
//! | member | work, fork, join into it | may be joined | its drop |
//! |---|---|---|---|
//! | open | as the phase says | a fork | leaves a fork unjoined |
//! | joined | `Err` | `Err` | nothing |
//! | dropped | – | `Err` | – |
//!
//! What the driver answers to the end decides who has the graph:
//!
//! | answer | phase then | the graph is |
//! |---|---|---|
//! | success, while spoilt | ended | destroyed |
//! | success, while poisoned | ended | leaked: destroying it ends the process (measured) |
//! | success | ended | the caller's |
//! | a failure with a graph | ended | destroyed: it was promised to nobody; while poisoned leaked |
//! | a failure, and the stream isn't captured any more | ended | gone: the driver destroyed it (measured) |
//! | a failure, and the stream is still captured, or it can't be told | stuck | the driver's, for good |

#[cfg(test)]
mod tests;

use cuhold_handles::{
    Error, Result,
    driver_sys::{CUresult, Failure},
};

/// Why a capture is good for nothing but an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// This call answered so.
    By(Failure),
    /// Somebody else's call; this one was told so.
    NoticedBy(Failure),
    /// Somebody else's call; the driver said so when it was asked.
    Unknown,
}

/// How far a capture is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Capturing,
    Invalid(Cause),
    Spoilt(Option<Failure>),
    Poisoned(Failure),
    Ended,
    Stuck,
}

/// A builder of the capture.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Member(usize);

/// The builder that began the capture.
pub(crate) const PRIMARY: Member = Member(0);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    Open,
    Joined,
    Dropped,
}

/// Who ends a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Its user.
    Graph,
    /// The library, when the closure of a body that is captured apart returns.
    Apart,
    /// The same of a body that is captured straight into its graph.
    Direct,
}

/// What the driver answered to the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Graph,
    FailedWithGraph,
    /// It failed, and the stream isn't captured any more.
    FailedAndOver,
    /// It failed, and the stream is still captured, or that isn't known.
    FailedAndGoesOn,
}

/// Who has the graph after the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Belongs {
    ToCaller,
    /// To be destroyed.
    ToNobody,
    /// To be left alone for good.
    ToTheLeaks,
    /// There is none.
    Gone,
    /// To the driver, for good.
    ToDriver,
}

/// A capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Capture {
    role: Role,
    phase: Phase,
    members: Vec<Standing>,
}

impl Capture {
    /// It has begun.
    pub(crate) fn begun(role: Role) -> Self {
        Self { role, phase: Phase::Capturing, members: vec![Standing::Open] }
    }

    pub(crate) fn role(&self) -> Role {
        self.role
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
        match self.why_not() {
            Some(why) => Err(Error::state(why)),
            None => Ok(()),
        }
    }

    /// Why nothing more can be captured; `None` while it can.
    pub(crate) fn why_not(&self) -> Option<String> {
        Some(match self.phase {
            Phase::Capturing => return None,
            Phase::Invalid(Cause::By(Failure { call, status })) => {
                format!("the capture was invalidated by {call}, which answered {status}; it can only be ended")
            }
            Phase::Invalid(Cause::NoticedBy(Failure { call, .. })) => format!(
                "the capture was invalidated by a call that went past its builders, before {call}; it can only be ended"
            ),
            Phase::Invalid(Cause::Unknown) => {
                "the capture was invalidated by a call that went past its builders; it can only be ended".to_owned()
            }
            Phase::Spoilt(None) => {
                "the capture has a conditional's body that isn't whole; it can only be ended".to_owned()
            }
            Phase::Spoilt(Some(Failure { call, status })) => format!(
                "the capture isn't what was asked for since {call} answered {status}; it can only be ended"
            ),
            Phase::Poisoned(Failure { call, status }) => format!(
                "the driver freed a conditional's body inside of the capture when {call} answered {status}; it can only \
                 be ended, and its graph can't be used"
            ),
            Phase::Ended => "the capture has ended".to_owned(),
            Phase::Stuck => {
                "the capture couldn't be ended, and its stream is lost to it".to_owned()
            }
        })
    }

    /// A call of a builder failed. The statuses of captures say that this one is invalid from then on.
    pub(crate) fn failed(&mut self, failure: Failure) {
        if self.phase != Phase::Capturing {
            return;
        }
        if failure.status == CUresult::STREAM_CAPTURE_INVALIDATED {
            self.phase = Phase::Invalid(Cause::NoticedBy(failure));
        } else if INVALIDATE.contains(&failure.status) {
            self.phase = Phase::Invalid(Cause::By(failure));
        }
    }

    /// The driver says that the capture is invalid.
    pub(crate) fn found_invalid(&mut self) {
        if self.phase == Phase::Capturing {
            self.phase = Phase::Invalid(Cause::Unknown);
        }
    }

    /// A part of what was asked for isn't in the graph, and can't be put there any more.
    pub(crate) fn spoilt(&mut self, failure: Option<Failure>) {
        if self.phase == Phase::Capturing {
            self.phase = Phase::Spoilt(failure);
        }
    }

    /// The driver has freed a body of the graph.
    pub(crate) fn poisoned(&mut self, failure: Failure) {
        if self.is_open() {
            self.phase = Phase::Poisoned(failure);
        }
    }

    /// Another stream was drawn in.
    pub(crate) fn forked(&mut self) -> Member {
        self.members.push(Standing::Open);
        Member(self.members.len() - 1)
    }

    /// Whether a builder may be joined into another one of the capture.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn may_join(&self, fork: Member, into: Member) -> Result<()> {
        self.may_follow(into, fork)?;
        if fork == PRIMARY {
            return Err(Error::argument("forks: the builder that began the capture is none"));
        }
        Ok(())
    }

    /// Whether a builder's next work may come behind another one's.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn may_follow(&self, member: Member, other: Member) -> Result<()> {
        if member == other {
            return Err(Error::argument("forks: a builder into itself"));
        }
        self.may_work(member)?;
        match self.standing(other) {
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

    /// Whether a user may ask for the end by this builder.
    ///
    /// # Errors
    /// A fork, which the driver isn't asked for: it would invalidate the capture (measured); a body; a capture that is over.
    pub(crate) fn may_end(&self, member: Member) -> Result<()> {
        if member != PRIMARY {
            return Err(Error::state(
                "a fork isn't ended but joined into the builder that it came from",
            ));
        }
        if self.role != Role::Graph {
            return Err(Error::state("a body ends when its closure returns"));
        }
        if self.is_open() { Ok(()) } else { self.is_capturing() }
    }

    /// The driver was asked to end it.
    pub(crate) fn ended(&mut self, answer: Answer) -> Belongs {
        let poisoned = matches!(self.phase, Phase::Poisoned(_));
        let spoilt = matches!(self.phase, Phase::Spoilt(_));
        let (phase, belongs) = match answer {
            Answer::Graph | Answer::FailedWithGraph if poisoned => {
                (Phase::Ended, Belongs::ToTheLeaks)
            }
            Answer::Graph if !spoilt => (Phase::Ended, Belongs::ToCaller),
            Answer::Graph | Answer::FailedWithGraph => (Phase::Ended, Belongs::ToNobody),
            Answer::FailedAndOver => (Phase::Ended, Belongs::Gone),
            Answer::FailedAndGoesOn => (Phase::Stuck, Belongs::ToDriver),
        };
        self.phase = phase;
        belongs
    }

    /// Whether there is something to end.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Ended | Phase::Stuck)
    }
}

/// The statuses that say that the capture is invalid from then on, by the call that answers so.
const INVALIDATE: [CUresult; 4] = [
    CUresult::STREAM_CAPTURE_UNSUPPORTED,
    CUresult::STREAM_CAPTURE_MERGE,
    CUresult::STREAM_CAPTURE_ISOLATION,
    CUresult::STREAM_CAPTURE_IMPLICIT,
];
