//! Device memory as kernels reach it.

use std::sync::Arc;

use cuhold_driver_sys::CUresult;

use super::{
    pool::Access,
    space::{Misplaced, Origin},
};
use crate::{
    audit::{CallSite, Violation, ViolationKind},
    context::Context,
    order::{Op, Strip, Touch},
    world::{Key, State},
};

/// Who reaches for memory: a kernel of this context, on this device, launched by this call.
#[derive(Clone, Debug)]
pub(crate) struct KernelAccess {
    pub(crate) context: Key<Context>,
    /// The index of the device.
    pub(crate) device: usize,
    pub(crate) by: CallSite,
    /// What the checker of order calls it.
    pub(crate) op: Option<Arc<Op>>,
}

impl State {
    /// Reads for a kernel. What it may not read is a violation, and `ILLEGAL_ADDRESS`.
    pub(crate) fn kernel_read(
        &mut self,
        access: &KernelAccess,
        address: u64,
        out: &mut [u8],
    ) -> Result<(), CUresult> {
        if out.is_empty() {
            return Ok(());
        }
        self.may_access(access, address, Access::Read)?;
        self.kernel_does(access, (address, out.len()), Touch::Read);
        let read = self.memory.space.read(address, out);
        read.map_err(|misplaced| self.refuse_access(misplaced, access))
    }

    /// Writes for a kernel. What it may not write is a violation, and `ILLEGAL_ADDRESS`.
    pub(crate) fn kernel_write(
        &mut self,
        access: &KernelAccess,
        address: u64,
        bytes: &[u8],
    ) -> Result<(), CUresult> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.may_access(access, address, Access::ReadWrite)?;
        self.kernel_does(access, (address, bytes.len()), Touch::Write);
        let written = self.memory.space.write(address, bytes);
        written.map_err(|misplaced| self.refuse_access(misplaced, access))
    }

    /// Tells the checker of order what a kernel does to memory that it may use.
    fn kernel_does(&mut self, access: &KernelAccess, (address, len): (u64, usize), touch: Touch) {
        if let Some(op) = &access.op {
            self.kernel_touches(op, Strip::range(address, len as u64), touch);
        }
    }

    /// What a kernel says that it does to memory, without a byte being moved: of at least one byte. What it may not do is a
    /// violation, and `ILLEGAL_ADDRESS`.
    pub(crate) fn kernel_declares(
        &mut self,
        access: &KernelAccess,
        (address, len): (u64, usize),
        touch: Touch,
    ) -> Result<(), CUresult> {
        let needs = if touch == Touch::Read { Access::Read } else { Access::ReadWrite };
        self.may_access(access, address, needs)?;
        let located = self.memory.space.locate(address, len as u64);
        if let Err(misplaced) = located {
            return Err(self.refuse_access(misplaced, access));
        }
        self.kernel_does(access, (address, len), touch);
        Ok(())
    }

    /// Reads for an atomic operation of a kernel.
    pub(crate) fn kernel_update(
        &mut self,
        access: &KernelAccess,
        address: u64,
        out: &mut [u8],
    ) -> Result<(), CUresult> {
        self.kernel_declares(access, (address, out.len()), Touch::Atomic)?;
        let read = self.memory.space.read(address, out);
        read.map_err(|misplaced| self.refuse_access(misplaced, access))
    }

    /// Writes what such a one has made of it.
    pub(crate) fn kernel_store(&mut self, address: u64, bytes: &[u8]) -> Result<(), CUresult> {
        self.memory.space.write(address, bytes).map_err(|_gone| CUresult::ILLEGAL_ADDRESS)
    }

    fn refuse_access(&mut self, misplaced: Misplaced, access: &KernelAccess) -> CUresult {
        self.violate_misplaced(misplaced, access.by);
        CUresult::ILLEGAL_ADDRESS
    }

    /// Memory of the kernel's own device, and the host's page-locked memory, is there for all of its contexts
    /// (measured). Memory of another device's pool, or of the host's, needs the pool's access; other memory of another
    /// device the contexts' peer access.
    fn may_access(
        &mut self,
        access: &KernelAccess,
        address: u64,
        needs: Access,
    ) -> Result<(), CUresult> {
        let Some(found) = self.memory.space.containing(address) else { return Ok(()) };
        let there = found.device == access.device || found.is_on_host();
        let granted = match found.origin {
            // Its own device, too, has access only if it was given.
            Origin::Mapped => {
                self.memory.mapping_is_usable((address, 1), Some(access.device), needs)
            }
            Origin::Pool(pool) => {
                self.memory.pool(pool).is_some_and(|pool| pool.is_open_to(access.device))
            }
            _ if there => true,
            origin => {
                let peers = self.contexts.get(access.context).map(|context| &context.peers);
                let owner = origin.owner();
                peers.is_some_and(|peers| peers.iter().any(|peer| Some(*peer) == owner))
            }
        };
        if granted {
            return Ok(());
        }
        Err(self.violate_access(address, access.device, access.by))
    }

    /// Remembers that work of a device reached for memory that it has no access to, and whether the access was taken
    /// away while the work was queued. `ILLEGAL_ADDRESS` is what a device answers.
    #[cold]
    pub(super) fn violate_access(&mut self, address: u64, device: usize, by: CallSite) -> CUresult {
        let Some(found) = self.memory.space.containing(address) else {
            return CUresult::ILLEGAL_ADDRESS;
        };
        let (object, made) = ((found.origin.kind(), found.base), found.made);
        let taken = match found.origin {
            Origin::Pool(pool) => self.memory.pool(pool).and_then(|pool| pool.taken_from(device)),
            origin => self.peer_access_ended(device, origin.owner()),
        };
        let taken = taken.filter(|taken| taken.number > by.number);
        self.violate(Violation {
            kind: ViolationKind::NoAccess,
            object: Some(object),
            calls: [made, by].into_iter().chain(taken).collect(),
            note: match taken {
                Some(_) => "the access was taken away while the work was queued or running",
                None => "",
            },
            operations: Vec::new(),
        });
        CUresult::ILLEGAL_ADDRESS
    }

    /// The call that ended a device's access to a context's memory, if one did.
    fn peer_access_ended(&self, device: usize, owner: Option<Key<Context>>) -> Option<CallSite> {
        let contexts = self.contexts.iter().map(|(_, context)| context);
        let of_device = contexts.filter(|context| usize::try_from(context.device) == Ok(device));
        let left = of_device.flat_map(|context| &context.peers_left);
        left.filter(|(peer, _)| Some(*peer) == owner).map(|(_, by)| *by).last()
    }
}
