//! Prepacked B: weights packed ahead of time, on request or after several uses of the same matrix.
//!
//! It is as tasks pack theirs: chunk after chunk, in it panel after panel, zeros past the last
//! column. So any chunk of any columns that begin with a panel is read in place, and the tiles
//! do with it what they do with what was just packed.

use super::kernels::{PrepackedPanels, nr};
use super::nonfinite::are_finite;
use super::operand::{BatchedMatrix, OperandB};
use super::plan::thresholds::{PANELS_PER_SHARED_PACK, USES_BEFORE_PACKING};
use crate::CpuDevice;
use crate::elementwise::real::{Real, StoredElements, stored_elements};
use crate::runtime::memory::{PooledData, filled};
use crate::runtime::memory_limit;
use crate::runtime::parallel::for_each_task;
use elinvar_core::order::CHUNK;
use elinvar_core::{HostData, Layout, Result, storage};
use elinvar_simd::LINE;
use elinvar_simd::isa::Isa;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Where a matrix [k, n] is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatrixPlace {
    k: usize,
    n: usize,
    /// Its first element.
    at: usize,
    /// The distance of rows, and of columns.
    step: (isize, isize),
}

impl MatrixPlace {
    /// Of the last two axes; the first matrix, if there are several.
    ///
    /// # Panics
    /// If there are fewer axes.
    pub(crate) fn of(l: &Layout) -> MatrixPlace {
        let (&[.., k, n], &[.., row, col]) = (l.shape().dims(), l.strides()) else {
            unreachable!("a matrix has two axes")
        };
        MatrixPlace { k, n, at: l.offset(), step: (row, col) }
    }
    /// Of the matrix that weights [n, k], one after the other from `at` on, are turned, as a
    /// convolution reads its own.
    pub(crate) fn of_transposed(at: usize, n: usize, k: usize) -> MatrixPlace {
        MatrixPlace { k, n, at, step: (1, k as isize) }
    }
}

/// A packed copy of a matrix of f32 or f64.
pub(crate) struct PrepackedB {
    data: PooledData,
    /// Where the panels begin in it.
    start: usize,
    /// Columns of its panels: those of the registers for which it was packed.
    width: usize,
    /// Where the matrix is.
    place: MatrixPlace,
    /// Are all numbers finite?
    is_finite: bool,
    /// Of an unrequested copy.
    _allowed: Option<UnrequestedBytes>,
}

/// Bytes of unrequested copies, of all devices.
static UNREQUESTED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bytes of an unrequested copy, until it is dropped.
struct UnrequestedBytes(u64);

impl UnrequestedBytes {
    /// If no more than so many are, then, in all copies.
    fn of(bytes: u64, most: u64) -> Option<UnrequestedBytes> {
        let sum = |all: u64| all.checked_add(bytes).filter(|&sum| sum <= most);
        UNREQUESTED_BYTES.fetch_update(Relaxed, Relaxed, sum).ok().map(|_| UnrequestedBytes(bytes))
    }
}

impl Drop for UnrequestedBytes {
    fn drop(&mut self) {
        UNREQUESTED_BYTES.fetch_sub(self.0, Relaxed);
    }
}

/// Counts the uses of a matrix, as it is, as the right factor of products.
#[derive(Default)]
pub(crate) struct UseCounter(AtomicU32);

impl UseCounter {
    /// The matrix was changed.
    pub(crate) fn forget(&mut self) {
        *self.0.get_mut() = 0;
    }
    /// So many uses more, and a copy, if it is time for one, and a device allows it: of a matrix
    /// whose columns are contiguous, as in weights of a linear layer. There is none if there is no
    /// memory for one, or memory is limited.
    pub(crate) fn count(
        &self,
        d: &CpuDevice,
        more: u32,
        data: &HostData,
        place: MatrixPlace,
    ) -> Option<PrepackedB> {
        let is_transposed = place.step.0 == 1 && place.step.1.unsigned_abs() > 1;
        if !is_transposed {
            return None;
        }
        let before = self.0.fetch_add(more, Relaxed);
        if before >= USES_BEFORE_PACKING || before + more < USES_BEFORE_PACKING {
            return None;
        }
        let (MatrixPlace { k, n, .. }, size) = (place, data.dtype().size());
        let width = panel_width(data, d.isa());
        // Of fewer columns than a panel has most of a copy would be zeros.
        if n < width || memory_limit::bytes().is_some() {
            return None;
        }
        let allowed = UnrequestedBytes::of((packed_len(k, n, width) * size) as u64, d.packs_up_to() as u64)?;
        let copy = PrepackedB::new(d, data, place).ok().flatten()?;
        Some(PrepackedB { _allowed: Some(allowed), ..copy })
    }
}

impl PrepackedB {
    /// A copy, if numbers of this type are packed. Halves are not: as numbers they would take twice
    /// the memory to read.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn new(d: &CpuDevice, data: &HostData, place: MatrixPlace) -> Result<Option<PrepackedB>> {
        match data {
            HostData::F32(_) => pack::<f32>(d, data, place).map(Some),
            HostData::F64(_) => pack::<f64>(d, data, place).map(Some),
            storage!(HostData)
            | HostData::I64(_)
            | HostData::I32(_)
            | HostData::U8(_)
            | HostData::Bool(_) => Ok(None),
        }
    }
    /// Is it a copy of the matrix of this layout, for these registers?
    pub(crate) fn is_of(&self, isa: Isa, place: MatrixPlace) -> bool {
        self.width == panel_width(self.data.data(), isa) && self.place == place
    }
    /// The panels, if every matrix of this batch is the one that was packed.
    pub(crate) fn of<T: Real>(&self, isa: Isa, l: &Layout) -> Option<PrepackedPanels<'_, T>> {
        let batched = l.shape()[0] > 1 && l.strides()[0] != 0;
        if l.shape()[0] == 0 || batched { None } else { self.at(isa, MatrixPlace::of(l)) }
    }
    /// The panels, if the matrix of this layout is the one that was packed.
    pub(crate) fn at<T: Real>(&self, isa: Isa, place: MatrixPlace) -> Option<PrepackedPanels<'_, T>> {
        if !self.is_of(isa, place) {
            return None;
        }
        match T::numbers(self.data.data()) {
            Some(StoredElements::Native(data)) => {
                let (data, is_finite) = (&data[self.start..], self.is_finite);
                Some(PrepackedPanels { data, width: self.width, padded: self.padded(), is_finite })
            }
            Some(StoredElements::F16(_) | StoredElements::BF16(_)) | None => None,
        }
    }
    fn padded(&self) -> usize {
        self.place.n.next_multiple_of(self.width)
    }
}

/// Columns of a panel of these numbers.
fn panel_width(data: &HostData, isa: Isa) -> usize {
    match data {
        HostData::F64(_) => nr::<f64>(isa),
        _ => nr::<f32>(isa),
    }
}

/// Numbers of all panels of a matrix [k, n].
fn packed_len(k: usize, n: usize, width: usize) -> usize {
    k * n.next_multiple_of(width)
}

/// Chunks are packed by all threads, a few panels at a time.
fn pack<T: Real>(d: &CpuDevice, data: &HostData, place: MatrixPlace) -> Result<PrepackedB> {
    let (isa, w) = (d.isa(), nr::<T>(d.isa()));
    let MatrixPlace { k, n, at, step } = place;
    let numbers = stored_elements::<T>(data)?;
    let matrix = BatchedMatrix {
        data: numbers,
        offset: at,
        inner: 1,
        batch: (0, 0),
        row: step.0,
        col: step.1,
        prepacked: None,
    };
    let size = packed_len(k, n, w);
    let mut packed = filled(size + LINE / size_of::<T>(), T::ZERO)?;
    // A register that is loaded from two lines takes two loads, and nothing else is done with these
    // numbers.
    let start = Some(packed.as_ptr().align_offset(LINE)).filter(|&n| n < LINE / size_of::<T>()).unwrap_or(0);
    let (mut parts, mut rest) = (Vec::new(), &mut packed[start..start + size]);
    for t in (0..k).step_by(CHUNK) {
        let terms = t..k.min(t + CHUNK);
        for j in (0..n).step_by(PANELS_PER_SHARED_PACK * w) {
            let cols = j..n.min(j + PANELS_PER_SHARED_PACK * w);
            let (part, after) = rest.split_at_mut(terms.len() * cols.len().next_multiple_of(w));
            parts.push((terms.clone(), cols, part));
            rest = after;
        }
    }
    let is_finite = AtomicBool::new(true);
    for_each_task(d, f64::INFINITY, &mut parts, |(terms, cols, part)| {
        matrix.pack(isa, 0, terms.clone(), cols.clone(), part);
        is_finite.fetch_and(are_finite(isa, part), Relaxed);
        Ok(())
    })?;
    let is_finite = is_finite.into_inner();
    Ok(PrepackedB {
        data: PooledData::new(T::wrap(packed)),
        start,
        width: w,
        place,
        is_finite,
        _allowed: None,
    })
}
