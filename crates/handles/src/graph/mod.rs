//! Graphs as owned objects: made, copied, ended. What goes into a graph is the crate `cuhold-graph`'s business.
//!
//! ```text
//!   Graph ──instantiate──► GraphExec ──launch──► a stream
//!     └── keep(&UserObject): clones, executables and launches under way keep it too
//! ```
//!
//! Source: CUDA Driver API 13.x, "Graph Management".

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

mod exec;
mod user_object;

pub use exec::GraphExec;
pub use user_object::UserObject;

use crate::{
    context::Context,
    driver::Driver,
    error::{Refused, Result},
    object::ObjectKind,
    resource::{Alone, Closed, Resource},
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use std::ptr;

/// The resource behind [`Graph`].
#[derive(Debug)]
pub(crate) struct GraphRes;

// SAFETY: *ends*: `cuGraphDestroy`. *Dependencies*: its nodes are made in the context; what else they use is kept by
// the user objects that the graph itself holds.
unsafe impl Resource for GraphRes {
    type Raw = CUgraph;
    type Deps = Context;
    const KIND: ObjectKind = ObjectKind::Graph;
    const DESTROY: Option<Call> = Some(Call::cuGraphDestroy);

    fn driver(deps: &Context) -> &Driver {
        deps.driver()
    }
    fn context(deps: &Context) -> CUcontext {
        deps.as_raw()
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUgraph, _: &Context) -> Result<(), Failure> {
        // SAFETY: *handles*: live, by the caller's promise.
        unsafe { calls.cuGraphDestroy(raw) }
    }
}

/// A CUDA graph: a definition of work, which [`instantiate`](Self::instantiate) makes executable. It can go to another
/// thread, but isn't `Sync`: CUDA promises nothing for two calls on one graph at once.
///
/// Its drop calls `cuGraphDestroy`. Executables that were made from it go on.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver, Graph};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let stream = device.new_stream()?;
/// let graph = Graph::new(device.context())?;
/// let mut exec = graph.instantiate()?;
/// // SAFETY: the graph is empty.
/// unsafe { exec.launch(&stream)? };
/// stream.synchronize()?;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct Graph(Alone<GraphRes>);

impl Graph {
    /// Makes an empty graph for work of the context.
    ///
    /// Calls `cuGraphCreate`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuGraphCreate")]
    pub fn new(context: &Context) -> Result<Self> {
        let make = |calls: Calls<'_>, _: &Context| {
            let mut raw = CUgraph::NULL;
            // SAFETY: *pointers*: `raw` is a live local.
            unsafe { calls.cuGraphCreate(&raw mut raw, 0) }?;
            Ok(raw)
        };
        Ok(Self(Alone::create(Call::cuGraphCreate, context.clone(), make)?))
    }

    /// A copy of the graph, which holds what this one holds.
    ///
    /// Calls `cuGraphClone`.
    ///
    /// # Errors
    /// The call's failure: `NOT_SUPPORTED` for a graph with memory or conditional nodes.
    #[doc(alias = "cuGraphClone")]
    pub fn try_clone(&self) -> Result<Self> {
        let make = |calls: Calls<'_>, _: &Context| {
            let mut raw = CUgraph::NULL;
            // SAFETY: *pointers*: `raw` is a live local; *handles*: this value's graph.
            unsafe { calls.cuGraphClone(&raw mut raw, self.as_raw()) }?;
            Ok(raw)
        };
        Ok(Self(Alone::create(Call::cuGraphClone, self.context().clone(), make)?))
    }

    /// How many nodes it has.
    ///
    /// Calls `cuGraphGetNodes`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuGraphGetNodes")]
    pub fn node_count(&self) -> Result<usize> {
        let mut count = 0;
        let calls = self.driver().callable()?;
        // SAFETY: *pointers*: null asks for the number alone, which goes to a live local; *handles*: this value's graph.
        unsafe { calls.cuGraphGetNodes(self.as_raw(), ptr::null_mut(), &raw mut count) }
            .map_err(|failure| self.driver().error(failure))?;
        Ok(count)
    }

    /// Keeps what the user object keeps for as long as the graph, its later copies and executables, and launches of
    /// those that are under way. The graph takes a reference of its own; this value's stays.
    ///
    /// Calls `cuGraphRetainUserObject`.
    ///
    /// # Errors
    /// The call's failure: nothing more is kept. An object of another driver.
    #[doc(alias = "cuGraphRetainUserObject")]
    pub fn keep(&mut self, object: &UserObject) -> Result<()> {
        self.driver().check_same(object.driver(), "object")?;
        let calls = self.driver().callable()?;
        // Not moved: a call that was carried out although it failed would leave one reference with two owners.
        // SAFETY: *handles*: both values' objects.
        unsafe { calls.cuGraphRetainUserObject(self.as_raw(), object.as_raw(), 1, 0) }
            .map_err(|failure| self.driver().error(failure))
    }

    /// Makes the graph executable, as it is now, in its context.
    ///
    /// Calls `cuGraphInstantiateWithParams`; `cuGraphExecDestroy` where it is undone.
    ///
    /// # Errors
    /// The call's failure, with what the driver says about it; that of making the context current and the caller's again.
    #[doc(alias = "cuGraphInstantiate")]
    #[doc(alias = "cuGraphInstantiateWithParams")]
    pub fn instantiate(&self) -> Result<GraphExec> {
        // SAFETY: no upload stream.
        unsafe { GraphExec::new(self, &mut CUDA_GRAPH_INSTANTIATE_PARAMS::default()) }
    }

    /// As [`instantiate`](Self::instantiate), with parameters, in which the driver's answer stands afterwards.
    ///
    /// # Errors
    /// As [`instantiate`](Self::instantiate).
    ///
    /// # Safety
    /// - the upload stream of `params`, if there is one, is live.
    #[doc(hidden)]
    pub unsafe fn instantiate_with(
        &self,
        params: &mut CUDA_GRAPH_INSTANTIATE_PARAMS,
    ) -> Result<GraphExec> {
        // SAFETY: the caller's promise.
        unsafe { GraphExec::new(self, params) }
    }

    /// The context that its work is for.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.0.deps()
    }

    /// Ends the graph here and now. Executables that were made from it go on.
    ///
    /// Calls `cuGraphDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the graph where the driver wasn't asked.
    #[doc(alias = "cuGraphDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|refused| Refused::new(refused.error, refused.value.map(Self)))
    }
}

forms! { Graph(Alone<GraphRes>): CUgraph, "graph", (context: &Context) => context.clone() }

const _: () = {
    const fn sent<T: Send>() {}
    sent::<Graph>();
};
