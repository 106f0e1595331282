//! A launch's parameters, copied while the call lasts.

#![expect(unsafe_code, reason = "parameters are the caller's pointers")]

use cuhold_driver_sys::ffi::*;

use super::image::KernelInfo;
use crate::world::Out;

/// Copies the parameters of a kernel, each to its place in the parameter block.
///
/// They come as a list of pointers, one for each parameter, or ready as a block in the `extra` list; not as both.
///
/// # Errors
/// `INVALID_VALUE` for both or neither (where there are parameters), a null pointer, a block that is too small;
/// `INVALID_IMAGE` if the image doesn't say what parameters there are.
///
/// # Safety
/// *pointers*: the list has a pointer to each parameter of the kernel; the `extra` list ends, and describes a block
/// that is readable.
pub(super) unsafe fn gather(
    info: &KernelInfo,
    list: Out<*mut c_void>,
    extra: Out<*mut c_void>,
) -> Result<Vec<u8>, CUresult> {
    let params = info.params.as_ref().ok_or(CUresult::INVALID_IMAGE)?;
    match (list.is_null(), extra.is_null()) {
        (false, false) => return Err(CUresult::INVALID_VALUE),
        // SAFETY: *pointers*.
        (true, false) => return unsafe { block(extra, info.params_bytes()) },
        (true, true) if !params.is_empty() => return Err(CUresult::INVALID_VALUE),
        _ => {}
    }
    let mut bytes = vec![0; info.params_bytes()];
    for (index, param) in params.iter().enumerate() {
        // SAFETY: *pointers*: the list is as long as there are parameters.
        let place = unsafe { list.as_ptr().add(index) };
        // SAFETY: as above.
        let value: *const u8 = unsafe { place.read() }.cast_const().cast();
        let target = bytes.get_mut(param.offset..).and_then(|rest| rest.get_mut(..param.size));
        let (false, Some(target)) = (value.is_null(), target) else {
            return Err(CUresult::INVALID_VALUE);
        };
        // SAFETY: *pointers*: a value of this size; `target` is as long and is our own.
        unsafe { value.copy_to_nonoverlapping(target.as_mut_ptr(), target.len()) };
    }
    Ok(bytes)
}

/// The block that an `extra` list describes: keys and values by turns, up to the end mark.
///
/// # Safety
/// *pointers*: as in [`gather`].
unsafe fn block(extra: Out<*mut c_void>, expected: usize) -> Result<Vec<u8>, CUresult> {
    let (mut start, mut size) = (None, None);
    let mut at = extra.as_ptr();
    loop {
        // SAFETY: *pointers*: the list goes on until its end mark.
        let key = unsafe { at.read() };
        if key == CU_LAUNCH_PARAM_END {
            break;
        }
        // SAFETY: as above: behind a key stands its value.
        let place = unsafe { at.add(1) };
        // SAFETY: as above.
        let value = unsafe { place.read() };
        if key == CU_LAUNCH_PARAM_BUFFER_POINTER {
            start = Some(value.cast_const().cast::<u8>());
        } else if key == CU_LAUNCH_PARAM_BUFFER_SIZE {
            // SAFETY: *pointers*: the size's own place.
            size = Some(unsafe { value.cast::<usize>().read() });
        } else {
            return Err(CUresult::INVALID_VALUE);
        }
        // SAFETY: as above: behind a value stands the next key, or the end mark.
        at = unsafe { at.add(2) };
    }
    let (Some(start), Some(size)) = (start, size) else { return Err(CUresult::INVALID_VALUE) };
    if start.is_null() || size < expected {
        return Err(CUresult::INVALID_VALUE);
    }
    let mut bytes = vec![0; expected];
    // SAFETY: *pointers*: at least `expected` bytes; `bytes` is as long and is our own.
    unsafe { start.copy_to_nonoverlapping(bytes.as_mut_ptr(), expected) };
    Ok(bytes)
}
