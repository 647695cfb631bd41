//! A driver's library, loaded.

use super::blaslt_library::BlasLtLibrary;
use super::functions::Functions;
use crate::cuda::NvidiaFunctions;
use std::ffi::c_int;

/// A library, loaded.
pub struct Api {
    /// The driver's name, before what is said.
    pub driver: &'static str,
    /// What its devices are called.
    pub gpu: &'static str,
    pub table: Functions,
    /// What NVIDIA's has besides.
    pub nvidia: Option<NvidiaFunctions>,
    /// The vendor's library of products, which may be installed or not.
    pub products: &'static BlasLtLibrary,
    /// The version as the driver counts it: of CUDA, 12040 is 12.4.
    pub version: c_int,
    /// Does the library only emulate a device?
    pub emulated: bool,
}
