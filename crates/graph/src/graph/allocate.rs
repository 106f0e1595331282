//! Nodes that allocate and free memory.
//!
//! The address is fixed when the node is added, for the life of the graph; the memory is there from that node on in each
//! launch, until a node frees it, or somebody after the launch. It belongs to the graph, so nothing keeps it.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Graph, Inside, NodeKind};
use crate::node::{After, Keyed as _, Node};
use cuhold_handles::{Device, Driver, Error, KernelArg, Note, Result, driver_sys::ffi::*};
use cuhold_memory::{GridPlace, bytemuck::Pod};
use std::{fmt, marker::PhantomData};

/// Memory of a graph, made by a node of it: an address and a length. As a kernel's argument it is the address.
///
/// It is there while a launch runs, from its node on. What uses it runs behind that node, and in front of one that
/// [frees](Graph::free) it.
pub struct GraphAllocation<T: Pod = u8> {
    node: Node,
    ptr: u64,
    len: usize,
    elements: PhantomData<fn() -> T>,
}

impl<T: Pod> GraphAllocation<T> {
    /// The node that allocates it.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn node(self) -> Node {
        self.node
    }

    /// Its address on the device.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn device_ptr(self) -> u64 {
        self.ptr
    }

    /// How many elements it holds.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether it holds none, which it never does.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    pub(crate) fn place(self, graph: u64) -> Result<Option<GridPlace>> {
        if self.node.key().graph() != graph {
            return Err(Error::argument("memory of another graph, which may not be there"));
        }
        Ok(GridPlace::row(self.ptr, self.len.saturating_mul(size_of::<T>())))
    }
}

impl<T: Pod> Clone for GraphAllocation<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Pod> Copy for GraphAllocation<T> {}

impl<T: Pod> fmt::Debug for GraphAllocation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory {:#x} of {} elements, of {:?}", self.ptr, self.len, self.node)
    }
}

// SAFETY: a pointer parameter is a 64-bit address.
unsafe impl<T: Pod> KernelArg for GraphAllocation<T> {
    type Repr = u64;

    fn repr(&self, _: &Driver) -> Result<u64> {
        Ok(self.ptr)
    }
}

/// Where a graph's memory is, and who may use it.
///
/// # Examples
/// ```
/// # use cuhold_graph::{AllocateOptions, Graph};
/// # use cuhold_handles::{Device, Driver};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let mut graph = Graph::new(device.context())?;
/// let options = AllocateOptions::default().on(&device);
/// let memory = graph.allocate_with::<u8>(&[], 4096, &options)?;
/// # let _ = memory;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AllocateOptions {
    device: Option<Device>,
    peers: Vec<Device>,
}

impl AllocateOptions {
    /// On this device, rather than on the graph's own.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn on(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// Another device may read and write it, too.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn shared_with(mut self, peer: &Device) -> Self {
        self.peers.push(peer.clone());
        self
    }
}

impl Graph {
    /// Adds a node that allocates memory for `len` elements on the graph's device. Their content is undefined.
    ///
    /// A graph with such a node keeps all its nodes and edges, can't be copied, can be made executable once at a time, and is
    /// launched again only when its memory was freed.
    ///
    /// Calls `cuGraphAddMemAllocNode`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; a place inside of a child graph or a conditional body; no bytes, or
    /// too many; the call's failure, after which nothing was added.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let scratch = graph.allocate::<f32>(&[], 1000)?;
    /// let filled = graph.fill(scratch.node(), scratch, 0.5)?;
    /// graph.free(filled, scratch)?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddMemAllocNode")]
    pub fn allocate<T: Pod>(
        &mut self,
        after: impl After,
        len: usize,
    ) -> Result<GraphAllocation<T>> {
        self.allocate_with(after, len, &AllocateOptions::default())
    }

    /// As [`allocate`](Self::allocate), elsewhere or for several devices.
    ///
    /// Calls `cuGraphAddMemAllocNode`.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate); a device of another driver.
    #[doc(alias = "cuGraphAddMemAllocNode")]
    pub fn allocate_with<T: Pod>(
        &mut self,
        after: impl After,
        len: usize,
        options: &AllocateOptions,
    ) -> Result<GraphAllocation<T>> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok());
        let bytes =
            bytes.ok_or_else(|| Error::argument(format!("len: {len} elements are too many")))?;
        if bytes == 0 {
            return Err(Error::argument("len: no bytes"));
        }
        let devices = options.device.iter().chain(&options.peers);
        for device in devices {
            self.driver().check_same(device.driver(), "options: a device")?;
        }
        let own = self.context().device();
        let location = options.device.as_ref().map_or(own, Device::as_raw);
        let access: Vec<CUmemAccessDesc> =
            options.peers.iter().map(|peer| access(peer.as_raw())).collect();
        let mut params = CUDA_MEM_ALLOC_NODE_PARAMS {
            bytesize: bytes,
            accessDescs: access.as_ptr(),
            accessDescCount: access.len(),
            ..CUDA_MEM_ALLOC_NODE_PARAMS::default()
        };
        params.poolProps.allocType = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        params.poolProps.location = on_device(location);
        let node = self.add(NodeKind::Allocate, after.place(), [], |calls, to, raw| {
            let (after, count) = (to.after.as_ptr(), to.after.len());
            // SAFETY: *pointers*: live locals, and live nodes of the number; *handles*: this value's graph.
            unsafe { calls.cuGraphAddMemAllocNode(raw, to.graph, after, count, &raw mut params) }
        })?;
        let ptr = params.dptr;
        let detail = self.inner.nodes.get_mut(node)?.detail_mut();
        detail.inside = Inside::Memory { ptr };
        Ok(GraphAllocation { node, ptr, len, elements: PhantomData })
    }

    /// Adds a node that frees memory that a node of this graph allocated, or one of another graph whose launch left it.
    ///
    /// Calls `cuGraphAddMemFreeNode`.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; a place inside of a child graph or a conditional body; the call's
    /// failure, after which nothing was added: `INVALID_VALUE` for memory that a node of this graph frees already, and for
    /// its own memory once the graph was made executable (measured).
    #[doc(alias = "cuGraphAddMemFreeNode")]
    pub fn free<T: Pod>(&mut self, after: impl After, memory: GraphAllocation<T>) -> Result<Node> {
        let ptr = memory.ptr;
        let freed = self.add(NodeKind::Free, after.place(), [], |calls, to, raw| {
            let (after, count) = (to.after.as_ptr(), to.after.len());
            // SAFETY: *pointers*: a live local, and live nodes of the number; the address is one that a graph allocates;
            // *handles*: this value's graph.
            unsafe { calls.cuGraphAddMemFreeNode(raw, to.graph, after, count, ptr) }
        });
        match freed {
            Ok(node) => {
                let detail = self.inner.nodes.get_mut(node)?.detail_mut();
                detail.inside = Inside::Memory { ptr };
                Ok(node)
            }
            Err(error) => Err(match self.freed_by(ptr) {
                Some(node) if error.is(CUresult::INVALID_VALUE) => {
                    error.with_note(Note::Text(format!("{node:?} frees it already").into()))
                }
                _ => error,
            }),
        }
    }

    /// The node of this graph that frees the memory at an address.
    fn freed_by(&self, address: u64) -> Option<Node> {
        let found = self.inner.nodes.iter().find(|(_, entry)| {
            entry.kind == NodeKind::Free
                && matches!(entry.inside(), Inside::Memory { ptr } if *ptr == address)
        });
        found.map(|(node, _)| node)
    }
}

fn on_device(device: CUdevice) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        __bindgen_anon_1: CUmemLocation_st__bindgen_ty_1 { id: device },
    }
}

fn access(device: CUdevice) -> CUmemAccessDesc {
    CUmemAccessDesc {
        location: on_device(device),
        flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    }
}
