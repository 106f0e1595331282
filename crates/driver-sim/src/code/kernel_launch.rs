//! A kernel as the closure sees it that stands for it: the launch's shape, its parameters, and device memory.
//!
//! The closure runs the whole grid, once, on the thread that waits for the stream. It sees device memory through copies
//! ([`KernelLaunch::slice`]) and copies that are written back ([`KernelLaunch::slice_mut`]); each access is checked
//! like the device's own, and one that isn't allowed ends all CUDA work as it does there.

use std::{
    cell::Cell,
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use bytemuck::Pod;
use cuhold_driver_sys::ffi::{CUdeviceptr, CUgraphConditionalHandle, CUresult};

use super::{Module, image::Image};
use crate::{
    audit::{CallSite, ObjectKind, Violation, ViolationKind},
    context::Context,
    memory::KernelAccess,
    order::{Doing, Op, Touch},
    world::{Answer, Key, State, World},
};

/// Sizes in three directions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(clippy::exhaustive_structs, reason = "three numbers, as CUDA has them")]
pub struct Dim3 {
    /// In the first direction, in which numbers grow fastest.
    pub x: u32,
    /// In the second direction.
    pub y: u32,
    /// In the third direction.
    pub z: u32,
}

impl From<[u32; 3]> for Dim3 {
    fn from([x, y, z]: [u32; 3]) -> Self {
        Self { x, y, z }
    }
}

impl Dim3 {
    /// How many there are in all.
    #[must_use]
    pub fn count(self) -> u64 {
        u64::from(self.x) * u64::from(self.y) * u64::from(self.z)
    }

    /// The one with this number, counted from 0, `x` first.
    fn nth(self, number: u64) -> Self {
        let (width, height) = (u64::from(self.x), u64::from(self.y));
        let part = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Self {
            x: part(number % width),
            y: part(number / width % height),
            z: part(number / width / height),
        }
    }
}

/// A thread of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Thread {
    /// Its block's place in the grid.
    pub block: Dim3,
    /// Its place in the block.
    pub thread: Dim3,
    /// The block's size.
    pub block_size: Dim3,
}

impl Thread {
    /// `blockIdx.x * blockDim.x + threadIdx.x`.
    #[must_use]
    pub fn global_x(&self) -> usize {
        self.block.x as usize * self.block_size.x as usize + self.thread.x as usize
    }
}

/// Why a kernel can't go on. It ends all CUDA work of the process, as on a real device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KernelFault(CUresult);

impl KernelFault {
    /// The kernel trapped.
    pub const TRAP: Self = Self(CUresult::LAUNCH_FAILED);
    /// A device-side assertion failed.
    pub const ASSERT: Self = Self(CUresult::ASSERT);
    /// It used an address that it may not.
    pub const ILLEGAL_ADDRESS: Self = Self(CUresult::ILLEGAL_ADDRESS);
    /// It used an address that isn't a multiple of the value's size.
    pub const MISALIGNED_ADDRESS: Self = Self(CUresult::MISALIGNED_ADDRESS);

    /// What later calls answer.
    #[must_use]
    pub const fn status(self) -> CUresult {
        self.0
    }
}

impl fmt::Display for KernelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel faulted: {}", self.0)
    }
}

impl std::error::Error for KernelFault {}

type Closure = dyn Fn(&mut KernelLaunch<'_>) -> Result<(), KernelFault> + Send + Sync;

/// What a kernel does.
#[derive(Clone)]
pub(crate) struct KernelCode(Arc<Closure>);

impl KernelCode {
    pub(crate) fn new(
        closure: impl Fn(&mut KernelLaunch<'_>) -> Result<(), KernelFault> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(closure))
    }
}

impl fmt::Debug for KernelCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelCode").finish_non_exhaustive()
    }
}

/// A launch that was accepted.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) image: Arc<Image>,
    pub(super) index: usize,
    pub(super) code: KernelCode,
    pub(super) grid: Dim3,
    pub(super) block: Dim3,
    pub(super) shared_bytes: u32,
    pub(super) params: Vec<u8>,
    pub(super) context: Key<Context>,
    pub(super) module: Key<Module>,
    pub(super) device: usize,
    pub(super) by: CallSite,
}

impl Record {
    /// Runs the grid; nothing is locked meanwhile. A panic is the caller's to catch.
    pub(super) fn run(&self, world: &World, doing: Option<&Doing>) -> Answer {
        if world.state().code.modules.get(self.module).is_none() {
            // Unloading waits for queued work: only a graph can still name it.
            let object = Some((ObjectKind::Module, self.module.raw() as u64));
            let (kind, calls) = (ViolationKind::UseAfterDestroy, vec![self.by]);
            let note = "a graph was launched with a kernel of it";
            world.state().violate(Violation::new(kind, object, calls, note));
            return Err(CUresult::ILLEGAL_INSTRUCTION);
        }
        let op = State::op_of(doing, self.by);
        let mut launch = KernelLaunch { world, record: self, op, fault: Cell::new(None) };
        let ended = (self.code.0)(&mut launch);
        // The first fault counts, whether or not the closure passed it on.
        match launch.fault.get().or(ended.err()) {
            Some(fault) => Err(fault.0),
            None => Ok(()),
        }
    }
}

/// One launch of a kernel, as the closure sees it that [`Sim::register_kernel`](crate::Sim::register_kernel) put in the
/// kernel's place.
///
/// Code in a kernel can't call the driver: such a call answers `NOT_PERMITTED` and is a violation.
pub struct KernelLaunch<'a> {
    world: &'a World,
    record: &'a Record,
    /// What the checker of order calls it.
    op: Option<Arc<Op>>,
    fault: Cell<Option<KernelFault>>,
}

impl fmt::Debug for KernelLaunch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelLaunch")
            .field("name", &self.name())
            .field("grid", &self.record.grid)
            .field("block", &self.record.block)
            .finish_non_exhaustive()
    }
}

impl KernelLaunch<'_> {
    /// The kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.record.image.kernels.get(self.record.index).map_or("", |kernel| &kernel.name)
    }

    /// Blocks of the grid.
    #[must_use]
    pub fn grid(&self) -> Dim3 {
        self.record.grid
    }

    /// Threads of a block.
    #[must_use]
    pub fn block(&self) -> Dim3 {
        self.record.block
    }

    /// Dynamic shared memory of a block, in bytes.
    #[must_use]
    pub fn shared_bytes(&self) -> u32 {
        self.record.shared_bytes
    }

    /// The threads of the launch, block by block.
    pub fn threads(&self) -> impl Iterator<Item = Thread> + use<> {
        let (grid, block_size) = (self.record.grid, self.record.block);
        (0..grid.count()).flat_map(move |block| {
            (0..block_size.count()).map(move |thread| Thread {
                block: grid.nth(block),
                thread: block_size.nth(thread),
                block_size,
            })
        })
    }

    /// The value of a parameter, counted from 0.
    ///
    /// # Errors
    /// [`KernelFault::TRAP`], and a violation, if the kernel has no such parameter, or its size isn't that of `T`.
    pub fn param<T: Pod>(&self, index: usize) -> Result<T, KernelFault> {
        let kernel = self.record.image.kernels.get(self.record.index);
        let param = kernel.and_then(|kernel| kernel.params.as_ref()?.get(index));
        let bytes = param
            .filter(|param| param.size == size_of::<T>())
            .and_then(|param| self.record.params.get(param.offset..)?.get(..param.size));
        match bytes {
            Some(bytes) => Ok(bytemuck::pod_read_unaligned(bytes)),
            None => {
                self.violate(ViolationKind::WrongParameter);
                Err(self.faulted(KernelFault::TRAP))
            }
        }
    }

    /// The address of a variable of the kernel's module; `None` if it has none of this name.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<CUdeviceptr> {
        let index = self.record.image.variables.iter().position(|v| v.name == name)?;
        let state = self.world.state();
        state.code.modules.get(self.record.module)?.variables.get(index).copied()
    }

    /// Sets a condition that conditional nodes of graphs look at, as `cudaGraphSetConditional` does. The handle is one of
    /// `cuGraphConditionalHandleCreate`, handed to the kernel as a parameter; any other is a violation.
    ///
    /// # Examples
    /// ```
    /// use cuhold_driver_sim::Sim;
    ///
    /// let sim = Sim::new();
    /// sim.register_kernel("count_down", |launch| {
    ///     let (condition, counter) = (launch.param::<u64>(0)?, launch.param::<u64>(1)?);
    ///     let left = launch.read::<u32>(counter)? - 1;
    ///     launch.write(counter, left)?;
    ///     launch.set_condition(condition, u32::from(left > 0));
    ///     Ok(())
    /// });
    /// ```
    pub fn set_condition(&self, handle: CUgraphConditionalHandle, value: u32) {
        self.world.state().set_condition(handle, value, self.record.by);
    }

    /// Reads a value of device memory.
    ///
    /// # Errors
    /// [`KernelFault::ILLEGAL_ADDRESS`] or [`KernelFault::MISALIGNED_ADDRESS`], and a violation.
    pub fn read<T: Pod>(&self, address: CUdeviceptr) -> Result<T, KernelFault> {
        let mut value = T::zeroed();
        self.read_bytes(address, align_of::<T>(), bytemuck::bytes_of_mut(&mut value))?;
        Ok(value)
    }

    /// Writes a value to device memory.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write<T: Pod>(&self, address: CUdeviceptr, value: T) -> Result<(), KernelFault> {
        self.write_bytes(address, align_of::<T>(), bytemuck::bytes_of(&value))
    }

    /// A copy of `len` values of device memory.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn slice<T: Pod>(&self, address: CUdeviceptr, len: usize) -> Result<Vec<T>, KernelFault> {
        let mut values = Vec::new();
        let held = len.checked_mul(size_of::<T>()).and_then(|_| values.try_reserve_exact(len).ok());
        if held.is_none() {
            return Err(self.faulted(KernelFault::ILLEGAL_ADDRESS));
        }
        values.resize(len, T::zeroed());
        self.read_bytes(address, align_of::<T>(), bytemuck::cast_slice_mut(&mut values))?;
        Ok(values)
    }

    /// A copy of `len` values of device memory that is written back as a whole when it is dropped.
    ///
    /// Several may be out at once; where they overlap, the one that is dropped last counts.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn slice_mut<T: Pod>(
        &self,
        address: CUdeviceptr,
        len: usize,
    ) -> Result<SliceMut<'_, T>, KernelFault> {
        Ok(SliceMut { launch: self, address, values: self.slice(address, len)? })
    }

    /// Says that the kernel does this to a range of device memory, for kernels that stand for more than they move: no byte
    /// is. The range is checked as one that is read or written, and its order against other work is judged.
    ///
    /// What [`read`](Self::read), [`write`](Self::write), [`slice`](Self::slice) and [`slice_mut`](Self::slice_mut) do is
    /// judged anyway. Changes that the real kernel makes by atomic operations are said so here, and then made unjudged by
    /// [`update`](Self::update).
    ///
    /// # Errors
    /// [`KernelFault::ILLEGAL_ADDRESS`], and a violation; [`KernelFault::TRAP`] where memory doesn't begin or end in a kernel.
    ///
    /// # Examples
    /// ```
    /// use cuhold_driver_sim::{Sim, Touch};
    ///
    /// let sim = Sim::new();
    /// sim.register_kernel("gemm", |launch| {
    ///     let (a, b, bytes) = (launch.param(0)?, launch.param(1)?, launch.param::<u64>(2)?);
    ///     launch.touch(a, bytes, Touch::Read)?;
    ///     launch.touch(b, bytes, Touch::Write)
    /// });
    /// ```
    pub fn touch(
        &self,
        address: CUdeviceptr,
        size_bytes: u64,
        touch: Touch,
    ) -> Result<(), KernelFault> {
        if !matches!(touch, Touch::Read | Touch::Write | Touch::Atomic) {
            return Err(self.faulted(KernelFault::TRAP));
        }
        let Ok(len) = usize::try_from(size_bytes) else {
            return Err(self.faulted(KernelFault::ILLEGAL_ADDRESS));
        };
        if len == 0 {
            return Ok(());
        }
        let access = self.access();
        let declared = self.world.state().kernel_declares(&access, (address, len), touch);
        declared.map_err(|_refused| self.faulted(KernelFault::ILLEGAL_ADDRESS))
    }

    /// Changes a value of device memory as an atomic operation does: in one step, and in no need of an order with other
    /// atomic changes of it. Gives the value that was there. `change` may not use the launch.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    ///
    /// # Examples
    /// ```
    /// use cuhold_driver_sim::Sim;
    ///
    /// let sim = Sim::new();
    /// sim.register_kernel("count", |launch| {
    ///     launch.update::<u32>(launch.param(0)?, |count| count + 1)?;
    ///     Ok(())
    /// });
    /// ```
    pub fn update<T: Pod>(
        &self,
        address: CUdeviceptr,
        change: impl FnOnce(T) -> T,
    ) -> Result<T, KernelFault> {
        self.aligned(address, align_of::<T>())?;
        let access = self.access();
        let mut old = T::zeroed();
        let mut state = self.world.state();
        let read = state.kernel_update(&access, address, bytemuck::bytes_of_mut(&mut old));
        let changed = read.and_then(|()| {
            // Locked: nobody else changes it in between.
            state.kernel_store(address, bytemuck::bytes_of(&change(old)))
        });
        drop(state);
        match changed {
            Ok(()) => Ok(old),
            Err(_refused) => Err(self.faulted(KernelFault::ILLEGAL_ADDRESS)),
        }
    }

    fn read_bytes(
        &self,
        address: CUdeviceptr,
        align: usize,
        out: &mut [u8],
    ) -> Result<(), KernelFault> {
        self.aligned(address, align)?;
        let access = self.access();
        let read = self.world.state().kernel_read(&access, address, out);
        read.map_err(|_refused| self.faulted(KernelFault::ILLEGAL_ADDRESS))
    }

    fn write_bytes(
        &self,
        address: CUdeviceptr,
        align: usize,
        bytes: &[u8],
    ) -> Result<(), KernelFault> {
        self.aligned(address, align)?;
        let access = self.access();
        let written = self.world.state().kernel_write(&access, address, bytes);
        written.map_err(|_refused| self.faulted(KernelFault::ILLEGAL_ADDRESS))
    }

    fn access(&self) -> KernelAccess {
        let Record { context, device, by, .. } = *self.record;
        KernelAccess { context, device, by, op: self.op.clone() }
    }

    fn aligned(&self, address: CUdeviceptr, align: usize) -> Result<(), KernelFault> {
        if address.is_multiple_of(align as u64) {
            return Ok(());
        }
        self.violate(ViolationKind::Misaligned);
        Err(self.faulted(KernelFault::MISALIGNED_ADDRESS))
    }

    /// Remembers the first fault.
    fn faulted(&self, fault: KernelFault) -> KernelFault {
        if self.fault.get().is_none() {
            self.fault.set(Some(fault));
        }
        fault
    }

    fn violate(&self, kind: ViolationKind) {
        let calls = vec![self.record.by];
        self.world.state().violate(Violation::new(kind, None, calls, "in a kernel"));
    }
}

/// Values of device memory that a kernel changes: a copy, written back as a whole when it is dropped.
#[derive(Debug)]
pub struct SliceMut<'a, T: Pod> {
    launch: &'a KernelLaunch<'a>,
    address: CUdeviceptr,
    values: Vec<T>,
}

impl<T: Pod> Deref for SliceMut<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values
    }
}

impl<T: Pod> DerefMut for SliceMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}

impl<T: Pod> Drop for SliceMut<'_, T> {
    fn drop(&mut self) {
        let bytes = bytemuck::cast_slice(&self.values);
        // A fault is remembered by the launch, which answers it.
        self.launch.write_bytes(self.address, align_of::<T>(), bytes).unwrap_or_default();
    }
}
