//! `cargo xtask walk`: programs in Python through the public API of NVIDIA's `cuda-bindings` and `cuda-core`, on the
//! simulated driver or on a real one. The steps are in `xtask/walk`.
//!
//! The packages come from PyPI into a folder under `target`, and never into the repository.

use crate::{Result, libcuda_sim, process, wheels, workspace};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// What to walk on, and what else to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The driver.
    #[arg(long, value_enum, default_value_t = Driver::Sim)]
    driver: Driver,
    /// A folder of further Python tests, which are run in the same way, by pytest.
    folder: Option<PathBuf>,
}

/// Which driver answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Driver {
    /// The simulated one, as a shared library.
    Sim,
    /// The one of this machine.
    Real,
}

/// What is walked through, with all that it needs, by exact version.
const PACKAGES: &[&str] =
    &["cuda-bindings==13.5.0", "cuda-core==1.2.2", "cuda-pathfinder==1.9.1", "numpy==2.4.6"];
/// What runs the tests of a folder, with all that it needs.
const PYTEST: &[&str] =
    &["pytest==9.2.0", "iniconfig==2.3.1", "packaging==26.4", "pluggy==1.7.0", "pygments==2.21.0"];

/// The walk takes a few seconds; what hangs is ended.
const LIMIT: Duration = Duration::from_secs(120);
/// A folder of tests may be a large one.
const FOLDER_LIMIT: Duration = Duration::from_secs(1800);

/// Installs the packages, builds the library, and walks.
pub(crate) fn run(options: &Options) -> Result<()> {
    let packages = packages()?;
    let walk = workspace::root().join("xtask/walk");
    let mut python = python(options.driver, &[&packages, &walk])?;
    let walked = ran(python.arg(walk.join("walk.py")), LIMIT);
    let Some(folder) = &options.folder else { return walked };
    let tests = std::path::absolute(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let pytest = installed("pytest", PYTEST)?;
    let mut python = self::python(options.driver, &[&packages, &pytest])?;
    python.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).arg(tests);
    // The folder is run whatever the walk came to.
    let tested = ran(&mut python, FOLDER_LIMIT);
    walked.and(tested)
}

/// The walk on the simulated driver.
pub(crate) fn on_sim() -> Result<()> {
    run(&Options { driver: Driver::Sim, folder: None })
}

/// The folder with the packages, fetched if it isn't there.
pub(crate) fn packages() -> Result<PathBuf> {
    installed("packages", PACKAGES)
}

/// A folder with these packages. Its name has what tells one set of them from another.
fn installed(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let all = workspace::target().join("walk");
    let first = packages.first().copied().unwrap_or_default().replace("==", "-");
    let folder = all.join(format!("{name}-{first}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    // A folder of this process's own, renamed when complete: an interrupted or a parallel run leaves nothing half-made.
    let mine = all.join(format!("{name}.{}", std::process::id()));
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]);
    pip.args(["--only-binary=:all:", "--no-compile", "--target"]).arg(&mine).args(packages);
    workspace::run(&mut pip).map_err(|e| format!("{first} couldn't be fetched: {e}"))?;
    let renamed = fs::rename(&mine, &folder);
    if folder.is_dir() {
        return Ok(folder);
    }
    renamed.map(|()| folder).map_err(|e| format!("{}: {e}", mine.display()))
}

/// Python with these folders to import from, on this driver, and with the compilers that can be had.
fn python(driver: Driver, imports: &[&Path]) -> Result<Command> {
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", env::join_paths(imports).map_err(|e| e.to_string())?);
    python.env("PYTHONNOUSERSITE", "1").env("PYTHONDONTWRITEBYTECODE", "1");
    let mut libraries = compilers();
    match driver {
        Driver::Real => _ = python.env("CUHOLD_WALK_DRIVER", "real"),
        Driver::Sim => {
            let library = libcuda_sim::folder();
            libcuda_sim::build(&library, false)?;
            libraries.push(library);
            python.env("CUHOLD_SIM_PLAN", workspace::root().join("xtask/walk/plan.json"));
            python.env("CUHOLD_WALK_DRIVER", "sim");
        }
    }
    let before = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    libraries.extend(env::split_paths(&before).filter(|path| !path.as_os_str().is_empty()));
    python.env("LD_LIBRARY_PATH", env::join_paths(libraries).map_err(|e| e.to_string())?);
    Ok(python)
}

/// The folders with NVRTC and nvJitLink, neither of which needs a driver. What can't be had is said, and the steps that
/// need it skip themselves.
fn compilers() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for (wheel, file) in
        [(wheels::NVRTC, "libnvrtc.so.13"), (wheels::NVJITLINK, "libnvJitLink.so.13")]
    {
        match wheels::fetch(wheel).and_then(|folder| wheels::find(&folder, file)) {
            Ok(library) => folders.extend(library.parent().map(Path::to_path_buf)),
            Err(reason) => println!("without {file}: {reason}"),
        }
    }
    folders
}

/// Runs it to its end, and prints what it said.
fn ran(python: &mut Command, limit: Duration) -> Result<()> {
    let ran = process::run(python, limit)?;
    print!("{}", ran.stdout);
    eprint!("{}", ran.stderr);
    match (ran.timed_out, ran.status.success()) {
        (true, _) => Err(format!("the walk took more than {} s", limit.as_secs())),
        (false, true) => Ok(()),
        (false, false) => Err(format!("the walk ended with {}", ran.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_chapter_of_a_walk_is_forgotten() {
        for package in ["bindings", "core"] {
            let folder = workspace::root().join("xtask/walk").join(package);
            let listed = fs::read_to_string(folder.join("__init__.py")).unwrap();
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let text = fs::read_to_string(&path).unwrap_or_default();
                let name = path.file_stem().unwrap().to_str().unwrap();
                if text.contains("@step(") {
                    let named =
                        [" ", ","].iter().any(|end| listed.contains(&format!(" {name}{end}")));
                    assert!(named, "{} isn't imported", path.display());
                }
            }
        }
    }

    #[test]
    fn the_plan_names_the_kernel_of_the_walk() {
        let walk = workspace::root().join("xtask/walk");
        let plan = fs::read_to_string(walk.join("plan.json")).unwrap();
        let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
        let kernels = plan["kernels"].as_array().unwrap();
        assert!(!kernels.is_empty());
        let calls = fs::read_to_string(walk.join("bindings/calls.py")).unwrap();
        for kernel in kernels {
            let entry = format!(".entry {}(", kernel["name"].as_str().unwrap());
            assert!(calls.contains(&entry), "{entry}");
        }
    }
}
