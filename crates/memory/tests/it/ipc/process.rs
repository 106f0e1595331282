//! Several processes at work on one buffer: real ones on a real driver, and threads that are processes of one simulated
//! world on the simulated one.
//!
//! A real child is this binary again, with the same test, a role in its environment and its end of a connection as its
//! standard input.

#![expect(unsafe_code, reason = "launches kernels")]

use super::close;
use cuhold_driver_sim::{Sim, SimOptions};
use cuhold_handles::{Device, Driver, ErrorKind, Event, EventOptions, LaunchConfig, Stream};
use cuhold_memory::{Buffer, ImportedPool, IpcChannel, Message, Pool, PoolOptions};
use cuhold_testkit::{Kit, run_real, run_simulated};
use std::{
    env, io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{net::UnixStream, process::ExitStatusExt as _},
    },
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

const ROLE: &str = "CUHOLD_TEST_PEER";
const LEN: usize = 1 << 20;
const LONG: Duration = Duration::from_secs(60);

/// A child process of this test, which is killed if it isn't waited for.
struct Peer {
    child: Child,
    channel: IpcChannel,
}

impl Peer {
    /// Starts the calling test again, as this role.
    fn start(test: &str, role: &str) -> Self {
        let (here, there) = UnixStream::pair().unwrap();
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--test-threads=1", "--nocapture"])
            .env(ROLE, role)
            .stdin(OwnedFd::from(there))
            .spawn()
            .unwrap();
        Self { child, channel: here.into() }
    }

    /// The child ends well.
    fn ends_well(mut self) {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "a child ended with {status}");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The role of this process, and its connection; `None`: it is the parent.
fn role() -> Option<(String, IpcChannel)> {
    let role = env::var(ROLE).ok()?;
    let socket = io::stdin().as_fd().try_clone_to_owned().unwrap();
    Some((role, UnixStream::from(socket).into()))
}

fn say(channel: &mut IpcChannel, word: &[u8]) {
    channel.send_bytes(word, &[]).unwrap();
}

fn hear(channel: &mut IpcChannel, word: &[u8]) {
    match channel.receive().unwrap() {
        Some(Message::Bytes { bytes, .. }) => assert_eq!(bytes, word),
        other => panic!("{other:?} instead of {word:?}"),
    }
}

fn word(at: usize) -> u32 {
    u32::try_from(at).unwrap().wrapping_mul(2_654_435_761)
}

/// Writes a buffer, lets others read it and write a word each, and reads that.
fn produce(device: &Device, consumers: &mut [IpcChannel]) {
    let stream = device.new_stream().unwrap();
    let pool = Pool::new(device, PoolOptions::default().shareable()).unwrap();
    let exported = pool.export().unwrap();
    let event = device.new_event(EventOptions::interprocess()).unwrap().export().unwrap();
    let words: Vec<u32> = (0..LEN).map(word).collect();
    let mut buffer = Buffer::<u32>::uninit_in(&pool, &stream, LEN).unwrap();
    let token = buffer.export(&pool).unwrap();
    for consumer in &mut *consumers {
        consumer.set_timeout(Some(LONG)).unwrap();
        consumer.send_pool(&exported).unwrap();
        consumer.send_event(&event).unwrap();
        consumer.send_buffer(token.descriptor()).unwrap();
    }
    buffer.write_slice(&words).unwrap();
    stream.record(event.event()).unwrap();
    stream.synchronize().unwrap();
    consumers.iter_mut().for_each(|consumer| say(consumer, b"written"));
    consumers.iter_mut().for_each(|consumer| hear(consumer, b"done"));
    let read = buffer.to_vec().unwrap();
    for (at, found) in read.iter().enumerate() {
        let own = if at < consumers.len() { 7 } else { word(at) };
        assert_eq!(*found, own, "word {at}");
    }
    consumers.iter_mut().for_each(|consumer| say(consumer, b"end"));
}

/// Reads what the producer wrote, and writes the word of this number.
fn consume(device: &Device, channel: &mut IpcChannel, number: usize) {
    channel.set_timeout(Some(LONG)).unwrap();
    let stream = device.new_stream().unwrap();
    let pool = ImportedPool::receive(device, channel).unwrap();
    let event = Event::import(device.context(), channel.receive_event().unwrap()).unwrap();
    let descriptor = channel.receive_buffer().unwrap();
    let mut buffer = pool.import_buffer::<u32>(&descriptor, &stream).unwrap();
    hear(channel, b"written");
    stream.wait_event(&event).unwrap();
    // Not the first ones: others write their own words meanwhile.
    let read = buffer.view(8..).unwrap().to_vec().unwrap();
    assert!(read.iter().zip(8..).all(|(found, at)| *found == word(at)));
    buffer.view_mut(number..=number).unwrap().write_slice(&[7]).unwrap();
    stream.synchronize().unwrap();
    drop(buffer);
    stream.synchronize().unwrap();
    say(channel, b"done");
    hear(channel, b"end");
    drop((event, pool));
}

#[test]
fn three_processes_share_a_buffer_and_order_themselves_by_an_event() {
    const TEST: &str =
        "ipc::process::three_processes_share_a_buffer_and_order_themselves_by_an_event";
    run_real(|t, _| {
        if let Some((role, mut channel)) = role() {
            return consume(t.device(), &mut channel, role.parse().unwrap());
        }
        let peers = ["0", "1"].map(|role| Peer::start(TEST, role));
        let mut channels: Vec<_> =
            peers.iter().map(|peer| peer.channel.socket().try_clone().unwrap().into()).collect();
        produce(t.device(), &mut channels);
        peers.into_iter().for_each(Peer::ends_well);
    });
}

#[test]
fn three_simulated_processes_share_a_buffer_as_real_ones_do() {
    run_simulated(|t, sim| {
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let (one, other) = IpcChannel::pair().unwrap();
            here.push(one);
            there.push((other, sim.other_process(SimOptions::default())));
        }
        thread::scope(|scope| {
            let consumers: Vec<_> = there
                .into_iter()
                .enumerate()
                .map(|(number, (mut channel, sim))| {
                    scope.spawn(move || {
                        let driver = Driver::from_api(sim.clone());
                        let device = Device::with_driver(&driver, 0).unwrap();
                        consume(&device, &mut channel, number);
                        drop(device);
                        close(driver);
                        nothing_wrong(&sim);
                    })
                })
                .collect();
            produce(t.device(), &mut here);
            consumers.into_iter().for_each(|consumer| consumer.join().unwrap());
        });
    });
}

fn nothing_wrong(sim: &Sim) {
    let (violations, leaks) = (sim.violations(), sim.leaks());
    assert!(violations.is_empty() && leaks.is_empty(), "{violations:#?} {leaks:#?}");
}

/// Exports two buffers, and works on one until it is killed.
fn export_until_killed(t: &Kit, channel: &mut IpcChannel) {
    let stream = t.device().new_stream().unwrap();
    let pool = Pool::new(t.device(), PoolOptions::default().shareable()).unwrap();
    let words: Vec<u32> = (0..LEN).map(word).collect();
    let first = Buffer::from_slice_in(&pool, &stream, &words).unwrap();
    let second = Buffer::from_slice_in(&pool, &stream, &words).unwrap();
    let mut own = Buffer::<u32>::zeroed_in(&pool, &stream, LEN).unwrap();
    channel.send_pool(&pool.export().unwrap()).unwrap();
    let tokens = [&first, &second].map(|buffer| buffer.export(&pool).unwrap());
    tokens.iter().for_each(|token| channel.send_buffer(token.descriptor()).unwrap());
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        own.fill(7).unwrap();
        own.copy_from(&first).unwrap();
        stream.synchronize().unwrap();
    }
}

#[test]
fn an_exporter_that_is_killed_in_mid_use_leaves_its_importer_what_it_has_imported() {
    const TEST: &str = "ipc::process::an_exporter_that_is_killed_in_mid_use_leaves_its_importer_what_it_has_imported";
    run_real(|t, _| {
        if let Some((_, mut channel)) = role() {
            return export_until_killed(t, &mut channel);
        }
        let mut peer = Peer::start(TEST, "exporter");
        peer.channel.set_timeout(Some(LONG)).unwrap();
        let stream = t.device().new_stream().unwrap();
        let pool = ImportedPool::receive(t.device(), &mut peer.channel).unwrap();
        let (first, second) =
            (peer.channel.receive_buffer().unwrap(), peer.channel.receive_buffer().unwrap());
        let watch = peer.channel.watch().unwrap();
        let mut imported = pool.import_buffer::<u32>(&first, &stream).unwrap();
        let words: Vec<u32> = (0..LEN).map(word).collect();
        assert_eq!(imported.to_vec().unwrap(), words);
        assert_eq!(pool.exporter_has_ended().unwrap(), Some(false));
        // Work of this process on the memory is under way while the other one is killed.
        let kernels = t.kernels();
        let (spin, fill) = (kernels.kernel("spin").unwrap(), kernels.kernel("fill").unwrap());
        // SAFETY: the parameter is a u64.
        unsafe { spin.launch(&stream, LaunchConfig::for_len(1), (200_000_000_u64,)) }.unwrap();
        let half = u32::try_from(LEN / 2).unwrap();
        // SAFETY: the parameters are (u32*, u32, u32), and the buffer holds that many words.
        unsafe { fill.launch(&stream, LaunchConfig::for_len(half), (&mut imported, 9_u32, half)) }
            .unwrap();
        peer.child.kill().unwrap();
        assert_eq!(peer.child.wait().unwrap().signal(), Some(9));
        assert!(watch.wait(LONG).unwrap(), "the importer sees it");
        assert_eq!(pool.exporter_has_ended().unwrap(), Some(true));
        stream.synchronize().unwrap();
        let read = imported.to_vec().unwrap();
        assert!(read[..LEN / 2].iter().all(|word| *word == 9));
        assert_eq!(read[LEN / 2..], words[LEN / 2..], "the memory lives as long as it is imported");
        // Nothing new is imported, and that is said.
        let refused = pool.import_buffer::<u32>(&second, &stream).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::State, "{refused}");
        assert!(peer.channel.receive().unwrap().is_none());
        drop((imported, pool));
        stream.synchronize().unwrap();
        still_works(&stream);
    });
}

fn still_works(stream: &Stream) {
    assert_eq!(Buffer::from_slice(stream, &[1, 2, 3]).unwrap().to_vec().unwrap(), [1, 2, 3]);
}

#[test]
fn an_importer_that_is_killed_in_mid_use_leaves_the_exporter_as_it_was() {
    const TEST: &str =
        "ipc::process::an_importer_that_is_killed_in_mid_use_leaves_the_exporter_as_it_was";
    run_real(|t, _| {
        if let Some((_, mut channel)) = role() {
            return import_until_killed(t, &mut channel);
        }
        let mut peer = Peer::start(TEST, "importer");
        peer.channel.set_timeout(Some(LONG)).unwrap();
        let stream = t.device().new_stream().unwrap();
        let pool = Pool::new(t.device(), PoolOptions::default().shareable()).unwrap();
        let words: Vec<u32> = (0..LEN).map(word).collect();
        let buffer = Buffer::from_slice_in(&pool, &stream, &words).unwrap();
        peer.channel.send_pool(&pool.export().unwrap()).unwrap();
        let token = buffer.export(&pool).unwrap();
        peer.channel.send_buffer(token.descriptor()).unwrap();
        hear(&mut peer.channel, b"working");
        peer.child.kill().unwrap();
        assert_eq!(peer.child.wait().unwrap().signal(), Some(9));
        assert!(peer.channel.watch().unwrap().wait(LONG).unwrap());
        assert_eq!(buffer.to_vec().unwrap(), words);
        drop((token, buffer));
        stream.synchronize().unwrap();
        assert_eq!(pool.used_bytes().unwrap(), 0);
        drop(pool);
        still_works(&stream);
    });
}

fn import_until_killed(t: &Kit, channel: &mut IpcChannel) {
    channel.set_timeout(Some(LONG)).unwrap();
    let stream = t.device().new_stream().unwrap();
    let pool = ImportedPool::receive(t.device(), channel).unwrap();
    let descriptor = channel.receive_buffer().unwrap();
    let imported = pool.import_buffer::<u32>(&descriptor, &stream).unwrap();
    let mut own = Buffer::<u32>::zeroed(&stream, LEN).unwrap();
    say(channel, b"working");
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        own.copy_from(&imported).unwrap();
        stream.synchronize().unwrap();
    }
}

const THREADS: usize = 8;

/// Many threads import and drop the same few buffers, and read them now and then.
fn stress(device: &Device, channel: &mut IpcChannel, rounds: usize) {
    channel.set_timeout(Some(LONG)).unwrap();
    let pool = ImportedPool::receive(device, channel).unwrap();
    let descriptors: Vec<_> = (0..4).map(|_| channel.receive_buffer().unwrap()).collect();
    let homes: Vec<_> =
        (0..THREADS).map(|_| [(); 2].map(|()| device.new_stream().unwrap())).collect();
    let import_and_drop = &|number: usize| {
        let homes = &homes[number];
        for round in 0..rounds {
            let which = (number + round) % descriptors.len();
            let home = &homes[round % 2];
            let imported = pool.import_buffer::<u32>(&descriptors[which], home).unwrap();
            if round % 64 == 0 {
                let read = imported.to_vec().unwrap();
                assert!(read.iter().all(|word| *word as usize == which));
            }
        }
    };
    thread::scope(|scope| {
        for number in 0..THREADS {
            scope.spawn(move || import_and_drop(number));
        }
    });
    // Here and not in the threads: who ends last frees on the stream of the first, which may be a thread's that is over.
    homes.iter().flatten().for_each(|home| home.synchronize().unwrap());
    assert_eq!(pool.mapped_buffers(), 0);
    say(channel, b"done");
    drop(pool);
}

fn export_for_stress(device: &Device, channel: &mut IpcChannel) {
    channel.set_timeout(Some(LONG)).unwrap();
    let stream = device.new_stream().unwrap();
    let pool = Pool::new(device, PoolOptions::default().shareable()).unwrap();
    channel.send_pool(&pool.export().unwrap()).unwrap();
    let made: Vec<_> = (0..4_u32)
        .map(|value| {
            let buffer = Buffer::from_slice_in(&pool, &stream, &[value; 256]).unwrap();
            let token = buffer.export(&pool).unwrap();
            (buffer, token)
        })
        .collect();
    made.iter().for_each(|(_, token)| channel.send_buffer(token.descriptor()).unwrap());
    hear(channel, b"done");
    drop(made);
}

#[test]
fn two_processes_and_many_threads_find_every_import_mapped() {
    const TEST: &str = "ipc::process::two_processes_and_many_threads_find_every_import_mapped";
    run_real(|t, _| {
        if let Some((_, mut channel)) = role() {
            return export_for_stress(t.device(), &mut channel);
        }
        let mut peer = Peer::start(TEST, "exporter");
        stress(t.device(), &mut peer.channel, 2_000);
        peer.ends_well();
    });
}

#[test]
fn two_simulated_processes_and_many_threads_find_every_import_mapped() {
    run_simulated(|t, sim| {
        let (mut here, mut there) = IpcChannel::pair().unwrap();
        let exporting = sim.other_process(SimOptions::default());
        thread::scope(|scope| {
            let exporter = scope.spawn(move || {
                let driver = Driver::from_api(exporting.clone());
                let device = Device::with_driver(&driver, 0).unwrap();
                export_for_stress(&device, &mut there);
                drop(device);
                close(driver);
                nothing_wrong(&exporting);
            });
            stress(t.device(), &mut here, 100);
            exporter.join().unwrap();
        });
    });
}

/// Two streams on one import, in a process of its own: the busy one's import ends first, the idle one's last.
fn end_on_the_idle_stream_last(t: &Kit, channel: &mut IpcChannel) {
    channel.set_timeout(Some(LONG)).unwrap();
    let pool = ImportedPool::receive(t.device(), channel).unwrap();
    let descriptor = channel.receive_buffer().unwrap();
    let (idle, busy) = (t.device().new_stream().unwrap(), t.device().new_stream().unwrap());
    let kernels = t.kernels();
    let (spin, fill) = (kernels.kernel("spin").unwrap(), kernels.kernel("fill").unwrap());
    let on_idle = pool.import_buffer::<u32>(&descriptor, &idle).unwrap();
    let mut on_busy = pool.import_buffer::<u32>(&descriptor, &busy).unwrap();
    // SAFETY: the parameter is a u64.
    unsafe { spin.launch(&busy, LaunchConfig::for_len(1), (200_000_000_u64,)) }.unwrap();
    // SAFETY: the parameters are (u32*, u32, u32), and the buffer holds LEN words until this is done.
    unsafe {
        let len = u32::try_from(LEN).unwrap();
        fill.launch(&busy, LaunchConfig::for_len(len), (&mut on_busy, 7_u32, len))
    }
    .unwrap();
    drop(on_busy);
    drop(on_idle);
    idle.synchronize().unwrap();
    busy.synchronize().unwrap();
    say(channel, b"done");
}

#[test]
fn in_another_process_the_idle_stream_s_import_may_end_last_while_the_busy_one_works() {
    const TEST: &str = "ipc::process::in_another_process_the_idle_stream_s_import_may_end_last_while_the_busy_one_works";
    run_real(|t, _| {
        if let Some((_, mut channel)) = role() {
            return end_on_the_idle_stream_last(t, &mut channel);
        }
        let mut peer = Peer::start(TEST, "importer");
        peer.channel.set_timeout(Some(LONG)).unwrap();
        let stream = t.device().new_stream().unwrap();
        let pool = Pool::new(t.device(), PoolOptions::default().shareable()).unwrap();
        peer.channel.send_pool(&pool.export().unwrap()).unwrap();
        let buffer = Buffer::<u32>::zeroed_in(&pool, &stream, LEN).unwrap();
        stream.synchronize().unwrap();
        let token = buffer.export(&pool).unwrap();
        peer.channel.send_buffer(token.descriptor()).unwrap();
        hear(&mut peer.channel, b"done");
        assert!(buffer.to_vec().unwrap().iter().all(|word| *word == 7));
        peer.ends_well();
        drop(token);
    });
}
