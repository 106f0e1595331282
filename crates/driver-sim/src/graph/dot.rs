//! A graph as a picture in the DOT language, written to a file.
//!
//! What the text looks like isn't documented; here it names each node by its number and kind, and graphs inside of
//! nodes are clusters.

use std::{ffi::OsStr, fmt::Write as _, fs, path::Path};

use cuhold_driver_sys::ffi::*;

use super::Graph;
use crate::world::{Answer, In, Key, State, Turn};

/// All flags that there are.
const FLAGS: c_uint = (1 << 16) - 1;

pub(crate) fn print(
    turn: &mut Turn<'_>,
    graph: CUgraph,
    path: In<c_char>,
    flags: c_uint,
) -> Answer {
    let key = turn.graph(graph)?;
    let path = path.text().ok_or(CUresult::INVALID_VALUE)?;
    if flags & !FLAGS != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    turn.not_poisoned(key)?;
    let mut text = String::from("digraph dot {\n");
    let handles = flags & CUgraphDebugDot_flags::CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES.0 != 0;
    write_graph(&turn.state, key, handles, &mut text);
    text.push_str("}\n");
    write_to(&path, &text)
}

fn write_graph(state: &State, graph: Key<Graph>, handles: bool, text: &mut String) {
    let number = graph.id();
    // Writing to a string doesn't fail.
    let _written = writeln!(text, "subgraph cluster_{number} {{\nlabel=\"graph_{number}\"");
    for (key, node) in state.nodes_in(graph) {
        let id = format!("graph_{number}_node_{}", node.local_id);
        let kind = format!("{:?}", node.task.kind);
        let handle = if handles { format!("\\n{:#x}", key.raw()) } else { String::new() };
        let _written = writeln!(text, "\"{id}\"[label=\"{}\\n{kind}{handle}\"]", node.local_id);
        for edge in &node.before {
            let Some(from) = state.nodes.get(edge.node) else { continue };
            let from = from.local_id;
            let _written = writeln!(text, "\"graph_{number}_node_{from}\" -> \"{id}\"");
        }
        for inner in node.task.graphs() {
            write_graph(state, inner, handles, text);
        }
    }
    text.push_str("}\n");
}

#[cfg(unix)]
fn write_to(path: &[u8], text: &str) -> Answer {
    use std::os::unix::ffi::OsStrExt as _;
    write_file(Path::new(OsStr::from_bytes(path)), text)
}

#[cfg(not(unix))]
fn write_to(path: &[u8], text: &str) -> Answer {
    let path = String::from_utf8_lossy(path);
    write_file(Path::new(OsStr::new(path.as_ref())), text)
}

fn write_file(path: &Path, text: &str) -> Answer {
    fs::write(path, text).map_err(|_unwritable| CUresult::OPERATING_SYSTEM)
}
