//! What the tuner keeps, and what it reads again.

use super::*;
use elinvar_core::Shape;
use elinvar_driver::Interp;
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
    let candidates =
        [GemmImpl::Heuristic, GemmImpl::Wgmma(tile), GemmImpl::Mma(cut), GemmImpl::VendorLibrary];
    let (all, one) = (|| candidates.to_vec(), || candidates[..1].to_vec());
    let never = |choice: GemmImpl| -> Result<Option<Duration>> { panic!("{choice:?} is tried") };
    // Without trying, as it is; with one way alone, too.
    assert_eq!(tuner(false).fast_gemm(case, &all, &never).unwrap(), GemmImpl::Heuristic);
    assert_eq!(tuner(true).fast_gemm(case, &one, &never).unwrap(), GemmImpl::Heuristic);
    std::fs::remove_dir_all(&dir).unwrap();
    let tried = RefCell::new(Vec::new());
    let time = |choice: GemmImpl| {
        tried.borrow_mut().push(choice);
        let there = |ms| Ok(Some(Duration::from_millis(ms)));
        match choice {
            GemmImpl::Heuristic => there(5),
            GemmImpl::Wgmma(_) => there(3),
            GemmImpl::Mma(_) => there(9),
            GemmImpl::VendorLibrary => Ok(None),
        }
    };
    let t = tuner(true);
    assert_eq!(t.fast_gemm(case, &all, &time).unwrap(), GemmImpl::Wgmma(tile));
    // All but what cannot be done, and that once.
    assert_eq!(tried.borrow().len(), 3 * (RUNS_PER_CANDIDATE + 1) + 1);
    assert_eq!(t.fast_gemm(case, &all, &never).unwrap(), GemmImpl::Wgmma(tile));
    // Another program finds it in the file.
    assert_eq!(tuner(false).fast_gemm(case, &all, &never).unwrap(), GemmImpl::Wgmma(tile));
    let text = std::fs::read_to_string(dir.join("tiles")).unwrap();
    assert_eq!(text, format!("{HEADER}\nfast f16 0 7 7 7 true false: wgmma 64x128\n"));
    // What it speaks of may be gone.
    std::fs::write(dir.join("tiles"), text.replace("wgmma 64x128", "vendor library")).unwrap();
    assert_eq!(tuner(false).fast_gemm(case, &all, &time).unwrap(), GemmImpl::Heuristic);
    assert!(
        GemmImpl::all()
            .all(|choice| GemmImpl::all().filter(|other| other.word() == choice.word()).count() == 1)
    );
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_fastest_tile_is_kept() {
    let info = Interp::list().unwrap().remove(0);
    let layout = Layout::contiguous(Shape::new(&[1, 128, 128]).unwrap());
    let case = GemmCase::of(DType::F32, &layout, &layout);
    let dir = std::env::temp_dir().join(format!("elinvar-tiles-{}", std::process::id()));
    let file = Some(dir.join("tiles"));
    let tuner = |enabled| Tuner::with_file(enabled, file.clone(), "");
    let never = |_: ExactGemmPath| -> Result<Duration> { panic!("nothing is tried") };
    let none = || -> Result<bool> { panic!("only f64 asks") };
    assert_eq!(tuner(false).exact_gemm(&info, case, &none, &never).unwrap(), ExactGemmPath::PLAIN);
    let small = Layout::contiguous(Shape::new(&[1, 4, 4]).unwrap());
    let small = GemmCase::of(DType::F32, &small, &small);
    assert_eq!(tuner(true).exact_gemm(&info, small, &none, &never).unwrap(), ExactGemmPath::PLAIN);

    let tried = RefCell::new(Vec::new());
    let exact = RefCell::new(ExactGemmPath::Simt(TILES[2]));
    let run = |path: ExactGemmPath| {
        tried.borrow_mut().push(path);
        Ok(Duration::from_millis(if path == *exact.borrow() { 1 } else { 20 }))
    };
    let t = tuner(true);
    assert_eq!(t.exact_gemm(&info, case, &none, &run).unwrap(), ExactGemmPath::Simt(TILES[2]));
    assert_eq!(
        tried.borrow().len(),
        ExactGemmPath::all().filter(|path| path.fits(&info, &case, false)).count() * (RUNS_PER_CANDIDATE + 1)
    );
    assert_eq!(t.exact_gemm(&info, case, &none, &never).unwrap(), ExactGemmPath::Simt(TILES[2]));
    let text = std::fs::read_to_string(file.as_ref().unwrap()).unwrap();
    assert_eq!(text, format!("{HEADER}\nf32 0 7 7 7 true false: simt 2x32 of 8x4, depth 0\n"));
    // What has no tile of its own is found again, too.
    *exact.borrow_mut() = ExactGemmPath::InBlockSplitK;
    assert_eq!(tuner(true).exact_gemm(&info, case, &none, &run).unwrap(), ExactGemmPath::InBlockSplitK);
    let text = std::fs::read_to_string(file.as_ref().unwrap()).unwrap();
    let read = Tuner::with_file(false, None, &text);
    assert_eq!(read.exact_gemm(&info, case, &none, &never).unwrap(), ExactGemmPath::InBlockSplitK);
    // Units are taken where they were seen to compute chains, whatever a file says.
    let double = GemmCase { dtype: DType::F64, ..case };
    let f64_mma_path = ExactGemmPath::F64Mma(f64_tensor_core::F64MmaTile::ALL[1]);
    let text = format!("{HEADER}\n{}: {}\n", double.word(), f64_mma_path.word());
    let read = Tuner::with_file(false, None, &text);
    assert_eq!(read.exact_gemm(&info, double, &|| Ok(true), &never).unwrap(), f64_mma_path);
    assert_eq!(read.exact_gemm(&info, double, &|| Ok(false), &never).unwrap(), ExactGemmPath::PLAIN);
    assert!(
        ExactGemmPath::all()
            .all(|path| { ExactGemmPath::all().filter(|other| other.word() == path.word()).count() == 1 })
    );
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn few_tiles_have_their_chunks_side_by_side() {
    let card = Info {
        kind: Kind::Discrete,
        cp_async: true,
        invocations: 1024,
        shared: 227 << 10,
        ..Interp::list().unwrap().remove(0)
    };
    let path = |info: &Info, dtype, [m, k, n]: [usize; 3]| {
        let [x, w] = [[1, m, k], [1, k, n]].map(|d| Layout::contiguous(Shape::new(&d).unwrap()));
        by_size(info, &GemmCase::of(dtype, &x, &w), false)
    };
    for (dtype, sizes, want) in [
        (DType::F32, [1, 4096, 4096], ExactGemmPath::InBlockSplitK),
        (DType::F32, [32, 1024, 1024], ExactGemmPath::InBlockSplitK),
        (DType::BF16, [8, 1024, 50000], ExactGemmPath::InBlockSplitK),
        (DType::F64, [1024, 1024, 8], ExactGemmPath::InBlockSplitK),
        (DType::F32, [1024, 1024, 1024], ExactGemmPath::InBlockSplitK),
        (DType::F32, [2048, 2048, 2048], ExactGemmPath::Simt(LARGE_TILES[0])),
        (DType::F64, [2048, 2048, 2048], ExactGemmPath::Simt(CP_ASYNC_TILES[0])),
        (DType::F32, [1, 16, 100_000], ExactGemmPath::PLAIN),
        (DType::I64, [1, 4096, 4096], ExactGemmPath::PLAIN),
        (DType::I64, [32, 4096, 4096], ExactGemmPath::Simt(SimtTile::SHARED)),
    ] {
        assert_eq!(path(&card, dtype, sizes), want, "{dtype} {sizes:?}");
        let software = Info { kind: Kind::Software, ..card.clone() };
        assert_eq!(path(&software, dtype, sizes), ExactGemmPath::PLAIN);
    }
}
