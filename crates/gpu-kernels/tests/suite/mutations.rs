//! Does the suite see what is wrong? Each kernel here is spoiled in one place after the other;
//! either the interpreter says what is wrong, or the numbers differ.

use crate::backend::run_work;
use elinvar_core::philox::{Stream, unit_f32};
use elinvar_core::{DType, Layout, Precision, Shape};
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::conv::{ConvPass, ConvProblem};
use elinvar_gpu_kernels::elementwise::map;
use elinvar_gpu_kernels::formula::FloatFormula;
use elinvar_gpu_kernels::gemm::{self, CatalogueEpilogue, GemmProblem, SimtTile};
use elinvar_gpu_kernels::gemm::{mma_sync, tma_wgmma};
use elinvar_gpu_kernels::index::{nonzero, sort};
use elinvar_gpu_kernels::launch::{LaunchSequence, Work};
use elinvar_gpu_kernels::pool;
use elinvar_gpu_kernels::reduce::block_reduce::RegisterBudget;
use elinvar_gpu_kernels::reduce::plan::ReducePath;
use elinvar_gpu_kernels::reduce::rowwise::CatalogueRows;
use elinvar_gpu_kernels::reduce::{arg_fold, fold, rowwise, scan};
use elinvar_gpu_kernels::{attention, conv};
use elinvar_kernel::Kernel;
use elinvar_kernel::interp::{Memory, run};
use elinvar_kernel::ir::{Binary, Constant, Elem, Inst, MmaShape, Op, Place, Region, Type, Value};
use elinvar_kernel::pass::{dce, renumber};
use elinvar_ops::backend::{ArgFold, Attention, Conv, Fold, Pool, PoolKind, Scan, Windows};
use elinvar_ops::lane::Lane;
use elinvar_ops::map::{Compiled, Map};
use elinvar_ops::op::Context;
use elinvar_ops::rows::{RowFormula, RowObject, RowOut, Rows, STATS};
use std::sync::LazyLock;

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

/// What an element lacks of the sum, in parts of what all of them lack: the result at an element is
/// told by its last term.
#[derive(Clone, Copy, Debug)]
struct Shares;
impl RowFormula<1> for Shares {
    const NAME: &'static str = "shares";
    const FOLDS: &'static [Fold] = &[Fold::Sum, Fold::Sum];
    const OUT: RowOut = RowOut::Each;
    const KEEPS: bool = true;
    fn term<L: Lane>(&self, j: usize, [x]: [L; 1], s: [L; STATS], _: L) -> L {
        if j == 0 { x } else { s[0] - x }
    }
    fn out<L: Lane>(&self, x: [L; 1], s: [L; STATS], n: L) -> L {
        self.out_of_term(self.term(1, x, s, n), s, n)
    }
    fn out_of_term<L: Lane>(&self, term: L, s: [L; STATS], _: L) -> L {
        term / s[1]
    }
}
impl Rows<1> for Shares {
    fn backward<V: elinvar_ops::Value>(
        &self,
        _: &[usize],
        _: &Context<V>,
        _: &V,
    ) -> elinvar_core::Result<Vec<Option<V>>> {
        Err(elinvar_core::Error::autograd("shares: has no gradient"))
    }
}
elinvar_ops::compile_rows! { 1 Shares; }
static SHARES: LazyLock<CatalogueRows> =
    LazyLock::new(|| CatalogueRows(Compiled::<Shares, 1>(Shares).boxed()));

/// A work, and the memory that it is given.
struct Case {
    name: &'static str,
    kernel: Kernel,
    work: Work<'static>,
    buffers: Vec<Memory>,
    /// Another work of the same kernel, where one does not come through all of it.
    another: Option<(Work<'static>, Vec<Memory>)>,
}

impl Case {
    /// Numbers that other forms of the kernel need are not read.
    fn lean(mut self) -> Case {
        dce(&mut self.kernel);
        self
    }
    fn and(self, work: Work<'static>, buffers: Vec<Memory>) -> Case {
        assert!(work.kernel() == self.kernel, "{}: another kernel", self.name);
        Case { another: Some((work, buffers)), ..self }
    }
}

fn layout(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).expect("small"))
}

/// Numbers in -1..1 that use all their bits, and differ.
fn noise(n: usize, stream: u64) -> Memory {
    let s = Stream { seed: 17, stream };
    let cells = (0..n as u64).map(|i| u64::from((unit_f32(s.word(i)) * 2.0 - 1.0).to_bits())).collect();
    Memory { elem: Elem::F32, cells }
}

fn case(name: &'static str, work: Work<'static>, mut buffers: Vec<Memory>) -> Case {
    let kernel = work.kernel();
    if let Some(numbers) = &work.args {
        let elem = kernel.buffers.last().expect("numbers have a buffer").elem;
        buffers.push(Memory { elem, cells: numbers.iter().map(|c: &Constant| c.bits).collect() });
    }
    Case { name, kernel, work, buffers, another: None }
}

/// One launch of several.
fn launch(steps: LaunchSequence<'static>, number: usize) -> Work<'static> {
    steps.steps.into_iter().nth(number).expect("there is work").work
}

/// Numbers in 1..2.
fn positive(n: usize) -> Memory {
    let up = |c: u64| u64::from((f32::from_bits(c as u32).abs() + 1.0).to_bits());
    Memory { elem: Elem::F32, cells: noise(n, 19).cells.into_iter().map(up).collect() }
}

/// Numbers of which every third or so is 0.
fn some_zero(n: usize) -> Memory {
    let s = Stream { seed: 18, stream: 0 };
    let cells = (0..n as u64).map(|i| u64::from(s.word(i) % 3)).collect();
    Memory { elem: Elem::F32, cells }
}

/// Windows of three taps, two apart, the first with one element of padding.
fn windows(count: usize) -> Windows {
    let start: Vec<isize> = (0..count).map(|i| 2 * i as isize - 1).collect();
    // Not what a window has of them.
    let divisor = (5..5 + count).collect();
    Windows { start, len: vec![3; count], divisor, dilation: 1 }
}

/// Works, and the memory that they are given (but for numbers of launches).
pub fn works() -> Vec<(Work<'static>, Vec<Memory>)> {
    let plain = |c: Case| {
        let mut buffers = c.buffers;
        if c.work.args.is_some() {
            buffers.pop();
        }
        (c.work, buffers)
    };
    cases().into_iter().map(plain).collect()
}

fn cases() -> Vec<Case> {
    static TWICE: LazyLock<FloatFormula> = LazyLock::new(|| FloatFormula(Box::new(Compiled::<_, 3>(Twice))));
    const PLAIN: CatalogueEpilogue<'static> = CatalogueEpilogue(None);
    // Maxima of two parts and rows so far apart that with another as the largest nothing is right,
    // and one whose product with ln 2 is rounded by nearly half a unit; then sums.
    let mut apart = positive(2 * 2 * 2);
    for (cell, m) in apart.cells.iter_mut().zip([-400.0, -0.7256, -160.83, -300.0f32]) {
        *cell = u64::from(m.to_bits());
    }
    let f32s = |n| Memory::of(DType::F32, n);
    let (x, y, z) = (|n| noise(n, 1), |n| noise(n, 2), |n| noise(n, 3));
    let d = DType::F32;
    let l = layout(&[5, 7]);
    let t = layout(&[7, 5]).transpose(0, 1);
    let some = |w: Option<Work<'static>>| w.expect("there are elements");
    let c =
        Conv { stride: vec![2], padding: vec![1], dilation: vec![1], groups: 1, precision: Precision::Exact };
    let a = Attention::exact(0.5, false);
    let (q, kv) = (layout(&[1, 1, 32, 3]), layout(&[1, 1, 260, 3]));
    // In pieces of 16 bytes.
    let room = attention::AttentionPath::Smem(64 << 10);
    let (short, long) = (layout(&[1, 1, 32, 4]), layout(&[1, 1, 260, 4]));
    let staged = |gradient: Option<usize>| match gradient {
        None => some(attention::attention(&a, d, [&short, &long, &long], None, room)),
        Some(number) => {
            // No two sizes are the same, nor two strides.
            let (q, g, lse) = (layout(&[2, 6, 34, 4]), layout(&[2, 6, 34, 8]), layout(&[2, 6, 34]));
            let (k, v) = (layout(&[2, 2, 130, 4]), layout(&[2, 2, 130, 8]));
            let given =
                attention::BackwardInputs { q: &q, k: &k, v: &v, o: &g, lse: &lse, g: &g, mask: None };
            // By keys, tile by tile of all heads.
            let a = Attention::exact(0.5, number == 2);
            launch(attention::attention_grad(&a, d, given, room), number)
        }
    };
    let of_gradient = |result: usize| {
        let q_k_v = [x(1632), y(2080), z(4160)];
        let others = [noise(408, 4), noise(3264, 5), noise(408, 6), f32s(result)];
        q_k_v.into_iter().chain(others).collect::<Vec<_>>()
    };
    let tile = SimtTile { group: [2, 2], each: [2, 2], depth: 4, slots: 0 };
    let (m, w) = (layout(&[1, 5, 12]), layout(&[1, 12, 5]));
    let plain = SimtTile { depth: 0, ..tile };
    let copied = SimtTile { depth: 8, slots: 2, ..tile };
    // Columns in pieces of 16 bytes.
    let even = layout(&[1, 12, 8]);
    let product = |tile| some(gemm::contract(&GemmProblem::new(&PLAIN, d, &m, &w, &[]), tile));
    let copied_conv = |x: [usize; 3], w: [usize; 3]| {
        let how = conv::ConvPath::ImplicitGemm(SimtTile { group: [4, 4], ..copied });
        launch(
            conv::steps(&ConvProblem::forward(&PLAIN, &c, d, [&layout(&x), &layout(&w)], &[5], &[]), how),
            0,
        )
    };
    let folded = |n| {
        let choice = fold::FoldChoice { budget: RegisterBudget::Many, ..Default::default() };
        some(fold::fold(Fold::Sum, &layout(&[3, n]), d, 1, d, choice))
    };
    // Three taps, two apart, with one of padding.
    let pooled = |kind| Pool { kind, axes: [4, 5].map(windows).to_vec() };
    // So many elements that an invocation has several.
    let image = layout(&[8, 8, 9]);
    let mut won = vec![z(8 * 72), f32s(8 * 20), Memory::zeros(Elem::I64, 8 * 20)];
    run_work(&some(pool::pool(&pooled(PoolKind::Max), d, &image)), &mut won);
    let winners = &won[2];
    let roomy = conv::WorkgroupLimits {
        invocations: 1024,
        shared: 48 << 10,
        cp_async: true,
        compute_units: ComputeUnits::default(),
    };
    // Where each block of a nonzero begins to write.
    let before = Memory { elem: Elem::I64, cells: vec![0, 1100] };
    vec![
        case(
            "map",
            some(map::map(&*TWICE, d, &[(&l, d), (&t, d), (&l, d)])),
            vec![x(35), y(35), z(35), f32s(35)],
        ),
        case(
            "join of attention",
            launch(
                attention::split_kv::steps(
                    &Attention::exact(0.4, false),
                    DType::F16,
                    [&layout(&[1, 1, 2, 32]), &layout(&[1, 1, 600, 32]), &layout(&[1, 1, 600, 32])],
                ),
                1,
            ),
            vec![x(2 * 2 * 32), apart, Memory::of(DType::F16, 64), f32s(2)],
        ),
        case(
            "fold",
            some(fold::fold(Fold::Sum, &layout(&[3, 300]), d, 1, d, fold::FoldChoice::default())),
            vec![x(900), f32s(3)],
        ),
        // Terms of several turns at once: some that end with the row, and turns in which all lanes
        // have one.
        case("fold of many", folded(300), vec![x(900), f32s(3)]).and(folded(512), vec![x(1536), f32s(3)]),
        case("fold of blocks side by side", folded(3 * 4096 + 40), vec![x(3 * (3 * 4096 + 40)), f32s(3)]),
        case(
            "held rows",
            some(rowwise::rows(&*SHARES, d, &[(&layout(&[2, 300]), d)], 1, RegisterBudget::Many, true)),
            vec![x(600), f32s(600)],
        ),
        case("scan", some(scan::scan(Scan::Sum, &layout(&[3, 1100]), d, d)), vec![x(3300), f32s(3300)]),
        case(
            "scan of rows side by side",
            some(scan::scan(Scan::Sum, &layout(&[1100, 5]).transpose(0, 1), d, d)),
            vec![x(5500), f32s(5500)],
        ),
        case("max_pool", some(pool::pool(&pooled(PoolKind::Max), d, &image)), {
            vec![x(8 * 72), f32s(8 * 20), Memory::zeros(Elem::I64, 8 * 20)]
        })
        .lean(),
        case(
            "gradient of max_pool",
            some(pool::backward::maximum(
                &pooled(PoolKind::Max),
                d,
                &layout(&[8, 72]),
                [&layout(&[8, 20]); 2],
                &[8, 9],
            )),
            vec![x(8 * 72), winners.clone(), y(8 * 20), f32s(8 * 72)],
        ),
        case(
            "gradient of avg_pool",
            some(pool::backward::average(&pooled(PoolKind::Avg), d, &layout(&[8, 4, 5]), &[8, 9])),
            vec![x(8 * 20), f32s(8 * 72)],
        ),
        case(
            "conv of few rows",
            launch(
                conv::steps(
                    &ConvProblem::gradient(
                        ConvPass::GradWeight,
                        &Conv { groups: 3, ..c.clone() },
                        d,
                        [&layout(&[2, 6, 41]), &layout(&[2, 6, 21])],
                        &[3],
                    ),
                    conv::ConvPath::Auto(roomy),
                ),
                0,
            ),
            vec![y(252), x(492), f32s(36)],
        ),
        case("product", product(plain), vec![x(60), y(60), f32s(25)]),
        case(
            "copied product",
            some(gemm::contract(&GemmProblem::new(&PLAIN, d, &m, &even, &[]), copied)),
            vec![x(60), y(96), f32s(40)],
        )
        // Of few terms, which are all begun before the first turn.
        .and(
            some(gemm::contract(
                &GemmProblem::new(&PLAIN, d, &layout(&[1, 5, 4]), &layout(&[1, 4, 8]), &[]),
                copied,
            )),
            vec![x(20), y(32), f32s(40)],
        ),
        case("shared product", product(tile), vec![x(60), y(60), f32s(25)]),
        case(
            "conv",
            launch(
                conv::steps(
                    &ConvProblem::forward(
                        &PLAIN,
                        &c,
                        d,
                        [&layout(&[2, 3, 9]), &layout(&[4, 3, 3])],
                        &[5],
                        &[],
                    ),
                    conv::ConvPath::ImplicitGemm(plain),
                ),
                0,
            ),
            vec![x(54), y(36), f32s(40)],
        ),
        // An invocation reads what others know of a term.
        case(
            "staged conv",
            launch(
                conv::steps(
                    &ConvProblem::forward(
                        &PLAIN,
                        &c,
                        d,
                        [&layout(&[2, 3, 9]), &layout(&[4, 3, 3])],
                        &[5],
                        &[],
                    ),
                    conv::ConvPath::ImplicitGemm(SimtTile { group: [2, 4], ..tile }),
                ),
                0,
            ),
            vec![x(54), y(36), f32s(40)],
        ),
        case("copied conv", copied_conv([2, 3, 9], [8, 3, 3]), vec![x(54), y(72), f32s(80)])
            // Of few terms, which are all begun before the first turn.
            .and(copied_conv([2, 1, 9], [8, 1, 3]), vec![x(18), y(24), f32s(80)]),
        case(
            "attention",
            some(attention::attention(&a, d, [&q, &kv, &kv], None, attention::AttentionPath::Direct)),
            vec![x(96), y(780), z(780), f32s(96), f32s(32)],
        ),
        case("staged attention", staged(None), vec![x(128), y(1040), z(1040), f32s(128), f32s(32)]),
        // Of rows that are filled up.
        case(
            "staged attention of odd rows",
            some(attention::attention(&a, d, [&q, &kv, &kv], None, room)),
            vec![x(96), y(780), z(780), f32s(96), f32s(32)],
        ),
        case("gradient of staged attention", staged(Some(1)), of_gradient(1632)).lean(),
        case("gradient of staged attention by keys", staged(Some(2)), of_gradient(2080)).lean(),
        case(
            "arg_fold",
            launch(arg_fold::arg_fold(ArgFold::Max, &layout(&[60, 150]), d, 1, ReducePath::WholeRows), 0),
            vec![x(9000), Memory::zeros(Elem::I64, 60)],
        ),
        case(
            "sort",
            launch(sort::sort(&layout(&[9, 60]), d, false), 0),
            vec![x(540), f32s(540), Memory::zeros(Elem::I64, 540)],
        ),
        case(
            "nonzero",
            launch(nonzero::nonzero(&layout(&[1500]), d), 2),
            vec![some_zero(1500), before, Memory::zeros(Elem::I64, 2200)],
        ),
    ]
}

/// Numbers of f16, and room for so many.
fn halves(n: usize, stream: u64) -> Memory {
    let half = |c: u64| u64::from(half::f16::from_f32(f32::from_bits(c as u32)).to_bits());
    Memory { elem: Elem::F16, cells: noise(n, stream).cells.into_iter().map(half).collect() }
}

/// Numbers of f64.
fn doubles(n: usize, stream: u64) -> Memory {
    let double = |c: u64| f64::from(f32::from_bits(c as u32)).to_bits();
    Memory { elem: Elem::F64, cells: noise(n, stream).cells.into_iter().map(double).collect() }
}

/// Kernels of tensor cores whose shared memory is filled several times over. They are larger: what
/// is tried on them is what has to do with order.
fn unit_cases() -> Vec<Case> {
    const PLAIN: CatalogueEpilogue<'static> = CatalogueEpilogue(None);
    let (d, unit) = (DType::F16, MmaShape { elem: Elem::F16, shape: [16; 3] });
    let limits = mma_sync::WorkgroupLimits {
        invocations: 1024,
        shared: 48 << 10,
        cp_async: true,
        compute_units: ComputeUnits::default(),
    };
    let tile = mma_sync::MmaTile::all(unit, 32, limits)[2];
    let (x, w) = (layout(&[1, 16, 168]), layout(&[1, 168, 64]));
    let product =
        mma_sync::contract(&GemmProblem::new(&PLAIN, d, &x, &w, &[]), tile).expect("there are elements");
    let (y, z) = (layout(&[1, 16, 168]), layout(&[1, 168, 32]));
    let tile = gemm::f64_tensor_core::F64MmaTile { slots: 3, ..gemm::f64_tensor_core::F64MmaTile::ALL[4] };
    let chained = gemm::f64_tensor_core::contract(&GemmProblem::new(&PLAIN, DType::F64, &y, &z, &[]), tile);
    let chained = chained.expect("there are elements");
    // Of the second tile of queries, some blocks of keys are seen whole, and some in part.
    let long = layout(&[1, 1, 170, 32]);
    let a = Attention::exact(0.4, true);
    let attended = attention::mma_forward::attention(&a, d, [&long; 3]).expect("there are queries");
    // Two heads go with one of keys.
    let (q, kv, lse) = (layout(&[1, 2, 140, 32]), layout(&[1, 1, 140, 32]), layout(&[1, 2, 140]));
    let given = attention::BackwardInputs { q: &q, k: &kv, v: &kv, o: &q, lse: &lse, g: &q, mask: None };
    let gradient = |number| launch(attention::mma_backward::attention_grad(&a, d, &given), number);
    let decode = Attention::exact(0.4, false);
    let (one, keys) = (layout(&[1, 1, 2, 32]), layout(&[1, 1, 600, 32]));
    let in_parts = |number| launch(attention::split_kv::steps(&decode, d, [&one, &keys, &keys]), number);
    let (many, few) = (280 * 32, 140 * 32);
    let operands = |result: usize| {
        let q_k_v = [halves(many, 1), halves(few, 2), halves(few, 3)];
        let others = [noise(280, 4), halves(many, 5), noise(280, 6), Memory::of(d, result)];
        q_k_v.into_iter().chain(others).collect()
    };
    // Blocks that are seen whole, and in part; three and four through two slots.
    let heads = layout(&[1, 1, 200, 64]);
    let tile = attention::wgmma_forward::WgmmaAttentionTile { groups: 3, block: 64, slots: 2 };
    let of_heads = attention::wgmma_forward::attention(&a, d, [&heads; 3], tile).expect("there are queries");
    // As many blocks; two heads go with one of keys.
    let (heads_of, three) = (|h: usize| layout(&[1, h, 200, 64]), layout(&[1, 1, 140, 64]));
    let of_gradient = |number: usize| {
        let (q, kv) =
            if number == 1 { (heads_of(1), heads_of(1)) } else { (layout(&[1, 2, 140, 64]), three.clone()) };
        let lse = layout(&q.shape().dims()[..3]);
        let given = attention::BackwardInputs { q: &q, k: &kv, v: &kv, o: &q, lse: &lse, g: &q, mask: None };
        let groups = if number == 1 { 2 } else { 1 };
        let tile = attention::wgmma_forward::WgmmaAttentionTile { groups, block: 64, slots: 2 };
        let steps = attention::wgmma_backward::steps_by(&a, d, &given, [tile; 2]);
        let [n, m] = [&q, &kv].map(|l| l.shape().numel());
        let mut buffers = vec![halves(n, 1), halves(m, 2), halves(m, 3), halves(n, 5)];
        buffers.extend([noise(n / 64, 4), noise(n / 64, 6)]);
        buffers.extend(vec![Memory::of(d, if number == 1 { n } else { m }); if number == 1 { 1 } else { 2 }]);
        (launch(steps, number), buffers)
    };
    let (by_queries, of_queries) = of_gradient(1);
    let (by_keys, of_keys) = of_gradient(2);
    // Five steps through two slots.
    let tile = tma_wgmma::WgmmaTile { groups: 1, columns: 64, slots: 2 };
    let (rows, columns) = (layout(&[1, 16, 264]), layout(&[1, 264, 64]));
    let of_boxes = tma_wgmma::contract(&GemmProblem::new(&PLAIN, d, &rows, &columns, &[]), tile)
        .expect("it can be done so");
    vec![
        case(
            "product of TMA tiles",
            of_boxes,
            vec![halves(16 * 264, 1), halves(64 * 264, 2), Memory::of(d, 16 * 64)],
        ),
        case(
            "attention by TMA tiles",
            of_heads,
            vec![
                halves(200 * 64, 1),
                halves(200 * 64, 2),
                halves(200 * 64, 3),
                Memory::of(d, 200 * 64),
                Memory::of(DType::F32, 200),
            ],
        ),
        case("gradient of attention by TMA tiles, by queries", by_queries, of_queries),
        case("gradient of attention by TMA tiles, by keys", by_keys, of_keys),
        case(
            "product by units",
            product,
            vec![halves(16 * 168, 1), halves(64 * 168, 2), Memory::of(d, 16 * 64)],
        ),
        case(
            "product of f64 by units",
            chained,
            vec![doubles(16 * 168, 1), doubles(32 * 168, 2), Memory::of(DType::F64, 16 * 32)],
        ),
        case(
            "attention by units",
            attended,
            vec![
                halves(170 * 32, 1),
                halves(170 * 32, 2),
                halves(170 * 32, 3),
                Memory::of(d, 170 * 32),
                Memory::of(DType::F32, 170),
            ],
        ),
        case(
            "parts of attention",
            in_parts(0),
            vec![
                halves(2 * 32, 1),
                halves(600 * 32, 2),
                halves(600 * 32, 3),
                Memory::of(DType::F32, 2 * 2 * 32),
                Memory::of(DType::F32, 2 * 2 * 2),
            ],
        ),
        case("gradient by units, of queries", gradient(1), operands(many)),
        case("gradient by units, of keys", gradient(2), operands(few)),
    ]
}

/// What is done to an instruction: `None` if there is nothing to spoil in it, else what stands in
/// its place.
type Spoil<'a> = dyn FnMut(&Inst, &mut Vec<Type>) -> Option<Vec<Inst>> + 'a;

/// The kernel with its `number`-th place spoiled; `None` if it has not so many.
fn spoiled(kernel: &Kernel, number: usize, how: &mut Spoil<'_>) -> Option<Kernel> {
    fn region(r: &mut Region, values: &mut Vec<Type>, left: &mut usize, how: &mut Spoil<'_>) -> bool {
        for i in 0..r.insts.len() {
            if let Some(instead) = how(&r.insts[i], values) {
                if *left == 0 {
                    r.insts.splice(i..=i, instead);
                    return true;
                }
                *left -= 1;
            }
            for inner in r.insts[i].op.regions_mut() {
                if region(inner, values, left, how) {
                    return true;
                }
            }
        }
        false
    }
    let (mut k, mut left) = (kernel.clone(), number);
    let mut values = std::mem::take(&mut k.values);
    let found = region(&mut k.body, &mut values, &mut left, how);
    k.values = values;
    found.then(|| {
        renumber(&mut k);
        k
    })
}

/// Runs a kernel: its memory afterwards, or what is wrong with it.
fn outcome(c: &Case, kernel: &Kernel) -> Result<Vec<Memory>, String> {
    let mut buffers = c.buffers.clone();
    run(kernel, &c.work.launch, &mut buffers).map_err(|e| e.0)?;
    if let Some((work, more)) = &c.another {
        let mut more = more.clone();
        run(kernel, &work.launch, &mut more).map_err(|e| e.0)?;
        buffers.extend(more);
    }
    Ok(buffers)
}

/// How many places of a kernel can be spoiled so, and in which of them no check saw it.
fn unseen(c: &Case, how: &mut Spoil<'_>) -> (usize, Vec<usize>) {
    let right = outcome(c, &c.kernel).unwrap_or_else(|e| panic!("{}: {e}", c.name));
    let mut missed = Vec::new();
    let mut number = 0;
    while let Some(wrong) = spoiled(&c.kernel, number, how) {
        if outcome(c, &wrong).is_ok_and(|buffers| buffers == right) {
            missed.push(number);
        }
        number += 1;
    }
    (number, missed)
}

/// One more value of a type.
fn define(values: &mut Vec<Type>, t: Type) -> Value {
    values.push(t);
    Value(values.len() as u32 - 1)
}

#[test]
fn a_barrier_is_missing() {
    let mut barriers = 0;
    for c in cases().into_iter().chain(unit_cases()) {
        let (count, missed) = unseen(&c, &mut |inst, _| matches!(inst.op, Op::Barrier).then(Vec::new));
        barriers += count;
        // The last barrier of a fold, and of sums side by side, is for what follows, and here
        // nothing does.
        let idle = if matches!(
            c.name,
            "fold" | "fold of many" | "fold of blocks side by side" | "held rows" | "nonzero"
        ) {
            vec![count - 1]
        } else {
            Vec::new()
        };
        assert_eq!(missed, idle, "{}: without these barriers of {count} nothing is wrong", c.name);
    }
    assert!(barriers > 20, "{barriers}");
}

#[test]
fn a_wait_or_a_group_is_missing() {
    let mut places = 0;
    for c in cases().into_iter().chain(unit_cases()) {
        let order = |op: &Op| {
            matches!(op, Op::CpAsyncCommit | Op::CpAsyncWait(_) | Op::MbarrierWait(..) | Op::WgmmaWait(_))
        };
        let (count, missed) = unseen(&c, &mut |inst, _| order(&inst.op).then(Vec::new));
        places += count;
        // The groups of steps beyond the last one are empty, and no step uses the last of them. Of
        // the keys of a part, one block at most is not seen whole, and the group that is made
        // beside it is for causal ones.
        let idle = if c.name == "parts of attention" { vec![count - 1] } else { Vec::new() };
        assert_eq!(missed, idle, "{}: without these of {count} nothing is wrong", c.name);
        // Waiting for one group less.
        let (count, missed) = unseen(&c, &mut |inst, _| match inst.op {
            Op::CpAsyncWait(n) => Some(vec![Inst { op: Op::CpAsyncWait(n + 1), results: Vec::new() }]),
            Op::WgmmaWait(n) => Some(vec![Inst { op: Op::WgmmaWait(n + 1), results: Vec::new() }]),
            _ => None,
        });
        places += count;
        assert!(missed.is_empty(), "{}: waiting for less, {missed:?} of {count}, nothing is wrong", c.name);
    }
    assert!(places > 2, "{places}");
}

#[test]
fn an_index_is_off_by_one() {
    let mut places = 0;
    for c in cases() {
        let mut next = |inst: &Inst, values: &mut Vec<Type>| {
            let at = match &inst.op {
                Op::Load(Place::Buffer(_) | Place::Shared(_), at, _)
                | Op::Store(_, at, _)
                | Op::CpAsync { at, .. } => *at,
                _ => return None,
            };
            let t = values[at.0 as usize];
            let (one, sum) = (define(values, t), define(values, t));
            let scalar = t.scalar().expect("an index is a number");
            let mut moved = inst.clone();
            moved.op.each_operand_mut(&mut |v| {
                if *v == at {
                    *v = sum;
                }
            });
            Some(vec![
                Inst { op: Op::Const(Constant::int(scalar, 1)), results: vec![one] },
                Inst { op: Op::Binary(Binary::Add, at, one), results: vec![sum] },
                moved,
            ])
        };
        let (count, missed) = unseen(&c, &mut next);
        places += count;
        assert!(missed.is_empty(), "{}: with index {missed:?} of {count} moved nothing is wrong", c.name);
    }
    assert!(places > 60, "{places}");
}

#[test]
fn a_product_and_a_sum_are_contracted() {
    let mut places = 0;
    for c in cases() {
        // The operands of each product of floats.
        let mut products: Vec<(Value, Value, Value)> = Vec::new();
        let mut fuse = |inst: &Inst, values: &mut Vec<Type>| {
            let Op::Binary(op, a, b) = inst.op else { return None };
            if values[a.0 as usize].scalar().is_none_or(|s| !s.is_float()) {
                return None;
            }
            match op {
                Binary::Mul => {
                    products.push((inst.results[0], a, b));
                    None
                }
                Binary::Add => {
                    let of = |v: Value| products.iter().find(|p| p.0 == v).copied();
                    let (p, other) = of(a).map(|p| (p, b)).or(of(b).map(|p| (p, a)))?;
                    Some(vec![Inst { op: Op::Fma(p.1, p.2, other), results: inst.results.clone() }])
                }
                _ => None,
            }
        };
        let (count, missed) = unseen(&c, &mut fuse);
        places += count;
        assert!(missed.is_empty(), "{}: contraction {missed:?} of {count} changes nothing", c.name);
    }
    assert!(places >= 2, "{places}");
}

#[test]
fn nothing_is_stored() {
    for c in cases() {
        let right = outcome(&c, &c.kernel).unwrap_or_else(|e| panic!("{}: {e}", c.name));
        let mut idle = c.kernel.clone();
        fn empty(r: &mut Region) {
            r.insts.retain(|i| !matches!(i.op, Op::Store(Place::Buffer(_), ..)));
            r.insts.iter_mut().for_each(|i| i.op.regions_mut().into_iter().for_each(empty));
        }
        empty(&mut idle.body);
        let seen = outcome(&c, &idle).map_or(true, |buffers| buffers != right);
        assert!(seen, "{}: without its stores it gives the same", c.name);
    }
}
