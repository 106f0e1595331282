//! One child process with a time limit, its output kept.

use crate::Result;
use std::{
    io::Read,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// How long the output of a killed process may take to end.
const AFTER_KILL: Duration = Duration::from_secs(2);

/// A process that has ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) status: ExitStatus,
    /// It was still running when its time was up, and was killed.
    pub(crate) timed_out: bool,
    pub(crate) took: Duration,
}

/// Runs the command to its end or the limit's.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<Ran> {
    let name = command.get_program().to_string_lossy().into_owned();
    let said = |e: std::io::Error| format!("{name}: {e}");
    let begun = Instant::now();
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().map_err(said)?;
    let (sender, ended) = mpsc::channel();
    read(child.stdout.take(), sender.clone(), 0);
    read(child.stderr.take(), sender, 1);

    let mut texts = [String::new(), String::new()];
    let mut keep = |(at, text): (usize, String)| {
        if let Some(kept) = texts.get_mut(at) {
            *kept = text;
        }
    };
    // Both pipes end when the process does, so waiting for them is waiting for it.
    let mut open = collect(&ended, limit, &mut keep);
    let mut timed_out = false;
    if open {
        // A grandchild may hold the pipes although the process itself has ended.
        timed_out = child.try_wait().map_err(said)?.is_none();
        if timed_out {
            child.kill().map_err(said)?;
        }
        open = collect(&ended, AFTER_KILL, &mut keep);
    }
    let status = child.wait().map_err(said)?;
    let [stdout, mut stderr] = texts;
    if open {
        stderr.push_str("\n(output lost: another process still holds it)\n");
    }
    Ok(Ran { stdout, stderr, status, timed_out, took: begun.elapsed() })
}

/// Reads in a thread and sends everything at the end.
fn read(
    stream: Option<impl Read + Send + 'static>,
    sender: mpsc::Sender<(usize, String)>,
    at: usize,
) {
    let Some(mut stream) = stream else { return };
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let problem = stream.read_to_end(&mut bytes).err();
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some(problem) = problem {
            text.push_str(&format!("\n(reading stopped: {problem})\n"));
        }
        // The receiver is gone if this ended after the time to wait for it.
        drop(sender.send((at, text)));
    });
}

/// Takes what arrives within `limit`; says whether something is still open.
fn collect(
    ended: &mpsc::Receiver<(usize, String)>,
    limit: Duration,
    keep: &mut impl FnMut((usize, String)),
) -> bool {
    let until = Instant::now() + limit;
    loop {
        match ended.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(text) => keep(text),
            Err(mpsc::RecvTimeoutError::Disconnected) => return false,
            Err(mpsc::RecvTimeoutError::Timeout) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str, limit: Duration) -> Ran {
        run(Command::new("sh").args(["-c", text]), limit).unwrap()
    }

    #[test]
    fn output_and_status_are_kept() {
        let ran = shell("echo out; echo err >&2; exit 3", Duration::from_secs(60));
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!((ran.status.code(), ran.timed_out), (Some(3), false));
    }

    #[test]
    fn a_process_that_takes_too_long_is_killed_and_its_output_kept() {
        let ran = shell("echo begun; exec sleep 600", Duration::from_millis(200));
        assert!(ran.timed_out && !ran.status.success());
        assert_eq!(ran.stdout, "begun\n");
    }

    #[test]
    fn a_program_that_is_missing_is_an_error() {
        assert!(run(&mut Command::new("no-such-program-here"), Duration::from_secs(1)).is_err());
    }
}
