//! Nodes that call a function on the host.
//!
//! The function stays where it is as long as the driver may call it, which is what the graph's operands are for: executables
//! share it, and those of several contexts may call it at once (measured), so it is `Fn + Send + Sync`.

#![expect(unsafe_code, reason = "a closure travels through the driver as a raw pointer")]

use super::{Graph, NodeKind};
use crate::{
    keep::Operand,
    node::{After, Node},
};
use cuhold_handles::{
    CudaWarning, Driver, Object, ObjectKind, Result, callback,
    driver_sys::ffi::{CUDA_HOST_NODE_PARAMS, c_void},
    foreign,
    reclaim::Inlet,
};
use std::sync::Arc;

/// A function that the driver calls, as often as it likes, on threads of its own.
struct HostFunction<F> {
    function: F,
    driver: Driver,
    inlet: Inlet,
    id: u64,
}

impl<F: Fn() + Send + Sync + 'static> HostFunction<F> {
    /// What the driver calls.
    ///
    /// # Safety
    ///
    /// - `data` leads to a `HostFunction<F>` that is alive.
    unsafe extern "C" fn run(data: *mut c_void) {
        // SAFETY: the caller's promise.
        let Some(this) = (unsafe { data.cast::<Self>().as_ref() }) else { return };
        let Err(caught) = foreign::call(|| callback::enter(&this.function)) else { return };
        // Told by the reclaimer: no sink is called on a thread of the driver.
        let (driver, object) =
            (this.driver.clone(), Object { kind: ObjectKind::Callback, raw: 0, id: this.id });
        this.inlet
            .defer(None, move || driver.warn(CudaWarning::panicked(object, caught.payload())));
    }
}

impl Graph {
    /// Adds a node that calls a function on the host. Executables that are made from the graph call the same one, and may do
    /// so at the same time. A panic in it is reported, and the launch goes on.
    ///
    /// No CUDA call may be made in it: the driver refuses it, and so does this library.
    ///
    /// Calls `cuGraphAddHostNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; the calls' failures, after which nothing was added.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut graph = Graph::new(device.context())?;
    /// graph.host(&[], || println!("done"))?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddHostNode")]
    pub fn host<F: Fn() + Send + Sync + 'static>(
        &mut self,
        after: impl After,
        function: F,
    ) -> Result<Node> {
        let (params, operand) = host_params(self.driver(), function);
        self.add(NodeKind::Host, after.place(), [operand], |calls, to, raw| {
            let (after, count) = (to.after.as_ptr(), to.after.len());
            // SAFETY: *pointers*: live locals, and live nodes of the number; *handles*: this value's graph. *Calls back*: the
            // function is kept as long as anything can call it, and doesn't unwind.
            unsafe { calls.cuGraphAddHostNode(raw, to.graph, after, count, &raw const params) }
        })
    }

    /// Lets a node call another function. Executables that were made before go on with the former one.
    ///
    /// Calls `cuGraphHostNodeSetParams`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, one that was removed, or one that calls no function; the calls' failures, after which both
    /// functions are kept.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let node = graph.host(&[], || println!("once"))?;
    /// graph.set_host(node, || println!("now"))?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphHostNodeSetParams")]
    pub fn set_host<F: Fn() + Send + Sync + 'static>(
        &mut self,
        node: Node,
        function: F,
    ) -> Result<()> {
        let (params, operand) = host_params(self.driver(), function);
        self.change(node, NodeKind::Host, (1, [operand]), |calls, raw| {
            // SAFETY: *pointers*: a live local; *handles*: a live node. *Calls back*: as above.
            unsafe { calls.cuGraphHostNodeSetParams(raw, &raw const params) }
        })
    }
}

/// What a node is given that calls a function, and what keeps the function.
pub(crate) fn host_params<F: Fn() + Send + Sync + 'static>(
    driver: &Driver,
    function: F,
) -> (CUDA_HOST_NODE_PARAMS, Operand) {
    let function = Arc::new(HostFunction {
        function,
        driver: driver.clone(),
        inlet: driver.reclaim().inlet(),
        id: driver.next_id(),
    });
    let params = CUDA_HOST_NODE_PARAMS {
        fn_: Some(HostFunction::<F>::run),
        userData: Arc::as_ptr(&function).cast_mut().cast(),
    };
    (params, Operand::Function(function))
}
