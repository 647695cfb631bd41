//! Naming, choosing and listing devices.

use crate::any::{Any, Device};
use crate::kinds::{cuda, metal, rocm, vulkan, webgpu, webgpu_async};
use crate::probe::{Exactness, arithmetic};
use crate::properties::{self, Properties};
use elinvar_core::{Error, ErrorKind, MemoryStats, Result, Settings};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_ops::backend::Memory;
use elinvar_reference::{Reference, ReferenceDevice};
use std::sync::OnceLock;

impl Device {
    /// This computer's processor, with all its threads and its best instruction set.
    pub fn cpu() -> Device {
        Device::Cpu(CpuDevice::default())
    }
    /// The scalar reference, which defines every result. Slow, and always available.
    pub fn reference() -> Device {
        Device::Reference(ReferenceDevice)
    }

    /// The CUDA device of this number, in the order of [`devices`]: discrete GPUs come first.
    ///
    /// # Errors
    /// `DriverMissing` with what to install, `UnknownDevice`, `Unsupported` if it or its driver is
    /// too old.
    pub fn cuda(number: usize) -> Result<Device> {
        cuda::open(number, &Settings::default())
    }
    /// AMD's device of this number, by ROCm's libraries, in the order of [`devices`]: discrete GPUs
    /// come first.
    ///
    /// # Errors
    /// `DriverMissing` with what to install, `UnknownDevice`, `Unsupported` if it or its driver is
    /// too old, or kernels are not emitted for it.
    pub fn rocm(number: usize) -> Result<Device> {
        rocm::open(number, &Settings::default())
    }
    /// The Vulkan device of this number, in the order of [`devices`]: discrete GPUs come first.
    ///
    /// # Errors
    /// `DriverMissing` with what to install, `UnknownDevice`, `Unsupported` if it lacks what every
    /// kernel needs.
    pub fn vulkan(number: usize) -> Result<Device> {
        vulkan::open(number, &Settings::default())
    }
    /// The WebGPU device of this number, in the order of [`devices`]: discrete GPUs come first.
    ///
    /// # Errors
    /// `DriverMissing` with what to install, `UnknownDevice`, `Unsupported` if this build has no
    /// WebGPU (feature `webgpu`).
    pub fn webgpu(number: usize) -> Result<Device> {
        webgpu::open(number, &Settings::default())
    }
    /// The first WebGPU device with its properties, opened and probed without blocking. In a
    /// browser, which lets no program wait, there is no other way: from then on the device is found
    /// by its name too.
    ///
    /// # Errors
    /// As [`Device::webgpu`].
    pub async fn webgpu_async() -> Result<DeviceInfo> {
        webgpu_async().await
    }
    /// The Metal device of this number, in the order of [`devices`]: those that share the
    /// processor's memory come first.
    ///
    /// # Errors
    /// `Unsupported` on other systems than Apple's, if this build has no Metal (feature `metal`),
    /// or of a device that has memory of its own; `DriverMissing`, `UnknownDevice`.
    pub fn metal(number: usize) -> Result<Device> {
        metal::open(number, &Settings::default())
    }

    /// The device of this name, as on a command line: `cpu`, `cuda:0` (or `cuda`), `rocm:0`,
    /// `vulkan:0`, `webgpu:0`, `metal:0`, `reference`, or `best`, which is [`Device::best`].
    ///
    /// # Errors
    /// `UnknownDevice` with the names that exist; those of opening the device.
    pub fn parse(name: &str) -> Result<Device> {
        match Name::parse(name)? {
            Name::Cpu => CpuDevice::shared().map(Device::Cpu),
            Name::Best => Device::best(),
            Name::Reference => Ok(Device::reference()),
            Name::Cuda(number) => Device::cuda(number),
            Name::Rocm(number) => Device::rocm(number),
            Name::Vulkan(number) => Device::vulkan(number),
            Name::WebGpu(number) => Device::webgpu(number),
            Name::Metal(number) => Device::metal(number),
        }
    }

    /// The fastest device of this machine that gives exact results: a discrete GPU, by CUDA or else
    /// by ROCm, Metal, Vulkan or WebGPU, if the probe finds it exact; otherwise the processor.
    /// Software and integrated GPUs are never chosen. GPUs are probed at the first call, once per
    /// process.
    ///
    /// # Errors
    /// What a GPU or its driver reports, if there is one that does not work: falling back to
    /// another device would hide the fault.
    pub fn best() -> Result<Device> {
        static BEST: OnceLock<Result<Device>> = OnceLock::new();
        let find = || {
            for card in [cuda::card, rocm::card, metal::card, vulkan::card, webgpu::card] {
                if let Some(card) = card()?.filter(|c| c.exactness == Exactness::Exact) {
                    return Ok(card.device);
                }
            }
            CpuDevice::shared().map(Device::Cpu)
        };
        BEST.get_or_init(find).clone()
    }

    /// All devices of this machine that this build can use, with their properties; as [`devices`].
    ///
    /// # Errors
    /// As [`devices`].
    pub fn list() -> Result<Vec<DeviceInfo>> {
        devices()
    }

    /// Memory in use by tensors of this device, and memory cached for the next ones. The CPU's is
    /// counted for the whole process.
    ///
    /// # Errors
    /// `Unsupported` on `reference`, which leaves memory to the system.
    pub fn memory_stats(&self) -> Result<MemoryStats> {
        Any::memory_stats(self)
    }
    /// Limits the memory of this device's tensors, in bytes: an allocation beyond it fails with
    /// `OutOfMemory`; existing tensors are not affected. `None` removes the limit.
    ///
    /// # Errors
    /// `Unsupported` on `reference`, which leaves memory to the system.
    pub fn set_memory_limit(&self, limit: Option<u64>) -> Result<()> {
        Any::set_memory_limit(self, limit)
    }
    /// Returns cached memory to the system.
    ///
    /// # Errors
    /// What the device reports.
    pub fn release_memory(&self) -> Result<()> {
        Any::release_memory(self)
    }
}

/// What a device's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Cpu,
    Reference,
    Best,
    Cuda(usize),
    Rocm(usize),
    Vulkan(usize),
    WebGpu(usize),
    Metal(usize),
}

impl Name {
    /// # Errors
    /// `UnknownDevice` with the names that exist.
    pub(crate) fn parse(name: &str) -> Result<Name> {
        let unknown = || {
            Error::new(
                ErrorKind::UnknownDevice,
                format!(
                    "there is no device called \"{name}\"; this build has: cpu, cuda:N, rocm:N, vulkan:N, webgpu:N, metal:N, reference, best"
                ),
            )
        };
        let lower = name.trim().to_ascii_lowercase();
        let (word, number) = match lower.split_once(':') {
            Some((word, number)) => (word, Some(number.parse::<usize>().map_err(|_| unknown())?)),
            None => (lower.as_str(), None),
        };
        match (word, number) {
            ("cpu", None | Some(0)) => Ok(Name::Cpu),
            ("best", None) => Ok(Name::Best),
            ("reference", None | Some(0)) => Ok(Name::Reference),
            ("cuda", number) => Ok(Name::Cuda(number.unwrap_or(0))),
            ("rocm", number) => Ok(Name::Rocm(number.unwrap_or(0))),
            ("vulkan", number) => Ok(Name::Vulkan(number.unwrap_or(0))),
            ("webgpu", number) => Ok(Name::WebGpu(number.unwrap_or(0))),
            ("metal", number) => Ok(Name::Metal(number.unwrap_or(0))),
            _ => Err(unknown()),
        }
    }
}

/// The processor: it exists on every machine, opening it cannot fail, and it is the fastest device
/// for small work. A GPU is chosen by name or by [`Device::best`].
impl Default for Device {
    fn default() -> Self {
        Device::cpu()
    }
}

impl std::str::FromStr for Device {
    type Err = Error;
    fn from_str(name: &str) -> Result<Device> {
        Device::parse(name)
    }
}

/// Description of a device.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// The device.
    pub device: Device,
    /// One line of text.
    pub description: String,
    /// Whether its results are those of the reference.
    pub exactness: Exactness,
    /// Its memory, compute units and the like.
    pub properties: Properties,
}

/// The devices found on this machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The devices, the processor first.
    pub devices: Vec<DeviceInfo>,
    /// Why there is no device of a kind, or why one is not usable: a sentence that says what to
    /// install, where that helps.
    pub missing: Vec<Error>,
}

/// All devices of this machine that this build can use. Each is probed; [`machine`] tells why
/// others are missing.
///
/// # Errors
/// What the processor reports.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    Ok(machine()?.devices)
}

/// All devices of this machine that this build can use, and why others are missing. Each is probed;
/// a GPU that fails is missing, with what it reported.
///
/// # Errors
/// What the processor reports.
pub fn machine() -> Result<Machine> {
    let cpu = CpuDevice::shared()?;
    let mut devices = vec![DeviceInfo {
        description: format!("this processor: {}, {} threads", cpu.isa(), cpu.threads()),
        properties: properties::of_cpu(&cpu),
        exactness: arithmetic::<Cpu>(&cpu)?,
        device: Device::Cpu(cpu),
    }];
    let mut missing = Vec::new();
    for found in [cuda::find(), rocm::find(), metal::find(), vulkan::find(), webgpu::find()] {
        devices.extend(found.devices);
        missing.extend(found.missing);
    }
    devices.push(DeviceInfo {
        device: Device::reference(),
        description: "plain loops on one CPU thread; the definition of every result".into(),
        properties: properties::of_reference(),
        exactness: arithmetic::<Reference>(&ReferenceDevice)?,
    });
    Ok(Machine { devices, missing })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Any;
    use elinvar_core::{DType, HostTensor, Shape};
    use elinvar_tensor::Tensor;

    #[test]
    fn names_are_parsed_and_printed() {
        for (name, device) in
            [("reference", "reference"), (" Reference ", "reference"), ("cpu", "cpu"), ("cpu:0", "cpu")]
        {
            assert_eq!(Device::parse(name).unwrap().to_string(), device, "{name}");
            assert_eq!(name.parse::<Device>().unwrap(), Device::parse(name).unwrap());
        }
        for device in devices().unwrap() {
            assert_eq!(
                Device::parse(&device.device.to_string()).unwrap(),
                device.device,
                "a printed name is a name"
            );
        }
        assert_eq!(Device::default(), Device::cpu());
        // Two calls give the same device.
        assert_eq!(Device::parse("best").unwrap(), Device::best().unwrap());
        for name in ["", "abacus", "reference:1", "cpu:1", "cuda:-1", "webgpu:x", "cpu\0"] {
            let e = Device::parse(name).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::UnknownDevice);
            assert_eq!(
                e.message(),
                format!(
                    "there is no device called \"{name}\"; this build has: cpu, cuda:N, rocm:N, vulkan:N, webgpu:N, metal:N, reference, best"
                )
            );
        }
    }

    #[test]
    fn every_device_is_probed() {
        let all = devices().unwrap();
        assert!(
            all.iter().any(|d| d.device == Device::reference() && d.exactness == Exactness::Exact),
            "{all:?}"
        );
    }

    /// All bits arrive, of every type, from memory in any order, there and back.
    #[test]
    fn tensors_move_between_devices() {
        let any = Device::reference();
        for dtype in DType::ALL {
            let host = HostTensor::from_vec((0..24u8).collect(), Shape::new(&[2, 3, 4]).unwrap()).unwrap();
            let x: Tensor<Any> =
                Tensor::from_host(host, &any).unwrap().to_dtype(dtype).permute([2, 0, 1]).flip([1]);
            let y: Tensor<Reference> = x.copy_to(&ReferenceDevice).unwrap();
            let z: Tensor<Any> = y.copy_to(&any).unwrap();
            assert_eq!((y.dims(), y.dtype(), z.dtype()), (&[4, 2, 3][..], dtype, dtype));
            assert_eq!(y.to_host().unwrap(), x.to_host().unwrap(), "{dtype}");
            assert_eq!(z.to_host().unwrap(), x.to_host().unwrap(), "{dtype}");
        }
        let nan = f32::from_bits(0x7fc1_2345);
        let x: Tensor<Any> = Tensor::new([nan, -0.0], &any);
        let y: Tensor<Reference> = x.copy_to(&ReferenceDevice).unwrap();
        let bits: Vec<u32> = y.to_vec::<f32>().unwrap().iter().map(|v| v.to_bits()).collect();
        assert_eq!(bits, [nan.to_bits(), (-0.0f32).to_bits()]);
    }
}
