//! Executable graphs as owned objects.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::Graph;
use crate::{
    context::Context,
    driver::Driver,
    error::{Note, Refused, Result},
    object::ObjectKind,
    resource::{Alone, Closed, Resource},
    stream::AsStream,
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};

/// The resource behind [`GraphExec`].
#[derive(Debug)]
pub(crate) struct GraphExecRes;

// SAFETY: *ends*: `cuGraphExecDestroy`; launches under way go on, and keep what they need. *Dependencies*: its nodes run in
// the context; what else they use is kept by the user objects that it took over from its graph.
unsafe impl Resource for GraphExecRes {
    type Raw = CUgraphExec;
    type Deps = Context;
    const KIND: ObjectKind = ObjectKind::GraphExec;
    const DESTROY: Option<Call> = Some(Call::cuGraphExecDestroy);

    fn driver(deps: &Context) -> &Driver {
        deps.driver()
    }
    fn context(deps: &Context) -> CUcontext {
        deps.as_raw()
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUgraphExec, _: &Context) -> Result<(), Failure> {
        // SAFETY: *handles*: live, by the caller's promise.
        unsafe { calls.cuGraphExecDestroy(raw) }
    }
}

/// An executable graph, made by [`Graph::instantiate`]. It can go to another thread, but isn't `Sync`.
///
/// Its drop calls `cuGraphExecDestroy`. Launches that are under way are done all the same.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver, Graph};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let device = Device::with_driver(&driver, 0)?;
/// let stream = device.new_stream()?;
/// let mut exec = Graph::new(device.context())?.instantiate()?;
/// exec.upload(&stream)?;
/// // SAFETY: the graph is empty.
/// unsafe { exec.launch(&stream)? };
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct GraphExec(Alone<GraphExecRes>);

impl GraphExec {
    /// Makes a graph executable as `params` say, which the driver answers in.
    ///
    /// # Safety
    ///
    /// - the upload stream of `params`, if there is one, is live.
    pub(super) unsafe fn new(
        graph: &Graph,
        params: &mut CUDA_GRAPH_INSTANTIATE_PARAMS,
    ) -> Result<Self> {
        let make = |calls: Calls<'_>, _: &Context| {
            let mut raw = CUgraphExec::NULL;
            let told = &raw mut *params;
            // SAFETY: *pointers*: live locals; *handles*: that value's graph, and the stream that the caller promises.
            unsafe { calls.cuGraphInstantiateWithParams(&raw mut raw, graph.as_raw(), told) }?;
            Ok(raw)
        };
        let call = Call::cuGraphInstantiateWithParams;
        let made = Alone::create(call, graph.context().clone(), make);
        made.map(Self).map_err(|error| match cause(params.result_out) {
            Some(cause) if error.call().is_some() => error.with_note(Note::Text(cause.into())),
            _ => error,
        })
    }

    /// Queues all of the graph on a stream, behind what is there. Returns at once. A stream that is captured doesn't take
    /// it, and its capture is invalidated, as by the driver's call.
    ///
    /// Calls `cuGraphLaunch`.
    ///
    /// # Errors
    /// The call's failure, which may be that of earlier work; a stream of another driver.
    ///
    /// # Safety
    /// - *bounds*: what the graph's nodes read and write is live memory of the sizes that they assume, and their code is
    ///   loaded, until the launch is done: what the graph [keeps](Graph::keep) is;
    /// - *ordering*: that memory isn't used in conflict meanwhile.
    #[doc(alias = "cuGraphLaunch")]
    pub unsafe fn launch(&mut self, stream: &impl AsStream) -> Result<()> {
        let stream = stream.as_stream();
        self.driver().check_same(stream.driver(), "stream")?;
        // SAFETY: *handles*: this value's executable and a live stream. *Bounds*, *ordering*: the caller's promise.
        stream.run(|calls| unsafe { calls.cuGraphLaunch(self.as_raw(), stream.raw()) })
    }

    /// Brings what the graph needs to the device, behind what the stream holds, so that the first launch doesn't.
    ///
    /// Calls `cuGraphUpload`.
    ///
    /// # Errors
    /// The call's failure, which may be that of earlier work; a stream of another driver.
    #[doc(alias = "cuGraphUpload")]
    pub fn upload(&mut self, stream: &impl AsStream) -> Result<()> {
        let stream = stream.as_stream();
        self.driver().check_same(stream.driver(), "stream")?;
        // SAFETY: *handles*: this value's executable and a live stream.
        stream.run(|calls| unsafe { calls.cuGraphUpload(self.as_raw(), stream.raw()) })
    }

    /// The flags that it was made with.
    ///
    /// Calls `cuGraphExecGetFlags`.
    ///
    /// # Errors
    /// The call's failure.
    #[doc(alias = "cuGraphExecGetFlags")]
    pub fn flags(&self) -> Result<u64> {
        let mut flags = 0;
        let calls = self.driver().callable()?;
        // SAFETY: *pointers*: a live local; *handles*: this value's executable.
        unsafe { calls.cuGraphExecGetFlags(self.as_raw(), &raw mut flags) }
            .map_err(|failure| self.driver().error(failure))?;
        Ok(flags)
    }

    /// The context that it runs in.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        self.0.deps()
    }

    /// Ends the executable here and now. Launches that are under way are done all the same.
    ///
    /// Calls `cuGraphExecDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the executable where the driver wasn't asked.
    #[doc(alias = "cuGraphExecDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|refused| Refused::new(refused.error, refused.value.map(Self)))
    }
}

forms! {
    GraphExec(Alone<GraphExecRes>): CUgraphExec, "executable graph", (context: &Context) => context.clone()
}

/// What the driver says about an instantiation that failed.
fn cause(result: CUgraphInstantiateResult) -> Option<&'static str> {
    type Told = CUgraphInstantiateResult;
    match result {
        Told::CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE => Some("the graph's edges form a cycle"),
        Told::CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED => {
            Some("a node does what executable graphs can't")
        }
        Told::CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED => {
            Some("its nodes are of several contexts, which such graphs can't be")
        }
        Told::CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED => {
            Some("a conditional handle was made that no node uses")
        }
        _ => None,
    }
}

const _: () = {
    const fn sent<T: Send>() {}
    sent::<GraphExec>();
};
