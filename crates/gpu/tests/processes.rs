//! What a process finds out once, or has for itself alone: a device's memory, a vendor's library.
//! Each is tried in a child of this test, on an emulated device: NVIDIA's, and AMD's where another
//! library is behind it.

use elinvar_core::{DType, ErrorKind, Precision};
use elinvar_driver::{Cuda, Driver, Hip};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_nn::layers::Linear;
use elinvar_nn::optim::{Adam, Optimizer};
use elinvar_nn::{Layer, Module};
use elinvar_ops::Backend;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Generator, Graph, Tensor, step as every, try_run};
use std::path::Path;
use std::process::Command;

/// Runs a test of this file, which is ignored otherwise, in a process of its own, with these
/// variables.
fn alone(test: &str, vars: &[(&str, &str)]) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--ignored", "--nocapture", "--test-threads", "1"]);
    let there = "it was built for this test";
    child.env("ELINVAR_CUDA_LIBRARY", emulated_cuda::library().expect(there));
    let hip = emulated_hip::library().expect(there);
    child.env("ELINVAR_HIP_LIBRARY", &hip).env("ELINVAR_COMGR_LIBRARY", &hip);
    let o = child.envs(vars.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&o.stdout).into_owned() + &String::from_utf8_lossy(&o.stderr);
    assert!(o.status.success() && said.contains("1 passed"), "{said}");
}

fn device<D: Driver>() -> GpuDevice<D> {
    GpuDevice::new(D::open(0).unwrap(), 0)
}

const FEATURES: usize = 64;

fn rows<B: Backend>(n: usize, d: &B::Device) -> Tensor<B> {
    let value = |i: usize| (i % 37) as f32 / 37.0 - 0.5;
    Tensor::from_vec((0..n * FEATURES).map(value).collect::<Vec<f32>>(), &[n, FEATURES], d)
}
fn step<B: Backend>(
    model: &Linear<B>,
    adam: &mut Adam<B>,
    n: usize,
    d: &B::Device,
) -> elinvar_core::Result<()> {
    let gradients = try_run(|| model.forward(&rows(n, d)).exp().sum().backward())?;
    adam.step(model, &gradients)
}
fn weights<B: Backend>(model: &Linear<B>) -> Vec<Vec<f32>> {
    model.parameters().iter().map(|p| p.get().to_vec().unwrap()).collect()
}

#[test]
fn training_goes_on_with_a_smaller_batch() {
    alone("memory_runs_out", &[("ELINVAR_EMULATED_CUDA_MEMORY", "41943040")]);
}

/// A device without memory left, in the middle of training: an error, the weights as they were, and
/// with a smaller batch it goes on.
#[test]
#[ignore = "a child of another test"]
fn memory_runs_out() {
    let d = device::<Cuda>();
    assert_eq!(d.info().unwrap().memory, Some(40 << 20));
    let model = Linear::<Gpu<Cuda>>::new(FEATURES, FEATURES, &mut Generator::new(1), &d);
    let same = Linear::<Reference>::new(FEATURES, FEATURES, &mut Generator::new(1), &ReferenceDevice);
    let (mut a, mut b) = (Adam::new(0.01), Adam::new(0.01));
    step(&model, &mut a, 32, &d).unwrap();
    step(&same, &mut b, 32, &ReferenceDevice).unwrap();

    // Another process takes a part.
    let theirs = d.driver().unwrap().allocate(16 << 20).unwrap();
    let e = step(&model, &mut a, 1 << 16, &d).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutOfMemory, "{e}");
    let x = rows::<Gpu<Cuda>>(1 << 15, &d);
    let e = Graph::record(&[&x], |x| Ok(vec![(0..8).fold(x[0].clone(), |y, _| y.cumsum(0))])).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutOfMemory, "{e}");
    drop(x);
    assert_eq!(weights(&model), weights(&same));
    step(&model, &mut a, 48, &d).unwrap();
    step(&same, &mut b, 48, &ReferenceDevice).unwrap();
    assert_eq!(weights(&model), weights(&same));

    drop(theirs);
    step(&model, &mut a, 256, &d).unwrap();
    step(&same, &mut b, 256, &ReferenceDevice).unwrap();
    assert_eq!(weights(&model), weights(&same));
}

#[test]
fn cublaslt_does_products_where_it_is_faster() {
    let library = emulated_cuda::library().unwrap();
    a_vendors_library_is_taken("products_of_cublaslt", ("ELINVAR_CUBLASLT_LIBRARY", &library), &[], 3);
}

/// On an MI300, whose units multiply TF32, on an MI250, whose units do not, and on an RX 7900,
/// which has none for f32.
#[test]
fn hipblaslt_does_products_where_it_is_faster() {
    let library = emulated_hip::library().unwrap();
    for (arch, types) in [("gfx942", 3), ("gfx90a", 3), ("gfx1100", 2)] {
        let arch = ("ELINVAR_EMULATED_HIP_ARCH", arch);
        a_vendors_library_is_taken(
            "products_of_hipblaslt",
            ("ELINVAR_HIPBLASLT_LIBRARY", &library),
            &[arch],
            types,
        );
    }
}

/// Tuning finds a library to be the fastest for products of so many types, and only fast ones; what
/// is known of them stays right without it.
fn a_vendors_library_is_taken(
    child: &str,
    (name, library): (&str, &Path),
    vars: &[(&str, &str)],
    types: usize,
) {
    let cache = tempfile::tempdir().unwrap();
    let named = (name, library.to_str().expect("UTF-8"));
    let dir = ("ELINVAR_CACHE_DIR", cache.path().to_str().expect("UTF-8"));
    alone(child, &[vars, &[("ELINVAR_TUNE", "1"), named, dir]].concat());
    let kept = || kept(cache.path());
    let all = kept();
    // The emulated library's products count for fewer instructions than any kernel has.
    let theirs: Vec<&str> = all.lines().filter(|l| l.ends_with(": vendor library")).collect();
    assert!(theirs.len() >= types && theirs.iter().all(|l| l.starts_with("fast ")), "{all}");
    // Kept for other runs; without the library, they are as always.
    alone(child, &[vars, &[named, dir]].concat());
    alone(child, &[vars, &[(name, "/nowhere/blas.so"), dir]].concat());
    assert_eq!(kept(), all);
}

/// The file in which a device keeps what it found.
fn kept(cache: &Path) -> String {
    let mut files = std::fs::read_dir(cache).unwrap().map(|e| e.unwrap().path());
    let file = files.find(|p| p.extension().is_some_and(|e| e == "tiles")).unwrap();
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn convolutions_are_tried() {
    let cache = tempfile::tempdir().unwrap();
    let dir = ("ELINVAR_CACHE_DIR", cache.path().to_str().expect("UTF-8"));
    alone("their_convolutions", &[("ELINVAR_TUNE", "1"), dir]);
    let all = kept(cache.path());
    for what in
        ["forward f32 exact", "input gradient f32 exact", "weight gradient f32 exact", "forward bf16 fast"]
    {
        let begin = format!("conv {what}, ");
        assert_eq!(all.lines().filter(|l| l.starts_with(&begin)).count(), 1, "{what}: {all}");
    }
    // Kept for other runs, whichever way it was.
    alone("their_convolutions", &[dir]);
    assert_eq!(kept(cache.path()), all);
    for way in
        ["default", "direct", "implicit gemm 8x8 of 4x4, depth 8", "tensor cores 1x1 of 1x1, 2 deep, 4 slots"]
    {
        // The first line says which version it is.
        let lines = all.lines().map(|l| match l.split_once(": ") {
            Some((word, _)) => format!("{word}: {way}\n"),
            None => format!("{l}\n"),
        });
        let file = std::fs::read_dir(cache.path()).unwrap().map(|e| e.unwrap().path());
        let file = file.into_iter().find(|p| p.extension().is_some_and(|e| e == "tiles")).unwrap();
        std::fs::write(file, lines.collect::<String>()).unwrap();
        alone("their_convolutions", &[dir]);
    }
}

/// A convolution and its gradients, whose bits are the reference's by any kernel: of whole
/// numbers also where they are fast.
#[test]
#[ignore = "a child of another test"]
fn their_convolutions() {
    fn run<B: Backend>(dtype: DType, scale: f64, d: &B::Device) -> [Vec<f32>; 3] {
        let at = |sizes: &[usize]| {
            let n: usize = sizes.iter().product();
            let value = |i: usize| ((i * 7 + 3 + i / 13) % 9) as f32 - 4.0;
            (Tensor::<B>::from_vec((0..n).map(value).collect::<Vec<f32>>(), sizes, d) * scale).to_dtype(dtype)
        };
        let (x, w) = (at(&[1, 8, 16, 16]).requires_grad(), at(&[16, 8, 3, 3]).requires_grad());
        let y = x.conv2d(&w, None, 1, 1, 1, 1);
        let g = (&y * &at(y.dims())).sum().backward();
        let all = [y.detach(), g.get(&x).unwrap().clone(), g.get(&w).unwrap().clone()];
        all.map(|t| t.to_dtype(DType::F32).to_vec::<f32>().unwrap())
    }
    let d = device::<Cuda>();
    for (dtype, scale, p) in [(DType::F32, 0.37, Precision::Exact), (DType::BF16, 1.0, Precision::Fast)] {
        let got = p.scope(|| run::<Gpu<Cuda>>(dtype, scale, &d));
        assert_eq!(got, run::<Reference>(dtype, scale, &ReferenceDevice), "{dtype}");
    }
}

#[test]
#[ignore = "a child of another test"]
fn products_of_cublaslt() {
    their_products::<Cuda>();
}
#[test]
#[ignore = "a child of another test"]
fn products_of_hipblaslt() {
    their_products::<Hip>();
}

/// Products of whole numbers, which any order of sums and TF32 leave exact: of all types, strides
/// and batches, also recorded.
fn their_products<D: Driver>() {
    let d = device::<D>();
    let at = |sizes: &[usize], dtype: DType| {
        let n: usize = sizes.iter().product();
        let value = |i: usize| ((i * 7 + 3) % 9) as f32 - 4.0;
        let all = (0..n).map(value).collect::<Vec<f32>>();
        let there = Tensor::<Gpu<D>>::from_vec(all.clone(), sizes, &d).to_dtype(dtype);
        (there, Tensor::<Reference>::from_vec(all, sizes, &ReferenceDevice))
    };
    let numbers = |x: &Tensor<Gpu<D>>| x.to_dtype(DType::F32).to_vec::<f32>().unwrap();
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let (x, rx) = at(&[40, 48], dtype);
        let (w, rw) = at(&[48, 33], dtype);
        let (t, rt) = at(&[33, 48], dtype);
        let (b, rb) = at(&[3, 48, 20], dtype);
        let fast = |f: &dyn Fn() -> Tensor<Gpu<D>>| numbers(&Precision::Fast.scope(f));
        assert_eq!(fast(&|| x.matmul(&w)), rx.matmul(&rw).to_vec::<f32>().unwrap());
        assert_eq!(fast(&|| x.matmul(&t.t())), rx.matmul(&rt.t()).to_vec::<f32>().unwrap());
        assert_eq!(fast(&|| w.t().matmul(&x.t())), rw.t().matmul(&rx.t()).to_vec::<f32>().unwrap());
        assert_eq!(fast(&|| x.matmul(&b)), rx.matmul(&rb).to_vec::<f32>().unwrap());
        // Of the case of the first, and nothing for a library: every second number.
        let (far, rfar) = at(&[48, 80], dtype);
        let (far, rfar) = (far.i((.., every(.., 2))), rfar.i((.., every(.., 2))));
        assert_eq!(fast(&|| x.matmul(&far)), rx.matmul(&rfar).to_vec::<f32>().unwrap());
        // A part of a larger matrix, from the middle on.
        let (part, rpart) = (w.narrow(1, 3, 24).narrow(0, 8, 40), rw.narrow(1, 3, 24).narrow(0, 8, 40));
        let (y, ry) = (x.narrow(1, 8, 40), rx.narrow(1, 8, 40));
        assert_eq!(fast(&|| y.matmul(&part)), ry.matmul(&rpart).to_vec::<f32>().unwrap());
        let graph = Graph::record(&[&x], {
            let w = w.clone();
            move |x| Ok(vec![Precision::Fast.scope(|| x[0].matmul(&w).exp())])
        });
        let want = numbers(&Precision::Fast.scope(|| x.matmul(&w).exp()));
        assert_eq!(numbers(&graph.unwrap().run(&[&x]).unwrap()[0]), want);
        // Never where bits count.
        let fine = x.to_dtype(DType::F32) * 0.123;
        let rfine = rx * 0.123;
        let exact = fine.matmul(&w.to_dtype(DType::F32)).to_vec::<f32>().unwrap();
        assert_eq!(exact, rfine.matmul(&rw).to_vec::<f32>().unwrap());
    }
}

/// Who does a product is seen by what is refused: kernels of TMA tiles.
#[test]
fn wgmma_is_used_where_it_can_be() {
    let refuse = ("ELINVAR_EMULATED_CUDA_REFUSE", "// gemm_wgmma_");
    let rows: [(&[(&str, &str)], &str); 6] = [
        (&[], "wgmma"),
        // A refusal is told, also where several ways are tried.
        (&[("ELINVAR_TUNE", "1")], "wgmma"),
        (&[("ELINVAR_CUDA_BOXES", "0")], "mma"),
        // Other devices, and a driver that knows no tensor maps.
        (&[("ELINVAR_EMULATED_CUDA_CAPABILITY", "80")], "mma"),
        (&[("ELINVAR_EMULATED_CUDA_CAPABILITY", "100")], "mma"),
        (&[("ELINVAR_EMULATED_CUDA_VERSION", "11080")], "mma"),
    ];
    for (vars, by) in rows {
        let cache = tempfile::tempdir().unwrap();
        let dir = ("ELINVAR_CACHE_DIR", cache.path().to_str().expect("UTF-8"));
        alone("products_by_wgmma", &[vars, &[refuse, dir, ("ELINVAR_TEST_BY", by)]].concat());
    }
}

/// Products whose operands can be fetched as TMA tiles, and others. (The emulated device is strict:
/// that they can be done is tested with all others.)
#[test]
#[ignore = "a child of another test"]
fn products_by_wgmma() {
    let by = std::env::var("ELINVAR_TEST_BY").expect("a parent");
    let d = device::<Cuda>();
    let at = |sizes: &[usize]| Tensor::<Gpu<Cuda>>::ones(sizes, DType::F16, &d);
    let (x, w, odd) = (at(&[40, 48]), at(&[48, 24]), at(&[48, 33]));
    let product = |x: &Tensor<Gpu<Cuda>>, w: &Tensor<Gpu<Cuda>>| {
        try_run(|| Precision::Fast.scope(|| x.matmul(w).to_dtype(DType::F32).to_vec::<f32>()))
    };
    // One row or many; turned around.
    for (x, w) in [(&x, &w), (&x.narrow(0, 3, 1), &w), (&w.t(), &x.t())] {
        match product(x, w) {
            Err(e) => assert!(by == "wgmma" && e.message().contains("gemm_wgmma_"), "{by}: {e}"),
            Ok(y) => assert!(by == "mma" && y.unwrap().iter().all(|v| *v == 48.0), "{by}"),
        }
    }
    let y = product(&x, &odd).unwrap().unwrap();
    assert!(y.iter().all(|v| *v == 48.0));
    // Of f32, factors that are along their terms, as a layer's do, and others, which are turned.
    let [x, w] = [&x, &w].map(|t| t.to_dtype(DType::F32));
    for w in [&w.t().contiguous().t(), &w] {
        match product(&x, w) {
            Err(e) => assert!(by == "wgmma" && e.message().contains("gemm_wgmma_plain_f32"), "{by}: {e}"),
            Ok(y) => assert!(by == "mma" && y.unwrap().iter().all(|v| *v == 48.0), "{by}"),
        }
    }
}

/// Products of f64 have the reference's bits whatever tensor cores add, and go by these where they
/// were seen to compute chains of fma.
#[test]
fn f64_tensor_cores_are_tried_first() {
    let rows: [(&[(&str, &str)], &str); 6] = [
        (&[], "units"),
        (&[("ELINVAR_EMULATED_CUDA_CAPABILITY", "80")], "units"),
        (&[("ELINVAR_EMULATED_CUDA_BACKWARDS", "1")], "tried"),
        (&[("ELINVAR_EMULATED_CUDA_BACKWARDS", "1"), ("ELINVAR_TUNE", "1")], "tried"),
        (&[("ELINVAR_EMULATED_CUDA_REFUSE", "// gemm_f64_mma_")], "others"),
        (&[("ELINVAR_EMULATED_CUDA_CAPABILITY", "75")], "others"),
    ];
    for (vars, by) in rows {
        let cache = tempfile::tempdir().unwrap();
        let dir = ("ELINVAR_CACHE_DIR", cache.path().to_str().expect("UTF-8"));
        let card = ("ELINVAR_EMULATED_CUDA_AS", "discrete");
        alone("products_of_f64", &[vars, &[card, dir, ("ELINVAR_TEST_BY", by)]].concat());
        if vars.len() > 1 {
            assert!(!kept(cache.path()).contains("f64 tensor cores"), "{by}");
        }
    }
}

#[test]
#[ignore = "a child of another test"]
fn products_of_f64() {
    fn product<B: Backend>([m, k, n]: [usize; 3], d: &B::Device) -> Vec<u64> {
        let at = |rows: usize, columns: usize, seed: usize| {
            let value = |i: usize| ((i * 37 + seed) % 1013) as f64 * 0.0173 - 8.7;
            Tensor::<B>::from_vec((0..rows * columns).map(value).collect::<Vec<f64>>(), &[rows, columns], d)
        };
        let y = at(m, k, 1).matmul(&at(k, n, 2)).to_vec::<f64>().unwrap();
        y.iter().map(|v| v.to_bits()).collect()
    }
    let by = std::env::var("ELINVAR_TEST_BY").expect("a parent");
    let d = device::<Cuda>();
    let check =
        |sizes| assert!(product::<Gpu<Cuda>>(sizes, &d) == product::<Reference>(sizes, &ReferenceDevice));
    // So small that its kernel is the one that the units are tried with.
    check([64, 44, 64]);
    if std::env::var_os("ELINVAR_TUNE").is_none() {
        assert_eq!(d.kernels().unwrap(), if by == "tried" { 2 } else { 1 }, "{by}");
        check([66, 530, 68]);
    }
}

#[test]
fn numbers_go_from_device_to_device() {
    alone("two_devices", &[("ELINVAR_EMULATED_CUDA_DEVICES", "2")]);
}

/// From one device's queue to the other's, in order, whatever happens to either tensor afterwards;
/// a model moves as a whole.
#[test]
#[ignore = "a child of another test"]
fn two_devices() {
    type B = Gpu<Cuda>;
    let (a, b) = (device::<Cuda>(), GpuDevice::new(Cuda::open(1).unwrap(), 1));
    assert_ne!(a, b);
    let x = rows::<B>(32, &a);
    let want = rows::<Reference>(32, &ReferenceDevice);
    let (up, down) = (a.launches().unwrap(), b.launches().unwrap());
    for round in 0..3 {
        let y = (&x * f64::from(round)).exp();
        let there: Tensor<B> = y.copy_to(&b).unwrap();
        let part: Tensor<B> = y.t().narrow(0, 3, 20).copy_to(&b).unwrap();
        // Its memory is used again, by work that is given now.
        drop(y);
        let other = (&x * -1.0).exp();
        let reference = (&want * f64::from(round)).exp();
        assert_eq!((there + 1.0).to_vec::<f32>().unwrap(), (&reference + 1.0).to_vec::<f32>().unwrap());
        let t = reference.t().narrow(0, 3, 20);
        assert_eq!(part.to_vec::<f32>().unwrap(), t.to_vec::<f32>().unwrap());
        assert_eq!(other.to_vec::<f32>().unwrap(), (&want * -1.0).exp().to_vec::<f32>().unwrap());
    }
    assert!(a.launches().unwrap() > up && b.launches().unwrap() > down);
    let model = Linear::<B>::new(FEATURES, FEATURES, &mut Generator::new(1), &a);
    let before = weights(&model);
    let here: Tensor<B> = model.forward(&x).copy_to(&b).unwrap();
    model.to_device(&b).unwrap();
    assert_eq!(weights(&model), before);
    let moved: Tensor<B> = x.copy_to(&b).unwrap();
    assert_eq!(model.forward(&moved).to_vec::<f32>().unwrap(), here.to_vec::<f32>().unwrap());
    // Indices are known to be in range there, too.
    let at = Tensor::<B>::from_vec(vec![3i64, 0, 31], &[3], &a);
    let there: Tensor<B> = at.copy_to(&b).unwrap();
    let graph = Graph::record(&[&moved], move |x| Ok(vec![x[0].index_select(0, &there)])).unwrap();
    let picked = graph.run(&[&moved]).unwrap();
    assert_eq!(picked[0].to_vec::<f32>().unwrap(), x.index_select(0, &at).to_vec::<f32>().unwrap());
}
