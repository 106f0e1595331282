//! A tour of cuhold: one program through all of its layers, on the real GPU if there is one, else on the simulated
//! driver. It checks everything that it shows; exit code 0 means that all checks held.
//!
//! Run it with `cargo run --release -p cuhold --features sim --example tour`.

#![expect(clippy::print_stdout, reason = "a program that shows something")]
#![expect(unsafe_code, reason = "launching a kernel is a promise about the kernel")]

mod kernel;
mod show;

use cuhold::{
    Buffer, Closed, Context, ContextFlags, Device, Driver, Error, ErrorKind, EventOptions, Library,
    Result,
    driver_sys::{CUresult, Call, CallCounts, Fault, Faults},
};
use show::Show;
use std::{process::ExitCode, sync::Arc};

const LEN: u32 = 1 << 20;

/// The driver to tour, what is hooked around it, and what it is called.
struct Tour {
    driver: Driver,
    counts: Arc<CallCounts>,
    faults: Arc<Faults>,
}

impl Tour {
    /// The real driver if it has a device, else the simulated one.
    fn begin(show: &mut Show) -> Self {
        let (counts, faults) = (Arc::new(CallCounts::new()), Arc::new(Faults::new()));
        let hooks = (Arc::clone(&counts), Arc::clone(&faults));
        let driver = match real() {
            Ok(real) => {
                show.say("driver", "the real one");
                real.hooked(hooks)
            }
            Err(why) => {
                show.say("driver", format!("the simulated one: {why}"));
                let sim = cuhold::sim::Sim::new();
                kernel::register(&sim);
                Driver::from_api(sim).hooked(hooks)
            }
        };
        Self { driver, counts, faults }
    }
}

fn real() -> Result<Driver> {
    let driver = Driver::load()?;
    match driver.device_count()? {
        0 => Err(Error::new(ErrorKind::Load, "the driver has no device")),
        _ => Ok(driver),
    }
}

/// Compile, allocate, copy in, launch, copy out: every element is checked, and the kernel is timed.
fn compute(device: &Device, library: &Library, show: &mut Show) -> Result<()> {
    let stream = device.new_stream()?;
    let axpy = library.kernel(kernel::NAME)?;
    #[expect(clippy::cast_precision_loss, reason = "a million is exact")]
    let host: Vec<f32> = (0..LEN).map(|i| i as f32).collect();
    let x = Buffer::from_slice(&stream, &host)?;
    let mut y = Buffer::<f32>::zeroed(&stream, LEN as usize)?;
    show.say("buffers", format!("two of {} bytes, from the device's pool", x.size_bytes()));

    let (begin, end) =
        (device.new_event(EventOptions::timing())?, device.new_event(EventOptions::timing())?);
    stream.record(&begin)?;
    // SAFETY: the parameters are (f32, const float*, float*, u32), both buffers hold LEN floats and outlive the kernel.
    unsafe {
        axpy.launch(&stream, cuhold::LaunchConfig::for_len(LEN), (2.0_f32, &x, &mut y, LEN))
    }?;
    stream.record(&end)?;
    end.synchronize()?;
    let ms = end.elapsed_ms_since(&begin)?.unwrap_or_default();
    show.say("kernel", format!("{LEN} elements in {ms:.3} ms by events"));

    let out = y.to_vec()?;
    #[expect(clippy::float_cmp, reason = "doubling is exact")]
    let right = out.iter().zip(&host).filter(|(y, x)| **y == 2.0 * **x).count();
    show.check("every element is right", right == host.len());
    Ok(())
}

/// Two contexts at work; the caller's is current again after every call.
fn contexts(device: &Device, show: &mut Show) -> Result<()> {
    let mine = Context::new(device, ContextFlags::empty())?;
    let before = show::current(device)?;
    let (here, there) = (device.new_stream()?, mine.new_stream()?);
    let marker = here.record_new(EventOptions::default())?;
    there.wait_event(&marker)?;
    let inside = mine.with_current(|| show::current(device))??;
    there.synchronize()?;
    show.check("a closure ran in the second context", inside == mine.as_raw());
    show.check("the caller's context is what it was", show::current(device)? == before);
    drop((here, there));
    let closed = mine.close().map_err(|refused| refused.error)?;
    show.check("the second context is destroyed", closed == Closed::Destroyed);
    Ok(())
}

/// A cleanup fails where nothing can be returned: it is one warning, and the program goes on.
fn failing_cleanup(tour: &Tour, device: &Device, show: &mut Show) -> Result<()> {
    let heard = tour.driver.reports().capture(8);
    let event = device.new_event(EventOptions::default())?;
    tour.faults.arm(Fault::refused(CUresult::UNKNOWN).on(Call::cuEventDestroy_v2).nth(1));
    drop(event);
    tour.faults.disarm();
    let warnings = heard.take();
    drop(heard);
    for warning in &warnings {
        show.say("warning", warning);
    }
    show.check("the failed cleanup is one warning", warnings.len() == 1);
    device.new_stream()?.synchronize()?;
    show.check("the program goes on", true);
    Ok(())
}

fn run(show: &mut Show) -> Result<()> {
    let tour = Tour::begin(show);
    let device = Device::with_driver(&tour.driver, 0)?;
    let (major, minor) = device.compute_capability()?;
    show.say("device", format!("{}, compute capability {major}.{minor}", device.name()?));

    let library = kernel::load(&device, show)?;
    show.part(&tour.counts, "compute", |show| compute(&device, &library, show))?;
    show.part(&tour.counts, "two contexts", |show| contexts(&device, show))?;
    show.part(&tour.counts, "a failing cleanup", |show| failing_cleanup(&tour, &device, show))?;
    show.part(&tour.counts, "the end", |show| {
        let kept = library.close().map_err(|refused| refused.error)?;
        show.check("the library is unloaded", kept == Closed::Destroyed);
        tour.driver.reclaim().drain(std::time::Duration::from_secs(30))
    })?;
    show.check("no warning was lost", tour.driver.reports().counts().raised == 1);
    Ok(())
}

fn main() -> ExitCode {
    let mut show = Show::default();
    if let Err(error) = run(&mut show) {
        show.say("error", &error);
        show.check("the tour ran to its end", false);
    }
    show.table()
}
