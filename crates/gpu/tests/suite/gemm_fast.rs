//! `Precision::Fast`: products by tensor cores, where a device has such.

use elinvar_conformance::{Part, fast};
use elinvar_core::{DType, HostData, Precision};
use elinvar_driver::Driver;
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_kernel::ir::Elem;
use elinvar_tensor::{Graph, Tensor};

/// Shapes at and around the ends of tiles: batch, rows, terms, columns.
const SHAPES: [[usize; 4]; 10] = [
    [1, 1, 1, 1],
    [1, 16, 16, 16],
    [2, 33, 17, 31],
    [1, 64, 64, 64],
    [3, 5, 130, 9],
    [1, 129, 40, 66],
    [1, 0, 8, 3],
    // One row, of terms that may not be contiguous.
    [1, 1, 64, 64],
    // In pieces of 16 bytes, of whole tiles and of parts.
    [1, 64, 72, 40],
    [1, 136, 56, 144],
];

type On<D> = Tensor<Gpu<D>>;

/// Numbers whose products and sums are exact in any order.
fn whole<D: Driver>(d: &GpuDevice<D>, dtype: DType, seed: usize, shape: &[usize]) -> On<D> {
    let len = shape.iter().product();
    let each = (0..len).map(|i| ((i * 7 + seed * 13 + i / 11) % 9) as f32 - 4.0);
    Tensor::from_vec(each.collect::<Vec<f32>>(), shape, d).to_dtype(dtype)
}

fn bits<D: Driver>(y: &On<D>) -> HostData {
    y.to_host().unwrap().into_data()
}

/// On a device that did nothing yet: products are right, and done by other kernels than exact ones
/// are, where it has units for them.
fn check<D: Driver>(d: &GpuDevice<D>) {
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let units = d.info().unwrap().mma_shapes.iter().any(|u| u.elem == Elem::from(dtype));
        println!("{d}: tensor cores for {dtype}: {units}");
        let (x, w) = (whole(d, dtype, 1, &[24, 50]), whole(d, dtype, 2, &[50, 46]));
        let product = |p: Precision| (bits(&p.scope(|| x.matmul(&w))), d.kernels().unwrap());
        let (exact, before) = product(Precision::Exact);
        let (fast, after) = product(Precision::Fast);
        assert!(exact == fast, "{dtype}");
        assert_eq!(after > before, units, "{dtype}: is there another kernel?");
    }
    let found = fast::products::<Gpu<D>>(d, &SHAPES, Part::ALL).unwrap();
    assert!(found.tried == 3 * 4 * SHAPES.len() && found.wrong.is_empty(), "{d}: {:#?}", found.wrong);
}

/// The first row of a batch alone has the bits that it has in the batch, also where sums are
/// rounded on the way.
fn rows_are_alone<D: Driver>(d: &GpuDevice<D>) {
    let uneven = |dtype, seed, shape: &[usize]| whole(d, dtype, seed, shape) * 0.37;
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let (x, w) = (uneven(dtype, 1, &[70, 200]), uneven(dtype, 2, &[200, 90]));
        let of = |x: &On<D>| Precision::Fast.scope(|| x.matmul(&w));
        let (all, first) = (of(&x), of(&x.narrow(0, 0, 1)));
        assert!(bits(&all.narrow(0, 0, 1)) == bits(&first), "{dtype}");
    }
}

/// Factors of f32 are rounded to ten bits behind the point, ties away from zero, and their products
/// are added as they are.
fn f32_is_rounded<D: Driver>(d: &GpuDevice<D>) {
    let up = |n: i32| 2f32.powi(n);
    // A factor, and what it counts as.
    let rows = [
        (1.0, 1.0),
        (1.0 + up(-10), 1.0 + up(-10)),
        (1.0 + up(-11), 1.0 + up(-10)),
        (-1.0 - up(-11), -1.0 - up(-10)),
        (1.0 + up(-11) - up(-20), 1.0),
        (3.0 + up(-10) + up(-12), 3.0 + up(-9)),
        (up(-100) * (1.0 + up(-12)), up(-100)),
    ];
    for (x, want) in rows {
        // Alone, and in a line of 16 bytes, of which TMA tiles can be made.
        for terms in [1, 4] {
            let line = |first: f32| {
                let all: Vec<f32> = std::iter::once(first).chain([0.0; 3]).take(terms).collect();
                Tensor::from_vec(all, &[1, terms], d)
            };
            let (x, one) = (line(x), line(1.0));
            for (a, b) in [(&x, &one), (&one, &x)] {
                let y: On<D> = Precision::Fast.scope(|| a.matmul(&b.t()));
                assert_eq!(bits(&y), HostData::F32([want].into()), "{terms} terms");
            }
        }
    }
}

/// Attention and its gradients, fast beside exact: as near as weights of 16 bits allow, by other
/// kernels where the device has such, and by no others with a mask. (How near the kernels are to
/// the truth is tested where they are.)
fn attention<D: Driver>(d: &GpuDevice<D>, has: bool) {
    // Of 64 numbers by TMA tiles, where a device has such.
    let rows = [(DType::F16, true, 0.004, 32), (DType::BF16, false, 0.03, 32), (DType::F16, true, 0.004, 64)];
    for (dtype, causal, near, width) in rows {
        let make = |seed: usize, dims: &[usize]| {
            let x = whole(d, DType::F32, seed, dims) * 0.21 + whole(d, DType::F32, seed + 1, dims) * 0.037;
            x.to_dtype(dtype).requires_grad()
        };
        let (q, kv) = ([1, 2, 70, width], [1, 1, 70, width]);
        let x = [make(1, &q), make(3, &kv), make(5, &kv)];
        let run = |p: Precision, mask: Option<&On<D>>| {
            let before = d.kernels().unwrap();
            let all = p.scope(|| {
                let y = x[0].scaled_dot_product_attention(&x[1], &x[2], mask, causal, None, true);
                // Each number of the result has a gradient of its own.
                let loss = (&y * &make(7, &q)).sum();
                let g = loss.backward();
                let mut all = vec![y.clone()];
                all.extend(x.iter().map(|x| g.get(x).unwrap().clone()));
                all
            });
            let all: Vec<Vec<f32>> =
                all.iter().map(|t| t.detach().to_dtype(DType::F32).to_vec::<f32>().unwrap()).collect();
            (all, d.kernels().unwrap() > before)
        };
        let (exact, _) = run(Precision::Exact, None);
        let (fast, new) = run(Precision::Fast, None);
        assert_eq!(new, has, "{dtype}: is there another kernel?");
        assert!(run(Precision::Fast, None).0 == fast, "{dtype}: not the same again");
        for (i, (fast, exact)) in fast.iter().zip(&exact).enumerate() {
            let most = exact.iter().fold(0f32, |m, v| m.max(v.abs()));
            let far = fast.iter().zip(exact).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
            assert!(far <= near * most, "{dtype}: result {i} is {far} off, of {most}");
            assert_eq!(far > 0.0, has, "{dtype}: result {i} is exact or not");
        }
        let seen = Tensor::full(&[70, 70], true, DType::Bool, d);
        let (exact, _) = run(Precision::Exact, Some(&seen));
        assert!(run(Precision::Fast, Some(&seen)) == (exact, false), "{dtype}: with a mask it is exact");
    }
}

/// Attention of few queries to many keys, as in generation: in parts that are joined, fast beside
/// exact, and the same recorded.
fn attention_in_parts<D: Driver>(d: &GpuDevice<D>) {
    for (dtype, near) in [(DType::F16, 0.004), (DType::BF16, 0.03)] {
        let make = |seed: usize, dims: &[usize]| {
            let x = whole(d, DType::F32, seed, dims) * 0.21 + whole(d, DType::F32, seed + 1, dims) * 0.037;
            x.to_dtype(dtype)
        };
        let (q, kv) = (make(1, &[2, 2, 3, 32]), [make(3, &[2, 1, 1100, 32]), make(5, &[2, 1, 1100, 32])]);
        let run = |p: Precision, q: &On<D>| {
            p.scope(|| q.scaled_dot_product_attention(&kv[0], &kv[1], None, false, None, true))
        };
        let numbers = |y: &On<D>| y.to_dtype(DType::F32).to_vec::<f32>().unwrap();
        let exact = numbers(&run(Precision::Exact, &q));
        let (kernels, launches) = (d.kernels().unwrap(), d.launches().unwrap());
        let y = run(Precision::Fast, &q);
        assert_eq!(d.kernels().unwrap() - kernels, 2, "{dtype}: parts, and the join");
        assert_eq!(d.launches().unwrap() - launches, 2, "{dtype}");
        let fast = numbers(&y);
        let most = exact.iter().fold(0f32, |m, v| m.max(v.abs()));
        let far = fast.iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        assert!(far <= near * most && far > 0.0, "{dtype}: {far} off, of {most}");
        // One query of one head alone has the bits that it has among others.
        let one = numbers(&run(Precision::Fast, &q.narrow(2, 1, 1)));
        assert!(one[..32] == fast[32..64], "{dtype}");
        let graph = Graph::record(&[&q], {
            let kv = kv.clone();
            move |x: &[On<D>]| {
                let f = || x[0].scaled_dot_product_attention(&kv[0], &kv[1], None, false, None, true);
                Ok(vec![Precision::Fast.scope(f)])
            }
        });
        assert!(numbers(&graph.unwrap().run(&[&q]).unwrap()[0]) == fast, "{dtype}: recorded");
    }
}

#[test]
fn attention_of_few_queries_in_parts() {
    attention_in_parts(&super::interp());
    attention_in_parts(&super::cuda());
}

#[test]
fn attention_by_units() {
    attention(&super::interp(), true);
    attention(&super::cuda(), true);
    if let Some(d) = super::vulkan() {
        attention(&d, false);
    }
}

/// A convolution and its gradients, fast beside exact, of whole numbers; by other kernels where the
/// device has units for such.
fn convolutions<D: Driver>(d: &GpuDevice<D>) {
    for (dtype, stride, groups) in [(DType::BF16, 1, 1), (DType::F16, 2, 2), (DType::F32, 1, 1)] {
        let units = d.info().unwrap().mma_shapes.iter().any(|u| u.elem == Elem::from(dtype));
        let make = |seed, dims: &[usize]| whole(d, dtype, seed, dims).requires_grad();
        let (x, w) = (make(1, &[2, 20, 7, 6]), make(2, &[24, 20 / groups, 3, 3]));
        let run = |p: Precision| {
            let before = d.kernels().unwrap();
            let y = p.scope(|| x.conv2d(&w, None, stride, 1, 1, groups));
            let g = (&y * &make(3, y.dims())).sum().backward();
            let all = [y.detach(), g.get(&x).unwrap().clone(), g.get(&w).unwrap().clone()];
            (all.map(|t| bits(&t)), d.kernels().unwrap() > before)
        };
        let (exact, _) = run(Precision::Exact);
        let (fast, new) = run(Precision::Fast);
        assert!(exact == fast, "{dtype}, stride {stride}");
        assert_eq!(new, units, "{dtype}: is there another kernel?");
    }
}

#[test]
fn convolutions_by_units() {
    convolutions(&super::interp());
    convolutions(&super::cuda());
    if let Some(d) = super::vulkan() {
        convolutions(&d);
    }
}

#[test]
fn interpreted_units_multiply() {
    let d = super::interp();
    check(&d);
    rows_are_alone(&d);
    f32_is_rounded(&d);
    // A device can be told, too; a scope says more.
    let d = super::interp();
    let fast = d.clone().with_precision(Precision::Fast);
    assert_eq!((d.precision(), fast.precision()), (Precision::Exact, Precision::Fast));
    let x = whole(&fast, DType::F16, 1, &[8, 8]);
    let before = d.kernels().unwrap();
    Precision::Exact.scope(|| bits(&x.matmul(&x)));
    let exact = d.kernels().unwrap();
    bits(&x.matmul(&x));
    assert!(before < exact && exact < d.kernels().unwrap());
}

#[test]
fn cudas_units_multiply() {
    let d = super::cuda();
    assert_eq!(d.info().unwrap().mma_shapes.len(), 4, "f16, bf16, rounded f32 and f64");
    check(&d);
    rows_are_alone(&d);
    f32_is_rounded(&d);
}

#[test]
fn vulkans_units_multiply() {
    let Some(d) = super::vulkan() else { return };
    check(&d);
    rows_are_alone(&d);
    assert!(elinvar_driver::vulkan::validation_messages().is_empty());
}
