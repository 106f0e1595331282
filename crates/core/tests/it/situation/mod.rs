//! Every type of object of the resource table in situations that a program can get into, each in a process of its own,
//! the same on the simulated and on the real driver: after a fatal error, with a context that somebody else ended or
//! reset, at exit, in the destructors of thread-locals, in a forked child.

#![expect(unsafe_code, reason = "does to the driver what foreign code may do")]

#[cfg(test)]
mod capture;
#[cfg(test)]
mod end;
#[cfg(test)]
mod fatal;
#[cfg(test)]
mod fork;
#[cfg(test)]
mod gone;

use crate::resources::{Value, make};
use cuhold::Object;
use cuhold_handles::table::{EndsOn, RESOURCES};
use cuhold_testkit::Kit;
use std::process;

/// With what a process ends that came through.
const THROUGH: i32 = 42;

/// An object of each row of the table, with what was made for it and outlives it.
fn everything(t: &Kit) -> Vec<(Value, Value)> {
    let rows = RESOURCES.iter().filter(|row| row.ends_on != EndsOn::Driver);
    rows.map(|row| make(t, row.kind)).collect()
}

/// Ends this process, which came through, with nothing of it run any more.
fn through() -> ! {
    // SAFETY: ends this process, which runs nothing but this test.
    unsafe { libc::_exit(THROUGH) }
}

/// Ends this process, which came through, as a program ends: with its handlers and destructors.
fn through_exit() -> ! {
    process::exit(THROUGH)
}

/// How often each object is told about, the same object's several numbers aside.
fn times(objects: impl Iterator<Item = Object>) -> Vec<(Object, usize)> {
    let mut counted: Vec<(Object, usize)> = Vec::new();
    for object in objects {
        match counted.iter_mut().find(|(known, _)| *known == object) {
            Some((_, count)) => *count += 1,
            None => counted.push((object, 1)),
        }
    }
    counted
}
