//! The table: a row for each racer, which grows while it runs, and what is said at the end.

use crate::race::Scores;
use std::io::{self, IsTerminal as _, Write as _};

/// What was shown so far.
pub(crate) struct Table {
    threads: Vec<usize>,
    rows: Vec<(&'static str, Vec<Scores>)>,
    /// Whether what stands on a line can be written over.
    is_live: bool,
    wrong: Vec<&'static str>,
}

impl Table {
    /// With its head.
    pub(crate) fn new(threads: &[usize]) -> Self {
        println!("allocations, each freed, in millions a second");
        let heads: Vec<String> = threads.iter().map(|number| format!("{number:>9}")).collect();
        println!("{:>18}{}  threads", "", heads.concat());
        let is_live = io::stdout().is_terminal();
        Self { threads: threads.to_vec(), rows: Vec::new(), is_live, wrong: Vec::new() }
    }

    /// A racer begins.
    pub(crate) fn begin(&mut self, name: &'static str) {
        self.rows.push((name, Vec::new()));
        print!("{name:>18}");
        flush();
    }

    /// The race goes on, at this rate.
    pub(crate) fn show(&self, rate: f64) {
        if self.is_live {
            // Over the last cell: nine places back.
            print!("{}\x1b[9D", cell(rate));
            flush();
        }
    }

    /// The race is over.
    pub(crate) fn end(&mut self, scores: Scores) {
        print!("{}", cell(scores.rate));
        let Some((_, row)) = self.rows.last_mut() else { return };
        row.push(scores);
        if row.len() == self.threads.len() {
            let checked: u64 = row.iter().map(|scores| scores.checked).sum();
            let wrong: u64 = row.iter().map(|scores| scores.wrong).sum();
            println!("  {checked} read back, {wrong} wrong");
            if wrong > 0 || checked == 0 {
                self.wrong.push("what was written was read back");
            }
        }
        flush();
    }

    /// Something that must hold.
    pub(crate) fn check(&mut self, what: &'static str, holds: bool) {
        println!("{}: {what}", if holds { "ok" } else { "WRONG" });
        if !holds {
            self.wrong.push(what);
        }
    }

    /// How much faster one racer is than another one, on each number of threads.
    pub(crate) fn compare(&self, one: &str, other: &str) {
        let row = |name| self.rows.iter().find(|(racer, _)| *racer == name).map(|(_, row)| row);
        let (Some(one_row), Some(other_row)) = (row(one), row(other)) else { return };
        for ((threads, slow), fast) in self.threads.iter().zip(one_row).zip(other_row) {
            let times = fast.rate / slow.rate.max(f64::MIN_POSITIVE);
            println!("on {threads:>2} threads the {other} did {times:.1} times what the {one} did");
        }
    }

    /// Whether all was right.
    pub(crate) fn is_right(&self) -> bool {
        for what in &self.wrong {
            println!("WRONG: {what}");
        }
        self.wrong.is_empty()
    }
}

fn cell(rate: f64) -> String {
    format!("{rate:>9.3}")
}

/// A program that can't write has nobody who reads.
fn flush() {
    drop(io::stdout().flush());
}
