//! The forms that every object's type has in common and that make no call: taken over and borrowed, given away, its raw
//! value, its driver, its name in a message. Whatever makes a call stands written out in the type's own file.

/// Writes the common forms of a newtype over a carrier.
///
/// ```text
/// forms! { Array(Owned<ArrayRes>): CUarray, "array", (context: &Context) => context.clone() }
///          type  carrier resource  raw type  words    parameters            dependencies; may use `?`
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! forms {
    ($Type:ident($Carrier:ident<$Res:ty>): $Raw:ty, $words:literal,
     ($($parameter:ident: $Parameter:ty),* $(,)?) => $deps:expr) => {
        impl $Type {
            #[doc = concat!("Takes over a raw ", $words, " that the caller created.")]
            ///
            /// Calls nothing.
            ///
            /// # Errors
            /// Null is refused, and arguments of two drivers; the raw value is then still the caller's.
            ///
            /// # Safety
            #[doc = concat!("`raw` is a live ", $words, " of what the other arguments name, and nobody else ends it.")]
            pub unsafe fn from_raw($($parameter: $Parameter,)* raw: $Raw) -> $crate::Result<Self> {
                let raw = $crate::resource::not_null(raw, $words)?;
                Ok(Self($crate::resource::$Carrier::own(raw, $deps)))
            }

            #[doc = concat!("Refers to a raw ", $words, " that somebody else ends; `owner` is kept alive as long.")]
            ///
            /// Calls nothing.
            ///
            /// # Errors
            /// Null is refused, and arguments of two drivers.
            ///
            /// # Safety
            #[doc = concat!("`raw` is a ", $words, " of what the other arguments name that lives as long as this value, or")]
            /// `owner` keeps it alive.
            pub unsafe fn borrow_raw(
                $($parameter: $Parameter,)*
                raw: $Raw,
                owner: Option<$crate::Owner>,
            ) -> $crate::Result<Self> {
                let raw = $crate::resource::not_null(raw, $words)?;
                Ok(Self($crate::resource::$Carrier::borrow(raw, $deps, owner)))
            }

            /// The driver's handle, which stays this value's.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn as_raw(&self) -> $Raw {
                self.0.raw()
            }

            /// The driver.
            ///
            /// Calls nothing.
            #[must_use]
            pub fn driver(&self) -> &$crate::Driver {
                self.0.driver()
            }

            #[doc = concat!("Gives the ", $words, " away without ending it: the raw value is the caller's now.")]
            ///
            /// Calls nothing.
            ///
            /// # Errors
            /// Gives this value back where others share it, and where it is somebody else's to end.
            pub fn into_raw(self) -> Result<$Raw, Self> {
                self.0.into_raw().map_err(Self)
            }
        }

        impl std::fmt::Debug for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}
