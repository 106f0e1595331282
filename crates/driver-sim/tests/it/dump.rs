//! The picture of the world: it tells what stands, what waits, what is left, and changes nothing.

use cuhold_driver_sim::{
    Sim,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};
use std::thread;

use crate::{
    ask::{BLOCKING, NON_BLOCKING, Runs, call, context, event, get, sim, sim_with_context, stream},
    capture::{GLOBAL, RELAXED, begin, end},
    graph_kit::{empty, graph, host, run},
};

/// The lines, without what they are moved by.
fn lines(sim: &Sim) -> Vec<String> {
    sim.dump().to_string().lines().map(|line| line.trim_start().to_owned()).collect()
}

/// The one line that begins so.
#[track_caller]
fn line(sim: &Sim, begins: &str) -> String {
    let all = lines(sim);
    let found: Vec<_> = all.iter().filter(|line| line.starts_with(begins)).collect();
    assert_eq!(found.len(), 1, "{begins}: {found:?} of {all:#?}");
    (*found.first().unwrap()).clone()
}

/// The lines under the one that begins so.
fn under(sim: &Sim, begins: &str) -> Vec<String> {
    let dump = sim.dump().to_string();
    let mut rest = dump.lines().skip_while(|line| !line.trim_start().starts_with(begins));
    let indent = |line: &str| line.len() - line.trim_start().len();
    let depth = rest.next().map_or(0, indent);
    rest.take_while(|line| indent(line) > depth).map(|line| line.trim_start().to_owned()).collect()
}

#[test]
fn a_dump_makes_no_call_and_runs_nothing() {
    let (sim, _) = sim_with_context();
    let s = stream(&sim, BLOCKING);
    Runs::default().queue(&sim, s).unwrap();
    let ([first, second], entries) = sim.log().during(|| [sim.dump(), sim.dump()]);
    assert_eq!((first, entries.len()), (second, 0));
    assert_eq!(sim.pending(), 1);
}

#[test]
fn a_dump_tells_who_has_which_context_current() {
    let (sim, prim) = sim_with_context();
    let made = context(&sim);
    let stack = under(&sim, "this thread: capture mode global");
    assert!(stack[0].starts_with(&format!("current: context {:#x}", made.addr())), "{stack:?}");
    assert!(stack[1].starts_with(&format!("below it: context {:#x}", prim.addr())), "{stack:?}");
    assert_eq!(under(&sim, &format!("context {:#x}", made.addr())), ["current on this thread"]);
    let seen = thread::scope(|scope| scope.spawn(|| lines(&sim)).join().unwrap());
    assert!(!seen.iter().any(|line| line == "current on this thread"), "{seen:#?}");
    assert!(seen.iter().any(|line| line.starts_with("current on ThreadId(")), "{seen:#?}");
    // It is current on this thread still; another one ended it.
    thread::scope(|scope| scope.spawn(|| call!(sim, cuCtxDestroy_v2(made))).join().unwrap())
        .unwrap();
    let stack = under(&sim, "this thread: capture mode global");
    assert!(stack[0].contains("which has ended"), "{stack:?}");
}

#[test]
fn a_dump_tells_what_a_stream_has_queued_and_what_it_waits_for() {
    let (sim, _) = sim_with_context();
    let (s, t) = (stream(&sim, NON_BLOCKING), stream(&sim, NON_BLOCKING));
    let e = event(&sim);
    let runs = Runs::default();
    runs.queue(&sim, s).unwrap();
    call!(sim, cuEventRecord(e, s)).unwrap();
    call!(sim, cuStreamWaitEvent(t, e, 0)).unwrap();
    runs.queue(&sim, t).unwrap();
    let (s, t, e) = (s.addr(), t.addr(), e.addr());
    let record = format!("queued: record of event {e:#x}");
    assert_eq!(
        under(&sim, &format!("stream {s:#x}: non-blocking")),
        ["queued: host function", &record]
    );
    let wait = format!("queued: a wait, waits for stream {s:#x} (2 pieces to go)");
    assert_eq!(
        under(&sim, &format!("stream {t:#x}: non-blocking")),
        [&wait, "queued: host function"]
    );
    let state = line(&sim, &format!("event {e:#x}"));
    assert!(
        state.contains(&format!("not reached: recorded on stream {s:#x} (2 pieces to go)")),
        "{state}"
    );

    sim.run_all();
    assert!(under(&sim, &format!("stream {t:#x}")).is_empty());
    let state = line(&sim, &format!("event {e:#x}"));
    assert!(state.contains(": reached at "), "{state}");
}

#[test]
fn a_dump_tells_work_of_default_streams_and_of_destroyed_ones() {
    let (sim, ctx) = sim_with_context();
    let runs = Runs::default();
    runs.queue(&sim, CUstream::from_addr(1)).unwrap();
    let s = stream(&sim, NON_BLOCKING);
    runs.queue(&sim, s).unwrap();
    call!(sim, cuStreamDestroy_v2(s)).unwrap();
    let legacy = format!("legacy default stream in context {:#x}", ctx.addr());
    assert_eq!(under(&sim, &legacy), ["queued: host function"]);
    assert_eq!(under(&sim, "a stream that was destroyed"), ["queued: host function"]);
}

#[test]
fn a_dump_tells_memory_by_address_and_pools_by_their_counters() {
    let (sim, ctx) = sim_with_context();
    let plain = get!(sim, cuMemAlloc_v2(out, 3 << 10)).unwrap();
    let s = stream(&sim, NON_BLOCKING);
    let pooled = get!(sim, cuMemAllocAsync(out, 1000, s)).unwrap();
    Runs::default().queue(&sim, s).unwrap();
    call!(sim, cuMemFreeAsync(pooled, s)).unwrap();
    let told = line(&sim, &format!("memory {plain:#x}"));
    assert!(
        told.contains(&format!("3 KiB on device 0, of context {:#x}, made by call", ctx.addr())),
        "{told}"
    );
    let told = line(&sim, &format!("memory {pooled:#x}"));
    assert!(
        told.contains("1000 B on device 0, of memory pool") && told.contains(", freed by call"),
        "{told}"
    );
    let pool = line(&sim, "default memory pool");
    assert!(pool.contains(": 0 B used (at most 1000 B), 32 MiB reserved"), "{pool}");
    assert!(pool.ends_with("1 allocation, 1 of them freed by work that is pending"), "{pool}");
    let device = under(&sim, "device 0: ");
    assert!(
        device[0].starts_with("memory 16 GiB: ")
            && device[0].contains(", 3 KiB taken outside of pools"),
        "{device:?}"
    );
    call!(sim, cuStreamSynchronize(s)).unwrap();
    call!(sim, cuMemFree_v2(plain)).unwrap();
    let left = lines(&sim);
    assert!(!left.iter().any(|line| line.starts_with("memory 0x")), "{left:#?}");
}

#[test]
fn a_dump_tells_captures_their_members_and_their_graphs() {
    let (sim, _) = sim_with_context();
    let (s, e, t) = (stream(&sim, NON_BLOCKING), event(&sim), stream(&sim, NON_BLOCKING));
    begin(&sim, s, RELAXED).unwrap();
    Runs::default().queue(&sim, s).unwrap();
    call!(sim, cuEventRecord(e, s)).unwrap();
    call!(sim, cuStreamWaitEvent(t, e, 0)).unwrap();
    let capture = line(&sim, "capture 1: relaxed, begun by this thread on stream 0x");
    assert!(capture.contains("into graph 0x"), "{capture}");
    let behind =
        [s, t].map(|s| format!("stream {:#x}: its next work stands behind 1 node", s.addr()));
    assert_eq!(under(&sim, "capture 1"), behind);
    assert!(line(&sim, "graph 0x").contains(": 1 node (1 Host), filled by capture 1"));
    assert!(line(&sim, "event 0x").contains("recorded in capture 1"));

    let u = stream(&sim, NON_BLOCKING);
    begin(&sim, u, GLOBAL).unwrap();
    call!(sim, cuStreamSynchronize(u)).unwrap_err();
    line(&sim, "capture 2: invalidated");
    assert!(end(&sim, u).0.is_err());
    assert!(!lines(&sim).iter().any(|line| line.starts_with("capture 2")));
}

#[test]
fn a_dump_tells_executables_and_whether_they_are_in_flight() {
    let (sim, _) = sim_with_context();
    let g = graph(&sim);
    let first = empty(&sim, g, &[]).unwrap();
    host(&sim, g, &[first], &Runs::default());
    let exec = run(&sim, g);
    let s = stream(&sim, NON_BLOCKING);
    call!(sim, cuGraphLaunch(exec, s)).unwrap();
    let raw = g.addr();
    assert!(line(&sim, &format!("graph {raw:#x}")).contains(": 2 nodes (1 Host, 1 Empty)"));
    let begins = format!("executable graph {:#x} of graph {raw:#x}", exec.addr());
    assert!(line(&sim, &begins).contains(": in flight"), "{}", sim.dump());
    sim.run_all();
    assert!(line(&sim, &begins).contains(": not in flight"));
}

#[test]
fn a_dump_tells_what_would_leak_and_the_violations_so_far() {
    let (sim, _) = sim_with_context();
    let e = event(&sim);
    assert_eq!(under(&sim, "not ended: 3").len(), 3, "{}", sim.dump());
    assert_eq!(line(&sim, "violations"), "violations: 0");
    call!(sim, cuEventDestroy_v2(e)).unwrap();
    call!(sim, cuEventDestroy_v2(e)).unwrap_err();
    line(&sim, "not ended: 2");
    let violation = sim.violations()[0].to_string();
    assert_eq!(under(&sim, "violations: 1"), [violation]);
}

#[test]
fn a_dump_says_that_all_work_has_ended_and_by_what() {
    let sim = sim();
    sim.poison(CUresult::ILLEGAL_ADDRESS);
    let lost = line(&sim, "all CUDA work has ended with");
    assert!(lost.contains("ILLEGAL_ADDRESS"), "{lost}");
}

#[test]
fn of_very_many_objects_a_dump_tells_a_hundred_and_the_number_of_the_rest() {
    let (sim, _) = sim_with_context();
    for _ in 0..105 {
        event(&sim);
    }
    let all = lines(&sim);
    let events =
        all.iter().filter(|line| line.starts_with("event 0x") && line.contains("recorded"));
    assert_eq!(events.count(), 100);
    assert!(all.contains(&"and 5 more".to_owned()), "{all:#?}");
}
