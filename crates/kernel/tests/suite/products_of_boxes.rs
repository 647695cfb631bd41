//! Products of boxes: the reference's bits where no sum is rounded, and the same bits with every tile where some are.

use crate::backend::run_work;
use elinvar_core::{DType, HostData, Layout, Precision, Shape};
use elinvar_kernel::interp::Memory;
use elinvar_kernel::library::boxes::{self, Tile};
use elinvar_kernel::library::contract::OfEpilogue;
use elinvar_ops::backend::{AddBias, Plain};
use elinvar_ops::{Backend, View};
use elinvar_reference::{Reference, ReferenceDevice};

fn layout(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).expect("small"))
}

fn host(dtype: DType, x: impl Iterator<Item = f32>) -> HostData {
    match dtype {
        DType::F16 => HostData::F16(x.map(half::f16::from_f32).collect()),
        DType::BF16 => HostData::BF16(x.map(half::bf16::from_f32).collect()),
        other => panic!("{other}"),
    }
}

/// Matrices side by side in memory whose lines are as far apart as said: of rows by columns, or lying the other way.
fn matrix(lies: bool, [b, rows, columns]: [usize; 3], room: usize) -> Layout {
    if lies {
        layout(&[b, rows, columns + room]).slice(2, room, columns, 1)
    } else {
        layout(&[b, columns, rows + room]).slice(2, room, rows, 1).transpose(1, 2)
    }
}

/// A product with a sum beside it.
struct Case {
    sizes: [usize; 4],
    /// Which factors lie along their terms.
    along: [bool; 2],
    /// Elements before each line.
    room: usize,
    /// Has each batch a right factor of its own?
    own: bool,
}

impl Case {
    fn layouts(&self) -> [Layout; 3] {
        let [b, m, k, n] = self.sizes;
        let w = matrix(!self.along[1], [if self.own { b } else { 1 }, k, n], self.room);
        let w = if self.own {
            w
        } else {
            w.broadcast_to(&Shape::new(&[b, k, n]).expect("small"), "w").expect("one plane")
        };
        [matrix(self.along[0], [b, m, k], self.room), w, layout(&[b, m, n])]
    }
    fn numbers(&self, dtype: DType, number: &dyn Fn(usize, usize) -> f32) -> [HostData; 3] {
        let all = self.layouts();
        [0, 1, 2].map(|of| {
            let l: &Layout = &all[of];
            let len = 1
                + l.offset()
                + l.shape().iter().zip(l.strides()).map(|(n, s)| (n - 1) * *s as usize).sum::<usize>();
            host(dtype, (0..len).map(|i| number(of, i)))
        })
    }
    fn run(&self, dtype: DType, tile: Tile, number: &dyn Fn(usize, usize) -> f32) -> HostData {
        let ([x, w, bias], len) = (self.layouts(), self.sizes[0] * self.sizes[1] * self.sizes[3]);
        let e = OfEpilogue::<AddBias, 1>(AddBias);
        let work = boxes::contract(&e, dtype, &x, &w, &[(&bias, dtype)], tile).expect("it can be done so");
        let mut buffers: Vec<Memory> = self.numbers(dtype, number).iter().map(Memory::from_host).collect();
        buffers.push(Memory::of(dtype, len));
        run_work(&work, &mut buffers);
        buffers[3].to_host().expect("it has a dtype")
    }
    fn want(&self, dtype: DType, number: &dyn Fn(usize, usize) -> f32) -> HostData {
        let (layouts, numbers) = (self.layouts(), self.numbers(dtype, number));
        let [x, w, bias] = [0, 1, 2].map(|i| View { buffer: &numbers[i], layout: &layouts[i], dtype });
        Reference::contract(&ReferenceDevice, Precision::Exact, x, w, &AddBias, [bias]).expect("it runs")
    }
}

/// Whole numbers whose products and sums are exact.
fn whole(of: usize, i: usize) -> f32 {
    let i = i + 3 * of;
    ((i * 7 + i / 11) % 9) as f32 - 4.0
}

#[test]
fn whole_numbers_are_exact() {
    // One step and several, more than there are slots; parts of a tile, and more than one; other lines between those that are read;
    // one right factor for all batches.
    let cases = [
        (0, [1, 72, 200, 80], 8, true),
        (0, [1, 8, 8, 264], 0, true),
        (1, [2, 136, 8, 136], 0, false),
        (1, [1, 16, 264, 8], 16, true),
        (2, [2, 72, 72, 136], 8, true),
        (2, [1, 8, 456, 16], 0, true),
        (3, [2, 16, 200, 72], 0, false),
        (3, [2, 72, 456, 8], 8, true),
        (3, [1, 8, 40, 8], 0, true),
    ];
    for (round, (tile, sizes, room, own)) in cases.into_iter().enumerate() {
        let (tile, along) = (Tile::ALL[tile], [round % 2 == 0, round / 2 % 2 == 0]);
        let (case, dtype) = (Case { sizes, along, room, own }, [DType::F16, DType::BF16][round % 2]);
        assert_eq!(
            case.run(dtype, tile, &whole),
            case.want(dtype, &whole),
            "{dtype} {sizes:?} {along:?} {tile:?}"
        );
    }
}

#[test]
fn tiles_change_no_bit() {
    let uneven = |of: usize, i: usize| ((i * 37 + of) % 101) as f32 * 0.0173 - 0.9;
    // Sums that underflow to -0: what follows the last term, and makes it +0, is the same for all.
    let tiny = |of: usize, _: usize| [1e-30, -1e-30, -0.0][of];
    for (sizes, number) in [
        ([1, 24, 72, 24], &uneven as &dyn Fn(usize, usize) -> f32),
        ([1, 8, 64, 8], &tiny),
        ([1, 8, 8, 8], &tiny),
    ] {
        let case = Case { sizes, along: [true, true], room: 0, own: true };
        let all = Tile::ALL.map(|tile| Memory::from_host(&case.run(DType::BF16, tile, number)).cells);
        assert!(all.iter().all(|y| *y == all[0]), "{sizes:?}");
    }
}

#[test]
fn a_tile_is_chosen() {
    // How many, of how many sums, and the rows and columns of the tile.
    let rows = [
        (1, [4096, 4096], [128, 256]),
        (1, [2048, 2048], [128, 256]),
        (1, [1024, 1024], [64, 128]),
        (16, [1024, 1024], [128, 256]),
        (1, [1, 4096], [64, 64]),
        (1, [8, 8], [64, 64]),
        (8, [512, 512], [128, 128]),
    ];
    for (batches, sums, want) in rows {
        let t = Tile::of(batches, sums, 227 << 10).expect("there is room");
        assert_eq!([0, 1].map(|side| t.size(side)), want, "{batches} of {sums:?}");
    }
    assert_eq!(Tile::of(1, [64, 64], 48 << 10), None);
    assert!(Tile::ALL.iter().all(|t| t.shared_bytes() <= 227 << 10));
    // Two of the smaller ones, each beside the kilobyte that the device keeps for itself.
    assert!(Tile::ALL[1..].iter().all(|t| 2 * (t.shared_bytes() + 1024) <= 228 << 10));
}

/// What cannot be fetched is left to others.
#[test]
fn what_lies_unevenly_is_not_fetched() {
    let even = matrix(true, [1, 64, 64], 0);
    let rows = [
        (even.clone(), even.clone(), true),
        // Lines of 68 elements; lines that begin in the middle of 16 bytes; elements that are not side by side.
        (matrix(true, [1, 64, 64], 4), even.clone(), false),
        (layout(&[1, 64, 80]).slice(2, 4, 64, 1), even.clone(), false),
        (even.clone(), layout(&[1, 64, 64, 8]).select(3, 0), false),
        (
            even.clone(),
            layout(&[1, 64, 1]).broadcast_to(&Shape::new(&[1, 64, 64]).unwrap(), "w").unwrap(),
            false,
        ),
        // A row alone, of lines that cannot be fetched together.
        (matrix(true, [1, 64, 64], 4).slice(1, 0, 1, 1), even.clone(), false),
        (matrix(true, [1, 64, 0], 0), matrix(true, [1, 0, 64], 0), false),
    ];
    for (i, (x, w, fits)) in rows.into_iter().enumerate() {
        assert_eq!(boxes::fits(DType::F16, &x, &w, &[]), fits, "row {i}: {x:?} {w:?}");
    }
    assert!(!boxes::fits(DType::F32, &even, &even, &[]));
    let many = [(&even, DType::F16); 5];
    assert!(boxes::fits(DType::F16, &even, &even, &many[..4]));
    assert!(!boxes::fits(DType::F16, &even, &even, &many));
    let plain = OfEpilogue::<Plain, 0>(Plain);
    let nothing = layout(&[1, 0, 64]);
    assert!(boxes::contract(&plain, DType::F16, &nothing, &even, &[], Tile::ALL[0]).is_none());
}
