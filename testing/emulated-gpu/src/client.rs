//! The functions of CUDA's driver that stand-ins of libraries above it need: those that copy.

#![allow(unsafe_code, reason = "functions of a C library")]

use libloading::Library;
use std::env;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $symbol:literal ($($arg:ty),*);)*) => {
        /// The driver that this process uses.
        #[derive(Clone, Copy, Debug)]
        pub struct Driver {
            $($(#[$doc])* pub $name: unsafe extern "system" fn($($arg),*) -> c_int,)*
        }

        fn load() -> Option<Driver> {
            let name = env::var("ELINVAR_CUDA_LIBRARY").unwrap_or_else(|_| "libcuda.so.1".into());
            // SAFETY: it is the driver's library, which the process has loaded, or one in its
            // place; its functions have these types, and it is leaked, so they stay.
            unsafe {
                let library = Library::new(name).ok()?;
                let driver = Driver { $($name: *library.get(concat!($symbol, "\0").as_bytes()).ok()?,)* };
                std::mem::forget(library);
                Some(driver)
            }
        }
    };
}

functions! {
    /// A new stream.
    create_stream: "cuStreamCreate" (*mut *mut c_void, u32);
    /// Waits for a stream.
    wait: "cuStreamSynchronize" (*mut c_void);
    /// Copies to the host, in a stream.
    down: "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, *mut c_void);
    /// Copies from the host.
    up: "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, *mut c_void);
    /// A new event.
    create_event: "cuEventCreate" (*mut *mut c_void, u32);
    /// Destroys one.
    destroy_event: "cuEventDestroy_v2" (*mut c_void);
}

impl Driver {
    /// `None` without a driver's library.
    pub fn get() -> Option<&'static Driver> {
        static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
        DRIVER.get_or_init(load).as_ref()
    }
}
