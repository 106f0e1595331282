//! CUDA graphs, by definition and by capture. A skeleton so far: it holds no type yet.
