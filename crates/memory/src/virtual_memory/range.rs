//! A mapped range: physical allocations side by side in reserved addresses, made, grown, shrunk, ended.
//!
//! Nothing that is mapped is ever touched by growing it. Where the addresses behind a range are reserved for it, or can be
//! had, what is new is mapped there, and both ranges hold the same mappings; else the same physical memory is mapped once
//! more somewhere else:
//!
//! ```text
//!   room behind it      ┌──── old ────┐                no room        ┌──── old ────┐
//!                       │ A │ B │     │ reserved                      │ A │ B │
//!                       │ A │ B │ C │ │                               ┌──────── new ────────┐
//!                       └──── new ────┘                               │ A │ B │ C │
//! ```
//!
//! Each step that fails is undone with those before it, the last first; what fails then is part of the error.

use super::options::Spec;
use cuhold_handles::{
    Access, Accessor, AnyCall, Closed, CudaWarning, Error, Fate, Mapping, Mark, Note, Object,
    ObjectKind, PhysicalAllocation, Refused, Reservation, ReservationOptions, Result, Status,
    Stream,
    driver_sys::{Failure, mutant},
};
use parking_lot::Mutex;
use std::sync::Arc;

/// Who may do what.
pub(super) type Grants = Vec<(Accessor, Access)>;

/// Reserved addresses, and how much of them is taken, from the beginning.
#[derive(Debug)]
struct Room {
    reservation: Reservation,
    taken_bytes: Mutex<usize>,
}

impl Room {
    fn new(reservation: Reservation) -> Arc<Self> {
        Arc::new(Self { reservation, taken_bytes: Mutex::new(0) })
    }

    fn start(&self) -> u64 {
        self.reservation.as_raw()
    }

    /// Takes what lies behind `from`, if it is the end of what is taken and is large enough.
    fn take(&self, from: u64, bytes: usize) -> bool {
        let Some(from) = from.checked_sub(self.start()).and_then(|at| usize::try_from(at).ok())
        else {
            return false;
        };
        let mut taken = self.taken_bytes.lock();
        let end = from.checked_add(bytes).filter(|end| *end <= self.reservation.bytes());
        match end {
            Some(end) if *taken == from => {
                *taken = end;
                true
            }
            _ => false,
        }
    }

    /// Gives back what lies behind `from`, if nobody took more since.
    fn give_back(&self, from: u64, bytes: usize) {
        let Some(from) = from.checked_sub(self.start()).and_then(|at| usize::try_from(at).ok())
        else {
            return;
        };
        let mut taken = self.taken_bytes.lock();
        if from.checked_add(bytes) == Some(*taken) {
            *taken = from;
        }
    }
}

/// Mappings side by side. Clones hold the same mappings, each of which ends with the last range that holds it.
#[derive(Clone, Debug)]
pub(super) struct Range {
    start: u64,
    /// By address, without gaps.
    parts: Vec<Mapping>,
    /// By address; the last one may have room behind the range.
    rooms: Vec<Arc<Room>>,
}

impl Range {
    /// Reserves, allocates, maps and gives access.
    pub(super) fn new(spec: &Spec, bytes: usize) -> Result<Self> {
        let mapped = spec.rounded(bytes)?;
        let options = &spec.options;
        let mut wish = ReservationOptions::aligned(options.alignment_bytes);
        wish.address = options.address;
        Build::reserve(spec, mapped, wish)?.finish(|build| build.add_new(mapped))
    }

    /// Maps what other processes exported: `import` gives each part.
    pub(super) fn of_parts(
        spec: &Spec,
        sizes: &[usize],
        import: impl Fn(usize, usize) -> Result<PhysicalAllocation>,
    ) -> Result<Self> {
        let mapped = sizes.iter().try_fold(0_usize, |sum, bytes| sum.checked_add(*bytes));
        let mapped = mapped.ok_or_else(|| Error::argument("parts: they are too large"))?;
        let wish = ReservationOptions::aligned(spec.options.alignment_bytes);
        Build::reserve(spec, mapped, wish)?.finish(|build| {
            for (place, bytes) in sizes.iter().enumerate() {
                let part = import(place, *bytes).map_err(|error| build.explained(error))?;
                build.add(part)?;
            }
            Ok(())
        })
    }

    /// Its address.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// How many bytes are mapped.
    pub(super) fn mapped_bytes(&self) -> usize {
        self.parts.iter().map(Mapping::bytes).sum()
    }

    /// How many bytes of addresses are reserved.
    pub(super) fn reserved_bytes(&self) -> usize {
        self.rooms.iter().map(|room| room.reservation.bytes()).sum()
    }

    /// What is mapped, by address.
    pub(super) fn parts(&self) -> &[Mapping] {
        &self.parts
    }

    fn end(&self) -> u64 {
        self.start.saturating_add(self.mapped_bytes() as u64)
    }

    /// The access that its last mapping gives, which is that of what is mapped behind it.
    fn grants(&self, spec: &Spec) -> Grants {
        let last = self.parts.last().map(Mapping::granted).unwrap_or_default();
        if last.is_empty() { spec.grants.clone() } else { last }
    }

    /// A range of at least that many bytes that begins with the same memory. This one stays as it is.
    pub(super) fn grown(&self, spec: &Spec, bytes: usize) -> Result<Self> {
        let mapped = spec.rounded(bytes)?;
        let Some(extra) = mapped.checked_sub(self.mapped_bytes()).filter(|extra| *extra > 0) else {
            return Ok(self.clone());
        };
        if let Some(room) = self.rooms.last()
            && room.take(self.end(), extra)
        {
            let build = Build::behind(self, spec, Arc::clone(room), false);
            return build.finish(|build| build.add_new(extra));
        }
        let first = match self.reserve_behind(spec, extra) {
            Ok(Some(room)) => {
                let build = Build::behind(self, spec, room, true);
                return build.finish(|build| build.add_new(extra));
            }
            Ok(None) => None,
            Err(error) => Some(error),
        };
        match (self.mapped_again(spec, mapped, extra), first) {
            (Ok(grown), None) => Ok(grown),
            (Ok(grown), Some(first)) => {
                self.tell_of_refused_neighbor(spec, &first);
                Ok(grown)
            }
            (Err(error), None) => Err(error),
            (Err(error), Some(first)) => Err(error.with_second(&first)),
        }
    }

    /// Reserves the addresses behind this range; `None` where the driver gave others, which are let go of.
    fn reserve_behind(&self, spec: &Spec, bytes: usize) -> Result<Option<Arc<Room>>> {
        let end = self.end();
        let behind = Reservation::of_granules(&spec.device, bytes, ReservationOptions::at(end))?;
        if behind.as_raw() != end {
            return Ok(None);
        }
        let room = Room::new(behind);
        Ok(room.take(end, bytes).then_some(room))
    }

    /// The same memory once more, at other addresses, with more behind it.
    fn mapped_again(&self, spec: &Spec, mapped: usize, extra: usize) -> Result<Self> {
        let wish = ReservationOptions::aligned(spec.options.alignment_bytes);
        let mut build = Build::reserve(spec, mapped, wish)?;
        build.grants = self.grants(spec);
        build.finish(|build| {
            for part in &self.parts {
                build.add(part.allocation().clone())?;
            }
            build.add_new(extra)
        })
    }

    /// The driver refused addresses that were only wished for: told, since the growth goes on without them.
    #[cold]
    fn tell_of_refused_neighbor(&self, spec: &Spec, error: &Error) {
        let driver = spec.device.driver();
        let object =
            Object { kind: ObjectKind::Reservation, raw: self.end(), id: driver.next_id() };
        let warning = match (error.call(), error.status()) {
            (Some(AnyCall::Driver(call)), Some(Status::Driver(status))) => {
                CudaWarning::failed(Failure { call, status }, object, Fate::Released)
            }
            _ => CudaWarning::note(object, "no addresses could be reserved there"),
        };
        driver.warn(warning.with_text("the range was mapped elsewhere instead"));
    }

    /// A range of the first of its mappings, as many as hold that many bytes.
    pub(super) fn shrunk(&self, bytes: usize) -> Self {
        let mut end = self.start;
        let parts: Vec<Mapping> = self
            .parts
            .iter()
            .take_while(|part| {
                let is_needed = end.saturating_sub(self.start) < bytes as u64;
                end = part.as_raw().saturating_add(part.bytes() as u64);
                is_needed
            })
            .cloned()
            .collect();
        let end = parts.last().map_or(self.start, |part| part.as_raw() + part.bytes() as u64);
        let rooms = self.rooms.iter().filter(|room| room.start() < end).cloned().collect();
        Self { start: self.start, parts, rooms }
    }

    /// Says that work on this stream uses the range: its mappings wait for it before they end.
    pub(super) fn used_on(&self, stream: &Stream) -> Result<()> {
        self.for_each(|part| part.used_on(stream))
    }

    /// Says that what is queued on this stream up to a mark uses the range.
    pub(super) fn used_until(&self, stream: &Stream, mark: &Arc<Mark<'static>>) {
        self.parts.iter().for_each(|part| part.used_until(stream, mark));
    }

    /// Does it with every mapping; the first failure is returned, with the others.
    pub(super) fn for_each(&self, each: impl Fn(&Mapping) -> Result<()>) -> Result<()> {
        let mut failed = None;
        for part in &self.parts {
            add(&mut failed, each(part));
        }
        failed.map_or(Ok(()), Err)
    }

    /// Unmaps, once the work that was told of is done, and that of the home stream; lets go of the memory and of the
    /// addresses. What another range holds as well stays.
    ///
    /// # Errors
    /// The first failure, with the others; everything else was ended all the same.
    pub(super) fn close(self, home: Option<&Stream>) -> Result<()> {
        let Self { parts, rooms, .. } = self;
        let mut failed = None;
        for part in parts.into_iter().rev() {
            if let Some(home) = home.filter(|_| !mutant::is_out("virtual-home")) {
                add(&mut failed, part.used_on(home));
            }
            let (place, bytes) = (part.as_raw(), part.bytes());
            let closed = close_part(part);
            let room = rooms.iter().rev().find(|room| room.start() <= place);
            match (closed, room) {
                (Ok(true), Some(room)) => room.give_back(place, bytes),
                (Ok(_), _) => {}
                (Err(error), _) => add(&mut failed, Err(error)),
            }
        }
        for room in rooms.into_iter().rev() {
            add(&mut failed, close_room(room));
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Ends a mapping and lets go of its memory; says whether it was unmapped: another range may hold it.
///
/// One whose users can't be waited for stays mapped for good, and its addresses with it.
fn close_part(part: Mapping) -> Result<bool> {
    let (allocation, own) = (part.allocation().clone(), part.as_raw());
    let addresses = part.reservation().as_raw();
    let closed = match close_mapping(part) {
        Ok(closed) => Ok(closed == Closed::Destroyed),
        Err(Refused { error, value: Some(part), .. }) => {
            // Not ended here, nor later.
            if !mutant::is_out("virtual-leak") {
                part.keep_for_good();
            }
            let error = error.with_note(Note::Leaked { raw: own });
            let is_other = own != addresses;
            Err(if is_other { error.with_note(Note::Leaked { raw: addresses }) } else { error })
        }
        Err(Refused { error, .. }) => Err(error),
    };
    let raw = allocation.as_raw();
    match (closed, named(allocation.close(), raw)) {
        (closed, Ok(_)) => closed,
        (Ok(_), Err(error)) => Err(error),
        (Err(first), Err(error)) => Err(first.with_second(&error)),
    }
}

/// Unmaps. Where its users are done, and only something around the wait failed, that is the error, and it is unmapped.
fn close_mapping(part: Mapping) -> Result<Closed, Refused<Option<Mapping>>> {
    match part.close() {
        Err(Refused { error, value: Some(part), .. }) if part.is_idle() => match part.close() {
            Ok(_) => Err(Refused::new(error, None)),
            Err(second) => Err(Refused::new(error.with_second(&second.error), second.value)),
        },
        closed => closed,
    }
}

/// The error of an end that the driver refused says what is lost.
fn named<T>(closed: Result<Closed, Refused<Option<T>>>, raw: u64) -> Result<Closed> {
    closed.map_err(
        |Refused { error, value, .. }| {
            if value.is_some() { error } else { error.with_note(Note::Leaked { raw }) }
        },
    )
}

/// Frees addresses, unless others hold them.
fn close_room(room: Arc<Room>) -> Result<()> {
    let Some(room) = Arc::into_inner(room) else { return Ok(()) };
    let raw = room.start();
    match room.reservation.close() {
        // Something is still mapped there, which was told.
        Err(Refused { error, value: Some(_), .. }) if error.call().is_none() => Ok(()),
        closed => named(closed, raw).map(drop),
    }
}

/// Keeps the first failure, and the others with it.
fn add(failed: &mut Option<Error>, result: Result<()>) {
    if let Err(error) = result {
        *failed = Some(match failed.take() {
            None => error,
            Some(first) => first.with_second(&error),
        });
    }
}

/// Adds what undoing a step brought.
pub(super) fn undone<T>(error: Error, result: Result<T>) -> Error {
    match result {
        Ok(_) => error,
        Err(undo) => error.with_undo(&undo),
    }
}

/// A range that is being put together: what it began with, and what is new.
struct Build<'a> {
    spec: &'a Spec,
    grants: Grants,
    /// What a range was grown from; never touched.
    base: Option<&'a Range>,
    /// The addresses that new parts are mapped in, and whether they are new as well.
    room: Arc<Room>,
    is_new: bool,
    /// Where the first new part begins.
    from: u64,
    parts: Vec<Mapping>,
    /// Whether nothing is left that couldn't be undone.
    is_clean: bool,
}

impl<'a> Build<'a> {
    /// In new addresses, of which `mapped` bytes are taken.
    fn reserve(spec: &'a Spec, mapped: usize, wish: ReservationOptions) -> Result<Self> {
        let bytes = spec.reserved(mapped)?;
        let room = Room::new(Reservation::of_granules(&spec.device, bytes, wish)?);
        *room.taken_bytes.lock() = mapped;
        let (from, grants) = (room.start(), spec.grants.clone());
        let (base, parts) = (None, Vec::new());
        Ok(Self { spec, grants, base, room, is_new: true, from, parts, is_clean: true })
    }

    /// Behind a range, in addresses that were taken for that.
    fn behind(base: &'a Range, spec: &'a Spec, room: Arc<Room>, is_new: bool) -> Self {
        let (from, grants) = (base.end(), base.grants(spec));
        let (base, parts) = (Some(base), Vec::new());
        Self { spec, grants, base, room, is_new, from, parts, is_clean: true }
    }

    /// Allocates that many bytes behind what is there.
    fn add_new(&mut self, bytes: usize) -> Result<()> {
        let mut missing = bytes;
        while missing > 0 {
            let part = self.spec.part(missing)?;
            let physical = self.spec.options.physical;
            let allocation = PhysicalAllocation::of_granules(&self.spec.device, part, physical)
                .map_err(|error| self.explained(error))?;
            self.add(allocation)?;
            missing -= part;
        }
        Ok(())
    }

    /// Maps one more part, and gives access to it.
    fn add(&mut self, allocation: PhysicalAllocation) -> Result<()> {
        let at = self.next().saturating_sub(self.room.start());
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let mapping = match Mapping::new(&self.room.reservation, at, &allocation) {
            Ok(mapping) => mapping,
            Err(error) => {
                let error = self.explained(error);
                let raw = allocation.as_raw();
                return Err(undone(error, named(allocation.close(), raw)));
            }
        };
        drop(allocation);
        if let Err(error) = mapping.set_access_list(&self.grants) {
            let error = self.explained(error);
            let closed = close_part(mapping);
            self.is_clean = closed.is_ok();
            return Err(undone(error, closed));
        }
        self.parts.push(mapping);
        Ok(())
    }

    /// Where the next part goes.
    fn next(&self) -> u64 {
        let last = self.parts.last();
        last.map_or(self.from, |part| part.as_raw().saturating_add(part.bytes() as u64))
    }

    /// Says how far it came.
    #[cold]
    fn explained(&self, error: Error) -> Error {
        error.with_note(Note::Text(
            format!("{} parts were mapped at {:#x} before it", self.parts.len(), self.from).into(),
        ))
    }

    /// The range, or what kept it from being put together, after all was undone.
    fn finish(mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<Range> {
        match work(&mut self) {
            Ok(()) => Ok(self.range()),
            Err(error) => Err(self.undo(error)),
        }
    }

    fn range(self) -> Range {
        let Self { base, room, is_new, from, parts: new, .. } = self;
        let (start, mut parts, mut rooms) = match base {
            Some(base) => (base.start, base.parts.clone(), base.rooms.clone()),
            None => (from, Vec::new(), Vec::new()),
        };
        parts.extend(new);
        if is_new {
            rooms.push(room);
        }
        Range { start, parts, rooms }
    }

    #[cold]
    fn undo(self, mut error: Error) -> Error {
        let Self { room, is_new, from, parts, mut is_clean, .. } = self;
        if mutant::is_out("virtual-undo") {
            parts.into_iter().for_each(Mapping::keep_for_good);
            return error;
        }
        for part in parts.into_iter().rev() {
            let closed = close_part(part);
            is_clean &= closed.is_ok();
            error = undone(error, closed);
        }
        if is_new {
            return undone(error, close_room(room));
        }
        // Addresses of which it isn't known what is there are never used again.
        if is_clean || mutant::is_out("virtual-dirty") {
            let taken = *room.taken_bytes.lock();
            let end = room.start().saturating_add(taken as u64);
            let bytes = usize::try_from(end.saturating_sub(from)).unwrap_or(0);
            room.give_back(from, bytes);
        }
        error
    }
}
