//! `cargo xtask codegen`: fetches the headers and libclang, then runs the generator (`xtask/codegen`).

use crate::{Result, wheels, workspace};

/// Writes the C types, or with `check` compares them; compares the function list with the headers either way.
pub(crate) fn run(check: bool) -> Result<()> {
    let header = wheels::find(&wheels::fetch(wheels::HEADERS)?, "cuda.h")?;
    let libclang = wheels::find(&wheels::fetch(wheels::LIBCLANG)?, "libclang.so")?;
    let (Some(headers), Some(libclang)) = (header.parent(), libclang.parent()) else {
        return Err("a wheel's file has no folder".to_owned());
    };
    let root = workspace::root();
    let mut command = workspace::cargo(&["run", "--quiet", "--locked", "--manifest-path"]);
    command.arg(root.join("xtask/codegen/Cargo.toml"));
    command.arg("--").arg(headers).arg(&root).args(check.then_some("--check"));
    workspace::run(command.env("LIBCLANG_PATH", libclang))
}
