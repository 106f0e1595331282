//! What travels, as bytes: it comes back as it was, and nothing else is taken for it.

use super::Exporter;
use cuhold_handles::ErrorKind;
use cuhold_memory::{BufferDescriptor, IpcChannel, PoolDescriptor, Residence};
use cuhold_testkit::run;
use proptest::prelude::*;
use std::{io::Write as _, os::unix::net::UnixStream};

/// A good descriptor of each kind.
fn good() -> (Vec<u8>, Vec<u8>) {
    let mut bytes = None;
    run(|t| {
        let there = Exporter::beside(t);
        let (buffer, token) = there.buffer(&[1, 2, 3]);
        let pool = there.exported.descriptor().to_bytes().unwrap();
        bytes = Some((pool, token.descriptor().to_bytes().unwrap()));
        there.end(t.context(), (buffer, token));
    });
    bytes.unwrap()
}

/// Puts the check sum behind a message.
pub(crate) fn add_check_sum(bytes: &mut Vec<u8>) {
    bytes.extend([0; 4]);
    check_sum(bytes);
}

fn check_sum(bytes: &mut [u8]) {
    let end = bytes.len() - 4;
    let mut crc = u32::MAX;
    for byte in &bytes[..end] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { (crc >> 1) ^ 0xEDB8_8320 };
        }
    }
    bytes[end..].copy_from_slice(&(!crc).to_le_bytes());
}

/// The error of a buffer's bytes with these put at an offset, and the right check sum.
fn changed(buffer: &[u8], offset: usize, with: &[u8]) -> String {
    let mut bytes = buffer.to_vec();
    bytes[offset..offset + with.len()].copy_from_slice(with);
    check_sum(&mut bytes);
    let error = BufferDescriptor::from_bytes(&bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    error.to_string()
}

#[test]
fn descriptors_come_back_as_they_were() {
    let (pool, buffer) = good();
    let read = PoolDescriptor::from_bytes(&pool).unwrap();
    assert_eq!(read.to_bytes().unwrap(), pool);
    let read = BufferDescriptor::from_bytes(&buffer).unwrap();
    assert_eq!(read.to_bytes().unwrap(), buffer);
    assert_eq!(read.bytes(), 12);
    assert_eq!((pool.len(), buffer.len()), (60, 116), "the layout of version 1");
}

#[test]
fn each_wrong_field_is_refused_by_name() {
    let (pool, buffer) = good();
    assert!(changed(&buffer, 0, b"XXXX").contains("it begins with"));
    assert!(changed(&buffer, 4, &[2, 0]).contains("version 2, and 1 is known"));
    assert!(changed(&buffer, 6, &[9, 0]).contains("kind 9"));
    assert!(changed(&buffer, 8, &[99, 0]).contains("99 files"));
    assert!(changed(&buffer, 10, &[1, 0]).contains("1 where version 1 has 0"));
    assert!(changed(&buffer, 12, &[97, 0, 0, 0]).contains("97 bytes are sent"));
    assert!(changed(&buffer, 104, &[0; 8]).contains("memory of no bytes"));
    assert!(changed(&buffer, 104, &[0xFF; 8]).contains("which no memory has"));
    assert!(changed(&buffer, 96, &[0xFF; 8]).contains("which no memory has"));
    let other = BufferDescriptor::from_bytes(&pool).unwrap_err().to_string();
    assert!(other.contains("it holds a Pool, and a Buffer is read"), "{other}");
    let mut nameless = pool;
    nameless[16..32].fill(0);
    check_sum(&mut nameless);
    let error = PoolDescriptor::from_bytes(&nameless).unwrap_err().to_string();
    assert!(error.contains("identity is 0"), "{error}");
}

/// A pool's bytes as another kind, with these behind.
fn as_kind(pool: &[u8], kind: u16, more: &[u8]) -> Vec<u8> {
    let mut bytes = pool[..pool.len() - 4].to_vec();
    bytes.extend(more);
    bytes[6..8].copy_from_slice(&kind.to_le_bytes());
    let length = u32::try_from(bytes.len() - 16).unwrap();
    bytes[12..16].copy_from_slice(&length.to_le_bytes());
    add_check_sum(&mut bytes);
    bytes
}

#[test]
fn a_pool_of_the_host_has_a_kind_of_its_own_that_says_its_node() {
    let (pool, _) = good();
    let on_host = as_kind(&pool, 5, &3_i32.to_le_bytes());
    let read = PoolDescriptor::from_bytes(&on_host).unwrap();
    assert_eq!((read.residence(), read.to_bytes().unwrap()), (Residence::HostNuma(3), on_host));
    let of_device = PoolDescriptor::from_bytes(&pool).unwrap();
    assert_eq!(of_device.residence(), Residence::Device);
    assert_eq!(read.identity(), of_device.identity());
    for (bytes, text) in [
        (as_kind(&pool, 5, &(-1_i32).to_le_bytes()), "NUMA node -1"),
        (as_kind(&pool, 5, &[]), "40 bytes are sent, and its kind has 44"),
        (as_kind(&pool, 1, &[0; 4]), "44 bytes are sent, and its kind has 40"),
    ] {
        let error = PoolDescriptor::from_bytes(&bytes).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn what_is_cut_short_too_long_or_damaged_is_refused() {
    let (_, buffer) = good();
    for length in 0..buffer.len() {
        assert!(BufferDescriptor::from_bytes(&buffer[..length]).is_err(), "{length} bytes");
    }
    let longer = [&buffer[..], &[0]].concat();
    let error = BufferDescriptor::from_bytes(&longer).unwrap_err().to_string();
    assert!(error.contains("117 bytes, and it says 116"), "{error}");
    for bit in 0..buffer.len() * 8 {
        let mut damaged = buffer.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(BufferDescriptor::from_bytes(&damaged).is_err(), "bit {bit}");
    }
}

proptest! {
    #[test]
    fn reading_any_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(BufferDescriptor::from_bytes(&bytes));
        drop(PoolDescriptor::from_bytes(&bytes));
    }

    #[test]
    fn reading_what_begins_well_never_panics_and_gives_what_was_written(
        kind in 0_u16..7,
        sent in proptest::collection::vec(any::<u8>(), 0..120),
    ) {
        let mut bytes = b"chIP\x01\x00".to_vec();
        bytes.extend(kind.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(u32::try_from(sent.len()).unwrap().to_le_bytes());
        bytes.extend(&sent);
        add_check_sum(&mut bytes);
        if let Ok(read) = BufferDescriptor::from_bytes(&bytes) {
            prop_assert_eq!(read.to_bytes().unwrap(), bytes.clone());
        }
        if let Ok(read) = PoolDescriptor::from_bytes(&bytes) {
            prop_assert_eq!(read.to_bytes().unwrap(), bytes);
        }
    }

    #[test]
    fn a_channel_that_is_sent_any_bytes_ends_or_answers_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        begins_well in any::<bool>(),
    ) {
        let (mut raw, other) = UnixStream::pair().unwrap();
        let mut channel = IpcChannel::from(other);
        if begins_well {
            raw.write_all(b"chIP\x01\x00").unwrap();
        }
        raw.write_all(&bytes).unwrap();
        drop(raw);
        while let Ok(Some(_)) = channel.receive() {}
    }

    #[test]
    fn bytes_of_a_user_s_own_arrive_as_they_were_sent(
        messages in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..2000), 0..5),
    ) {
        let (mut here, mut there) = IpcChannel::pair().unwrap();
        for sent in &messages {
            here.send_bytes(sent, &[]).unwrap();
        }
        drop(here);
        for sent in messages {
            match there.receive().unwrap() {
                Some(cuhold_memory::Message::Bytes { bytes, files }) => {
                    prop_assert_eq!(bytes, sent);
                    prop_assert!(files.is_empty());
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert!(there.receive().unwrap().is_none());
    }
}
