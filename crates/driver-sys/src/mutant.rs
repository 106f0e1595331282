//! Mechanisms of the failure policy that can be taken out by name, to see that a test notices.
//!
//! In every build but one a mechanism is in, whatever the environment says: [`is_out`] is `false` when this is compiled.
//! Built with `--cfg mutants`, it asks the variable `CUHOLD_MUTANT`. `cargo xtask mutants` makes that build, takes out one
//! mechanism after the other, and runs for each the test that must fail.

/// The variable that names the mechanism to take out.
#[cfg(mutants)]
const VARIABLE: &str = "CUHOLD_MUTANT";

/// Whether the mechanism of this name is taken out.
///
/// Calls nothing.
#[cfg(mutants)]
#[must_use]
pub fn is_out(name: &str) -> bool {
    static OUT: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    OUT.get_or_init(|| std::env::var(VARIABLE).ok()).as_deref() == Some(name)
}

/// Whether the mechanism of this name is taken out: never.
///
/// Calls nothing.
#[cfg(not(mutants))]
#[must_use]
#[inline(always)]
#[expect(clippy::inline_always, reason = "nothing may be left of it in the fastest calls")]
pub const fn is_out(_: &str) -> bool {
    false
}
