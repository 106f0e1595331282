//! The driver as a whole: initialization, version, error names, symbols. Its log is in `log.rs`.
//!
//! Source: CUDA Driver API 13.x, "Initialization", "Version Management", "Error Handling", "Driver Entry Point Access".

use std::{collections::BTreeMap, ffi::CString};

use cuhold_driver_sys::{Function, Version, ffi::*};

use crate::world::{Answer, In, Out, SIMULATED, Turn};

/// The texts that were handed out as C strings, which stay valid as long as the driver.
#[derive(Debug, Default)]
pub(crate) struct Texts(BTreeMap<&'static str, CString>);

impl Texts {
    /// A text of the status table as a C string.
    fn c_text(&mut self, text: &'static str) -> *const c_char {
        self.0.entry(text).or_insert_with(|| CString::new(text).unwrap_or_default()).as_ptr()
    }
}

pub(crate) fn init(turn: &mut Turn<'_>, flags: c_uint) -> Answer {
    if flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    if turn.state.devices.is_empty() {
        return Err(CUresult::NO_DEVICE);
    }
    turn.state.initialized = true;
    Ok(())
}

pub(crate) fn version(turn: &mut Turn<'_>, driver_version: Out<c_int>) -> Answer {
    driver_version.required()?.write(turn.state.options.driver_version.0);
    Ok(())
}

pub(crate) fn error_name(turn: &mut Turn<'_>, error: CUresult, text: Out<*const c_char>) -> Answer {
    error_text(turn, error.name().filter(|_| error != CUresult::MISSING), text)
}

pub(crate) fn error_string(
    turn: &mut Turn<'_>,
    error: CUresult,
    text: Out<*const c_char>,
) -> Answer {
    error_text(turn, error.description(), text)
}

/// An unknown code is refused *and* answered with null (documented).
fn error_text(
    turn: &mut Turn<'_>,
    found: Option<&'static str>,
    text: Out<*const c_char>,
) -> Answer {
    let text = text.required()?;
    let Some(found) = found else {
        text.write(std::ptr::null());
        return Err(CUresult::INVALID_VALUE);
    };
    text.write(turn.state.texts.c_text(found));
    Ok(())
}

/// The rule of the real function (measured): a version above the driver's is refused, and nothing written; a symbol
/// that isn't found is success with a null pointer and a status that says why.
pub(crate) fn proc_address(
    turn: &mut Turn<'_>,
    symbol: In<c_char>,
    pfn: Out<*mut c_void>,
    cuda_version: c_int,
    _flags: cuuint64_t,
    status: Out<CUdriverProcAddressQueryResult>,
) -> Answer {
    let (Some(symbol), pfn) = (symbol.text(), pfn.required()?) else {
        return Err(CUresult::INVALID_VALUE);
    };
    let version = Version(cuda_version);
    if version > turn.state.options.driver_version {
        return Err(CUresult::INVALID_VALUE);
    }
    let function = std::str::from_utf8(&symbol).ok().and_then(Function::by_name);
    let form = function.and_then(|function| function.form_at(version));
    let simulated = form.filter(|form| SIMULATED.contains(form)).zip(turn.state.options.symbols);
    pfn.write(simulated.map_or(std::ptr::null_mut(), |(form, resolve)| resolve(form)));
    status.write(if simulated.is_some() {
        CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS
    } else if function.is_some() && form.is_none() {
        CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
    } else {
        CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
    });
    Ok(())
}
