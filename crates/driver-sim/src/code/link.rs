//! The driver's linker, as far as its own loader goes: PTX put together is PTX again, and one compiled image is itself.
//!
//! Source: CUDA Driver API 13.x, "Module Management" (`cuLink…`).

#![expect(unsafe_code, reason = "images and logs are the caller's pointers")]

use std::slice;

use cuhold_driver_sys::ffi::*;

use super::{
    image::{Image, Target},
    jit::Logs,
    load::Source,
};
use crate::{
    context::Context,
    world::{Answer, Ending, In, Key, Out, Turn},
};

/// A link under way.
#[derive(Debug)]
pub(crate) struct LinkState {
    context: Key<Context>,
    target: Target,
    inputs: Vec<Input>,
    logs: KeptLogs,
    /// A name was defined twice: nothing can be made of it any more (measured).
    is_broken: bool,
    /// What came out; the caller reads it until the state is destroyed.
    linked: Option<Box<[u8]>>,
}

impl LinkState {
    pub(super) fn context(&self) -> Key<Context> {
        self.context
    }
}

/// An image that was added.
#[derive(Debug)]
struct Input {
    /// PTX without its NUL, or compiled code.
    bytes: Vec<u8>,
    is_text: bool,
    /// What it defines.
    names: Vec<String>,
}

/// Where the caller wants to read what went wrong.
#[derive(Debug, Default)]
struct KeptLogs(Logs);

#[expect(clippy::non_send_fields_in_send_ty, reason = "pointers of the caller; see below")]
// SAFETY: the pointers are followed only during calls on the state, by their caller's promise; the world is locked then.
unsafe impl Send for KeptLogs {}

type Kind = CUjitInputType;

impl Turn<'_> {
    fn link(&mut self, raw: CUlinkState) -> Result<Key<LinkState>, CUresult> {
        self.find(|state| &state.code.links, raw.addr(), CUresult::INVALID_HANDLE)
    }

    fn link_data(&mut self, key: Key<LinkState>) -> Result<&mut LinkState, CUresult> {
        self.state.code.links.get_mut(key).ok_or(CUresult::INVALID_HANDLE)
    }

    /// Tells what a call on the state answered.
    fn log_link(&mut self, key: Key<LinkState>, answer: Answer) -> Answer {
        if let Some(link) = self.state.code.links.get(key) {
            // SAFETY: *pointers*: whoever made the state keeps its buffers until it is destroyed (documented).
            unsafe { link.logs.0.write(answer.err()) };
        }
        answer
    }

    fn add(&mut self, key: Key<LinkState>, kind: Kind, bytes: &[u8]) -> Answer {
        let link = self.link_data(key)?;
        if link.linked.is_some() {
            return Err(CUresult::INVALID_VALUE);
        }
        let input = Input::read(kind, bytes, link.target)?;
        let known = |name| link.inputs.iter().any(|input| input.names.contains(name));
        link.is_broken |= input.names.iter().any(known);
        if link.is_broken {
            return Err(CUresult::INVALID_SOURCE);
        }
        link.inputs.push(input);
        Ok(())
    }
}

impl Input {
    fn read(kind: Kind, bytes: &[u8], target: Target) -> Result<Self, CUresult> {
        let (image, bytes, is_text) = match kind {
            Kind::CU_JIT_INPUT_PTX => {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                let text = bytes.get(..end).unwrap_or_default();
                (Source::Text(text).read(target)?, text, true)
            }
            Kind::CU_JIT_INPUT_CUBIN => (Source::Elf(bytes).read(target)?, bytes, false),
            Kind::CU_JIT_INPUT_FATBINARY => (Source::Fat(bytes).read(target)?, bytes, false),
            // Host objects, archives and LLVM's code would need a linker.
            Kind::CU_JIT_INPUT_OBJECT | Kind::CU_JIT_INPUT_LIBRARY | Kind::CU_JIT_INPUT_NVVM => {
                return Err(CUresult::MISSING);
            }
            _ => return Err(CUresult::INVALID_VALUE),
        };
        Ok(Self { bytes: bytes.to_vec(), is_text, names: names(image) })
    }
}

fn names(image: Image) -> Vec<String> {
    let kernels = image.kernels.into_iter().map(|kernel| kernel.name);
    kernels.chain(image.variables.into_iter().map(|variable| variable.name)).collect()
}

/// PTX of nothing, which is what a link of nothing gives.
fn nothing(target: Target) -> Vec<u8> {
    format!(".version 7.0\n.target sm_{}\n.address_size 64\n\0", target.architecture).into_bytes()
}

/// The inputs as one image, with a NUL behind it.
fn put_together(inputs: &[Input], target: Target) -> Result<Vec<u8>, CUresult> {
    let Some((first, rest)) = inputs.split_first() else { return Ok(nothing(target)) };
    if !rest.is_empty() && !inputs.iter().all(|input| input.is_text) {
        return Err(CUresult::MISSING);
    }
    let mut linked = first.bytes.clone();
    for input in rest {
        linked.push(b'\n');
        let text = String::from_utf8_lossy(&input.bytes);
        // Only the first image says what it is for.
        let is_header = |line: &&str| {
            let directives = [".version", ".target", ".address_size"];
            directives.iter().any(|directive| line.trim_start().starts_with(directive))
        };
        for line in text.lines().filter(|line| !is_header(line)) {
            linked.extend_from_slice(line.as_bytes());
            linked.push(b'\n');
        }
    }
    linked.push(0);
    Ok(linked)
}

pub(crate) fn link_create(
    turn: &mut Turn<'_>,
    count: c_uint,
    options: Out<CUjit_option>,
    values: Out<*mut c_void>,
    out: Out<CUlinkState>,
) -> Answer {
    let out = out.required()?;
    let context = turn.current()?;
    turn.not_lost()?;
    let count = usize::try_from(count).map_err(|_too_many| CUresult::INVALID_VALUE)?;
    // SAFETY: *pointers*: the caller's arrays have as many entries as it says.
    let mut logs = unsafe { Logs::read(options, values, count) }?;
    let device = turn.device_of_context(context)?;
    let target = turn.code_target(device)?;
    // SAFETY: *pointers*: as above; the call hasn't ended.
    unsafe { logs.begin() };
    let logs = KeptLogs(logs);
    let (inputs, is_broken, linked) = (Vec::new(), false, None);
    let link = LinkState { context, target, inputs, logs, is_broken, linked };
    let site = turn.site;
    out.write(CUlinkState::from_addr(turn.state.code.links.insert(site, link).raw()));
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn link_add_data(
    turn: &mut Turn<'_>,
    state: CUlinkState,
    kind: Kind,
    data: Out<c_void>,
    size: usize,
    _name: In<c_char>,
    _count: c_uint,
    _options: Out<CUjit_option>,
    _values: Out<*mut c_void>,
) -> Answer {
    let key = turn.link(state)?;
    if data.is_null() || size == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    // SAFETY: *pointers*: the caller says how long its image is; it is copied before the call ends.
    let bytes = unsafe { slice::from_raw_parts(data.as_ptr().cast::<u8>(), size) };
    let answer = turn.add(key, kind, bytes);
    turn.log_link(key, answer)
}

#[expect(clippy::too_many_arguments, reason = "C's arguments")]
pub(crate) fn link_add_file(
    turn: &mut Turn<'_>,
    state: CUlinkState,
    kind: Kind,
    path: In<c_char>,
    _count: c_uint,
    _options: Out<CUjit_option>,
    _values: Out<*mut c_void>,
) -> Answer {
    let key = turn.link(state)?;
    let bytes = turn.read_file(path)?;
    let answer = turn.add(key, kind, &bytes);
    turn.log_link(key, answer)
}

/// What comes out is the state's, until that is destroyed. It isn't asked for twice (measured).
pub(crate) fn link_complete(
    turn: &mut Turn<'_>,
    state: CUlinkState,
    cubin: Out<*mut c_void>,
    size: Out<usize>,
) -> Answer {
    let key = turn.link(state)?;
    let cubin = cubin.required()?;
    let link = turn.link_data(key)?;
    if link.linked.is_some() {
        return Err(CUresult::INVALID_HANDLE);
    }
    let linked = if link.is_broken {
        Err(CUresult::INVALID_SOURCE)
    } else {
        put_together(&link.inputs, link.target)
    };
    match linked {
        Ok(linked) => link.linked = Some(linked.into_boxed_slice()),
        Err(status) => return turn.log_link(key, Err(status)),
    }
    let linked = turn.link_data(key)?.linked.as_deref().unwrap_or_default();
    let (start, len) = (linked.as_ptr().cast_mut().cast(), linked.len());
    cubin.write(start);
    size.write(len);
    turn.log_link(key, Ok(()))
}

pub(crate) fn link_destroy(turn: &mut Turn<'_>, state: CUlinkState) -> Answer {
    let key = turn.link(state)?;
    let site = turn.site;
    turn.state.code.links.remove(key, site, Ending::Destroyed);
    Ok(())
}
