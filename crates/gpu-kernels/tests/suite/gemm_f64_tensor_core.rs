//! Products of f64 by tensor cores that compute chains of fma: the reference's bits.

use crate::backend::run_steps;
use crate::gemm::{Case, host, layout, noise, tiny};
use crate::ptx_machine;
use elinvar_core::{DType, HostData};
use elinvar_gpu_kernels::ComputeUnits;
use elinvar_gpu_kernels::gemm::f64_tensor_core::{self, F64MmaTile};
use elinvar_gpu_kernels::gemm::mma_sync::WorkgroupLimits;
use elinvar_gpu_kernels::gemm::{CatalogueEpilogue, GemmProblem};
use elinvar_kernel::emit::ptx;
use elinvar_kernel::interp::{Memory, run};
use elinvar_ops::backend::AddBias;
use elinvar_ops::map::Compiled;

const D: DType = DType::F64;
const SMALL: F64MmaTile = F64MmaTile::ALL[F64MmaTile::ALL.len() - 1];

/// Their bits; NaN is one value.
fn bits(x: &HostData) -> Vec<u64> {
    let HostData::F64(x) = x else { panic!("{:?}", x.dtype()) };
    x.iter().map(|x| if x.is_nan() { f64::NAN } else { *x }.to_bits()).collect()
}

fn check(case: &Case, tile: F64MmaTile) {
    for number in [&noise as &dyn Fn(usize, usize) -> f32, &tiny] {
        let got = case.run(D, &|p| f64_tensor_core::contract(p, tile), number);
        let (sizes, along) = (case.sizes, case.along);
        assert_eq!(bits(&got), bits(&case.want(D, number)), "{sizes:?} {along:?} {tile:?}");
    }
}

/// All tiles, all layouts: in pieces of 16 bytes and not, parts of tiles and more than one,
/// batches that share a factor.
#[test]
fn all_tiles() {
    for (number, tile) in F64MmaTile::ALL.into_iter().enumerate() {
        let [m, n] = [0, 1].map(|side| tile.size(side) as usize);
        // The smaller tiles are tried with more.
        let sizes = [[m - 6, 20, n + 2], [17, 34, 35], [m + 1, 6, 8], [1, 64, 33]];
        let small = m * n <= 64 * 64;
        for turned in 0..4 {
            let (along, own) = ([turned & 1 == 0, turned & 2 == 0], (turned + number) % 2 == 0);
            for (round, [m, k, n]) in sizes.into_iter().enumerate().filter(|(r, _)| small || *r == turned) {
                let room = [0, 2, 1][(round + turned) % 3];
                check(&Case { sizes: [1 + round % 2, m, k, n], along, room, own }, tile);
            }
        }
    }
}

/// Terms around the edges of fragments, steps and chunks, which follow one another; by copies and
/// by registers.
#[test]
fn chunks_follow_one_another() {
    let small = F64MmaTile { slots: 2, ..SMALL };
    let terms = [0, 1, 2, 7, 8, 9, 16, 18, 510, 512, 513, 514, 520, 1022, 1024, 1026, 1030, 1537, 2050];
    for (round, k) in terms.into_iter().enumerate() {
        let along = [round & 1 == 0, round & 2 == 0];
        let tile = F64MmaTile { depth: [16, 32][round % 2], ..small };
        check(&Case { sizes: [1, 12, k, 10], along, room: 0, own: true }, tile);
    }
}

/// Few tiles of many chunks have workgroups for each of them.
#[test]
fn chunks_go_side_by_side() {
    let tile = SMALL;
    let bias = CatalogueEpilogue(Some(&Compiled::<_, 1>(AddBias)));
    for (k, along) in [(1000, [true, false]), (1026, [false, false]), (1537, [true, true])] {
        let case = Case { sizes: [2, 33, k, 6], along, room: 0, own: false };
        let [x, w, e] = case.layouts();
        let extra = [(&e, D)];
        let steps = f64_tensor_core::steps(
            &GemmProblem::new(&bias, D, &x, &w, &extra),
            tile,
            ComputeUnits::default(),
        );
        assert_eq!((steps.steps.len(), steps.scratch.len()), (2, 1), "{k}");
        let numbers = case.numbers(D, &noise);
        let got = run_steps(&steps, &numbers.each_ref());
        let got = got[0].to_host().expect("it has a dtype");
        assert_eq!(bits(&got), bits(&case.want(D, &noise)), "{k} {along:?}");
    }
}

/// A text with two registers of one of the lists of each product swapped: of the sums, a, b or c.
fn swapped(text: &str, list: usize, [i, j]: [usize; 2]) -> String {
    let one = |line: &str| {
        let mut lists: Vec<String> = line.split("}, {").map(str::to_string).collect();
        if line.contains("mma.sync") {
            let mut registers: Vec<&str> = lists[list].split(", ").collect();
            registers.swap(i, j);
            lists[list] = registers.join(", ");
        }
        lists.join("}, {")
    };
    text.lines().map(one).collect::<Vec<String>>().join("\n")
}

/// Which lane has which number, and in which order terms are, is seen to count.
#[test]
fn a_number_in_another_place_is_seen() {
    let case = Case { sizes: [1, 32, 40, 16], along: [true, false], room: 0, own: true };
    let plain = CatalogueEpilogue(None);
    let [x, w, _] = case.layouts();
    let work = f64_tensor_core::contract(&GemmProblem::new(&plain, D, &x, &w, &[]), SMALL)
        .expect("there are elements");
    let (kernel, [x, w, _]) = (work.kernel(), case.numbers(D, &noise));
    let text = ptx::emit(&kernel, ptx::target(&kernel, 90)).unwrap_or_else(|e| panic!("{e}"));
    let of = |text: &str| {
        let mut buffers = vec![Memory::from_host(&x), Memory::from_host(&w), Memory::of(D, 32 * 16)];
        ptx_machine::run(&kernel, text, &work.launch, &mut buffers);
        bits(&buffers[2].to_host().expect("it has a dtype"))
    };
    let right = of(&text);
    // Rows for terms; terms for others of a and of b, which is another order only if both are; rows
    // for columns.
    for spoiled in [
        swapped(&text, 1, [1, 2]),
        swapped(&text, 1, [0, 2]),
        swapped(&text, 2, [0, 1]),
        swapped(&swapped(&swapped(&text, 1, [0, 2]), 1, [1, 3]), 2, [0, 1]),
        swapped(&text, 3, [1, 2]),
    ] {
        let differ = of(&spoiled).iter().zip(&right).filter(|(a, b)| a != b).count();
        assert!(differ > 64, "{differ}");
    }
}

/// Devices before Hopper multiply in four pieces.
#[test]
fn older_devices_have_the_same_bits() {
    let bias = CatalogueEpilogue(Some(&Compiled::<_, 1>(AddBias)));
    for along in [[true, false], [false, true]] {
        let case = Case { sizes: [1, 40, 44, 24], along, room: 0, own: true };
        let [x, w, e] = case.layouts();
        let extra = [(&e, D)];
        let p = GemmProblem::new(&bias, D, &x, &w, &extra);
        let work = f64_tensor_core::contract(&p, SMALL).expect("there are elements");
        let kernel = work.kernel();
        for (capability, word) in [(80, "m8n8k4"), (90, "m16n8k8")] {
            let text = ptx::emit(&kernel, ptx::target(&kernel, capability)).unwrap_or_else(|e| panic!("{e}"));
            assert!(text.contains(&format!("mma.sync.aligned.{word}.row.col.f64")), "{text}");
            let numbers = case.numbers(D, &noise);
            let mut buffers: Vec<Memory> = numbers.iter().map(Memory::from_host).collect();
            buffers.push(Memory::of(D, p.len()));
            ptx_machine::run(&kernel, &text, &work.launch, &mut buffers);
            let got = buffers[3].to_host().expect("it has a dtype");
            assert_eq!(bits(&got), bits(&case.want(D, &noise)), "{word} {along:?}");
        }
    }
}

/// The order of terms, their rounding and what fills up the last ones count: with others, these
/// numbers give other bits.
#[test]
fn another_order_is_seen() {
    let plain = CatalogueEpilogue(None);
    let (x, w) = (layout(&[1, 16, 24]), layout(&[1, 24, 8]));
    let work = f64_tensor_core::contract(&GemmProblem::new(&plain, D, &x, &w, &[]), SMALL)
        .expect("there are elements");
    let numbers = [(0, 16 * 24), (1, 24 * 8)].map(|(of, n)| host(D, (0..n).map(|i| noise(of, i))));
    let of = |turned: bool| {
        let turn = |of: usize| -> HostData {
            let HostData::F64(v) = &numbers[of] else { unreachable!("they are f64") };
            let at = |i: usize| match (turned, of) {
                (false, _) => i,
                // The terms of each row, and of each column, from the last to the first.
                (true, 0) => i / 24 * 24 + 23 - i % 24,
                (true, _) => (23 - i / 8) * 8 + i % 8,
            };
            HostData::F64((0..v.len()).map(|i| v[at(i)]).collect::<Vec<f64>>().into())
        };
        let mut buffers: Vec<Memory> = [0, 1].map(|of| Memory::from_host(&turn(of))).into();
        buffers.push(Memory::of(D, 16 * 8));
        run(&work.kernel(), &work.launch, &mut buffers).expect("it runs");
        buffers.remove(2).cells
    };
    let (up, down) = (of(false), of(true));
    let differ = up.iter().zip(&down).filter(|(a, b)| a != b).count();
    assert!(differ > 40, "{differ} of {}", up.len());
}

#[test]
fn a_tile_is_chosen() {
    let limits = WorkgroupLimits {
        invocations: 1024,
        shared: 227 << 10,
        cp_async: true,
        compute_units: ComputeUnits::default(),
    };
    // b, m, n, k; rows and columns of a tile.
    let rows = [
        ([1, 4096, 4096, 4096], [128, 128]),
        ([1, 1024, 1024, 1024], [64, 128]),
        ([1, 512, 512, 512], [32, 64]),
        ([16, 256, 256, 256], [64, 128]),
        ([1, 64, 64, 1024], [32, 32]),
    ];
    for (sizes, want) in rows {
        let t = F64MmaTile::of(sizes, limits).expect("there is room");
        assert_eq!([t.size(0), t.size(1)], want, "{sizes:?}");
    }
    // With less room, smaller ones; without copies none.
    let t = F64MmaTile::of(rows[0].0, WorkgroupLimits { shared: 48 << 10, ..limits }).expect("there is room");
    assert_eq!([t.size(0), t.size(1)], [32, 32]);
    assert_eq!(F64MmaTile::of(rows[0].0, WorkgroupLimits { cp_async: false, ..limits }), None);
    let plain = CatalogueEpilogue(None);
    let nothing = GemmProblem::new(&plain, D, &layout(&[1, 0, 8]), &layout(&[1, 8, 8]), &[]).is_empty();
    assert!(nothing);
}
