//! Conditional bodies that were captured apart, until they are put into a graph.
//!
//! The driver frees a body under its node when a capture straight into it is invalidated, and then ends the process where the
//! node's graph is used (measured). So a body is captured into graphs of its own, which become child nodes of the body once
//! all of it went well. A graph with a conditional node can't be a child (measured): there the body is captured in segments,
//! with the conditional node between two of them.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use crate::graph::{CapturedConditional, ConditionalKind, Graph};
use cuhold_handles::driver_sys::{Calls, Failure, ffi::*};
use std::{ptr, slice};

/// What a body does, one behind the other.
pub(super) type Plan = Vec<Step>;

/// A part of a body.
#[derive(Debug)]
pub(super) enum Step {
    /// What was captured up to a conditional, or the end.
    Segment(Graph),
    Conditional {
        handle: CUgraphConditionalHandle,
        kind: ConditionalKind,
        bodies: Vec<Plan>,
    },
}

/// The conditions that a body uses.
pub(super) fn conditions_of(plan: &[Step], each: &mut dyn FnMut(CUgraphConditionalHandle)) {
    for step in plan {
        if let Step::Conditional { handle, bodies, .. } = step {
            each(*handle);
            bodies.iter().for_each(|plan| conditions_of(plan, each));
        }
    }
}

/// Adds a conditional node, and gives its bodies.
pub(super) fn add_conditional(
    calls: Calls<'_>,
    (graph, context): (CUgraph, CUcontext),
    after: &[CUgraphNode],
    (handle, kind, count): (CUgraphConditionalHandle, ConditionalKind, u32),
    node: &mut CUgraphNode,
) -> Result<Vec<CUgraph>, Failure> {
    let mut params = CUgraphNodeParams {
        type_: CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL,
        ..CUgraphNodeParams::default()
    };
    params.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
        handle,
        type_: kind.raw(),
        size: count,
        ctx: context,
        ..CUDA_CONDITIONAL_NODE_PARAMS::default()
    };
    let (list, len, params_ptr) = (after.as_ptr(), after.len(), &raw mut params);
    // SAFETY: *pointers*: live locals, live nodes of the number, no data: usual edges; *handles*: a live graph, its context, a
    // condition of it.
    let made = unsafe { calls.cuGraphAddNode_v2(node, graph, list, ptr::null(), len, params_ptr) };
    match made {
        Err(Failure { status: CUresult::MISSING, .. }) => {
            // SAFETY: as above.
            unsafe { calls.cuGraphAddNode(node, graph, list, len, params_ptr) }?;
        }
        answer => answer?,
    }
    // SAFETY: the node was made from this view of the union, in which the driver told its bodies.
    let told = unsafe { params.__bindgen_anon_1.conditional };
    if told.phGraph_out.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the node's own array, which has as many graphs as were asked for.
    Ok(unsafe { slice::from_raw_parts(told.phGraph_out, count as usize) }.to_vec())
}

/// Puts a body's parts into the body. The conditional nodes in it are told, outer ones first.
pub(super) fn fill(
    calls: Calls<'_>,
    (body, context): (CUgraph, CUcontext),
    plan: &mut Plan,
    told: &mut Vec<CapturedConditional>,
) -> Result<(), Failure> {
    let mut last: Option<CUgraphNode> = None;
    for step in plan {
        let mut node = CUgraphNode::NULL;
        match step {
            Step::Segment(graph) => {
                graph.about_to_be_copied();
                let (after, child) = (last.as_slice(), graph.as_raw());
                // SAFETY: *pointers*: a live local, live nodes of the number; *handles*: a live body, and a graph of its own.
                unsafe {
                    calls.cuGraphAddChildGraphNode(
                        &raw mut node,
                        body,
                        after.as_ptr(),
                        after.len(),
                        child,
                    )
                }?;
            }
            Step::Conditional { handle, kind, bodies } => {
                let count = u32::try_from(bodies.len()).unwrap_or(u32::MAX);
                let of = (*handle, *kind, count);
                let inside = (body, context);
                let raw = add_conditional(calls, inside, last.as_slice(), of, &mut node)?;
                let (handle, kind) = (*handle, *kind);
                told.push(CapturedConditional { node, handle, kind, bodies: raw.clone() });
                for (raw, plan) in raw.into_iter().zip(bodies) {
                    fill(calls, (raw, context), plan, told)?;
                }
            }
        }
        last = Some(node);
    }
    Ok(())
}
