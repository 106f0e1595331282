//! The boundary to foreign code: a panic in a sink, a closure or a user's `Drop` ends here (P8).

use cuhold_driver_sys::mutant;
use std::{
    any::Any,
    fmt,
    mem::ManuallyDrop,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

/// A panic that was caught. Its payload is foreign too: dropping this drops it within the boundary.
pub struct Caught(ManuallyDrop<Option<Box<dyn Any + Send>>>);

impl Caught {
    /// What was thrown.
    #[must_use]
    pub fn payload(&self) -> &(dyn Any + Send) {
        self.0.as_deref().unwrap_or(&())
    }

    /// The panic's text.
    pub(crate) fn text(&self) -> &str {
        panic_text(self.payload())
    }
}

impl Caught {
    /// Lets the panic go on.
    pub fn resume(mut self) -> ! {
        resume_unwind(self.0.take().unwrap_or_else(|| Box::new(())))
    }
}

impl fmt::Debug for Caught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Caught").field(&self.text()).finish()
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        let payload = self.0.take();
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            // A payload whose `Drop` panics may well throw another such payload: this one is leaked.
            let _: ManuallyDrop<Box<dyn Any + Send>> = ManuallyDrop::new(second);
        }
    }
}

const NO_TEXT: &str = "the panic has no text";

/// The text of a panic's payload, which is one where `panic!` made it.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or(NO_TEXT)
}

/// Runs foreign code.
///
/// What it may leave half-done is its own: nothing of this library's is borrowed mutably by it.
///
/// # Errors
/// The panic.
pub fn call<R>(code: impl FnOnce() -> R) -> Result<R, Caught> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|payload| Caught(ManuallyDrop::new(Some(payload))))
}

/// Drops a foreign value.
///
/// # Errors
/// The panic of its `Drop`.
pub fn drop_caught<T>(value: T) -> Result<(), Caught> {
    if mutant::is_out("drop-panic") {
        drop(value);
        return Ok(());
    }
    call(|| drop(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;

    struct PanicsInDrop;

    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[test]
    fn what_foreign_code_returns_comes_back() {
        assert_eq!(call(|| 7).ok(), Some(7));
    }

    #[test]
    fn a_panic_is_caught_with_its_text() {
        let text = |code: fn()| call(code).err().map(|caught| caught.text().to_owned());
        assert_eq!(text(|| panic!("plain")).unwrap(), "plain");
        assert_eq!(text(|| panic!("formatted {}", 1)).unwrap(), "formatted 1");
        assert_eq!(text(|| panic_any(1)).unwrap(), "the panic has no text");
    }

    #[test]
    fn a_value_whose_drop_panics_is_dropped_within_the_boundary() {
        assert_eq!(drop_caught(PanicsInDrop).err().unwrap().text(), "dropped");
    }

    #[test]
    fn a_payload_whose_drop_panics_does_not_get_out() {
        struct Payload;
        impl Drop for Payload {
            fn drop(&mut self) {
                resume_unwind(Box::new(PanicsInDrop));
            }
        }
        drop(call(|| panic_any(Payload)));
    }

    #[test]
    fn a_panic_is_caught_while_the_thread_unwinds_already() {
        struct CallsInDrop;
        impl Drop for CallsInDrop {
            fn drop(&mut self) {
                assert!(std::thread::panicking());
                assert_eq!(drop_caught(PanicsInDrop).err().unwrap().text(), "dropped");
            }
        }
        let first = call(|| {
            let _guard = CallsInDrop;
            panic!("first");
        });
        assert_eq!(first.err().unwrap().text(), "first");
    }
}
