//! Messages and files over a socket: whole, bounded, and no file left behind.

use cuhold_handles::{AnyCall, ErrorKind, Status};
use cuhold_memory::{IpcChannel, Message};
use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    thread,
    time::Duration,
};

/// A file that says whether its other end is closed.
fn pipe() -> (File, OwnedFd) {
    let (read, write) = std::io::pipe().unwrap();
    (File::from(OwnedFd::from(read)), write.into())
}

/// Whether nobody holds the other end of the pipe any more.
fn is_closed(mut read: &File) -> bool {
    rustix::io::ioctl_fionbio(read, true).unwrap();
    matches!(read.read(&mut [0; 8]), Ok(0))
}

fn received(channel: &mut IpcChannel) -> (Vec<u8>, Vec<OwnedFd>) {
    match channel.receive().unwrap() {
        Some(Message::Bytes { bytes, files }) => (bytes, files),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_arrives_as_another_descriptor_that_children_don_t_inherit() {
    let (mut here, mut there) = IpcChannel::pair().unwrap();
    let (mut read, write) = pipe();
    here.send_bytes(b"with a file", &[write.as_fd()]).unwrap();
    let (bytes, mut files) = received(&mut there);
    assert_eq!((bytes.as_slice(), files.len()), (&b"with a file"[..], 1));
    let arrived = files.pop().unwrap();
    assert_ne!(arrived.as_raw_fd(), write.as_raw_fd());
    assert!(rustix::io::fcntl_getfd(&arrived).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    drop(write);
    File::from(arrived).write_all(b"through it").unwrap();
    let mut text = String::new();
    read.read_to_string(&mut text).unwrap();
    assert_eq!(text, "through it");
}

#[test]
fn as_many_files_as_are_allowed_arrive_in_order_and_one_more_is_refused() {
    let (mut here, mut there) = IpcChannel::pair().unwrap();
    let pipes: Vec<_> = (0..17).map(|_| pipe()).collect();
    let files: Vec<_> = pipes.iter().map(|(_, write)| write.as_fd()).collect();
    let refused = here.send_bytes(&[], &files).unwrap_err();
    assert_eq!(refused.to_string(), "files: 17, and one message has at most 16");
    here.send_bytes(&[], &files[..16]).unwrap();
    let (_, arrived) = received(&mut there);
    assert_eq!(arrived.len(), 16);
    for (file, (mut read, write)) in arrived.into_iter().zip(pipes) {
        drop(write);
        File::from(file).write_all(b"own").unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "own");
    }
}

#[test]
fn the_largest_message_arrives_whole_and_a_larger_one_is_refused() {
    let (mut here, mut there) = IpcChannel::pair().unwrap();
    let large: Vec<u8> = (0..1 << 16).map(|at: u32| at.to_le_bytes()[1]).collect();
    let longer = [&large[..], &[0]].concat();
    let refused = here.send_bytes(&longer, &[]).unwrap_err();
    assert_eq!(refused.to_string(), "bytes: 65537, and one message has at most 65536");
    let sent = large.clone();
    let sender = thread::spawn(move || {
        for _ in 0..20 {
            here.send_bytes(&sent, &[]).unwrap();
        }
    });
    for _ in 0..20 {
        assert_eq!(received(&mut there).0, large);
    }
    sender.join().unwrap();
    assert!(there.receive().unwrap().is_none());
}

#[test]
fn files_of_a_message_that_is_refused_are_closed() {
    let (raw, other) = UnixStream::pair().unwrap();
    let mut channel = IpcChannel::from(other);
    let (read, write) = pipe();
    // A frame that says it has no files, and one beside it.
    let (mut good, good_end) = IpcChannel::pair().unwrap();
    good.send_bytes(b"none", &[]).unwrap();
    let mut frame = vec![0; 24];
    good_end.socket().read_exact(&mut frame).unwrap();
    send_with_file(&raw, &frame, &write);
    drop(write);
    assert!(!is_closed(&read), "it is on its way");
    let error = channel.receive().unwrap_err();
    assert_eq!(error.to_string(), "files: 1 came with a message that says 0");
    assert!(is_closed(&read));
    assert_eq!(channel.receive().unwrap_err().kind(), ErrorKind::State, "it goes no further");
}

#[test]
fn more_files_than_a_message_may_have_are_closed_by_the_receiver() {
    let (raw, other) = UnixStream::pair().unwrap();
    let mut channel = IpcChannel::from(other);
    let (read, write) = pipe();
    // Sixteen with each of two halves of a header: no single one overflows.
    let header = b"chIP\x01\x00\x04\x00\x10\x00\x00\x00\x00\x00\x00\x00";
    let sixteen = [write.as_fd(); 16];
    send_with_files(&raw, &header[..8], &sixteen);
    send_with_files(&raw, &header[8..], &sixteen);
    drop(write);
    drop(raw);
    assert!(channel.receive().is_err());
    drop(channel);
    assert!(is_closed(&read));
}

#[test]
fn a_flood_of_files_beside_a_message_that_has_none_is_closed_as_it_comes_and_refused() {
    let (raw, other) = UnixStream::pair().unwrap();
    let mut channel = IpcChannel::from(other);
    let mut message = b"chIP\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00".to_vec();
    super::wire::add_check_sum(&mut message);
    let pipes: Vec<_> = message.iter().map(|_| pipe()).collect();
    let before = channel.watch().unwrap();
    for (byte, (_, write)) in message.iter().zip(&pipes) {
        send_with_files(&raw, &[*byte], &[write.as_fd(); 16]);
    }
    let reads: Vec<File> = pipes.into_iter().map(|(read, _write)| read).collect();
    let error = channel.receive().unwrap_err();
    assert_eq!(error.to_string(), "files: more than the 16 that a message may have came with one");
    // All of them, although the connection is still open.
    assert!(reads.iter().all(is_closed));
    assert_eq!(channel.receive().unwrap_err().kind(), ErrorKind::State);
    assert!(!before.has_ended().unwrap());
}

fn send_with_file(socket: &UnixStream, bytes: &[u8], file: &OwnedFd) {
    send_with_files(socket, bytes, &[file.as_fd()]);
}

fn send_with_files(socket: &UnixStream, bytes: &[u8], files: &[std::os::fd::BorrowedFd<'_>]) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(files)));
    let sent = sendmsg(socket, &[std::io::IoSlice::new(bytes)], &mut control, SendFlags::empty());
    assert_eq!(sent.unwrap(), bytes.len());
}

#[test]
fn files_that_nobody_received_are_closed_with_the_connection() {
    let (mut here, there) = IpcChannel::pair().unwrap();
    let (read, write) = pipe();
    here.send_bytes(b"never received", &[write.as_fd()]).unwrap();
    drop(write);
    drop(there);
    drop(here);
    assert!(is_closed(&read));
}

#[test]
fn a_peer_that_ends_between_messages_is_an_end_and_in_the_middle_of_one_an_error() {
    let (mut here, mut there) = IpcChannel::pair().unwrap();
    here.send_bytes(b"whole", &[]).unwrap();
    drop(here);
    assert_eq!(received(&mut there).0, b"whole");
    assert!(there.receive().unwrap().is_none());
    assert!(there.receive().unwrap().is_none(), "and again");
    let (mut raw, other) = UnixStream::pair().unwrap();
    let mut channel = IpcChannel::from(other);
    raw.write_all(b"chIP\x01\x00\x04").unwrap();
    drop(raw);
    let error = channel.receive().unwrap_err();
    assert_eq!(error.to_string(), "the other process ended in the middle of a message");
    assert!(channel.receive().is_err());
}

#[test]
fn sending_to_a_peer_that_has_ended_is_an_error_and_no_signal() {
    let (mut here, there) = IpcChannel::pair().unwrap();
    drop(there);
    let error = here.send_bytes(b"nobody", &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::System);
    assert_eq!(error.call(), Some(AnyCall::System("sendmsg")));
    let Some(Status::Errno(errno)) = error.status() else { panic!("{error}") };
    assert_eq!(errno.0, rustix::io::Errno::PIPE.raw_os_error());
}

#[test]
fn after_a_timeout_the_rest_of_a_message_is_still_received() {
    let (mut raw, other) = UnixStream::pair().unwrap();
    let mut channel = IpcChannel::from(other);
    channel.set_timeout(Some(Duration::from_millis(1))).unwrap();
    let (mut good, good_end) = IpcChannel::pair().unwrap();
    good.send_bytes(b"late", &[]).unwrap();
    let mut frame = vec![0; 24];
    good_end.socket().read_exact(&mut frame).unwrap();
    raw.write_all(&frame[..20]).unwrap();
    let error = channel.receive().unwrap_err();
    assert_eq!(error.call(), Some(AnyCall::System("recvmsg")), "{error}");
    raw.write_all(&frame[20..]).unwrap();
    assert_eq!(received(&mut channel).0, b"late");
}

#[test]
fn another_kind_of_message_than_was_asked_for_is_named() {
    let (mut here, mut there) = IpcChannel::pair().unwrap();
    here.send_bytes(b"own", &[]).unwrap();
    let error = there.receive_buffer().unwrap_err();
    assert_eq!(error.to_string(), "bytes came where a buffer was to come");
    drop(here);
    let error = there.receive_pool().unwrap_err();
    assert_eq!(error.to_string(), "the other process ended before it sent a pool");
}

#[test]
fn a_watch_sees_the_other_end_close_while_messages_are_still_unread() {
    let (mut here, mut there) = IpcChannel::pair().unwrap();
    let watch = there.watch().unwrap();
    here.send_bytes(b"last words", &[]).unwrap();
    assert!(!watch.has_ended().unwrap());
    assert!(!watch.wait(Duration::from_millis(1)).unwrap());
    drop(here);
    assert!(watch.wait(Duration::from_secs(60)).unwrap());
    assert_eq!(received(&mut there).0, b"last words");
}
