//! TMA tiles: what fetching and multiplying them means, what is refused, and what targets make of
//! it.

mod refusals;

use crate::ptx_machine;
use crate::vulkan_device::FULL;
use elinvar_kernel::emit::{ptx, spirv};
use elinvar_kernel::interp::{Launch, Memory, run};
use elinvar_kernel::ir::{Constant, Elem, Kernel, Op, Scalar};
use elinvar_kernel::pass;
use elinvar_kernel::text::{parse, print};
use elinvar_kernel::verify::verify;

/// Rows of x, columns of w, and terms: some less than blocks have.
const SIZES: [usize; 3] = [60, 50, 184];
/// Elements from line to line, and before the first.
const LINE: usize = 192;
const BEFORE: usize = 8;

/// A kernel of 128 invocations that know: x and w (rows and columns of 184 terms), y, room for two
/// blocks of each, and 0, 1, and where the second block is; i is where terms begin; no sums, and
/// where this subgroup's go.
fn kernel(body: &str) -> Kernel {
    kernel_with("", body)
}

fn kernel_with(head: &str, body: &str) -> Kernel {
    kernel_of("f16", head, body)
}

/// Of factors of a type.
fn kernel_of(elem: &str, head: &str, body: &str) -> Kernel {
    let text = format!(
        "kernel t group 128 1 1 {{
           subgroup 32
           buffer x {elem} read
           buffer w {elem} read
           buffer y f32 write
           param offset i32
           param terms i32
           param rows i32
           param columns i32
           param planes i32
           param line i32
           view vx x 64 offset terms rows planes line line
           view vw w 64 offset terms columns planes line line
           shared a {elem} 8192
           shared b {elem} 8192
           shared other {elem} 8192
           {head}
           mbarriers 2
           %0: u32 = const 0
           %1: u32 = const 1
           %2: u32 = const 4096
           %3: i32 = const 0
           %4: i32 = const 64
           %5: i32 = const 128
           %6: f32 = const 0.0
           %7: fragment.c.f32.16x16x16 = fragment_fill %6
           %8: fragment.c.f32.16x16x16 = fragment_fill %6
           %9: fragment.c.f32.16x16x16 = fragment_fill %6
           %10: fragment.c.f32.16x16x16 = fragment_fill %6
           %11: u32 = subgroup_id
           %12: u32 = const 1024
           %13: u32 = mul %11, %12
           %14: u32 = const 64
           %15: u32 = const 16
           %16: u32 = local_index
           {body}
         }}"
    );
    parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn number(buffer: usize, i: usize) -> f32 {
    ((i * 7 + 3 * buffer + i / 11) % 9) as f32 - 4.0
}

fn memory() -> Vec<Memory> {
    let half = |b, i| u64::from(half::f16::from_f32(number(b, i)).to_bits());
    let cells = |b, lines: usize| (0..BEFORE + lines * LINE).map(|i| half(b, i)).collect();
    vec![
        Memory { elem: Elem::F16, cells: cells(0, SIZES[0]) },
        Memory { elem: Elem::F16, cells: cells(1, SIZES[1]) },
        Memory::zeros(Elem::F32, 64 * 64),
    ]
}

fn launch() -> Launch {
    let [rows, columns, terms] = SIZES;
    let numbers = [BEFORE, terms, rows, columns, 1, LINE];
    Launch { groups: [1, 1, 1], params: numbers.map(|n| Constant::int(Scalar::I32, n as i64)).to_vec() }
}

/// What a body stores to y, by the interpreter.
fn stored(k: &Kernel) -> Result<Vec<u64>, String> {
    let mut b = memory();
    run(k, &launch(), &mut b).map_err(|e| e.0)?;
    Ok(b[2].cells.clone())
}
fn by_machine(k: &Kernel, text: &str) -> Vec<u64> {
    let mut b = memory();
    ptx_machine::run(k, text, &launch(), &mut b);
    b[2].cells.clone()
}

/// y = x w^T: three steps through two slots.
const THREE: &str = "tma_load %0, a[%0] = vx[%3, %3, %3], b[%0] = vw[%3, %3, %3]
    tma_load %1, a[%2] = vx[%4, %3, %3], b[%2] = vw[%4, %3, %3]
    mbarrier_wait %0, %0
    %17: fragment.c.f32.16x16x16, %18: fragment.c.f32.16x16x16, %19: fragment.c.f32.16x16x16, %20: fragment.c.f32.16x16x16 = wgmma_ss row_major a[%0], col_major b[%0], %7, %8, %9, %10
    mbarrier_wait %1, %0
    %21: fragment.c.f32.16x16x16, %22: fragment.c.f32.16x16x16, %23: fragment.c.f32.16x16x16, %24: fragment.c.f32.16x16x16 = wgmma_ss row_major a[%2], col_major b[%2], %17, %18, %19, %20
    wgmma_wait 1
    barrier
    tma_load %0, a[%0] = vx[%5, %3, %3], b[%0] = vw[%5, %3, %3]
    mbarrier_wait %0, %1
    %25: fragment.c.f32.16x16x16, %26: fragment.c.f32.16x16x16, %27: fragment.c.f32.16x16x16, %28: fragment.c.f32.16x16x16 = wgmma_ss row_major a[%0], col_major b[%0], %21, %22, %23, %24
    wgmma_wait 0
    fragment_store row_major y[%13], %14 = %25
    %29: u32 = add %13, %15
    fragment_store row_major y[%29], %14 = %26
    %30: u32 = add %29, %15
    fragment_store row_major y[%30], %14 = %27
    %31: u32 = add %30, %15
    fragment_store row_major y[%31], %14 = %28";

/// The first step alone, and whatever follows.
const FIRST: &str = "tma_load %0, a[%0] = vx[%3, %3, %3], b[%0] = vw[%3, %3, %3]
    mbarrier_wait %0, %0
    %17: fragment.c.f32.16x16x16, %18: fragment.c.f32.16x16x16, %19: fragment.c.f32.16x16x16, %20: fragment.c.f32.16x16x16 = wgmma_ss row_major a[%0], col_major b[%0], %7, %8, %9, %10
    ";

fn want() -> Vec<u64> {
    let [rows, columns, terms] = SIZES;
    let at = |b: usize, line: usize, t: usize| number(b, BEFORE + line * LINE + t);
    let sum = |i: usize, j: usize| (0..terms).map(|t| at(0, i, t) * at(1, j, t)).sum::<f32>();
    let all = (0..64).flat_map(|i| (0..64).map(move |j| (i, j)));
    all.map(|(i, j)| u64::from(if i < rows && j < columns { sum(i, j) } else { 0.0 }.to_bits())).collect()
}

#[test]
fn blocks_are_multiplied() {
    let k = kernel(THREE);
    assert_eq!(parse(&print(&k)).unwrap(), k);
    assert!(k.features().tma);
    assert_eq!(ptx::target(&k, 90), ptx::SM90A_WGMMA);
    assert!(stored(&k).unwrap() == want());
    let mut better = k.clone();
    pass::optimize(&mut better);
    assert!(stored(&better).unwrap() == want());
    let text = ptx::emit(&k, ptx::SM90A_WGMMA).unwrap();
    assert!(text.contains(".target sm_90a"), "{text}");
    assert!(by_machine(&k, &text) == want(), "{text}");
}

/// Lines of rows and of columns, one for each term: the other operand of the product, so to say.
#[test]
fn blocks_may_lie_the_other_way() {
    // Term t of x is its line t now, of w too: y = x^T w, of 60 or 50 terms.
    let body = "tma_load %0, a[%0] = vx[%3, %3, %3], b[%0] = vw[%4, %3, %3]
        mbarrier_wait %0, %0
        %17: fragment.c.f32.16x16x16, %18: fragment.c.f32.16x16x16, %19: fragment.c.f32.16x16x16, %20: fragment.c.f32.16x16x16 = wgmma_ss col_major a[%0], row_major b[%0], %7, %8, %9, %10
        wgmma_wait 0
        fragment_store row_major y[%13], %14 = %17
        %21: u32 = add %13, %15
        fragment_store row_major y[%21], %14 = %18
        %22: u32 = add %21, %15
        fragment_store row_major y[%22], %14 = %19
        %23: u32 = add %22, %15
        fragment_store row_major y[%23], %14 = %20";
    let k = kernel(body);
    let at = |b: usize, line: usize, t: usize| number(b, BEFORE + line * LINE + t);
    let sum = |i: usize, j: usize| (0..SIZES[1]).map(|t| at(0, t, i) * at(1, t, 64 + j)).sum::<f32>();
    let all = (0..64).flat_map(|i| (0..64).map(move |j| (i, j)));
    let want: Vec<u64> = all.map(|(i, j)| u64::from(sum(i, j).to_bits())).collect();
    assert!(stored(&k).unwrap() == want);
    let text = ptx::emit(&k, ptx::SM90A_WGMMA).unwrap();
    assert!(by_machine(&k, &text) == want, "{text}");
}

/// Rows in fragments: 64 of 64 terms, which are the first numbers of x, by a block of columns.
const ROWS: &str = "tma_load %0, b[%0] = vw[%3, %3, %3]
    %17: u32 = const 8
    %18: u32 = add %13, %17
    %19: u32 = add %18, %15
    %20: u32 = add %19, %15
    %21: u32 = add %20, %15
    %22: fragment.a.f16.16x16x16 = fragment_load row_major x[%18], %14
    %23: fragment.a.f16.16x16x16 = fragment_load row_major x[%19], %14
    %24: fragment.a.f16.16x16x16 = fragment_load row_major x[%20], %14
    %25: fragment.a.f16.16x16x16 = fragment_load row_major x[%21], %14
    mbarrier_wait %0, %0
    %26: fragment.c.f32.16x16x16, %27: fragment.c.f32.16x16x16, %28: fragment.c.f32.16x16x16, %29: fragment.c.f32.16x16x16 = wgmma_rs %22, %23, %24, %25, col_major b[%0], %7, %8, %9, %10
    wgmma_wait 0
    fragment_store row_major y[%13], %14 = %26
    %30: u32 = add %13, %15
    fragment_store row_major y[%30], %14 = %27
    %31: u32 = add %30, %15
    fragment_store row_major y[%31], %14 = %28
    %32: u32 = add %31, %15
    fragment_store row_major y[%32], %14 = %29";

#[test]
fn rows_may_be_fragments() {
    for lies in ["col_major", "row_major"] {
        let k = kernel(&ROWS.replace("col_major b", &format!("{lies} b")));
        assert_eq!(parse(&print(&k)).unwrap(), k);
        let column = |j: usize, t: usize| if lies == "col_major" { (j, t) } else { (t, j) };
        let sum = |i: usize, j: usize| {
            let term = |t: usize| {
                let (line, at) = column(j, t);
                let w = if line < SIZES[1] { number(1, BEFORE + line * LINE + at) } else { 0.0 };
                number(0, BEFORE + i * 64 + t) * w
            };
            (0..64).map(term).sum::<f32>()
        };
        let all = (0..64).flat_map(|i| (0..64).map(move |j| (i, j)));
        let want: Vec<u64> = all.map(|(i, j)| u64::from(sum(i, j).to_bits())).collect();
        assert!(stored(&k).unwrap() == want, "{lies}");
        let text = ptx::emit(&k, ptx::SM90A_WGMMA).unwrap();
        assert!(by_machine(&k, &text) == want, "{lies}\n{text}");
        // Sums of nothing stand in no registers before.
        assert!(text.contains("setp.ne.u32 %p") && text.contains(", 0, 0;"), "{text}");
        let wrongs = |wrong: &str, what: &str| {
            let seen = std::panic::catch_unwind(|| by_machine(&k, wrong)).map_or(true, |y| y != want);
            assert!(seen && wrong != text, "{what}: nothing is wrong\n{wrong}");
        };
        for word in ["wgmma.fence", "wgmma.commit_group", "wgmma.wait_group"] {
            let line =
                text.lines().find(|l| l.contains(word)).unwrap_or_else(|| panic!("no {word} in\n{text}"));
            wrongs(&text.replacen(&format!("{line}\n"), "", 1), word);
        }
        // A register of a factor that is changed while the product reads it.
        let product = text.lines().find(|l| l.contains("wgmma.mma_async")).expect("there is a product");
        let register =
            product.split('{').nth(2).and_then(|l| l.split(',').next()).expect("rows in registers");
        let wait = text.lines().find(|l| l.contains("wgmma.wait_group")).expect("it is waited for");
        wrongs(&text.replacen(wait, &format!("  mov.b32 {register}, 0x0;\n{wait}"), 1), "a changed register");
    }
}

/// In a loop without a wait, the second turn makes fragments anew while the product of the first
/// one reads them; so it does where they are carried, and changed at its end.
#[test]
fn rows_stay_while_a_product_reads_them() {
    let head = ROWS.split("mbarrier_wait").next().expect("there is one");
    let sums = "%26: fragment.c.f32.16x16x16, %27: fragment.c.f32.16x16x16, %28: fragment.c.f32.16x16x16, %29: fragment.c.f32.16x16x16";
    let carried = "%31: fragment.c.f32.16x16x16 = %7, %32: fragment.c.f32.16x16x16 = %8, %33: fragment.c.f32.16x16x16 = %9, %34: fragment.c.f32.16x16x16 = %10";
    let made = "%36: fragment.a.f16.16x16x16 = fragment_load row_major x[%18], %14";
    let product = |first: &str| {
        format!(
            "%37: fragment.c.f32.16x16x16, %38: fragment.c.f32.16x16x16, %39: fragment.c.f32.16x16x16, %40: fragment.c.f32.16x16x16 = wgmma_rs {first}, %23, %24, %25, col_major b[%0], %31, %32, %33, %34"
        )
    };
    for (wait, good) in [("", false), ("wgmma_wait 0", true)] {
        let all = [
            format!(
                "{head} mbarrier_wait %0, %0 {sums} = for %30: u32 = %0 to %14 step %15 carry {carried} {{ %35: u32 = const 1 {made} {} {wait} yield %37, %38, %39, %40 }} wgmma_wait 0",
                product("%36")
            ),
            format!(
                "{head} mbarrier_wait %0, %0 {sums}, %41: fragment.a.f16.16x16x16 = for %30: u32 = %0 to %14 step %15 carry {carried}, %35: fragment.a.f16.16x16x16 = %22 {{ {made} {} {wait} yield %37, %38, %39, %40, %36 }} wgmma_wait 0",
                product("%35")
            ),
        ];
        for body in all {
            let mut k = kernel(&body);
            pass::renumber(&mut k);
            verify(&k).unwrap_or_else(|e| panic!("{e}\n{body}"));
            let got = stored(&k).err();
            match got {
                None => assert!(good, "{body}"),
                Some(what) => {
                    assert!(!good && what.contains("is made anew while a product reads it"), "{what}\n{body}")
                }
            }
        }
    }
}

/// Each line that has to do with order is needed, and each that is not there is missed; by the
/// interpreter and by the machine that runs PTX.
#[test]
fn what_is_left_out_is_seen() {
    let orders = |l: &&str| {
        ["barrier", "mbarrier_wait", "wgmma_wait", "tma_load"].iter().any(|w| l.trim().starts_with(w))
    };
    let count = THREE.lines().filter(orders).count();
    assert_eq!(count, 9);
    for left_out in 0..count {
        let (at, line) = THREE.lines().enumerate().filter(|(_, l)| orders(l)).nth(left_out).expect("counted");
        let kept: Vec<&str> = THREE.lines().enumerate().filter(|(i, _)| *i != at).map(|(_, l)| l).collect();
        let k = kernel(&kept.join("\n"));
        assert!(stored(&k).as_ref() != Ok(&want()), "without `{line}` nothing is wrong");
        let text = ptx::emit(&k, ptx::SM90A_WGMMA).unwrap();
        let seen = std::panic::catch_unwind(|| by_machine(&k, &text)).map_or(true, |y| y != want());
        assert!(seen, "without `{line}` nothing is wrong\n{text}");
    }
}

/// What the text must have, beside what the kernel says: without one of these lines it is wrong,
/// and the machine says so.
#[test]
fn lines_of_the_text_are_needed() {
    let k = kernel(THREE);
    let text = ptx::emit(&k, ptx::SM90A_WGMMA).unwrap();
    let words = [
        "mbarrier.init",
        "fence.mbarrier_init",
        "expect_tx",
        "wgmma.fence",
        "wgmma.commit_group",
        "bar.sync",
    ];
    for word in words {
        let line = text.lines().find(|l| l.contains(word)).unwrap_or_else(|| panic!("no {word} in\n{text}"));
        let wrong = text.replacen(&format!("{line}\n"), "", 1);
        let seen = std::panic::catch_unwind(|| by_machine(&k, &wrong)).map_or(true, |y| y != want());
        assert!(seen, "without `{line}` nothing is wrong\n{wrong}");
    }
    // Fewer bytes, and more, than arrive.
    for bytes in ["16383", "16400"] {
        let wrong = text.replacen("], 16384", &format!("], {bytes}"), 1);
        assert!(wrong != text && std::panic::catch_unwind(|| by_machine(&k, &wrong)).is_err(), "{bytes}");
    }
    // Other devices, and older drivers.
    for (capability, version) in [(80, (8, 4)), (100, (8, 6)), (90, (7, 8))] {
        assert!(emulated_cuda::parse(&text, capability, version).is_err(), "sm_{capability}, {version:?}");
    }
    assert!(emulated_cuda::parse(&text.replace("sm_90a", "sm_90"), 90, (8, 4)).is_err());
}

/// None of these instructions is removed as unused, or duplicated.
#[test]
fn passes_leave_boxes_alone() {
    let mut k = kernel(THREE);
    pass::optimize(&mut k);
    let mut count = [0; 4];
    k.body.each_inst(&mut |i| match i.op {
        Op::TmaLoad { .. } => count[0] += 1,
        Op::MbarrierWait(..) => count[1] += 1,
        Op::WgmmaSs { .. } => count[2] += 1,
        Op::WgmmaWait(_) => count[3] += 1,
        _ => {}
    });
    assert_eq!(count, [3, 3, 3, 2]);
}
