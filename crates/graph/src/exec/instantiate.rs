//! Graphs made executable.
//!
//! ```text
//!   a user object for what updates will bring ──► the graph keeps it ──► instantiate: the executable has it, too
//!                                                                  └──► the graph lets it go
//! ```
//!
//! The driver takes user objects for graphs alone, and an executable has those that its graph had when it was made. So
//! that what an executable is given later lives as long as a launch of it that is under way when it is dropped, the
//! graph keeps for a moment what the executable is to have.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{Books, GraphExec};
use crate::graph::Graph;
use cuhold_handles::{
    self as handles, Error, Note, Result, Stream, UserObject,
    driver_sys::{
        ffi::{CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraphInstantiate_flags, CUgraphNode},
        mutant,
    },
};

/// How a graph is made executable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ExecOptions {
    /// Each launch first frees what nodes allocated in the launch before and nobody freed. Without it such a launch is
    /// refused.
    pub auto_free: bool,
    /// It can be launched from the device: its nodes are then kernels, copies, fills and graphs of those, in one context.
    pub device_launch: bool,
    /// Kernels run with the priorities of their nodes, not with that of the stream.
    pub node_priority: bool,
}

impl ExecOptions {
    /// Each launch first frees what the one before left.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn auto_free(mut self) -> Self {
        self.auto_free = true;
        self
    }

    /// It can be launched from the device.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn device_launch(mut self) -> Self {
        self.device_launch = true;
        self
    }

    /// Kernels run with the priorities of their nodes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn node_priority(mut self) -> Self {
        self.node_priority = true;
        self
    }

    fn flags(self) -> u64 {
        let bit = |on: bool, flag: CUgraphInstantiate_flags| if on { flag.0.into() } else { 0 };
        bit(
            self.auto_free,
            CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
        ) | bit(
            self.device_launch,
            CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH,
        ) | bit(
            self.node_priority,
            CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY,
        )
    }

    fn check(self) -> Result<()> {
        if self.auto_free && self.device_launch {
            return Err(Error::argument(
                "options: an executable that is launched from the device can't free at each launch",
            ));
        }
        Ok(())
    }
}

impl Graph {
    /// Makes the graph executable, as it is now, in its context. The executable is independent of the graph from then on,
    /// and keeps what the nodes use.
    ///
    /// Calls `cuUserObjectCreate`, `cuGraphRetainUserObject`, `cuGraphInstantiateWithParams`, `cuGraphReleaseUserObject`;
    /// `cuGraphExecDestroy` and `cuUserObjectRelease` where that is undone.
    ///
    /// # Errors
    /// The calls' failures: that of `cuGraphInstantiateWithParams` with what the driver says about it, and at which node;
    /// that of making the context current and the caller's again. Nothing was made.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut graph = Graph::new(device.context())?;
    /// graph.host(&[], || println!("once for each launch"))?;
    /// let mut exec = graph.instantiate()?;
    /// drop(graph);
    /// let stream = device.new_stream()?;
    /// exec.launch(&stream)?;
    /// exec.launch(&stream)?;
    /// stream.synchronize()?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphInstantiate")]
    #[doc(alias = "cuGraphInstantiateWithParams")]
    pub fn instantiate(&mut self) -> Result<GraphExec> {
        self.instantiate_with(ExecOptions::default(), None)
    }

    /// As [`instantiate`](Self::instantiate), with options. With a stream it is brought to the device at once, behind what
    /// that stream holds, so that the first launch needn't.
    ///
    /// Calls `cuUserObjectCreate`, `cuGraphRetainUserObject`, `cuGraphInstantiateWithParams`, `cuGraphReleaseUserObject`;
    /// for an exposed stream first `cuStreamIsCapturing`; `cuGraphExecDestroy` and `cuUserObjectRelease` where that is
    /// undone.
    ///
    /// # Errors
    /// As [`instantiate`](Self::instantiate); options that don't go together; a stream of another driver, one that is being
    /// captured, and another context's default stream.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::{ExecOptions, Graph};
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let stream = device.new_stream()?;
    /// let mut graph = Graph::new(device.context())?;
    /// let exec = graph.instantiate_with(ExecOptions::default().node_priority(), Some(&stream))?;
    /// assert!(exec.options().node_priority);
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphInstantiateWithParams")]
    pub fn instantiate_with(
        &mut self,
        options: ExecOptions,
        upload: Option<&Stream>,
    ) -> Result<GraphExec> {
        options.check()?;
        let mut params =
            CUDA_GRAPH_INSTANTIATE_PARAMS { flags: options.flags(), ..Default::default() };
        if let Some(stream) = upload {
            self.driver().check_same(stream.driver(), "upload")?;
            if stream.is_token() && stream.context().as_raw() != self.context().as_raw() {
                return Err(Error::argument("upload: it is another context's default stream"));
            }
            super::refuse_captured(stream.into())?;
            let flag = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
            params.flags |= u64::from(flag.0);
            params.hUploadStream = stream.raw();
        }
        let books = Box::new(Books::new(self.inner.nodes.graph(), options));
        let object =
            UserObject::new(self.driver(), books.kept.shared()).map_err(|refused| refused.error)?;
        let made = self.lend(&object, |this| {
            // Also where it fails: it may have been made all the same.
            this.inner.operands.copied();
            // SAFETY: the stream is borrowed.
            unsafe { this.raw.instantiate_with(&mut params) }
                .map_err(|error| this.name_node(error, params.hErrNode_out))
        });
        let made = made.and_then(|(raw, returned)| match returned {
            Ok(()) => Ok(raw),
            Err(error) => Err(undo(raw, error)),
        });
        match made {
            Ok(raw) => Ok(GraphExec { raw, books, object }),
            Err(error) => Err(match object.close() {
                Ok(_) => error,
                Err(refused) => error.with_undo(&refused.error),
            }),
        }
    }

    /// Lets the graph keep an object as long as `work` runs, so that what is made or changed by it has the object, too.
    /// Gives what came of taking it back beside what `work` gave.
    ///
    /// Calls `cuGraphRetainUserObject`, `cuGraphReleaseUserObject`.
    pub(super) fn lend<T>(
        &mut self,
        object: &UserObject,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<(T, Result<()>)> {
        if mutant::is_out("exec-lend") {
            return Ok((work(self)?, Ok(())));
        }
        self.raw.keep(object)?;
        let done = work(self);
        let driver = self.driver();
        // SAFETY: *handles*: this value's graph, and a live object that it was given above.
        let returned = unsafe {
            driver.callable()?.cuGraphReleaseUserObject(self.as_raw(), object.as_raw(), 1)
        }
        .map_err(|failure| driver.error(failure));
        match (done, returned) {
            (Ok(value), returned) => Ok((value, returned)),
            (Err(error), Ok(())) => Err(error),
            (Err(error), Err(second)) => Err(error.with_second(&second)),
        }
    }

    /// Adds to an error which node it is about, where the driver has named one.
    pub(super) fn name_node(&self, error: Error, raw: CUgraphNode) -> Error {
        if raw.is_null() || error.call().is_none() {
            return error;
        }
        let mut nodes = self.inner.nodes.iter();
        let text = match nodes.find(|(_, entry)| entry.raw == raw) {
            Some((node, entry)) => format!("it is about {node:?}, of the kind {:?}", entry.kind),
            None => "it is about a node of a graph inside of this one".to_owned(),
        };
        error.with_note(Note::Text(text.into()))
    }
}

/// Ends an executable for which something failed.
fn undo(raw: handles::GraphExec, error: Error) -> Error {
    match raw.close() {
        Ok(_) => error,
        Err(refused) => error.with_undo(&refused.error),
    }
}
