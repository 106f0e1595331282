//! What is known about this *process*, whichever drivers it has loaded: was it forked, has its exit begun.
//!
//! Both are facts of the operating system's process, so they may stand in statics; nothing here remembers anything
//! about a driver.
//!
//! | question | answered by | cost of asking |
//! |---|---|---|
//! | am I a forked child? | [`ForkWord`]: a word that `fork` wipes in the child | one relaxed load and a compare |
//! | has exit begun? | [`exit_began`]: a flag that an `atexit` handler sets | one load |

mod exit;
mod fork;

pub(crate) use exit::register;
pub use exit::{ExitHook, exit_began, on_exit, watch_exit};
pub use fork::ForkWord;
