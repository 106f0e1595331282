//! Messages and files between two processes, over a Unix socket: what names pools, buffers and events, and a user's own.
//!
//! A message is a frame (`wire.rs`) with files beside it. Files arrive as descriptors of this process's own that its
//! children don't inherit; whatever becomes of their message, they are closed unless they are given out.
//!
//! The same socket tells when the other process ends: the system closes its end then ([`PeerWatch`]).

use super::{
    export::ExportedPool,
    wire::{self, BufferDescriptor, FILES_MAX, HEADER, Header, Kind, PoolDescriptor},
};
use cuhold_handles::{Errno, Error, EventHandle, ExportedEvent, Result};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};
use std::{
    io::{IoSlice, IoSliceMut},
    mem::{self, MaybeUninit},
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

/// What came from the other process.
#[derive(Debug)]
#[non_exhaustive]
pub enum Message {
    /// A pool, to be [imported](crate::ImportedPool::import_exported).
    Pool(ExportedPool),
    /// Memory of a pool that came before, to be [imported](crate::ImportedPool::import_buffer).
    Buffer(BufferDescriptor),
    /// An event, to be [imported](cuhold_handles::Event::import).
    Event(EventHandle),
    /// A user's own.
    Bytes {
        /// What was sent.
        bytes: Vec<u8>,
        /// The files that were sent with it.
        files: Vec<OwnedFd>,
    },
}

/// One end of a connection between two processes.
///
/// Its operations make system calls and none of the driver's; sending and receiving block the thread. Files are closed
/// by the standard library, which drops what that answers.
///
/// # Examples
/// ```
/// # use cuhold_memory::{Buffer, ImportedPool, IpcChannel, Pool, PoolOptions, handles::{Device, Driver}};
/// # use cuhold_driver_sim::{Sim, SimOptions};
/// # let sim = Sim::new();
/// # let other = Driver::from_api(sim.other_process(SimOptions::default()));
/// # let device = Device::with_driver(&Driver::from_api(sim), 0)?;
/// # let stream = device.new_stream()?;
/// let (mut here, mut there) = IpcChannel::pair()?;
/// let pool = Pool::new(&device, PoolOptions::default().shareable())?;
/// here.send_pool(&pool.export()?)?;
/// let buffer = Buffer::from_slice_in(&pool, &stream, &[1_u32, 2, 3])?;
/// let exported = buffer.export(&pool)?;
/// here.send_buffer(exported.descriptor())?;
/// // In the other process:
/// let device = Device::with_driver(&other, 0)?;
/// let pool = ImportedPool::receive(&device, &mut there)?;
/// let imported = pool.import_buffer::<u32>(&there.receive_buffer()?, &device.new_stream()?)?;
/// assert_eq!(imported.to_vec()?, [1, 2, 3]);
/// # drop((imported, pool));
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[derive(Debug)]
pub struct IpcChannel {
    socket: UnixStream,
    /// What of the next message is here already.
    bytes: Vec<u8>,
    files: Vec<OwnedFd>,
    /// More files came with the next message than any has, and were closed.
    is_flooded: bool,
    /// Something else than a message came: where the next one begins isn't known.
    is_broken: bool,
}

impl From<UnixStream> for IpcChannel {
    fn from(socket: UnixStream) -> Self {
        let (bytes, files) = (Vec::new(), Vec::new());
        Self { socket, bytes, files, is_flooded: false, is_broken: false }
    }
}

impl IpcChannel {
    /// Two ends of a new connection, for a child process, or for tests.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::System`](cuhold_handles::ErrorKind::System): no more files can be opened.
    pub fn pair() -> Result<(Self, Self)> {
        let (one, other) = UnixStream::pair().map_err(|error| system("socketpair", &error))?;
        Ok((one.into(), other.into()))
    }

    /// The socket.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// How long [`receive`](Self::receive) waits for the next piece of a message; `None`: for good.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::System`](cuhold_handles::ErrorKind::System), such as for no time at all.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> Result<()> {
        self.socket.set_read_timeout(timeout).map_err(|error| system("setsockopt", &error))
    }

    /// Sends what another process imports the pool by.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`send_bytes`](Self::send_bytes).
    pub fn send_pool(&mut self, pool: &ExportedPool) -> Result<()> {
        self.send(pool.descriptor().kind(), &pool.descriptor().sent(), &[pool.as_fd()])
    }

    /// Sends what another process imports the memory by. The memory is the sender's to keep alive until the other is done
    /// with it.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`send_bytes`](Self::send_bytes).
    pub fn send_buffer(&mut self, buffer: &BufferDescriptor) -> Result<()> {
        self.send(Kind::Buffer, &buffer.sent(), &[])
    }

    /// Sends what another process opens the event by. The token is the sender's to keep until the other is done with the
    /// event.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`send_bytes`](Self::send_bytes).
    pub fn send_event(&mut self, event: &ExportedEvent) -> Result<()> {
        self.send(Kind::Event, &event.handle().to_bytes(), &[])
    }

    /// Sends bytes of the user's own, at most 65,536, and up to 16 files, which stay the caller's: what another process
    /// imports physical memory by, for one.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// More bytes or files are refused; [`ErrorKind::System`](cuhold_handles::ErrorKind::System) with what the system
    /// answered: `EPIPE` where the other process has ended. What was sent by then may be part of a message, so that
    /// nothing more is sent.
    pub fn send_bytes(&mut self, bytes: &[u8], files: &[BorrowedFd<'_>]) -> Result<()> {
        self.send(Kind::Bytes, bytes, files)
    }

    fn send(&mut self, kind: Kind, sent: &[u8], files: &[BorrowedFd<'_>]) -> Result<()> {
        let frame = wire::frame(kind, files.len(), sent)?;
        self.check_whole()?;
        let mut rest = &frame[..];
        let mut files = Some(files).filter(|files| !files.is_empty());
        while !rest.is_empty() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if let Some(files) = files
                && !control.push(SendAncillaryMessage::ScmRights(files))
            {
                return Err(Error::state("the files of a message have no room beside it"));
            }
            match sendmsg(&self.socket, &[IoSlice::new(rest)], &mut control, SendFlags::NOSIGNAL) {
                // The files went with the first byte.
                Ok(count) => {
                    files = None;
                    rest = rest.get(count..).unwrap_or_default();
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => {
                    self.is_broken = rest.len() < frame.len();
                    return Err(answered("sendmsg", errno));
                }
            }
        }
        Ok(())
    }

    /// Waits for the next message; `None`: the other process has closed its end, or has ended.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// - [`ErrorKind::System`](cuhold_handles::ErrorKind::System) with what the system answered; after a timeout the rest
    ///   of the message can still be received;
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): what came is no message of this library, or another
    ///   number of files came with it; they are closed;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): the other process ended in the middle of a message; or
    ///   nothing can be received any more, after one of these.
    pub fn receive(&mut self) -> Result<Option<Message>> {
        self.check_whole()?;
        if !self.fill(HEADER)? {
            return Ok(None);
        }
        let header = self.or_break(|channel| Header::read(&channel.bytes))?;
        self.fill(header.frame_length())?;
        self.or_break(|channel| {
            if channel.is_flooded {
                let text = format!(
                    "files: more than the {FILES_MAX} that a message may have came with one"
                );
                return Err(Error::argument(text));
            }
            let (bytes, files) = (mem::take(&mut channel.bytes), mem::take(&mut channel.files));
            message(&bytes, files)
        })
        .map(Some)
    }

    /// Receives memory of a pool.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`receive`](Self::receive); [`ErrorKind::State`](cuhold_handles::ErrorKind::State) where something else came,
    /// which is lost, or the other process has ended.
    pub fn receive_buffer(&mut self) -> Result<BufferDescriptor> {
        match self.receive()? {
            Some(Message::Buffer(buffer)) => Ok(buffer),
            other => Err(instead("a buffer", other.as_ref())),
        }
    }

    /// Receives an event.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`receive_buffer`](Self::receive_buffer).
    pub fn receive_event(&mut self) -> Result<EventHandle> {
        match self.receive()? {
            Some(Message::Event(event)) => Ok(event),
            other => Err(instead("an event", other.as_ref())),
        }
    }

    /// Receives a pool, which isn't imported yet.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`receive_buffer`](Self::receive_buffer).
    pub fn receive_pool(&mut self) -> Result<ExportedPool> {
        match self.receive()? {
            Some(Message::Pool(pool)) => Ok(pool),
            other => Err(instead("a pool", other.as_ref())),
        }
    }

    /// What tells when the other process ends. It has a descriptor of its own, and lives as long as it likes.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::System`](cuhold_handles::ErrorKind::System): no more files can be opened.
    pub fn watch(&self) -> Result<PeerWatch> {
        let socket = self.socket.as_fd().try_clone_to_owned();
        socket.map(PeerWatch).map_err(|error| system("fcntl", &error))
    }

    fn check_whole(&self) -> Result<()> {
        if self.is_broken {
            return Err(Error::state("the connection broke off in the middle of a message"));
        }
        Ok(())
    }

    /// After what fails in here, nothing more can be received; files that came are closed.
    fn or_break<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let result = read(self);
        if result.is_err() {
            self.is_broken = true;
            self.files.clear();
        }
        result
    }

    /// Receives until so many bytes of the message are here. `false`: there is no message, and the other end is closed.
    fn fill(&mut self, count: usize) -> Result<bool> {
        while self.bytes.len() < count {
            match self.receive_some(count.saturating_sub(self.bytes.len())) {
                Ok(0) | Err(rustix::io::Errno::CONNRESET) if self.bytes.is_empty() => {
                    return Ok(false);
                }
                Ok(0) | Err(rustix::io::Errno::CONNRESET) => {
                    return self.or_break(|_| {
                        Err(Error::state("the other process ended in the middle of a message"))
                    });
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(answered("recvmsg", errno)),
            }
        }
        Ok(true)
    }

    fn receive_some(&mut self, count: usize) -> Result<usize, rustix::io::Errno> {
        let mut piece = vec![0; count];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut piece)];
        let received = recvmsg(&self.socket, into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        // Of what had no room the system has closed the rest. Those that are here aren't kept until the message is whole.
        if received.flags.contains(ReturnFlags::CTRUNC) || self.files.len() > FILES_MAX {
            self.is_flooded = true;
            self.files.clear();
        }
        self.bytes.extend(piece.get(..received.bytes).unwrap_or_default());
        Ok(received.bytes)
    }
}

/// What a whole frame and the files beside it are.
fn message(frame: &[u8], files: Vec<OwnedFd>) -> Result<Message> {
    let (header, sent) = wire::opened(frame)?;
    if header.files != files.len() {
        return Err(Error::argument(format!(
            "files: {} came with a message that says {}",
            files.len(),
            header.files
        )));
    }
    let none = |files: &[OwnedFd]| match files {
        [] => Ok(()),
        _ => Err(Error::argument(format!("files: {} with a message that has none", files.len()))),
    };
    Ok(match header.kind {
        Kind::Pool | Kind::HostPool => {
            let [file] = <[OwnedFd; 1]>::try_from(files).map_err(|files| {
                Error::argument(format!("files: {} with a pool, which has one", files.len()))
            })?;
            let pool = if header.kind == Kind::HostPool {
                PoolDescriptor::read_host(sent)?
            } else {
                PoolDescriptor::read(sent)?
            };
            Message::Pool(ExportedPool::new(pool, file))
        }
        Kind::Buffer => {
            none(&files)?;
            Message::Buffer(BufferDescriptor::read(sent)?)
        }
        Kind::Event => {
            none(&files)?;
            Message::Event(wire::event(sent)?)
        }
        Kind::Bytes => Message::Bytes { bytes: sent.to_vec(), files },
    })
}

#[cold]
fn instead(wanted: &str, message: Option<&Message>) -> Error {
    let came = match message {
        None => return Error::state(format!("the other process ended before it sent {wanted}")),
        Some(Message::Pool(_)) => "a pool",
        Some(Message::Buffer(_)) => "a buffer",
        Some(Message::Event(_)) => "an event",
        Some(Message::Bytes { .. }) => "bytes",
    };
    Error::state(format!("{came} came where {wanted} was to come"))
}

#[cold]
fn answered(call: &'static str, errno: rustix::io::Errno) -> Error {
    Error::system(call, Errno(errno.raw_os_error()))
}

#[cold]
fn system(call: &'static str, error: &std::io::Error) -> Error {
    Error::system(call, Errno(error.raw_os_error().unwrap_or_default()))
}

/// Tells whether the process at the other end of a connection has ended, or closed its end, which is the same to see.
///
/// It doesn't take what was sent before. Another process that holds the same end, a child of the other for one, keeps
/// it from being seen.
///
/// # Examples
/// ```
/// # use cuhold_memory::IpcChannel;
/// let (here, there) = IpcChannel::pair()?;
/// let watch = here.watch()?;
/// assert!(!watch.has_ended()?);
/// drop(there);
/// assert!(watch.has_ended()?);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[derive(Debug)]
pub struct PeerWatch(OwnedFd);

impl PeerWatch {
    /// Whether it has ended.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::System`](cuhold_handles::ErrorKind::System) with what the system answered.
    pub fn has_ended(&self) -> Result<bool> {
        self.wait(Duration::ZERO)
    }

    /// Waits until it has ended, at most so long; says whether it has. Blocks the thread.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// As [`has_ended`](Self::has_ended).
    pub fn wait(&self, timeout: Duration) -> Result<bool> {
        let mut asked = [PollFd::new(&self.0, PollFlags::RDHUP)];
        let begun = Instant::now();
        loop {
            // What is longer than the system can count is for good.
            let left = Timespec::try_from(timeout.saturating_sub(begun.elapsed())).ok();
            match poll(&mut asked, left.as_ref()) {
                Ok(count) => return Ok(count > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(answered("poll", errno)),
            }
        }
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<IpcChannel>();
    shared::<PeerWatch>();
};
