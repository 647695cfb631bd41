//! The machine on hand-written texts: divergence and reconvergence, refused texts, and errors that
//! a device would not report.

use emulated_cuda::{FaultKind, Launch, Memory, Refused, parse, run};

/// A module whose entry has a buffer, this many threads, and this body.
fn module(threads: u32, body: &str) -> String {
    format!(
        "// t\n.version 7.0\n.target sm_80\n.address_size 64\n\n.visible .entry main(\n  .param .u64 b0\n)\n.reqntid \
         {threads}, 1, 1\n{{\n  .reg .pred %p<8>;\n  .reg .b16 %h<8>;\n  .reg .b32 %r<40>;\n  .reg .b64 %rd<8>;\n  .reg \
         .f32 %f<8>;\n  .shared .align 16 .b8 s0[1024];\n  ld.param.u64 %rd0, [b0];\n  mov.u32 %r0, %tid.x;\n  mad.wide.u32 \
         %rd1, %r0, 4, %rd0;\n  mad.lo.u32 %r1, %r0, 4, s0;\n{body}\n  ret;\n}}\n"
    )
}

/// The contents of a buffer of `len` words after a body has run.
fn words(threads: u32, body: &str, len: usize) -> Result<Vec<u32>, emulated_cuda::Fault> {
    let text = module(threads, body);
    let program = parse(&text, 90, (8, 4)).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut memory = Memory::default();
    let at = memory.add(len * 4).unwrap();
    memory.write(at, &(0..len as u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    run(&program, &Launch { groups: [1, 1, 1], dynamic: 0, params: at.to_le_bytes().to_vec() }, &memory)?;
    Ok(memory.bytes(at).chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect())
}

/// Lane i loops i times, the odd ones with an extra branch; then they shuffle.
#[test]
fn lanes_part_and_meet() {
    let body = "
  mov.b32 %r2, 0;
  mov.b32 %r3, 0;
L1:
  setp.ge.u32 %p0, %r2, %r0;
  @%p0 bra L2;
  and.b32 %r4, %r2, 1;
  setp.eq.u32 %p1, %r4, 0;
  @%p1 bra L3;
  add.u32 %r3, %r3, 100;
  bra L4;
L3:
  add.u32 %r3, %r3, 1;
L4:
  add.u32 %r2, %r2, 1;
  bra L1;
L2:
  shfl.sync.bfly.b32 %r5, %r3, 1, 31, 0xFFFFFFFF;
  st.global.b32 [%rd1+0], %r5;";
    let want = |i: u32| (i / 2) * 100 + i.div_ceil(2);
    assert_eq!(words(32, body, 32).unwrap(), (0..32).map(|i| want(i ^ 1)).collect::<Vec<_>>());
}

#[test]
fn a_workgroup_shares_memory_between_barriers() {
    let body = "
  st.shared.b32 [%r1+0], %r0;
  bar.sync 0;
  sub.u32 %r2, 99, %r0;
  mad.lo.u32 %r3, %r2, 4, s0;
  ld.shared.b32 %r4, [%r3+0];
  st.global.b32 [%rd1+0], %r4;";
    assert_eq!(words(100, body, 100).unwrap(), (0..100).rev().collect::<Vec<u32>>());
}

#[test]
fn mistakes_are_told() {
    let rows = [
        (
            "mov.b32 %r2, s0;\n  st.shared.b32 [%r2+0], %r0;",
            FaultKind::Illegal,
            "a race: thread 1 writes byte 0",
        ),
        (
            "st.shared.b32 [%r1+0], %r0;\n  ld.shared.b32 %r2, [%r1+4];",
            FaultKind::Illegal,
            "a race: thread 0 reads byte 4 of shared memory, written by thread 1",
        ),
        ("ld.shared.b32 %r2, [%r1+0];", FaultKind::Illegal, "which was never written"),
        ("st.shared.b32 [%r1+1000], %r0;", FaultKind::Illegal, "at byte 1024 of 1024 of shared memory"),
        ("st.global.b32 [%rd1+4], %r0;", FaultKind::Illegal, "4 bytes at byte 128 of an allocation of 128"),
        ("ld.global.b32 %r2, [%rd1+2];", FaultKind::Misaligned, "4 bytes at address"),
        ("st.global.v2.b32 [%rd0+4], {%r0, %r0};", FaultKind::Misaligned, "8 bytes at address"),
        (
            "mov.b64 %rd2, 0;\n  st.global.b32 [%rd2+16], %r0;",
            FaultKind::Illegal,
            "where nothing is allocated",
        ),
        (
            "setp.eq.u32 %p0, %r0, 3;\n  @%p0 bra L1;\n  bar.sync 0;\nL1:",
            FaultKind::Illegal,
            "a barrier that a part of the lanes reaches",
        ),
        (
            "setp.eq.u32 %p0, %r0, 3;\n  @%p0 bra L1;\n  shfl.sync.idx.b32 %r2, %r0, 0, 31, 0xFFFFFFFF;\nL1:",
            FaultKind::Illegal,
            "an exchange between lanes that a part",
        ),
        (
            "cp.async.ca.shared.global [%r1+0], [%rd1+0], 4;\n  cp.async.commit_group;\n  ld.shared.b32 %r2, [%r1+0];",
            FaultKind::Illegal,
            "a copy that was not waited for",
        ),
        (
            "cp.async.ca.shared.global [%r1+0], [%rd1+0], 4;\n  cp.async.commit_group;\n  cp.async.wait_group 0;\n  \
             ld.shared.b32 %r2, [%r1+4];",
            FaultKind::Illegal,
            "a race",
        ),
    ];
    for (body, kind, part) in rows {
        let e = words(32, body, 32).expect_err(body);
        assert!(e.kind == kind && e.what.contains(part), "{body}\n{e:?}\nshould say: {part}");
        assert!(e.what.contains("workgroup 0 0 0, warp 0, line "), "{e}");
    }
    // Warps that wait at different barriers.
    let body = "setp.lt.u32 %p0, %r0, 32;\n  @%p0 bra L1;\n  bar.sync 0;\nL1:";
    assert!(words(64, body, 64).unwrap_err().what.contains("wait at different places"));
}

#[test]
fn copies_arrive_when_they_are_waited_for() {
    let body = "
  cp.async.ca.shared.global [%r1+0], [%rd1+0], 4;
  cp.async.commit_group;
  cp.async.ca.shared.global [%r1+128], [%rd1+128], 4;
  cp.async.commit_group;
  cp.async.wait_group 1;
  bar.sync 0;
  sub.u32 %r2, 31, %r0;
  mad.lo.u32 %r3, %r2, 4, s0;
  ld.shared.b32 %r4, [%r3+0];
  cp.async.wait_group 0;
  bar.sync 0;
  ld.shared.b32 %r5, [%r3+128];
  mad.lo.u32 %r6, %r5, 1000, %r4;
  st.global.b32 [%rd1+0], %r6;";
    let want: Vec<u32> = (0..32).map(|i| (63 - i) * 1000 + 31 - i).collect();
    assert_eq!(words(32, body, 64).unwrap()[..32], want);
}

/// Every second copy has a size of zero and an invalid source; some are partial.
#[test]
fn zeros_stand_for_what_a_copy_does_not_read() {
    let body = "
  and.b32 %r2, %r0, 1;
  setp.eq.u32 %p0, %r2, 0;
  selp.u32 %r3, 4, 0, %p0;
  mov.b64 %rd3, 64;
  selp.u64 %rd2, %rd1, %rd3, %p0;
  cp.async.ca.shared.global [%r1+0], [%rd2+0], 4, %r3;
  cp.async.commit_group;
  cp.async.wait_group 0;
  ld.shared.b32 %r4, [%r1+0];
  st.global.b32 [%rd1+0], %r4;";
    let want: Vec<u32> = (0..32).map(|i| if i % 2 == 0 { i } else { 0 }).collect();
    assert_eq!(words(32, body, 32).unwrap(), want);
    let wrong = body.replace("4, 0, %p0", "8, 0, %p0");
    assert!(words(32, &wrong, 32).unwrap_err().what.contains("a copy of 4 bytes of which 8 are read"));
}

#[test]
fn what_is_not_known_is_refused() {
    let rows = [
        ("add.u32 %r2, %r3, 1;", "line 21: %r3 is read before it is written"),
        ("add.u32 %r2, %r0, %rd1;", "%rd1 is a register of Wide, and Narrow is read"),
        ("add.f32 %f0, 0f3F800000, 0f3F800000;", "a rounding has to be said"),
        ("tanh.approx.f32 %f0, 0f3F800000;", "is not known"),
        ("add.u32 %r99, %r0, 1;", "%r99 is no register"),
        ("bra L9;", "there is no label L9"),
        ("setp.ne.f32 %p0, 0f3F800000, 0f3F800000;", "a comparison ne"),
        ("mov.u32 %r2, %clock;", "what is %clock?"),
        ("@%p0 add.u32 %r2, %r0, 1;", "%p0 is read before"),
        ("cp.async.ca.shared.global [%r1+0], [%rd1+0], 2;", "a copy of 2 bytes"),
        ("cp.async.ca.shared.global [%r1+0], [%rd1+0], 4, 0, 0;", "more operands than are known"),
    ];
    for (body, part) in rows {
        let e = parse(&module(32, body), 90, (8, 4)).expect_err(body).to_string();
        assert!(e.contains(part), "{body}\n{e}\nshould say: {part}");
    }
    let text = module(32, "");
    assert_eq!(parse(&text, 90, (6, 5)).unwrap_err(), Refused::Version((7, 0)));
    assert_eq!(parse(&text, 75, (8, 4)).unwrap_err(), Refused::Target(80));
    assert!(matches!(parse(&module(2048, ""), 90, (8, 4)).unwrap_err(), Refused::Text(_)));
    let old = text
        .replace("sm_80", "sm_75")
        .replace("  ret", "  cp.async.ca.shared.global [%r1+0], [%rd1+0], 4;\n  ret");
    assert!(parse(&old, 90, (8, 4)).unwrap_err().to_string().contains("needs .target sm_80"));
}
