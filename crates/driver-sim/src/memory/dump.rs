//! Memory as text, for the picture of the world.

use std::sync::atomic::Ordering;

use super::{
    Memory,
    pool::{Location, Pool},
    space::{Allocation, Origin},
};
use crate::{
    dump::{Bytes, Count, Page},
    world::Key,
};

impl Memory {
    /// How full a device is.
    pub(crate) fn dump_device(&self, page: &mut Page, index: usize) {
        let Some(device) = self.devices.get(index) else { return };
        page.line(format_args!(
            "memory {}: {} free, {} taken outside of pools, {} physical",
            Bytes(device.total_bytes),
            Bytes(self.free_bytes(index)),
            Bytes(device.taken_bytes),
            Bytes(device.physical_bytes.load(Ordering::Relaxed)),
        ));
    }

    /// Pools, allocations, reservations.
    pub(crate) fn dump(&self, page: &mut Page) {
        page.each(self.pools.iter(), |page, (key, pool)| {
            let kind = if pool.is_default { "default memory pool" } else { "memory pool" };
            self.dump_pool(page, &format!("{kind} {:#x}", key.raw()), pool);
        });
        page.each(self.dying.values(), |page, pool| {
            self.dump_pool(page, "memory pool that was destroyed and has allocations", pool);
        });
        page.each(self.space.iter(), |page, allocation| self.dump_allocation(page, allocation));
        page.each(self.reservations.iter(), |page, (base, found)| {
            let (size, made) = (Bytes(found.size_bytes), found.made);
            page.line(format_args!("reserved addresses {base:#x}: {size}, made by {made}"));
        });
    }

    fn dump_pool(&self, page: &mut Page, name: &str, pool: &Pool) {
        let place = match pool.location {
            Location::Device(device) => format!("device {device}"),
            Location::Host => "the host".to_owned(),
            Location::HostNuma(node) => format!("NUMA node {node} of the host"),
            Location::Anywhere => "no place in particular".to_owned(),
        };
        let imported = if pool.imported.is_some() { ", of another process" } else { "" };
        let counters = pool.counters();
        page.line(format_args!(
            "{name} on {place}{imported}: {} used (at most {}), {} reserved (at most {}), {}, {} of them freed \
             by work that is pending",
            Bytes(counters.used),
            Bytes(counters.used_high),
            Bytes(counters.reserved),
            Bytes(counters.reserved_high),
            Count(counters.allocations, "allocation"),
            counters.freed,
        ));
    }

    fn dump_allocation(&self, page: &mut Page, allocation: &Allocation) {
        let origin = match allocation.origin {
            Origin::Device(owner) => format!("of context {:#x}", owner.raw()),
            Origin::Managed(owner) => format!("managed, of context {:#x}", owner.raw()),
            Origin::Host(owner, _) => format!("page-locked, of context {:#x}", owner.raw()),
            Origin::Registered(owner) => format!("registered in context {:#x}", owner.raw()),
            Origin::Pool(pool) => self.pool_text(pool),
            Origin::Graph(graph) => format!("of graph {:#x}", graph.raw()),
            Origin::Behind(owner) => format!("behind an object of context {:#x}", owner.raw()),
            Origin::Module(owner, _) => format!("a variable, of context {:#x}", owner.raw()),
            Origin::Mapped => "a mapping".to_owned(),
            Origin::Imported(_) => "of another process".to_owned(),
        };
        let freed = match allocation.free_enqueued {
            Some(by) => format!(", freed by {by}, which is pending"),
            None => String::new(),
        };
        page.line(format_args!(
            "memory {:#x}: {} on device {}, {origin}, made by {}{freed}",
            allocation.base,
            Bytes(allocation.size_bytes),
            allocation.device,
            allocation.made,
        ));
    }

    fn pool_text(&self, key: Key<Pool>) -> String {
        let ended = if self.pools.get(key).is_some() { "" } else { " that was destroyed" };
        format!("of memory pool {:#x}{ended}", key.raw())
    }
}
