//! The ends of copies and fills: ranges and boxes of buffers, memory of graphs, the host; and how CUDA is told of them.

#![expect(unsafe_code, reason = "says which memory is kept, or is a graph's own")]

use crate::{graph::GraphAllocation, host_memory::SharedHost, keep::Operand};
use cuhold_handles::{Driver, Error, KeepAlive, Result, driver_sys::ffi::*};
use cuhold_memory::{
    Buffer, BufferView, BufferViewMut, Grid, GridPlace, GridView, GridViewMut, HostSource,
    bytemuck::{Pod, bytes_of},
};
use smallvec::SmallVec;

/// What a copy uses.
pub(crate) type Kept = SmallVec<[Operand; 2]>;

/// One end of a copy.
#[doc(hidden)]
#[derive(Debug)]
#[non_exhaustive]
pub struct CopyEnd<'a> {
    pub(crate) driver: Option<&'a Driver>,
    pub(crate) place: Result<Option<GridPlace>>,
    pub(crate) kept: Option<KeepAlive>,
}

/// What is one end of a copy in the graph of this number.
///
/// # Safety
/// The place is memory that what is kept keeps, or that of the graph.
#[doc(hidden)]
pub unsafe trait HasEnd {
    /// That end.
    fn end(&self, graph: u64) -> CopyEnd<'_>;
}

/// What a node can copy from: a [`Buffer`], a view of one, a box within one, a graph's own memory.
pub trait CopySource<T: Pod>: HasEnd {}

/// What a node can copy to, or fill: a [`Buffer`], a view of one, a box within one, a graph's own memory.
pub trait CopyTarget<T: Pod>: HasEnd {}

fn end_of_view<'a, T: Pod>(view: &BufferView<'a, T>) -> CopyEnd<'a> {
    let grid = view.grid(Grid::rect([view.len(), 1]));
    let place = grid.map(|grid| grid.grid_place());
    CopyEnd { driver: Some(view.driver()), place, kept: view.keep() }
}

macro_rules! ends {
    ($($type:ty: $trait:ident, |$this:ident| $end:expr;)*) => { $(
        // SAFETY: the buffer's own memory, which is kept.
        unsafe impl<T: Pod> HasEnd for $type {
            fn end(&self, _: u64) -> CopyEnd<'_> {
                let $this = self;
                $end
            }
        }

        impl<T: Pod> $trait<T> for $type {}
    )* };
}

ends! {
    &Buffer<T>: CopySource, |buffer| end_of_view(&buffer.as_view());
    BufferView<'_, T>: CopySource, |view| end_of_view(view);
    &BufferView<'_, T>: CopySource, |view| end_of_view(view);
    GridView<'_, T>: CopySource, |grid| CopyEnd { driver: Some(grid.driver()), place: Ok(grid.grid_place()), kept: grid.keep() };
    &GridView<'_, T>: CopySource, |grid| CopyEnd { driver: Some(grid.driver()), place: Ok(grid.grid_place()), kept: grid.keep() };
    &mut Buffer<T>: CopyTarget, |buffer| end_of_view(&buffer.as_view());
    BufferViewMut<'_, T>: CopyTarget, |view| end_of_view(&view.as_view());
    &mut BufferViewMut<'_, T>: CopyTarget, |view| end_of_view(&view.as_view());
    GridViewMut<'_, T>: CopyTarget, |grid| CopyEnd { driver: Some(grid.driver()), place: Ok(grid.grid_place()), kept: grid.keep() };
    &mut GridViewMut<'_, T>: CopyTarget, |grid| CopyEnd { driver: Some(grid.driver()), place: Ok(grid.grid_place()), kept: grid.keep() };
}

// SAFETY: memory of the graph.
unsafe impl<T: Pod> HasEnd for GraphAllocation<T> {
    fn end(&self, graph: u64) -> CopyEnd<'_> {
        CopyEnd { driver: None, place: self.place(graph), kept: None }
    }
}

impl<T: Pod> CopySource<T> for GraphAllocation<T> {}
impl<T: Pod> CopyTarget<T> for GraphAllocation<T> {}

/// One side of CUDA's description.
#[derive(Clone, Copy)]
enum Side {
    Device(GridPlace),
    /// Packed.
    Host(*mut c_void),
}

/// Makes descriptions for the graph of this number.
#[derive(Clone, Copy)]
pub(crate) struct Ends<'a> {
    pub(crate) driver: &'a Driver,
    pub(crate) graph: u64,
}

impl Ends<'_> {
    /// An end on the device; none where it has no bytes.
    pub(crate) fn device(
        self,
        end: &impl HasEnd,
        what: &'static str,
    ) -> Result<(Option<GridPlace>, Kept)> {
        let end = end.end(self.graph);
        if let Some(driver) = end.driver {
            self.driver.check_same(driver, what)?;
        }
        Ok((end.place?, end.kept.into_iter().map(Operand::Value).collect()))
    }

    /// What a copy on the device is described by; nothing where there are no bytes.
    pub(crate) fn between(
        self,
        dst: &impl HasEnd,
        src: &impl HasEnd,
    ) -> Result<(Option<CUDA_MEMCPY3D>, Kept)> {
        let (to, mut kept) = self.device(dst, "dst")?;
        let (from, more) = self.device(src, "src")?;
        kept.extend(more);
        let size = |place: Option<GridPlace>| place.map_or([0; 3], |place| place.size);
        if size(from) != size(to) {
            return Err(Error::argument(format!(
                "src: bytes, rows and slices are {:?}, where those of dst are {:?}",
                size(from),
                size(to)
            )));
        }
        let params =
            to.zip(from).map(|(to, from)| params(to.size, Side::Device(to), Side::Device(from)));
        Ok((params, kept))
    }

    /// What a copy of host memory that is given away is described by.
    pub(crate) fn read_host<T: Pod, S: HostSource<T>>(
        self,
        dst: &impl HasEnd,
        src: S,
    ) -> Result<(Option<CUDA_MEMCPY3D>, Kept)> {
        let (to, mut kept) = self.device(dst, "dst")?;
        let elements = src.elements();
        check_host::<T>(to, elements.len(), "src")?;
        let host = Side::Host(elements.as_ptr().cast_mut().cast());
        kept.push(Operand::Host(Box::new(src)));
        Ok((to.map(|to| params(to.size, Side::Device(to), host)), kept))
    }

    /// What a copy of shared host memory to the device is described by.
    pub(crate) fn read_shared<T: Pod + Send>(
        self,
        dst: &impl HasEnd,
        src: &SharedHost<T>,
    ) -> Result<(Option<CUDA_MEMCPY3D>, Kept)> {
        let (to, mut kept) = self.device(dst, "dst")?;
        check_host::<T>(to, src.len(), "src")?;
        kept.push(Operand::Value(src.keep()));
        let host = Side::Host(src.elements().cast());
        Ok((to.map(|to| params(to.size, Side::Device(to), host)), kept))
    }

    /// What a copy to shared host memory is described by.
    pub(crate) fn write_shared<T: Pod + Send>(
        self,
        dst: &SharedHost<T>,
        src: &impl HasEnd,
    ) -> Result<(Option<CUDA_MEMCPY3D>, Kept)> {
        let (from, mut kept) = self.device(src, "src")?;
        check_host::<T>(from, dst.len(), "dst")?;
        kept.push(Operand::Value(dst.keep()));
        let host = Side::Host(dst.elements().cast());
        Ok((from.map(|from| params(from.size, host, Side::Device(from))), kept))
    }

    /// What a fill of rows is described by.
    pub(crate) fn fill<T: Pod>(
        self,
        dst: &impl CopyTarget<T>,
        value: T,
    ) -> Result<(Option<CUDA_MEMSET_NODE_PARAMS>, Kept)> {
        let (place, kept) = self.device(dst, "dst")?;
        let Some(place) = place else { return Ok((None, kept)) };
        let (element, word) = pattern(bytes_of(&value)).ok_or_else(|| {
            Error::argument(format!(
                "value: the {} bytes of it aren't 1, 2 or 4 that repeat",
                size_of::<T>()
            ))
        })?;
        let [width, height, depth] = place.size;
        if depth > 1 && place.slice_rows != height {
            return Err(Error::argument(format!(
                "dst: {} rows from slice to slice, where one has {height}: each slice takes a fill of its own",
                place.slice_rows
            )));
        }
        let rows = height.saturating_mul(depth);
        let params = CUDA_MEMSET_NODE_PARAMS {
            dst: place.ptr,
            pitch: if rows > 1 { place.pitch_bytes } else { 0 },
            value: word,
            elementSize: element,
            width: width / element as usize,
            height: rows,
        };
        Ok((Some(params), kept))
    }
}

fn check_host<T>(device: Option<GridPlace>, elements: usize, what: &str) -> Result<()> {
    let [width, height, depth] = device.map_or([0; 3], |place| place.size);
    let bytes = width.saturating_mul(height).saturating_mul(depth);
    if elements.checked_mul(size_of::<T>()) == Some(bytes) {
        return Ok(());
    }
    Err(Error::argument(format!(
        "{what}: {elements} elements, where there are {bytes} bytes on the device, of {} each",
        size_of::<T>()
    )))
}

fn params(size: [usize; 3], dst: Side, src: Side) -> CUDA_MEMCPY3D {
    let [width, height, depth] = size;
    let mut copy = CUDA_MEMCPY3D {
        WidthInBytes: width,
        Height: height,
        Depth: depth,
        ..CUDA_MEMCPY3D::default()
    };
    let device = |place: GridPlace| match place.is_host {
        true => CUmemorytype::CU_MEMORYTYPE_UNIFIED,
        false => CUmemorytype::CU_MEMORYTYPE_DEVICE,
    };
    match src {
        Side::Device(place) => {
            (copy.srcMemoryType, copy.srcDevice) = (device(place), place.ptr);
            (copy.srcPitch, copy.srcHeight) = (place.pitch_bytes, place.slice_rows);
        }
        Side::Host(memory) => {
            copy.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
            (copy.srcHost, copy.srcPitch, copy.srcHeight) = (memory.cast_const(), width, height);
        }
    }
    match dst {
        Side::Device(place) => {
            (copy.dstMemoryType, copy.dstDevice) = (device(place), place.ptr);
            (copy.dstPitch, copy.dstHeight) = (place.pitch_bytes, place.slice_rows);
        }
        Side::Host(memory) => {
            copy.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
            (copy.dstHost, copy.dstPitch, copy.dstHeight) = (memory, width, height);
        }
    }
    copy
}

/// The bytes that repeat in a value: how many, and as a number.
fn pattern(bytes: &[u8]) -> Option<(u32, u32)> {
    [1_u32, 2, 4].into_iter().find_map(|element| {
        let width = element as usize;
        let repeats = bytes.len().is_multiple_of(width)
            && bytes.chunks_exact(width).all(|chunk| bytes.starts_with(chunk));
        let mut word = [0; 4];
        word.get_mut(..width)?.copy_from_slice(bytes.get(..width).filter(|_| repeats)?);
        Some((element, u32::from_le_bytes(word)))
    })
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn the_shortest_bytes_that_repeat_are_found() {
        assert_eq!(pattern(&[7]), Some((1, 7)));
        assert_eq!(pattern(&[7, 7, 7, 7]), Some((1, 7)));
        assert_eq!(pattern(&[1, 2]), Some((2, 0x201)));
        assert_eq!(pattern(&[1, 2, 1, 2]), Some((2, 0x201)));
        assert_eq!(pattern(&1_u32.to_le_bytes()), Some((4, 1)));
        assert_eq!(pattern(&0x1_0000_0001_u64.to_le_bytes()), Some((4, 1)));
        assert_eq!(pattern(&1_u64.to_le_bytes()), None);
        assert_eq!(pattern(&[1, 2, 3]), None);
        assert_eq!(pattern(&[]), None);
    }
}
