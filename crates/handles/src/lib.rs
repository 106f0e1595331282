//! Every CUDA driver object as an owned handle, under one written failure policy.
