//! Launches: checked when they are called, run when their stream comes to them.
//!
//! What a kernel does is a closure of the test, registered under the kernel's name. A kernel without one can't be run,
//! and its launch says *missing*.
//!
//! Source: CUDA Driver API 13.x, "Execution Control".

#![expect(unsafe_code, reason = "parameters and attributes are the caller's pointers")]

use cuhold_driver_sys::ffi::*;

use super::{
    Function, NodeKernel,
    kernel_launch::Record,
    params::gather,
    setting::{Attributes, limit},
};
use crate::{
    audit::{ObjectKind, ViolationKind},
    graph::{NodeKind, Params},
    queue::Work,
    world::{Answer, In, Key, Out, Turn},
};
use std::sync::Arc;

type Id = CUlaunchAttributeID;

/// The shape of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    /// All blocks must run at once.
    pub(crate) cooperative: bool,
    /// Blocks of a cluster, in each direction.
    pub(crate) cluster: Option<[u32; 3]>,
}

impl Shape {
    fn blocks(&self) -> u64 {
        self.grid.iter().map(|n| u64::from(*n)).product()
    }

    fn block_threads(&self) -> u64 {
        self.block.iter().map(|n| u64::from(*n)).product()
    }

    /// What the driver refuses before anything is enqueued.
    fn check(&self, attributes: Attributes<'_>, multiprocessors: u32) -> Answer {
        let within = |sizes: [u32; 3], most: [u32; 3]| {
            sizes.iter().zip(most).all(|(size, most)| *size != 0 && *size <= most)
        };
        let threads = u32::try_from(self.block_threads()).unwrap_or(u32::MAX);
        if !within(self.grid, limit::GRID)
            || !within(self.block, limit::BLOCK)
            || threads > attributes.kernel.block_threads_max.unwrap_or(limit::BLOCK_THREADS)
            || self.shared_bytes > attributes.dynamic_shared_max()
        {
            return Err(CUresult::INVALID_VALUE);
        }
        if threads > attributes.block_threads_max() {
            return Err(CUresult::LAUNCH_OUT_OF_RESOURCES);
        }
        self.check_cluster(attributes)?;
        let at_once = attributes.active_blocks(threads, u64::from(self.shared_bytes));
        if self.cooperative && self.blocks() > u64::from(at_once) * u64::from(multiprocessors) {
            return Err(CUresult::COOPERATIVE_LAUNCH_TOO_LARGE);
        }
        Ok(())
    }

    /// A cluster's dimensions divide the grid's, and it isn't too large.
    fn check_cluster(&self, attributes: Attributes<'_>) -> Answer {
        let required = attributes.kernel.cluster.map(<[u32; 3]>::from);
        let Some(cluster) = self.cluster.or(required) else { return Ok(()) };
        let fits = self.grid.iter().zip(cluster).all(|(grid, n)| n != 0 && grid.is_multiple_of(n));
        if !fits {
            return Err(CUresult::INVALID_VALUE);
        }
        let any = CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        let [portable, most] = limit::CLUSTER;
        let most = if attributes.get(any) == Ok(1) { most } else { portable };
        if cluster.iter().map(|n| u64::from(*n)).product::<u64>() > u64::from(most) {
            return Err(CUresult::INVALID_CLUSTER_SIZE);
        }
        Ok(())
    }
}

fn enqueue(
    turn: &mut Turn<'_>,
    function: CUfunction,
    shape: Shape,
    stream: CUstream,
    params: (Out<*mut c_void>, Out<*mut c_void>),
) -> Answer {
    if function.is_null() {
        return Err(CUresult::INVALID_HANDLE);
    }
    let target = turn.stream(stream)?;
    let owner = turn.state.owner_of(target.context);
    let key = turn.function_or_kernel(function, Some(owner))?;
    if turn.function_data(key)?.context != owner {
        let object = Some((ObjectKind::Function, key.raw() as u64));
        turn.violate(ViolationKind::WrongContext, object, "its stream is another context's");
        return Err(CUresult::INVALID_HANDLE);
    }
    turn.not_lost()?;
    turn.capture_usable(target)?;
    turn.check_shape(key, shape)?;
    let attributes = turn.attributes_of(key)?;
    // SAFETY: *pointers*: the caller of a launch promised one pointer for each parameter, or a block of them.
    let bytes = unsafe { gather(attributes.kernel, params.0, params.1) }?;
    let record = Arc::new(record(turn, key, shape, bytes)?);
    let same = Arc::clone(&record);
    let work = Work::OnCaller(Arc::new(move |world, doing| record.run(world, doing)));
    let kernel = turn.kernel_of(key);
    let params = move || Params::Kernel(Arc::new(NodeKernel::new(key, kernel, shape, same)));
    turn.enqueue_with(target, NodeKind::Kernel, work, params)
}

impl Turn<'_> {
    /// Refuses a shape that a function can't have.
    pub(super) fn check_shape(&mut self, key: Key<Function>, shape: Shape) -> Answer {
        let context = self.function_data(key)?.context;
        let device = self.device_of_context(context)?;
        let device = self.state.devices.get(device);
        let multiprocessors = device.map_or(0, |device| device.options.multiprocessors);
        let attributes = self.attributes_of(key)?;
        shape.check(attributes, u32::try_from(multiprocessors).unwrap_or(0))
    }
}

/// What the launch is, for the time when it runs.
pub(super) fn record(
    turn: &mut Turn<'_>,
    key: Key<Function>,
    shape: Shape,
    params: Vec<u8>,
) -> Result<Record, CUresult> {
    let by = turn.site;
    let context = turn.function_data(key)?.context;
    let device = turn.device_of_context(context)?;
    let function = turn.function_data(key)?;
    let info = function.code.info()?;
    let code = turn.state.code.closures.get(&info.name).ok_or(CUresult::MISSING)?;
    Ok(Record {
        image: Arc::clone(&function.code.image),
        index: function.code.index,
        code: code.clone(),
        grid: shape.grid.into(),
        block: shape.block.into(),
        shared_bytes: shape.shared_bytes,
        params,
        context: function.context,
        module: function.module,
        device,
        by,
    })
}

#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn launch(
    turn: &mut Turn<'_>,
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: CUstream,
    params: Out<*mut c_void>,
    extra: Out<*mut c_void>,
) -> Answer {
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    let shape = Shape { grid, block, shared_bytes, cooperative: false, cluster: None };
    enqueue(turn, function, shape, stream, (params, extra))
}

#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn launch_cooperative(
    turn: &mut Turn<'_>,
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: CUstream,
    params: Out<*mut c_void>,
) -> Answer {
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    let shape = Shape { grid, block, shared_bytes, cooperative: true, cluster: None };
    enqueue(turn, function, shape, stream, (params, Out::null()))
}

pub(crate) fn launch_ex(
    turn: &mut Turn<'_>,
    config: In<CUlaunchConfig>,
    function: CUfunction,
    params: Out<*mut c_void>,
    extra: Out<*mut c_void>,
) -> Answer {
    let config = config.read().ok_or(CUresult::INVALID_VALUE)?;
    let mut shape = Shape {
        grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
        block: [config.blockDimX, config.blockDimY, config.blockDimZ],
        shared_bytes: config.sharedMemBytes,
        cooperative: false,
        cluster: None,
    };
    if config.numAttrs > 0 && config.attrs.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    for index in 0..config.numAttrs {
        // SAFETY: *pointers*: the caller's list has as many attributes as it says.
        let place = unsafe { config.attrs.add(usize::try_from(index).unwrap_or_default()) };
        // SAFETY: as above.
        apply(&mut shape, &unsafe { place.read() })?;
    }
    enqueue(turn, function, shape, config.hStream, (params, extra))
}

/// Takes an attribute into the shape. Preferences don't show; what would need events or nodes of graphs is *missing*.
pub(super) fn apply(shape: &mut Shape, attribute: &CUlaunchAttribute) -> Answer {
    match attribute.id {
        Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => {
            // SAFETY: the attribute's number says which view of the union was written.
            shape.cooperative = unsafe { attribute.value.cooperative } != 0;
        }
        Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
            // SAFETY: as above.
            let cluster = unsafe { attribute.value.clusterDim };
            shape.cluster = Some([cluster.x, cluster.y, cluster.z]);
        }
        Id::CU_LAUNCH_ATTRIBUTE_IGNORE
        | Id::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
        | Id::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY
        | Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
        | Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        | Id::CU_LAUNCH_ATTRIBUTE_PRIORITY
        | Id::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
        | Id::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
        | Id::CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => {}
        Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT
        | Id::CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION
        | Id::CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT
        | Id::CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE => return Err(CUresult::MISSING),
        _ => return Err(CUresult::INVALID_VALUE),
    }
    Ok(())
}
