//! Loading a compiler: its library's type, where it is looked for, and what is asked of it before it is taken.

/// Makes the type of a loaded library with its public functions. The head: the type's documentation, the type, the library's
/// words, its version's function, the trait, the call's identity, and what its `version` says.
///
/// Beside it stand, in the library's own file: its table (`table!`), `Table::version`, `cause`, and `LIBRARY`, where it is
/// looked for.
macro_rules! loader {
    ($Lib:ident, $words:literal, $variable:literal, $version_call:ident, $Api:ident, $Call:ident,
     $(#[doc = $version:literal])+) => {
        #[doc = concat!($words, " as it is installed on this machine.")]
        ///
        /// It may be loaded any number of times. Like a driver it is never unloaded.
        pub struct $Lib {
            table: Table,
            version: $crate::Version,
            path: std::path::PathBuf,
        }

        impl $Lib {
            #[doc = concat!("Loads ", $words, " from where it is usually installed, or from what `", $variable, "` names: a")]
            /// file or a folder.
            ///
            #[doc = concat!("Calls `", stringify!($version_call), "`.")]
            ///
            /// # Errors
            #[doc = concat!("What was tried, each with its reason, if none of it is ", $words, ".")]
            pub fn load() -> Result<Self, $crate::load::LoadError> {
                // SAFETY: these names are the library's; who sets the variables or the search path decides what code the
                // process runs, as with any library that is loaded by name.
                LIBRARY.find(|asked| unsafe { Self::open(asked) })
            }

            #[doc = concat!("Loads ", $words, " from this file, or from this folder, and from nowhere else.")]
            ///
            #[doc = concat!("Calls `", stringify!($version_call), "`.")]
            ///
            /// # Errors
            #[doc = concat!("What was tried, with the reason, if it isn't ", $words, ".")]
            ///
            /// # Safety
            /// - *code*: the library's constructors and destructors are sound to run in this process;
            #[doc = concat!("- *symbols*: what it exports under ", $words, "'s names is what ", $words, " declares under them,")]
            #[doc = concat!("  and keeps [`", stringify!($Api), "`]'s promises: *written*, *no unwinding*, *any thread*.")]
            pub unsafe fn load_from(path: &std::path::Path) -> Result<Self, $crate::load::LoadError> {
                // SAFETY: *code*, *symbols*: the caller's promise.
                LIBRARY.at(path, |asked| unsafe { Self::open(asked) })
            }

            #[doc = concat!("Whether this ", $words, " has the function.")]
            #[must_use]
            pub fn has(&self, call: $Call) -> bool {
                self.table.has(call)
            }

            $(#[doc = $version])+
            #[must_use]
            pub fn version(&self) -> $crate::Version {
                self.version
            }

            /// The file of the library, or the name under which it was loaded where the system doesn't tell.
            #[must_use]
            pub fn path(&self) -> &std::path::Path {
                &self.path
            }

            /// # Safety
            /// As [`load_from`](Self::load_from).
            unsafe fn open(asked: &std::path::Path) -> Result<Self, $crate::load::Attempt> {
                use $crate::load::{Opened, Reason};
                const VERSION: &str = $Call::$version_call.name();
                $crate::compiler::not_a_folder(asked)?;
                // SAFETY: *code*: the caller's promise.
                let library = unsafe { Opened::open(asked) }?;
                let Some(version) = library.symbol(VERSION) else {
                    return Err(library.refuse(None, Reason::Lacks(VERSION)));
                };
                // SAFETY: *symbols*: the caller's promise. A table that is dropped below is dropped before the library is
                // closed, one that is returned keeps it open.
                let table = unsafe { Table::new(&library) };
                match table.version() {
                    Err(status) => Err(library
                        .refuse(Some(version), Reason::NoVersion(VERSION, status.to_string()))),
                    Ok(number) => Ok(Self { table, version: number, path: library.keep(version) }),
                }
            }
        }

        impl core::fmt::Debug for $Lib {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($Lib))
                    .field("path", &self.path)
                    .field("version", &self.version)
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use loader;
