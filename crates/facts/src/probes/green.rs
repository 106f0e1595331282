//! Device resources and green contexts: a part of a device's multiprocessors, as a context.
//!
//! Source: CUDA Driver API 13.x, "Green Contexts".

use core::ptr::null_mut;

use cuhold_driver_sys::{
    Call,
    ffi::{CUdevResourceType as Type, *},
};

use crate::{
    ctx::Ctx,
    probe::{Probe, step},
    setup::Made,
};

const SM: Type = Type::CU_DEV_RESOURCE_TYPE_SM;
const DEFAULT_STREAM: u32 = CUgreenCtxCreate_flags::CU_GREEN_CTX_DEFAULT_STREAM.0;
const NON_BLOCKING: u32 = CUstream_flags::CU_STREAM_NON_BLOCKING.0;
/// The multiprocessors of each part that probes make.
const PART: u32 = 16;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuDeviceGetDevResource, "a device tells its multiprocessors", |c| {
        let device = c.device()?;
        step(move |c| {
            let mut resource = CUdevResource::default();
            ask!(c.cuDeviceGetDevResource(device, &raw mut resource, SM));
            note_resource(c, "", &resource);
            Ok(())
        })
    }),
    Probe::fails(Call::cuDeviceGetDevResource, "a device has no resource of no type", |c| {
        let device = c.device()?;
        let mut resource = CUdevResource::default();
        ask!(c.cuDeviceGetDevResource(device, &raw mut resource, Type(0)));
        ask!(c.cuDeviceGetDevResource(device, &raw mut resource, Type(99)), "unknown");
        ask!(c.cuDeviceGetDevResource(device, null_mut(), SM), "nowhere");
        ask!(c.cuDeviceGetDevResource(99, &raw mut resource, SM), "no_device");
        Ok(())
    }),
    Probe::works(Call::cuCtxGetDevResource, "a context tells its multiprocessors", |c| {
        let context = c.current()?;
        step(move |c| {
            let mut resource = CUdevResource::default();
            ask!(c.cuCtxGetDevResource(context, &raw mut resource, SM));
            note_resource(c, "", &resource);
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxGetDevResource, "a context has no resource of no type", |c| {
        let context = c.current()?;
        let mut resource = CUdevResource::default();
        ask!(c.cuCtxGetDevResource(context, &raw mut resource, Type(0)));
        ask!(c.cuCtxGetDevResource(context, null_mut(), SM), "nowhere");
        Ok(())
    }),
    Probe::case(Call::cuCtxGetDevResource, "no context is the current one, or none", |c| {
        c.current()?;
        let mut resource = CUdevResource::default();
        ask!(c.cuCtxGetDevResource(CUcontext::NULL, &raw mut resource, SM));
        c.empty_stack();
        ask!(c.cuCtxGetDevResource(CUcontext::NULL, &raw mut resource, SM), "without");
        Ok(())
    }),
    Probe::works(Call::cuGreenCtxGetDevResource, "a green context tells its own part", |c| {
        let green = c.green()?;
        step(move |c| {
            let mut resource = CUdevResource::default();
            ask!(c.cuGreenCtxGetDevResource(green, &raw mut resource, SM));
            note_resource(c, "", &resource);
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuGreenCtxGetDevResource,
        "a green context has no resource of no type",
        |c| {
            let green = c.green()?;
            let mut resource = CUdevResource::default();
            ask!(c.cuGreenCtxGetDevResource(green, &raw mut resource, Type(0)));
            ask!(c.cuGreenCtxGetDevResource(green, null_mut(), SM), "nowhere");
            ask!(c.cuGreenCtxGetDevResource(CUgreenCtx::NULL, &raw mut resource, SM), "null");
            Ok(())
        },
    ),
    Probe::works(Call::cuDevSmResourceSplitByCount, "multiprocessors are split", |c| {
        let device = c.device()?;
        step(move |c| {
            // A resource stays on its thread: it has a pointer.
            let all = c.multiprocessors(device)?;
            let mut parts = [CUdevResource::default(); 2];
            let mut rest = CUdevResource::default();
            let mut count = 2;
            ask!(c.cuDevSmResourceSplitByCount(
                parts.as_mut_ptr(),
                &raw mut count,
                &raw const all,
                &raw mut rest,
                0,
                PART
            ));
            if c.observes() {
                c.note("parts", count);
                for part in &parts {
                    note_resource(c, "part_", part);
                }
                note_resource(c, "rest_", &rest);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDevSmResourceSplitByCount, "there aren't as many multiprocessors", |c| {
        let device = c.device()?;
        let all = c.multiprocessors(device)?;
        let mut part = CUdevResource::default();
        let (mut one, mut none) = (1, 0);
        let (from, to, n) = (&raw const all, &raw mut part, &raw mut one);
        ask!(c.cuDevSmResourceSplitByCount(to, n, from, null_mut(), 0, 1000));
        c.note("parts", one);
        one = 1;
        ask!(c.cuDevSmResourceSplitByCount(to, null_mut(), from, null_mut(), 0, PART), "no_count");
        ask!(
            c.cuDevSmResourceSplitByCount(to, &raw mut one, core::ptr::null(), null_mut(), 0, PART),
            "no_input"
        );
        ask!(
            c.cuDevSmResourceSplitByCount(to, &raw mut one, from, null_mut(), 0x8000, PART),
            "flags"
        );
        ask!(
            c.cuDevSmResourceSplitByCount(to, &raw mut none, from, null_mut(), 0, PART),
            "no_parts"
        );
        Ok(())
    }),
    Probe::case(Call::cuDevSmResourceSplitByCount, "how many parts there are is asked", |c| {
        let device = c.device()?;
        let all = c.multiprocessors(device)?;
        for least in [0, 1, 2, 8, 9, 16, 32, 66, 132] {
            let mut count = 0;
            let to = null_mut();
            ask!(c.cuDevSmResourceSplitByCount(to, &raw mut count, &raw const all, to, 0, least));
            c.note(&format!("of_{least}"), count);
        }
        Ok(())
    }),
    Probe::case(Call::cuDevSmResourceSplitByCount, "a part is rounded up", |c| {
        let device = c.device()?;
        let all = c.multiprocessors(device)?;
        for (least, flags) in [(1, 0), (3, 0), (9, 0), (17, 0), (1, 1), (3, 1), (9, 1)] {
            let mut part = CUdevResource::default();
            let (mut count, from) = (1, &raw const all);
            let to = &raw mut part;
            let n = &raw mut count;
            ask!(c.cuDevSmResourceSplitByCount(to, n, from, null_mut(), flags, least));
            c.note(&format!("parts_{least}_{flags}"), count);
            note_resource(c, "", &part);
        }
        Ok(())
    }),
    Probe::case(Call::cuDevSmResourceSplitByCount, "more parts are asked for than fit", |c| {
        let device = c.device()?;
        let all = c.multiprocessors(device)?;
        let mut parts = [CUdevResource::default(); 40];
        let mut count = 40;
        let (to, n) = (parts.as_mut_ptr(), &raw mut count);
        ask!(c.cuDevSmResourceSplitByCount(to, n, &raw const all, null_mut(), 0, 66));
        c.note("parts", count);
        Ok(())
    }),
    Probe::case(Call::cuDevSmResourceSplitByCount, "a part isn't split again", |c| {
        let device = c.device()?;
        let [part, rest] = c.part_and_rest(device)?;
        let mut half = CUdevResource::default();
        for (name, from) in [("part", part), ("rest", rest)] {
            let mut count = 1;
            let (to, n) = (&raw mut half, &raw mut count);
            ask!(c.cuDevSmResourceSplitByCount(to, n, &raw const from, null_mut(), 0, 8), name);
        }
        Ok(())
    }),
    Probe::works(Call::cuDevResourceGenerateDesc, "a resource is described", |c| {
        let device = c.device()?;
        step(move |c| {
            let [mut part, _] = c.part_and_rest(device)?;
            let mut desc = CUdevResourceDesc::NULL;
            ask!(c.cuDevResourceGenerateDesc(&raw mut desc, &raw mut part, 1));
            if c.observes() {
                c.holds("null", desc.is_null());
            }
            Ok(())
        })
    }),
    Probe::crashes(Call::cuDevResourceGenerateDesc, "no resource isn't described", |c| {
        let device = c.device()?;
        let [mut part, _] = c.part_and_rest(device)?;
        let mut desc = CUdevResourceDesc::NULL;
        crash!(c.cuDevResourceGenerateDesc(&raw mut desc, &raw mut part, 0));
        Ok(())
    }),
    Probe::fails(Call::cuDevResourceGenerateDesc, "a resource of no type isn't described", |c| {
        c.device()?;
        let mut desc = CUdevResourceDesc::NULL;
        let mut none = CUdevResource::default();
        ask!(c.cuDevResourceGenerateDesc(&raw mut desc, &raw mut none, 1));
        Ok(())
    }),
    Probe::fails(Call::cuDevResourceGenerateDesc, "a description needs somewhere to go", |c| {
        let device = c.device()?;
        let [mut part, _] = c.part_and_rest(device)?;
        ask!(c.cuDevResourceGenerateDesc(null_mut(), &raw mut part, 1));
        Ok(())
    }),
    Probe::case(Call::cuDevResourceGenerateDesc, "several parts are described together", |c| {
        let device = c.device()?;
        let all = c.multiprocessors(device)?;
        let mut parts = [CUdevResource::default(); 2];
        let mut count = 2;
        let (to, n) = (parts.as_mut_ptr(), &raw mut count);
        must!(c.cuDevSmResourceSplitByCount(to, n, &raw const all, null_mut(), 0, PART));
        let mut desc = CUdevResourceDesc::NULL;
        ask!(c.cuDevResourceGenerateDesc(&raw mut desc, to, 2));
        let mut twice = [parts[0], parts[0]];
        ask!(c.cuDevResourceGenerateDesc(&raw mut desc, twice.as_mut_ptr(), 2), "same");
        let mut mixed = [parts[0], all];
        ask!(c.cuDevResourceGenerateDesc(&raw mut desc, mixed.as_mut_ptr(), 2), "with_whole");
        let mut all = all;
        ask!(c.cuDevResourceGenerateDesc(&raw mut desc, &raw mut all, 1), "whole");
        Ok(())
    }),
    Probe::works(Call::cuGreenCtxCreate, "a green context is made", |c| {
        let device = c.device()?;
        let desc = c.part_desc(device)?;
        step(move |c| {
            let mut green = CUgreenCtx::NULL;
            ask!(c.cuGreenCtxCreate(&raw mut green, desc, device, DEFAULT_STREAM));
            if c.observes() {
                c.holds("null", green.is_null());
                c.holds("current", !c.what_is_current()?.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGreenCtxCreate, "a green context of no resources isn't made", |c| {
        let device = c.device()?;
        let desc = c.part_desc(device)?;
        let mut green = CUgreenCtx::NULL;
        let to = &raw mut green;
        ask!(c.cuGreenCtxCreate(to, CUdevResourceDesc::NULL, device, DEFAULT_STREAM));
        ask!(c.cuGreenCtxCreate(to, desc, 99, DEFAULT_STREAM), "no_device");
        ask!(c.cuGreenCtxCreate(null_mut(), desc, device, DEFAULT_STREAM), "nowhere");
        Ok(())
    }),
    Probe::case(Call::cuGreenCtxCreate, "a green context's flags are looked at", |c| {
        let device = c.device()?;
        let desc = c.part_desc(device)?;
        let mut green = CUgreenCtx::NULL;
        for flags in [0, 2, 0x8000] {
            let name = format!("flags_{flags}");
            ask!(c.cuGreenCtxCreate(&raw mut green, desc, device, flags), &name);
        }
        Ok(())
    }),
    Probe::case(Call::cuGreenCtxCreate, "a green context keeps the primary context", |c| {
        let device = c.device()?;
        let active = |c: &Ctx| -> Made<i32> {
            let (mut flags, mut active) = (0, 9);
            must!(c.cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active));
            Ok(active)
        };
        let before = active(c)?;
        let desc = c.part_desc(device)?;
        let mut green = CUgreenCtx::NULL;
        ask!(c.cuGreenCtxCreate(&raw mut green, desc, device, DEFAULT_STREAM));
        let (during, _) = (active(c)?, c.note("before", before));
        c.note("during", during);
        ask!(c.cuGreenCtxDestroy(green), "destroy");
        let after = active(c)?;
        c.note("after", after);
        Ok(())
    }),
    Probe::case(Call::cuGreenCtxCreate, "one description makes several green contexts", |c| {
        let device = c.device()?;
        let desc = c.part_desc(device)?;
        let (mut one, mut two) = (CUgreenCtx::NULL, CUgreenCtx::NULL);
        ask!(c.cuGreenCtxCreate(&raw mut one, desc, device, DEFAULT_STREAM));
        ask!(c.cuGreenCtxCreate(&raw mut two, desc, device, DEFAULT_STREAM));
        c.holds("same", one == two);
        Ok(())
    }),
    Probe::works(Call::cuGreenCtxDestroy, "a green context is destroyed", |c| {
        let green = c.green()?;
        step(move |c| {
            ask!(c.cuGreenCtxDestroy(green));
            Ok(())
        })
    }),
    Probe::fails(Call::cuGreenCtxDestroy, "no green context is null", |c| {
        c.device()?;
        ask!(c.cuGreenCtxDestroy(CUgreenCtx::NULL));
        Ok(())
    }),
    Probe::works(Call::cuGreenCtxGetId, "a green context has a number", |c| {
        let green = c.green()?;
        step(move |c| {
            let mut id = 0;
            ask!(c.cuGreenCtxGetId(green, &raw mut id));
            if c.observes() {
                c.holds("zero", id == 0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGreenCtxGetId, "a green context's number needs somewhere to go", |c| {
        let green = c.green()?;
        ask!(c.cuGreenCtxGetId(green, null_mut()));
        Ok(())
    }),
    Probe::works(Call::cuCtxFromGreenCtx, "a green context is seen as a context", |c| {
        let green = c.green()?;
        step(move |c| {
            let mut view = CUcontext::NULL;
            ask!(c.cuCtxFromGreenCtx(&raw mut view, green));
            if c.observes() {
                let mut again = CUcontext::NULL;
                must!(c.cuCtxFromGreenCtx(&raw mut again, green));
                c.holds("null", view.is_null());
                c.holds("same", view == again);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuCtxFromGreenCtx, "null isn't seen as a context", |c| {
        c.device()?;
        let mut view = CUcontext::NULL;
        ask!(c.cuCtxFromGreenCtx(&raw mut view, CUgreenCtx::NULL));
        Ok(())
    }),
    Probe::case(Call::cuCtxFromGreenCtx, "a view is made current, and works are done there", |c| {
        let green = c.green()?;
        let mut view = CUcontext::NULL;
        ask!(c.cuCtxFromGreenCtx(&raw mut view, green));
        ask!(c.cuCtxSetCurrent(view), "set");
        c.holds("current", c.what_is_current()? == view);
        let mut device = 9;
        ask!(c.cuCtxGetDevice(&raw mut device), "device");
        c.note("device", device);
        let function = c.function(c"nop")?;
        let stream = c.stream()?;
        c.launch(function, stream)?;
        ask!(c.cuStreamSynchronize(stream), "synchronize");
        ask!(c.cuCtxSynchronize(), "whole");
        Ok(())
    }),
];

/// Takes what a resource is into the answer, where more than the status is wanted.
fn note_resource(c: &mut Ctx, prefix: &str, resource: &CUdevResource) {
    if !c.observes() {
        return;
    }
    if resource.type_ == SM {
        // SAFETY: *views*: the type says that this view was written.
        let count = unsafe { resource.__bindgen_anon_1.sm }.smCount;
        c.note(&format!("{prefix}count"), count);
    } else {
        c.note(&format!("{prefix}type"), resource.type_.0);
    }
}

impl Ctx {
    /// All multiprocessors of a device.
    pub(crate) fn multiprocessors(&self, device: CUdevice) -> Made<CUdevResource> {
        let mut all = CUdevResource::default();
        must!(self.cuDeviceGetDevResource(device, &raw mut all, SM));
        Ok(all)
    }

    /// A part of a device's multiprocessors, and what is left.
    pub(crate) fn part_and_rest(&self, device: CUdevice) -> Made<[CUdevResource; 2]> {
        let all = self.multiprocessors(device)?;
        let [mut part, mut rest] = [CUdevResource::default(); 2];
        let mut count = 1;
        must!(self.cuDevSmResourceSplitByCount(
            &raw mut part,
            &raw mut count,
            &raw const all,
            &raw mut rest,
            0,
            PART
        ));
        Ok([part, rest])
    }

    /// The description of a part.
    pub(crate) fn part_desc(&self, device: CUdevice) -> Made<CUdevResourceDesc> {
        let [mut part, _] = self.part_and_rest(device)?;
        let mut desc = CUdevResourceDesc::NULL;
        must!(self.cuDevResourceGenerateDesc(&raw mut desc, &raw mut part, 1));
        Ok(desc)
    }

    /// A green context of a part. Nothing is current.
    pub(crate) fn green(&self) -> Made<CUgreenCtx> {
        let device = self.device()?;
        let desc = self.part_desc(device)?;
        let mut green = CUgreenCtx::NULL;
        must!(self.cuGreenCtxCreate(&raw mut green, desc, device, DEFAULT_STREAM));
        Ok(green)
    }

    /// A stream of a green context.
    pub(crate) fn green_stream(&self, green: CUgreenCtx) -> Made<CUstream> {
        let mut stream = CUstream::NULL;
        must!(self.cuGreenCtxStreamCreate(&raw mut stream, green, NON_BLOCKING, 0));
        Ok(stream)
    }

    /// A green context as a context.
    pub(crate) fn view(&self, green: CUgreenCtx) -> Made<CUcontext> {
        let mut view = CUcontext::NULL;
        must!(self.cuCtxFromGreenCtx(&raw mut view, green));
        Ok(view)
    }
}
