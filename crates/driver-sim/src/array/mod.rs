//! Arrays, and mipmapped arrays with their levels.
//!
//! An array's bytes lie in device memory without an address that the caller knows, row behind row. A level is an array
//! that ends with its mipmapped array; it has one handle, found as often as it is asked for.
//!
//! Source: CUDA Driver API 13.x, "Memory Management"; readings of a real driver.

mod mipmapped;
mod shape;

use cuhold_driver_sys::ffi::*;

pub(crate) use mipmapped::{Mipmapped, mipmapped_create, mipmapped_destroy, mipmapped_level};
pub(crate) use shape::{Shape, element_bytes};

use crate::{
    audit::{CallSite, Leak, ObjectKind, ViolationKind},
    context::Context,
    world::{Absent, Answer, Ending, In, Key, Out, State, Table, Turn, Values},
};

/// An array, or a level of a mipmapped one.
#[derive(Debug)]
pub(crate) struct Array {
    desc: CUDA_ARRAY3D_DESCRIPTOR,
    shape: Shape,
    /// Where its bytes begin.
    base: u64,
    context: Key<Context>,
    level_of: Option<Key<Mipmapped>>,
}

/// Every array.
#[derive(Debug)]
pub(crate) struct Arrays {
    single: Table<Array>,
    mipmapped: Table<Mipmapped>,
}

impl Arrays {
    pub(crate) fn new(values: Values) -> Self {
        Self {
            single: Table::new(ObjectKind::Array, values),
            mipmapped: Table::new(ObjectKind::MipmappedArray, values),
        }
    }

    pub(crate) fn is_live(&self, raw: CUarray) -> bool {
        self.single.find(raw.addr()).is_some()
    }

    pub(crate) fn is_mipmapped_live(&self, raw: CUmipmappedArray) -> bool {
        self.mipmapped.find(raw.addr()).is_some()
    }

    /// What was made and not destroyed; a level isn't made.
    pub(crate) fn leaks(&self) -> impl Iterator<Item = Leak> {
        let single = self.single.leaks().filter(|leak| {
            let key = usize::try_from(leak.raw).ok().and_then(|raw| self.single.find(raw));
            key.and_then(|key| self.single.get(key)).is_some_and(|array| array.level_of.is_none())
        });
        single.chain(self.mipmapped.leaks())
    }

    /// What wasn't destroyed before its context ended and took it along.
    pub(crate) fn gone_with_context(&self) -> impl Iterator<Item = Leak> {
        self.single.gone_with_context().chain(self.mipmapped.gone_with_context())
    }
}

impl State {
    /// Ends the arrays of a context that ends. Their bytes end with the context's memory.
    pub(crate) fn end_context_in_arrays(&mut self, context: Key<Context>, by: CallSite) {
        let gone = Ending::GoneWithContext(context.raw());
        for key in self.arrays.single.keys(|array| array.context == context) {
            let level = self.arrays.single.get(key).is_some_and(|array| array.level_of.is_some());
            self.arrays.single.remove(key, by, if level { Ending::Destroyed } else { gone });
        }
        for key in self.arrays.mipmapped.keys(|array| array.context == context) {
            self.arrays.mipmapped.remove(key, by, gone);
        }
    }
}

/// A box of an array's elements, as a copy names it: bytes, rows, slices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) at: [usize; 3],
    pub(crate) size: [usize; 3],
}

/// Where a part of an array lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) address: u64,
    pub(crate) pitch_bytes: u64,
    pub(crate) slice_bytes: u64,
}

impl Array {
    /// `None` where the part isn't inside. That it begins or ends within an element doesn't matter (measured).
    fn place(&self, part: Part) -> Option<Placed> {
        let [x, y, z] = part.at.map(|at| at as u64);
        let [width, rows, slices] = part.size.map(|size| size as u64);
        let pitch_bytes = self.shape.row_bytes();
        let all = [pitch_bytes, self.shape.rows() as u64, self.shape.slices() as u64];
        let fits = [(x, width), (y, rows), (z, slices)]
            .iter()
            .zip(all)
            .all(|((at, size), all)| at.checked_add(*size).is_some_and(|end| end <= all));
        if !fits {
            return None;
        }
        let slice_bytes = pitch_bytes * self.shape.rows() as u64;
        let address = self.base + z * slice_bytes + y * pitch_bytes + x;
        Some(Placed { address, pitch_bytes, slice_bytes })
    }
}

impl Turn<'_> {
    /// The live array with this handle.
    pub(crate) fn array(&mut self, raw: CUarray) -> Result<Key<Array>, CUresult> {
        let status = match self.state.arrays.single.absent(raw.addr()) {
            Absent::Ended(Some(grave)) => self.status_of_gone(grave),
            _ => CUresult::INVALID_HANDLE,
        };
        self.find(|state| &state.arrays.single, raw.addr(), status)
    }

    fn array_data(&mut self, key: Key<Array>) -> Result<&Array, CUresult> {
        self.state.arrays.single.get(key).ok_or(CUresult::INVALID_HANDLE)
    }

    /// Where a part of an array lies: `INVALID_VALUE` where it isn't inside, and for no array at all (measured).
    pub(crate) fn array_part(&mut self, raw: CUarray, part: Part) -> Result<Placed, CUresult> {
        let key = self.array(raw).map_err(|_absent| CUresult::INVALID_VALUE)?;
        self.array_data(key)?.place(part).ok_or(CUresult::INVALID_VALUE)
    }

    /// The context that an array belongs to.
    pub(crate) fn array_owner(&mut self, key: Key<Array>) -> Result<Key<Context>, CUresult> {
        Ok(self.array_data(key)?.context)
    }

    /// What an array needs that is made: the current context and its device.
    fn array_context(&mut self) -> Result<(Key<Context>, usize), CUresult> {
        let context = self.current()?;
        self.not_lost()?;
        self.check_capture()?;
        let device = self.context_data(context)?.device;
        Ok((context, self.state.device_index(device)?))
    }
}

/// A flat array in the words of one with a depth.
fn solid(desc: CUDA_ARRAY_DESCRIPTOR) -> CUDA_ARRAY3D_DESCRIPTOR {
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: desc.Width,
        Height: desc.Height,
        Depth: 0,
        Format: desc.Format,
        NumChannels: desc.NumChannels,
        Flags: 0,
    }
}

pub(crate) fn create(
    turn: &mut Turn<'_>,
    out: Out<CUarray>,
    desc: In<CUDA_ARRAY_DESCRIPTOR>,
) -> Answer {
    make(turn, out, desc.read().map(solid))
}

pub(crate) fn create_3d(
    turn: &mut Turn<'_>,
    out: Out<CUarray>,
    desc: In<CUDA_ARRAY3D_DESCRIPTOR>,
) -> Answer {
    make(turn, out, desc.read())
}

fn make(turn: &mut Turn<'_>, out: Out<CUarray>, desc: Option<CUDA_ARRAY3D_DESCRIPTOR>) -> Answer {
    let (out, desc) = (out.required()?, desc.ok_or(CUresult::INVALID_VALUE)?);
    let (context, device) = turn.array_context()?;
    let shape = Shape::of(&desc)?;
    let size_bytes = shape.size_bytes().ok_or(CUresult::OUT_OF_MEMORY)?;
    let made = turn.site;
    let base = turn.state.memory.add_behind(context, device, size_bytes, made)?;
    let array = Array { desc, shape, base, context, level_of: None };
    out.write(CUarray::from_addr(turn.state.arrays.single.insert(made, array).raw()));
    Ok(())
}

/// Waits for the work of the context that owns the array, whichever is current (measured).
pub(crate) fn destroy(turn: &mut Turn<'_>, array: CUarray) -> Answer {
    let key = turn.array(array)?;
    turn.not_lost()?;
    turn.check_capture()?;
    let (context, is_level) = {
        let found = turn.array_data(key)?;
        (found.context, found.level_of.is_some())
    };
    if is_level {
        // Answered with success (measured), and no way to end a level.
        let level = Some((ObjectKind::Array, key.raw() as u64));
        turn.violate(ViolationKind::DoubleDestroy, level, "it ends with its mipmapped array");
        return Ok(());
    }
    turn.complete_context(context)?;
    // While code of the caller ran, another thread may have destroyed it.
    let key = turn.array(array)?;
    let by = turn.site;
    if let Some(ended) = turn.state.arrays.single.remove(key, by, Ending::Destroyed) {
        turn.state.memory.remove_behind(ended.base, by);
    }
    Ok(())
}

pub(crate) fn descriptor(
    turn: &mut Turn<'_>,
    out: Out<CUDA_ARRAY_DESCRIPTOR>,
    array: CUarray,
) -> Answer {
    let out = out.required()?;
    let key = turn.array(array)?;
    let desc = turn.array_data(key)?.desc;
    out.write(CUDA_ARRAY_DESCRIPTOR {
        Width: desc.Width,
        Height: desc.Height,
        Format: desc.Format,
        NumChannels: desc.NumChannels,
    });
    Ok(())
}

pub(crate) fn descriptor_3d(
    turn: &mut Turn<'_>,
    out: Out<CUDA_ARRAY3D_DESCRIPTOR>,
    array: CUarray,
) -> Answer {
    let out = out.required()?;
    let key = turn.array(array)?;
    out.write(turn.array_data(key)?.desc);
    Ok(())
}
