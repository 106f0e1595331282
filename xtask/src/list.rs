//! Reads the list of driver functions out of `crates/driver-sys/src/list/*.rs`.
//!
//! Both the figures and the code generator read the list through this one parser; the generator includes this file,
//! since it is a workspace of its own. It works on tokens, because the list stands in the bodies of macros.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::{fs, path::Path};

/// One function of the list with its forms, newest first.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The name in CUDA's documentation.
    pub(crate) name: String,
    /// One for each signature that some supported driver has.
    pub(crate) forms: Vec<Form>,
}

/// One exported symbol with its signature.
#[derive(Debug)]
pub(crate) struct Form {
    /// The exported C symbol.
    pub(crate) symbol: String,
    /// The CUDA version that brought this signature, as in `12030`.
    pub(crate) version: u32,
    /// `name: type, …` as it stands in the list.
    pub(crate) arguments: TokenStream,
}

/// Reads every entry of the list in `folder`, in the order of the files' names.
pub(crate) fn read(folder: &Path) -> Result<Vec<Entry>, String> {
    let said = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(said)? {
        files.push(entry.map_err(said)?.path());
    }
    files.retain(|file| file.extension().is_some_and(|e| e == "rs"));
    files.sort();
    let mut entries = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        entries.extend(parse(&text).map_err(|e| format!("{}: {e}", file.display()))?);
    }
    Ok(entries)
}

/// Finds the entries in one file's text: `name kind context capture waits { … }`, at any depth.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>, String> {
    let tokens: TokenStream = text.parse().map_err(|e| format!("not Rust: {e}"))?;
    let mut entries = Vec::new();
    find(tokens, &mut entries)?;
    Ok(entries)
}

fn find(tokens: TokenStream, entries: &mut Vec<Entry>) -> Result<(), String> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut rest = tokens.as_slice();
    while let Some((first, after)) = rest.split_first() {
        if let [
            TokenTree::Ident(name),
            TokenTree::Ident(_),
            TokenTree::Ident(_),
            TokenTree::Ident(_),
            TokenTree::Ident(_),
            TokenTree::Group(body),
            tail @ ..,
        ] = rest
            && body.delimiter() == Delimiter::Brace
        {
            let name = name.to_string();
            let forms = forms(body).map_err(|e| format!("{name}: {e}"))?;
            entries.push(Entry { name, forms });
            rest = tail;
            continue;
        }
        if let TokenTree::Group(group) = first {
            find(group.stream(), entries)?;
        }
        rest = after;
    }
    Ok(())
}

/// `symbol version (arguments);`, one or more times.
fn forms(body: &Group) -> Result<Vec<Form>, String> {
    let tokens: Vec<TokenTree> = body.stream().into_iter().collect();
    let mut rest = tokens.as_slice();
    let mut forms = Vec::new();
    while !rest.is_empty() {
        let [
            TokenTree::Ident(symbol),
            TokenTree::Literal(version),
            TokenTree::Group(arguments),
            TokenTree::Punct(end),
            tail @ ..,
        ] = rest
        else {
            return Err("a form reads `symbol version (arguments);`".to_owned());
        };
        if arguments.delimiter() != Delimiter::Parenthesis || end.as_char() != ';' {
            return Err(format!("{symbol}: a form reads `symbol version (arguments);`"));
        }
        let version = version.to_string();
        let version = version.parse().map_err(|e| format!("{symbol}: version {version}: {e}"))?;
        forms.push(Form { symbol: symbol.to_string(), version, arguments: arguments.stream() });
        rest = tail;
    }
    if forms.is_empty() { Err("no form".to_owned()) } else { Ok(forms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_inside_macros_with_all_their_forms() {
        let text = "macro_rules! list { ($g:path) => { $g! {
            cuA Create Owner Unsafe No { cuA_v2 12000 (x: *mut c_int, y: u32); cuA 2000 (); }
            // cuB Create Owner Unsafe No { cuB 2000 (); }
            cuC Query Ignored Neutral No { cuC 3020 (); }
        } } }";
        let entries = parse(text).unwrap();
        let seen: Vec<_> = entries
            .iter()
            .flat_map(|e| e.forms.iter().map(|f| (e.name.as_str(), f.symbol.as_str(), f.version)))
            .collect();
        assert_eq!(seen, [("cuA", "cuA_v2", 12000), ("cuA", "cuA", 2000), ("cuC", "cuC", 3020)]);
    }

    #[test]
    fn a_form_without_a_version_is_an_error_that_names_the_function() {
        let error = parse("cuA Create Owner Unsafe No { cuA (x: c_int); }").unwrap_err();
        assert!(error.starts_with("cuA:"), "{error}");
    }
}
