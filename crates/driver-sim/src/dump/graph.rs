//! Graphs, their nodes by kind, executables and user objects.

use std::collections::BTreeMap;

use super::{Count, Page, made};
use crate::{
    graph::{Graph, NodeKind},
    world::State,
};

impl State {
    pub(super) fn dump_graphs(&self, page: &mut Page) {
        page.each(self.graphs.iter(), |page, (key, graph)| {
            let inside = match graph.owner_node() {
                Some(node) => format!(" inside node {:#x}", node.raw()),
                None => String::new(),
            };
            let filled = match graph.capture {
                Some(capture) => format!(", filled by capture {}", capture.0),
                None => String::new(),
            };
            let (raw, nodes, made) =
                (key.raw(), self.nodes_by_kind(graph), made(&self.graphs, key));
            page.line(format_args!("graph {raw:#x}{inside}: {nodes}{filled}{made}"));
        });
        page.each(self.execs.iter(), |page, (key, exec)| {
            let launch = match exec.last_launch() {
                None => "not launched",
                Some(end) if self.queues.is_reached(end) => "not in flight",
                Some(_) => "in flight",
            };
            let (raw, source) = (key.raw(), exec.source_graph().raw());
            page.line(format_args!(
                "executable graph {raw:#x} of graph {source:#x}: {launch}{}",
                made(&self.execs, key)
            ));
        });
        page.each(self.user_objects.iter(), |page, (key, object)| {
            let (all, own) = object.references();
            page.line(format_args!(
                "user object {:#x}: {}, {own} of them the program's{}",
                key.raw(),
                Count(all, "reference"),
                made(&self.user_objects, key)
            ));
        });
    }

    /// "3 nodes (2 Kernel, 1 Memcpy)".
    fn nodes_by_kind(&self, graph: &Graph) -> String {
        let mut kinds: BTreeMap<NodeKind, usize> = BTreeMap::new();
        for node in graph.nodes.values().filter_map(|key| self.nodes.get(*key)) {
            *kinds.entry(node.task.kind).or_default() += 1;
        }
        let nodes = Count(graph.nodes.len() as u64, "node");
        let list: Vec<_> = kinds.iter().map(|(kind, count)| format!("{count} {kind:?}")).collect();
        if list.is_empty() {
            "no nodes".to_owned()
        } else {
            format!("{nodes} ({})", list.join(", "))
        }
    }
}
