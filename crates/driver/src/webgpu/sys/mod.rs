//! What `wgpu` has as `unsafe`.

#![allow(unsafe_code, reason = "a shader module without checks while it runs")]

/// A module of a text that this project emitted from a kernel that its verifier accepted.
///
/// Without checks: they would clamp every index and count the passes of every loop.
pub fn shader_module(device: &wgpu::Device, name: &str, text: &str) -> wgpu::ShaderModule {
    let module =
        wgpu::ShaderModuleDescriptor { label: Some(name), source: wgpu::ShaderSource::Wgsl(text.into()) };
    // SAFETY: the checks are of accesses out of bounds and of loops without an end. All loops of a
    // kernel end: they are counted, and their steps are positive. That its accesses are in bounds
    // for the launches that it is given is what a kernel of this project is tested for by the
    // interpreter; the same is relied on where it is emitted as SPIR-V or PTX, which have no
    // checks.
    unsafe { device.create_shader_module_trusted(module, wgpu::ShaderRuntimeChecks::unchecked()) }
}
