//! Reads the resource table, `const RESOURCES: &[…] = &[row, …]`, in `crates/handles/src/table.rs`.

use crate::Result;
use std::{fs, path::Path};

/// Where the table stands, from the root.
const FILE: &str = "crates/handles/src/table.rs";

/// How many rows the table has.
pub(crate) fn count(root: &Path) -> Result<usize> {
    let text = fs::read_to_string(root.join(FILE)).map_err(|e| format!("{FILE}: {e}"))?;
    rows(&text).map_err(|e| format!("{FILE}: {e}"))
}

fn rows(text: &str) -> Result<usize> {
    let file = syn::parse_file(text).map_err(|e| e.to_string())?;
    for item in file.items {
        let (name, value) = match item {
            syn::Item::Const(item) => (item.ident, item.expr),
            syn::Item::Static(item) => (item.ident, item.expr),
            _ => continue,
        };
        if name != "RESOURCES" {
            continue;
        }
        let array = match *value {
            syn::Expr::Reference(reference) => *reference.expr,
            other => other,
        };
        return match array {
            syn::Expr::Array(array) => Ok(array.elems.len()),
            _ => Err("RESOURCES isn't an array".to_owned()),
        };
    }
    Err("no RESOURCES".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_elements_of_the_array() {
        assert_eq!(
            rows("const A: u8 = 1; pub const RESOURCES: &[Row] = &[row(1), Row { a: [1, 2] }];"),
            Ok(2)
        );
        assert!(rows("const RESOURCES: &[Row] = ROWS;").is_err());
        assert!(rows("const OTHER: &[u8] = &[1];").is_err());
    }
}
