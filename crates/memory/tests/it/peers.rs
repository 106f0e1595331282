//! Which devices reach a pool's memory, and that none of them loses it while it works.

#![expect(unsafe_code, reason = "launches kernels, and asks the driver")]

use crate::raw;
use cuhold_driver_sim::SimOptions;
use cuhold_driver_sys::{Call, Fault, ffi::*};
use cuhold_handles::{
    Closed, Context, ContextFlags, Device, ErrorKind, EventOptions, Kernel, LaunchConfig, Stream,
};
use cuhold_memory::{Buffer, Pool, PoolOptions, PoolPlace};
use cuhold_testkit::{Kit, PTX, run_with};

const E: CUresult = CUresult(9001);

/// Runs a body with two devices that can reach each other's memory; else the test says that it is skipped.
fn run_peers(body: impl FnOnce(&Kit, &Device)) {
    run_with(SimOptions::with_devices(2), |t| {
        let Some(peer) = t.second_device() else { return };
        let mut can = 0;
        let (own, other) = (t.device().as_raw(), peer.as_raw());
        // SAFETY: *pointers*: a live local.
        unsafe { t.driver().calls().cuDeviceCanAccessPeer(&raw mut can, other, own) }.unwrap();
        if can == 0 {
            return t.skip("needs two devices that reach each other's memory");
        }
        body(t, &peer);
    });
}

fn pool(t: &Kit) -> Pool {
    Pool::new(t.device(), PoolOptions::default()).unwrap()
}

/// Kernels of a device: one that takes a while, one that writes.
struct Work {
    spin: Kernel,
    fill: Kernel,
}

impl Work {
    fn of(device: &Device) -> Self {
        let library = device.load(PTX).unwrap();
        Self { spin: library.kernel("spin").unwrap(), fill: library.kernel("fill").unwrap() }
    }

    /// Queues a write to the buffer behind work that takes a while. The stream is of the kernels' device.
    fn write_late(&self, stream: &Stream, buffer: &mut Buffer<u32>, value: u32) {
        let len = u32::try_from(buffer.len()).unwrap();
        // SAFETY: the parameter is (u64).
        unsafe { self.spin.launch(stream, LaunchConfig::for_len(1), (20_000_000_u64,)) }.unwrap();
        let config = LaunchConfig::for_len(len);
        // SAFETY: the parameters are (pointer, u32, u32); the tests keep the buffer until the work is done, or free it in order.
        unsafe { self.fill.launch(stream, config, (buffer, value, len)) }.unwrap();
    }
}

/// A pool with a peer, and a buffer of it that a stream of the peer's may use.
struct Shared {
    pool: Pool,
    buffer: Buffer<u32>,
    home: Stream,
    other: Stream,
    work: Work,
}

impl Shared {
    fn new(t: &Kit, peer: &Device) -> Self {
        Self::on(t, peer, peer.new_stream().unwrap())
    }

    /// With this stream of the peer's.
    fn on(t: &Kit, peer: &Device, other: Stream) -> Self {
        let (pool, home) = (pool(t), t.device().new_stream().unwrap());
        pool.add_peer(peer).unwrap();
        let buffer = Buffer::zeroed_in(&pool, &home, 100).unwrap();
        other.wait_event(&home.record_new(EventOptions::default()).unwrap()).unwrap();
        Self { pool, buffer, home, other, work: Work::of(peer) }
    }

    /// Queues a write of the peer's that takes a while.
    fn write_late(&mut self, value: u32) {
        self.work.write_late(&self.other, &mut self.buffer, value);
    }

    /// Orders the home stream behind the peer's work.
    fn join(&self) {
        let done = self.other.record_new(EventOptions::default()).unwrap();
        self.home.wait_event(&done).unwrap();
    }

    fn holds(&self, value: u32) {
        assert_eq!(self.buffer.to_vec().unwrap(), [value; 100]);
    }
}

#[test]
fn a_peer_s_kernel_writes_memory_of_the_pool() {
    run_peers(|t, peer| {
        let mut shared = Shared::new(t, peer);
        shared.write_late(7);
        shared.join();
        shared.holds(7);
    });
}

#[test]
fn a_pool_that_is_dropped_while_a_peer_s_kernel_runs_waits_for_it_on_the_reclaimer() {
    run_peers(|t, peer| {
        let mut shared = Shared::new(t, peer);
        shared.write_late(7);
        // Freed in the order of the peer's work, the only thing that a program can get right.
        shared.join();
        let Shared { pool, buffer, home, other, .. } = shared;
        drop(buffer);
        let ((), here) = t.calls(|| drop(pool));
        assert!(!here.contains(&"cuMemPoolSetAccess") && !here.contains(&"cuMemPoolDestroy"));
        other.synchronize().unwrap();
        home.synchronize().unwrap();
    });
}

#[test]
fn a_pool_s_end_waits_for_all_work_of_its_peers_before_it_takes_their_access_away() {
    run_peers(|t, peer| {
        let pool = pool(t);
        pool.add_peer(peer).unwrap();
        let by_hand = t.driver().reclaim().run_by_hand();
        assert_eq!(t.calls(|| drop(pool)).1, [""; 0]);
        let ((), calls) = t.calls(|| while by_hand.step() {});
        let at = |name| calls.iter().position(|call| *call == name).unwrap();
        assert!(at("cuMemFreeHost") < at("cuMemPoolSetAccess"), "{calls:?}");
        assert!(at("cuMemPoolSetAccess") < at("cuMemPoolDestroy"), "{calls:?}");
    });
}

#[test]
fn memory_that_was_given_away_stays_in_reach_of_its_pool_s_peers() {
    run_peers(|t, peer| {
        let Shared { pool, buffer, home, other, work } = Shared::new(t, peer);
        let (len, ptr) = (buffer.len(), buffer.into_raw().unwrap());
        assert_eq!(pool.close().unwrap(), Closed::Destroyed);
        // SAFETY: given away above, and nobody else frees it.
        let mut buffer = unsafe { Buffer::from_raw(&home, ptr, len) }.unwrap();
        work.write_late(&other, &mut buffer, 9);
        home.wait_event(&other.record_new(EventOptions::default()).unwrap()).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [9; 100]);
    });
}

#[test]
fn a_peer_is_removed_once_its_work_is_done() {
    run_peers(|t, peer| {
        let mut shared = Shared::new(t, peer);
        shared.write_late(7);
        shared.pool.remove_peer(peer).unwrap();
        assert_eq!(shared.pool.peers().unwrap(), []);
        shared.other.synchronize().unwrap();
        shared.holds(7);
        // It was waited for, so that nothing is left to do when the pool ends.
        drop(shared.buffer);
        shared.pool.close().unwrap();
    });
}

#[test]
fn work_of_another_context_is_waited_for_where_it_was_told() {
    run_peers(|t, peer| {
        let context = Context::new(peer, ContextFlags::default()).unwrap();
        let mut shared = Shared::on(t, peer, context.new_stream().unwrap());
        shared.write_late(7);
        shared.pool.used_on(&shared.other).unwrap();
        shared.pool.remove_peer(peer).unwrap();
        shared.other.synchronize().unwrap();
        shared.holds(7);
        let Shared { pool, buffer, other, .. } = shared;
        drop(buffer);
        pool.close().unwrap();
        drop(other);
        context.close().unwrap();
    });
}

#[test]
fn the_peers_of_a_shared_default_pool_are_those_that_the_driver_tells() {
    run_peers(|t, peer| {
        let default = Pool::default_of(t.device()).unwrap();
        raw::grant(&default, peer.as_raw());
        // Another handle, which never heard of it.
        let again = Pool::default_of(t.device()).unwrap();
        assert_eq!(again.peers().unwrap(), [1]);
        let ((), calls) = t.calls(|| again.set_peers(&[]).unwrap());
        assert!(calls.contains(&"cuMemPoolSetAccess"), "{calls:?}");
        assert_eq!(default.peers().unwrap(), []);
    });
}

#[test]
fn a_refused_change_leaves_the_peers_that_the_driver_tells() {
    run_peers(|t, peer| {
        let pool = pool(t);
        t.faults().arm(Fault::refused(E).on(Call::cuMemPoolSetAccess));
        assert!(pool.add_peer(peer).unwrap_err().is(E));
        t.faults().disarm();
        assert_eq!(pool.peers().unwrap(), []);
        pool.add_peer(peer).unwrap();
        t.faults().arm(Fault::refused(E).on(Call::cuMemPoolSetAccess));
        assert!(pool.set_peers(&[]).unwrap_err().is(E));
        t.faults().disarm();
        assert_eq!(pool.peers().unwrap(), [1]);
        t.faults().arm(Fault::done_but_failed(E).on(Call::cuMemPoolSetAccess));
        assert!(pool.remove_peer(peer).unwrap_err().is(E));
        t.faults().disarm();
        assert_eq!(pool.peers().unwrap(), []);
    });
}

#[test]
fn a_device_that_can_not_reach_the_memory_is_refused_by_name_and_nothing_changes() {
    let mut options = SimOptions::with_devices(3);
    options.peer_access = false;
    run_with(options, |t| {
        let Some(peer) = t.second_device() else { return };
        if t.sim().is_none() {
            return t.skip("needs devices that can't reach each other's memory");
        }
        let stream = t.device().new_stream().unwrap();
        let third = Device::with_driver(t.driver(), 2).unwrap();
        let pool = pool(t);
        let (error, calls) = t.calls(|| pool.set_peers(&[peer, third]).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert_eq!(error.to_string(), "peers: device 1 can't reach memory of device 0");
        assert!(!calls.contains(&"cuMemPoolSetAccess"), "{calls:?}");
        assert_eq!(pool.peers().unwrap(), []);
        let buffer = Buffer::from_slice_in(&pool, &stream, &[1, 2, 3]).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
    });
}

#[test]
fn several_peers_are_let_in_by_one_call_or_none() {
    run_with(SimOptions::with_devices(4), |t| {
        let Some(one) = t.second_device() else { return };
        if t.sim().is_none() {
            return t.skip("needs four devices that reach each other's memory");
        }
        let others = [2, 3].map(|ordinal| Device::with_driver(t.driver(), ordinal).unwrap());
        let [two, three] = &others;
        let pool = pool(t);
        let all = [one.clone(), two.clone(), one.clone()];
        let ((), calls) = t.calls(|| pool.set_peers(&all).unwrap());
        let count = |of: &str| calls.iter().filter(|call| **call == of).count();
        assert_eq!((count("cuMemPoolSetAccess"), count("cuDeviceCanAccessPeer")), (1, 2));
        assert_eq!(pool.peers().unwrap(), [1, 2]);
        // One goes and one comes, in one change.
        let ((), calls) = t.calls(|| pool.set_peers(&[two.clone(), three.clone()]).unwrap());
        assert_eq!(calls.iter().filter(|call| **call == "cuMemPoolSetAccess").count(), 1);
        assert_eq!(pool.peers().unwrap(), [2, 3]);
        // The second of two can't be asked about: nothing changes.
        let reach = Fault::refused(E).on(Call::cuDeviceCanAccessPeer);
        t.faults().arm(reach.nth(2));
        pool.set_peers(&[]).unwrap();
        assert!(pool.set_peers(&[one, three.clone()]).unwrap_err().is(E));
        t.faults().disarm();
        assert_eq!(pool.peers().unwrap(), []);
    });
}

#[test]
fn the_owner_is_nobody_s_peer_and_managed_memory_needs_none() {
    run_peers(|t, peer| {
        let pool = pool(t);
        let (error, calls) =
            t.calls(|| pool.set_peers(&[peer.clone(), t.device().clone()]).unwrap_err());
        assert_eq!(error.to_string(), "peers: device 0 is the pool's own");
        assert!(calls.is_empty(), "{calls:?}");
        let other = t.driver().isolated();
        let stranger = Device::with_driver(&other, 1).unwrap();
        let error = pool.add_peer(&stranger).unwrap_err();
        assert!(error.to_string().starts_with("peers: a device belongs to another driver"));
        drop(stranger);
        other.close().unwrap();
        let options = PoolOptions::default().place(PoolPlace::Managed);
        let Ok(managed) = Pool::new(t.device(), options) else { return };
        let error = managed.add_peer(peer).unwrap_err();
        assert_eq!(error.to_string(), "peers: every device reaches managed memory");
    });
}

#[test]
fn a_host_pool_is_reached_by_the_devices_that_it_is_let() {
    run_peers(|t, peer| {
        let options = PoolOptions::default().place(PoolPlace::Host);
        let pool = Pool::new(t.device(), options).unwrap();
        assert_eq!(pool.peers().unwrap(), []);
        let ((), calls) = t.calls(|| pool.add_peer(peer).unwrap());
        assert!(!calls.contains(&"cuDeviceCanAccessPeer"), "{calls:?}");
        assert_eq!(pool.peers().unwrap(), [1]);
        pool.close().unwrap();
    });
}

#[test]
fn peers_come_and_go_beside_global_captures_of_both_devices() {
    run_peers(|t, peer| {
        let captured = [t.device(), peer].map(|device| device.new_stream().unwrap());
        captured.iter().for_each(|stream| raw::begin(stream, raw::GLOBAL));
        let pool = pool(t);
        pool.add_peer(peer).unwrap();
        assert_eq!(pool.peers().unwrap(), [1]);
        pool.remove_peer(peer).unwrap();
        pool.add_peer(peer).unwrap();
        pool.close().unwrap();
        assert!(captured.iter().all(raw::is_captured));
        assert_eq!(raw::mode(t.driver()), raw::GLOBAL);
        captured.iter().for_each(raw::end);
    });
}

#[test]
fn a_pool_whose_peer_can_not_be_waited_for_stays() {
    run_peers(|t, peer| {
        let pool = pool(t);
        pool.add_peer(peer).unwrap();
        t.faults().arm(Fault::refused(E).on(Call::cuMemPoolSetAccess));
        let refused = pool.close().unwrap_err();
        t.faults().disarm();
        assert!(refused.error.is(E));
        // The driver wasn't asked to end it, so that the handle comes back.
        let pool = refused.value.unwrap();
        assert_eq!(pool.peers().unwrap(), [1]);
        assert_eq!(pool.close().unwrap(), Closed::Destroyed);
    });
}
