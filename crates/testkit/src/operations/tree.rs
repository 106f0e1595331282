//! A crate's sources as a tree of modules, and which of its items users can reach.
//!
//! Reached is what a public module has, what is re-exported by name, and their methods; nothing that is hidden from the
//! documentation. What a macro makes isn't seen.

use std::{collections::BTreeSet, fs, path::Path};
use syn::{Attribute, Expr, ExprLit, ImplItem, Lit, Meta, TraitItem, Type, UseTree, Visibility};

/// A function that users can reach.
pub(super) struct Function {
    pub(super) path: String,
    pub(super) doc: String,
    /// Whether its documentation must say what it calls.
    pub(super) must_say: bool,
}

/// What can be an operation.
pub(super) enum Item {
    Function(Function),
    Type { name: String, doc: String },
}

/// The items of all modules, and the names that users reach.
pub(super) struct Tree {
    items: Vec<syn::Item>,
    reached: BTreeSet<String>,
}

impl Tree {
    /// Reads a crate's sources.
    pub(super) fn read(folder: &Path) -> Result<Self, String> {
        let mut tree = Self { items: Vec::new(), reached: BTreeSet::new() };
        tree.add_file(&folder.join("lib.rs"), folder, true)?;
        Ok(tree)
    }

    /// A crate in one text.
    #[cfg(test)]
    pub(super) fn of_text(text: &str) -> Result<Self, String> {
        let mut tree = Self { items: Vec::new(), reached: BTreeSet::new() };
        let file = syn::parse_file(text).map_err(|e| e.to_string())?;
        tree.add(file.items, Path::new("/nowhere"), true)?;
        Ok(tree)
    }

    fn add_file(&mut self, file: &Path, folder: &Path, public: bool) -> Result<(), String> {
        let said = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
        let text = fs::read_to_string(file).map_err(|e| said(&e))?;
        let parsed = syn::parse_file(&text).map_err(|e| said(&e))?;
        self.add(parsed.items, folder, public)
    }

    /// Adds the items of a module whose own modules lie in `folder`.
    fn add(&mut self, items: Vec<syn::Item>, folder: &Path, public: bool) -> Result<(), String> {
        for item in items {
            match item {
                syn::Item::Mod(module) => self.add_module(module, folder, public)?,
                syn::Item::Use(item) if public && is_shown(&item.vis, &item.attrs) => {
                    self.reach(&item.tree)?;
                }
                item => {
                    if public && let Some(name) = shown_name(&item) {
                        self.reached.insert(name);
                    }
                    self.items.push(item);
                }
            }
        }
        Ok(())
    }

    fn add_module(
        &mut self,
        module: syn::ItemMod,
        folder: &Path,
        public: bool,
    ) -> Result<(), String> {
        if is_test(&module.attrs) {
            return Ok(());
        }
        let public = public && is_shown(&module.vis, &module.attrs);
        let folder = folder.join(module.ident.to_string());
        if let Some((_, items)) = module.content {
            return self.add(items, &folder, public);
        }
        let beside = folder.with_extension("rs");
        let file = if beside.exists() { beside } else { folder.join("mod.rs") };
        self.add_file(&file, &folder, public)
    }

    fn reach(&mut self, tree: &UseTree) -> Result<(), String> {
        match tree {
            UseTree::Path(path) => self.reach(&path.tree)?,
            UseTree::Group(group) => group.items.iter().try_for_each(|item| self.reach(item))?,
            UseTree::Name(name) => _ = self.reached.insert(name.ident.to_string()),
            UseTree::Rename(rename) => _ = self.reached.insert(rename.ident.to_string()),
            other => return Err(format!("re-exported otherwise than by name: {other:?}")),
        }
        Ok(())
    }

    fn is_reached(&self, name: &str) -> bool {
        self.reached.contains(name)
    }

    /// Everything that may be an operation.
    pub(super) fn items(&self) -> Vec<Item> {
        let mut found = Vec::new();
        for item in &self.items {
            match item {
                syn::Item::Fn(item) if is_shown(&item.vis, &item.attrs) => {
                    let path = item.sig.ident.to_string();
                    if self.is_reached(&path) {
                        found.push(function(path, &item.attrs, true));
                    }
                }
                syn::Item::Struct(item) => found.extend(self.a_type(&item.ident, &item.attrs)),
                syn::Item::Enum(item) => found.extend(self.a_type(&item.ident, &item.attrs)),
                syn::Item::Trait(item) if self.is_reached(&item.ident.to_string()) => {
                    found.extend(provided(item));
                }
                syn::Item::Impl(item) if !is_hidden(&item.attrs) => {
                    found.extend(self.methods(item));
                }
                _ => {}
            }
        }
        found
    }

    fn a_type(&self, name: &syn::Ident, attrs: &[Attribute]) -> Option<Item> {
        let name = name.to_string();
        self.is_reached(&name).then(|| Item::Type { name, doc: doc(attrs) })
    }

    /// The methods of one `impl` block. Those of a trait say what they call only where the trait can't.
    fn methods(&self, item: &syn::ItemImpl) -> Vec<Item> {
        let Some(name) = type_name(&item.self_ty).filter(|name| self.is_reached(name)) else {
            return Vec::new();
        };
        let of_trait = item.trait_.is_some();
        let methods = item.items.iter().filter_map(|item| match item {
            ImplItem::Fn(method) if of_trait => {
                let path = format!("{name}::{}", method.sig.ident);
                Some(function(path, &method.attrs, false))
            }
            ImplItem::Fn(method) if is_shown(&method.vis, &method.attrs) => {
                let path = format!("{name}::{}", method.sig.ident);
                Some(function(path, &method.attrs, true))
            }
            _ => None,
        });
        methods.collect()
    }

    /// A type's documentation.
    pub(super) fn doc_of(&self, name: &str) -> Option<String> {
        self.items.iter().find_map(|item| match item {
            syn::Item::Struct(item) if item.ident == name => Some(doc(&item.attrs)),
            syn::Item::Enum(item) if item.ident == name => Some(doc(&item.attrs)),
            _ => None,
        })
    }
}

fn function(path: String, attrs: &[Attribute], must_say: bool) -> Item {
    Item::Function(Function { path, doc: doc(attrs), must_say })
}

/// The methods of a trait that have a body.
fn provided(item: &syn::ItemTrait) -> Vec<Item> {
    let methods = item.items.iter().filter_map(|method| match method {
        TraitItem::Fn(method) if method.default.is_some() && !is_hidden(&method.attrs) => {
            let path = format!("{}::{}", item.ident, method.sig.ident);
            Some(function(path, &method.attrs, true))
        }
        _ => None,
    });
    methods.collect()
}

/// The name of a type without its parameters.
fn type_name(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

/// The name of a public item that isn't hidden.
fn shown_name(item: &syn::Item) -> Option<String> {
    let (vis, attrs, name) = match item {
        syn::Item::Fn(item) => (&item.vis, &item.attrs, &item.sig.ident),
        syn::Item::Struct(item) => (&item.vis, &item.attrs, &item.ident),
        syn::Item::Enum(item) => (&item.vis, &item.attrs, &item.ident),
        syn::Item::Trait(item) => (&item.vis, &item.attrs, &item.ident),
        _ => return None,
    };
    is_shown(vis, attrs).then(|| name.to_string())
}

fn is_shown(vis: &Visibility, attrs: &[Attribute]) -> bool {
    matches!(vis, Visibility::Public(_)) && !is_hidden(attrs)
}

fn is_hidden(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| match &attr.meta {
        Meta::List(list) => list.path.is_ident("doc") && list.tokens.to_string() == "hidden",
        _ => false,
    })
}

fn is_test(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| match &attr.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

/// The documentation comment's lines.
fn doc(attrs: &[Attribute]) -> String {
    let mut text = String::new();
    for attr in attrs {
        if let Meta::NameValue(value) = &attr.meta
            && value.path.is_ident("doc")
            && let Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) = &value.value
        {
            let line = line.value();
            text.push_str(line.strip_prefix(' ').unwrap_or(&line));
            text.push('\n');
        }
    }
    text
}
