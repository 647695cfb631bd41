//! The machine on hand-written texts: phis, divergence, lanes, refused texts, and errors that a
//! device would not report.

use emulated_hip::{FaultKind, Launch, Memory, parse, run};

/// A module whose kernel has a buffer, this many invocations, and this body; %v1 is the invocation,
/// %v2 the address of its word, %v3 that of its word in LDS.
fn module(threads: u32, body: &str) -> String {
    format!(
        "; t\ntarget triple = \"amdgcn-amd-amdhsa\"\n\n@s0 = internal addrspace(3) global [256 x i32] undef, align \
         16\n\ndefine amdgpu_kernel void @main(\n  ptr addrspace(1) noalias %b0\n) #0 !reqd_work_group_size !1 \
         {{\nentry:\n  %v1 = call i32 @llvm.amdgcn.workitem.id.x()\n  %v90 = zext i32 %v1 to i64\n  %v2 = getelementptr \
         i32, ptr addrspace(1) %b0, i64 %v90\n  %v3 = getelementptr i32, ptr addrspace(3) @s0, i32 %v1\n{body}\n  ret \
         void\n}}\n\nattributes #0 = {{ nounwind \"amdgpu-flat-work-group-size\"=\"{threads},{threads}\" \
         \"denormal-fp-math\"=\"ieee,ieee\" \"denormal-fp-math-f32\"=\"ieee,ieee\" }}\n!0 = !{{}}\n!1 = !{{i32 {threads}, \
         i32 1, i32 1}}\n"
    )
}

/// The contents of a buffer of a word for each invocation, after a body has run.
fn words(arch: &str, threads: u32, body: &str) -> Result<Vec<u32>, String> {
    let program = parse(&module(threads, body), arch)?;
    let mut memory = Memory::default();
    let at = memory.add(threads as usize * 4).unwrap();
    memory.write(at, &(0..threads).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    let launch = Launch { groups: [1, 1, 1], dynamic: 0, params: at.to_le_bytes().to_vec() };
    run(&program, &launch, &memory).map_err(|f| format!("{:?}: {f}", f.kind))?;
    Ok(memory.bytes(at).chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect())
}

const STORE: &str = "  store i32 %v50, ptr addrspace(1) %v2, align 4";

/// Lane i loops i times, the odd turns with an extra branch; two numbers change places each turn,
/// so phis are written at once. Then lanes exchange.
#[test]
fn lanes_part_and_meet() {
    let body = "  br label %L1
L1:
  %v10 = phi i32 [ 0, %entry ], [ %v20, %L5 ]
  %v11 = phi i32 [ 1000, %entry ], [ %v12, %L5 ]
  %v12 = phi i32 [ 0, %entry ], [ %v15, %L5 ]
  %v13 = icmp ult i32 %v10, %v1
  br i1 %v13, label %L2, label %L6
L2:
  %v14 = trunc i32 %v10 to i8
  %v21 = zext i8 %v14 to i32
  %v22 = and i32 %v21, 1
  %v23 = icmp eq i32 %v22, 0
  br i1 %v23, label %L3, label %L4
L3:
  %v24 = add i32 %v11, 1
  br label %L5
L4:
  %v25 = add i32 %v11, 100
  br label %L5
L5:
  %v15 = phi i32 [ %v24, %L3 ], [ %v25, %L4 ]
  %v20 = add i32 %v10, 1
  br label %L1
L6:
  %v50 = call i32 @llvm.amdgcn.ds.swizzle(i32 %v12, i32 1055)";
    let want = |i: u32| {
        let (mut a, mut b) = (1000, 0);
        for turn in 0..i {
            (a, b) = (b, a + if turn % 2 == 0 { 1 } else { 100 });
        }
        b
    };
    for (arch, threads) in [("gfx942", 64), ("gfx1100", 32), ("gfx1100", 64)] {
        let got = words(arch, threads, &format!("{body}\n{STORE}")).unwrap();
        assert_eq!(got, (0..threads).map(|i| want(i ^ 1)).collect::<Vec<_>>(), "{arch}");
    }
}

#[test]
fn lanes_read_each_other() {
    let reversed = "  %v10 = sub i32 63, %v1\n  %v11 = shl i32 %v10, 2\n  %v50 = call i32 \
                    @llvm.amdgcn.ds.bpermute(i32 %v11, i32 %v1)";
    let got = |arch, body: &str| words(arch, 64, &format!("{body}\n{STORE}")).unwrap();
    assert_eq!(got("gfx942", reversed), (0..64).rev().collect::<Vec<u32>>());
    // Within a wave of 32.
    assert_eq!(got("gfx1100", reversed), (0..64).map(|i| 31 - i % 32 + i / 32 * 32).collect::<Vec<u32>>());
    let dpp = |control: u32| {
        format!(
            "  %v50 = call i32 @llvm.amdgcn.update.dpp.i32(i32 %v1, i32 %v1, i32 {control}, i32 15, i32 15, i1 true)"
        )
    };
    for (control, xor) in [(0b10_11_00_01, 1), (0b01_00_11_10, 2), (0x141, 7), (0x140, 15)] {
        assert_eq!(
            got("gfx942", &dpp(control)),
            (0..64).map(|i| i ^ xor).collect::<Vec<u32>>(),
            "{control:#x}"
        );
    }
    let first = "  %v50 = call i32 @llvm.amdgcn.readlane(i32 %v1, i32 5)";
    assert_eq!(got("gfx942", first), [5; 64]);
    assert_eq!(got("gfx1100", first)[32..], [37; 32]);
}

#[test]
fn a_workgroup_shares_memory_between_barriers() {
    let body = "  store i32 %v1, ptr addrspace(3) %v3, align 4
  fence syncscope(\"workgroup\") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope(\"workgroup\") acquire
  %v10 = sub i32 99, %v1
  %v11 = getelementptr i32, ptr addrspace(3) @s0, i32 %v10
  %v50 = load i32, ptr addrspace(3) %v11, align 4";
    let got = words("gfx942", 100, &format!("{body}\n{STORE}")).unwrap();
    assert_eq!(got, (0..100).rev().collect::<Vec<u32>>());
}

#[test]
fn mistakes_are_told() {
    let fence = "fence syncscope(\"workgroup\") release\n  ";
    let rows = [
        ("store i32 %v1, ptr addrspace(3) @s0, align 4".to_string(), "a race: thread 1 writes byte 0"),
        ("%v10 = load i32, ptr addrspace(3) %v3, align 4".into(), "which was never written"),
        ("store i32 %v1, ptr addrspace(1) %v2, align 8".into(), "no multiple of 8"),
        ("%v10 = fadd contract float 0.0, 0.0".into(), "\"contract\" is no type"),
        ("%v10 = fadd float 0x3FB999999999999A, 0.0".into(), "is no Float"),
        ("call void @llvm.amdgcn.s.barrier()".into(), "this is not known"),
        (format!("{fence}call void @llvm.amdgcn.s.barrier()\n  %v10 = add i32 %v1, 1"), "without its fences"),
        ("%v10 = udiv i32 1, %v1".into(), "lane 0 divides 0x1 by 0x0"),
        ("%v10 = shl i32 1, %v1".into(), "lane 32 shifts 32 bits by 32"),
        ("%v10 = add i32 %v1, %v77".into(), "%v77 is not known here"),
        ("%v10 = add i64 %v1, 1".into(), "is wanted"),
        ("%v10 = call i32 @llvm.amdgcn.ds.swizzle(i32 %v1, i32 65535)".into(), "a swizzle of another kind"),
    ];
    for (body, what) in rows {
        let e = words("gfx942", 64, &format!("  {body}")).unwrap_err();
        assert!(e.contains(what), "{body}: {e}");
    }
    // Lanes that are not there are not read.
    let body = "  %v50 = call i32 @llvm.amdgcn.ds.swizzle(i32 %v1, i32 1055)";
    let e = words("gfx942", 3, body).unwrap_err();
    assert!(e.contains("lane 2 reads lane 3, which does not take part"), "{e}");
    assert!(e.starts_with(&format!("{:?}", FaultKind::Illegal)), "{e}");
    // A wave of 32 is none of an MI300's.
    let text = module(64, "  %v10 = add i32 %v1, 1")
        .replace("nounwind", "nounwind \"target-features\"=\"+wavefrontsize32\"");
    assert!(parse(&text, "gfx942").is_err_and(|e| e.contains("no waves of 32 lanes")));
    assert!(parse(&text, "gfx1100").is_ok());
    let flushes = module(64, "  %v10 = add i32 %v1, 1")
        .replace("denormal-fp-math-f32\"=\"ieee,ieee\"", "denormal-fp-math-f32\"=\"preserve-sign\"");
    assert!(parse(&flushes, "gfx942").is_err_and(|e| e.contains("subnormal")));
}
