//! Functions of modules.
//!
//! Source: CUDA Driver API 13.x, "Execution Control".

use cuhold_driver_sys::ffi::*;

use super::{
    Function,
    image::KernelInfo,
    setting::{Attributes, Settings},
};
use crate::world::{Answer, Key, Out, Turn};

impl Turn<'_> {
    /// The live function with this handle.
    pub(super) fn function(&mut self, raw: CUfunction) -> Result<Key<Function>, CUresult> {
        self.find(|state| &state.code.functions, raw.addr(), CUresult::INVALID_HANDLE)
    }

    /// The function that an argument names which may be a function or a kernel; a kernel's in `context`, or in the
    /// current one.
    pub(super) fn function_or_kernel(
        &mut self,
        raw: CUfunction,
        context: Option<Key<crate::context::Context>>,
    ) -> Result<Key<Function>, CUresult> {
        let Some(kernel) = self.state.code.kernels.find(raw.addr()) else {
            return self.function(raw);
        };
        let context = match context {
            Some(context) => context,
            None => self.current()?,
        };
        self.kernel_in(kernel, context)
    }

    /// A function's attributes.
    pub(super) fn attributes_of(&mut self, key: Key<Function>) -> Result<Attributes<'_>, CUresult> {
        let context = self.function_data(key)?.context;
        let device = self.device_of_context(context)?;
        let architecture = self.code_target(device)?.architecture;
        let function = self.function_data(key)?;
        let kernel = function.kernel.and_then(|kernel| self.state.code.kernels.get(kernel));
        Ok(Attributes {
            image: &function.code.image,
            kernel: function.code.info()?,
            own: Some(&function.settings),
            kernels: kernel.and_then(|kernel| kernel.settings.get(&device)),
            architecture,
        })
    }
}

/// Answers where a parameter lies. An image without parameter records doesn't say: *missing*.
pub(super) fn write_param(
    info: &KernelInfo,
    index: usize,
    offset: Out<usize>,
    size: Out<usize>,
) -> Answer {
    let params = info.params.as_ref().ok_or(CUresult::MISSING)?;
    let param = params.get(index).ok_or(CUresult::INVALID_VALUE)?;
    offset.write(param.offset);
    size.write(param.size);
    Ok(())
}

pub(crate) fn function_attribute(
    turn: &mut Turn<'_>,
    value: Out<c_int>,
    attribute: CUfunction_attribute,
    function: CUfunction,
) -> Answer {
    let value = value.required()?;
    let key = turn.function(function)?;
    turn.not_lost()?;
    value.write(turn.attributes_of(key)?.get(attribute)?);
    Ok(())
}

pub(crate) fn function_set_attribute(
    turn: &mut Turn<'_>,
    function: CUfunction,
    attribute: CUfunction_attribute,
    value: c_int,
) -> Answer {
    let key = turn.function(function)?;
    turn.not_lost()?;
    let data = turn.function_data_mut(key)?;
    let mut settings: Settings = std::mem::take(&mut data.settings);
    let answer = data.code.info().and_then(|info| settings.set(info, attribute, value));
    data.settings = settings;
    answer
}

/// A preference, of which nothing shows.
pub(crate) fn function_set_cache_config(
    turn: &mut Turn<'_>,
    function: CUfunction,
    config: CUfunc_cache,
) -> Answer {
    turn.function(function)?;
    turn.not_lost()?;
    if config.0 > CUfunc_cache::CU_FUNC_CACHE_PREFER_EQUAL.0 {
        return Err(CUresult::INVALID_VALUE);
    }
    Ok(())
}

pub(crate) fn function_module(
    turn: &mut Turn<'_>,
    module: Out<CUmodule>,
    function: CUfunction,
) -> Answer {
    let module = module.required()?;
    if function.is_null() {
        return Err(CUresult::INVALID_VALUE);
    }
    let key = turn.function(function)?;
    module.write(CUmodule::from_addr(turn.function_data(key)?.module.raw()));
    Ok(())
}

/// The name is the driver's, and there as long as the module is.
pub(crate) fn function_name(
    turn: &mut Turn<'_>,
    name: Out<*const c_char>,
    function: CUfunction,
) -> Answer {
    let name = name.required()?;
    let key = turn.function(function)?;
    name.write(turn.function_data(key)?.code.name.as_ptr());
    Ok(())
}

pub(crate) fn function_param_info(
    turn: &mut Turn<'_>,
    function: CUfunction,
    index: usize,
    offset: Out<usize>,
    size: Out<usize>,
) -> Answer {
    let offset = offset.required()?;
    let key = turn.function(function)?;
    write_param(turn.function_data(key)?.code.info()?, index, offset, size)
}

pub(crate) fn function_param_count(
    turn: &mut Turn<'_>,
    function: CUfunction,
    count: Out<usize>,
) -> Answer {
    let count = count.required()?;
    let key = turn.function(function)?;
    let info = turn.function_data(key)?.code.info()?;
    count.write(info.params.as_ref().ok_or(CUresult::MISSING)?.len());
    Ok(())
}

pub(crate) fn function_is_loaded(
    turn: &mut Turn<'_>,
    state: Out<CUfunctionLoadingState>,
    function: CUfunction,
) -> Answer {
    let state = state.required()?;
    let key = turn.function(function)?;
    state.write(match turn.function_data(key)?.is_loaded {
        true => CUfunctionLoadingState::CU_FUNCTION_LOADING_STATE_LOADED,
        false => CUfunctionLoadingState::CU_FUNCTION_LOADING_STATE_UNLOADED,
    });
    Ok(())
}

pub(crate) fn function_load(turn: &mut Turn<'_>, function: CUfunction) -> Answer {
    let key = turn.function(function)?;
    turn.function_data_mut(key)?.is_loaded = true;
    Ok(())
}
