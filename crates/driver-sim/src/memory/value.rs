//! Values in memory that streams write, and wait for.
//!
//! A wait holds its stream up until somebody has written what it waits for: another stream, a copy, or the host itself
//! into page-locked memory, without a call. The host's memory is read and written atomically here, as its program must.
//!
//! Source: CUDA Driver API 13.x, "Stream Memory Operations".

#![expect(
    unsafe_code,
    reason = "operations of a batch are unions, and host memory is reached by its address"
)]

use std::sync::Arc;

use cuhold_driver_sys::ffi::*;

use super::{
    Memory,
    copy::{Refusal, fault_at},
    host,
    space::{Allocation, Misplaced, Origin, Place},
};
use crate::{
    audit::CallSite,
    graph::{Deed, NodeKind, Params, Task},
    order::{Doing, Strip, Touch},
    queue::Work,
    stream::Target,
    world::{Answer, Out, State, Turn},
};

/// A batch has fewer operations than this (documented).
const BATCH_END: usize = 256;

type Operation = CUstreamBatchMemOpType;

/// How wide a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Width {
    Bits32,
    Bits64,
}

impl Width {
    const fn bytes(self) -> u64 {
        match self {
            Self::Bits32 => 4,
            Self::Bits64 => 8,
        }
    }

    const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bytes() * 8)
    }
}

/// A value's place, checked when the call was made.
#[derive(Clone, Copy, Debug)]
struct Cell {
    address: u64,
    width: Width,
    /// The allocation that it lies in.
    id: u64,
    origin: Origin,
    by: CallSite,
}

/// What is waited for.
#[derive(Clone, Copy, Debug)]
enum Condition {
    /// What is there, less the value, isn't negative: counters may wrap around.
    AtLeast,
    Equal,
    /// A bit of the value is there.
    And,
    /// A bit is neither there nor in the value.
    Nor,
}

impl Cell {
    const fn strip(&self) -> Strip {
        Strip::range(self.address, self.width.bytes())
    }
}

impl Condition {
    /// Of a wait's flags. Flushing remote writes as well isn't supported, as the device's attribute says.
    fn of(flags: c_uint) -> Result<Self, CUresult> {
        if flags & CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_FLUSH.0 != 0 {
            return Err(CUresult::NOT_SUPPORTED);
        }
        match CUstreamWaitValue_flags(flags) {
            CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ => Ok(Self::AtLeast),
            CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ => Ok(Self::Equal),
            CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_AND => Ok(Self::And),
            CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_NOR => Ok(Self::Nor),
            _ => Err(CUresult::INVALID_VALUE),
        }
    }

    const fn holds(self, width: Width, found: u64, value: u64) -> bool {
        match self {
            Self::AtLeast => {
                let sign = 1 << (width.bytes() * 8 - 1);
                found.wrapping_sub(value) & sign == 0
            }
            Self::Equal => found == value,
            Self::And => found & value != 0,
            Self::Nor => !(found | value) & width.mask() != 0,
        }
    }
}

/// A wait for a value, as work of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Await {
    cell: Cell,
    condition: Condition,
    value: u64,
}

impl Await {
    /// Whether the stream may go on: also where the memory is gone, which [`run`](Self::run) answers.
    pub(crate) fn is_over(&self, memory: &Memory) -> bool {
        let Self { cell, condition, value } = *self;
        memory.cell_is_there(cell).is_err()
            || memory.load(cell).is_none_or(|found| condition.holds(cell.width, found, value))
    }

    /// The wait is over: whoever wrote the value did so before, and on the host it may have been the program.
    pub(crate) fn learn(&self, state: &mut State, doing: &mut Doing) {
        let on_host =
            state.memory.space.containing(self.cell.address).is_some_and(Allocation::is_on_host);
        let host = on_host.then(|| state.order.host());
        let pieces = state.memory.pieces(self.cell.strip());
        state.order.learns(doing, |clock| {
            let learnt = host.is_some_and(|host| clock.join(&host));
            let writers = pieces.iter().map(|piece| piece.shadow.writers(&piece.strip, clock));
            writers.fold(learnt, |all, learnt| all || learnt)
        });
    }

    /// Nothing to do, unless the memory is gone.
    pub(crate) fn run(&self, state: &mut State) -> Answer {
        let Cell { origin, by, .. } = self.cell;
        let there = state.memory.cell_is_there(self.cell);
        there.or_else(|misplaced| fault_at(state, Some(origin), misplaced, by))
    }
}

impl Memory {
    /// Checks a value's place: memory that CUDA knows, and isn't managed (documented; the status is a choice).
    fn plan_cell(
        &self,
        address: u64,
        width: Width,
        captured: bool,
        by: CallSite,
    ) -> Result<Cell, Refusal> {
        if !address.is_multiple_of(width.bytes()) {
            return Err(Refusal::Value);
        }
        let Place::Known { id, base } = self.space.locate(address, width.bytes())? else {
            return Err(Refusal::Value);
        };
        match self.space.at(base).map(|found| found.origin) {
            None => Err(Refusal::Value),
            Some(origin) if self.is_managed(origin) => Err(Refusal::Value),
            Some(Origin::Graph(_)) if !captured && !self.graph_memory_is_live(base) => {
                Err(Refusal::Value)
            }
            Some(origin) => Ok(Cell { address, width, id, origin, by }),
        }
    }

    fn cell_is_there(&self, cell: Cell) -> Result<(), Misplaced> {
        let Cell { address, width, id, .. } = cell;
        if self.space.containing(address).is_some_and(|found| found.id == id) {
            return Ok(());
        }
        // Where something else is there, the host uses the address again.
        self.space.locate(address, width.bytes()).and(Err(Misplaced::Wild { address }))
    }

    /// What stands in a cell that is there.
    fn load(&self, cell: Cell) -> Option<u64> {
        let found = self.space.containing(cell.address)?;
        if found.is_on_host() {
            let address = usize::try_from(cell.address).ok()?;
            return Some(match cell.width {
                // SAFETY: aligned (`plan_cell`) and in a live allocation of host memory, which its program reads and
                // writes atomically while it is waited for.
                Width::Bits32 => unsafe { host::load_u32(address) }.into(),
                // SAFETY: as above.
                Width::Bits64 => unsafe { host::load_u64(address) },
            });
        }
        let mut bytes = [0; 8];
        let part = bytes.get_mut(..usize::try_from(cell.width.bytes()).ok()?)?;
        self.space.read(cell.address, part).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Writes a cell that is there.
    fn store(&mut self, cell: Cell, value: u64) {
        let Some(found) = self.space.containing(cell.address) else { return };
        let [a, b, c, d, ..] = value.to_le_bytes();
        match (found.is_on_host(), cell.width, usize::try_from(cell.address)) {
            (true, Width::Bits32, Ok(address)) => {
                // SAFETY: as in `load`.
                unsafe { host::store_u32(address, u32::from_le_bytes([a, b, c, d])) };
            }
            (true, Width::Bits64, Ok(address)) => {
                // SAFETY: as above.
                unsafe { host::store_u64(address, value) };
            }
            // It is there, so that neither is refused.
            (_, Width::Bits32, _) => {
                self.space.write(cell.address, &[a, b, c, d]).unwrap_or_default();
            }
            (_, Width::Bits64, _) => {
                self.space.write(cell.address, &value.to_le_bytes()).unwrap_or_default();
            }
        }
    }
}

/// A value to be written, or waited for.
#[derive(Clone, Copy)]
struct Wanted {
    address: u64,
    width: Width,
    value: u64,
    flags: c_uint,
}

impl Turn<'_> {
    fn plan(&mut self, captured: bool, wanted: Wanted) -> Result<Cell, CUresult> {
        let by = self.site;
        let cell = self.state.memory.plan_cell(wanted.address, wanted.width, captured, by);
        cell.map_err(|refusal| self.refuse_plan(refusal))
    }

    /// A write, as work. Its one flag isn't supported in this form of the call (documented; the status is a choice).
    fn write_work(&mut self, captured: bool, wanted: Wanted) -> Result<Work, CUresult> {
        if wanted.flags != CUstreamWriteValue_flags::CU_STREAM_WRITE_VALUE_DEFAULT.0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let (cell, value) = (self.plan(captured, wanted)?, wanted.value);
        Ok(Work::OnState(Arc::new(move |state| {
            if let Err(misplaced) = state.memory.cell_is_there(cell) {
                return fault_at(state, Some(cell.origin), misplaced, cell.by);
            }
            if let Some(op) = state.op(cell.by) {
                state.touch(&op, cell.strip(), Touch::Atomic);
            }
            state.memory.store(cell, value);
            Ok(())
        })))
    }

    /// A wait, as work.
    fn wait_work(&mut self, captured: bool, wanted: Wanted) -> Result<Work, CUresult> {
        let condition = Condition::of(wanted.flags)?;
        let cell = self.plan(captured, wanted)?;
        Ok(Work::Await(Await { cell, condition, value: wanted.value }))
    }

    /// An operation of a batch, as work.
    fn batch_work(
        &mut self,
        captured: bool,
        operation: &CUstreamBatchMemOpParams,
    ) -> Result<Work, CUresult> {
        // SAFETY: every view of the union begins with this number.
        let kind = unsafe { operation.operation };
        let width = match kind {
            Operation::CU_STREAM_MEM_OP_WAIT_VALUE_32
            | Operation::CU_STREAM_MEM_OP_WRITE_VALUE_32 => Width::Bits32,
            Operation::CU_STREAM_MEM_OP_WAIT_VALUE_64
            | Operation::CU_STREAM_MEM_OP_WRITE_VALUE_64 => Width::Bits64,
            // Work of one stream is in order anyway.
            Operation::CU_STREAM_MEM_OP_BARRIER => return Ok(Work::Marker),
            Operation::CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES => return Err(CUresult::NOT_SUPPORTED),
            Operation::CU_STREAM_MEM_OP_ATOMIC_REDUCTION => return Err(CUresult::MISSING),
            _ => return Err(CUresult::INVALID_VALUE),
        };
        // SAFETY: the kind says that this is the view; a write's has the same fields in the same places.
        let fields = unsafe { operation.waitValue };
        // SAFETY: as wide as it may be: any bytes are a number.
        let value = unsafe { fields.__bindgen_anon_1.value64 } & width.mask();
        let wanted = Wanted { address: fields.address, width, value, flags: fields.flags };
        match kind {
            Operation::CU_STREAM_MEM_OP_WAIT_VALUE_32
            | Operation::CU_STREAM_MEM_OP_WAIT_VALUE_64 => self.wait_work(captured, wanted),
            _ => self.write_work(captured, wanted),
        }
    }

    /// Writes a counter that no caller knows the address of, as work.
    pub(crate) fn counter_write(&mut self, address: u64, value: u64) -> Result<Work, CUresult> {
        let flags = CUstreamWriteValue_flags::CU_STREAM_WRITE_VALUE_DEFAULT.0;
        self.write_work(false, Wanted { address, width: Width::Bits64, value, flags })
    }

    /// Waits, as work, until such a counter is at least so much.
    pub(crate) fn counter_wait(&mut self, address: u64, value: u64) -> Result<Work, CUresult> {
        let flags = CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ.0;
        self.wait_work(false, Wanted { address, width: Width::Bits64, value, flags })
    }

    /// The stream that values are written or waited for on, ready to take work.
    pub(crate) fn values_on(&mut self, stream: CUstream) -> Result<Target, CUresult> {
        let target = self.stream(stream)?;
        self.not_lost()?;
        self.capture_usable(target)?;
        Ok(target)
    }
}

macro_rules! values {
    ($($name:ident $work:ident $type:ty, $width:ident;)*) => { $(
        pub(crate) fn $name(
            turn: &mut Turn<'_>,
            stream: CUstream,
            address: CUdeviceptr,
            value: $type,
            flags: c_uint,
        ) -> Answer {
            let target = turn.values_on(stream)?;
            let wanted = Wanted { address, width: Width::$width, value: value.into(), flags };
            let captured = turn.is_capturing(target);
            let work = turn.$work(captured, wanted)?;
            let params = || Params::Unknown;
            turn.enqueue_with(target, NodeKind::BatchMemOp, work, params)
        }
    )* };
}

values! {
    write_32 write_work cuuint32_t, Bits32;
    wait_32 wait_work cuuint32_t, Bits32;
    write_64 write_work cuuint64_t, Bits64;
    wait_64 wait_work cuuint64_t, Bits64;
}

/// All operations or none; one node where the stream is captured. An empty batch is refused (a choice; a node's isn't).
pub(crate) fn batch(
    turn: &mut Turn<'_>,
    stream: CUstream,
    count: c_uint,
    operations: Out<CUstreamBatchMemOpParams>,
    flags: c_uint,
) -> Answer {
    let target = turn.values_on(stream)?;
    let count = usize::try_from(count).map_err(|_too_many| CUresult::INVALID_VALUE)?;
    // SAFETY: *pointers*: the caller's array has as many entries as it says.
    let operations = unsafe { operations.as_in().read_all(count) };
    let operations = operations.ok_or(CUresult::INVALID_VALUE)?;
    let captured = turn.is_capturing(target);
    if operations.is_empty() {
        return Err(CUresult::INVALID_VALUE);
    }
    let works = batch_works(turn, captured, &operations, flags)?;
    if let Some(place) = turn.captured_place(target)? {
        let deed = Deed::Works(works);
        let task = Task::new(NodeKind::BatchMemOp, Params::Unknown, deed);
        return turn.add_captured(target, place, task);
    }
    for work in works {
        turn.submit(target, work, &[]);
    }
    Ok(())
}

/// What a batch does. All operations or none.
fn batch_works(
    turn: &mut Turn<'_>,
    captured: bool,
    operations: &[CUstreamBatchMemOpParams],
    flags: c_uint,
) -> Result<Vec<Work>, CUresult> {
    if flags != 0 || operations.len() >= BATCH_END {
        return Err(CUresult::INVALID_VALUE);
    }
    operations.iter().map(|operation| turn.batch_work(captured, operation)).collect()
}

/// Checks a batch that is to be a node.
pub(crate) fn node_batch(
    turn: &mut Turn<'_>,
    operations: &[CUstreamBatchMemOpParams],
    flags: c_uint,
) -> Result<Vec<Work>, CUresult> {
    batch_works(turn, true, operations, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_wrap_around() {
        let holds = |found, value| Condition::AtLeast.holds(Width::Bits32, found, value);
        assert!(holds(5, 5) && holds(6, 5) && !holds(4, 5));
        assert!(holds(1, 0xffff_fffe) && !holds(0xffff_fffe, 1));
        assert!(Condition::AtLeast.holds(Width::Bits64, 1, u64::MAX));
        assert!(!Condition::AtLeast.holds(Width::Bits64, 0x8000_0000_0000_0000, 0));
    }

    #[test]
    fn bits_are_looked_for_in_the_value_s_width() {
        assert!(Condition::And.holds(Width::Bits32, 6, 2));
        assert!(!Condition::And.holds(Width::Bits32, 6, 1));
        assert!(Condition::Nor.holds(Width::Bits32, 6, 1));
        assert!(!Condition::Nor.holds(Width::Bits32, 0xffff_0000, 0xffff));
        assert!(Condition::Nor.holds(Width::Bits64, 0xffff_0000, 0xffff));
        assert!(Condition::Equal.holds(Width::Bits64, 7, 7));
    }
}
