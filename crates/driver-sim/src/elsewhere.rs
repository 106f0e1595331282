//! Waiting for work of another process of the machine.
//!
//! A recorded event between processes says which process recorded it last, and where in its queues the record stands.
//! Whoever waits for it runs that process's work, on its own thread and with its own state unlocked, since nobody else
//! may be about to: a piece at a time, so that two processes that wait for each other's events in turn both go on. That
//! is the one place where a process reaches into another.
//!
//! What a process does that was ended is never waited for.

use std::sync::{Arc, Weak};

use cuhold_driver_sys::{CUresult, Call, Life};
use parking_lot::MutexGuard;

use crate::{
    memory::SharedEvent,
    order::Clock,
    queue::{Next, Point, Work},
    world::{Answer, Inner, Turn, World},
};

/// The driver of a process as another one knows it: it may be gone.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere(Weak<Inner>);

/// What helping another process came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Helped {
    /// There is nothing left to wait for: it is done, or never will be.
    Over,
    /// A piece of its work ran.
    Ran,
    /// It can't go on by itself.
    Stuck,
}

impl Elsewhere {
    /// Runs one piece of work towards `goal`, or of a process that it waits for in turn. `asked` are the processes that
    /// were asked before.
    fn help(&self, goal: Point, asked: &mut Vec<u64>) -> Helped {
        let Some(world) = self.0.upgrade().map(World::of) else { return Helped::Over };
        if world.life() != Life::Live {
            return Helped::Over;
        }
        let mut turn = world.turn(Call::cuStreamQuery);
        let process = turn.state.memory.process;
        if asked.contains(&process) {
            return Helped::Stuck;
        }
        asked.push(process);
        match turn.next_towards(goal) {
            Next::Done => Helped::Over,
            Next::Run(queue) => {
                turn.step(queue);
                turn.release_user_references();
                Helped::Ran
            }
            Next::Busy => Helped::Stuck,
            Next::Blocked => turn.help_others(asked),
        }
    }
}

/// A stream's wait for an event's record of another process.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    event: Arc<SharedEvent>,
    /// The record's number.
    number: u64,
}

impl Wait {
    /// For the newest record.
    pub(crate) fn for_newest(event: Arc<SharedEvent>) -> Self {
        let number = event.newest();
        Self { event, number }
    }

    /// What was done before the record, and before any other of the event that was reached.
    pub(crate) fn known(&self) -> Clock {
        self.event.known()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.event.is_reached(self.number)
    }

    fn help(&self, asked: &mut Vec<u64>) -> Helped {
        match self.event.maker(self.number) {
            // The process is just about to say where it is, or it was reached meanwhile.
            None => Helped::Stuck,
            Some((elsewhere, goal)) => match elsewhere.help(goal, asked) {
                Helped::Over => {
                    self.event.give_up(self.number);
                    Helped::Ran
                }
                helped => helped,
            },
        }
    }
}

impl Turn<'_> {
    /// This driver, for other processes.
    pub(crate) fn elsewhere(&self) -> Elsewhere {
        Elsewhere(self.world.downgrade())
    }

    /// Waits on this thread for a record of another process. Work of this one goes on meanwhile where that is what the
    /// other one waits for.
    pub(crate) fn complete_elsewhere(&mut self, wait: &Wait) -> Answer {
        while !wait.is_over() {
            self.not_lost()?;
            if self.is_inside_callback() {
                return Err(CUresult::NOT_PERMITTED);
            }
            if self.help_once(wait, &mut Vec::new()) == Helped::Stuck {
                self.pass();
            }
        }
        self.state.host_learns(&wait.known());
        Ok(())
    }

    /// Helps the process that a wait is for, with nothing of this one locked.
    pub(crate) fn help_once(&mut self, wait: &Wait, asked: &mut Vec<u64>) -> Helped {
        asked.push(self.state.memory.process);
        MutexGuard::unlocked(&mut self.state, || wait.help(asked))
    }

    /// Helps the processes that streams of this one wait for now, until one of them went on.
    pub(crate) fn help_others(&mut self, asked: &mut Vec<u64>) -> Helped {
        let fronts = self.state.queues.fronts();
        let waits: Vec<Wait> = fronts
            .filter_map(|work| match work {
                Work::Elsewhere(wait) if !wait.is_over() => Some(wait.clone()),
                _ => None,
            })
            .collect();
        for wait in waits {
            if self.help_once(&wait, asked) == Helped::Ran {
                return Helped::Ran;
            }
        }
        Helped::Stuck
    }
}
