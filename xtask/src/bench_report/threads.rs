//! What was measured on several threads: a table of throughput for each bench, and its picture: a panel for each bench, a
//! line for each subject, both scales in doublings and tens, since resources differ by orders of magnitude.

use super::{Measurement, plot};
use std::collections::BTreeSet;

/// A bench, with what each subject did on each number of threads, in the order of the lines.
#[derive(Debug, PartialEq)]
pub(super) struct Bench {
    pub(super) name: String,
    pub(super) measurements: Vec<(u32, Measurement)>,
}

impl Bench {
    /// The subjects, each once, in the order of the lines.
    fn subjects(&self) -> Vec<&str> {
        let mut subjects = Vec::new();
        for (_, m) in &self.measurements {
            if !subjects.contains(&m.subject.as_str()) {
                subjects.push(m.subject.as_str());
            }
        }
        subjects
    }

    /// The numbers of threads, in order.
    fn threads(&self) -> BTreeSet<u32> {
        self.measurements.iter().map(|(threads, _)| *threads).collect()
    }

    fn of(&self, subject: &str, threads: u32) -> Option<&Measurement> {
        let is_it = |(number, m): &&(u32, Measurement)| *number == threads && m.subject == subject;
        self.measurements.iter().find(is_it).map(|(_, m)| m)
    }
}

/// Millions of operations a second, on so many threads that each take so long for one.
fn throughput(threads: u32, ns: f64) -> f64 {
    f64::from(threads) * 1e3 / ns.max(0.001)
}

fn plural(threads: u32) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

/// The tables, as lines of the page.
pub(super) fn tables(benches: &[Bench]) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        "## On several threads".to_owned(),
        String::new(),
        "Millions of operations a second, all threads together: the median, and the range of the rounds.".to_owned(),
    ];
    for bench in benches {
        let threads = bench.threads();
        let heads: Vec<String> = threads.iter().map(|number| plural(*number)).collect();
        let head = format!("| {} | {} |", bench.name, heads.join(" | "));
        lines.extend([String::new(), head, format!("|---|{}", "---:|".repeat(threads.len()))]);
        for subject in bench.subjects() {
            let cells: Vec<String> = threads
                .iter()
                .map(|number| {
                    bench.of(subject, *number).map_or_else(String::new, |m| cell(*number, m))
                })
                .collect();
            lines.push(format!("| {subject} | {} |", cells.join(" | ")));
        }
    }
    lines
}

fn cell(threads: u32, m: &Measurement) -> String {
    let [least, median, most] =
        [m.max_ns, m.median_ns, m.min_ns].map(|ns| short(throughput(threads, ns)));
    format!("{median} ({least} to {most})")
}

/// Three digits that say something.
fn short(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ if value >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

const COLUMNS: usize = 2;
const PANEL: (f64, f64) = (470.0, 270.0);
/// Around the lines of a panel: for its name above, the numbers to the left and below, the subjects to the right.
const ABOVE: f64 = 34.0;
const LEFT: f64 = 56.0;
const BELOW: f64 = 40.0;
const RIGHT: f64 = 118.0;
/// The least distance between two subjects' names.
const NAME: f64 = 13.0;

/// The picture as text.
pub(super) fn svg(benches: &[Bench]) -> String {
    let names: Vec<&str> = {
        let mut names = Vec::new();
        for name in benches.iter().flat_map(Bench::subjects) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let rows = benches.len().div_ceil(COLUMNS);
    #[expect(clippy::cast_precision_loss, reason = "a handful of panels")]
    let (width, height) = (COLUMNS as f64 * PANEL.0, rows as f64 * PANEL.1);
    let mut body = Vec::new();
    for (index, bench) in benches.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a handful of panels")]
        let at = ((index % COLUMNS) as f64 * PANEL.0, (index / COLUMNS) as f64 * PANEL.1);
        Panel::new(bench, at).draw(&names, &mut body);
    }
    plot::picture(width, height, &body)
}

/// Where the lines of a bench are drawn, and what its scales are.
struct Panel<'a> {
    bench: &'a Bench,
    at: (f64, f64),
    /// The numbers of threads at both ends, as powers of two.
    across: (f64, f64),
    /// The throughput at both ends, as powers of ten.
    up: (f64, f64),
}

impl<'a> Panel<'a> {
    fn new(bench: &'a Bench, at: (f64, f64)) -> Self {
        let threads = bench.threads();
        let ends = |number: Option<&u32>| f64::from(number.copied().unwrap_or(1)).log2();
        let values = bench.measurements.iter().map(|(n, m)| throughput(*n, m.median_ns).log10());
        let (low, high) = values
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let across = (ends(threads.first()), ends(threads.last()));
        Self { bench, at, across, up: (low.floor(), high.ceil().max(low.floor() + 1.0)) }
    }

    fn x(&self, threads: u32) -> f64 {
        let span = (self.across.1 - self.across.0).max(1.0);
        let share = (f64::from(threads).log2() - self.across.0) / span;
        self.at.0 + LEFT + share * (PANEL.0 - LEFT - RIGHT)
    }

    fn y(&self, power: f64) -> f64 {
        let share = (power - self.up.0) / (self.up.1 - self.up.0);
        self.at.1 + PANEL.1 - BELOW - share * (PANEL.1 - ABOVE - BELOW)
    }

    fn draw(&self, names: &[&str], body: &mut Vec<String>) {
        let (left, right) = (self.at.0 + LEFT, self.at.0 + PANEL.0 - RIGHT);
        body.push(plot::text(left, self.at.1 + 20.0, "start", "bold", &self.bench.name));
        let mut power = self.up.0;
        while power <= self.up.1 {
            let y = self.y(power);
            body.push(line((left, y), (right, y), "#ddd"));
            let number = format!("{}", 10.0_f64.powf(power));
            body.push(plot::text(left - 6.0, y + 4.0, "end", "normal", &number));
            power += 1.0;
        }
        let below = self.at.1 + PANEL.1 - BELOW;
        for threads in self.bench.threads() {
            let number = threads.to_string();
            body.push(plot::text(self.x(threads), below + 15.0, "middle", "normal", &number));
        }
        let middle = f64::midpoint(left, right);
        body.push(plot::text(middle, below + 30.0, "middle", "normal", "threads; M/s to the left"));
        let mut ends = Vec::new();
        for subject in self.bench.subjects() {
            let colour = plot::colour(names, subject);
            if let Some(end) = self.subject(subject, colour, body) {
                ends.push((end, subject, colour));
            }
        }
        // Beside the ends of the lines, but not over each other.
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut free = f64::MIN;
        for (end, subject, colour) in ends {
            let y = end.max(free);
            free = y + NAME;
            let x = right + 10.0;
            body.push(line((right + 3.0, end), (x - 2.0, y), colour));
            body.push(plot::coloured(x, y + 4.0, colour, subject));
        }
    }

    /// Draws one subject's line; gives how high it ends.
    fn subject(&self, subject: &str, colour: &str, body: &mut Vec<String>) -> Option<f64> {
        let mut before = None;
        for threads in self.bench.threads() {
            let Some(m) = self.bench.of(subject, threads) else { continue };
            let place = (self.x(threads), self.y(throughput(threads, m.median_ns).log10()));
            if let Some(before) = before {
                body.push(line(before, place, colour));
            }
            let (x, y) = place;
            body.push(format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"));
            before = Some(place);
        }
        before.map(|(_, y)| y)
    }
}

fn line(from: (f64, f64), to: (f64, f64), colour: &str) -> String {
    let width = if colour == "#ddd" { "1" } else { "1.6" };
    format!(
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
        from.0, from.1, to.0, to.1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(subject: &str, threads: u32, ns: f64) -> (u32, Measurement) {
        let measurement = Measurement {
            bench: "b".to_owned(),
            subject: subject.to_owned(),
            threads: Some(threads),
            min_ns: ns / 2.0,
            median_ns: ns,
            max_ns: ns * 2.0,
            samples: 1,
        };
        (threads, measurement)
    }

    fn bench() -> Bench {
        let measurements =
            vec![measured("raw", 1, 1000.0), measured("raw", 4, 8000.0), measured("mark", 4, 10.0)];
        Bench { name: "b".to_owned(), measurements }
    }

    #[test]
    fn the_table_has_throughput_in_a_row_for_each_subject() {
        let lines = tables(&[bench()]);
        assert!(lines.contains(&"| b | 1 thread | 4 threads |".to_owned()), "{lines:?}");
        assert!(
            lines.contains(&"| raw | 1.00 (0.500 to 2.00) | 0.500 (0.250 to 1.00) |".to_owned()),
            "{lines:?}"
        );
        assert!(lines.contains(&"| mark |  | 400 (200 to 800) |".to_owned()), "{lines:?}");
    }

    #[test]
    fn a_panel_s_scales_hold_all_of_its_points() {
        let bench = bench();
        let panel = Panel::new(&bench, (0.0, 0.0));
        assert_eq!((panel.across, panel.up), ((0.0, 2.0), (-1.0, 3.0)));
        assert_eq!((panel.x(1), panel.x(4)), (LEFT, PANEL.0 - RIGHT));
        assert_eq!((panel.y(3.0), panel.y(-1.0)), (ABOVE, PANEL.1 - BELOW));
        let svg = svg(&[bench]);
        assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
    }
}
