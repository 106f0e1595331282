//! What another process exports: a driver doesn't open what its own process exported, so a probe needs one beside it.
//!
//! A real driver's other process is this program again, which exports, says the handle and waits for the end of its
//! input: that of the probe's process.

#![expect(unsafe_code, reason = "exporting is driver calls")]

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    process::{Command, Stdio},
};

use clap::ValueEnum;
use cuhold_driver_sys::ffi::*;

use crate::{
    ctx::{Ctx, Subject},
    host::{self, HostMemory},
    run::Target,
    setup::Made,
};

/// A handle as it goes from one process to another.
pub(crate) type Handle = [c_char; 64];

/// What a process exports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[expect(clippy::exhaustive_enums, reason = "the driver knows no more")]
pub enum Export {
    /// A mebibyte of a context's memory, which begins with a page of one word.
    Memory,
    /// An event that was never recorded.
    Event,
}

impl Export {
    /// What exported memory holds.
    pub(crate) const WORD: u32 = 0x00c0_ffee;

    /// Exports it from a driver that has to outlive those that open it.
    pub(crate) fn make(self, c: &Ctx) -> Made<Handle> {
        c.current()?;
        match self {
            Self::Memory => {
                let (stream, memory) = (c.stream()?, c.memory(1 << 20)?);
                let from = HostMemory::filled(1024, Self::WORD);
                must!(c.cuMemcpyHtoDAsync_v2(memory, from.ptr(), from.bytes(), stream));
                c.wait_for(stream)?;
                let mut handle = CUipcMemHandle::default();
                must!(c.cuIpcGetMemHandle(&raw mut handle, memory));
                Ok(handle.reserved)
            }
            Self::Event => {
                let event = c.event_with(SHARED)?;
                let mut handle = CUipcEventHandle::default();
                must!(c.cuIpcGetEventHandle(&raw mut handle, event));
                Ok(handle.reserved)
            }
        }
    }

    /// As the program takes it as an argument.
    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Event => "event",
        }
    }

    /// Has another process export it, which ends with this one.
    pub(crate) fn by_process(self, target: &Target) -> io::Result<Handle> {
        let mut command = Command::new(std::env::current_exe()?);
        target.name_to(&mut command);
        command.args(["--export", self.name()]);
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = streams.spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        // It keeps the other end of the input until this process ends.
        host::leak(child);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        from_hex(line.trim()).ok_or_else(|| io::Error::other(line.trim().to_owned()))
    }

    /// What the process does that [`by_process`](Self::by_process) starts.
    ///
    /// # Errors
    /// Where the driver can't be loaded, or exports nothing; the text says why.
    pub(crate) fn alone(self, subject: Subject) -> io::Result<()> {
        let made = self.make(&Ctx::new(subject, None, false));
        let handle = made.map_err(|failure| io::Error::other(failure.to_string()));
        let mut out = io::stdout().lock();
        match handle {
            Ok(handle) => writeln!(out, "{}", to_hex(&handle))?,
            Err(error) => writeln!(out, "{error}")?,
        }
        out.flush()?;
        // The end of the input is that of the process that opens it.
        io::stdin().read_to_end(&mut Vec::new()).map(drop)
    }
}

/// An event that may be exported.
pub(crate) const SHARED: CUevent_flags = CUevent_flags(
    CUevent_flags::CU_EVENT_INTERPROCESS.0 | CUevent_flags::CU_EVENT_DISABLE_TIMING.0,
);

fn to_hex(handle: &Handle) -> String {
    handle.iter().map(|byte| format!("{:02x}", byte.cast_unsigned())).collect()
}

fn from_hex(text: &str) -> Option<Handle> {
    let mut handle = [0; 64];
    if text.len() != 2 * handle.len() {
        return None;
    }
    for (i, byte) in handle.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?.cast_signed();
    }
    Some(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_being_said() {
        let mut handle = [0; 64];
        (handle[0], handle[63]) = (-1, 0x5a);
        assert_eq!(from_hex(&to_hex(&handle)), Some(handle));
        assert_eq!(from_hex("cuIpcGetMemHandle answered UNKNOWN"), None);
        assert_eq!(from_hex(&"zz".repeat(64)), None);
    }
}
