//! PTX: what the assembler says, what is refused, and that nothing is left to the compiler's taste.

use crate::ptx_machine;
use crate::ptxas::{LATER, assemble, nothing_is_left_open};
use crate::random::{Dice, kernel};
use elinvar_kernel::Kernel;
use elinvar_kernel::builder::Builder;
use elinvar_kernel::emit::ptx::{SM75, SM80_MMA, Target, emit};
use elinvar_kernel::interp::{Launch, Memory, run};
use elinvar_kernel::ir::{Access, Builtin, Elem, FragmentLayout as Order, MmaShape, Role};
use elinvar_kernel::text::{parse, print};
use std::collections::BTreeSet;

#[test]
fn the_assembler_takes_random_kernels() {
    let mut most = Vec::new();
    for seed in 0..60 {
        let k = kernel(&mut Dice::new(seed));
        let text = emit(&k, SM75).unwrap_or_else(|e| panic!("{e}"));
        nothing_is_left_open(&k, &text);
        // Later devices now and then: the text differs in two lines.
        let others: &[Target] = if seed % 25 == 0 { &LATER } else { &[] };
        for &target in [SM75].iter().chain(others) {
            let text = emit(&k, target).unwrap_or_else(|e| panic!("{e}"));
            match assemble(&k.name, &text, target) {
                Some(Ok(usage)) => most.push((usage.spilled, usage.registers, k.name.clone())),
                Some(Err(said)) => panic!("{}: {said}", k.name),
                None => return println!("skipped: there is no ptxas; ELINVAR_PTXAS may name one"),
            }
        }
    }
    // A random kernel may spill as much as it likes.
    println!("most bytes spilled, with its registers: {:?}", most.iter().max());
}

/// Products of fragments that are in every way, in buffers and in shared memory, at indices that
/// are and are not known to be multiples: the interpreter's bits, for numbers whose sums are exact
/// in any order.
#[test]
fn fragments_are_where_they_should_be() {
    let mut texts = BTreeSet::new();
    for (elem, terms) in [(Elem::F16, 16), (Elem::BF16, 16), (Elem::F32, 8)] {
        for shape in [[16, 16, terms], [16, 8, terms]] {
            for (rows_a, rows_b, rows_c) in
                [(true, true, true), (false, true, false), (true, false, true), (false, false, false)]
            {
                // From row to row, and where the first element is.
                for (pitch, first) in [(24, 0), (24, 8), (20, 4), (26, 2), (27, 3)] {
                    for shared in [false, true] {
                        let k = product(elem, shape, [rows_a, rows_b, rows_c], pitch, first, shared);
                        let text = print(&k);
                        let emitted = emit(&k, SM80_MMA).unwrap_or_else(|e| panic!("{e}"));
                        texts.extend(
                            emitted
                                .lines()
                                .filter_map(|l| l.trim().strip_prefix("ldmatrix"))
                                .map(|l| l.split_whitespace().next().unwrap_or("").to_string()),
                        );
                        let launch = Launch { groups: [1, 1, 1], params: Vec::new() };
                        let of = |elem, i: u64| match elem {
                            Elem::F16 => half::f16::from_f32((i * 7 % 9) as f32 - 4.0).to_bits().into(),
                            Elem::BF16 => half::bf16::from_f32((i * 5 % 11) as f32 - 5.0).to_bits().into(),
                            _ => u64::from(((i % 13) as f32).to_bits()),
                        };
                        let numbers = || -> Vec<Memory> {
                            let all = k.buffers.iter().enumerate();
                            let cells =
                                |b: usize, elem| (0..1024).map(|i| of(elem, i + 3 * b as u64)).collect();
                            all.map(|(b, buffer)| Memory { elem: buffer.elem, cells: cells(b, buffer.elem) })
                                .collect()
                        };
                        let (mut got, mut want) = (numbers(), numbers());
                        run(&k, &launch, &mut want).unwrap_or_else(|e| panic!("{e}\n{text}"));
                        ptx_machine::run(&k, &emitted, &launch, &mut got);
                        assert!(got == want, "{text}\n{emitted}");
                    }
                }
            }
        }
    }
    let all: Vec<&str> = texts.iter().map(String::as_str).collect();
    let form = |count, trans| format!(".sync.aligned.m8n8.{count}{trans}.shared.b16");
    assert_eq!(all, [form("x2", ""), form("x2", ".trans"), form("x4", ""), form("x4", ".trans")]);
}

/// y = z + 2 * x * w, with the sums carried around a loop; two warps with a product each.
fn product(elem: Elem, shape: [u8; 3], rows: [bool; 3], pitch: u32, first: i64, shared: bool) -> Kernel {
    let k = Builder::new("product", [64, 1, 1]);
    k.subgroup(32);
    let [ra, rb, rc] = rows.map(|r| if r { Order::RowMajor } else { Order::ColumnMajor });
    let unit = MmaShape { elem, shape };
    let [x, w] = ["x", "w"].map(|name| k.buffer(name, elem, Access::Read));
    let (z, y) = (k.buffer("z", Elem::F32, Access::Read), k.buffer("y", Elem::F32, Access::Write));
    let [x, w] = [(x, "staged_x"), (w, "staged_w")].map(|(from, name)| {
        if !shared {
            return from;
        }
        let to = k.shared(name, elem, 1024);
        k.for_(k.u32(0), k.u32(1024), k.u32(64), &[], |i, _| {
            let i = i + k.local_id(0);
            k.store(to, i, k.load(from, i, 1));
            Vec::new()
        });
        to
    });
    k.barrier();
    let warp = k.builtin(Builtin::SubgroupId);
    let (from, to, pitch) = (warp * 8 + first, warp * 512 + first, k.u32(pitch));
    let sums = k.fragment_load(unit.fragment(Role::C), rc, z, to, pitch);
    let sums = k.for_(k.u32(0), k.u32(2), k.u32(1), &[sums], |_, sums| {
        let a = k.fragment_load(unit.fragment(Role::A), ra, x, from, pitch);
        let b = k.fragment_load(unit.fragment(Role::B), rb, w, from, pitch);
        vec![k.fragment_mul_add(a, b, sums[0])]
    });
    k.fragment_store(rc, y, to, pitch, sums[0]);
    k.finish()
}

#[test]
fn a_kernel_as_text() {
    let k = parse(
        "kernel t group 32 1 1 { buffer x f32 read buffer y f16 write param n u32
         %0: u32 = local_id.x %1: u32 = param n %2: bool = lt %0, %1
         if %2 { %3: f32 = load x[%0] %4: f32 = mul %3, %3 %5: f32 = add %4, %3 store y[%0] = %5 } }",
    )
    .unwrap();
    let text = emit(&k, SM75).unwrap();
    for part in [
        ".version 6.3",
        ".target sm_75",
        ".visible .entry main(\n  .param .u64 b0,\n  .param .u64 b1,\n  .param .u32 p0\n)",
        ".reqntid 32, 1, 1",
        "ld.global.nc.f32",
        "mul.rn.f32",
        "add.rn.f32",
        "cvt.rn.f16.f32",
        "st.global.b16",
        "@!%p0 bra L1;",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

/// The machine that runs PTX sees what the text says: another instruction, another address, a
/// barrier that is gone.
#[test]
fn a_wrong_text_gives_wrong_numbers() {
    let k = parse(
        "kernel t group 32 1 1 { buffer x f32 read buffer y f32 write shared s f32 32
         %0: u32 = local_id.x %1: u32 = const 31 %2: u32 = sub %1, %0
         %3: f32 = load x[%0] %4: f32 = mul %3, %3 %5: f32 = add %4, %3 store s[%0] = %5
         barrier %6: f32 = load s[%2] store y[%0] = %6 }",
    )
    .unwrap_or_else(|e| panic!("{e}"));
    let x: Vec<u64> = (0..32u32).map(|i| u64::from((i as f32 * 0.3 - 1.0).to_bits())).collect();
    let launch = Launch { groups: [1, 1, 1], params: Vec::new() };
    let numbers = || [Memory { elem: Elem::F32, cells: x.clone() }, Memory::zeros(Elem::F32, 32)];
    let text = emit(&k, SM75).unwrap();
    let machine = |text: &str| {
        let mut b = numbers();
        ptx_machine::run(&k, text, &launch, &mut b);
        b
    };
    let mut want = numbers();
    run(&k, &launch, &mut want).unwrap();
    assert!(machine(&text) == want);
    // The first store goes to shared memory.
    for (from, to) in [("add.rn", "sub.rn"), ("+0], %f", "+4], %f"), ("  bar.sync 0;\n", "")] {
        assert!(text.contains(from), "{from} is not in\n{text}");
        let wrong = text.replacen(from, to, 1);
        let seen = std::panic::catch_unwind(|| machine(&wrong) != want).unwrap_or(true);
        assert!(seen, "{from} became {to}, and no check saw it:\n{wrong}");
    }
}

#[test]
fn what_cannot_be_is_named() {
    let rows = [
        (
            "kernel t group 16 1 1 { subgroup 16 buffer y u32 write %0: u32 = local_id.x %1: u32 = reduce.add %0 store y[%0] = %1 }",
            "subgroups of 16 lanes",
        ),
        (
            "kernel t group 32 1 1 { subgroup 32 buffer y f32 write %0: u32 = group_id.x %1: f32 = const 0.0
          %2: fragment.c.f32.16x16x16 = fragment_fill %1 fragment_store row_major y[%0], %0 = %2 }",
            "tensor cores are used from sm_80 on",
        ),
    ];
    for (text, want) in rows {
        let k = parse(text).unwrap_or_else(|e| panic!("{e}"));
        let got = emit(&k, SM75).err().map_or("emitted".to_string(), |e| e.0);
        assert!(got.contains(want), "{got}\nshould say: {want}");
    }
}
