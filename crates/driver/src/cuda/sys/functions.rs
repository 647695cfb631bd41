//! The functions of the CUDA driver API that are used, with the types of NVIDIA's manual ("CUDA
//! Driver API").

use super::error::Status;
use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// A context, stream, event, module, function or link state.
pub type Handle = *mut c_void;
/// An address of the device.
pub type Address = u64;

macro_rules! table {
    (
        all: { $($name:ident: $symbol:literal ($($arg:ty),*);)* }
        if there: { $($maybe:ident: $maybe_symbol:literal ($($maybe_arg:ty),*);)* }
    ) => {
        /// Functions of a library.
        pub struct CudaFunctions {
            $(pub $name: unsafe extern "system" fn($($arg),*) -> Status,)*
            $(pub $maybe: Option<unsafe extern "system" fn($($maybe_arg),*) -> Status>,)*
        }

        impl CudaFunctions {
            /// Finds them all, or says which one is missing.
            ///
            /// # Safety
            /// A library that has a function of one of these names has it with these types, as
            /// NVIDIA's has, and stays loaded as long as the table is used.
            pub unsafe fn of(library: &Library) -> Result<CudaFunctions, &'static str> {
                // SAFETY: the caller's promise.
                unsafe {
                    Ok(CudaFunctions {
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
        init: "cuInit" (c_uint);
        error_name: "cuGetErrorName" (c_int, *mut *const c_char);
        device_count: "cuDeviceGetCount" (*mut c_int);
        device: "cuDeviceGet" (*mut c_int, c_int);
        device_name: "cuDeviceGetName" (*mut c_char, c_int, c_int);
        device_memory: "cuDeviceTotalMem_v2" (*mut usize, c_int);
        device_attribute: "cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
        retain_context: "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
        release_context: "cuDevicePrimaryCtxRelease_v2" (c_int);
        set_context: "cuCtxSetCurrent" (Handle);
        create_stream: "cuStreamCreate" (*mut Handle, c_uint);
        destroy_stream: "cuStreamDestroy_v2" (Handle);
        wait_stream: "cuStreamSynchronize" (Handle);
        create_event: "cuEventCreate" (*mut Handle, c_uint);
        destroy_event: "cuEventDestroy_v2" (Handle);
        record_event: "cuEventRecord" (Handle, Handle);
        wait_event: "cuEventSynchronize" (Handle);
        query_event: "cuEventQuery" (Handle);
        elapsed: "cuEventElapsedTime" (*mut f32, Handle, Handle);
        allocate: "cuMemAlloc_v2" (*mut Address, usize);
        free: "cuMemFree_v2" (Address);
        allocate_host: "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
        free_host: "cuMemFreeHost" (*mut c_void);
        copy_up: "cuMemcpyHtoDAsync_v2" (Address, *const c_void, usize, Handle);
        copy_down: "cuMemcpyDtoHAsync_v2" (*mut c_void, Address, usize, Handle);
        copy_across: "cuMemcpyDtoDAsync_v2" (Address, Address, usize, Handle);
        link_create: "cuLinkCreate_v2" (c_uint, *const c_int, *const *mut c_void, *mut Handle);
        link_add: "cuLinkAddData_v2"
            (Handle, c_int, *const c_void, usize, *const c_char, c_uint, *const c_int, *const *mut c_void);
        link_complete: "cuLinkComplete" (Handle, *mut *mut c_void, *mut usize);
        link_destroy: "cuLinkDestroy" (Handle);
        load_module: "cuModuleLoadDataEx" (*mut Handle, *const c_void, c_uint, *const c_int, *const *mut c_void);
        unload_module: "cuModuleUnload" (Handle);
        function: "cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
        set_attribute: "cuFuncSetAttribute" (Handle, c_int, c_int);
        launch: "cuLaunchKernel"
            (Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void);
    }
    if there: {
        // Memory in a stream's order came with CUDA 11.2.
        allocate_async: "cuMemAllocAsync" (*mut Address, usize, Handle);
        free_async: "cuMemFreeAsync" (Address, Handle);
        // Several streams, and devices.
        await_event: "cuStreamWaitEvent" (Handle, Handle, c_uint);
        copy_between: "cuMemcpyPeerAsync" (Address, Handle, Address, Handle, usize, Handle);
        // Graphs in this form came with CUDA 11.4.
        begin_capture: "cuStreamBeginCapture_v2" (Handle, c_uint);
        end_capture: "cuStreamEndCapture" (Handle, *mut Handle);
        instantiate_graph: "cuGraphInstantiateWithFlags" (*mut Handle, Handle, u64);
        launch_graph: "cuGraphLaunch" (Handle, Handle);
        destroy_graph: "cuGraphDestroy" (Handle);
        destroy_ready_graph: "cuGraphExecDestroy" (Handle);
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

impl CudaFunctions {
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
