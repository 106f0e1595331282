//! Adds up the result lines of `cargo test`.

use std::fmt;

/// How many tests did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    pub(crate) filtered_out: u64,
}

impl Tally {
    /// The sum over all lines `test result: ok. 3 passed; 0 failed; …` in the output of `cargo test`.
    pub(crate) fn of(output: &str) -> Self {
        let mut tally = Self::default();
        for line in output.lines() {
            let Some(result) = line.strip_prefix("test result: ") else { continue };
            let Some((_, counts)) = result.split_once(". ") else { continue };
            for count in counts.split(';') {
                tally.count(count.trim());
            }
        }
        tally
    }

    fn count(&mut self, count: &str) {
        let Some((number, what)) = count.split_once(' ') else { return };
        let Ok(number) = number.parse::<u64>() else { return };
        match what {
            "passed" => self.passed += number,
            "failed" => self.failed += number,
            "ignored" => self.ignored += number,
            "filtered out" => self.filtered_out += number,
            _ => {}
        }
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.filtered_out += other.filtered_out;
    }
}

/// As `cargo test` writes it, without the time.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, ignored, filtered_out } = self;
        write!(
            f,
            "{passed} passed; {failed} failed; {ignored} ignored; 0 measured; {filtered_out} filtered out"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_binaries_add_up() {
        let output = "running 3 tests\ntest a ... ok\n\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s\n\
            test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n";
        let tally = Tally::of(output);
        assert_eq!(tally, Tally { passed: 4, failed: 2, ignored: 1, filtered_out: 2 });
        assert_eq!(tally.to_string(), "4 passed; 2 failed; 1 ignored; 0 measured; 2 filtered out");
    }

    #[test]
    fn other_lines_count_nothing() {
        assert_eq!(Tally::of("test result: maybe\n5 passed; 1 failed\n"), Tally::default());
    }
}
