//! WGSL: lowered kernels by the interpreter, texts by naga, what is refused, and what a text holds.

use crate::naga_compiler::{PROMISED, read_with, validate};
use crate::random::{Dice, inputs, kernel};
use crate::words::{difference, from_words, words};
use elinvar_core::philox::Stream;
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::wgsl::{Dialect, Fma, Target, emit, legal, param_words};
use elinvar_kernel::interp::{Flushes, Launch, Memory, Quirks, run, run_with_quirks};
use elinvar_kernel::ir::{Constant, Elem, Scalar};
use elinvar_kernel::pass::{Legalize, lower};
use elinvar_kernel::text::{parse, print};
use naga::valid::Capabilities;

/// No more than the specification promises, for naga.
const BARE: Target = Target { dialect: Dialect::Naga, ..Target::WEBGPU };
/// Arithmetic that lacks nothing, and memory of any size.
const FULL: Target =
    Target { dialect: Dialect::Naga, buffers: 64, shared: 1 << 20, invocations: 1024, ..Target::EXACT };

/// Runs a kernel as it was lowered, on buffers of words.
fn run_lowered(k: &Kernel, target: &Target, launch: &Launch, buffers: &[Memory]) -> Vec<Memory> {
    let low = legal(k, target).unwrap_or_else(|e| panic!("{e}"));
    let mut given: Vec<Memory> = (buffers.iter().zip(&low.buffers))
        .map(|(m, b)| Memory { elem: b.elem, cells: words(m).into_iter().map(u64::from).collect() })
        .collect();
    let bits = param_words(&launch.params);
    let params = low.params.iter().zip(bits).map(|(p, w)| Constant { scalar: p.scalar, bits: w.into() });
    let launch = Launch { groups: launch.groups, params: params.collect() };
    run(&low, &launch, &mut given).unwrap_or_else(|e| panic!("{e}\n{}\n{}", print(k), print(&low)));
    let back = |(m, old): (&Memory, &Memory)| {
        let words: Vec<u32> = m.cells.iter().map(|&c| c as u32).collect();
        from_words(old.elem, old.cells.len(), &words)
    };
    given.iter().zip(buffers).map(back).collect()
}

/// The same bits before and after, as one of the words that the lowered kernel is made of.
fn same(k: &Kernel, target: &Target, launch: &Launch, buffers: &[Memory]) {
    let got = run_lowered(k, target, launch, buffers);
    let mut want = buffers.to_vec();
    run(k, launch, &mut want).unwrap_or_else(|e| panic!("{e}\n{}", print(k)));
    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
        if let Some(at) = difference(got, want) {
            let (got, want) = (got.cells[at], want.cells[at]);
            panic!("buffer {i}, element {at} is {got:#x}, not {want:#x}\n{}", print(k));
        }
    }
}

#[test]
fn lowering_changes_no_bit_of_random_kernels() {
    for seed in 0..400 {
        let k = kernel(&mut Dice::narrow(seed));
        let (launch, buffers) = inputs(&mut Dice::narrow(seed));
        same(&k, &FULL, &launch, &buffers);
    }
}

#[test]
fn naga_takes_random_kernels() {
    let bare = Target { buffers: 64, ..BARE };
    for seed in 0..60 {
        let k = kernel(&mut Dice::narrow(seed));
        for target in [FULL, bare] {
            let text = emit(&k, &target).unwrap_or_else(|e| panic!("{e}"));
            validate(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", print(&k)));
        }
    }
}

/// Numbers around every edge of 64 bits.
fn edges() -> Vec<i64> {
    let mut all = vec![0, 1, -1, 2, 3, 7, -7, 10, 1000, -1000];
    for places in [16, 24, 31, 32, 33, 48, 62, 63] {
        let one = 1i64.wrapping_shl(places);
        all.extend([one, one.wrapping_sub(1), one.wrapping_add(1), one.wrapping_neg(), !one]);
    }
    all.extend([0x0123_4567_89ab_cdef, -0x0123_4567_89ab_cdef, 0x0000_0001_0000_0180]);
    all
}

/// Every operation on 64-bit integers of both kinds, on all pairs of edges; with them conversions
/// from and to f32, halves between two floats among them.
#[test]
fn integers_of_64_bits_are_pairs_of_words() {
    let all = edges();
    let pairs: Vec<[i64; 2]> = all.iter().flat_map(|&a| all.iter().map(move |&b| [a, b])).collect();
    let n = pairs.len().next_multiple_of(64);
    let binary =
        ["add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr", "mul_high"];
    let compare = ["eq", "ne", "lt", "le", "gt", "ge"];
    for scalar in ["i64", "u64"] {
        let start = format!(
            "kernel t group 64 1 1 {{ buffer x {scalar} read buffer y {scalar} write buffer f f32 read_write
             %0: u32 = local_index %1: u32 = group_id.x %2: u32 = const 64 %3: u32 = mul %1, %2 %4: u32 = add %3, %0
             %5: u32 = const 2 %6: u32 = mul %4, %5 %7: {scalar}x2 = load x[%6]
             %8: {scalar} = extract %7, 0 %9: {scalar} = extract %7, 1 "
        );
        let check = |body: &str| {
            let k = parse(&format!("{start} {body} }}")).unwrap_or_else(|e| panic!("{e}\n{body}"));
            let mut cells: Vec<u64> = pairs.iter().flatten().map(|&v| v as u64).collect();
            cells.resize(2 * n, 1);
            let elem = k.buffers[0].elem;
            let floats = edges().into_iter().flat_map(|v| {
                let x = v as f32;
                [x, x.next_up(), x.next_down(), x + 0.5, x * 2.0, f32::from_bits(v as u32)]
            });
            let mut floats: Vec<u64> = floats.map(|x| x.to_bits().into()).collect();
            floats.resize(n, 0);
            let given =
                [Memory { elem, cells }, Memory::zeros(elem, n), Memory { elem: Elem::F32, cells: floats }];
            same(&k, &FULL, &Launch { groups: [n as u32 / 64, 1, 1], params: vec![] }, &given);
        };
        for op in binary {
            check(&format!("%10: {scalar} = {op} %8, %9 store y[%4] = %10"));
        }
        for op in compare {
            check(&format!("%10: bool = {op} %8, %9 %11: {scalar} = convert %10 store y[%4] = %11"));
        }
        check(&format!("%10: {scalar} = not %8 %11: {scalar} = neg %10 store y[%4] = %11"));
        check("%10: f32 = convert %8 store f[%4] = %10");
        check(&format!("%10: f32 = load f[%4] %11: {scalar} = convert %10 store y[%4] = %11"));
        for narrow in ["i32", "u32", "bool"] {
            check(&format!("%10: {narrow} = convert %8 %11: {scalar} = convert %10 store y[%4] = %11"));
        }
        let other = if scalar == "i64" { "u64" } else { "i64" };
        check(&format!(
            "%10: {other} = bitcast %8 %11: {other}x4 = splat %10 %12: {scalar}x4 = convert %11
             %13: {scalar} = extract %12, 3 store y[%4] = %13"
        ));
    }
}

/// Loops that count in 64 bits: none, some, more than one step, from negative numbers, over 2^32.
#[test]
fn loops_count_in_64_bits() {
    let text = "kernel t group 1 1 1 { buffer y i64 write param a i64 param b i64 param s i64
        %0: i64 = param a %1: i64 = param b %2: i64 = param s %3: i64 = const 7 %4: u32 = const 1 %5: u32 = const 0
        %11: i64, %12: u32 = for %6: i64 = %0 to %1 step %2 carry %7: i64 = %3, %8: u32 = %5 {
            %9: i64 = add %7, %6 %10: u32 = add %8, %4 yield %9, %10 }
        %13: i64 = convert %12 %14: i64 = mul %11, %13 store y[%5] = %14 }";
    let k = parse(text).unwrap_or_else(|e| panic!("{e}"));
    let far = 1i64 << 40;
    for [a, b, s] in [[0, 0, 1], [5, 3, 1], [0, 9, 1], [-4, 5, 3], [far, far + 10, 4], [-far, far, far / 3]] {
        let params = [a, b, s].map(Constant::from).to_vec();
        let launch = Launch { groups: [1, 1, 1], params };
        same(&k, &FULL, &launch, &[Memory::zeros(Elem::I64, 1)]);
    }
}

/// Every element that is less than a word, by loads and stores of every width, to buffers that
/// workgroups share words of, and through shared memory.
#[test]
fn small_elements_are_packed_into_words() {
    for elem in ["bool", "u8", "f16", "bf16", "f8e4m3", "f8e5m2"] {
        let of = parse(&format!("kernel t group 1 1 1 {{ buffer x {elem} read }}")).expect("it can be read");
        let of = of.buffers[0].elem;
        let scalar = of.scalar();
        for width in [1, 2, 4] {
            let ty = if width == 1 { scalar.to_string() } else { format!("{scalar}x{width}") };
            // Two workgroups of which neither has whole words to itself; y is changed in place.
            let mut body = format!(
                "%0: u32 = local_index %1: u32 = group_id.x %2: u32 = const 5 %3: u32 = mul %1, %2
                 %4: u32 = add %3, %0 %5: u32 = const {width} %6: u32 = mul %4, %5
                 %7: {ty} = load x[%6] %8: {ty} = load y[%6] "
            );
            body += match scalar {
                Scalar::Bool => "%9: {} = xor %7, %8 ",
                _ => "%9: {} = add %7, %8 ",
            }
            .replace("{}", &ty)
            .as_str();
            body += "store y[%6] = %9 ";
            if of != Elem::Bool {
                body += &format!(
                    "%10: u32 = mul %0, %5 store s[%10] = %9 barrier %11: {ty} = load s[%10] store z[%6] = %11"
                );
            } else {
                body += "store z[%6] = %7";
            }
            let shared = if of == Elem::Bool { String::new() } else { format!("shared s {elem} 20") };
            let text = format!(
                "kernel t group 5 1 1 {{ buffer x {elem} read buffer y {elem} read_write buffer z {elem} write
                 {shared} {body} }}"
            );
            let k = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            let len = 10 * width;
            let codes = |first: u64| {
                let mask = (1u64 << (8 * of.size())) - 1;
                let code = |i: u64| match of {
                    Elem::Bool => i % 2,
                    // Any bits: subnormals, infinities and NaN are among them.
                    _ => ((i + first).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) & mask,
                };
                Memory { elem: of, cells: (0..len as u64).map(code).collect() }
            };
            for round in 0..20 {
                let given = [codes(100 * round), codes(31 + round), codes(57)];
                same(&k, &FULL, &Launch { groups: [2, 1, 1], params: vec![] }, &given);
            }
            validate(&emit(&k, &BARE).unwrap_or_else(|e| panic!("{e}"))).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

const LANES: &str = "kernel lanes group 64 1 1 { subgroup 16 buffer z i64 read_write buffer w f32 read_write
    %0: u32 = local_index %1: u32 = subgroup_lane %2: u32 = subgroup_id %3: u32 = reduce.add %0
    %4: u32 = shuffle %3, %1 %5: u32 = broadcast %0, 13 %6: u32 = add %4, %5 %7: i64 = convert %6
    %8: i64 = load z[%0] %9: i64 = reduce.min %8 %10: i64 = reduce.add %8 %11: i64 = reduce.or %8
    %12: i64 = mul %9, %10 %13: i64 = add %11, %12 %14: i64 = xor %13, %7
    %15: f32 = load w[%0] %16: f32 = reduce.max %15 %17: u32 = const 40 %18: bool = lt %0, %17
    %19: bool = reduce.and %18 %20: bool = reduce.or %18 %21: u32 = convert %18 %22: u32 = shuffle %21, %2
    %23: bool = convert %22 %24: bool = xor %19, %20 %25: bool = xor %24, %23 %26: f32 = select %25, %16, %15
    %27: f32 = shuffle %26, %0 barrier store z[%0] = %14 store w[%0] = %27 }";

/// Exchanges between lanes go through shared memory where the device has other subgroups.
#[test]
fn lanes_exchange_through_shared_memory() {
    let k = parse(LANES).unwrap_or_else(|e| panic!("{e}"));
    let z = (0..64u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let w = (0..64).map(|i| u64::from((((i * 37) % 64) as f32 - 30.0).to_bits())).collect();
    let given = [Memory { elem: Elem::I64, cells: z }, Memory { elem: Elem::F32, cells: w }];
    let launch = Launch { groups: [1, 1, 1], params: vec![] };
    same(&k, &FULL, &launch, &given);
    let native = Target { subgroup: Some(16), ..FULL };
    same(&k, &native, &launch, &given);
    for (target, has) in [(FULL, false), (native, true)] {
        let text = emit(&k, &target).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(text.contains("subgroupShuffle("), has, "{text}");
        assert!(!text.contains("enable"), "{text}");
        validate(&text).unwrap_or_else(|e| panic!("{e}"));
    }
    let tint = emit(&k, &Target { dialect: Dialect::Tint, ..native }).unwrap_or_else(|e| panic!("{e}"));
    assert!(tint.starts_with("enable subgroups;\n"), "{tint}");
}

#[test]
fn what_wgsl_has_not_is_said() {
    let one = |head: &str, body: &str, target: Target| {
        let text = format!("kernel t {head} %0: u32 = group_id.x %1: f32 = load x[%0] {body} }}");
        let k = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        emit(&k, &target).err().map_or("emitted".to_string(), |e| e.0)
    };
    let plain = "group 32 1 1 { subgroup 32 buffer x f32 read buffer y f32 write buffer d f64 write";
    let many: String = (0..9).map(|i| format!(" buffer b{i} f32 write")).collect();
    let rows = [
        (plain, "store y[%0] = %1", FULL, "t: WGSL has no 64-bit floats"),
        ("group 32 1 1 { buffer x f32 read buffer y f32 write", "store y[%0] = %1", BARE, "emitted"),
        (
            "group 32 1 1 { subgroup 32 buffer x f32 read buffer y f32 write",
            "%2: fragment.c.f32.16x16x16 = fragment_fill %1 fragment_store row_major y[%0], %0 = %2",
            FULL,
            "t: WGSL has no matrix fragments",
        ),
        (
            "group 512 1 1 { buffer x f32 read buffer y f32 write",
            "store y[%0] = %1",
            BARE,
            "t: workgroups of 512 invocations, and the device has 256 at most",
        ),
        (
            "group 1 1 128 { buffer x f32 read buffer y f32 write",
            "store y[%0] = %1",
            BARE,
            "t: workgroups of 1 x 1 x 128, and the device has 256 x 256 x 64 at most",
        ),
        (
            "group 1 1 1 { buffer x f32 read buffer y f32 write shared s f32 5000",
            "store s[%0] = %1",
            BARE,
            "t: 20000 bytes of shared memory, and the device has 16384 at most",
        ),
        (
            &format!("group 1 1 1 {{ buffer x f32 read{many}"),
            "store b0[%0] = %1",
            BARE,
            "t: 10 storage buffers, and the device has 8 at most",
        ),
        (
            "group 64 1 1 { subgroup 64 buffer x f32 read buffer y f32 write",
            "%2: u32 = local_index %3: u32 = reduce.max %2 %4: u32 = const 0 %5: bool = eq %3, %4
             if %5 { barrier store y[%2] = %1 }",
            FULL,
            "only a part of the workgroup may come here",
        ),
    ];
    for (head, body, target, want) in rows {
        let got = one(head, body, target);
        assert!(got.contains(want), "{got}\nshould say: {want}");
    }
}

/// What a compiler must not know, and what it would refuse if it were an expression of constants.
#[test]
fn constants_are_no_const_expressions() {
    let text = "kernel t group 1 1 1 { buffer x u32 read buffer y f32 write buffer z i32 write
        %0: u32 = const 0 %1: u32 = load x[%0] %2: u32 = const 33 %3: u32 = shl %1, %2 %4: u32 = div %1, %0
        %5: u32 = add %3, %4 %6: f32 = convert %5 %7: f32 = const nan %8: f32 = const -inf %9: f32 = const 1e-40
        %10: f32 = const -0.0 %11: f32 = const 0.1 %12: bool = ne %6, %11 %13: f32 = select %12, %7, %8
        %14: f32 = add %13, %9 %15: f32 = mul %14, %10 %16: f32 = add %15, %11 store y[%0] = %16
        %17: i32 = const -2147483648 %18: i32 = bitcast %5 %19: i32 = add %18, %17 store z[%0] = %19 }";
    let k = parse(text).unwrap_or_else(|e| panic!("{e}"));
    let text = emit(&k, &FULL).unwrap_or_else(|e| panic!("{e}"));
    validate(&text).unwrap_or_else(|e| panic!("{e}"));
    for part in [
        "bitcast<f32>(2143289344u ^ params.zero)",
        "bitcast<f32>(4286578688u ^ params.zero)",
        "bitcast<f32>(71362u ^ params.zero)",
        "bitcast<f32>(2147483648u ^ params.zero)",
        "0x1.99999ap-4f",
        "bitcast<i32>(2147483648u)",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

/// Functions of the module stand for what the target does not promise; the text has each once.
#[test]
fn what_is_not_promised_is_a_function() {
    let text =
        "kernel t group 1 1 1 { buffer x f32 read buffer y f32 write %0: u32 = const 0 %1: f32x4 = load x[%0]
        %2: f32x4 = fma %1, %1, %1 %3: f32x4 = fma %2, %1, %1 %4: f32x4 = div %3, %2 %5: f32x4 = sqrt %4
        %6: f32x4 = mul %5, %1 %7: f32x4 = add %6, %1 store y[%0] = %7 }";
    let k = parse(text).unwrap_or_else(|e| panic!("{e}"));
    let functions = |target: &Target| {
        let text = emit(&k, target).unwrap_or_else(|e| panic!("{e}"));
        validate(&text).unwrap_or_else(|e| panic!("{e}"));
        let names = text.lines().filter_map(|l| l.strip_prefix("fn ")?.split('(').next());
        names.map(str::to_string).collect::<Vec<String>>()
    };
    assert_eq!(functions(&FULL), ["main"]);
    let all = ["exact_add", "exact_mul", "exact_div", "exact_sqrt", "exact_fma", "main"];
    assert_eq!(functions(&BARE), all);
    assert_eq!(functions(&Target { fma: Fma::Built, ..FULL }), ["exact_fma", "main"]);
    assert_eq!(
        functions(&Target { fma: Fma::AsItIs, ..BARE }),
        ["exact_add", "exact_mul", "exact_div", "exact_sqrt", "main"]
    );
    let wide =
        emit(&k, &Target { fma: Fma::BuiltOfF64, contracts: true, ..FULL }).unwrap_or_else(|e| panic!("{e}"));
    validate(&wide).expect_err("it has numbers of 64 bits");
    let with = PROMISED | Capabilities::FLOAT64 | Capabilities::SHADER_INT64;
    read_with(&wide, with).unwrap_or_else(|e| panic!("{e}"));
    let contracting = emit(&k, &Target { contracts: true, ..FULL }).unwrap_or_else(|e| panic!("{e}"));
    assert!(contracting.contains("^ vec4<u32>(params.zero))"), "{contracting}");
}

/// What the functions are made of, on a device that takes subnormal numbers for 0 everywhere,
/// rounds a multiply-add twice and quotients and roots wrongly: subnormal operands and results,
/// numbers that cancel, zeros, infinities and NaN.
#[test]
fn functions_need_no_more_than_rounded_sums_of_normal_numbers() {
    let text = "kernel t group 64 1 1 { buffer x f32 read buffer y f32 write
        %0: u32 = local_index %1: u32 = group_id.x %2: u32 = const 64 %3: u32 = mul %1, %2 %4: u32 = add %3, %0
        %5: u32 = const 4 %6: u32 = mul %4, %5 %7: f32x4 = load x[%6]
        %8: f32 = extract %7, 0 %9: f32 = extract %7, 1 %10: f32 = extract %7, 2
        %11: f32 = add %8, %9 %12: f32 = sub %8, %9 %13: f32 = mul %8, %9 %14: f32 = fma %8, %9, %10
        %15: f32 = div %8, %9 %16: f32 = sqrt %8 %17: f32x4 = compose %11, %12, %13, %14
        %18: f32x4 = compose %15, %16, %15, %16 %19: u32 = const 8 %20: u32 = mul %4, %19 %21: u32 = add %20, %5
        store y[%20] = %17 store y[%21] = %18 }";
    let k = parse(text).unwrap_or_else(|e| panic!("{e}"));
    let edges: Vec<f32> =
        [0.0, 1e-45, 1e-40, f32::MIN_POSITIVE, 1.0, 1.5, 3e20, f32::MAX, f32::INFINITY, f32::NAN]
            .into_iter()
            .flat_map(|x| [x, -x])
            .collect();
    let mut cells: Vec<u64> = Vec::new();
    let mut push = |all: [f32; 3]| cells.extend(all.into_iter().chain([0.0]).map(|x| u64::from(x.to_bits())));
    for &a in &edges {
        for &b in &edges {
            edges.iter().for_each(|&c| push([a, b, c]));
        }
    }
    let s = Stream { seed: 21, stream: 0 };
    for i in 0..6000u64 {
        let any = |j: u64| s.word(3 * i + j);
        let with = |bits: u32, e: u32| f32::from_bits((bits & 0x807f_ffff) | (e.min(254) << 23));
        let by = |places: u32, n: u32| (any(2) >> places) % n;
        push(match i % 4 {
            0 => [0, 1, 2].map(|j| f32::from_bits(any(j))),
            // Products around the least numbers, and third numbers on all sides of them.
            1 => [with(any(0), by(3, 60)), with(any(1), 60 + by(9, 80)), with(any(2), by(16, 30))],
            2 => {
                let (a, b) = (with(any(0), by(3, 120)), with(any(1), 100 + by(9, 40)));
                [a, b, -(a * b)]
            }
            _ => [with(any(0), by(3, 4)), with(any(1), by(5, 4)), with(any(2), by(7, 4))],
        });
    }
    let n = (cells.len() / 4).next_multiple_of(64);
    cells.resize(4 * n, 0);
    let launch = Launch { groups: [n as u32 / 64, 1, 1], params: Vec::new() };
    let on = |k: &Kernel, lacks: Quirks| {
        let mut b = [Memory { elem: Elem::F32, cells: cells.clone() }, Memory::zeros(Elem::F32, 8 * n)];
        run_with_quirks(k, &launch, &mut b, lacks).unwrap_or_else(|e| panic!("{e}"));
        b[1].clone()
    };
    let want = on(&k, Quirks::default());
    let kept = Legalize {
        sums: true,
        fma: true,
        quotient: true,
        root: true,
        comparisons: true,
        ..Legalize::default()
    };
    let unfused = Legalize { fma: false, fused: true, ..kept };
    for (legalize, fused) in [(kept, false), (unfused, true)] {
        let mut built = k.clone();
        lower(&mut built, legalize);
        let got = on(&built, Quirks { fused, precision: true, flushes: Flushes::ALL, ..Quirks::default() });
        if let Some(at) = difference(&got, &want) {
            let number = |c: u64| f32::from_bits(c as u32);
            let operands: Vec<f32> = cells[at / 8 * 4..][..3].iter().map(|&c| number(c)).collect();
            let (got, want) = (number(got.cells[at]), number(want.cells[at]));
            panic!("result {} of {operands:?} is {got:e}, not {want:e} (fused: {})", at % 8, !fused);
        }
    }
}
