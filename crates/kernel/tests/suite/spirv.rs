//! SPIR-V: what the validator says, what is refused, and what a module holds.

use crate::backend::FULL;
use crate::random::{Dice, kernel};
use elinvar_core::philox::Stream;
use elinvar_core::{DType, Layout, Precision, Shape};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::spirv::{Device, emit};
use elinvar_kernel::ir::MatrixUnit;
use elinvar_kernel::library::contract::{self, OfEpilogue, Product, Tile};
use elinvar_kernel::library::conv::{Asked, Of};
use elinvar_kernel::library::formula::{Floats, Ints};
use elinvar_kernel::library::{
    Steps, arg_fold, attention, conv, copy, fill, fold, gather, map, matrix_units, nonzero, random, scan,
    scatter, sort,
};
use elinvar_kernel::text::parse;
use elinvar_ops::backend::{AddBias, ArgFold, Attention, Conv, Fold, Random, Scan, Scatter};
use elinvar_ops::catalogue::{add::Add, pow::Pow};
use std::process::Command;

fn layout(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).expect("small"))
}

/// A kernel of every file of the library, and of every dtype where it matters.
pub fn library() -> Vec<Kernel> {
    let (l, t) = (layout(&[6, 4]), layout(&[4, 6]).transpose(0, 1));
    let e = OfEpilogue::<AddBias, 1>(AddBias);
    let mut all = Vec::new();
    for d in DType::ALL {
        all.push(copy::copy(&t, d, DType::F32));
        all.push(copy::copy(&l, DType::F64, d));
        all.push(gather::gather(&l, d, 0, &layout(&[2, 4])));
        if d.is_float() {
            all.push(map::map(&Floats::<_, 2>(Pow), d, &[(&l, d), (&l, DType::Bool)]));
            all.push(map::map(&Floats::<_, 2>(Add), d, &[(&l, d), (&t, d)]));
            let m = layout(&[1, 6, 4]);
            for tile in [Tile::PLAIN, Tile::SHARED] {
                all.push(contract::contract(
                    &Product::new(&e, d, &m, &m.transpose(1, 2), &[(&layout(&[1, 6, 6]), d)]),
                    tile,
                ));
            }
        } else {
            all.push(map::map(&Ints::<_, 2>(Pow), d, &[(&l, d), (&l, d)]));
        }
        let to = if d.is_float() { d } else { DType::I64 };
        all.push(fold::fold(Fold::Sum, &layout(&[2, 5000]), d, 1, to, fold::Choice::default()));
        all.push(fold::fold(Fold::Max, &t, d, 1, d, fold::Choice::default()));
        all.push(scan::scan(Scan::Sum, &l, d, to));
        all.push(fill::fill(1.into(), d, 9));
        all.push(copy::copy_into(&t, d, &l));
        all.push(random::random(Random::Int { low: 0, high: 2 }, Stream { seed: 1, stream: 2 }, d, 9));
    }
    let mut all: Vec<Kernel> = all.into_iter().map(|w| w.expect("there are elements").kernel()).collect();
    all.extend(several().iter().flat_map(|s| &s.steps).map(|s| s.work.kernel()));
    all
}

/// Works of several launches.
fn several() -> Vec<Steps<'static>> {
    let l = layout(&[2, 700]);
    let (x, w, g) = (layout(&[1, 2, 40, 20]), layout(&[3, 2, 3, 3]), layout(&[1, 3, 40, 20]));
    let c = Conv {
        stride: vec![1, 1],
        padding: vec![1, 1],
        dilation: vec![1, 1],
        groups: 1,
        precision: Precision::Exact,
    };
    let (q, mask, lse) = (layout(&[1, 2, 9, 4]), layout(&[1, 2, 9, 9]), layout(&[1, 2, 9]));
    let a = Attention::exact(0.5, true);
    let mut all = Vec::new();
    for d in DType::ALL {
        all.push(arg_fold::arg_fold(ArgFold::Max, &layout(&[9000]), d, 0));
        all.push(sort::sort(&l, d, true));
        all.push(nonzero::nonzero(&l, d));
        for how in [Scatter::Set, Scatter::Add] {
            all.push(scatter::scatter(how, d, &l, 1, &l, &l));
        }
        if d.is_float() {
            let tile = Tile { group: [8, 8], each: [2, 2], depth: 4, slots: 2 };
            for how in [conv::How::Plain, conv::How::Exactly(tile)] {
                all.push(conv::steps(&Asked::gradient(Of::Input, &c, d, [&g, &w], &[40, 20]), how));
                all.push(conv::steps(&Asked::gradient(Of::Weight, &c, d, [&x, &g], &[3, 3]), how));
            }
            let mask = Some((&mask, d));
            for how in [attention::How::Plain, attention::How::Within(48 << 10)] {
                let given = attention::Given { q: &q, k: &q, v: &q, o: &q, lse: &lse, g: &q, mask };
                all.push(attention::attention_grad(&a, d, given, how));
            }
        }
    }
    all
}

/// What `spirv-val` says, or `None` if it is not installed.
fn validate(name: &str, words: &[u32]) -> Option<String> {
    let path = std::env::temp_dir().join(format!("elinvar-{}-{name}.spv", std::process::id()));
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    std::fs::write(&path, bytes).expect("the temporary directory can be written to");
    let out = Command::new("spirv-val").args(["--target-env", "vulkan1.2"]).arg(&path).output();
    let _ = std::fs::remove_file(&path);
    out.ok().map(|o| String::from_utf8_lossy(&[o.stdout, o.stderr].concat()).into_owned())
}

#[test]
fn the_validator_has_nothing_to_say() {
    let bare = Device {
        keeps_zeros: false,
        keeps_nan: [false; 2],
        rounds_to_even: [false; 3],
        keeps_subnormals: [false; 2],
        ..FULL
    };
    let mut kernels: Vec<(Device, Kernel)> = library().into_iter().map(|k| (FULL, k)).collect();
    kernels.extend((0..20).map(|seed| (bare, kernel(&mut Dice::new(seed)))));
    let lanes = "kernel lanes group 64 1 1 { subgroup 32 buffer z u32 read_write param n i32 shared s i32 64
        %0: u32 = local_index %1: u32 = subgroup_lane %2: u32 = reduce.add %0 %3: u32 = shuffle %2, %1
        %4: u32 = broadcast %3, 31 %5: u32 = subgroup_id %6: u32 = atomic.max z[%5], %4
        %7: i32 = param n store s[%0] = %7 barrier %8: i32 = load s[%1] %9: i32 = atomic.exchange s[%5], %8
        %10: bool = lt %8, %9 %11: bool = reduce.and %10 if %11 { barrier } }";
    // The last barrier is in a branch that differs between subgroups.
    let k = parse(&lanes.replace("if %11 { barrier }", "")).expect("it can be read");
    kernels.push((FULL, k));
    let extremes = "kernel extremes group 64 1 1 { subgroup 16 buffer x f32 read buffer y f32 write
        %0: u32 = local_index %1: f32 = load x[%0] %2: f32 = reduce.max %1 %3: f32 = reduce.min %1
        %4: f32 = add %2, %3 store y[%0] = %4 }";
    kernels.push((FULL, parse(extremes).expect("it can be read")));
    let choice = "kernel choice group 1 1 1 { buffer x f64 read_write %0: u32 = const 0 %1: f64 = load x[%0]
        %2: f64 = const 0.0 %3: bool = lt %1, %2 %4: f64 = const -1.0 %5: f64 = select %3, %2, %4 store x[%0] = %5 }";
    kernels.push((FULL, parse(choice).expect("it can be read")));
    for (device, k) in &kernels {
        let words = emit(k, device).unwrap_or_else(|e| panic!("{e}"));
        match validate(&k.name, &words) {
            Some(said) => assert_eq!(said, "", "{}:\n{}", k.name, elinvar_kernel::text::print(k)),
            None => eprintln!("spirv-val is not installed; {} was emitted and not validated", k.name),
        }
    }
}

/// As much as every device has.
const LIMITS: matrix_units::Limits =
    matrix_units::Limits { invocations: 1024, shared: 32 << 10, asynchronous: false };

/// Products by matrix units, as other devices have them.
pub fn units(elem: DType) -> Vec<Kernel> {
    let e = OfEpilogue::<AddBias, 1>(AddBias);
    let m = layout(&[1, 40, 24]);
    let all = [([8, 8, 8], 8), ([16, 16, 16], 32), ([16, 8, 16], 32)].map(|(shape, lanes)| {
        let unit = MatrixUnit { elem: elem.into(), shape };
        let tile = matrix_units::Tile::of(unit, lanes, 64, [40, 40], LIMITS).expect("it fits");
        let row = layout(&[1, 40, 40]);
        let work = |x, w| matrix_units::contract(&Product::new(&e, elem, x, w, &[(&row, elem)]), tile);
        let turned = layout(&[1, 24, 40]).transpose(1, 2);
        [work(&m, &m.transpose(1, 2)), work(&turned, &layout(&[1, 24, 40]))]
    });
    all.into_iter().flatten().map(|w| w.expect("there are elements").kernel()).collect()
}

#[test]
fn the_validator_knows_fragments() {
    let version = Command::new("spirv-val").arg("--version").output();
    let version = version.map_or(String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned());
    let knows = version.split_whitespace().find_map(|w| w.strip_prefix('v')).is_some_and(|v| v >= "2023.6");
    for k in units(DType::F16) {
        let words = emit(&k, &FULL).unwrap_or_else(|e| panic!("{e}"));
        match knows.then(|| validate(&k.name, &words)).flatten() {
            Some(said) => assert_eq!(said, "", "{}:\n{}", k.name, elinvar_kernel::text::print(&k)),
            None => eprintln!("no spirv-val since 2023.6; {} was emitted and not validated", k.name),
        }
    }
}

#[test]
fn what_a_device_lacks_is_said() {
    let one = |body: &str, device: Device| {
        let text = format!(
            "kernel t group 32 1 1 {{ subgroup 32 buffer x f32 read buffer h f16 read buffer d f64 read
             %0: u32 = group_id.x %1: f32 = load x[%0] %2: f64 = load d[%0] {body} }}"
        );
        let y = text.replace("buffer h", "buffer y f32 write buffer z f64 write buffer h");
        emit(&parse(&y).unwrap_or_else(|e| panic!("{e}")), &device)
            .err()
            .map_or("emitted".to_string(), |e| e.0)
    };
    let rows = [
        ("%3: f32 = sqrt %1 store y[%0] = %3", FULL, "emitted"),
        ("%3: f32 = sqrt %1 store y[%0] = %3", Device { square_root: false, ..FULL }, "emitted"),
        ("%3: f32 = div %1, %1 store y[%0] = %3", Device { division: false, ..FULL }, "emitted"),
        ("%3: f32 = fma %1, %1, %1 store y[%0] = %3", Device { fused: false, ..FULL }, "emitted"),
        ("%3: f64 = sqrt %2 store z[%0] = %3", Device { square_root: false, ..FULL }, "a square root of f64"),
        ("%3: f64 = div %2, %2 store z[%0] = %3", Device { division: false, ..FULL }, "a division of f64"),
        ("%3: f64 = fma %2, %2, %2 store z[%0] = %3", Device { fused: false, ..FULL }, "emitted"),
        (
            "%3: fragment.c.f32.16x16x16 = fragment_fill %1 fragment_store rows y[%0], %0 = %3",
            FULL,
            "emitted",
        ),
        (
            "%3: fragment.a.bf16.16x16x16 = fragment_fill %1 %4: fragment.b.bf16.16x16x16 = fragment_fill %1
             %5: fragment.c.f32.16x16x16 = fragment_fill %1 %6: fragment.c.f32.16x16x16 = fragment_mul_add %3, %4, %5
             fragment_store rows y[%0], %0 = %6",
            FULL,
            "fragments of bf16",
        ),
        ("%3: f32 = reduce.max %1 store y[%0] = %3", FULL, "emitted"),
        ("%3: f32 = add %0, %1", FULL, "%0 is u32, and %1 is f32"),
    ];
    for (body, device, want) in rows {
        let got = one(body, device);
        assert!(got.contains(want), "{got}\nshould say: {want}");
    }
}
