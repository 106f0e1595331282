//! Marks: events behind launches, by which it is known that they are over.

use super::kept::Launch;
use cuhold_handles::{Driver, Event, EventOptions, Result, Stream, scope};
use std::collections::VecDeque;

/// The marks of an executable.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// In the order of the launches behind which they stand.
    pending: VecDeque<(Launch, Event)>,
    /// An event to be used again.
    spare: Option<Event>,
}

impl Marks {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Puts a mark behind what is on the stream by now, the newest of which is this launch.
    ///
    /// Calls `cuEventRecord`; `cuEventCreate` where no event of the stream's context is there, and `cuEventDestroy` where
    /// that is undone.
    pub(super) fn put(&mut self, launch: Launch, stream: &Stream) -> Result<()> {
        let context = stream.context().as_raw();
        let spare = self.spare.take_if(|event| event.context().as_raw() == context);
        let event = match spare {
            None => stream.record_new(EventOptions::default())?,
            Some(event) => {
                if let Err(error) = stream.record(&event) {
                    self.spare = Some(event);
                    return Err(error);
                }
                event
            }
        };
        self.pending.push_back((launch, event));
        Ok(())
    }

    /// Looks for marks that are reached. Gives the newest launch that is known to be over by that, also where something
    /// fails.
    ///
    /// Calls `cuEventQuery`, in relaxed capture mode, until one isn't reached; nothing where there is no mark.
    pub(super) fn look(&mut self, driver: &Driver) -> (Option<Launch>, Result<()>) {
        let mut over = None;
        if self.pending.is_empty() {
            return (over, Ok(()));
        }
        let look = || {
            while let Some((launch, event)) = self.pending.front() {
                if !event.is_done()? {
                    break;
                }
                over = Some(*launch);
                let done = self.pending.pop_front();
                self.spare = self.spare.take().or(done.map(|(_, event)| event));
            }
            Ok(())
        };
        let result = scope::neutral(driver, look, |(), error| error);
        (over, result)
    }
}
