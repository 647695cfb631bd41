//! Attention and its gradient against the reference, by bits.

use super::common::*;
use crate::data::Data;
use elinvar_core::{DType, HostData, Layout, Shape};
use elinvar_cpu::Cpu;
use elinvar_ops::backend::Attention;
use elinvar_ops::backend::Compute;
use elinvar_reference::{Reference, ReferenceDevice};

/// Sizes b, h, j, l, s, d, v; causal; the mask: none, truth values, numbers; and the type.
struct Case {
    sizes: [usize; 7],
    causal: bool,
    mask: Option<DType>,
    dtype: DType,
    wild: bool,
    /// Operands in any memory, not only contiguous.
    strided: bool,
}

fn check(dice: &mut Dice, c: &Case) {
    let [b, h, j, l, s, d, v] = c.sizes;
    let a = Attention::exact(0.3, c.causal);
    let mut operand = |dims: &[usize], dtype| {
        if c.strided {
            dice.operand(dtype, dims, c.wild)
        } else {
            let shape = Shape::new(dims).unwrap();
            (dice.data(dtype, shape.numel(), c.wild), Layout::contiguous(shape))
        }
    };
    let q = operand(&[b, h, l, d], c.dtype);
    let k = operand(&[b, j, s, d], c.dtype);
    let x = operand(&[b, j, s, v], c.dtype);
    let g = operand(&[b, h, l, v], c.dtype);
    let mut mask = c.mask.map(|m| operand(&[b, h, l, s], m));
    if let Some((data, _)) = &mut mask
        && let HostData::Bool(mut keep) = HostData::clone(data)
    {
        // Some queries see nothing at all, and whole blocks are hidden.
        for (i, keep) in keep.iter_mut().enumerate() {
            *keep = *keep && i % 7 != 0 && (i / s.max(1)) % 5 != 0 && (i % s.max(1)) / 64 != 1;
        }
        *data = HostData::Bool(keep).into();
    }
    let what = |d: &elinvar_cpu::CpuDevice| {
        format!("{:?} causal {} mask {:?} {} wild {}: {d:?}", c.sizes, c.causal, c.mask, c.dtype, c.wild)
    };
    let wanted = Reference::attention(
        &ReferenceDevice,
        &a,
        reference(&q),
        reference(&k),
        reference(&x),
        mask.as_ref().map(reference),
    )
    .unwrap();
    let whole = |dims: &[usize], data: &HostData| {
        (Data::from(data.clone()), Layout::contiguous(Shape::new(dims).unwrap()))
    };
    let (o, lse) = (whole(&[b, h, l, v], &wanted.0), whole(&[b, h, l], &wanted.1));
    let slopes = Reference::attention_grad(
        &ReferenceDevice,
        &a,
        reference(&q),
        reference(&k),
        reference(&x),
        mask.as_ref().map(reference),
        reference(&o),
        reference(&lse),
        reference(&g),
    )
    .unwrap();
    for device in devices() {
        let got = Cpu::attention(&device, &a, cpu(&q), cpu(&k), cpu(&x), mask.as_ref().map(cpu)).unwrap();
        same(&format!("o of {}", what(&device)), Ok(got.0), Ok(wanted.0.clone()));
        same(&format!("lse of {}", what(&device)), Ok(got.1), Ok(wanted.1.clone()));
        let got = Cpu::attention_grad(
            &device,
            &a,
            cpu(&q),
            cpu(&k),
            cpu(&x),
            mask.as_ref().map(cpu),
            cpu(&o),
            cpu(&lse),
            cpu(&g),
        )
        .unwrap();
        same(&format!("dq of {}", what(&device)), Ok(got.0), Ok(slopes.0.clone()));
        same(&format!("dk of {}", what(&device)), Ok(got.1), Ok(slopes.1.clone()));
        same(&format!("dv of {}", what(&device)), Ok(got.2), Ok(slopes.2.clone()));
    }
}

#[test]
fn queries_and_keys_around_a_block() {
    let mut dice = Dice::new(7);
    for l in [1, 3, 63, 64, 65, 129] {
        for s in [1, 63, 64, 65, 129] {
            for causal in [false, true] {
                let d = dice.pick(&[1, 8, 16, 17, 33]);
                let v = dice.pick(&[1, 8, 16, 20]);
                let mask = dice.pick(&[None, Some(DType::Bool), Some(DType::F32)]);
                let (wild, strided) = (dice.below(4) == 0, dice.below(3) == 0);
                check(
                    &mut dice,
                    &Case { sizes: [1, 2, 1, l, s, d, v], causal, mask, dtype: DType::F32, wild, strided },
                );
            }
        }
    }
}

#[test]
fn heads_types_and_sizes() {
    let mut dice = Dice::new(8);
    let rows: [([usize; 7], bool, Option<DType>, DType); 12] = [
        ([2, 4, 2, 70, 70, 8, 8], true, None, DType::F64),
        ([2, 4, 4, 10, 80, 64, 64], false, Some(DType::Bool), DType::F64),
        ([1, 3, 1, 70, 66, 32, 16], true, Some(DType::F16), DType::F16),
        ([1, 2, 2, 20, 100, 128, 128], false, Some(DType::Bool), DType::BF16),
        ([1, 1, 1, 5, 70, 513, 3], false, None, DType::F32), // a second chunk of features
        ([1, 1, 1, 5, 70, 3, 1030], true, None, DType::F32),
        ([1, 1, 1, 3, 700, 4, 4], false, None, DType::F32), // a second chunk of keys
        ([1, 3, 1, 400, 20, 4, 4], false, None, DType::F32), // chunks of queries end inside of a tile
        ([1, 3, 1, 390, 130, 4, 4], true, None, DType::F32),
        ([1, 2, 1, 2, 0, 4, 3], false, None, DType::F32), // no keys
        ([1, 2, 1, 0, 2, 4, 3], false, None, DType::F32), // no queries
        ([1, 1, 1, 2, 3, 0, 2], false, None, DType::F32), // no numbers in a query
    ];
    for (sizes, causal, mask, dtype) in rows {
        for wild in [false, true] {
            check(&mut dice, &Case { sizes, causal, mask, dtype, wild, strided: false });
        }
    }
}
