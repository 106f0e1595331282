//! CUDA resources that a program can hold for weeks.
