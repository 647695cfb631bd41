//! A kernel for each rule of the verifier, and the sentence that it gets.

use elinvar_kernel::text::parse;
use elinvar_kernel::verify::verify;

/// A kernel with something of everything, and this body.
fn kernel(body: &str) -> String {
    format!(
        "kernel t group 64 1 1 {{
           subgroup 32
           buffer x f32 read
           buffer y f32 write
           buffer z i32 read_write
           buffer h f16 read
           param n u32
           param f f32
           shared s f32 256
           shared q i32 64
           {body}
         }}"
    )
}

fn verdict(text: &str) -> String {
    let k = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify(&k).err().map_or("valid".to_string(), |e| e.0)
}

#[test]
fn bodies() {
    let l = "%0: u32 = local_index\n%1: f32 = load x[%0]\n%2: u32 = param n\n%3: u32 = group_id.x\n";
    let rows = [
        (String::new(), "valid"),
        // Types
        (format!("{l} %4: f32 = add %0, %1"), "%0 is u32, and %1 is f32"),
        (format!("{l} %4: f32 = add %0, %2"), "the result is f32, and should be u32"),
        (format!("{l} %4: f32 = rem %1, %1"), "a f32 has not this operation"),
        (format!("{l} %4: u32 = sqrt %0"), "a u32 has not this operation"),
        (format!("{l} %4: u32 = fma %0, %0, %0"), "a u32 has not this operation"),
        (format!("{l} %4: f32 = select %0, %1, %1"), "the condition is u32, and should be bool"),
        (format!("{l} %4: u32 = lt %0, %2"), "the result is u32, and should be bool"),
        (format!("{l} %4: f32 = convert %1"), "a f32 is one already"),
        (format!("{l} %4: f64 = bitcast %1"), "the bits of a f32 are not those of a f64"),
        (format!("{l} %4: i32 = fptosi %0"), "a u32 is no float"),
        (format!("{l} if %0 {{ }}"), "the condition is u32, and should be bool"),
        (
            format!("{l} %4: bool = lt %0, %2\n %5: f32 = if %4 {{ yield %1 }} else {{ yield %0 }}"),
            "the branches yield different types",
        ),
        (
            format!("{l} %6: f32 = for %4: u32 = %0 to %2 step %2 carry %5: u32 = %1 {{ yield %5 }}"),
            "what is carried changes its type",
        ),
        (format!("{l} for %4: f32 = %1 to %1 step %1 {{ }}"), "should be an integer"),
        // Scopes
        (
            "%0: u32 = add %1, %1\n%1: u32 = local_index".to_string(),
            "%1 is not defined before, or not in sight",
        ),
        (
            format!("{l} %4: bool = lt %0, %2\n if %4 {{ %5: u32 = add %0, %0 }}\n %6: u32 = add %5, %5"),
            "%5 is not defined before, or not in sight",
        ),
        ("%1: u32 = local_index\n%0: u32 = local_index".to_string(), "%1 is defined where %0 should be"),
        (
            format!("{l} %4: bool = lt %0, %2\n %5: f32 = if %4 {{ yield %1 }}"),
            "yields 0 values for 1 results",
        ),
        (format!("{l} yield %0"), "the body takes or yields values"),
        // Vectors
        (format!("{l} %4: f32x3 = load x[%0]"), "a width of 3"),
        (format!("{l} %4: f32x3 = compose %1, %1, %1"), "a width of 3"),
        (format!("{l} %4: f32x4 = splat %1\n %5: f32 = extract %4, 4"), "number 4 of f32x4"),
        (format!("{l} %4: f32 = extract %1, 0"), "number 0 of f32"),
        // Memory
        (format!("{l} store x[%0] = %1"), "x is only read"),
        (format!("{l} %4: f32 = load y[%0]"), "y is only written to"),
        (format!("{l} store y[%1] = %1"), "%1 is f32, and should be an integer"),
        (format!("{l} store y[%0] = %0"), "a u32 is stored where f32 lie, which take f32"),
        (format!("{l} store h[%0] = %1"), "h is only read"),
        (format!("{l} %4: f32 = atomic.add s[%0], %1"), "atomics are for i32 and u32, not for a f32"),
        (format!("{l} %4: i32 = convert %0\n %5: i32 = atomic.add z[%0], %4"), "valid"),
        // Subgroups
        (format!("{l} %4: f32 = reduce.add %1"), "has an order, or no meaning"),
        (format!("{l} %4: f32 = reduce.max %1"), "valid"),
        (format!("{l} %4: f32 = broadcast %1, 32"), "lane 32 of 32"),
        (format!("{l} %4: f32 = shuffle %1, %1"), "the lane is f32, and should be u32"),
        (format!("{l} %4: f64 = convert %1\n %5: f64 = broadcast %4, 1"), "numbers of 32 bits, not f64"),
        // Fragments
        (
            format!("{l} %4: fragment.a.f16.16x16x17 = fragment_load row_major h[%3], %2"),
            "no device multiplies fragments of 16 x 16 x 17",
        ),
        (
            format!("{l} %4: fragment.a.i32.16x16x16 = fragment_load row_major x[%3], %2"),
            "factors are f16, bf16 or f32",
        ),
        (
            format!("{l} %4: fragment.a.bf16.16x16x16 = fragment_load row_major h[%3], %2"),
            "f16 lie there, not bf16",
        ),
        (
            format!(
                "{l} %4: fragment.a.f16.16x16x16 = fragment_load row_major h[%3], %2
                 %5: fragment.c.f32.16x16x16 = fragment_fill %1
                 %6: fragment.c.f32.16x16x16 = fragment_mul_add %4, %4, %5"
            ),
            "do not fit together",
        ),
        (
            format!(
                "{l} %4: fragment.a.f16.16x16x16 = fragment_load row_major h[%3], %2
                 %5: fragment.b.f16.16x16x16 = fragment_load col_major h[%3], %2
                 %6: fragment.c.f32.16x16x16 = fragment_fill %1
                 %7: fragment.c.f32.16x16x16 = fragment_mul_add %4, %5, %6
                 fragment_store row_major y[%3], %2 = %7"
            ),
            "valid",
        ),
        (
            format!("{l} %4: f64 = convert %1\n %5: fragment.a.f64.16x16x16 = fragment_fill %4"),
            "of f64 both are, and 16 x 8 x 8",
        ),
        (
            format!(
                "{l} %4: f64 = convert %1
                 %5: fragment.a.f64.16x8x8 = fragment_fill %4
                 %6: fragment.b.f64.16x8x8 = fragment_fill %4
                 %7: fragment.c.f32.16x8x8 = fragment_fill %1
                 %8: fragment.c.f32.16x8x8 = fragment_mul_add %5, %6, %7"
            ),
            "do not fit together",
        ),
        (
            format!(
                "{l} %4: f64 = convert %1
                 %5: fragment.a.f64.16x8x8 = fragment_fill %4
                 %6: fragment.b.f64.16x8x8 = fragment_fill %4
                 %7: fragment.c.f64.16x8x8 = fragment_fill %4
                 %8: fragment.c.f64.16x8x8 = fragment_mul_add %5, %6, %7
                 %9: f64x4 = fragment_extract %8, 0"
            ),
            "valid",
        ),
        (
            format!(
                "{l} %4: fragment.c.f32.16x16x16 = fragment_fill %1\n %5: fragment.c.f32.16x16x16 = add %4, %4"
            ),
            "%4 is a fragment.c.f32.16x16x16",
        ),
        // Uniform flow
        (
            format!("{l} %4: bool = lt %0, %2\n if %4 {{ barrier }}"),
            "only a part of the workgroup may come here",
        ),
        (format!("{l} %4: bool = lt %3, %2\n if %4 {{ barrier }}"), "valid"),
        (format!("{l} for %4: u32 = %3 to %2 step %2 {{ barrier }}"), "valid"),
        (format!("{l} for %4: u32 = %3 to %0 step %2 {{ barrier }}"), "only a part of the workgroup"),
        // A bound that is loaded: the same for all from x, which is never written, not from shared
        // memory.
        (format!("{l} %4: f32 = load x[%3]\n %5: bool = lt %4, %4\n if %5 {{ barrier }}"), "valid"),
        (
            format!("{l} %4: f32 = load s[%3]\n %5: bool = lt %4, %4\n if %5 {{ barrier }}"),
            "only a part of the workgroup",
        ),
        // What is carried becomes different only in the second turn.
        (
            format!(
                "{l} %8: u32 = for %4: u32 = %3 to %2 step %2 carry %5: u32 = %2 {{
                   %6: bool = lt %5, %2
                   if %6 {{ barrier }}
                   %7: u32 = add %5, %0
                   yield %7
                 }}"
            ),
            "only a part of the workgroup",
        ),
        (
            format!("{l} %4: bool = lt %0, %2\n if %4 {{ %5: f32 = reduce.max %1 }}"),
            "only a part of the workgroup",
        ),
    ];
    for (body, want) in rows {
        let got = verdict(&kernel(&body));
        assert!(got.contains(want), "{got}\nshould say: {want}\n{body}");
    }
}

#[test]
fn headers() {
    let rows = [
        ("kernel t group 0 1 1 { }", "a workgroup of [0, 1, 1]"),
        ("kernel t group 64 17 1 { }", "1 to 1024 invocations"),
        ("kernel t group 65536 65536 65536 { }", "1 to 1024 invocations"),
        ("kernel t group 48 1 1 { subgroup 32 }", "48 invocations are not full subgroups of 32"),
        ("kernel t group 48 1 1 { subgroup 24 }", "a power of two up to 128"),
        ("kernel t group 1 1 1 { param a bool }", "no agreed size"),
        ("kernel t group 1 1 1 { param a u32 buffer a f32 read }", "two things are called a"),
        ("kernel t group 1 1 1 { shared a f32 0 }", "shared memory a of 0 f32"),
        ("kernel t group 1 1 1 { shared a bool 1 }", "shared memory a of 1 bool"),
        ("kernel t group 1 1 1 { shared a f32 58112 }", "valid"),
        ("kernel t group 1 1 1 { shared a f32 58113 }", "bytes of shared memory; at most 232448"),
        ("kernel t group 1 1 1 { shared a f64 4294967295 }", "bytes of shared memory"),
        ("kernel t group 1 1 1 { %0: u32 = subgroup_lane }", "does not say how large its subgroups are"),
    ];
    for (text, want) in rows {
        let got = verdict(text);
        assert!(got.contains(want), "{got}\nshould say: {want}\n{text}");
    }
    let many: String = (0..17).map(|i| format!("param p{i} u64 ")).collect();
    assert!(verdict(&format!("kernel t group 1 1 1 {{ {many} }}")).contains("136 bytes of parameters"));
}

#[test]
fn data_that_no_text_can_say() {
    use elinvar_kernel::ir::{Builtin, Constant, Op, Scalar, Type};
    let text = "kernel t group 1 1 1 { %0: u32 = local_index }";
    let with = |change: &dyn Fn(&mut elinvar_kernel::Kernel)| {
        let mut k = parse(text).unwrap();
        change(&mut k);
        verify(&k).err().map_or("valid".to_string(), |e| e.0)
    };
    assert_eq!(with(&|_| {}), "valid");
    assert!(with(&|k| k.values.push(Type::U32)).contains("2 values are in the table, and 1 are defined"));
    assert!(with(&|k| k.name = "a b".to_string()).contains("is no name"));
    assert!(with(&|k| k.body.insts[0].op = Op::Builtin(Builtin::LocalId(3))).contains("there is no axis 3"));
    assert!(with(&|k| k.body.insts[0].op = Op::Param(0)).contains("there is no parameter 0"));
    let wide = Constant { scalar: Scalar::U32, bits: 1 << 32 };
    assert!(with(&|k| k.body.insts[0].op = Op::Const(wide)).contains("are no u32"));
}
