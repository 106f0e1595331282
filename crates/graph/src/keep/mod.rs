//! What a graph's nodes use, kept alive as long as any copy, executable or launch under way can use it.
//!
//! ```text
//!   prepare: free places, every 256th time a new chunk ──► driver call ──► commit: stores, which can't fail
//!
//!   Kept ── places ──► chunk 0 ┐
//!                      chunk 1 ├── each a user object that the graph holds: copies and executables inherit it
//!                      chunk 2 ┘
//! ```
//!
//! One user object for each node would cost more than the node itself (measured: 1.2 to 1.5 times, growing with the
//! graph), so a chunk of places shares one.
//!
//! A node that is removed gives its places back at once only if nothing was copied from the graph since: an executable or a
//! copy has the chunk, and with it what its own node still uses. Otherwise they stay as they are for as long as the chunk.

mod places;

pub(crate) use places::{Attached, Reserved};

use cuhold_handles::{
    CudaWarning, Driver, Event, ExternalSemaphore, Graph, KeepAlive, Kernel, Object, ObjectKind,
    Result, UserObject, driver_sys::mutant, foreign,
};
use parking_lot::Mutex;
use places::{CHUNK, Places};
use std::{any::Any, fmt, sync::Arc};

/// Something that a node uses.
#[expect(dead_code, reason = "what is in here is only held, and dropped")]
pub(crate) enum Operand {
    /// Memory, or whatever else a user's argument keeps.
    Value(KeepAlive),
    /// Memory of the host that copies read or write.
    Host(Box<dyn Any + Send>),
    Kernel(Kernel),
    Event(Event),
    Semaphore(Arc<ExternalSemaphore>),
    /// What a host function calls.
    Function(Arc<dyn Any + Send + Sync>),
}

impl fmt::Debug for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Value(_) => "value",
            Self::Host(_) => "host memory",
            Self::Kernel(_) => "kernel",
            Self::Event(_) => "event",
            Self::Semaphore(_) => "external semaphore",
            Self::Function(_) => "function",
        })
    }
}

/// Drops what a node used. It may be the user's, and panic.
fn let_go(operand: Operand, driver: &Driver) {
    if let Err(caught) = foreign::drop_caught(operand) {
        let owner = Object::nameless(ObjectKind::Owner);
        driver.warn(CudaWarning::panicked(owner, caught.payload()));
    }
}

/// Places that share a user object. Shared by it and by the graph, which alone stores and takes.
struct Chunk {
    places: Mutex<Vec<Option<Operand>>>,
    driver: Driver,
}

impl Chunk {
    fn new(driver: &Driver) -> Arc<Self> {
        let mut places = Vec::new();
        places.resize_with(CHUNK, || None);
        Arc::new(Self { places: Mutex::new(places), driver: driver.clone() })
    }

    fn replace(&self, place: usize, operand: Option<Operand>) -> Option<Operand> {
        match self.places.lock().get_mut(place) {
            Some(held) => std::mem::replace(held, operand),
            None => operand,
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // One by one: of two that panic in one vector's drop the second would end the process.
        for operand in std::mem::take(self.places.get_mut()).into_iter().flatten() {
            let_go(operand, &self.driver);
        }
    }
}

struct Anchored {
    chunk: Arc<Chunk>,
    /// The graph's own reference is another one: this is given back with the graph.
    _object: UserObject,
}

/// All that a graph keeps.
#[derive(Default)]
pub(crate) struct Operands {
    chunks: Vec<Anchored>,
    places: Places,
}

impl Operands {
    /// Sees to it that `count` operands can be stored.
    ///
    /// Calls nothing where there are places; else `cuUserObjectCreate`, `cuGraphRetainUserObject`, and
    /// `cuUserObjectRelease` where that failed.
    pub(crate) fn prepare(&mut self, graph: &mut Graph, count: usize) -> Result<Reserved> {
        while !self.places.have(count) {
            self.add_chunk(graph)?;
        }
        Ok(Reserved::of(count))
    }

    #[cold]
    fn add_chunk(&mut self, graph: &mut Graph) -> Result<()> {
        let chunk = Chunk::new(graph.driver());
        // Before the calls, so that nothing can fail after them.
        self.places.reserve_chunk()?;
        self.chunks.reserve(1);
        let object =
            UserObject::new(graph.driver(), Arc::clone(&chunk)).map_err(|refused| refused.error)?;
        if let Err(error) = graph.keep(&object) {
            return Err(match object.close() {
                Ok(_) => error,
                Err(refused) => error.with_undo(&refused.error),
            });
        }
        self.chunks.push(Anchored { chunk, _object: object });
        self.places.add_chunk();
        Ok(())
    }

    /// Stores what a node uses.
    pub(crate) fn commit(
        &mut self,
        reserved: Reserved,
        operands: impl IntoIterator<Item = Operand>,
    ) -> Attached {
        if mutant::is_out("graph-operands") {
            return Attached::default();
        }
        let Self { chunks, places } = self;
        let attached = places.take(reserved, operands, |place, operand| {
            let (chunk, place) = (place / CHUNK, place % CHUNK);
            match chunks.get(chunk) {
                Some(anchored) => anchored.chunk.replace(place, Some(operand)),
                None => Some(operand),
            }
        });
        debug_assert!(attached.is_some(), "prepared for fewer operands than were stored");
        attached.unwrap_or_default()
    }

    /// Lets go of what a removed or changed node used, unless copies may use it still.
    pub(crate) fn release(&mut self, attached: Attached, driver: &Driver) {
        let Self { chunks, places } = self;
        places.give_back(attached, |place| {
            let (chunk, place) = (place / CHUNK, place % CHUNK);
            let held = chunks.get(chunk).and_then(|anchored| anchored.chunk.replace(place, None));
            if let Some(operand) = held {
                let_go(operand, driver);
            }
        });
    }

    /// What is kept, chunk by chunk, for somebody who keeps it as well. What is stored in a chunk later is kept, too.
    pub(crate) fn held(&self) -> impl Iterator<Item = Operand> {
        self.chunks.iter().map(|anchored| {
            let chunk: Arc<Chunk> = Arc::clone(&anchored.chunk);
            Operand::Function(chunk)
        })
    }

    /// The graph is copied, or made executable: what it keeps by now stays as long as it.
    pub(crate) fn copied(&mut self) {
        if !mutant::is_out("graph-copied") {
            self.places.copied();
        }
    }
}

impl fmt::Debug for Operands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operands").field("chunks", &self.chunks.len()).finish_non_exhaustive()
    }
}
