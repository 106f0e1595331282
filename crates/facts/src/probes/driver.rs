//! Initialization, versions, error names, entry points, logs.
//!
//! Source: CUDA Driver API 13.x, "Initialization", "Version Management", "Error Handling", "Driver Entry Point Access".

use core::{ffi::CStr, sync::atomic::AtomicU32};

use cuhold_driver_sys::{Call, ffi::*};

use crate::{
    ctx::Ctx,
    host,
    probe::{Probe, step},
    setup::Made,
};

pub(super) const PROBES: &[Probe] = &[
    Probe::works(Call::cuInit, "the driver can be initialized once more", |c| {
        c.device()?;
        step(|c| {
            ask!(c.cuInit(0));
            Ok(())
        })
    }),
    Probe::fails(Call::cuInit, "initializing takes no flags", |c| {
        ask!(c.cuInit(1));
        Ok(())
    }),
    Probe::case(Call::cuInit, "after a refused initialization nothing is initialized", |c| {
        ask!(c.cuInit(1));
        let mut count = 0;
        ask!(c.cuDeviceGetCount(&raw mut count));
        ask!(c.cuInit(0));
        Ok(())
    }),
    Probe::works(Call::cuDriverGetVersion, "the version is known before initialization", |_| {
        step(|c| {
            let mut version = 0;
            ask!(c.cuDriverGetVersion(&raw mut version));
            if c.observes() {
                c.holds("above_12", version >= 12_000);
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuDriverGetVersion, "the version needs somewhere to go", |c| {
        ask!(c.cuDriverGetVersion(core::ptr::null_mut()));
        Ok(())
    }),
    Probe::works(Call::cuGetErrorName, "a known status has a name before initialization", |_| {
        step(|c| {
            let mut text = core::ptr::null();
            ask!(c.cuGetErrorName(CUresult::INVALID_VALUE, &raw mut text));
            note_text(c, "name", text);
            Ok(())
        })
    }),
    Probe::fails(Call::cuGetErrorName, "an unknown status has no name", |c| {
        let mut text = c"untouched".as_ptr();
        ask!(c.cuGetErrorName(CUresult(9999), &raw mut text));
        c.holds("null", text.is_null());
        Ok(())
    }),
    Probe::works(Call::cuGetErrorString, "a known status has a description", |_| {
        step(|c| {
            let mut text = core::ptr::null();
            ask!(c.cuGetErrorString(CUresult::INVALID_VALUE, &raw mut text));
            if c.observes() {
                c.holds("null", text.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuGetErrorString, "an unknown status has no description", |c| {
        let mut text = c"untouched".as_ptr();
        ask!(c.cuGetErrorString(CUresult(9999), &raw mut text));
        c.holds("null", text.is_null());
        Ok(())
    }),
    Probe::works(Call::cuGetProcAddress_v2, "a known function has an entry point", |c| {
        c.device()?;
        step(|c| entry_point(c, c"cuMemAlloc", 12_000))
    }),
    Probe::fails(Call::cuGetProcAddress_v2, "a version above the driver's is refused", |c| {
        c.device()?;
        entry_point(c, c"cuMemAlloc", 99_000)
    }),
    Probe::case(Call::cuGetProcAddress_v2, "an unknown function is found missing", |c| {
        c.device()?;
        entry_point(c, c"cuNoSuchFunction", 12_000)
    }),
    Probe::case(Call::cuGetProcAddress_v2, "a function newer than the version is found so", |c| {
        c.device()?;
        entry_point(c, c"cuGraphConditionalHandleCreate", 11_000)
    }),
    Probe::case(Call::cuGetProcAddress_v2, "an entry point may be asked without a reason", |c| {
        c.device()?;
        let mut entry = core::ptr::null_mut();
        let reason = core::ptr::null_mut();
        ask!(c.cuGetProcAddress_v2(c"cuMemAlloc".as_ptr(), &raw mut entry, 12_000, 0, reason));
        c.holds("found", !entry.is_null());
        Ok(())
    }),
    Probe::case(Call::cuGetProcAddress_v2, "entry points are known before initialization", |c| {
        entry_point(c, c"cuMemAlloc", 12_000)
    }),
    Probe::works(Call::cuLogsRegisterCallback, "a log callback is registered", |c| {
        c.device()?;
        step(|c| {
            let mut handle = CUlogsCallbackHandle::NULL;
            let lines = host::user(host::leak(AtomicU32::new(0)));
            ask!(c.cuLogsRegisterCallback(Some(host::count_log), lines, &raw mut handle));
            if c.observes() {
                c.holds("handle", !handle.is_null());
            }
            Ok(())
        })
    }),
    Probe::fails(Call::cuLogsRegisterCallback, "a log callback can't be null", |c| {
        c.device()?;
        let mut handle = CUlogsCallbackHandle::NULL;
        ask!(c.cuLogsRegisterCallback(None, core::ptr::null_mut(), &raw mut handle));
        Ok(())
    }),
    Probe::works(Call::cuLogsUnregisterCallback, "a log callback is unregistered", |c| {
        let handle = log_callback(c)?;
        step(move |c| {
            ask!(c.cuLogsUnregisterCallback(handle));
            Ok(())
        })
    }),
    Probe::fails(Call::cuLogsUnregisterCallback, "no log callback is null", |c| {
        c.device()?;
        ask!(c.cuLogsUnregisterCallback(CUlogsCallbackHandle::NULL));
        Ok(())
    }),
    Probe::works(Call::cuLogsCurrent, "the log's end is an iterator", |c| {
        c.device()?;
        step(|c| {
            let mut at: CUlogIterator = 0;
            ask!(c.cuLogsCurrent(&raw mut at, 0));
            Ok(())
        })
    }),
    Probe::fails(Call::cuLogsCurrent, "the log's end takes no flags", |c| {
        c.device()?;
        let mut at: CUlogIterator = 0;
        ask!(c.cuLogsCurrent(&raw mut at, 1));
        Ok(())
    }),
    Probe::works(Call::cuLogsDumpToMemory, "the log is written to memory", |c| {
        c.device()?;
        step(|c| {
            let buffer: &'static mut [u8; LOG_BYTES] = Box::leak(Box::new([0; LOG_BYTES]));
            let mut bytes = LOG_BYTES;
            let to = buffer.as_mut_ptr().cast::<c_char>();
            ask!(c.cuLogsDumpToMemory(core::ptr::null_mut(), to, &raw mut bytes, 0));
            Ok(())
        })
    }),
    Probe::fails(Call::cuLogsDumpToMemory, "the log's memory needs a size", |c| {
        c.device()?;
        let mut buffer = [0_u8; 64];
        let to = buffer.as_mut_ptr().cast::<c_char>();
        let no_size = core::ptr::null_mut();
        ask!(c.cuLogsDumpToMemory(core::ptr::null_mut(), to, no_size, 0));
        Ok(())
    }),
    Probe::case(Call::cuLogsDumpToMemory, "a refused call leaves a line in the log", |c| {
        c.device()?;
        let mut at: CUlogIterator = 0;
        ask!(c.cuLogsCurrent(&raw mut at, 0));
        ask!(c.cuDeviceGetCount(core::ptr::null_mut()));
        let mut buffer = vec![0_u8; LOG_BYTES];
        let mut bytes = LOG_BYTES;
        let to = buffer.as_mut_ptr().cast::<c_char>();
        ask!(c.cuLogsDumpToMemory(&raw mut at, to, &raw mut bytes, 0));
        c.holds("text", bytes > 0);
        Ok(())
    }),
    Probe::works(Call::cuLogsDumpToFile, "the log is written to a file", |c| {
        c.device()?;
        step(|c| {
            ask!(c.cuLogsDumpToFile(core::ptr::null_mut(), c"/dev/null".as_ptr(), 0));
            Ok(())
        })
    }),
    Probe::fails(Call::cuLogsDumpToFile, "the log's file needs a path", |c| {
        c.device()?;
        ask!(c.cuLogsDumpToFile(core::ptr::null_mut(), core::ptr::null(), 0));
        Ok(())
    }),
];

const LOG_BYTES: usize = 25_600;

fn log_callback(c: &Ctx) -> Made<CUlogsCallbackHandle> {
    c.device()?;
    let mut handle = CUlogsCallbackHandle::NULL;
    let lines = host::user(host::leak(AtomicU32::new(0)));
    must!(c.cuLogsRegisterCallback(Some(host::count_log), lines, &raw mut handle));
    Ok(handle)
}

fn entry_point(c: &mut Ctx, name: &CStr, version: c_int) -> Made<()> {
    let mut entry: *mut c_void = core::ptr::null_mut();
    let mut reason = CUdriverProcAddressQueryResult(9);
    ask!(c.cuGetProcAddress_v2(name.as_ptr(), &raw mut entry, version, 0, &raw mut reason));
    if c.observes() {
        c.holds("found", !entry.is_null());
        c.note("reason", reason.0);
    }
    Ok(())
}

/// Takes a text of the driver's into the answer.
pub(super) fn note_text(c: &mut Ctx, name: &str, text: *const c_char) {
    if !c.observes() {
        return;
    }
    if text.is_null() {
        c.note(name, "null");
    } else {
        // SAFETY: the driver answered with a text of its own, which ends with NUL and lasts as long as its object.
        let text = unsafe { CStr::from_ptr(text) };
        c.note(name, text.to_string_lossy());
    }
}
