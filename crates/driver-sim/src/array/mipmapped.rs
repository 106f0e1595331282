//! Mipmapped arrays: levels behind each other in one piece of memory.
//!
//! Source: CUDA Driver API 13.x, "Memory Management".

use cuhold_driver_sys::ffi::*;

use super::{Array, Shape};
use crate::{
    context::Context,
    world::{Absent, Answer, Ending, In, Key, Out, Turn},
};

/// A mipmapped array.
#[derive(Debug)]
pub(crate) struct Mipmapped {
    desc: CUDA_ARRAY3D_DESCRIPTOR,
    shape: Shape,
    levels: u32,
    base: u64,
    pub(super) context: Key<Context>,
    /// The levels that were asked for, each once.
    found: Vec<(u32, Key<Array>)>,
}

impl Mipmapped {
    /// Where a level begins, from the whole's first byte.
    fn offset_bytes(&self, level: u32) -> u64 {
        let before = (0..level).map(|level| self.shape.level(level).size_bytes());
        before.map(Option::unwrap_or_default).sum()
    }
}

impl Turn<'_> {
    /// The live mipmapped array with this handle.
    pub(crate) fn mipmapped(&mut self, raw: CUmipmappedArray) -> Result<Key<Mipmapped>, CUresult> {
        let status = match self.state.arrays.mipmapped.absent(raw.addr()) {
            Absent::Ended(Some(grave)) => self.status_of_gone(grave),
            _ => CUresult::INVALID_HANDLE,
        };
        self.find(|state| &state.arrays.mipmapped, raw.addr(), status)
    }

    /// The context that a mipmapped array belongs to.
    pub(crate) fn mipmapped_owner(&self, key: Key<Mipmapped>) -> Result<Key<Context>, CUresult> {
        let found = self.state.arrays.mipmapped.get(key);
        found.map(|found| found.context).ok_or(CUresult::INVALID_HANDLE)
    }

    /// Makes one; `levels` are as many as fit at most, and at least one (documented).
    pub(crate) fn make_mipmapped(
        &mut self,
        desc: CUDA_ARRAY3D_DESCRIPTOR,
        levels: c_uint,
        (context, device): (Key<Context>, usize),
    ) -> Result<CUmipmappedArray, CUresult> {
        let shape = Shape::of(&desc)?;
        let levels = levels.clamp(1, shape.levels_max());
        let size = (0..levels)
            .try_fold(0_u64, |sum, level| sum.checked_add(shape.level(level).size_bytes()?));
        let size_bytes = size.ok_or(CUresult::OUT_OF_MEMORY)?;
        let made = self.site;
        let base = self.state.memory.add_behind(context, device, size_bytes, made)?;
        let array = Mipmapped { desc, shape, levels, base, context, found: Vec::new() };
        Ok(CUmipmappedArray::from_addr(self.state.arrays.mipmapped.insert(made, array).raw()))
    }
}

pub(crate) fn mipmapped_create(
    turn: &mut Turn<'_>,
    out: Out<CUmipmappedArray>,
    desc: In<CUDA_ARRAY3D_DESCRIPTOR>,
    levels: c_uint,
) -> Answer {
    let (out, desc) = (out.required()?, desc.read().ok_or(CUresult::INVALID_VALUE)?);
    let place = turn.array_context()?;
    out.write(turn.make_mipmapped(desc, levels, place)?);
    Ok(())
}

/// Ends its levels too. Waits as the destroy of an array does.
pub(crate) fn mipmapped_destroy(turn: &mut Turn<'_>, array: CUmipmappedArray) -> Answer {
    let key = turn.mipmapped(array)?;
    turn.not_lost()?;
    turn.check_capture()?;
    let context = turn.mipmapped_owner(key)?;
    turn.complete_context(context)?;
    // While code of the caller ran, another thread may have destroyed it.
    let key = turn.mipmapped(array)?;
    let by = turn.site;
    if let Some(ended) = turn.state.arrays.mipmapped.remove(key, by, Ending::Destroyed) {
        for (_, level) in ended.found {
            turn.state.arrays.single.remove(level, by, Ending::Destroyed);
        }
        turn.state.memory.remove_behind(ended.base, by);
    }
    Ok(())
}

pub(crate) fn mipmapped_level(
    turn: &mut Turn<'_>,
    out: Out<CUarray>,
    array: CUmipmappedArray,
    level: c_uint,
) -> Answer {
    let out = out.required()?;
    let key = turn.mipmapped(array)?;
    let whole = turn.state.arrays.mipmapped.get(key).ok_or(CUresult::INVALID_HANDLE)?;
    if level >= whole.levels {
        return Err(CUresult::INVALID_VALUE);
    }
    if let Some((_, found)) = whole.found.iter().find(|(number, _)| *number == level) {
        out.write(CUarray::from_addr(found.raw()));
        return Ok(());
    }
    let shape = whole.shape.level(level);
    let desc = CUDA_ARRAY3D_DESCRIPTOR {
        Width: shape.width,
        Height: shape.height,
        Depth: shape.depth,
        ..whole.desc
    };
    let base = whole.base + whole.offset_bytes(level);
    let array = Array { desc, shape, base, context: whole.context, level_of: Some(key) };
    let made = turn.site;
    let found = turn.state.arrays.single.insert(made, array);
    if let Some(whole) = turn.state.arrays.mipmapped.get_mut(key) {
        whole.found.push((level, found));
    }
    out.write(CUarray::from_addr(found.raw()));
    Ok(())
}
