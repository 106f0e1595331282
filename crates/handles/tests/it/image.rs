//! Arrays, their levels, textures and surfaces: what keeps what alive, and where each ends.

#![expect(unsafe_code, reason = "ends by raw calls what a test left, and takes raw handles over")]

use cuhold_driver_sim::ObjectKind as SimKind;
use cuhold_driver_sys::{
    CUresult, Call, Effect, Fault,
    ffi::{CUDA_RESOURCE_DESC, CUarray, CUdeviceptr, CUtexObject},
};
use cuhold_handles::{
    AddressMode, Array, ArrayDesc, ArrayFormat, ArrayLevel, Closed, Context, ContextFlags,
    ErrorKind, Fate, LinearMemory, MipmappedArray, ObjectKind, PitchedMemory, Surface, Texture,
    TextureOptions, TextureSource,
};
use cuhold_testkit::{Kit, run, run_simulated};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

const E: CUresult = CUresult(9001);

fn desc() -> ArrayDesc {
    ArrayDesc::flat(32, 16, ArrayFormat::F32, 1).unwrap().surface()
}

fn array(context: &Context) -> Arc<Array> {
    Arc::new(Array::new(context, &desc()).unwrap())
}

fn texture(array: &Arc<Array>) -> Texture {
    Texture::new(&array.into(), &TextureOptions::default()).unwrap()
}

/// The array that a description names.
fn array_of(desc: &CUDA_RESOURCE_DESC) -> CUarray {
    // SAFETY: every description of these tests is that of an array.
    unsafe { desc.res.array }.hArray
}

#[test]
fn an_array_tells_what_it_was_made_of() {
    run(|t| {
        let format = ArrayFormat::U8;
        for desc in [
            ArrayDesc::line(7, format, 4).unwrap(),
            ArrayDesc::flat(7, 5, format, 2).unwrap(),
            ArrayDesc::solid([7, 5, 3], format, 1).unwrap(),
            ArrayDesc::cube(8, format, 4).unwrap(),
            ArrayDesc::cube(8, format, 4).unwrap().layers(2).unwrap(),
            ArrayDesc::line(7, format, 1).unwrap().layers(3).unwrap(),
            ArrayDesc::flat(7, 5, format, 1).unwrap().surface(),
            ArrayDesc::flat(8, 8, format, 1).unwrap().gather().unwrap(),
        ] {
            let array = Array::new(t.context(), &desc).unwrap();
            assert_eq!(array.desc().unwrap(), desc);
            assert_eq!(array.close().unwrap(), Closed::Destroyed);
        }
    });
}

#[test]
fn a_size_beyond_the_device_s_is_the_driver_s_refusal_and_makes_nothing() {
    run(|t| {
        let desc = ArrayDesc::flat(1 << 20, 4, ArrayFormat::U8, 1).unwrap();
        let error = Array::new(t.context(), &desc).unwrap_err();
        assert!(error.is(CUresult::INVALID_VALUE), "{error}");
        assert!(error.to_string().contains("beyond what the device allows"), "{error}");
    });
}

#[test]
fn a_mipmapped_array_has_as_many_levels_as_it_was_asked_for() {
    run(|t| {
        for levels in [0, 7] {
            let error = MipmappedArray::new(t.context(), &desc(), levels).unwrap_err();
            let text = format!("levels: {levels}, and an array of this size has 1 to 6");
            assert_eq!((error.kind(), error.to_string()), (ErrorKind::Argument, text));
        }
        let whole = Arc::new(MipmappedArray::new(t.context(), &desc(), 3).unwrap());
        let level = ArrayLevel::new(&whole, 2).unwrap();
        let found = level.desc().unwrap();
        assert_eq!((found.width(), found.height()), (8, 4));
        let again = ArrayLevel::new(&whole, 2).unwrap();
        assert_eq!(level.as_raw(), again.as_raw());
        let error = ArrayLevel::new(&whole, 3).unwrap_err();
        assert!(error.is(CUresult::INVALID_VALUE), "{error}");
    });
}

#[test]
fn what_is_made_over_an_array_keeps_it_alive() {
    run(|t| {
        let hand = t.driver().reclaim().run_by_hand();
        let array = array(t.context());
        let (texture, surface) = (texture(&array), Surface::new(&(&array).into()).unwrap());
        let ((), calls) = t.calls(|| drop(array));
        assert_eq!(calls, [""; 0]);
        drop(texture);
        assert_eq!(t.driver().reclaim().pending(), 0);
        drop(surface);
        assert_eq!(t.driver().reclaim().pending(), 1, "the array goes with the last");
        while hand.step() {}

        let whole = Arc::new(MipmappedArray::new(t.context(), &desc(), 2).unwrap());
        let level = Arc::new(ArrayLevel::new(&whole, 1).unwrap());
        let texture = Texture::new(&(&level).into(), &TextureOptions::default()).unwrap();
        drop((whole, level));
        assert_eq!(t.driver().reclaim().pending(), 0);
        drop(texture);
        assert_eq!(t.driver().reclaim().pending(), 1, "the mipmapped array, and its level with it");
        let ((), calls) = t.calls(|| while hand.step() {});
        assert!(calls.contains(&"cuMipmappedArrayDestroy"), "{calls:?}");
    });
}

/// Whether the context has a texture of this number.
fn is_texture_of(context: &Context, number: CUtexObject) -> bool {
    let mut desc = CUDA_RESOURCE_DESC::default();
    let calls = context.driver().calls();
    // SAFETY: *pointers*: a live local; numbers that no texture has are answered.
    let asked = || unsafe { calls.cuTexObjectGetResourceDesc(&raw mut desc, number) };
    context.with_current(asked).unwrap().is_ok()
}

#[test]
fn a_texture_ends_in_its_own_context_and_no_other_s_of_its_number_does() {
    run(|t| {
        let other = Context::new(t.device(), ContextFlags::default()).unwrap();
        let (ours, theirs) = (array(t.context()), array(&other));
        let (mut one, mut two) = (texture(&ours), texture(&theirs));
        // Numbers are counted in each context, and a real one may have given some out.
        let mut others = Vec::new();
        while one.as_raw() != two.as_raw() && others.len() < 64 {
            let behind = if one.as_raw() < two.as_raw() { &mut one } else { &mut two };
            let array = if array_of(&behind.resource_desc().unwrap()) == ours.as_raw() {
                &ours
            } else {
                &theirs
            };
            others.push(std::mem::replace(behind, texture(array)));
        }
        assert_eq!(one.as_raw(), two.as_raw());
        let other_surface = Surface::new(&(&theirs).into()).unwrap();
        // With the other context current, and with none.
        let number = one.as_raw();
        other.with_current(|| drop(one)).unwrap();
        assert!(!is_texture_of(t.context(), number));
        assert!(is_texture_of(&other, number));
        assert_eq!(array_of(&two.resource_desc().unwrap()), theirs.as_raw());
        assert_eq!(array_of(&other_surface.resource_desc().unwrap()), theirs.as_raw());
    });
}

#[test]
fn a_texture_whose_context_can_t_be_made_current_is_leaked_and_that_is_told() {
    run_simulated(|t, sim| {
        let (array, other) = (array(t.context()), array(t.context()));
        let (leaked, refused) = (texture(&array), texture(&other));
        let raw = leaked.as_raw();
        let capture = t.driver().reports().capture(4);
        t.faults().arm(Fault::new(Effect::Refused(E)).on(Call::cuCtxPushCurrent_v2));
        let ((), calls) = t.calls(|| drop(leaked));
        assert!(!calls.contains(&"cuTexObjectDestroy"), "{calls:?}");
        let warnings = capture.take();
        let [warning] = warnings[..] else { panic!("{warnings:?}") };
        assert_eq!((warning.object().kind, warning.object().raw), (ObjectKind::Texture, raw));
        assert_eq!((warning.status(), warning.fate()), (Some(E), Some(Fate::Leaked)));
        // Closing gives it back.
        let refused = refused.close().unwrap_err();
        t.faults().disarm();
        assert!(refused.error.is(E), "{}", refused.error);
        assert_eq!(refused.value.unwrap().close().unwrap(), Closed::Destroyed);
        assert_eq!(sim.live(SimKind::Texture), 1);
        end_texture(t, raw);
        drop(capture);
    });
}

/// Ends by raw calls a texture of the device's context.
fn end_texture(t: &Kit, raw: CUtexObject) {
    let ended = t.context().with_current(|| {
        // SAFETY: *handles*: a texture of the context that is current, and nobody else's.
        unsafe { t.driver().calls().cuTexObjectDestroy(raw) }
    });
    ended.unwrap().unwrap();
}

#[test]
fn a_borrowed_image_is_never_ended_and_a_null_one_is_refused() {
    run(|t| {
        let context = t.context();
        let array = array(context);
        let texture = texture(&array);
        let source: TextureSource = (&array).into();
        // SAFETY: both outlive what borrows them.
        let borrowed = unsafe { Array::borrow_raw(context, array.as_raw(), None) }.unwrap();
        assert_eq!(borrowed.desc().unwrap(), desc());
        let borrowed = borrowed.into_raw().unwrap_err();
        assert_eq!(borrowed.close().unwrap(), Closed::StillShared);
        // SAFETY: as above.
        let borrowed = unsafe { Texture::borrow_raw(&source, texture.as_raw(), None) }.unwrap();
        let ((), calls) = t.calls(|| drop(borrowed));
        assert_eq!(calls, [""; 0]);
        // SAFETY: null is refused.
        let error = unsafe { Array::from_raw(context, CUarray::NULL) }.unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::Argument, "the raw array is null".to_owned())
        );
        // SAFETY: null is refused.
        let error = unsafe { Texture::from_raw(&source, 0) }.unwrap_err();
        assert_eq!(error.to_string(), "the raw texture is null");
        // Given away and taken over again.
        let raw = texture.into_raw().unwrap();
        // SAFETY: it was given away a moment ago.
        let texture = unsafe { Texture::from_raw(&source, raw) }.unwrap();
        assert_eq!(texture.close().unwrap(), Closed::Destroyed);
    });
}

#[test]
fn a_texture_over_memory_is_checked_before_the_driver_is_asked() {
    run(|t| {
        let context = t.context();
        let linear = |address: CUdeviceptr, channels| {
            let memory = LinearMemory { address, bytes: 4096, format: ArrayFormat::F32, channels };
            // SAFETY: no texture is made over it.
            unsafe { TextureSource::linear(context, memory, None) }
        };
        let text = |source: Result<_, cuhold_handles::Error>| source.unwrap_err().to_string();
        assert_eq!(text(linear(0, 1)), "memory: the address is null");
        assert!(text(linear(512, 3)).starts_with("memory: 3 channels"));
        let rows = PitchedMemory {
            address: 512,
            width: 16,
            height: 4,
            pitch_bytes: 63,
            format: ArrayFormat::F32,
            channels: 1,
        };
        // SAFETY: no texture is made over it.
        let short = unsafe { TextureSource::pitched(context, rows, None) };
        assert_eq!(text(short), "memory: a pitch of 63 bytes is less than a row's");
        let (result, calls) = t.calls(|| {
            let address = [AddressMode::Mirror; 3];
            let mut options = TextureOptions::default();
            options.address = address;
            Texture::new(&(&array(context)).into(), &options).map(drop)
        });
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Argument);
        assert!(!calls.contains(&"cuTexObjectCreate"));
    });
}

#[test]
fn textures_are_made_over_memory_in_a_row_and_in_rows() {
    run(|t| {
        let mut address = 0;
        let alloc = || {
            // SAFETY: *pointers*: a live local.
            unsafe { t.driver().calls().cuMemAlloc_v2(&raw mut address, 4096) }
        };
        t.context().with_current(alloc).unwrap().unwrap();
        let format = ArrayFormat::F32;
        let linear = LinearMemory { address, bytes: 4096, format, channels: 1 };
        let rows =
            PitchedMemory { address, width: 16, height: 8, pitch_bytes: 512, format, channels: 1 };
        // SAFETY: the memory outlives the textures.
        let linear = unsafe { TextureSource::linear(t.context(), linear, None) }.unwrap();
        // SAFETY: as above.
        let rows = unsafe { TextureSource::pitched(t.context(), rows, None) }.unwrap();
        for source in [&linear, &rows] {
            let texture = Texture::new(source, &TextureOptions::default()).unwrap();
            assert_eq!(texture.view_desc().unwrap(), None);
            let asked = texture.resource_desc().unwrap();
            assert!(matches!(asked.resType.0, 2 | 3), "{:?}", asked.resType);
        }
        // SAFETY: *handles*: allocated above, used by nothing any more.
        unsafe { t.driver().calls().cuMemFree_v2(address) }.unwrap();
    });
}

#[test]
fn a_texture_that_a_stream_uses_ends_behind_its_work_and_so_does_the_array() {
    run_simulated(|t, sim| {
        let other = Context::new(t.device(), ContextFlags::default()).unwrap();
        let (here, there) = (t.context().new_stream().unwrap(), other.new_stream().unwrap());
        let ran = Arc::new(AtomicU32::new(0));
        for stream in [&here, &there] {
            let ran = Arc::clone(&ran);
            let queued = stream.host_fn(move || _ = ran.fetch_add(1, Ordering::Relaxed));
            queued.map_err(|refused| refused.error).unwrap();
        }
        let array = array(t.context());
        let texture = texture(&array);
        drop(array);
        for stream in [&here, &there] {
            texture.used_on(stream).unwrap();
        }
        let hand = t.driver().reclaim().run_by_hand();
        drop(texture);
        assert_eq!((sim.live(SimKind::Texture), ran.load(Ordering::Relaxed)), (1, 0));
        while hand.step() {}
        assert_eq!((sim.live(SimKind::Texture), ran.load(Ordering::Relaxed)), (0, 2));
    });
}
