//! Executables changed as a whole, after another graph of the same shape.
//!
//! The driver pairs the nodes of both in the order in which they and their edges were added. It changes all or nothing
//! (measured: after a refused change the executable runs as before).

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{GraphExec, let_go};
use crate::{graph::Graph, node::Node};
use cuhold_handles::{
    Error, Note, Result,
    driver_sys::{
        CUresult, Failure,
        ffi::{CUgraphExecUpdateResult, CUgraphExecUpdateResultInfo, CUgraphNode},
    },
};
use std::fmt;

/// Why an executable can't be changed after a graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum UpdateReason {
    /// The graph has other nodes, or other edges.
    Topology,
    /// A node is of another kind.
    Kind,
    /// A kernel is another, which this driver can't change.
    Function,
    /// A kernel is another in a way that can't be changed: of another context, say.
    UnsupportedFunction,
    /// A node's parameters differ in what can't be changed, such as the direction of a copy.
    Parameters,
    /// A kernel's launch attributes differ in what can't be changed.
    Attributes,
    /// A node can't be changed at all.
    NotSupported,
    /// The driver says no more; the graph may be one that can't be made executable, either.
    Other,
    /// One that this library doesn't know, as the driver's number.
    Unknown(u32),
}

impl UpdateReason {
    fn of(result: CUgraphExecUpdateResult) -> Option<Self> {
        type Told = CUgraphExecUpdateResult;
        Some(match result {
            Told::CU_GRAPH_EXEC_UPDATE_SUCCESS => return None,
            Told::CU_GRAPH_EXEC_UPDATE_ERROR => Self::Other,
            Told::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED => Self::Topology,
            Told::CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED => Self::Kind,
            Told::CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED => Self::Function,
            Told::CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED => Self::Parameters,
            Told::CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED => Self::NotSupported,
            Told::CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE => {
                Self::UnsupportedFunction
            }
            Told::CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED => Self::Attributes,
            other => Self::Unknown(other.0),
        })
    }

    fn text(self) -> &'static str {
        match self {
            Self::Topology => "the graph has other nodes or edges than the executable",
            Self::Kind => "a node is of another kind than the executable's",
            Self::Function => "a kernel is another than the executable's",
            Self::UnsupportedFunction => {
                "a kernel differs from the executable's in a way that can't be changed"
            }
            Self::Parameters => "a node's parameters differ in what can't be changed",
            Self::Attributes => "a kernel's attributes differ in what can't be changed",
            Self::NotSupported => "a node can't be changed",
            Self::Other => "the driver says no more about the reason",
            Self::Unknown(_) => "the driver gives a reason that isn't known here",
        }
    }
}

impl fmt::Display for UpdateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())?;
        match self {
            Self::Unknown(number) => write!(f, ": {number}"),
            _ => Ok(()),
        }
    }
}

/// An executable wasn't changed after a graph. Turns into its [`Error`] with `?`.
#[derive(Debug)]
#[non_exhaustive]
pub struct UpdateRefused {
    /// What failed, with reason and nodes in words.
    pub error: Error,
    /// Why, where the driver was asked and said so.
    pub reason: Option<UpdateReason>,
    /// The node of the graph that doesn't fit, where the driver names one that is the graph's own.
    pub node: Option<Node>,
    /// Where it is an edge that doesn't fit: the node in front of that node.
    pub from: Option<Node>,
}

impl UpdateRefused {
    fn of(error: Error) -> Self {
        Self { error, reason: None, node: None, from: None }
    }
}

impl From<Error> for UpdateRefused {
    fn from(error: Error) -> Self {
        Self::of(error)
    }
}

impl From<UpdateRefused> for Error {
    fn from(refused: UpdateRefused) -> Self {
        refused.error
    }
}

impl fmt::Display for UpdateRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl std::error::Error for UpdateRefused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl GraphExec {
    /// Changes all nodes after a graph of the same shape, which may be the one that this was made from. The executable keeps
    /// from then on what that graph keeps; launches that are under way go on as they began. Nodes are still named by those of
    /// the graph that it was made from.
    ///
    /// Where the shapes differ, make a new executable instead: [`UpdateRefused::reason`] tells.
    ///
    /// Calls `cuGraphRetainUserObject`, `cuGraphExecUpdate`, `cuGraphReleaseUserObject`; where a change has replaced something
    /// that launches may use, also `cuEventQuery`; where this one does, `cuEventRecord`, after `cuEventCreate` where no event is
    /// at hand and with `cuEventDestroy` where that is undone, and for an exposed stream `cuStreamIsCapturing`.
    ///
    /// # Errors
    /// A graph of another driver; the calls' failures: that of `cuGraphExecUpdate` with the reason and the node. The executable
    /// is as it was, and keeps what it kept. [Completed](Error::completed) where the change was made and only what comes after it
    /// failed.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::{Graph, UpdateReason};
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut graph = Graph::new(device.context())?;
    /// graph.host(&[], || println!("old"))?;
    /// let mut exec = graph.instantiate()?;
    ///
    /// let mut other = Graph::new(device.context())?;
    /// let node = other.host(&[], || println!("new"))?;
    /// exec.update(&mut other)?;
    ///
    /// other.empty(&[node])?;
    /// let refused = exec.update(&mut other).unwrap_err();
    /// assert_eq!(refused.reason, Some(UpdateReason::Topology));
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphExecUpdate")]
    pub fn update(&mut self, graph: &mut Graph) -> Result<(), UpdateRefused> {
        self.driver().check_same(graph.driver(), "graph")?;
        self.look()?;
        // Also where it fails: the executable may have been changed all the same.
        graph.inner.operands.copied();
        let mut told = CUgraphExecUpdateResultInfo {
            result: CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS,
            errorNode: CUgraphNode::NULL,
            errorFromNode: CUgraphNode::NULL,
        };
        let raw = self.raw.as_raw();
        // The driver takes what the graph keeps in place of what the executable had from its own, so that the graph must keep
        // what updates of nodes bring, too.
        let made = graph.lend(&self.object, |graph| {
            let driver = graph.driver();
            // SAFETY: *pointers*: a live local; *handles*: this value's executable, and a live graph.
            unsafe { driver.callable()?.cuGraphExecUpdate_v2(raw, graph.as_raw(), &raw mut told) }
                .map_err(|failure: Failure| driver.error(failure))
        });
        let returned = match made {
            Ok(((), returned)) => returned,
            Err(error) => return Err(refused(error, told, graph)),
        };
        self.replaced_all();
        let marked = self.mark();
        match (returned, marked) {
            (Ok(()), Ok(())) => Ok(()),
            (Err(error), Ok(())) => Err(error.with_completed(1).into()),
            (Ok(()), Err(error)) => Err(error.into()),
            (Err(error), Err(second)) => Err(error.with_second(&second).with_completed(1).into()),
        }
    }

    /// All nodes were changed.
    fn replaced_all(&mut self) {
        self.count_foreign_launches();
        let free = self.books.kept.accept_all();
        let_go(self.raw.driver(), free);
    }
}

/// Says why the driver refused, and at which node.
fn refused(error: Error, told: CUgraphExecUpdateResultInfo, graph: &Graph) -> UpdateRefused {
    let reason =
        UpdateReason::of(told.result).filter(|_| error.is(CUresult::GRAPH_EXEC_UPDATE_FAILURE));
    let Some(reason) = reason else { return UpdateRefused::of(error) };
    let find = |raw: CUgraphNode| {
        let mut nodes = graph.inner.nodes.iter().filter(|_| !raw.is_null());
        nodes.find(|(_, entry)| entry.raw == raw).map(|(node, _)| node)
    };
    let (node, from) = (find(told.errorNode), find(told.errorFromNode));
    let mut error =
        graph.name_node(error.with_note(Note::Text(reason.to_string().into())), told.errorNode);
    if let Some(from) = from {
        error = error.with_note(Note::Text(format!("its edge from {from:?} doesn't fit").into()));
    }
    UpdateRefused { error, reason: Some(reason), node, from }
}
