//! The options of the compiler that a load may bring, as far as they are answered through: its logs.
//!
//! An option is a number, its value a word: a pointer, or a number in the pointer's place. The size of a log buffer is
//! replaced by how much was written.

#![expect(unsafe_code, reason = "option values are the caller's pointers")]

use cuhold_driver_sys::ffi::*;

use crate::world::Out;

/// The logs that a load was given room for.
#[derive(Debug, Default)]
pub(super) struct Logs {
    info: Buffer,
    error: Buffer,
}

/// A buffer and where its size stands.
#[derive(Debug, Default)]
struct Buffer {
    start: Option<*mut c_char>,
    size: Option<*mut *mut c_void>,
    /// How large it was said to be, where the word that said so is used up.
    room: Option<usize>,
}

impl Logs {
    /// Reads the options; `INVALID_VALUE` if they are said to be there and aren't.
    ///
    /// # Safety
    /// *pointers*: both arrays have `count` entries.
    pub(super) unsafe fn read(
        options: Out<CUjit_option>,
        values: Out<*mut c_void>,
        count: usize,
    ) -> Result<Self, CUresult> {
        // SAFETY: *pointers*.
        let names = unsafe { options.as_in().read_all(count) }.ok_or(CUresult::INVALID_VALUE)?;
        // SAFETY: *pointers*.
        let words = unsafe { values.as_in().read_all(count) }.ok_or(CUresult::INVALID_VALUE)?;
        let mut logs = Self::default();
        for (index, (name, word)) in names.into_iter().zip(words).enumerate() {
            let place = values.as_ptr().wrapping_add(index);
            match name {
                CUjit_option::CU_JIT_INFO_LOG_BUFFER => logs.info.start = Some(word.cast()),
                CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES => logs.info.size = Some(place),
                CUjit_option::CU_JIT_ERROR_LOG_BUFFER => logs.error.start = Some(word.cast()),
                CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES => logs.error.size = Some(place),
                _ => {}
            }
        }
        Ok(logs)
    }

    /// For logs that are written later on: takes down how large they are; so far nothing is written (measured: the sizes
    /// are 0 at once).
    ///
    /// # Safety
    /// *pointers*: the arrays of [`read`](Self::read) are still there.
    pub(super) unsafe fn begin(&mut self) {
        for buffer in [&mut self.info, &mut self.error] {
            let Some(size) = buffer.size else { continue };
            // SAFETY: *pointers*: the place of a value in the caller's array.
            buffer.room = Some(unsafe { size.read() }.addr());
            // SAFETY: as above.
            unsafe { size.write(core::ptr::null_mut()) };
        }
    }

    /// Fills the logs: the one of errors with what a load failed with.
    ///
    /// # Safety
    /// *pointers*: each buffer is as large as its size says, and the arrays of [`read`](Self::read) are still there.
    pub(super) unsafe fn write(&self, failure: Option<CUresult>) {
        let text = failure.and_then(CUresult::description).unwrap_or_default();
        // SAFETY: *pointers*.
        unsafe { self.info.write("") };
        // SAFETY: *pointers*.
        unsafe { self.error.write(text) };
    }
}

impl Buffer {
    /// Writes the text with its NUL, cut to the buffer, and how much that was.
    ///
    /// # Safety
    /// *pointers*: as in [`Logs::write`].
    unsafe fn write(&self, text: &str) {
        let Some(size) = self.size else { return };
        // SAFETY: *pointers*: the place of a value in the caller's array.
        let said = unsafe { size.read() }.addr();
        let room = self.room.unwrap_or(said);
        let Some(cut) = room.checked_sub(1).map(|most| most.min(text.len())) else { return };
        if let Some(start) = self.start.filter(|start| !start.is_null()) {
            let target: *mut u8 = start.cast();
            // SAFETY: *pointers*: `cut` is less than the buffer's size, and no longer than the text.
            unsafe { target.copy_from_nonoverlapping(text.as_ptr(), cut) };
            // SAFETY: *pointers*: `cut` is less than the buffer's size.
            let end = unsafe { target.add(cut) };
            // SAFETY: as above.
            unsafe { end.write(0) };
        }
        // SAFETY: *pointers*: the place of a value in the caller's array.
        unsafe { size.write(core::ptr::without_provenance_mut(cut)) };
    }
}
