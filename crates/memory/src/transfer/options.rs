//! How slices are copied: the sizes on which their speed depends, in one table.

use super::staging::CHUNKS_MAX;
use cuhold_handles::{Error, Result};

const MIB: usize = 1 << 20;

/// The smallest and the largest chunk, in bytes.
const CHUNK_BYTES: [usize; 2] = [4 << 10, 64 * MIB];

/// How many threads a copy may use at most, the calling one included.
const THREADS_MAX: usize = 8;

/// How a borrowed slice is copied. The default is what was measured to be fast; a copy is right with all of them.
///
/// The device never reaches the slice: its bytes go through page-locked *chunks* of this library. While the device works
/// on one chunk, the thread copies from or to another.
///
/// # Examples
/// ```
/// # use cuhold_memory::{Buffer, StagingOptions, handles::{Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// # let stream = device.new_stream()?;
/// let mut buffer = Buffer::<u8>::uninit(&stream, 1000)?;
/// // On this thread alone, telling how far it came.
/// let mut done = 0;
/// let options = StagingOptions::default().threads(1);
/// buffer.as_view_mut().write_slice_with(&[7; 1000], options, |bytes| done = bytes)?;
/// assert_eq!(done, 1000);
/// # Ok::<(), cuhold_memory::handles::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub struct StagingOptions {
    /// How much one driver call moves, in bytes. Small enough that a copy of a few MiB overlaps the thread's copying with
    /// the device's; large enough that the driver calls of a chunk (some microseconds) don't count beside the copy itself
    /// (some tens). A context keeps chunks of the size that it met first.
    pub chunk_bytes: usize,
    /// How many chunks a thread uses at once: the device works on one while the thread works on another, and both have
    /// one to go on with.
    pub chunks: usize,
    /// How many threads copy at most, the calling one included. The others are started for the copy and end with it.
    pub threads: usize,
    /// A further thread is used for each so many bytes of the copy.
    pub bytes_per_thread: usize,
    /// From this size of the whole copy on, in bytes, the thread writes past its caches: the bytes are used by the device,
    /// or are more than a cache holds.
    pub streaming_bytes: usize,
}

impl Default for StagingOptions {
    /// Chunks of 1 MiB, four a thread; two threads from 32 MiB on; past the caches from 2 MiB on.
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl StagingOptions {
    pub(crate) const DEFAULT: Self = Self {
        chunk_bytes: MIB,
        chunks: 4,
        threads: 2,
        bytes_per_thread: 16 * MIB,
        streaming_bytes: 2 * MIB,
    };

    /// With chunks of this size, in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn chunk_bytes(mut self, bytes: usize) -> Self {
        self.chunk_bytes = bytes;
        self
    }

    /// With so many chunks a thread.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn chunks(mut self, chunks: usize) -> Self {
        self.chunks = chunks;
        self
    }

    /// With at most so many threads, the calling one included.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// With a further thread for each so many bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn bytes_per_thread(mut self, bytes: usize) -> Self {
        self.bytes_per_thread = bytes;
        self
    }

    /// Writing past the caches from this size on, in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn streaming_bytes(mut self, bytes: usize) -> Self {
        self.streaming_bytes = bytes;
        self
    }

    /// Refuses what can't be done.
    pub(super) fn check(self) -> Result<()> {
        let [least, most] = CHUNK_BYTES;
        let bounds = [
            ("chunk_bytes", self.chunk_bytes, least, most),
            ("chunks", self.chunks, 1, CHUNKS_MAX),
            ("threads", self.threads, 1, THREADS_MAX),
            ("bytes_per_thread", self.bytes_per_thread, 1, usize::MAX),
        ];
        for (name, value, least, most) in bounds {
            if value < least || value > most {
                return Err(Error::argument(format!(
                    "options: {name} is {value}, not within {least} to {most}"
                )));
            }
        }
        Ok(())
    }

    /// On how many threads so many bytes in so many pieces are copied.
    pub(super) fn threads_for(self, bytes: usize, pieces: usize) -> usize {
        let wanted = bytes.checked_div(self.bytes_per_thread).unwrap_or(1);
        wanted.min(self.threads).min(pieces).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_thread_is_used_once_both_have_their_share() {
        let options = StagingOptions::default();
        let threads = |bytes| options.threads_for(bytes, bytes.div_ceil(MIB));
        assert_eq!(
            [0, 1, 16 * MIB, 32 * MIB - 1, 32 * MIB, 500 * MIB].map(threads),
            [1, 1, 1, 1, 2, 2]
        );
        assert_eq!(options.threads(1).threads_for(500 * MIB, 500), 1);
        assert_eq!(options.threads_for(500 * MIB, 1), 1);
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_by_name() {
        let options = StagingOptions::default();
        options.check().unwrap();
        for (name, options) in [
            ("chunk_bytes", options.chunk_bytes(0)),
            ("chunks", options.chunks(CHUNKS_MAX + 1)),
            ("threads", options.threads(0)),
            ("bytes_per_thread", options.bytes_per_thread(0)),
        ] {
            let text = options.check().unwrap_err().to_string();
            assert!(text.contains(name), "{text}");
        }
    }
}
