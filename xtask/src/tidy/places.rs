//! What may be done in few places only: switching contexts, reading the environment, opening libraries.

use super::Finding;
use crate::workspace::Source;

/// An act, by how it is written, and the files of the published crates where it may stand.
struct Act {
    written: &'static [&'static str],
    /// Beginnings of paths.
    allowed: &'static [&'static str],
    what: &'static str,
}

const ACTS: &[Act] = &[
    Act {
        written: &[".cuCtxSetCurrent(", ".cuCtxPushCurrent_v2(", ".cuCtxPopCurrent_v2("],
        allowed: &[
            "crates/handles/src/scope/",
            "crates/handles/src/device.rs",
            // Asks the driver how it does it, on a thread of its own.
            "crates/handles/src/driver/verify.rs",
        ],
        what: "changes which context is current",
    },
    Act {
        written: &["env::var", "env::vars"],
        allowed: &[
            "crates/driver-sys/src/load/",
            "crates/driver-sys/src/compiler/search.rs",
            // In a build of its own alone.
            "crates/driver-sys/src/mutant.rs",
            "crates/handles/src/report/filter.rs",
            "crates/handles/src/device.rs",
        ],
        what: "reads the environment",
    },
    Act {
        written: &["libloading::"],
        allowed: &[
            "crates/driver-sys/src/load/",
            "crates/driver-sys/src/compiler/",
            "crates/driver-sys/src/nvjitlink/",
            "crates/driver-sys/src/nvrtc/",
            "crates/driver-sys/src/nvvm/",
        ],
        what: "opens a library",
    },
];

/// Crates whose code is about other things than the policy: drivers, and what tests share.
const OTHER_CRATES: &[&str] =
    &["crates/driver-sim/", "crates/testkit/", "crates/facts/", "crates/libcuda-sim/"];

/// Every act out of place.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    let policy = source.path.starts_with("crates/")
        && source.path.contains("/src/")
        && !OTHER_CRATES.iter().any(|other| source.path.starts_with(other));
    if !policy {
        return found;
    }
    let code = source.text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    for (number, line) in (1..).zip(code.lines()) {
        if line.trim_start().starts_with("//") {
            continue;
        }
        for act in ACTS {
            let written = act.written.iter().any(|written| line.contains(written));
            if written && !act.allowed.iter().any(|allowed| source.path.starts_with(allowed)) {
                found.push(Finding::new(
                    &source.path,
                    number,
                    format!("{}: not in this file", act.what),
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Source { path: path.to_owned(), text: text.to_owned() }).len()
    }

    #[test]
    fn an_act_is_found_where_it_is_not_allowed() {
        let text = "fn f() { unsafe { calls.cuCtxSetCurrent(raw) } }\n";
        assert_eq!(found("crates/handles/src/event.rs", text), 1);
        assert_eq!(found("crates/handles/src/scope/mod.rs", text), 0);
        assert_eq!(found("crates/handles/tests/it/scope.rs", text), 0);
        assert_eq!(found("crates/driver-sim/src/world/mod.rs", text), 0);
    }

    #[test]
    fn comments_and_tests_may_name_it() {
        let text =
            "// env::var(\nfn f() {}\n#[cfg(test)]\nmod tests { fn g() { env::var(\"A\"); } }\n";
        assert_eq!(found("crates/handles/src/event.rs", text), 0);
        assert_eq!(found("crates/handles/src/event.rs", "fn f() { std::env::var(\"A\"); }"), 1);
    }
}
