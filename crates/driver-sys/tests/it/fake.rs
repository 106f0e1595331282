//! Small shared libraries, built by `rustc` from a few lines of source.

#![expect(unsafe_code, reason = "asks a library for its count")]

use std::{
    env,
    fmt::Write as _,
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

/// A function of a fake driver.
#[derive(Clone)]
pub(crate) struct Function {
    /// The C symbol.
    pub(crate) symbol: &'static str,
    /// Under which name and version `cuGetProcAddress` answers it; `None` if it doesn't.
    pub(crate) asked: Option<(&'static str, i32)>,
    /// Whether it is an exported symbol.
    pub(crate) exported: bool,
    /// Parameters and statements; the last expression is the status.
    pub(crate) body: (&'static str, String),
}

/// Exported, and answered by `cuGetProcAddress`.
pub(crate) fn function(
    symbol: &'static str,
    name: &'static str,
    since: i32,
    (parameters, statements): (&'static str, &str),
) -> Function {
    let body = (parameters, statements.to_owned());
    Function { symbol, asked: Some((name, since)), exported: true, body }
}

impl Function {
    /// Not an exported symbol.
    pub(crate) fn hidden(self) -> Self {
        Self { exported: false, ..self }
    }

    /// Not answered by `cuGetProcAddress`.
    pub(crate) fn unlisted(self) -> Self {
        Self { asked: None, ..self }
    }
}

/// How a fake driver answers `cuGetProcAddress`.
#[derive(Clone, Copy)]
pub(crate) enum Lookup {
    /// The form of CUDA 12.0.
    WithStatus,
    /// The form of CUDA 11.3, which answers `NOT_FOUND` for what is missing.
    Plain,
    /// The form of CUDA 12.0, which succeeds with a null pointer whatever is asked.
    AlwaysNull,
    /// It has none.
    Absent,
}

/// `cuInit`, `cuDriverGetVersion` and two more: enough of a driver to be one.
pub(crate) fn basics() -> Vec<Function> {
    vec![
        function("cuInit", "cuInit", 2000, ("_: u32", "0")),
        function(
            "cuDriverGetVersion",
            "cuDriverGetVersion",
            2020,
            ("version: *mut i32", "unsafe { *version = VERSION }; 0"),
        ),
        function("cuStreamQuery", "cuStreamQuery", 2000, ("_: usize", "600")),
        function("cuCtxSynchronize", "cuCtxSynchronize", 2000, ("", "0")),
    ]
}

/// A folder of its own for a test; removed with what is in it when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);

        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fake-{}-{number}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Deref for Folder {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What can't be removed stays among the temporary files.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A library that was built: its path, in a folder of its own.
pub(crate) struct Built {
    folder: Folder,
    path: PathBuf,
}

impl Built {
    /// The folder that holds nothing else of the library's kind.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Deref for Built {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.path
    }
}

/// A driver of this version with these functions. Its `fake_calls` tells how many of their calls reached it.
pub(crate) fn driver(name: &str, version: i32, lookup: Lookup, functions: &[Function]) -> Built {
    build(name, &driver_source(version, lookup, functions))
}

/// Builds a library of this source; `name` is its file's name.
pub(crate) fn build(name: &str, source: &str) -> Built {
    let folder = Folder::new();
    let (from, to) = (folder.join("fake.rs"), folder.join(name));
    fs::write(&from, format!("{PRELUDE}{source}")).unwrap();
    let output = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--crate-type=cdylib", "--crate-name=fake"])
        .args(["-Cpanic=abort", "-Copt-level=1", "-Clink-arg=-nostdlib"])
        .args([Path::new("-o"), &to, &from])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Built { folder, path: to }
}

/// How many calls reached a fake that is loaded.
pub(crate) fn calls_reached(path: &Path) -> u32 {
    // SAFETY: the fake is ours and has no constructors.
    let library = unsafe { libloading::Library::new(path) }.unwrap();
    // SAFETY: the fake exports this function with this signature.
    let calls = unsafe { library.get::<extern "C" fn() -> u32>("fake_calls") }.unwrap();
    calls()
}

fn driver_source(version: i32, lookup: Lookup, functions: &[Function]) -> String {
    let mut source = format!("const VERSION: i32 = {version};\n");
    let mut answers = String::new();
    for Function { symbol, asked, exported, body: (parameters, statements) } in functions {
        let export = if *exported { "#[unsafe(no_mangle)]" } else { "" };
        writeln!(
            source,
            "{export} pub extern \"C\" fn {symbol}({parameters}) -> u32 {{ CALLS.fetch_add(1, Relaxed); {statements} }}"
        )
        .unwrap();
        if let Some((name, since)) = asked {
            writeln!(
                answers,
                "if name == c\"{name}\" && version >= {since} && since < {since} {{ since = {since}; found = {symbol} as *const () }}"
            )
            .unwrap();
        }
    }
    let (symbol, extra, body) = match lookup {
        Lookup::Absent => return source,
        Lookup::Plain => ("cuGetProcAddress", "", answers),
        Lookup::WithStatus => ("cuGetProcAddress_v2", ", _: *mut u32", answers),
        Lookup::AlwaysNull => ("cuGetProcAddress_v2", ", _: *mut u32", String::new()),
    };
    let missing = if matches!(lookup, Lookup::Plain) { 500 } else { 0 };
    writeln!(
        source,
        "#[unsafe(export_name = \"{symbol}\")]
        pub extern \"C\" fn look_up(name: *const c_char, out: *mut *const (), version: i32, _: u64{extra}) -> u32 {{
            if name.is_null() {{ return 1 }}
            let name = unsafe {{ core::ffi::CStr::from_ptr(name) }};
            let (mut since, mut found) = (0, core::ptr::null());
            if version > VERSION {{ return 1 }}
            {body}
            unsafe {{ *out = found }}
            if since == 0 {{ {missing} }} else {{ 0 }}
        }}"
    )
    .unwrap();
    source
}

const PRELUDE: &str = r#"
#![no_std]
#![allow(warnings)]
use core::{ffi::{c_char, c_int, c_void}, sync::atomic::{AtomicU32, Ordering::Relaxed}};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }

static CALLS: AtomicU32 = AtomicU32::new(0);

#[unsafe(no_mangle)]
pub extern "C" fn fake_calls() -> u32 { CALLS.load(Relaxed) }
"#;
