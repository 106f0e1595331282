//! Gives the library the name by which programs and other libraries know a driver that is loaded already, and has it stay
//! loaded: what a thread or the process does at its end leads back into it (closed before that, it ended the process by
//! SIGSEGV: tried).

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
