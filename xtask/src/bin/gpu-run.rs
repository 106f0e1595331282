//! The runner that a bundle carries to the GPU host: see the library's module `gpu`.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::gpu_run()
}
