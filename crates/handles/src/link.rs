//! The driver's linker: images put together into one that a device loads.
//!
//! The driver writes what it has to say into buffers that it was given when the link began, at any time until the state is
//! destroyed: they belong to the state's block and go after it.
//!
//! Source: CUDA Driver API 13.x, "Module Management" (`cuLink…`).

#![expect(unsafe_code, reason = "calls the driver's link functions, which keep pointers")]

use crate::{
    context::Context,
    driver::Driver,
    error::{Error, Refused, Result},
    object::ObjectKind,
    resource::{Closed, Here, Resource},
    scope,
};
use cuhold_driver_sys::{Call, Calls, Failure, ffi::*};
use std::{
    alloc::{self, Layout},
    borrow::Cow,
    ffi::{CStr, CString},
    fmt,
    path::Path,
    ptr::{self, NonNull},
    slice,
    sync::atomic::{AtomicBool, Ordering},
};

/// What an input of a link is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum LinkInput {
    /// PTX text.
    Ptx,
    /// Code for one architecture.
    Cubin,
    /// Several of these in one.
    Fatbinary,
    /// A host object with device code in it.
    Object,
    /// An archive of such objects.
    Library,
}

impl LinkInput {
    fn raw(self) -> CUjitInputType {
        match self {
            Self::Ptx => CUjitInputType::CU_JIT_INPUT_PTX,
            Self::Cubin => CUjitInputType::CU_JIT_INPUT_CUBIN,
            Self::Fatbinary => CUjitInputType::CU_JIT_INPUT_FATBINARY,
            Self::Object => CUjitInputType::CU_JIT_INPUT_OBJECT,
            Self::Library => CUjitInputType::CU_JIT_INPUT_LIBRARY,
        }
    }
}

/// How a link is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LinkOptions {
    /// Room for each of the two logs, in bytes; from 1 to [`LOG_BYTES_MAX`](Self::LOG_BYTES_MAX).
    pub log_bytes: usize,
}

impl LinkOptions {
    /// The most room for a log: 16 MiB.
    pub const LOG_BYTES_MAX: usize = 16 << 20;

    /// With so much room for each of the two logs, in bytes.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn log_bytes(mut self, log_bytes: usize) -> Self {
        self.log_bytes = log_bytes;
        self
    }
}

impl Default for LinkOptions {
    /// 8 KiB for each log.
    fn default() -> Self {
        Self { log_bytes: 8 << 10 }
    }
}

/// What a link refers to: the context, and the buffers that the driver writes to.
#[derive(Debug)]
pub(crate) struct LinkDeps {
    logs: Option<Logs>,
    context: Context,
}

/// The resource behind [`LinkState`].
#[derive(Debug)]
pub(crate) struct LinkRes;

// SAFETY: *ends*: `cuLinkDestroy`. *Dependencies*: a link refers to its context and to the buffers of its options.
unsafe impl Resource for LinkRes {
    type Raw = CUlinkState;
    type Deps = LinkDeps;
    const KIND: ObjectKind = ObjectKind::LinkState;
    const DESTROY: Option<Call> = Some(Call::cuLinkDestroy);

    fn driver(deps: &LinkDeps) -> &Driver {
        deps.context.driver()
    }
    fn context(deps: &LinkDeps) -> CUcontext {
        deps.context.as_raw()
    }
    unsafe fn destroy(calls: Calls<'_>, raw: CUlinkState, deps: &LinkDeps) -> Result<(), Failure> {
        // SAFETY: *handles*: live, by the caller's promise.
        let ended = unsafe { calls.cuLinkDestroy(raw) };
        if ended.is_err()
            && let Some(logs) = &deps.logs
        {
            // The driver may still have the state, and write (P7).
            logs.kept.store(true, Ordering::Relaxed);
        }
        ended
    }
}

/// A link under way in the driver's linker. It stays on its thread: after a link that was completed on another one a later
/// link ended the process (measured).
///
/// Its drop calls `cuLinkDestroy`.
///
/// # Examples
/// ```
/// # use cuhold_handles::{Device, Driver, LinkInput, LinkOptions, LinkState};
/// # let driver = Driver::from_api(cuhold_driver_sim::Sim::new());
/// let ptx = b".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry nop() { ret; }";
/// let device = Device::with_driver(&driver, 0)?;
/// let mut link = LinkState::new(device.context(), LinkOptions::default())?;
/// link.add_data(LinkInput::Ptx, ptx, "nop.ptx")?;
/// let kernel = device.load(link.complete()?)?.kernel("nop")?;
/// # let _ = kernel;
/// # Ok::<(), cuhold_handles::Error>(())
/// ```
pub struct LinkState(Here<LinkRes>);

impl LinkState {
    /// Begins a link for the context's device.
    ///
    /// Calls `cuLinkCreate`; `cuLinkDestroy` where it is undone.
    ///
    /// # Errors
    /// The call's failure, or that of making the context current and the caller's again; room for the logs that is out of
    /// its bounds, or that the host doesn't have.
    #[doc(alias = "cuLinkCreate")]
    pub fn new(context: &Context, options: LinkOptions) -> Result<Self> {
        let deps = LinkDeps { logs: Some(Logs::new(options.log_bytes)?), context: context.clone() };
        let make = |calls: Calls<'_>, deps: &LinkDeps| {
            let mut raw = CUlinkState::NULL;
            let (count, names, values) =
                deps.logs.as_ref().map_or((0, ptr::null_mut(), ptr::null_mut()), Logs::options);
            // SAFETY: *pointers*: `raw` is a live local; the options and the buffers that they name go with the state's
            // block, after it.
            unsafe { calls.cuLinkCreate_v2(count, names, values, &raw mut raw) }?;
            Ok(raw)
        };
        Ok(Self(Here::create(Call::cuLinkCreate_v2, deps, make)?))
    }

    /// Adds an image, under a name for messages. It is copied during the call; PTX gets its NUL byte if it has none.
    ///
    /// Calls `cuLinkAddData`.
    ///
    /// # Errors
    /// The call's failure, with what the linker says: the link is then good for [`close`](Self::close) alone. No bytes; a
    /// name with a NUL byte.
    #[doc(alias = "cuLinkAddData")]
    pub fn add_data(&mut self, input: LinkInput, data: &[u8], name: &str) -> Result<()> {
        if data.is_empty() {
            return Err(Error::argument("data: an image has at least 1 byte"));
        }
        let name = c_string(name, "name")?;
        let data = terminated(input, data);
        let (bytes, len) = (data.as_ptr().cast_mut().cast(), data.len());
        let (link, kind) = (self.as_raw(), input.raw());
        self.run(|calls| {
            let (options, values) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: *handles*: this value's state. *Pointers*: `data` is as long as said and `name` a C string, both
            // read during the call; no options are given.
            unsafe {
                calls.cuLinkAddData_v2(link, kind, bytes, len, name.as_ptr(), 0, options, values)
            }
        })
    }

    /// Adds a file, which the driver reads during the call.
    ///
    /// Calls `cuLinkAddFile`.
    ///
    /// # Errors
    /// As [`add_data`](Self::add_data); `FILE_NOT_FOUND`; a path with a NUL byte.
    #[doc(alias = "cuLinkAddFile")]
    pub fn add_file(&mut self, input: LinkInput, path: &Path) -> Result<()> {
        let path = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|error| Error::argument(format!("path: {error}")))?;
        let (link, kind) = (self.as_raw(), input.raw());
        self.run(|calls| {
            let (options, values) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: *handles*: this value's state. *Pointers*: a C string, read during the call; no options are given.
            unsafe { calls.cuLinkAddFile_v2(link, kind, path.as_ptr(), 0, options, values) }
        })
    }

    /// Links what was added. The code belongs to the link: it is borrowed from it.
    ///
    /// Calls `cuLinkComplete`.
    ///
    /// # Errors
    /// The call's failure, with what the linker says.
    #[doc(alias = "cuLinkComplete")]
    pub fn complete(&mut self) -> Result<&[u8]> {
        let (mut code, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: *handles*: this value's state; *pointers*: live locals.
        self.run(|calls| unsafe {
            calls.cuLinkComplete(self.as_raw(), &raw mut code, &raw mut bytes)
        })?;
        if code.is_null() {
            return Err(Error::state("the driver reported success and gave no code"));
        }
        // SAFETY: *written*: so many bytes, which live as long as the state; the borrow keeps that from being ended or
        // linked again.
        Ok(unsafe { slice::from_raw_parts(code.cast::<u8>().cast_const(), bytes) })
    }

    /// What the linker has told so far, cut to the log's room. Empty for a link that was taken over.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn info_log(&self) -> String {
        self.0.deps().logs.as_ref().map(|logs| logs.info.text()).unwrap_or_default()
    }

    /// What the linker has complained about so far, cut to the log's room. Empty for a link that was taken over.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn error_log(&self) -> String {
        self.0.deps().logs.as_ref().map(|logs| logs.errors.text()).unwrap_or_default()
    }

    /// The context.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.0.deps().context
    }

    /// Ends the link here and now, and the code that it gave.
    ///
    /// Calls `cuLinkDestroy`.
    ///
    /// # Errors
    /// [`Refused`], with the link where the driver wasn't asked.
    #[doc(alias = "cuLinkDestroy")]
    pub fn close(self) -> Result<Closed, Refused<Option<Self>>> {
        self.0.close().map_err(|refused| Refused::new(refused.error, refused.value.map(Self)))
    }

    /// Makes a call with the link's context current, though the linker asks for none: one that was destroyed may be.
    fn run(&self, operation: impl FnOnce(Calls<'_>) -> Result<(), Failure>) -> Result<()> {
        scope::run(self.context().target(), operation).map_err(|error| self.said(error))
    }

    /// The error, with what the linker says about it.
    fn said(&self, error: Error) -> Error {
        let log = self.error_log();
        let log = log.trim();
        if log.is_empty() {
            return error;
        }
        error.with_note(crate::Note::Text(log.to_owned().into()))
    }
}

forms! {
    LinkState(Here<LinkRes>): CUlinkState, "link state",
    (context: &Context) => LinkDeps { logs: None, context: context.clone() }
}

fn c_string(text: &str, what: &str) -> Result<CString> {
    CString::new(text).map_err(|error| Error::argument(format!("{what}: {error}")))
}

/// PTX with its NUL byte.
fn terminated(input: LinkInput, data: &[u8]) -> Cow<'_, [u8]> {
    if input != LinkInput::Ptx || data.contains(&0) {
        return data.into();
    }
    let mut text = data.to_vec();
    text.push(0);
    text.into()
}

/// How many options there are.
const OPTIONS: usize = 4;
/// The same, as the driver counts.
const COUNT: u32 = 4;

/// The logs' buffers, and the options that name them, at addresses that stay.
struct Logs {
    info: Buffer,
    errors: Buffer,
    /// The options' names and values, which the driver reads and writes.
    names: NonNull<[CUjit_option; OPTIONS]>,
    values: NonNull<[*mut c_void; OPTIONS]>,
    /// The memory stays for good.
    kept: AtomicBool,
}

// SAFETY: the pointers are to memory of this value alone. The driver writes there only during calls on the state, which
// are made by the one thread that has the state; and only that thread reads.
unsafe impl Send for Logs {}
// SAFETY: as above: the state isn't `Sync`, so no two threads reach this.
unsafe impl Sync for Logs {}

impl Logs {
    fn new(log_bytes: usize) -> Result<Self> {
        let info = Buffer::new(log_bytes)?;
        let errors = Buffer::new(log_bytes).inspect_err(|_| info.free())?;
        let names = Box::new([
            CUjit_option::CU_JIT_INFO_LOG_BUFFER,
            CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ]);
        let room = ptr::without_provenance_mut(log_bytes);
        let values =
            Box::new([info.start.as_ptr().cast(), room, errors.start.as_ptr().cast(), room]);
        Ok(Self {
            info,
            errors,
            names: NonNull::from(Box::leak(names)),
            values: NonNull::from(Box::leak(values)),
            kept: AtomicBool::new(false),
        })
    }

    fn options(&self) -> (u32, *mut CUjit_option, *mut *mut c_void) {
        (COUNT, self.names.as_ptr().cast(), self.values.as_ptr().cast())
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        if self.kept.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: leaked by `new`, and freed once: the state that the driver knew them for is ended, or never began.
        drop(unsafe { Box::from_raw(self.names.as_ptr()) });
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(self.values.as_ptr()) });
        self.info.free();
        self.errors.free();
    }
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logs").field("bytes", &self.info.layout.size()).finish_non_exhaustive()
    }
}

/// Memory that the driver writes a text to.
struct Buffer {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: as for `Logs`, which is all that has one.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    fn new(bytes: usize) -> Result<Self> {
        let most = LinkOptions::LOG_BYTES_MAX;
        if !(1..=most).contains(&bytes) {
            return Err(Error::argument(format!("log_bytes: {bytes}, must be from 1 to {most}")));
        }
        let layout = Layout::array::<u8>(bytes)
            .map_err(|error| Error::argument(format!("log_bytes: {error}")))?;
        // SAFETY: the layout isn't empty.
        match NonNull::new(unsafe { alloc::alloc_zeroed(layout) }) {
            Some(start) => Ok(Self { start, layout }),
            None => Err(Error::argument(format!("log_bytes: the host hasn't {bytes} bytes"))),
        }
    }

    /// What stands there, up to the first NUL byte.
    fn text(&self) -> String {
        // SAFETY: this value's memory, zeroed when it was made; the driver writes it only during calls on the state.
        let bytes = unsafe { slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) };
        let text = CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes);
        String::from_utf8_lossy(text).into_owned()
    }

    /// Frees the memory; called once, by the logs that own it.
    fn free(&self) {
        // SAFETY: allocated by `new` with this layout, freed once.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}
