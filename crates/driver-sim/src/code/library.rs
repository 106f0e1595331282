//! Libraries and their kernels.
//!
//! Source: CUDA Driver API 13.x, "Library Management".

#![expect(unsafe_code, reason = "an image is a pointer without a length")]

use std::{collections::BTreeMap, sync::Arc};

use cuhold_driver_sys::ffi::*;

use super::{
    Kernel, Library, Named,
    function::write_param,
    image::Image,
    jit::Logs,
    load::Source,
    setting::{Attributes, Settings},
};
use crate::world::{Answer, Ending, In, Key, Out, Turn};

/// The device that a library's image is read for, since a library has no context; all simulated devices of a machine
/// are usually alike.
const FIRST_DEVICE: usize = 0;

impl Turn<'_> {
    /// The live library with this handle.
    fn library(&mut self, raw: CUlibrary) -> Result<Key<Library>, CUresult> {
        self.find(|state| &state.code.libraries, raw.addr(), CUresult::INVALID_HANDLE)
    }

    fn library_data(&self, key: Key<Library>) -> Result<&Library, CUresult> {
        self.state.code.libraries.get(key).ok_or(CUresult::INVALID_HANDLE)
    }

    /// The live kernel with this handle.
    fn kernel(&mut self, raw: CUkernel) -> Result<Key<Kernel>, CUresult> {
        self.find(|state| &state.code.kernels, raw.addr(), CUresult::INVALID_HANDLE)
    }

    fn kernel_data(&self, key: Key<Kernel>) -> Result<&Kernel, CUresult> {
        self.state.code.kernels.get(key).ok_or(CUresult::INVALID_HANDLE)
    }

    /// Adds a library. An image that can't be read isn't refused here, but where something of it is needed; what the
    /// simulator can't read is.
    fn add_library(&mut self, image: Result<Arc<Image>, CUresult>) -> Result<CUlibrary, CUresult> {
        let image = match image {
            Err(CUresult::MISSING) => return Err(CUresult::MISSING),
            image => image,
        };
        let made = self.site;
        let library = Library { image: image.clone(), kernels: Vec::new(), modules: Vec::new() };
        let key = self.state.code.libraries.insert(made, library);
        let Ok(image) = image else { return Ok(CUlibrary::from_addr(key.raw())) };
        for index in 0..image.kernels.len() {
            let code = Named::new(&image, index).ok_or(CUresult::INVALID_IMAGE)?;
            let kernel = Kernel { library: key, code, settings: BTreeMap::new() };
            let kernel = self.state.code.kernels.insert(made, kernel);
            if let Some(library) = self.state.code.libraries.get_mut(key) {
                library.kernels.push(kernel);
            }
        }
        Ok(CUlibrary::from_addr(key.raw()))
    }
}

/// Needs no context. The library's own options say how its code is kept, of which nothing shows here.
#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn library_load(
    turn: &mut Turn<'_>,
    out: Out<CUlibrary>,
    code: In<c_void>,
    options: Out<CUjit_option>,
    values: Out<*mut c_void>,
    count: c_uint,
    _library_options: Out<CUlibraryOption>,
    _library_values: Out<*mut c_void>,
    _library_count: c_uint,
) -> Answer {
    let out = out.required()?;
    let count = usize::try_from(count).map_err(|_too_many| CUresult::INVALID_VALUE)?;
    // SAFETY: *pointers*: the caller's arrays have as many entries as it says.
    let logs = unsafe { Logs::read(options, values, count) }?;
    if code.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    let image = turn.read_image(code, FIRST_DEVICE);
    // SAFETY: *pointers*: the caller's buffers are as large as it says, and the call hasn't ended.
    unsafe { logs.write(image.as_ref().err().copied()) };
    out.write(turn.add_library(image)?);
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn library_load_file(
    turn: &mut Turn<'_>,
    out: Out<CUlibrary>,
    path: In<c_char>,
    options: Out<CUjit_option>,
    values: Out<*mut c_void>,
    count: c_uint,
    _library_options: Out<CUlibraryOption>,
    _library_values: Out<*mut c_void>,
    _library_count: c_uint,
) -> Answer {
    let out = out.required()?;
    let count = usize::try_from(count).map_err(|_too_many| CUresult::INVALID_VALUE)?;
    // SAFETY: *pointers*: the caller's arrays have as many entries as it says.
    let logs = unsafe { Logs::read(options, values, count) }?;
    let bytes = turn.read_file(path)?;
    let target = turn.code_target(FIRST_DEVICE)?;
    // SAFETY: a whole file, with a NUL behind it; kept until it is read.
    let source = unsafe { Source::at(bytes.as_ptr()) };
    let image = source.ok_or(CUresult::INVALID_IMAGE).and_then(|source| source.read(target));
    // SAFETY: *pointers*: the caller's buffers are as large as it says, and the call hasn't ended.
    unsafe { logs.write(image.as_ref().err().copied()) };
    out.write(turn.add_library(image.map(Arc::new))?);
    Ok(())
}

/// Waits for the work of the contexts in which it is loaded (measured: it waits for its own running kernel, and
/// returns at once where it was never used).
pub(crate) fn library_unload(turn: &mut Turn<'_>, library: CUlibrary) -> Answer {
    turn.check_capture()?;
    let key = turn.library(library)?;
    for (context, _) in turn.library_data(key)?.modules.clone() {
        turn.complete_context(context)?;
    }
    // While code of the caller ran, another thread may have unloaded it.
    if turn.library(library)? != key {
        return Err(CUresult::INVALID_HANDLE);
    }
    let by = turn.site;
    let Some(ended) = turn.state.code.libraries.remove(key, by, Ending::Destroyed) else {
        return Err(turn.broken("library"));
    };
    for (_, module) in ended.modules {
        turn.state.end_module(module, by, Ending::Destroyed);
    }
    for kernel in ended.kernels {
        turn.state.code.kernels.remove(kernel, by, Ending::Destroyed);
    }
    Ok(())
}

pub(crate) fn library_kernel(
    turn: &mut Turn<'_>,
    out: Out<CUkernel>,
    library: CUlibrary,
    name: In<c_char>,
) -> Answer {
    let out = out.required()?;
    let key = turn.library(library)?;
    let name = name.text().ok_or(CUresult::INVALID_VALUE)?;
    let data = turn.library_data(key)?;
    let kernels = &data.image.as_ref().map_err(|status| *status)?.kernels;
    let index = kernels.iter().position(|kernel| kernel.name.as_bytes() == name);
    let kernel = index.and_then(|index| data.kernels.get(index)).ok_or(CUresult::NOT_FOUND)?;
    out.write(CUkernel::from_addr(kernel.raw()));
    Ok(())
}

pub(crate) fn library_kernel_count(
    turn: &mut Turn<'_>,
    count: Out<c_uint>,
    library: CUlibrary,
) -> Answer {
    let count = count.required()?;
    let key = turn.library(library)?;
    let data = turn.library_data(key)?;
    let kernels = data.image.as_ref().map_err(|status| *status)?.kernels.len();
    count.write(c_uint::try_from(kernels).unwrap_or(c_uint::MAX));
    Ok(())
}

/// As many as the caller has room for.
pub(crate) fn library_kernels(
    turn: &mut Turn<'_>,
    kernels: Out<CUkernel>,
    count: c_uint,
    library: CUlibrary,
) -> Answer {
    let kernels = kernels.required()?;
    let key = turn.library(library)?;
    let room = usize::try_from(count).map_err(|_too_many| CUresult::INVALID_VALUE)?;
    let data = turn.library_data(key)?;
    data.image.as_ref().map_err(|status| *status)?;
    let list: Vec<_> =
        data.kernels.iter().take(room).map(|kernel| CUkernel::from_addr(kernel.raw())).collect();
    // SAFETY: *pointers*: the caller's array has room for as many as it says.
    unsafe { kernels.write_all(&list) };
    Ok(())
}

pub(crate) fn library_module(
    turn: &mut Turn<'_>,
    out: Out<CUmodule>,
    library: CUlibrary,
) -> Answer {
    let out = out.required()?;
    let key = turn.library(library)?;
    let context = turn.current()?;
    turn.not_lost()?;
    out.write(CUmodule::from_addr(turn.library_module_in(key, context)?.raw()));
    Ok(())
}

/// One of the two answers may be left out, not both.
pub(crate) fn library_global(
    turn: &mut Turn<'_>,
    address: Out<CUdeviceptr>,
    bytes: Out<usize>,
    library: CUlibrary,
    name: In<c_char>,
) -> Answer {
    if address.is_null() && bytes.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    let key = turn.library(library)?;
    let context = turn.current()?;
    turn.not_lost()?;
    let module = turn.library_module_in(key, context)?;
    turn.write_global(address, bytes, module, name)
}

pub(crate) fn kernel_function(
    turn: &mut Turn<'_>,
    out: Out<CUfunction>,
    kernel: CUkernel,
) -> Answer {
    let out = out.required()?;
    let key = turn.kernel(kernel)?;
    let context = turn.current()?;
    turn.not_lost()?;
    out.write(CUfunction::from_addr(turn.kernel_in(key, context)?.raw()));
    Ok(())
}

pub(crate) fn kernel_library(turn: &mut Turn<'_>, out: Out<CUlibrary>, kernel: CUkernel) -> Answer {
    let out = out.required()?;
    let key = turn.kernel(kernel)?;
    out.write(CUlibrary::from_addr(turn.kernel_data(key)?.library.raw()));
    Ok(())
}

/// The name is the driver's, and there as long as the library is.
pub(crate) fn kernel_name(
    turn: &mut Turn<'_>,
    out: Out<*const c_char>,
    kernel: CUkernel,
) -> Answer {
    let out = out.required()?;
    let key = turn.kernel(kernel)?;
    out.write(turn.kernel_data(key)?.code.name.as_ptr());
    Ok(())
}

/// Needs a context (measured), whichever.
pub(crate) fn kernel_param_info(
    turn: &mut Turn<'_>,
    kernel: CUkernel,
    index: usize,
    offset: Out<usize>,
    size: Out<usize>,
) -> Answer {
    let offset = offset.required()?;
    let key = turn.kernel(kernel)?;
    turn.current()?;
    write_param(turn.kernel_data(key)?.code.info()?, index, offset, size)
}

pub(crate) fn kernel_param_count(
    turn: &mut Turn<'_>,
    kernel: CUkernel,
    count: Out<usize>,
) -> Answer {
    let count = count.required()?;
    let key = turn.kernel(kernel)?;
    let info = turn.kernel_data(key)?.code.info()?;
    count.write(info.params.as_ref().ok_or(CUresult::MISSING)?.len());
    Ok(())
}

pub(crate) fn kernel_attribute(
    turn: &mut Turn<'_>,
    value: Out<c_int>,
    attribute: CUfunction_attribute,
    kernel: CUkernel,
    device: CUdevice,
) -> Answer {
    let value = value.required()?;
    let key = turn.kernel(kernel)?;
    let device = turn.state.device_index(device)?;
    let architecture = turn.code_target(device)?.architecture;
    let data = turn.kernel_data(key)?;
    let attributes = Attributes {
        image: &data.code.image,
        kernel: data.code.info()?,
        own: None,
        kernels: data.settings.get(&device),
        architecture,
    };
    value.write(attributes.get(attribute)?);
    Ok(())
}

pub(crate) fn kernel_set_attribute(
    turn: &mut Turn<'_>,
    attribute: CUfunction_attribute,
    value: c_int,
    kernel: CUkernel,
    device: CUdevice,
) -> Answer {
    let key = turn.kernel(kernel)?;
    let device = turn.state.device_index(device)?;
    let data = turn.state.code.kernels.get_mut(key).ok_or(CUresult::INVALID_HANDLE)?;
    let settings: &mut Settings = data.settings.entry(device).or_default();
    settings.set(data.code.info()?, attribute, value)
}

/// A preference, of which nothing shows.
pub(crate) fn kernel_set_cache_config(
    turn: &mut Turn<'_>,
    kernel: CUkernel,
    config: CUfunc_cache,
    device: CUdevice,
) -> Answer {
    turn.kernel(kernel)?;
    turn.state.device_index(device)?;
    if config.0 > CUfunc_cache::CU_FUNC_CACHE_PREFER_EQUAL.0 {
        return Err(CUresult::INVALID_VALUE);
    }
    Ok(())
}
