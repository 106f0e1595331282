//! What travels between processes, as bytes: a frame, and in it what names a pool, a buffer or an event.
//!
//! ```text
//!   0  4  "chIP"             8  2  number of files beside it     16  n  what is sent
//!   4  2  version (1)       10  2  0                           16+n  4  CRC-32 of all before
//!   6  2  kind              12  4  n
//!
//!   pool    40  identity 16, UUID of the device 16, most bytes 8 (0: not known)
//!   pool on a NUMA node of the host
//!           44  the same, the node 4
//!   buffer  96  identity of its pool 16, the driver's export 64, offset in bytes 8, size in bytes 8
//!   event   64  the driver's handle
//!   bytes    n  a user's own
//! ```
//!
//! Numbers are little-endian. Every field is checked when it is read: what is cut short, too long, of another version or
//! kind, or damaged is an `Err` that says which. A reader that doesn't know of pools on the host refuses them, as it must: it
//! would take them for a device's. The check sum finds damage, not malice: a peer is trusted with the memory
//! that it exports.

#![deny(clippy::arithmetic_side_effects)]

use crate::{layout, resource::Residence};
use cuhold_handles::{Error, EventHandle, Result};
use std::{fmt, ops::RangeBounds};

const MAGIC: [u8; 4] = *b"chIP";
const VERSION: u16 = 1;
/// The bytes in front of what is sent.
pub(super) const HEADER: usize = 16;
/// The bytes behind it.
const CHECK: usize = 4;
/// The most bytes of a user's own in one message.
pub(super) const BYTES_MAX: usize = 1 << 16;
/// The most files with one message.
pub(super) const FILES_MAX: usize = 16;

/// What a frame holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Pool,
    Buffer,
    Event,
    Bytes,
    HostPool,
}

impl Kind {
    const fn number(self) -> u16 {
        match self {
            Self::Pool => 1,
            Self::Buffer => 2,
            Self::Event => 3,
            Self::Bytes => 4,
            Self::HostPool => 5,
        }
    }

    fn of(number: u16) -> Result<Self> {
        [Self::Pool, Self::Buffer, Self::Event, Self::Bytes, Self::HostPool]
            .into_iter()
            .find(|kind| kind.number() == number)
            .ok_or_else(|| malformed(format!("kind {number}, and 1 to 5 are known")))
    }

    /// How many bytes are sent; `None` for a user's own.
    const fn length(self) -> Option<usize> {
        match self {
            Self::Pool => Some(PoolDescriptor::LENGTH),
            Self::Buffer => Some(BufferDescriptor::LENGTH),
            Self::Event => Some(64),
            Self::Bytes => None,
            Self::HostPool => Some(PoolDescriptor::HOST_LENGTH),
        }
    }
}

/// The beginning of a frame, read and checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) files: usize,
    length: usize,
}

impl Header {
    /// How many bytes the whole frame has.
    pub(super) fn frame_length(self) -> usize {
        HEADER.saturating_add(self.length).saturating_add(CHECK)
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        let magic: [u8; 4] = reader.array()?;
        if magic != MAGIC {
            return Err(malformed(format!("it begins with {magic:?} and not with {MAGIC:?}")));
        }
        let version = u16::from_le_bytes(reader.array()?);
        if version != VERSION {
            return Err(malformed(format!("version {version}, and {VERSION} is known")));
        }
        let kind = Kind::of(u16::from_le_bytes(reader.array()?))?;
        let files = usize::from(u16::from_le_bytes(reader.array()?));
        if files > FILES_MAX {
            return Err(malformed(format!("{files} files, and at most {FILES_MAX} are sent")));
        }
        let zero = u16::from_le_bytes(reader.array()?);
        if zero != 0 {
            return Err(malformed(format!("{zero} where version {VERSION} has 0")));
        }
        let length = u32::from_le_bytes(reader.array()?);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        match kind.length() {
            Some(expected) if length != expected => {
                Err(malformed(format!("{length} bytes are sent, and its kind has {expected}")))
            }
            None if length > BYTES_MAX => {
                Err(malformed(format!("{length} bytes are sent, and at most {BYTES_MAX} may be")))
            }
            _ => Ok(Self { kind, files, length }),
        }
    }
}

/// A whole frame around what is sent, which has the right length.
pub(super) fn frame(kind: Kind, files: usize, sent: &[u8]) -> Result<Vec<u8>> {
    let limit = kind.length().unwrap_or(BYTES_MAX);
    if sent.len() > limit {
        return Err(Error::argument(format!(
            "bytes: {}, and one message has at most {limit}",
            sent.len()
        )));
    }
    let (Ok(length), Ok(count)) = (u32::try_from(sent.len()), u16::try_from(files)) else {
        return Err(Error::argument("bytes: too many"));
    };
    if files > FILES_MAX {
        return Err(Error::argument(format!(
            "files: {files}, and one message has at most {FILES_MAX}"
        )));
    }
    let mut bytes = Vec::with_capacity(HEADER.saturating_add(sent.len()).saturating_add(CHECK));
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&kind.number().to_le_bytes());
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&0_u16.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(sent);
    let check = crc32(&bytes);
    bytes.extend_from_slice(&check.to_le_bytes());
    Ok(bytes)
}

/// What a whole frame holds, and how many files are to stand beside it.
pub(super) fn opened(bytes: &[u8]) -> Result<(Header, &[u8])> {
    let header = Header::read(bytes)?;
    let expected = header.frame_length();
    if bytes.len() != expected {
        return Err(malformed(format!("{} bytes, and it says {expected}", bytes.len())));
    }
    let mut reader = Reader(bytes);
    let checked = reader.take(expected.saturating_sub(CHECK))?;
    let check = u32::from_le_bytes(reader.array()?);
    let found = crc32(checked);
    if check != found {
        return Err(malformed(format!("its check sum is {found:#010x} and not {check:#010x}")));
    }
    Ok((header, checked.get(HEADER..).unwrap_or_default()))
}

fn opened_as(kind: Kind, bytes: &[u8]) -> Result<&[u8]> {
    let (header, sent) = opened(bytes)?;
    of_kind(header, kind, sent)
}

fn of_kind(header: Header, kind: Kind, sent: &[u8]) -> Result<&[u8]> {
    if header.kind == kind {
        return Ok(sent);
    }
    Err(malformed(format!("it holds a {:?}, and a {kind:?} is read", header.kind)))
}

#[cold]
fn malformed(what: String) -> Error {
    Error::argument(format!("bytes: not a message of this library: {what}"))
}

/// Reads from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| {
            malformed(format!("it ends {} bytes early", count.saturating_sub(self.0.len())))
        })?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N)?;
        taken.try_into().or(Err(Error::state("a slice of N bytes has N bytes")))
    }
}

/// The CRC-32 of Ethernet and zip: polynomial 0x04C11DB7, reflected.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { (crc >> 1) ^ 0xEDB8_8320 };
        }
    }
    !crc
}

/// What tells a pool from all others, in every process: 128 bits drawn at random when it is first exported.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolIdentity([u8; 16]);

impl PoolIdentity {
    pub(crate) const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for PoolIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for PoolIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What is told of an exported pool; its file travels beside it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PoolDescriptor {
    pub(crate) identity: PoolIdentity,
    pub(crate) device: [u8; 16],
    pub(crate) max_bytes: u64,
    /// The NUMA node of the host whose memory it holds; `None` for a device's.
    pub(crate) node: Option<i32>,
}

impl PoolDescriptor {
    const LENGTH: usize = 40;
    const HOST_LENGTH: usize = 44;

    /// What tells the pool from all others.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn identity(&self) -> PoolIdentity {
        self.identity
    }

    /// The UUID of the device whose memory it holds; for a pool of the host's memory that of the device which the exporter uses
    /// it with. Two processes may count devices differently; this is the same in all.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn device_uuid(&self) -> [u8; 16] {
        self.device
    }

    /// Where its memory lies: on its device, or on a NUMA node of the host.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn residence(&self) -> Residence {
        self.node.map_or(Residence::Device, Residence::HostNuma)
    }

    /// The most memory that it may hold, in bytes, where that is known.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn max_bytes(&self) -> Option<u64> {
        (self.max_bytes != 0).then_some(self.max_bytes)
    }

    /// The bytes to send.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// None that is known.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        frame(self.kind(), 0, &self.sent())
    }

    /// What was sent as these bytes.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) says what is wrong with the bytes: cut short, too
    /// long, of another version or kind, damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        match opened(bytes)? {
            (header, sent) if header.kind == Kind::HostPool => Self::read_host(sent),
            (header, sent) => Self::read(of_kind(header, Kind::Pool, sent)?),
        }
    }

    /// As what it is sent.
    pub(super) fn kind(&self) -> Kind {
        if self.node.is_some() { Kind::HostPool } else { Kind::Pool }
    }

    pub(super) fn sent(&self) -> Vec<u8> {
        let max_bytes = self.max_bytes.to_le_bytes();
        let node = self.node.map(i32::to_le_bytes);
        let node: &[u8] = node.as_ref().map_or(&[], |node| &node[..]);
        [&self.identity.0[..], &self.device[..], &max_bytes[..], node].concat()
    }

    pub(super) fn read(sent: &[u8]) -> Result<Self> {
        Self::read_from(&mut Reader(sent))
    }

    pub(super) fn read_host(sent: &[u8]) -> Result<Self> {
        let mut reader = Reader(sent);
        let pool = Self::read_from(&mut reader)?;
        let node = i32::from_le_bytes(reader.array()?);
        if node < 0 {
            return Err(malformed(format!("NUMA node {node}, and nodes are numbered from 0")));
        }
        Ok(Self { node: Some(node), ..pool })
    }

    fn read_from(reader: &mut Reader<'_>) -> Result<Self> {
        let identity = PoolIdentity(reader.array()?);
        if identity.0 == [0; 16] {
            return Err(malformed("the pool's identity is 0".to_owned()));
        }
        let device = reader.array()?;
        let max_bytes = u64::from_le_bytes(reader.array()?);
        Ok(Self { identity, device, max_bytes, node: None })
    }
}

/// What names memory of an exported pool to another process: plain bytes, which keep nothing alive.
///
/// # Examples
/// ```
/// # use cuhold_memory::{Buffer, BufferDescriptor, Pool, PoolOptions, handles::{Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// # let stream = device.new_stream()?;
/// let pool = Pool::new(&device, PoolOptions::default().shareable())?;
/// let exported_pool = pool.export()?;
/// let buffer = Buffer::<f32>::zeroed_in(&pool, &stream, 1000)?;
/// let exported = buffer.export(&pool)?;
/// let bytes = exported.descriptor().to_bytes()?;
/// let received = BufferDescriptor::from_bytes(&bytes)?;
/// assert_eq!(received.bytes(), 4000);
/// assert_eq!(received.pool(), exported_pool.descriptor().identity());
/// assert!(BufferDescriptor::from_bytes(&bytes[1..]).is_err());
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferDescriptor {
    pub(crate) pool: PoolIdentity,
    pub(crate) export: [u8; 64],
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl BufferDescriptor {
    const LENGTH: usize = 96;

    /// Which pool the memory is of.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn pool(&self) -> PoolIdentity {
        self.pool
    }

    /// The size of the memory in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What names a part of it, given in bytes: the memory is mapped as a whole, and the part is what is imported.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): a part beyond the end, or of no bytes.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Buffer, ImportedPool, Pool, PoolOptions, handles::{Device, Driver}};
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// # let stream = device.new_stream()?;
    /// # let pool = Pool::new(&device, PoolOptions::default().shareable())?;
    /// # let imported = ImportedPool::import(&device, pool.export()?)?;
    /// let buffer = Buffer::from_slice_in(&pool, &stream, &[1_u32, 2, 3])?;
    /// let exported = buffer.export(&pool)?;
    /// let last = exported.descriptor().slice(8..12)?;
    /// assert_eq!(imported.import_buffer::<u32>(&last, &stream)?.to_vec()?, [3]);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    pub fn slice(&self, bytes: impl RangeBounds<usize>) -> Result<Self> {
        let whole = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let (start, count) = layout::range_within(&bytes, whole)?;
        if count == 0 {
            return Err(Error::argument("bytes: no bytes are exported as no memory"));
        }
        let part =
            Self { offset: self.offset.saturating_add(start as u64), bytes: count as u64, ..*self };
        Ok(part)
    }

    /// The bytes to send.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// None that is known.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        frame(Kind::Buffer, 0, &self.sent())
    }

    /// What was sent as these bytes.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument) says what is wrong with the bytes: cut short, too
    /// long, of another version or kind, damaged, of no size or one that no memory has.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::read(opened_as(Kind::Buffer, bytes)?)
    }

    pub(super) fn sent(&self) -> Vec<u8> {
        let (offset, bytes) = (self.offset.to_le_bytes(), self.bytes.to_le_bytes());
        [&self.pool.0[..], &self.export[..], &offset[..], &bytes[..]].concat()
    }

    pub(super) fn read(sent: &[u8]) -> Result<Self> {
        let mut reader = Reader(sent);
        let (pool, export) = (PoolIdentity(reader.array()?), reader.array()?);
        let offset = u64::from_le_bytes(reader.array()?);
        let bytes = u64::from_le_bytes(reader.array()?);
        if bytes == 0 {
            return Err(malformed("memory of no bytes".to_owned()));
        }
        let end = offset.checked_add(bytes).and_then(|end| i64::try_from(end).ok());
        if end.is_none() {
            return Err(malformed(format!("{bytes} bytes behind {offset}, which no memory has")));
        }
        Ok(Self { pool, export, offset, bytes })
    }
}

/// The event that was sent as these bytes.
pub(super) fn event(sent: &[u8]) -> Result<EventHandle> {
    Reader(sent).array().map(EventHandle::from_bytes)
}
