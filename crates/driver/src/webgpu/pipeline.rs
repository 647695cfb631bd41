//! WebGPU compute pipelines: kernels, ready to be started.

use super::device::Shared;
use super::sys;
use elinvar_core::Result;
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::wgsl::param_words;
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::{Access, Param};
use std::fmt;
use std::sync::{Arc, PoisonError};

/// A kernel, ready to be started.
pub struct Pipeline {
    pub(super) raw: wgpu::ComputePipeline,
    pub(super) layouts: Arc<Layouts>,
    name: String,
    params: Vec<Param>,
}

/// What kernels whose buffers are read and written alike have in common.
pub struct Layouts {
    pub group: wgpu::BindGroupLayout,
    pub pipeline: wgpu::PipelineLayout,
    /// Which buffers are only read.
    pub reads: Vec<bool>,
}

impl Layouts {
    /// Buffers in the kernel's order, and the parameters behind them, which are at another place of
    /// a buffer for each launch.
    fn new(device: &wgpu::Device, reads: Vec<bool>) -> Layouts {
        let entry = |binding: usize, ty: wgpu::BufferBindingType| wgpu::BindGroupLayoutEntry {
            binding: binding as u32,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty,
                has_dynamic_offset: matches!(ty, wgpu::BufferBindingType::Uniform),
                min_binding_size: None,
            },
            count: None,
        };
        let mut entries: Vec<_> = (reads.iter().enumerate())
            .map(|(i, &read_only)| entry(i, wgpu::BufferBindingType::Storage { read_only }))
            .collect();
        entries.push(entry(reads.len(), wgpu::BufferBindingType::Uniform));
        let group = wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries };
        let group = device.create_bind_group_layout(&group);
        let pipeline = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&group)],
            immediate_size: 0,
        });
        Layouts { group, pipeline, reads }
    }
}

impl Pipeline {
    /// The pipeline of a kernel, from its text.
    ///
    /// # Errors
    /// `OutOfMemory`; `Unsupported` if the text is refused.
    pub fn new(shared: &Shared, kernel: &Kernel, text: &str) -> Result<Pipeline> {
        let reads: Vec<bool> = kernel.buffers.iter().map(|b| b.access == Access::Read).collect();
        shared.scoped(&kernel.name, || {
            let mut all = shared.layouts.lock().unwrap_or_else(PoisonError::into_inner);
            let make = || Arc::new(Layouts::new(&shared.device, reads.clone()));
            let layouts = all.entry(reads.clone()).or_insert_with(make).clone();
            drop(all);
            let module = sys::shader_module(&shared.device, &kernel.name, text);
            let raw = shared.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(&kernel.name),
                layout: Some(&layouts.pipeline),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    // A kernel reads no shared memory that it has not written.
                    zero_initialize_workgroup_memory: false,
                    ..wgpu::PipelineCompilationOptions::default()
                },
                cache: None,
            });
            Pipeline { raw, layouts, name: kernel.name.clone(), params: kernel.params.clone() }
        })
    }

    /// The parameters of a launch, and the zero behind them, as bytes.
    ///
    /// # Errors
    /// `InvalidArgument` if these are not the kernel's parameters.
    pub(super) fn uniforms(&self, launch: &Launch) -> Result<Vec<u8>> {
        crate::params::check(&self.name, &self.params, &launch.params)?;
        Ok(param_words(&launch.params).into_iter().flat_map(u32::to_le_bytes).collect())
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pipeline({})", self.name)
    }
}
