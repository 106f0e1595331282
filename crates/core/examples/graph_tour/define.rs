//! The solver as a graph by definition: each node is added, each edge is said.

use crate::{
    kernel::Kernels,
    problem::{FIRSTS, HALF, LEN, MOST, Plate, TOLERANCE, WIDTH, all, beginning, half, once},
};
use cuhold::{Body, Buffer, Context, Graph, Node, Result, Stream};

/// The graph, and what it works on.
///
/// ```text
///   temperatures ─┐
///   the same ─────┼─► while they change ┬─ halves ─► greatest change ─► halves ─► was it the last?
///   steps := 0 ───┘                     └─ change := 0 ──▲
/// ```
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
    let body = graph.body(repeat, 0)?;

    let reset = graph.fill(body, &mut plate.worst, 0.0)?;
    let there = halves(&mut graph, kernels, Place::First(body), (&plate.now, &plate.next))?;
    let args = (&plate.now, &plate.next, &plate.worst, LEN);
    // SAFETY: *layout*: as `differ` takes them; *bounds*: the buffers have LEN points, and one.
    let differ =
        unsafe { graph.kernel(&[reset, there[0], there[1]], &kernels.differ, all(), args) }?;
    let back = halves(&mut graph, kernels, Place::Behind(differ), (&plate.next, &plate.now))?;
    let args = (goes_on, &plate.worst, &plate.steps, TOLERANCE, MOST);
    // SAFETY: *layout*: as `decide` takes them; *bounds*: its one thread reads and writes one element of each.
    let decide = unsafe { graph.kernel(&back, &kernels.decide, once(), args) }?;
    for (node, label) in [
        (now, "temperatures"),
        (next, "the same, for the edges"),
        (steps, "no steps yet"),
        (repeat, "while it changes"),
        (reset, "no change yet"),
        (there[0], "upper half"),
        (there[1], "lower half"),
        (differ, "greatest change"),
        (back[0], "upper half, back"),
        (back[1], "lower half, back"),
        (decide, "was it the last?"),
    ] {
        graph.set_label(node, label)?;
    }
    Ok((graph, plate))
}

/// Where a step begins.
#[derive(Clone, Copy)]
enum Place {
    First(Body),
    Behind(Node),
}

/// A step: a node for each half.
fn halves(
    graph: &mut Graph,
    kernels: &Kernels,
    place: Place,
    (from, to): (&Buffer<f32>, &Buffer<f32>),
) -> Result<[Node; 2]> {
    let mut half_from = |first: u32| {
        let args = (from, to, WIDTH, first, HALF);
        let smooth = &kernels.smooth;
        match place {
            // SAFETY: *layout*: as `smooth` takes them; *bounds*: the rows and those beside them are within the buffers.
            Place::First(body) => unsafe { graph.kernel(body, smooth, half(), args) },
            // SAFETY: as above.
            Place::Behind(node) => unsafe { graph.kernel(node, smooth, half(), args) },
        }
    };
    let [upper, lower] = FIRSTS;
    Ok([half_from(upper)?, half_from(lower)?])
}
