//! What the verifier and the interpreter refuse, and targets without TMA and wgmma.

use super::*;

#[test]
fn mistakes() {
    let rows = [
        ("mbarrier_wait %0, %0", "waits for ever: nothing is under way for mbarrier 0"),
        ("mbarrier_wait %14, %0", "mbarrier 64 of 2"),
        ("mbarrier_wait %0, %14", "phase 64; there are 0 and 1"),
        ("tma_load %0, a[%0] = vx[%3, %3, %3]", "ends while TMA tiles are under way"),
        (
            "tma_load %0, a[%0] = vx[%3, %3, %3] tma_load %0, a[%2] = vx[%3, %3, %3]",
            "something is under way for mbarrier 0 already",
        ),
        ("tma_load %0, a[%14] = vx[%3, %3, %3]", "index 64 is no multiple of 512"),
        ("%17: u32 = const 4608 tma_load %0, a[%17] = vx[%3, %3, %3]", "of 8192"),
        ("tma_load %0, a[%0] = vx[%3, %3, %3], b[%0] = vw[%3, %3, %3] tma_load %1, a[%0] = vx[%3, %3, %3]", "touches what a copy brings"),
        (
            "tma_load %0, a[%0] = vx[%3, %3, %3], b[%0] = vw[%3, %3, %3]
             %17: fragment.c.f32.16x16x16, %18: fragment.c.f32.16x16x16, %19: fragment.c.f32.16x16x16, %20: fragment.c.f32.16x16x16 = wgmma_ss row_major a[%0], col_major b[%0], %7, %8, %9, %10",
            "touches what a copy brings that was not waited for",
        ),
    ];
    for (body, want) in rows {
        let got = stored(&kernel(body)).expect_err(body);
        assert!(got.contains(want), "{body}\n{got}\nshould say: {want}");
    }
    let rows = [
        ("", "ends while products are under way"),
        (
            "fragment_store row_major y[%13], %14 = %17 wgmma_wait 0",
            "sums of a product that was not waited for",
        ),
        ("%21: f32x4 = fragment_extract %17, 0 wgmma_wait 0", "sums of a product that was not waited for"),
        (
            "%21: fragment.c.f32.16x16x16 = for %22: u32 = %0 to %1 step %1 carry %23: fragment.c.f32.16x16x16 = %17 { yield %23 } wgmma_wait 0",
            "sums of a product that was not waited for",
        ),
        (
            "tma_load %1, a[%0] = vx[%3, %3, %3] mbarrier_wait %1, %0 wgmma_wait 0",
            "changes what a product reads",
        ),
        (
            "wgmma_wait 0 tma_load %1, a[%0] = vx[%3, %3, %3] mbarrier_wait %1, %0",
            "stores where another invocation loads",
        ),
    ];
    for (body, want) in rows {
        let mut k = kernel(&format!("{FIRST}{body}"));
        pass::renumber(&mut k);
        let got = stored(&k).expect_err(body);
        assert!(got.contains(want), "{body}\n{got}\nshould say: {want}");
    }
    let good = kernel(&format!("{FIRST} wgmma_wait 0"));
    assert_eq!(stored(&good).err(), None);
    // Numbers of a view: the offset, the lines' distance, sizes.
    for (param, value, want) in [
        (0, 4, "does not begin at a multiple of 16 bytes"),
        (5, 188, "multiples of 16 bytes apart"),
        (1, 0, "it has no elements"),
        (2, 61, "index 11528 of 11528"),
    ] {
        let mut launch = launch();
        launch.params[param] = Constant::int(Scalar::I32, value);
        let got = run(&good, &launch, &mut memory()).expect_err(want).0;
        assert!(got.contains(want), "{got}\nshould say: {want}");
    }
}

/// Lines of f32 are of terms.
#[test]
fn wide_numbers_are_not_turned() {
    for (a, b, good) in [
        ("row_major", "col_major", true),
        ("col_major", "col_major", false),
        ("row_major", "row_major", false),
        ("col_major", "row_major", false),
    ] {
        let k = kernel_of(
            "f32",
            "",
            &format!(
                "tma_load %0, a[%0] = vx[%3, %3, %3], b[%0] = vw[%3, %3, %3] mbarrier_wait %0, %0
                 %17: fragment.c.f32.16x16x16, %18: fragment.c.f32.16x16x16, %19: fragment.c.f32.16x16x16, %20: fragment.c.f32.16x16x16 = wgmma_ss {a} a[%0], {b} b[%0], %7, %8, %9, %10 wgmma_wait 0"
            ),
        );
        match verify(&k) {
            Ok(()) => assert!(good, "{a} and {b}"),
            Err(e) => {
                assert!(!good && e.to_string().contains("blocks of f32, whose lines are not of terms"), "{e}")
            }
        }
    }
}

#[test]
fn what_is_no_box() {
    let product = "%17: fragment.c.f32.16x16x16, %18: fragment.c.f32.16x16x16, %19: fragment.c.f32.16x16x16, %20: fragment.c.f32.16x16x16 = wgmma_ss row_major";
    let rows = [
        ("tma_load %0, a[%0] = vx[%3, %3, %3]".to_string(), "valid"),
        ("tma_load %0".to_string(), "nothing is fetched"),
        ("tma_load %0, y[%0] = vx[%3, %3, %3]".to_string(), "TMA tiles are fetched to shared memory"),
        ("tma_load %0, a[%0] = vx[%3, %3, %6]".to_string(), "%6 is f32, and should be i32 or u32"),
        ("tma_load %16, a[%0] = vx[%3, %3, %3]".to_string(), "%16 differs between invocations"),
        ("mbarrier_wait %0, %16".to_string(), "%16 differs between invocations"),
        ("mbarrier_wait %0, %6".to_string(), "%6 is f32, and should be i32 or u32"),
        (
            "%17: bool = lt %16, %14 if %17 { tma_load %0, a[%0] = vx[%3, %3, %3] }".to_string(),
            "only a part of the workgroup may come here",
        ),
        (
            "%17: bool = lt %16, %14 if %17 { wgmma_wait 0 }".to_string(),
            "only a part of the workgroup may come here",
        ),
        (
            "tma_load %0, a[%0] = vx[%3, %3, %3] %17: f32 = load a[%16]".to_string(),
            "this shared memory is for TMA tiles alone",
        ),
        (
            format!("tma_load %0, a[%0] = vx[%3, %3, %3] {product} a[%0], col_major other[%0], %7, %8, %9, %10"),
            "no TMA tiles are fetched to where they are multiplied",
        ),
        (
            format!("tma_load %0, a[%0] = vx[%3, %3, %3] {product} a[%0], col_major y[%0], %7, %8, %9, %10"),
            "blocks lie in shared memory",
        ),
        (
            format!("tma_load %0, a[%0] = vx[%3, %3, %3] {product} a[%0], col_major a[%2], %7, %8, %9, %9"),
            "%9 is changed here, and read elsewhere, too",
        ),
        (
            format!(
                "tma_load %0, a[%0] = vx[%3, %3, %3] {product} a[%0], col_major a[%2], %7, %8, %9, %10 fragment_store row_major y[%13], %14 = %7"
            ),
            "%7 is changed here, and read elsewhere, too",
        ),
        (
            "tma_load %0, a[%0] = vx[%3, %3, %3] %17: fragment.c.f32.16x16x16 = wgmma_ss row_major a[%0], col_major a[%2], %7".to_string(),
            "1 sums; a multiple of 4 up to 16",
        ),
        (
            format!("tma_load %0, a[%0] = vx[%3, %3, %3] {product} a[%0], col_major a[%2], %7, %8, %9, %6"),
            "%6 is f32, and should be fragment.c.f32.16x16x16",
        ),
    ];
    for (body, want) in rows {
        let got = verify(&kernel(&body)).err().map_or("valid".to_string(), |e| e.0);
        assert!(got.contains(want), "{body}\n{got}\nshould say: {want}");
    }
    let rows = ["a.f16", "a.bf16", "c.f32"].map(|word| {
        let body = format!(
            "tma_load %0, a[%0] = vx[%3, %3, %3] %17: fragment.{word}.16x16x16 = fragment_fill %6
             %18: fragment.c.f32.16x16x16, %19: fragment.c.f32.16x16x16, %20: fragment.c.f32.16x16x16, %21: fragment.c.f32.16x16x16 = wgmma_rs %17, %17, %17, %17, col_major a[%0], %7, %8, %9, %10"
        );
        verify(&kernel(&body)).err().map_or("valid".to_string(), |e| e.0)
    });
    assert_eq!(rows[0], "valid");
    for (said, word) in rows[1..].iter().zip(["a.bf16", "c.f32"]) {
        let want = format!("%17 is fragment.{word}.16x16x16, and should be fragment.a.f16.16x16x16");
        assert!(said.contains(&want), "{said}");
    }
    let heads = [
        ("view v y 64 offset terms rows planes line line", "view v: of f32 that are write"),
        ("view v x 60 offset terms rows planes line line", "60 lines; a multiple of 8 up to 256"),
        ("view v x 264 offset terms rows planes line line", "264 lines"),
        ("param f f32 view v x 64 f terms rows planes line line", "f is no integer"),
        ("view a x 64 offset terms rows planes line line", "two things are called a"),
    ];
    for (head, want) in heads {
        let got = verify(&kernel_with(head, "")).expect_err(head).0;
        assert!(got.contains(want), "{head}\n{got}\nshould say: {want}");
    }
    // 64 invocations do not make a block.
    let mut k = kernel(&format!("{FIRST} wgmma_wait 0"));
    k.group = [64, 1, 1];
    assert!(verify(&k).unwrap_err().0.contains("multiplied by 128 invocations"));
}

#[test]
fn other_targets_lack_them() {
    let k = kernel(THREE);
    for target in [ptx::SM75, ptx::SM80_MMA, ptx::Target { arch_specific: false, ..ptx::SM90A_WGMMA }] {
        let e = ptx::emit(&k, target).expect_err("it has none");
        assert!(e.0.contains("TMA and wgmma are for sm_90a alone"), "{e}");
    }
    assert!(spirv::emit(&k, &FULL).unwrap_err().0.contains("no TMA and wgmma"));
}
