//! Wheels from PyPI that carry NVIDIA's files: headers, NVRTC, libclang. Unpacked under `target/wheels`, never installed.

use crate::{Result, workspace};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// One wheel, by exact version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wheel {
    name: &'static str,
    version: &'static str,
}

/// `cuda.h` and `cudaTypedefs.h`.
pub(crate) const HEADERS: Wheel = Wheel { name: "nvidia-cuda-runtime", version: "13.5.37" };
/// What bindgen parses C with.
pub(crate) const LIBCLANG: Wheel = Wheel { name: "libclang", version: "18.1.1" };
/// The run-time compiler; it needs no driver.
pub(crate) const NVRTC: Wheel = Wheel { name: "nvidia-cuda-nvrtc", version: "13.5.37" };
/// The compiler of LLVM's code; it needs no driver.
pub(crate) const NVVM: Wheel = Wheel { name: "nvidia-nvvm", version: "13.5.37" };
/// The linker; it needs no driver.
pub(crate) const NVJITLINK: Wheel = Wheel { name: "nvidia-nvjitlink", version: "13.5.37" };

/// The folder with the wheel's files, fetched if it isn't there.
pub(crate) fn fetch(wheel: Wheel) -> Result<PathBuf> {
    let Wheel { name, version } = wheel;
    let all = workspace::target().join("wheels");
    let folder = all.join(format!("{name}-{version}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    // A folder of this process's own, renamed when complete: an interrupted or a parallel run leaves nothing half-made.
    let mine = all.join(format!("{name}-{version}.{}", std::process::id()));
    let unpacked = unpack(wheel, &mine);
    let moved = unpacked.and_then(|files| {
        let renamed = fs::rename(files, &folder);
        if folder.is_dir() {
            Ok(folder)
        } else {
            renamed.map(|()| folder).map_err(|e| e.to_string())
        }
    });
    let cleared = fs::remove_dir_all(&mine);
    let folder = moved.map_err(|e| format!("{name}=={version} couldn't be fetched: {e}"))?;
    cleared.map_err(|e| format!("{}: {e}", mine.display()))?;
    Ok(folder)
}

/// Downloads and unpacks into a new folder inside `into`.
fn unpack(wheel: Wheel, into: &Path) -> Result<PathBuf> {
    let downloads = into.join("download");
    fs::create_dir_all(&downloads).map_err(|e| format!("{}: {e}", downloads.display()))?;
    let wanted = format!("{}=={}", wheel.name, wheel.version);
    // Downloading needs no `--break-system-packages`: nothing is installed.
    workspace::run(
        Command::new("python3")
            .args(["-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"])
            .args(["--only-binary=:all:", "--dest"])
            .arg(&downloads)
            .arg(wanted),
    )?;
    let files = into.join("files");
    for entry in fs::read_dir(&downloads).map_err(|e| format!("{}: {e}", downloads.display()))? {
        let file = entry.map_err(|e| format!("{}: {e}", downloads.display()))?.path();
        workspace::run(
            Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&file).arg(&files),
        )?;
    }
    Ok(files)
}

/// The one file or folder called `name` under `folder`, at any depth.
pub(crate) fn find(folder: &Path, name: &str) -> Result<PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let said = |e: std::io::Error| format!("{}: {e}", folder.display());
        for entry in fs::read_dir(&folder).map_err(said)? {
            let entry = entry.map_err(said)?;
            if entry.file_name() == name {
                return Ok(entry.path());
            }
            if entry.file_type().map_err(said)?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Err(format!("no {name} in {}", folder.display()))
}
