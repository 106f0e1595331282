//! Where warnings go: a line on stderr, a `tracing` event, or a closure of the user's.

#![cfg_attr(unix, expect(unsafe_code, reason = "`write` is C's"))]

use super::{CudaWarning, foreign, text::Line};
use cuhold_driver_sys::mutant;
use std::{
    fmt::{self, Write as _},
    mem,
    sync::Arc,
};

/// A receiver of warnings.
///
/// A sink runs on the thread that met the failure, mostly inside a `Drop`, possibly while the thread unwinds or ends.
/// No lock of this library is held while it runs, so it may use the library, and may replace itself. Several threads
/// may run it at once. If it panics, the panic is caught, said on stderr in one line, and the sink stays. A warning that
/// is raised on its own thread while it runs is counted as folded and goes nowhere.
///
/// It must not own the driver whose warnings it receives: the driver owns the sink, and neither would ever end.
#[derive(Clone)]
pub struct Sink {
    target: Target,
}

type Closure = dyn Fn(&CudaWarning) + Send + Sync;

#[derive(Clone)]
enum Target {
    Stderr,
    #[cfg(feature = "tracing")]
    Tracing,
    User(Arc<Closure>),
}

impl Sink {
    /// Writes each warning to stderr as one line, `cuhold: warning: …`, in one write; allocates nothing. Where the write
    /// fails, the line is lost; the counts have it. The default.
    ///
    /// Rust programs ignore `SIGPIPE`. One that has chosen to be ended by it is ended by this write as by any other,
    /// where stderr is a pipe that nobody reads.
    ///
    /// Calls nothing.
    #[must_use]
    pub const fn stderr() -> Self {
        Self { target: Target::Stderr }
    }

    /// Makes each warning an event of level `WARN` with the target `cuhold`, whose fields are `kind`, `call`, `status`,
    /// `object`, `raw`, `id`, `fate`, `current` (a context's raw value) and `cause`, as far as they are known, and
    /// whose message is the whole line.
    ///
    /// Calls nothing.
    #[cfg(feature = "tracing")]
    #[must_use]
    pub const fn tracing() -> Self {
        Self { target: Target::Tracing }
    }

    /// Calls `closure` with each warning.
    ///
    /// Calls nothing.
    #[must_use]
    pub fn new(closure: impl Fn(&CudaWarning) + Send + Sync + 'static) -> Self {
        Self { target: Target::User(Arc::new(closure)) }
    }

    /// Gives this sink a warning, outside any channel: how a sink passes on to the one that it replaced.
    ///
    /// Calls nothing.
    pub fn write(&self, warning: &CudaWarning) {
        match &self.target {
            Target::Stderr => write_line(format_args!("warning: {warning}")),
            #[cfg(feature = "tracing")]
            Target::Tracing => emit(warning),
            Target::User(closure) => closure(warning),
        }
    }

    /// Gives this sink a warning of its channel. A panic ends here.
    pub(super) fn write_caught(&self, warning: &CudaWarning) {
        if mutant::is_out("sink-panic") {
            return self.write(warning);
        }
        if let Err(caught) = foreign::call(|| self.write(warning)) {
            write_line(format_args!("the sink panicked, {}, over: {warning}", Head(caught.text())));
        }
    }
}

impl Default for Sink {
    fn default() -> Self {
        Self::stderr()
    }
}

impl From<Box<Closure>> for Sink {
    fn from(closure: Box<Closure>) -> Self {
        Self { target: Target::User(Arc::from(closure)) }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // What a closure holds is foreign, and this may be inside a `Drop` of ours, or unwinding.
        if let Err(caught) = foreign::drop_caught(mem::replace(&mut self.target, Target::Stderr)) {
            write_line(format_args!("dropping a sink panicked, {}", Head(caught.text())));
        }
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.target {
            Target::Stderr => "Sink(stderr)",
            #[cfg(feature = "tracing")]
            Target::Tracing => "Sink(tracing)",
            Target::User(_) => "Sink(closure)",
        })
    }
}

/// The first 48 bytes of a panic's text, which may be of any length.
struct Head<'a>(&'a str);

impl fmt::Display for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(super::text::Text::<48>::new(self.0).as_str())
    }
}

/// Longer than the longest line that a warning without constants of the user's makes; a write of this length to a pipe
/// is atomic.
const LINE_BYTES: usize = 768;

/// Formats one line on the stack and writes it to stderr at once. `eprintln!` would allocate under a test harness and
/// panic on a broken pipe, and takes a lock that another thread may hold for long.
fn write_line(what: fmt::Arguments<'_>) {
    let mut line = Line::<LINE_BYTES>::new();
    // Neither the line nor the library's own `Display`s answer an error.
    let _: fmt::Result = write!(line, "cuhold: {what}");
    write_to_stderr(line.end().as_str().as_bytes());
}

#[cfg(unix)]
fn write_to_stderr(bytes: &[u8]) {
    use std::io;
    loop {
        // SAFETY: the pointer is valid for reading `bytes.len()` bytes while `bytes` is borrowed.
        let written =
            unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
        let interrupted = io::ErrorKind::Interrupted;
        if written >= 0 || io::Error::last_os_error().kind() != interrupted {
            // Nobody is left to hear that stderr is closed or full; the counts have the warning.
            return;
        }
    }
}

#[cfg(not(unix))]
fn write_to_stderr(bytes: &[u8]) {
    use std::io::{self, Write as _};
    // Nobody is left to hear that stderr is closed or full; the counts have the warning.
    let _: io::Result<()> = io::stderr().lock().write_all(bytes);
}

#[cfg(feature = "tracing")]
fn emit(warning: &CudaWarning) {
    use crate::{AnyCall, CompilerFailure, Current};
    use tracing::field;

    let object = warning.object();
    let compiler = warning.compiler_failure();
    let call = warning.call().map(AnyCall::Driver).or(compiler.map(CompilerFailure::call));
    let status = warning.status().map(|status| status.0);
    let current = match warning.current() {
        Current::Is(raw) => Some(raw as u64),
        Current::NotAsked | Current::None | Current::Unknown(_) => None,
    };
    tracing::warn!(
        target: "cuhold",
        kind = field::debug(warning.kind()),
        call = call.map(AnyCall::name),
        status = status.or(compiler.map(CompilerFailure::number)),
        object = object.kind.name(),
        raw = object.raw,
        id = object.id,
        fate = warning.fate().map(field::display),
        current,
        cause = warning.text(),
        "{warning}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Current, Fate, Object, ObjectKind};
    use cuhold_driver_sys::{CUresult, Call, Failure};

    #[test]
    fn the_longest_line_of_the_library_s_own_making_fits() {
        let by_len = |text: &&&str| text.len();
        let call = *Call::ALL.iter().max_by_key(|call| call.name().len()).unwrap();
        let status = *CUresult::KNOWN.iter().max_by_key(|s| s.to_string().len()).unwrap();
        let kind = *ObjectKind::ALL.iter().max_by_key(|kind| kind.name().len()).unwrap();
        let descriptions: Vec<_> = CUresult::KNOWN.iter().flat_map(|s| s.description()).collect();
        let text = descriptions.iter().max_by_key(by_len).unwrap();
        let object = Object { kind, raw: u64::MAX, id: u64::MAX };
        let failure = Failure { call, status };
        for warning in [
            CudaWarning::failed(failure, object, Fate::GoneWithContext),
            CudaWarning::skipped(call, object, failure),
            CudaWarning::mode_not_restored(failure, object, "thread-local"),
            CudaWarning::restore_refused(failure, object, Current::NotAsked),
        ] {
            let line = warning.with_current(Current::Unknown(failure)).to_string();
            let panicked = "cuhold: the sink panicked, , over: \n".len() + 48;
            assert!(line.len() + text.len() + panicked <= LINE_BYTES, "{}", line.len());
        }
    }

    #[test]
    fn a_sink_is_shown_by_its_target() {
        assert_eq!(format!("{:?}", Sink::default()), "Sink(stderr)");
        assert_eq!(format!("{:?}", Sink::new(|_| ())), "Sink(closure)");
    }
}
