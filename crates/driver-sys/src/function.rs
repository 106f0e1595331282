//! What each entry of the list is: functions, their forms, and the four columns.

use core::fmt;

/// What a function does to the driver's objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a closed classification of the list")]
pub enum Kind {
    /// Makes something that must be ended later: an object, memory, a reference, a mapping.
    Create,
    /// Ends what a create made.
    Destroy,
    /// Answers a question, or waits.
    Query,
    /// Puts work on a stream.
    Enqueue,
    /// Changes an object.
    Mutate,
    /// Changes a setting of the calling thread.
    Thread,
}

/// Which context must be current for the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a closed classification of the list")]
pub enum ContextUse {
    /// The call doesn't look at the current context.
    Ignored,
    /// The call works with any context of the object's device current, or with none; with another device's it may
    /// answer `INVALID_VALUE` (measured for copies of pool memory).
    Device,
    /// The owner's context must be current.
    Owner,
}

/// What the call does to a stream capture that it isn't part of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a closed classification of the list")]
pub enum CaptureRule {
    /// Legal in every capture mode.
    Neutral,
    /// Refused, and the capture invalidated, where the thread's mode and the captures under way prohibit it. In
    /// relaxed mode it is legal.
    Unsafe,
}

/// What the call waits for before it returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a closed classification of the list")]
pub enum Waits {
    /// For nothing.
    No,
    /// For the object that it names, as a synchronize does.
    Object,
    /// For all work of the context that owns the object, whichever is current.
    Context,
    /// For work beyond the owner's context.
    All,
}

/// The four columns of the list: what the layers above read instead of remembering.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub struct Columns {
    /// What the function does to the driver's objects.
    pub kind: Kind,
    /// Which context must be current.
    pub context: ContextUse,
    /// What it does to captures.
    pub capture: CaptureRule,
    /// What it waits for.
    pub waits: Waits,
}

/// A function of the list, under its documented name, with all its forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Function {
    /// The documented name, such as `cuCtxCreate`.
    pub name: &'static str,
    /// The columns.
    pub columns: Columns,
    /// The forms, newest first.
    pub forms: &'static [Call],
}

/// A CUDA version as the driver counts it: `1000 * major + 10 * minor`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a number with its unit")]
pub struct Version(pub i32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! calls {
    ({} $($name:ident $kind:ident $context:ident $capture:ident $waits:ident
        { $($form:ident $since:literal ($($arguments:tt)*);)+ })*) => {
        /// One form of a driver function: an index into the list, and the identity that failures, hooks and logs
        /// carry.
        #[repr(u16)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[expect(non_camel_case_types, reason = "the variants are CUDA's own names")]
        pub enum Call {
            $($(
                #[doc = concat!("`", stringify!($form), "`, a form of `", stringify!($name), "`.")]
                $form,
            )+)*
        }

        impl Call {
            /// Every form of every function, in the order of the list.
            pub const ALL: &[Self] = &[$($(Self::$form,)+)*];

            /// The function that this is a form of.
            #[must_use]
            pub const fn function(self) -> &'static Function {
                match self {
                    $($(Self::$form)|+ => const {
                        &Function {
                            name: stringify!($name),
                            columns: Columns {
                                kind: Kind::$kind,
                                context: ContextUse::$context,
                                capture: CaptureRule::$capture,
                                waits: Waits::$waits,
                            },
                            forms: &[$(Self::$form),+],
                        }
                    },)*
                }
            }

            /// The exported C symbol of this form, such as `cuCtxCreate_v4`.
            #[must_use]
            pub const fn symbol(self) -> &'static str {
                match self { $($(Self::$form => stringify!($form),)+)* }
            }

            /// The CUDA version that brought this form.
            #[must_use]
            pub const fn since(self) -> Version {
                match self { $($(Self::$form => Version($since),)+)* }
            }
        }

        impl Function {
            /// Every function of the list, in its order.
            pub const ALL: &[&'static Self] = &[$({
                let forms = [$(Call::$form),+];
                forms[0].function()
            },)*];
        }
    };
}

crate::for_each_driver_function! { calls, {} }

impl Call {
    /// The documented name of the function, whatever the form: `cuCtxCreate`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.function().name
    }

    /// The columns of the function.
    #[must_use]
    #[inline]
    pub const fn columns(self) -> Columns {
        self.function().columns
    }

    /// Finds a form by its exported symbol.
    #[must_use]
    pub fn by_symbol(symbol: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|call| call.symbol() == symbol)
    }
}

impl Function {
    /// Finds a function by its documented name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|function| function.name == name)
    }

    /// The newest form whose version isn't above `version`: the rule of `cuGetProcAddress`.
    #[must_use]
    pub fn form_at(&self, version: Version) -> Option<Call> {
        self.forms.iter().copied().find(|form| form.since() <= version)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_symbols_are_unique() {
        let names: BTreeSet<_> = Function::ALL.iter().map(|f| f.name).collect();
        assert_eq!(names.len(), Function::ALL.len());
        let symbols: BTreeSet<_> = Call::ALL.iter().map(|c| c.symbol()).collect();
        assert_eq!(symbols.len(), Call::ALL.len());
    }

    #[test]
    fn forms_are_listed_newest_first_and_carry_the_function_s_name() {
        for function in Function::ALL {
            assert!(
                function.forms.windows(2).all(|w| w[0].since() > w[1].since()),
                "{}",
                function.name
            );
            for form in function.forms {
                assert!(form.symbol().starts_with(function.name), "{form:?}");
                assert_eq!(form.function(), *function);
            }
        }
    }

    #[test]
    fn the_newest_form_not_above_the_version_asked_is_found() {
        let create = Function::by_name("cuCtxCreate").unwrap();
        assert_eq!(create.form_at(Version(13_000)), Some(Call::cuCtxCreate_v4));
        assert_eq!(create.form_at(Version(12_040)), Some(Call::cuCtxCreate_v3));
        assert_eq!(create.form_at(Version(10_000)), None);
    }

    #[test]
    fn what_enqueues_never_waits_for_everything() {
        for call in Call::ALL.iter().filter(|c| c.columns().kind == Kind::Enqueue) {
            assert_ne!(call.columns().waits, Waits::All, "{call:?}");
        }
    }
}
