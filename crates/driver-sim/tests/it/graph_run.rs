//! Launches: in which order nodes run, and what waits for what.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use cuhold_driver_sim::{
    Destructors, ObjectKind, Sim, SimOptions,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

use crate::{
    ask::{NON_BLOCKING, Runs, assert_clean, call, count, event, get, primary, sim_with, stream},
    graph_exec::instantiate,
    graph_kit::{
        child, empty, fill, fill_params, graph, host, kernel_node, kernel_params, launch, memory,
        registered, run, seeded, words,
    },
};

/// A driver with a kernel that says its number, what was said so far, and its context.
fn speaker(seed: u64) -> (Sim, CUcontext, CUkernel, Arc<Mutex<Vec<u32>>>) {
    let (sim, context) = seeded(seed);
    let said = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&said);
    sim.register_kernel("say", move |launch| {
        list.lock().unwrap().push(launch.param::<u32>(0)?);
        Ok(())
    });
    let say = registered(&sim, "say", ".param .u32 number");
    (sim, context, say, said)
}

fn say(
    sim: &Sim,
    graph: CUgraph,
    after: &[CUgraphNode],
    kernel: (CUkernel, CUcontext),
    number: u32,
) -> CUgraphNode {
    let mut number = number;
    let mut list = [(&raw mut number).cast()];
    kernel_node(sim, graph, after, kernel_params(kernel.0, kernel.1, &mut list)).unwrap()
}

#[test]
fn nodes_run_in_orders_that_the_edges_allow_and_the_seed_picks() {
    let mut orders = BTreeSet::new();
    for seed in 0..40 {
        let order = |seed| {
            let (sim, context, kernel, said) = speaker(seed);
            let (g, kernel) = (graph(&sim), (kernel, context));
            // 1 ─► 2 ─► 4        5 stands alone
            //   └► 3 ─┘
            let one = say(&sim, g, &[], kernel, 1);
            let two = say(&sim, g, &[one], kernel, 2);
            let three = say(&sim, g, &[one], kernel, 3);
            say(&sim, g, &[two, three], kernel, 4);
            say(&sim, g, &[], kernel, 5);
            run(&sim, g);
            assert_clean(&sim);
            let said = said.lock().unwrap();
            said.clone()
        };
        let seen = order(seed);
        let at = |number| seen.iter().position(|said| *said == number).unwrap();
        assert!(at(1) < at(2) && at(1) < at(3) && at(2) < at(4) && at(3) < at(4), "{seen:?}");
        assert_eq!(order(seed), seen, "the same seed, the same order");
        orders.insert(seen);
    }
    assert!(orders.len() >= 8, "of the 10 orders only {orders:?}");
}

#[test]
fn launches_of_one_executable_come_one_after_the_other_on_any_streams() {
    for seed in 0..20 {
        let (sim, context, kernel, said) = speaker(seed);
        let (g, kernel) = (graph(&sim), (kernel, context));
        let one = say(&sim, g, &[], kernel, 1);
        say(&sim, g, &[one], kernel, 2);
        let exec = instantiate(&sim, g).unwrap();
        for _ in 0..4 {
            call!(sim, cuGraphLaunch(exec, stream(&sim, NON_BLOCKING))).unwrap();
        }
        sim.run_all();
        assert_eq!(*said.lock().unwrap(), [1, 2, 1, 2, 1, 2, 1, 2]);
        assert_clean(&sim);
    }
}

#[test]
fn an_executable_that_is_destroyed_while_it_runs_runs_to_its_end() {
    let (sim, _) = seeded(1);
    let (runs, ended) = (Runs::default(), Runs::default());
    let g = graph(&sim);
    let first = host(&sim, g, &[], &runs);
    host(&sim, g, &[first], &runs);
    let object: CUuserObject =
        get!(sim, cuUserObjectCreate(out, ended.data(), Some(count), 1, 1)).unwrap();
    call!(sim, cuGraphRetainUserObject(g, object, 1, 1)).unwrap();
    let exec = instantiate(&sim, g).unwrap();
    let s = stream(&sim, NON_BLOCKING);
    call!(sim, cuGraphLaunch(exec, s)).unwrap();
    sim.stream_step(s);
    call!(sim, cuGraphExecDestroy(exec)).unwrap();
    call!(sim, cuGraphDestroy(g)).unwrap();
    assert_eq!((runs.count(), ended.count()), (1, 0));
    call!(sim, cuStreamSynchronize(s)).unwrap();
    assert_eq!((runs.count(), ended.count()), (2, 1));
    assert_eq!(sim.live(ObjectKind::UserObject), 0);
    assert_clean(&sim);
}

#[test]
fn an_event_of_a_node_is_recorded_by_each_launch_and_waited_for_by_another_graph() {
    let (sim, _) = seeded(1);
    let runs = Runs::default();
    let e = event(&sim);
    let (recording, waiting) = (graph(&sim), graph(&sim));
    let first = host(&sim, recording, &[], &runs);
    let _node: CUgraphNode =
        get!(sim, cuGraphAddEventRecordNode(out, recording, &raw const first, 1, e)).unwrap();
    let wait: CUgraphNode =
        get!(sim, cuGraphAddEventWaitNode(out, waiting, std::ptr::null(), 0, e)).unwrap();
    let behind = Runs::default();
    host(&sim, waiting, &[wait], &behind);
    let (recording, waiting) =
        (instantiate(&sim, recording).unwrap(), instantiate(&sim, waiting).unwrap());
    let (s, t) = (stream(&sim, NON_BLOCKING), stream(&sim, NON_BLOCKING));
    call!(sim, cuGraphLaunch(recording, s)).unwrap();
    assert_eq!(call!(sim, cuEventQuery(e)), Err(CUresult::NOT_READY));
    call!(sim, cuGraphLaunch(waiting, t)).unwrap();
    call!(sim, cuStreamSynchronize(t)).unwrap();
    assert_eq!((runs.count(), behind.count()), (1, 1));
    call!(sim, cuEventQuery(e)).unwrap();
    assert_clean(&sim);
}

#[test]
fn a_child_graph_is_done_between_what_is_before_and_behind_it() {
    for seed in 0..10 {
        let (sim, context, kernel, said) = speaker(seed);
        let kernel = (kernel, context);
        let (g, inner) = (graph(&sim), graph(&sim));
        for number in 2..5 {
            say(&sim, inner, &[], kernel, number);
        }
        let first = say(&sim, g, &[], kernel, 1);
        let node = child(&sim, g, &[first], inner).unwrap();
        say(&sim, g, &[node], kernel, 5);
        run(&sim, g);
        let said = said.lock().unwrap();
        assert_eq!((said.len(), said[0], said[4]), (5, 1, 5));
        assert_clean(&sim);
    }
}

#[test]
fn an_empty_graph_and_one_of_empty_nodes_are_launched() {
    let (sim, _) = seeded(1);
    let g = graph(&sim);
    run(&sim, g);
    let a = empty(&sim, g, &[]).unwrap();
    empty(&sim, g, &[a]).unwrap();
    run(&sim, g);
    assert_eq!(sim.pending(), 0);
    assert_clean(&sim);
}

#[test]
fn a_chain_and_a_row_of_many_nodes_are_launched() {
    let (sim, _) = seeded(1);
    let runs = Runs::default();
    let (chain, row) = (graph(&sim), graph(&sim));
    let mut last = None;
    for _ in 0..2000 {
        let node = host(&sim, chain, last.as_slice(), &runs);
        last = Some(node);
        host(&sim, row, &[], &runs);
    }
    run(&sim, chain);
    run(&sim, row);
    assert_eq!(runs.count(), 4000);
    assert_clean(&sim);
}

#[test]
fn a_launch_needs_no_context_but_making_an_executable_does() {
    let (sim, _) = seeded(1);
    let g = graph(&sim);
    let exec = instantiate(&sim, g).unwrap();
    let s = stream(&sim, NON_BLOCKING);
    call!(sim, cuCtxSetCurrent(CUcontext::NULL)).unwrap();
    assert_eq!(instantiate(&sim, g), Err(CUresult::INVALID_CONTEXT));
    call!(sim, cuGraphLaunch(exec, s)).unwrap();
    call!(sim, cuStreamSynchronize(s)).unwrap();
    assert_clean(&sim);
}

#[test]
fn memory_that_was_freed_before_a_launch_that_names_it_is_a_violation() {
    let (sim, _) = seeded(1);
    let at = memory(&sim, 1);
    let g = graph(&sim);
    fill(&sim, g, &[], fill_params(at, 1, 1)).unwrap();
    let exec = run(&sim, g);
    assert_eq!(words(&sim, at), [1]);
    call!(sim, cuMemFree_v2(at)).unwrap();
    launch(&sim, exec).unwrap_err();
    assert_eq!(
        crate::ask::kinds(&sim.take_violations()),
        [cuhold_driver_sim::ViolationKind::UseAfterDestroy]
    );
}

/// A driver whose destructors run so, and a graph that holds an object.
fn holding(destructors: Destructors) -> (Sim, CUgraph, Runs) {
    let mut options = SimOptions::default();
    options.destructors = destructors;
    let sim = sim_with(options);
    call!(sim, cuCtxSetCurrent(primary(&sim, 0))).unwrap();
    let (g, ended) = (graph(&sim), Runs::default());
    let object: CUuserObject =
        get!(sim, cuUserObjectCreate(out, ended.data(), Some(count), 1, 1)).unwrap();
    call!(sim, cuGraphRetainUserObject(g, object, 1, 1)).unwrap();
    (sim, g, ended)
}

#[test]
fn destructors_run_later_and_on_another_thread_where_that_is_asked_for() {
    let (sim, g, ended) = holding(Destructors::Later);
    call!(sim, cuGraphDestroy(g)).unwrap();
    assert_eq!(ended.count(), 0);
    let ran = std::thread::scope(|scope| scope.spawn(|| sim.run_destructors()).join().unwrap());
    assert_eq!((ran, ended.count()), (1, 1));
    assert_clean(&sim);
}

#[test]
fn destructors_never_run_where_that_is_asked_for() {
    let (sim, g, ended) = holding(Destructors::Never);
    call!(sim, cuGraphDestroy(g)).unwrap();
    sim.run_all();
    assert_eq!((ended.count(), sim.run_destructors()), (0, 0));
    assert_eq!(sim.live(ObjectKind::UserObject), 0);
}

#[test]
fn many_nodes_are_added_and_taken_out_one_by_one() {
    let (sim, _) = seeded(1);
    let g = graph(&sim);
    let made: Vec<_> = (0..20_000).map(|_| empty(&sim, g, &[]).unwrap()).collect();
    for node in made {
        call!(sim, cuGraphDestroyNode(node)).unwrap();
    }
    assert_eq!(crate::graph_kit::nodes(&sim, g), []);
    assert_clean(&sim);
}
