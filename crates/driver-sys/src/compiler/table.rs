//! The functions of a loaded compiler.

/// Makes the table of a library's functions, and the library's implementation of its trait through it. The head: the
/// library's type, with a field `table`, the trait, the call's identity, the status, and the function that names a status,
/// where there is one. `explain` is a method of the library's own.
macro_rules! table {
    ({ $Lib:ident $Api:ident $Call:ident $Status:ident $($error_string:ident)? }
     $($name:ident $kind:ident $since:literal ($($argument:ident : $type:ty),* $(,)?);)*) => {
        /// One function pointer per function; `None` where this library lacks it.
        ///
        /// Invariant: each pointer is the library's function of the field's name, and the library stays loaded.
        struct Table {
            $($error_string: Option<unsafe extern "C" fn($Status) -> *const core::ffi::c_char>,)?
            $($name: Option<unsafe extern "C" fn($($type),*) -> $Status>,)*
        }

        impl Table {
            /// # Safety
            /// What the library exports under these names is what it declares under them, and it stays loaded as long as
            /// the table is used.
            #[expect(clippy::disallowed_methods, reason = "the loader turns an address into a function")]
            unsafe fn new(library: &$crate::load::Opened) -> Self {
                type Address = core::ptr::NonNull<core::ffi::c_void>;
                Self {
                    $($error_string: library.symbol(stringify!($error_string)).map(|address| {
                        // SAFETY: this is the signature that the library gives the name; the caller's promise.
                        unsafe {
                            core::mem::transmute::<Address, unsafe extern "C" fn($Status) -> *const core::ffi::c_char>(address)
                        }
                    }),)?
                    $($name: library.symbol(stringify!($name)).map(|address| {
                        // SAFETY: the address is this function's, whose signature the list has; the caller's promise.
                        unsafe {
                            core::mem::transmute::<Address, unsafe extern "C" fn($($type),*) -> $Status>(address)
                        }
                    }),)*
                }
            }

            fn has(&self, call: $Call) -> bool {
                match call { $($Call::$name => self.$name.is_some(),)* }
            }
        }

        // SAFETY: *written*, *no unwinding*, *any thread*: promised for the library by whoever loaded it; what is answered
        // without reaching it isn't SUCCESS.
        unsafe impl $Api for $Lib {
            fn explain(&self, status: $Status) -> Option<String> {
                self.cause(status)
            }
            $(
                unsafe fn $error_string(&self, result: $Status) -> *const core::ffi::c_char {
                    match self.table.$error_string {
                        // SAFETY: the pointer is the library's function (the table's invariant), which takes any status.
                        Some(function) => unsafe { function(result) },
                        None => core::ptr::null(),
                    }
                }
            )?
            $(
                unsafe fn $name(&self, $($argument: $type),*) -> $Status {
                    match self.table.$name {
                        // SAFETY: the pointer is the library's function (the table's invariant); *pointers*, *programs*,
                        // *calls back*: the caller's promise, passed on.
                        Some(function) => unsafe { function($($argument),*) },
                        None => self.unsupported($Call::$name),
                    }
                }
            )*
        }
    };
}
pub(crate) use table;
