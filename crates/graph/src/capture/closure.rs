//! The closure form of a capture.

use super::{CaptureMode, GraphBuilder};
use crate::graph::Graph;
use cuhold_handles::{Result, Stream};

/// Captures what the closure asks of the builder, and gives the graph with what the closure gave.
///
/// Whatever the closure does, the capture is over when this returns: an `Err` of it is given back once the capture has been
/// ended and its graph destroyed; a panic passes through behind that.
///
/// Calls `cuStreamBeginCapture`, `cuStreamGetCaptureInfo`, `cuStreamEndCapture`, `cuGraphGetNodes`, `cuGraphGetEdges`; for a stream that others
/// may use before that `cuStreamIsCapturing`, and where the end failed; where there is no graph to give `cuGraphDestroy`.
/// Besides what the closure asks of the builder, and what comes of that at the [end](GraphBuilder::end).
///
/// # Errors
/// The closure's, with a note where the end failed as well; as [`GraphBuilder::begin`] and [`GraphBuilder::end`].
///
/// # Examples
/// ```
/// # use cuhold_graph::{CaptureMode, capture, handles::{Device, Driver}};
/// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
/// let stream = device.new_stream()?;
/// let (graph, answer) = capture(&stream, CaptureMode::Relaxed, |builder| {
///     builder.host(|| println!("launched"))?;
///     Ok(42)
/// })?;
/// assert_eq!((graph.len(), answer), (1, 42));
/// # Ok::<(), cuhold_graph::handles::Error>(())
/// ```
#[doc(alias = "cuStreamBeginCapture")]
pub fn capture<T>(
    stream: &Stream,
    mode: CaptureMode,
    body: impl FnOnce(&mut GraphBuilder) -> Result<T>,
) -> Result<(Graph, T)> {
    let mut builder = GraphBuilder::begin(stream, mode)?;
    match body(&mut builder) {
        Ok(value) => Ok((builder.end()?, value)),
        Err(error) => Err(builder.abandon(error)),
    }
}
