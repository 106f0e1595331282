//! Events: a place in a stream's work, remembered.
//!
//! ```text
//!   never recorded ──record──► recorded(point, serial) ──work done──► with a time
//!                  └─record on a captured stream──► captured(capture, nodes)
//! ```
//!
//! An event that was never recorded counts as done. One that was recorded in a capture answers `CAPTURED_EVENT` while
//! that capture is valid, which invalidates it, and `INVALID_VALUE` afterwards, until it is recorded again (measured).
//!
//! Source: CUDA Driver API 13.x, "Event Management".

use std::sync::{Arc, atomic::Ordering};

use cuhold_driver_sys::ffi::*;

use crate::{
    audit::{ObjectKind, ViolationKind},
    capture::CaptureId,
    context::Context,
    elsewhere::Wait,
    graph::{Deed, Edge, Graph, NodeKind, Params, Task},
    memory::{HandleOf, SharedEvent, from_c, handle, named, to_c},
    order::{Clock, Place},
    queue::{Point, Work},
    stream::Target,
    world::{Absent, Answer, Ending, Key, Out, State, Turn},
};

const TIMING_OFF: c_uint = CUevent_flags::CU_EVENT_DISABLE_TIMING.0;
const INTERPROCESS: c_uint = CUevent_flags::CU_EVENT_INTERPROCESS.0;
const FLAGS: c_uint = CUevent_flags::CU_EVENT_BLOCKING_SYNC.0 | TIMING_OFF | INTERPROCESS;
const EXTERNAL: c_uint = CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL.0;

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: Key<Context>,
    flags: c_uint,
    /// Counts records, so that the time of an older one isn't taken for the newest one's.
    serial: u64,
    pub(crate) record: Record,
    /// Of an event between processes: what all of them see, and the number that its newest record here has there.
    shared: Option<(Arc<SharedEvent>, u64)>,
}

/// What an event's last record was.
#[derive(Clone, Debug)]
pub(crate) enum Record {
    Never,
    /// On a stream: done once the point is reached, and then at the time in nanoseconds.
    On {
        point: Point,
        time_ns: Option<u64>,
        /// What was done then.
        place: Option<Place>,
    },
    /// On a captured stream, behind these nodes.
    Captured {
        capture: CaptureId,
        after: Vec<Edge>,
    },
}

impl State {
    /// The record with this serial of an event was reached just now.
    pub(crate) fn event_happened(&mut self, event: Key<Event>, serial: u64, done: Place) {
        let now = self.now_ns;
        let Some(event) = self.events.get_mut(event).filter(|event| event.serial == serial) else {
            return;
        };
        if let Record::On { time_ns, place, .. } = &mut event.record {
            *time_ns = Some(now);
            *place = Some(done);
        }
    }
}

impl Turn<'_> {
    /// The live event with this handle.
    pub(crate) fn event(&mut self, raw: CUevent) -> Result<Key<Event>, CUresult> {
        let status = match self.state.events.absent(raw.addr()) {
            Absent::Ended(Some(grave)) => self.status_of_gone(grave),
            _ => CUresult::INVALID_HANDLE,
        };
        self.find(|state| &state.events, raw.addr(), status)
    }

    pub(crate) fn event_data(&mut self, key: Key<Event>) -> Result<&mut Event, CUresult> {
        self.state.events.get_mut(key).ok_or(CUresult::INVALID_HANDLE)
    }

    /// Two objects of different contexts: `INVALID_HANDLE` (measured), and a violation.
    pub(crate) fn same_context(&mut self, event: Key<Event>, other: Key<Context>) -> Answer {
        let (made_in, other) = (self.event_data(event)?.context, self.state.owner_of(other));
        if made_in == other {
            return Ok(());
        }
        let object = Some((ObjectKind::Event, event.raw() as u64));
        self.violate(ViolationKind::WrongContext, object, "");
        Err(CUresult::INVALID_HANDLE)
    }

    /// Whether another process recorded the event behind work that isn't done. An event that its process destroyed is
    /// used all the same, which is a violation.
    pub(crate) fn waits_for_another(&mut self, event: Key<Event>) -> Result<bool, CUresult> {
        let process = self.state.memory.process;
        let Some((shared, mine)) = &self.event_data(event)?.shared else { return Ok(false) };
        let waits = shared.waits_for_another(*mine);
        if shared.process != process && shared.destroyed.load(Ordering::Relaxed) {
            let object = Some((ObjectKind::Event, event.raw() as u64));
            self.violate(ViolationKind::UseAfterDestroy, object, "the exporting process ended it");
        }
        Ok(waits)
    }

    /// A wait for the record that another process made of an event, if that isn't reached.
    fn wait_for_another(&mut self, event: Key<Event>) -> Result<Option<Wait>, CUresult> {
        if !self.waits_for_another(event)? {
            return Ok(None);
        }
        let shared = self.event_data(event)?.shared.as_ref();
        Ok(shared.map(|(shared, _)| Wait::for_newest(Arc::clone(shared))))
    }

    /// The point that an event's last record stands for; `None` if there is nothing to wait for. What another process
    /// has to do first can't be waited for in this way.
    pub(crate) fn event_point(&mut self, event: Key<Event>) -> Result<Option<Point>, CUresult> {
        if self.waits_for_another(event)? {
            return Err(CUresult::MISSING);
        }
        self.own_point(event)
    }

    /// What is done once the event's record at this point is reached; of one between processes also what they told of it.
    pub(crate) fn place_of(&mut self, event: Key<Event>, point: Point) -> Result<Place, CUresult> {
        match &self.event_data(event)?.record {
            Record::On { place: Some(place), .. } => Ok(place.clone()),
            _ => Ok(self.state.order.place(point)),
        }
    }

    /// What other processes did before they recorded an event, as far as that was reached.
    fn told_by_others(&mut self, event: Key<Event>) -> Result<Option<Clock>, CUresult> {
        let shared = self.event_data(event)?.shared.as_ref();
        Ok(shared
            .filter(|(shared, mine)| shared.newest() != *mine)
            .map(|(shared, _)| shared.known()))
    }

    /// The host was told that an event was reached.
    fn host_reached_event(&mut self, event: Key<Event>, point: Option<Point>) -> Answer {
        if let Some(point) = point {
            let place = self.place_of(event, point)?;
            self.state.host_knows(&place);
        }
        if let Some(known) = self.told_by_others(event)? {
            self.state.host_learns(&known);
        }
        Ok(())
    }

    /// The same, for an event that no other process has to reach first.
    fn own_point(&mut self, event: Key<Event>) -> Result<Option<Point>, CUresult> {
        match self.event_data(event)?.record.clone() {
            Record::Never => Ok(None),
            Record::On { point, .. } => Ok(Some(point)),
            Record::Captured { capture, .. } => Err(self.captured_event_asked(capture)),
        }
    }
}

impl Turn<'_> {
    /// A node of an event that doesn't order the capture itself.
    fn capture_event(
        &mut self,
        target: Target,
        kind: NodeKind,
        event: CUevent,
        deed: Deed<Key<Graph>>,
    ) -> Answer {
        let place = self.captured_place(target)?;
        let place = place.ok_or(CUresult::ILLEGAL_STATE)?;
        self.add_captured(target, place, Task::new(kind, Params::Event(event), deed))
    }

    /// Waits, on a stream that isn't captured, for an event's record: where it stands, and what was done once it was
    /// reached; and for what other processes told of it.
    pub(crate) fn submit_behind(
        &mut self,
        target: Target,
        point: Point,
        place: Option<Place>,
        told: Option<Clock>,
    ) -> Point {
        let Some(place) = place else {
            return self.submit_known(target, Work::Marker, &[point], told.as_ref());
        };
        let mut known = told.unwrap_or_default();
        place.teach(&mut known);
        self.submit_known(target, Work::Marker, &[], Some(&known))
    }

    /// Records an event on a stream that isn't captured.
    pub(crate) fn record_on(&mut self, event: Key<Event>, target: Target) -> Answer {
        let data = self.event_data(event)?;
        data.serial += 1;
        let serial = data.serial;
        if let Some((shared, number)) = &mut data.shared {
            *number = shared.record();
        }
        let shared = data.shared.clone();
        let work = Work::Record { event, serial, shared: shared.clone() };
        let stamp = self.state.stamp(target.queue, self.site, &[], None);
        let (point, at_once) = self.state.queues.submit(target.queue, work, stamp, &[]);
        self.event_data(event)?.record = Record::On { point, time_ns: None, place: None };
        if let Some((shared, number)) = shared {
            shared.made(number, self.elsewhere(), point);
        }
        at_once.map_or(Ok(()), |taken| self.begin(taken))
    }
}

pub(crate) fn create(turn: &mut Turn<'_>, out: Out<CUevent>, flags: c_uint) -> Answer {
    let out = out.required()?;
    let context = turn.current()?;
    turn.not_lost()?;
    let timed_ipc = flags & INTERPROCESS != 0 && flags & TIMING_OFF == 0;
    if flags & !FLAGS != 0 || timed_ipc {
        return Err(CUresult::INVALID_VALUE);
    }
    let site = turn.site;
    let event = Event { context, flags, serial: 0, record: Record::Never, shared: None };
    out.write(CUevent::from_addr(turn.state.events.insert(site, event).raw()));
    Ok(())
}

/// Never waits: what waits for the event's record goes on waiting for it.
pub(crate) fn destroy(turn: &mut Turn<'_>, event: CUevent) -> Answer {
    if event.is_null() {
        return Err(CUresult::INVALID_HANDLE);
    }
    // A lost driver destroys nothing, and says so the second time as well (measured).
    turn.not_lost()?;
    let key = turn.event(event)?;
    let site = turn.site;
    let ended = turn.state.events.remove(key, site, Ending::Destroyed);
    let process = turn.state.memory.process;
    if let Some((shared, _)) = ended.and_then(|event| event.shared)
        && shared.process == process
    {
        shared.destroyed.store(true, Ordering::Relaxed);
        turn.state.memory.exchange.withdraw_event((process, key.id()));
    }
    Ok(())
}

pub(crate) fn record(turn: &mut Turn<'_>, event: CUevent, stream: CUstream) -> Answer {
    record_with_flags(turn, event, stream, 0)
}

pub(crate) fn record_with_flags(
    turn: &mut Turn<'_>,
    event: CUevent,
    stream: CUstream,
    flags: c_uint,
) -> Answer {
    let raw = event;
    let event = turn.event(event)?;
    let target = turn.stream(stream)?;
    turn.same_context(event, target.context)?;
    turn.not_lost()?;
    turn.waits_for_another(event)?;
    match flags {
        0 => {}
        EXTERNAL if turn.is_capturing(target) => {
            let deed = Deed::Record(event);
            return turn.capture_event(target, NodeKind::EventRecord, raw, deed);
        }
        EXTERNAL => return Err(CUresult::ILLEGAL_STATE),
        _ => return Err(CUresult::INVALID_VALUE),
    }
    if let Some((capture, after)) = turn.captured_place(target)? {
        turn.event_data(event)?.record = Record::Captured { capture, after };
        return Ok(());
    }
    turn.record_on(event, target)
}

pub(crate) fn query(turn: &mut Turn<'_>, event: CUevent) -> Answer {
    let event = turn.event(event)?;
    turn.not_lost()?;
    if let Some(wait) = turn.wait_for_another(event)? {
        turn.check_capture()?;
        if turn.state.options.queries_advance {
            turn.help_once(&wait, &mut Vec::new());
        }
        return Err(CUresult::NOT_READY);
    }
    let point = turn.own_point(event)?;
    turn.check_capture()?;
    let Some(point) = point.filter(|point| !turn.state.queues.is_reached(*point)) else {
        return turn.host_reached_event(event, point);
    };
    if turn.state.options.queries_advance {
        turn.advance(point.queue);
    }
    Err(CUresult::NOT_READY)
}

pub(crate) fn synchronize(turn: &mut Turn<'_>, event: CUevent) -> Answer {
    let event = turn.event(event)?;
    turn.not_lost()?;
    if let Some(wait) = turn.wait_for_another(event)? {
        turn.check_capture()?;
        return turn.complete_elsewhere(&wait);
    }
    let point = turn.own_point(event)?;
    turn.check_capture()?;
    if let Some(point) = point {
        turn.host_waits_for(point);
        turn.complete(point)?;
    }
    // While code of the caller ran, another thread may have ended it.
    if turn.state.events.get(event).is_some() {
        turn.host_reached_event(event, point)?;
    }
    turn.state.memory.synchronized();
    Ok(())
}

/// The time between two events; both of one context, with timing, recorded and done.
pub(crate) fn elapsed_time(
    turn: &mut Turn<'_>,
    milliseconds: Out<f32>,
    start: CUevent,
    end: CUevent,
) -> Answer {
    let milliseconds = milliseconds.required()?;
    let (start, end) = (turn.event(start)?, turn.event(end)?);
    let context = turn.event_data(start)?.context;
    turn.same_context(end, context)?;
    turn.not_lost()?;
    let (from, to) = (recorded(turn, start)?, recorded(turn, end)?);
    let (Some(from), Some(to)) = (from, to) else { return Err(CUresult::NOT_READY) };
    for event in [start, end] {
        let point = turn.own_point(event)?;
        turn.host_reached_event(event, point)?;
    }
    milliseconds.write(to_milliseconds(from, to));
    Ok(())
}

/// When a record happened, `None` if it hasn't yet; `INVALID_HANDLE` for events without one or without timing.
fn recorded(turn: &mut Turn<'_>, event: Key<Event>) -> Result<Option<u64>, CUresult> {
    let event = turn.event_data(event)?;
    match event.record {
        Record::On { time_ns, .. } if event.flags & TIMING_OFF == 0 => Ok(time_ns),
        _ => Err(CUresult::INVALID_HANDLE),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "C's answer is a float; half a microsecond of resolution is documented"
)]
fn to_milliseconds(from: u64, to: u64) -> f32 {
    let (sign, distance) = if to >= from { (1.0, to - from) } else { (-1.0, from - to) };
    (sign * distance as f64 / 1e6) as f32
}

/// Opens an event of another process; the process that made it can't (measured).
pub(crate) fn open_ipc_handle(
    turn: &mut Turn<'_>,
    out: Out<CUevent>,
    handle: CUipcEventHandle,
) -> Answer {
    let out = out.required()?;
    let context = turn.current()?;
    turn.not_lost()?;
    let number = named(HandleOf::Event, &from_c(handle.reserved));
    let shared = number.and_then(|number| turn.state.memory.exchange.event(number));
    let shared = shared.ok_or(CUresult::MAP_FAILED)?;
    if shared.process == turn.state.memory.process {
        return Err(CUresult::INVALID_CONTEXT);
    }
    let (site, flags) = (turn.site, TIMING_OFF | INTERPROCESS);
    let shared = Some((shared, 0));
    let event = Event { context, flags, serial: 0, record: Record::Never, shared };
    out.write(CUevent::from_addr(turn.state.events.insert(site, event).raw()));
    Ok(())
}

/// A handle for another process.
pub(crate) fn ipc_handle(
    turn: &mut Turn<'_>,
    out: Out<CUipcEventHandle>,
    event: CUevent,
) -> Answer {
    let out = out.required()?;
    turn.current()?;
    if event.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    let event = turn.event(event)?;
    turn.not_lost()?;
    let process = turn.state.memory.process;
    let data = turn.event_data(event)?;
    let is_own = data.shared.as_ref().is_none_or(|(shared, _)| shared.process == process);
    if data.flags & INTERPROCESS == 0 || !is_own {
        return Err(CUresult::INVALID_HANDLE);
    }
    let number = (process, event.id());
    if data.shared.is_none() {
        let shared = Arc::new(SharedEvent::of(process));
        let (mut mine, record) = (0, data.record.clone());
        if let Record::On { point, place, .. } = record {
            // What was recorded before is seen from now on.
            mine = shared.record();
            if let Some(place) = place {
                shared.reach(mine, &place);
            }
            shared.made(mine, turn.elsewhere(), point);
        }
        turn.event_data(event)?.shared = Some((Arc::clone(&shared), mine));
        turn.state.memory.exchange.export_event(number, shared);
    }
    out.write(CUipcEventHandle { reserved: to_c(handle(HandleOf::Event, number)) });
    Ok(())
}

/// Makes later work of the stream wait for what the event's last record stands for *now*.
pub(crate) fn stream_wait(
    turn: &mut Turn<'_>,
    stream: CUstream,
    event: CUevent,
    flags: c_uint,
) -> Answer {
    let target = turn.stream(stream)?;
    let raw = event;
    let event = turn.event(event)?;
    turn.not_lost()?;
    let external = flags == EXTERNAL && turn.is_capturing(target);
    if flags != 0 && !external {
        return Err(CUresult::INVALID_VALUE);
    }
    if external {
        return turn.capture_event(target, NodeKind::EventWait, raw, Deed::Await(event));
    }
    if let Some(wait) = turn.wait_for_another(event)? {
        if turn.is_capturing(target) {
            return Err(CUresult::MISSING);
        }
        turn.isolated(target)?;
        turn.submit(target, Work::Elsewhere(wait), &[]);
        return Ok(());
    }
    let told = turn.told_by_others(event)?;
    match turn.event_data(event)?.record.clone() {
        Record::Never => {
            if turn.capture_usable(target)?.is_none() && told.is_some() {
                turn.submit_known(target, Work::Marker, &[], told.as_ref());
            }
            Ok(())
        }
        Record::Captured { capture, after } => turn.join_capture(target, capture, &after),
        Record::On { point, place, .. } => {
            turn.isolated(target)?;
            turn.submit_behind(target, point, place, told);
            Ok(())
        }
    }
}
