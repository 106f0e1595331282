//! A loaded NVRTC: where it is looked for, and the table of its functions.

#![expect(unsafe_code, reason = "the functions are C functions; addresses become functions here")]
#![expect(
    non_snake_case,
    reason = "the methods carry NVRTC's names, so that a name is written once"
)]

use core::{
    ffi::{c_char, c_int, c_void},
    fmt, mem,
    ptr::{self, NonNull},
};
use std::{
    env,
    path::{Path, PathBuf},
};

use super::{NvrtcApi, NvrtcCall, nvrtcFlowCallback, nvrtcProgram, nvrtcResult};
use crate::{
    Version,
    load::{Attempt, LoadError, Opened, Reason, Sought},
};

/// NVRTC as it is installed on this machine.
///
/// It may be loaded any number of times. Like a driver it is never unloaded.
pub struct Libnvrtc {
    table: Table,
    version: Version,
    path: PathBuf,
}

impl Libnvrtc {
    /// Loads NVRTC from where it is usually installed, or from what `CUHOLD_NVRTC` names: a file or a folder.
    ///
    /// Calls `nvrtcVersion`.
    ///
    /// # Errors
    /// What was tried, each with its reason, if none of it is NVRTC.
    pub fn load() -> Result<Self, LoadError> {
        // SAFETY: these names are NVRTC's; who sets the variables or the search path decides what code the process runs,
        // as with any library that is loaded by name.
        let open = |asked: &Path| unsafe { Self::open(asked) };
        if let Some(named) = NVRTC.named() {
            let advice = "CUHOLD_NVRTC is set, so nothing else was tried";
            return NVRTC.first(files_of(Path::new(&named)), advice.to_owned(), open);
        }
        let known = known_folders().into_iter().flat_map(|folder| files_of(&folder));
        let candidates = NAMES.iter().map(PathBuf::from).chain(known);
        NVRTC.first(candidates, NVRTC.advice.to_owned(), open)
    }

    /// Loads NVRTC from this file, or from this folder, and from nowhere else.
    ///
    /// Calls `nvrtcVersion`.
    ///
    /// # Errors
    /// What was tried, with the reason, if it isn't NVRTC.
    ///
    /// # Safety
    /// - *code*: the library's constructors and destructors are sound to run in this process;
    /// - *NVRTC's symbols*: what it exports under NVRTC's names is what NVRTC declares under them, and keeps
    ///   [`NvrtcApi`]'s promises: *written*, *no unwinding*, *any thread*.
    pub unsafe fn load_from(path: &Path) -> Result<Self, LoadError> {
        NVRTC.first(files_of(path), "Nothing else was tried".to_owned(), |asked| {
            // SAFETY: *code*, *NVRTC's symbols*: the caller's promise.
            unsafe { Self::open(asked) }
        })
    }

    /// Whether this NVRTC has the function.
    #[must_use]
    pub fn has(&self, call: NvrtcCall) -> bool {
        self.table.has(call)
    }

    /// The CUDA version of this NVRTC. As CUDA documents it, PTX needs a driver of at least this version, and code for a named
    /// architecture runs on any driver of the same major version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The file of the library, or the name under which it was loaded where the system doesn't tell.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that must lie beside the library, or on the search path, for anything to be compiled.
    #[must_use]
    pub fn builtins(&self) -> PathBuf {
        let (major, minor) = (self.version.0 / 1000, self.version.0 % 1000 / 10);
        let name = if cfg!(windows) {
            format!("nvrtc-builtins64_{major}{minor}.dll")
        } else {
            format!("libnvrtc-builtins.so.{major}.{minor}")
        };
        self.path.with_file_name(name)
    }

    /// # Safety
    /// As [`load_from`](Self::load_from).
    unsafe fn open(asked: &Path) -> Result<Self, Attempt> {
        if asked.is_dir() {
            return Err(Attempt::new(asked, Reason::NotInFolder));
        }
        // SAFETY: *code*: the caller's promise.
        let library = unsafe { Opened::open(asked) }?;
        let Some(version) = library.symbol(NvrtcCall::nvrtcVersion.name()) else {
            return Err(library.refuse(None, Reason::Lacks(NvrtcCall::nvrtcVersion.name())));
        };
        // SAFETY: *NVRTC's symbols*: the caller's promise. A table that is dropped below is dropped before the library
        // is closed, one that is returned keeps it open.
        let table = unsafe { Table::new(&library) };
        match table.version() {
            Err(status) => Err(library.refuse(Some(version), Reason::NoVersion(status))),
            Ok(number) => Ok(Self { table, version: number, path: library.keep(version) }),
        }
    }
}

impl fmt::Debug for Libnvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Libnvrtc")
            .field("path", &self.path)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

macro_rules! libnvrtc {
    ({} $($name:ident $kind:ident $since:literal ($($argument:ident : $type:ty),* $(,)?);)*) => {
        /// One function pointer per function; `None` where this NVRTC lacks it.
        ///
        /// Invariant: each pointer is NVRTC's function of the field's name, and the library stays loaded.
        struct Table {
            nvrtcGetErrorString: Option<unsafe extern "C" fn(nvrtcResult) -> *const c_char>,
            $($name: Option<unsafe extern "C" fn($($type),*) -> nvrtcResult>,)*
        }

        impl Table {
            /// # Safety
            /// What the library exports under NVRTC's names is what NVRTC declares under them, and it stays loaded as
            /// long as the table is used.
            #[expect(clippy::disallowed_methods, reason = "the loader turns an address into a function")]
            unsafe fn new(library: &Opened) -> Self {
                Self {
                    nvrtcGetErrorString: library.symbol("nvrtcGetErrorString").map(|address| {
                        // SAFETY: this is the signature that NVRTC gives the name; the caller's promise.
                        unsafe {
                            mem::transmute::<NonNull<c_void>, unsafe extern "C" fn(nvrtcResult) -> *const c_char>(address)
                        }
                    }),
                    $($name: library.symbol(stringify!($name)).map(|address| {
                        // SAFETY: the address is this function's, whose signature the list has; the caller's promise.
                        unsafe {
                            mem::transmute::<NonNull<c_void>, unsafe extern "C" fn($($type),*) -> nvrtcResult>(address)
                        }
                    }),)*
                }
            }

            fn has(&self, call: NvrtcCall) -> bool {
                match call { $(NvrtcCall::$name => self.$name.is_some(),)* }
            }
        }

        // SAFETY: *written*, *no unwinding*, *any thread*: promised for the library by whoever loaded it; what is
        // answered without reaching it isn't SUCCESS.
        unsafe impl NvrtcApi for Libnvrtc {
            fn explain(&self, status: nvrtcResult) -> Option<String> {
                self.missing_builtins(status)
            }
            unsafe fn nvrtcGetErrorString(&self, result: nvrtcResult) -> *const c_char {
                match self.table.nvrtcGetErrorString {
                    // SAFETY: the pointer is NVRTC's function (the table's invariant), which takes any status.
                    Some(function) => unsafe { function(result) },
                    None => ptr::null(),
                }
            }
            $(
                unsafe fn $name(&self, $($argument: $type),*) -> nvrtcResult {
                    match self.table.$name {
                        // SAFETY: the pointer is NVRTC's function (the table's invariant); *pointers*, *programs*, *calls
                        // back*: the caller's promise, passed on.
                        Some(function) => unsafe { function($($argument),*) },
                        None => self.unsupported(NvrtcCall::$name),
                    }
                }
            )*
        }
    };
}

crate::for_each_nvrtc_function! { libnvrtc, {} }

impl Table {
    fn version(&self) -> Result<Version, nvrtcResult> {
        let function = self.nvrtcVersion.ok_or(nvrtcResult::MISSING)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the pointer is NVRTC's function (the table's invariant); the results are writable for the call.
        let status = unsafe { function(&raw mut major, &raw mut minor) };
        if status.is_success() { Ok(Version(1000 * major + 10 * minor)) } else { Err(status) }
    }
}

impl Libnvrtc {
    fn missing_builtins(&self, status: nvrtcResult) -> Option<String> {
        let file = self.builtins();
        if status != nvrtcResult::BUILTIN_OPERATION_FAILURE || file.is_file() {
            return None;
        }
        Some(format!(
            "NVRTC needs `{}`, which isn't there (nor, it seems, on the library path): libnvrtc can't be copied or linked \
             to without it",
            file.display()
        ))
    }
}

/// The library's files that are there in a folder, the newest first; what isn't such a folder, as it is.
fn files_of(path: &Path) -> Vec<PathBuf> {
    let at = |name| LAYOUTS.iter().map(move |layout| path.join(layout).join(name));
    let mut files: Vec<PathBuf> = NAMES.iter().flat_map(at).filter(|file| file.is_file()).collect();
    if files.is_empty() {
        files.push(path.to_owned());
    }
    files
}

/// The folders where an installation may be, those that exist.
fn known_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for variable in ["CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX", "VIRTUAL_ENV"] {
        if let Some(root) = env::var_os(variable).filter(|value| !value.is_empty()) {
            folders.push(PathBuf::from(&root));
            folders.extend(python_packages(Path::new(&root)));
        }
    }
    folders.push("/usr/local/cuda".into());
    let home = env::home_dir().map(|home| home.join(".local"));
    for root in home.into_iter().chain(["/usr/local".into(), "/usr".into()]) {
        folders.extend(python_packages(&root));
    }
    folders.retain(|folder| folder.is_dir());
    folders
}

/// The folders of Python packages below `root` that hold some of NVIDIA's.
fn python_packages(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = root.join("lib").read_dir() else { return Vec::new() };
    let is_python = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"))
    };
    let mut versions: Vec<_> =
        entries.flatten().map(|entry| entry.path()).filter(is_python).collect();
    versions.sort();
    let packages = |version: PathBuf| ["site-packages", "dist-packages"].map(|p| version.join(p));
    versions.into_iter().flat_map(packages).filter(|p| p.join("nvidia").is_dir()).collect()
}

#[cfg(not(windows))]
const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
#[cfg(windows)]
const NAMES: [&str; 2] = ["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];

/// Where the library lies below the folder of an installation: the toolkit's, the Python wheels' of CUDA 13 and 12.
#[cfg(not(windows))]
const LAYOUTS: [&str; 5] = ["", "lib64", "lib", "nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"];
/// Where the library lies below the folder of an installation: the toolkit's.
#[cfg(windows)]
const LAYOUTS: [&str; 3] = ["", "bin", "bin/x64"];

static NVRTC: Sought = Sought {
    noun: "NVRTC",
    variable: "CUHOLD_NVRTC",
    advice: "Install CUDA's toolkit or the Python package nvidia-cuda-nvrtc, or name NVRTC's file or folder by CUHOLD_NVRTC",
};
