//! Stream-ordered CUDA memory: pools, buffers, host buffers and the copies between them.
