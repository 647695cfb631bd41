//! SPIR-V: what the validator says, what is refused, and what a module holds.

use crate::random::{Dice, kernel};
use crate::spirv_val::validate;
use crate::vulkan_device::FULL;
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::spirv::{Device, emit};
use elinvar_kernel::text::parse;

#[test]
fn the_validator_has_nothing_to_say() {
    let bare = Device {
        keeps_zeros: false,
        keeps_nan: [false; 2],
        rounds_to_even: [false; 3],
        keeps_subnormals: [false; 2],
        ..FULL
    };
    let mut kernels: Vec<(Device, Kernel)> = Vec::new();
    kernels.extend((0..20).map(|seed| (bare, kernel(&mut Dice::new(seed)))));
    let lanes = "kernel lanes group 64 1 1 { subgroup 32 buffer z u32 read_write param n i32 shared s i32 64
        %0: u32 = local_index %1: u32 = subgroup_lane %2: u32 = reduce.add %0 %3: u32 = shuffle %2, %1
        %4: u32 = broadcast %3, 31 %5: u32 = subgroup_id %6: u32 = atomic.max z[%5], %4
        %7: i32 = param n store s[%0] = %7 barrier %8: i32 = load s[%1] %9: i32 = atomic.exchange s[%5], %8
        %10: bool = lt %8, %9 %11: bool = reduce.and %10 if %11 { barrier } }";
    // The last barrier is in a branch that differs between subgroups.
    let k = parse(&lanes.replace("if %11 { barrier }", "")).expect("it can be read");
    kernels.push((FULL, k));
    let extremes = "kernel extremes group 64 1 1 { subgroup 16 buffer x f32 read buffer y f32 write
        %0: u32 = local_index %1: f32 = load x[%0] %2: f32 = reduce.max %1 %3: f32 = reduce.min %1
        %4: f32 = add %2, %3 store y[%0] = %4 }";
    kernels.push((FULL, parse(extremes).expect("it can be read")));
    let choice = "kernel choice group 1 1 1 { buffer x f64 read_write %0: u32 = const 0 %1: f64 = load x[%0]
        %2: f64 = const 0.0 %3: bool = lt %1, %2 %4: f64 = const -1.0 %5: f64 = select %3, %2, %4 store x[%0] = %5 }";
    kernels.push((FULL, parse(choice).expect("it can be read")));
    for (device, k) in &kernels {
        let words = emit(k, device).unwrap_or_else(|e| panic!("{e}"));
        match validate(&k.name, &words) {
            Some(said) => assert_eq!(said, "", "{}:\n{}", k.name, elinvar_kernel::text::print(k)),
            None => eprintln!("spirv-val is not installed; {} was emitted and not validated", k.name),
        }
    }
}

#[test]
fn what_a_device_lacks_is_said() {
    let one = |body: &str, device: Device| {
        let text = format!(
            "kernel t group 32 1 1 {{ subgroup 32 buffer x f32 read buffer h f16 read buffer d f64 read
             %0: u32 = group_id.x %1: f32 = load x[%0] %2: f64 = load d[%0] {body} }}"
        );
        let y = text.replace("buffer h", "buffer y f32 write buffer z f64 write buffer h");
        emit(&parse(&y).unwrap_or_else(|e| panic!("{e}")), &device)
            .err()
            .map_or("emitted".to_string(), |e| e.0)
    };
    let rows = [
        ("%3: f32 = sqrt %1 store y[%0] = %3", FULL, "emitted"),
        ("%3: f32 = sqrt %1 store y[%0] = %3", Device { square_root: [false; 2], ..FULL }, "emitted"),
        ("%3: f32 = div %1, %1 store y[%0] = %3", Device { division: [false; 2], ..FULL }, "emitted"),
        ("%3: f32 = fma %1, %1, %1 store y[%0] = %3", Device { fused: false, ..FULL }, "emitted"),
        ("%3: f64 = sqrt %2 store z[%0] = %3", Device { square_root: [false; 2], ..FULL }, "emitted"),
        ("%3: f64 = div %2, %2 store z[%0] = %3", Device { division: [false; 2], ..FULL }, "emitted"),
        ("%3: f64 = fma %2, %2, %2 store z[%0] = %3", Device { fused: false, ..FULL }, "emitted"),
        (
            "%3: fragment.c.f32.16x16x16 = fragment_fill %1 fragment_store row_major y[%0], %0 = %3",
            FULL,
            "emitted",
        ),
        (
            "%3: fragment.a.bf16.16x16x16 = fragment_fill %1 %4: fragment.b.bf16.16x16x16 = fragment_fill %1
             %5: fragment.c.f32.16x16x16 = fragment_fill %1 %6: fragment.c.f32.16x16x16 = fragment_mul_add %3, %4, %5
             fragment_store row_major y[%0], %0 = %6",
            FULL,
            "fragments of bf16",
        ),
        ("%3: f32 = reduce.max %1 store y[%0] = %3", FULL, "emitted"),
        ("%3: f32 = add %0, %1", FULL, "%0 is u32, and %1 is f32"),
    ];
    for (body, device, want) in rows {
        let got = one(body, device);
        assert!(got.contains(want), "{got}\nshould say: {want}");
    }
}
