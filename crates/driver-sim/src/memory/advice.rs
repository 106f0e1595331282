//! What pages of managed memory were advised, and where they were sent last.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use cuhold_driver_sys::ffi::*;

/// Advice is for whole pages of this size, in bytes.
const PAGE_BYTES: u64 = 4096;

/// The pages of an allocation that a range touches, which begins so many bytes into it.
pub(super) const fn pages(begin: u64, bytes: u64) -> Range<u64> {
    begin / PAGE_BYTES..begin.saturating_add(bytes).div_ceil(PAGE_BYTES)
}

/// A place for pages: a kind and a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spot {
    pub(super) kind: CUmemLocationType,
    pub(super) id: c_int,
}

impl Spot {
    /// What the attributes answer where there is no one place.
    pub(super) const NONE: Self =
        Self { kind: CUmemLocationType::CU_MEM_LOCATION_TYPE_INVALID, id: CU_DEVICE_INVALID };

    /// The host, as the attributes answer (measured).
    pub(super) const HOST: Self =
        Self { kind: CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST, id: CU_DEVICE_CPU };

    /// As the attributes answer that know devices and the host alone.
    pub(super) fn device(self) -> c_int {
        match self.kind {
            CUmemLocationType::CU_MEM_LOCATION_TYPE_INVALID => CU_DEVICE_INVALID,
            CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => self.id,
            _ => CU_DEVICE_CPU,
        }
    }
}

/// What one page was advised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Page {
    pub(super) read_mostly: bool,
    pub(super) preferred: Spot,
    pub(super) accessed_by: BTreeSet<c_int>,
    pub(super) sent_to: Spot,
}

impl Page {
    const NEW: Self = Self {
        read_mostly: false,
        preferred: Spot::NONE,
        accessed_by: BTreeSet::new(),
        sent_to: Spot::NONE,
    };

    /// Takes advice that the caller has checked.
    pub(super) fn advise(&mut self, advice: CUmem_advise, spot: Spot) {
        match advice {
            CUmem_advise::CU_MEM_ADVISE_SET_READ_MOSTLY => self.read_mostly = true,
            CUmem_advise::CU_MEM_ADVISE_UNSET_READ_MOSTLY => self.read_mostly = false,
            CUmem_advise::CU_MEM_ADVISE_SET_PREFERRED_LOCATION => self.preferred = spot,
            CUmem_advise::CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION => self.preferred = Spot::NONE,
            CUmem_advise::CU_MEM_ADVISE_SET_ACCESSED_BY => {
                self.accessed_by.insert(spot.device());
            }
            CUmem_advise::CU_MEM_ADVISE_UNSET_ACCESSED_BY => {
                self.accessed_by.remove(&spot.device());
            }
            _ => {}
        }
    }
}

/// The pages of an allocation, in steps: what stands at a page is true from there to the next step.
#[derive(Debug, Default)]
pub(crate) struct Advised(BTreeMap<u64, Page>);

impl Advised {
    fn at(&self, page: u64) -> Page {
        self.0.range(..=page).next_back().map_or(Page::NEW, |(_, step)| step.clone())
    }

    /// Every step within some pages, of which there is at least one.
    fn over(&self, pages: Range<u64>) -> impl Iterator<Item = Page> {
        let first = self.at(pages.start);
        let later = self.0.range(pages.start.saturating_add(1)..pages.end.max(pages.start + 1));
        std::iter::once(first).chain(later.map(|(_, step)| step.clone()))
    }

    /// Changes some pages.
    pub(super) fn change(&mut self, pages: Range<u64>, change: impl Fn(&mut Page)) {
        for edge in [pages.start, pages.end] {
            let step = self.at(edge);
            self.0.insert(edge, step);
        }
        self.0.range_mut(pages).for_each(|(_, step)| change(step));
    }

    /// What all of some pages have in common; `None` if they don't agree.
    pub(super) fn common<T: PartialEq>(
        &self,
        pages: Range<u64>,
        of: impl Fn(&Page) -> T,
    ) -> Option<T> {
        let mut steps = self.over(pages).map(|page| of(&page));
        let first = steps.next()?;
        steps.all(|other| other == first).then_some(first)
    }

    /// By whom all of some pages are accessed, as was advised: devices, then the host (measured).
    pub(super) fn accessed_by(&self, pages: Range<u64>) -> Vec<c_int> {
        let mut steps = self.over(pages).map(|page| page.accessed_by);
        let first = steps.next().unwrap_or_default();
        let all = steps.fold(first, |all, one| &all & &one);
        let (host, mut devices): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|id| *id == CU_DEVICE_CPU);
        devices.extend(host);
        devices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(id: c_int) -> Spot {
        Spot { kind: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id }
    }

    #[test]
    fn a_range_s_pages_are_all_that_it_touches() {
        assert_eq!(pages(0, 1), 0..1);
        assert_eq!(pages(4095, 2), 0..2);
        assert_eq!(pages(4096, 4096), 1..2);
    }

    #[test]
    fn pages_agree_or_have_nothing_in_common() {
        let mut advised = Advised::default();
        assert_eq!(advised.common(0..9, |page| page.preferred), Some(Spot::NONE));
        advised.change(2..5, |page| page.preferred = spot(0));
        assert_eq!(advised.common(2..5, |page| page.preferred), Some(spot(0)));
        assert_eq!(advised.common(2..6, |page| page.preferred), None);
        assert_eq!(advised.common(1..3, |page| page.preferred), None);
        assert_eq!(advised.common(5..9, |page| page.preferred), Some(Spot::NONE));
        advised.change(3..4, |page| page.read_mostly = true);
        assert_eq!(advised.common(2..5, |page| page.preferred), Some(spot(0)));
        assert_eq!(advised.common(2..5, |page| page.read_mostly), None);
        advised.change(0..9, |page| page.preferred = spot(1));
        assert_eq!(advised.common(0..9, |page| page.preferred), Some(spot(1)));
    }

    #[test]
    fn whoever_accesses_some_pages_accesses_each() {
        let advice = CUmem_advise::CU_MEM_ADVISE_SET_ACCESSED_BY;
        let mut advised = Advised::default();
        advised.change(0..4, |page| page.advise(advice, spot(0)));
        advised.change(2..6, |page| page.advise(advice, spot(1)));
        assert_eq!(advised.accessed_by(0..2), [0]);
        assert_eq!(advised.accessed_by(2..4), [0, 1]);
        assert_eq!(advised.accessed_by(0..6), []);
        advised.change(0..2, |page| page.advise(advice, Spot::HOST));
        assert_eq!(advised.accessed_by(0..2), [0, CU_DEVICE_CPU]);
    }
}
