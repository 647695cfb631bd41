//! Raw calls: the bits of the library's ops on every backend, bad arguments, threads, random calls.
//!
//! The names of ROCm's libraries are read once in a process: what is tried on it is tried in a
//! child of these tests.

mod arguments;
mod equal;
mod life;
mod model;
#[cfg(feature = "oxicuda")]
mod oxicuda;
mod play;
mod random;
mod write;

use elinvar_compute::{BackendResult, ComputeBackend, Raw};
use elinvar_core::{DType, ErrorKind};
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_driver::{Cuda, Driver, Hip, Vulkan, cuda::use_library};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_ops::Backend;
use elinvar_reference::{Reference, ReferenceDevice};
use std::process::Command;

/// What names ROCm's driver, and says that this process tries it alone.
const ROCM: &str = "ELINVAR_HIP_LIBRARY";

/// The types that a backend may have.
pub const TYPES: [DType; 2] = [DType::F32, DType::F64];

/// A backend of the reference.
pub fn reference(dtype: DType) -> Raw<Reference> {
    opened::<Reference>(ReferenceDevice, dtype)
}

/// An opened backend.
pub fn opened<B: Backend>(device: B::Device, dtype: DType) -> Raw<B> {
    let mut raw = Raw::<B>::new(device, dtype).unwrap();
    raw.init().unwrap();
    raw
}

/// A CUDA device of its own: an emulated one, unless the environment names another library.
pub fn cuda() -> GpuDevice<Cuda> {
    use_library(&emulated_cuda::library().expect("it was built for this test")).unwrap();
    GpuDevice::new(Cuda::open(0).unwrap(), 0)
}

/// A Vulkan device of its own, or `None`, and a line on why.
pub fn vulkan() -> Option<GpuDevice<Vulkan>> {
    match Vulkan::open(0) {
        Ok(driver) => Some(GpuDevice::new(driver, 0)),
        Err(e) if e.kind() == ErrorKind::DriverMissing => {
            println!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// Tests of this file, in a process of their own; what it prints.
pub fn alone(tests: &[&str], vars: &[(&str, &str)]) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(tests).args(["--exact", "--include-ignored", "--nocapture"]);
    let o = child.envs(vars.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&o.stdout).into_owned() + &String::from_utf8_lossy(&o.stderr);
    assert!(o.status.success() && said.contains(&format!("{} passed", tests.len())), "{said}");
    said
}

/// An emulated card of each width of waves.
#[test]
fn the_same_on_rocm() {
    let library = emulated_hip::library().expect("it was built for this test");
    let library = library.to_str().expect("a path of UTF-8");
    for arch in ["gfx942", "gfx1100"] {
        let tests = [
            "equal::calls_have_the_bits_of_ops_on_every_backend",
            "life::several_threads_use_one_backend",
            "play::random_calls_agree_with_the_model",
        ];
        let vars = [(ROCM, library), ("ELINVAR_COMGR_LIBRARY", library), ("ELINVAR_EMULATED_HIP_ARCH", arch)];
        alone(&tests, &vars);
    }
}

/// The fast backends: the processor, CUDA, and Vulkan if there is such a device; in a child, ROCm.
pub fn fast(dtype: DType) -> Vec<Box<dyn ComputeBackend>> {
    if std::env::var_os(ROCM).is_some() {
        let device = GpuDevice::new(Hip::open(0).unwrap(), 0);
        return vec![Box::new(opened::<Gpu<Hip>>(device, dtype))];
    }
    let mut all: Vec<Box<dyn ComputeBackend>> = vec![
        Box::new(opened::<Cpu>(CpuDevice::default(), dtype)),
        Box::new(opened::<Gpu<Cuda>>(cuda(), dtype)),
    ];
    if let Some(device) = vulkan() {
        all.push(Box::new(opened::<Gpu<Vulkan>>(device, dtype)));
    }
    all
}

/// Numbers as bytes of a type.
pub fn bytes(dtype: DType, v: &[f64]) -> Vec<u8> {
    match dtype {
        DType::F32 => v.iter().flat_map(|&x| (x as f32).to_ne_bytes()).collect(),
        _ => v.iter().flat_map(|x| x.to_ne_bytes()).collect(),
    }
}

/// Bytes of a type as numbers.
pub fn numbers(dtype: DType, v: &[u8]) -> Vec<f64> {
    match dtype {
        DType::F32 => {
            v.chunks_exact(4).map(|b| f64::from(f32::from_ne_bytes(b.try_into().unwrap()))).collect()
        }
        _ => v.chunks_exact(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap())).collect(),
    }
}

/// Memory of these numbers.
pub fn put(raw: &dyn ComputeBackend, dtype: DType, v: &[f64]) -> BackendResult<u64> {
    let bytes = bytes(dtype, v);
    let p = raw.alloc(bytes.len())?;
    raw.copy_htod(p, &bytes)?;
    Ok(p)
}

/// Frees memory.
pub fn free(raw: &dyn ComputeBackend, all: &[u64]) {
    all.iter().for_each(|&p| raw.free(p).unwrap());
}

/// So many numbers at an address.
pub fn get(raw: &dyn ComputeBackend, dtype: DType, p: u64, n: usize) -> BackendResult<Vec<f64>> {
    let mut all = vec![0; n * dtype.size()];
    raw.copy_dtoh(&mut all, p)?;
    Ok(numbers(dtype, &all))
}

/// Are the numbers the same, bit by bit? All NaN are one.
pub fn same(a: &[f64], b: &[f64]) -> bool {
    let eq = |(x, y): (&f64, &f64)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    a.len() == b.len() && a.iter().zip(b).all(eq)
}

/// Numbers in -2..2 that use many bits.
pub fn noise(n: usize, seed: u64) -> Vec<f64> {
    let mut dice = random::Dice::new(seed);
    (0..n).map(|_| dice.number()).collect()
}
