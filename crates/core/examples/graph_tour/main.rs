//! A tour of graphs: a small solver, whose steps repeat on the GPU until they change nothing any more, built once by definition
//! and once by capture, on the real GPU if there is one, else on the simulated driver. Both are compared with the same solver on
//! plain streams, bit by bit; exit code 0 means that all agree.
//!
//! Run it with `cargo run --release -p cuhold --features sim --example graph_tour`. It draws both graphs, into the folder that
//! the first argument names, or else into the one for temporary files.

#![expect(clippy::print_stdout, reason = "a program that shows something")]
#![expect(unsafe_code, reason = "launching a kernel is a promise about the kernel")]

mod capture;
mod define;
mod kernel;
mod problem;
mod show;

use cuhold::{Device, Driver, Error, ErrorKind, Graph, Result, Stream, driver_sys::CallCounts};
use kernel::Kernels;
use problem::{Plain, Plate, Solution};
use show::Show;
use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Instant};

/// How often each is run for its time.
const ROUNDS: u32 = 5;

/// The real driver if it has a device, else the simulated one, with its calls counted.
fn begin(show: &mut Show) -> (Driver, Arc<CallCounts>) {
    let counts = Arc::new(CallCounts::new());
    let driver = match real() {
        Ok(real) => {
            show.say("driver", "the real one");
            real.hooked(Arc::clone(&counts))
        }
        Err(why) => {
            show.say("driver", format!("the simulated one: {why}"));
            let sim = cuhold::sim::Sim::new();
            kernel::register(&sim);
            Driver::from_api(sim).hooked(Arc::clone(&counts))
        }
    };
    (driver, counts)
}

fn real() -> Result<Driver> {
    let driver = Driver::load()?;
    match driver.device_count()? {
        0 => Err(Error::new(ErrorKind::Load, "the driver has no device")),
        _ => Ok(driver),
    }
}

/// Runs a solver several times, and tells how long it took and how many driver calls.
fn timed(
    show: &mut Show,
    counts: &CallCounts,
    name: &str,
    mut solve: impl FnMut() -> Result<()>,
) -> Result<()> {
    // The first one may have to load something.
    solve()?;
    let (begun, before) = (Instant::now(), counts.total());
    for _ in 0..ROUNDS {
        solve()?;
    }
    let ms = begun.elapsed().as_secs_f64() * 1e3 / f64::from(ROUNDS);
    let calls = (counts.total() - before) / u64::from(ROUNDS);
    show.say(name, format!("{ms:.3} ms and {calls} driver calls for each solution"));
    Ok(())
}

/// What both graphs are run with, and compared with.
struct Bench<'a> {
    counts: &'a CallCounts,
    stream: &'a Stream,
    expected: &'a Solution,
    /// Where pictures go.
    folder: PathBuf,
}

impl Bench<'_> {
    /// Draws a graph, makes it executable, runs it, and compares what comes out.
    fn solve(&self, show: &mut Show, name: &str, (mut graph, plate): (Graph, Plate)) -> Result<()> {
        self.draw(show, name, &mut graph)?;
        let mut exec = graph.instantiate()?;
        drop(graph);
        timed(show, self.counts, name, || {
            exec.launch(self.stream)?;
            self.stream.synchronize()
        })?;
        let solution = plate.solution()?;
        let Solution { steps, .. } = solution;
        let what = format!("{name}: {steps} steps, as on plain streams");
        show.check(&what, steps == self.expected.steps);
        let what = format!("{name}: every temperature is the same");
        show.check(&what, solution == *self.expected);
        Ok(())
    }

    fn draw(&self, show: &mut Show, name: &str, graph: &mut Graph) -> Result<()> {
        let picture = graph.to_svg()?;
        let file = self.folder.join(format!("graph_tour {name}.svg").replace(' ', "_"));
        let written = std::fs::write(&file, picture);
        show.say(name, format!("{} nodes, drawn in {}", graph.len(), file.display()));
        show.check(&format!("{name}: the picture is written"), written.is_ok());
        Ok(())
    }
}

fn run(show: &mut Show) -> Result<()> {
    let (driver, counts) = begin(show);
    let device = Device::with_driver(&driver, 0)?;
    show.say("device", device.name()?);
    let kernels = Kernels::load(&device)?;
    let stream = device.new_stream()?;

    let mut plain = Plain::new(&device, &kernels)?;
    timed(show, &counts, "plain streams", || plain.solve())?;
    let expected = plain.solution()?;
    let (hot, cold) = problem::range(&expected);
    show.check(
        "the solution is warm somewhere, and nowhere hotter than the edge",
        cold >= 0.0 && hot <= 100.0 && problem::is_warm(&expected),
    );
    show.check(
        "it took more than a few steps, and came to an end",
        expected.steps > 10 && expected.steps < problem::MOST,
    );

    let folder = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let bench = Bench { counts: &counts, stream: &stream, expected: &expected, folder };
    bench.solve(show, "by definition", define::solver(device.context(), &kernels, &stream)?)?;
    bench.solve(show, "by capture", capture::solver(device.context(), &kernels, &stream)?)?;

    drop(plain);
    drop((kernels, stream));
    driver.reclaim().drain(std::time::Duration::from_secs(30))?;
    show.check("no warning was raised", driver.reports().counts().raised == 0);
    Ok(())
}

fn main() -> ExitCode {
    let mut show = Show::default();
    if let Err(error) = run(&mut show) {
        show.say("error", &error);
        show.check("the tour ran to its end", false);
    }
    show.end()
}
