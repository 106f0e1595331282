//! Host memory that processes share: a file without a name, mapped by each of them at addresses of its own.

#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "maps a file into memory"))]

#[cfg(target_os = "linux")]
pub(crate) use linux::{SharedBlock, SharedFile};

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{SharedBlock, SharedFile};

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        fs::File,
        os::fd::{AsRawFd as _, FromRawFd as _},
        ptr::{self, NonNull},
        sync::Arc,
    };

    use crate::order::Shadow;

    /// Bytes to map: they live as long as they are mapped anywhere, or known here.
    #[derive(Clone, Debug)]
    pub(crate) struct SharedFile {
        file: Arc<File>,
        size_bytes: usize,
        /// What touched them.
        shadow: Arc<Shadow>,
    }

    impl SharedFile {
        /// So many bytes, all 0; `None` where the host gives none.
        pub(crate) fn new(size_bytes: usize) -> Option<Self> {
            let size_bytes = size_bytes.max(1);
            // SAFETY: the name is a string with its NUL.
            let number = unsafe { libc::memfd_create(c"cuhold".as_ptr(), libc::MFD_CLOEXEC) };
            if number < 0 {
                return None;
            }
            // SAFETY: the system just gave the number out, to nobody else.
            let file = unsafe { File::from_raw_fd(number) };
            file.set_len(u64::try_from(size_bytes).ok()?).ok()?;
            Some(Self { file: Arc::new(file), size_bytes, shadow: Arc::default() })
        }

        pub(crate) const fn shadow(&self) -> &Arc<Shadow> {
            &self.shadow
        }

        /// The bytes, at addresses where nothing is; `None` where the host has none to give.
        pub(crate) fn map(&self) -> Option<SharedBlock> {
            // SAFETY: a new mapping, at addresses of the system's choice, of a file as long as this.
            let start = unsafe {
                libc::mmap(
                    ptr::null_mut(),
                    self.size_bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED,
                    self.file.as_raw_fd(),
                    0,
                )
            };
            if start == libc::MAP_FAILED {
                return None;
            }
            Some(SharedBlock { start: NonNull::new(start.cast())?, file: self.clone() })
        }
    }

    /// The bytes, mapped; unmapped when it is dropped.
    #[derive(Debug)]
    pub(crate) struct SharedBlock {
        /// Invariant: a mapping of the whole file, which nothing else unmaps.
        start: NonNull<u8>,
        file: SharedFile,
    }

    // SAFETY: the mapping is owned by this value alone and isn't tied to the thread that made it.
    unsafe impl Send for SharedBlock {}

    impl SharedBlock {
        pub(crate) fn address(&self) -> usize {
            self.start.as_ptr().expose_provenance()
        }

        pub(crate) const fn file(&self) -> &SharedFile {
            &self.file
        }
    }

    impl Drop for SharedBlock {
        fn drop(&mut self) {
            // SAFETY: by the invariant of `start`. Refused, the addresses stay taken, which harms nobody.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.file.size_bytes) };
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn two_mappings_of_a_file_hold_the_same_bytes_at_two_addresses() {
            let file = SharedFile::new(4).unwrap();
            let (one, two) = (file.map().unwrap(), file.map().unwrap());
            assert_ne!(one.address(), two.address());
            // SAFETY: 4 bytes of a mapping that nobody else knows.
            unsafe { one.start.cast::<u32>().write(7) };
            drop(one);
            // SAFETY: as above.
            assert_eq!(unsafe { two.start.cast::<u32>().read() }, 7);
        }

        #[test]
        fn a_file_larger_than_the_host_is_none() {
            assert!(SharedFile::new(usize::MAX).is_none());
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::sync::Arc;

    use crate::order::Shadow;

    /// There is none.
    #[derive(Clone, Debug)]
    pub(crate) enum SharedFile {}

    impl SharedFile {
        pub(crate) const fn new(_: usize) -> Option<Self> {
            None
        }

        pub(crate) const fn map(&self) -> Option<SharedBlock> {
            match *self {}
        }

        pub(crate) const fn shadow(&self) -> &Arc<Shadow> {
            match *self {}
        }
    }

    /// There is none.
    #[derive(Debug)]
    pub(crate) enum SharedBlock {}

    impl SharedBlock {
        pub(crate) const fn address(&self) -> usize {
            match *self {}
        }

        pub(crate) const fn file(&self) -> &SharedFile {
            match *self {}
        }
    }
}
