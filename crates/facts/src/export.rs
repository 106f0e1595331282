//! What another process exports: a driver doesn't open what its own process exported, so a probe needs one beside it.
//!
//! A real driver's other process is this program again, which exports, says the handle and waits for the end of its
//! input: that of the probe's process.

#![expect(unsafe_code, reason = "exporting is driver calls")]

use std::{
    io::{self, Read as _, Write as _},
    process::Child,
};
#[cfg(unix)]
use std::{
    io::{BufRead as _, BufReader},
    os::fd::{FromRawFd as _, OwnedFd},
    process::{Command, Stdio},
};

use clap::ValueEnum;
use cuhold_driver_sys::ffi::*;

#[cfg(unix)]
use crate::socket;
use crate::{
    ctx::{Ctx, Subject},
    host::HostMemory,
    run::Target,
    setup::Made,
};

/// A handle as it goes from one process to another.
pub(crate) type Handle = [c_char; 64];

/// What another process exported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exported {
    /// The handle; of memory of a pool, what it is imported by.
    pub(crate) handle: Handle,
    /// Of a pool: its file, to be closed by the probe; else -1.
    pub(crate) file: c_int,
}

/// What a process exports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[expect(clippy::exhaustive_enums, reason = "the driver knows no more")]
pub enum Export {
    /// A mebibyte of a context's memory, which begins with a page of one word.
    Memory,
    /// An event that was never recorded.
    Event,
    /// A pool of the device's memory, and a mebibyte of it, which begins as above.
    Pool,
    /// The same of the host's first node.
    HostPool,
}

const FILE: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

impl Export {
    /// What exported memory holds.
    pub(crate) const WORD: u32 = 0x00c0_ffee;

    /// Exports it from a driver that has to outlive those that open it.
    pub(crate) fn make(self, c: &Ctx) -> Made<Exported> {
        c.current()?;
        let handle = match self {
            Self::Memory => {
                let (stream, memory) = (c.stream()?, c.memory(1 << 20)?);
                write_word(c, memory, stream)?;
                let mut handle = CUipcMemHandle::default();
                must!(c.cuIpcGetMemHandle(&raw mut handle, memory));
                handle.reserved
            }
            Self::Event => {
                let event = c.event_with(SHARED)?;
                let mut handle = CUipcEventHandle::default();
                must!(c.cuIpcGetEventHandle(&raw mut handle, event));
                handle.reserved
            }
            Self::Pool | Self::HostPool => return self.make_pool(c),
        };
        Ok(Exported { handle, file: -1 })
    }

    fn make_pool(self, c: &Ctx) -> Made<Exported> {
        let mut props = CUmemPoolProps { handleTypes: FILE, ..c.pool_props()? };
        if self == Self::HostPool {
            props.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST_NUMA;
        }
        let mut pool = CUmemoryPool::NULL;
        must!(c.cuMemPoolCreate(&raw mut pool, &raw const props));
        let stream = c.stream()?;
        let memory = c.pool_memory(1 << 20, pool, stream)?;
        match self {
            Self::HostPool => HostMemory::at(memory, 1024).fill(Self::WORD),
            _ => write_word(c, memory, stream)?,
        }
        let mut file: c_int = -1;
        must!(c.cuMemPoolExportToShareableHandle((&raw mut file).cast(), pool, FILE, 0));
        let mut data = CUmemPoolPtrExportData::default();
        must!(c.cuMemPoolExportPointer(&raw mut data, memory));
        Ok(Exported { handle: data.reserved.map(u8::cast_signed), file })
    }

    /// As the program takes it as an argument.
    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Event => "event",
            Self::Pool => "pool",
            Self::HostPool => "host-pool",
        }
    }

    /// Has another process export it, which ends with its input: when the second value is dropped, or killed.
    #[cfg(unix)]
    pub(crate) fn by_process(self, target: &Target) -> io::Result<(Exported, Beside)> {
        use std::os::{fd::IntoRawFd as _, unix::net::UnixStream};
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(std::env::current_exe()?);
        target.name_to(&mut command);
        command.args(["--export", self.name()]);
        let input = Stdio::from(OwnedFd::from(theirs));
        let streams = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = streams.spawn()?;
        // The other end of its input is to be held by this process alone.
        drop(command);
        let output = process.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let said = || io::Error::other(line.trim().to_owned());
        let handle = from_hex(line.trim()).ok_or_else(said)?;
        let file = match self {
            Self::Pool | Self::HostPool => socket::receive(&ours)?.into_raw_fd(),
            Self::Memory | Self::Event => -1,
        };
        Ok((Exported { handle, file }, Beside { process, _input: ours.into() }))
    }

    /// Elsewhere there are no files to send.
    #[cfg(not(unix))]
    pub(crate) fn by_process(self, _: &Target) -> io::Result<(Exported, Beside)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// What the process does that [`by_process`](Self::by_process) starts.
    ///
    /// # Errors
    /// Where the driver can't be loaded, or exports nothing; the text says why.
    pub(crate) fn alone(self, subject: Subject) -> io::Result<()> {
        let made = self.make(&Ctx::new(subject, None, false));
        let made = made.map_err(|failure| io::Error::other(failure.to_string()));
        let mut out = io::stdout().lock();
        match &made {
            Ok(exported) => writeln!(out, "{}", to_hex(&exported.handle))?,
            Err(error) => writeln!(out, "{error}")?,
        }
        out.flush()?;
        #[cfg(unix)]
        if let Ok(Exported { file, .. }) = made
            && file >= 0
        {
            // SAFETY: the driver gave the number out for this process to close.
            let file = unsafe { OwnedFd::from_raw_fd(file) };
            socket::send(io::stdin(), &file)?;
        }
        // The end of the input is that of the process that opens it.
        io::stdin().read_to_end(&mut Vec::new()).map(drop)
    }
}

/// A process that exports something, until it is ended.
#[derive(Debug)]
pub(crate) struct Beside {
    process: Child,
    /// The other end of its input: at its end it ends too.
    #[cfg(unix)]
    _input: OwnedFd,
}

impl Beside {
    /// Ends it at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        // Refused where it has ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Fills memory's first page with the word that is looked for.
fn write_word(c: &Ctx, memory: CUdeviceptr, stream: CUstream) -> Made<()> {
    let from = HostMemory::filled(1024, Export::WORD);
    must!(c.cuMemcpyHtoDAsync_v2(memory, from.ptr(), from.bytes(), stream));
    c.wait_for(stream)
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
