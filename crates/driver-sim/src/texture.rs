//! Textures and surfaces: numbers, counted in each context for itself, and both together.
//!
//! So a number that is destroyed while another context is current is that context's texture of the same number, if it
//! has one, and nobody notices. Where it has none the driver answers success all the same (measured); here that is a
//! violation.
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

/// What a number stands for.
#[derive(Debug)]
enum Numbered {
    Texture(Box<Texture>),
    Surface(Surface),
}

impl Numbered {
    const fn kind(&self) -> ObjectKind {
        match self {
            Self::Texture(_) => ObjectKind::Texture,
            Self::Surface(_) => ObjectKind::Surface,
        }
    }
}

#[derive(Debug)]
struct Slot {
    made: CallSite,
    value: Numbered,
}

impl Slot {
    fn leak(&self, number: u64) -> Leak {
        Leak::new(self.value.kind(), number, self.made)
    }
}

/// The numbers of one context.
#[derive(Debug, Default)]
struct Numbers {
    live: BTreeMap<u64, Slot>,
    given: u64,
    /// Destroyed ones, the newest last: it is given out again first.
    free: Vec<u64>,
}

impl Numbers {
    fn has(&self, kind: ObjectKind, number: u64) -> bool {
        self.live.get(&number).is_some_and(|slot| slot.value.kind() == kind)
    }
}

/// Every texture and every surface, by the id of its context.
#[derive(Debug, Default)]
pub(crate) struct Textures {
    contexts: BTreeMap<u64, Numbers>,
    /// What ended with its context.
    gone: Vec<Leak>,
}

impl Textures {
    fn insert(&mut self, context: Key<Context>, made: CallSite, value: Numbered) -> u64 {
        let numbers = self.contexts.entry(context.id()).or_default();
        let number = numbers.free.pop().unwrap_or_else(|| {
            numbers.given += 1;
            numbers.given
        });
        numbers.live.insert(number, Slot { made, value });
        number
    }

    fn get(&self, context: Key<Context>, number: u64) -> Option<&Numbered> {
        Some(&self.contexts.get(&context.id())?.live.get(&number)?.value)
    }

    /// Ends a number; else says what is wrong with it.
    fn remove(
        &mut self,
        context: Key<Context>,
        kind: ObjectKind,
        number: u64,
    ) -> Result<(), ViolationKind> {
        let numbers = self.contexts.entry(context.id()).or_default();
        if numbers.has(kind, number) {
            numbers.live.remove(&number);
            numbers.free.push(number);
            return Ok(());
        }
        let was = (1..=numbers.given).contains(&number) && !numbers.live.contains_key(&number);
        let elsewhere = self.contexts.values().any(|other| other.has(kind, number));
        Err(match (was, elsewhere) {
            (_, true) => ViolationKind::WrongContext,
            (true, false) => ViolationKind::DoubleDestroy,
            (false, false) => ViolationKind::UnknownHandle,
        })
    }

    pub(crate) fn leaks(&self) -> impl Iterator<Item = Leak> {
        let live = self.contexts.values().flat_map(|numbers| &numbers.live);
        live.map(|(number, slot)| slot.leak(*number))
    }

    pub(crate) fn gone_with_context(&self) -> impl Iterator<Item = Leak> {
        self.gone.iter().copied()
    }
}

impl State {
    pub(crate) fn end_context_in_textures(&mut self, context: Key<Context>) {
        let Some(numbers) = self.textures.contexts.remove(&context.id()) else { return };
        let ended = numbers.live.iter().map(|(number, slot)| slot.leak(*number));
        self.textures.gone.extend(ended);
    }
}

impl Turn<'_> {
    fn check_array(&mut self, context: Key<Context>, desc: &CUDA_RESOURCE_DESC) -> Answer {
        // SAFETY: by its type the description is that of an array; any word is a handle to look up.
        let raw = unsafe { desc.res.array }.hArray;
        let key = self.array(raw).map_err(|_absent| CUresult::INVALID_VALUE)?;
        let owner = self.array_owner(key)?;
        self.check_owner(context, owner)
    }

    fn check_mipmapped(&mut self, context: Key<Context>, desc: &CUDA_RESOURCE_DESC) -> Answer {
        // SAFETY: as for an array.
        let raw = unsafe { desc.res.mipmap }.hMipmappedArray;
        let key = self.mipmapped(raw).map_err(|_absent| CUresult::INVALID_VALUE)?;
        let owner = self.mipmapped_owner(key)?;
        self.check_owner(context, owner)
    }

    /// An array of another context isn't reached, also not on the same device (measured).
    fn check_owner(&mut self, context: Key<Context>, owner: Key<Context>) -> Answer {
        if owner == context || self.context_data(context)?.peers.contains(&owner) {
            Ok(())
        } else {
            Err(CUresult::PEER_ACCESS_NOT_ENABLED)
        }
    }

    /// Whether the array that a texture was made of is still there.
    fn has_array(&self, desc: &CUDA_RESOURCE_DESC) -> bool {
        match desc.resType {
            CUresourcetype::CU_RESOURCE_TYPE_ARRAY => {
                // SAFETY: as in `check_array`.
                let raw = unsafe { desc.res.array }.hArray;
                self.state.arrays.is_live(raw)
            }
            CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY => {
                // SAFETY: as in `check_mipmapped`.
                let raw = unsafe { desc.res.mipmap }.hMipmappedArray;
                self.state.arrays.is_mipmapped_live(raw)
            }
            _ => true,
        }
    }

    /// Checks what a texture is to be made of.
    fn check_resource(&mut self, context: Key<Context>, desc: &CUDA_RESOURCE_DESC) -> Answer {
        let fits = match desc.resType {
            _ if desc.flags != 0 => false,
            CUresourcetype::CU_RESOURCE_TYPE_ARRAY => return self.check_array(context, desc),
            CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY => {
                return self.check_mipmapped(context, desc);
            }
            CUresourcetype::CU_RESOURCE_TYPE_LINEAR => {
                // SAFETY: by its type the description is that of bytes in a row; any bytes are numbers.
                let linear = unsafe { desc.res.linear };
                element_bytes(linear.format, linear.numChannels)?;
                is_aligned(linear.devPtr)
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
        self.state.violate(Violation::new(violated, object, calls, note));
    }

    /// The texture of the current context with this number.
    fn texture(&mut self, number: CUtexObject) -> Result<Texture, CUresult> {
        let context = self.current()?;
        match self.state.textures.get(context, number) {
            Some(Numbered::Texture(texture)) => Ok(**texture),
            _ => Err(CUresult::INVALID_VALUE),
        }
    }
}

fn is_aligned(address: CUdeviceptr) -> bool {
    address != 0 && address.is_multiple_of(ALIGNMENT_BYTES)
}

/// Address modes, filters and flags that the driver knows.
fn check_sampling(sampling: &CUDA_TEXTURE_DESC) -> Answer {
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
    if known { Ok(()) } else { Err(CUresult::INVALID_VALUE) }
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
    turn.check_resource(context, &over)?;
    check_sampling(&sampling)?;
    let (made, texture) = (turn.site, Texture { over, sampling, view });
    out.write(turn.state.textures.insert(context, made, Numbered::Texture(Box::new(texture))));
    Ok(())
}

pub(crate) fn texture_destroy(turn: &mut Turn<'_>, texture: CUtexObject) -> Answer {
    let context = turn.numbering_context()?;
    let removed = turn.state.textures.remove(context, ObjectKind::Texture, texture);
    if let Err(violated) = removed {
        turn.violate_number(violated, ObjectKind::Texture, texture);
    }
    Ok(())
}

/// Where the array is gone it answers success and writes nothing (measured).
pub(crate) fn texture_resource(
    turn: &mut Turn<'_>,
    out: Out<CUDA_RESOURCE_DESC>,
    texture: CUtexObject,
) -> Answer {
    let out = out.required()?;
    let over = turn.texture(texture)?.over;
    if turn.has_array(&over) {
        out.write(over);
    }
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

/// Without a view it answers success and writes nothing (measured).
pub(crate) fn texture_view(
    turn: &mut Turn<'_>,
    out: Out<CUDA_RESOURCE_VIEW_DESC>,
    texture: CUtexObject,
) -> Answer {
    let out = out.required()?;
    if let Some(view) = turn.texture(texture)?.view {
        out.write(view);
    }
    Ok(())
}

pub(crate) fn surface_create(
    turn: &mut Turn<'_>,
    out: Out<CUsurfObject>,
    resource: In<CUDA_RESOURCE_DESC>,
) -> Answer {
    if out.is_null() {
        turn.violate(ViolationKind::Crash, None, "nowhere to write a surface's number");
    }
    let out = out.required()?;
    let over = resource.read().ok_or(CUresult::INVALID_VALUE)?;
    let context = turn.numbering_context()?;
    if over.resType != CUresourcetype::CU_RESOURCE_TYPE_ARRAY || over.flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    turn.check_array(context, &over)?;
    let (made, surface) = (turn.site, Numbered::Surface(Surface(over)));
    out.write(turn.state.textures.insert(context, made, surface));
    Ok(())
}

pub(crate) fn surface_destroy(turn: &mut Turn<'_>, surface: CUsurfObject) -> Answer {
    let context = turn.numbering_context()?;
    let removed = turn.state.textures.remove(context, ObjectKind::Surface, surface);
    if let Err(violated) = removed {
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
    match turn.state.textures.get(context, surface) {
        Some(Numbered::Surface(found)) => out.write(found.0),
        _ => return Err(CUresult::INVALID_VALUE),
    }
    Ok(())
}
