//! Copies of graphs.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Detail, Entry, Graph, Inner, Inside, Level};
use crate::{
    keep::{Attached, Operands},
    node::{Node, Table},
};
use cuhold_handles::{
    Error, Note, Result,
    driver_sys::{CUresult, ffi::CUgraphNode},
};

impl Graph {
    /// A copy of the graph with all its nodes, which keeps what this one keeps.
    /// [`own`](Self::own) finds a node's copy.
    ///
    /// Calls `cuGraphClone`, and `cuGraphNodeFindInClone` for each node; `cuGraphDestroy` where that failed.
    ///
    /// # Errors
    /// The calls' failures: `NOT_SUPPORTED` for a graph with memory or conditional nodes.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let node = graph.host(&[], || println!("one"))?;
    /// let mut copy = graph.try_clone()?;
    /// let its = copy.own(node)?;
    /// copy.set_host(its, || println!("another"))?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphClone")]
    pub fn try_clone(&mut self) -> Result<Self> {
        let Self { raw, inner } = self;
        // Also where it fails: it may have been copied all the same.
        inner.operands.copied();
        let copy = raw.try_clone().map_err(|error| explained(inner, error))?;
        let copied = inner.copied(&copy);
        match copied {
            Ok(inner) => Ok(Self { raw: copy, inner: Box::new(inner) }),
            Err(error) => Err(match copy.close() {
                Ok(_) => error,
                Err(refused) => error.with_undo(&refused.error),
            }),
        }
    }

    /// This graph's copy of a node of the graph that it was cloned from.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// A node of a graph that this one isn't a copy of; one that was inside of a child graph, whose copies aren't told; one
    /// that was added to the original since, or removed here.
    #[doc(alias = "cuGraphNodeFindInClone")]
    pub fn own(&self, original: Node) -> Result<Node> {
        use crate::node::Keyed as _;
        if self.inner.origin != Some(original.key().graph()) {
            return Err(Error::argument(format!(
                "original: {original:?} isn't of the graph that this one is a copy of"
            )));
        }
        let own = self.inner.nodes.own(original);
        self.inner.nodes.get(own)?;
        Ok(own)
    }
}

fn explained(inner: &Inner, error: Error) -> Error {
    match inner.kinds().uncopied() {
        Some(kind) if error.is(CUresult::NOT_SUPPORTED) => {
            let why = format!("it has a node of kind {kind}");
            error.with_note(Note::Text(why.into()))
        }
        _ => error,
    }
}

impl Inner {
    /// The same of a copy that the driver made.
    fn copied(&self, copy: &cuhold_handles::Graph) -> Result<Self> {
        let (driver, id) = (copy.driver(), copy.driver().next_id());
        let find = |original: CUgraphNode| -> Result<CUgraphNode> {
            let mut found = CUgraphNode::NULL;
            // SAFETY: *pointers*: a live local; *handles*: a live node of the graph, and the copy made of it a moment ago.
            let told = unsafe {
                driver.callable()?.cuGraphNodeFindInClone(&raw mut found, original, copy.as_raw())
            };
            told.map_err(|failure| driver.error(failure))?;
            Ok(found)
        };
        let root = self.root;
        let mut nodes = self.nodes.try_copy(id, |entry| {
            // What is inside of child nodes is read again when somebody asks for it.
            if entry.level != root || entry.is_doubtful() {
                return Ok(None);
            }
            let detail = entry.detail.as_ref().map(|detail| Box::new(unread(detail)));
            let attached = Attached::default();
            Ok(Some(Entry {
                raw: find(entry.raw)?,
                kind: entry.kind,
                level: root,
                attached,
                detail,
            }))
        })?;
        let mut levels = Table::new(id);
        levels.reserve(1)?;
        let raw = copy.as_raw();
        let own_root = levels.insert(Level { raw, is_in_body: false, is_in_child: false });
        nodes.for_each(|entry| entry.level = own_root);
        let mut order = self.order.clone();
        order.clear_edges(nodes.free_places());
        Ok(Self {
            nodes,
            levels,
            root: own_root,
            order,
            operands: Operands::default(),
            conditions: Vec::new(),
            origin: Some(self.nodes.graph()),
            edges_are_doubtful: self.edges_are_doubtful,
            scratch: Vec::new(),
        })
    }
}

fn unread(detail: &Detail) -> Detail {
    let inside = match &detail.inside {
        Inside::Child { kinds, .. } => Inside::Child { read: None, kinds: *kinds },
        other => other.clone(),
    };
    Detail { inside, ..detail.clone() }
}
