//! Products by a vendor's library, on emulated devices: which it takes, however their factors lie
//! in memory, and that they are right.
//!
//! What the library is, is read once in a process; so each is tried in a child of this test.

use elinvar_driver::{Cuda, Driver, Hip, Slice, VendorGemm};
use elinvar_kernel::ir::Elem;
use half::{bf16, f16};
use std::process::Command;

/// A child's test, and its device as variables.
fn alone(test: &str, vars: &[(&str, &str)]) {
    let cache = tempfile::tempdir().unwrap();
    let there = "it was built for this test";
    let (cuda, hip) = (emulated_cuda::library().expect(there), emulated_hip::library().expect(there));
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--ignored", "--nocapture"]).env("ELINVAR_CACHE_DIR", cache.path());
    child.env("ELINVAR_CUDA_LIBRARY", &cuda).env("ELINVAR_CUBLASLT_LIBRARY", &cuda);
    child.env("ELINVAR_HIP_LIBRARY", &hip).env("ELINVAR_COMGR_LIBRARY", &hip);
    child.env("ELINVAR_HIPBLASLT_LIBRARY", &hip);
    let o = child.envs(vars.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&o.stdout).into_owned() + &String::from_utf8_lossy(&o.stderr);
    assert!(o.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn cublaslt_multiplies() {
    alone("on_cuda", &[]);
    // Without the library nothing is done, and nothing is wrong.
    alone("on_cuda_without", &[("ELINVAR_CUBLASLT_LIBRARY", "/nowhere/libcublasLt.so")]);
}

#[test]
fn hipblaslt_multiplies() {
    for arch in ["gfx90a", "gfx942", "gfx1100"] {
        alone("on_rocm", &[("ELINVAR_EMULATED_HIP_ARCH", arch)]);
    }
    alone("on_rocm_without", &[("ELINVAR_HIPBLASLT_LIBRARY", "/nowhere/libhipblaslt.so")]);
}

#[test]
#[ignore = "a child of another test"]
fn on_cuda() {
    products(&Cuda::open(0).unwrap(), true);
}
#[test]
#[ignore = "a child of another test"]
fn on_cuda_without() {
    products(&Cuda::open(0).unwrap(), false);
}
#[test]
#[ignore = "a child of another test"]
fn on_rocm() {
    products(&Hip::open(0).unwrap(), true);
}
#[test]
#[ignore = "a child of another test"]
fn on_rocm_without() {
    products(&Hip::open(0).unwrap(), false);
}

fn bytes(elem: Elem, v: &[f32]) -> Vec<u8> {
    match elem {
        Elem::F16 => v.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
        Elem::BF16 => v.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
        Elem::F64 => v.iter().flat_map(|x| f64::from(*x).to_le_bytes()).collect(),
        _ => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}

/// Elements of each operand, and where in them it begins.
const ROOM: usize = 4096;
const START: usize = 64;

/// Whole numbers, whose sums any order leaves exact.
fn number(i: usize) -> f32 {
    ((i * 7 + i / 11) % 9) as f32 - 4.0
}

fn at(strides: [i64; 3], index: [usize; 3]) -> usize {
    let steps = strides.iter().zip(index).map(|(s, i)| s * i as i64).sum::<i64>();
    usize::try_from(START as i64 + steps).expect("in its memory")
}

fn products<D: Driver>(d: &D, has_library: bool) {
    let (b, m, n, k) = (3, 6, 10, 24);
    let rows: [([usize; 4], [i64; 3], [i64; 3], bool, &str); 14] = [
        ([1, m, n, k], [0, 24, 1], [0, 10, 1], true, "by rows"),
        ([b, m, n, k], [144, 24, 1], [240, 10, 1], true, "a batch"),
        ([b, m, n, k], [144, 1, 6], [240, 10, 1], true, "the left one turned"),
        ([b, m, n, k], [144, 24, 1], [240, 1, 24], true, "the right one turned"),
        ([b, m, n, k], [144, 1, 6], [240, 1, 24], true, "both turned"),
        ([b, m, n, k], [200, 30, 1], [300, 12, 1], true, "rows of longer ones"),
        ([b, m, n, k], [0, 24, 1], [240, 10, 1], true, "one left matrix for all"),
        ([b, m, n, k], [24, 72, 1], [10, 30, 1], true, "batches between rows"),
        ([b, 1, n, k], [24, 7, 1], [240, 10, 1], true, "one row"),
        ([b, m, 1, 1], [6, 1, 5], [1, 9, 9], true, "one column, one term"),
        ([1, m, n, k], [0, 48, 2], [0, 10, 1], false, "every second element"),
        ([1, m, n, k], [0, 0, 1], [0, 10, 1], false, "one row again and again"),
        ([1, m, 2, k], [0, 24, 1], [0, 2, -1], false, "backwards"),
        ([2, m, n, k], [-32, 24, 1], [0, 10, 1], false, "a batch backwards"),
    ];
    for elem in [Elem::F32, Elem::F16, Elem::BF16, Elem::F64] {
        let size = bytes(elem, &[0.0]).len();
        let memory = d.allocate((3 * ROOM * size) as u64).unwrap();
        let part = |i: usize, from: usize, len: usize| Slice {
            memory: &memory,
            offset: ((i * ROOM + from) * size) as u64,
            len: (len * size) as u64,
        };
        let numbers: Vec<f32> = (0..ROOM).map(number).collect();
        for (sizes, x, w, fits, what) in rows {
            let [b, m, n, k] = sizes;
            for i in 0..3 {
                d.write(part(i, 0, ROOM), &bytes(elem, &numbers)).unwrap();
            }
            let product = VendorGemm { elem, sizes, x, w };
            let operands =
                [part(0, START, ROOM - START), part(1, START, ROOM - START), part(2, START, b * m * n)];
            let is_done = d.multiply(&product, operands).unwrap();
            assert_eq!(is_done, fits && has_library && elem != Elem::F64, "{what} of {elem:?}");
            let mut want = numbers.clone();
            if is_done {
                let places = (0..b).flat_map(|b| (0..m).flat_map(move |i| (0..n).map(move |j| [b, i, j])));
                for (place, [b, i, j]) in places.enumerate() {
                    let term = |t: usize| number(at(x, [b, i, t])) * number(at(w, [b, t, j]));
                    // From +0 on, as a library adds.
                    want[START + place] = (0..k).map(term).fold(0.0, |sum, x| sum + x);
                }
            }
            let mut got = vec![0; ROOM * size];
            d.read(part(2, 0, ROOM), &mut got).unwrap();
            assert!(got == bytes(elem, &want), "{what} of {elem:?}");
        }
    }
}
