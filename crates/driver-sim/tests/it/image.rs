//! Arrays, textures and surfaces.

use cuhold_driver_sim::{
    ObjectKind, Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{Call, DriverApi as _, ffi::*},
};

use crate::{
    ask::{
        Asked, NON_BLOCKING, Runs, assert_clean, call, context, get, kinds, primary, sim_with,
        sim_with_context, stream,
    },
    capture::{GLOBAL, RELAXED},
    capture_rules::set_mode,
};

fn flat(width: usize, height: usize) -> CUDA_ARRAY3D_DESCRIPTOR {
    CUDA_ARRAY3D_DESCRIPTOR {
        Width: width,
        Height: height,
        Format: CUarray_format::CU_AD_FORMAT_UNSIGNED_INT8,
        NumChannels: 1,
        ..CUDA_ARRAY3D_DESCRIPTOR::default()
    }
}

fn array(sim: &Sim) -> CUarray {
    let desc = flat(8, 4);
    get!(sim, cuArray3DCreate_v2(out, &raw const desc)).unwrap()
}

fn mipmapped(sim: &Sim) -> CUmipmappedArray {
    let desc = flat(8, 8);
    get!(sim, cuMipmappedArrayCreate(out, &raw const desc, 4)).unwrap()
}

fn over(array: CUarray) -> CUDA_RESOURCE_DESC {
    let mut desc = CUDA_RESOURCE_DESC::default();
    desc.res.array = CUDA_RESOURCE_DESC_st__bindgen_ty_1__bindgen_ty_1 { hArray: array };
    desc
}

fn texture(sim: &Sim, array: CUarray) -> Asked<CUtexObject> {
    let (over, desc) = (over(array), CUDA_TEXTURE_DESC::default());
    get!(sim, cuTexObjectCreate(out, &raw const over, &raw const desc, std::ptr::null()))
}

fn texture_is_there(sim: &Sim, texture: CUtexObject) -> bool {
    get!(sim, cuTexObjectGetTextureDesc(out, texture)).is_ok_and(|_: CUDA_TEXTURE_DESC| true)
}

fn surface(sim: &Sim, array: CUarray) -> CUsurfObject {
    let over = over(array);
    get!(sim, cuSurfObjectCreate(out, &raw const over)).unwrap()
}

fn copy_to(sim: &Sim, bytes: &[u8; 32], to: CUarray, stream: CUstream) -> Asked<()> {
    let copy = CUDA_MEMCPY2D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        srcHost: bytes.as_ptr().cast(),
        srcPitch: 8,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_ARRAY,
        dstArray: to,
        WidthInBytes: 8,
        Height: 4,
        ..CUDA_MEMCPY2D::default()
    };
    call!(sim, cuMemcpy2DAsync_v2(&raw const copy, stream))
}

#[test]
fn an_array_keeps_its_rows() {
    let (sim, _) = sim_with_context();
    let (array, stream) = (array(&sim), stream(&sim, NON_BLOCKING));
    let bytes: [u8; 32] = std::array::from_fn(|at| u8::try_from(at).unwrap());
    copy_to(&sim, &bytes, array, stream).unwrap();
    let mut row = [0_u8; 3];
    let copy = CUDA_MEMCPY2D {
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_ARRAY,
        srcArray: array,
        srcXInBytes: 2,
        srcY: 3,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
        dstHost: row.as_mut_ptr().cast(),
        WidthInBytes: 3,
        Height: 1,
        ..CUDA_MEMCPY2D::default()
    };
    call!(sim, cuMemcpy2DAsync_v2(&raw const copy, stream)).unwrap();
    call!(sim, cuStreamSynchronize(stream)).unwrap();
    assert_eq!(row, [26, 27, 28]);
    assert_clean(&sim);
}

#[test]
fn levels_lie_beside_each_other() {
    let (sim, _) = sim_with_context();
    let (whole, stream) = (mipmapped(&sim), stream(&sim, NON_BLOCKING));
    let level = |level| get!(sim, cuMipmappedArrayGetLevel(out, whole, level)).unwrap();
    let fill = |to: CUarray, value: u8, side: usize| {
        let bytes = [value; 64];
        let copy = CUDA_MEMCPY2D {
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: bytes.as_ptr().cast(),
            srcPitch: side,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_ARRAY,
            dstArray: to,
            WidthInBytes: side,
            Height: side,
            ..CUDA_MEMCPY2D::default()
        };
        call!(sim, cuMemcpy2DAsync_v2(&raw const copy, stream)).unwrap();
    };
    for number in 0..4_u8 {
        fill(level(number.into()), number, 8 >> number);
    }
    for number in 0..4_u8 {
        let mut last = [9_u8];
        let at = (8_usize >> number) - 1;
        let copy = CUDA_MEMCPY2D {
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_ARRAY,
            srcArray: level(number.into()),
            srcXInBytes: at,
            srcY: at,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            dstHost: last.as_mut_ptr().cast(),
            WidthInBytes: 1,
            Height: 1,
            ..CUDA_MEMCPY2D::default()
        };
        call!(sim, cuMemcpy2DAsync_v2(&raw const copy, stream)).unwrap();
        call!(sim, cuStreamSynchronize(stream)).unwrap();
        assert_eq!(last, [number]);
    }
    assert_clean(&sim);
}

#[test]
fn an_array_takes_its_device_s_memory_and_gives_it_back() {
    let (sim, _) = sim_with_context();
    let free = || {
        let mut total = 0;
        get!(sim, cuMemGetInfo_v2(out, &raw mut total)).unwrap()
    };
    let before: usize = free();
    let array = array(&sim);
    assert!(free() < before);
    assert_eq!(sim.live(ObjectKind::Array), 1);
    call!(sim, cuArrayDestroy(array)).unwrap();
    assert_eq!((free(), sim.live(ObjectKind::Array)), (before, 0));
    let whole = mipmapped(&sim);
    let _level: CUarray = get!(sim, cuMipmappedArrayGetLevel(out, whole, 1)).unwrap();
    assert_eq!(sim.live(ObjectKind::Array), 0, "a level isn't made");
    call!(sim, cuMipmappedArrayDestroy(whole)).unwrap();
    assert_eq!((free(), sim.live(ObjectKind::MipmappedArray)), (before, 0));
    assert_clean(&sim);
}

#[test]
fn an_array_s_destroy_waits_for_the_work_of_its_context_alone() {
    let (sim, own) = sim_with_context();
    let (array, here, runs) = (array(&sim), stream(&sim, NON_BLOCKING), Runs::default());
    runs.queue(&sim, here).unwrap();
    context(&sim);
    let (there, elsewhere) = (stream(&sim, NON_BLOCKING), Runs::default());
    elsewhere.queue(&sim, there).unwrap();
    call!(sim, cuArrayDestroy(array)).unwrap();
    assert_eq!((runs.count(), elsewhere.count()), (1, 0));
    call!(sim, cuCtxSetCurrent(own)).unwrap();
    sim.run_all();
    assert_clean(&sim);
}

#[test]
fn a_copy_in_another_context_meets_an_array_that_isn_t_there() {
    let (sim, own) = sim_with_context();
    let array = array(&sim);
    context(&sim);
    let there = stream(&sim, NON_BLOCKING);
    copy_to(&sim, &[1; 32], array, there).unwrap();
    call!(sim, cuCtxSetCurrent(own)).unwrap();
    call!(sim, cuArrayDestroy(array)).unwrap();
    // No fault, but another's bytes perhaps.
    call!(sim, cuStreamSynchronize(there)).unwrap();
    assert_eq!(kinds(&sim.violations()), [ViolationKind::UseAfterDestroy]);
}

#[test]
fn what_is_destroyed_twice_is_a_violation() {
    let (sim, _) = sim_with_context();
    let (array, whole) = (array(&sim), mipmapped(&sim));
    let level: CUarray = get!(sim, cuMipmappedArrayGetLevel(out, whole, 0)).unwrap();
    call!(sim, cuArrayDestroy(level)).unwrap();
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::DoubleDestroy], "a level's own end");
    call!(sim, cuArrayDestroy(array)).unwrap();
    call!(sim, cuMipmappedArrayDestroy(whole)).unwrap();
    assert_clean(&sim);
    assert_eq!(call!(sim, cuArrayDestroy(array)), Err(CUresult::INVALID_HANDLE));
    assert_eq!(call!(sim, cuMipmappedArrayDestroy(whole)), Err(CUresult::INVALID_HANDLE));
    assert_eq!(call!(sim, cuArrayDestroy(level)), Err(CUresult::INVALID_HANDLE));
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::DoubleDestroy; 3]);
    assert_eq!(texture(&sim, array), Err(CUresult::INVALID_VALUE));
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::UseAfterDestroy]);
    assert_eq!(call!(sim, cuArrayDestroy(CUarray::NULL)), Err(CUresult::INVALID_HANDLE));
    assert_clean(&sim);
}

#[test]
fn a_texture_is_a_number_in_its_context() {
    let (sim, own) = sim_with_context();
    let array = array(&sim);
    let one = texture(&sim, array).unwrap();
    let two = texture(&sim, array).unwrap();
    let other = context(&sim);
    assert_eq!(texture(&sim, array), Err(CUresult::PEER_ACCESS_NOT_ENABLED));
    let array_there = self::array(&sim);
    let there = texture(&sim, array_there).unwrap();
    assert_eq!(there, one);
    assert_eq!(sim.live(ObjectKind::Texture), 3);
    // Meant is the first context's: it is the other's that ends.
    call!(sim, cuTexObjectDestroy(one)).unwrap();
    assert_clean(&sim);
    assert!(!texture_is_there(&sim, there));
    call!(sim, cuCtxSetCurrent(own)).unwrap();
    assert!(texture_is_there(&sim, one) && texture_is_there(&sim, two));
    call!(sim, cuCtxSetCurrent(other)).unwrap();
    call!(sim, cuTexObjectDestroy(two)).unwrap();
    assert_eq!(kinds(&sim.take_violations()), [ViolationKind::WrongContext]);
    call!(sim, cuCtxSetCurrent(own)).unwrap();
    call!(sim, cuTexObjectDestroy(two)).unwrap();
    call!(sim, cuTexObjectDestroy(two)).unwrap();
    call!(sim, cuTexObjectDestroy(77)).unwrap();
    let violated = [ViolationKind::DoubleDestroy, ViolationKind::UnknownHandle];
    assert_eq!(kinds(&sim.take_violations()), violated);
}

#[test]
fn a_number_that_was_destroyed_is_given_out_again_first() {
    let (sim, _) = sim_with_context();
    let array = array(&sim);
    let numbers: Vec<_> = (0..3).map(|_| surface(&sim, array)).collect();
    assert_eq!(numbers, [1, 2, 3]);
    for number in [1, 3] {
        call!(sim, cuSurfObjectDestroy(number)).unwrap();
    }
    assert_eq!(
        [surface(&sim, array), texture(&sim, array).unwrap(), surface(&sim, array)],
        [3, 1, 4]
    );
    assert_clean(&sim);
    call!(sim, cuSurfObjectDestroy(1)).unwrap();
    assert!(texture_is_there(&sim, 1));
    assert_eq!(kinds(&sim.violations()), [ViolationKind::UnknownHandle]);
}

#[test]
fn images_end_with_their_context() {
    let sim = sim_with(SimOptions::default());
    call!(sim, cuCtxSetCurrent(primary(&sim, 0))).unwrap();
    let other = context(&sim);
    let array = array(&sim);
    mipmapped(&sim);
    texture(&sim, array).unwrap();
    surface(&sim, array);
    call!(sim, cuCtxDestroy_v2(other)).unwrap();
    let gone: Vec<_> = sim.gone_with_context().iter().map(|leak| leak.kind).collect();
    let expected =
        [ObjectKind::Array, ObjectKind::MipmappedArray, ObjectKind::Texture, ObjectKind::Surface];
    assert_eq!(gone, expected);
    assert!(sim.leaks().iter().all(|leak| !expected.contains(&leak.kind)));
    assert!(call!(sim, cuArrayDestroy(array)).is_err());
    assert_eq!(kinds(&sim.violations()), [ViolationKind::UseAfterContext]);
}

/// Makes the unsafe calls about images, each with arguments that are fine otherwise.
pub(crate) fn make_unsafe_call(sim: &Sim, unsafe_one: Call) -> Option<Asked<()>> {
    set_mode(sim, RELAXED);
    let (array, whole, desc) = (array(sim), mipmapped(sim), flat(8, 4));
    let (number, other) = (texture(sim, array).unwrap(), surface(sim, array));
    set_mode(sim, GLOBAL);
    let plain = CUDA_ARRAY_DESCRIPTOR { Width: 8, Height: 4, Format: desc.Format, NumChannels: 1 };
    let (plain, solid, over) = (&raw const plain, &raw const desc, over(array));
    Some(match unsafe_one {
        Call::cuArrayCreate_v2 => get!(sim, cuArrayCreate_v2(out, plain)).map(|_: CUarray| ()),
        Call::cuArray3DCreate_v2 => get!(sim, cuArray3DCreate_v2(out, solid)).map(|_: CUarray| ()),
        Call::cuArrayDestroy => call!(sim, cuArrayDestroy(array)),
        Call::cuMipmappedArrayCreate => {
            get!(sim, cuMipmappedArrayCreate(out, solid, 1)).map(|_: CUmipmappedArray| ())
        }
        Call::cuMipmappedArrayDestroy => call!(sim, cuMipmappedArrayDestroy(whole)),
        Call::cuTexObjectCreate => texture(sim, array).map(|_| ()),
        Call::cuTexObjectDestroy => call!(sim, cuTexObjectDestroy(number)),
        Call::cuSurfObjectCreate => {
            get!(sim, cuSurfObjectCreate(out, &raw const over)).map(|_: CUsurfObject| ())
        }
        Call::cuSurfObjectDestroy => call!(sim, cuSurfObjectDestroy(other)),
        _ => return None,
    })
}
