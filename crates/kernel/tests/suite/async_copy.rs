//! Copies to shared memory that go on while the kernel does: what they mean, what is refused, and
//! what targets make of them.

use crate::ptx_machine;
use crate::vulkan_device::FULL;
use elinvar_kernel::emit::{ptx, spirv};
use elinvar_kernel::interp::{Launch, Memory, run};
use elinvar_kernel::ir::{Elem, Kernel};
use elinvar_kernel::text::{parse, print};
use elinvar_kernel::verify::verify;
use elinvar_kernel::{ir, pass};

/// Elements of the buffers.
const LEN: usize = 32;

/// A kernel of eight invocations that know x (numbers), y, h (16-bit floats), shared s and t, and:
/// %0 their number, %1 four times it, %2 whether there is something for them (all but the last), %3
/// = 31.
fn kernel(body: &str) -> Kernel {
    let text = format!(
        "kernel t group 8 1 1 {{
           buffer x f32 read
           buffer y f32 read_write
           buffer h f16 read
           shared s f32 32
           shared t f32 32
           shared q f16 32
           %0: u32 = local_index
           %4: u32 = const 4
           %1: u32 = mul %0, %4
           %5: u32 = const 7
           %2: bool = lt %0, %5
           %3: u32 = const 31
           {body}
         }}"
    );
    // Numbered anew, so that bodies can be read.
    let mut k = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    pass::renumber(&mut k);
    k
}

fn memory() -> Vec<Memory> {
    let floats = |f: &dyn Fn(usize) -> u64| (0..LEN).map(f).collect();
    let f32s = |i: usize| u64::from((i as f32 + 1.0).to_bits());
    let halves = |i: usize| u64::from(half::f16::from_f32(i as f32 - 9.5).to_bits());
    vec![
        Memory { elem: Elem::F32, cells: floats(&f32s) },
        Memory::zeros(Elem::F32, LEN),
        Memory { elem: Elem::F16, cells: floats(&halves) },
    ]
}

fn launch() -> Launch {
    Launch { groups: [1, 1, 1], params: Vec::new() }
}

/// What a body stores to y, by the interpreter.
fn stored(k: &Kernel) -> Result<Vec<u64>, String> {
    let mut b = memory();
    run(k, &launch(), &mut b).map_err(|e| e.0)?;
    Ok(b[1].cells.clone())
}

/// Four by four, turned around by another invocation.
const TURNED: &str = "cp_async s[%1] = x[%1], 4, %2
    cp_async_commit
    cp_async t[%0] = x[%0], 1, %2
    cp_async_commit
    cp_async_wait 1
    barrier
    %6: u32 = sub %3, %0 %7: f32 = load s[%6] store y[%0] = %7
    cp_async_wait 0
    barrier
    %8: u32 = sub %5, %0 %9: f32 = load t[%8] %10: u32 = const 8 %11: u32 = add %0, %10 store y[%11] = %9";

/// Sixteen bytes of halves.
const HALVES: &str = "%6: u32 = const 8 %7: u32 = mul %0, %6 %8: bool = lt %0, %4
    if %8 { cp_async q[%7] = h[%7], 8, %2 }
    cp_async_commit
    cp_async_wait 0
    barrier
    %9: u32 = sub %3, %0 %10: f32 = load q[%9] store y[%0] = %10";

#[test]
fn copies_arrive() {
    let k = kernel(TURNED);
    let number = |v: f32| u64::from(v.to_bits());
    let y = stored(&k).unwrap();
    // The last invocation's are zeros.
    let want: Vec<u64> = (0..8).map(|i| number(if i < 4 { 0.0 } else { 32.0 - i as f32 })).collect();
    assert_eq!(y[..8], want);
    let want: Vec<u64> = (0..8).map(|i| number(if i == 0 { 0.0 } else { 8.0 - i as f32 })).collect();
    assert_eq!(y[8..16], want);
    let y = stored(&kernel(HALVES)).unwrap();
    assert_eq!(y[..8], (0..8).map(|i| number(21.5 - i as f32)).collect::<Vec<_>>());
}

#[test]
fn all_forms_say_the_same() {
    for body in [TURNED, HALVES] {
        let k = kernel(body);
        assert!(k.features().cp_async);
        assert_eq!(parse(&print(&k)).unwrap(), k);
        let want = stored(&k).unwrap();
        // As loads and stores.
        let mut plain = k.clone();
        pass::lower(&mut plain, pass::Legalize { cp_async: true, ..pass::Legalize::default() });
        verify(&plain).unwrap();
        assert!(!plain.features().cp_async && !print(&plain).contains("cp_async"), "{}", print(&plain));
        assert_eq!(stored(&plain).unwrap(), want);
        // Devices with and without.
        for (target, cp_async) in [(ptx::SM80_CP_ASYNC, true), (ptx::SM75, false)] {
            let text = ptx::emit(&k, target).unwrap();
            assert_eq!(text.contains("cp.async"), cp_async, "{text}");
            let mut b = memory();
            ptx_machine::run(&k, &text, &launch(), &mut b);
            assert_eq!(b[1].cells, want, "{text}");
        }
        assert_eq!(ptx::target(&k, 75), ptx::SM75);
        assert_eq!(ptx::target(&k, 90), ptx::SM80_CP_ASYNC);
        spirv::emit(&k, &FULL).unwrap();
    }
}

/// Each line that has to do with order is needed, and each that is not there is missed; by the
/// interpreter and by the machine that runs PTX.
#[test]
fn what_is_left_out_is_seen() {
    for body in [TURNED, HALVES] {
        let right = stored(&kernel(body)).unwrap();
        let orders = |l: &&str| {
            ["barrier", "cp_async_commit", "cp_async_wait"].iter().any(|w| l.trim().starts_with(w))
        };
        let count = body.lines().filter(orders).count();
        assert!(count >= 3);
        for left_out in 0..count {
            let line = body.lines().enumerate().filter(|(_, l)| orders(l)).nth(left_out).expect("counted");
            let kept: Vec<&str> =
                body.lines().enumerate().filter(|(i, _)| *i != line.0).map(|(_, l)| l).collect();
            let k = kernel(&kept.join("\n"));
            let said = stored(&k);
            assert!(said.as_ref() != Ok(&right), "without `{}` of {left_out} nothing is wrong", line.1);
            let text = ptx::emit(&k, ptx::SM80_CP_ASYNC).unwrap();
            let machine = || {
                let mut b = memory();
                ptx_machine::run(&k, &text, &launch(), &mut b);
                b[1].cells.clone()
            };
            let seen = std::panic::catch_unwind(machine).map_or(true, |y| y != right);
            assert!(seen, "without `{}` of {left_out} nothing is wrong\n{text}", line.1);
        }
    }
}

#[test]
fn mistakes() {
    let rows = [
        ("cp_async s[%1] = x[%1], 4, %2 cp_async_commit cp_async_wait 0", None),
        ("cp_async s[%1] = x[%1], 4, %2", Some("the kernel ends while copies are under way, one of invocation 0")),
        ("cp_async s[%1] = x[%1], 4, %2 cp_async_commit cp_async_wait 1", Some("the kernel ends while")),
        (
            "cp_async s[%1] = x[%1], 4, %2 cp_async_commit %6: f32 = load s[%1] cp_async_wait 0",
            Some("touches what a copy brings that was not waited for"),
        ),
        (
            "cp_async s[%1] = x[%1], 4, %2 %6: f32 = load x[%1] store s[%1] = %6 cp_async_commit cp_async_wait 0",
            Some("touches what a copy brings"),
        ),
        (
            "cp_async s[%1] = x[%1], 4, %2 cp_async_commit cp_async_wait 0 %6: u32 = sub %3, %0 %7: f32 = load s[%6]",
            Some("loads what another invocation stores"),
        ),
        (
            "%6: f32 = load x[%0] store s[%0] = %6 barrier %7: u32 = sub %3, %0 %8: u32 = sub %5, %0 %9: f32 = load s[%8]
             cp_async s[%1] = x[%1], 4, %2 cp_async_commit cp_async_wait 0",
            Some("stores where another invocation loads"),
        ),
        ("cp_async s[%0] = x[%1], 4, %2 cp_async_commit cp_async_wait 0", Some("index 1 is no multiple of 4")),
        ("cp_async s[%1] = x[%0], 4, %2 cp_async_commit cp_async_wait 0", Some("index 1 is no multiple of 4")),
        ("%6: u32 = add %1, %4 cp_async s[%1] = x[%6], 4, %2 cp_async_commit cp_async_wait 0", None),
        (
            "%6: u32 = add %1, %4 %7: bool = le %0, %5 cp_async s[%1] = x[%6], 4, %7 cp_async_commit cp_async_wait 0",
            Some("index 32 (and 4 elements) of 32"),
        ),
        ("%6: u32 = const 0 cp_async s[%6] = x[%0], 1, %2 cp_async_commit cp_async_wait 0", Some("touches what a copy brings")),
    ];
    for (body, want) in rows {
        let got = stored(&kernel(body)).err();
        match want {
            None => assert_eq!(got, None, "{body}"),
            Some(part) => {
                assert!(got.as_ref().is_some_and(|g| g.contains(part)), "{body}\n{got:?}\nshould say: {part}")
            }
        }
    }
}

#[test]
fn what_is_no_copy() {
    let rows = [
        ("cp_async s[%1] = x[%1], 2, %2", "valid"),
        ("cp_async s[%1] = x[%1], 3, %2", "a copy of 12 bytes"),
        ("cp_async s[%1] = x[%1], 8, %2", "a copy of 32 bytes"),
        ("cp_async q[%1] = h[%1], 1, %2", "a copy of 2 bytes"),
        ("cp_async q[%1] = x[%1], 4, %2", "f32 are copied to where f16 lie"),
        ("cp_async s[%1] = y[%1], 4, %2", "from a buffer that is only read"),
        ("cp_async s[%1] = t[%1], 4, %2", "from a buffer that is only read"),
        ("cp_async y[%1] = x[%1], 4, %2", "copies go to shared memory"),
        ("cp_async s[%1] = x[%1], 4, %0", "the condition is u32, and should be bool"),
        ("if %2 { cp_async_commit }", "only a part of the workgroup may come here"),
        ("if %2 { cp_async_wait 0 }", "only a part of the workgroup may come here"),
        ("if %2 { cp_async s[%1] = x[%1], 4, %2 }", "valid"),
    ];
    for (body, want) in rows {
        let got = verify(&kernel(body)).err().map_or("valid".to_string(), |e| e.0);
        assert!(got.contains(want), "{body}\n{got}\nshould say: {want}");
    }
}

/// A copy is not removed as a load whose result is unused, and stays in its place.
#[test]
fn passes_leave_copies_alone() {
    let mut k = kernel(TURNED);
    pass::optimize(&mut k);
    let mut count = 0;
    k.body.each_inst(&mut |i| {
        count += u32::from(matches!(
            i.op,
            ir::Op::CpAsync { .. } | ir::Op::CpAsyncCommit | ir::Op::CpAsyncWait(_)
        ));
    });
    assert_eq!(count, 6);
    assert_eq!(stored(&k).unwrap(), stored(&kernel(TURNED)).unwrap());
}
