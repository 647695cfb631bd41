//! MSL: lowered kernels by the interpreter, texts as C++ by clang, what is refused, and what a text
//! holds.

use crate::metal::{Case, compile, run, there};
use crate::random::{Dice, inputs, kernel};
use crate::words::difference;
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::msl::{MslTarget, emit, legal, param_bytes};
use elinvar_kernel::interp::{self, Launch, Memory};
use elinvar_kernel::ir::{Constant, Elem, Op};
use elinvar_kernel::text::{parse, print};

/// Memory of any size.
const FULL: MslTarget = MslTarget { shared: 1 << 20, buffers: 60, ..MslTarget::EXACT };

fn read(text: &str) -> Kernel {
    parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A launch with the interpreter's results.
fn case(kernel: Kernel, target: MslTarget, groups: u32, params: &[Constant], before: Vec<Memory>) -> Case {
    let launch = Launch { groups: [groups, 1, 1], params: params.to_vec() };
    let mut want = before.clone();
    interp::run(&kernel, &launch, &mut want).unwrap_or_else(|e| panic!("{e}\n{}", print(&kernel)));
    Case { kernel, target, launch, before, want }
}

/// That clang's programs give the same.
fn same(cases: &[Case]) {
    if !there() {
        return;
    }
    for (case, got) in cases.iter().zip(run(cases)) {
        let text =
            || format!("{}\n{}", print(&case.kernel), emit(&case.kernel, &case.target).expect("emitted"));
        let got = got.unwrap_or_else(|e| panic!("{e}\n{}", text()));
        for (i, (got, want)) in got.iter().zip(&case.want).enumerate() {
            if let Some(at) = difference(got, want) {
                let (got, want) = (got.cells[at], want.cells[at]);
                panic!("buffer {i}, element {at} is {got:#x}, not {want:#x}\n{}", text());
            }
        }
    }
}

/// Exact, flushing, and with as little as may be.
const TARGETS: [MslTarget; 3] =
    [FULL, MslTarget { buffers: 60, ..MslTarget::APPLE }, MslTarget { buffers: 60, ..MslTarget::BARE }];

#[test]
fn random_kernels_have_the_interpreters_bits() {
    let cases = (0..48).map(|seed| {
        let k = kernel(&mut Dice::narrow(seed));
        let (launch, before) = inputs(&mut Dice::narrow(seed));
        let groups = launch.groups[0];
        case(k, TARGETS[seed as usize % 3], groups, &launch.params, before)
    });
    same(&cases.collect::<Vec<_>>());
}

/// Every operation on 64-bit integers, on pairs of numbers around every edge, conversions to f32
/// and back among them; and the same of 32 bits.
#[test]
fn integers_wrap_and_convert() {
    let mut all: Vec<i64> =
        vec![0, 1, -1, 2, 3, 7, -7, 10, 1000, -1000, 0x0123_4567_89ab_cdef, 0x0100_0001_8000_0000];
    for places in [16, 24, 31, 32, 33, 48, 62, 63] {
        let one = 1i64.wrapping_shl(places);
        all.extend([one, one.wrapping_sub(1), one.wrapping_add(1), one.wrapping_neg(), !one]);
    }
    let pairs: Vec<i64> = all.iter().flat_map(|&a| all.iter().flat_map(move |&b| [a, b])).collect();
    let n = (pairs.len() / 2).next_multiple_of(64);
    let mut cases = Vec::new();
    for (scalar, other) in [("i64", "u64"), ("u64", "i64"), ("i32", "u32"), ("u32", "i32")] {
        let ops =
            ["add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr", "mul_high"];
        let start = format!(
            "kernel t group 64 1 1 {{ buffer x {scalar} read buffer y {scalar} read_write buffer f f32 read_write
             %0: u32 = local_index %1: u32 = group_id.x %2: u32 = const 64 %3: u32 = mul %1, %2 %4: u32 = add %3, %0
             %5: u32 = const 2 %6: u32 = mul %4, %5 %7: {scalar}x2 = load x[%6]
             %8: {scalar} = extract %7, 0 %9: {scalar} = extract %7, 1 "
        );
        let mut bodies: Vec<String> = Vec::new();
        // All results of a pair are mixed into one number: each is multiplied by an odd one.
        let mixed = |texts: &[String], scalar: &str| {
            let mut at = 10;
            let mut body = format!("%10: {scalar} = const 1 ");
            let mut sum = 10;
            for text in texts {
                at += 1;
                body += &format!("%{at}: {scalar} = {text} ");
                body += &format!("%{}: {scalar} = const 5 ", at + 1);
                body += &format!("%{}: {scalar} = mul %{sum}, %{} ", at + 2, at + 1);
                body += &format!("%{}: {scalar} = add %{}, %{at} ", at + 3, at + 2);
                sum = at + 3;
                at += 3;
            }
            body + &format!("store y[%4] = %{sum}")
        };
        bodies.push(mixed(&ops.map(|op| format!("{op} %8, %9")), scalar));
        bodies.push(mixed(&["not %8".to_string(), "neg %9".to_string()], scalar));
        for op in ["eq", "ne", "lt", "le", "gt", "ge"] {
            bodies.push(format!("%10: bool = {op} %8, %9 %11: {scalar} = convert %10 store y[%4] = %11"));
        }
        bodies.push("%10: f32 = convert %8 store f[%4] = %10".to_string());
        bodies.push(format!("%10: f32 = load f[%4] %11: {scalar} = convert %10 store y[%4] = %11"));
        for narrow in ["i32", "u32", "bool", "i64"] {
            if narrow != scalar {
                bodies.push(format!(
                    "%10: {narrow} = convert %8 %11: {scalar} = convert %10 store y[%4] = %11"
                ));
            }
        }
        bodies.push(format!(
            "%10: {other} = bitcast %8 %11: {other}x4 = splat %10 %12: {scalar}x4 = bitcast %11
             %13: {scalar}x4 = add %12, %12 %14: {scalar}x4 = max %13, %12 %15: {scalar} = extract %14, 3 store y[%4] = %15"
        ));
        for body in bodies {
            let k = read(&format!("{start} {body} }}"));
            let elem = k.buffers[0].elem;
            let mask = u64::MAX >> (64 - 8 * elem.size());
            let mut cells: Vec<u64> = pairs.iter().map(|&v| v as u64 & mask).collect();
            cells.resize(2 * n, 1);
            let floats = all.iter().flat_map(|&v| {
                let x = v as f32;
                [x, x.next_up(), x.next_down(), x + 0.5, x * 2.0, f32::from_bits(v as u32)]
            });
            let mut floats: Vec<u64> = floats.map(|x| x.to_bits().into()).collect();
            floats.resize(n, 0);
            let before = vec![
                Memory { elem, cells },
                Memory::zeros(elem, n),
                Memory { elem: Elem::F32, cells: floats },
            ];
            cases.push(case(k, FULL, n as u32 / 64, &[], before));
        }
    }
    same(&cases);
}

/// Every element, by loads and stores of every width, in buffers and in threadgroup memory.
#[test]
fn elements_of_every_size_are_loaded_and_stored() {
    let mut cases = Vec::new();
    for elem in ["bool", "u8", "f16", "bf16", "f8e4m3", "i32", "u64", "f32"] {
        for (width, target) in [1, 2, 4].into_iter().flat_map(|w| [(w, FULL), (w, TARGETS[2])]) {
            let of = read(&format!("kernel t group 1 1 1 {{ buffer x {elem} read }}")).buffers[0].elem;
            let ty = if width == 1 { of.scalar().to_string() } else { format!("{}x{width}", of.scalar()) };
            let op = if of == Elem::Bool { "xor" } else { "add" };
            let shared = if of == Elem::Bool { String::new() } else { format!("shared s {elem} 32") };
            let through = if of == Elem::Bool {
                "store z[%6] = %7".to_string()
            } else {
                format!(
                    "%10: u32 = mul %0, %5 store s[%10] = %9 barrier %11: {ty} = load s[%10] store z[%6] = %11"
                )
            };
            let k = read(&format!(
                "kernel t group 5 1 1 {{ buffer x {elem} read buffer y {elem} read_write buffer z {elem} write {shared}
                 %0: u32 = local_index %1: u32 = group_id.x %2: u32 = const 5 %3: u32 = mul %1, %2
                 %4: u32 = add %3, %0 %5: u32 = const {width} %6: u32 = mul %4, %5
                 %7: {ty} = load x[%6] %8: {ty} = load y[%6] %9: {ty} = {op} %7, %8 store y[%6] = %9 {through} }}"
            ));
            let mask = u64::MAX >> (64 - 8 * of.size());
            let codes = |first: u64| {
                let code = |i: u64| match of {
                    Elem::Bool => i % 2,
                    // Any bits: subnormals, infinities and NaN are among them.
                    _ => {
                        ((i + first).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                            >> (if of.size() == 8 { 0 } else { 24 }))
                            & mask
                    }
                };
                Memory { elem: of, cells: (0..10 * width as u64).map(code).collect() }
            };
            cases.push(case(k, target, 2, &[], vec![codes(0), codes(31), codes(57)]));
        }
    }
    same(&cases);
}

const LANES: &str = "kernel lanes group 64 1 1 { subgroup 32 buffer z i64 read_write buffer w f32 read_write
    %0: u32 = local_index %1: u32 = subgroup_lane %2: u32 = subgroup_id %3: u32 = reduce.add %0
    %4: u32 = shuffle %3, %1 %5: u32 = broadcast %0, 13 %6: u32 = add %4, %5 %7: i64 = convert %6
    %8: i64 = load z[%0] %9: i64 = reduce.min %8 %10: i64 = reduce.add %8 %11: i64 = reduce.or %8
    %12: i64 = mul %9, %10 %13: i64 = add %11, %12 %14: i64 = xor %13, %7
    %15: f32 = load w[%0] %16: f32 = reduce.max %15 %17: u32 = const 40 %18: bool = lt %0, %17
    %19: bool = reduce.and %18 %20: bool = reduce.or %18 %21: u32 = convert %18 %22: u32 = shuffle %21, %2
    %23: bool = convert %22 %24: bool = xor %19, %20 %25: bool = xor %24, %23 %26: f32 = select %25, %16, %15
    %27: f32 = shuffle %26, %0 %28: i32 = convert %0 %29: i32 = neg %28 %30: i32 = reduce.add %29
    %31: i64 = convert %30 %32: i64 = reduce.max %8 %33: i64 = add %31, %14 %34: i64 = sub %33, %32
    barrier store z[%0] = %34 store w[%0] = %27 }";

/// Of SIMD-groups, and through threadgroup memory where they are of another size.
#[test]
fn lanes_exchange() {
    let z: Vec<u64> = (0..64u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let w: Vec<u64> = (0..64).map(|i| u64::from((((i * 37) % 64) as f32 - 30.0).to_bits())).collect();
    let before =
        || vec![Memory { elem: Elem::I64, cells: z.clone() }, Memory { elem: Elem::F32, cells: w.clone() }];
    let k = read(LANES);
    let other = read(&LANES.replace("subgroup 32", "subgroup 16"));
    let has = |k: &Kernel, target: &MslTarget| {
        emit(k, target).unwrap_or_else(|e| panic!("{e}")).contains("simd_shuffle(")
    };
    assert!(has(&k, &FULL) && !has(&k, &TARGETS[2]) && !has(&other, &FULL));
    let all = [(k.clone(), FULL), (k, TARGETS[2]), (other, FULL)];
    same(&all.map(|(k, target)| case(k, target, 1, &[], before())));
}

/// All atomics, of buffers and of threadgroup memory, of many threads on few places.
#[test]
fn atomics_do_not_disturb_each_other() {
    let mut cases = Vec::new();
    for (ty, operand, index) in [("i32", "-77", "convert %0"), ("u32", "4294967219", "or %0, %0")] {
        for op in ["add", "min", "max", "and", "or", "xor"] {
            let k = read(&format!(
                "kernel t group 64 1 1 {{ buffer y {ty} read_write buffer z {ty} write shared s {ty} 4
                 %0: u32 = local_index %1: u32 = const 3 %2: u32 = and %0, %1 %3: {ty} = {index}
                 %4: {ty} = const {operand} %5: {ty} = mul %3, %4 %6: u32 = const 4 %7: bool = lt %0, %6
                 if %7 {{ store s[%0] = %4 }} barrier
                 %8: {ty} = atomic.{op} s[%2], %5 %9: {ty} = atomic.{op} y[%2], %5 barrier
                 if %7 {{ %10: {ty} = load s[%0] store z[%0] = %10 }} }}"
            ));
            let elem = k.buffers[0].elem;
            let cells = vec![1, 0x8000_0000, 77, 0xffff_fff0];
            cases.push(case(k, FULL, 1, &[], vec![Memory { elem, cells }, Memory::zeros(elem, 4)]));
        }
    }
    same(&cases);
}

/// Numbers that every factor has exactly, also with ten bits behind the point.
fn quarters(elem: Elem, n: usize, first: usize) -> Memory {
    let cells = (0..n).map(|i| {
        let x = ((i * 7 + first) % 31) as f32 / 4.0 - 3.5;
        match elem {
            Elem::F16 => u64::from(half::f16::from_f32(x).to_bits()),
            Elem::BF16 => u64::from(half::bf16::from_f32(x).to_bits()),
            _ => u64::from(x.to_bits()),
        }
    });
    Memory { elem, cells: cells.collect() }
}

/// Products of fragments of one matrix and of several, of every factor and layout.
#[test]
fn fragments_are_simdgroup_matrices() {
    let mut cases = Vec::new();
    for (elem, [m, n, k]) in [
        ("f16", [8, 8, 8]),
        ("bf16", [8, 8, 8]),
        ("f32", [8, 8, 8]),
        ("f16", [16, 16, 16]),
        ("bf16", [16, 8, 16]),
        ("f32", [16, 16, 8]),
    ] {
        for layouts in [["row_major", "col_major"], ["col_major", "row_major"]] {
            let shape = format!("{m}x{n}x{k}");
            let strides = [
                if layouts[0] == "row_major" { k } else { m },
                if layouts[1] == "row_major" { n } else { k },
            ];
            let kernel = read(&format!(
                "kernel t group 64 1 1 {{ subgroup 32 buffer a {elem} read buffer b {elem} read buffer y f32 write
                 shared s {elem} {}
                 %0: u32 = const 0 %1: u32 = const {} %2: u32 = const {} %3: u32 = const {n} %4: f32 = const 0.5
                 %5: u32 = subgroup_id %6: u32 = const {} %7: u32 = mul %5, %6
                 %8: u32 = local_index %9: u32 = const {} %10: u32 = const 64
                 for %11: u32 = %8 to %9 step %10 {{ %12: f32 = load b[%11] store s[%11] = %12 }} barrier
                 %13: fragment.c.f32.{shape} = fragment_fill %4
                 %14: fragment.a.{elem}.{shape} = fragment_load {} a[%0], %1
                 %15: fragment.b.{elem}.{shape} = fragment_load {} s[%0], %2
                 %16: u32 = const 3 %17: u32 = const 1
                 %21: fragment.c.f32.{shape} = for %18: u32 = %0 to %16 step %17 carry %19: fragment.c.f32.{shape} = %13 {{
                   %20: fragment.c.f32.{shape} = fragment_mul_add %14, %15, %19 yield %20 }}
                 fragment_store row_major y[%7], %3 = %21 }}",
                k * n, strides[0], strides[1], m * n, k * n, layouts[0], layouts[1]
            ));
            let of = kernel.buffers[0].elem;
            let before =
                vec![quarters(of, m * k, 3), quarters(of, k * n, 11), Memory::zeros(Elem::F32, 2 * m * n)];
            cases.push(case(kernel, MslTarget::APPLE, 1, &[], before));
        }
    }
    same(&cases);
}

/// A kernel without its barriers races, and one whose lanes are others gives something else.
#[test]
fn what_is_wrong_is_seen() {
    if !there() {
        return;
    }
    let turned = "kernel t group 64 1 1 { subgroup 32 buffer y u32 write shared s u32 64
        %0: u32 = local_index store s[%0] = %0 barrier %1: u32 = const 63 %2: u32 = sub %1, %0
        %3: u32 = load s[%2] %4: u32 = const 2 %5: u32 = shuffle %3, %4 %6: u32 = add %3, %5 store y[%0] = %6 }";
    let right = || case(read(turned), FULL, 1, &[], vec![Memory::zeros(Elem::U32, 64)]);
    let spoiled = |f: &mut dyn FnMut(&mut Kernel)| {
        let mut c = right();
        f(&mut c.kernel);
        c
    };
    let no_barrier = spoiled(&mut |k| k.body.insts.retain(|i| i.op != Op::Barrier));
    let other_lane = spoiled(&mut |k| {
        let lane = k.body.insts.iter_mut().filter(|i| i.op == Op::Const(2u32.into()));
        lane.for_each(|i| i.op = Op::Const(3u32.into()));
    });
    let far = spoiled(&mut |k| {
        let last = k.body.insts.iter_mut().filter(|i| i.op == Op::Const(63u32.into()));
        last.for_each(|i| i.op = Op::Const(64u32.into()));
    });
    let all = [right(), no_barrier, other_lane, far];
    let said = run(&all);
    let text = |i: usize| said[i].as_ref().err().map_or("nothing", String::as_str);
    assert_eq!(text(0), "nothing");
    assert!(text(1).contains("races with a") || text(1).contains("never stored to"), "{}", text(1));
    let got = said[2].as_ref().unwrap_or_else(|e| panic!("{e}"));
    assert!(difference(&got[0], &all[2].want[0]).is_some());
    assert!(text(3).contains("never stored to") || text(3).contains("out of bounds"), "{}", text(3));
}

#[test]
fn lowering_changes_no_bit_of_random_kernels() {
    for seed in 100..220 {
        let k = kernel(&mut Dice::narrow(seed));
        let (launch, before) = inputs(&mut Dice::narrow(seed));
        let low = legal(&k, &TARGETS[1]).unwrap_or_else(|e| panic!("{e}"));
        let mut want = before.clone();
        // Floats of one byte are bytes.
        let lowered = before.iter().zip(&low.buffers);
        let mut got: Vec<Memory> =
            lowered.map(|(m, b)| Memory { elem: b.elem, cells: m.cells.clone() }).collect();
        interp::run(&k, &launch, &mut want).unwrap_or_else(|e| panic!("{e}"));
        interp::run(&low, &launch, &mut got).unwrap_or_else(|e| panic!("{e}\n{}", print(&low)));
        for (got, want) in got.into_iter().zip(&want) {
            let got = Memory { elem: want.elem, ..got };
            assert_eq!(difference(&got, want), None, "seed {seed}\n{}", print(&k));
        }
    }
}

#[test]
fn what_metal_has_not_is_said() {
    let one = |head: &str, body: &str, target: MslTarget| {
        let k = read(&format!("kernel t {head} %0: u32 = group_id.x %1: f32 = load x[%0] {body} }}"));
        emit(&k, &target).err().map_or("emitted".to_string(), |e| e.0)
    };
    let lanes = "group 32 1 1 { subgroup 32 buffer x f32 read buffer y f32 write";
    let fill = "%2: fragment.c.f32.8x8x8 = fragment_fill %1 fragment_store row_major y[%0], %0 = %2";
    let spread = "%2: fragment.c.f32.16x16x16 = fragment_fill %1 %3: f32x4 = fragment_extract %2, 0
        %4: f32 = extract %3, 0 store y[%0] = %4";
    let bf16 = "%2: fragment.a.bf16.8x8x8 = fragment_fill %1";
    let many: String = (0..30).map(|i| format!(" buffer b{i} f32 write")).collect();
    let rows = [
        (
            "group 32 1 1 { buffer x f32 read buffer y f32 write buffer d f64 write",
            "store y[%0] = %1",
            FULL,
            "t: Metal has no 64-bit floats",
        ),
        (
            "group 32 1 1 { buffer x f32 read buffer y f32 write",
            "store y[%0] = %1",
            MslTarget::BARE,
            "emitted",
        ),
        (lanes, fill, FULL, "emitted"),
        (lanes, fill, MslTarget::BARE, "t: the device has no fragment.c.f32.8x8x8 for subgroups of 32"),
        (
            "group 32 1 1 { subgroup 16 buffer x f32 read buffer y f32 write",
            fill,
            FULL,
            "t: the device has no fragment.c.f32.8x8x8 for subgroups of 16",
        ),
        (lanes, spread, FULL, "t: MSL does not say which lane has which number of a fragment"),
        (lanes, bf16, MslTarget { language: 300, ..FULL }, "t: MSL has no bf16 before version 3.1"),
        (
            "group 1024 1 1 { buffer x f32 read buffer y f32 write",
            "store y[%0] = %1",
            MslTarget { invocations: 512, ..MslTarget::EXACT },
            "t: workgroups of 1024 invocations, and the device has 512 at most",
        ),
        (
            "group 1 1 1 { buffer x f32 read buffer y f32 write shared s f32 10000",
            "store s[%0] = %1",
            MslTarget::EXACT,
            "t: 40000 bytes of shared memory, and the device has 32768 at most",
        ),
        (
            &format!("group 1 1 1 {{ buffer x f32 read{many}"),
            "store b0[%0] = %1",
            MslTarget::EXACT,
            "t: 31 buffers, and the device has 30 at most",
        ),
    ];
    for (head, body, target, want) in rows {
        let got = one(head, body, target);
        assert!(got.contains(want), "{got}\nshould say: {want}");
    }
}

#[test]
fn texts_leave_nothing_open() {
    let k = read(
        "kernel t group 1 1 1 { buffer x f32 read buffer y f32 write param a u64 param b f32
         %0: u32 = const 0 %1: f32 = load x[%0] %2: f32 = param b %3: f32 = mul %1, %2 %4: f32 = add %3, %1
         %5: f32 = sqrt %4 %6: f32 = const nan %7: f32 = const -0.0 %8: f32 = const 1e-40 %9: f32 = const 0.1
         %10: f32 = fma %1, %7, %6 %11: f32 = fma %1, %9, %8 %12: f32 = fma %10, %11, %5 store y[%0] = %12 }",
    );
    let exact = emit(&k, &MslTarget::EXACT).unwrap_or_else(|e| panic!("{e}"));
    for line in [
        "#pragma METAL fp contract(off)\n",
        "[[max_total_threads_per_threadgroup(1)]]\nkernel void entry(\n",
        "  constant Params& params [[buffer(2)]],\n",
        "struct Params {\n  ulong p0; // a\n  float p1; // b\n  uint zero;\n};\n",
        "= precise::sqrt(",
        "= as_type<float>(0x7fc00000u);",
        " = -0.0f;",
        " = 0.1f;",
    ] {
        assert!(exact.contains(line), "{line}\n{exact}");
    }
    let bare =
        emit(&k, &MslTarget { adds_subnormals: true, ..MslTarget::BARE }).unwrap_or_else(|e| panic!("{e}"));
    for line in [") ^ uint(params.zero))", "exact_fma(", "exact_sqrt(", ", params.zero)", ", uint zero)"] {
        assert!(bare.contains(line), "{line}\n{bare}");
    }
    if there() {
        compile(vec![(&k, exact), (&k, bare)]);
    }
    let params = [Constant::from(1.0f32), Constant::from(-1i64), Constant::from(3u32)];
    assert_eq!(param_bytes(&params).len(), 24);
    assert_eq!(param_bytes(&params)[8..20], [255, 255, 255, 255, 255, 255, 255, 255, 3, 0, 0, 0]);
    assert_eq!(param_bytes(&[]), [0; 4]);
}
