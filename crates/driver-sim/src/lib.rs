//! The CUDA driver without a GPU: it answers like the driver, measured, and derives its answers from state.
