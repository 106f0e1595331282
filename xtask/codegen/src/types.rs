//! The C types of `cuda.h`, by bindgen: structs, unions, enums as integer newtypes, integer macros.
//!
//! Handles and the status are left out: `driver-sys` writes them by hand, as newtypes that are `Send` and `Sync`.

use bindgen::{Builder, EnumVariation, Formatter, RustEdition, RustTarget, builder, callbacks};
use std::path::Path;

/// The opaque handles, each a pointer in C and a newtype in `driver-sys/src/raw.rs`.
const HANDLES: &[&str] = &[
    "CUcontext",
    "CUmodule",
    "CUfunction",
    "CUlibrary",
    "CUkernel",
    "CUarray",
    "CUmipmappedArray",
    "CUtexref",
    "CUsurfref",
    "CUevent",
    "CUstream",
    "CUgraphicsResource",
    "CUexternalMemory",
    "CUexternalSemaphore",
    "CUgraph",
    "CUgraphNode",
    "CUgraphExec",
    "CUmemoryPool",
    "CUuserObject",
    "CUgraphDeviceNode",
    "CUasyncCallbackHandle",
    "CUgreenCtx",
    "CUlinkState",
    "CUcheckpointOperationHandle",
    "CUcoredumpCallbackHandle",
    "CUdevResourceDesc",
    "CUlogsCallbackHandle",
];

#[derive(Debug)]
struct Names;

impl callbacks::ParseCallbacks for Names {
    fn item_name(&self, item: callbacks::ItemInfo<'_>) -> Option<String> {
        if item.name == "cudaError_enum" {
            return Some("CUresult".to_owned());
        }
        item.name
            .strip_suffix("_enum")
            .filter(|n| n.starts_with("CU") || n.starts_with("cu"))
            .map(str::to_owned)
    }

    /// The handles that `driver-sys` writes by hand are plain words: say so, or their unions lose `Copy`.
    fn blocklisted_type_implements_trait(
        &self,
        _name: &str,
        derive: callbacks::DeriveTrait,
    ) -> Option<callbacks::ImplementsTrait> {
        use callbacks::{DeriveTrait as T, ImplementsTrait as Is};
        Some(match derive {
            T::Copy | T::Debug | T::Hash | T::PartialEqOrPartialOrd | T::Default => Is::Yes,
        })
    }
}

/// What both runs of bindgen share: no system header is read.
pub fn base(headers: &Path, file: &str) -> Result<Builder, String> {
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim");
    let target =
        RustTarget::stable(85, 0).map_err(|_| "bindgen doesn't know Rust 1.85".to_owned())?;
    Ok(builder()
        .header(headers.join(file).display().to_string())
        .clang_args(["-nostdinc".to_owned(), "-isystem".to_owned(), shim.display().to_string()])
        .clang_arg(format!("-I{}", headers.display()))
        .parse_callbacks(Box::new(Names))
        .rust_target(target)
        .rust_edition(RustEdition::Edition2024)
        .use_core()
        .ctypes_prefix("core::ffi")
        .generate_comments(false)
        .disable_header_comment()
        .formatter(Formatter::Rustfmt))
}

/// The text of `generated/types.rs`.
pub fn generate(headers: &Path) -> Result<String, String> {
    let mut builder = base(headers, "cuda.h")?
        .allowlist_type("(cu|CU).*")
        .allowlist_var("(CU|cu).*")
        .default_enum_style(EnumVariation::NewType { is_bitfield: false, is_global: false })
        .derive_debug(true)
        .derive_copy(true)
        .derive_default(true)
        .derive_eq(true)
        .derive_hash(true)
        .layout_tests(true)
        .blocklist_type("CUresult|cudaError_enum")
        .raw_line("//! C types of the CUDA driver API, made by `cargo xtask codegen`. Don't edit.")
        .raw_line("use crate::{raw::*, status::CUresult};");
    for handle in HANDLES {
        builder = builder.blocklist_type(handle);
    }
    let text = builder.generate().map_err(|e| e.to_string())?.to_string();
    Ok(text.replace(ZEROED, ARGUED))
}

/// How bindgen writes a `Default`.
const ZEROED: &str = "        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
";

/// The same with its argument, and with one unsafe operation.
const ARGUED: &str = "        let s = ::core::mem::MaybeUninit::<Self>::zeroed();
        // SAFETY: all bits zero are a value of every C type: numbers, pointers, optional functions, and what holds them.
        unsafe { s.assume_init() }
";
