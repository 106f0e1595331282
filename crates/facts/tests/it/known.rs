//! In what the simulated driver and the committed reading are known to differ, each with the reason.

/// Questions that the simulated driver answers differently from the real one. A function with such a question doesn't
/// count as simulated, unless it is asked in another situation than its own.
pub(crate) const KNOWN: &[(&str, &str)] = &[
    (
        "a mapping in use is taken away at once",
        "the same fault with another status: which one a running kernel meets is the hardware's",
    ),
    (
        "memory in use is closed without waiting",
        "the real driver's kernel was done in time; here what is closed too early is always seen",
    ),
    (
        "physical memory is made for a fabric",
        "the machine that was read isn't let into a fabric; the simulated one is",
    ),
    (
        "memory of another process's pool in use is freed on an idle stream",
        "another reading of the same gave ILLEGAL_ADDRESS for the busy stream; here what is freed too early is always seen",
    ),
    (
        "memory of a pool that was exported is exported",
        "an address inside an allocation is taken here as the allocation",
    ),
];

/// Functions that the simulated driver doesn't have, by reason: a question that needs one answers *missing*. None of
/// them counts as simulated.
pub(crate) const MISSING: &[(&str, &[&str])] = &[
    ("a library has its managed variables in each context", &["cuLibraryGetManaged"]),
    (
        "there are no other APIs: what comes from them is planted",
        &["cuGraphicsGLRegisterBuffer", "cuImportExternalMemory", "cuImportExternalSemaphore"],
    ),
];
