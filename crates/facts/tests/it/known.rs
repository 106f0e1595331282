//! In what the simulated driver and the committed reading are known to differ, each with the reason.

/// Questions that the simulated driver answers differently from the real one. A function with such a question doesn't
/// count as simulated, unless it is asked in another situation than its own.
pub(crate) const KNOWN: &[(&str, &str)] = &[
    ("a plain event isn't exported", "null is asked about otherwise"),
    ("cuIpcGetEventHandle with no context current", "the column said that none is needed"),
    ("an event of another process is an event", "another process exports one"),
    ("an event of another process is opened", "another process exports one"),
    (
        "cuIpcOpenEventHandle during a global capture elsewhere, on the capturing thread",
        "another process exports one",
    ),
    ("cuIpcOpenEventHandle with no context current", "another process exports one"),
    ("garbage opens no event", "another status"),
];

/// Functions that the simulated driver doesn't have, by reason: a question that needs one answers *missing*. None of
/// them counts as simulated.
pub(crate) const MISSING: &[(&str, &[&str])] = &[
    ("a library has its managed variables in each context", &["cuLibraryGetManaged"]),
    (
        "objects that the simulator is still to learn",
        &[
            "cuIpcCloseMemHandle",
            "cuIpcGetMemHandle",
            "cuMemAddressFree",
            "cuMemAddressReserve",
            "cuMemCreate",
            "cuMemGetAllocationGranularity",
            "cuMemImportFromShareableHandle",
            "cuMemPoolExportPointer",
            "cuMemPoolExportToShareableHandle",
            "cuMemPoolImportFromShareableHandle",
        ],
    ),
    (
        "there are no other APIs: what comes from them is planted",
        &["cuGraphicsGLRegisterBuffer", "cuImportExternalMemory", "cuImportExternalSemaphore"],
    ),
];
