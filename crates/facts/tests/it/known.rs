//! In what the simulated driver and the committed reading are known to differ, each with the reason.

/// Questions that the simulated driver answers differently from the real one. A function with such a question doesn't
/// count as simulated, unless it is asked in another situation than its own.
pub(crate) const KNOWN: &[(&str, &str)] = &[];

/// Functions that the simulated driver doesn't have, by reason: a question that needs one answers *missing*. None of
/// them counts as simulated.
pub(crate) const MISSING: &[(&str, &[&str])] = &[
    ("a library has its managed variables in each context", &["cuLibraryGetManaged"]),
    (
        "there are no other APIs: what comes from them is planted",
        &["cuGraphicsGLRegisterBuffer", "cuImportExternalMemory", "cuImportExternalSemaphore"],
    ),
];
