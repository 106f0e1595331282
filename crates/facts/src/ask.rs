//! The three ways in which a probe calls the driver: to set up, to ask, and to ask what ends the process.
//!
//! Each is one unsafe operation. What their SAFETY comments promise is the rule for writing probes: a pointer is null
//! where the probe is about that, else it points at something that lives long enough; a handle is one that this driver
//! gave out, unless the probe is about handles that it didn't.

/// Makes a call that the probe needs but isn't about. A failure ends the probe, and is its answer.
macro_rules! must {
    ($c:ident.$form:ident($($argument:expr),* $(,)?)) => {{
        let calls = ::cuhold_driver_sys::Calls::new($c.driver());
        // SAFETY: *pointers*: to locals of the probe, or to what it leaked. *Handles*: made by this driver, not yet
        // destroyed. *Calls back*: only functions of `host.rs`, which don't unwind.
        unsafe { calls.$form($($argument),*) }?
    }};
}

/// Makes the call that the probe is about. What it answers is part of the probe's answer.
macro_rules! ask {
    ($c:ident.$form:ident($($argument:expr),* $(,)?)) => {
        ask!($c.$form($($argument),*), "")
    };
    ($c:ident.$form:ident($($argument:expr),* $(,)?), $label:expr) => {{
        // SAFETY: *pointers*: to locals of the probe, to what it leaked, or null or wrong where the driver was seen to
        // answer that with a status. *Handles*: as *pointers*. *Calls back*: only functions of `host.rs`.
        let status = unsafe { $c.driver().$form($($argument),*) };
        $c.heard($label, status)
    }};
}

/// Makes a call that ends a real driver's process, and that a simulated driver must report as a violation.
macro_rules! crash {
    ($c:ident.$form:ident($($argument:expr),* $(,)?)) => {{
        let before = $c.violations();
        // SAFETY: none of the driver's conditions is kept, on purpose. The real driver is only asked in a process of
        // its own that holds nothing else; a simulated one checks every handle before it follows it.
        let status = unsafe { $c.driver().$form($($argument),*) };
        $c.survived(before, status)
    }};
}
