//! What a documentation comment says of driver calls.

use cuhold_driver_sys::{Function, nvrtc::NvrtcCall};
use std::collections::BTreeSet;

/// What the line says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Calls {
    /// There is none.
    Unsaid,
    /// "Calls nothing."
    Nothing,
    /// It names calls, or functions that make the same: ``as [`write`](Self::write)``.
    Named { calls: BTreeSet<String>, same_as: BTreeSet<String> },
    /// It does neither.
    Unclear(String),
}

/// The policy's own calls, which every operation may make and none names.
const POLICY: &[&str] = &[
    "cuCtxGetCurrent",
    "cuCtxPushCurrent",
    "cuCtxPopCurrent",
    "cuThreadExchangeStreamCaptureMode",
];

/// Whether the call is the policy's own.
pub(crate) fn is_policy(name: &str) -> bool {
    POLICY.contains(&name)
}

/// What the paragraph that begins with "Calls" says.
pub(super) fn calls(doc: &str) -> Calls {
    let mut found = Calls::Unsaid;
    for paragraph in paragraphs(doc).filter(|paragraph| paragraph.starts_with("Calls ")) {
        match read(&paragraph, "Calls nothing") {
            unclear @ Calls::Unclear(_) => found = unclear,
            clear => return clear,
        }
    }
    found
}

/// What the sentence "Its drop calls" says; it goes on to the end of its paragraph.
pub(super) fn drop_calls(doc: &str) -> Calls {
    const SENTENCE: &str = "Its drop calls ";
    for paragraph in paragraphs(doc) {
        if let Some(at) = paragraph.find(SENTENCE) {
            return read(paragraph.get(at..).unwrap_or_default(), "Its drop calls nothing");
        }
    }
    Calls::Unsaid
}

fn read(text: &str, nothing: &str) -> Calls {
    let calls: BTreeSet<String> = names(text).map(str::to_owned).collect();
    let same_as: BTreeSet<String> = references(text).map(str::to_owned).collect();
    match (calls.is_empty(), same_as.is_empty()) {
        (true, true) if text.starts_with(nothing) => Calls::Nothing,
        (true, true) => Calls::Unclear(text.to_owned()),
        _ => Calls::Named { calls, same_as },
    }
}

/// The functions to which it refers: ``as [`write`]``, ``as [`Buffer::write`](crate::Buffer::write)``.
fn references(text: &str) -> impl Iterator<Item = &str> {
    text.split(" as [`").skip(1).filter_map(|rest| rest.split('`').next())
}

/// Whether the documentation says that the call invalidates captures.
pub(super) fn says_invalidates(doc: &str) -> bool {
    paragraphs(doc).any(|paragraph| paragraph.contains("invalidates captures"))
}

/// Whether one of our lists has the function. The lists of NVVM and nvJitLink are theirs alone.
pub(super) fn is_known(name: &str) -> bool {
    Function::by_name(name).is_some()
        || NvrtcCall::ALL.iter().any(|call| call.name() == name)
        || ["nvvm", "nvJitLink"].iter().any(|prefix| name.starts_with(prefix))
}

/// The paragraphs, each on one line.
fn paragraphs(doc: &str) -> impl Iterator<Item = String> {
    doc.split("\n\n").map(|paragraph| {
        paragraph.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned()
    })
}

/// The names of CUDA functions that stand in backticks.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|quoted| is_function(quoted))
}

fn is_function(quoted: &str) -> bool {
    let name = ["cu", "nvrtc", "nvvm", "nvJitLink"]
        .iter()
        .find_map(|prefix| quoted.strip_prefix(prefix))
        .unwrap_or_default();
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_may_go_on_and_say_more() {
        let doc = "Waits.\n\nCalls `cuStreamSynchronize`; the first\ntime `cuInit`. Blocks `self`.\n\nMore.";
        let Calls::Named { calls, same_as } = calls(doc) else { panic!("no calls") };
        assert!(same_as.is_empty());
        assert_eq!(calls.iter().collect::<Vec<_>>(), ["cuInit", "cuStreamSynchronize"]);
    }

    #[test]
    fn a_line_may_refer_to_another_function() {
        let doc = "Calls `cuInit`, then as [`write`](Self::write) and as [`B::c`].";
        let Calls::Named { calls, same_as } = calls(doc) else { panic!("no calls") };
        assert_eq!(calls.len(), 1);
        assert_eq!(same_as.iter().collect::<Vec<_>>(), ["B::c", "write"]);
    }

    #[test]
    fn words_in_backticks_that_are_no_functions_count_nothing() {
        assert_eq!(
            calls("Calls `custom` and `cuhold`."),
            Calls::Unclear("Calls `custom` and `cuhold`.".into())
        );
        assert_eq!(calls("Calls nothing.\n"), Calls::Nothing);
        assert_eq!(calls("It calls `cuInit`."), Calls::Unsaid);
    }

    #[test]
    fn an_end_is_a_sentence_of_the_type_s_documentation() {
        let doc = "A `cuInit` thing.\nIts drop calls `cuCtxDestroy`.\n\n`cuInit`";
        let Calls::Named { calls, .. } = drop_calls(doc) else { panic!("no calls") };
        assert_eq!(calls.iter().collect::<Vec<_>>(), ["cuCtxDestroy"]);
        assert_eq!(drop_calls("Its drop calls nothing: borrowed."), Calls::Nothing);
    }
}
