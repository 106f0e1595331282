//! Compares the list of `driver-sys` with `cudaTypedefs.h`: symbols, versions, argument types, completeness.
//!
//! The header has a typedef `PFN_<name>_v<version>` for each signature that ever was, and no symbol in it; `cuda.h`
//! (with `__CUDA_API_VERSION_INTERNAL`) has each exported symbol, and no version. Both are sorted within a name, the
//! symbols by `_vN` and the typedefs by version, and paired by rank; a pair whose types differ is an error, so that a
//! wrong pairing is seen.

use crate::{list, types};
use bindgen::EnumVariation;
use quote::ToTokens as _;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use syn::{ForeignItem, Item, NamedArg, ReturnType, Token, Type, UseTree, punctuated::Punctuated};

/// The oldest driver that the list serves: what it or a newer one has as its newest form has to be listed.
const OLDEST_DRIVER: u32 = 12000;

/// Listed, but not in `cudaTypedefs.h`, which leaves out what needs another API's headers (`cudaGL.h` includes GL's
/// own). Their signatures stay unchecked.
const OUTSIDE: &[&str] = &["cuGraphicsGLRegisterBuffer", "cuGraphicsGLRegisterImage"];

/// One exported symbol, its version and the types of its arguments, all aliases resolved.
#[derive(Debug)]
struct Form {
    symbol: String,
    version: u32,
    arguments: Vec<String>,
}

/// A function's name and its suffix: `_ptds`, `_ptsz` or none.
type Name = (String, String);

/// A symbol as `cuda.h` declares it.
#[derive(Debug)]
struct Symbol {
    /// Its `_vN`, or 1.
    rank: u32,
    symbol: String,
    arguments: Vec<Type>,
}

/// A `PFN_<name>_v<version>`.
#[derive(Debug)]
struct Typedef {
    version: u32,
    arguments: Vec<Type>,
}

/// What the headers declare.
#[derive(Debug, Default)]
struct Header {
    aliases: BTreeMap<String, Type>,
    functions: BTreeMap<Name, Vec<Symbol>>,
    typedefs: BTreeMap<Name, Vec<Typedef>>,
}

/// Compares and says how much was compared, or everything that differs.
pub fn compare(headers: &Path, driver_sys: &Path) -> Result<String, String> {
    let text = types::base(headers, "cudaTypedefs.h")?
        .clang_arg("-D__CUDA_API_VERSION_INTERNAL")
        .allowlist_function("cu.*")
        .allowlist_type("(cu|CU|PFN_cu).*")
        .default_enum_style(EnumVariation::NewType { is_bitfield: false, is_global: false })
        .layout_tests(false)
        .generate()
        .map_err(|e| e.to_string())?
        .to_string();
    against(&text, &list::read(&driver_sys.join("list"))?)
}

/// Compares the entries with bindgen's output.
fn against(text: &str, entries: &[list::Entry]) -> Result<String, String> {
    let header = Header::read(text)?;
    let known = header.pair()?;
    let mut wrong = Vec::new();
    let mut names = BTreeSet::new();
    for entry in entries {
        if !names.insert(entry.name.as_str()) {
            wrong.push(format!("{}: listed twice", entry.name));
        }
        match known.get(&entry.name) {
            Some(forms) => wrong.extend(differences(entry, forms, &header)),
            None if OUTSIDE.contains(&entry.name.as_str()) => {}
            None => wrong.push(format!("{}: not in the headers", entry.name)),
        }
    }
    if !wrong.is_empty() {
        return Err(format!("the list differs from the headers:\n  {}", wrong.join("\n  ")));
    }
    let forms: usize = entries.iter().map(|entry| entry.forms.len()).sum();
    let pairs: usize = header.typedefs.values().map(Vec::len).sum();
    let unlisted = known.keys().filter(|name| !names.contains(name.as_str())).count();
    let outside = entries.len() + unlisted - known.len();
    Ok(format!(
        "functions {} forms {forms}: all as in the headers\n\
         ({pairs} symbols paired with {pairs} typedefs; {unlisted} functions not listed; {outside} listed that need \
         another API's headers, unchecked)",
        entries.len(),
    ))
}

/// What is wrong with one entry, given the header's forms of that function, oldest first.
fn differences(entry: &list::Entry, known: &[Form], header: &Header) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut say = |what: String| wrong.push(format!("{}: {what}", entry.name));
    for (form, next) in known.iter().zip(known.iter().skip(1).map(Some).chain([None])) {
        let listed = entry.forms.iter().any(|listed| listed.symbol == form.symbol);
        match (next.filter(|next| next.version <= OLDEST_DRIVER), listed) {
            (None, false) => say(format!("{} {} is left out", form.symbol, form.version)),
            (Some(next), true) => {
                say(format!("{} was replaced by {} in {}", form.symbol, next.symbol, next.version));
            }
            _ => {}
        }
    }
    if !entry.forms.is_sorted_by(|a, b| a.version > b.version) {
        say("the newest form comes first".to_owned());
    }
    for form in &entry.forms {
        let Some(expected) = known.iter().find(|known| known.symbol == form.symbol) else {
            say(format!("{} isn't in the headers", form.symbol));
            continue;
        };
        if expected.version != form.version {
            say(format!("{} came with {}, not {}", form.symbol, expected.version, form.version));
        }
        match header.resolve_listed(form) {
            Ok(types) if types == expected.arguments => {}
            Ok(types) => say(format!(
                "{} takes ({}), not ({})",
                form.symbol,
                expected.arguments.join(", "),
                types.join(", ")
            )),
            Err(error) => say(format!("{}: {error}", form.symbol)),
        }
    }
    wrong
}

impl Header {
    /// Reads bindgen's output.
    fn read(text: &str) -> Result<Self, String> {
        let file = syn::parse_file(text).map_err(|e| format!("bindgen's output: {e}"))?;
        let mut header = Self::default();
        for item in file.items {
            match item {
                Item::Type(alias) => header.alias(alias.ident.to_string(), *alias.ty)?,
                Item::Use(used) => header.renames(&used.tree)?,
                Item::ForeignMod(block) => {
                    header.functions(&block.items)?;
                }
                _ => {}
            }
        }
        Ok(header)
    }

    /// A `type`: one of the `PFN_` or an alias.
    fn alias(&mut self, name: String, ty: Type) -> Result<(), String> {
        let Some(function) = name.strip_prefix("PFN_") else {
            self.aliases.insert(name, ty);
            return Ok(());
        };
        let (function, suffix) = split_suffix(function);
        let (base, version) = function
            .rsplit_once("_v")
            .and_then(|(base, version)| Some((base, version.parse().ok()?)))
            .ok_or_else(|| format!("{name}: no version"))?;
        let arguments =
            function_pointer(&ty).ok_or_else(|| format!("{name}: not a function pointer"))?;
        let arguments = arguments.iter().map(|argument| argument.ty.clone()).collect();
        self.typedefs
            .entry((base.to_owned(), suffix))
            .or_default()
            .push(Typedef { version, arguments });
        Ok(())
    }

    /// `use self::X as Y` is an alias, too.
    fn renames(&mut self, tree: &UseTree) -> Result<(), String> {
        match tree {
            UseTree::Path(path) => self.renames(&path.tree),
            UseTree::Rename(rename) => {
                let ty = syn::parse_str(&rename.ident.to_string()).map_err(|e| e.to_string())?;
                self.aliases.insert(rename.rename.to_string(), ty);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn functions(&mut self, items: &[ForeignItem]) -> Result<(), String> {
        for item in items {
            if let ForeignItem::Fn(function) = item {
                self.function(&function.sig)?;
            }
        }
        Ok(())
    }

    fn function(&mut self, signature: &syn::Signature) -> Result<(), String> {
        let symbol = signature.ident.to_string();
        let (function, suffix) = split_suffix(&symbol);
        let (base, rank) = function
            .rsplit_once("_v")
            .and_then(|(base, rank)| Some((base, rank.parse().ok()?)))
            .unwrap_or((function, 1));
        let mut arguments = Vec::new();
        for argument in &signature.inputs {
            let syn::FnArg::Typed(argument) = argument else {
                return Err(format!("{symbol}: takes self"));
            };
            arguments.push((*argument.ty).clone());
        }
        self.functions.entry((base.to_owned(), suffix)).or_default().push(Symbol {
            rank,
            symbol,
            arguments,
        });
        Ok(())
    }

    /// Pairs symbols and typedefs by rank. The result, by name, holds the forms oldest first; those for per-thread
    /// default streams (`_ptds`, `_ptsz`) are compared and left out.
    fn pair(&self) -> Result<BTreeMap<String, Vec<Form>>, String> {
        let functions: usize = self.functions.values().map(Vec::len).sum();
        let typedefs: usize = self.typedefs.values().map(Vec::len).sum();
        let mut wrong = Vec::new();
        if functions == 0 || functions != typedefs {
            wrong.push(format!("{functions} symbols and {typedefs} typedefs"));
        }
        let mut known = BTreeMap::new();
        for ((base, suffix), symbols) in &self.functions {
            let mut symbols: Vec<_> = symbols.iter().collect();
            let mut versions: Vec<_> =
                self.typedefs.get(&(base.clone(), suffix.clone())).into_iter().flatten().collect();
            symbols.sort_by_key(|symbol| symbol.rank);
            versions.sort_by_key(|typedef| typedef.version);
            if symbols.len() != versions.len() {
                wrong.push(format!(
                    "{base}{suffix}: {} symbols, {} typedefs",
                    symbols.len(),
                    versions.len()
                ));
            }
            let mut forms = Vec::new();
            for (Symbol { symbol, arguments, .. }, typedef) in symbols.into_iter().zip(versions) {
                let (version, arguments) = (typedef.version, self.resolve_all(arguments)?);
                if arguments != self.resolve_all(&typedef.arguments)? {
                    wrong.push(format!(
                        "{symbol}: its types aren't those of PFN_{base}_v{version}{suffix}"
                    ));
                }
                forms.push(Form { symbol: symbol.clone(), version, arguments });
            }
            if suffix.is_empty() {
                known.insert(base.clone(), forms);
            }
        }
        if wrong.is_empty() {
            Ok(known)
        } else {
            Err(format!("the headers disagree:\n  {}", wrong.join("\n  ")))
        }
    }

    fn resolve_listed(&self, form: &list::Form) -> Result<Vec<String>, String> {
        let parse = Punctuated::<NamedArg, Token![,]>::parse_terminated;
        let arguments = syn::parse::Parser::parse2(parse, form.arguments.clone())
            .map_err(|e| format!("its arguments: {e}"))?;
        arguments.iter().map(|argument| self.resolve(&argument.ty)).collect()
    }

    fn resolve_all(&self, types: &[Type]) -> Result<Vec<String>, String> {
        types.iter().map(|ty| self.resolve(ty)).collect()
    }

    /// The type with every alias replaced by what it stands for, paths by their last word.
    fn resolve(&self, ty: &Type) -> Result<String, String> {
        match ty {
            Type::Ptr(pointer) => {
                let kind = if matches!(pointer.mutability, syn::PointerMutability::Mut(_)) {
                    "mut"
                } else {
                    "const"
                };
                Ok(format!("*{kind} {}", self.resolve(&pointer.elem)?))
            }
            Type::Array(array) => {
                Ok(format!("[{}; {}]", self.resolve(&array.elem)?, array.len.to_token_stream()))
            }
            Type::Path(_) if let Some(arguments) = function_pointer(ty) => {
                let arguments: Result<Vec<_>, _> =
                    arguments.iter().map(|a| self.resolve(&a.ty)).collect();
                let output = match returned(ty) {
                    Some(output) => format!(" -> {}", self.resolve(output)?),
                    None => String::new(),
                };
                Ok(format!("fn({}){output}", arguments?.join(", ")))
            }
            Type::Path(path) if let Some(last) = path.path.segments.last() => {
                let name = last.ident.to_string();
                match self.aliases.get(&name) {
                    Some(Type::Path(to)) if to.path.is_ident(&name) => Ok(name),
                    Some(to) => self.resolve(to),
                    None => Ok(name),
                }
            }
            other => Err(format!("a type that isn't C's: {}", other.to_token_stream())),
        }
    }
}

/// `Option<unsafe extern "C" fn(…) -> …>`, which is what a C function pointer becomes.
fn pointed(ty: &Type) -> Option<&syn::TypeFnPtr> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        syn::GenericArgument::Type(Type::FnPtr(function)) => Some(function),
        _ => None,
    }
}

fn function_pointer(ty: &Type) -> Option<&Punctuated<NamedArg, Token![,]>> {
    pointed(ty).map(|function| &function.inputs)
}

fn returned(ty: &Type) -> Option<&Type> {
    match &pointed(ty)?.output {
        ReturnType::Type(_, ty) => Some(ty),
        ReturnType::Default => None,
    }
}

/// Splits off the mark of the per-thread default stream's variants.
fn split_suffix(name: &str) -> (&str, String) {
    for suffix in ["_ptds", "_ptsz"] {
        if let Some(base) = name.strip_suffix(suffix) {
            return (base, suffix.to_owned());
        }
    }
    (name, String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As bindgen writes it: `cuX` had three signatures (2000, 11000, 12030), `cuY` two (2000, 12020).
    const HEADER: &str = r#"
        pub type CUdevice_v1 = ::core::ffi::c_int;
        pub type CUdevice = CUdevice_v1;
        pub use self::CUresult as cudaError;
        pub type CUhostFn = ::core::option::Option<unsafe extern "C" fn(data: *mut ::core::ffi::c_void)>;
        unsafe extern "C" {
            pub fn cuX(device: CUdevice) -> CUresult;
            pub fn cuX_v2(device: CUdevice_v1, n: usize) -> CUresult;
            pub fn cuX_v3(device: *mut CUdevice, f: CUhostFn) -> CUresult;
            pub fn cuX_v3_ptsz(device: *mut CUdevice, f: CUhostFn) -> CUresult;
            pub fn cuY() -> CUresult;
            pub fn cuY_v2(device: CUdevice) -> CUresult;
        }
        pub type PFN_cuX_v2000 = ::core::option::Option<unsafe extern "C" fn(device: CUdevice_v1) -> CUresult>;
        pub type PFN_cuX_v11000 = ::core::option::Option<unsafe extern "C" fn(device: CUdevice_v1, n: usize) -> CUresult>;
        pub type PFN_cuX_v12030 = ::core::option::Option<unsafe extern "C" fn(device: *mut CUdevice_v1, f: CUhostFn) -> CUresult>;
        pub type PFN_cuX_v12030_ptsz = ::core::option::Option<unsafe extern "C" fn(device: *mut CUdevice_v1, f: CUhostFn) -> CUresult>;
        pub type PFN_cuY_v2000 = ::core::option::Option<unsafe extern "C" fn() -> CUresult>;
        pub type PFN_cuY_v12020 = ::core::option::Option<unsafe extern "C" fn(device: CUdevice_v1) -> CUresult>;
    "#;
    const LIST: &str = "
        cuX A B C D { cuX_v3 12030 (dev: *mut CUdevice, f: CUhostFn); cuX_v2 11000 (dev: c_int, count: usize); }
        cuY A B C D { cuY_v2 12020 (dev: CUdevice); cuY 2000 (); }";

    /// The message for a list, changed from the right one.
    fn changed(from: &str, to: &str) -> String {
        let text = LIST.replace(from, to);
        assert_ne!(text, LIST);
        against(HEADER, &list::parse(&text).unwrap()).unwrap_err()
    }

    #[test]
    fn a_right_list_is_accepted_and_counted() {
        let report = against(HEADER, &list::parse(LIST).unwrap()).unwrap();
        assert!(report.starts_with("functions 2 forms 4: all as in the headers"), "{report}");
        assert!(
            report.contains("6 symbols paired with 6 typedefs; 0 functions not listed; 0 listed"),
            "{report}"
        );
    }

    #[test]
    fn a_wrong_version_is_told() {
        assert!(changed("12030", "12040").contains("cuX_v3 came with 12030, not 12040"));
    }

    #[test]
    fn a_wrong_type_is_told_with_aliases_resolved() {
        let error = changed("count: usize", "count: c_uint");
        assert!(error.contains("cuX_v2 takes (c_int, usize), not (c_int, c_uint)"), "{error}");
        let error = changed("*mut CUdevice", "*const CUdevice");
        assert!(error.contains("takes (*mut c_int, fn(*mut c_void))"), "{error}");
    }

    #[test]
    fn a_form_left_out_is_told_whether_newest_or_older() {
        let older = "cuX_v2 11000 (dev: c_int, count: usize);";
        assert!(changed(older, "").contains("cuX_v2 11000 is left out"));
        assert!(changed("cuY_v2 12020 (dev: CUdevice);", "").contains("cuY_v2 12020 is left out"));
    }

    #[test]
    fn a_form_that_no_supported_driver_has_as_its_newest_is_told() {
        let older = "cuX_v2 11000 (dev: c_int, count: usize);";
        let error = changed(older, &format!("{older} cuX 2000 (dev: CUdevice);"));
        assert!(error.contains("cuX was replaced by cuX_v2 in 11000"), "{error}");
    }

    #[test]
    fn order_doubles_and_unknown_names_are_told() {
        let error = changed(
            "cuY_v2 12020 (dev: CUdevice); cuY 2000 ();",
            "cuY 2000 (); cuY_v2 12020 (dev: CUdevice);",
        );
        assert!(error.contains("the newest form comes first"), "{error}");
        assert!(changed("cuY A", "cuX A").contains("cuX: listed twice"));
        assert!(changed("cuY A", "cuZ A").contains("cuZ: not in the headers"));
    }

    #[test]
    fn headers_that_disagree_are_an_error() {
        let text = HEADER.replace("PFN_cuY_v2000", "PFN_cuZ_v2000");
        let error = against(&text, &list::parse(LIST).unwrap()).unwrap_err();
        assert!(error.contains("cuY: 2 symbols, 1 typedefs"), "{error}");
    }
}
