//! Makes the C types of `driver-sys` from `cuda.h` and compares its function list with `cudaTypedefs.h`.
//!
//! Called by `cargo xtask codegen`, which fetches the headers and libclang:
//! `cuhold-codegen HEADERS WORKSPACE [--check]`. Without `--check` the types file is written; with it, a difference is
//! an error. The headers themselves are never committed.

mod functions;
#[path = "../../src/list.rs"]
mod list;
mod types;

use std::{env, fs, path::Path, process::ExitCode};

fn run() -> Result<(), String> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [headers, workspace, flags @ ..] = arguments.as_slice() else {
        return Err("usage: cuhold-codegen HEADERS WORKSPACE [--check]".into());
    };
    if env::var_os("LIBCLANG_PATH").is_none() {
        return Err("LIBCLANG_PATH must name libclang.so's folder: `cargo xtask codegen` fetches it and does so".into());
    }
    let check = flags.iter().any(|flag| flag == "--check");
    let (headers, workspace) = (Path::new(headers), Path::new(workspace));
    let driver_sys = workspace.join("crates/driver-sys/src");

    let made = types::generate(headers)?;
    let file = driver_sys.join("generated/types.rs");
    if check {
        let committed =
            fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        if committed != made {
            return Err(format!(
                "{} isn't what the headers give: run `cargo xtask codegen`",
                file.display()
            ));
        }
    } else {
        fs::write(&file, made).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    let report = functions::compare(headers, &driver_sys)?;
    println!("{report}");
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("codegen: {message}");
            ExitCode::FAILURE
        }
    }
}
