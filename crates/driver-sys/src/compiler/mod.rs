//! What the lists of the compilers have in common: from a list come its calls' identities, a trait, named calls, hooks, and
//! the table of a loaded library, and its loader.
//!
//! ```text
//!   list ──► calls! ──► XCall           api! ──► XApi, XCalls, Hooked      table!, loader! ──► LibX
//! ```
//!
//! Each compiler is a folder with its list, its statuses and its loader: [`nvrtc`](crate::nvrtc), [`nvvm`](crate::nvvm),
//! [`nvjitlink`](crate::nvjitlink). The macros here are what would else stand in each of them.

mod api;
mod calls;
mod loader;
mod search;
mod status;
mod table;

pub(crate) use api::{api, pointer};
pub(crate) use calls::{calls, handle};
pub(crate) use loader::loader;
pub(crate) use search::{Library, not_a_folder};
pub(crate) use status::statuses;
pub(crate) use table::table;
