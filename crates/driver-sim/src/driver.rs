//! The driver as a whole: initialization, version, error names, symbols, and the log of failures.
//!
//! Source: CUDA Driver API 13.x, "Initialization", "Version Management", "Error Handling", "Driver Entry Point Access",
//! "Error Log Management Functions".

#![expect(unsafe_code, reason = "writes into buffers of the caller")]

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::CString,
    fmt::Write as _,
};

use cuhold_driver_sys::{Function, Version, ffi::*};

use crate::{
    audit::CallSite,
    world::{Answer, In, Out, SIMULATED, Turn},
};

/// The driver keeps the last so many lines (a choice; the documentation names no number).
const LINES_MAX: usize = 256;

/// A dump is never longer, in bytes (documented).
const DUMP_MAX: usize = 25_600;

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
    text.write(turn.state.log.c_text(found));
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

/// Any flags are taken, although they are documented to be 0 (measured).
pub(crate) fn logs_current(
    turn: &mut Turn<'_>,
    iterator_out: Out<CUlogIterator>,
    _flags: c_uint,
) -> Answer {
    iterator_out.required()?.write(turn.state.log.end());
    Ok(())
}

/// Writes the lines after the iterator (all of them if it is null) as text, and moves the iterator behind them.
pub(crate) fn logs_dump_to_memory(
    turn: &mut Turn<'_>,
    iterator: Out<CUlogIterator>,
    buffer: Out<c_char>,
    size: Out<usize>,
    flags: c_uint,
) -> Answer {
    let (buffer, size) = (buffer.required()?, size.required()?);
    if flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let room = size.read().unwrap_or(0).min(DUMP_MAX);
    let from = iterator.read().unwrap_or(0);
    let Some(text) = turn.state.log.text_after(from, room) else {
        size.write(0);
        return Err(CUresult::INVALID_VALUE);
    };
    if !text.is_empty() {
        // SAFETY: the caller says in `size` how large its buffer is; `room` isn't more.
        unsafe { buffer.write_text(&text, room) };
    }
    size.write(text.len());
    if !iterator.is_null() {
        iterator.write(turn.state.log.end());
    }
    Ok(())
}

/// The driver's log: a line for each call that failed, and the texts that were handed out as C strings.
#[derive(Debug, Default)]
pub(crate) struct Log {
    first: CUlogIterator,
    lines: VecDeque<String>,
    /// Handed out as pointers that stay valid as long as the driver.
    texts: BTreeMap<&'static str, CString>,
}

impl Log {
    pub(crate) fn append(&mut self, site: CallSite, status: CUresult) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        let mut line = String::new();
        // Writing to a String can't fail.
        if writeln!(line, "[CUDA][E] {} returned {status}", site.call).is_ok() {
            self.lines.push_back(line);
        }
    }

    /// The iterator behind the last line.
    fn end(&self) -> CUlogIterator {
        let len = CUlogIterator::try_from(self.lines.len()).unwrap_or(CUlogIterator::MAX);
        self.first.wrapping_add(len)
    }

    /// The newest lines after `from` that fit into `room` bytes with a NUL; `None` if there are lines and not even
    /// the newest fits.
    fn text_after(&self, from: CUlogIterator, room: usize) -> Option<String> {
        let skip = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let mut taken = Vec::new();
        let mut bytes = 1;
        for line in self.lines.iter().skip(skip).rev() {
            bytes += line.len();
            if bytes > room {
                break;
            }
            taken.push(line.as_str());
        }
        let any = self.lines.len() > skip;
        taken.reverse();
        (!any || !taken.is_empty()).then(|| taken.concat())
    }

    /// A text of the status table as a C string that lives as long as the driver.
    fn c_text(&mut self, text: &'static str) -> *const c_char {
        self.texts.entry(text).or_insert_with(|| CString::new(text).unwrap_or_default()).as_ptr()
    }
}
