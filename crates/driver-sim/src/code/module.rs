//! Modules.
//!
//! Source: CUDA Driver API 13.x, "Module Management".

#![expect(unsafe_code, reason = "an image is a pointer without a length")]

use std::sync::Arc;

use cuhold_driver_sys::ffi::*;

use super::{Module, image::Image, jit::Logs, load::Source};
use crate::{
    audit::ViolationKind,
    world::{Answer, Ending, In, Key, Out, Turn},
};

impl Turn<'_> {
    /// The live module with this handle.
    fn module(&mut self, raw: CUmodule) -> Result<Key<Module>, CUresult> {
        self.find(|state| &state.code.modules, raw.addr(), CUresult::INVALID_HANDLE)
    }

    fn module_data(&self, key: Key<Module>) -> Result<&Module, CUresult> {
        self.state.code.modules.get(key).ok_or(CUresult::INVALID_HANDLE)
    }

    /// Reads an image for a device.
    pub(super) fn read_image(
        &self,
        image: In<c_void>,
        device: usize,
    ) -> Result<Arc<Image>, CUresult> {
        if image.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        // SAFETY: *pointers*: the caller gave an image; it is read before the call ends.
        let source = unsafe { Source::at(image.as_ptr().cast()) };
        let source = source.ok_or(CUresult::INVALID_IMAGE)?;
        source.read(self.code_target(device)?).map(Arc::new)
    }

    /// The bytes of a file that a path argument names, with a NUL behind them.
    pub(super) fn read_file(&self, path: In<c_char>) -> Result<Vec<u8>, CUresult> {
        let path = path.text().ok_or(CUresult::INVALID_VALUE)?;
        let path = String::from_utf8(path).map_err(|_not_text| CUresult::FILE_NOT_FOUND)?;
        let mut bytes = std::fs::read(path).map_err(|_no_file| CUresult::FILE_NOT_FOUND)?;
        bytes.push(0);
        Ok(bytes)
    }
}

/// What every load needs first: where the answer goes, the current context and its device.
fn load(turn: &mut Turn<'_>, out: Out<CUmodule>, image: In<c_void>) -> Answer {
    let out = out.required()?;
    let context = turn.current()?;
    turn.not_lost()?;
    let device = turn.device_of_context(context)?;
    let image = turn.read_image(image, device)?;
    let key = turn.load_module(context, image, None)?;
    out.write(CUmodule::from_addr(key.raw()));
    Ok(())
}

pub(crate) fn module_load(turn: &mut Turn<'_>, out: Out<CUmodule>, image: In<c_void>) -> Answer {
    load(turn, out, image)
}

pub(crate) fn module_load_ex(
    turn: &mut Turn<'_>,
    out: Out<CUmodule>,
    image: In<c_void>,
    count: c_uint,
    options: Out<CUjit_option>,
    values: Out<*mut c_void>,
) -> Answer {
    let count = usize::try_from(count).map_err(|_too_many| CUresult::INVALID_VALUE)?;
    // SAFETY: *pointers*: the caller's arrays have as many entries as it says.
    let logs = unsafe { Logs::read(options, values, count) }?;
    let answer = load(turn, out, image);
    // SAFETY: *pointers*: the caller's buffers are as large as it says, and the call hasn't ended.
    unsafe { logs.write(answer.err()) };
    answer
}

pub(crate) fn module_load_fat(
    turn: &mut Turn<'_>,
    out: Out<CUmodule>,
    image: In<c_void>,
) -> Answer {
    load(turn, out, image)
}

pub(crate) fn module_load_file(
    turn: &mut Turn<'_>,
    out: Out<CUmodule>,
    path: In<c_char>,
) -> Answer {
    let out = out.required()?;
    let context = turn.current()?;
    turn.not_lost()?;
    let bytes = turn.read_file(path)?;
    let device = turn.device_of_context(context)?;
    let target = turn.code_target(device)?;
    // SAFETY: a whole file, with a NUL behind it; kept until it is read.
    let source = unsafe { Source::at(bytes.as_ptr()) };
    let image = source.ok_or(CUresult::INVALID_IMAGE)?.read(target)?;
    let key = turn.load_module(context, Arc::new(image), None)?;
    out.write(CUmodule::from_addr(key.raw()));
    Ok(())
}

/// Waits for the work of the module's context (measured). A library's module isn't the caller's to unload.
pub(crate) fn module_unload(turn: &mut Turn<'_>, module: CUmodule) -> Answer {
    turn.not_lost()?;
    turn.check_capture()?;
    let key = turn.module(module)?;
    let (context, library) = {
        let data = turn.module_data(key)?;
        (data.context, data.library)
    };
    if library.is_some() {
        return Err(CUresult::NOT_PERMITTED);
    }
    turn.complete_context(context)?;
    // While code of the caller ran, another thread may have unloaded it.
    if turn.module(module)? != key {
        return Err(CUresult::INVALID_HANDLE);
    }
    let by = turn.site;
    turn.state.end_module(key, by, Ending::Destroyed);
    Ok(())
}

pub(crate) fn module_function(
    turn: &mut Turn<'_>,
    out: Out<CUfunction>,
    module: CUmodule,
    name: In<c_char>,
) -> Answer {
    let out = out.required()?;
    let key = turn.module(module)?;
    turn.not_lost()?;
    let name = name.text().ok_or(CUresult::INVALID_VALUE)?;
    let kernels = &turn.module_data(key)?.image.kernels;
    let index = kernels.iter().position(|kernel| kernel.name.as_bytes() == name);
    let index = index.ok_or(CUresult::NOT_FOUND)?;
    let function = turn.module_kernel(key, index, None)?;
    turn.function_data_mut(function)?.is_loaded = true;
    out.write(CUfunction::from_addr(function.raw()));
    Ok(())
}

/// One of the two answers may be left out, not both.
pub(crate) fn module_global(
    turn: &mut Turn<'_>,
    address: Out<CUdeviceptr>,
    bytes: Out<usize>,
    module: CUmodule,
    name: In<c_char>,
) -> Answer {
    if address.is_null() && bytes.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    let key = turn.module(module)?;
    turn.not_lost()?;
    turn.write_global(address, bytes, key, name)
}

impl Turn<'_> {
    /// Answers where a variable of a module lies. One that starts with an address would need a linker: *missing*.
    pub(super) fn write_global(
        &self,
        address: Out<CUdeviceptr>,
        bytes: Out<usize>,
        module: Key<Module>,
        name: In<c_char>,
    ) -> Answer {
        let name = name.text().ok_or(CUresult::INVALID_VALUE)?;
        let module = self.module_data(module)?;
        let mut variables = module.image.variables.iter().zip(&module.variables);
        let found = variables.find(|(variable, _)| variable.name.as_bytes() == name);
        let (variable, place) = found.ok_or(CUresult::NOT_FOUND)?;
        if variable.initial.is_none() {
            return Err(CUresult::MISSING);
        }
        address.write(*place);
        bytes.write(usize::try_from(variable.size_bytes).unwrap_or(usize::MAX));
        Ok(())
    }
}

pub(crate) fn module_function_count(
    turn: &mut Turn<'_>,
    count: Out<c_uint>,
    module: CUmodule,
) -> Answer {
    let count = count.required()?;
    let key = turn.module(module)?;
    let kernels = turn.module_data(key)?.image.kernels.len();
    count.write(c_uint::try_from(kernels).unwrap_or(c_uint::MAX));
    Ok(())
}

/// As many as the caller has room for. They may not be loaded yet.
pub(crate) fn module_functions(
    turn: &mut Turn<'_>,
    functions: Out<CUfunction>,
    count: c_uint,
    module: CUmodule,
) -> Answer {
    let functions = functions.required()?;
    let key = turn.module(module)?;
    let kernels = turn.module_data(key)?.image.kernels.len();
    let room = usize::try_from(count).map_err(|_too_many| CUresult::INVALID_VALUE)?;
    let mut list = Vec::new();
    for index in 0..kernels.min(room) {
        list.push(CUfunction::from_addr(turn.module_kernel(key, index, None)?.raw()));
    }
    // SAFETY: *pointers*: the caller's array has room for as many as it says.
    unsafe { functions.write_all(&list) };
    Ok(())
}

/// The driver's default since CUDA 12: code is loaded when it is needed. Null isn't refused but written to (measured).
pub(crate) fn module_loading_mode(turn: &mut Turn<'_>, mode: Out<CUmoduleLoadingMode>) -> Answer {
    if mode.is_null() {
        turn.violate(ViolationKind::Crash, None, "a null pointer");
    }
    mode.required()?.write(CUmoduleLoadingMode::CU_MODULE_LAZY_LOADING);
    Ok(())
}
