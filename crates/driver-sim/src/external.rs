//! Memory, semaphores and resources of other APIs.
//!
//! There is no other API here, so nothing is imported or registered: those calls answer *missing*. A test plants what
//! it wants to be there ([`Sim::plant_external_memory`](crate::Sim::plant_external_memory) and its like); asking about
//! it, mapping it and ending it then work as in the driver.
//!
//! Source: CUDA Driver API 13.x, "External Resource Interoperability", "Graphics Interoperability".

#![expect(unsafe_code, reason = "reads arrays of the caller, and descriptions that are unions")]

use cuhold_driver_sys::ffi::*;

use crate::{
    array::Shape,
    audit::{CallSite, Leak, ObjectKind, ViolationKind},
    context::Context,
    graph::NodeKind,
    queue::Work,
    world::{Absent, Answer, Ending, In, Key, Out, State, Table, Turn, Values},
};

/// Memory of another API.
#[derive(Debug)]
pub(crate) struct ExternalMemory {
    context: Key<Context>,
    size_bytes: u64,
}

/// A semaphore of another API: a counter.
#[derive(Debug)]
pub(crate) struct ExternalSemaphore {
    context: Key<Context>,
    /// Where the counter stands.
    base: u64,
}

/// A buffer of a graphics API.
#[derive(Debug)]
pub(crate) struct Graphics {
    context: Key<Context>,
    base: u64,
    size_bytes: usize,
    is_mapped: bool,
}

/// Everything of other APIs.
#[derive(Debug)]
pub(crate) struct External {
    memories: Table<ExternalMemory>,
    semaphores: Table<ExternalSemaphore>,
    graphics: Table<Graphics>,
}

impl External {
    pub(crate) fn new(values: Values) -> Self {
        Self {
            memories: Table::new(ObjectKind::ExternalMemory, values),
            semaphores: Table::new(ObjectKind::ExternalSemaphore, values),
            graphics: Table::new(ObjectKind::GraphicsResource, values),
        }
    }

    pub(crate) fn leaks(&self) -> impl Iterator<Item = Leak> {
        self.memories.leaks().chain(self.semaphores.leaks()).chain(self.graphics.leaks())
    }

    pub(crate) fn gone_with_context(&self) -> impl Iterator<Item = Leak> {
        let memories = self.memories.gone_with_context();
        memories.chain(self.semaphores.gone_with_context()).chain(self.graphics.gone_with_context())
    }
}

impl State {
    pub(crate) fn end_context_in_external(&mut self, context: Key<Context>, by: CallSite) {
        let gone = Ending::GoneWithContext(context.raw());
        for key in self.external.memories.keys(|found| found.context == context) {
            self.external.memories.remove(key, by, gone);
        }
        for key in self.external.semaphores.keys(|found| found.context == context) {
            self.external.semaphores.remove(key, by, gone);
        }
        for key in self.external.graphics.keys(|found| found.context == context) {
            self.external.graphics.remove(key, by, gone);
        }
    }
}

/// Puts things there that another API would have made.
impl Turn<'_> {
    pub(crate) fn plant_memory(&mut self, context: CUcontext, size_bytes: u64) -> CUexternalMemory {
        let Ok(context) = self.context(context) else { return CUexternalMemory::NULL };
        let (made, memory) = (self.site, ExternalMemory { context, size_bytes });
        CUexternalMemory::from_addr(self.state.external.memories.insert(made, memory).raw())
    }

    pub(crate) fn plant_semaphore(&mut self, context: CUcontext) -> CUexternalSemaphore {
        let Ok((context, base)) = self.plant(context, size_of::<u64>()) else {
            return CUexternalSemaphore::NULL;
        };
        let (made, semaphore) = (self.site, ExternalSemaphore { context, base });
        CUexternalSemaphore::from_addr(self.state.external.semaphores.insert(made, semaphore).raw())
    }

    pub(crate) fn plant_graphics(
        &mut self,
        context: CUcontext,
        size_bytes: usize,
    ) -> CUgraphicsResource {
        let Ok((context, base)) = self.plant(context, size_bytes) else {
            return CUgraphicsResource::NULL;
        };
        let (made, is_mapped) = (self.site, false);
        let resource = Graphics { context, base, size_bytes, is_mapped };
        CUgraphicsResource::from_addr(self.state.external.graphics.insert(made, resource).raw())
    }

    /// Zeroed memory behind a planted object.
    fn plant(
        &mut self,
        context: CUcontext,
        size_bytes: usize,
    ) -> Result<(Key<Context>, u64), CUresult> {
        let context = self.context(context)?;
        let device = self.context_data(context)?.device;
        let (device, made) = (self.state.device_index(device)?, self.site);
        let base = self.state.memory.add_behind(context, device, size_bytes as u64, made)?;
        let zeroes = vec![0; size_bytes];
        self.state.memory.write(base, &zeroes).map_err(|_misplaced| CUresult::UNKNOWN)?;
        Ok((context, base))
    }

    /// What the other side does: the semaphore's counter becomes `value`.
    pub(crate) fn signal_planted(&mut self, semaphore: CUexternalSemaphore, value: u64) {
        let Ok(key) = self.semaphore(semaphore) else { return };
        if let Some(base) = self.state.external.semaphores.get(key).map(|found| found.base) {
            self.state.memory.write(base, &value.to_le_bytes()).unwrap_or_default();
        }
        self.progressed();
    }

    fn semaphore(&mut self, raw: CUexternalSemaphore) -> Result<Key<ExternalSemaphore>, CUresult> {
        let absent = self.state.external.semaphores.absent(raw.addr());
        let status = self.status_of_absent(absent, CUresult::INVALID_VALUE);
        self.find(|state| &state.external.semaphores, raw.addr(), status)
    }

    fn external_memory(&mut self, raw: CUexternalMemory) -> Result<Key<ExternalMemory>, CUresult> {
        let absent = self.state.external.memories.absent(raw.addr());
        let status = self.status_of_absent(absent, CUresult::INVALID_VALUE);
        self.find(|state| &state.external.memories, raw.addr(), status)
    }

    fn graphics(&mut self, raw: CUgraphicsResource) -> Result<Key<Graphics>, CUresult> {
        let absent = self.state.external.graphics.absent(raw.addr());
        let status = self.status_of_absent(absent, CUresult::INVALID_HANDLE);
        self.find(|state| &state.external.graphics, raw.addr(), status)
    }

    /// What a handle that isn't live is answered with; `null` was measured.
    fn status_of_absent(&self, absent: Absent, null: CUresult) -> CUresult {
        match absent {
            Absent::Ended(Some(grave)) => self.status_of_gone(grave),
            _ => null,
        }
    }

    /// What calls about semaphores and graphics need: a context. Another one than the object's is a violation: what a
    /// real driver does there wasn't measured.
    fn in_its_context(
        &mut self,
        context: Option<Key<Context>>,
        object: (ObjectKind, usize),
    ) -> Answer {
        let current = self.current()?;
        self.not_lost()?;
        self.check_capture()?;
        if context.is_some_and(|context| context != current) {
            let object = (object.0, object.1 as u64);
            self.violate(ViolationKind::WrongContext, Some(object), "");
        }
        Ok(())
    }
}

/// Whatever is current (measured).
pub(crate) fn memory_destroy(turn: &mut Turn<'_>, memory: CUexternalMemory) -> Answer {
    let key = turn.external_memory(memory)?;
    turn.not_lost()?;
    turn.check_capture()?;
    let by = turn.site;
    turn.state.external.memories.remove(key, by, Ending::Destroyed);
    Ok(())
}

/// The mapping is memory of its own, freed by `cuMemFree`.
pub(crate) fn memory_buffer(
    turn: &mut Turn<'_>,
    out: Out<CUdeviceptr>,
    memory: CUexternalMemory,
    desc: In<CUDA_EXTERNAL_MEMORY_BUFFER_DESC>,
) -> Answer {
    let (out, desc) = (out.required()?, desc.read().ok_or(CUresult::INVALID_VALUE)?);
    let key = turn.external_memory(memory)?;
    let found = turn.state.external.memories.get(key);
    let (context, whole) =
        found.map(|found| (found.context, found.size_bytes)).ok_or(CUresult::INVALID_HANDLE)?;
    turn.not_lost()?;
    let fits = desc.offset.checked_add(desc.size).is_some_and(|end| end <= whole);
    if desc.size == 0 || desc.flags != 0 || !fits {
        return Err(CUresult::INVALID_VALUE);
    }
    let device = turn.context_data(context)?.device;
    let (device, made) = (turn.state.device_index(device)?, turn.site);
    out.write(turn.state.memory.add_mapped(context, device, desc.size, made)?);
    Ok(())
}

/// The array is an object of its own, destroyed as any.
pub(crate) fn memory_mipmapped(
    turn: &mut Turn<'_>,
    out: Out<CUmipmappedArray>,
    memory: CUexternalMemory,
    desc: In<CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC>,
) -> Answer {
    let (out, desc) = (out.required()?, desc.read().ok_or(CUresult::INVALID_VALUE)?);
    let key = turn.external_memory(memory)?;
    let found = turn.state.external.memories.get(key);
    let (context, whole) =
        found.map(|found| (found.context, found.size_bytes)).ok_or(CUresult::INVALID_HANDLE)?;
    turn.not_lost()?;
    let size = Shape::of(&desc.arrayDesc)?.size_bytes();
    let end = size.and_then(|size| size.checked_add(desc.offset));
    if end.is_none_or(|end| end > whole) {
        return Err(CUresult::INVALID_VALUE);
    }
    let device = turn.context_data(context)?.device;
    let place = (context, turn.state.device_index(device)?);
    out.write(turn.make_mipmapped(desc.arrayDesc, desc.numLevels, place)?);
    Ok(())
}

pub(crate) fn semaphore_destroy(turn: &mut Turn<'_>, semaphore: CUexternalSemaphore) -> Answer {
    let key = turn.semaphore(semaphore)?;
    let context = turn.state.external.semaphores.get(key).map(|found| found.context);
    turn.in_its_context(context, (ObjectKind::ExternalSemaphore, key.raw()))?;
    let by = turn.site;
    if let Some(ended) = turn.state.external.semaphores.remove(key, by, Ending::Destroyed) {
        turn.state.memory.remove_behind(ended.base, by);
    }
    Ok(())
}

/// Where the counters of a call's semaphores stand.
fn counters(
    turn: &mut Turn<'_>,
    semaphores: In<CUexternalSemaphore>,
    count: c_uint,
) -> Result<Vec<u64>, CUresult> {
    let count = usize::try_from(count).map_err(|_too_many| CUresult::INVALID_VALUE)?;
    // SAFETY: *pointers*: the caller's array has as many entries as it says.
    let raws = unsafe { semaphores.read_all(count) }.filter(|raws| !raws.is_empty());
    counters_of(turn, &raws.ok_or(CUresult::INVALID_VALUE)?)
}

fn counters_of(
    turn: &mut Turn<'_>,
    semaphores: &[CUexternalSemaphore],
) -> Result<Vec<u64>, CUresult> {
    let mut counters = Vec::new();
    for raw in semaphores {
        let key = turn.semaphore(*raw)?;
        let found = turn.state.external.semaphores.get(key);
        let (context, base) =
            found.map(|found| (found.context, found.base)).ok_or(CUresult::INVALID_HANDLE)?;
        turn.in_its_context(Some(context), (ObjectKind::ExternalSemaphore, key.raw()))?;
        counters.push(base);
    }
    Ok(counters)
}

pub(crate) fn semaphores_signal(
    turn: &mut Turn<'_>,
    semaphores: In<CUexternalSemaphore>,
    params: In<CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS>,
    count: c_uint,
    stream: CUstream,
) -> Answer {
    let counters = counters(turn, semaphores, count)?;
    // SAFETY: *pointers*: the caller's array has as many entries as the one before.
    let params = unsafe { params.read_all(counters.len()) }.ok_or(CUresult::INVALID_VALUE)?;
    for (base, params) in counters.into_iter().zip(params) {
        let target = turn.values_on(stream)?;
        let work = turn.counter_write(base, params.params.fence.value)?;
        turn.enqueue(target, NodeKind::SemaphoreSignal, work)?;
    }
    Ok(())
}

/// Checks signals that are to be a node.
pub(crate) fn node_signals(
    turn: &mut Turn<'_>,
    semaphores: &[CUexternalSemaphore],
    params: &[CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS],
) -> Result<Vec<Work>, CUresult> {
    let counters = counters_of(turn, semaphores)?.into_iter();
    counters.zip(params).map(|(base, p)| turn.counter_write(base, p.params.fence.value)).collect()
}

/// Checks waits that are to be a node.
pub(crate) fn node_waits(
    turn: &mut Turn<'_>,
    semaphores: &[CUexternalSemaphore],
    params: &[CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS],
) -> Result<Vec<Work>, CUresult> {
    let counters = counters_of(turn, semaphores)?.into_iter();
    counters.zip(params).map(|(base, p)| turn.counter_wait(base, p.params.fence.value)).collect()
}

pub(crate) fn semaphores_wait(
    turn: &mut Turn<'_>,
    semaphores: In<CUexternalSemaphore>,
    params: In<CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS>,
    count: c_uint,
    stream: CUstream,
) -> Answer {
    let counters = counters(turn, semaphores, count)?;
    // SAFETY: *pointers*: as for a signal.
    let params = unsafe { params.read_all(counters.len()) }.ok_or(CUresult::INVALID_VALUE)?;
    for (base, params) in counters.into_iter().zip(params) {
        let target = turn.values_on(stream)?;
        let work = turn.counter_wait(base, params.params.fence.value)?;
        turn.enqueue(target, NodeKind::SemaphoreWait, work)?;
    }
    Ok(())
}

/// Unregistering a mapped resource unmaps it (a choice).
pub(crate) fn graphics_unregister(turn: &mut Turn<'_>, resource: CUgraphicsResource) -> Answer {
    let key = turn.graphics(resource)?;
    let context = turn.state.external.graphics.get(key).map(|found| found.context);
    turn.in_its_context(context, (ObjectKind::GraphicsResource, key.raw()))?;
    let by = turn.site;
    if let Some(ended) = turn.state.external.graphics.remove(key, by, Ending::Destroyed) {
        turn.state.memory.remove_behind(ended.base, by);
    }
    Ok(())
}

pub(crate) fn graphics_map(
    turn: &mut Turn<'_>,
    count: c_uint,
    resources: Out<CUgraphicsResource>,
    stream: CUstream,
) -> Answer {
    set_mapped(turn, count, resources, stream, true)
}

pub(crate) fn graphics_unmap(
    turn: &mut Turn<'_>,
    count: c_uint,
    resources: Out<CUgraphicsResource>,
    stream: CUstream,
) -> Answer {
    set_mapped(turn, count, resources, stream, false)
}

/// All of them or none.
fn set_mapped(
    turn: &mut Turn<'_>,
    count: c_uint,
    resources: Out<CUgraphicsResource>,
    stream: CUstream,
    mapped: bool,
) -> Answer {
    let count = usize::try_from(count).map_err(|_too_many| CUresult::INVALID_VALUE)?;
    // SAFETY: *pointers*: the caller's array has as many entries as it says.
    let raws = unsafe { resources.as_in().read_all(count) }.filter(|raws| !raws.is_empty());
    let raws = raws.ok_or(CUresult::INVALID_VALUE)?;
    turn.stream(stream)?;
    let mut keys = Vec::new();
    for raw in raws {
        let key = turn.graphics(raw)?;
        let found = turn.state.external.graphics.get(key);
        let (context, is_mapped) =
            found.map(|found| (found.context, found.is_mapped)).ok_or(CUresult::INVALID_HANDLE)?;
        turn.in_its_context(Some(context), (ObjectKind::GraphicsResource, key.raw()))?;
        if keys.contains(&key) {
            return Err(CUresult::INVALID_HANDLE);
        }
        match (is_mapped, mapped) {
            (true, true) => return Err(CUresult::ALREADY_MAPPED),
            (false, false) => return Err(CUresult::NOT_MAPPED),
            _ => keys.push(key),
        }
    }
    for key in keys {
        if let Some(found) = turn.state.external.graphics.get_mut(key) {
            found.is_mapped = mapped;
        }
    }
    Ok(())
}

pub(crate) fn graphics_pointer(
    turn: &mut Turn<'_>,
    out: Out<CUdeviceptr>,
    size_out: Out<usize>,
    resource: CUgraphicsResource,
) -> Answer {
    let out = out.required()?;
    let key = turn.graphics(resource)?;
    let context = turn.state.external.graphics.get(key).map(|found| found.context);
    turn.in_its_context(context, (ObjectKind::GraphicsResource, key.raw()))?;
    let found = turn.state.external.graphics.get(key).ok_or(CUresult::INVALID_HANDLE)?;
    if !found.is_mapped {
        return Err(CUresult::NOT_MAPPED);
    }
    out.write(found.base);
    size_out.write(found.size_bytes);
    Ok(())
}

/// Only buffers are planted, which aren't seen as arrays (documented).
pub(crate) fn graphics_array(
    turn: &mut Turn<'_>,
    out: Out<CUarray>,
    resource: CUgraphicsResource,
    _index: c_uint,
    _level: c_uint,
) -> Answer {
    out.required()?;
    let key = turn.graphics(resource)?;
    let context = turn.state.external.graphics.get(key).map(|found| found.context);
    turn.in_its_context(context, (ObjectKind::GraphicsResource, key.raw()))?;
    match turn.state.external.graphics.get(key).map(|found| found.is_mapped) {
        Some(true) => Err(CUresult::NOT_MAPPED_AS_ARRAY),
        _ => Err(CUresult::NOT_MAPPED),
    }
}
