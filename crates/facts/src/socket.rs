//! One message over a socket between two processes, with an open file beside it.

#![cfg_attr(unix, expect(unsafe_code, reason = "files beside messages are C's"))]

#[cfg(unix)]
pub(crate) use unix::{receive, send};

#[cfg(unix)]
mod unix {
    use std::{
        io,
        os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd},
    };

    /// Calls with a message of one byte that has room for one file's number beside it.
    fn with_message<R>(work: impl FnOnce(&mut libc::msghdr) -> R) -> R {
        let (mut beside, mut byte) = ([0_u64; 4], 1_u8);
        let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        // SAFETY: C's struct of pointers and numbers, for which all zeros mean that there is nothing.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = beside.as_mut_ptr().cast();
        // SAFETY: a calculation without memory.
        let room = unsafe { libc::CMSG_SPACE(4) };
        message.msg_controllen = room.try_into().unwrap_or_default();
        work(&mut message)
    }

    /// Sends a file, which stays open here too.
    pub(crate) fn send(socket: impl AsFd, file: impl AsFd) -> io::Result<()> {
        let (socket, file) = (socket.as_fd().as_raw_fd(), file.as_fd().as_raw_fd());
        with_message(|message| {
            // SAFETY: there is room for the header of one file.
            let header = unsafe { libc::CMSG_FIRSTHDR(message) };
            // SAFETY: as above.
            let header = unsafe { &mut *header };
            header.cmsg_level = libc::SOL_SOCKET;
            header.cmsg_type = libc::SCM_RIGHTS;
            // SAFETY: a calculation without memory.
            let length = unsafe { libc::CMSG_LEN(4) };
            header.cmsg_len = length.try_into().unwrap_or_default();
            // SAFETY: behind the header there is room for a number.
            let place = unsafe { libc::CMSG_DATA(header) };
            // SAFETY: as above; the two are different memory.
            unsafe { place.copy_from_nonoverlapping(file.to_ne_bytes().as_ptr(), 4) };
            // SAFETY: all that the message points at is alive.
            let sent = unsafe { libc::sendmsg(socket, message, 0) };
            if sent == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
        })
    }

    /// Receives a file.
    pub(crate) fn receive(socket: impl AsFd) -> io::Result<OwnedFd> {
        let socket = socket.as_fd().as_raw_fd();
        with_message(|message| {
            // SAFETY: all that the message points at is alive.
            let received = unsafe { libc::recvmsg(socket, message, libc::MSG_CMSG_CLOEXEC) };
            if received != 1 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the message is as the system filled it in.
            let header = unsafe { libc::CMSG_FIRSTHDR(message) };
            if header.is_null() {
                return Err(io::Error::other("no file came with the message"));
            }
            // SAFETY: whoever sends sends one file's number.
            let place = unsafe { libc::CMSG_DATA(header) };
            let mut number = [0; 4];
            // SAFETY: as above; the two are different memory.
            unsafe { place.copy_to_nonoverlapping(number.as_mut_ptr(), 4) };
            // SAFETY: the system made the number for this receiver.
            Ok(unsafe { OwnedFd::from_raw_fd(i32::from_ne_bytes(number)) })
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::{
            io::{Read as _, Write as _},
            os::unix::net::UnixStream,
        };

        #[test]
        fn a_file_that_went_over_a_socket_is_the_same_file() {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (mut read, write) = io::pipe().unwrap();
            send(&ours, &write).unwrap();
            drop(write);
            let received = receive(&theirs).unwrap();
            std::fs::File::from(received).write_all(b"x").unwrap();
            let mut text = String::new();
            read.read_to_string(&mut text).unwrap();
            assert_eq!(text, "x");
        }
    }
}
