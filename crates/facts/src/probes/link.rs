//! The driver's linker: images put together into one.
//!
//! Source: CUDA Driver API 13.x, "Module Management" (`cuLink…`).

use core::ptr::{null, null_mut};

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    image,
    probe::{Probe, step},
    setup::Made,
};

const PTX: CUjitInputType = CUjitInputType::CU_JIT_INPUT_PTX;

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuLinkCreate_v2, "a link begins", |c| {
        c.current()?;
        step(|c| {
            let mut state = CUlinkState::NULL;
            ask!(c.cuLinkCreate_v2(0, null_mut(), null_mut(), &raw mut state));
            if c.observes() {
                c.holds("null", state.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuLinkCreate_v2, "a link needs somewhere to go", |c| {
        c.current()?;
        ask!(c.cuLinkCreate_v2(0, null_mut(), null_mut(), null_mut()));
        let mut state = CUlinkState::NULL;
        ask!(c.cuLinkCreate_v2(1, null_mut(), null_mut(), &raw mut state), "no_options");
        Ok(())
    }),
    Probe::works(Call::cuLinkAddData_v2, "a link takes an image", |c| {
        c.current()?;
        let state = c.link()?;
        step(move |c| {
            add(c, state, image::KERNELS, "");
            Ok(())
        })
    }),
    Probe::fails(Call::cuLinkAddData_v2, "a link doesn't take garbage", |c| {
        c.current()?;
        let state = c.link()?;
        add(c, state, image::GARBAGE, "");
        Ok(())
    }),
    Probe::case(Call::cuLinkAddData_v2, "a link doesn't take what isn't there", |c| {
        c.current()?;
        let state = c.link()?;
        let (none, name) = (null_mut(), c"it".as_ptr());
        ask!(c.cuLinkAddData_v2(state, PTX, null_mut(), 8, name, 0, null_mut(), none), "null");
        let data = image::KERNELS.as_ptr().cast_mut().cast();
        let size = image::KERNELS.to_bytes_with_nul().len();
        let none = null_mut();
        ask!(
            c.cuLinkAddData_v2(CUlinkState::NULL, PTX, data, size, name, 0, null_mut(), none),
            "no_link"
        );
        let none = null_mut();
        let unknown = CUjitInputType(99);
        ask!(c.cuLinkAddData_v2(state, unknown, data, size, name, 0, null_mut(), none), "type");
        Ok(())
    }),
    Probe::case(Call::cuLinkAddData_v2, "an image without a name is taken", |c| {
        c.current()?;
        let state = c.link()?;
        let data = image::KERNELS.as_ptr().cast_mut().cast();
        let size = image::KERNELS.to_bytes_with_nul().len();
        let none = null_mut();
        ask!(c.cuLinkAddData_v2(state, PTX, data, size, null(), 0, null_mut(), none));
        Ok(())
    }),
    Probe::case(Call::cuLinkAddData_v2, "images that are wrong in one way aren't taken", |c| {
        c.current()?;
        for (name, image) in
            [("empty", image::EMPTY), ("too_new", image::TOO_NEW), ("syntax", image::BAD_SYNTAX)]
        {
            let state = c.link()?;
            add(c, state, image, name);
        }
        Ok(())
    }),
    Probe::case(Call::cuLinkAddData_v2, "one image isn't taken twice", |c| {
        c.current()?;
        let state = c.link()?;
        add(c, state, image::KERNELS, "");
        add(c, state, image::KERNELS, "again");
        complete(c, state, "complete");
        Ok(())
    }),
    Probe::works(Call::cuLinkAddFile_v2, "a link takes a file", |c| {
        c.current()?;
        let state = c.link()?;
        let file = image::ImageFile::new();
        step(move |c| {
            let none = null_mut();
            let path = file.path().as_ptr();
            ask!(c.cuLinkAddFile_v2(state, PTX, path, 0, null_mut(), none));
            Ok(())
        })
    }),
    Probe::fails(Call::cuLinkAddFile_v2, "a link doesn't take a missing file", |c| {
        c.current()?;
        let state = c.link()?;
        let path = c"/nowhere/at/all.ptx".as_ptr();
        ask!(c.cuLinkAddFile_v2(state, PTX, path, 0, null_mut(), null_mut()));
        ask!(c.cuLinkAddFile_v2(state, PTX, null(), 0, null_mut(), null_mut()), "null");
        Ok(())
    }),
    Probe::works(Call::cuLinkComplete, "a link is completed", |c| {
        c.current()?;
        let state = c.link()?;
        must_add(c, state)?;
        step(move |c| {
            let (cubin, size) = complete(c, state, "");
            if c.observes() {
                c.holds("null", cubin.is_null());
                c.holds("empty", size == 0);
                let mut module = CUmodule::NULL;
                ask!(c.cuModuleLoadData(&raw mut module, cubin), "load");
                let mut function = CUfunction::NULL;
                ask!(c.cuModuleGetFunction(&raw mut function, module, c"fill".as_ptr()), "get");
                let mut count = 0;
                ask!(c.cuModuleGetFunctionCount(&raw mut count, module), "count");
                c.note("count", count);
                ask!(c.cuLinkDestroy(state), "destroy");
                let stream = c.stream()?;
                must!(c.cuModuleGetFunction(&raw mut function, module, c"nop".as_ptr()));
                c.launch(function, stream)?;
                ask!(c.cuStreamSynchronize(stream), "run");
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuLinkComplete, "null isn't completed", |c| {
        c.current()?;
        let (mut cubin, mut size) = (null_mut(), 0);
        ask!(c.cuLinkComplete(CUlinkState::NULL, &raw mut cubin, &raw mut size));
        let state = c.link()?;
        must_add(c, state)?;
        ask!(c.cuLinkComplete(state, null_mut(), &raw mut size), "nowhere");
        Ok(())
    }),
    Probe::case(Call::cuLinkComplete, "a link is made and completed on a new thread", |c| {
        c.device()?;
        c.elsewhere(|c| {
            c.current()?;
            let state = c.link()?;
            must_add(c, state)?;
            complete(c, state, "");
            ask!(c.cuLinkDestroy(state), "destroy");
            Ok(())
        })
    }),
    Probe::case(Call::cuLinkComplete, "a link is filled and completed on a new thread", |c| {
        c.current()?;
        let state = c.link()?;
        c.elsewhere(move |c| {
            c.current()?;
            must_add(c, state)?;
            complete(c, state, "");
            Ok(())
        })
    }),
    Probe::case(Call::cuLinkComplete, "a link is completed on a new thread", |c| {
        c.current()?;
        let state = c.link()?;
        must_add(c, state)?;
        c.elsewhere(move |c| {
            c.current()?;
            complete(c, state, "");
            Ok(())
        })
    }),
    Probe::case(Call::cuLinkDestroy, "a link is destroyed on a new thread", |c| {
        c.current()?;
        let state = c.link()?;
        must_add(c, state)?;
        c.elsewhere(move |c| {
            ask!(c.cuLinkDestroy(state));
            Ok(())
        })
    }),
    Probe::case(Call::cuLinkComplete, "a link of nothing is completed", |c| {
        c.current()?;
        let state = c.link()?;
        let (cubin, size) = complete(c, state, "");
        c.holds("null", cubin.is_null());
        c.holds("empty", size == 0);
        Ok(())
    }),
    Probe::case(Call::cuLinkComplete, "a link is completed twice", |c| {
        c.current()?;
        let state = c.link()?;
        must_add(c, state)?;
        let first = complete(c, state, "");
        let second = complete(c, state, "again");
        c.holds("same", first == second);
        add(c, state, image::KERNELS, "add");
        Ok(())
    }),
    Probe::case(Call::cuLinkComplete, "a link is completed after it refused garbage", |c| {
        c.current()?;
        let state = c.link()?;
        must_add(c, state)?;
        add(c, state, image::GARBAGE, "garbage");
        complete(c, state, "");
        Ok(())
    }),
    Probe::case(Call::cuLinkCreate_v2, "a link says what is wrong", |c| {
        c.current()?;
        let mut log = [1_u8; 512];
        let mut names = [
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        let room = core::ptr::without_provenance_mut(log.len());
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), room];
        let mut state = CUlinkState::NULL;
        let (names, to) = (names.as_mut_ptr(), &raw mut state);
        ask!(c.cuLinkCreate_v2(2, names, values.as_mut_ptr(), to));
        c.note("room", values[1].addr());
        add(c, state, image::BAD_SYNTAX, "add");
        c.holds("written", log[0] > 1);
        c.holds("told", values[1].addr() != log.len());
        ask!(c.cuLinkDestroy(state), "destroy");
        Ok(())
    }),
    Probe::works(Call::cuLinkDestroy, "a link is destroyed", |c| {
        c.current()?;
        let state = c.link()?;
        step(move |c| {
            ask!(c.cuLinkDestroy(state));
            Ok(())
        })
    }),
    Probe::fails(Call::cuLinkDestroy, "no link is null", |c| {
        c.current()?;
        ask!(c.cuLinkDestroy(CUlinkState::NULL));
        Ok(())
    }),
];

/// Adds an image as PTX.
fn add(c: &mut Ctx, state: CUlinkState, image: &core::ffi::CStr, label: &str) {
    let (data, size) = (image.as_ptr().cast_mut().cast(), image.to_bytes_with_nul().len());
    let (options, values) = (null_mut(), null_mut());
    let name = c"image".as_ptr();
    ask!(c.cuLinkAddData_v2(state, PTX, data, size, name, 0, options, values), label);
}

fn must_add(c: &Ctx, state: CUlinkState) -> Made<()> {
    let data = image::KERNELS.as_ptr().cast_mut().cast();
    let size = image::KERNELS.to_bytes_with_nul().len();
    let (options, values) = (null_mut(), null_mut());
    let name = c"image".as_ptr();
    must!(c.cuLinkAddData_v2(state, PTX, data, size, name, 0, options, values));
    Ok(())
}

fn complete(c: &mut Ctx, state: CUlinkState, label: &str) -> (*mut c_void, usize) {
    let (mut cubin, mut size) = (null_mut(), 0);
    ask!(c.cuLinkComplete(state, &raw mut cubin, &raw mut size), label);
    (cubin, size)
}

impl Ctx {
    /// A link without options.
    pub(crate) fn link(&self) -> Made<CUlinkState> {
        let mut state = CUlinkState::NULL;
        must!(self.cuLinkCreate_v2(0, null_mut(), null_mut(), &raw mut state));
        Ok(state)
    }
}
