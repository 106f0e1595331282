//! A sketch as a drawing: an SVG document.
//!
//! What is inside of a node is drawn first, so that it is known how large the node is; a graph is then laid out from the sizes
//! of its nodes.

use super::{
    layers::{Boxes, Laid, Piece, lay_out},
    places::as_float,
    shapes::{Look, Outline},
    sketch::{Sketch, SketchEdge, SketchNode, shorten},
};
use crate::graph::{EdgeKind, NodeKind};
use std::fmt::Write as _;

/// How wide a letter is, about, and how high a line, by the size of its text.
const TITLE: [f64; 2] = [6.9, 16.0];
const DETAIL: [f64; 2] = [5.7, 13.0];

/// Around a text, and around what is inside of a node.
const PADDING: [f64; 2] = [15.0, 7.0];
const MARGIN: f64 = 14.0;

const FONT: &str = "ui-sans-serif, system-ui, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";
const EDGE: &str = "#64748b";

/// Something drawn: its size, and its elements, whose origin is its upper left corner.
#[derive(Clone, Debug)]
struct Drawing {
    size: [f64; 2],
    text: String,
}

/// The whole document.
pub(super) fn write(sketch: &Sketch) -> String {
    let drawing = draw(sketch);
    let legend = legend(&sketch.kinds(), drawing.size[0].max(420.0));
    let around = 24.0;
    let width = drawing.size[0].max(legend.size[0]) + 2.0 * around;
    let height = drawing.size[1] + legend.size[1] + 3.0 * around;
    let (left, below) = ((width - drawing.size[0]) / 2.0, drawing.size[1] + 2.0 * around);
    let nodes = sketch.count();
    let edges = count_edges(sketch);
    let mut text = String::new();
    // Writing to a String can't fail.
    let _written = write!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"{FONT}\" role=\"img\">\n\
         <title>CUDA graph of {nodes} nodes and {edges} edges</title>\n\
         <defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto\"><path d=\"M0 0.6L8 4L0 7.4Z\" fill=\"{EDGE}\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <g transform=\"translate({left:.1} {around:.1})\">\n{}</g>\n\
         <g transform=\"translate({around:.1} {below:.1})\">\n{}</g>\n</svg>\n",
        drawing.text, legend.text
    );
    text
}

fn count_edges(sketch: &Sketch) -> usize {
    let inside = |node: &SketchNode| -> usize {
        node.inside.iter().map(|(_, sketch)| count_edges(sketch)).sum()
    };
    sketch.edges.len() + sketch.nodes.iter().map(inside).sum::<usize>()
}

/// Draws a graph.
fn draw(sketch: &Sketch) -> Drawing {
    let nodes: Vec<Drawing> = sketch.nodes.iter().map(draw_node).collect();
    let boxes = Boxes {
        sizes: nodes.iter().map(|node| node.size).collect(),
        edges: sketch.edges.iter().map(|edge| (edge.from, edge.to, style(edge))).collect(),
    };
    let Laid { corners, pieces, size } = lay_out(&boxes);
    let mut text = String::from("<g fill=\"none\" stroke-width=\"1.3\">\n");
    for piece in &pieces {
        draw_piece(piece, &mut text);
    }
    text.push_str("</g>\n");
    for (node, [x, y]) in nodes.iter().zip(corners) {
        let _written =
            writeln!(text, "<g transform=\"translate({x:.1} {y:.1})\">{}</g>", node.text);
    }
    Drawing { size, text }
}

const fn style(edge: &SketchEdge) -> u8 {
    match edge.kind {
        EdgeKind::Full => 0,
        _ => 1,
    }
}

fn draw_piece(piece: &Piece, text: &mut String) {
    let Piece { from: [x, y], straight_to, to: [to_x, to_y], is_end, style } = piece;
    let bend = straight_to + (to_y - straight_to) / 2.0;
    let dashes = if *style == 0 { "" } else { " stroke-dasharray=\"5 3\"" };
    let arrow = if *is_end { " marker-end=\"url(#arrow)\"" } else { "" };
    let _written = writeln!(
        text,
        "<path d=\"M{x:.1} {y:.1}V{straight_to:.1}C{x:.1} {bend:.1} {to_x:.1} {bend:.1} {to_x:.1} {to_y:.1}\" \
         stroke=\"{EDGE}\"{dashes}{arrow}/>"
    );
}

fn draw_node(node: &SketchNode) -> Drawing {
    let look = Look::of(node.kind);
    if node.kind == NodeKind::Empty && node.details.is_empty() {
        return draw_dot(node, look);
    }
    let title = shorten(&node.title);
    let details: Vec<String> = node.details.iter().map(|line| shorten(line)).collect();
    let widths = details.iter().map(|line| wide(line, DETAIL[0])).chain([wide(&title, TITLE[0])]);
    let words = widths.fold(0.0, f64::max) + 2.0 * PADDING[0];
    let head = TITLE[1] + DETAIL[1] * as_float(details.len()) + 2.0 * PADDING[1];
    let bodies: Vec<Drawing> =
        node.inside.iter().map(|(caption, sketch)| draw_body(caption, sketch, look)).collect();
    let bodies_width = bodies.iter().map(|body| body.size[0] + MARGIN).sum::<f64>() + MARGIN;
    let bodies_height = bodies.iter().map(|body| body.size[1] + MARGIN).fold(0.0, f64::max);
    let is_frame = !bodies.is_empty();
    let width = if is_frame { words.max(bodies_width) } else { words };
    let size = [width, head + bodies_height];
    let mut text = format!("<title>{}</title>{}", escaped(&all_of(node)), look.element(size));
    let middle = width / 2.0;
    let mut line = PADDING[1] + TITLE[1] - 4.5;
    let _written = write!(
        text,
        "<text x=\"{middle:.1}\" y=\"{line:.1}\" text-anchor=\"middle\" font-size=\"12.5\" font-weight=\"600\" \
         fill=\"#0f172a\">{}</text>",
        escaped(&title)
    );
    for detail in &details {
        line += DETAIL[1];
        let _written = write!(
            text,
            "<text x=\"{middle:.1}\" y=\"{line:.1}\" text-anchor=\"middle\" font-size=\"10.5\" fill=\"#475569\">{}</text>",
            escaped(detail)
        );
    }
    let mut x = (width - bodies_width) / 2.0 + MARGIN;
    for body in &bodies {
        let _written =
            write!(text, "\n<g transform=\"translate({x:.1} {head:.1})\">{}</g>", body.text);
        x += body.size[0] + MARGIN;
    }
    Drawing { size, text }
}

fn draw_dot(node: &SketchNode, look: Look) -> Drawing {
    let size = [16.0; 2];
    let name = escaped(&all_of(node));
    Drawing { size, text: format!("<title>{name}</title>{}", look.element(size)) }
}

/// Draws a graph inside of a node, in a frame with its caption.
fn draw_body(caption: &str, sketch: &Sketch, look: Look) -> Drawing {
    let inside = draw(sketch);
    let head = if caption.is_empty() { 0.0 } else { DETAIL[1] + 4.0 };
    let least = wide(caption, DETAIL[0]) + 2.0 * PADDING[0];
    let [width, height] = if sketch.nodes.is_empty() { [60.0, 14.0] } else { inside.size };
    let size = [width.max(least) + 2.0 * MARGIN, height + head + 2.0 * MARGIN];
    let mut text = format!(
        "<rect width=\"{:.1}\" height=\"{:.1}\" rx=\"7\" fill=\"#ffffff\" stroke=\"{}\" stroke-dasharray=\"4 3\"/>",
        size[0], size[1], look.line
    );
    if !caption.is_empty() {
        let _written = write!(
            text,
            "<text x=\"9\" y=\"{:.1}\" font-size=\"10.5\" font-weight=\"600\" fill=\"{}\">{}</text>",
            DETAIL[1] + 2.0,
            look.line,
            escaped(caption)
        );
    }
    let (x, y) = ((size[0] - width) / 2.0, head + MARGIN);
    if sketch.nodes.is_empty() {
        let _written = write!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"10.5\" fill=\"#94a3b8\">empty</text>",
            size[0] / 2.0,
            y + 11.0
        );
    } else {
        let _written =
            write!(text, "\n<g transform=\"translate({x:.1} {y:.1})\">\n{}</g>", inside.text);
    }
    Drawing { size, text }
}

/// All that is said of a node, in one text.
fn all_of(node: &SketchNode) -> String {
    let mut all = format!("{}: {} ({})", node.name, node.title, node.kind);
    for detail in &node.details {
        let _written = write!(all, ", {detail}");
    }
    all
}

/// What the shapes and colours mean, no wider than this.
fn legend(kinds: &[NodeKind], most: f64) -> Drawing {
    let mut text = String::new();
    let ([mut x, mut y], mut widest) = ([0.0_f64; 2], 0.0_f64);
    for kind in kinds {
        let name = kind.to_string();
        let width = 34.0 + wide(&name, DETAIL[0]) + 18.0;
        if x > 0.0 && x + width > most {
            (x, y) = (0.0, y + 22.0);
        }
        let look = Look::of(*kind);
        let size = if look.outline == Outline::Dot { [14.0; 2] } else { [26.0, 14.0] };
        let _written = writeln!(
            text,
            "<g transform=\"translate({x:.1} {y:.1})\">{}<text x=\"32\" y=\"11\" font-size=\"10.5\" fill=\"#475569\">{}</text></g>",
            look.element(size),
            escaped(&name)
        );
        x += width;
        widest = widest.max(x);
    }
    let height = if kinds.is_empty() { 0.0 } else { y + 14.0 };
    Drawing { size: [widest, height], text }
}

fn wide(text: &str, letter: f64) -> f64 {
    as_float(text.chars().count()) * letter
}

/// Text as XML has it. What XML can't have is replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn text_is_text_whatever_is_in_it() {
        assert_eq!(escaped("a<b>&\"c'\u{0}\n"), "a&lt;b&gt;&amp;&quot;c&#39;\u{fffd} ");
    }
}
