//! Contractions (GEMM) against the reference, by bits.

use crate::tools::{Dice, Operand, devices, in_turn, rounds, same};
use elinvar_core::{DType, HostData, Precision};
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::backend::{AddBias, CompiledEpilogue, Compute, Epilogue};
use elinvar_ops::lane::Lane;
use elinvar_ops::map::Compiled;
use elinvar_reference::{Reference, ReferenceDevice};

/// An epilogue with an elementary function and two operands.
#[derive(Clone, Copy, Debug)]
struct Gate;
impl Epilogue<2> for Gate {
    const NAME: &'static str = "test_gate";
    #[inline(always)]
    fn lane<L: Lane>(&self, sum: L, [bias, gate]: [L; 2]) -> L {
        (sum + bias).tanh() * gate
    }
}
elinvar_ops::compile_epilogue! { 2 Gate; }

/// An epilogue without operands.
#[derive(Clone, Copy, Debug)]
struct Negate;
impl Epilogue<0> for Negate {
    const NAME: &'static str = "test_negate";
    #[inline(always)]
    fn lane<L: Lane>(&self, sum: L, _: [L; 0]) -> L {
        -sum
    }
}
elinvar_ops::compile_epilogue! { 0 Negate; }

/// One contraction on all devices; `follow` chooses the epilogue.
fn check(on: &[CpuDevice], x: &Operand, w: &Operand, extra: &[Operand], follow: usize) {
    macro_rules! run {
        ($backend:ident, $device:expr, $view:ident) => {
            match follow {
                0 => $backend::contract($device, Precision::Exact, x.$view(), w.$view(), None, &[]),
                1 => $backend::contract(
                    $device,
                    Precision::Exact,
                    x.$view(),
                    w.$view(),
                    Some(AddBias::object(&Compiled(AddBias))),
                    &[extra[0].$view()],
                ),
                2 => {
                    let extra = [extra[0].$view(), extra[1].$view()];
                    let e = Some(Gate::object(&Compiled(Gate)));
                    $backend::contract($device, Precision::Exact, x.$view(), w.$view(), e, &extra)
                }
                _ => {
                    let e = Some(Negate::object(&Compiled(Negate)));
                    $backend::contract($device, Precision::Exact, x.$view(), w.$view(), e, &[])
                }
            }
            .unwrap()
        };
    }
    let want = run!(Reference, &ReferenceDevice, reference);
    for d in on {
        let what = format!("{d:?} {} {:?} {:?} follow {follow}", want.dtype(), x.layout, w.layout);
        same(&run!(Cpu, d, cpu), &want, &what);
    }
}

/// Contiguous operands, both on either side.
fn sized(dice: &mut Dice, on: &[CpuDevice], dtype: DType, [b, m, k, n]: [usize; 4]) {
    let mut x = Operand::contiguous(dice.data(dtype, b * m * k, false), &[b, m, k]);
    let mut w = Operand::contiguous(dice.data(dtype, b * k * n, false), &[b, k, n]);
    if dice.once_in(2) {
        w = Operand::contiguous(w.data, &[b, n, k]);
        w.layout = w.layout.transpose(1, 2);
    }
    if dice.once_in(3) {
        x = Operand::contiguous(x.data, &[b, k, m]);
        x.layout = x.layout.transpose(1, 2);
    }
    check(on, &x, &w, &[], 0);
}

#[test]
fn every_tile_and_lane_edge() {
    let (mut dice, on) = (Dice::new(1), devices());
    let alone: Vec<_> = Isa::with_kernels().into_iter().map(|isa| CpuDevice::new(isa, 1).unwrap()).collect();
    // Tiles are 12, 8, 6, 4, 2 and 1 high, 8 to 32 wide, registers 4 to 16.
    for m in (1..=14).chain([23, 24, 25, 26]) {
        for n in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65] {
            sized(&mut dice, &alone, DType::F32, [1, m, 5, n]);
            sized(&mut dice, &alone, DType::F64, [1, m, 3, n]);
        }
    }
    for dtype in [DType::F32, DType::F64] {
        for (m, n) in [(1, 1), (13, 33), (1, 70), (70, 1)] {
            for k in [1, 2, 7, 8, 9, 511, 512, 513, 1024, 1025, 1600] {
                sized(&mut dice, &on, dtype, [1, m, k, n]);
            }
        }
    }
}

#[test]
fn every_block_edge() {
    let (mut dice, on) = (Dice::new(2), devices());
    let best = [CpuDevice::new(Isa::best(), 2).unwrap(), CpuDevice::new(Isa::best(), 3).unwrap()];
    for m in [191, 192, 193, 204, 385] {
        for n in [1, 31, 256, 257] {
            sized(&mut dice, &best, DType::F32, [1, m, 70, n]);
            sized(&mut dice, &best, DType::F64, [2, m, 40, n]);
        }
    }
    // Each thread packs its own columns, or makes products of its own; with a left factor that is
    // in any way. Threads share columns; several blocks of columns for each; columns that none has
    // to itself.
    for (b, m, k, n) in
        [(1, 305, 150, 512), (1, 440, 600, 192), (1, 700, 40, 8200), (1, 150, 520, 2100), (4, 310, 90, 96)]
    {
        for _ in 0..rounds(4) {
            sized(&mut dice, &best, DType::F32, [b, m, k, n]);
        }
        sized(&mut dice, &best, DType::F64, [b, m / 2, k, n]);
    }
    // So many rows that each task packs the right factor for itself.
    for (m, k, n) in [(433, 40, 33), (450, 600, 70), (577, 90, 500)] {
        sized(&mut dice, &best, DType::F32, [1, m, k, n]);
        sized(&mut dice, &best, DType::F64, [1, m / 2, k, n / 2]);
    }
    // Threads; several chunks; several blocks of the shared factor, across and in depth.
    sized(&mut dice, &on, DType::F32, [1, 200, 1030, 40]);
    sized(&mut dice, &on, DType::F32, [1, 30, 1030, 300]);
    // One tile of one thread, at most as large, and one more row, column, or term than is left to
    // one thread.
    for size in [[1, 64, 64, 64], [3, 64, 64, 64], [1, 64, 85, 64], [1, 64, 86, 64], [1, 144, 8, 256]] {
        sized(&mut dice, &on, DType::F32, size);
    }
    sized(&mut dice, &on, DType::F32, [1, 145, 8, 256]);
    sized(&mut dice, &on, DType::F32, [1, 144, 8, 257]);
    sized(&mut dice, &best, DType::F32, [1, 250, 2, 4100]);
    sized(&mut dice, &best, DType::F32, [1, 193, 1537, 1100]);
    // Columns that a task packs for itself, with all rows.
    sized(&mut dice, &best, DType::F32, [1, 50, 300, 512]);
    sized(&mut dice, &best, DType::F32, [1, 50, 180, 800]);
    sized(&mut dice, &best, DType::F64, [1, 48, 130, 512]);
    // More chunks than are packed together: what the second block adds to is in the result.
    sized(&mut dice, &best, DType::F32, [1, 150, 2561, 1024]);
    sized(&mut dice, &best[..1], DType::F64, [1, 2, 3, 9000]);
    sized(&mut dice, &on, DType::F32, [7, 30, 40, 50]);
    sized(&mut dice, &best, DType::F32, [300, 4, 4, 4]);
}

#[test]
fn nothing_to_sum_and_nothing_to_make() {
    let on = devices();
    for [b, m, k, n] in
        [[1, 3, 0, 4], [2, 1, 0, 1], [0, 3, 2, 4], [1, 0, 2, 4], [1, 3, 2, 0], [2, 300, 0, 40]]
    {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::I64] {
            let mut dice = Dice::new(3);
            let x = Operand::contiguous(dice.data(dtype, b * m * k, false), &[b, m, k]);
            let w = Operand::contiguous(dice.data(dtype, b * k * n, false), &[b, k, n]);
            check(&on, &x, &w, &[], 0);
            if dtype.is_float() {
                let bias = dice.operand(dtype, &[b, m, n], false);
                check(&on, &x, &w, &[bias], 1);
                check(&on, &x, &w, &[], 3);
            }
        }
    }
}

#[test]
fn any_strides_dtypes_epilogues_and_values() {
    let on = devices();
    let mut dice = Dice::new(4);
    let sizes = [1, 2, 3, 5, 8, 12, 13, 16, 17, 30, 33, 64, 65];
    for round in 0..400 {
        let float = dice.pick(&DType::FLOATS);
        let dtype = dice.pick(&[DType::F32, float, float, float, float, DType::I32]);
        let (b, m, n) = (1 + dice.below(3), dice.pick(&sizes), dice.pick(&sizes));
        let k = if dice.once_in(8) { dice.pick(&[511, 512, 513, 700, 1025]) } else { dice.pick(&sizes) };
        let wild = dice.once_in(3);
        let x = dice.operand(dtype, &[b, m, k], wild);
        let w = dice.operand(dtype, &[b, k, n], wild);
        let follow = if dtype.is_float() { dice.below(4) } else { 0 };
        let extra = [dice.operand(dtype, &[b, m, n], wild), dice.operand(dtype, &[b, m, n], wild)];
        // Two of the devices each time: all of them take part over the rounds.
        for i in 0..2 {
            let d = (round * 2 + i) % on.len();
            check(&on[d..=d], &x, &w, &extra, follow);
        }
    }
}

#[test]
fn many_products_of_a_few_numbers() {
    let (mut dice, on) = (Dice::new(9), devices());
    for [m, k, n] in [
        [1, 1, 1],
        [2, 2, 2],
        [3, 3, 3],
        [4, 4, 4],
        [4, 4, 1],
        [3, 3, 1],
        [2, 4, 3],
        [5, 3, 4],
        [1, 8, 5],
        [4, 5, 8],
        [4, 9, 3],
        [6, 2, 6],
    ] {
        for b in [31, 32, 700] {
            let dtype = dice.pick(&[DType::F32, DType::F64]);
            sized(&mut dice, &on, dtype, [b, m, k, n]);
            let dtype = dice.pick(&[DType::F32, DType::F64, DType::BF16]);
            let x = dice.operand(dtype, &[b, m, k], true);
            let w = dice.operand(dtype, &[b, k, n], true);
            let extra = [dice.operand(dtype, &[b, m, n], true), dice.operand(dtype, &[b, m, n], true)];
            check(&on, &x, &w, &extra, dice.below(4));
        }
    }
}

#[test]
fn a_batch_with_one_right_factor() {
    let (mut dice, on) = (Dice::new(5), devices());
    for (b, m, k, n) in [(5, 7, 30, 20), (3, 80, 40, 33), (4, 1, 50, 40), (2, 100, 520, 65)] {
        let x = Operand::contiguous(dice.data(DType::F32, b * m * k, true), &[b, m, k]);
        let mut w = Operand::contiguous(dice.data(DType::F32, k * n, true), &[1, k, n]);
        let whole = elinvar_core::Shape::new(&[b, k, n]).unwrap();
        w.layout = w.layout.broadcast_to(&whole, "test").unwrap();
        let y = elinvar_core::Shape::new(&[b, m, n]).unwrap();
        let mut bias = Operand::contiguous(dice.data(DType::F32, n, true), &[1, 1, n]);
        bias.layout = bias.layout.broadcast_to(&y, "test").unwrap();
        let gate = Operand::contiguous(dice.data(DType::F32, b * m * n, true), &[b, m, n]);
        check(&on, &x, &w, &[], 0);
        check(&on, &x, &w, &[bias, gate], 2);
    }
}

#[test]
fn some_rows_times_columns_that_lie_in_memory() {
    let (mut dice, on) = (Dice::new(7), devices());
    let alone: Vec<_> = Isa::with_kernels().into_iter().map(|isa| CpuDevice::new(isa, 1).unwrap()).collect();
    let mut row = |on: &[CpuDevice], dtype: DType, [b, m, k, n]: [usize; 4], wild: bool| {
        let x = Operand::contiguous(dice.data(dtype, b * m * k, wild), &[b, m, k]);
        let mut w = Operand::contiguous(dice.data(dtype, b * k * n, wild), &[b, n, k]);
        w.layout = w.layout.transpose(1, 2);
        let (bias, gate) = (dice.operand(dtype, &[b, m, n], wild), dice.operand(dtype, &[b, m, n], wild));
        check(on, &x, &w, &[bias, gate], [0, 2][n % 2]);
    };
    // Panels hold 8 to 32 rows, tiles have 12, 8, 6, 4, 2 and 1 columns, and 48 are turned
    // together. Of so few terms columns are packed, if rows are not fewer.
    for m in [7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65, 192, 193] {
        for n in [1, 2, 3, 5, 11, 12, 13, 23, 47, 48, 49, 61] {
            row(&alone, DType::F32, [1, m, 19, n], m % 3 == 0);
            row(&alone, DType::F64, [1, m, 9, n], false);
        }
    }
    for (m, n) in [(8, 47), (9, 13), (16, 12), (17, 11), (33, 23), (48, 5), (49, 3), (65, 2), (192, 1)] {
        row(&alone, DType::F32, [1, m, 256, n], m % 3 == 0);
        row(&alone, DType::F64, [1, m, 257, n], false);
    }
    // More columns than are turned together, of many rows.
    for (m, k, n) in [(33, 100, 61), (65, 150, 145), (97, 210, 190)] {
        row(&alone, DType::F32, [1, m, k, n], false);
        row(&alone, DType::F64, [1, m, k, n], m == 65);
    }
    // Lines of 8 or 16 terms, chunks, and columns that are 4096 bytes apart.
    for k in [1, 2, 15, 16, 17, 511, 512, 513, 1023, 1024, 1025, 2048] {
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            row(&on, dtype, [1, 20, k, 53], false);
            row(&alone, dtype, [2, 8, k, 33], true);
            // One row, whose chunks go in pairs where there are as many: two registers of columns,
            // one, and what fills none.
            for n in [7, 8, 9, 16, 17, 24, 33, 41] {
                row(&alone, dtype, [1, 1, k, n], n % 2 == 0);
            }
        }
    }
    // Threads: by rows where columns are few, but of the fewest rows; by many small tiles; by one
    // each, where not all terms are packed at once.
    for shape in
        [[1, 128, 512, 10], [1, 70, 700, 7], [2, 100, 900, 9], [1, 128, 512, 180], [1, 96, 1100, 110]]
    {
        row(&on, DType::F32, shape, false);
    }
    for shape in [[1, 16, 2200, 9], [1, 16, 2200, 7], [1, 40, 1100, 11], [1, 64, 600, 90]] {
        row(&on, DType::F64, shape, false);
    }
}

#[test]
fn few_rows_times_columns_that_lie_in_memory() {
    let (mut dice, on) = (Dice::new(6), devices());
    let alone: Vec<_> = Isa::with_kernels().into_iter().map(|isa| CpuDevice::new(isa, 1).unwrap()).collect();
    let mut row = |on: &[CpuDevice], dtype: DType, [m, k, n]: [usize; 3], wild: bool| {
        let x = Operand::contiguous(dice.data(dtype, m * k, wild), &[1, m, k]);
        let mut w = Operand::contiguous(dice.data(dtype, k * n, wild), &[1, n, k]);
        w.layout = w.layout.transpose(1, 2);
        check(on, &x, &w, &[], 0);
    };
    let dtypes = DType::FLOATS;
    // Heights are 8, 4, 2 and 1, then columns are packed; registers have 4 to 16 columns, one or
    // two across.
    for m in 1..=14 {
        for n in [1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 50] {
            row(&alone, dtypes[(m + n) % 4], [m, 37, n], false);
            row(&alone, DType::F32, [m, 20, n], (m + n) % 3 == 0);
        }
    }
    // Lines of 8 to 32 terms, and chunks.
    for k in
        [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 511, 512, 513, 527, 528, 1023, 1024, 1025, 1600]
    {
        for dtype in dtypes {
            row(&alone, dtype, [1, k, 34], false);
            row(&alone[alone.len() - 1..], dtype, [5, k, 17], true);
        }
    }
    // Threads.
    row(&on, DType::F32, [1, 1030, 600], false);
    row(&on, DType::BF16, [8, 520, 520], false);
    row(&on, DType::F64, [40, 600, 130], false);
    for m in [13, 16, 25, 31, 40] {
        row(&on[on.len() - 3..], DType::F32, [m, 530, 70], m % 2 == 0);
        row(&on[on.len() - 3..], DType::F16, [m, 100, 70], false);
    }
    // More terms than are packed at once, and more columns than are multiplied together; columns 4
    // KiB apart.
    row(&on[on.len() - 3..], DType::F32, [100, 2100, 110], false);
    row(&alone, DType::F64, [70, 1100, 50], true);
    for (m, n) in [(9, 49), (20, 13), (33, 97)] {
        row(&alone, DType::F32, [m, 1024, n], false);
    }
}

#[test]
fn few_rows_of_any_strides() {
    let (mut dice, on) = (Dice::new(7), devices());
    for round in 0..120 {
        let dtype = dice.pick(&DType::FLOATS);
        let (b, m, n) = (1 + dice.below(2), 1 + dice.below(12), 1 + dice.below(70));
        let k = dice.pick(&[1, 5, 16, 33, 64, 513, 700]);
        let x = dice.operand(dtype, &[b, m, k], round % 3 == 0);
        // Columns that are apart, backwards, or on top of one another.
        let (gap, start) = (dice.below(3), dice.below(3));
        let mut w = Operand::contiguous(
            dice.data(dtype, b * (n + start) * (k + gap), false),
            &[b, n + start, k + gap],
        );
        w.layout = w.layout.slice(1, start, n, 1).slice(2, dice.below(gap + 1), k, 1);
        if dice.once_in(3) {
            w.layout = w.layout.flip(1);
        }
        w.layout = w.layout.transpose(1, 2);
        let extra = [dice.operand(dtype, &[b, m, n], false), dice.operand(dtype, &[b, m, n], false)];
        let d = round % on.len();
        check(&on[d..=d], &x, &w, &extra, round % 4);
    }
}

#[test]
fn every_epilogue_of_every_type() {
    // Rows of more and of fewer elements than are staged at once.
    let (mut dice, on) = (Dice::new(8), devices());
    for dtype in DType::FLOATS {
        for (m, n) in [(2, 700), (13, 33), (30, 1)] {
            let (x, w) = (dice.operand(dtype, &[1, m, 9], true), dice.operand(dtype, &[1, 9, n], false));
            let extra = [dice.operand(dtype, &[1, m, n], true), dice.operand(dtype, &[1, m, n], false)];
            for follow in 1..4 {
                check(&on, &x, &w, &extra, follow);
            }
        }
    }
}

#[test]
fn whole_numbers() {
    let (mut dice, on) = (Dice::new(9), devices());
    for dtype in [DType::I64, DType::I32, DType::U8] {
        // Tiles are 4 by 32.
        for [b, m, k, n] in
            [[1, 1, 1, 1], [2, 3, 5, 31], [1, 4, 600, 32], [3, 5, 7, 33], [1, 9, 0, 4], [2, 70, 64, 65]]
        {
            sized(&mut dice, &on, dtype, [b, m, k, n]);
            let (x, w) = (dice.operand(dtype, &[b, m, k], false), dice.operand(dtype, &[b, k, n], false));
            check(&on, &x, &w, &[], 0);
        }
    }
    // Products and sums that do not fit.
    let large = |n: usize| HostData::I64((0..n as i64).map(|i| i64::MAX - i * 0x1234_5678_9abc).collect());
    let x = Operand::contiguous(large(12), &[1, 3, 4]);
    let w = Operand::contiguous(large(20), &[1, 4, 5]);
    check(&on, &x, &w, &[], 0);
}

#[test]
fn few_results_of_many_terms() {
    let (mut dice, on) = (Dice::new(12), devices());
    let mut turns = 0..;
    let mut some = || in_turn(&on, turns.next().unwrap());
    for dtype in [DType::F32, DType::F64] {
        // Seven sizes and six lengths: each size meets all numbers of threads.
        for k in [512, 513, 1024, 1100, 4096, 5000] {
            for (b, m, n) in [(1, 1, 1), (3, 1, 1), (17, 1, 1), (1, 1, 6), (1, 3, 5), (1, 16, 32), (2, 20, 9)]
            {
                sized(&mut dice, &some(), dtype, [b, m, k, n]);
            }
        }
        // These threads share, and plain ones take seconds for: the two best instruction sets with
        // all numbers of threads.
        let best = &on[on.len().saturating_sub(8)..];
        for (m, n) in [(40, 33), (64, 65)] {
            sized(&mut dice, &some(), dtype, [1, m, 8192, n]);
            sized(&mut dice, best, dtype, [1, m, 8192, n]);
        }
    }
    // With what follows, and as they may be.
    for round in 0..60 {
        let dtype = dice.pick(&DType::FLOATS);
        let [b, m, n] = dice.pick(&[[1, 1, 1], [2, 1, 1], [1, 7, 3], [2, 5, 20], [20, 1, 1], [1, 1, 40]]);
        let (k, wild) = (dice.pick(&[1024, 1025, 2048, 2500]), dice.once_in(3));
        let x = dice.operand(dtype, &[b, m, k], wild);
        let w = dice.operand(dtype, &[b, k, n], wild);
        let extra = [dice.operand(dtype, &[b, m, n], wild), dice.operand(dtype, &[b, m, n], wild)];
        let follow = dice.below(4);
        for i in 0..3 {
            let d = (round * 3 + i) % on.len();
            check(&on[d..=d], &x, &w, &extra, follow);
        }
    }
}

#[test]
fn many_products_of_two_vectors() {
    let (mut dice, on) = (Dice::new(13), devices());
    for dtype in DType::FLOATS {
        for b in [2, 3, 4, 5, 7, 8, 9, 16, 31, 33, 100, 1100] {
            for k in [1, 3, 15, 16, 17, 40, 512] {
                let x = Operand::contiguous(dice.data(dtype, b * k, true), &[b, 1, k]);
                let w = Operand::contiguous(dice.data(dtype, b * k, true), &[b, k, 1]);
                let d = dice.below(on.len());
                check(&on[d..=d], &x, &w, &[], 0);
            }
        }
    }
    // One with each of many, backwards, and with the layouts between them.
    for round in 0..40 {
        let (b, k) = (dice.pick(&[6, 20, 65]), dice.pick(&[10, 32, 70]));
        let x = dice.operand(DType::F32, &[b, 1, k], true);
        let w = dice.operand(DType::F32, &[b, k, 1], true);
        let extra = [dice.operand(DType::F32, &[b, 1, 1], true), dice.operand(DType::F32, &[b, 1, 1], true)];
        let (d, follow) = (round % on.len(), dice.below(4));
        check(&on[d..=d], &x, &w, &extra, follow);
    }
}

#[test]
fn few_columns_of_wide_rows() {
    let (mut dice, on) = (Dice::new(14), devices());
    for dtype in [DType::F32, DType::F64] {
        for n in 1..=40 {
            // The last rows of what is read have nothing behind them, or the rest of a wider
            // matrix.
            for wide in [n, n + 3, n + 70] {
                let (m, k) = (dice.pick(&[1, 2, 4, 9]), 21);
                let x = Operand::contiguous(dice.data(dtype, m * k, false), &[1, m, k]);
                let mut w = Operand::contiguous(dice.data(dtype, k * wide, true), &[1, k, wide]);
                w.layout = w.layout.slice(2, wide - n, n, 1);
                if dice.once_in(4) {
                    w.layout = w.layout.flip(1);
                }
                check(&on, &x, &w, &[], 0);
            }
        }
    }
}
