//! Devices that take subnormal numbers of f32 for 0 in some of their operations: the bits of the
//! reference all the same.

#[path = "../../../cpu/tests/common/formulas.rs"]
mod formulas;

use elinvar_conformance::compare::bits;
use elinvar_conformance::equal::{Plan, equal};
use elinvar_conformance::twist::Work;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, ErrorKind, HostTensor, Result};
use elinvar_driver::{Driver, Interp};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_kernel::emit::spirv::Device;
use elinvar_kernel::interp::Flushes;
use elinvar_ops::{Backend, catalogue};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::Tensor;
use formulas::{OPS, args, kind};

/// Numbers below, at and above the least normal one, whose products, quotients and sums are on both
/// sides of it.
const NUMBERS: [f32; 20] = [
    0.0,
    1e-45,
    -1e-45,
    1e-40,
    -1e-40,
    5.9e-39,
    -f32::MIN_POSITIVE,
    f32::MIN_POSITIVE,
    1.763_241_5e-38,
    -3e-38,
    1e-30,
    -1e-19,
    3e-19,
    0.5,
    -0.75,
    1.0,
    -1.5,
    88.0,
    -100.0,
    1e30,
];

/// NVIDIA's, one that keeps them nowhere, and one that has no f64 to build from either.
fn devices() -> [GpuDevice<Interp>; 3] {
    let some = Device {
        division: [false, true],
        square_root: [false, true],
        compares_subnormals: [false; 2],
        fuses_subnormals: [false, true],
        ..Device::FULL
    };
    let flushes = Flushes { sums: false, rounding: false, conversions: false, ..Flushes::ALL };
    let none = Device {
        adds_subnormals: [false, true],
        rounds_subnormals: [false, true],
        converts_subnormals: false,
        ..some
    };
    let narrow = Device { fused: false, wide: false, ..none };
    [(some, flushes), (none, Flushes::ALL), (narrow, Flushes::ALL)]
        .map(|(d, f)| GpuDevice::new(Interp::open(0).unwrap().with_flushes(d, f), 0))
}

fn drawn<B: Backend>(d: &B::Device, role: u64, len: usize) -> Tensor<B> {
    let s = Stream { seed: 3, stream: role };
    let one = |i: usize| NUMBERS[s.word(i as u64) as usize % NUMBERS.len()];
    // Of the first operand, each number beside each of the second.
    let first = |i: usize| NUMBERS[i / NUMBERS.len() % NUMBERS.len()];
    let second = |i: usize| NUMBERS[i % NUMBERS.len()];
    let v: Vec<f32> = match role {
        0 => (0..len).map(first).collect(),
        1 => (0..len).map(second).collect(),
        _ => (0..len).map(one).collect(),
    };
    Tensor::from_vec(v, [len], d)
}

/// The result of an op and its gradients.
fn all<B: Backend>(d: &B::Device, name: &str, roles: &[&str], choice: &str) -> Result<Vec<HostTensor>> {
    let x: Vec<Tensor<B>> = (roles.iter().enumerate())
        .map(|(i, role)| {
            let x = drawn::<B>(d, i as u64, NUMBERS.len() * NUMBERS.len());
            if kind(role, DType::F32) == DType::Bool { x.gt(0.0) } else { x.requires_grad() }
        })
        .collect();
    let y = catalogue::call(&args(name, roles, choice, x.clone()))?.remove(0);
    let mut all = vec![y.to_host()?];
    if y.is_tracked() {
        let g = y.sum().backward();
        let of = x.iter().filter_map(|x| g.get(x));
        all.extend(of.map(|g| g.to_host()).collect::<Result<Vec<_>>>()?);
    }
    Ok(all)
}

#[test]
fn every_formula_keeps_them() {
    let mut ran = 0;
    let mut wrong = Vec::new();
    for &(names, roles, choices) in OPS {
        for (name, choice) in names.split_whitespace().flat_map(|n| choices.iter().map(move |c| (n, c))) {
            let Ok(want) = all::<Reference>(&ReferenceDevice, name, roles, choice) else { continue };
            for d in devices() {
                let got = all::<Gpu<Interp>>(&d, name, roles, choice).unwrap();
                assert_eq!(got.len(), want.len(), "{name} {choice}");
                let differs = |(got, want)| bits(got, want).err();
                if let Some(e) = got.iter().zip(&want).find_map(differs) {
                    wrong.push(format!("{name} {choice}: {e}"));
                }
                ran += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran > 150, "{ran}");
}

#[test]
fn folds_and_products_keep_them() {
    fn all<B: Backend>(d: &B::Device) -> Vec<HostTensor> {
        let x = drawn::<B>(d, 2, 240).reshape([8, 30]);
        let tiny = drawn::<B>(d, 3, 240).mul(1e-30).reshape([8, 30]);
        let [x, tiny] = [x.requires_grad(), tiny.requires_grad()];
        let rows = [x.softmax(1), tiny.log_softmax(1), tiny.layer_norm(30, None, None, 0.0), x.logsumexp()];
        let folds = [
            tiny.sum_dim(1, false),
            tiny.mean_dim(1, false),
            x.prod_dim(1, false),
            tiny.amax(),
            tiny.var(),
            tiny.std(),
        ];
        let others = [tiny.cumsum(1), x.cumprod(1), tiny.matmul(&x.t()), tiny.norm(2.0)];
        let y: Vec<Tensor<B>> = rows.into_iter().chain(folds).chain(others).collect();
        let total = y.iter().map(|y| y.sum()).reduce(|a, b| a + b).unwrap();
        let g = total.backward();
        let grads = [&x, &tiny].map(|x| g.get(x).unwrap().clone());
        y.iter().chain(&grads).map(|t| t.to_host().unwrap()).collect()
    }
    let want = all::<Reference>(&ReferenceDevice);
    for d in devices() {
        for (i, (got, want)) in all::<Gpu<Interp>>(&d).iter().zip(&want).enumerate() {
            bits(got, want).unwrap_or_else(|e| panic!("{i}: {e}"));
        }
        let works = vec![Work::Map, Work::Rows, Work::Copy, Work::Scan, Work::Contract, Work::Update];
        let differences =
            equal::<Gpu<Interp>>(&d, &Plan { rounds: 0..4, largest: 100, works, ..Plan::default() });
        assert!(differences.is_empty(), "{differences:?}");
    }
}

/// A device that flushes and is not known to: what the tests above would see.
#[test]
fn the_operands_tell_it() {
    let one = |flushes| {
        let d = GpuDevice::new(Interp::open(0).unwrap().with_flushes(Device::FULL, flushes), 0);
        ["sigmoid", "tanhshrink", "rsqrt", "floor", "relu", "log"].map(|name| {
            let [got, want] = [
                all::<Gpu<Interp>>(&d, name, &["x"], ""),
                all::<Reference>(&ReferenceDevice, name, &["x"], ""),
            ];
            bits(&got.unwrap()[0], &want.unwrap()[0]).is_ok()
        })
    };
    let none = Flushes::default();
    assert_eq!(one(none), [true; 6]);
    assert_eq!(one(Flushes { fma: true, ..none }), [false, false, true, true, true, true]);
    assert_eq!(one(Flushes { rounding: true, ..none }), [true, true, true, false, true, true]);
    // tanhshrink is 0 there, either way.
    assert_eq!(one(Flushes::ALL), [false, true, false, false, false, false]);
}

/// Where nothing can be built from, there is a sentence.
#[test]
fn what_cannot_be_built_is_refused() {
    let open = |d: Device| GpuDevice::new(Interp::open(0).unwrap().with_flushes(d, Flushes::ALL), 0);
    let d = open(Device { adds_subnormals: [true, false], ..Device::FULL });
    let x = Tensor::<Gpu<Interp>>::from_vec(vec![1f64, 2.0], [2], &d);
    let e = x.try_add(&x).and_then(|y| y.to_host()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("takes subnormal numbers for 0 in sums of f64"), "{e}");
}
