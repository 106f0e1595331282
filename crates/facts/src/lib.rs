//! Conformance probes: one set of questions to any CUDA driver.
