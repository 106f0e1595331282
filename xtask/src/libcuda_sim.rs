//! `cargo xtask libcuda-sim`: builds the simulated driver as a shared library and puts it in a folder under the names by
//! which programs look for a driver.

use crate::{Result, workspace};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// What to build, and where it goes.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The folder; `target/libcuda-sim` if none is given.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Optimized: for programs that make many calls.
    #[arg(long)]
    release: bool,
}

/// What the package's library is called in cargo's build folder.
const BUILT: &str = "libcuhold_libcuda_sim.so";
/// What programs ask the dynamic linker for, and what they are linked against.
const NAMES: (&str, &str) = ("libcuda.so.1", "libcuda.so");

/// Builds it and says how a program gets it.
pub(crate) fn run(options: &Options) -> Result<()> {
    let out = match &options.out {
        Some(out) => std::path::absolute(out).map_err(|e| format!("{}: {e}", out.display()))?,
        None => folder(),
    };
    build(&out, options.release)?;
    println!("{}", out.join(NAMES.0).display());
    println!("run a program on it with LD_LIBRARY_PATH={}", out.display());
    Ok(())
}

/// Where it goes if nobody says otherwise.
pub(crate) fn folder() -> PathBuf {
    workspace::target().join("libcuda-sim")
}

/// Builds the library into a folder that holds nothing else of a driver.
pub(crate) fn build(out: &Path, release: bool) -> Result<()> {
    if !cfg!(target_os = "linux") {
        return Err("programs find a driver as libcuda.so.1 on Linux alone".to_owned());
    }
    let mut build = workspace::cargo(&["build", "--quiet", "-p", "cuhold-libcuda-sim"]);
    if release {
        build.arg("--release");
    }
    workspace::run(&mut build)?;
    let profile = if release { "release" } else { "debug" };
    let built = workspace::target().join(profile).join(BUILT);
    let said = |path: &Path| {
        let path = path.display().to_string();
        move |e: std::io::Error| format!("{path}: {e}")
    };
    fs::create_dir_all(out).map_err(said(out))?;
    // Renamed into place: a process that has the earlier file mapped keeps it.
    let fresh = out.join(format!("{}.{}", NAMES.0, std::process::id()));
    fs::copy(&built, &fresh).map_err(said(&built))?;
    let library = out.join(NAMES.0);
    fs::rename(&fresh, &library).map_err(said(&library))?;
    link(out)
}

#[cfg(unix)]
fn link(out: &Path) -> Result<()> {
    let link = out.join(NAMES.1);
    if link.symlink_metadata().is_ok() {
        fs::remove_file(&link).map_err(|e| format!("{}: {e}", link.display()))?;
    }
    std::os::unix::fs::symlink(NAMES.0, &link).map_err(|e| format!("{}: {e}", link.display()))
}

#[cfg(not(unix))]
fn link(_: &Path) -> Result<()> {
    Ok(())
}
