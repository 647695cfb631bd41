//! A device's arithmetic, as it is emitted for it: the interpreter's bits, on many operands.

mod first;

use elinvar_core::ErrorKind;
use elinvar_core::philox::Stream;
use elinvar_driver::cuda::use_library;
use elinvar_driver::{Cuda, Driver, Hip, Interp, Slice, Vulkan, hip};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::emit::spirv;
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::{Access, Binary, Compare, Elem, Unary};
use first::first;

const COUNT: u64 = 1 << 14;

/// Operations on three operands of a type.
type Operation = for<'k> fn([Val<'k>; 3]) -> Val<'k>;
const OPERATIONS: [(&str, Operation); 26] = [
    ("add", |[a, b, _]| a + b),
    ("sub", |[a, b, _]| a - b),
    ("mul", |[a, b, _]| a * b),
    ("div", |[a, b, _]| a.binary(Binary::Div, b)),
    ("fma", |[a, b, c]| a.fma(b, c)),
    ("fma_fma", |[a, b, c]| a.fma(b, c).fma(c, a)),
    ("fma_sub", |[a, b, c]| a.fma(b, c) - a * b),
    ("mul_add", |[a, b, c]| a * b + c),
    ("sqrt", |[a, _, _]| a.unary(Unary::Abs).unary(Unary::Sqrt)),
    ("min", |[a, b, _]| a.binary(Binary::Min, b)),
    ("max", |[a, b, _]| a.binary(Binary::Max, b)),
    ("round", |[a, _, _]| a.unary(Unary::Round)),
    ("floor", |[a, _, _]| a.unary(Unary::Floor)),
    ("ceil", |[a, _, _]| a.unary(Unary::Ceil)),
    ("trunc", |[a, _, _]| a.unary(Unary::Trunc)),
    ("copysign", |[a, b, _]| a.binary(Binary::CopySign, b)),
    ("abs", |[a, _, _]| a.unary(Unary::Abs)),
    ("neg", |[a, _, _]| -a),
    ("less", |[a, b, _]| a.lt(b).to(a.scalar())),
    ("below_zero", |[a, _, _]| a.lt(a.like(0)).to(a.scalar())),
    ("is_zero", |[a, _, _]| a.eq(a.like(0)).to(a.scalar())),
    ("not_less", |[a, b, _]| a.compare(Compare::Ge, b).to(a.scalar())),
    ("unequal", |[a, b, _]| a.compare(Compare::Ne, b).to(a.scalar())),
    // What compilers that do not care for the sign of zero, or for NaN, know the results of.
    ("from_zero", |[a, _, _]| a.like(0) + a),
    ("by_zero", |[a, _, _]| a.like(0) * a),
    ("fma_from_zero", |[a, b, _]| a.fma(b, a.like(0))),
];

/// The results; `None` if the device says that it cannot.
fn run<D: Driver>(d: &D, elem: Elem, operation: Operation, x: &[Vec<u8>; 3]) -> Option<Vec<u8>> {
    let k = Builder::new("arithmetic", [64, 1, 1]);
    let places = ["a", "b", "c"].map(|n| k.buffer(n, elem, Access::Read));
    let y = k.buffer("y", elem, Access::Write);
    let i = k.global_id(0);
    let loaded = places.map(|p| k.load(p, i, 1));
    k.store(y, i, operation(loaded));
    let module = match d.compile(&k.finish()) {
        Ok(module) => module,
        Err(e) if e.kind() == ErrorKind::Unsupported => {
            println!("skipped: {e}");
            return None;
        }
        Err(e) => panic!("{e}"),
    };
    let len = x[0].len() as u64;
    let memory: Vec<D::Memory> = (0..4).map(|_| d.allocate(len).unwrap()).collect();
    let slices: Vec<Slice<'_, D>> = memory.iter().map(|memory| Slice { memory, offset: 0, len }).collect();
    for (s, x) in slices.iter().zip(x) {
        d.write(*s, x).unwrap();
    }
    let launch = Launch { groups: [(COUNT / 64) as u32, 1, 1], params: Vec::new() };
    d.launch(&module, &slices, &launch, None).unwrap();
    let mut got = vec![0; len as usize];
    d.read(slices[3], &mut got).unwrap();
    Some(got)
}

/// Any bits and -0, numbers of nearby exponents, and sums that cancel a product.
fn operands(wide: bool) -> [Vec<f64>; 3] {
    let s = Stream { seed: 5, stream: 9 };
    let mut all = [const { Vec::new() }; 3];
    for i in 0..COUNT {
        let any = |j: u64| {
            let bits = s.word64(4 * i + j);
            if wide { f64::from_bits(bits) } else { f64::from(f32::from_bits(bits as u32)) }
        };
        let near = |x: f64| {
            if wide {
                f64::from_bits((x.to_bits() & 0x800f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000)
            } else {
                f64::from(f32::from_bits(((x as f32).to_bits() & 0x807f_ffff) | 0x3f80_0000))
            }
        };
        let (a, b, c) = (if i % 64 == 8 { -0.0 } else { any(0) }, any(1), any(2));
        // Random bits are seldom of a subnormal number.
        let least = if wide { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
        let (a, b) = match i % 64 {
            12 => (least * near(a) / 4.0, b),
            16 => (least * near(a) / 4.0, least * near(b) / 4.0),
            20 => (least * near(a) / 4.0, 0.0),
            _ => (a, b),
        };
        let c = if i % 64 >= 12 && i % 128 < 64 { least * near(c) / 4.0 } else { c };
        // Products, and with c sums, that are subnormal.
        let (a, b) = match i % 64 {
            24 => (least * near(a), near(b) / 8.0),
            28 => (near(a) / 16.0, least * near(b) * 2.0),
            // Of all sizes that have places after the point and before it.
            40 | 44 => (near(a) * 2f64.powi((i / 64 % 56) as i32), b),
            // Rounded to zeros, of both signs.
            48 => (near(a) / 4.0, b),
            _ => (a, b),
        };
        let three = match i % 4 {
            0 => [a, b, c],
            1 => {
                let (a, b) = (near(a), near(b));
                [a, b, if wide { -(a * b) } else { -f64::from(a as f32 * b as f32) }]
            }
            2 => [near(a), near(b), near(c)],
            _ => [near(a), near(b), near(c) * 2f64.powi((s.word(i) % 60) as i32 - 40)],
        };
        all.iter_mut().zip(three).for_each(|(v, x)| v.push(x));
    }
    all
}

#[test]
fn vulkans_arithmetic_is_the_interpreters() {
    if let Some(d) = first::<Vulkan>() {
        check(&d);
    }
}

#[cfg(feature = "webgpu")]
#[test]
fn webgpus_arithmetic_is_the_interpreters() {
    use elinvar_driver::WebGpu;
    use elinvar_kernel::emit::wgsl::Target;
    let Some(d) = first::<WebGpu>() else { return };
    println!("{:?}", d.target());
    check(&d);
    // No more than WebGPU promises.
    let found = *d.target();
    check(&d.with_target(Target { dialect: found.dialect, ..Target::WEBGPU }));
}

#[cfg(all(feature = "metal", target_vendor = "apple"))]
#[test]
fn metals_arithmetic_is_the_interpreters() {
    use elinvar_driver::Metal;
    let Some(d) = first::<Metal>() else { return };
    println!("{:?}", d.target());
    check(&d);
}

/// What other devices lack is built here, and compared.
#[test]
fn what_is_built_is_the_interpreters() {
    let Some(d) = first::<Vulkan>() else { return };
    let found = *d.arithmetic();
    let none = spirv::Device {
        division: [false; 2],
        square_root: [false; 2],
        compares_subnormals: [false; 2],
        adds_subnormals: [false, true],
        fuses_subnormals: [false; 2],
        rounds_subnormals: [false; 2],
        converts_subnormals: false,
        ..found
    };
    let d = d.with_arithmetic(none);
    check(&d);
    check(&d.with_arithmetic(spirv::Device { fused: false, ..none }));
}

#[test]
fn cudas_arithmetic_is_the_interpreters() {
    use_library(&emulated_cuda::library().expect("it was built for this test")).unwrap();
    let d = Cuda::open(0).unwrap();
    check(&d);
}

#[test]
fn rocms_arithmetic_is_the_interpreters() {
    let library = emulated_hip::library().expect("it was built for this test");
    hip::use_library(&library).unwrap();
    hip::use_compiler(&library).unwrap();
    check(&Hip::open(0).unwrap());
}

fn check<D: Driver>(d: &D) {
    let interp = Interp::open(0).unwrap();
    let mut wrong = Vec::new();
    for elem in [Elem::F32, Elem::F64] {
        let wide = elem == Elem::F64;
        if wide && !d.info().f64 {
            continue;
        }
        let size = elem.size() as usize;
        let value = |b: &[u8]| match wide {
            true => f64::from_le_bytes(b.try_into().unwrap()),
            false => f64::from(f32::from_le_bytes(b.try_into().unwrap())),
        };
        let x = operands(wide);
        let bytes = x.each_ref().map(|v| {
            let narrow = |x: &f64| (*x as f32).to_le_bytes().to_vec();
            v.iter()
                .flat_map(|x| if wide { x.to_le_bytes().to_vec() } else { narrow(x) })
                .collect::<Vec<u8>>()
        });
        for (name, operation) in OPERATIONS {
            let Some(got) = run(d, elem, operation, &bytes) else { continue };
            let want = run(&interp, elem, operation, &bytes).expect("it can do all");
            for i in 0..COUNT as usize {
                let [got, want] = [&got, &want].map(|v| value(&v[i * size..][..size]));
                let operands = x.each_ref().map(|v| v[i]);
                if !(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan())) {
                    wrong.push(format!("{elem} {name} of {operands:?} is {got:e}, not {want:e}"));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", d.info().name, wrong.join("\n"));
}
