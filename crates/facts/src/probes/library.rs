//! Libraries, which are loaded without a context, and their kernels.
//!
//! Source: CUDA Driver API 13.x, "Library Management".

use core::{
    ffi::CStr,
    ptr::{null, null_mut},
};

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    image,
    probe::{Probe, step},
    probes::driver::note_text,
    setup::Made,
};

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuLibraryLoadData, "a library is loaded without a context", |c| {
        c.device()?;
        step(|c| load(c, image::KERNELS, ""))
    }),
    Probe::fails(Call::cuLibraryLoadData, "garbage isn't a library", |c| {
        c.current()?;
        load(c, image::GARBAGE, "")
    }),
    Probe::case(
        Call::cuLibraryLoadData,
        "an image that is wrong in one way isn't a library",
        |c| {
            c.current()?;
            load(c, image::EMPTY, "empty")?;
            load(c, image::TOO_NEW, "too_new")?;
            load(c, image::BAD_SYNTAX, "syntax")
        },
    ),
    Probe::works(Call::cuLibraryLoadFromFile, "a library is loaded from a file", |c| {
        c.device()?;
        let file = image::ImageFile::new();
        step(move |c| load_file(c, file.path()))
    }),
    Probe::fails(Call::cuLibraryLoadFromFile, "a missing file isn't a library", |c| {
        c.current()?;
        load_file(c, c"/nowhere/at/all.ptx")
    }),
    Probe::works(Call::cuLibraryUnload, "a library is unloaded", |c| {
        c.current()?;
        let library = c.library()?;
        step(move |c| {
            ask!(c.cuLibraryUnload(library));
            Ok(())
        })
    }),
    Probe::fails(Call::cuLibraryUnload, "no library is null", |c| {
        c.current()?;
        ask!(c.cuLibraryUnload(CUlibrary::NULL));
        Ok(())
    }),
    Probe::case(Call::cuLibraryUnload, "a library outlives a context that used it", |c| {
        let context = c.context()?;
        let library = c.library()?;
        let kernel = kernel_of(c, library)?;
        let mut function = CUfunction::NULL;
        must!(c.cuKernelGetFunction(&raw mut function, kernel));
        must!(c.cuCtxDestroy_v2(context));
        ask!(c.cuLibraryUnload(library));
        Ok(())
    }),
    Probe::works(Call::cuLibraryGetKernel, "a library has its kernels", |c| {
        let library = c.library_after_init()?;
        step(move |c| {
            let mut kernel = CUkernel::NULL;
            ask!(c.cuLibraryGetKernel(&raw mut kernel, library, c"nop".as_ptr()));
            if c.observes() {
                c.holds("null", kernel.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuLibraryGetKernel, "a library has no other kernels", |c| {
        let library = c.library_after_init()?;
        let mut kernel = CUkernel::NULL;
        ask!(c.cuLibraryGetKernel(&raw mut kernel, library, c"none".as_ptr()));
        let name = c"nop".as_ptr();
        ask!(c.cuLibraryGetKernel(&raw mut kernel, CUlibrary::NULL, name), "no_library");
        Ok(())
    }),
    Probe::works(Call::cuLibraryGetKernelCount, "a library counts its kernels", |c| {
        let library = c.library_after_init()?;
        step(move |c| {
            let mut count = 0;
            ask!(c.cuLibraryGetKernelCount(&raw mut count, library));
            if c.observes() {
                c.holds("all", count == image::KERNEL_COUNT);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuLibraryGetKernelCount, "null counts no kernels", |c| {
        c.current()?;
        let mut count = 0;
        ask!(c.cuLibraryGetKernelCount(&raw mut count, CUlibrary::NULL));
        Ok(())
    }),
    Probe::works(Call::cuLibraryEnumerateKernels, "a library lists its kernels", |c| {
        let library = c.library_after_init()?;
        step(move |c| {
            let mut kernels = [CUkernel::NULL; 8];
            let to = kernels.as_mut_ptr();
            ask!(c.cuLibraryEnumerateKernels(to, image::KERNEL_COUNT, library));
            if c.observes() {
                c.note("listed", kernels.iter().filter(|k| !k.is_null()).count());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuLibraryEnumerateKernels, "null lists no kernels", |c| {
        c.current()?;
        let mut kernels = [CUkernel::NULL; 8];
        ask!(c.cuLibraryEnumerateKernels(kernels.as_mut_ptr(), 8, CUlibrary::NULL));
        Ok(())
    }),
    Probe::works(Call::cuLibraryGetModule, "a library has a module in the context", |c| {
        c.current()?;
        let library = c.library()?;
        step(move |c| {
            let mut module = CUmodule::NULL;
            ask!(c.cuLibraryGetModule(&raw mut module, library));
            if c.observes() {
                c.holds("null", module.is_null());
                ask!(c.cuModuleUnload(module), "unload");
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuLibraryGetModule, "a library has no module in no context", |c| {
        let library = c.library_after_init()?;
        let mut module = CUmodule::NULL;
        ask!(c.cuLibraryGetModule(&raw mut module, library));
        Ok(())
    }),
    Probe::works(Call::cuLibraryGetGlobal, "a library has its variables in the context", |c| {
        c.current()?;
        let library = c.library()?;
        step(move |c| global(c, library, c"counter"))
    }),
    Probe::fails(Call::cuLibraryGetGlobal, "a library has no other variables", |c| {
        c.current()?;
        let library = c.library()?;
        global(c, library, c"none")
    }),
    Probe::works(Call::cuLibraryGetManaged, "a library has its managed variables", |c| {
        c.current()?;
        let library = c.library_of(image::MANAGED)?;
        step(move |c| managed(c, library, c"shared"))
    }),
    Probe::fails(Call::cuLibraryGetManaged, "a library has no other managed variables", |c| {
        c.current()?;
        let library = c.library_of(image::MANAGED)?;
        managed(c, library, c"none")
    }),
    Probe::works(Call::cuKernelGetFunction, "a kernel has a function in the context", |c| {
        c.current()?;
        let kernel = c.kernel(c"nop")?;
        step(move |c| {
            let mut function = CUfunction::NULL;
            ask!(c.cuKernelGetFunction(&raw mut function, kernel));
            if c.observes() {
                c.holds("null", function.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuKernelGetFunction, "a kernel has no function in no context", |c| {
        c.device()?;
        let kernel = c.kernel(c"nop")?;
        let mut function = CUfunction::NULL;
        ask!(c.cuKernelGetFunction(&raw mut function, kernel));
        Ok(())
    }),
    Probe::works(Call::cuKernelGetLibrary, "a kernel has a library", |c| {
        let library = c.library_after_init()?;
        let kernel = kernel_of(c, library)?;
        step(move |c| {
            let mut found = CUlibrary::NULL;
            ask!(c.cuKernelGetLibrary(&raw mut found, kernel));
            if c.observes() {
                c.holds("same", found == library);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuKernelGetLibrary, "null has no library", |c| {
        c.current()?;
        let mut found = CUlibrary::NULL;
        ask!(c.cuKernelGetLibrary(&raw mut found, CUkernel::NULL));
        Ok(())
    }),
    Probe::works(Call::cuKernelGetName, "a kernel has a name", |c| {
        c.device()?;
        let kernel = c.kernel(c"fill")?;
        step(move |c| {
            let mut name = null();
            ask!(c.cuKernelGetName(&raw mut name, kernel));
            note_text(c, "name", name);
            Ok(())
        })
    }),
    Probe::fails(Call::cuKernelGetName, "a kernel's name needs somewhere to go", |c| {
        c.device()?;
        let kernel = c.kernel(c"fill")?;
        ask!(c.cuKernelGetName(null_mut(), kernel));
        Ok(())
    }),
    Probe::works(Call::cuKernelGetParamInfo, "a kernel's parameters have places", |c| {
        c.device()?;
        let kernel = c.kernel(c"fill")?;
        step(move |c| parameter(c, kernel, 1))
    }),
    Probe::fails(Call::cuKernelGetParamInfo, "a kernel has no parameter after the last", |c| {
        c.device()?;
        let kernel = c.kernel(c"fill")?;
        parameter(c, kernel, 3)
    }),
    Probe::works(Call::cuKernelGetAttribute, "a kernel has attributes on a device", |c| {
        let device = c.device()?;
        let kernel = c.kernel(c"fill")?;
        step(move |c| attribute(c, MAX_THREADS, kernel, device))
    }),
    Probe::fails(Call::cuKernelGetAttribute, "a kernel has no unknown attribute", |c| {
        let device = c.device()?;
        let kernel = c.kernel(c"fill")?;
        attribute(c, CUfunction_attribute(999), kernel, device)
    }),
    Probe::case(
        Call::cuKernelGetAttribute,
        "a kernel has no attributes on a missing device",
        |c| {
            c.device()?;
            let kernel = c.kernel(c"fill")?;
            attribute(c, MAX_THREADS, kernel, 99)
        },
    ),
    Probe::works(Call::cuKernelSetAttribute, "a kernel may use more shared memory", |c| {
        let device = c.device()?;
        let kernel = c.kernel(c"fill")?;
        step(move |c| {
            ask!(c.cuKernelSetAttribute(DYNAMIC_SHARED, 65_536, kernel, device));
            if c.observes() {
                attribute(c, DYNAMIC_SHARED, kernel, device)?;
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuKernelSetAttribute, "what a kernel is isn't set", |c| {
        let device = c.device()?;
        let kernel = c.kernel(c"fill")?;
        ask!(c.cuKernelSetAttribute(MAX_THREADS, 32, kernel, device));
        Ok(())
    }),
    Probe::works(Call::cuKernelSetCacheConfig, "a kernel has a cache preference", |c| {
        let device = c.device()?;
        let kernel = c.kernel(c"fill")?;
        step(move |c| {
            let config = CUfunc_cache::CU_FUNC_CACHE_PREFER_L1;
            ask!(c.cuKernelSetCacheConfig(kernel, config, device));
            Ok(())
        })
    }),
    Probe::fails(
        Call::cuKernelSetCacheConfig,
        "a kernel has no preference on a missing device",
        |c| {
            c.device()?;
            let kernel = c.kernel(c"fill")?;
            ask!(c.cuKernelSetCacheConfig(kernel, CUfunc_cache::CU_FUNC_CACHE_PREFER_L1, 99));
            Ok(())
        },
    ),
];

const MAX_THREADS: CUfunction_attribute =
    CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
const DYNAMIC_SHARED: CUfunction_attribute =
    CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

impl Ctx {
    fn library_after_init(&self) -> Made<CUlibrary> {
        self.device()?;
        self.library()
    }
}

fn kernel_of(c: &Ctx, library: CUlibrary) -> Made<CUkernel> {
    let mut kernel = CUkernel::NULL;
    must!(c.cuLibraryGetKernel(&raw mut kernel, library, c"nop".as_ptr()));
    Ok(kernel)
}

fn load(c: &mut Ctx, image: &CStr, label: &str) -> Made<()> {
    let mut library = CUlibrary::NULL;
    ask!(
        c.cuLibraryLoadData(
            &raw mut library,
            image.as_ptr().cast(),
            null_mut(),
            null_mut(),
            0,
            null_mut(),
            null_mut(),
            0
        ),
        label
    );
    Ok(())
}

fn load_file(c: &mut Ctx, path: &CStr) -> Made<()> {
    let mut library = CUlibrary::NULL;
    ask!(c.cuLibraryLoadFromFile(
        &raw mut library,
        path.as_ptr(),
        null_mut(),
        null_mut(),
        0,
        null_mut(),
        null_mut(),
        0
    ));
    Ok(())
}

fn global(c: &mut Ctx, library: CUlibrary, name: &CStr) -> Made<()> {
    let (mut memory, mut bytes) = (0, 0);
    ask!(c.cuLibraryGetGlobal(&raw mut memory, &raw mut bytes, library, name.as_ptr()));
    if c.observes() {
        c.note("bytes", bytes);
    }
    Ok(())
}

fn managed(c: &mut Ctx, library: CUlibrary, name: &CStr) -> Made<()> {
    let (mut memory, mut bytes) = (0, 0);
    ask!(c.cuLibraryGetManaged(&raw mut memory, &raw mut bytes, library, name.as_ptr()));
    if c.observes() {
        c.note("bytes", bytes);
    }
    Ok(())
}

fn parameter(c: &mut Ctx, kernel: CUkernel, index: usize) -> Made<()> {
    let (mut offset, mut size) = (99, 99);
    ask!(c.cuKernelGetParamInfo(kernel, index, &raw mut offset, &raw mut size));
    if c.observes() {
        c.note("at", format_args!("{offset}+{size}"));
    }
    Ok(())
}

fn attribute(
    c: &mut Ctx,
    attribute: CUfunction_attribute,
    kernel: CUkernel,
    device: CUdevice,
) -> Made<()> {
    let mut value = -9;
    ask!(c.cuKernelGetAttribute(&raw mut value, attribute, kernel, device));
    if c.observes() {
        c.note("value", value);
    }
    Ok(())
}
