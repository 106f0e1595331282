//! Which devices reach a pool's memory.
//!
//! Taking access away while a peer's kernel still uses the memory faults both devices, whatever is queued behind that kernel
//! (measured). So access ends in two steps:
//!
//! ```text
//!   removed, or the pool's end ──► all work of the peers' primary contexts, and of told streams, is waited for ──► taken away
//! ```
//!
//! A pool that ends with memory out of it is destroyed without that: the driver keeps it until the memory is freed, and
//! its peers reach the memory as long (measured to be harmless).

#![expect(unsafe_code, reason = "calls the driver's pool functions")]

use super::{Pool, PoolPlace, attributes};
use crate::order::check_home;
use cuhold_handles::{
    AsStream as _, Context, Device, Driver, Error, Result, Stream, Users,
    driver_sys::{Calls, Failure, ffi::*, mutant},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
};

const READ_WRITE: CUmemAccess_flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
const NONE: CUmemAccess_flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE;

/// The devices that were let reach a pool's memory through its handles.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// With their primary contexts.
    granted: Mutex<BTreeMap<CUdevice, Context>>,
    /// Streams of other contexts that use the memory.
    streams: Mutex<Vec<Stream>>,
    /// Whether a thread is changing them.
    changing: AtomicBool,
}

/// The right to change a pool's peers, which one thread has at a time.
struct Changing<'a>(&'a AtomicBool);

impl<'a> Changing<'a> {
    fn begin(peers: &'a Peers) -> Result<Self> {
        if peers.changing.swap(true, Ordering::Acquire) {
            return Err(Error::state("another thread is changing the pool's peers"));
        }
        Ok(Self(&peers.changing))
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Peers {
    /// Takes all access away, a device at a time, if nothing is out of the pool any more.
    ///
    /// Calls `cuMemPoolGetAttribute`, `cuMemPoolGetAccess`, `cuMemPoolSetAccess` if there ever was a peer.
    pub(super) fn revoke_all(&self, calls: Calls<'_>, pool: CUmemoryPool) -> Result<(), Failure> {
        let granted: Vec<_> = self.granted.lock().keys().copied().collect();
        if granted.is_empty() {
            return Ok(());
        }
        let used = CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
        if attributes::get(calls, pool, used)? > 0 && !mutant::is_out("peer-outlived") {
            return Ok(());
        }
        for device in granted {
            if has_access(calls, pool, device)? {
                set(calls, pool, &[(device, NONE)])?;
            }
        }
        Ok(())
    }
}

/// What is to become of a pool's peers.
struct Change {
    add: Vec<Device>,
    remove: BTreeSet<CUdevice>,
}

impl Pool {
    /// The ordinals of the devices that reach the pool's memory beside its own, as the driver tells, whoever let them.
    ///
    /// Calls `cuDeviceGetCount`, `cuMemPoolGetAccess`.
    ///
    /// # Errors
    /// The calls' failures.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Pool, PoolOptions, handles::{Device, Driver}};
    /// # use cuhold_driver_sim::{Sim, SimOptions};
    /// # let driver = Driver::from_api(Sim::with_options(SimOptions::with_devices(2)));
    /// let (device, peer) = (Device::with_driver(&driver, 0)?, Device::with_driver(&driver, 1)?);
    /// let pool = Pool::new(&device, PoolOptions::default())?;
    /// pool.add_peer(&peer)?;
    /// assert_eq!(pool.peers()?, [1]);
    /// pool.set_peers(&[])?;
    /// assert_eq!(pool.peers()?, []);
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemPoolGetAccess")]
    pub fn peers(&self) -> Result<Vec<u32>> {
        let found = self.ask_peers()?;
        Ok(found.into_iter().filter_map(|device| u32::try_from(device).ok()).collect())
    }

    /// Asks the driver which other devices reach the memory.
    fn ask_peers(&self) -> Result<BTreeSet<CUdevice>> {
        let driver = self.driver();
        driver.check_callable()?;
        let count = CUdevice::try_from(driver.device_count()?).unwrap_or(CUdevice::MAX);
        let own = self.device().as_raw();
        self.neutral(|calls| {
            let mut found = BTreeSet::new();
            for device in (0..count).filter(|device| *device != own) {
                if has_access(calls, self.raw(), device)? {
                    found.insert(device);
                }
            }
            Ok(found)
        })
    }

    /// Makes these the devices that reach the pool's memory beside its own: one change, or none.
    ///
    /// Waits, where a device is removed, for all work of that device's primary context and of the streams that were
    /// [told](Self::used_on). Nobody may queue work there meanwhile that uses the memory.
    ///
    /// Calls `cuDeviceGetCount`, `cuDeviceCanAccessPeer`, `cuMemPoolGetAccess`, `cuMemPoolSetAccess`; where a device is
    /// removed `cuMemHostAlloc` and `cuMemFreeHost`, if others had let it reach the memory `cuDeviceGet` and `cuDevicePrimaryCtxRetain`, and
    /// for streams that were told `cuStreamIsCapturing`, `cuEventCreate`, `cuEventRecord`, `cuEventSynchronize`, `cuEventDestroy`.
    ///
    /// # Errors
    /// - [`ErrorKind::Argument`](cuhold_handles::ErrorKind::Argument): a device of another driver, the pool's own, or one
    ///   that can't reach its memory; a pool of managed memory, which every device reaches. The driver wasn't asked to
    ///   change anything;
    /// - [`ErrorKind::State`](cuhold_handles::ErrorKind::State): another thread is changing them, or a stream that was told is
    ///   being captured;
    /// - the calls' failures.
    ///
    /// The peers are then what they were; where only the capture mode couldn't be put back, the error is
    /// [completed](cuhold_handles::Error::completed).
    #[doc(alias = "cuMemPoolSetAccess")]
    pub fn set_peers(&self, peers: &[Device]) -> Result<()> {
        self.change(peers, |now, wanted| {
            let is_wanted = |device: &CUdevice| wanted.iter().any(|peer| peer.as_raw() == *device);
            let remove = now.iter().copied().filter(|device| !is_wanted(device)).collect();
            Change { add: missing(now, wanted), remove }
        })
    }

    /// Lets one more device reach the pool's memory: what is out of it, and what will be.
    ///
    /// Calls `cuDeviceGetCount`, `cuDeviceCanAccessPeer`, `cuMemPoolGetAccess`, `cuMemPoolSetAccess`.
    ///
    /// # Errors
    /// As [`set_peers`](Self::set_peers).
    ///
    /// # Examples
    /// ```
    /// # use cuhold_memory::{Pool, PoolOptions, handles::{Device, Driver}};
    /// # use cuhold_driver_sim::{Sim, SimOptions};
    /// # let mut options = SimOptions::with_devices(2);
    /// # options.peer_access = false;
    /// # let driver = Driver::from_api(Sim::with_options(options));
    /// let (device, peer) = (Device::with_driver(&driver, 0)?, Device::with_driver(&driver, 1)?);
    /// let pool = Pool::new(&device, PoolOptions::default())?;
    /// let error = pool.add_peer(&peer).unwrap_err();
    /// assert_eq!(error.to_string(), "peers: device 1 can't reach memory of device 0");
    /// # Ok::<(), cuhold_memory::handles::Error>(())
    /// ```
    #[doc(alias = "cuMemPoolSetAccess")]
    pub fn add_peer(&self, peer: &Device) -> Result<()> {
        self.change(std::slice::from_ref(peer), |now, wanted| Change {
            add: missing(now, wanted),
            remove: BTreeSet::new(),
        })
    }

    /// Keeps a device from reaching the pool's memory from now on. One that doesn't reach it is left alone.
    ///
    /// Waits as [`set_peers`](Self::set_peers).
    ///
    /// Calls `cuDeviceGetCount`, `cuMemPoolGetAccess`; for a peer also `cuMemHostAlloc`, `cuMemFreeHost`, `cuMemPoolSetAccess`; for
    /// streams that were told `cuStreamIsCapturing`, `cuEventCreate`,
    /// `cuEventRecord`, `cuEventSynchronize`, `cuEventDestroy`.
    ///
    /// # Errors
    /// As [`set_peers`](Self::set_peers).
    #[doc(alias = "cuMemPoolSetAccess")]
    pub fn remove_peer(&self, peer: &Device) -> Result<()> {
        self.change(std::slice::from_ref(peer), |now, wanted| Change {
            add: Vec::new(),
            remove: wanted
                .iter()
                .map(Device::as_raw)
                .filter(|device| now.contains(device))
                .collect(),
        })
    }

    /// Tells that work which was queued on this stream uses the pool's memory: work of another context than a device's
    /// primary one. The end of a peer's access waits for it then, and the pool's end. To be called after the work was queued.
    ///
    /// Calls nothing.
    ///
    /// # Errors
    /// A stream of another driver, or one that is borrowed without an owner.
    pub fn used_on(&self, stream: &Stream) -> Result<()> {
        self.driver().check_same(stream.driver(), "stream")?;
        check_home(stream)?;
        let deps = self.0.deps();
        {
            let mut streams = deps.peers.streams.lock();
            if !streams.iter().any(|known| known.id() == stream.id()) {
                streams.push(stream.clone());
            }
        }
        deps.users.used_on(stream.as_stream(), None)
    }

    fn change(
        &self,
        peers: &[Device],
        plan: impl FnOnce(&BTreeSet<CUdevice>, &[Device]) -> Change,
    ) -> Result<()> {
        let deps = self.0.deps();
        self.driver().check_callable()?;
        self.check_peers(peers)?;
        let _changing = Changing::begin(&deps.peers)?;
        let change = plan(&self.ask_peers()?, peers);
        self.check_reach(&change.add)?;
        if change.add.is_empty() && change.remove.is_empty() {
            return Ok(());
        }
        self.wait_for_peers(&change.remove, peers)?;
        // What waits for them at the pool's end is there before they may work (P6).
        let is_waited_for = !self.is_borrowed() && !mutant::is_out("peer-users");
        for peer in change.add.iter().filter(|_| is_waited_for) {
            deps.users.used_in(peer.context());
        }
        let context = |peer: &Device| (peer.as_raw(), peer.context().clone());
        deps.peers.granted.lock().extend(change.add.iter().map(context));
        let added = change.add.iter().map(|peer| (peer.as_raw(), READ_WRITE));
        let list: Vec<_> =
            added.chain(change.remove.iter().map(|device| (*device, NONE))).collect();
        self.neutral(|calls| set(calls, self.raw(), &list))?;
        deps.peers.granted.lock().retain(|device, _| !change.remove.contains(device));
        Ok(())
    }

    /// Refuses devices that can be nobody's peers here.
    fn check_peers(&self, peers: &[Device]) -> Result<()> {
        if self.place().is_managed() {
            return Err(Error::argument("peers: every device reaches managed memory"));
        }
        for peer in peers {
            self.driver().check_same(peer.driver(), "peers: a device")?;
            if peer.as_raw() == self.device().as_raw() {
                let own = peer.ordinal();
                return Err(Error::argument(format!("peers: device {own} is the pool's own")));
            }
        }
        Ok(())
    }

    /// Refuses devices that can't reach the pool's memory.
    fn check_reach(&self, peers: &[Device]) -> Result<()> {
        let driver = self.driver();
        if self.place() != PoolPlace::Device || mutant::is_out("peer-reach") {
            return Ok(());
        }
        let own = self.device();
        for peer in peers {
            let mut can: c_int = 0;
            // SAFETY: *pointers*: a live local.
            unsafe {
                driver.callable()?.cuDeviceCanAccessPeer(&raw mut can, peer.as_raw(), own.as_raw())
            }
            .map_err(|failure| driver.error(failure))?;
            if can == 0 {
                return Err(Error::argument(format!(
                    "peers: device {} can't reach memory of device {}",
                    peer.ordinal(),
                    own.ordinal()
                )));
            }
        }
        Ok(())
    }

    /// Waits for what may use the memory on these devices, and on the streams that were told.
    fn wait_for_peers(&self, devices: &BTreeSet<CUdevice>, named: &[Device]) -> Result<()> {
        if devices.is_empty() || mutant::is_out("peer-wait") {
            return Ok(());
        }
        let (driver, peers) = (self.driver(), &self.0.deps().peers);
        let waiting = Users::default();
        for device in devices {
            let granted = peers.granted.lock().get(device).cloned();
            let named = named.iter().find(|peer| peer.as_raw() == *device);
            match granted.or_else(|| named.map(|peer| peer.context().clone())) {
                Some(context) => waiting.used_in(&context),
                None => waiting.used_in(primary(driver, *device)?.context()),
            }
        }
        let streams = peers.streams.lock().clone();
        for stream in &streams {
            waiting.used_on(stream.as_stream(), None)?;
        }
        waiting.wait_here(driver)
    }
}

/// The devices of a list that don't reach the memory yet, each once.
fn missing(now: &BTreeSet<CUdevice>, wanted: &[Device]) -> Vec<Device> {
    let mut seen = now.clone();
    wanted.iter().filter(|peer| seen.insert(peer.as_raw())).cloned().collect()
}

/// A device that others let reach the memory.
fn primary(driver: &Driver, device: CUdevice) -> Result<Device> {
    let ordinal = u32::try_from(device)
        .map_err(|error| Error::state(format!("the driver told of device {device}: {error}")))?;
    Device::with_driver(driver, ordinal)
}

/// Whether a device reaches the pool's memory.
pub(crate) fn has_access(
    calls: Calls<'_>,
    pool: CUmemoryPool,
    device: CUdevice,
) -> Result<bool, Failure> {
    let (mut flags, mut place) = (NONE, CUmemLocation::device(device));
    // SAFETY: *handles*: the caller's pool; *pointers*: live locals.
    unsafe { calls.cuMemPoolGetAccess(&raw mut flags, pool, &raw mut place) }?;
    Ok(flags != NONE)
}

/// Lets these devices read and write the pool's memory: all of them or none.
pub(super) fn grant(
    calls: Calls<'_>,
    pool: CUmemoryPool,
    devices: &[CUdevice],
) -> Result<(), Failure> {
    let list: Vec<_> = devices.iter().map(|device| (*device, READ_WRITE)).collect();
    set(calls, pool, &list)
}

fn set(
    calls: Calls<'_>,
    pool: CUmemoryPool,
    list: &[(CUdevice, CUmemAccess_flags)],
) -> Result<(), Failure> {
    let entry = |(device, flags): &(CUdevice, CUmemAccess_flags)| CUmemAccessDesc {
        location: CUmemLocation::device(*device),
        flags: *flags,
    };
    let list: Vec<_> = list.iter().map(entry).collect();
    // SAFETY: *handles*: the caller's pool; *pointers*: a live list of that length.
    unsafe { calls.cuMemPoolSetAccess(pool, list.as_ptr(), list.len()) }
}
