//! nvJitLink, the linker of device code at run time: a list of its own, with a trait, named calls, hooks and a loader, built
//! like NVRTC's.
//!
//! It needs no driver and no GPU. It is looked for only when it is asked for, as [`nvrtc`](crate::nvrtc) is: what
//! `CUHOLD_NVJITLINK` names, else by name, else in the known folders; below an installation's folder in `lib64`, `lib`,
//! `nvidia/cu13/lib`, `nvidia/nvjitlink/lib`. Its functions are resolved by their plain names: the header's own, such as
//! `__nvJitLinkCreate_13_5`, are of one version.
//!
//! Source: `nvJitLink.h` of CUDA 13.5.

mod api;
mod list;
mod load;
mod status;

pub use api::{NvJitLinkApi, NvJitLinkCalls, NvJitLinkFailure};
pub use list::{NvJitLinkCall, nvJitLinkHandle, nvJitLinkInputType};
pub use load::Libnvjitlink;
pub use status::nvJitLinkResult;
