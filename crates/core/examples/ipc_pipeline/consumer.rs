//! A consumer: reads each buffer where it lies, in the memory of the producer's GPU, and checks every byte.

use crate::{Amount, SLOTS, word};
use cuhold::{
    Buffer, Device, Driver, Error, Event, EventOptions, ExportedEvent, ImportedPool, IpcChannel,
    Message, Result, Stream,
};

struct Slot {
    buffer: Buffer<u32>,
    filled: Event,
    read: ExportedEvent,
}

/// In a process of its own: on the real driver.
pub(crate) fn in_own_process(mut channel: IpcChannel) -> Result<()> {
    let device = Device::with_driver(&Driver::load()?, 0)?;
    run(&device, &mut channel)
}

pub(crate) fn run(device: &Device, channel: &mut IpcChannel) -> Result<()> {
    let result = consume(device, channel);
    if let Err(error) = &result {
        // The producer says why. If it can't hear that, it has ended itself.
        drop(channel.send_bytes(format!("a consumer: {error}").as_bytes(), &[]));
    }
    result
}

fn consume(device: &Device, channel: &mut IpcChannel) -> Result<()> {
    let amount = Amount::from_bytes(&bytes(channel)?.unwrap_or_default())?;
    let stream = device.new_stream()?;
    let pool = ImportedPool::receive(device, channel)?;
    let mut slots = Vec::new();
    for _ in 0..SLOTS {
        slots.push(slot(device, &stream, &pool, channel)?);
    }
    let (mut found, mut checked) = (vec![0; amount.words as usize], 0);
    for (round, at) in (0..amount.rounds).zip((0..SLOTS).cycle()) {
        let Some(slot) = slots.get(at) else { break };
        match bytes(channel)? {
            Some(sent) if sent == round.to_le_bytes() => {}
            Some(_) => return Err(Error::state(format!("not told of round {round}"))),
            None => return Err(Error::state("the producer has ended")),
        }
        stream.wait_event(&slot.filled)?;
        // From here the producer's memory is read by this process's stream. It is on this process's host, to be checked,
        // when the call returns.
        slot.buffer.read_into(&mut found)?;
        stream.record(slot.read.event())?;
        stream.synchronize()?;
        channel.send_bytes(&round.to_le_bytes(), &[])?;
        check(&found, round)?;
        checked += amount.buffer_bytes();
    }
    channel.send_bytes(&checked.to_le_bytes(), &[])?;
    // The producer waits for the events of this process until it says so.
    bytes(channel)?.ok_or_else(|| Error::state("the producer has ended"))?;
    drop((slots, pool));
    // What was imported is unmapped when the stream has come to it; then the connection ends, which the producer sees.
    stream.synchronize()
}

fn slot(
    device: &Device,
    stream: &Stream,
    pool: &ImportedPool,
    channel: &mut IpcChannel,
) -> Result<Slot> {
    let buffer = pool.import_buffer(&channel.receive_buffer()?, stream)?;
    let filled = Event::import(device.context(), channel.receive_event()?)?;
    let read = device.new_event(EventOptions::interprocess())?.export()?;
    channel.send_event(&read)?;
    Ok(Slot { buffer, filled, read })
}

fn check(found: &[u32], round: u64) -> Result<()> {
    for (at, found) in (0..).zip(found) {
        let right = word(round, at);
        if *found != right {
            return Err(Error::state(format!(
                "word {at} of round {round} is {found:#x}, not {right:#x}"
            )));
        }
    }
    Ok(())
}

fn bytes(channel: &mut IpcChannel) -> Result<Option<Vec<u8>>> {
    match channel.receive()? {
        Some(Message::Bytes { bytes, .. }) => Ok(Some(bytes)),
        Some(other) => Err(Error::state(format!("the producer sent {other:?}"))),
        None => Ok(None),
    }
}

impl Amount {
    /// What the producer sends first.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [&self.words.to_le_bytes()[..], &self.rounds.to_le_bytes()[..]].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let read = || {
            let (words, rounds) = bytes.split_first_chunk::<4>()?;
            let rounds = <[u8; 8]>::try_from(rounds).ok()?;
            Some(Self { words: u32::from_le_bytes(*words), rounds: u64::from_le_bytes(rounds) })
        };
        read().ok_or_else(|| Error::state("the producer has ended, or sent something else"))
    }
}
