//! Streams: their handles, their work, and the legacy default stream.

use cuhold_driver_sim::{
    Sim, SimOptions, ViolationKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};
use std::{
    sync::{Mutex, mpsc},
    thread,
};

use crate::ask::{
    Asked, BLOCKING, NON_BLOCKING, Runs, assert_clean, call, context, event, get, kinds, sim,
    sim_with, sim_with_context, stream,
};

const LEGACY: CUstream = CU_STREAM_LEGACY;
const PER_THREAD: CUstream = CU_STREAM_PER_THREAD;
const NOT_READY: Asked<()> = Err(CUresult::NOT_READY);

#[test]
fn a_destroyed_stream_is_not_taken_for_a_live_one() {
    let (sim, _) = sim_with_context();
    let s = stream(&sim, NON_BLOCKING);
    call!(sim, cuStreamQuery(s)).unwrap();
    call!(sim, cuStreamDestroy_v2(s)).unwrap();
    assert_eq!(call!(sim, cuStreamDestroy_v2(s)), Err(CUresult::INVALID_HANDLE));
    assert_eq!(call!(sim, cuStreamQuery(s)), Err(CUresult::INVALID_HANDLE));
    let (destroy, usage) = (ViolationKind::DoubleDestroy, ViolationKind::UseAfterDestroy);
    assert_eq!(kinds(&sim.violations()), [destroy, usage]);
}

#[test]
fn bad_arguments_of_a_create_are_refused() {
    let (sim, _) = sim_with_context();
    assert_eq!(get!(sim, cuStreamCreate(out, 2)), Err::<CUstream, _>(CUresult::INVALID_VALUE));
    assert_eq!(call!(sim, cuStreamCreate(std::ptr::null_mut(), 0)), Err(CUresult::INVALID_VALUE));
    assert_eq!(sim.leaks().len(), 2, "the retain and the stack: no stream was made");
}

#[test]
fn a_priority_is_moved_into_the_range() {
    let (sim, _) = sim_with_context();
    let priority = |asked| -> c_int {
        let s = get!(sim, cuStreamCreateWithPriority(out, 1, asked)).unwrap();
        get!(sim, cuStreamGetPriority(s, out)).unwrap()
    };
    assert_eq!([priority(-100), priority(-2), priority(7)], [-5, -2, 0]);
}

#[test]
fn a_stream_is_used_and_destroyed_whatever_is_current() {
    let (sim, prim) = sim_with_context();
    let s = stream(&sim, NON_BLOCKING);
    let a = context(&sim);
    let check = |raw: CUstream| {
        call!(sim, cuStreamSynchronize(raw)).unwrap();
        assert_eq!(get!(sim, cuStreamGetCtx(raw, out)), Ok(prim));
    };
    check(s);
    call!(sim, cuCtxDestroy_v2(a)).unwrap();
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    check(s);
    call!(sim, cuStreamDestroy_v2(s)).unwrap();
    assert_clean(&sim);
}

#[test]
fn a_stream_tells_what_it_is() {
    let (sim, prim) = sim_with_context();
    let (s, t) = (stream(&sim, NON_BLOCKING), stream(&sim, BLOCKING));
    assert_eq!(get!(sim, cuStreamGetFlags(s, out)), Ok(1));
    assert_eq!(get!(sim, cuStreamGetFlags(t, out)), Ok(0));
    assert_eq!(get!(sim, cuStreamGetDevice(s, out)), Ok(0));
    let id = |raw| -> c_ulonglong { get!(sim, cuStreamGetId(raw, out)).unwrap() };
    assert_ne!(id(s), id(t));
    let (mut ctx, mut green) = (CUcontext::NULL, CUgreenCtx::from_addr(3));
    call!(sim, cuStreamGetCtx_v2(s, &raw mut ctx, &raw mut green)).unwrap();
    assert_eq!((ctx, green), (prim, CUgreenCtx::NULL));
    assert_eq!(call!(sim, cuStreamGetFlags(s, std::ptr::null_mut())), Err(CUresult::INVALID_VALUE));
}

#[test]
fn default_streams_belong_to_the_current_context() {
    let (sim, prim) = sim_with_context();
    for raw in [CUstream::NULL, LEGACY, PER_THREAD] {
        assert_eq!(get!(sim, cuStreamGetCtx(raw, out)), Ok(prim));
        assert_eq!(get!(sim, cuStreamGetFlags(raw, out)), Ok(0));
        assert_eq!(get!(sim, cuStreamGetPriority(raw, out)), Ok(0));
        assert_eq!(call!(sim, cuStreamDestroy_v2(raw)), Err(CUresult::INVALID_HANDLE));
    }
    let id = |raw| -> c_ulonglong { get!(sim, cuStreamGetId(raw, out)).unwrap() };
    assert_eq!(id(CUstream::NULL), id(LEGACY));
    assert_ne!(id(LEGACY), id(PER_THREAD));
    let here = id(PER_THREAD);
    thread::scope(|scope| {
        scope.spawn(|| {
            call!(sim, cuCtxSetCurrent(prim)).unwrap();
            assert_ne!(id(PER_THREAD), here);
        });
    });
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    for raw in [CUstream::NULL, LEGACY, PER_THREAD] {
        let asked: Asked<CUcontext> = get!(sim, cuStreamGetCtx(raw, out));
        assert_eq!(asked, Err(CUresult::INVALID_CONTEXT));
    }
    assert_clean(&sim);
}

#[test]
fn work_waits_until_it_is_waited_for() {
    let (sim, _) = sim_with_context();
    let (s, runs) = (stream(&sim, NON_BLOCKING), Runs::default());
    runs.queue(&sim, s).unwrap();
    runs.queue(&sim, s).unwrap();
    assert_eq!(call!(sim, cuStreamQuery(s)), NOT_READY);
    assert_eq!((runs.count(), sim.pending()), (0, 2));
    call!(sim, cuStreamSynchronize(s)).unwrap();
    assert_eq!((runs.count(), sim.pending()), (2, 0));
    call!(sim, cuStreamQuery(s)).unwrap();
}

#[test]
fn a_step_runs_one_piece_of_work() {
    let (sim, _) = sim_with_context();
    let (s, runs) = (stream(&sim, NON_BLOCKING), Runs::default());
    runs.queue(&sim, s).unwrap();
    runs.queue(&sim, s).unwrap();
    assert!(sim.stream_step(s));
    assert_eq!(runs.count(), 1);
    assert!(sim.stream_step(s));
    assert!(!sim.stream_step(s));
    assert_eq!(runs.count(), 2);
}

#[test]
fn a_loop_around_a_query_ends_where_queries_advance() {
    let mut options = SimOptions::default();
    options.queries_advance = true;
    let sim = sim_with(options);
    context(&sim);
    let (s, runs) = (stream(&sim, NON_BLOCKING), Runs::default());
    runs.queue(&sim, s).unwrap();
    runs.queue(&sim, s).unwrap();
    let asked = std::iter::from_fn(|| call!(sim, cuStreamQuery(s)).err()).count();
    assert_eq!((asked, runs.count()), (2, 2));
}

#[test]
fn a_destroyed_stream_s_work_goes_on() {
    let (sim, _) = sim_with_context();
    let (s, runs) = (stream(&sim, NON_BLOCKING), Runs::default());
    runs.queue(&sim, s).unwrap();
    call!(sim, cuStreamDestroy_v2(s)).unwrap();
    assert_eq!(runs.count(), 0);
    call!(sim, cuCtxSynchronize()).unwrap();
    assert_eq!(runs.count(), 1);
}

#[test]
fn destroying_a_context_waits_for_all_contexts() {
    let (sim, _) = sim_with_context();
    let (s, runs) = (stream(&sim, NON_BLOCKING), Runs::default());
    runs.queue(&sim, s).unwrap();
    let a = context(&sim);
    call!(sim, cuCtxDestroy_v2(a)).unwrap();
    assert_eq!(runs.count(), 1);
}

#[test]
fn synchronizing_a_context_leaves_other_contexts_alone() {
    let (sim, _) = sim_with_context();
    let (s, runs) = (stream(&sim, NON_BLOCKING), Runs::default());
    runs.queue(&sim, s).unwrap();
    let a = context(&sim);
    call!(sim, cuCtxSynchronize_v2(a)).unwrap();
    assert_eq!(runs.count(), 0);
    sim.run_all();
    assert_eq!(runs.count(), 1);
}

/// The letters in the order in which their host functions ran.
#[derive(Default)]
struct Order(Mutex<String>);

struct Letter<'a>(&'a Order, char);

unsafe extern "C" fn write(data: *mut c_void) {
    // SAFETY: the data is the address of a `Letter` that outlives the work.
    let Letter(order, letter) = unsafe { &*data.cast::<Letter<'_>>() };
    order.0.lock().unwrap().push(*letter);
}

impl Letter<'_> {
    fn queue(&self, sim: &Sim, on: CUstream) {
        let data = (&raw const *self).cast_mut().cast();
        call!(sim, cuLaunchHostFunc(on, Some(write), data)).unwrap();
    }
}

#[test]
fn an_event_orders_two_streams() {
    let (sim, _) = sim_with_context();
    let (s, t, e) = (stream(&sim, 1), stream(&sim, 1), event(&sim));
    let order = Order::default();
    let letters = ['a', 'b', 'c'].map(|letter| Letter(&order, letter));
    letters[0].queue(&sim, s);
    call!(sim, cuEventRecord(e, s)).unwrap();
    letters[2].queue(&sim, s);
    call!(sim, cuStreamWaitEvent(t, e, 0)).unwrap();
    letters[1].queue(&sim, t);
    call!(sim, cuStreamSynchronize(t)).unwrap();
    assert_eq!(*order.0.lock().unwrap(), "ab", "what follows the record isn't waited for");
}

#[test]
fn a_wait_is_for_the_record_at_its_time_and_outlives_the_event() {
    let (sim, _) = sim_with_context();
    let (s, t, u, e) = (stream(&sim, 1), stream(&sim, 1), stream(&sim, 1), event(&sim));
    let order = Order::default();
    let letters = ['a', 'b', 'c'].map(|letter| Letter(&order, letter));
    letters[0].queue(&sim, s);
    letters[2].queue(&sim, u);
    call!(sim, cuEventRecord(e, s)).unwrap();
    call!(sim, cuStreamWaitEvent(t, e, 0)).unwrap();
    call!(sim, cuEventRecord(e, u)).unwrap();
    call!(sim, cuEventDestroy_v2(e)).unwrap();
    letters[1].queue(&sim, t);
    call!(sim, cuStreamSynchronize(t)).unwrap();
    assert_eq!(*order.0.lock().unwrap(), "ab");
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams_and_they_for_it() {
    let (sim, _) = sim_with_context();
    let (s, free) = (stream(&sim, BLOCKING), stream(&sim, NON_BLOCKING));
    let order = Order::default();
    let letters = ['a', 'b', 'c', 'x'].map(|letter| Letter(&order, letter));
    letters[3].queue(&sim, free);
    letters[0].queue(&sim, s);
    letters[1].queue(&sim, CUstream::NULL);
    letters[2].queue(&sim, s);
    call!(sim, cuStreamSynchronize(s)).unwrap();
    assert_eq!(*order.0.lock().unwrap(), "abc", "the non-blocking one isn't waited for");
}

#[test]
fn waiting_for_the_legacy_stream_waits_for_the_blocking_ones() {
    let (sim, _) = sim_with_context();
    let runs = Runs::default();
    runs.queue(&sim, stream(&sim, BLOCKING)).unwrap();
    runs.queue(&sim, PER_THREAD).unwrap();
    runs.queue(&sim, stream(&sim, NON_BLOCKING)).unwrap();
    assert_eq!(call!(sim, cuStreamQuery(LEGACY)), NOT_READY);
    call!(sim, cuStreamSynchronize(LEGACY)).unwrap();
    assert_eq!(runs.count(), 2);
}

#[test]
fn waiting_for_a_blocking_stream_does_not_wait_for_the_legacy_one() {
    let (sim, _) = sim_with_context();
    let (s, runs) = (stream(&sim, BLOCKING), Runs::default());
    runs.queue(&sim, LEGACY).unwrap();
    call!(sim, cuStreamSynchronize(s)).unwrap();
    assert_eq!(runs.count(), 0);
}

#[test]
fn the_order_of_independent_streams_follows_from_the_seed() {
    let run = |seed| {
        let mut options = SimOptions::default();
        options.seed = seed;
        let sim = sim_with(options);
        context(&sim);
        let order = Order::default();
        let letters: Vec<_> = ('a'..='h').map(|letter| Letter(&order, letter)).collect();
        for letter in &letters {
            letter.queue(&sim, stream(&sim, NON_BLOCKING));
        }
        sim.run_all();
        order.0.into_inner().unwrap()
    };
    assert_eq!(run(1), run(1));
    assert!((2..20).any(|seed| run(seed) != run(1)));
}

unsafe extern "C" fn calls_the_driver(data: *mut c_void) {
    // SAFETY: the data is the address of the test's pair, which outlives the work.
    let (sim, answers) = unsafe { &*data.cast::<(Sim, Mutex<Vec<Asked<()>>>)>() };
    let made: Asked<CUstream> = get!(sim, cuStreamCreate(out, 0));
    let asked: Asked<CUcontext> = get!(sim, cuCtxGetCurrent(out));
    answers.lock().unwrap().extend([made.map(|_| ()), asked.map(|_| ())]);
}

#[test]
fn a_host_function_may_not_call_the_driver() {
    let (sim, _) = sim_with_context();
    let pair: (Sim, Mutex<Vec<Asked<()>>>) = (sim.clone(), Mutex::default());
    let data = (&raw const pair).cast_mut().cast();
    call!(sim, cuLaunchHostFunc(CUstream::NULL, Some(calls_the_driver), data)).unwrap();
    call!(sim, cuStreamSynchronize(CUstream::NULL)).unwrap();
    assert_eq!(*pair.1.lock().unwrap(), [Err(CUresult::NOT_PERMITTED); 2]);
    assert_eq!(kinds(&sim.violations()), [ViolationKind::CallInsideCallback; 2]);
    stream(&sim, 0);
}

#[test]
fn a_host_function_must_be_there() {
    let (sim, _) = sim_with_context();
    let null = std::ptr::null_mut();
    assert_eq!(call!(sim, cuLaunchHostFunc(LEGACY, None, null)), Err(CUresult::INVALID_VALUE));
}

/// A host function that says that it began, and ends when it is told to.
struct Gate(mpsc::Sender<()>, Mutex<mpsc::Receiver<()>>);

unsafe extern "C" fn pass_gate(data: *mut c_void) {
    // SAFETY: the data is the address of a `Gate` that outlives the work.
    let gate = unsafe { &*data.cast::<Gate>() };
    gate.0.send(()).unwrap();
    gate.1.lock().unwrap().recv().unwrap();
}

#[test]
fn a_second_thread_waits_for_work_that_the_first_one_runs() {
    let (sim, prim) = sim_with_context();
    let (s, runs) = (stream(&sim, 1), Runs::default());
    let ((began, begins), (open, opens)) = (mpsc::channel(), mpsc::channel());
    let gate = Gate(began, Mutex::new(opens));
    let data = (&raw const gate).cast_mut().cast();
    call!(sim, cuLaunchHostFunc(s, Some(pass_gate), data)).unwrap();
    runs.queue(&sim, s).unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| call!(sim, cuStreamSynchronize(s)));
        begins.recv().unwrap();
        // The world isn't locked while the host function runs, and the second wait makes no progress of its own.
        let second = scope.spawn(|| {
            call!(sim, cuCtxSetCurrent(prim)).unwrap();
            call!(sim, cuCtxSynchronize())
        });
        assert_eq!(call!(sim, cuStreamQuery(s)), NOT_READY);
        assert_eq!(runs.count(), 0);
        open.send(()).unwrap();
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (Ok(()), Ok(())));
    });
    assert_eq!(runs.count(), 1);
}

#[test]
fn a_new_driver_s_handles_mean_nothing_to_another() {
    let (a, _) = sim_with_context();
    let b = sim();
    let s = stream(&a, 1);
    assert_eq!(call!(b, cuStreamQuery(s)), Err(CUresult::INVALID_HANDLE));
    assert_eq!(kinds(&b.violations()), [ViolationKind::UnknownHandle]);
}

#[test]
fn a_reused_handle_names_the_newer_stream() {
    let mut options = SimOptions::default();
    options.reuse_handles = true;
    let sim = sim_with(options);
    context(&sim);
    let s = stream(&sim, 1);
    call!(sim, cuStreamDestroy_v2(s)).unwrap();
    assert_eq!(stream(&sim, 0), s);
    assert_eq!(get!(sim, cuStreamGetFlags(s, out)), Ok(0));
    assert_clean(&sim);
}

/// What a stream callback was told.
type Told = Mutex<Vec<(CUstream, CUresult)>>;

unsafe extern "C" fn tell(stream: CUstream, status: CUresult, data: *mut c_void) {
    // SAFETY: the data is the address of a `Told` that outlives the work.
    let told = unsafe { &*data.cast::<Told>() };
    told.lock().unwrap().push((stream, status));
}

#[test]
fn a_callback_runs_once_with_its_stream() {
    let (sim, _) = sim_with_context();
    let (s, told) = (stream(&sim, 1), Told::default());
    let data = (&raw const told).cast_mut().cast();
    call!(sim, cuStreamAddCallback(s, Some(tell), data, 0)).unwrap();
    assert_eq!(call!(sim, cuStreamQuery(s)), NOT_READY);
    call!(sim, cuStreamSynchronize(s)).unwrap();
    assert_eq!(*told.lock().unwrap(), [(s, CUresult::SUCCESS)]);
    let value = Err(CUresult::INVALID_VALUE);
    assert_eq!(call!(sim, cuStreamAddCallback(s, Some(tell), data, 1)), value);
    assert_eq!(call!(sim, cuStreamAddCallback(s, None, data, 0)), value);
}

#[test]
fn a_callback_behind_a_fault_is_told() {
    let (sim, _) = sim_with_context();
    let (s, told) = (stream(&sim, 1), Told::default());
    let data = (&raw const told).cast_mut().cast();
    call!(sim, cuStreamAddCallback(s, Some(tell), data, 0)).unwrap();
    sim.poison(CUresult::ILLEGAL_ADDRESS);
    assert_eq!(*told.lock().unwrap(), [(s, CUresult::ILLEGAL_ADDRESS)]);
}

const WAITING: CUstreamAttrID = CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY;
const PRIORITY: CUstreamAttrID = CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_PRIORITY;
const SPIN: CUsynchronizationPolicy = CUsynchronizationPolicy::CU_SYNC_POLICY_SPIN;

fn attribute(sim: &Sim, s: CUstream, id: CUstreamAttrID) -> Asked<c_uint> {
    let value: CUstreamAttrValue = get!(sim, cuStreamGetAttribute(s, id, out))?;
    // SAFETY: both attributes of these tests are integers of this size at the union's beginning.
    Ok(unsafe { value.syncPolicy }.0)
}

fn set_waiting(sim: &Sim, s: CUstream, id: CUstreamAttrID) -> Asked<()> {
    let value = CUstreamAttrValue { syncPolicy: SPIN };
    call!(sim, cuStreamSetAttribute(s, id, &raw const value))
}

#[test]
fn a_stream_s_way_of_waiting_is_kept_and_copied() {
    let (sim, _) = sim_with_context();
    let (s, t) = (stream(&sim, 1), stream(&sim, 1));
    assert_eq!(attribute(&sim, s, WAITING), Ok(c_uint::MAX), "unset");
    set_waiting(&sim, s, WAITING).unwrap();
    assert_eq!(attribute(&sim, s, WAITING), Ok(SPIN.0));
    call!(sim, cuStreamCopyAttributes(t, s)).unwrap();
    assert_eq!(attribute(&sim, t, WAITING), Ok(SPIN.0));
    assert_eq!(attribute(&sim, s, PRIORITY), Ok(0));
    let value = CUstreamAttrValue { priority: -99 };
    call!(sim, cuStreamSetAttribute(s, PRIORITY, &raw const value)).unwrap();
    assert_eq!(get!(sim, cuStreamGetPriority(s, out)), Ok(-5));
}

#[test]
fn attributes_that_streams_do_not_have_are_refused() {
    let (sim, _) = sim_with_context();
    let s = stream(&sim, 1);
    let none = CUstreamAttrID(99);
    assert_eq!(attribute(&sim, s, none), Err(CUresult::INVALID_VALUE));
    assert_eq!(set_waiting(&sim, s, none), Err(CUresult::INVALID_VALUE));
    let window = CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW;
    assert_eq!(attribute(&sim, s, window), Err(CUresult::NOT_SUPPORTED), "not simulated");
    assert_eq!(set_waiting(&sim, CUstream::NULL, WAITING), Err(CUresult::INVALID_HANDLE));
    context(&sim);
    let foreign = stream(&sim, 1);
    let asked = call!(sim, cuStreamCopyAttributes(foreign, s));
    assert_eq!(asked, Err(CUresult::INVALID_VALUE));
}
