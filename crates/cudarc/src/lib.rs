//! Contexts, streams and memory exchanged with [`cudarc`], in both directions, with the ownership said in types.
//!
//! A [`Bridge`] is made once, from a driver; it makes sure that cudarc has loaded the same library. Nothing that goes
//! through it is copied: both libraries work on the same contexts, streams and bytes.
//!
//! # Who ends what
//!
//! | from | to | by | who ends it |
//! |---|---|---|---|
//! | `Arc<CudaContext>` of a primary context | [`Device`](handles::Device) | [`Bridge::device`] | each its own retain |
//! | `Arc<CudaContext>` that was created | [`Context`](handles::Context) | [`Bridge::borrow_context`] | cudarc; ours keeps the `Arc` |
//! | [`Device`](handles::Device) | `Arc<CudaContext>` | [`Bridge::retain_context`] | each its own retain |
//! | [`Context`](handles::Context) | [`LentContext`] | [`Bridge::lend_context`] | this library, once cudarc has let go of it |
//! | `Arc<CudaStream>` | [`Stream`](handles::Stream) | [`Bridge::borrow_stream`] | cudarc; ours keeps the `Arc` |
//! | [`Stream`](handles::Stream) | [`LentStream`] | [`Bridge::lend_stream`] | this library, once cudarc has let go of it |
//! | `CudaSlice<T>` | [`Buffer<T>`](memory::Buffer) | [`Bridge::take_slice`] | this library, on the buffer's home stream |
//! | `CudaSlice<T>` | [`Buffer<T>`](memory::Buffer) | [`Bridge::hold_slice`] | cudarc, on the stream that the slice was allocated on |
//! | [`Buffer<T>`](memory::Buffer) | `CudaSlice<T>` | [`Bridge::give_buffer`] | cudarc, on the stream that was named |
//! | `&Buffer<T>`, `&mut Buffer<T>` | [`BufferArg`], [`BufferArgMut`] | [`Bridge::with_buffer`], [`Bridge::with_buffer_mut`] | this library: cudarc has them for the length of a closure |
//!
//! # What cudarc does otherwise, and what that means here
//!
//! | cudarc | here |
//! |---|---|
//! | makes its context current in each operation, and leaves it so | what the bridge asks of it is done with the caller's context put back; a program that calls cudarc itself has cudarc's context current afterwards, and no operation of this library minds |
//! | releases its retain of the primary context with the last `Arc<CudaContext>` | this library has a retain of its own: neither takes the context away from the other |
//! | frees a slice on the stream that it was allocated on | so does a slice that is held; one that was taken is freed on the buffer's home stream |
//! | keeps the error of a drop, and answers it to the next call that asks | where the bridge drops something of cudarc's, that error is a warning on the driver's channel, and what was kept before is left for cudarc's next call |
//! | drops wherever the last `Arc` ends, also where the call waits, in somebody's capture or in a callback | what this library keeps of cudarc's ends on the [reclaimer](handles::Reclaim) |
//! | orders what uses a slice on several streams by two events of the slice | a buffer is ordered with one stream of cudarc's for the length of a closure |
//! | panics where it can't make those events | the panic is caught, and the memory stays ours |
//!
//! The calls that cudarc makes go to the library directly: hooks of the driver neither see them nor make them fail.
//!
//! What has no bridge: the per-thread default stream (it means another stream on each thread), events, cudarc's pinned and
//! unified memory, its modules and graphs. Raw handles go through their `borrow_raw`.
//!
//! # Examples
//! ```no_run
//! use cuhold_cudarc::{Bridge, cudarc::driver::CudaContext, memory::Buffer};
//!
//! let theirs = CudaContext::new(0)?;
//! let bridge = Bridge::load()?;
//! // A stream of cudarc's, used by this library, and memory of this library, read by cudarc.
//! let queue = theirs.new_stream()?;
//! let stream = bridge.borrow_stream(&queue)?;
//! let buffer = Buffer::from_slice(&stream, &[1.0_f32, 2.0, 3.0])?;
//! let doubled = bridge.with_buffer(&buffer, &queue, |values| queue.clone_dtoh(values))??;
//! assert_eq!(doubled, [1.0, 2.0, 3.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arg;
mod bridge;
mod context;
mod held;
mod kept;
mod loan;
mod order;
mod slice;
mod stream;

pub use arg::{BufferArg, BufferArgMut};
pub use bridge::Bridge;
pub use context::LentContext;
pub use cudarc;
pub use cuhold_handles as handles;
pub use cuhold_memory as memory;
pub use stream::LentStream;
