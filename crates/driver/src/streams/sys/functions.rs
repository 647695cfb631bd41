//! The functions of a driver with streams, which NVIDIA's and AMD's have in common: the types are
//! those of "CUDA Driver API", and "HIP Runtime API" has the same under its own names.

use super::error::Status;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// A context, stream, event, module or function.
pub type Handle = *mut c_void;
/// An address of the device.
pub type Address = u64;

/// How a result is called: by a text that is put somewhere, or returned.
#[derive(Clone, Copy)]
pub enum ErrorName {
    Put(unsafe extern "system" fn(c_int, *mut *const c_char) -> Status),
    Returned(unsafe extern "system" fn(c_int) -> *const c_char),
}

/// How a thread says which device it means: by its context, which is kept, or by its number.
#[derive(Clone, Copy)]
pub enum Contexts {
    Kept {
        retain: unsafe extern "system" fn(*mut Handle, c_int) -> Status,
        release: unsafe extern "system" fn(c_int) -> Status,
        set: unsafe extern "system" fn(Handle) -> Status,
    },
    Numbered(unsafe extern "system" fn(c_int) -> Status),
}

/// How memory of two devices is named: by their contexts, or by their numbers.
#[derive(Clone, Copy)]
pub enum CopyBetween {
    Contexts(unsafe extern "system" fn(Address, Handle, Address, Handle, usize, Handle) -> Status),
    Numbers(unsafe extern "system" fn(Address, c_int, Address, c_int, usize, Handle) -> Status),
}

macro_rules! table {
    (
        own: { $($own:ident: $own_type:ty;)* }
        all: { $($name:ident ($($arg:ty),*);)* }
        if there: { $($maybe:ident ($($maybe_arg:ty),*);)* }
    ) => {
        /// Functions of a library.
        pub struct Functions {
            $(pub $own: $own_type,)*
            $(pub $name: unsafe extern "system" fn($($arg),*) -> Status,)*
            $(pub $maybe: Option<unsafe extern "system" fn($($maybe_arg),*) -> Status>,)*
        }
    };
}

table! {
    own: {
        error_name: ErrorName;
        contexts: Contexts;
        copy_between: Option<CopyBetween>;
    }
    all: {
        init (c_uint);
        device_count (*mut c_int);
        device (*mut c_int, c_int);
        device_name (*mut c_char, c_int, c_int);
        device_memory (*mut usize, c_int);
        device_attribute (*mut c_int, c_int, c_int);
        create_stream (*mut Handle, c_uint);
        destroy_stream (Handle);
        wait_stream (Handle);
        create_event (*mut Handle, c_uint);
        destroy_event (Handle);
        record_event (Handle, Handle);
        wait_event (Handle);
        query_event (Handle);
        elapsed (*mut f32, Handle, Handle);
        allocate (*mut Address, usize);
        free (Address);
        allocate_host (*mut *mut c_void, usize, c_uint);
        free_host (*mut c_void);
        copy_up (Address, *const c_void, usize, Handle);
        copy_down (*mut c_void, Address, usize, Handle);
        copy_across (Address, Address, usize, Handle);
        load_module (*mut Handle, *const c_void, c_uint, *const c_int, *const *mut c_void);
        unload_module (Handle);
        function (*mut Handle, Handle, *const c_char);
        launch
            (Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void);
    }
    if there: {
        // Memory in a stream's order.
        allocate_async (*mut Address, usize, Handle);
        free_async (Address, Handle);
        // Several streams, and devices.
        await_event (Handle, Handle, c_uint);
        // Graphs.
        begin_capture (Handle, c_uint);
        end_capture (Handle, *mut Handle);
        instantiate_graph (*mut Handle, Handle, u64);
        launch_graph (Handle, Handle);
        destroy_graph (Handle);
        destroy_ready_graph (Handle);
    }
}

/// Finds functions of a library by their symbols: all of them, or the one that is missing.
macro_rules! functions_of {
    (
        $library:expr;
        own: { $($own:ident: $own_value:expr;)* }
        all: { $($name:ident: $symbol:literal;)* }
        if there: { $($maybe:ident: $maybe_symbol:literal;)* }
    ) => {
        Ok($crate::streams::sys::Functions {
            $($own: $own_value,)*
            $($name: *$library.get(concat!($symbol, "\0").as_bytes()).map_err(|_| $symbol)?,)*
            $($maybe: $library.get(concat!($maybe_symbol, "\0").as_bytes()).ok().map(|f| *f),)*
        })
    };
}
pub(crate) use functions_of;

/// What graphs need: a capture's begin and end, making a graph ready, launching it, destroying both
/// forms of it.
#[derive(Clone, Copy)]
pub struct Capture {
    pub begin: unsafe extern "system" fn(Handle, c_uint) -> Status,
    pub end: unsafe extern "system" fn(Handle, *mut Handle) -> Status,
    pub instantiate: unsafe extern "system" fn(*mut Handle, Handle, u64) -> Status,
    pub launch: unsafe extern "system" fn(Handle, Handle) -> Status,
    pub destroy: unsafe extern "system" fn(Handle) -> Status,
    pub destroy_ready: unsafe extern "system" fn(Handle) -> Status,
}

impl Functions {
    /// What graphs need, if all of it is there.
    pub fn capture(&self) -> Option<Capture> {
        Some(Capture {
            begin: self.begin_capture?,
            end: self.end_capture?,
            instantiate: self.instantiate_graph?,
            launch: self.launch_graph?,
            destroy: self.destroy_graph?,
            destroy_ready: self.destroy_ready_graph?,
        })
    }
}
