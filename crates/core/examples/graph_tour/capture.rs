//! The same solver by capture: what is queued on streams becomes the loop's body, with a fork and a join for each step.

use crate::{
    kernel::Kernels,
    problem::{FIRSTS, HALF, LEN, MOST, Plate, TOLERANCE, WIDTH, all, beginning, half, once},
};
use cuhold::{
    Buffer, CaptureMode, Condition, Context, Graph, GraphBuilder, Result, Stream, capture,
};

/// The graph, and what it works on.
///
/// What repeats is captured into a graph of its own, and added to the loop once that ended well.
pub(crate) fn solver(
    context: &Context,
    kernels: &Kernels,
    stream: &Stream,
) -> Result<(Graph, Plate)> {
    let mut plate = Plate::new(stream)?;
    let mut graph = Graph::new(context)?;
    let now = graph.copy_from_host(&[], &mut plate.now, beginning())?;
    let next = graph.copy_from_host(&[], &mut plate.next, beginning())?;
    let steps = graph.fill(&[], &mut plate.steps, 0)?;
    let goes_on = graph.condition(Some(1))?;
    let repeat = graph.while_loop(&[now, next, steps], goes_on)?;
    let (mut body, ()) = capture(stream, CaptureMode::ThreadLocal, |builder| {
        two_steps(builder, kernels, &mut plate, goes_on)
    })?;
    let inside = graph.body(repeat, 0)?;
    let steps_of_it = graph.child(inside, &mut body)?;
    for (node, label) in [
        (now, "temperatures"),
        (next, "the same, for the edges"),
        (steps, "no steps yet"),
        (repeat, "while it changes"),
        (steps_of_it, "two steps, captured"),
    ] {
        graph.set_label(node, label)?;
    }
    Ok((graph, plate))
}

fn two_steps(
    builder: &mut GraphBuilder,
    kernels: &Kernels,
    plate: &mut Plate,
    goes_on: Condition,
) -> Result<()> {
    builder.fill(&mut plate.worst, 0.0)?;
    step(builder, kernels, (&plate.now, &plate.next))?;
    let args = (&plate.now, &plate.next, &plate.worst, LEN);
    // SAFETY: *layout*: as `differ` takes them; *bounds*: the buffers have LEN points, and one.
    unsafe { builder.launch(&kernels.differ, all(), args) }?;
    step(builder, kernels, (&plate.next, &plate.now))?;
    let args = (goes_on, &plate.worst, &plate.steps, TOLERANCE, MOST);
    // SAFETY: *layout*: as `decide` takes them; *bounds*: its one thread reads and writes one element of each.
    unsafe { builder.launch(&kernels.decide, once(), args) }
}

/// A step: the lower half on a fork, which comes back.
fn step(
    builder: &mut GraphBuilder,
    kernels: &Kernels,
    (from, to): (&Buffer<f32>, &Buffer<f32>),
) -> Result<()> {
    let mut fork = builder.fork()?;
    let [upper, lower] = FIRSTS;
    // SAFETY: *layout*: as `smooth` takes them; *bounds*: the rows and those beside them are within the buffers.
    unsafe { builder.launch(&kernels.smooth, half(), (from, to, WIDTH, upper, HALF)) }?;
    // SAFETY: as above.
    unsafe { fork.launch(&kernels.smooth, half(), (from, to, WIDTH, lower, HALF)) }?;
    builder.join([fork])
}
