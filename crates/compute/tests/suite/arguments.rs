//! Arguments that do not fit: an error with a sentence that names them, and nothing changes.

use crate::{TYPES, bytes, free, get, opened, put, reference};
use elinvar_compute::BackendError::{InvalidArgument, NotInitialized, OutOfMemory};
use elinvar_compute::BackendTranspose::{NoTrans, Trans};
use elinvar_compute::{BackendResult, BinaryOp, ComputeBackend, Raw, ReduceOp, UnaryOp};
use elinvar_core::DType;
use elinvar_cpu::{Cpu, CpuDevice};
use elinvar_reference::{Reference, ReferenceDevice};

/// That a call is refused with a sentence of these words.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: BackendResult<T>, words: &str) {
    match result {
        Err(InvalidArgument(said)) => assert!(said.contains(words), "{said:?} should have {words:?}"),
        other => panic!("{other:?} instead of {words:?}"),
    }
}

#[test]
fn pointers_are_checked() {
    for dtype in TYPES {
        let (raw, size) = (reference(dtype), dtype.size() as u64);
        let other = opened::<Cpu>(CpuDevice::default(), dtype);
        let foreign = put(&other, dtype, &[1.0; 4]).unwrap();
        let freed = put(&raw, dtype, &[1.0; 4]).unwrap();
        raw.free(freed).unwrap();
        let (p, q) = (put(&raw, dtype, &[1.0; 8]).unwrap(), put(&raw, dtype, &[2.0; 8]).unwrap());
        assert!(p.is_multiple_of(256) && q.is_multiple_of(256) && p != freed && q != freed);
        let rows = [
            (0, "is null"),
            (1, "points into no memory of this backend"),
            (u64::MAX, "points into no memory of this backend"),
            (freed, "points into memory that was freed"),
            (freed + size, "points into memory that was freed"),
            (foreign, "points into memory of another backend, on cpu"),
            (p + 8 * size, "is the end of the memory at"),
            (p + 1, "is not aligned"),
            (p + 5 * size, "up to the end of its memory"),
        ];
        for (bad, words) in rows {
            let all = [
                ("input_ptr", raw.unary(UnaryOp::Exp, bad, q, 4)),
                ("output_ptr", raw.unary(UnaryOp::Exp, q, bad, 4)),
                ("a_ptr", raw.binary(BinaryOp::Add, bad, q, q, 4)),
                ("b_ptr", raw.binary(BinaryOp::Add, q, bad, q, 4)),
                ("a_ptr", raw.gemm(NoTrans, Trans, 2, 2, 2, 1.0, bad, 2, q, 2, 0.0, q + 4 * size, 2)),
                ("b_ptr", raw.gemm(NoTrans, Trans, 2, 2, 2, 1.0, q, 2, bad, 2, 0.0, q + 4 * size, 2)),
                ("c_ptr", raw.gemm(NoTrans, Trans, 2, 2, 2, 1.0, q, 2, q, 2, 0.0, bad, 2)),
                ("input_ptr", raw.reduce(ReduceOp::Sum, bad, q, &[2, 2], 1)),
                ("k_ptr", raw.attention(q, bad, q, q + 4 * size, 1, 1, 1, 1, 4, 1.0, false)),
                (
                    "filter_ptr",
                    raw.conv2d_forward(
                        q,
                        &[1, 1, 1, 4],
                        bad,
                        &[1, 1, 1, 4],
                        q + 4 * size,
                        &[1, 1, 1, 1],
                        &[1, 1],
                        &[0, 0],
                    ),
                ),
            ];
            for (what, result) in all {
                refused(result.clone(), words);
                refused(result, what);
            }
            // Copies take any byte.
            let bytes = vec![0; 4 * size as usize];
            if words != "is not aligned" {
                refused(raw.copy_htod(bad, &bytes), words);
                refused(raw.copy_dtoh(&mut bytes.clone(), bad), words);
            }
        }
        refused(raw.free(p + size), "it is freed by its start");
        refused(raw.free(freed), "was freed");
        refused(raw.free(0), "is null");
        assert_eq!(get(&raw, dtype, p, 8).unwrap(), [1.0; 8]);
        assert_eq!(get(&raw, dtype, q, 8).unwrap(), [2.0; 8]);
        free(&raw, &[p, q]);
        other.free(foreign).unwrap();
    }
}

#[test]
fn memory_that_overlaps_is_refused() {
    let raw = reference(DType::F32);
    let p = put(&raw, DType::F32, &[1.0; 64]).unwrap();
    let at = |i: u64| p + 4 * i;
    refused(raw.unary(UnaryOp::Neg, p, at(1), 4), "output_ptr overlaps that of input_ptr");
    refused(raw.binary(BinaryOp::Add, p, at(8), at(9), 4), "output_ptr overlaps that of b_ptr");
    refused(raw.reduce(ReduceOp::Sum, p, at(3), &[4, 4], 1), "overlaps that of input_ptr");
    refused(
        raw.gemm(NoTrans, NoTrans, 2, 2, 2, 1.0, p, 2, at(8), 2, 0.0, at(3), 2),
        "c_ptr overlaps that of a_ptr",
    );
    refused(
        raw.gemm(NoTrans, NoTrans, 2, 2, 2, 1.0, p, 2, at(8), 5, 0.0, at(9), 5),
        "c_ptr overlaps that of b_ptr",
    );
    // Between the columns of B it may be.
    raw.gemm(NoTrans, NoTrans, 2, 2, 2, 1.0, p, 2, at(8), 5, 0.0, at(10), 5).unwrap();
    let batched = |stride| {
        raw.batched_gemm(NoTrans, NoTrans, 2, 2, 2, 1.0, p, 2, 0, at(8), 2, 0, 0.0, at(32), 2, stride, 3)
    };
    refused(batched(0), "c_ptr names an element twice");
    refused(batched(3), "c_ptr names an element twice");
    batched(4).unwrap();
    refused(
        raw.attention(p, at(8), at(16), at(19), 1, 1, 1, 1, 4, 1.0, false),
        "o_ptr overlaps that of v_ptr",
    );
    let conv =
        |to| raw.conv2d_forward(p, &[1, 1, 4, 4], at(16), &[1, 1, 1, 1], to, &[1, 1, 4, 4], &[1, 1], &[0, 0]);
    refused(conv(p), "output_ptr overlaps that of input_ptr");
    refused(conv(at(16)), "output_ptr overlaps that of filter_ptr");
    conv(at(17)).unwrap();
    raw.free(p).unwrap();
}

#[test]
fn sizes_are_checked() {
    let raw = reference(DType::F64);
    let p = put(&raw, DType::F64, &[1.0; 64]).unwrap();
    let q = put(&raw, DType::F64, &[1.0; 64]).unwrap();
    let far = usize::MAX;
    let gemm = |m, n, k, lda, ldb, ldc| raw.gemm(NoTrans, NoTrans, m, n, k, 1.0, p, lda, p, ldb, 0.0, q, ldc);
    refused(gemm(3, 2, 2, 2, 2, 3), "lda is 2; it must be at least 3");
    refused(gemm(3, 2, 2, 3, 1, 3), "ldb is 1; it must be at least 2");
    refused(gemm(3, 2, 2, 3, 2, 2), "ldc is 2; it must be at least 3");
    refused(gemm(0, 0, 0, 0, 1, 1), "lda is 0; it must be at least 1");
    refused(gemm(2, 2, 2, 2, 2, far), "more bytes than can be addressed");
    refused(gemm(2, 2, 2, far / 8, 2, 2), "a_ptr");
    refused(gemm(far, 2, 2, far, 2, far), "c_ptr");
    refused(gemm(2, far, 2, 2, 2, 2), "c_ptr");
    refused(gemm(2, 2, far, 2, far, 2), "a_ptr");
    // Of one column, the distance to the next is no matter.
    gemm(2, 1, 1, far, far, far).unwrap();
    let batched = |stride: usize, n| {
        raw.batched_gemm(NoTrans, NoTrans, 1, 1, 1, 1.0, p, 1, stride, p, 1, 0, 0.0, q, 1, 1, n)
    };
    refused(batched(far, 2), "a_ptr");
    refused(batched(1, far), "c_ptr");
    batched(far, 1).unwrap();
    for (shape, axis, words) in [
        (&[4usize, 4][..], 2, "axis 2 of shape [4, 4], which has 2 axes"),
        (&[], 0, "axis 0 of shape []"),
        (&[far, 2], 0, "more elements than can be addressed"),
        (&[far, 0, far], 1, "more elements than can be addressed"),
        (&[8, 9], 0, "up to the end of its memory"),
    ] {
        refused(raw.reduce(ReduceOp::Sum, p, q, shape, axis), words);
    }
    refused(raw.reduce(ReduceOp::Max, p, q, &[2, 0], 1), "the max of no elements");
    refused(raw.unary(UnaryOp::Exp, p, q, far), "input_ptr");
    let conv = |x: &[usize], w: &[usize], y: &[usize], stride: &[usize], padding: &[usize]| {
        raw.conv2d_forward(p, x, p, w, q, y, stride, padding)
    };
    for (x, w, y, stride, padding, words) in [
        (&[1, 1, 4][..], [1, 1, 2, 2], [1, 1, 3, 3], &[1, 1][..], [0, 0], "it must have 4"),
        (&[1, 1, 4, 4], [1, 1, 2, 2], [1, 1, 3, 3], &[1], [0, 0], "it must have 2"),
        (&[1, 1, 4, 4], [1, 1, 2, 2], [1, 1, 3, 3], &[1, 0], [0, 0], "the stride must be in"),
        (&[1, 1, 4, 4], [1, 1, 2, 2], [1, 1, 3, 3], &[1, 1], [0, far], "the padding in"),
        (&[1, 1, 4, 4], [1, 1, 5, 2], [1, 1, 1, 3], &[1, 1], [0, 0], "must have 1 at least and fit"),
        (&[1, 1, 4, 4], [1, 1, 0, 2], [1, 1, 5, 3], &[1, 1], [0, 0], "must have 1 at least and fit"),
        (&[1, 1, 4, 4], [1, 2, 2, 2], [1, 1, 3, 3], &[1, 1], [0, 0], "the second sizes"),
        (&[1, 1, 4, 4], [1, 1, 2, 2], [1, 1, 3, 4], &[1, 1], [0, 0], "the output [1, 1, 3, 3]"),
        (&[far, far, 4, 4], [1, far, 2, 2], [far, 1, 3, 3], &[1, 1], [0, 0], "input_ptr"),
    ] {
        refused(conv(x, &w, &y, stride, &padding), words);
    }
    refused(raw.attention(p, p, p, q, far, far, 1, 1, 1, 1.0, false), "q_ptr");
    refused(raw.alloc(0), "0 bytes");
    assert_eq!(raw.alloc(far), Err(OutOfMemory));
    assert_eq!(raw.alloc(far / 4), Err(OutOfMemory));
    refused(raw.copy_htod(p, &[0; 513]), "513 bytes at dst");
    free(&raw, &[p, q]);
}

#[test]
fn an_operand_without_elements_has_no_pointer() {
    let raw = reference(DType::F32);
    let p = put(&raw, DType::F32, &[5.0; 8]).unwrap();
    raw.unary(UnaryOp::Exp, 0, 0, 0).unwrap();
    raw.copy_htod(0, &[]).unwrap();
    raw.copy_dtoh(&mut [], 0).unwrap();
    raw.gemm(NoTrans, NoTrans, 0, 3, 0, 1.0, 0, 1, 0, 1, 0.0, 0, 1).unwrap();
    // Factors that are not read may be anything, and zeros come out.
    raw.gemm(NoTrans, NoTrans, 2, 1, 2, 0.0, 0, 2, 1, 2, 0.0, p, 2).unwrap();
    raw.gemm(NoTrans, NoTrans, 2, 1, 0, 1.0, 0, 2, 1, 2, 0.0, p + 8, 2).unwrap();
    raw.attention(p + 24, 0, 0, p + 16, 1, 1, 1, 0, 2, 1.0, true).unwrap();
    assert_eq!(get(&raw, DType::F32, p, 8).unwrap(), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0, 5.0]);
    raw.free(p).unwrap();
}

#[test]
fn nothing_works_before_init() {
    let mut raw = Raw::<Reference>::new(ReferenceDevice, DType::F32).unwrap();
    assert!(!raw.is_initialized());
    assert_eq!(raw.name(), "reference");
    let not = Err(NotInitialized);
    assert_eq!(raw.alloc(8), Err(NotInitialized));
    assert_eq!(raw.free(0), not);
    assert_eq!(raw.copy_htod(0, &[]), not);
    assert_eq!(raw.copy_dtoh(&mut [], 0), not);
    assert_eq!(raw.synchronize(), not);
    assert_eq!(raw.unary(UnaryOp::Exp, 0, 0, 0), not);
    assert_eq!(raw.binary(BinaryOp::Add, 0, 0, 0, 0), not);
    assert_eq!(raw.reduce(ReduceOp::Sum, 0, 0, &[0], 0), not);
    assert_eq!(raw.gemm(NoTrans, NoTrans, 0, 0, 0, 1.0, 0, 1, 0, 1, 0.0, 0, 1), not);
    assert_eq!(raw.batched_gemm(NoTrans, NoTrans, 0, 0, 0, 1.0, 0, 1, 0, 0, 1, 0, 0.0, 0, 1, 0, 0), not);
    assert_eq!(raw.attention(0, 0, 0, 0, 0, 0, 0, 0, 0, 1.0, false), not);
    let s = [0; 4];
    assert_eq!(raw.conv2d_forward(0, &s, 0, &s, 0, &s, &[1, 1], &[0, 0]), not);
    raw.init().unwrap();
    raw.init().unwrap();
    assert!(raw.is_initialized());
    let p = raw.alloc(8).unwrap();
    raw.free(p).unwrap();
}

#[test]
fn other_element_types_are_refused() {
    for dtype in DType::ALL {
        let made = Raw::<Reference>::new(ReferenceDevice, dtype);
        match dtype {
            DType::F32 | DType::F64 => assert!(made.is_ok()),
            _ => refused(made.map(|_| ()), "must be f32 or f64"),
        }
    }
}

#[test]
fn copies_take_any_bytes() {
    // Bytes at any offset, of memory of any size, as they are and after a call has made elements
    // of them.
    for dtype in TYPES {
        let raw = reference(dtype);
        let published = {
            let mut raw = Raw::<Reference>::as_published(ReferenceDevice);
            raw.init().unwrap();
            raw
        };
        for raw in [&raw, &published] {
            for len in [1usize, 7, 8, 13, 29] {
                let p = raw.alloc(len).unwrap();
                let mut want = vec![0u8; len];
                for (from, to) in [(0, len), (len / 2, len), (0, len / 2), (len / 3, len - len / 4)] {
                    let part: Vec<u8> = (from..to).map(|i| (i * 37 + len) as u8).collect();
                    raw.copy_htod(p + from as u64, &part).unwrap();
                    want[from..to].copy_from_slice(&part);
                    let mut got = vec![0; len];
                    raw.copy_dtoh(&mut got, p).unwrap();
                    assert_eq!(got, want, "{dtype} {len} {from} {to}");
                }
                raw.free(p).unwrap();
            }
        }
        let p = put(&raw, dtype, &[1.0, 2.0, 3.0]).unwrap();
        raw.copy_htod(p + 3, &bytes(dtype, &[1.0])[..2]).unwrap();
        raw.free(p).unwrap();
    }
}

/// Remembers where its products were.
#[derive(Debug, Default)]
struct Mock(std::sync::Mutex<Vec<[u64; 3]>>);

impl ComputeBackend for Mock {
    fn name(&self) -> &str {
        "mock"
    }
    fn init(&mut self) -> BackendResult<()> {
        Ok(())
    }
    fn is_initialized(&self) -> bool {
        true
    }
    fn gemm(
        &self,
        _: elinvar_compute::BackendTranspose,
        _: elinvar_compute::BackendTranspose,
        _: usize,
        _: usize,
        _: usize,
        _: f64,
        a: u64,
        _: usize,
        b: u64,
        _: usize,
        _: f64,
        c: u64,
        _: usize,
    ) -> BackendResult<()> {
        self.0.lock().unwrap().push([a, b, c]);
        Ok(())
    }
    fn conv2d_forward(
        &self,
        _: u64,
        _: &[usize],
        _: u64,
        _: &[usize],
        _: u64,
        _: &[usize],
        _: &[usize],
        _: &[usize],
    ) -> BackendResult<()> {
        Ok(())
    }
    fn attention(
        &self,
        _: u64,
        _: u64,
        _: u64,
        _: u64,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: f64,
        _: bool,
    ) -> BackendResult<()> {
        Ok(())
    }
    fn reduce(&self, _: ReduceOp, _: u64, _: u64, _: &[usize], _: usize) -> BackendResult<()> {
        Ok(())
    }
    fn unary(&self, _: UnaryOp, _: u64, _: u64, _: usize) -> BackendResult<()> {
        Ok(())
    }
    fn binary(&self, _: BinaryOp, _: u64, _: u64, _: u64, _: usize) -> BackendResult<()> {
        Ok(())
    }
    fn synchronize(&self) -> BackendResult<()> {
        Ok(())
    }
    fn alloc(&self, _: usize) -> BackendResult<u64> {
        Ok(0)
    }
    fn free(&self, _: u64) -> BackendResult<()> {
        Ok(())
    }
    fn copy_htod(&self, _: u64, _: &[u8]) -> BackendResult<()> {
        Ok(())
    }
    fn copy_dtoh(&self, _: &mut [u8], _: u64) -> BackendResult<()> {
        Ok(())
    }
}

#[test]
fn a_batch_is_one_product_after_the_other_where_nothing_better_is_written() {
    let mock = Mock::default();
    let backend: &dyn ComputeBackend = &mock;
    let batch = |stride, n| {
        backend.batched_gemm(NoTrans, NoTrans, 2, 2, 2, 1.0, 100, 2, stride, 200, 2, 0, 0.0, 300, 2, 4, n)
    };
    batch(5, 3).unwrap();
    assert_eq!(*mock.0.lock().unwrap(), [[100, 200, 300], [120, 200, 316], [140, 200, 332]]);
    refused(batch(usize::MAX, 2), "stride_a 18446744073709551615 leads beyond the last address at matrix 1");
}
