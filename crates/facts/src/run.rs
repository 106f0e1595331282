//! Taking a reading: every question in a fresh state, several at once, each with a time limit.
//!
//! A simulated driver is made anew for each question, on a thread of its own. A real one is asked in a process of its
//! own: this program again, which says each word of the answer as it is found, so that a process that the driver ends
//! has said what came before.

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    ctx::Subject,
    describe::describe,
    driver,
    export::{Beside, Export},
    matrix::NO_OTHER_DEVICE,
    probe::Question,
    reading::Reading,
};

/// How long one question may take.
const LIMIT: Duration = Duration::from_secs(20);
/// The line that ends an answer.
const END: &str = ".";

/// Whose answers a reading takes.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "there is no third kind")]
pub enum Target {
    /// The simulated driver.
    Sim,
    /// The driver of this machine, at a path or wherever it is found.
    Real(Option<PathBuf>),
}

impl Target {
    /// As a reading names it, and as this program takes it as an argument.
    fn name(&self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Real(_) => "real",
        }
    }

    /// A driver on which nothing was called yet. A simulated one has so many devices, a real one what the machine has.
    fn fresh(&self, devices: usize) -> io::Result<Subject> {
        match self {
            Self::Sim => Ok(driver::simulated(devices)),
            Self::Real(path) => {
                let target = self.clone();
                let others = Arc::new(Mutex::new(Vec::new()));
                let to_end = Arc::clone(&others);
                let beside = move |what: Export| {
                    let (exported, process) = what.by_process(&target).ok()?;
                    others.lock().push(process);
                    Some(exported)
                };
                let end = move || to_end.lock().iter_mut().for_each(Beside::kill);
                driver::real(path.as_deref()).map(|subject| subject.beside(beside, end))
            }
        }
    }

    /// Names it to this program, started again.
    pub(crate) fn name_to(&self, command: &mut Command) {
        command.args(["--driver", self.name()]);
        if let Self::Real(Some(path)) = self {
            command.arg("--libcuda").arg(path);
        }
    }
}

/// How a reading is taken.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// Whose answers.
    pub target: Target,
    /// Whether each question to the simulated driver, too, is asked in a process of its own.
    pub in_processes: bool,
    /// How many questions are asked at once.
    pub at_once: usize,
    /// Only questions whose name holds this text.
    pub only: Option<String>,
    /// The day, written into the reading as it is.
    pub date: String,
}

impl Plan {
    /// All questions to the simulated driver.
    #[must_use]
    pub fn simulated() -> Self {
        let target = Target::Sim;
        Self { target, in_processes: false, at_once: 1, only: None, date: String::new() }
    }

    /// Asks all questions of the plan.
    ///
    /// # Errors
    /// Where the real driver can't be loaded or a process can't be started; the text says which.
    pub fn take(&self) -> io::Result<Reading> {
        let questions: Vec<Question> = Question::all()
            .into_values()
            .filter(|q| self.only.as_ref().is_none_or(|text| q.name().contains(text.as_str())))
            .collect();
        let (device, version) = self.describe()?;
        let next = AtomicUsize::new(0);
        let answers = Mutex::new(BTreeMap::new());
        let ask_one_by_one = || {
            while let Some(question) = questions.get(next.fetch_add(1, Ordering::Relaxed)) {
                let answer = self.ask(question);
                answers.lock().insert(question.name().to_owned(), answer);
            }
        };
        thread::scope(|scope| {
            for _ in 0..self.at_once.max(1) {
                scope.spawn(ask_one_by_one);
            }
        });
        let answers = answers.into_inner().into_iter().map(|(name, answer)| Ok((name, answer?)));
        let mut answers = answers.collect::<io::Result<BTreeMap<String, String>>>()?;
        // What the machine couldn't be asked has no answer.
        answers.retain(|_, answer| answer != NO_OTHER_DEVICE);
        Ok(Reading {
            driver: self.target.name().to_owned(),
            device,
            version,
            date: self.date.clone(),
            answers,
        })
    }

    fn ask(&self, question: &Question) -> io::Result<String> {
        if self.is_asked_in_threads() {
            return Ok(ask_in_thread(question.clone()));
        }
        let overwrites = question.probe().overwrites_freed();
        let (words, fate) = in_process(&self.target, &["--probe", question.name()], overwrites)?;
        Ok(answer(words, fate))
    }

    /// The device's name and the driver's version.
    fn describe(&self) -> io::Result<(String, i32)> {
        if self.is_asked_in_threads() {
            return Ok(describe(&driver::simulated(1)));
        }
        let (lines, fate) = in_process(&self.target, &["--describe"], false)?;
        let mut lines = lines.into_iter();
        match (lines.next(), lines.next().and_then(|v| v.parse().ok()), fate) {
            (Some(device), Some(version), Fate::Done) => Ok((device, version)),
            (text, ..) => Err(io::Error::other(
                text.unwrap_or_else(|| "the driver gave no answer at all".to_owned()),
            )),
        }
    }

    fn is_asked_in_threads(&self) -> bool {
        matches!(self.target, Target::Sim) && !self.in_processes
    }
}

/// Asks the simulated driver, on a thread that is left behind if it doesn't come back.
fn ask_in_thread(question: Question) -> String {
    let (tell, told) = mpsc::channel();
    let asking = thread::spawn(move || {
        let answer = question.ask(driver::simulated(question.devices()), None);
        // Nobody listens any more where the limit has passed.
        drop(tell.send(answer));
    });
    match told.recv_timeout(LIMIT) {
        Ok(answer) => answer,
        Err(RecvTimeoutError::Timeout) => OVER_LIMIT.to_owned(),
        Err(RecvTimeoutError::Disconnected) => {
            let text = asking.join().err().and_then(|panic| {
                panic
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            });
            format!("panic: {}", text.unwrap_or_default())
        }
    }
}

/// What a driver answers that doesn't come back.
const OVER_LIMIT: &str = "no answer within 20 s";

/// How a process ended.
enum Fate {
    Done,
    OverLimit,
    Ended(ExitStatus),
}

/// This program again, in a process of its own: the lines that it wrote, and how it ended. `overwrites`: the C library of
/// that process overwrites what it frees.
fn in_process(
    target: &Target,
    arguments: &[&str],
    overwrites: bool,
) -> io::Result<(Vec<String>, Fate)> {
    let mut command = Command::new(std::env::current_exe()?);
    target.name_to(&mut command);
    if overwrites {
        command.env("MALLOC_PERTURB_", "165");
    }
    command.args(arguments);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let lines = read_lines(&mut child)?;
    let deadline = Instant::now() + LIMIT;
    let mut words = Vec::new();
    let fate = loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) if line == END => break Fate::Done,
            Ok(line) => words.push(line),
            Err(RecvTimeoutError::Timeout) => break Fate::OverLimit,
            Err(RecvTimeoutError::Disconnected) => break Fate::Ended(child.wait()?),
        }
    };
    // What is said is said: a driver's slow or hanging end is of no interest. Refused if it has ended already.
    drop(child.kill());
    child.wait()?;
    Ok((words, fate))
}

fn read_lines(child: &mut Child) -> io::Result<mpsc::Receiver<String>> {
    let output = child.stdout.take().ok_or_else(|| io::Error::other("the output is not piped"))?;
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    Ok(told)
}

fn answer(mut words: Vec<String>, fate: Fate) -> String {
    match fate {
        Fate::Done => {}
        Fate::OverLimit => words.push(OVER_LIMIT.to_owned()),
        Fate::Ended(status) => words.push(ended(status)),
    }
    words.join(" ")
}

#[cfg(unix)]
fn ended(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, code) => format!("exit {}", code.unwrap_or_default()),
    }
}

#[cfg(not(unix))]
fn ended(status: ExitStatus) -> String {
    format!("exit {}", status.code().unwrap_or_default())
}

/// What the process does that [`Plan::take`] starts for one question: asks it and writes the words, one a line.
///
/// # Errors
/// Where there is no such question, the driver can't be loaded, or the output is closed.
pub fn answer_alone(target: &Target, name: &str) -> io::Result<()> {
    let question = Question::all()
        .remove(name)
        .ok_or_else(|| io::Error::other(format!("there is no question `{name}`")))?;
    let subject = target.fresh(question.devices())?;
    drop(question.ask(subject, Some(write_word)));
    write_line(END)
}

/// What the process does that asks who the driver is.
///
/// # Errors
/// As [`answer_alone`].
pub fn describe_alone(target: &Target) -> io::Result<()> {
    match target.fresh(1) {
        Ok(subject) => {
            let (device, version) = describe(&subject);
            write_line(&device)?;
            write_line(&version.to_string())?;
            write_line(END)
        }
        Err(error) => write_line(&error.to_string()),
    }
}

/// What the process does that stands beside a question's: exports something and waits for the end of its input.
///
/// # Errors
/// Where the driver can't be loaded or the output is closed.
pub fn export_alone(target: &Target, what: Export) -> io::Result<()> {
    what.alone(target.fresh(1)?)
}

fn write_word(word: &str) {
    // A closed output means that nobody listens: the process that did was ended, and so is this one soon.
    drop(write_line(word));
}

fn write_line(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", line.replace('\n', " "))?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_before_the_end_is_part_of_the_answer() {
        let words = vec!["SUCCESS".to_owned(), "depth=0".to_owned()];
        assert_eq!(answer(words.clone(), Fate::Done), "SUCCESS depth=0");
        assert_eq!(answer(words, Fate::OverLimit), "SUCCESS depth=0 no answer within 20 s");
    }

    #[cfg(unix)]
    #[test]
    fn a_signal_is_an_answer() {
        use std::os::unix::process::ExitStatusExt as _;
        assert_eq!(answer(Vec::new(), Fate::Ended(ExitStatus::from_raw(11))), "signal 11");
        assert_eq!(answer(Vec::new(), Fate::Ended(ExitStatus::from_raw(256))), "exit 1");
    }
}
