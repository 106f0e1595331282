//! The resource table, walked whole: an object of each row is made, its last handle is dropped, and the calls of its end
//! are compared with the row, with where they are made.

#![expect(
    unsafe_code,
    reason = "refers to a raw stream, and takes over what the simulated driver planted"
)]

use crate::memory_objects::is_of_another_process;
use cuhold_handles::driver_sys::{
    CallLog, Hooked,
    nvjitlink::{NvJitLinkApi, NvJitLinkCall},
    nvrtc::{NvrtcApi, NvrtcCall},
    nvvm::{NvvmApi, NvvmCall},
};
use cuhold_handles::{
    Array, ArrayDesc, ArrayFormat, ArrayLevel, Closed, Context, ContextFlags, Device, EventOptions,
    ExternalMemory, ExternalSemaphore, Graph, GraphicsResource, GreenContext, LinkOptions,
    LinkState, MipmappedArray, Module, NvJitLink, NvrtcProgram, NvvmProgram, ObjectKind,
    PerThreadStream, SmResource, Stream, Surface, Texture, TextureOptions, UserObject,
    table::{EndsOn, Made, RESOURCES, Row},
};
use cuhold_memory::{Buffer, HostBuffer, Pool, PoolOptions};
use cuhold_testkit::{Bare, Kit, PTX, run};
use std::{any::Any, collections::BTreeSet, sync::Arc};

pub(crate) type Value = Box<dyn Any>;

/// The only handle of an object of this kind, and what else was made for it, which outlives it. A kind that the table has
/// and this match hasn't fails the test.
pub(crate) fn make(t: &Kit, kind: ObjectKind) -> (Value, Value) {
    let device = t.device();
    let alone = |object: Value| -> (Value, Value) { (object, Box::new(())) };
    let stream = || device.new_stream().unwrap();
    let event = |options| -> Value { Box::new(device.new_event(options).unwrap()) };
    let new_pool = || Pool::new(device, PoolOptions::default()).unwrap();
    match kind {
        ObjectKind::Context => {
            alone(Box::new(Context::new(device, ContextFlags::default()).unwrap()))
        }
        ObjectKind::Stream => alone(Box::new(stream())),
        ObjectKind::BorrowedStream => {
            let stream = stream();
            // SAFETY: the stream is what outlives it.
            let borrowed = unsafe { Stream::borrow_raw(t.context(), stream.as_raw(), None) };
            (Box::new(borrowed.unwrap()), Box::new(stream))
        }
        ObjectKind::LegacyStream => alone(Box::new(device.legacy_stream())),
        ObjectKind::PerThreadStream => alone(Box::new(PerThreadStream::new(t.context()))),
        ObjectKind::Event => alone(event(EventOptions::timing())),
        ObjectKind::BlockingEvent => alone(event(EventOptions::default().blocking())),
        ObjectKind::InterprocessEvent => alone(event(EventOptions::interprocess())),
        ObjectKind::Pool => alone(Box::new(new_pool())),
        ObjectKind::DefaultPool => alone(Box::new(Pool::default_of(device).unwrap())),
        ObjectKind::PoolMemory => {
            let (pool, stream) = (new_pool(), stream());
            let buffer = Buffer::<u8>::uninit_in(&pool, &stream, 8).unwrap();
            (Box::new(buffer), Box::new((pool, stream)))
        }
        ObjectKind::AsyncMemory => {
            let stream = stream();
            (Box::new(Buffer::<u8>::uninit(&stream, 8).unwrap()), Box::new(stream))
        }
        ObjectKind::HostMemory => {
            alone(Box::new(HostBuffer::<u8>::zeroed(t.context(), 8).unwrap()))
        }
        ObjectKind::Module => alone(Box::new(Module::load(t.context(), PTX).unwrap())),
        ObjectKind::Library => alone(Box::new(t.kernels())),
        ObjectKind::Kernel => {
            let library = t.kernels();
            (Box::new(library.kernel("nop").unwrap()), Box::new(library))
        }
        ObjectKind::Function => {
            let module = Module::load(t.context(), PTX).unwrap();
            (Box::new(module.function("nop").unwrap()), Box::new(module))
        }
        ObjectKind::GreenContext => {
            let all = SmResource::of_device(device).unwrap();
            alone(Box::new(GreenContext::new(&[all]).unwrap()))
        }
        ObjectKind::Graph => alone(Box::new(Graph::new(t.context()).unwrap())),
        ObjectKind::GraphExec => {
            let graph = Graph::new(t.context()).unwrap();
            (Box::new(graph.instantiate().unwrap()), Box::new(graph))
        }
        ObjectKind::UserObject => alone(Box::new(UserObject::new(t.driver(), 7).unwrap())),
        ObjectKind::LinkState => {
            alone(Box::new(LinkState::new(t.context(), LinkOptions::default()).unwrap()))
        }
        ObjectKind::Array
        | ObjectKind::MipmappedArray
        | ObjectKind::ArrayLevel
        | ObjectKind::Texture
        | ObjectKind::Surface => make_image(t, kind),
        ObjectKind::GraphicsResource
        | ObjectKind::ExternalMemory
        | ObjectKind::ExternalSemaphore => alone(take_planted(t, kind)),
        ObjectKind::NvrtcProgram | ObjectKind::NvvmProgram | ObjectKind::NvJitLink => {
            alone(make_of_a_compiler(t, kind))
        }
        other => crate::memory_objects::make(t, other),
    }
}

/// The only handle of an object of a compiler.
fn make_of_a_compiler(t: &Kit, kind: ObjectKind) -> Value {
    match kind {
        ObjectKind::NvrtcProgram => {
            let api: Arc<dyn NvrtcApi> = Arc::new(Bare);
            Box::new(NvrtcProgram::new(t.driver(), &api, "", None, &[]).unwrap())
        }
        ObjectKind::NvvmProgram => {
            let api: Arc<dyn NvvmApi> = Arc::new(Bare);
            Box::new(NvvmProgram::new(t.driver(), &api).unwrap())
        }
        ObjectKind::NvJitLink => {
            let api: Arc<dyn NvJitLinkApi> = Arc::new(Bare);
            Box::new(NvJitLink::new(t.driver(), &api, &["-arch=sm_90"]).unwrap())
        }
        other => panic!("the table has a row for a {other}, and this test makes none"),
    }
}

/// The same of arrays and what is made over them.
fn make_image(t: &Kit, kind: ObjectKind) -> (Value, Value) {
    let desc = ArrayDesc::flat(8, 8, ArrayFormat::F32, 1).unwrap().surface();
    let array = || Array::new(t.context(), &desc).unwrap();
    let mipmapped = || MipmappedArray::new(t.context(), &desc, 2).unwrap();
    match kind {
        ObjectKind::Array => (Box::new(array()), Box::new(())),
        ObjectKind::MipmappedArray => (Box::new(mipmapped()), Box::new(())),
        ObjectKind::ArrayLevel => {
            let whole = Arc::new(mipmapped());
            (Box::new(ArrayLevel::new(&whole, 1).unwrap()), Box::new(whole))
        }
        ObjectKind::Texture => {
            let array = Arc::new(array());
            let texture = Texture::new(&(&array).into(), &TextureOptions::default());
            (Box::new(texture.unwrap()), Box::new(array))
        }
        _ => {
            let array = Arc::new(array());
            (Box::new(Surface::new(&(&array).into()).unwrap()), Box::new(array))
        }
    }
}

/// What another API would have made, planted in the simulated driver; nothing on a real one.
fn take_planted(t: &Kit, kind: ObjectKind) -> Value {
    let Some(sim) = t.sim() else { return Box::new(()) };
    let (context, raw) = (t.context(), t.context().as_raw());
    match kind {
        ObjectKind::GraphicsResource => {
            // SAFETY: planted for this handle alone, in this context.
            let taken =
                unsafe { GraphicsResource::from_raw(context, sim.plant_graphics_buffer(raw, 64)) };
            Box::new(taken.unwrap())
        }
        ObjectKind::ExternalMemory => {
            // SAFETY: as above.
            let taken =
                unsafe { ExternalMemory::from_raw(context, sim.plant_external_memory(raw, 64)) };
            Box::new(taken.unwrap())
        }
        _ => {
            // SAFETY: as above.
            let taken =
                unsafe { ExternalSemaphore::from_raw(context, sim.plant_external_semaphore(raw)) };
            Box::new(taken.unwrap())
        }
    }
}

/// The calls of the row's end: on the thread that drops, and on the reclaimer.
fn ends(t: &Kit, row: &Row) -> (Vec<&'static str>, Vec<&'static str>) {
    let (object, rest) = make(t, row.kind);
    let by_hand = t.driver().reclaim().run_by_hand();
    let ((), here) = t.calls(|| drop(object));
    let ((), later) = t.calls(|| while by_hand.step() {});
    drop(rest);
    (without_switches(row, here), without_switches(row, later))
}

/// Where an end asks what is current, it switches or not, by the thread's context.
fn without_switches(row: &Row, mut calls: Vec<&'static str>) -> Vec<&'static str> {
    if row.calls.contains(&"cuCtxGetCurrent") {
        calls.retain(|call| !["cuCtxPushCurrent", "cuCtxPopCurrent"].contains(call));
    }
    calls
}

macro_rules! compilers {
    ($t:ident $kind:ident $($Type:ident $Api:ident $Call:ident ($($more:expr),*);)*) => {
        match $kind {
            $(ObjectKind::$Type => {
                let log = Arc::<CallLog<$Call>>::default();
                let api: Arc<dyn $Api> = Arc::new(Hooked::new(Bare, Arc::clone(&log)));
                let handle = $Type::new($t.driver(), &api $(, $more)*).unwrap();
                let ((), entries) = log.during(|| drop(handle));
                Some(entries.iter().map(|entry| entry.call().name()).collect())
            })*
            _ => None,
        }
    };
}

/// The calls of a compiler that the end of its handle makes on the thread that drops it; `None` for other kinds.
fn ends_of_a_compiler(t: &Kit, kind: ObjectKind) -> Option<Vec<&'static str>> {
    compilers! { t kind
        NvrtcProgram NvrtcApi NvrtcCall ("", None, &[]);
        NvvmProgram NvvmApi NvvmCall ();
        NvJitLink NvJitLinkApi NvJitLinkCall (&["-arch=sm_90"]);
    }
}

/// What ends with its driver makes no call before that.
fn ends_with_its_driver(t: &Kit, row: &Row) {
    assert_eq!(row.kind, ObjectKind::PrimaryContext, "only a primary context does");
    let driver = t.driver().isolated();
    let device = Device::with_driver(&driver, 0).unwrap();
    assert_eq!(t.calls(|| drop(device)).1, [""; 0]);
    let (closed, calls) = t.calls(|| driver.close().unwrap());
    assert_eq!((closed, calls.as_slice()), (Closed::Destroyed, row.calls));
}

fn walk(t: &Kit) {
    for row in RESOURCES {
        if let Some(calls) = ends_of_a_compiler(t, row.kind) {
            assert_eq!((calls.as_slice(), row.ends_on), (row.calls, EndsOn::DroppingThread));
            continue;
        }
        if matches!(row.made, Made::FromRaw(_)) && t.sim().is_none() {
            continue;
        }
        if is_of_another_process(row.kind) && t.sim().is_none() {
            continue;
        }
        let (here, later) = match row.ends_on {
            EndsOn::Driver => {
                ends_with_its_driver(t, row);
                continue;
            }
            EndsOn::DroppingThread => (row.calls, &[][..]),
            EndsOn::Reclaimer => (&[][..], row.calls),
            EndsOn::Nowhere => {
                assert!(row.calls.is_empty(), "{}: calls that are made nowhere", row.kind);
                (&[][..], &[][..])
            }
            other => panic!("{}: {other:?} isn't known to this test", row.kind),
        };
        let made = ends(t, row);
        assert_eq!((made.0.as_slice(), made.1.as_slice()), (here, later), "{}", row.kind);
    }
}

#[test]
fn each_row_of_the_resource_table_is_what_the_end_of_an_object_costs() {
    run(|t| {
        walk(t);
        // The thread's context makes no difference.
        t.context().with_current(|| walk(t)).unwrap();
        let other = Context::new(t.device(), ContextFlags::default()).unwrap();
        other.with_current(|| walk(t)).unwrap();
    });
}

#[test]
fn no_kind_has_two_rows_in_the_resource_table() {
    let kinds: BTreeSet<_> = RESOURCES.iter().map(|row| row.kind).collect();
    assert_eq!(kinds.len(), RESOURCES.len());
}
