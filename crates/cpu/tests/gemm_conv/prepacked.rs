//! Prepacked weights: not a bit changes.

use crate::tools::{Dice, Operand, devices, same};
use elinvar_core::{DType, Layout, Precision, Shape};
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::backend::{AddBias, Changed, CompiledEpilogue, UpdateItem, View};
use elinvar_ops::backend::{Compute, Memory};
use elinvar_ops::lane::Lane;
use elinvar_ops::map::Compiled;
use elinvar_ops::update::{CompiledUpdate, Update, Updating};
use elinvar_reference::{Reference, ReferenceDevice};

/// Packs the matrix that a batch's right factor repeats.
fn prepack(d: &CpuDevice, w: &Operand) -> bool {
    Cpu::prepack(d, View { layout: &w.layout.select(0, 0), ..w.cpu() }).unwrap()
}

fn check(on: &[CpuDevice], x: &Operand, w: &Operand, what: &str) {
    let (e, d) = (Precision::Exact, &ReferenceDevice);
    let want = Reference::contract(d, e, x.reference(), w.reference(), None, &[]).unwrap();
    for d in on {
        let got = Cpu::contract(d, e, x.cpu(), w.cpu(), None, &[]).unwrap();
        same(&got, &want, &format!("{what} {d:?} {:?} {:?}", x.layout, w.layout));
    }
}

/// A matrix [1, k, n], lying so or turned.
fn weight(dice: &mut Dice, dtype: DType, [k, n]: [usize; 2], turned: bool) -> Operand {
    let data = dice.data(dtype, k * n, false);
    let mut w = Operand::contiguous(data, &if turned { [1, n, k] } else { [1, k, n] });
    if turned {
        w.layout = w.layout.transpose(1, 2);
    }
    w
}

#[test]
fn every_height_width_and_chunk() {
    let (mut dice, on) = (Dice::new(31), devices());
    for (i, [k, n]) in
        [[1100, 1], [200, 7], [40, 31], [37, 32], [33, 63], [511, 64], [512, 96], [513, 129], [1030, 300]]
            .into_iter()
            .enumerate()
    {
        for dtype in [DType::F32, DType::F64] {
            let w = weight(&mut dice, dtype, [k, n], i % 2 == 0);
            for d in &on {
                let made = prepack(d, &w);
                // For the first device's registers; others, if theirs are not as wide, do without.
                assert!(made || d.isa() != on[0].isa(), "{d:?}");
            }
            let best = weight(&mut dice, dtype, [k, n], i % 2 == 1);
            assert!(prepack(on.last().unwrap(), &best));
            for m in [1, 2, 3, 5, 8, 13, 33, 200] {
                let x = Operand::contiguous(dice.data(dtype, m * k, false), &[1, m, k]);
                let some = if m * k * n > 1 << 20 { &on[on.len() - 2..] } else { &on };
                check(some, &x, &best, "the last device's");
                if m < 9 && k < 513 {
                    check(&on, &x, &w, "the first device's");
                }
            }
        }
    }
}

#[test]
fn other_looks_at_a_prepacked_matrix() {
    let (mut dice, d) = (Dice::new(32), CpuDevice::new(Isa::best(), 2).unwrap());
    let (k, n) = (70, 90);
    let mut w = weight(&mut dice, DType::F32, [k, n], true);
    assert!(prepack(&d, &w));
    let whole = w.layout.clone();
    let looks: [Layout; 7] = [
        whole.slice(1, 1, k - 1, 1),
        whole.slice(2, 32, 32, 1),
        whole.slice(2, 0, n - 1, 1),
        whole.slice(1, 0, k / 2, 2),
        whole.flip(2),
        whole.transpose(1, 2),
        whole.broadcast_to(&Shape::new(&[3, k, n]).unwrap(), "test").unwrap(),
    ];
    for look in looks {
        let [b, k, _] = *look.shape().dims() else { panic!("a batch of matrices") };
        let x = Operand::contiguous(dice.data(DType::F32, b * 5 * k, true), &[b, 5, k]);
        w.layout = look;
        check(std::slice::from_ref(&d), &x, &w, "a look");
        let bias = dice.operand(DType::F32, &[b, 5, w.layout.shape()[2]], false);
        let (e, views) = (Precision::Exact, (x.reference(), w.reference()));
        let want = Reference::contract(
            &ReferenceDevice,
            e,
            views.0,
            views.1,
            Some(AddBias::object(&Compiled(AddBias))),
            &[bias.reference()],
        );
        let got =
            Cpu::contract(&d, e, x.cpu(), w.cpu(), Some(AddBias::object(&Compiled(AddBias))), &[bias.cpu()]);
        same(&got.unwrap(), &want.unwrap(), "a look, with a bias");
    }
    // There is one copy of a buffer, the first.
    assert!(!Cpu::prepack(&d, View { layout: &w.layout.select(0, 0).transpose(0, 1), ..w.cpu() }).unwrap());
}

#[test]
fn what_is_not_packed_says_so() {
    let (mut dice, d) = (Dice::new(33), CpuDevice::new(Isa::best(), 1).unwrap());
    for (dtype, k) in [(DType::F32, 3), (DType::BF16, 90), (DType::F16, 90), (DType::I32, 90)] {
        let w = weight(&mut dice, dtype, [k, 40], false);
        assert!(!prepack(&d, &w), "{dtype} of {k} rows");
    }
    let (w, r) = (weight(&mut dice, DType::F32, [90, 40], false), &ReferenceDevice);
    assert!(!Reference::prepack(r, View { layout: &w.layout.select(0, 0), ..w.reference() }).unwrap());
}

/// x - g
#[derive(Clone, Copy, Debug)]
struct Minus;
impl Update<1, 1> for Minus {
    const NAME: &'static str = "test_minus";
    fn lane<L: Lane>(&self, [x]: [L; 1], [g]: [L; 1]) -> [L; 1] {
        [x - g]
    }
}
elinvar_ops::compile_update! { 1 1 Minus; }

#[test]
fn an_update_drops_the_copy() {
    let (mut dice, d) = (Dice::new(34), CpuDevice::new(Isa::best(), 2).unwrap());
    let (k, n) = (64, 48);
    let before = dice.data(DType::F32, k * n, false);
    let g = Operand::contiguous(dice.data(DType::F32, k * n, false), &[k, n]);
    let x = Operand::contiguous(dice.data(DType::F32, 2 * k, false), &[1, 2, k]);
    let layout = Layout::contiguous(Shape::new(&[k, n]).unwrap());
    let mut w = Cpu::upload(&d, before).unwrap();
    for _ in 0..2 {
        assert!(Cpu::prepack(&d, View { buffer: &w, layout: &layout, dtype: DType::F32 }).unwrap());
        let changes = [Changed { buffer: &mut w, dtype: DType::F32 }];
        let shape = layout.shape().clone();
        let item = UpdateItem::new(shape, DType::F32, changes, [g.cpu()]);
        Cpu::update(&d, Minus::object(&Updating(Minus)), vec![item]).unwrap();
        let batch = layout.unsqueeze(0);
        let y = View { buffer: &w, layout: &batch, dtype: DType::F32 };
        let got = Cpu::contract(&d, Precision::Exact, x.cpu(), y, None, &[]).unwrap();
        let now = w.data().unwrap();
        let y = View { buffer: now, layout: &batch, dtype: DType::F32 };
        let e = Precision::Exact;
        let want = Reference::contract(&ReferenceDevice, e, x.reference(), y, None, &[]).unwrap();
        same(&got, &want, "after an update");
    }
}

#[test]
fn threads_share_a_copy() {
    let (mut dice, d) = (Dice::new(35), CpuDevice::new(Isa::best(), 2).unwrap());
    let w = weight(&mut dice, DType::F32, [100, 120], true);
    let x = Operand::contiguous(dice.data(DType::F32, 300, false), &[1, 3, 100]);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                assert!(prepack(&d, &w));
                check(std::slice::from_ref(&d), &x, &w, "a thread's");
            });
        }
    });
}
