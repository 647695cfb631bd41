//! In-place updates: the reference's bits, and no other tensor changes.

use crate::common::{Operand, devices, same};
use crate::data::Numbers;
use crate::dice::{Dice, EDGES, Values};
use elinvar_core::{DType, ErrorKind, HostData, Layout, Shape};
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::lane::Lane;
use elinvar_ops::update::{Part, Update, update};
use elinvar_ops::{Array, Backend};
use elinvar_reference::{Reference, ReferenceDevice};

/// As many numbers as the largest optimiser has. Each result reads all old numbers, so that one
/// that is written too early shows.
#[derive(Clone, Copy, Debug)]
struct Mix;

impl Update<4, 3> for Mix {
    const NAME: &'static str = "mix";
    #[inline(always)]
    fn lane<L: Lane>(&self, [a, b, c, d]: [L; 4], [g, s, t]: [L; 3]) -> [L; 4] {
        let all = (a + b) + (c + d);
        [s.fma(g, a), all * t, (g * g + all * all).sqrt() / s, a.max(b) - c.min(d)]
    }
}
elinvar_ops::compile_update! { 4 3 Mix; }

/// What a part is made of: four that change, then three that are read.
type Drawn = [Operand; 7];

fn array<B: Backend<Buffer: From<HostData> + Numbers>>(d: &B::Device, x: &Operand) -> Array<B> {
    let all = Shape::new(&[x.data.len()]).unwrap();
    Array::new(d, HostData::clone(&x.data).into(), all, x.data.dtype()).with_layout(x.layout.clone())
}

/// A part whose numbers are as an optimiser has them: scalars, a gradient that may be strided, and
/// what changes either contiguous or anyhow.
fn draw(dice: &mut Dice, dtypes: [DType; 4], shape: &[usize], anyhow: bool) -> Drawn {
    let wide = dtypes[0].compute();
    let plain = Layout::contiguous(Shape::new(shape).unwrap());
    let n = plain.shape().numel();
    std::array::from_fn(|i| match i {
        0..4 if anyhow => Operand::draw(dice, dtypes[i], shape, Values::Sparse),
        0..4 => Operand { data: dice.data(dtypes[i], n, Values::Sparse).into(), layout: plain.clone() },
        4 => Operand::draw(dice, dtypes[0], shape, Values::Sparse),
        _ => Operand {
            data: dice.data(wide, 1, Values::Tame).into(),
            layout: Layout::contiguous(Shape::scalar()),
        },
    })
}

/// What the update makes of all parts, and that others who hold the memory keep what they had.
fn run<B: Backend<Buffer: From<HostData> + Numbers>>(
    d: &B::Device,
    drawn: &[Drawn],
    shared: bool,
) -> Vec<HostData> {
    let mut all: Vec<[Array<B>; 7]> = drawn.iter().map(|x| x.each_ref().map(|x| array::<B>(d, x))).collect();
    let held: Vec<Array<B>> = if shared { all.iter().flatten().cloned().collect() } else { vec![] };
    let mut parts: Vec<_> =
        all.iter_mut().map(|[a, b, c, e, g, s, t]| Part::new([a, b, c, e], [&*g, s, t])).collect();
    update(&Mix, &mut parts).unwrap();
    for (held, x) in held.iter().zip(drawn.iter().flatten()) {
        same(
            &Ok(held.buffer().numbers().clone()),
            &Ok(HostData::clone(&x.data)),
            "memory with a second handle",
        );
    }
    let host = |x: &Array<B>| x.to_host().unwrap().into_data();
    all.iter().flat_map(|x| x[..4].iter().map(host)).collect()
}

fn compare(drawn: &[Drawn], devices: &[CpuDevice], what: &str) {
    for shared in [false, true] {
        let want = run::<Reference>(&ReferenceDevice, drawn, shared);
        for d in devices {
            for (i, (got, want)) in run::<Cpu>(d, drawn, shared).into_iter().zip(&want).enumerate() {
                let what = format!("{what}, shared {shared}, {d:?}: result {} of part {}", i % 4, i / 4);
                same(&Ok(got), &Ok(want.clone()), &what);
            }
        }
    }
}

#[test]
fn updates_of_every_size_and_type_are_the_references() {
    // What is of 16 bits has its states in f32.
    let kinds = DType::FLOATS.map(|d| [d, d.compute(), d.compute(), d]);
    for (i, kind) in kinds.into_iter().enumerate() {
        let mut dice = Dice::new(21, i as u64);
        let flat = EDGES.iter().filter(|n| **n < 2100).map(|n| vec![*n]);
        let shapes: Vec<_> = flat.chain([vec![], vec![33, 17], vec![2, 0, 3], vec![5, 1, 130]]).collect();
        let mut drawn: Vec<_> = shapes.iter().map(|s| draw(&mut dice, kind, s, false)).collect();
        drawn.extend(shapes[5..].iter().map(|s| draw(&mut dice, kind, s, true)));
        compare(&drawn, &devices(), &format!("{kind:?}"));
    }
    // All types in one call.
    let mut dice = Dice::new(22, 0);
    let drawn: Vec<_> = kinds.iter().map(|k| draw(&mut dice, *k, &[40, 30], false)).collect();
    compare(&drawn, &devices(), "all");
}

#[test]
fn large_and_small_tensors_share_the_threads() {
    let mut dice = Dice::new(23, 0);
    // Around the edge of a piece; together far above what is worth waking threads for.
    let sizes = [16383, 16384, 16385, 60_000, 7, 1, 0, 5, 31_000, 3];
    let drawn: Vec<_> = sizes.iter().map(|n| draw(&mut dice, [DType::F32; 4], &[*n], false)).collect();
    let devices = [1, 2, 3].map(|threads| CpuDevice::new(Isa::best(), threads).unwrap());
    compare(&drawn, &devices, "large and small");
}

#[test]
fn memory_with_a_single_handle_is_updated_in_place() {
    let d = CpuDevice::new(Isa::best(), 2).unwrap();
    let place = |x: &Array<Cpu>| (std::ptr::from_ref(x.buffer()).addr(), first(x));
    fn first(x: &Array<Cpu>) -> usize {
        elinvar_core::each_data!(x.buffer().numbers(), v => v.as_ptr().addr())
    }
    let new = |v: f32| Array::<Cpu>::from_vec(&d, vec![v; 600], &[600]).unwrap();
    let mut x = [1.0, 2.0, 3.0, 4.0].map(new);
    let other = x[1].clone();
    let before = x.each_ref().map(place);
    let (g, s) = (new(0.5), Array::from_vec(&d, vec![0.25f32], &[]).unwrap());
    let [a, b, c, e] = &mut x;
    update(&Mix, &mut [Part::new([a, b, c, e], [&g, &s, &s])]).unwrap();
    let after = x.each_ref().map(place);
    assert_eq!([0, 2, 3].map(|i| after[i]), [0, 2, 3].map(|i| before[i]));
    assert!(after[1] != before[1] && place(&other) == before[1]);
    assert_eq!(other.to_host().unwrap().as_slice::<f32>().unwrap(), [2.0; 600]);
    assert_eq!(x[1].to_host().unwrap().as_slice::<f32>().unwrap(), [2.5; 600]);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_changes() {
    let d = CpuDevice::new(Isa::best(), 1).unwrap();
    let new = |n: usize| Array::<Cpu>::from_vec(&d, vec![1.0f32; n], &[n]).unwrap();
    let (long, wide, whole) = (
        new(3),
        Array::from_vec(&d, vec![1.0f64; 2], &[2]).unwrap(),
        Array::from_vec(&d, vec![1i64; 2], &[2]).unwrap(),
    );
    // What changes, what is read, and what is wrong with it.
    let rows = [
        (new(2), long.clone(), ErrorKind::ShapeMismatch),
        (long, new(1), ErrorKind::ShapeMismatch),
        (new(2), wide.clone(), ErrorKind::DTypeMismatch),
        (wide, new(2), ErrorKind::DTypeMismatch),
        (whole.clone(), new(2), ErrorKind::DTypeMismatch),
        (new(2), whole, ErrorKind::DTypeMismatch),
    ];
    for (mut last, read, kind) in rows {
        let mut fine: [Array<Cpu>; 4] = std::array::from_fn(|_| new(2));
        let mut x: [Array<Cpu>; 3] = std::array::from_fn(|_| new(2));
        let [a, b, c, e] = &mut fine;
        let [f, g, h] = &mut x;
        let s = new(1);
        let mut parts =
            [Part::new([a, b, c, e], [&s, &s, &s]), Part::new([f, g, h, &mut last], [&read, &s, &s])];
        let e = update(&Mix, &mut parts).unwrap_err();
        assert_eq!(e.kind(), kind, "{e}");
        assert!(e.message().starts_with("mix: "), "{e}");
        for x in &fine {
            assert_eq!(x.to_host().unwrap().as_slice::<f32>().unwrap(), [1.0; 2]);
        }
    }
}
