//! The kernels of elinvar.
