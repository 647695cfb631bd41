//! The text form: read what was printed, and what it looks like.

mod lowering;

use crate::random::{Dice, inputs, kernel};
use elinvar_core::{Float8, HostData};
use elinvar_kernel::builder::Builder;
use elinvar_kernel::emit::ptx;
use elinvar_kernel::interp::{Flushes, Launch, Memory, run};
use elinvar_kernel::ir::{Access, Elem, Scalar};
use elinvar_kernel::text::{parse, print};
use elinvar_kernel::{Kernel, pass, verify};

#[test]
fn reading_what_was_printed_gives_the_same_data() {
    for seed in 0..300 {
        let k = kernel(&mut Dice::new(seed));
        verify::verify(&k).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", print(&k)));
        let read = parse(&print(&k)).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", print(&k)));
        assert!(read == k, "seed {seed}:\n{}\n{}", print(&k), print(&read));
    }
}

/// Runs a kernel and gives what it stored, every NaN with the same bits.
fn results(seed: u64, k: &Kernel) -> Vec<Memory> {
    let (launch, mut buffers) = inputs(&mut Dice::new(seed + 1_000_000));
    // Lowered, floats of one byte are bytes.
    let elems: Vec<Elem> = buffers.iter().map(|b| b.elem).collect();
    buffers.iter_mut().zip(&k.buffers).for_each(|(memory, b)| memory.elem = b.elem);
    run(k, &launch, &mut buffers).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", print(k)));
    buffers.iter_mut().zip(elems).for_each(|(memory, e)| memory.elem = e);
    for memory in &mut buffers {
        for i in 0..memory.cells.len() {
            if memory.is_nan(i) {
                memory.cells[i] = u64::MAX;
            }
        }
    }
    buffers
}

#[test]
fn passes_change_no_bit_of_random_kernels() {
    let passes: [(&str, fn(&mut Kernel)); 6] = [
        ("constants", pass::constant_fold),
        ("powers", pass::strength_reduce),
        ("same", pass::cse),
        ("dead", pass::dce),
        ("hoist", pass::licm),
        ("all", pass::optimize),
    ];
    for seed in 0..300 {
        let k = kernel(&mut Dice::new(seed));
        let want = results(seed, &k);
        for (name, pass) in passes {
            let mut better = k.clone();
            pass(&mut better);
            verify::verify(&better)
                .unwrap_or_else(|e| panic!("seed {seed}, {name}: {e}\n{}", print(&better)));
            let got = results(seed, &better);
            assert!(got == want, "seed {seed}, {name}:\n{}\n{}", print(&k), print(&better));
        }
    }
}

#[test]
fn lowering_changes_no_bit_of_random_kernels() {
    let all = pass::Legalize {
        division: true,
        shifts: true,
        extremes: true,
        wide_extremes: true,
        exp2: true,
        saturation: true,
        copy_sign: true,
        fused: false,
        wide: true,
        quotient: true,
        wide_quotient: true,
        root: true,
        wide_root: true,
        comparisons: true,
        wide_comparisons: true,
        sums: true,
        fma: true,
        wide_fma: true,
        rounding: true,
        wide_rounding: true,
        conversions: true,
        reductions: true,
        cp_async: true,
        int64: false,
        high_products: true,
        int_to_float: true,
        half_rounding: true,
        storage: false,
        lanes: pass::Lanes::Native,
    };
    for seed in 0..1000 {
        let k = kernel(&mut Dice::new(seed));
        let mut lowered = k.clone();
        pass::lower(&mut lowered, all);
        verify::verify(&lowered).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", print(&lowered)));
        assert!(results(seed, &lowered) == results(seed, &k), "seed {seed}:\n{}", print(&k));
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let rows = [
        ("", "here is `the end`, and should be `kernel`"),
        ("kernel t group 1 1 1 {", "here is `the end`, and should be `}`"),
        ("kernel t group 1 1 1 { } }", "should be nothing after the kernel"),
        ("kernel 9 group 1 1 1 { }", "should be a name"),
        ("kernel t group 1 1 1 { buffer x f8 read }", "here is `f8`, and should be an element type"),
        (
            "kernel t group 1 1 1 {\n %0: u32 = frob\n}",
            "line 2: here is `frob`, and should be an instruction",
        ),
        ("kernel t group 1 1 1 { %0: u32 = const 1.5 }", "should be a number of that type"),
        ("kernel t group 1 1 1 { %0: u32 = const 4294967296 }", "should be a number of that type"),
        ("kernel t group 1 1 1 { %0: u32 = const 1 %0: u32 = const 1 }", "%0 is defined a second time"),
        ("kernel t group 1 1 1 { %1: u32 = const 1 }", "not numbered without gaps"),
        ("kernel t group 1 1 1 { %4000000000: u32 = const 1 }", "values"),
        ("kernel t group 1 1 1 { %0: f32 = load x[%1] }", "should be a buffer or shared memory"),
        (
            "kernel t group 1 1 1 { %0: f32 = fragment_fill %0 }",
            "should be an instruction that gives no fragment",
        ),
    ];
    for (text, want) in rows {
        let got = parse(text).err().map_or("read".to_string(), |e| e.to_string());
        assert!(got.contains(want), "{got}\nshould say: {want}\n{text}");
    }
    let deep = format!("kernel t group 1 1 1 {{ %0: bool = const true {} ", "if %0 { ".repeat(100_000));
    assert!(parse(&deep).is_err());
}

/// Golden texts: a change of how kernels are built or printed shows here. To write them anew, set
/// `ELINVAR_BLESS`.
fn golden(name: &str, k: &Kernel) {
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = print(k);
    if std::env::var_os("ELINVAR_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == want, "{name} is now\n{text}");
}

#[test]
fn a_kernel_in_text() {
    let k = Builder::new("square", [64, 1, 1]);
    let (x, y) = (k.buffer("x", Elem::F32, Access::Read), k.buffer("y", Elem::F16, Access::Write));
    let n = k.param("n", Scalar::U32);
    let i = k.global_id(0);
    k.if_(i.lt(n), || {
        let v = k.load(x, i, 1);
        k.store(y, i, v * v);
    });
    golden("square", &k.finish());
}
