//! What a range of managed memory is asked.
//!
//! Source: CUDA Driver API 13.x, "Unified Addressing".

#![expect(unsafe_code, reason = "an answer is as large as the caller says")]

use cuhold_driver_sys::ffi::*;

use super::advice::{Advised, Spot, pages};
use crate::world::{Answer, Out, Turn};

type Attribute = CUmem_range_attribute;

/// Every answer is made of these.
const WORD_BYTES: usize = size_of::<c_int>();

/// The answer to one attribute, as bytes: one word, of accessing devices as many as there is room for.
fn answer(
    advised: &Advised,
    range: std::ops::Range<u64>,
    attribute: Attribute,
    room: usize,
) -> Result<Vec<u8>, CUresult> {
    let preferred = || advised.common(range.clone(), |page| page.preferred).unwrap_or(Spot::NONE);
    let sent_to = || advised.common(range.clone(), |page| page.sent_to).unwrap_or(Spot::NONE);
    let word = match attribute {
        Attribute::CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY => {
            c_int::from(advised.common(range, |page| page.read_mostly) == Some(true))
        }
        Attribute::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION => preferred().device(),
        Attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION => sent_to().device(),
        Attribute::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE => {
            preferred().kind.0.cast_signed()
        }
        Attribute::CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID => preferred().id,
        Attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE => {
            sent_to().kind.0.cast_signed()
        }
        Attribute::CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID => sent_to().id,
        Attribute::CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY => {
            if room == 0 || !room.is_multiple_of(WORD_BYTES) {
                return Err(CUresult::INVALID_VALUE);
            }
            let all = advised.accessed_by(range).into_iter();
            let filled = all.chain(std::iter::repeat(CU_DEVICE_INVALID));
            return Ok(filled.take(room / WORD_BYTES).flat_map(c_int::to_ne_bytes).collect());
        }
        _ => return Err(CUresult::INVALID_VALUE),
    };
    if room == WORD_BYTES { Ok(word.to_ne_bytes().into()) } else { Err(CUresult::INVALID_VALUE) }
}

impl Turn<'_> {
    fn range_answer(
        &mut self,
        attribute: Attribute,
        room: usize,
        (address, count): (u64, usize),
    ) -> Result<Vec<u8>, CUresult> {
        let base = self.managed_range(address, count)?;
        let found = self.state.memory.space.at(base).ok_or(CUresult::INVALID_VALUE)?;
        answer(&found.advised, pages(address - base, count as u64), attribute, room)
    }
}

pub(crate) fn range_attribute(
    turn: &mut Turn<'_>,
    data: Out<c_void>,
    size: usize,
    attribute: Attribute,
    address: CUdeviceptr,
    count: usize,
) -> Answer {
    let data = data.required()?;
    turn.current()?;
    let bytes = turn.range_answer(attribute, size, (address, count))?;
    // SAFETY: *pointers*: the caller gave `size` bytes of room, which is how long the answer is.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), data.as_ptr().cast(), bytes.len()) };
    Ok(())
}

/// All attributes or none.
#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn range_attributes(
    turn: &mut Turn<'_>,
    data: Out<*mut c_void>,
    sizes: Out<usize>,
    attributes: Out<Attribute>,
    count_of_attributes: usize,
    address: CUdeviceptr,
    count: usize,
) -> Answer {
    let (data, sizes) = (data.required()?.as_in(), sizes.required()?.as_in());
    let attributes = attributes.required()?.as_in();
    turn.current()?;
    if count_of_attributes == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    // SAFETY: *pointers*: each of the arrays has as many entries as the caller says.
    let places = unsafe { data.read_all(count_of_attributes) }.ok_or(CUresult::INVALID_VALUE)?;
    // SAFETY: as above.
    let sizes = unsafe { sizes.read_all(count_of_attributes) }.ok_or(CUresult::INVALID_VALUE)?;
    // SAFETY: as above.
    let kinds = unsafe { attributes.read_all(count_of_attributes) };
    let kinds = kinds.ok_or(CUresult::INVALID_VALUE)?;
    let asked = kinds.into_iter().zip(sizes);
    let answers = asked
        .map(|(kind, size)| turn.range_answer(kind, size, (address, count)))
        .collect::<Result<Vec<_>, _>>()?;
    for (place, bytes) in places.into_iter().zip(answers) {
        // SAFETY: *pointers*: each place has as many bytes of room as its size says, which is how long its answer is.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), place.cast::<u8>(), bytes.len()) };
    }
    Ok(())
}
