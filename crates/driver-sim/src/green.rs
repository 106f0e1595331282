//! Device resources, and green contexts: contexts on a part of a device's multiprocessors.
//!
//! A green context has a view, which is a context of its own as far as streams and what is current go; all else that is
//! made in it belongs to the device's primary context, which it holds.
//!
//! How multiprocessors are counted off is the model's: in steps of the least part, from the first on, whatever the real
//! device's own groups are.
//!
//! Source: CUDA Driver API 13.x, "Green Contexts".

#![expect(unsafe_code, reason = "resources are unions, and given as arrays of the caller")]

use cuhold_driver_sys::ffi::*;

use crate::{
    audit::{CallSite, ObjectKind, ViolationKind},
    context::{self, Context},
    world::{Absent, Answer, Ending, In, Key, Out, State, Turn},
};

type Type = CUdevResourceType;

/// The parts of a device of compute capability 9.0 and above, by documentation: at least so many, in such steps.
const STEP: c_uint = 8;
/// The same where blocks of a cluster need not run at once.
const FINE_STEP: c_uint = 2;

const IGNORE: c_uint =
    CUdevSmResourceSplitByCount_flags::CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING.0;
const DEFAULT_STREAM: c_uint = CUgreenCtxCreate_flags::CU_GREEN_CTX_DEFAULT_STREAM.0;

/// The multiprocessors of a resource, as the simulator writes them into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    /// The index of the device.
    device: usize,
    count: c_uint,
    /// Which split it came from; 0 for the whole device, whose resource can be split.
    split: u64,
}

/// A description of resources.
#[derive(Debug)]
pub(crate) struct Desc {
    device: usize,
    count: c_uint,
}

/// A green context.
#[derive(Debug)]
pub(crate) struct GreenContext {
    device: CUdevice,
    count: c_uint,
    /// The context that it is seen as.
    view: Key<Context>,
    id: u64,
}

/// Where the simulator keeps what is its own in a resource: the words that the driver keeps there too.
const DEVICE_AT: usize = 0;
const SPLIT_AT: usize = 8;

impl Part {
    fn write(self, to: Out<CUdevResource>) {
        let mut resource =
            CUdevResource { type_: Type::CU_DEV_RESOURCE_TYPE_SM, ..Default::default() };
        resource.__bindgen_anon_1.sm = CUdevSmResource {
            smCount: self.count,
            minSmPartitionSize: STEP,
            smCoscheduledAlignment: STEP,
            flags: 0,
            localityDomainId: 0,
        };
        let own = &mut resource._internal_padding;
        let device = (self.device as u64 + 1).to_ne_bytes();
        for (place, byte) in own.iter_mut().skip(DEVICE_AT).zip(device) {
            *place = byte;
        }
        for (place, byte) in own.iter_mut().skip(SPLIT_AT).zip(self.split.to_ne_bytes()) {
            *place = byte;
        }
        to.write(resource);
    }

    /// What a resource of the caller says; `INVALID_RESOURCE_TYPE` for none of multiprocessors.
    fn read(resource: &CUdevResource) -> Result<Self, CUresult> {
        if resource.type_ != Type::CU_DEV_RESOURCE_TYPE_SM {
            return Err(CUresult::INVALID_RESOURCE_TYPE);
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            let own = resource._internal_padding.iter().skip(at);
            for (place, byte) in word.iter_mut().zip(own) {
                *place = *byte;
            }
            u64::from_ne_bytes(word)
        };
        let device = word(DEVICE_AT).checked_sub(1).and_then(|n| usize::try_from(n).ok());
        let device = device.ok_or(CUresult::INVALID_RESOURCE_CONFIGURATION)?;
        // SAFETY: the type says that this view was written.
        let count = unsafe { resource.__bindgen_anon_1.sm }.smCount;
        Ok(Self { device, count, split: word(SPLIT_AT) })
    }
}

impl State {
    fn multiprocessors(&self, device: usize) -> c_uint {
        let count = self.devices.get(device).map_or(0, |d| d.options.multiprocessors);
        c_uint::try_from(count).unwrap_or(0)
    }
}

impl Turn<'_> {
    /// The live green context with this handle.
    fn green(&mut self, raw: CUgreenCtx) -> Result<Key<GreenContext>, CUresult> {
        let ended = matches!(self.state.greens.absent(raw.addr()), Absent::Ended(_))
            && self.state.greens.find(raw.addr()).is_none();
        let status = if ended { CUresult::CONTEXT_IS_DESTROYED } else { CUresult::INVALID_CONTEXT };
        self.find(|state| &state.greens, raw.addr(), status)
    }

    fn green_view(&mut self, raw: CUgreenCtx) -> Result<Key<Context>, CUresult> {
        let key = self.green(raw)?;
        self.state.greens.get(key).map(|green| green.view).ok_or(CUresult::INVALID_CONTEXT)
    }

    /// The green context that a context is the view of; null where it is none.
    pub(crate) fn green_of(&self, context: Key<Context>) -> CUgreenCtx {
        let mut greens = self.state.greens.iter();
        let found = greens.find(|(_, green)| green.view == context);
        found.map_or(CUgreenCtx::NULL, |(key, _)| CUgreenCtx::from_addr(key.raw()))
    }

    /// What is written for a resource of multiprocessors; other types aren't known to a driver of this version.
    fn write_part(&self, to: Out<CUdevResource>, kind: Type, part: Part) -> Answer {
        match kind {
            Type::CU_DEV_RESOURCE_TYPE_SM => {
                part.write(to);
                Ok(())
            }
            Type::CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG | Type::CU_DEV_RESOURCE_TYPE_WORKQUEUE
                if self.state.options.driver_version.0 >= 13_010 =>
            {
                Err(CUresult::MISSING)
            }
            _ => Err(CUresult::INVALID_RESOURCE_TYPE),
        }
    }
}

pub(crate) fn device_resource(
    turn: &mut Turn<'_>,
    device: CUdevice,
    resource: Out<CUdevResource>,
    kind: Type,
) -> Answer {
    let resource = resource.required()?;
    let device = turn.state.device_index(device)?;
    let count = turn.state.multiprocessors(device);
    turn.write_part(resource, kind, Part { device, count, split: 0 })
}

pub(crate) fn context_resource(
    turn: &mut Turn<'_>,
    ctx: CUcontext,
    resource: Out<CUdevResource>,
    kind: Type,
) -> Answer {
    let resource = resource.required()?;
    // Null is no context here (measured).
    let context = turn.context(ctx)?;
    let part = part_of_context(turn, context)?;
    turn.write_part(resource, kind, part)
}

fn part_of_context(turn: &mut Turn<'_>, context: Key<Context>) -> Result<Part, CUresult> {
    let device = turn.context_data(context)?.device;
    let device = turn.state.device_index(device)?;
    let whole = turn.state.multiprocessors(device);
    let green = turn.state.greens.iter().find(|(_, green)| green.view == context);
    let count = green.map_or(whole, |(_, green)| green.count);
    Ok(Part { device, count, split: 0 })
}

pub(crate) fn green_resource(
    turn: &mut Turn<'_>,
    green: CUgreenCtx,
    resource: Out<CUdevResource>,
    kind: Type,
) -> Answer {
    let resource = resource.required()?;
    let view = turn.green_view(green)?;
    let part = part_of_context(turn, view)?;
    turn.write_part(resource, kind, part)
}

/// Counts off as many parts as are asked for and fit; with a null array only says how many fit.
#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn split_by_count(
    turn: &mut Turn<'_>,
    result: Out<CUdevResource>,
    groups: Out<c_uint>,
    input: In<CUdevResource>,
    rest: Out<CUdevResource>,
    flags: c_uint,
    least: c_uint,
) -> Answer {
    let groups = groups.required()?;
    let input = input.read().ok_or(CUresult::INVALID_VALUE)?;
    let whole = Part::read(&input)?;
    // Unknown flags are taken (measured).
    if whole.split != 0 || whole.device >= turn.state.devices.len() {
        return Err(CUresult::INVALID_RESOURCE_CONFIGURATION);
    }
    let step = if flags & IGNORE != 0 { FINE_STEP } else { STEP };
    let each = least.max(1).next_multiple_of(step);
    // The whole may be asked for, whatever the steps.
    let each = if least == whole.count { least } else { each };
    let most = match whole.count.checked_div(each).unwrap_or(0) {
        // Of the smallest parts one less fits (measured; the device's groups are of uneven sizes).
        fit if each == STEP && fit > 1 => fit - 1,
        fit => fit,
    };
    if most == 0 {
        return Err(CUresult::INVALID_RESOURCE_CONFIGURATION);
    }
    if result.is_null() {
        groups.write(most);
        return Ok(());
    }
    let wanted = groups.read().unwrap_or(0);
    if wanted == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    turn.state.splits += 1;
    let count = wanted.min(most);
    let part = Part { device: whole.device, count: each, split: turn.state.splits };
    for at in 0..count {
        // SAFETY: *pointers*: the caller's array has as many places as it asked for parts.
        let place = unsafe { result.nth(usize::try_from(at).unwrap_or_default()) };
        part.write(place);
    }
    groups.write(count);
    if !rest.is_null() {
        Part { count: whole.count - count * each, ..part }.write(rest);
    }
    Ok(())
}

/// Resources of one device; of which splits they are doesn't matter, nor whether they overlap (measured).
pub(crate) fn generate_desc(
    turn: &mut Turn<'_>,
    out: Out<CUdevResourceDesc>,
    resources: Out<CUdevResource>,
    count: c_uint,
) -> Answer {
    let out = out.required()?;
    let count = usize::try_from(count).map_err(|_too_many| CUresult::INVALID_VALUE)?;
    if count == 0 {
        // The driver reads the first one all the same (measured).
        turn.violate(ViolationKind::Crash, None, "a description of no resources");
        return Err(CUresult::INVALID_VALUE);
    }
    // SAFETY: *pointers*: the caller's array has as many entries as it says.
    let resources = unsafe { resources.as_in().read_all(count) }.ok_or(CUresult::INVALID_VALUE)?;
    let parts = resources.iter().map(Part::read).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = parts.first() else { return Err(CUresult::INVALID_VALUE) };
    if !parts.iter().all(|part| part.device == first.device) {
        return Err(CUresult::INVALID_RESOURCE_CONFIGURATION);
    }
    let total = parts.iter().fold(0, |total: c_uint, part| total.saturating_add(part.count));
    let count = total.min(turn.state.multiprocessors(first.device));
    let desc = Desc { device: first.device, count };
    let site = turn.site;
    out.write(CUdevResourceDesc::from_addr(turn.state.descs.insert(site, desc).raw()));
    Ok(())
}

/// Holds the device's primary context; nothing becomes current.
pub(crate) fn create(
    turn: &mut Turn<'_>,
    out: Out<CUgreenCtx>,
    desc: CUdevResourceDesc,
    device: CUdevice,
    flags: c_uint,
) -> Answer {
    let out = out.required()?;
    let index = turn.state.device_index(device)?;
    turn.not_lost()?;
    if flags != DEFAULT_STREAM {
        return Err(CUresult::INVALID_VALUE);
    }
    let (of, count) = if desc.is_null() {
        // No description is one of the whole device (measured).
        (index, turn.state.multiprocessors(index))
    } else {
        let desc = turn.find(|state| &state.descs, desc.addr(), CUresult::INVALID_VALUE)?;
        let desc = turn.state.descs.get(desc).ok_or(CUresult::INVALID_VALUE)?;
        (desc.device, desc.count)
    };
    if of != index {
        return Err(CUresult::INVALID_VALUE);
    }
    let primary = turn.hold_primary(device)?;
    let site = turn.site;
    let state = &mut *turn.state;
    let flags = state.contexts.get(primary).map_or(0, |context| context.flags);
    let view = state.begin_context(device, flags, None, site);
    if let Some(view) = state.contexts.get_mut(view) {
        view.primary = Some(primary);
    }
    let id = state.context_ids;
    let green = GreenContext { device, count, view, id };
    out.write(CUgreenCtx::from_addr(state.greens.insert(site, green).raw()));
    Ok(())
}

/// Lets the primary context go. Streams that are left end with it (measured: `CONTEXT_IS_DESTROYED` afterwards).
///
/// Work in flight there isn't waited for by a real driver, which is then used after its release (reported): a
/// violation, and here the work is done first.
pub(crate) fn destroy(turn: &mut Turn<'_>, green: CUgreenCtx) -> Answer {
    let key = turn.green(green)?;
    turn.not_lost()?;
    let view = turn.green_view(green)?;
    if !turn.state.queues.ends(|of| of == view).is_empty() {
        let object = Some((ObjectKind::GreenContext, key.raw() as u64));
        turn.violate(ViolationKind::EndedBusy, object, "");
        turn.complete_context(view)?;
    }
    let site = turn.site;
    end(turn, key, site)
}

fn end(turn: &mut Turn<'_>, key: Key<GreenContext>, by: CallSite) -> Answer {
    let Some(green) = turn.state.greens.remove(key, by, Ending::Destroyed) else { return Ok(()) };
    turn.state.end_context(green.view, by);
    turn.let_primary_go(green.device)
}

pub(crate) fn id(turn: &mut Turn<'_>, green: CUgreenCtx, id: Out<c_ulonglong>) -> Answer {
    let id = id.required()?;
    let key = turn.green(green)?;
    id.write(turn.state.greens.get(key).map_or(0, |green| green.id));
    Ok(())
}

pub(crate) fn view(turn: &mut Turn<'_>, out: Out<CUcontext>, green: CUgreenCtx) -> Answer {
    let out = out.required()?;
    let view = turn.green_view(green)?;
    out.write(CUcontext::from_addr(view.raw()));
    Ok(())
}

/// Its streams must be non-blocking (measured).
pub(crate) fn stream_create(
    turn: &mut Turn<'_>,
    out: Out<CUstream>,
    green: CUgreenCtx,
    flags: c_uint,
    priority: c_int,
) -> Answer {
    let out = out.required()?;
    let view = turn.green_view(green)?;
    turn.not_lost()?;
    if flags != CUstream_flags::CU_STREAM_NON_BLOCKING.0 {
        return Err(CUresult::INVALID_VALUE);
    }
    out.write(turn.new_stream(view, flags, priority));
    Ok(())
}

pub(crate) fn of_stream(turn: &mut Turn<'_>, stream: CUstream, out: Out<CUgreenCtx>) -> Answer {
    let out = out.required()?;
    let context = turn.stream(stream)?.context;
    out.write(turn.green_of(context));
    Ok(())
}

pub(crate) fn record_event(turn: &mut Turn<'_>, green: CUgreenCtx, event: CUevent) -> Answer {
    let view = CUcontext::from_addr(turn.green_view(green)?.raw());
    context::record_event(turn, view, event)
}

pub(crate) fn wait_event(turn: &mut Turn<'_>, green: CUgreenCtx, event: CUevent) -> Answer {
    let view = CUcontext::from_addr(turn.green_view(green)?.raw());
    context::wait_event(turn, view, event)
}
