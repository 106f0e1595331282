//! A sketch in Graphviz's language.

use super::{shapes::Look, sketch::Sketch};
use crate::graph::EdgeKind;
use std::fmt::Write as _;

/// The whole text.
pub(super) fn write(sketch: &Sketch) -> String {
    let mut text = String::from(
        "digraph graph_of_work {\n  compound=true;\n  node [fontname=\"sans-serif\", fontsize=11, style=filled];\n  \
         edge [color=\"#475569\"];\n",
    );
    let mut next = 0;
    write_graph(sketch, 1, &mut next, &mut text);
    text.push_str("}\n");
    text
}

/// Writes a graph's nodes, numbered from `next` on, and its edges.
fn write_graph(sketch: &Sketch, depth: usize, next: &mut usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    let mut numbers = Vec::with_capacity(sketch.nodes.len());
    for node in &sketch.nodes {
        let number = *next;
        *next += 1;
        numbers.push(number);
        let look = Look::of(node.kind);
        let mut lines = vec![node.title.as_str()];
        lines.extend(node.details.iter().map(String::as_str));
        let label = lines.iter().map(|line| escaped(line)).collect::<Vec<_>>().join("\\n");
        let node_line = format!(
            "n{number} [label=\"{label}\", tooltip=\"{}\", shape={}, fillcolor=\"{}\", color=\"{}\"];\n",
            escaped(&node.name),
            look.dot_shape(),
            look.fill,
            look.line,
        );
        if node.inside.is_empty() {
            text.push_str(&indent);
            text.push_str(&node_line);
            continue;
        }
        // Writing to a String can't fail.
        let _written = write!(
            text,
            "{indent}subgraph cluster_{number} {{\n{indent}  label=\"\"; style=rounded; color=\"{}\";\n{indent}  {node_line}",
            look.line
        );
        for (nth, (caption, inside)) in node.inside.iter().enumerate() {
            let _written = write!(
                text,
                "{indent}  subgraph cluster_{number}_{nth} {{\n{indent}    label=\"{}\"; style=dashed; color=\"{}\";\n",
                escaped(caption),
                look.line
            );
            let first = *next;
            write_graph(inside, depth + 2, next, text);
            if inside.nodes.is_empty() {
                let _written = writeln!(
                    text,
                    "{indent}    n{number}_{nth} [label=\"\", shape=point, style=invis];"
                );
            }
            let _written = writeln!(text, "{indent}  }}");
            if !inside.nodes.is_empty() {
                let _written = writeln!(
                    text,
                    "{indent}  n{number} -> n{first} [style=dotted, lhead=cluster_{number}_{nth}];"
                );
            }
        }
        let _written = writeln!(text, "{indent}}}");
    }
    for edge in &sketch.edges {
        if let (Some(from), Some(to)) = (numbers.get(edge.from), numbers.get(edge.to)) {
            let style = match edge.kind {
                EdgeKind::Full => "",
                _ => " [style=dashed]",
            };
            let _written = writeln!(text, "{indent}n{from} -> n{to}{style};");
        }
    }
}

/// Text between quotation marks. What would be a command of Graphviz, or ends the line, is no part of it.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn text_stays_between_its_quotation_marks() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c d");
    }
}
