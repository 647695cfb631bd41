//! Kernels in which an invocation takes neighbours, or blocks go side by side: every form of them,
//! around its edges.

use crate::backend::start;
use crate::edges::{conv, operand, roomy, same_on, special_rows};
use elinvar_conformance::compare::bits;
use elinvar_conformance::equal::Call;
use elinvar_conformance::equal::dice::{Dice, Values};
use elinvar_core::{DType, HostData, HostTensor, Layout, Result, Shape};
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::elementwise::map::{self, MapChoice};
use elinvar_gpu_kernels::formula::FloatFormula;
use elinvar_gpu_kernels::gemm::CatalogueEpilogue;
use elinvar_gpu_kernels::gemm::split_k_reduce;
use elinvar_gpu_kernels::launch::Work;
use elinvar_gpu_kernels::reduce::block_reduce::RegisterBudget;
use elinvar_gpu_kernels::reduce::rowwise::{CatalogueRows, rows};
use elinvar_ops::Value;
use elinvar_ops::backend::{Compute, Fold, View};
use elinvar_ops::catalogue::softmax::Softmax;
use elinvar_ops::lane::Lane;
use elinvar_ops::map::{Compiled, Map, MapObject};
use elinvar_ops::op::Context;
use elinvar_ops::rows::{RowFormula, RowObject, RowOut, Rows, STATS};
use elinvar_reference::Reference;

fn shape(dims: &[usize]) -> Shape {
    Shape::new(dims).expect("small")
}

fn tensor(data: HostData, dims: &[usize]) -> HostTensor {
    HostTensor::new(shape(dims), data).expect("it fits")
}

/// The mean of a row, and the sum of the squares of what elements are away from it.
#[derive(Clone, Copy, Debug)]
struct Squares;
impl RowFormula<1> for Squares {
    const NAME: &'static str = "squares";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum];
    const OUT: RowOut = RowOut::Statistics;
    fn term<L: Lane>(&self, j: usize, [x]: [L; 1], s: [L; STATS], _: L) -> L {
        if j == 0 { x } else { (x - s[0]) * (x - s[0]) }
    }
    fn finish<L: Lane>(&self, j: usize, folded: L, _: [L; STATS], n: L) -> L {
        if j == 0 { folded / n } else { folded }
    }
    fn out<L: Lane>(&self, _: [L; 1], s: [L; STATS], _: L) -> L {
        s[1]
    }
}
impl Rows<1> for Squares {
    fn backward<V: Value>(&self, _: &[usize], _: &Context<V>, _: &V) -> Result<Vec<Option<V>>> {
        Err(elinvar_core::Error::autograd("squares: has no gradient"))
    }
}
elinvar_ops::compile_rows! { 1 Squares; }

/// Blocks that stay in registers: a last one with few terms, with one, with none at all; all that
/// may stay, and one more.
#[test]
fn rows_stay_in_blocks_side_by_side() {
    let mut dice = Dice::new(12, 1);
    let block = 4096;
    for n in [2 * block + 1, 3 * block, 4 * block, 4 * block + 1, 25_088, 8 * block, 8 * block + 1] {
        let x = special_rows(&mut dice, DType::F32, n);
        // One of special values, and the ones that are all -0 and all -inf.
        let layout = x.layout.slice(0, 0, 3, 1);
        held(&Squares, &x.data, &layout, &[3, 2]);
        held(&Softmax, &x.data, &layout, &[3, n]);
    }
}

fn held<R: RowFormula<1>>(f: &R, data: &HostData, layout: &Layout, dims: &[usize]) {
    let (dtype, of) = (DType::F32, CatalogueRows(Compiled::<R, 1>(*f).boxed()));
    let work = rows(&of, dtype, &[(layout, dtype)], 1, RegisterBudget::Many, true).expect("there are rows");
    let got = tensor(start(&work, &[data], &[(dtype, dims.iter().product())]).remove(0), dims);
    let view = View { buffer: data, layout, dtype };
    let want =
        Reference::rows(&Default::default(), &Compiled::<R, 1>(*f), &[view], 1, dtype).expect("it runs");
    let said = |m| panic!("{} of {:?}: {m}", R::NAME, layout.shape());
    bits(&got, &tensor(want.buffer, dims)).unwrap_or_else(said);
}

/// x * y + z, rounded twice.
#[derive(Clone, Copy, Debug)]
struct Twice;
impl Map<3> for Twice {
    const NAME: &'static str = "twice";
    fn lane<L: Lane>(&self, [x, y, z]: [L; 3]) -> L {
        x * y + z
    }
}
elinvar_ops::compile_map! { 3 Twice; }

/// Four neighbours of operands with strides: one element, or four side by side. Where they do not
/// are so, one at a time.
#[test]
fn maps_take_four_neighbours_of_what_is_broadcast() {
    let to = shape(&[3, 5, 8]);
    let along = |dims: &[usize], offset: usize| {
        let whole = Layout::contiguous(shape(&[dims.iter().product::<usize>() + offset]));
        let part = whole.slice(0, offset, dims.iter().product(), 1).reshape(&shape(dims)).expect("it fits");
        part.broadcast_to(&to, "test").expect("it fits")
    };
    let padded = Layout::contiguous(shape(&[3, 5, 12])).slice(2, 4, 8, 1);
    let dense = along(&[3, 5, 8], 0);
    // What comes with x, and how many are taken at once.
    let rows = [
        ([along(&[5, 1], 0), along(&[5, 1], 3)], 4),
        ([along(&[5, 1], 1), along(&[8], 4)], 4),
        ([along(&[3, 1, 8], 0), along(&[3, 1, 1], 2)], 4),
        ([padded.clone(), along(&[1], 0)], 4),
        ([dense.clone(), along(&[5, 8], 8)], 4),
        // From a place that is no multiple of four; lines that are none; neighbours far apart.
        ([along(&[5, 1], 0), along(&[8], 2)], 1),
        ([Layout::contiguous(shape(&[3, 5, 10])).slice(2, 0, 8, 1), dense.clone()], 1),
        ([Layout::contiguous(shape(&[3, 8, 5])).transpose(1, 2), dense.clone()], 1),
    ];
    let mut dice = Dice::new(12, 2);
    let twice: &dyn MapObject = &Compiled::<_, 3>(Twice);
    let f = FloatFormula(twice.boxed());
    for dtype in [DType::F32, DType::F16, DType::F64] {
        for (others, width) in &rows {
            let layouts = [&dense, &others[0], &others[1]];
            let data: Vec<HostData> = (0..3).map(|_| dice.data(dtype, 300, Values::Tame)).collect();
            let operands: Vec<(&Layout, DType)> = layouts.iter().map(|&l| (l, dtype)).collect();
            let run = |most: u8| {
                let choice = MapChoice { most, ..MapChoice::default() };
                let work = map::map_by(&f, dtype, &operands, choice).expect("there are elements");
                let name = work.kernel().name;
                let asked = if most == 4 { *width } else { 1 };
                assert!(name.ends_with(&format!("w{asked}")), "{name}: {others:?}");
                start(&work, &data.iter().collect::<Vec<_>>(), &[(dtype, 120)]).remove(0)
            };
            let views = [0, 1, 2].map(|i| View { buffer: &data[i], layout: layouts[i], dtype });
            let want = Reference::map(&Default::default(), twice, &views, dtype).expect("it runs");
            let want = tensor(want, &[3, 5, 8]);
            for most in [1, 4] {
                bits(&tensor(run(most), &[3, 5, 8]), &want).unwrap_or_else(|m| panic!("{others:?}: {m}"));
            }
        }
    }
}

/// The sums of chunks: one, as many as are loaded at a time and one more, many; four neighbours,
/// and one at a time.
#[test]
fn sums_of_chunks_are_added_in_order() {
    const PLAIN: CatalogueEpilogue<'static> = CatalogueEpilogue(None);
    let mut dice = Dice::new(12, 3);
    for (many, len) in
        [(1, 40), (2, 65), (3, 64), (5, 12), (17, 33), (18, 32), (196, 5), (2, 131_072), (6, 131_076)]
    {
        let work: Work<'_> =
            split_k_reduce::join(&PLAIN, DType::F32, many, len, &[], ComputeUnits::default());
        let fours = len >= 131_072;
        assert!(work.kernel().name.contains(if fours { "w4" } else { "w1" }), "{}", work.kernel().name);
        let data = dice.data(DType::F32, many * len, Values::Wild);
        let HostData::F32(all) = &data else { unreachable!("it was asked for") };
        let sum = |i: usize| (1..many).fold(all[i], |sum, c| sum + all[c * len + i]);
        let want = HostData::F32((0..len).map(sum).collect());
        let got = start(&work, &[&data], &[(DType::F32, len)]).remove(0);
        bits(&tensor(got, &[len]), &tensor(want, &[len])).unwrap_or_else(|m| panic!("{many} of {len}: {m}"));
    }
}

/// Gradients by x of few channels: lines of taps of which a class has all or one less, or none;
/// chunks that end between lines and in the midst of one; neighbours beyond both ends; and those of
/// many channels in chunks that have workgroups of their own.
#[test]
fn gradients_by_few_channels() {
    let mut dice = Dice::new(12, 4);
    let rows = [
        // The first layer of a network: chunks end in the midst of lines of three taps.
        (conv(&[2, 2], &[3, 3], &[1, 1], 1), [1, 3, 48], vec![9, 21], vec![7, 7], vec![5, 11]),
        (conv(&[1, 1], &[1, 2], &[1, 1], 1), [2, 2, 60], vec![5, 9], vec![3, 5], vec![5, 9]),
        // Taps that are fewer than the stride: some classes have none.
        (conv(&[3, 3], &[0, 1], &[1, 1], 1), [2, 3, 4], vec![7, 10], vec![2, 2], vec![2, 4]),
        // A chunk that ends with a line, and one with the last term.
        (conv(&[1], &[0], &[1], 1), [1, 1, 128], vec![11], vec![4], vec![8]),
        (conv(&[2], &[1], &[1], 3), [2, 12, 411], vec![17], vec![5], vec![8]),
        (
            conv(&[1, 2, 1], &[1, 0, 1], &[2, 1, 1], 2),
            [1, 14, 10],
            vec![5, 6, 9],
            vec![2, 3, 2],
            vec![5, 2, 10],
        ),
        // Nothing beyond the ends; more taps than are written out; taps apart from each other.
        (conv(&[1], &[0], &[1], 1), [1, 3, 5], vec![12], vec![1], vec![12]),
        (conv(&[1], &[4], &[1], 1), [1, 3, 60], vec![10], vec![9], vec![10]),
        (conv(&[1], &[2], &[2], 1), [1, 3, 130], vec![10], vec![4], vec![8]),
        // Many channels.
        (conv(&[1, 1], &[1, 1], &[1, 1], 1), [1, 16, 130], vec![5, 7], vec![3, 3], vec![5, 7]),
        (conv(&[1, 1], &[1, 0], &[1, 2], 2), [2, 32, 124], vec![4, 8], vec![3, 3], vec![4, 4]),
    ];
    for (c, [n, channels, outs], spatial, taps, out) in rows {
        let sizes = |a: usize, b: usize, rest: &[usize]| [&[a, b], rest].concat();
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let mut make = |dims: Vec<usize>| operand(&mut dice, dtype, &dims, Values::Tame);
            let (g, w) = (make(sizes(n, outs, &out)), make(sizes(outs, channels / c.groups, &taps)));
            same_on(&roomy(), &Call::ConvInputGrad { c: c.clone(), g, w, spatial: spatial.clone() });
        }
    }
}
