//! What a picture shows, without driver and without a place.

use crate::graph::{EdgeKind, NodeKind};

/// A graph.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Sketch {
    pub(super) nodes: Vec<SketchNode>,
    pub(super) edges: Vec<SketchEdge>,
}

/// A node.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SketchNode {
    pub(super) kind: NodeKind,
    /// As its key is written.
    pub(super) name: String,
    pub(super) title: String,
    pub(super) details: Vec<String>,
    /// The graphs inside of it, with what stands above each.
    pub(super) inside: Vec<(String, Sketch)>,
}

/// An edge, between places of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SketchEdge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: EdgeKind,
}

impl Sketch {
    /// How many nodes there are, those inside of nodes included.
    pub(super) fn count(&self) -> usize {
        let inside = self.nodes.iter().flat_map(|node| &node.inside);
        self.nodes.len() + inside.map(|(_, sketch)| sketch.count()).sum::<usize>()
    }

    /// The kinds of nodes that there are, each once, in an order of their own.
    pub(super) fn kinds(&self) -> Vec<NodeKind> {
        let mut kinds: Vec<NodeKind> = Vec::new();
        for node in &self.nodes {
            kinds.push(node.kind);
            node.inside.iter().for_each(|(_, sketch)| kinds.extend(sketch.kinds()));
        }
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

/// The most letters of a line.
pub(super) const LINE: usize = 30;

/// A line of text that fits into a box: what is too long loses its middle.
pub(super) fn shorten(text: &str) -> String {
    let count = text.chars().count();
    if count <= LINE {
        return text.to_owned();
    }
    let head: String = text.chars().take(LINE / 2).collect();
    let tail: String = text.chars().skip(count - (LINE - LINE / 2 - 1)).collect();
    format!("{head}…{tail}")
}

/// A number of bytes, in the greatest unit of which it is a whole number, or one with a digit behind the point.
pub(super) fn part(bytes: usize) -> String {
    let units = [(1_usize << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit);
    match unit {
        None => format!("{bytes} B"),
        Some((unit, name)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => {
            // Whole tenths, rounded down.
            let tenths = bytes / (unit / 10).max(1);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_loses_its_middle() {
        assert_eq!(shorten("short"), "short");
        let long = shorten("_ZN3foo3barILi128ELb1EEEvPKfPfiiiiiiiii");
        assert_eq!(long.chars().count(), LINE);
        assert!(long.starts_with("_ZN3foo3barILi1") && long.contains('…'), "{long}");
    }

    #[test]
    fn bytes_are_told_in_the_unit_that_fits() {
        assert_eq!(part(0), "0 B");
        assert_eq!(part(1023), "1023 B");
        assert_eq!(part(4096), "4 KiB");
        assert_eq!(part(1 << 30), "1 GiB");
        assert!(part(1_500_000).starts_with("1.4"));
    }
}
