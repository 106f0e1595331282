//! In which situations each operation is run: what is current, and which stream it works on.

/// What is current on the calling thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NowCurrent {
    /// Nothing.
    Nothing,
    /// The primary context of the device that the operation is about.
    Own,
    /// Another context of that device.
    OfSameDevice,
    /// The primary context of another device.
    OfOtherDevice,
    /// The same, but only another library uses that device.
    OfUnknownDevice,
}

/// Which stream [`Run::stream`](super::Run::stream) is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StreamKind {
    /// One that only the library knows.
    Created,
    /// One whose raw value was taken, so that others may capture it.
    Exposed,
    /// The legacy default stream.
    Legacy,
}

/// One situation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Situation {
    pub(crate) current: NowCurrent,
    pub(crate) stream: StreamKind,
}

const fn with(stream: StreamKind, current: NowCurrent) -> Situation {
    Situation { current, stream }
}

/// The plainest.
pub(crate) const PLAIN: Situation = with(StreamKind::Created, NowCurrent::Nothing);

/// Those of every operation.
pub(crate) const USUAL: &[Situation] = &[
    PLAIN,
    with(StreamKind::Created, NowCurrent::Own),
    with(StreamKind::Created, NowCurrent::OfSameDevice),
    with(StreamKind::Created, NowCurrent::OfOtherDevice),
    with(StreamKind::Created, NowCurrent::OfUnknownDevice),
];

/// What every operation on a stream is done with as well, wherever it is done.
pub(crate) const OF_LEGACY_STREAM: Situation = with(StreamKind::Legacy, NowCurrent::Nothing);

/// Those of operations on a stream as well.
pub(crate) const OF_STREAMS: &[Situation] = &[
    with(StreamKind::Exposed, NowCurrent::Own),
    with(StreamKind::Exposed, NowCurrent::OfOtherDevice),
    with(StreamKind::Exposed, NowCurrent::OfUnknownDevice),
    with(StreamKind::Legacy, NowCurrent::Nothing),
    with(StreamKind::Legacy, NowCurrent::Own),
    with(StreamKind::Legacy, NowCurrent::OfSameDevice),
    with(StreamKind::Legacy, NowCurrent::OfOtherDevice),
];
