//! How nodes of each kind look: colours, and outlines.

use crate::graph::NodeKind;
use std::fmt::Write as _;

/// The outline of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outline {
    Dot,
    Rounded,
    Square,
    Slanted,
    Pill,
    Eight,
    Barred,
    WideBelow,
    WideAbove,
    Notched,
    Frame,
}

/// How a node looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Look {
    pub(super) fill: &'static str,
    pub(super) line: &'static str,
    pub(super) outline: Outline,
}

impl Look {
    const fn new(fill: &'static str, line: &'static str, outline: Outline) -> Self {
        Self { fill, line, outline }
    }

    pub(super) const fn of(kind: NodeKind) -> Self {
        match kind {
            NodeKind::Empty => Self::new("#cbd5e1", "#64748b", Outline::Dot),
            NodeKind::Kernel => Self::new("#dbeafe", "#2563eb", Outline::Rounded),
            NodeKind::Copy => Self::new("#dcfce7", "#16a34a", Outline::Slanted),
            NodeKind::Fill => Self::new("#ccfbf1", "#0d9488", Outline::Square),
            NodeKind::Host => Self::new("#fef3c7", "#d97706", Outline::Barred),
            NodeKind::Record => Self::new("#f3e8ff", "#9333ea", Outline::Pill),
            NodeKind::Wait => Self::new("#fae8ff", "#c026d3", Outline::Pill),
            NodeKind::Child => Self::new("#f8fafc", "#64748b", Outline::Frame),
            NodeKind::Allocate => Self::new("#ffe4e6", "#e11d48", Outline::WideBelow),
            NodeKind::Free => Self::new("#ffe4e6", "#e11d48", Outline::WideAbove),
            NodeKind::Signal => Self::new("#e0e7ff", "#4f46e5", Outline::Eight),
            NodeKind::Await => Self::new("#ede9fe", "#7c3aed", Outline::Eight),
            NodeKind::Batch => Self::new("#e2e8f0", "#334155", Outline::Notched),
            NodeKind::Conditional => Self::new("#fff7ed", "#ea580c", Outline::Frame),
            NodeKind::Other(_) => Self::new("#ffffff", "#000000", Outline::Square),
        }
    }

    /// The nearest that Graphviz has.
    pub(super) const fn dot_shape(self) -> &'static str {
        match self.outline {
            Outline::Dot => "circle",
            Outline::Rounded => "box",
            Outline::Square | Outline::Frame => "rect",
            Outline::Slanted => "parallelogram",
            Outline::Pill => "oval",
            Outline::Eight => "octagon",
            Outline::Barred => "component",
            Outline::WideBelow => "trapezium",
            Outline::WideAbove => "invtrapezium",
            Outline::Notched => "note",
        }
    }

    /// The outline of this size, as an element of a drawing.
    pub(super) fn element(self, [width, height]: [f64; 2]) -> String {
        let colours = format!("fill=\"{}\" stroke=\"{}\"", self.fill, self.line);
        let rect = |radius: f64| {
            format!(
                "<rect width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius:.1}\" {colours}/>"
            )
        };
        let polygon = |points: &[[f64; 2]]| {
            let mut list = String::new();
            for [x, y] in points {
                // Writing to a String can't fail.
                let _written = write!(list, "{x:.1},{y:.1} ");
            }
            format!("<polygon points=\"{}\" {colours}/>", list.trim_end())
        };
        let cut = 9.0_f64.min(height / 2.0);
        match self.outline {
            Outline::Dot => {
                let radius = height / 2.0;
                format!(
                    "<circle cx=\"{:.1}\" cy=\"{radius:.1}\" r=\"{radius:.1}\" {colours}/>",
                    width / 2.0
                )
            }
            Outline::Rounded => rect(7.0),
            Outline::Frame => rect(10.0),
            Outline::Square => rect(0.0),
            Outline::Pill => rect(height / 2.0),
            Outline::Slanted => {
                polygon(&[[cut, 0.0], [width, 0.0], [width - cut, height], [0.0, height]])
            }
            Outline::WideBelow => {
                polygon(&[[cut, 0.0], [width - cut, 0.0], [width, height], [0.0, height]])
            }
            Outline::WideAbove => {
                polygon(&[[0.0, 0.0], [width, 0.0], [width - cut, height], [cut, height]])
            }
            Outline::Eight => polygon(&[
                [cut, 0.0],
                [width - cut, 0.0],
                [width, cut],
                [width, height - cut],
                [width - cut, height],
                [cut, height],
                [0.0, height - cut],
                [0.0, cut],
            ]),
            Outline::Notched => polygon(&[
                [0.0, 0.0],
                [width - cut, 0.0],
                [width, cut],
                [width, height],
                [0.0, height],
            ]),
            Outline::Barred => {
                let bar = |x: f64| {
                    format!("<path d=\"M{x:.1} 0V{height:.1}\" stroke=\"{}\"/>", self.line)
                };
                format!("{}{}{}", rect(0.0), bar(5.0), bar(width - 5.0))
            }
        }
    }
}
