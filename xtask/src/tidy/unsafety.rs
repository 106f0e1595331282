//! Each unsafe block and impl has its `SAFETY` comment, also inside macros, where clippy doesn't look; each unsafe
//! function and trait has its `# Safety` section, also the private ones, tests aside.
//!
//! The blocks are found in the tokens, the comments in the lines above: directly above the block, above the statement
//! that it is part of, or in the same line.

use super::Finding;
use crate::{Result, workspace::Source};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// Where code claims what the compiler can't check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    /// A `SAFETY` comment stands there.
    pub(crate) argued: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Block,
    Impl,
}

/// Every unsafe block and impl of the file, in order.
pub(crate) fn claims(source: &Source) -> Result<Vec<Claim>> {
    let tokens: TokenStream =
        source.text.parse().map_err(|e| format!("{}: not Rust: {e}", source.path))?;
    let lines: Vec<&str> = source.text.lines().collect();
    let mut claims = Vec::new();
    find(tokens, &mut |line, kind| {
        claims.push(Claim { line, kind, argued: is_argued(&lines, line) });
    });
    Ok(claims)
}

fn find(tokens: TokenStream, each: &mut impl FnMut(usize, Kind)) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match &token {
            TokenTree::Ident(word) if word == "unsafe" => {
                let kind = match tokens.peek() {
                    Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                        Kind::Block
                    }
                    Some(TokenTree::Ident(next)) if next == "impl" => Kind::Impl,
                    _ => continue,
                };
                each(word.span().start().line, kind);
            }
            TokenTree::Group(group) => find(group.stream(), each),
            _ => {}
        }
    }
}

/// Looks for the comment in the same line, then upwards through attributes and the unfinished part of the statement.
fn is_argued(lines: &[&str], line: usize) -> bool {
    let mut above = lines.iter().take(line).rev().map(|line| line.trim());
    if above.next().is_some_and(|same| same.contains("SAFETY:")) {
        return true;
    }
    while let Some(line) = above.next() {
        if line.starts_with("//") {
            return std::iter::once(line)
                .chain(above.take_while(|line| line.starts_with("//")))
                .any(|line| line.contains("SAFETY:"));
        }
        let finished = line.is_empty() || line.ends_with([';', '}', '{']);
        if finished || line.contains("unsafe {") || line.contains("unsafe impl") {
            return false;
        }
    }
    false
}

/// What is missing in the file.
pub(super) fn check(source: &Source) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    for claim in claims(source)?.iter().filter(|claim| !claim.argued) {
        let what = match claim.kind {
            Kind::Block => "an unsafe block without a `// SAFETY:` comment above it",
            Kind::Impl => "an unsafe impl without a `// SAFETY:` comment above it",
        };
        found.push(Finding::new(&source.path, claim.line, what));
    }
    if source.path.contains("/tests/") {
        return Ok(found);
    }
    let file = syn::parse_file(&source.text).map_err(|e| format!("{}: {e}", source.path))?;
    let mut sections = Sections { path: &source.path, found };
    sections.visit_file(&file);
    Ok(sections.found)
}

/// Looks for the `# Safety` section of unsafe functions and traits. Methods of trait impls have the trait's.
struct Sections<'a> {
    path: &'a str,
    found: Vec<Finding>,
}

impl Sections<'_> {
    fn need(&mut self, attributes: &[syn::Attribute], name: &syn::Ident) {
        let section = attributes.iter().any(|attribute| match &attribute.meta {
            syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => {
                    text.value().trim() == "# Safety"
                }
                // `#[doc = include_str!(..)]` and the like: clippy looks into those.
                _ => true,
            },
            _ => false,
        });
        if !section {
            let line = name.span().start().line;
            self.found.push(Finding::new(
                self.path,
                line,
                format!("`{name}` is unsafe and has no `# Safety`"),
            ));
        }
    }
}

impl<'ast> Visit<'ast> for Sections<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if is_unsafe(&function.sig) {
            self.need(&function.attrs, &function.sig.ident);
        }
        visit::visit_item_fn(self, function);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.ident != "tests" {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if item.unsafety.is_some() {
            self.need(&item.attrs, &item.ident);
        }
        visit::visit_item_trait(self, item);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if is_unsafe(&function.sig) {
            self.need(&function.attrs, &function.sig.ident);
        }
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        for part in &item.items {
            if let syn::ImplItem::Fn(function) = part
                && item.trait_.is_none()
                && is_unsafe(&function.sig)
            {
                self.need(&function.attrs, &function.sig.ident);
            }
        }
        visit::visit_item_impl(self, item);
    }
}

/// Unsafe for whoever writes a call to it in Rust. What is `extern "C"` is given to the driver as an address, and what
/// the driver promises stands in the driver's manual; public ones have their section by clippy's lint.
fn is_unsafe(signature: &syn::Signature) -> bool {
    matches!(signature.safety, syn::Safety::Unsafe(_)) && signature.abi.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { path: "a.rs".to_owned(), text: text.to_owned() }
    }

    /// Whether each claim is argued, in order.
    fn argued(text: &str) -> Vec<bool> {
        claims(&source(text)).unwrap().iter().map(|claim| claim.argued).collect()
    }

    #[test]
    fn a_comment_directly_above_or_in_the_line_or_above_the_statement_argues() {
        assert_eq!(argued("fn f() {\n    // SAFETY: yes.\n    unsafe { g() };\n}"), [true]);
        assert_eq!(argued("fn f() { /* SAFETY: yes. */ unsafe { g() } }"), [true]);
        assert_eq!(argued("// SAFETY: a\n// b\nlet x =\n    h(1,\n    unsafe { g() });"), [true]);
        assert_eq!(argued("// SAFETY: yes.\n#[cfg(unix)]\nunsafe impl Send for A {}"), [true]);
    }

    #[test]
    fn no_comment_another_comment_and_a_comment_of_something_else_do_not() {
        assert_eq!(argued("fn f() { unsafe { g() } }"), [false]);
        assert_eq!(argued("fn f() {\n    // Fast.\n    unsafe { g() }\n}"), [false]);
        assert_eq!(argued("// SAFETY: a\nunsafe { g() };\nunsafe { g() }"), [true, false]);
        assert_eq!(
            argued("// SAFETY: a\n1 => unsafe { g() },\n2 => unsafe { g() },"),
            [true, false]
        );
    }

    #[test]
    fn blocks_inside_macros_count_and_functions_traits_and_attributes_do_not() {
        assert_eq!(argued("macro_rules! m { () => { fn f() { unsafe { g() } } } }"), [false]);
        let others = "#[unsafe(no_mangle)] unsafe extern \"C\" fn f() {} unsafe trait T {}";
        assert!(argued(others).is_empty());
        assert!(argued("// unsafe { }\nconst A: &str = \"unsafe { }\";").is_empty());
    }

    #[test]
    fn private_unsafe_functions_need_their_section_and_trait_impls_do_not() {
        let text = "unsafe fn f() {} unsafe extern \"C\" fn c() {}\n/// Text.\n///\n/// # Safety\n/// - none\nunsafe fn g() {}\n\
            impl A { unsafe fn h() {} }\nimpl T for A { unsafe fn i() {} }\nunsafe trait U { unsafe fn j(); }\n\
            mod tests { unsafe fn k() {} }";
        let lines: Vec<usize> = check(&source(text)).unwrap().iter().map(|f| f.line).collect();
        assert_eq!(lines, [1, 7, 9, 9]);
    }
}
