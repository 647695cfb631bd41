//! Tensor cores of a Vulkan device: the shapes of its cooperative matrices
//! (`VK_KHR_cooperative_matrix`).

use super::instance::Instance;
use ash::{khr, vk};
use elinvar_kernel::ir::{Elem, MmaShape};
use elinvar_kernel::verify::FRAGMENT_SHAPES;

/// The fragments of a device that kernels can use; none if it has no such units. Subgroups must
/// have one size, and kernels with fragments are written for Vulkan's own memory model.
pub fn mma_shapes(i: &Instance, raw: vk::PhysicalDevice, lanes: u32, memory_model: bool) -> Vec<MmaShape> {
    if !memory_model || lanes == 0 {
        return Vec::new();
    }
    // SAFETY: `raw` belongs to this instance, here and below.
    let extensions = unsafe { i.raw.enumerate_device_extension_properties(raw) }.unwrap_or_default();
    if !extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(khr::cooperative_matrix::NAME)) {
        return Vec::new();
    }
    let mut offered = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut offered);
    // SAFETY: the structures are chained as Vulkan asks for.
    unsafe { i.raw.get_physical_device_features2(raw, &mut features) };
    if offered.cooperative_matrix != vk::TRUE {
        return Vec::new();
    }
    let functions = khr::cooperative_matrix::Instance::new(&i.entry, &i.raw);
    let list = functions.fp().get_physical_device_cooperative_matrix_properties_khr;
    let mut count = 0;
    // SAFETY: with a null pointer, the function counts; then it fills at most as many as there is
    // room for. Devices that list the extension have the function.
    let all = unsafe {
        if list(raw, &mut count, std::ptr::null_mut()) != vk::Result::SUCCESS {
            return Vec::new();
        }
        let mut all = vec![vk::CooperativeMatrixPropertiesKHR::default(); count as usize];
        if list(raw, &mut count, all.as_mut_ptr()) != vk::Result::SUCCESS {
            return Vec::new();
        }
        all.truncate(count as usize);
        all
    };
    all.iter().filter_map(unit).collect()
}

/// A row of the device's list, if kernels can use it.
fn unit(p: &vk::CooperativeMatrixPropertiesKHR<'_>) -> Option<MmaShape> {
    let sums = [p.c_type, p.result_type] == [vk::ComponentTypeKHR::FLOAT32; 2];
    let factors = [p.a_type, p.b_type] == [vk::ComponentTypeKHR::FLOAT16; 2];
    let size = |n: u32| u8::try_from(n).ok();
    let shape = [size(p.m_size)?, size(p.n_size)?, size(p.k_size)?];
    let fits = sums && factors && p.scope == vk::ScopeKHR::SUBGROUP && FRAGMENT_SHAPES.contains(&shape);
    fits.then_some(MmaShape { elem: Elem::F16, shape })
}
