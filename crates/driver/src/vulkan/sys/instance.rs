//! The Vulkan loader, the one instance of this process, and the physical devices.

use super::cooperative_matrix;
use super::error::error;
use crate::{Info, Kind};
use ash::{ext, vk};
use elinvar_core::{DeviceKind, Error, ErrorKind, Result, Setting, Settings, Validation};
use elinvar_kernel::emit::spirv;
use std::ffi::{CStr, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// Vulkan, loaded.
pub struct Instance {
    pub(super) entry: ash::Entry,
    pub raw: ash::Instance,
}

/// What was asked for by [`use_validation`], or what the instance was made with.
static VALIDATION: OnceLock<Validation> = OnceLock::new();

/// Has Vulkan's validation layer watch every call, or also every access of a kernel, in place of
/// what the environment says. What the layer says is printed and kept.
///
/// # Errors
/// `InvalidArgument` if Vulkan is in use already, and watched in another way: a process has one
/// instance.
pub fn use_validation(wanted: Validation) -> Result<()> {
    let is = *VALIDATION.get_or_init(|| wanted);
    if is == wanted {
        return Ok(());
    }
    let named = |v| Settings { validation: Some(v), ..Settings::default() }.text(Setting::Validation);
    Err(Error::argument(format!(
        "vulkan: validation is {} for all devices of this process, and cannot become {}; ask for it before the first \
         use",
        named(is).unwrap_or_default(),
        named(wanted).unwrap_or_default()
    )))
}

/// The one instance of this process. It is never destroyed: devices may live as long as the
/// process.
pub fn instance() -> Result<&'static Instance> {
    static INSTANCE: OnceLock<Result<Instance>> = OnceLock::new();
    INSTANCE.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn missing(why: &str) -> Error {
    Error::new(
        ErrorKind::DriverMissing,
        format!(
            "vulkan: {why}; install the GPU's driver, or a software one (on Debian: apt-get install \
             libvulkan1 mesa-vulkan-drivers)"
        ),
    )
}

fn load() -> Result<Instance> {
    // SAFETY: the library that is loaded under Vulkan's name is the system's Vulkan loader, which
    // runs nothing of its own when it is loaded.
    let entry = unsafe { ash::Entry::load() }.map_err(|e| missing(&format!("there is no loader ({e})")))?;
    // SAFETY: `entry` was loaded, here and below; what is passed lives longer than the calls.
    let version = unsafe { entry.try_enumerate_instance_version() }
        .map_err(|e| error("asking for the version", e))?
        .unwrap_or(vk::API_VERSION_1_0);
    if version < vk::API_VERSION_1_2 {
        return Err(missing(&format!("the loader knows version {} only, and 1.2 is needed", shown(version))));
    }
    let app = vk::ApplicationInfo::default().engine_name(c"elinvar").api_version(vk::API_VERSION_1_2);
    let wish = Settings::environment(DeviceKind::Vulkan)?.validation.unwrap_or_default();
    let wish = *VALIDATION.get_or_init(|| wish);
    let (validate, watch_kernels) = (wish != Validation::Off, wish == Validation::Kernels);
    let (mut layers, mut extensions) = (Vec::new(), Vec::new());
    if validate {
        // SAFETY: as above.
        let all =
            unsafe { entry.enumerate_instance_layer_properties() }.map_err(|e| error("listing layers", e))?;
        if !all.iter().any(|l| l.layer_name_as_c_str() == Ok(LAYER)) {
            return Err(Error::unsupported(
                "vulkan: validation is asked for, and the validation layer is not installed (on Debian: apt-get \
                 install vulkan-validationlayers)",
            ));
        }
        layers.push(LAYER.as_ptr());
        extensions.push(ext::debug_utils::NAME.as_ptr());
    }
    let checks = [
        vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION,
        vk::ValidationFeatureEnableEXT::GPU_ASSISTED,
    ];
    let checks = if watch_kernels { &checks[..] } else { &checks[..1] };
    let mut checks = vk::ValidationFeaturesEXT::default().enabled_validation_features(checks);
    let mut info = vk::InstanceCreateInfo::default()
        .application_info(&app)
        .enabled_layer_names(&layers)
        .enabled_extension_names(&extensions);
    if validate {
        info = info.push_next(&mut checks);
    }
    // SAFETY: as above.
    let raw = unsafe { entry.create_instance(&info, None) }.map_err(|e| match e {
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => missing("the loader is there, and finds no driver"),
        e => error("making an instance", e),
    })?;
    if validate {
        let utils = ext::debug_utils::Instance::new(&entry, &raw);
        let wanted = vk::DebugUtilsMessengerCreateInfoEXT::default()
            .message_severity(
                vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR,
            )
            .message_type(
                vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION
                    | vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE,
            )
            .pfn_user_callback(Some(hear));
        // SAFETY: `hear` has the signature that is asked for, and needs no data.
        unsafe { utils.create_debug_utils_messenger(&wanted, None) }
            .map_err(|e| error("listening to the validation layer", e))?;
    }
    Ok(Instance { entry, raw })
}

static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What the validation layer has said so far.
pub fn validation_messages() -> Vec<String> {
    HEARD.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

unsafe extern "system" fn hear(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the layer passes valid data, whose message is text that ends with 0, if it is there
    // at all.
    let text = unsafe { data.as_ref().and_then(|d| d.message_as_c_str()) };
    let text = text.map_or_else(String::new, |t| t.to_string_lossy().into_owned());
    eprintln!("{text}");
    HEARD.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    vk::FALSE
}

fn shown(version: u32) -> String {
    format!(
        "{}.{}.{}",
        vk::api_version_major(version),
        vk::api_version_minor(version),
        vk::api_version_patch(version)
    )
}

/// A device that has not been opened.
#[derive(Clone)]
pub struct Physical {
    pub raw: vk::PhysicalDevice,
    pub info: Info,
    /// The version of Vulkan that it has.
    pub version: u32,
    /// What its properties promise about floats; what they do not say is to be probed.
    pub floats: spirv::Device,
    /// Its queue family for computations.
    pub family: Option<u32>,
    /// What a file of its pipelines is known by.
    pub cache_name: String,
    pub timeline: bool,
    pub half_arithmetic: bool,
    /// The clock of that family.
    pub clock: Clock,
}

/// A device's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Bits that count; 0 if there is no clock.
    pub bits: u32,
    /// Nanoseconds of a tick.
    pub period: f32,
}

/// The devices of this machine, the fastest kind first.
///
/// # Errors
/// `DriverMissing`.
pub fn physical() -> Result<Vec<Physical>> {
    let i = instance()?;
    // SAFETY: the instance is alive, here and in `look`.
    let all = unsafe { i.raw.enumerate_physical_devices() }.map_err(|e| error("listing devices", e))?;
    let mut all: Vec<Physical> = all.into_iter().map(|raw| look(i, raw)).collect();
    if all.is_empty() {
        return Err(missing("the loader is there, and knows no device"));
    }
    // Stable: devices of one kind stay in the loader's order.
    all.sort_by_key(|p| p.info.kind);
    Ok(all)
}

/// The compute units of a device, as the vendors' extensions tell; Vulkan itself does not. Without
/// an extension, and for software, whose units are cores of the processor, it is not known.
fn compute_units(i: &Instance, raw: vk::PhysicalDevice, kind: Kind) -> Option<u32> {
    // SAFETY: `raw` belongs to this instance.
    let extensions = unsafe { i.raw.enumerate_device_extension_properties(raw) }.unwrap_or_default();
    let has = |name: &CStr| extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
    let (mut nvidia, mut amd) = (
        vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV::default(),
        vk::PhysicalDeviceShaderCorePropertiesAMD::default(),
    );
    let mut properties = vk::PhysicalDeviceProperties2::default();
    if has(ash::nv::shader_sm_builtins::NAME) {
        properties = properties.push_next(&mut nvidia);
    }
    if has(ash::amd::shader_core_properties::NAME) {
        properties = properties.push_next(&mut amd);
    }
    // SAFETY: as above; the structures that are chained are of extensions that the device has.
    unsafe { i.raw.get_physical_device_properties2(raw, &mut properties) };
    let arrays = amd.shader_engine_count * amd.shader_arrays_per_engine_count;
    match (kind, nvidia.shader_sm_count.max(arrays * amd.compute_units_per_shader_array)) {
        (Kind::Software, _) | (_, 0) => None,
        (Kind::Discrete | Kind::Integrated | Kind::Virtual | Kind::Other, units) => Some(units),
    }
}

fn look(i: &Instance, raw: vk::PhysicalDevice) -> Physical {
    let (mut p11, mut p12) =
        (vk::PhysicalDeviceVulkan11Properties::default(), vk::PhysicalDeviceVulkan12Properties::default());
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut p11).push_next(&mut p12);
    let (mut f11, mut f12) =
        (vk::PhysicalDeviceVulkan11Features::default(), vk::PhysicalDeviceVulkan12Features::default());
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut f11).push_next(&mut f12);
    // SAFETY: `raw` belongs to this instance, and the structures are chained as Vulkan asks for.
    let (memory, families) = unsafe {
        i.raw.get_physical_device_properties2(raw, &mut properties);
        i.raw.get_physical_device_features2(raw, &mut features);
        (
            i.raw.get_physical_device_memory_properties(raw),
            i.raw.get_physical_device_queue_family_properties(raw),
        )
    };
    let (p, f) = (properties.properties, features.features);
    let heaps = &memory.memory_heaps[..memory.memory_heap_count as usize];
    let local = heaps.iter().filter(|h| h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    let on = |b: vk::Bool32| b == vk::TRUE;
    let kind = match p.device_type {
        vk::PhysicalDeviceType::DISCRETE_GPU => Kind::Discrete,
        vk::PhysicalDeviceType::INTEGRATED_GPU => Kind::Integrated,
        vk::PhysicalDeviceType::VIRTUAL_GPU => Kind::Virtual,
        vk::PhysicalDeviceType::CPU => Kind::Software,
        _ => Kind::Other,
    };
    let words = |c: &[std::ffi::c_char]| -> String {
        c.iter().take_while(|&&b| b != 0).map(|&b| char::from(b as u8)).collect()
    };
    let info = Info {
        name: words(&p.device_name),
        kind,
        driver: format!(
            "{} {}, Vulkan {}",
            words(&p12.driver_name),
            words(&p12.driver_info),
            shown(p.api_version)
        ),
        memory: local.map(|h| h.size).max(),
        largest: u64::from(p.limits.max_storage_buffer_range).min(p11.max_memory_allocation_size),
        alignment: p.limits.min_storage_buffer_offset_alignment.max(16),
        subgroup: [p11.subgroup_size; 2],
        compute_units: compute_units(i, raw, kind),
        shared: p.limits.max_compute_shared_memory_size,
        invocations: p.limits.max_compute_work_group_invocations.min(p.limits.max_compute_work_group_size[0]),
        buffers: p.limits.max_per_stage_descriptor_storage_buffers,
        f64: on(f.shader_float64),
        i64: on(f.shader_int64),
        half: on(f11.storage_buffer16_bit_access),
        bytes: on(f12.storage_buffer8_bit_access),
        suballocates: true,
        max_loop_iterations: None,
        short: false,
        cp_async: false,
        // Work goes to one queue: a family may have no other.
        queues: false,
        tma: false,
        mma_shapes: cooperative_matrix::mma_shapes(i, raw, p11.subgroup_size, on(f12.vulkan_memory_model)),
    };
    // A mode for one width and none for another needs widths that are independent of each other.
    let all_or_none = |wanted: [vk::Bool32; 3], independence: vk::ShaderFloatControlsIndependence| {
        let free = independence == vk::ShaderFloatControlsIndependence::ALL;
        let whole = wanted.iter().all(|&b| on(b));
        wanted.map(|b| on(b) && (free || whole))
    };
    let rounds = all_or_none(
        [
            p12.shader_rounding_mode_rte_float16,
            p12.shader_rounding_mode_rte_float32,
            p12.shader_rounding_mode_rte_float64,
        ],
        p12.rounding_mode_independence,
    );
    let keeps = all_or_none(
        [
            p12.shader_denorm_preserve_float16,
            p12.shader_denorm_preserve_float32,
            p12.shader_denorm_preserve_float64,
        ],
        p12.denorm_behavior_independence,
    );
    let floats = spirv::Device {
        wide: info.f64,
        keeps_nan: [
            on(p12.shader_signed_zero_inf_nan_preserve_float32),
            on(p12.shader_signed_zero_inf_nan_preserve_float64),
        ],
        rounds_to_even: rounds,
        keeps_subnormals: [keeps[1], keeps[2]],
        // Its arithmetic is probed.
        ..spirv::Device::FULL
    };
    // A family that only computes is the one that graphics does not disturb.
    let computes = |f: &vk::QueueFamilyProperties| f.queue_flags.contains(vk::QueueFlags::COMPUTE);
    let alone = |f: &vk::QueueFamilyProperties| !f.queue_flags.contains(vk::QueueFlags::GRAPHICS);
    let family = (families.iter().position(|f| computes(f) && alone(f)))
        .or_else(|| families.iter().position(computes));
    let clock = family.map_or(Clock::default(), |f| Clock {
        bits: families[f].timestamp_valid_bits,
        period: p.limits.timestamp_period,
    });
    let uuid: String = p.pipeline_cache_uuid.iter().map(|b| format!("{b:02x}")).collect();
    Physical {
        raw,
        version: p.api_version,
        floats,
        family: family.map(|f| f as u32),
        clock,
        cache_name: format!("vulkan-{:04x}-{:04x}-{:08x}-{uuid}", p.vendor_id, p.device_id, p.driver_version),
        timeline: on(f12.timeline_semaphore),
        half_arithmetic: on(f12.shader_float16),
        info,
    }
}
