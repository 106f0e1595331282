//! The records of a `.nv.info` section: what compiled code says about a kernel.
//!
//! A record is a format byte, an attribute byte, and a value: two bytes, or for format 4 as many as the next two
//! bytes say.

use crate::code::{image::Param, number};

const FORMAT_SIZED: u64 = 4;
const MAX_THREADS: u64 = 0x05;
const FRAME_SIZE: u64 = 0x11;
const PARAM: u64 = 0x17;
const PARAMS_SIZE: u64 = 0x19;
const REGISTERS: u64 = 0x2f;
const CLUSTER: u64 = 0x3d;
const LARGE_PARAM: u64 = 0x45;

/// What the records of a section say.
#[derive(Debug, Default)]
pub(super) struct Info {
    /// Ordinal and place of each parameter, in the order of the records.
    params: Vec<(u64, Param)>,
    params_bytes: u64,
    pub(super) block_threads_max: Option<u32>,
    pub(super) cluster: Option<(u32, u32, u32)>,
    /// Symbol index and registers of a thread.
    pub(super) registers: Vec<(u32, u32)>,
    /// Symbol index and local memory of a thread, in bytes.
    pub(super) frames: Vec<(u32, u32)>,
}

impl Info {
    /// Reads a section; `None` if a record doesn't end.
    pub(super) fn read(mut bytes: &[u8]) -> Option<Self> {
        let mut info = Self::default();
        while !bytes.is_empty() {
            let attribute = number(bytes, 1, 1)?;
            let (value_at, len) = match number(bytes, 0, 1)? {
                FORMAT_SIZED => (4, usize::try_from(number(bytes, 2, 2)?).ok()?),
                _ => (2, 2),
            };
            info.record(attribute, bytes.get(value_at..value_at + len)?)?;
            bytes = bytes.get(value_at + len..)?;
        }
        Some(info)
    }

    fn record(&mut self, attribute: u64, value: &[u8]) -> Option<()> {
        let word = |index: usize| number(value, 4 * index, 4).and_then(|w| u32::try_from(w).ok());
        match attribute {
            PARAM | LARGE_PARAM => {
                let size = number(value, 8, 4)?;
                let size = if attribute == PARAM { size >> 18 } else { size };
                let offset = usize::try_from(number(value, 6, 2)?).ok()?;
                let size = usize::try_from(size).ok()?;
                self.params.push((number(value, 4, 2)?, Param { offset, size }));
            }
            PARAMS_SIZE => self.params_bytes = number(value, 0, 2)?,
            MAX_THREADS => {
                self.block_threads_max = word(0)?.checked_mul(word(1)?)?.checked_mul(word(2)?);
            }
            CLUSTER => self.cluster = Some((word(0)?, word(1)?, word(2)?)),
            REGISTERS => self.registers.push((word(0)?, word(1)?)),
            FRAME_SIZE => self.frames.push((word(0)?, word(1)?)),
            _ => {}
        }
        Some(())
    }

    /// The parameters in their order; `None` if there are some of which nothing is said.
    pub(super) fn into_params(mut self) -> Option<Vec<Param>> {
        self.params.sort_by_key(|(ordinal, _)| *ordinal);
        (!self.params.is_empty() || self.params_bytes == 0)
            .then(|| self.params.into_iter().map(|(_, param)| param).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of format 4.
    fn sized(attribute: u64, value: &[u8]) -> Vec<u8> {
        let mut record = vec![4, u8::try_from(attribute).unwrap()];
        record.extend(u16::try_from(value.len()).unwrap().to_le_bytes());
        record.extend(value);
        record
    }

    #[test]
    fn parameters_are_sorted_by_ordinal_and_their_size_is_unpacked() {
        // As NVRTC 13.5 wrote them for `(float, const float *)`, last parameter first.
        let bytes = [
            sized(PARAM, &[0, 0, 0, 0, 1, 0, 8, 0, 0, 0xf0, 0x21, 0]),
            vec![3, 0x50, 0, 0],
            sized(PARAM, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x11, 0]),
            vec![3, 0x19, 16, 0],
        ]
        .concat();
        let params = Info::read(&bytes).unwrap().into_params().unwrap();
        assert_eq!(params, [Param { offset: 0, size: 4 }, Param { offset: 8, size: 8 }]);
    }

    #[test]
    fn a_large_parameter_has_its_size_in_a_word_of_its_own() {
        let bytes = sized(LARGE_PARAM, &[0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0x4e, 0, 0]);
        let params = Info::read(&bytes).unwrap().into_params().unwrap();
        assert_eq!(params, [Param { offset: 0, size: 20_000 }]);
    }

    #[test]
    fn parameters_without_records_are_unknown_not_none() {
        assert_eq!(Info::read(&[3, 0x19, 16, 0]).unwrap().into_params(), None);
        assert_eq!(Info::read(&[]).unwrap().into_params(), Some(Vec::new()));
    }

    #[test]
    fn a_record_that_does_not_end_is_refused() {
        assert!(Info::read(&[4, 0x17, 12, 0, 1]).is_none());
        assert!(Info::read(&[3, 0x19, 16]).is_none());
    }
}
