//! The driver's log: a line for each call that failed, kept for a while, dumped when asked, and handed to callbacks.
//!
//! Source: CUDA Driver API 13.x, "Error Log Management Functions"; the number of lines from the CUDA C++ Programming
//! Guide, "Error Log Management".

#![expect(unsafe_code, reason = "writes into buffers of the caller and calls its functions")]

use std::{
    collections::VecDeque,
    ffi::{CString, OsString},
    fmt::Write as _,
    fs,
};

use cuhold_driver_sys::ffi::*;

use crate::{
    audit::{CallSite, Leak, ObjectKind},
    world::{Answer, Ending, In, Key, Out, Table, Turn, UserData, Values},
};

/// The driver keeps the last so many lines (documented).
const LINES_MAX: usize = 100;

/// A dump to memory is never longer, in bytes (documented).
const DUMP_MAX: usize = 25_600;

/// A function of the caller that is told each new line.
#[derive(Clone, Copy, Debug)]
struct Callback {
    function: CUlogsCallback,
    data: UserData,
}

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    first: CUlogIterator,
    lines: VecDeque<String>,
    callbacks: Table<Callback>,
}

impl Log {
    pub(crate) fn new(values: Values) -> Self {
        let callbacks = Table::new(ObjectKind::LogCallback, values);
        Self { first: 0, lines: VecDeque::new(), callbacks }
    }

    /// Callbacks that weren't unregistered.
    pub(crate) fn leaks(&self) -> impl Iterator<Item = Leak> {
        self.callbacks.leaks()
    }

    /// Adds a line for a call that failed; without its end of line, it is what a callback is told.
    fn append(&mut self, site: CallSite, status: CUresult) -> String {
        let mut line = String::new();
        // Writing to a String can't fail.
        write!(line, "[CUDA][E] {} returned {status}", site.call).unwrap_or_default();
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        self.lines.push_back(format!("{line}\n"));
        line
    }

    /// The iterator behind the last line.
    fn end(&self) -> CUlogIterator {
        let len = CUlogIterator::try_from(self.lines.len()).unwrap_or(CUlogIterator::MAX);
        self.first.wrapping_add(len)
    }

    /// The lines after `from`.
    fn after(&self, from: CUlogIterator) -> impl DoubleEndedIterator<Item = &str> {
        let skip = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.lines.range(skip.min(self.lines.len())..).map(String::as_str)
    }

    /// The newest lines after `from` that fit into `room` bytes with a NUL; `None` if there are lines and not even
    /// the newest fits.
    fn text_after(&self, from: CUlogIterator, room: usize) -> Option<String> {
        let mut taken = Vec::new();
        let mut bytes = 1;
        for line in self.after(from).rev() {
            bytes += line.len();
            if bytes > room {
                break;
            }
            taken.push(line);
        }
        taken.reverse();
        (!taken.is_empty() || self.after(from).next().is_none()).then(|| taken.concat())
    }
}

impl Turn<'_> {
    /// Takes this call's failure into the log and tells the callbacks, with nothing locked. What fails inside code of
    /// the caller they aren't told, so that none is called by itself (a choice).
    pub(crate) fn log_failure(&mut self, status: CUresult) {
        let site = self.site;
        let line = self.state.log.append(site, status);
        if self.is_inside_callback() {
            return;
        }
        for key in self.state.log.callbacks.keys(|_| true) {
            // The one before may have taken its time, and another thread this one out.
            if let Some(callback) = self.state.log.callbacks.get(key).copied() {
                self.tell(callback, &line);
            }
        }
    }

    fn tell(&mut self, callback: Callback, line: &str) {
        let (Some(function), Ok(text)) = (callback.function, CString::new(line)) else { return };
        let mut text = text.into_bytes_with_nul();
        let (at, len) = (text.as_mut_ptr().cast::<c_char>(), line.len());
        self.unlocked(|| {
            // SAFETY: *calls back*: the caller promised that the function may be called so; the text is its own copy.
            unsafe { function(callback.data.0, CUlogLevel::CU_LOG_LEVEL_ERROR, at, len) };
        });
    }

    /// The live callback with this handle.
    fn log_callback(&mut self, handle: CUlogsCallbackHandle) -> Result<Key<Callback>, CUresult> {
        self.find(|state| &state.log.callbacks, handle.addr(), CUresult::INVALID_VALUE)
    }
}

/// The handle may be left out; then the callback stays for good.
pub(crate) fn register(
    turn: &mut Turn<'_>,
    function: CUlogsCallback,
    data: Out<c_void>,
    out: Out<CUlogsCallbackHandle>,
) -> Answer {
    if function.is_none() {
        return Err(CUresult::INVALID_VALUE);
    }
    let (made, data) = (turn.site, UserData(data.as_ptr()));
    let key = turn.state.log.callbacks.insert(made, Callback { function, data });
    out.write(CUlogsCallbackHandle::from_addr(key.raw()));
    Ok(())
}

pub(crate) fn unregister(turn: &mut Turn<'_>, handle: CUlogsCallbackHandle) -> Answer {
    let key = turn.log_callback(handle)?;
    let by = turn.site;
    turn.state.log.callbacks.remove(key, by, Ending::Destroyed);
    Ok(())
}

/// Any flags are taken, although they are documented to be 0 (measured).
pub(crate) fn current(
    turn: &mut Turn<'_>,
    iterator_out: Out<CUlogIterator>,
    _flags: c_uint,
) -> Answer {
    iterator_out.required()?.write(turn.state.log.end());
    Ok(())
}

/// Writes the lines after the iterator (all of them if it is null) as text, and moves the iterator behind them.
pub(crate) fn dump_to_memory(
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

/// The same, into a file, which is made anew (a choice). One that can't be written is an invalid value: the only failure
/// that is documented.
pub(crate) fn dump_to_file(
    turn: &mut Turn<'_>,
    iterator: Out<CUlogIterator>,
    path: In<c_char>,
    flags: c_uint,
) -> Answer {
    let path = path.text().ok_or(CUresult::INVALID_VALUE)?;
    if flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let from = iterator.read().unwrap_or(0);
    let text: String = turn.state.log.after(from).collect();
    fs::write(native(path)?, text).map_err(|_unwritable| CUresult::INVALID_VALUE)?;
    if !iterator.is_null() {
        iterator.write(turn.state.log.end());
    }
    Ok(())
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere not every path is one")]
fn native(path: Vec<u8>) -> Result<OsString, CUresult> {
    use std::os::unix::ffi::OsStringExt as _;
    Ok(OsString::from_vec(path))
}

#[cfg(not(unix))]
fn native(path: Vec<u8>) -> Result<OsString, CUresult> {
    let path = String::from_utf8(path).map_err(|_not_text| CUresult::INVALID_VALUE)?;
    Ok(path.into())
}
