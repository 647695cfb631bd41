//! LLVM IR: what LLVM's verifier says, what is refused, and runs on this processor and on the
//! emulated device with the interpreter's bits.

use crate::amd_machine::{Case, EXACT, run_all};
use crate::hip_machine;
use crate::llvm_tools::{VERSIONS, compiled, joined, nothing_is_left_open, verified};
use crate::random::{Dice, inputs, kernel};
use crate::words::difference;
use elinvar_kernel::Kernel;
use elinvar_kernel::builder::Builder;
use elinvar_kernel::emit::llvm::{Arch, WaveTarget, emit, kernarg, target};
use elinvar_kernel::interp::{Launch, Memory, run};
use elinvar_kernel::ir::{Access, Builtin, Elem, FragmentLayout as Order, MmaShape, Role, Scalar};
use elinvar_kernel::text::{parse, print};

fn waves(arch: Arch, wave: u32) -> WaveTarget {
    WaveTarget { arch, wave }
}

/// What the emulated device makes of a text.
fn emulated(case: &Case) -> Result<Vec<Memory>, String> {
    let head = case.text.lines().next().unwrap_or("");
    let own = Arch::ALL.into_iter().find(|a| head.contains(a.name())).expect("a text names it");
    // A text for waves of another width goes to a device that has no other.
    let fits = head.ends_with(&format!("waves of {}", case.wave));
    let arch = if fits { own } else { Arch::Gfx942 };
    let mut buffers = case.buffers.clone();
    hip_machine::run(&case.kernel, &case.text, arch, &case.launch, &mut buffers)?;
    Ok(buffers)
}

/// The interpreter's bits, or a sentence: on the emulated device, and where there is a compiler on
/// this processor.
fn compare(cases: &[Case], flags: &[&str]) -> Vec<Result<(), String>> {
    let compiled = run_all(cases, flags).unwrap_or_default();
    let same = |(got, case): (Result<Vec<Memory>, String>, &Case)| {
        let got = got?;
        let mut want = case.buffers.clone();
        run(&case.kernel, &case.launch, &mut want).map_err(|e| format!("interpreter: {e}"))?;
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            if let Some(at) = difference(got, want) {
                let (got, want) = (got.cells[at], want.cells[at]);
                let ir = print(&case.kernel);
                return Err(format!(
                    "buffer {i}, element {at} is {got:#x}, not {want:#x}\n{ir}\n{}",
                    case.text
                ));
            }
        }
        Ok(())
    };
    let emulated = cases.iter().map(|case| same((emulated(case), case)));
    emulated.chain(compiled.into_iter().zip(cases).map(same)).collect()
}

#[test]
fn the_verifier_takes_random_kernels() {
    let kernels: Vec<Kernel> = (0..60).map(|seed| kernel(&mut Dice::new(seed))).collect();
    for arch in [Arch::Gfx906, Arch::Gfx1100] {
        let texts: Vec<String> = (kernels.iter())
            .map(|k| {
                let text = emit(k, target(k, arch)).unwrap_or_else(|e| panic!("{e}"));
                nothing_is_left_open(k, &text);
                text
            })
            .collect();
        for version in VERSIONS {
            match verified(version, &joined(&texts)) {
                Some(said) => said.unwrap_or_else(|e| panic!("{}: {e}", arch.name())),
                None => println!("skipped: there is no opt-{version}"),
            }
        }
    }
}

#[test]
fn random_kernels_have_the_same_bits() {
    let cases: Vec<Case> = (0..60)
        .map(|seed| {
            let k = kernel(&mut Dice::new(seed));
            let (launch, buffers) = inputs(&mut Dice::new(seed));
            Case::new(&k, target(&k, Arch::Gfx1100), &launch, &buffers).unwrap_or_else(|e| panic!("{e}"))
        })
        .collect();
    for result in compare(&cases, &EXACT) {
        result.unwrap_or_else(|e| panic!("{e}"));
    }
}

/// A barrier with its fences.
const BARRIER: &str = "  fence syncscope(\"workgroup\") release\n  call void @llvm.amdgcn.s.barrier()\n  fence \
                       syncscope(\"workgroup\") acquire\n";

/// Whatever lanes do, by waves of both widths, for subgroups as large as a wave and smaller.
fn lanes_of(size: u32) -> Kernel {
    let text = format!(
        "kernel lanes group 64 2 1 {{ subgroup {size} buffer z u32 read_write buffer x f32 read buffer y f32 write
         buffer w i64 write param n i32 shared s i32 128
         %0: u32 = local_index %1: u32 = subgroup_lane %2: u32 = reduce.add %0 %3: u32 = const 5
         %4: u32 = mul %1, %3 %5: u32 = add %4, %0 %6: f32 = load x[%0] %7: f32 = shuffle %6, %5
         %8: f32 = broadcast %6, 3 %9: f32 = add %7, %8 %10: f32 = reduce.max %6 %11: f32 = add %9, %10
         store y[%0] = %11 %12: u32 = subgroup_id %13: u32 = atomic.max z[%12], %2
         %14: i32 = param n %15: i32 = convert %0 %16: i32 = add %14, %15 store s[%0] = %16
         barrier %17: i32 = load s[%1] %18: i32 = reduce.min %17
         %19: i64 = convert %0 %20: i64 = const 5000000001 %21: i64 = mul %19, %20 %22: i64 = reduce.add %21
         %23: bool = gt %17, %18 %24: bool = reduce.or %23 %25: i64 = convert %24 %26: i64 = add %22, %25
         %27: i64 = reduce.max %21 %28: i64 = add %26, %27 store w[%0] = %28 }}"
    );
    parse(&text).unwrap_or_else(|e| panic!("{e}"))
}
fn lane_buffers() -> (Launch, Vec<Memory>) {
    let x = (0..128u32).map(|i| u64::from(((i * 37 % 101) as f32 * 0.3 - 11.0).to_bits())).collect();
    let buffers = vec![
        Memory::zeros(Elem::U32, 128),
        Memory { elem: Elem::F32, cells: x },
        Memory::zeros(Elem::F32, 128),
        Memory::zeros(Elem::I64, 128),
    ];
    (Launch { groups: [1, 1, 1], params: vec![(-7i64).into()] }, buffers)
}

#[test]
fn lanes_have_the_same_bits() {
    let (mut launch, buffers) = lane_buffers();
    launch.params[0] = elinvar_kernel::ir::Constant::int(Scalar::I32, -7);
    let mut cases = Vec::new();
    for (size, arch, wave) in [
        (32, Arch::Gfx1100, 32),
        (32, Arch::Gfx1030, 64),
        (32, Arch::Gfx942, 64),
        (64, Arch::Gfx90a, 64),
        (16, Arch::Gfx906, 64),
        (16, Arch::Gfx1201, 32),
        (8, Arch::Gfx1030, 32),
        (4, Arch::Gfx1030, 32),
    ] {
        let k = lanes_of(size);
        cases.push(Case::new(&k, waves(arch, wave), &launch, &buffers).unwrap_or_else(|e| panic!("{e}")));
    }
    for result in compare(&cases, &EXACT) {
        result.unwrap_or_else(|e| panic!("{e}"));
    }
    // A text for waves of 32 in waves of 64, a wrong lane, and none of the others waited for.
    let right =
        || Case::new(&lanes_of(32), waves(Arch::Gfx1100, 32), &launch, &buffers).expect("it is emitted");
    let wrong = |from: &str, to: &str| {
        let case = right();
        assert!(case.text.contains(from), "{from} is not in\n{}", case.text);
        Case { text: case.text.replacen(from, to, 1), ..case }
    };
    let spoiled = [
        Case { wave: 64, ..right() },
        wrong("call void @llvm.amdgcn.s.barrier()", "fence seq_cst"),
        wrong(BARRIER, ""),
        wrong(", i32 177, ", ", i32 0, "),
        wrong(", i32 16415)", ", i32 8223)"),
        wrong(", i32 96)", ", i32 128)"),
        wrong("shl i32", "lshr i32"),
    ];
    for (i, result) in compare(&spoiled, &EXACT).into_iter().enumerate() {
        let i = i % spoiled.len();
        assert!(result.is_err(), "mistake {i} was not seen\n{}", spoiled[i].text);
    }
}

/// y = z + 2 * x * w, in the manner of `ptx.rs`, for waves of a width.
fn product(unit: MmaShape, rows: [bool; 3], pitch: u32, first: i64, shared: bool, lanes: u32) -> Kernel {
    let elem = unit.elem;
    let k = Builder::new("product", [2 * lanes, 1, 1]);
    k.subgroup(lanes);
    let [ra, rb, rc] = rows.map(|r| if r { Order::RowMajor } else { Order::ColumnMajor });
    let [x, w] = ["x", "w"].map(|name| k.buffer(name, elem, Access::Read));
    let (z, y) = (k.buffer("z", Elem::F32, Access::Read), k.buffer("y", Elem::F32, Access::Write));
    let [x, w] = [(x, "staged_x"), (w, "staged_w")].map(|(from, name)| {
        if !shared {
            return from;
        }
        let to = k.shared(name, elem, 1024);
        k.for_(k.u32(0), k.u32(1024), k.u32(2 * lanes), &[], |i, _| {
            let i = i + k.local_id(0);
            k.store(to, i, k.load(from, i, 1));
            Vec::new()
        });
        to
    });
    k.barrier();
    let part = k.builtin(Builtin::SubgroupId);
    let (from, to, pitch) = (part * 8 + first, part * 512 + first, k.u32(pitch));
    let sums = k.fragment_load(unit.fragment(Role::C), rc, z, to, pitch);
    let sums = k.for_(k.u32(0), k.u32(2), k.u32(1), &[sums], |_, sums| {
        let a = k.fragment_load(unit.fragment(Role::A), ra, x, from, pitch);
        let b = k.fragment_load(unit.fragment(Role::B), rb, w, from, pitch);
        vec![k.fragment_mul_add(a, b, sums[0])]
    });
    k.fragment_store(rc, y, to, pitch, sums[0]);
    k.finish()
}

fn products(arch: Arch) -> Vec<Case> {
    let mut all = Vec::new();
    let lanes = if arch.waves()[0] == 64 { 64 } else { 32 };
    for &unit in arch.mma_shapes() {
        for (i, rows) in
            [[true; 3], [false, true, false], [true, false, true], [false; 3]].into_iter().enumerate()
        {
            for (j, (pitch, first)) in [(24, 0), (20, 4), (27, 3)].into_iter().enumerate() {
                let k = product(unit, rows, pitch, first, (i + j) % 2 == 0, lanes);
                // All bits count: the machine adds as the interpreter does.
                let of = |elem, i: u64| {
                    let x = ((i * 2_654_435_761) % 1_000_003) as f32 / 300_000.0 - 1.5;
                    match elem {
                        Elem::F16 => half::f16::from_f32(x).to_bits().into(),
                        Elem::BF16 => half::bf16::from_f32(x).to_bits().into(),
                        _ => u64::from(x.to_bits()),
                    }
                };
                let buffers: Vec<Memory> = (k.buffers.iter().enumerate())
                    .map(|(b, buffer)| Memory {
                        elem: buffer.elem,
                        cells: (0..1024).map(|i| of(buffer.elem, i + 3 * b as u64)).collect(),
                    })
                    .collect();
                let launch = Launch { groups: [1, 1, 1], params: Vec::new() };
                all.push(
                    Case::new(&k, target(&k, arch), &launch, &buffers).unwrap_or_else(|e| panic!("{e}")),
                );
            }
        }
    }
    all
}

/// Products of fragments that lie in every way, in buffers and in shared memory, at indices that
/// are and are not known to be multiples, with every matrix unit.
#[test]
fn fragments_are_where_they_should_be() {
    let mut cases: Vec<Case> =
        [Arch::Gfx942, Arch::Gfx1100, Arch::Gfx1201].into_iter().flat_map(products).collect();
    // A row that is off by one, and a unit of another width of waves.
    let wrong = products(Arch::Gfx90a).remove(0);
    let right = cases.len();
    assert!(wrong.text.contains(", 4\n"), "{}", wrong.text);
    cases.push(Case { text: wrong.text.replacen(", 4\n", ", 5\n", 1), ..wrong });
    cases.push(Case { wave: 64, ..products(Arch::Gfx1100).remove(0) });
    for (i, result) in compare(&cases, &EXACT).into_iter().enumerate() {
        let i = i % cases.len();
        match result {
            Ok(()) => assert!(i < right, "a mistake was not seen\n{}", cases[i].text),
            Err(e) => assert!(i >= right, "{e}"),
        }
    }
}

/// A product and a sum that the text allows to be contracted. What clang is told about that is for
/// languages, and changes nothing in a text.
#[test]
fn contraction_is_seen() {
    let k = parse(
        "kernel t group 32 1 1 { buffer x f32 read buffer y f32 write
         %0: u32 = local_id.x %1: f32 = load x[%0] %2: f32 = mul %1, %1 %3: f32 = add %2, %1 store y[%0] = %3 }",
    )
    .unwrap_or_else(|e| panic!("{e}"));
    let x = (0..32u32).map(|i| u64::from((i as f32 * 0.3 - 1.0).to_bits())).collect();
    let buffers = [Memory { elem: Elem::F32, cells: x }, Memory::zeros(Elem::F32, 32)];
    let launch = Launch { groups: [1, 1, 1], params: Vec::new() };
    let case = || Case::new(&k, target(&k, Arch::Gfx942), &launch, &buffers).expect("it is emitted");
    let told = EXACT.map(|flag| if flag.contains("contract") { "-ffp-contract=fast" } else { flag });
    for result in compare(&[case()], &told) {
        result.unwrap_or_else(|e| panic!("{e}"));
    }
    let text = ["fmul", "fadd"].iter().fold(case().text, |text, op| {
        assert!(text.contains(&format!("= {op} float")), "{text}");
        text.replace(&format!("= {op} float"), &format!("= {op} contract float"))
    });
    for result in compare(&[Case { text, ..case() }], &EXACT) {
        assert!(result.is_err(), "a flag was not seen");
    }
}

#[test]
fn a_kernel_as_text() {
    let k = parse(
        "kernel t group 32 1 1 { buffer x f32 read buffer y f16 write param n u32 shared s f32 32
         %0: u32 = local_id.x %1: u32 = param n %2: bool = lt %0, %1
         if %2 { %3: f32 = load x[%0] %4: f32 = mul %3, %3 store s[%0] = %4 %5: f32 = add %4, %3 store y[%0] = %5 } }",
    )
    .unwrap();
    let text = emit(&k, target(&k, Arch::Gfx1100)).unwrap();
    for part in [
        "; t for gfx1100, waves of 32\n",
        "target triple = \"amdgcn-amd-amdhsa\"",
        "@s0 = internal addrspace(3) global [32 x float] undef, align 16",
        "define amdgpu_kernel void @main(\n  ptr addrspace(1) noalias readonly %b0,\n  \
         ptr addrspace(1) noalias %b1,\n  i32 %p0,\n  i32 %g0,\n  i32 %g1,\n  i32 %g2\n) #0 !reqd_work_group_size !1 {",
        "load float, ptr addrspace(1) %v4, align 4, !invariant.load !0",
        "fmul float",
        "fadd float",
        "fptrunc float",
        "store half",
        "\"amdgpu-flat-work-group-size\"=\"32,32\"",
        "!1 = !{i32 32, i32 1, i32 1}",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("target-features"));
    let wide = emit(&k, waves(Arch::Gfx1100, 64)).unwrap();
    assert!(wide.contains("\"target-features\"=\"+wavefrontsize64\""), "{wide}");
    assert_eq!(kernarg(&k), (vec![0, 8, 16, 20, 24, 28], 32));
    if let Some(said) = compiled(Arch::Gfx1100, &joined(&[text, wide])) {
        let waves: Vec<u32> = said.unwrap_or_else(|e| panic!("{e}")).iter().map(|u| u.wave).collect();
        assert_eq!(waves, [32, 64]);
    }
}

#[test]
fn what_cannot_be_is_named() {
    let lanes = "kernel t group 64 1 1 { subgroup 64 buffer y u32 write %0: u32 = local_id.x
                 %1: u32 = shuffle %0, %0 store y[%0] = %1 }";
    let fill = |lanes: u32, of: &str| {
        let (c, elem) = of.split_once(' ').unwrap_or((of, "f16"));
        let more = format!(
            "%3: fragment.a.{elem}.{c} = fragment_fill %1 %4: fragment.b.{elem}.{c} = fragment_fill %1
             %5: fragment.c.f32.{c} = fragment_mul_add %3, %4, %2"
        );
        format!(
            "kernel t group 64 1 1 {{ subgroup {lanes} buffer y f32 write %0: u32 = group_id.x %1: f32 = const 0.0
             %2: fragment.c.f32.{c} = fragment_fill %1 {more} fragment_store row_major y[%0], %0 = %5 }}"
        )
    };
    let rows = [
        (lanes.to_string(), waves(Arch::Gfx1100, 32), "subgroups of 64 lanes; a wave has 32"),
        (lanes.to_string(), waves(Arch::Gfx1100, 64), "ds_bpermute of gfx1100 stays in 32 lanes"),
        (lanes.to_string(), waves(Arch::Gfx942, 64), "emitted"),
        (lanes.to_string(), waves(Arch::Gfx942, 32), "gfx942 has no waves of 32 lanes"),
        (fill(64, "16x16x16"), waves(Arch::Gfx906, 64), "gfx906 has no matrix units"),
        (fill(32, "16x16x16"), waves(Arch::Gfx90a, 64), "by waves of 64 lanes, and the kernel's subgroups have 32"),
        (fill(64, "16x16x16"), waves(Arch::Gfx1100, 64), "by waves of 32 lanes, and the kernel's subgroups have 64"),
        (fill(32, "16x16x8 f32"), waves(Arch::Gfx1100, 32), "gfx1100 has no fragment"),
        (fill(64, "16x8x16"), waves(Arch::Gfx90a, 64), "gfx90a has no fragment.c.f32.16x8x16"),
        (fill(64, "16x16x8 f32"), waves(Arch::Gfx90a, 64), "emitted"),
        (
            "kernel t group 32 1 1 { buffer y f32 write shared s f32 20000 %0: u32 = local_id.x %1: f32 = load y[%0] store s[%0] = %1 }"
                .replace("write", "read_write"),
            waves(Arch::Gfx90a, 64),
            "80000 bytes of shared memory; a workgroup has 65536 of LDS",
        ),
    ];
    for (text, target, want) in rows {
        let k = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let got = emit(&k, target).err().map_or("emitted".to_string(), |e| e.0);
        assert!(got.contains(want), "{got}\nshould say: {want}\n{text}");
    }
}
