//! Size classes: what a request is rounded up to, so that the block of one request serves another.
//!
//! Up to 2 KiB in steps of 256 bytes, above that eight steps for each doubling: what a block has too much is at most an
//! eighth of the request, or less than 256 bytes.

/// The step of the smallest classes, in bytes.
const STEP: usize = 256;
/// Up to here classes are multiples of the step.
const LINEAR: usize = 2048;
/// How many classes there are up to that.
const LINEAR_CLASSES: usize = LINEAR / STEP;
/// The binary logarithm of that.
const LINEAR_LOG: u32 = LINEAR.ilog2();
/// How many classes the threads keep blocks of: those up to 4 MiB.
pub(super) const SMALL: usize = LINEAR_CLASSES + 11 * 8;
/// How many classes there are: the largest is as large as half of all addresses.
pub(super) const CLASSES: usize = LINEAR_CLASSES + 52 * 8;

/// The class of a request of so many bytes, at least one; `None` for more than the largest class has.
#[inline]
pub(super) fn of(bytes: usize) -> Option<usize> {
    let less = bytes.saturating_sub(1);
    if less < LINEAR {
        return Some(less / STEP);
    }
    let log = less.ilog2();
    let eighth = (less >> (log - 3)) & 7;
    let class = LINEAR_CLASSES + ((log - LINEAR_LOG) as usize) * 8 + eighth;
    (class < CLASSES).then_some(class)
}

/// How large its blocks are, in bytes.
#[inline]
pub(super) fn bytes(class: usize) -> usize {
    match class.checked_sub(LINEAR_CLASSES) {
        None => (class + 1) * STEP,
        Some(above) => (8 + above % 8 + 1) << (above / 8 + LINEAR_LOG as usize - 3),
    }
}

#[cfg(test)]
mod tests {
    use super::{CLASSES, SMALL, bytes, of};

    #[test]
    fn a_class_is_as_large_as_its_requests_and_hardly_larger() {
        let near = |bytes: usize| [bytes - 1, bytes, bytes + 1];
        let requests = (1..40_000).chain((0..CLASSES - 1).flat_map(|class| near(bytes(class))));
        for request in requests.filter(|request| *request > 0) {
            let class = of(request).unwrap();
            let waste = bytes(class) - request;
            assert!(waste < 256 || waste <= request / 8, "{request}: {waste}");
            assert!(class == 0 || bytes(class - 1) < request, "{request}: a smaller one would do");
        }
    }

    #[test]
    fn every_class_is_the_class_of_its_own_size() {
        for class in 0..CLASSES {
            assert_eq!(of(bytes(class)), Some(class));
            assert_eq!(bytes(class) % 256, 0);
        }
        assert_eq!(bytes(SMALL - 1), 4 << 20);
        assert_eq!(of(usize::MAX), None);
    }
}
