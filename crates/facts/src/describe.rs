//! Who the driver is: the head of a reading.

#![expect(unsafe_code, reason = "the driver is asked")]

use core::ffi::{CStr, c_char};

use crate::ctx::{Ctx, Subject};
use crate::setup::Made;

const NAME_BYTES: usize = 128;

/// The name of device 0 and the driver's version; where it doesn't answer, what it answered and 0.
pub(crate) fn describe(subject: &Subject) -> (String, i32) {
    let ctx = Ctx::new(subject.clone(), None, true);
    ask(&ctx).unwrap_or_else(|failure| (failure.to_string(), 0))
}

fn ask(c: &Ctx) -> Made<(String, i32)> {
    let mut version = 0;
    must!(c.cuDriverGetVersion(&raw mut version));
    let device = c.device()?;
    let mut name = [0_u8; NAME_BYTES];
    must!(c.cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), 128, device));
    let name = CStr::from_bytes_until_nul(&name).map(CStr::to_string_lossy);
    Ok((name.map(String::from).unwrap_or_default(), version))
}
