//! The producer: fills the buffers, one after the other, and fills one again when every consumer has read it.

use crate::{Amount, CONSUMERS, SLOTS, kernel, report::Progress, seed};
use cuhold::{
    Buffer, Device, Error, Event, EventOptions, ExportedBuffer, ExportedEvent, IpcChannel,
    LaunchConfig, Message, Pool, PoolOptions, Result, Stream,
};
use std::time::Duration;

/// How long anybody waits for a message: longer than any work takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The producer's last word: nothing of a consumer's is used any more.
const END: &[u8] = b"end";

/// A buffer, and what says that it is filled, and that it was read.
struct Slot {
    buffer: Buffer<u32>,
    /// Keeps the memory for the consumers.
    _exported: ExportedBuffer,
    filled: ExportedEvent,
    /// One of each consumer.
    read: Vec<Event>,
}

/// Sends as many buffers as there are to be, and hears what every consumer found in them. `flush` lets queued work run where
/// it doesn't by itself.
pub(crate) fn run(
    device: &Device,
    mut consumers: Vec<IpcChannel>,
    amount: Amount,
    flush: &dyn Fn(),
) -> Result<()> {
    let stream = device.new_stream()?;
    let pool = Pool::new(device, PoolOptions::default().shareable())?;
    let exported = pool.export()?;
    for consumer in &mut consumers {
        consumer.set_timeout(Some(PATIENCE))?;
        consumer.send_bytes(&amount.to_bytes(), &[])?;
        consumer.send_pool(&exported)?;
    }
    // The consumers have files of their own now.
    drop(exported);
    let mut slots = Vec::new();
    for _ in 0..SLOTS {
        slots.push(slot(device, &stream, &pool, &mut consumers, amount)?);
    }
    let library = kernel::load(device)?;
    let fill = library.kernel(kernel::NAME)?;
    let mut progress = Progress::new(amount);
    let slots_in_turn = (0..SLOTS).cycle();
    for (round, at) in (0..amount.rounds).zip(slots_in_turn) {
        let Some(slot) = slots.get_mut(at) else { break };
        if round >= SLOTS as u64 {
            heard_of_read(&stream, slot, &mut consumers, round - SLOTS as u64)?;
        }
        let config = LaunchConfig::for_len(amount.words);
        // SAFETY: the parameters are (u32*, u32, u32), and the buffer holds that many words.
        unsafe { fill.launch(&stream, config, (&mut slot.buffer, seed(round), amount.words)) }?;
        stream.record(slot.filled.event())?;
        flush();
        for consumer in &mut consumers {
            consumer.send_bytes(&round.to_le_bytes(), &[])?;
        }
        progress.sent(round + 1);
    }
    for (round, at) in (0..amount.rounds).zip((0..SLOTS).cycle()) {
        let is_last = round + SLOTS as u64 >= amount.rounds;
        if let Some(slot) = slots.get(at).filter(|_| is_last) {
            heard_of_read(&stream, slot, &mut consumers, round)?;
        }
    }
    // What waits for the consumers' events is done before they end them.
    stream.synchronize()?;
    let checked = heard_of_end(&mut consumers, amount)?;
    // The consumers have unmapped the memory by now: it may be freed.
    drop(slots);
    progress.done(checked);
    Ok(())
}

/// Makes a buffer and its events, and tells every consumer of them.
fn slot(
    device: &Device,
    stream: &Stream,
    pool: &Pool,
    consumers: &mut [IpcChannel],
    amount: Amount,
) -> Result<Slot> {
    let buffer = Buffer::<u32>::uninit_in(pool, stream, amount.words as usize)?;
    let exported = buffer.export(pool)?;
    let filled = device.new_event(EventOptions::interprocess())?.export()?;
    let mut read = Vec::new();
    // The memory is there once the stream has come to it.
    stream.synchronize()?;
    for consumer in consumers {
        consumer.send_buffer(exported.descriptor())?;
        consumer.send_event(&filled)?;
        read.push(Event::import(device.context(), consumer.receive_event()?)?);
    }
    Ok(Slot { buffer, _exported: exported, filled, read })
}

/// What is queued from now on comes after every consumer's reading of this round.
fn heard_of_read(
    stream: &Stream,
    slot: &Slot,
    consumers: &mut [IpcChannel],
    round: u64,
) -> Result<()> {
    for (consumer, read) in consumers.iter_mut().zip(&slot.read) {
        let heard = heard(consumer)?;
        if heard != round {
            return Err(Error::state(format!("a consumer read round {heard}, not {round}")));
        }
        stream.wait_event(read)?;
    }
    Ok(())
}

/// How many bytes each consumer has checked, in all.
fn heard_of_end(consumers: &mut [IpcChannel], amount: Amount) -> Result<u64> {
    let mut checked = 0;
    for consumer in consumers {
        checked += heard(consumer)?;
        consumer.send_bytes(END, &[])?;
        // It has ended, and with it all that it had imported.
        if let Some(message) = consumer.receive()? {
            return Err(Error::state(format!("a consumer went on: {message:?}")));
        }
    }
    let expected = amount.buffer_bytes() * amount.rounds * CONSUMERS as u64;
    if checked == expected {
        return Ok(checked);
    }
    Err(Error::state(format!("{checked} bytes were checked, of {expected}")))
}

fn heard(consumer: &mut IpcChannel) -> Result<u64> {
    match consumer.receive()? {
        Some(Message::Bytes { bytes, .. }) => match <[u8; 8]>::try_from(bytes.as_slice()) {
            Ok(bytes) => Ok(u64::from_le_bytes(bytes)),
            // A consumer's last words.
            Err(_) => Err(Error::state(String::from_utf8_lossy(&bytes).into_owned())),
        },
        Some(other) => Err(Error::state(format!("a consumer sent {other:?}"))),
        None => Err(Error::state("a consumer has ended")),
    }
}
