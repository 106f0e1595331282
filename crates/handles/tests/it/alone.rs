//! Running one test in a process of its own: with variables, forking, exiting.

use std::{env, ffi::OsStr, process::Command};

const MARK: &str = "CUHOLD_TEST_ALONE";

/// A test that runs again in a process of its own, on that process's only thread.
pub(crate) struct Alone {
    test: String,
    command: Command,
}

impl Alone {
    /// `test` is the name of the calling test, with its module: `process::a_child_…`.
    pub(crate) fn new(test: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", test, "--test-threads=1", "--nocapture"]).env(MARK, test);
        Self { test: test.to_owned(), command }
    }

    /// Sets a variable there.
    pub(crate) fn with(mut self, variable: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(variable, value);
        self
    }

    /// Runs the test there, which must pass; gives what it printed.
    pub(crate) fn run(mut self) -> String {
        let output = self.command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && printed.contains("1 passed"),
            "{} ended with {}:\n{printed}{errors}",
            self.test,
            output.status
        );
        printed
    }

    /// Runs the test there, which ends its process with this code; gives what it printed.
    pub(crate) fn run_to_exit(mut self, code: i32) -> String {
        let output = self.command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{}:\n{printed}{errors}", self.test);
        printed
    }
}

/// Whether this is the process of its own of the test of that name.
pub(crate) fn is_alone(test: &str) -> bool {
    env::var_os(MARK).is_some_and(|mark| mark == test)
}
