//! A pipeline between processes: a producer fills buffers on the GPU, and two consumers in other processes read them there,
//! without a copy between the processes. Events say in which order.
//!
//! On the real GPU the consumers are processes of their own, this program again; on the simulated driver they are threads,
//! each with a driver of its own, that are processes of one simulated world. Either way they know of each other only what
//! goes through sockets.
//!
//! ```text
//!   producer   fill slot ─ record "filled" ─ "slot n" ──►    ...    ◄── "read n" ─ wait "read" ─ fill slot again
//!   consumer                       wait "filled" ─ check on the GPU's memory ─ record "read" ─ "read n"
//! ```
//!
//! Every byte of every buffer is checked by every consumer; exit code 0 means that all were right. Run it with
//! `cargo run --release -p cuhold --features sim --example ipc_pipeline`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that shows something")]
#![expect(unsafe_code, reason = "launching a kernel is a promise about the kernel")]

mod consumer;
mod kernel;
mod producer;
mod report;
mod world;

use std::process::ExitCode;

/// How many consumers there are.
const CONSUMERS: usize = 2;
/// How many buffers are under way at once.
const SLOTS: usize = 4;

/// How much goes through.
#[derive(Clone, Copy)]
struct Amount {
    /// Words of each buffer.
    words: u32,
    /// Buffers in all.
    rounds: u64,
}

impl Amount {
    /// Enough for a real GPU, 16 MiB in each buffer; or so much that the simulated one is done in a moment.
    const fn of(is_real: bool) -> Self {
        if is_real {
            Self { words: 4 << 20, rounds: 256 }
        } else {
            Self { words: 64 << 10, rounds: 64 }
        }
    }

    const fn buffer_bytes(self) -> u64 {
        self.words as u64 * 4
    }
}

/// What the word at this place is in this round.
const fn word(round: u64, at: u32) -> u32 {
    at.wrapping_mul(2_654_435_761).wrapping_add(seed(round))
}

/// What tells one round's words from another's.
#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
const fn seed(round: u64) -> u32 {
    round.wrapping_mul(0x9E37_79B9_7F4A_7C15) as u32
}

fn main() -> ExitCode {
    let ended = match world::role() {
        Ok(Some(channel)) => consumer::in_own_process(channel),
        Ok(None) => world::begin(),
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ipc_pipeline: {error}");
            ExitCode::FAILURE
        }
    }
}
