//! Copies, conversions, concatenation, filled and random memory.

use crate::common::{Operand, devices, same};
use crate::data::Data;
use crate::dice::{Dice, Values};
use elinvar_core::philox::Stream;
use elinvar_core::{DType, HostData, Layout, Scalar, Shape};
use elinvar_cpu::Cpu;
use elinvar_ops::array::Array;
use elinvar_ops::backend::Random;
use elinvar_ops::backend::{Compute, Memory};
use elinvar_ops::casting::{All, Halves};
use elinvar_reference::{Reference, ReferenceDevice};

#[test]
fn every_dtype_to_every_dtype() {
    for (i, from) in DType::ALL.into_iter().enumerate() {
        for (j, to) in DType::ALL.into_iter().enumerate() {
            for round in 0..4 {
                let mut dice = Dice::new(1, (i * 64 + j * 8 + round) as u64);
                let rank = dice.between(0, 4);
                let shape = dice.shape(rank, 13_000);
                let values = [Values::Wild, Values::Sparse, Values::Tame, Values::Wild][round];
                let x = Operand::draw(&mut dice, from, &shape, values);
                let want = Reference::cast::<All>(&ReferenceDevice, x.reference(), to);
                let halves = |x: DType, y: DType| x.is_storage() && matches!(y, DType::F32);
                for d in devices() {
                    let what = format!("{from} to {to}, {:?}, {d:?}", x.layout);
                    same(&Cpu::cast::<All>(&d, x.cpu(), to), &want, &what);
                    if halves(from, to) || halves(to, from) {
                        same(&Cpu::cast::<Halves>(&d, x.cpu(), to), &want, &what);
                    } else if from != to {
                        assert!(Cpu::cast::<Halves>(&d, x.cpu(), to).is_err(), "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_bit_of_a_copy_stays() {
    // Payloads of NaN, which `same` does not look at.
    let x: Vec<u32> = (0..1000).map(|i| 0x7f80_0001 + i * 37).collect();
    let x = Operand {
        data: HostData::F32(x.into_iter().map(f32::from_bits).collect()).into(),
        layout: Layout::contiguous(Shape::new(&[50, 20]).unwrap()).transpose(0, 1),
    };
    for d in devices() {
        let got = Cpu::download(&d, x.cpu()).unwrap();
        let want = Reference::download(&ReferenceDevice, x.reference()).unwrap();
        assert_eq!(got.to_le_bytes(), want.to_le_bytes());
    }
}

#[test]
fn transposes_of_all_kinds() {
    // shape in memory, order of the axes: around the edges of tiles, with axes before, between and
    // after
    let rows: [(&[usize], &[usize]); 16] = [
        (&[8, 8], &[1, 0]),
        (&[33, 17], &[1, 0]),
        (&[200, 300], &[1, 0]),
        (&[257, 129], &[1, 0]),
        (&[48, 2080], &[1, 0]),
        (&[3, 16, 5, 40], &[0, 3, 2, 1]),
        (&[3, 2000], &[1, 0]),
        (&[2000, 3], &[1, 0]),
        (&[7, 64], &[1, 0]),
        (&[5, 40, 37], &[0, 2, 1]),
        (&[5, 40, 37], &[2, 0, 1]),
        (&[5, 40, 37], &[2, 1, 0]),
        (&[5, 40, 37], &[1, 2, 0]),
        (&[4, 6, 9, 70], &[3, 1, 2, 0]),
        (&[4, 6, 9, 70], &[0, 3, 1, 2]),
        (&[2, 3, 4, 5, 33], &[4, 2, 0, 3, 1]),
    ];
    for dtype in [DType::F32, DType::F64, DType::I32, DType::BF16, DType::U8] {
        for (n, (shape, axes)) in rows.iter().enumerate() {
            let mut dice = Dice::new(2, n as u64);
            let len: usize = shape.iter().product();
            let data: Data = dice.data(dtype, len + 5, Values::Tame).into();
            let l = Layout::contiguous(Shape::new(shape).unwrap()).permute(axes);
            let moved = Layout::strided(l.shape().clone(), l.strides(), 5, len + 5).unwrap();
            let views = [moved, l.flip(0), l.flip(axes.len() - 1), l.slice(0, 1, l.shape()[0] - 1, 1)];
            for layout in views {
                let x = Operand { data: data.clone(), layout };
                let want = Reference::copy(&ReferenceDevice, x.reference());
                for d in devices() {
                    same(&Cpu::copy(&d, x.cpu()), &want, &format!("{dtype} {:?} {d:?}", x.layout));
                }
            }
        }
    }
}

#[test]
fn transposes_of_nothing() {
    // As a transpose that is copied in strips, but for an axis between that has no elements.
    let shape = Shape::new(&[20, 0, 2]).unwrap();
    let layout = Layout::strided(shape, &[1, 100, -40], 60, 200).unwrap();
    let x = Operand { data: HostData::F32(vec![1.0; 200].into()).into(), layout };
    let want = Reference::copy(&ReferenceDevice, x.reference());
    for d in devices() {
        same(&Cpu::copy(&d, x.cpu()), &want, &format!("{d:?}"));
    }
}

#[test]
fn assembled_tensors() {
    for round in 0..60 {
        let mut dice = Dice::new(3, round);
        let dtype = dice.pick(&DType::ALL);
        let rank = dice.between(1, 4);
        let shape = dice.shape(rank, 9_000);
        let whole = Layout::contiguous(Shape::new(&shape).unwrap());
        let parts: Vec<(Operand, Layout)> = (0..dice.below(4))
            .map(|_| {
                let mut place = whole.clone();
                for (axis, &size) in shape.iter().enumerate() {
                    let start = dice.below(size);
                    let len = dice.between(usize::from(start < size), size - start);
                    place = place.slice(axis, start, len, 1);
                    if dice.once_in(4) {
                        place = place.flip(axis);
                    }
                }
                (Operand::draw(&mut dice, dtype, place.shape(), Values::Wild), place)
            })
            .collect();
        let fill = dice.pick(&[Scalar::Float(0.1), Scalar::Int(-1), Scalar::Float(f64::NAN)]);
        let shape = whole.shape();
        let reference: Vec<_> = parts.iter().map(|(x, l)| (x.reference(), l.clone())).collect();
        let want = Reference::assemble(&ReferenceDevice, fill, dtype, shape, &reference);
        for d in devices() {
            let cpu: Vec<_> = parts.iter().map(|(x, l)| (x.cpu(), l.clone())).collect();
            same(
                &Cpu::assemble(&d, fill, dtype, shape, &cpu),
                &want,
                &format!("round {round} {dtype} {d:?}"),
            );
            // The same in place, one after the other.
            let mut y = Cpu::fill(&d, fill, dtype, shape.numel()).unwrap();
            for (x, place) in &cpu {
                Cpu::write(&d, &mut y, place, *x).unwrap();
            }
            same(&Ok(y), &want, &format!("round {round} {dtype} {d:?}, in place"));
        }
    }
    // A part of another type is refused, as by the reference.
    let x = Operand {
        data: HostData::F32([1.0].into()).into(),
        layout: Layout::contiguous(Shape::new(&[1]).unwrap()),
    };
    let part = (x.cpu(), x.layout.clone());
    for d in devices() {
        let got =
            Cpu::assemble(&d, Scalar::Int(0), DType::I32, x.layout.shape(), std::slice::from_ref(&part));
        assert_eq!(got.unwrap_err().kind(), elinvar_core::ErrorKind::DTypeMismatch);
        let mut y = Cpu::fill(&d, Scalar::Int(0), DType::I32, 1).unwrap();
        let got = Cpu::write(&d, &mut y, &part.1, part.0);
        assert_eq!(got.unwrap_err().kind(), elinvar_core::ErrorKind::DTypeMismatch);
    }
}

#[test]
fn filled_memory() {
    let values =
        [Scalar::Float(0.1), Scalar::Float(-0.0), Scalar::Float(1e300), Scalar::Int(300), Scalar::Bool(true)];
    for dtype in DType::ALL {
        for value in values {
            for len in [0, 1, 513, 20_001] {
                let want = Reference::fill(&ReferenceDevice, value, dtype, len);
                for d in devices() {
                    same(&Cpu::fill(&d, value, dtype, len), &want, &format!("{value} as {dtype}"));
                }
            }
        }
    }
    for d in devices() {
        let huge = Cpu::fill(&d, Scalar::Int(0), DType::F64, usize::MAX / 32).unwrap_err();
        assert_eq!(huge.kind(), elinvar_core::ErrorKind::OutOfMemory);
    }
}

#[test]
fn random_numbers() {
    let floats = DType::FLOATS;
    let mut rows: Vec<(Random, DType)> = vec![];
    for dtype in DType::ALL {
        rows.extend(
            [-1.0, 0.0, 1e-300, 0.3, 0.5 - 2f64.powi(-26), 1.0, 1e300, f64::NAN]
                .map(|p| (Random::Bernoulli { p }, dtype)),
        );
        rows.push((Random::Int { low: -7, high: 1000 }, dtype));
        // Refused for integers.
        rows.push((Random::Uniform { low: -1.5, high: 2.25 }, dtype));
        rows.push((Random::Normal { mean: 0.5, std: 3.0 }, dtype));
    }
    rows.extend(floats.map(|dtype| (Random::Uniform { low: 0.1, high: 1e30 }, dtype)));
    rows.extend([DType::I64, DType::U8].map(|dtype| (Random::Int { low: i64::MIN, high: i64::MAX }, dtype)));
    for (r, dtype) in rows {
        for (len, seed, stream) in
            [(0, 1, 1), (1, 2, 3), (511, u64::MAX, 5), (513, 7, 1 << 40), (30_003, 1 << 33, 9)]
        {
            let s = Stream { seed, stream };
            let want = Reference::random(&ReferenceDevice, r, s, None, dtype, len);
            for d in devices() {
                let none = Stream { seed: 0, stream: 0 };
                let at = Array::<Cpu>::from_vec(&d, s.to_words().to_vec(), &[4]).unwrap();
                for got in [
                    Cpu::random(&d, r, s, None, dtype, len),
                    Cpu::random(&d, r, none, Some(at.view()), dtype, len),
                ] {
                    match (&got, &want) {
                        (Err(got), Err(want)) => assert_eq!(got.kind(), want.kind()),
                        _ => same(&got, &want, &format!("{r:?} {dtype} {len} {d:?}")),
                    }
                }
            }
        }
    }
}
