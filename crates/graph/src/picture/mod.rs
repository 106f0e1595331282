//! Pictures of graphs: text for Graphviz, and drawings that need no other program.
//!
//! ```text
//!   Graph ──asked of the driver──► Sketch ─┬─ dot.rs
//!                                          └─ svg.rs ── layers.rs, places.rs: where everything goes
//! ```
//!
//! Only this file makes driver calls: the rest draws what it was told.

#![expect(unsafe_code, reason = "asks the driver for names of kernels")]

mod dot;
mod layers;
mod places;
mod shapes;
mod sketch;
mod svg;

use crate::{
    graph::{ConditionalKind, Graph, Inside, NodeKind, NodeParams},
    node::{Body, Node},
};
use cuhold_handles::{Error, Result, driver_sys::ffi::*};
use sketch::{Sketch, SketchEdge, SketchNode, part, shorten};
use std::{collections::BTreeMap, ffi::CStr, ptr};

/// How many nodes a drawing may have.
const MOST_NODES: usize = 5000;

impl Graph {
    /// The graph in Graphviz's language: its nodes with their names, kinds and parameters, its edges, and what is inside of
    /// nodes as clusters.
    ///
    /// Calls as [`params`](Self::params) and as [`body`](Self::body), and `cuKernelGetName`.
    ///
    /// # Errors
    /// The calls' failures.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let first = graph.host(&[], || {})?;
    /// graph.empty(first)?;
    /// let dot = graph.to_dot()?;
    /// assert!(dot.starts_with("digraph") && dot.contains("n0 -> n1"));
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphDebugDotPrint")]
    pub fn to_dot(&mut self) -> Result<String> {
        Ok(dot::write(&self.sketch()?))
    }

    /// The graph as a drawing, an SVG document: nodes in layers from top to bottom, in shapes and colours by their kinds, with
    /// their names and parameters, and what is inside of nodes drawn inside of them.
    ///
    /// Calls as [`params`](Self::params) and as [`body`](Self::body), and `cuKernelGetName`.
    ///
    /// # Errors
    /// The calls' failures; a graph of more than 5000 nodes, which would be no picture any more.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let first = graph.host(&[], || {})?;
    /// graph.set_label(first, "what is done first")?;
    /// let svg = graph.to_svg()?;
    /// assert!(svg.starts_with("<svg") && svg.contains("what is done first"));
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    pub fn to_svg(&mut self) -> Result<String> {
        let sketch = self.sketch()?;
        let nodes = sketch.count();
        if nodes > MOST_NODES {
            return Err(Error::state(format!(
                "the graph has {nodes} nodes, where a drawing has {MOST_NODES} at most"
            )));
        }
        Ok(svg::write(&sketch))
    }

    /// What there is to be drawn.
    fn sketch(&mut self) -> Result<Sketch> {
        self.read_children()?;
        self.inner.edges_are_known()?;
        self.sketch_of(self.inner.root())
    }

    /// Reads the graphs inside of child nodes, at every depth.
    fn read_children(&mut self) -> Result<()> {
        loop {
            let unread: Vec<Node> = self
                .inner
                .nodes
                .iter()
                .filter(|(_, entry)| matches!(entry.inside(), Inside::Child { read: None, .. }))
                .map(|(node, _)| node)
                .collect();
            if unread.is_empty() {
                return Ok(());
            }
            for node in unread {
                self.body(node, 0)?;
            }
        }
    }

    fn sketch_of(&self, level: Body) -> Result<Sketch> {
        let nodes: Vec<Node> = self.inner.nodes_of(level).collect();
        let places: BTreeMap<Node, usize> =
            nodes.iter().enumerate().map(|(place, node)| (*node, place)).collect();
        let mut sketch = Sketch::default();
        for node in &nodes {
            sketch.nodes.push(self.sketch_node(*node)?);
        }
        for (to, place) in &places {
            for edge in self.edges_to(*to) {
                if let Some(from) = places.get(&edge.from) {
                    sketch.edges.push(SketchEdge { from: *from, to: *place, kind: edge.kind });
                }
            }
        }
        Ok(sketch)
    }

    fn sketch_node(&self, node: Node) -> Result<SketchNode> {
        let entry = self.inner.nodes.get(node)?;
        let doubtful = entry.is_doubtful();
        let params = if doubtful { NodeParams::Unknown } else { self.params(node)? };
        let (mut title, mut details) = self.told(entry.kind, &params)?;
        let mut inside = Vec::new();
        match entry.inside() {
            Inside::Nothing | Inside::Memory { .. } => {}
            Inside::Child { read, .. } => {
                if let Some(body) = read {
                    inside.push((String::new(), self.sketch_of(*body)?));
                }
            }
            Inside::Bodies { kind, bodies } => {
                for (nth, body) in bodies.iter().enumerate() {
                    inside.push((caption(*kind, nth), self.sketch_of(*body)?));
                }
            }
        }
        if let Some(label) = self.label(node)? {
            details.insert(0, title);
            title = label.to_owned();
        }
        if doubtful {
            details.push("removed, perhaps".to_owned());
        }
        let name = format!("{node:?}");
        Ok(SketchNode { kind: entry.kind, name, title, details, inside })
    }

    /// A node's title and what else is said of it.
    fn told(&self, kind: NodeKind, params: &NodeParams) -> Result<(String, Vec<String>)> {
        Ok(match params {
            NodeParams::Kernel { kernel, grid, block, shared_bytes, .. } => {
                let name = self.kernel_name(*kernel)?;
                let mut details = vec![format!("{} blocks of {}", size(grid), size(block))];
                if *shared_bytes > 0 {
                    details.push(format!("{} shared", part(*shared_bytes as usize)));
                }
                (name.unwrap_or_else(|| kind.to_string()), details)
            }
            NodeParams::Copy(copy) => {
                let what = match (is_host(copy.srcMemoryType), is_host(copy.dstMemoryType)) {
                    (true, false) => "copy to the device",
                    (false, true) => "copy to the host",
                    _ => "copy",
                };
                let rows = copy.Height.max(1).saturating_mul(copy.Depth.max(1));
                (what.to_owned(), vec![rows_of(copy.WidthInBytes, rows)])
            }
            NodeParams::Fill { value, element_bytes, width, height, .. } => {
                let bytes = width.saturating_mul(*element_bytes as usize);
                (format!("fill with {value:#x}"), vec![rows_of(bytes, *height)])
            }
            NodeParams::Allocate { ptr, bytes } => {
                ("allocate".to_owned(), vec![part(*bytes), format!("{ptr:#x}")])
            }
            NodeParams::Free { ptr } => ("free".to_owned(), vec![format!("{ptr:#x}")]),
            NodeParams::Signal(list) => {
                ("signal".to_owned(), vec![several(list.len(), "semaphore")])
            }
            NodeParams::Await(list) => {
                ("wait for signals".to_owned(), vec![several(list.len(), "semaphore")])
            }
            NodeParams::Batch(count) => {
                ("memory operations".to_owned(), vec![several(*count, "operation")])
            }
            NodeParams::Record(event) => {
                ("record event".to_owned(), vec![format!("{:#x}", event.addr())])
            }
            NodeParams::Wait(event) => {
                ("wait for event".to_owned(), vec![format!("{:#x}", event.addr())])
            }
            NodeParams::Conditional { kind, bodies } => (conditional(*kind, *bodies), Vec::new()),
            _ => (kind.to_string(), Vec::new()),
        })
    }

    /// A kernel's name, where the driver tells it (CUDA 12.3).
    fn kernel_name(&self, kernel: CUkernel) -> Result<Option<String>> {
        if kernel.is_null() {
            return Ok(None);
        }
        let (driver, mut name) = (self.driver(), ptr::null());
        // SAFETY: *pointers*: a live local; *handles*: a kernel that a live node has.
        match unsafe { driver.callable()?.cuKernelGetName(&raw mut name, kernel) } {
            Ok(()) if name.is_null() => Ok(None),
            Ok(()) => {
                // SAFETY: the driver's text, which ends with a zero and is there as long as the kernel.
                let name = unsafe { CStr::from_ptr(name) };
                Ok(Some(shorten(&name.to_string_lossy())))
            }
            Err(failure) if failure.status == CUresult::MISSING => Ok(None),
            Err(failure) => Err(driver.error(failure)),
        }
    }
}

fn is_host(kind: CUmemorytype) -> bool {
    kind == CUmemorytype::CU_MEMORYTYPE_HOST
}

fn several(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn rows_of(bytes: usize, rows: usize) -> String {
    match rows {
        0 | 1 => part(bytes),
        rows => format!("{rows} rows of {}", part(bytes)),
    }
}

/// A grid or a block, without what is 1 at its end.
fn size([x, y, z]: &[u32; 3]) -> String {
    match (y, z) {
        (1, 1) => format!("{x}"),
        (_, 1) => format!("{x}×{y}"),
        _ => format!("{x}×{y}×{z}"),
    }
}

fn conditional(kind: ConditionalKind, bodies: usize) -> String {
    match (kind, bodies) {
        (ConditionalKind::If, 2..) => "if, else".to_owned(),
        (ConditionalKind::If, _) => "if".to_owned(),
        (ConditionalKind::While, _) => "while".to_owned(),
        (ConditionalKind::Switch, _) => "switch".to_owned(),
    }
}

fn caption(kind: ConditionalKind, nth: usize) -> String {
    match (kind, nth) {
        (ConditionalKind::If, 0) => "then".to_owned(),
        (ConditionalKind::If, _) => "else".to_owned(),
        (ConditionalKind::While, _) => "again and again".to_owned(),
        (ConditionalKind::Switch, nth) => format!("case {nth}"),
    }
}
