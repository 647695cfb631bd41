//! Vulkan compute pipelines: kernels, ready to be started.

use super::device::Shared;
use super::error::error;
use crate::Vulkan;
use crate::loop_limit::Limited;
use ash::vk;
use elinvar_core::Result;
use elinvar_kernel::Kernel;
use elinvar_kernel::ir::{Access, Constant, Param};
use std::fmt;
use std::sync::Arc;

/// A kernel, ready to be started.
pub struct Pipeline {
    shared: Arc<Shared>,
    pub(super) raw: RawPipeline,
    name: String,
    pub(super) access: Vec<Access>,
    params: Vec<Param>,
    /// Does a zero follow them?
    zero: bool,
}

/// Bytes of the zero behind the parameters.
const ZERO_BYTES: u32 = 4;

#[derive(Clone, Copy)]
pub struct RawPipeline {
    pub set: vk::DescriptorSetLayout,
    pub layout: vk::PipelineLayout,
    pub pipeline: vk::Pipeline,
}

impl Vulkan {
    /// A kernel whose SPIR-V is not ours: another compiler's, to compare its results with. Its
    /// launches are not cut where the device ends loops.
    ///
    /// # Errors
    /// `OutOfMemory`; `Unsupported` if the driver refuses it.
    ///
    /// # Safety
    /// The words are a valid module for this device, with the entry point `main`, the buffers of
    /// `kernel` as storage buffers of set 0 in its order, and its parameters as push constants,
    /// each at the next multiple of its size.
    pub unsafe fn module_of_spirv(&self, kernel: &Kernel, words: &[u32]) -> Result<Limited<Pipeline>> {
        let whole = Pipeline::new(&self.shared, kernel, words, false)?;
        Ok(Limited::new(kernel, whole, None))
    }
}

impl Pipeline {
    /// The pipeline of a kernel, from its SPIR-V, with a zero behind its parameters or without.
    ///
    /// # Errors
    /// `OutOfMemory`; `Unsupported` if the driver refuses it.
    pub fn new(shared: &Arc<Shared>, kernel: &Kernel, words: &[u32], zero: bool) -> Result<Pipeline> {
        let failed = |what: &str, e| error(&format!("{}: {what}", kernel.name), e);
        let d = &shared.device;
        let mut raw = RawPipeline {
            set: vk::DescriptorSetLayout::null(),
            layout: vk::PipelineLayout::null(),
            pipeline: vk::Pipeline::null(),
        };
        let binding = |i| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(i)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let bindings: Vec<_> = (0..kernel.buffers.len() as u32).map(binding).collect();
        let sets = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let size = crate::params::layout(&kernel.params).1 + if zero { ZERO_BYTES } else { 0 };
        let range = [vk::PushConstantRange { stage_flags: vk::ShaderStageFlags::COMPUTE, offset: 0, size }];
        let code = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: the device is alive, and what is passed lives longer than the calls. The words
        // come from our emitter, which only translates kernels that the verifier has accepted, or
        // are valid by the contract of `module_of_spirv`. Null handles may be destroyed.
        unsafe {
            let module = d.create_shader_module(&code, None).map_err(|e| failed("its module", e))?;
            let made = (|| {
                raw.set = d.create_descriptor_set_layout(&sets, None)?;
                let all = [raw.set];
                let mut info = vk::PipelineLayoutCreateInfo::default().set_layouts(&all);
                if size > 0 {
                    info = info.push_constant_ranges(&range);
                }
                raw.layout = d.create_pipeline_layout(&info, None)?;
                let stage = vk::PipelineShaderStageCreateInfo::default()
                    .stage(vk::ShaderStageFlags::COMPUTE)
                    .module(module)
                    .name(c"main");
                let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(raw.layout)];
                let all = d.create_compute_pipelines(shared.cache, &info, None).map_err(|(_, e)| e)?;
                raw.pipeline = all[0];
                Ok(())
            })();
            d.destroy_shader_module(module, None);
            if let Err(e) = made {
                destroy(shared, raw);
                return Err(failed("its pipeline", e));
            }
        }
        Ok(Pipeline {
            shared: shared.clone(),
            raw,
            name: kernel.name.clone(),
            access: kernel.buffers.iter().map(|b| b.access).collect(),
            params: kernel.params.clone(),
            zero,
        })
    }

    /// Parameters as the kernel's block has them: each at the next multiple of its size, and the
    /// zero if it wants one.
    ///
    /// # Errors
    /// `InvalidArgument` if these are not the kernel's parameters.
    pub(super) fn block(&self, params: &[Constant]) -> Result<Vec<u8>> {
        let mut block = crate::params::block(&self.name, &self.params, params)?;
        block.extend_from_slice(&[0; ZERO_BYTES as usize][..if self.zero { ZERO_BYTES as usize } else { 0 }]);
        Ok(block)
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pipeline({})", self.name)
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.shared.queue().bury_pipeline(&self.shared, self.raw);
    }
}

/// Destroys a pipeline that is not used any more.
pub fn destroy(shared: &Shared, raw: RawPipeline) {
    // SAFETY: the caller says that it is not used any more; null handles are ignored.
    unsafe {
        shared.device.destroy_pipeline(raw.pipeline, None);
        shared.device.destroy_pipeline_layout(raw.layout, None);
        shared.device.destroy_descriptor_set_layout(raw.set, None);
    }
}
