//! Fourier transforms in one pass: the bits of the composed form, which the reference runs.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "equal/common.rs"]
mod common;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "common/data.rs"]
mod data;
#[allow(dead_code, reason = "other tests draw more than these do")]
#[path = "../../../lab/conformance/src/equal/dice.rs"]
mod dice;

use crate::common::{Operand, same};
use crate::dice::{Dice, Values};
use elinvar_core::{DType, HostData, Layout, Result, Shape};
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::backend::{Compute, FourierKind, Fused};
use elinvar_ops::catalogue::fourier::{Direction, Norm};
use elinvar_ops::{Array, Backend, Door};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::Tensor;
use std::sync::LazyLock;

/// Instruction sets that have kernels, on one thread; the best on three.
fn devices() -> &'static [CpuDevice] {
    static ALL: LazyLock<Vec<CpuDevice>> = LazyLock::new(|| {
        let mut all: Vec<_> = Isa::with_kernels().into_iter().map(|isa| (isa, 1)).collect();
        all.extend([(Isa::best(), 2), (Isa::best(), 3)]);
        all.into_iter().map(|(isa, threads)| CpuDevice::new(isa, threads).unwrap()).collect()
    });
    &ALL
}

const KINDS: [FourierKind; 4] = [
    FourierKind::Complex(Direction::Forward),
    FourierKind::Complex(Direction::Inverse),
    FourierKind::Real,
    FourierKind::InverseReal,
];

fn array<B: Backend<Buffer: From<HostData>>>(d: &B::Device, x: &Operand) -> Array<B> {
    let shape = Shape::new(&[x.data.len()]).unwrap();
    Array::new(d, HostData::clone(&x.data).into(), shape, x.data.dtype()).with_layout(x.layout.clone())
}

/// By the op, along an axis (of those without the pairs).
fn transformed<B: Backend<Buffer: From<HostData>>>(
    d: &B::Device,
    x: &Operand,
    kind: FourierKind,
    (n, axis, norm): (usize, isize, Norm),
) -> Result<HostData> {
    let (x, n) = (array::<B>(d, x), Some(n));
    let y = match kind {
        FourierKind::Complex(Direction::Forward) => B::fft(&x, n, axis, norm)?,
        FourierKind::Complex(Direction::Inverse) => B::ifft(&x, n, axis, norm)?,
        FourierKind::Real => B::rfft(&x, n, axis, norm)?,
        FourierKind::InverseReal => B::irfft(&x, n, axis, norm)?,
    };
    Ok(y.to_host()?.into_data())
}

/// The shape of an operand, with other axes in front.
fn shape(kind: FourierKind, front: &[usize], n: usize) -> Vec<usize> {
    let mut all = front.to_vec();
    match kind {
        FourierKind::Complex(_) => all.extend([n, 2]),
        FourierKind::Real => all.push(n),
        FourierKind::InverseReal => all.extend([n / 2 + 1, 2]),
    }
    all
}

/// All kinds and both types, of rows of length `n`.
fn check(dice: &mut Dice, n: usize, rows: usize, values: Values) {
    for kind in KINDS {
        for dtype in [DType::F32, DType::F64] {
            let shape = shape(kind, &[rows], n);
            let mut x = Operand::draw(dice, dtype, &shape, values);
            if dice.once_in(2) {
                let layout = Layout::contiguous(Shape::new(&shape).unwrap());
                x = Operand { data: dice.data(dtype, layout.shape().numel(), values).into(), layout };
            }
            let norm = [Norm::Backward, Norm::Forward, Norm::Ortho][dice.below(3)];
            let call = (n, -1, norm);
            let want = transformed::<Reference>(&ReferenceDevice, &x, kind, call);
            for d in devices() {
                let got = transformed::<Cpu>(d, &x, kind, call);
                let what = format!("{kind:?} {norm:?} {n} of {rows} rows, {dtype}, {d:?}, {:?}", x.layout);
                same(&got, &want, &what);
            }
        }
    }
}

#[test]
fn every_short_length() {
    let mut dice = Dice::new(1, 0);
    for n in 1..=70 {
        let rows = [1, 17, 3, 9, 34][n % 5];
        check(&mut dice, n, rows, if n % 3 == 0 { Values::Wild } else { Values::Sparse });
    }
}

/// Cut and whole lines, convolutions of both, levels of every kind, odd and even.
#[test]
fn long_lengths() {
    let mut dice = Dice::new(2, 0);
    for (n, rows) in [
        (81, 18),
        (97, 17),
        (122, 5),
        (127, 1),
        (128, 33),
        (134, 2),
        (135, 4),
        (194, 3),
        (243, 2),
        (256, 3),
        (343, 2),
        (500, 5),
        (512, 2),
        (625, 1),
        (729, 2),
        (997, 2),
        (1000, 3),
        (1024, 2),
        (1331, 1),
        (1536, 1),
        (1994, 1),
        (2048, 1),
        (2809, 1),
        (4096, 1),
        (6561, 1),
    ] {
        check(&mut dice, n, rows, Values::Sparse);
    }
    check(&mut dice, 256, 2, Values::Wild);
    check(&mut dice, 300, 2, Values::Wild);
    check(&mut dice, 131, 2, Values::Wild);
}

/// Other axes, and operands that are cut or filled up.
#[test]
fn any_axis_and_any_size() {
    let mut dice = Dice::new(3, 0);
    for (n, size, axis) in
        [(8, 8, 0), (12, 12, 1), (20, 9, 1), (7, 10, 0), (67, 67, 1), (300, 300, 1), (33, 33, 2), (64, 50, 2)]
    {
        for kind in KINDS {
            let mut front = vec![3, 4, 19];
            front[axis] = size;
            let shape = match kind {
                FourierKind::Real => front,
                FourierKind::Complex(_) => [front, vec![2]].concat(),
                FourierKind::InverseReal => {
                    front[axis] = size / 2 + 1;
                    [front, vec![2]].concat()
                }
            };
            let layout = Layout::contiguous(Shape::new(&shape).unwrap());
            let data = dice.data(DType::F32, layout.shape().numel(), Values::Sparse).into();
            let drawn = Operand::draw(&mut dice, DType::F32, &shape, Values::Sparse);
            let x = if dice.once_in(3) { drawn } else { Operand { data, layout } };
            let call = (n, axis as isize, Norm::Backward);
            let want = transformed::<Reference>(&ReferenceDevice, &x, kind, call);
            for d in devices() {
                same(
                    &transformed::<Cpu>(d, &x, kind, call),
                    &want,
                    &format!("{kind:?} {n} of {shape:?}, {axis}"),
                );
            }
        }
    }
}

/// Gradients are transforms, too.
#[test]
fn gradients() {
    fn gradient<B: Backend<Buffer: From<HostData>>>(
        d: &B::Device,
        x: &Operand,
        kind: FourierKind,
    ) -> HostData {
        let x = Tensor::<B>::from_array(array::<B>(d, x)).requires_grad();
        let y = match kind {
            FourierKind::Complex(Direction::Forward) => x.fft(None, -1, Norm::Backward),
            FourierKind::Complex(Direction::Inverse) => x.ifft(None, -1, Norm::Backward),
            FourierKind::Real => x.rfft(None, -1, Norm::Backward),
            FourierKind::InverseReal => x.irfft(None, -1, Norm::Backward),
        };
        let g = (&y * &y.detach()).sum().backward();
        g.get(&x).expect("it is tracked").to_host().unwrap().into_data()
    }
    let mut dice = Dice::new(6, 0);
    for n in [6, 16, 30, 134, 256] {
        for kind in KINDS {
            let x = Operand::draw(&mut dice, DType::F32, &shape(kind, &[20], n), Values::Tame);
            let want = gradient::<Reference>(&ReferenceDevice, &x, kind);
            for d in devices() {
                same(&Ok(gradient::<Cpu>(d, &x, kind)), &Ok(want.clone()), &format!("{kind:?} {n}"));
            }
        }
    }
}

#[test]
fn one_result_of_one_work() {
    let mut dice = Dice::new(4, 0);
    for d in devices() {
        for kind in KINDS {
            let x = Operand::draw(&mut dice, DType::F32, &shape(kind, &[1, 2], 6), Values::Sparse);
            let work = Fused::Fourier { kind, n: 6, scale: 1.0 };
            let got = Cpu::fused(d, &work, &[x.cpu()]).unwrap().expect("the CPU has such a kernel");
            assert_eq!(got.len(), 1, "{kind:?}");
        }
    }
    let x = Operand::draw(&mut dice, DType::F32, &[1, 2, 6, 2], Values::Sparse);
    let work = Fused::Fourier { kind: KINDS[0], n: 6, scale: 1.0 };
    let got = Reference::fused(&ReferenceDevice, &work, &[x.reference()]).unwrap();
    assert!(got.is_none(), "the reference composes what kernels are compared with");
}

#[test]
fn what_the_kernels_do_not_take_is_refused() {
    let mut dice = Dice::new(5, 0);
    let x = Operand::draw(&mut dice, DType::I64, &[1, 2, 6, 2], Values::Sparse);
    let work = Fused::Fourier { kind: KINDS[0], n: 6, scale: 1.0 };
    for d in devices() {
        assert!(Cpu::fused(d, &work, &[x.cpu()]).is_err());
    }
}
