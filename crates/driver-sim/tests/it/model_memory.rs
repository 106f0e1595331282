//! Random programs over memory on one stream, against a model that knows only bytes.

#![expect(clippy::indexing_slicing, reason = "a model; every index is taken within its bounds")]

use cuhold_driver_sim::{
    ObjectKind, Sim, SimOptions,
    cuhold_driver_sys::{
        DriverApi as _,
        ffi::{CUmemPool_attribute as Attribute, *},
    },
};
use proptest::prelude::*;

use crate::ask::{call, get};

#[derive(Clone, Copy, Debug)]
enum Op {
    /// From the pool, or from the device itself; the size.
    Allocate(bool, usize),
    /// Which one; in the stream's order, or at once.
    Free(usize, bool),
    /// Which one, from where, how much, with what.
    Fill(usize, usize, usize, u8),
    /// From which one to which, from where to where, how much.
    Copy([usize; 2], [usize; 2], usize),
    /// Which one, from where, how much, seed of the bytes.
    Write(usize, usize, usize, u8),
    Read(usize),
    Step,
    Synchronize,
    Trim,
}

fn op() -> impl Strategy<Value = Op> {
    let (which, at) = (0..8_usize, 0..300_usize);
    prop_oneof![
        3 => (any::<bool>(), 1..300_usize).prop_map(|(pool, size)| Op::Allocate(pool, size)),
        2 => (which.clone(), any::<bool>()).prop_map(|(which, ordered)| Op::Free(which, ordered)),
        3 => (which.clone(), at.clone(), at.clone(), any::<u8>())
            .prop_map(|(which, at, count, value)| Op::Fill(which, at, count, value)),
        4 => ([which.clone(), which.clone()], [at.clone(), at.clone()], at.clone())
            .prop_map(|(which, at, count)| Op::Copy(which, at, count)),
        3 => (which.clone(), at.clone(), at, any::<u8>())
            .prop_map(|(which, at, count, seed)| Op::Write(which, at, count, seed)),
        2 => which.prop_map(Op::Read),
        2 => Just(Op::Step),
        1 => Just(Op::Synchronize),
        1 => Just(Op::Trim),
    ]
}

struct Buffer {
    address: CUdeviceptr,
    pooled: bool,
    /// `None` where nothing was written.
    bytes: Vec<Option<u8>>,
}

struct Program {
    sim: Sim,
    pool: CUmemoryPool,
    stream: CUstream,
    buffers: Vec<Buffer>,
}

impl Program {
    fn new(reuse: bool) -> Self {
        let mut options = SimOptions::default();
        options.reuse_handles = reuse;
        let sim = Sim::with_options(options);
        call!(sim, cuInit(0)).unwrap();
        let ctx: CUcontext = get!(sim, cuDevicePrimaryCtxRetain(out, 0)).unwrap();
        call!(sim, cuCtxSetCurrent(ctx)).unwrap();
        let pool = get!(sim, cuDeviceGetDefaultMemPool(out, 0)).unwrap();
        let stream = get!(sim, cuStreamCreate(out, 1)).unwrap();
        Self { sim, pool, stream, buffers: Vec::new() }
    }

    /// The number of a buffer, and how much of `count` bytes from `at` on lies in it.
    fn range(&self, which: usize, at: usize, count: usize) -> Option<(usize, usize, usize)> {
        let which = which % self.buffers.len().max(1);
        let len = self.buffers.get(which)?.bytes.len();
        let at = at % len;
        Some((which, at, count.min(len - at)))
    }

    fn make(&mut self, op: Op) {
        match op {
            Op::Allocate(pooled, size) => self.allocate(pooled, size),
            Op::Free(which, ordered) => self.free(which, ordered),
            Op::Fill(which, at, count, value) => self.fill(which, at, count, value),
            Op::Copy(which, at, count) => self.copy(which, at, count),
            Op::Write(which, at, count, seed) => self.write(which, at, count, seed),
            Op::Read(which) => self.read(which),
            Op::Step => drop(self.sim.stream_step(self.stream)),
            Op::Synchronize => call!(self.sim, cuStreamSynchronize(self.stream)).unwrap(),
            Op::Trim => call!(self.sim, cuMemPoolTrimTo(self.pool, 0)).unwrap(),
        }
    }

    fn allocate(&mut self, pooled: bool, size: usize) {
        let (sim, stream) = (&self.sim, self.stream);
        let address = match pooled {
            true => get!(sim, cuMemAllocAsync(out, size, stream)).unwrap(),
            false => get!(sim, cuMemAlloc_v2(out, size)).unwrap(),
        };
        self.buffers.push(Buffer { address, pooled, bytes: vec![None; size] });
    }

    fn free(&mut self, which: usize, ordered: bool) {
        let Some((which, ..)) = self.range(which, 0, 0) else { return };
        let Buffer { address, pooled, .. } = self.buffers.remove(which);
        if ordered {
            call!(self.sim, cuMemFreeAsync(address, self.stream)).unwrap();
        } else {
            if pooled {
                // A free of pool memory at once doesn't wait for its users: that is the caller's to do.
                call!(self.sim, cuStreamSynchronize(self.stream)).unwrap();
            }
            call!(self.sim, cuMemFree_v2(address)).unwrap();
        }
    }

    fn fill(&mut self, which: usize, at: usize, count: usize, value: u8) {
        let Some((which, at, count)) = self.range(which, at, count) else { return };
        let buffer = &mut self.buffers[which];
        let address = buffer.address + at as u64;
        call!(self.sim, cuMemsetD8Async(address, value, count, self.stream)).unwrap();
        buffer.bytes[at..at + count].fill(Some(value));
    }

    fn copy(&mut self, which: [usize; 2], at: [usize; 2], count: usize) {
        let Some((from, from_at, count)) = self.range(which[0], at[0], count) else { return };
        let Some((to, to_at, count)) = self.range(which[1], at[1], count) else { return };
        if from == to {
            return;
        }
        let source = self.buffers[from].address + from_at as u64;
        let target = self.buffers[to].address + to_at as u64;
        call!(self.sim, cuMemcpyDtoDAsync_v2(target, source, count, self.stream)).unwrap();
        let bytes = self.buffers[from].bytes[from_at..from_at + count].to_vec();
        self.buffers[to].bytes[to_at..to_at + count].copy_from_slice(&bytes);
    }

    fn write(&mut self, which: usize, at: usize, count: usize, seed: u8) {
        let Some((which, at, count)) = self.range(which, at, count) else { return };
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().skip(seed.into()).take(count).collect();
        let buffer = &mut self.buffers[which];
        let (address, source) = (buffer.address + at as u64, bytes.as_ptr().cast());
        call!(self.sim, cuMemcpyHtoDAsync_v2(address, source, count, self.stream)).unwrap();
        for (place, byte) in buffer.bytes[at..].iter_mut().zip(bytes) {
            *place = Some(byte);
        }
    }

    fn read(&self, which: usize) {
        let Some((which, ..)) = self.range(which, 0, 0) else { return };
        let buffer = &self.buffers[which];
        let mut bytes = vec![0_u8; buffer.bytes.len()];
        let (to, count) = (bytes.as_mut_ptr().cast(), bytes.len());
        call!(self.sim, cuMemcpyDtoHAsync_v2(to, buffer.address, count, self.stream)).unwrap();
        call!(self.sim, cuStreamSynchronize(self.stream)).unwrap();
        for (at, (seen, known)) in bytes.iter().zip(&buffer.bytes).enumerate() {
            assert!(known.is_none_or(|known| known == *seen), "buffer {which} at {at}");
        }
    }

    fn counter(&self, attribute: Attribute) -> u64 {
        let mut value = 0_u64;
        let to = (&raw mut value).cast();
        call!(self.sim, cuMemPoolGetAttribute(self.pool, attribute, to)).unwrap();
        value
    }

    /// What must hold after every step.
    fn check(&self) {
        let pooled = self.buffers.iter().filter(|buffer| buffer.pooled);
        let used: usize = pooled.map(|buffer| buffer.bytes.len()).sum();
        assert_eq!(self.counter(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT), used as u64);
        let reserved = self.counter(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
        let high = self.counter(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
        assert!(used as u64 <= reserved && reserved <= high, "{used} {reserved} {high}");
        assert_eq!(self.sim.live(ObjectKind::DeviceMemory), self.buffers.len());
        assert_eq!(self.sim.violations(), []);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn bytes_are_where_the_calls_put_them_and_counters_follow(
        ops in prop::collection::vec(op(), 1..60),
        reuse in any::<bool>(),
    ) {
        let mut program = Program::new(reuse);
        for op in ops {
            program.make(op);
            program.check();
        }
        for which in 0..program.buffers.len() {
            program.read(which);
        }
        while !program.buffers.is_empty() {
            program.free(0, true);
        }
        call!(program.sim, cuStreamSynchronize(program.stream)).unwrap();
        program.check();
        let mut total = 0;
        let free: usize = get!(program.sim, cuMemGetInfo_v2(out, &raw mut total)).unwrap();
        prop_assert_eq!(free, total);
    }
}
