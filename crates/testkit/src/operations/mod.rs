//! The public operations of a crate, read from its sources: every function that users can reach, with the driver calls
//! that its documentation names.
//!
//! | in the documentation | what it says |
//! |---|---|
//! | a paragraph "Calls `cuA`, `cuB`; …" of a function | every call that it makes in some situation |
//! | … ``as [`other`]`` in it | those of that function of the crate, too |
//! | a paragraph "Calls nothing." | that it makes none |
//! | "Its drop calls `cuA`." of a type | the same of the type's end |
//!
//! The policy's own calls aren't named: what is current, push, pop, and the exchange of the thread's capture mode.

mod doc;
mod tree;

use doc::Calls;
pub(crate) use doc::is_policy;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use tree::{Function, Item, Tree};

/// One public operation: a function, or the end of a type, that makes driver calls.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Operation {
    /// `Type::method`, `function`, or `Type::drop`.
    pub path: String,
    /// The calls that it makes in some situation, by their documented names.
    pub calls: BTreeSet<String>,
    /// Whether the documentation says that it invalidates captures.
    pub invalidates_captures: bool,
}

/// The public operations of a crate, by path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Operations {
    /// By path.
    pub operations: BTreeMap<String, Operation>,
    /// Whose documentation doesn't say what they call, or says it wrongly.
    pub mistakes: Vec<String>,
    /// Which makes the calls of which other one as well.
    pub(crate) same_as: Vec<(String, String)>,
}

impl Operations {
    /// Reads the sources below `folder`, from its `lib.rs`.
    ///
    /// # Errors
    /// A file that can't be read or parsed; a re-export by `*`, which this can't follow.
    pub fn read(folder: &Path) -> Result<Self, String> {
        Ok(Self::of(&Tree::read(folder)?))
    }

    fn of(tree: &Tree) -> Self {
        let mut found = Self::default();
        for item in tree.items() {
            match item {
                Item::Function(function) => found.function(&function),
                Item::Type { name, doc } => found.end(&name, &doc),
            }
        }
        found.follow();
        found.check_ends(tree);
        found
    }

    /// Adds the calls of those that are referred to, until nothing changes any more.
    fn follow(&mut self) {
        let same_as = std::mem::take(&mut self.same_as);
        for (path, other) in &same_as {
            if !self.operations.contains_key(other) {
                self.mistakes.push(format!("{path}: refers to {other}, which is no operation"));
            }
        }
        // No chain of references is longer than there are references.
        for (path, other) in same_as.iter().cycle().take(same_as.len() * same_as.len()) {
            let Some(others) = self.operations.get(other).cloned() else { continue };
            if let Some(operation) = self.operations.get_mut(path) {
                operation.calls.extend(others.calls);
                operation.invalidates_captures |= others.invalidates_captures;
            }
        }
    }

    /// What can be closed, which makes calls, makes them as well when it is dropped.
    fn check_ends(&mut self, tree: &Tree) {
        for path in self.operations.keys() {
            let Some(name) = path.strip_suffix("::close") else { continue };
            let doc = tree.doc_of(name).unwrap_or_default();
            if doc::drop_calls(&doc) == Calls::Unsaid {
                self.mistakes.push(format!("{name}: no line \"Its drop calls …\""));
            }
        }
    }

    fn function(&mut self, Function { path, doc, must_say }: &Function) {
        match doc::calls(doc) {
            Calls::Unsaid if *must_say => {
                self.mistakes.push(format!("{path}: no line \"Calls …\""));
            }
            Calls::Unsaid | Calls::Nothing => {}
            Calls::Unclear(line) => self.mistakes.push(format!("{path}: unclear: {line:?}")),
            Calls::Named { calls, same_as } => self.add(path, calls, &same_as, doc),
        }
    }

    fn end(&mut self, name: &str, doc: &str) {
        let path = format!("{name}::drop");
        match doc::drop_calls(doc) {
            Calls::Unsaid | Calls::Nothing => {}
            Calls::Unclear(line) => self.mistakes.push(format!("{path}: unclear: {line:?}")),
            Calls::Named { calls, same_as } => self.add(&path, calls, &same_as, ""),
        }
    }

    fn add(&mut self, path: &str, calls: BTreeSet<String>, same_as: &BTreeSet<String>, doc: &str) {
        for unknown in calls.iter().filter(|call| !doc::is_known(call)) {
            self.mistakes.push(format!("{path}: {unknown} is in no list of functions"));
        }
        let operation = Operation {
            path: path.to_owned(),
            calls,
            invalidates_captures: doc::says_invalidates(doc),
        };
        let of = path.rsplit_once("::").map_or("", |(of, _)| of);
        for other in same_as {
            let other = if other.contains("::") { other.clone() } else { format!("{of}::{other}") };
            self.same_as.push((path.to_owned(), other));
        }
        if self.operations.insert(path.to_owned(), operation).is_some() {
            self.mistakes.push(format!("{path}: two operations have this path"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Operations {
        Operations::of(&Tree::of_text(text).unwrap())
    }

    #[test]
    fn methods_functions_and_ends_are_operations_where_they_name_a_call() {
        let found = of("
            /// A thing. Its drop calls `cuStreamDestroy`.
            pub struct Thing;
            impl Thing {
                /// Asks.
                ///
                /// Calls `cuStreamQuery`, or
                /// `cuEventQuery`. It invalidates captures in global mode.
                pub fn ask(&self) {}
                /// Calls nothing.
                pub fn name(&self) {}
                fn private(&self) {}
                #[doc(hidden)]
                pub fn hidden(&self) {}
            }
            struct Private;
            impl Private { pub fn unreachable(&self) {} }
            /// Calls `cuInit`.
            pub fn begin() {}
        ");
        assert_eq!(found.mistakes, Vec::<String>::new());
        let paths: Vec<_> = found.operations.keys().map(String::as_str).collect();
        assert_eq!(paths, ["Thing::ask", "Thing::drop", "begin"]);
        let ask = &found.operations["Thing::ask"];
        assert!(ask.invalidates_captures);
        assert_eq!(ask.calls.iter().collect::<Vec<_>>(), ["cuEventQuery", "cuStreamQuery"]);
        assert!(!found.operations["Thing::drop"].invalidates_captures);
    }

    #[test]
    fn a_function_that_calls_as_another_has_its_calls() {
        let found = of("
            pub struct Thing;
            impl Thing {
                /// Calls as [`b`](Self::b).
                pub fn a(&self) {}
                /// Calls `cuInit`, then as [`Other::c`].
                pub fn b(&self) {}
            }
            pub struct Other;
            impl Other {
                /// Calls `cuEventQuery`.
                pub fn c(&self) {}
                /// Calls as [`nobody`].
                pub fn d(&self) {}
            }
        ");
        let calls: Vec<_> = found.operations["Thing::a"].calls.iter().collect();
        assert_eq!(calls, ["cuEventQuery", "cuInit"]);
        assert_eq!(found.mistakes, ["Other::d: refers to Other::nobody, which is no operation"]);
    }

    #[test]
    fn traits_count_where_users_reach_them() {
        let found = of("
            pub trait Extra {
                /// Calls `cuInit`.
                fn provided(&self) {}
                /// Whatever it calls.
                fn required(&self);
            }
            pub struct Thing;
            impl Extra for Thing {
                /// Calls `cuInit`.
                fn required(&self) {}
            }
            impl Clone for Thing { fn clone(&self) -> Self { Self } }
        ");
        assert_eq!(found.mistakes, Vec::<String>::new());
        let paths: Vec<_> = found.operations.keys().map(String::as_str).collect();
        assert_eq!(paths, ["Extra::provided", "Thing::required"]);
    }

    #[test]
    fn a_missing_or_unclear_line_is_a_mistake_and_so_is_an_unknown_call() {
        let found = of("
            pub struct Thing;
            impl Thing {
                /// Says nothing.
                pub fn silent(&self) {}
                /// Calls as the other one.
                pub fn unclear(&self) {}
                /// Calls `cuNoSuchFunction`.
                pub fn unknown(&self) {}
                /// Calls `cuStreamDestroy`.
                pub fn close(self) {}
            }
        ");
        assert_eq!(found.mistakes.len(), 4, "{:?}", found.mistakes);
    }

    #[test]
    fn re_exports_decide_what_users_reach() {
        let found = of("
            mod inner {
                pub struct Shown;
                impl Shown {
                    /// Calls `cuInit`.
                    pub fn a(&self) {}
                }
                pub struct Kept;
                impl Kept {
                    pub fn b(&self) {}
                }
            }
            pub use inner::Shown;
            #[doc(hidden)]
            pub use inner::Kept;
        ");
        assert_eq!(found.mistakes, Vec::<String>::new());
        assert_eq!(found.operations.keys().collect::<Vec<_>>(), ["Shown::a"]);
        assert!(Tree::of_text("mod inner {} pub use inner::*;").is_err());
    }
}
