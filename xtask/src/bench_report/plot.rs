//! Draws the plot: for each bench one bar per subject as long as its median, with a line from minimum to maximum, which
//! is cut where it would leave the scale: one outlier would else make every bar short.
//!
//! Each bench has a scale of its own: a launch and a pool's creation don't fit on one. The colours tell subjects apart
//! in light and in dark, and every bar has its number beside it.

use super::Bench;

const COLOURS: &[&str] = &["#8a8a8a", "#2f7ed8", "#d8792f", "#3a9d5d", "#9b59b6"];
const WIDTH: f64 = 800.0;
const LEFT: f64 = 120.0;
/// Room for the number to the right of the longest bar.
const RIGHT: f64 = 110.0;
const BAR: f64 = 18.0;
const GAP: f64 = 34.0;
/// How much longer than the longest median a scale is.
const ROOM: f64 = 1.25;
/// The end of a scale on which everything took no time.
const SHORTEST_NS: f64 = 0.001;

/// The picture as text.
pub(super) fn svg(benches: &[Bench]) -> String {
    let subjects = subjects(benches);
    let mut body = Vec::new();
    let mut y = 10.0;
    for bench in benches {
        body.push(text(10.0, y + 14.0, "start", "bold", &bench.name));
        y += 22.0;
        let longest =
            bench.measurements.iter().map(|m| m.median_ns).fold(SHORTEST_NS, f64::max) * ROOM;
        let scale = (WIDTH - LEFT - RIGHT) / longest;
        for m in &bench.measurements {
            let colour = colour(&subjects, &m.subject);
            let middle = y + BAR / 2.0 - 1.0;
            let (min, median, max) =
                (m.min_ns * scale, m.median_ns * scale, m.max_ns.min(longest) * scale);
            body.push(text(LEFT - 8.0, middle + 4.0, "end", "normal", &m.subject));
            body.push(format!(
                "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{median:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
                BAR - 2.0
            ));
            body.push(format!(
                "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"#555\"/>",
                LEFT + min,
                LEFT + max
            ));
            let number = format!("{:.1} ns", m.median_ns);
            body.push(text(LEFT + max + 6.0, middle + 4.0, "start", "normal", &number));
            y += BAR;
        }
        y += GAP - BAR;
    }
    picture(WIDTH, y, &body)
}

/// A picture of this size, with these pieces.
pub(super) fn picture(width: f64, height: f64, body: &[String]) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height:.0}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}\n</svg>\n",
        body.join("\n")
    )
}

/// The colour of one of several subjects.
pub(super) fn colour(subjects: &[&str], subject: &str) -> &'static str {
    let at = subjects.iter().position(|other| *other == subject).unwrap_or(0);
    COLOURS.iter().cycle().nth(at).unwrap_or(&"#8a8a8a")
}

/// Every subject once, in the order of their first appearance, so that each keeps its colour.
fn subjects(benches: &[Bench]) -> Vec<&str> {
    let mut subjects = Vec::new();
    for m in benches.iter().flat_map(|bench| &bench.measurements) {
        if !subjects.contains(&m.subject.as_str()) {
            subjects.push(m.subject.as_str());
        }
    }
    subjects
}

/// Text in the colour of what it names.
pub(super) fn coloured(x: f64, y: f64, colour: &str, text: &str) -> String {
    let text = escaped(text);
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{colour}\">{text}</text>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

pub(super) fn text(x: f64, y: f64, anchor: &str, weight: &str, text: &str) -> String {
    let text = escaped(text);
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\">{text}</text>"
    )
}

#[cfg(test)]
mod tests {
    use super::{super::Measurement, *};

    fn bench(name: &str, medians: &[(&str, f64)]) -> Bench {
        let measurements = medians.iter().map(|(subject, median_ns)| Measurement {
            bench: name.to_owned(),
            subject: (*subject).to_owned(),
            threads: None,
            min_ns: *median_ns,
            median_ns: *median_ns,
            max_ns: *median_ns,
            samples: 1,
        });
        Bench { name: name.to_owned(), measurements: measurements.collect() }
    }

    #[test]
    fn bars_are_as_long_as_the_medians_relative_to_the_longest() {
        let svg = svg(&[bench("a", &[("raw", 100.0), ("cuhold", 200.0)])]);
        assert!(svg.contains("width=\"228.0\"") && svg.contains("width=\"456.0\""), "{svg}");
    }

    #[test]
    fn a_subject_keeps_its_colour_and_text_is_escaped() {
        let svg =
            svg(&[bench("a<b", &[("raw", 1.0), ("cuhold", 1.0)]), bench("c", &[("cuhold", 1.0)])]);
        assert_eq!(svg.matches(&format!("fill=\"{}\"", COLOURS[1])).count(), 2, "{svg}");
        assert!(svg.contains(">a&lt;b</text>"), "{svg}");
    }

    #[test]
    fn nothing_measured_but_zeros_is_drawn() {
        assert!(svg(&[bench("a", &[("raw", 0.0)])]).contains("width=\"0.0\""));
    }
}
