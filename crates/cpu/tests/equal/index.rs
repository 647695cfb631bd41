//! Gather, scatter, nonzero.

use crate::common::{Operand, devices, same};
use crate::dice::{Dice, Values};
use elinvar_core::{DType, HostData, Layout, Shape};
use elinvar_cpu::Cpu;
use elinvar_ops::backend::Compute;
use elinvar_ops::backend::Scatter;
use elinvar_reference::{Reference, ReferenceDevice};

/// A tensor and an index along an axis; half of the indices are the same along the axes after it.
fn draw(dice: &mut Dice, dtype: DType, round: u64) -> (Operand, usize, Operand) {
    let rank = dice.between(1, 4);
    let mut shape = dice.shape(rank, 3_000);
    let axis = dice.below(rank);
    if round.is_multiple_of(3) {
        shape[rank - 1] = dice.pick(&[16, 33, 300]);
    }
    let x = Operand::draw(dice, dtype, &shape, Values::Wild);
    let mut wide = shape.clone();
    wide[axis] = if shape[axis] == 0 && dice.once_in(2) { 0 } else { dice.between(0, 40) };
    let mut stored = wide.clone();
    let repeated = dice.once_in(2);
    for n in &mut stored[axis + 1..] {
        if repeated {
            *n = (*n).min(1);
        }
    }
    let (layout, len) = dice.layout(&stored);
    let mut index: Vec<i64> = (0..len).map(|_| dice.below(shape[axis]) as i64).collect();
    if dice.once_in(8)
        && let Some(at) = layout.positions().last()
    {
        index[at] = dice.pick(&[-1, shape[axis] as i64, i64::MIN, i64::MAX]);
    }
    let layout = layout.broadcast_to(&Shape::new(&wide).unwrap(), "draw").unwrap();
    (x, axis, Operand { data: HostData::I64(index.into()).into(), layout })
}

#[test]
fn gathers_and_scatters() {
    let mut refused = 0;
    for round in 0..100 {
        let mut dice = Dice::new(4, round);
        let dtype = dice.pick(&DType::ALL);
        let (x, axis, index) = draw(&mut dice, dtype, round);
        let src = Operand::draw(&mut dice, dtype, index.layout.shape(), Values::Wild);
        let gathered = Reference::gather(&ReferenceDevice, x.reference(), axis, index.reference());
        refused += usize::from(gathered.is_err());
        let scattered = [Scatter::Set, Scatter::Add].map(|how| {
            (
                how,
                Reference::scatter(
                    &ReferenceDevice,
                    how,
                    x.reference(),
                    axis,
                    index.reference(),
                    src.reference(),
                ),
            )
        });
        for d in devices() {
            let what = format!("round {round} {dtype} axis {axis} {:?} {:?} {d:?}", x.layout, index.layout);
            same(&Cpu::gather(&d, x.cpu(), axis, index.cpu()), &gathered, &what);
            for (how, want) in &scattered {
                let got = Cpu::scatter(&d, *how, x.cpu(), axis, index.cpu(), src.cpu());
                same(&got, want, &format!("{how:?} {what}"));
            }
        }
    }
    assert!((4..50).contains(&refused), "{refused} of 100 indices are out of range");
}

#[test]
fn many_rows_on_many_threads() {
    // An embedding of 50 words: each row is hit about a hundred times, and sums of f32 tell the
    // order.
    let mut dice = Dice::new(5, 0);
    let (count, wide) = (5_000, 64);
    let table = Layout::contiguous(Shape::new(&[50, wide]).unwrap());
    let rows = Layout::contiguous(Shape::new(&[count, wide]).unwrap());
    let index = Operand {
        data: HostData::I64((0..count).map(|_| dice.below(50) as i64).collect()).into(),
        layout: Layout::contiguous(Shape::new(&[count, 1]).unwrap()).broadcast_to(rows.shape(), "t").unwrap(),
    };
    for dtype in [DType::F32, DType::BF16, DType::I32] {
        let x = Operand { data: dice.data(dtype, 50 * wide, Values::Tame).into(), layout: table.clone() };
        let src = Operand { data: dice.data(dtype, count * wide, Values::Tame).into(), layout: rows.clone() };
        let gathered = Reference::gather(&ReferenceDevice, x.reference(), 0, index.reference());
        let added = Reference::scatter(
            &ReferenceDevice,
            Scatter::Add,
            x.reference(),
            0,
            index.reference(),
            src.reference(),
        );
        for d in devices() {
            same(&Cpu::gather(&d, x.cpu(), 0, index.cpu()), &gathered, "rows");
            same(&Cpu::scatter(&d, Scatter::Add, x.cpu(), 0, index.cpu(), src.cpu()), &added, "sums");
        }
    }
}

#[test]
fn rows_with_indices_of_their_own() {
    // The gradient of a max pool: planes in one row each, indices that repeat, a base of zeros or
    // of numbers.
    let mut dice = Dice::new(7, 0);
    for (planes, size, count) in [(1, 1, 1), (7, 100, 31), (3, 5000, 9000), (40, 900, 225)] {
        for (dtype, missing) in [(DType::F32, false), (DType::F64, false), (DType::F32, true)] {
            let shape = |n: usize| Layout::contiguous(Shape::new(&[planes, n]).unwrap());
            let mut at: Vec<i64> = (0..planes * count).map(|_| dice.below(size) as i64).collect();
            if missing {
                at[planes * count - 1] = dice.pick(&[-1, size as i64, i64::MIN]);
            }
            let index = Operand { data: HostData::I64(at.into()).into(), layout: shape(count) };
            let src =
                Operand { data: dice.data(dtype, planes * count, Values::Wild).into(), layout: shape(count) };
            let one = Layout::contiguous(Shape::new(&[1]).unwrap()).broadcast_to(shape(size).shape(), "t");
            let bases = [
                Operand { data: dice.data(dtype, planes * size, Values::Wild).into(), layout: shape(size) },
                Operand { data: dice.data(dtype, 1, Values::Tame).into(), layout: one.unwrap() },
            ];
            for base in bases {
                let want = Reference::gather(&ReferenceDevice, base.reference(), 1, index.reference());
                for d in devices() {
                    let got = Cpu::gather(&d, base.cpu(), 1, index.cpu());
                    same(&got, &want, &format!("{planes} {size} {count} {dtype} {d:?}"));
                }
                for how in [Scatter::Add, Scatter::Set] {
                    let want = Reference::scatter(
                        &ReferenceDevice,
                        how,
                        base.reference(),
                        1,
                        index.reference(),
                        src.reference(),
                    );
                    assert_eq!(want.is_err(), missing);
                    for d in devices() {
                        let got = Cpu::scatter(&d, how, base.cpu(), 1, index.cpu(), src.cpu());
                        same(&got, &want, &format!("{how:?} {planes} {size} {count} {dtype} {d:?}"));
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_not_zero() {
    for round in 0..60 {
        let mut dice = Dice::new(6, round);
        let dtype = dice.pick(&DType::ALL);
        let rank = dice.between(0, 4);
        let shape = dice.shape(rank, 13_000);
        let x = Operand::draw(&mut dice, dtype, &shape, Values::Few);
        let want = Reference::nonzero(&ReferenceDevice, x.reference()).unwrap();
        for d in devices() {
            let got = Cpu::nonzero(&d, x.cpu()).unwrap();
            assert_eq!((got.0.data().unwrap(), got.1), (&want.0, want.1), "round {round} {dtype} {d:?}");
        }
    }
}

#[test]
fn columns_with_indices_of_their_own() {
    // Stripes of a target, the last one narrower; a base of zeros or of numbers; some sums of
    // several sources.
    let mut dice = Dice::new(8, 0);
    for (dtype, [size, inner, count], missing) in [
        (DType::F32, [3000, 50, 40], false),
        (DType::F64, [900, 70, 1000], false),
        (DType::BF16, [5, 33, 60], false),
        (DType::I32, [2000, 90, 30], true),
    ] {
        let layout = |n: usize| Layout::contiguous(Shape::new(&[n, inner]).unwrap());
        let mut at: Vec<i64> = (0..count * inner).map(|_| dice.below(size.min(100)) as i64).collect();
        if missing {
            at[count * inner - 1] = dice.pick(&[-1, size as i64, i64::MAX]);
        }
        let index = Operand { data: HostData::I64(at.into()).into(), layout: layout(count) };
        let src =
            Operand { data: dice.data(dtype, count * inner, Values::Wild).into(), layout: layout(count) };
        let one = Layout::contiguous(Shape::new(&[1]).unwrap()).broadcast_to(layout(size).shape(), "t");
        let bases = [
            Operand { data: dice.data(dtype, size * inner, Values::Wild).into(), layout: layout(size) },
            Operand { data: dice.data(dtype, 1, Values::Tame).into(), layout: one.unwrap() },
        ];
        for base in bases {
            let want = Reference::gather(&ReferenceDevice, base.reference(), 0, index.reference());
            for d in devices() {
                let got = Cpu::gather(&d, base.cpu(), 0, index.cpu());
                same(&got, &want, &format!("{size} {inner} {count} {dtype} {d:?}"));
            }
            for how in [Scatter::Add, Scatter::Set] {
                let [x, i, s] = [&base, &index, &src].map(Operand::reference);
                let want = Reference::scatter(&ReferenceDevice, how, x, 0, i, s);
                assert_eq!(want.is_err(), missing);
                for d in devices() {
                    let got = Cpu::scatter(&d, how, base.cpu(), 0, index.cpu(), src.cpu());
                    same(&got, &want, &format!("{how:?} {size} {inner} {count} {dtype} {d:?}"));
                }
            }
        }
    }
}

#[test]
fn one_index_for_all_rows() {
    // Mirrored at its edges, shifted, enlarged, and one by one; a row that begins within the
    // memory. What is read so is written and added so, too, to numbers and to zeros.
    let mut dice = Dice::new(10, 0);
    for (rows, size, at) in [
        (70, 32, (0..34).map(|i: i64| (i - 1).abs().min(62 - (i - 1).abs())).collect::<Vec<_>>()),
        (9, 1000, (500..1000).chain(0..500).collect()),
        (70, 33, (0..66).map(|i: i64| i / 2).collect()),
        (70, 33, (0..100).map(|i: i64| (i - 1).max(0) / 4).collect()),
        (3, 1, vec![0; 70]),
        (5, 7, vec![6, 5, 4, 3, 2, 1, 0]),
        (5, 7, vec![0, 1, 2, 3, 4, 5, 6, 7]),
        (5, 7, vec![0, 1, 2, 3, 4, 5, -1]),
    ] {
        for dtype in [DType::F32, DType::BF16, DType::Bool] {
            let whole = Layout::contiguous(Shape::new(&[rows + 1, size]).unwrap());
            let data = dice.data(dtype, (rows + 1) * size, Values::Wild);
            let x = Operand { data: data.into(), layout: whole.slice(0, 1, rows, 1) };
            let wide = Shape::new(&[rows, at.len()]).unwrap();
            let one = Layout::contiguous(Shape::new(&[at.len()]).unwrap());
            let layout = one.broadcast_to(&wide, "test").unwrap();
            let index = Operand { data: HostData::I64(at.clone().into()).into(), layout };
            let want = Reference::gather(&ReferenceDevice, x.reference(), 1, index.reference());
            for d in devices() {
                let got = Cpu::gather(&d, x.cpu(), 1, index.cpu());
                same(&got, &want, &format!("{rows} {size} {at:?} {dtype} {d:?}"));
            }
            let zero = Operand {
                data: dice.data(dtype, 1, Values::Tame).into(),
                layout: Layout::contiguous(Shape::new(&[1, 1]).unwrap())
                    .broadcast_to(x.layout.shape(), "test")
                    .unwrap(),
            };
            let src = Operand::draw(&mut dice, dtype, &wide, Values::Wild);
            for (base, how) in [(&x, Scatter::Add), (&zero, Scatter::Add), (&x, Scatter::Set)] {
                let [base_, i, s] = [base, &index, &src].map(Operand::reference);
                let want = Reference::scatter(&ReferenceDevice, how, base_, 1, i, s);
                for d in devices() {
                    let got = Cpu::scatter(&d, how, base.cpu(), 1, index.cpu(), src.cpu());
                    same(&got, &want, &format!("{how:?} {rows} {size} {at:?} {dtype} {d:?}"));
                }
            }
        }
    }
}

#[test]
fn picks_of_planes_that_are_put_off() {
    // Rows or columns that all planes share, of planes that begin within the memory: enlarged,
    // mirrored, in any order, and out of range.
    let mut dice = Dice::new(11, 0);
    let ways: [fn(i64, i64) -> i64; 5] = [
        |i, n| i * n / 40,
        |i, n| n - 1 - i % n,
        |i, n| (i * 17 + 3) % n,
        |i, n| (i - 1).clamp(0, n - 1),
        |i, n| i + n - 39,
    ];
    for (dims, axis) in
        [([3, 20, 33], 2), ([3, 33, 20], 1), ([2, 30, 40], 2), ([90, 1, 16], 2), ([90, 15, 1], 1)]
    {
        for (number, way) in ways.into_iter().enumerate() {
            let n = dims[axis];
            let at: Vec<i64> = (0..40).map(|i| way(i, n as i64)).collect();
            for dtype in [DType::F32, DType::F16, DType::I64, DType::Bool] {
                let mut whole = dims;
                whole[0] += 1;
                let layout = Layout::contiguous(Shape::new(&whole).unwrap());
                let data = dice.data(dtype, layout.shape().numel(), Values::Wild);
                let x = Operand { data: data.into(), layout: layout.slice(0, 1, dims[0], 1) };
                let (mut wide, mut one) = (dims, [1; 3]);
                (wide[axis], one[axis]) = (40, 40);
                let layout = Layout::contiguous(Shape::new(&one).unwrap());
                let layout = layout.broadcast_to(&Shape::new(&wide).unwrap(), "test").unwrap();
                let index = Operand { data: HostData::I64(at.clone().into()).into(), layout };
                let want = Reference::gather(&ReferenceDevice, x.reference(), axis, index.reference());
                assert_eq!(want.is_err(), number == 4, "{n}");
                for d in devices() {
                    let d = d.fuse_from(0);
                    let got = Cpu::gather(&d, x.cpu(), axis, index.cpu());
                    same(&got, &want, &format!("{dims:?} along {axis}, way {number}, {dtype} {d:?}"));
                }
            }
        }
    }
}
