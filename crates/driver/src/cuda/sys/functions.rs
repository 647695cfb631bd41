//! The functions of the CUDA driver API that are used, with the types of NVIDIA's manual ("CUDA
//! Driver API").

use crate::streams::sys::{
    Address, Contexts, CopyBetween, ErrorName, Functions, Handle, Status, functions_of,
};
use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// The functions that NVIDIA shares with others.
///
/// # Errors
/// Which one is missing.
///
/// # Safety
/// A library that has a function of one of these names has it with these types, as NVIDIA's has,
/// and stays loaded as long as the table is used.
pub unsafe fn functions(library: &Library) -> Result<Functions, &'static str> {
    // SAFETY: the caller's promise.
    unsafe {
        functions_of! {
            library;
            own: {
                error_name: ErrorName::Put(
                    *library.get(b"cuGetErrorName\0").map_err(|_| "cuGetErrorName")?
                );
                contexts: Contexts::Kept {
                    retain: *library
                        .get(b"cuDevicePrimaryCtxRetain\0")
                        .map_err(|_| "cuDevicePrimaryCtxRetain")?,
                    release: *library
                        .get(b"cuDevicePrimaryCtxRelease_v2\0")
                        .map_err(|_| "cuDevicePrimaryCtxRelease_v2")?,
                    set: *library.get(b"cuCtxSetCurrent\0").map_err(|_| "cuCtxSetCurrent")?,
                };
                copy_between: library.get(b"cuMemcpyPeerAsync\0").ok().map(|f| CopyBetween::Contexts(*f));
            }
            all: {
                init: "cuInit";
                device_count: "cuDeviceGetCount";
                device: "cuDeviceGet";
                device_name: "cuDeviceGetName";
                device_memory: "cuDeviceTotalMem_v2";
                device_attribute: "cuDeviceGetAttribute";
                create_stream: "cuStreamCreate";
                destroy_stream: "cuStreamDestroy_v2";
                wait_stream: "cuStreamSynchronize";
                create_event: "cuEventCreate";
                destroy_event: "cuEventDestroy_v2";
                record_event: "cuEventRecord";
                wait_event: "cuEventSynchronize";
                query_event: "cuEventQuery";
                elapsed: "cuEventElapsedTime";
                allocate: "cuMemAlloc_v2";
                free: "cuMemFree_v2";
                allocate_host: "cuMemHostAlloc";
                free_host: "cuMemFreeHost";
                copy_up: "cuMemcpyHtoDAsync_v2";
                copy_down: "cuMemcpyDtoHAsync_v2";
                copy_across: "cuMemcpyDtoDAsync_v2";
                load_module: "cuModuleLoadDataEx";
                unload_module: "cuModuleUnload";
                function: "cuModuleGetFunction";
                launch: "cuLaunchKernel";
            }
            if there: {
                // Since CUDA 11.2.
                allocate_async: "cuMemAllocAsync";
                free_async: "cuMemFreeAsync";
                await_event: "cuStreamWaitEvent";
                // In this form since CUDA 11.4.
                begin_capture: "cuStreamBeginCapture_v2";
                end_capture: "cuStreamEndCapture";
                instantiate_graph: "cuGraphInstantiateWithFlags";
                launch_graph: "cuGraphLaunch";
                destroy_graph: "cuGraphDestroy";
                destroy_ready_graph: "cuGraphExecDestroy";
            }
        }
    }
}

macro_rules! table {
    (
        all: { $($name:ident: $symbol:literal ($($arg:ty),*);)* }
        if there: { $($maybe:ident: $maybe_symbol:literal ($($maybe_arg:ty),*);)* }
    ) => {
        /// Functions that no other vendor has.
        pub struct NvidiaFunctions {
            $(pub $name: unsafe extern "system" fn($($arg),*) -> Status,)*
            $(pub $maybe: Option<unsafe extern "system" fn($($maybe_arg),*) -> Status>,)*
        }

        impl NvidiaFunctions {
            /// Finds them all, or says which one is missing.
            ///
            /// # Safety
            /// As [`functions`].
            pub unsafe fn of(library: &Library) -> Result<NvidiaFunctions, &'static str> {
                // SAFETY: the caller's promise.
                unsafe {
                    Ok(NvidiaFunctions {
                        $($name: *library.get(concat!($symbol, "\0").as_bytes()).map_err(|_| $symbol)?,)*
                        $($maybe: library.get(concat!($maybe_symbol, "\0").as_bytes()).ok().map(|f| *f),)*
                    })
                }
            }
        }
    };
}

table! {
    all: {
        link_create: "cuLinkCreate_v2" (c_uint, *const c_int, *const *mut c_void, *mut Handle);
        link_add: "cuLinkAddData_v2"
            (Handle, c_int, *const c_void, usize, *const c_char, c_uint, *const c_int, *const *mut c_void);
        link_complete: "cuLinkComplete" (Handle, *mut *mut c_void, *mut usize);
        link_destroy: "cuLinkDestroy" (Handle);
        set_attribute: "cuFuncSetAttribute" (Handle, c_int, c_int);
    }
    if there: {
        // Maps of tensors came with CUDA 12.0.
        encode_map: "cuTensorMapEncodeTiled"
            (*mut c_void, c_int, c_uint, Address, *const u64, *const u64, *const u32, *const u32, c_int, c_int, c_int, c_int);
        // A library that only emulates a device says so.
        is_emulated: "elinvar_emulated_cuda" ();
    }
}

/// What makes a map of a tensor.
pub type EncodeTensorMap = unsafe extern "system" fn(
    *mut c_void,
    c_int,
    c_uint,
    Address,
    *const u64,
    *const u64,
    *const u32,
    *const u32,
    c_int,
    c_int,
    c_int,
    c_int,
) -> Status;
