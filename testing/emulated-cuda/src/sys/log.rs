//! JIT options of a caller (`CUjit_option`).

use super::api::Handle;
use std::ffi::{c_char, c_int, c_uint};

/// The error log buffer: options 5 and 6.
pub struct Log {
    at: *mut c_char,
    room: usize,
    /// The target: option 9.
    pub target: Option<usize>,
}

impl Log {
    /// Reads the options of a caller.
    ///
    /// # Safety
    /// Both arrays have `count` elements.
    pub unsafe fn of(count: c_uint, options: *const c_int, values: *const Handle) -> Log {
        let mut log = Log { at: std::ptr::null_mut(), room: 0, target: None };
        for i in 0..count as usize {
            // SAFETY: guaranteed by the caller.
            let (option, value) = unsafe { (*options.add(i), *values.add(i)) };
            match option {
                5 => log.at = value.cast(),
                6 => log.room = value as usize,
                9 => log.target = Some(value as usize),
                _ => {}
            }
        }
        log
    }
    /// Writes a message, to the buffer and to standard error.
    pub fn write(&self, text: &str) {
        eprintln!("emulated cuda: {text}");
        if self.at.is_null() || self.room == 0 {
            return;
        }
        for (i, b) in text.bytes().take(self.room - 1).chain([0]).enumerate() {
            // SAFETY: the caller has `room` bytes there.
            unsafe { self.at.add(i).write(b as c_char) };
        }
    }
}
