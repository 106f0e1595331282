//! Nodes that copy memory: ranges and boxes of buffers, of a graph's own memory, of the host.
//!
//! Each is one node, which CUDA describes as a box.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Graph, GraphAllocation, NodeKind};
use crate::{
    host_memory::SharedHost,
    keep::Operand,
    node::{After, Node, Place},
};
use cuhold_handles::{
    Context, Driver, Error, KeepAlive, Result,
    driver_sys::{Calls, ffi::*},
};
use cuhold_memory::{
    Buffer, BufferView, BufferViewMut, Grid, GridPlace, GridView, GridViewMut, HostSource,
    bytemuck::Pod,
};
use smallvec::SmallVec;

/// What a copy uses.
pub(crate) type Kept = SmallVec<[Operand; 2]>;

/// One end of a copy.
#[doc(hidden)]
#[derive(Debug)]
#[non_exhaustive]
pub struct CopyEnd<'a> {
    driver: Option<&'a Driver>,
    place: Result<Option<GridPlace>>,
    kept: Option<KeepAlive>,
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

impl Graph {
    /// Adds a node that copies memory on the device: between buffers, ranges, or boxes of the same sizes. Both buffers are kept
    /// alive. They may be of different home streams: what orders the copy with other work is the order of the launches.
    ///
    /// Calls `cuGraphAddMemcpyNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; memory of another driver; different sizes; no bytes; the calls'
    /// failures, after which nothing was added.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # use cuhold_memory::{Buffer, Grid};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let stream = device.new_stream()?;
    /// let image = Buffer::<u8>::zeroed(&stream, 640 * 480)?;
    /// let mut part = Buffer::<u8>::zeroed(&stream, 100)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let row = graph.copy(&[], &mut part, image.view(..100)?)?;
    /// let corner = image.as_view().grid(Grid::rect([10, 10]).pitch(640))?;
    /// graph.copy(row, part.as_view_mut().into_grid(Grid::rect([10, 10]))?, corner)?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddMemcpyNode")]
    pub fn copy<T: Pod>(
        &mut self,
        after: impl After,
        dst: impl CopyTarget<T>,
        src: impl CopySource<T>,
    ) -> Result<Node> {
        let (params, kept) = self.between(&dst, &src)?;
        self.add_copy(after.place(), &params, kept)
    }

    /// Adds a node that copies host memory to the device. The graph owns the memory from here on, so that nobody changes it
    /// while a launch reads it; [`SharedHost`] is for memory that is to change between launches. The elements are packed.
    ///
    /// Calls `cuGraphAddMemcpyNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy`](Self::copy); another number of elements.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # use cuhold_memory::Buffer;
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let stream = device.new_stream()?;
    /// let mut buffer = Buffer::<u32>::zeroed(&stream, 3)?;
    /// let mut graph = Graph::new(device.context())?;
    /// graph.copy_from_host(&[], &mut buffer, vec![1, 2, 3])?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddMemcpyNode")]
    pub fn copy_from_host<T: Pod, S: HostSource<T>>(
        &mut self,
        after: impl After,
        dst: impl CopyTarget<T>,
        src: S,
    ) -> Result<Node> {
        let (params, kept) = self.read_host(&dst, src)?;
        self.add_copy(after.place(), &params, kept)
    }

    /// Adds a node that copies host memory, as it is at each launch, to the device. The elements are packed.
    ///
    /// Calls `cuGraphAddMemcpyNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy_from_host`](Self::copy_from_host).
    #[doc(alias = "cuGraphAddMemcpyNode")]
    pub fn copy_from_shared<T: Pod + Send>(
        &mut self,
        after: impl After,
        dst: impl CopyTarget<T>,
        src: &SharedHost<T>,
    ) -> Result<Node> {
        let (params, kept) = self.read_shared(&dst, src)?;
        self.add_copy(after.place(), &params, kept)
    }

    /// Adds a node that copies memory of the device to the host. The elements are packed.
    ///
    /// Calls `cuGraphAddMemcpyNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy_from_host`](Self::copy_from_host).
    #[doc(alias = "cuGraphAddMemcpyNode")]
    pub fn copy_to_shared<T: Pod + Send>(
        &mut self,
        after: impl After,
        dst: &SharedHost<T>,
        src: impl CopySource<T>,
    ) -> Result<Node> {
        let (params, kept) = self.write_shared(dst, &src)?;
        self.add_copy(after.place(), &params, kept)
    }

    /// Adds a node that copies a box, as CUDA describes it: arrays, for instance. What is named in `keep` is kept alive.
    ///
    /// Calls `cuGraphAddMemcpyNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; the calls' failures, after which nothing was added.
    ///
    /// # Safety
    /// What `copy` names is kept alive by `keep` or by other means as long as the graph, a copy of it, an executable, or a
    /// launch, and isn't used in conflict while a launch copies.
    #[doc(alias = "cuGraphAddMemcpyNode")]
    pub unsafe fn copy_raw(
        &mut self,
        after: impl After,
        copy: &CUDA_MEMCPY3D,
        keep: impl IntoIterator<Item = KeepAlive>,
    ) -> Result<Node> {
        self.add_copy(after.place(), copy, keep.into_iter().map(Operand::Value).collect())
    }

    /// Lets a node copy other memory on the device. Executables that were made before go on with what they have.
    ///
    /// Calls `cuGraphMemcpyNodeSetParams`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy`](Self::copy); a node that copies nothing. After the calls' failures all buffers are kept.
    #[doc(alias = "cuGraphMemcpyNodeSetParams")]
    pub fn set_copy<T: Pod>(
        &mut self,
        node: Node,
        dst: impl CopyTarget<T>,
        src: impl CopySource<T>,
    ) -> Result<()> {
        let (params, kept) = self.between(&dst, &src)?;
        self.change_copy(node, &params, kept)
    }

    /// Lets a node copy host memory to the device, which the graph owns from here on. Executables that were made before go on
    /// with what they have.
    ///
    /// Calls `cuGraphMemcpyNodeSetParams`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`copy_from_host`](Self::copy_from_host); a node that copies nothing. After the calls' failures all memory is kept.
    #[doc(alias = "cuGraphMemcpyNodeSetParams")]
    pub fn set_copy_from_host<T: Pod, S: HostSource<T>>(
        &mut self,
        node: Node,
        dst: impl CopyTarget<T>,
        src: S,
    ) -> Result<()> {
        let (params, kept) = self.read_host(&dst, src)?;
        self.change_copy(node, &params, kept)
    }

    /// Lets a node copy host memory, as it is at each launch, to the device. Executables that were made before go on with what
    /// they have.
    ///
    /// Calls `cuGraphMemcpyNodeSetParams`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`set_copy_from_host`](Self::set_copy_from_host).
    #[doc(alias = "cuGraphMemcpyNodeSetParams")]
    pub fn set_copy_from_shared<T: Pod + Send>(
        &mut self,
        node: Node,
        dst: impl CopyTarget<T>,
        src: &SharedHost<T>,
    ) -> Result<()> {
        let (params, kept) = self.read_shared(&dst, src)?;
        self.change_copy(node, &params, kept)
    }

    /// Lets a node copy memory of the device to the host. Executables that were made before go on with what they have.
    ///
    /// Calls `cuGraphMemcpyNodeSetParams`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`set_copy_from_host`](Self::set_copy_from_host).
    #[doc(alias = "cuGraphMemcpyNodeSetParams")]
    pub fn set_copy_to_shared<T: Pod + Send>(
        &mut self,
        node: Node,
        dst: &SharedHost<T>,
        src: impl CopySource<T>,
    ) -> Result<()> {
        let (params, kept) = self.write_shared(dst, &src)?;
        self.change_copy(node, &params, kept)
    }

    fn change_copy(&mut self, node: Node, params: &CUDA_MEMCPY3D, kept: Kept) -> Result<()> {
        self.change(node, NodeKind::Copy, (kept.len(), kept), |calls, raw| {
            // SAFETY: *pointers*: live; both ends lie within memory that is kept; *handles*: a live node.
            unsafe { calls.cuGraphMemcpyNodeSetParams(raw, params) }
        })
    }

    pub(super) fn device_end(
        &self,
        end: &impl HasEnd,
        what: &'static str,
    ) -> Result<(GridPlace, Kept)> {
        let end = end.end(self.inner.nodes.graph());
        if let Some(driver) = end.driver {
            self.driver().check_same(driver, what)?;
        }
        let place = end.place?;
        let place = place.ok_or_else(|| Error::argument(format!("{what}: it has no bytes")))?;
        Ok((place, end.kept.into_iter().map(Operand::Value).collect()))
    }

    /// What a copy on the device is described by.
    pub(crate) fn between(
        &self,
        dst: &impl HasEnd,
        src: &impl HasEnd,
    ) -> Result<(CUDA_MEMCPY3D, Kept)> {
        let (to, mut kept) = self.device_end(dst, "dst")?;
        let (from, more) = self.device_end(src, "src")?;
        kept.extend(more);
        if from.size != to.size {
            return Err(Error::argument(format!(
                "src: bytes, rows and slices are {:?}, where those of dst are {:?}",
                from.size, to.size
            )));
        }
        Ok((params(to.size, Side::Device(to), Side::Device(from)), kept))
    }

    /// What a copy of host memory that is given away is described by.
    pub(crate) fn read_host<T: Pod, S: HostSource<T>>(
        &self,
        dst: &impl HasEnd,
        src: S,
    ) -> Result<(CUDA_MEMCPY3D, Kept)> {
        let (to, mut kept) = self.device_end(dst, "dst")?;
        let elements = src.elements();
        check_host::<T>(to, elements.len(), "src")?;
        let host = Side::Host(elements.as_ptr().cast_mut().cast());
        kept.push(Operand::Host(Box::new(src)));
        Ok((params(to.size, Side::Device(to), host), kept))
    }

    /// What a copy of shared host memory to the device is described by.
    pub(crate) fn read_shared<T: Pod + Send>(
        &self,
        dst: &impl HasEnd,
        src: &SharedHost<T>,
    ) -> Result<(CUDA_MEMCPY3D, Kept)> {
        let (to, mut kept) = self.device_end(dst, "dst")?;
        check_host::<T>(to, src.len(), "src")?;
        kept.push(Operand::Value(src.keep()));
        let host = Side::Host(src.elements().cast());
        Ok((params(to.size, Side::Device(to), host), kept))
    }

    /// What a copy to shared host memory is described by.
    pub(crate) fn write_shared<T: Pod + Send>(
        &self,
        dst: &SharedHost<T>,
        src: &impl HasEnd,
    ) -> Result<(CUDA_MEMCPY3D, Kept)> {
        let (from, mut kept) = self.device_end(src, "src")?;
        check_host::<T>(from, dst.len(), "dst")?;
        kept.push(Operand::Value(dst.keep()));
        let host = Side::Host(dst.elements().cast());
        Ok((params(from.size, host, Side::Device(from)), kept))
    }

    fn add_copy(&mut self, after: Place<'_>, params: &CUDA_MEMCPY3D, kept: Kept) -> Result<Node> {
        self.add_with(NodeKind::Copy, after, kept.len(), |calls: Calls<'_>, to| {
            let (context, mut raw): (&Context, _) = (to.context, CUgraphNode::NULL);
            let (after, count) = (to.after.as_ptr(), to.after.len());
            // SAFETY: *pointers*: live locals, and live nodes of the number; both ends lie within memory that is kept, or are
            // the caller's promise; *handles*: this value's graph and its context.
            let made = unsafe {
                let out = &raw mut raw;
                calls.cuGraphAddMemcpyNode(out, to.graph, after, count, params, context.as_raw())
            };
            (made.map(|()| raw).map_err(|failure| context.driver().error(failure)), kept)
        })
    }
}

fn check_host<T>(device: GridPlace, elements: usize, what: &str) -> Result<()> {
    let [width, height, depth] = device.size;
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
