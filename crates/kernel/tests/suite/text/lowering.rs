//! Lowering: what a target lacks is built from what it has, to the bit.

use super::*;

/// With NaN and zeros of both signs among the lanes.
#[test]
fn the_largest_of_a_subgroup_is_built_from_exchanges() {
    let text = "kernel t group 32 1 1 { subgroup 8 buffer x f32 read buffer y f32 write buffer z f32 write
        %0: u32 = local_index %1: f32 = load x[%0] %2: f32 = reduce.max %1 %3: f32 = reduce.min %1
        store y[%0] = %2 store z[%0] = %3 }";
    let k = parse(text).unwrap();
    let x: Vec<f32> = (0..32)
        .map(|i| match i {
            3 => f32::NAN,
            8..16 => [0.0, -0.0][i % 2],
            16..24 => -0.0,
            _ => ((i * 37) % 23) as f32 - 11.0,
        })
        .collect();
    let outcome = |k: &Kernel| {
        let mut buffers = vec![Memory::from_host(&HostData::F32(x.clone().into()))];
        buffers.extend([Memory::zeros(Elem::F32, 32), Memory::zeros(Elem::F32, 32)]);
        let launch = Launch { groups: [1, 1, 1], params: Vec::new() };
        run(k, &launch, &mut buffers).unwrap_or_else(|e| panic!("{e}"));
        buffers
    };
    for extremes in [false, true] {
        let mut built = k.clone();
        let legalize = pass::Legalize { reductions: true, extremes, ..pass::Legalize::default() };
        pass::lower(&mut built, legalize);
        assert!(!print(&built).contains("reduce"), "{}", print(&built));
        assert_eq!(outcome(&built), outcome(&k), "{}", print(&built));
    }
}

/// On a device that rounds products and sums apart, the built fma is the fused one.
#[test]
fn a_fused_fma_is_built_where_there_is_none() {
    let text = "kernel t group 64 1 1 { buffer x f32 read buffer y f32 write param n u32
        %0: u32 = local_index %1: u32 = group_id.x %2: u32 = const 64 %3: u32 = mul %1, %2 %4: u32 = add %3, %0
        %5: u32 = const 4 %6: u32 = mul %4, %5 %7: f32x4 = load x[%6]
        %8: f32 = extract %7, 0 %9: f32 = extract %7, 1 %10: f32 = extract %7, 2
        %11: f32 = fma %8, %9, %10 store y[%4] = %11 }";
    let k = parse(text).unwrap();
    let mut built = k.clone();
    pass::lower(&mut built, pass::Legalize { fused: true, wide: true, ..pass::Legalize::default() });
    let mut whole = k.clone();
    pass::lower(&mut whole, pass::Legalize { fused: true, ..pass::Legalize::default() });
    assert!(!whole.features().f64 && !whole.features().i64, "built without anything wider");
    let (groups, s) = (64u32, elinvar_core::philox::Stream { seed: 11, stream: 0 });
    let n = u64::from(groups) * 64;
    let mut cells = Vec::new();
    for i in 0..n {
        let [a, b, c] = [0, 1, 2].map(|j| f32::from_bits(s.word(3 * i + j)));
        // A third are any bits, a third nearly cancel, a third are near in size.
        let near = |x: f32| f32::from_bits((x.to_bits() & 0x807f_ffff) | 0x3f80_0000);
        let all = match i % 3 {
            0 => [a, b, c],
            1 => [near(a), near(b), -(near(a) * near(b))],
            _ => [near(a), near(b), c],
        };
        cells.extend(all.map(|v| u64::from(v.to_bits())));
        cells.push(0);
    }
    let x = Memory { elem: Elem::F32, cells };
    let launch =
        Launch { groups: [groups, 1, 1], params: vec![n.try_into().map(|n: u32| n.into()).unwrap()] };
    let on = |k: &Kernel, fused: bool| {
        let mut b = [x.clone(), Memory::zeros(Elem::F32, n as usize)];
        let lacks = elinvar_kernel::interp::Quirks { fused, ..Default::default() };
        elinvar_kernel::interp::run_with_quirks(k, &launch, &mut b, lacks).unwrap_or_else(|e| panic!("{e}"));
        b[1].clone()
    };
    let want = on(&k, false);
    assert!(on(&k, true) != want, "the inputs do not tell a fused fma from another");
    assert!(on(&built, true) == want);
    let nan = |c: u64| f32::from_bits(c as u32).is_nan();
    let same = |(a, b): (&u64, &u64)| a == b || (nan(*a) && nan(*b));
    assert!(on(&whole, true).cells.iter().zip(&want.cells).all(same));
}

/// The same of f64, which is built in integers: any bits, sums that cancel, exponents on all sides
/// of the product's, results that are subnormal or too large, zeros, infinities, NaN.
#[test]
fn a_fused_fma_of_f64_is_built_where_there_is_none() {
    let text = "kernel t group 64 1 1 { buffer x f64 read buffer y f64 write
        %0: u32 = local_index %1: u32 = group_id.x %2: u32 = const 64 %3: u32 = mul %1, %2 %4: u32 = add %3, %0
        %5: u32 = const 4 %6: u32 = mul %4, %5 %7: f64x4 = load x[%6]
        %8: f64 = extract %7, 0 %9: f64 = extract %7, 1 %10: f64 = extract %7, 2
        %11: f64 = fma %8, %9, %10 store y[%4] = %11 }";
    let k = parse(text).unwrap();
    let mut built = k.clone();
    pass::lower(&mut built, pass::Legalize { fused: true, ..pass::Legalize::default() });
    verify::verify(&built).unwrap_or_else(|e| panic!("{e}"));
    let (groups, s) = (512u32, elinvar_core::philox::Stream { seed: 12, stream: 0 });
    let n = u64::from(groups) * 64;
    let edges =
        [0.0, -0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, f64::MIN_POSITIVE, 5e-324];
    let mut cells = Vec::new();
    for i in 0..n {
        let any = |j: u64| f64::from_bits(s.word64(4 * i + j));
        let word = s.word64(4 * i + 3);
        // A number of this exponent.
        let with = |x: f64, e: i64| {
            f64::from_bits((x.to_bits() & 0x800f_ffff_ffff_ffff) | ((e.clamp(0, 2046) as u64) << 52))
        };
        // Few bits are set in every second one, so that halves are met.
        let few =
            |x: f64| if word & 1 == 0 { x } else { f64::from_bits(x.to_bits() & 0xffff_f000_0000_0000) };
        let by = |places: u32, of: i64| (word >> places) as i64 % of;
        let (a, b, c) = (any(0), any(1), any(2));
        let all = match i % 6 {
            0 => [a, b, c],
            1 => {
                let (a, b) = (with(a, 1023), with(b, 1023));
                [a, b, -(a * b)]
            }
            2 => {
                let (ea, eb) = (1023 + by(8, 60), 1023 - by(16, 60));
                [few(with(a, ea)), few(with(b, eb)), few(with(c, ea + eb - 1023 + by(24, 240) - 120))]
            }
            // Around the smallest numbers.
            3 => [few(with(a, by(8, 90))), few(with(b, 1000 + by(16, 60))), few(with(c, by(24, 60)))],
            // Around the largest.
            4 => [with(a, 2000), with(b, 1030 + by(8, 40)), with(c, 2040 + by(16, 7))],
            _ => {
                let edge = |x: f64, w: u64| {
                    if w.is_multiple_of(3) { edges[(w / 3) as usize % edges.len()] } else { x }
                };
                [edge(a, word), edge(b, word >> 8), edge(c, word >> 16)]
            }
        };
        cells.extend(all.map(f64::to_bits));
        cells.push(0);
    }
    let x = Memory { elem: Elem::F64, cells };
    let launch = Launch { groups: [groups, 1, 1], params: Vec::new() };
    let on = |k: &Kernel, fused: bool| {
        let mut b = [x.clone(), Memory::zeros(Elem::F64, n as usize)];
        let lacks = elinvar_kernel::interp::Quirks { fused, ..Default::default() };
        elinvar_kernel::interp::run_with_quirks(k, &launch, &mut b, lacks).unwrap_or_else(|e| panic!("{e}"));
        b[1].cells.iter().map(|&c| f64::from_bits(c)).collect::<Vec<f64>>()
    };
    let (want, unfused, got) = (on(&k, false), on(&k, true), on(&built, true));
    let differ = |a: f64, b: f64| a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan());
    assert!(
        (0..n as usize).filter(|&i| differ(unfused[i], want[i])).count() > 1000,
        "the inputs tell nothing"
    );
    for i in 0..n as usize {
        let [a, b, c] = [0, 1, 2].map(|j| f64::from_bits(x.cells[4 * i + j]));
        assert!(!differ(got[i], want[i]), "{a:e} * {b:e} + {c:e} = {:e}, not {:e}", want[i], got[i]);
    }
}

/// On a device whose quotients and roots are off by some units, the built ones are correctly
/// rounded.
#[test]
fn quotients_and_roots_are_built_where_they_are_not_exact() {
    let text = "kernel t group 64 1 1 { buffer x f32 read buffer y f32 write param n u32
        %0: u32 = local_index %1: u32 = group_id.x %2: u32 = const 64 %3: u32 = mul %1, %2 %4: u32 = add %3, %0
        %5: u32 = const 2 %6: u32 = mul %4, %5 %7: f32x2 = load x[%6]
        %8: f32 = extract %7, 0 %9: f32 = extract %7, 1
        %10: f32 = div %8, %9 %11: f32 = sqrt %8 %12: f32x2 = compose %10, %11 store y[%6] = %12 }";
    let k = parse(text).unwrap();
    let mut built = k.clone();
    let legalize = pass::Legalize { quotient: true, root: true, ..pass::Legalize::default() };
    pass::lower(&mut built, legalize);
    verify::verify(&built).unwrap_or_else(|e| panic!("{e}"));
    let edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        3.0,
        1e-45,
        -1e-45,
        1e-40,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        2.0,
        0.5,
        4.0,
        16777215.0,
        1e38,
        1e-38,
        5e-39,
        0.1,
        1.9999999,
    ];
    let s = elinvar_core::philox::Stream { seed: 5, stream: 0 };
    let mut pairs: Vec<[f32; 2]> = edges.iter().flat_map(|&a| edges.map(|b| [a, b])).collect();
    for i in 0..12_000u64 {
        let [a, b] = [2 * i, 2 * i + 1].map(|j| s.word(j));
        let one = |v: u32| f32::from_bits((v & 0x807f_ffff) | 0x3f80_0000);
        let small = |v: u32| f32::from_bits(v & 0x80ff_ffff);
        pairs.push(match i % 4 {
            0 => [f32::from_bits(a), f32::from_bits(b)],
            1 => [one(a), one(b)],
            2 => [small(a), one(b)],        // into the subnormals
            _ => [one(a) * one(b), one(b)], // near a quotient of 24 bits
        });
    }
    pairs.resize(pairs.len().next_multiple_of(64), [1.0, 1.0]);
    let cells = pairs.iter().flatten().map(|v| u64::from(v.to_bits())).collect();
    let x = Memory { elem: Elem::F32, cells };
    let groups = [pairs.len() as u32 / 64, 1, 1];
    let launch = Launch { groups, params: vec![0u32.into()] };
    for subnormals in [false, true] {
        let flushes = if subnormals { Flushes::ALL } else { Flushes::default() };
        let lacks = elinvar_kernel::interp::Quirks { precision: true, flushes, ..Default::default() };
        let mut b = [x.clone(), Memory::zeros(Elem::F32, 2 * pairs.len())];
        elinvar_kernel::interp::run_with_quirks(&built, &launch, &mut b, lacks)
            .unwrap_or_else(|e| panic!("{e}"));
        for (i, [p, q]) in pairs.iter().enumerate() {
            let got = [0, 1].map(|j| f32::from_bits(b[1].cells[2 * i + j] as u32));
            for (got, want, what) in [(got[0], p / q, "/"), (got[1], p.sqrt(), "sqrt")] {
                let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
                assert!(
                    same,
                    "{p:e} {what} {q:e} is {want:e}, not {got:e} (subnormals flushed: {subnormals})"
                );
            }
        }
    }
}

/// What later devices have an instruction for gives the interpreter's bits, or NaN where it gives
/// NaN; and 2^x is near where it is built.
#[test]
fn extremes_and_powers() {
    let text =
        "kernel t group 64 1 1 { buffer x f32 read buffer y f32 write buffer z f32 write buffer w f32 write
        %0: u32 = local_index %1: f32 = load x[%0] %2: u32 = const 8 %3: u32 = div %0, %2 %4: f32 = load x[%3]
        %5: f32 = max %1, %4 %6: f32 = min %1, %4 %7: f32 = exp2 %1
        store y[%0] = %5 store z[%0] = %6 store w[%0] = %7 }";
    let k = parse(text).unwrap();
    let edges = [0.0, -0.0, f32::NAN, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, -150.0];
    let more = (8..64).map(|i| (i - 36) as f32 * 4.37);
    let x: Vec<f32> = edges.into_iter().chain(more).collect();
    let launch = Launch { groups: [1, 1, 1], params: Vec::new() };
    let buffers = || {
        let mut all = vec![Memory::from_host(&HostData::F32(x.clone().into()))];
        all.extend(vec![Memory::zeros(Elem::F32, 64); 3]);
        all
    };
    let numbers = |m: &Memory| -> Vec<f32> { m.cells.iter().map(|&c| f32::from_bits(c as u32)).collect() };
    let run_by = |k: &Kernel| {
        let mut all = buffers();
        run(k, &launch, &mut all).unwrap_or_else(|e| panic!("{e}"));
        [1, 2, 3].map(|i| numbers(&all[i]))
    };
    let want = run_by(&k);
    let text = ptx::emit(&k, ptx::SM80_MMA).unwrap();
    for word in ["max.NaN.f32", "min.NaN.f32", "ex2.approx.ftz.f32"] {
        assert!(text.contains(word), "{text}");
    }
    let mut all = buffers();
    crate::ptx_machine::run(&k, &text, &launch, &mut all);
    for (i, want) in want.iter().enumerate() {
        for (n, (got, want)) in numbers(&all[i + 1]).iter().zip(want).enumerate() {
            assert!(
                got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                "{i}, {n}: {got}, {want}"
            );
        }
    }
    let mut built = k.clone();
    let legalize = pass::Legalize { exp2: true, ..Default::default() };
    pass::lower(&mut built, legalize);
    let powers = run_by(&built);
    for (x, (got, want)) in x.iter().zip(powers[2].iter().zip(&want[2])) {
        let near = (got - want).abs() <= 3e-6 * want.abs() + f32::MIN_POSITIVE;
        assert!(near || (got.is_nan() && want.is_nan()) || *x > 127.0, "2^{x}: {got}, {want}");
        let exact = f64::from(*x).exp2();
        let right = (f64::from(*want) - exact).abs() <= 6e-8 * exact + f64::from(f32::MIN_POSITIVE);
        assert!(right || x.is_nan() || *x > 127.0, "2^{x}: {want}, {exact}");
    }
}

/// The same of f64, of which no device says how wrong it is: any bits, fractions near 1 and near 2,
/// squares and their neighbours, halves between two results, subnormal operands and results.
#[test]
fn quotients_and_roots_of_f64_are_built() {
    let text = "kernel t group 64 1 1 { buffer x f64 read buffer y f64 write
        %0: u32 = local_index %1: u32 = group_id.x %2: u32 = const 64 %3: u32 = mul %1, %2 %4: u32 = add %3, %0
        %5: u32 = const 2 %6: u32 = mul %4, %5 %7: f64x2 = load x[%6]
        %8: f64 = extract %7, 0 %9: f64 = extract %7, 1
        %10: f64 = div %8, %9 %11: f64 = sqrt %8 %12: f64x2 = compose %10, %11 store y[%6] = %12 }";
    let k = parse(text).unwrap();
    let mut built = k.clone();
    let legalize = pass::Legalize { wide_quotient: true, wide_root: true, ..pass::Legalize::default() };
    pass::lower(&mut built, legalize);
    verify::verify(&built).unwrap_or_else(|e| panic!("{e}"));
    let edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        3.0,
        0.1,
        5e-324,
        -5e-324,
        1e-310,
        f64::MIN_POSITIVE,
        f64::MIN_POSITIVE.next_down(),
        f64::MAX,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1f64.next_down(),
        1f64.next_up(),
        2f64.next_down(),
        4f64.next_down(),
        4f64.next_up(),
        9_007_199_254_740_991.0,
    ];
    let s = elinvar_core::philox::Stream { seed: 6, stream: 0 };
    let mut pairs: Vec<[f64; 2]> = edges.iter().flat_map(|&a| edges.map(|b| [a, b])).collect();
    for i in 0..16_000u64 {
        let [a, b] = [2 * i, 2 * i + 1].map(|j| s.word64(j));
        let one = |v: u64| f64::from_bits((v & 0x800f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
        let small = |v: u64| f64::from_bits(v & 0x801f_ffff_ffff_ffff);
        // A number of few bits, whose square is exact.
        let short = |v: u64| f64::from_bits(one(v).abs().to_bits() & !0x3ff_ffff);
        let step = |x: f64, by: u64| f64::from_bits(x.to_bits().wrapping_add(by % 3).wrapping_sub(1));
        pairs.push(match i % 8 {
            0 | 1 => [f64::from_bits(a), f64::from_bits(b)],
            2 => [one(a), one(b)],
            3 => [small(a), one(b)],
            4 => [step(short(a) * short(a), b), short(b)],
            5 => [step(short(a) * short(b), b), short(b)],
            // A root near the middle between two numbers: (r + half)^2 = r^2 + r + ..
            6 => [(short(a) * short(a)).next_up() * 4f64.powi((b % 400) as i32 - 200), one(b) * 2.0],
            _ => [
                f64::from_bits(0x3ff0_0000_0000_0000 | (a & 0xff)),
                f64::from_bits(0x3fff_ffff_ffff_ff00 | (b & 0xff)),
            ],
        });
    }
    pairs.resize(pairs.len().next_multiple_of(64), [1.0, 1.0]);
    let cells = pairs.iter().flatten().map(|v| v.to_bits()).collect();
    let mut b = [Memory { elem: Elem::F64, cells }, Memory::zeros(Elem::F64, 2 * pairs.len())];
    let launch = Launch { groups: [pairs.len() as u32 / 64, 1, 1], params: Vec::new() };
    run(&built, &launch, &mut b).unwrap_or_else(|e| panic!("{e}"));
    for (i, [x, y]) in pairs.iter().enumerate() {
        for (j, (want, what)) in [(x / y, "/"), (x.sqrt(), "root")].into_iter().enumerate() {
            let got = f64::from_bits(b[1].cells[2 * i + j]);
            let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
            assert!(same, "{x:e} {what} {y:e} is {got:e}, not {want:e}");
        }
    }
}

/// On a device that takes subnormal numbers for 0, comparisons, magnitudes, negations and truth
/// values are built that do not.
#[test]
fn comparisons_are_built_where_they_flush() {
    let ops = ["eq", "ne", "lt", "le", "gt", "ge"];
    let compared: String = (0..6)
        .map(|i| {
            format!(
                "%{}: bool = {} %8, %9 %{}: f32 = convert %{} ",
                10 + 2 * i,
                ops[i],
                11 + 2 * i,
                10 + 2 * i
            )
        })
        .collect();
    let text = format!(
        "kernel t group 64 1 1 {{ buffer x f32 read buffer y f32 write
        %0: u32 = local_index %1: u32 = group_id.x %2: u32 = const 64 %3: u32 = mul %1, %2 %4: u32 = add %3, %0
        %5: u32 = const 2 %6: u32 = mul %4, %5 %7: f32x2 = load x[%6]
        %8: f32 = extract %7, 0 %9: f32 = extract %7, 1 {compared}
        %22: f32 = abs %8 %23: f32 = neg %8
        %24: f32x4 = compose %11, %13, %15, %17 %25: f32x4 = compose %19, %21, %22, %23
        %26: u32 = const 12 %27: u32 = mul %4, %26 %28: u32 = const 4 %29: u32 = add %27, %28
        %30: bool = convert %8 %31: f32 = convert %30 %32: f32x4 = compose %31, %31, %31, %31
        %33: u32 = add %29, %28
        store y[%27] = %24 store y[%29] = %25 store y[%33] = %32 }}"
    );
    let k = parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut built = k.clone();
    pass::lower(&mut built, pass::Legalize { comparisons: true, ..pass::Legalize::default() });
    verify::verify(&built).unwrap_or_else(|e| panic!("{e}"));
    let edges = [0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40, 1.0, -1.0, f32::MIN_POSITIVE, f32::MAX];
    let more = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN];
    let all: Vec<f32> = edges.into_iter().chain(more).collect();
    let mut cells: Vec<u64> =
        all.iter().flat_map(|a| all.iter().flat_map(|b| [*a, *b])).map(|v| v.to_bits().into()).collect();
    cells.resize((cells.len() / 2).next_multiple_of(64) * 2, 0);
    let n = cells.len() / 2;
    let on = |k: &Kernel, subnormals: bool| {
        let mut b = [Memory { elem: Elem::F32, cells: cells.clone() }, Memory::zeros(Elem::F32, 12 * n)];
        let launch = Launch { groups: [n as u32 / 64, 1, 1], params: Vec::new() };
        let flushes = if subnormals { Flushes::ALL } else { Flushes::default() };
        let lacks = elinvar_kernel::interp::Quirks { flushes, ..Default::default() };
        elinvar_kernel::interp::run_with_quirks(k, &launch, &mut b, lacks).unwrap_or_else(|e| panic!("{e}"));
        b[1].cells.clone()
    };
    assert_ne!(on(&k, true), on(&k, false), "the operands tell nothing");
    assert_eq!(on(&built, true), on(&k, false));
}

/// Every code, and every number that rounds to another one than its neighbour does.
#[test]
fn floats_of_one_byte_are_built_from_integers() {
    for &float in Float8::ALL {
        let (elem, f) = (Elem::F8(float), float.format());
        let text = format!(
            "kernel t group 64 1 1 {{ buffer x {elem} read buffer y f32 write buffer z f32 read buffer w {elem} write
            %0: u32 = local_index %1: u32 = group_id.x %2: u32 = const 64 %3: u32 = mul %1, %2 %4: u32 = add %3, %0
            %5: f32 = load x[%4] store y[%4] = %5 %6: f32 = load z[%4] store w[%4] = %6 }}"
        );
        let k = parse(&text).unwrap();
        let ties = (0..=f.last_number()).flat_map(|c| {
            let (low, high) = (f.decode(c), f.decode(c + 1));
            let tie = if high.is_finite() { (low + high) / 2.0 } else { low * 1.0625 };
            [low, tie, tie.next_up(), tie.next_down(), -tie, 1e30 * low, f32::from_bits(c)]
        });
        let z: Vec<f32> = ties.chain([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 0.0]).collect();
        let n = z.len().next_multiple_of(64);
        let cells =
            |all: &[u64]| all.iter().copied().chain(std::iter::repeat(0)).take(n).collect::<Vec<u64>>();
        let outcome = |k: &Kernel| {
            let codes: Vec<u64> = (0..256).collect();
            let numbers: Vec<u64> = z.iter().map(|x| x.to_bits().into()).collect();
            let given = [cells(&codes), cells(&[]), cells(&numbers), cells(&[])];
            let mut all: Vec<Memory> =
                (k.buffers.iter().zip(given)).map(|(b, cells)| Memory { elem: b.elem, cells }).collect();
            let launch = Launch { groups: [n as u32 / 64, 1, 1], params: Vec::new() };
            run(k, &launch, &mut all).unwrap_or_else(|e| panic!("{e}"));
            let nan = |m: &Memory, i: usize| if m.is_nan(i) { u64::MAX } else { m.cells[i] };
            let wide: Vec<u64> = (0..n).map(|i| nan(&all[1], i)).collect();
            (wide, all.pop().expect("there are four").cells)
        };
        let mut built = k.clone();
        pass::lower(&mut built, pass::Legalize::default());
        assert!(!print(&built).contains(elem.name()), "{}", print(&built));
        assert_eq!(outcome(&built), outcome(&k), "{elem}");
    }
}
