//! `cargo xtask bundle`: everything that runs on a GPU host which has a driver and no Rust, in one folder.

use crate::{
    Result,
    gpu::{Binary, CONTENTS, Contents, DRIVER, LeftOut, Program, TODAY},
    workspace,
};
use cargo_metadata::{Message, MetadataCommand, TargetKind};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What the folder may take, in bytes.
const BYTES_AT_MOST: u64 = 60_000_000;

/// Packages whose tests stay here, and why. They are tested by `cargo test`; a report says that they were left out.
const LEFT_OUT: &[(&str, &str)] = &[
    ("cuhold-driver-sim", "its tests are about the simulated driver"),
    ("cuhold-testkit", "its own tests are about the simulated driver"),
    ("cuhold-driver-sys", "its tests build drivers of their own with rustc"),
    ("cuhold-facts", "its tests are about its program, which is run instead"),
    ("cuhold-libcuda-sim", "its tests are about the simulated driver's library"),
    ("xtask", "its tests read the source tree"),
];

/// The programs: name, how cargo builds it, and its arguments on the GPU host.
const PROGRAMS: &[(&str, &[&str], &[&str])] = &[
    (
        "tour",
        &["build", "--release", "-p", "cuhold", "--features", "sim", "--example", "tour"],
        &[],
    ),
    (
        "ipc_pipeline",
        &["build", "--release", "-p", "cuhold", "--features", "sim", "--example", "ipc_pipeline"],
        &[],
    ),
    (
        "facts",
        &["build", "--release", "-p", "cuhold-facts", "--bin", "facts"],
        &["--driver", DRIVER, "--date", TODAY, "--out", "facts.json"],
    ),
];

/// A version of the C library, as in `GLIBC_2.34`.
type Glibc = (u32, u32);

/// Builds, strips and writes it all to `out`, which must not exist or be an earlier bundle.
pub(crate) fn run(out: &Path) -> Result<()> {
    let out = std::path::absolute(out).map_err(|e| format!("{}: {e}", out.display()))?;
    if out.exists() {
        if !out.join(CONTENTS).exists() {
            return Err(format!("{} is there and isn't a bundle", out.display()));
        }
        fs::remove_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    }
    let mut contents = Contents { left_out: left_out(), ..Contents::default() };
    let bin = out.join("bin");
    fs::create_dir_all(&bin).map_err(|e| format!("{}: {e}", bin.display()))?;
    // Written again when it is complete; until then it says whose folder this is.
    write_contents(&out, &contents)?;
    for (kind, binaries) in [("test", test_binaries()?), ("bench", bench_binaries()?)] {
        for binary in binaries {
            let file =
                PathBuf::from("bin").join(format!("{kind}-{}", binary.name.replace("::", "-")));
            strip(&binary.file, &out.join(&file))?;
            let list = if kind == "test" { &mut contents.tests } else { &mut contents.benches };
            list.push(Binary { name: binary.name, file });
        }
    }
    for (name, build, arguments) in PROGRAMS {
        let file = PathBuf::from("bin").join(name);
        strip(&built(build, name)?, &out.join(&file))?;
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        contents.programs.push(Program { name: (*name).to_owned(), file, arguments });
    }
    let runner = built(&["build", "--release", "-p", "xtask", "--bin", "gpu-run"], "gpu-run")?;
    strip(&runner, &bin.join("gpu-run"))?;

    write_contents(&out, &contents)?;
    let (bytes, (major, minor)) = measure(&bin)?;
    let script = out.join("run.sh");
    write(&script, &include_str!("run.sh").replace("@GLIBC@", &format!("{major}.{minor}")))?;
    executable(&script)?;
    println!(
        "{}: {} test binaries, {} benches, {} programs, {:.1} MB, glibc {major}.{minor}",
        out.display(),
        contents.tests.len(),
        contents.benches.len(),
        contents.programs.len(),
        megabytes(bytes)
    );
    if bytes > BYTES_AT_MOST {
        return Err(format!("more than {:.0} MB", megabytes(BYTES_AT_MOST)));
    }
    Ok(())
}

fn write_contents(out: &Path, contents: &Contents) -> Result<()> {
    write(&out.join(CONTENTS), &serde_json::to_string_pretty(contents).map_err(|e| e.to_string())?)
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}

fn executable(file: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
        .map_err(|e| format!("{}: {e}", file.display()))
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Builds the tests that have something to say on a GPU.
pub(crate) fn test_binaries() -> Result<Vec<Binary>> {
    let mut binaries = executables(&["test", "--workspace", "--no-run"])?;
    binaries.retain(|binary| binary.profile_test && !binary.is_bench);
    Ok(binaries.into_iter().map(Executable::binary).filter(|binary| !is_left_out(binary)).collect())
}

fn bench_binaries() -> Result<Vec<Binary>> {
    let mut binaries = executables(&["bench", "-p", "cuhold-benches", "--no-run"])?;
    binaries.retain(|binary| binary.is_bench);
    Ok(binaries.into_iter().map(Executable::binary).collect())
}

fn is_left_out(binary: &Binary) -> bool {
    LEFT_OUT.iter().any(|(package, _)| binary.name.split("::").next() == Some(package))
}

/// The packages whose tests aren't run on a GPU.
pub(crate) fn left_out() -> Vec<LeftOut> {
    let own = |(package, reason): &(&str, &str)| LeftOut {
        package: (*package).to_owned(),
        reason: (*reason).to_owned(),
    };
    LEFT_OUT.iter().map(own).collect()
}

/// Builds a program and returns its file.
fn built(build: &[&str], name: &str) -> Result<PathBuf> {
    let mut programs = executables(build)?;
    programs.retain(|program| !program.profile_test);
    match programs
        .into_iter()
        .find(|program| program.target == name || program.package.ends_with(name))
    {
        Some(program) => Ok(program.file),
        None => Err(format!("`cargo {}` built no {name}", build.join(" "))),
    }
}

/// A file that cargo has built.
#[derive(Debug)]
pub(crate) struct Executable {
    pub(crate) package: String,
    pub(crate) target: String,
    pub(crate) profile_test: bool,
    is_bench: bool,
    pub(crate) file: PathBuf,
}

impl Executable {
    fn binary(self) -> Binary {
        Binary { name: format!("{}::{}", self.package, self.target), file: self.file }
    }
}

/// Runs cargo and reads from its messages which executables it has.
fn executables(arguments: &[&str]) -> Result<Vec<Executable>> {
    executables_of(&mut workspace::cargo(arguments))
}

/// The same of a command that is set up already.
pub(crate) fn executables_of(command: &mut Command) -> Result<Vec<Executable>> {
    command.arg("--message-format=json-render-diagnostics");
    let messages = workspace::output(command)?;
    let metadata = MetadataCommand::new()
        .current_dir(workspace::root())
        .no_deps()
        .exec()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    let names: BTreeMap<_, _> =
        metadata.packages.iter().map(|package| (&package.id, package.name.to_string())).collect();
    let mut executables = Vec::new();
    for message in Message::parse_stream(messages.as_bytes()) {
        let Message::CompilerArtifact(artifact) =
            message.map_err(|e| format!("cargo's messages: {e}"))?
        else {
            continue;
        };
        let (Some(file), Some(package)) = (artifact.executable, names.get(&artifact.package_id))
        else {
            continue;
        };
        executables.push(Executable {
            package: package.clone(),
            target: artifact.target.name,
            profile_test: artifact.profile.test,
            is_bench: artifact.target.kind.contains(&TargetKind::Bench),
            file: file.into_std_path_buf(),
        });
    }
    Ok(executables)
}

/// Copies without symbols. `strip` comes with the linker that every Rust program on Linux needs.
fn strip(from: &Path, to: &Path) -> Result<()> {
    workspace::run(Command::new("strip").arg("-o").arg(to).arg(from))
}

/// Bytes of all files, and the newest version of the C library that one of them asks for.
fn measure(folder: &Path) -> Result<(u64, Glibc)> {
    let said = |e: std::io::Error| format!("{}: {e}", folder.display());
    let (mut bytes, mut newest) = (0, (0, 0));
    for entry in fs::read_dir(folder).map_err(said)? {
        let content = fs::read(entry.map_err(said)?.path()).map_err(said)?;
        bytes += u64::try_from(content.len()).map_err(|e| e.to_string())?;
        newest = newest.max(glibc(&content));
    }
    Ok((bytes, newest))
}

/// The newest `GLIBC_X.Y` named in a binary. Names stand in its string table, each ended by a zero.
fn glibc(content: &[u8]) -> Glibc {
    let versions = content.split(|byte| *byte == 0).filter_map(|name| {
        let version = str::from_utf8(name).ok()?.strip_prefix("GLIBC_")?;
        let mut parts = version.split('.').map(str::parse::<u32>);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    });
    versions.max().unwrap_or((0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_the_c_library_is_found() {
        assert_eq!(glibc(b"x\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0\xff"), (2, 34));
        assert_eq!(glibc(b"none"), (0, 0));
    }

    #[test]
    fn this_tests_own_binary_names_a_version() {
        let content = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(glibc(&content) >= (2, 2), "{:?}", glibc(&content));
    }

    #[test]
    fn packages_that_stay_here_are_told_by_their_whole_name() {
        let named = |name: &str| Binary { name: name.to_owned(), file: PathBuf::new() };
        assert!(is_left_out(&named("xtask::xtask")));
        assert!(!is_left_out(&named("cuhold::xtask")));
    }
}
