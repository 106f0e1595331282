//! Running one test in a process of its own: with variables, forking, exiting, or with a driver that is lost afterwards.

use std::{
    env,
    ffi::OsStr,
    process::{Command, Output},
};

const MARK: &str = "CUHOLD_TEST_ALONE";

/// A test that runs again in a process of its own, on that process's only thread.
#[derive(Debug)]
pub struct Alone {
    test: String,
    command: Command,
}

impl Alone {
    /// `test` is the name of the calling test, with its module: `process::a_child_…`.
    #[must_use]
    pub fn new(test: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", test, "--test-threads=1", "--nocapture"]).env(MARK, test);
        Self { test: test.to_owned(), command }
    }

    /// Sets a variable there.
    #[must_use]
    pub fn with(mut self, variable: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(variable, value);
        self
    }

    /// Hides a variable there.
    #[must_use]
    pub fn without(mut self, variable: &str) -> Self {
        self.command.env_remove(variable);
        self
    }

    /// Runs the test there, which must pass; gives what it printed.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn run(self) -> String {
        let (test, output) = self.output();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let passed = output.status.success() && printed.contains("1 passed");
        assert!(passed, "{test} ended with {}:\n{printed}{}", output.status, errors(&output));
        printed
    }

    /// Runs the test there, which ends its process with this code; gives what it printed.
    #[expect(clippy::must_use_candidate, reason = "called for what it does")]
    pub fn run_to_exit(self, code: i32) -> String {
        let (test, output) = self.output();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let (ended, errors) = (output.status.code(), errors(&output));
        assert_eq!(ended, Some(code), "{test} ended with {}:\n{printed}{errors}", output.status);
        printed
    }

    /// Runs the test there, which ends its process with this code and writes nothing to standard error.
    pub fn run_to_silent_exit(self, code: i32) {
        let (test, output) = self.output();
        let printed = String::from_utf8_lossy(&output.stdout);
        let (ended, errors) = (output.status.code(), errors(&output));
        assert_eq!(ended, Some(code), "{test} ended with {}:\n{printed}{errors}", output.status);
        assert_eq!(errors, "", "{test}");
    }

    fn output(mut self) -> (String, Output) {
        let output = self.command.output().unwrap();
        (self.test, output)
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether this is the process of its own of the test of that name.
#[must_use]
pub fn is_alone(test: &str) -> bool {
    env::var_os(MARK).is_some_and(|mark| mark == test)
}
