//! What the interpreter refuses to run on, and arithmetic at its edges.

use elinvar_kernel::interp::{Flushes, Launch, Memory, Quirks, run, run_with_quirks};
use elinvar_kernel::ir::{Constant, Elem, Scalar};
use elinvar_kernel::text::parse;

const LEN: usize = 8;

/// Runs a body on two workgroups of four; x holds 0, 1, 2, .., y zeros.
fn start(body: &str) -> Result<Vec<u64>, String> {
    let text = format!(
        "kernel t group 4 1 1 {{
           subgroup 4
           buffer x i32 read
           buffer y i32 read_write
           param n i32
           shared s i32 4
           %0: i32 = param n
           %1: u32 = local_index
           %2: u32 = group_id.x
           %3: u32 = const 4
           %4: u32 = mul %2, %3
           %5: u32 = add %4, %1
           %6: i32 = load x[%5]
           {body}
         }}"
    );
    let k = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let x = Memory { elem: Elem::I32, cells: (0..LEN as u64).collect() };
    let mut buffers = [x, Memory::zeros(Elem::I32, LEN)];
    let launch = Launch { groups: [2, 1, 1], params: vec![Constant::int(Scalar::I32, 7)] };
    run(&k, &launch, &mut buffers).map_err(|e| e.0)?;
    Ok(buffers[1].cells.clone())
}

#[test]
fn mistakes() {
    let rows = [
        ("store y[%5] = %6", None),
        (
            "%7: i32 = load x[%0] %8: i32 = sub %6, %0 store y[%8] = %8",
            Some("index -7 (and 1 elements) of 8"),
        ),
        ("%7: i32 = add %6, %0 store y[%7] = %7", Some("index 8 (and 1 elements) of 8")),
        ("%7: i32x2 = load x[%1]", Some("index 1 is no multiple of 2")),
        ("%7: i32x4 = load x[%4]", None),
        ("store y[%4] = %6", Some("stores where another invocation stores")),
        (
            "store y[%1] = %6",
            Some("workgroup (1, 0, 0), invocation 0, at `store y[%1] = %6`: element 0: stores where"),
        ),
        ("%7: i32 = load y[%4] store y[%5] = %6", Some("stores where another invocation loads")),
        ("%7: i32 = load y[%4] barrier store y[%5] = %6", None),
        (
            "%7: i32 = load y[%1] store y[%5] = %6",
            Some("(1, 0, 0), invocation 0, at `%7: i32 = load y[%1]`: element 0: loads what"),
        ),
        ("%7: i32 = load s[%1]", Some("loads shared memory to which nothing was stored")),
        (
            "store s[%1] = %6 %7: u32 = const 3 %8: u32 = sub %7, %1 %9: i32 = load s[%8]",
            Some("loads what another"),
        ),
        ("store s[%1] = %6 barrier %7: u32 = const 3 %8: u32 = sub %7, %1 %9: i32 = load s[%8]", None),
        // Without a barrier before the second store, another invocation may still load.
        (
            "store s[%1] = %6 barrier %7: u32 = const 3 %8: u32 = sub %7, %1 %9: i32 = load s[%8] store s[%1] = %9",
            Some("stores where another invocation loads"),
        ),
        ("%7: u32 = const 0 %8: i32 = atomic.add y[%7], %6", None),
        ("%7: u32 = const 0 %8: i32 = atomic.add y[%7], %6 %9: i32 = load y[%7]", Some("loads what another")),
        ("%7: i32 = const 0 for %8: i32 = %6 to %0 step %7 { }", Some("the index does not go forward")),
        (
            "%7: i32 = const 2147483647 for %8: i32 = %6 to %7 step %7 { }",
            Some("the index does not go forward"),
        ),
    ];
    for (body, want) in rows {
        match (start(body), want) {
            (Ok(_), None) => {}
            (Err(e), Some(want)) => assert!(e.contains(want), "{e}\nshould say: {want}"),
            (Ok(_), Some(want)) => panic!("{body} ran, and should say: {want}"),
            (Err(e), None) => panic!("{e}"),
        }
    }
}

#[test]
fn what_runs() {
    let rows: [(&str, [u64; LEN]); 7] = [
        ("%7: u32 = const 0 %8: i32 = atomic.max y[%7], %6", [7, 0, 0, 0, 0, 0, 0, 0]),
        ("%7: i32 = reduce.add %6 store y[%5] = %7", [6, 6, 6, 6, 22, 22, 22, 22]),
        ("%7: i32 = shuffle %6, %5 store y[%5] = %7", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("%7: i32 = broadcast %6, 3 store y[%5] = %7", [3, 3, 3, 3, 7, 7, 7, 7]),
        // Each invocation runs its own number of turns.
        (
            "%7: i32 = const 1 %11: i32 = for %8: i32 = %6 to %0 step %7 carry %9: i32 = %7 {
               %10: i32 = add %9, %9 yield %10
             } store y[%5] = %11",
            [128, 64, 32, 16, 8, 4, 2, 1],
        ),
        (
            "%7: i32 = const 3 %8: bool = lt %6, %7 %10: i32 = if %8 { %9: i32 = add %0, %0 yield %9 } else { yield %6 }
             store y[%5] = %10",
            [14, 14, 14, 3, 4, 5, 6, 7],
        ),
        (
            "store s[%1] = %6 barrier %7: u32 = const 3 %8: u32 = sub %7, %1 %9: i32 = load s[%8] store y[%5] = %9",
            [3, 2, 1, 0, 7, 6, 5, 4],
        ),
    ];
    for (body, want) in rows {
        assert_eq!(start(body).unwrap_or_else(|e| panic!("{e}")), want, "{body}");
    }
}

/// One f32 in, one out.
fn one(body: &str, x: f32, lacks: Quirks) -> f32 {
    let text = format!(
        "kernel t group 1 1 1 {{ buffer x f32 read buffer y f32 write
         %0: u32 = const 0 %1: f32 = load x[%0] {body} }}"
    );
    let k = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut b =
        [Memory { elem: Elem::F32, cells: vec![u64::from(x.to_bits())] }, Memory::zeros(Elem::F32, 1)];
    run_with_quirks(&k, &Launch { groups: [1; 3], params: vec![] }, &mut b, lacks)
        .unwrap_or_else(|e| panic!("{e}"));
    f32::from_bits(b[1].cells[0] as u32)
}

#[test]
fn what_a_device_may_lack() {
    let square_less = "%2: f32 = const -1.0002442 %3: f32 = fma %1, %1, %2 store y[%0] = %3";
    let x = 1.0 + 2f32.powi(-13);
    let c = -1.000_244_2_f32;
    assert_eq!(one(square_less, x, Quirks::default()), x.mul_add(x, c));
    assert_eq!(one(square_less, x, Quirks { fused: true, ..Quirks::default() }), x * x + c);
    assert_ne!(x.mul_add(x, c), x * x + c);

    let tiny = 1e-40f32;
    // what is done, with all subnormals, without
    let rows: [(&str, f32, f32); 4] = [
        ("%2: f32 = const 0.5 %3: f32 = mul %1, %2 store y[%0] = %3", tiny * 0.5, 0.0),
        ("%2: f32 = const 1.0 %3: f32 = sub %1, %2 store y[%0] = %3", -1.0, -1.0),
        ("%2: f32 = neg %1 store y[%0] = %2", -tiny, -0.0),
        ("%2: f32 = const 0.0 %3: bool = gt %1, %2 %4: f32 = convert %3 store y[%0] = %4", 1.0, 0.0),
    ];
    for (body, kept, flushed) in rows {
        assert_eq!(one(body, tiny, Quirks::default()).to_bits(), kept.to_bits(), "{body}");
        let lacks = Quirks { flushes: Flushes::ALL, ..Quirks::default() };
        assert_eq!(one(body, tiny, lacks).to_bits(), flushed.to_bits(), "{body}, flushed");
    }
}

#[test]
fn launches_that_do_not_fit() {
    let k = parse("kernel t group 1 1 1 { buffer x f32 read param n u32 }").unwrap();
    let x = || Memory::zeros(Elem::F32, 1);
    let n = |s| Launch { groups: [1; 3], params: vec![Constant::int(s, 1)] };
    let fails = |l: &Launch, b: &mut [Memory]| run(&k, l, b).unwrap_err().0;
    assert!(run(&k, &n(Scalar::U32), &mut [x()]).is_ok());
    assert!(fails(&n(Scalar::I32), &mut [x()]).contains("do not fit"));
    assert!(fails(&n(Scalar::U32), &mut []).contains("0 buffers, not 1"));
    assert!(fails(&n(Scalar::U32), &mut [Memory::zeros(Elem::F16, 1)]).contains("is of f16, not f32"));
}
