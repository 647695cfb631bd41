//! PTX: what the assembler says, what is refused, and that nothing is left to the compiler's taste.

use crate::ptx_machine;
use crate::random::{Dice, kernel};
use crate::spirv::library;
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::ptx::{OLDEST, Target, emit};
use elinvar_kernel::interp::{Launch, Memory, run};
use elinvar_kernel::ir::Elem;
use elinvar_kernel::text::parse;
use std::process::Command;

/// Later devices than the oldest, with the first version of PTX that knows them.
const LATER: [Target; 3] = [
    Target { capability: 80, version: (7, 0) },
    Target { capability: 90, version: (7, 8) },
    Target { capability: 120, version: (8, 7) },
];

/// What NVIDIA's assembler says; `None` if it is not there. `ELINVAR_PTXAS` names it, if it is not on the path.
fn assemble(name: &str, text: &str, target: Target) -> Option<String> {
    let ptxas = std::env::var_os("ELINVAR_PTXAS").unwrap_or_else(|| "ptxas".into());
    let path = std::env::temp_dir().join(format!("elinvar-{}-{name}.ptx", std::process::id()));
    std::fs::write(&path, text).expect("the temporary directory can be written to");
    let arch = format!("-arch=sm_{}", target.capability);
    let said = Command::new(ptxas).args([&arch, "-o", "/dev/null"]).arg(&path).output();
    std::fs::remove_file(&path).expect("it was just written");
    let said = said.ok()?;
    Some(if said.status.success() {
        String::new()
    } else {
        format!("{}{}\n{text}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr))
    })
}

/// Every rounding is written out, and nothing flushes: the compiler may not make an fma of a product and a sum.
fn nothing_is_left_open(k: &Kernel, text: &str) {
    for line in text.lines() {
        let op = line.split_whitespace().next().unwrap_or("");
        let float = op.ends_with(".f32") || op.ends_with(".f64");
        let rounds =
            ["add", "sub", "mul", "div", "fma", "sqrt"].iter().any(|w| op.starts_with(&format!("{w}.")));
        assert!(!(float && rounds) || op.contains(".rn."), "{}: {line}", k.name);
        assert!(!op.contains("ftz") && !op.contains("approx"), "{}: {line}", k.name);
    }
}

#[test]
fn the_assembler_takes_every_kernel() {
    let mut all = library();
    all.extend((0..60).map(|seed| kernel(&mut Dice::new(seed))));
    for (i, k) in all.iter().enumerate() {
        let text = emit(k, OLDEST).unwrap_or_else(|e| panic!("{e}"));
        nothing_is_left_open(k, &text);
        // Later devices now and then: the text differs in two lines.
        let others: &[Target] = if i % 25 == 0 { &LATER } else { &[] };
        for &target in [OLDEST].iter().chain(others) {
            let text = emit(k, target).unwrap_or_else(|e| panic!("{e}"));
            match assemble(&k.name, &text, target) {
                Some(said) => assert!(said.is_empty(), "{}: {said}", k.name),
                None => return println!("skipped: there is no ptxas; ELINVAR_PTXAS may name one"),
            }
        }
    }
    println!("{} kernels", all.len());
}

#[test]
fn a_kernel_as_text() {
    let k = parse(
        "kernel t group 32 1 1 { buffer x f32 read buffer y f16 write param n u32
         %0: u32 = local_id.x %1: u32 = param n %2: bool = lt %0, %1
         if %2 { %3: f32 = load x[%0] %4: f32 = mul %3, %3 %5: f32 = add %4, %3 store y[%0] = %5 } }",
    )
    .unwrap();
    let text = emit(&k, OLDEST).unwrap();
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

/// The machine that runs PTX sees what the text says: another instruction, another address, a barrier that is gone.
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
    let text = emit(&k, OLDEST).unwrap();
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
        assert!(seen, "{from} became {to}, and nobody saw it:\n{wrong}");
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
          %2: fragment.c.f32.16x16x16 = fragment_fill %1 fragment_store rows y[%0], %0 = %2 }",
            "matrix fragments are not emitted",
        ),
    ];
    for (text, want) in rows {
        let k = parse(text).unwrap_or_else(|e| panic!("{e}"));
        let got = emit(&k, OLDEST).err().map_or("emitted".to_string(), |e| e.0);
        assert!(got.contains(want), "{got}\nshould say: {want}");
    }
}
