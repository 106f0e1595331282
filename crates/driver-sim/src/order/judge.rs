//! What is told of two accesses without an order.

use std::sync::Arc;

use super::{At, Doing, Op, Operation, Order, Shadow, Touch, shadow::Entry, strip::Strip};
use crate::{
    audit::{CallSite, ObjectKind, Violation, ViolationKind},
    memory::Piece,
    queue::Ordering,
    world::State,
};

/// So many uses of lent memory are remembered.
const LOANS_MAX: usize = 256;

/// What a device or a context was given access to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lent {
    /// A pool's memory, by the number of the pool's key, to a device.
    Pool { pool: u64, device: usize },
    /// A mapping, by the allocation's number, to a device.
    Mapping { allocation: u64, device: usize },
    /// A context's memory, to another context, by the numbers of their keys.
    Context { owner: u64, user: u64 },
}

/// The latest use by one queue of something lent.
#[derive(Debug)]
pub(super) struct Loan {
    lent: Lent,
    /// What was used.
    object: (ObjectKind, u64),
    used: Operation,
    op: Arc<Op>,
}

const UNORDERED: &str = "nothing puts the second behind the first: have its stream wait for an event recorded behind the \
    first, or have the host wait in between";
const IMPLICIT: &str = "a non-blocking stream isn't ordered with the default stream: have one wait for an event of the \
    other, or make the stream a blocking one";
const BEGUN: &str = "the memory is used where nothing waits for the stream that allocates it: have the using stream wait \
    for an event recorded behind the allocation";
const ENDED: &str = "the memory ends before its last use is surely over: end it on a stream that waits for an event \
    recorded behind that use, or have the host wait for it first";
const REUSED: &str = "the host uses its memory again before a copy of it is surely over: have the host wait for the \
    copy's stream, or an event behind it, first";
const REVOKED: &str =
    "access ends before the last use of it is surely over: have the host wait for that use first";

/// Which rule two accesses break, and what would have kept it.
fn rule(first: &Entry, second: &Entry) -> (ViolationKind, &'static str) {
    let touches = [first.touch, second.touch];
    if touches.contains(&Touch::End) {
        return (ViolationKind::EarlyFree, ENDED);
    }
    if touches.contains(&Touch::Begin) {
        return (ViolationKind::Unordered, BEGUN);
    }
    match (&first.op.at, &second.op.at) {
        (At::Queue(a, _), At::Queue(b, _)) => {
            let is_default = |a, b| (a, b) == (Ordering::Legacy, Ordering::NonBlocking);
            let is_mixed = is_default(a.ordering, b.ordering) || is_default(b.ordering, a.ordering);
            match is_mixed && a.context == b.context && a.process == b.process {
                true => (ViolationKind::ImplicitOrder, IMPLICIT),
                false => (ViolationKind::Unordered, UNORDERED),
            }
        }
        _ => (ViolationKind::HostTooEarly, REUSED),
    }
}

impl Order {
    /// Whether a pair is told for the first time.
    fn is_news(&mut self, [a, b]: [&Op; 2]) -> bool {
        self.told.insert([a.process, a.by.number, b.process, b.by.number])
    }
}

impl State {
    /// What the work that runs now does because of a call; `None` where nothing is judged.
    pub(crate) fn op(&self, by: CallSite) -> Option<Arc<Op>> {
        self.order.doing.as_ref().map(|doing| doing.op(by))
    }

    /// The same of work that runs with nothing locked.
    pub(crate) fn op_of(doing: Option<&Doing>, by: CallSite) -> Option<Arc<Op>> {
        doing.map(|doing| doing.op(by))
    }

    /// Something is done to bytes of memory that CUDA knows.
    pub(crate) fn touch(&mut self, op: &Arc<Op>, strip: Strip, touch: Touch) {
        for mut piece in self.memory.pieces(strip.simple()) {
            // The driver copies between contexts without access of one to the other.
            piece.lent = piece.lent.filter(|lent| !matches!(lent, Lent::Context { .. }));
            self.touch_piece(op, &piece, touch);
        }
    }

    /// The same, by a kernel.
    pub(crate) fn kernel_touches(&mut self, op: &Arc<Op>, strip: Strip, touch: Touch) {
        for piece in self.memory.pieces(strip) {
            self.touch_piece(op, &piece, touch);
        }
    }

    fn touch_piece(&mut self, op: &Arc<Op>, piece: &Piece, touch: Touch) {
        let entry = Entry { strip: piece.strip, touch, op: Arc::clone(op), through: piece.id };
        self.meet(&piece.shadow, entry, piece.object, Some(piece.made));
        self.lend(op, piece, touch);
    }

    /// The memory at `base` begins, or ends, for work that comes later in the same place, and stays where it is.
    pub(crate) fn touch_whole(&mut self, op: &Arc<Op>, base: u64, touch: Touch) {
        if let Some(piece) = self.memory.whole_piece(base) {
            self.touch_piece(op, &piece, touch);
        }
    }

    /// Something is done to host memory that CUDA doesn't know.
    pub(crate) fn touch_pageable(&mut self, op: &Arc<Op>, strip: Strip, touch: Touch) {
        let strip = strip.simple();
        let entry = Entry { strip, touch, op: Arc::clone(op), through: 0 };
        let shadow = Arc::clone(&self.order.pageable);
        self.meet(&shadow, entry, (ObjectKind::HostMemory, strip.start), None);
    }

    /// The host reads memory that CUDA doesn't know, while a call lasts.
    pub(crate) fn host_reads_pageable(&mut self, by: CallSite, strip: Strip) {
        if self.order.is_on {
            let op = self.order.host_op(by);
            self.touch_pageable(&op, strip, Touch::Read);
        }
    }

    fn meet(
        &mut self,
        shadow: &Shadow,
        entry: Entry,
        object: (ObjectKind, u64),
        made: Option<CallSite>,
    ) {
        let second = entry.clone();
        let met = shadow.touch(entry, || self.order.host());
        for first in met {
            self.tell(rule(&first, &second), &first, &second, object, made);
        }
    }

    #[cold]
    fn tell(
        &mut self,
        (kind, note): (ViolationKind, &'static str),
        first: &Entry,
        second: &Entry,
        object: (ObjectKind, u64),
        made: Option<CallSite>,
    ) {
        let operations =
            [first, second].map(|entry| Operation::new(&entry.op, entry.touch, &entry.strip));
        if self.order.is_news([&first.op, &second.op]) {
            self.violate(Violation {
                kind,
                object: Some(object),
                calls: calls(made, &operations),
                note,
                operations: operations.to_vec(),
            });
        }
    }

    /// A stream allocates this memory, behind the work that it has now.
    pub(crate) fn begin_memory(&mut self, base: u64, id: crate::queue::QueueId, by: CallSite) {
        if !self.order.is_on {
            return;
        }
        let point = self.queues.end(id);
        let Some(track) = self.order.tracks.get(&id) else { return };
        let op = Arc::new(Op {
            by,
            launched: None,
            process: self.order.process,
            at: At::Queue(Arc::clone(&track.who), point.position()),
            clock: self.order.host(),
        });
        if let Some(piece) = self.memory.whole_piece(base) {
            self.touch_piece(&op, &piece, Touch::Begin);
        }
    }

    /// The work that runs now ends the memory at `base`, or what another process gave of it.
    pub(crate) fn end_memory(&mut self, op: &Arc<Op>, base: u64) {
        let Some(piece) = self.memory.whole_piece(base) else { return };
        let second =
            Entry { strip: piece.strip, touch: Touch::End, op: Arc::clone(op), through: piece.id };
        let through = piece.is_borrowed.then_some((self.order.process, piece.id));
        for first in piece.shadow.open(through, |earlier| op.is_behind(earlier)) {
            self.tell(rule(&first, &second), &first, &second, piece.object, Some(piece.made));
        }
    }

    /// The host ends the memory at `base` in a call, after all waits that the call makes.
    pub(crate) fn host_ends_memory(&mut self, base: u64, by: CallSite) {
        if self.order.is_on {
            let op = self.order.host_op(by);
            self.end_memory(&op, base);
        }
    }

    /// Remembers who used what is only lent to it.
    fn lend(&mut self, op: &Arc<Op>, piece: &Piece, touch: Touch) {
        let At::Queue(who, _) = &op.at else { return };
        let Some(device) = who.device else { return };
        let lent = match piece.lent {
            Some(Lent::Pool { pool, .. }) if piece.device != device => Lent::Pool { pool, device },
            Some(Lent::Mapping { allocation, .. }) => Lent::Mapping { allocation, device },
            Some(Lent::Context { owner, .. }) if piece.device != device => {
                Lent::Context { owner, user: who.context.id() }
            }
            _ => return,
        };
        let used = Operation::new(op, touch, &piece.strip);
        let loans = &mut self.order.loans;
        let is_same = |loan: &Loan| {
            loan.lent == lent && matches!(&loan.op.at, At::Queue(of, _) if Arc::ptr_eq(of, who))
        };
        loans.retain(|loan| !is_same(loan));
        if loans.len() >= LOANS_MAX {
            loans.remove(0);
        }
        loans.push(Loan { lent, object: piece.object, used, op: Arc::clone(op) });
    }

    /// The host ends access to what was lent.
    pub(crate) fn host_revokes(&mut self, lent: Lent, by: CallSite) {
        if !self.order.is_on || self.order.loans.is_empty() {
            return;
        }
        let host = self.order.host();
        let (ended, kept): (Vec<Loan>, Vec<Loan>) =
            std::mem::take(&mut self.order.loans).into_iter().partition(|loan| loan.lent == lent);
        self.order.loans = kept;
        let revoke = self.order.host_op(by);
        for loan in ended.into_iter().filter(|loan| !loan.op.is_known(&host)) {
            let end = Operation::new(&revoke, Touch::End, &Strip::range(0, 0));
            let operations = [loan.used, end];
            if self.order.is_news([&loan.op, &revoke]) {
                self.violate(Violation {
                    kind: ViolationKind::EarlyRevoke,
                    object: Some(loan.object),
                    calls: calls(None, &operations),
                    note: REVOKED,
                    operations: operations.to_vec(),
                });
            }
        }
    }
}

/// The calls of a finding: what made the memory, then those of the operations.
fn calls(made: Option<CallSite>, operations: &[Operation]) -> Vec<CallSite> {
    let each = operations.iter().flat_map(|operation| [Some(operation.site), operation.launched]);
    let mut calls: Vec<CallSite> = std::iter::once(made).chain(each).flatten().collect();
    calls.dedup();
    calls
}
