//! Graphs, executables, and the user objects that they keep.

#![expect(unsafe_code, reason = "launches graphs, and clears away by raw calls")]

use cuhold_driver_sim::ObjectKind;
use cuhold_handles::{Graph, GraphExec, UserObject, driver_sys::ffi::CUuserObject};
use cuhold_testkit::Run;

fn graph(run: &Run<'_>) -> Graph {
    Graph::new(run.context()).unwrap()
}

fn exec(run: &Run<'_>) -> GraphExec {
    graph(run).instantiate().unwrap()
}

fn object(run: &Run<'_>) -> UserObject {
    UserObject::new(run.driver(), 7).unwrap()
}

/// Gives back the references that a failed release left, with which the driver value would live on.
fn sweep(run: &Run<'_>) {
    let left = run.live();
    for leak in left.iter().filter(|leak| leak.kind == ObjectKind::UserObject) {
        let raw = CUuserObject::from_addr(usize::try_from(leak.raw).unwrap());
        // SAFETY: *handles*: live, and its reference is nobody's any more.
        run.finish(|| Ok(unsafe { run.driver().calls().cuUserObjectRelease(raw, 1) }?));
    }
    while run.driver().reclaim().run_by_hand().step() {}
}

cuhold_testkit::enrol! {
    Graph::new |run| {
        run.create(|| Graph::new(run.context()));
    }

    Graph::try_clone |run| {
        let graph = graph(run);
        run.create(|| graph.try_clone());
    }

    Graph::node_count |run| {
        let graph = graph(run);
        run.repeat(|| graph.node_count());
    }

    Graph::keep |run| {
        let (mut graph, object) = (graph(run), object(run));
        run.keep(run.op(|| graph.keep(&object)));
    }

    Graph::instantiate |run| {
        let graph = graph(run);
        run.create(|| graph.instantiate());
    }

    Graph::close |run| {
        let graph = graph(run);
        drop(run.keep_or(run.op(|| graph.close())));
    }

    Graph::drop |run| {
        let graph = graph(run);
        run.op(|| drop(graph));
    }

    GraphExec::launch |run| {
        let mut exec = exec(run);
        // SAFETY: the graph is empty.
        run.keep(run.op(|| unsafe { exec.launch(run.stream()) }));
    }

    GraphExec::upload |run| {
        let mut exec = exec(run);
        run.keep(run.op(|| exec.upload(run.stream())));
    }

    GraphExec::flags |run| {
        let exec = exec(run);
        run.repeat(|| exec.flags());
    }

    GraphExec::close |run| {
        let exec = exec(run);
        drop(run.keep_or(run.op(|| exec.close())));
    }

    GraphExec::drop |run| {
        let exec = exec(run);
        run.op(|| drop(exec));
    }

    UserObject::new |run| {
        run.create(|| UserObject::new(run.driver(), 7));
    }

    UserObject::close |run| {
        let object = object(run);
        drop(run.keep_or(run.op(|| object.close())));
        sweep(run);
    }

    UserObject::drop |run| {
        let object = object(run);
        run.op(|| drop(object));
        sweep(run);
    }
}
