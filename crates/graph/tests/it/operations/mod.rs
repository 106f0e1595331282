//! Every public operation of the crate, enrolled for the fault enumeration, in a module for each noun.

mod builder;
mod changes;
mod exec;
mod exec_nodes;
mod graph;
mod nodes;

use cuhold_driver_sim::ObjectKind;
use cuhold_graph::{
    Graph,
    handles::driver_sys::ffi::{CUgraph, CUgraphExec, CUuserObject},
};
use cuhold_testkit::{Enrolled, Run};

const ENROLLED: &[&[Enrolled]] = &[
    builder::OPERATIONS,
    exec::OPERATIONS,
    exec_nodes::OPERATIONS,
    graph::OPERATIONS,
    nodes::OPERATIONS,
    changes::OPERATIONS,
];

#[test]
fn every_public_operation_is_enrolled_or_exempt_exact_counts() {
    cuhold_testkit::compare(env!("CARGO_MANIFEST_DIR"), ENROLLED, &[]);
}

fn graph(run: &Run<'_>) -> Graph {
    Graph::new(run.context()).unwrap()
}

/// Ends what a failed end left, with which the driver value would live on: executables and graphs with all that they hold,
/// then references to user objects that are nobody's any more.
#[expect(unsafe_code, reason = "clears away by raw calls")]
fn sweep(run: &Run<'_>) {
    let left = |kind| run.live().into_iter().filter(move |leak| leak.kind == kind);
    let calls = run.driver().calls();
    for leak in left(ObjectKind::GraphExec) {
        let raw = CUgraphExec::from_addr(usize::try_from(leak.raw).unwrap());
        // SAFETY: *handles*: live, and lost by its owner.
        run.finish(|| Ok(unsafe { calls.cuGraphExecDestroy(raw) }?));
    }
    for leak in left(ObjectKind::Graph) {
        let raw = CUgraph::from_addr(usize::try_from(leak.raw).unwrap());
        // SAFETY: *handles*: live, and lost by its owner.
        run.finish(|| Ok(unsafe { calls.cuGraphDestroy(raw) }?));
    }
    for leak in left(ObjectKind::UserObject) {
        let raw = CUuserObject::from_addr(usize::try_from(leak.raw).unwrap());
        // SAFETY: *handles*: live, and its reference is nobody's any more.
        run.finish(|| Ok(unsafe { calls.cuUserObjectRelease(raw, 1) }?));
    }
    while run.driver().reclaim().run_by_hand().step() {}
}
