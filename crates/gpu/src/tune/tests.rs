//! What the tuner keeps, and what it reads again.

use super::*;
use crate::machine::machine;
use elinvar_core::{Layout, Shape};
use elinvar_driver::Interp;
use elinvar_gpu_kernels::gemm::mma_sync::WarpTiling;
use elinvar_gpu_kernels::gemm::{f64_tensor_core, tma_wgmma};
use std::cell::RefCell;

#[test]
fn the_fastest_way_is_kept() {
    let layout = Layout::contiguous(Shape::new(&[1, 128, 128]).unwrap());
    let case = GemmCase::of(DType::F16, &layout, &layout);
    let dir = std::env::temp_dir().join(format!("elinvar-ways-{}", std::process::id()));
    let file = Some(dir.join("tiles"));
    let tuner = |enabled| {
        let text = std::fs::read_to_string(dir.join("tiles")).unwrap_or_default();
        Tuner::with_file(enabled, file.clone(), &text)
    };
    let tile = tma_wgmma::WgmmaTile::ALL[2];
    let cut = WarpTiling::all().next().unwrap();
    let candidates = [
        FastGemmCandidate::Default,
        FastGemmCandidate::Wgmma(tile),
        FastGemmCandidate::Mma(cut),
        FastGemmCandidate::VendorLibrary,
    ];
    let (all, one) = (|| candidates.to_vec(), || candidates[..1].to_vec());
    let never = |choice: FastGemmCandidate| -> Result<Option<Duration>> { panic!("{choice:?} is tried") };
    // Without trying, as it is; with one way alone, too.
    assert_eq!(tuner(false).fast_gemm(case, &all, &never).unwrap(), FastGemmCandidate::Default);
    assert_eq!(tuner(true).fast_gemm(case, &one, &never).unwrap(), FastGemmCandidate::Default);
    std::fs::remove_dir_all(&dir).unwrap();
    let tried = RefCell::new(Vec::new());
    let time = |choice: FastGemmCandidate| {
        tried.borrow_mut().push(choice);
        let there = |ms| Ok(Some(Duration::from_millis(ms)));
        match choice {
            FastGemmCandidate::Default => there(5),
            FastGemmCandidate::Wgmma(_) => there(3),
            FastGemmCandidate::Mma(_) => there(9),
            FastGemmCandidate::VendorLibrary => Ok(None),
        }
    };
    let t = tuner(true);
    assert_eq!(t.fast_gemm(case, &all, &time).unwrap(), FastGemmCandidate::Wgmma(tile));
    // All but what cannot be done, and that once.
    assert_eq!(tried.borrow().len(), 3 * (RUNS_PER_CANDIDATE + 1) + 1);
    assert_eq!(t.fast_gemm(case, &all, &never).unwrap(), FastGemmCandidate::Wgmma(tile));
    // Another program finds it in the file.
    assert_eq!(tuner(false).fast_gemm(case, &all, &never).unwrap(), FastGemmCandidate::Wgmma(tile));
    let text = std::fs::read_to_string(dir.join("tiles")).unwrap();
    assert_eq!(text, format!("{HEADER}\nfast f16 0 7 7 7 true false: wgmma 64x128\n"));
    // What it speaks of may be gone.
    std::fs::write(dir.join("tiles"), text.replace("wgmma 64x128", "vendor library")).unwrap();
    assert_eq!(tuner(false).fast_gemm(case, &all, &time).unwrap(), FastGemmCandidate::Default);
    assert!(FastGemmCandidate::all().all(|choice| {
        FastGemmCandidate::all().filter(|other| other.to_string() == choice.to_string()).count() == 1
    }));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_fastest_tile_is_kept() {
    let info = Interp::list().unwrap().remove(0);
    let machine = machine(&info);
    let layout = Layout::contiguous(Shape::new(&[1, 128, 128]).unwrap());
    let case = GemmCase::of(DType::F32, &layout, &layout);
    let dir = std::env::temp_dir().join(format!("elinvar-tiles-{}", std::process::id()));
    let file = Some(dir.join("tiles"));
    let tuner = |enabled| Tuner::with_file(enabled, file.clone(), "");
    let never = |_: ExactGemmPath| -> Result<Duration> { panic!("nothing is tried") };
    let none = || -> Result<bool> { panic!("only f64 asks") };
    assert_eq!(tuner(false).exact_gemm(&machine, case, &none, &never).unwrap().path, ExactGemmPath::PLAIN);
    let small = Layout::contiguous(Shape::new(&[1, 4, 4]).unwrap());
    let small = GemmCase::of(DType::F32, &small, &small);
    assert_eq!(tuner(true).exact_gemm(&machine, small, &none, &never).unwrap().path, ExactGemmPath::PLAIN);

    let third = ExactGemmPath::all().nth(2).unwrap();
    let tried = RefCell::new(Vec::new());
    let exact = RefCell::new(third);
    let run = |path: ExactGemmPath| {
        tried.borrow_mut().push(path);
        Ok(Duration::from_millis(if path == *exact.borrow() { 1 } else { 20 }))
    };
    let t = tuner(true);
    assert_eq!(t.exact_gemm(&machine, case, &none, &run).unwrap().path, third);
    assert_eq!(
        tried.borrow().len(),
        plan::exact_candidates(&case, &machine, false).len() * (RUNS_PER_CANDIDATE + 1)
    );
    assert_eq!(t.exact_gemm(&machine, case, &none, &never).unwrap().path, third);
    let text = std::fs::read_to_string(file.as_ref().unwrap()).unwrap();
    assert_eq!(text, format!("{HEADER}\nf32 0 7 7 7 true false: simt 2x32 of 8x4, depth 0\n"));
    // What has no tile of its own is found again, too.
    *exact.borrow_mut() = ExactGemmPath::InBlockSplitK;
    assert_eq!(
        tuner(true).exact_gemm(&machine, case, &none, &run).unwrap().path,
        ExactGemmPath::InBlockSplitK
    );
    let text = std::fs::read_to_string(file.as_ref().unwrap()).unwrap();
    let read = Tuner::with_file(false, None, &text);
    assert_eq!(read.exact_gemm(&machine, case, &none, &never).unwrap().path, ExactGemmPath::InBlockSplitK);
    // Units are taken where they were seen to compute chains, whatever a file says.
    let double = GemmCase { dtype: DType::F64, ..case };
    let f64_mma_path = ExactGemmPath::F64Mma(f64_tensor_core::F64MmaTile::ALL[1]);
    let text = format!("{HEADER}\n{}: {f64_mma_path}\n", word(&double));
    let read = Tuner::with_file(false, None, &text);
    assert_eq!(read.exact_gemm(&machine, double, &|| Ok(true), &never).unwrap().path, f64_mma_path);
    assert_eq!(read.exact_gemm(&machine, double, &|| Ok(false), &never).unwrap().path, ExactGemmPath::PLAIN);
    assert!(ExactGemmPath::all().all(|path| {
        ExactGemmPath::all().filter(|other| other.to_string() == path.to_string()).count() == 1
    }));
    std::fs::remove_dir_all(dir).unwrap();
}
