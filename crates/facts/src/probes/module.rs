//! Modules and their functions.
//!
//! Source: CUDA Driver API 13.x, "Module Management", "Execution Control".

use core::ptr::{null, null_mut};

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    image,
    probe::{Probe, step},
    probes::driver::note_text,
    setup::Made,
};

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuModuleLoadData, "an image is loaded into a context", |c| {
        c.current()?;
        step(|c| {
            let mut module = CUmodule::NULL;
            ask!(c.cuModuleLoadData(&raw mut module, image::KERNELS.as_ptr().cast()));
            if c.observes() {
                c.holds("null", module.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuModuleLoadData, "garbage isn't loaded", |c| {
        c.current()?;
        load(c, image::GARBAGE, "");
        Ok(())
    }),
    Probe::case(Call::cuModuleLoadData, "an image that is wrong in one way isn't loaded", |c| {
        c.current()?;
        load(c, image::EMPTY, "empty");
        load(c, image::TOO_NEW, "too_new");
        load(c, image::BAD_SYNTAX, "syntax");
        let mut module = CUmodule::NULL;
        ask!(c.cuModuleLoadData(&raw mut module, null()), "null");
        Ok(())
    }),
    Probe::case(Call::cuModuleLoadData, "loading into no context fails", |c| {
        c.device()?;
        load(c, image::KERNELS, "");
        load(c, image::GARBAGE, "garbage");
        Ok(())
    }),
    Probe::works(Call::cuModuleLoadDataEx, "an image is loaded without options", |c| {
        c.current()?;
        step(|c| {
            let mut module = CUmodule::NULL;
            let kernels = image::KERNELS.as_ptr().cast();
            ask!(c.cuModuleLoadDataEx(&raw mut module, kernels, 0, null_mut(), null_mut()));
            Ok(())
        })
    }),
    Probe::fails(Call::cuModuleLoadDataEx, "garbage isn't loaded without options", |c| {
        c.current()?;
        let mut module = CUmodule::NULL;
        let garbage = image::GARBAGE.as_ptr().cast();
        ask!(c.cuModuleLoadDataEx(&raw mut module, garbage, 0, null_mut(), null_mut()));
        Ok(())
    }),
    Probe::works(Call::cuModuleLoad, "a file is loaded into a context", |c| {
        c.current()?;
        let file = image::ImageFile::new();
        step(move |c| {
            let mut module = CUmodule::NULL;
            ask!(c.cuModuleLoad(&raw mut module, file.path().as_ptr()));
            Ok(())
        })
    }),
    Probe::fails(Call::cuModuleLoad, "a missing file isn't loaded", |c| {
        c.current()?;
        let mut module = CUmodule::NULL;
        ask!(c.cuModuleLoad(&raw mut module, c"/nowhere/at/all.ptx".as_ptr()));
        Ok(())
    }),
    Probe::works(Call::cuModuleUnload, "a module is unloaded", |c| {
        c.current()?;
        let module = c.module()?;
        step(move |c| {
            ask!(c.cuModuleUnload(module));
            Ok(())
        })
    }),
    Probe::fails(Call::cuModuleUnload, "no module is null", |c| {
        c.current()?;
        ask!(c.cuModuleUnload(CUmodule::NULL));
        Ok(())
    }),
    Probe::case(Call::cuModuleUnload, "a module is unloaded without a context", |c| {
        c.current()?;
        let module = c.module()?;
        c.empty_stack();
        ask!(c.cuModuleUnload(module));
        Ok(())
    }),
    Probe::works(Call::cuModuleGetFunction, "a module has its functions", |c| {
        c.current()?;
        let module = c.module()?;
        step(move |c| {
            let mut function = CUfunction::NULL;
            ask!(c.cuModuleGetFunction(&raw mut function, module, c"nop".as_ptr()));
            if c.observes() {
                c.holds("null", function.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuModuleGetFunction, "a module has no other functions", |c| {
        c.current()?;
        let module = c.module()?;
        let mut function = CUfunction::NULL;
        ask!(c.cuModuleGetFunction(&raw mut function, module, c"none".as_ptr()));
        ask!(c.cuModuleGetFunction(&raw mut function, module, null()), "null");
        ask!(
            c.cuModuleGetFunction(&raw mut function, CUmodule::NULL, c"nop".as_ptr()),
            "no_module"
        );
        Ok(())
    }),
    Probe::works(Call::cuModuleGetGlobal_v2, "a module has its variables", |c| {
        c.current()?;
        let module = c.module()?;
        step(move |c| {
            let (mut memory, mut bytes) = (0, 0);
            let name = c"counter".as_ptr();
            ask!(c.cuModuleGetGlobal_v2(&raw mut memory, &raw mut bytes, module, name));
            if c.observes() {
                c.note("bytes", bytes);
                let mut value = 0_u32;
                must!(c.cuMemcpyDtoH_v2((&raw mut value).cast(), memory, 4));
                c.note("value", value);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuModuleGetGlobal_v2, "a module has no other variables", |c| {
        c.current()?;
        let module = c.module()?;
        let (mut memory, mut bytes) = (0, 0);
        let name = c"none".as_ptr();
        ask!(c.cuModuleGetGlobal_v2(&raw mut memory, &raw mut bytes, module, name));
        Ok(())
    }),
    Probe::works(Call::cuModuleGetFunctionCount, "a module counts its functions", |c| {
        c.current()?;
        let module = c.module()?;
        step(move |c| {
            let mut count = 0;
            ask!(c.cuModuleGetFunctionCount(&raw mut count, module));
            if c.observes() {
                c.holds("all", count == image::KERNEL_COUNT);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuModuleGetFunctionCount, "null counts no functions", |c| {
        c.current()?;
        let mut count = 0;
        ask!(c.cuModuleGetFunctionCount(&raw mut count, CUmodule::NULL));
        Ok(())
    }),
    Probe::works(Call::cuModuleEnumerateFunctions, "a module lists its functions", |c| {
        c.current()?;
        let module = c.module()?;
        step(move |c| {
            let mut functions = [CUfunction::NULL; 8];
            let to = functions.as_mut_ptr();
            ask!(c.cuModuleEnumerateFunctions(to, image::KERNEL_COUNT, module));
            if c.observes() {
                c.note("listed", functions.iter().filter(|f| !f.is_null()).count());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuModuleEnumerateFunctions, "null lists no functions", |c| {
        c.current()?;
        let mut functions = [CUfunction::NULL; 8];
        ask!(c.cuModuleEnumerateFunctions(functions.as_mut_ptr(), 8, CUmodule::NULL));
        Ok(())
    }),
    Probe::works(Call::cuModuleGetLoadingMode, "functions are loaded when they are needed", |c| {
        c.device()?;
        step(|c| {
            let mut mode = CUmoduleLoadingMode(9);
            ask!(c.cuModuleGetLoadingMode(&raw mut mode));
            if c.observes() {
                c.note("mode", mode.0);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuModuleGetLoadingMode, "before initialization nothing is loaded", |c| {
        let mut mode = CUmoduleLoadingMode(9);
        ask!(c.cuModuleGetLoadingMode(&raw mut mode));
        Ok(())
    }),
    Probe::crashes(
        Call::cuModuleGetLoadingMode,
        "the mode of loading needs somewhere to go",
        |c| {
            c.device()?;
            crash!(c.cuModuleGetLoadingMode(null_mut()));
            Ok(())
        },
    ),
    Probe::works(Call::cuFuncGetAttribute, "a function has attributes", |c| {
        c.current()?;
        let function = c.function(c"fill")?;
        step(move |c| attribute(c, MAX_THREADS, function))
    }),
    Probe::fails(Call::cuFuncGetAttribute, "a function has no unknown attribute", |c| {
        c.current()?;
        let function = c.function(c"fill")?;
        attribute(c, CUfunction_attribute(999), function)
    }),
    Probe::case(Call::cuFuncGetAttribute, "null has no attributes", |c| {
        c.current()?;
        attribute(c, MAX_THREADS, CUfunction::NULL)
    }),
    Probe::case(Call::cuFuncGetAttribute, "a function without shared memory has none", |c| {
        c.current()?;
        let function = c.function(c"fill")?;
        attribute(c, CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function)?;
        attribute(c, CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function)?;
        attribute(c, CUfunction_attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION, function)?;
        attribute(c, DYNAMIC_SHARED, function)
    }),
    Probe::works(Call::cuFuncSetAttribute, "a function may use more shared memory", |c| {
        c.current()?;
        let function = c.function(c"fill")?;
        step(move |c| {
            ask!(c.cuFuncSetAttribute(function, DYNAMIC_SHARED, 65_536));
            if c.observes() {
                attribute(c, DYNAMIC_SHARED, function)?;
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuFuncSetAttribute, "what a function is isn't set", |c| {
        c.current()?;
        let function = c.function(c"fill")?;
        ask!(c.cuFuncSetAttribute(function, MAX_THREADS, 32));
        ask!(c.cuFuncSetAttribute(function, DYNAMIC_SHARED, 1 << 30), "too_much");
        ask!(c.cuFuncSetAttribute(CUfunction::NULL, DYNAMIC_SHARED, 1024), "null");
        Ok(())
    }),
    Probe::works(Call::cuFuncSetCacheConfig, "a function has a cache preference", |c| {
        c.current()?;
        let function = c.function(c"fill")?;
        step(move |c| {
            ask!(c.cuFuncSetCacheConfig(function, CUfunc_cache::CU_FUNC_CACHE_PREFER_L1));
            Ok(())
        })
    }),
    Probe::fails(Call::cuFuncSetCacheConfig, "null has no cache preference", |c| {
        c.current()?;
        ask!(c.cuFuncSetCacheConfig(CUfunction::NULL, CUfunc_cache::CU_FUNC_CACHE_PREFER_L1));
        Ok(())
    }),
    Probe::works(Call::cuFuncGetModule, "a function has a module", |c| {
        c.current()?;
        let module = c.module()?;
        let mut function = CUfunction::NULL;
        must!(c.cuModuleGetFunction(&raw mut function, module, c"nop".as_ptr()));
        step(move |c| {
            let mut found = CUmodule::NULL;
            ask!(c.cuFuncGetModule(&raw mut found, function));
            if c.observes() {
                c.holds("same", found == module);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuFuncGetModule, "null has no module", |c| {
        c.current()?;
        let mut found = CUmodule::NULL;
        ask!(c.cuFuncGetModule(&raw mut found, CUfunction::NULL));
        Ok(())
    }),
    Probe::works(Call::cuFuncGetName, "a function has a name", |c| {
        c.current()?;
        let function = c.function(c"fill")?;
        step(move |c| {
            let mut name = null();
            ask!(c.cuFuncGetName(&raw mut name, function));
            note_text(c, "name", name);
            Ok(())
        })
    }),
    Probe::fails(Call::cuFuncGetName, "a function's name needs somewhere to go", |c| {
        c.current()?;
        let function = c.function(c"fill")?;
        ask!(c.cuFuncGetName(null_mut(), function));
        Ok(())
    }),
    Probe::works(Call::cuFuncGetParamInfo, "a function's parameters have places", |c| {
        c.current()?;
        let function = c.function(c"fill")?;
        step(move |c| parameter(c, function, 1))
    }),
    Probe::fails(Call::cuFuncGetParamInfo, "a function has no parameter after the last", |c| {
        c.current()?;
        let function = c.function(c"fill")?;
        parameter(c, function, 3)
    }),
    Probe::case(Call::cuFuncGetParamInfo, "every parameter has its offset and size", |c| {
        c.current()?;
        let function = c.function(c"axpy")?;
        (0..4).try_for_each(|index| parameter(c, function, index))
    }),
    Probe::works(Call::cuFuncIsLoaded, "a function that was asked for isn't loaded yet", |c| {
        c.current()?;
        let function = c.function(c"fill")?;
        step(move |c| loaded(c, function))
    }),
    Probe::fails(Call::cuFuncIsLoaded, "whether a function is loaded needs somewhere to go", |c| {
        c.current()?;
        let function = c.function(c"fill")?;
        ask!(c.cuFuncIsLoaded(null_mut(), function));
        Ok(())
    }),
    Probe::works(Call::cuFuncLoad, "a function is loaded", |c| {
        c.current()?;
        let function = c.function(c"fill")?;
        step(move |c| {
            ask!(c.cuFuncLoad(function));
            if c.observes() {
                loaded(c, function)?;
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuFuncLoad, "null isn't loaded", |c| {
        c.current()?;
        ask!(c.cuFuncLoad(CUfunction::NULL));
        Ok(())
    }),
];

const MAX_THREADS: CUfunction_attribute =
    CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
const DYNAMIC_SHARED: CUfunction_attribute =
    CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

fn load(c: &mut Ctx, image: &core::ffi::CStr, label: &str) {
    let mut module = CUmodule::NULL;
    ask!(c.cuModuleLoadData(&raw mut module, image.as_ptr().cast()), label);
}

fn attribute(c: &mut Ctx, attribute: CUfunction_attribute, function: CUfunction) -> Made<()> {
    let mut value = -9;
    ask!(c.cuFuncGetAttribute(&raw mut value, attribute, function));
    if c.observes() {
        c.note("value", value);
    }
    Ok(())
}

fn parameter(c: &mut Ctx, function: CUfunction, index: usize) -> Made<()> {
    let (mut offset, mut size) = (99, 99);
    ask!(c.cuFuncGetParamInfo(function, index, &raw mut offset, &raw mut size));
    if c.observes() {
        c.note("at", format_args!("{offset}+{size}"));
    }
    Ok(())
}

fn loaded(c: &mut Ctx, function: CUfunction) -> Made<()> {
    let mut state = CUfunctionLoadingState(9);
    ask!(c.cuFuncIsLoaded(&raw mut state, function), "");
    if c.observes() {
        c.note("state", state.0);
    }
    Ok(())
}
