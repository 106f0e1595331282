//! Nodes that fill memory.

#![expect(unsafe_code, reason = "calls the driver's graph functions")]

use super::{
    Graph, NodeKind,
    copy::{CopyTarget, Kept},
};
use crate::node::{After, Node};
use cuhold_handles::{Error, Result, driver_sys::ffi::*};
use cuhold_memory::bytemuck::{Pod, bytes_of};

/// A fill of rows, as CUDA describes it.
type Params = CUDA_MEMSET_NODE_PARAMS;

impl Graph {
    /// Adds a node that fills memory with a value: all of a buffer, a range, or rows of a box. The buffer is kept alive.
    ///
    /// The value's bytes are one, two or four that repeat: a `u64` of 0 can be filled in, one of 1 can't.
    ///
    /// Calls `cuGraphAddMemsetNode`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// A node of another graph, or one that was removed; memory of another driver; a value whose bytes don't repeat; memory of
    /// no bytes; a box with gaps between its slices, which takes a node a slice; the calls' failures, after which nothing was
    /// added.
    ///
    /// # Examples
    /// ```
    /// # use cuhold_graph::Graph;
    /// # use cuhold_handles::{Device, Driver};
    /// # use cuhold_memory::Buffer;
    /// # let device = Device::with_driver(&Driver::from_api(cuhold_driver_sim::Sim::new()), 0)?;
    /// let stream = device.new_stream()?;
    /// let mut buffer = Buffer::<f32>::zeroed(&stream, 100)?;
    /// let mut graph = Graph::new(device.context())?;
    /// let all = graph.fill(&[], &mut buffer, 1.0)?;
    /// graph.fill(all, buffer.view_mut(..10)?, 2.0)?;
    /// # Ok::<(), cuhold_handles::Error>(())
    /// ```
    #[doc(alias = "cuGraphAddMemsetNode")]
    pub fn fill<T: Pod>(
        &mut self,
        after: impl After,
        dst: impl CopyTarget<T>,
        value: T,
    ) -> Result<Node> {
        let (params, kept) = self.fill_params(&dst, value)?;
        self.add_with(NodeKind::Fill, after.place(), kept.len(), |calls, to| {
            let (context, mut raw) = (to.context, CUgraphNode::NULL);
            let (after, count) = (to.after.as_ptr(), to.after.len());
            let (out, params) = (&raw mut raw, &raw const params);
            // SAFETY: *pointers*: live locals, and live nodes of the number; the rows lie within a buffer that is kept;
            // *handles*: this value's graph and its context.
            let made = unsafe {
                calls.cuGraphAddMemsetNode(out, to.graph, after, count, params, context.as_raw())
            };
            (made.map(|()| raw).map_err(|failure| context.driver().error(failure)), kept)
        })
    }

    /// Lets a node fill other memory, or with another value. Executables that were made before go on with what they have.
    ///
    /// Calls `cuGraphMemsetNodeSetParams`; every 256th time that something is kept also `cuUserObjectCreate` and
    /// `cuGraphRetainUserObject`, and `cuUserObjectRelease` where that failed.
    ///
    /// # Errors
    /// As [`fill`](Self::fill); a node that fills nothing. After the calls' failures both buffers are kept.
    #[doc(alias = "cuGraphMemsetNodeSetParams")]
    pub fn set_fill<T: Pod>(
        &mut self,
        node: Node,
        dst: impl CopyTarget<T>,
        value: T,
    ) -> Result<()> {
        let (params, kept) = self.fill_params(&dst, value)?;
        self.change(node, NodeKind::Fill, (kept.len(), kept), |calls, raw| {
            // SAFETY: *pointers*: a live local; the rows lie within a buffer that is kept; *handles*: a live node.
            unsafe { calls.cuGraphMemsetNodeSetParams(raw, &raw const params) }
        })
    }

    /// What a fill is described by.
    pub(crate) fn fill_params<T: Pod>(
        &self,
        dst: &impl CopyTarget<T>,
        value: T,
    ) -> Result<(Params, Kept)> {
        let (place, kept) = self.device_end(dst, "dst")?;
        let (element, word) = pattern(bytes_of(&value)).ok_or_else(|| {
            Error::argument(format!(
                "value: the {} bytes of it aren't 1, 2 or 4 that repeat",
                size_of::<T>()
            ))
        })?;
        let [width, height, depth] = place.size;
        if depth > 1 && place.slice_rows != height {
            return Err(Error::argument(format!(
                "dst: {} rows from slice to slice, where one has {height}: each slice takes a node of its own",
                place.slice_rows
            )));
        }
        let rows = height.saturating_mul(depth);
        let params = Params {
            dst: place.ptr,
            pitch: if rows > 1 { place.pitch_bytes } else { 0 },
            value: word,
            elementSize: element,
            width: width / element as usize,
            height: rows,
        };
        Ok((params, kept))
    }
}

/// The bytes that repeat in a value: how many, and as a number.
fn pattern(bytes: &[u8]) -> Option<(u32, u32)> {
    [1_u32, 2, 4].into_iter().find_map(|element| {
        let width = element as usize;
        let repeats = bytes.len().is_multiple_of(width)
            && bytes.chunks_exact(width).all(|chunk| bytes.starts_with(chunk));
        let mut word = [0; 4];
        word.get_mut(..width)?.copy_from_slice(bytes.get(..width).filter(|_| repeats)?);
        Some((element, u32::from_le_bytes(word)))
    })
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn the_shortest_bytes_that_repeat_are_found() {
        assert_eq!(pattern(&[7]), Some((1, 7)));
        assert_eq!(pattern(&[7, 7, 7, 7]), Some((1, 7)));
        assert_eq!(pattern(&[1, 2]), Some((2, 0x201)));
        assert_eq!(pattern(&[1, 2, 1, 2]), Some((2, 0x201)));
        assert_eq!(pattern(&1_u32.to_le_bytes()), Some((4, 1)));
        assert_eq!(pattern(&0x1_0000_0001_u64.to_le_bytes()), Some((4, 1)));
        assert_eq!(pattern(&1_u64.to_le_bytes()), None);
        assert_eq!(pattern(&[1, 2, 3]), None);
        assert_eq!(pattern(&[]), None);
    }
}
