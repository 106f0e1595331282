//! Textures and surfaces: numbers, counted in each context for itself.
//!
//! So a number that is destroyed while another context is current is that context's texture of the same number, if it
//! has one, and nobody notices. Where it has none the driver answers success all the same (measured for a second
//! destroy); here that is a violation.
//!
//! Nothing is sampled: a kernel's closure reads no texture.
//!
//! Source: CUDA Driver API 13.x, "Texture Object Management", "Surface Object Management"; readings of a real driver.

#![expect(unsafe_code, reason = "descriptions of resources are unions")]

use std::{collections::BTreeMap, fmt};

use cuhold_driver_sys::ffi::*;

use crate::{
    array::element_bytes,
    audit::{CallSite, Leak, ObjectKind, Violation, ViolationKind},
    context::Context,
    world::{Answer, In, Key, Out, State, Turn},
};

/// What a linear texture's address is a multiple of, in bytes (an attribute of the device).
const ALIGNMENT_BYTES: u64 = 512;
/// What a pitched texture's pitch is a multiple of, in bytes.
const PITCH_ALIGNMENT_BYTES: usize = 32;

/// What a texture is made of, and how it is sampled.
#[derive(Clone, Copy)]
pub(crate) struct Texture {
    over: CUDA_RESOURCE_DESC,
    sampling: CUDA_TEXTURE_DESC,
    view: Option<CUDA_RESOURCE_VIEW_DESC>,
}

/// What a surface is made of.
#[derive(Clone, Copy)]
pub(crate) struct Surface(CUDA_RESOURCE_DESC);

/// A description as it was given: its handles are words that are never followed here.
macro_rules! words {
    ($($name:ident)*) => { $(
        // SAFETY: the pointers in it are handles, looked up and never followed.
        unsafe impl Send for $name {}

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )* };
}
words! { Texture Surface }

#[derive(Debug)]
struct Slot<T> {
    made: CallSite,
    value: T,
}

/// The numbers of one kind in one context.
#[derive(Debug)]
struct Numbers<T> {
    live: BTreeMap<u64, Slot<T>>,
    given: u64,
    /// Destroyed ones, the newest last: it is given out again first.
    free: Vec<u64>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { live: BTreeMap::new(), given: 0, free: Vec::new() }
    }
}

/// The numbers of one kind, by the id of their context.
#[derive(Debug)]
pub(crate) struct Numbered<T> {
    kind: ObjectKind,
    contexts: BTreeMap<u64, Numbers<T>>,
    /// What ended with its context.
    gone: Vec<Leak>,
}

impl<T: Copy> Numbered<T> {
    fn new(kind: ObjectKind) -> Self {
        Self { kind, contexts: BTreeMap::new(), gone: Vec::new() }
    }

    fn insert(&mut self, context: Key<Context>, made: CallSite, value: T) -> u64 {
        let numbers = self.contexts.entry(context.id()).or_default();
        let number = numbers.free.pop().unwrap_or_else(|| {
            numbers.given += 1;
            numbers.given
        });
        numbers.live.insert(number, Slot { made, value });
        number
    }

    fn get(&self, context: Key<Context>, number: u64) -> Option<T> {
        Some(self.contexts.get(&context.id())?.live.get(&number)?.value)
    }

    /// Ends a number; else says what is wrong with it.
    fn remove(&mut self, context: Key<Context>, number: u64) -> Result<(), ViolationKind> {
        let numbers = self.contexts.entry(context.id()).or_default();
        if numbers.live.remove(&number).is_some() {
            numbers.free.push(number);
            return Ok(());
        }
        let given = (1..=numbers.given).contains(&number);
        let elsewhere = self.contexts.values().any(|other| other.live.contains_key(&number));
        Err(match (given, elsewhere) {
            (_, true) => ViolationKind::WrongContext,
            (true, false) => ViolationKind::DoubleDestroy,
            (false, false) => ViolationKind::UnknownHandle,
        })
    }

    fn end_context(&mut self, context: Key<Context>) {
        let Some(numbers) = self.contexts.remove(&context.id()) else { return };
        let ended = numbers.live.into_iter();
        self.gone.extend(ended.map(|(number, slot)| Leak::new(self.kind, number, slot.made)));
    }

    pub(crate) fn leaks(&self) -> impl Iterator<Item = Leak> {
        let live = self.contexts.values().flat_map(|numbers| &numbers.live);
        live.map(|(number, slot)| Leak::new(self.kind, *number, slot.made))
    }

    pub(crate) fn gone_with_context(&self) -> impl Iterator<Item = Leak> {
        self.gone.iter().copied()
    }
}

/// Every texture and every surface.
#[derive(Debug)]
pub(crate) struct Textures {
    pub(crate) textures: Numbered<Texture>,
    pub(crate) surfaces: Numbered<Surface>,
}

impl Default for Textures {
    fn default() -> Self {
        Self {
            textures: Numbered::new(ObjectKind::Texture),
            surfaces: Numbered::new(ObjectKind::Surface),
        }
    }
}

impl State {
    pub(crate) fn end_context_in_textures(&mut self, context: Key<Context>) {
        self.textures.textures.end_context(context);
        self.textures.surfaces.end_context(context);
    }
}

impl Turn<'_> {
    fn check_array(&mut self, desc: &CUDA_RESOURCE_DESC) -> Answer {
        // SAFETY: by its type the description is that of an array; any word is a handle to look up.
        let raw = unsafe { desc.res.array }.hArray;
        self.array(raw).map(|_key| ()).map_err(|_absent| CUresult::INVALID_VALUE)
    }

    fn check_mipmapped(&mut self, desc: &CUDA_RESOURCE_DESC) -> Answer {
        // SAFETY: as for an array.
        let raw = unsafe { desc.res.mipmap }.hMipmappedArray;
        self.mipmapped(raw).map(|_key| ()).map_err(|_absent| CUresult::INVALID_VALUE)
    }

    /// Checks what a texture is to be made of.
    fn check_resource(&mut self, desc: &CUDA_RESOURCE_DESC) -> Answer {
        let fits = match desc.resType {
            _ if desc.flags != 0 => false,
            CUresourcetype::CU_RESOURCE_TYPE_ARRAY => return self.check_array(desc),
            CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY => return self.check_mipmapped(desc),
            CUresourcetype::CU_RESOURCE_TYPE_LINEAR => {
                // SAFETY: by its type the description is that of bytes in a row; any bytes are numbers.
                let linear = unsafe { desc.res.linear };
                let element = element_bytes(linear.format, linear.numChannels)?;
                is_aligned(linear.devPtr) && linear.sizeInBytes >= element
            }
            CUresourcetype::CU_RESOURCE_TYPE_PITCH2D => {
                // SAFETY: by its type the description is that of rows; any bytes are numbers.
                let rows = unsafe { desc.res.pitch2D };
                let element = element_bytes(rows.format, rows.numChannels)?;
                let row = rows.width.checked_mul(element).filter(|row| *row > 0);
                let pitch = rows.pitchInBytes;
                is_aligned(rows.devPtr)
                    && rows.height > 0
                    && pitch.is_multiple_of(PITCH_ALIGNMENT_BYTES)
                    && row.is_some_and(|row| row <= pitch)
            }
            _ => false,
        };
        if fits { Ok(()) } else { Err(CUresult::INVALID_VALUE) }
    }

    /// What a number needs: the current context, which it belongs to.
    fn numbering_context(&mut self) -> Result<Key<Context>, CUresult> {
        let context = self.current()?;
        self.not_lost()?;
        self.check_capture()?;
        Ok(context)
    }

    /// A destroy of a number that isn't there.
    #[cold]
    fn violate_number(&mut self, violated: ViolationKind, kind: ObjectKind, number: u64) {
        let calls = vec![self.site];
        let note = "";
        let object = Some((kind, number));
        self.state.violate(Violation { kind: violated, object, calls, note });
    }

    /// The texture of the current context with this number.
    fn texture(&mut self, number: CUtexObject) -> Result<Texture, CUresult> {
        let context = self.current()?;
        self.state.textures.textures.get(context, number).ok_or(CUresult::INVALID_VALUE)
    }
}

fn is_aligned(address: CUdeviceptr) -> bool {
    address != 0 && address.is_multiple_of(ALIGNMENT_BYTES)
}

/// Coordinates, filters and flags that the driver knows, and that fit what the texture is made of.
fn check_sampling(desc: &CUDA_RESOURCE_DESC, sampling: &CUDA_TEXTURE_DESC) -> Answer {
    const FLAGS: u32 = CU_TRSF_READ_AS_INTEGER
        | CU_TRSF_NORMALIZED_COORDINATES
        | CU_TRSF_SRGB
        | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION
        | CU_TRSF_SEAMLESS_CUBEMAP;
    let border = CUaddress_mode::CU_TR_ADDRESS_MODE_BORDER.0;
    let linear = CUfilter_mode::CU_TR_FILTER_MODE_LINEAR.0;
    let known = sampling.flags & !FLAGS == 0
        && sampling.addressMode.iter().all(|mode| mode.0 <= border)
        && sampling.filterMode.0 <= linear
        && sampling.mipmapFilterMode.0 <= linear;
    let needs_normalized = desc.resType == CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    let is_normalized = sampling.flags & CU_TRSF_NORMALIZED_COORDINATES != 0;
    if known && (is_normalized || !needs_normalized) {
        Ok(())
    } else {
        Err(CUresult::INVALID_VALUE)
    }
}

pub(crate) fn texture_create(
    turn: &mut Turn<'_>,
    out: Out<CUtexObject>,
    resource: In<CUDA_RESOURCE_DESC>,
    sampling: In<CUDA_TEXTURE_DESC>,
    view: In<CUDA_RESOURCE_VIEW_DESC>,
) -> Answer {
    let out = out.required()?;
    let over = resource.read().ok_or(CUresult::INVALID_VALUE)?;
    let sampling = sampling.read().ok_or(CUresult::INVALID_VALUE)?;
    let view = view.read();
    let context = turn.numbering_context()?;
    turn.check_resource(&over)?;
    check_sampling(&over, &sampling)?;
    let over_array = matches!(
        over.resType,
        CUresourcetype::CU_RESOURCE_TYPE_ARRAY | CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY
    );
    if view.is_some() && !over_array {
        return Err(CUresult::INVALID_VALUE);
    }
    let (made, texture) = (turn.site, Texture { over, sampling, view });
    out.write(turn.state.textures.textures.insert(context, made, texture));
    Ok(())
}

pub(crate) fn texture_destroy(turn: &mut Turn<'_>, texture: CUtexObject) -> Answer {
    let context = turn.numbering_context()?;
    if let Err(violated) = turn.state.textures.textures.remove(context, texture) {
        turn.violate_number(violated, ObjectKind::Texture, texture);
    }
    Ok(())
}

pub(crate) fn texture_resource(
    turn: &mut Turn<'_>,
    out: Out<CUDA_RESOURCE_DESC>,
    texture: CUtexObject,
) -> Answer {
    let out = out.required()?;
    out.write(turn.texture(texture)?.over);
    Ok(())
}

pub(crate) fn texture_sampling(
    turn: &mut Turn<'_>,
    out: Out<CUDA_TEXTURE_DESC>,
    texture: CUtexObject,
) -> Answer {
    let out = out.required()?;
    out.write(turn.texture(texture)?.sampling);
    Ok(())
}

pub(crate) fn texture_view(
    turn: &mut Turn<'_>,
    out: Out<CUDA_RESOURCE_VIEW_DESC>,
    texture: CUtexObject,
) -> Answer {
    let out = out.required()?;
    out.write(turn.texture(texture)?.view.ok_or(CUresult::INVALID_VALUE)?);
    Ok(())
}

pub(crate) fn surface_create(
    turn: &mut Turn<'_>,
    out: Out<CUsurfObject>,
    resource: In<CUDA_RESOURCE_DESC>,
) -> Answer {
    let out = out.required()?;
    let over = resource.read().ok_or(CUresult::INVALID_VALUE)?;
    let context = turn.numbering_context()?;
    if over.resType != CUresourcetype::CU_RESOURCE_TYPE_ARRAY || over.flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    turn.check_array(&over)?;
    let made = turn.site;
    out.write(turn.state.textures.surfaces.insert(context, made, Surface(over)));
    Ok(())
}

pub(crate) fn surface_destroy(turn: &mut Turn<'_>, surface: CUsurfObject) -> Answer {
    let context = turn.numbering_context()?;
    if let Err(violated) = turn.state.textures.surfaces.remove(context, surface) {
        turn.violate_number(violated, ObjectKind::Surface, surface);
    }
    Ok(())
}

pub(crate) fn surface_resource(
    turn: &mut Turn<'_>,
    out: Out<CUDA_RESOURCE_DESC>,
    surface: CUsurfObject,
) -> Answer {
    let out = out.required()?;
    let context = turn.current()?;
    let found = turn.state.textures.surfaces.get(context, surface);
    out.write(found.ok_or(CUresult::INVALID_VALUE)?.0);
    Ok(())
}
