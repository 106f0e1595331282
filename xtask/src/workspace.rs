//! Where the workspace is, its files, and running cargo in it.

use crate::Result;
use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Folders that hold nothing of ours, or nothing that is committed.
const NOT_OURS: &[&str] = &["target", "bundle", ".git"];

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo's build folder.
pub(crate) fn target() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty());
    root().join(named.map_or_else(|| PathBuf::from("target"), PathBuf::from))
}

/// Cargo, to be run in the workspace's root.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments);
    command
}

/// The command as one would type it, for messages.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or_default();
    let mut text = program.to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// Runs the command on our own streams.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|e| format!("`{}`: {e}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}`: {status}", shown(command))) }
}

/// Runs the command and returns what it wrote to its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let (text, done) = tee(command, |_| {})?;
    done.map(|()| text)
}

/// Runs the command and hands over each line of its standard output as it comes. The inner result is the command's own
/// outcome: its output is worth reading either way.
pub(crate) fn tee(
    command: &mut Command,
    mut each: impl FnMut(&str),
) -> Result<(String, Result<()>)> {
    let name = shown(command);
    let said = |e: std::io::Error| format!("`{name}`: {e}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(said)?;
    let mut text = String::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = String::from_utf8_lossy(&line.map_err(said)?).into_owned();
            each(&line);
            text.push_str(&line);
            text.push('\n');
        }
    }
    let status = child.wait().map_err(said)?;
    let done = if status.success() { Ok(()) } else { Err(format!("`{name}`: {status}")) };
    Ok((text, done))
}

/// A text file of the project.
#[derive(Debug)]
pub(crate) struct Source {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn is_rust(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|e| e == "rs")
    }

    /// Made by the code generator: not for reading, so neither its size nor its comments matter.
    pub(crate) fn is_generated(&self) -> bool {
        self.path.contains("/generated/")
    }
}

/// Every text file of the project, in the order of their paths.
pub(crate) fn sources() -> Result<Vec<Source>> {
    let root = root();
    let mut paths = Vec::new();
    walk(&root, &mut paths).map_err(|e| format!("{}: {e}", root.display()))?;
    let mut sources = Vec::new();
    for path in paths {
        let bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let relative = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
        if let Ok(text) = String::from_utf8(bytes) {
            sources.push(Source { path: relative, text });
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if NOT_OURS.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), paths)?;
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
    Ok(())
}
