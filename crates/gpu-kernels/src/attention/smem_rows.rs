//! Rows of operands in shared memory: operand staging of exact attention and its gradient.
//!
//! A workgroup loads its own rows once, and those of the next block while it computes (prefetch by
//! cp.async). Both factors of scores are read along their elements, a vector at a time; the right
//! factor of the next product as neighbouring columns. The bits are those of the direct form:
//! padding is -0 on the left and +0 on the right, whose product changes no bit of any sum.

use super::plan::thresholds::MAX_SMEM_ROW_ELEMENTS;
use super::{SCORE_PITCH, StridedOperand, THREAD_TILE, ThreadCoord, fma_chains};
use crate::gemm::multistage_cp_async;
use crate::gemm::smem_load::rounds;
use crate::layout::indexing;
use crate::reduce::block_reduce;
use elinvar_core::order::ATTENTION_BLOCK;
use elinvar_core::{DType, Layout};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Place, Scalar};

/// How exact attention is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionPath {
    /// Operands are read in place: for devices whose barriers are expensive.
    Direct,
    /// Rows go through shared memory, if so many bytes of it are enough.
    Smem(u32),
}

/// What a kernel knows of rows that go through shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SmemRowsConfig {
    /// Numbers of a query (and key), and of a value.
    pub widths: [u32; 2],
    /// Are all rows in pieces of 16 bytes that need no conversion? Then copies bring them.
    pub cp_async: bool,
}

/// Terms, and places of a block, of a turn. Rows are filled up to a multiple.
const K_STEP: u32 = 16;

/// Numbers that are read at once: 16 bytes.
pub(super) fn vector(s: Scalar) -> u32 {
    multistage_cp_async::COPY_BYTES / (s.bits() / 8)
}

fn filled(n: u32) -> u32 {
    n.next_multiple_of(K_STEP)
}

/// From row to row: an odd number of 16 bytes, so that eight rows are in different banks.
pub(super) fn pitch(s: Scalar, n: u32) -> u32 {
    filled(n) + vector(s)
}

impl SmemRowsConfig {
    /// The form for rows of `widths` numbers of this layout, which need `elements` of shared
    /// memory; `None` if they do not go there.
    pub(super) fn of(
        how: AttentionPath,
        dtype: DType,
        widths: [usize; 2],
        operands: &[&Layout],
        elements: &dyn Fn([u32; 2]) -> u32,
    ) -> Option<SmemRowsConfig> {
        let AttentionPath::Smem(bytes) = how else { return None };
        if widths.iter().any(|&n| n > MAX_SMEM_ROW_ELEMENTS) {
            return None;
        }
        let scalar = crate::formula::Compute::from(dtype).scalar();
        let widths = widths.map(|n| n as u32);
        let whole = block_reduce::elem(scalar) == dtype.into();
        let in_pieces = |l: &&Layout| indexing::in_pieces(l, 3, vector(scalar) as usize);
        let cp_async = whole && operands.iter().all(in_pieces);
        let needed = elements(widths.map(|n| pitch(scalar, n))) * (scalar.bits() / 8);
        (needed <= bytes).then_some(SmemRowsConfig { widths, cp_async })
    }
    /// What a kernel's name says of it.
    pub(super) fn word(self) -> String {
        let [d, e] = self.widths;
        format!("_smem_{d}_{e}{}", if self.cp_async { "_cp_async" } else { "" })
    }
    /// Columns of an invocation that are contiguous, of so many that it has.
    pub(super) fn neighbours(self, s: Scalar, columns: u32) -> u32 {
        columns.clamp(1, vector(s))
    }
    /// How many neighbours of a result are stored at once.
    pub(super) fn stores(self, s: Scalar, columns: u32) -> u32 {
        if self.cp_async { self.neighbours(s, columns) } else { 1 }
    }
    /// Ends a group of copies.
    pub(super) fn commit(self, k: &Builder) {
        if self.cp_async {
            k.cp_async_commit();
        }
    }
    /// Waits until so many groups at most are under way.
    pub(super) fn wait(self, k: &Builder, open: u8) {
        if self.cp_async {
            k.cp_async_wait(open);
        }
    }
}

/// A row of an operand, and whether it is there.
pub(super) type RowLocation<'k> = ([Val<'k>; 3], Val<'k>);

/// Some rows of an operand in shared memory.
pub(super) struct SmemRows<'k> {
    k: &'k Builder,
    place: Place,
    from: StridedOperand<'k>,
    scalar: Scalar,
    rows: u32,
    n: u32,
    cp_async: bool,
}

impl<'k> SmemRows<'k> {
    /// Room for so many rows. `side` says which width they have.
    pub fn new(
        k: &'k Builder,
        name: &str,
        config: SmemRowsConfig,
        scalar: Scalar,
        (from, rows, side): (StridedOperand<'k>, u32, usize),
    ) -> Self {
        let n = config.widths[side];
        let place = k.shared(name, block_reduce::elem(scalar), rows * pitch(scalar, n));
        SmemRows { k, place, from, scalar, rows, n, cp_async: config.cp_async }
    }
    fn pitch(&self) -> i64 {
        i64::from(pitch(self.scalar, self.n))
    }
    /// Stores what stands behind the numbers of rows. It stays there.
    pub fn pad(&self, local: &ThreadCoord<'k>, v: f64) {
        let (k, more) = (self.k, filled(self.n) - self.n);
        if more == 0 {
            return;
        }
        let padding = k.float(self.scalar, v);
        for (row, term, has) in rounds(local.index, local.invocations(), [self.rows, more], true, 1) {
            let put = || k.store(self.place, row * self.pitch() + (term + i64::from(self.n)), padding);
            match has {
                Some(has) => k.if_(has, put),
                None => put(),
            }
        }
    }
    /// Begins to bring the rows that `find` finds for the places 0, 1, ...; what is not there is 0.
    pub fn bring(&self, local: &ThreadCoord<'k>, find: &dyn Fn(Val<'k>) -> RowLocation<'k>) {
        let (k, elem) = (self.k, self.from.place);
        if self.n == 0 {
            return;
        }
        let width = if self.cp_async { vector(self.scalar) as u8 } else { 1 };
        for (row, term, has) in rounds(local.index, local.invocations(), [self.rows, self.n], true, width) {
            let all = || {
                let (which, there) = find(row);
                let begin = self.from.row(which);
                let term_at = term.to(begin.scalar());
                let to = row * self.pitch() + term;
                if self.cp_async {
                    return k.cp_async((self.place, to), (elem, begin + term_at), width, there);
                }
                let at = begin + term_at * self.from.strides[3];
                let load = || vec![k.load(elem, at, 1).to(self.scalar)];
                let v = k.if_else(there, load, || vec![k.float(self.scalar, 0.0)]);
                k.store(self.place, to, v[0]);
            };
            match has {
                Some(has) => k.if_(has, all),
                None => all(),
            }
        }
    }
    /// The products of own rows with places of a block, in the order of contractions: rows are no
    /// longer than a chunk.
    pub fn products(&self, local: &ThreadCoord<'k>, others: &SmemRows<'k>) -> Vec<Val<'k>> {
        let (k, width) = (self.k, vector(self.scalar));
        let none = vec![k.int(self.scalar, 0); THREAD_TILE * THREAD_TILE];
        let (own, others_at) =
            (local.rows().map(|r| r * self.pitch()), local.places().map(|p| p * others.pitch()));
        k.for_(k.u32(0), k.u32(filled(self.n)), k.u32(K_STEP), &none, |t, sums| {
            let k_major = |h: &SmemRows<'k>, line: Val<'k>, i: u32| {
                k.load(h.place, line + t + i64::from(i), width as u8)
            };
            (0..K_STEP).step_by(width as usize).fold(sums.to_vec(), |sums, i| {
                let a = own.map(|line| k_major(self, line, i));
                let b = others_at.map(|line| k_major(others, line, i));
                let term = |sums: Vec<Val<'k>>, j: u8| {
                    fma_chains(&a.map(|v| v.extract(j)), &b.map(|v| v.extract(j)), &sums)
                };
                (0..width as u8).fold(sums, term)
            })
        })
    }
    /// sums[u, w] = fma(left[u, t], self[t, w], sums[u, w]) for the places `0..count` of a block;
    /// left in shared memory, -0 from `count` on. `columns`: where neighbours begin.
    pub fn accumulate(
        &self,
        local: &ThreadCoord<'k>,
        left: Place,
        count: Val<'k>,
        (columns, neighbours): (&[Val<'k>], u32),
        sums: &[Val<'k>],
    ) -> Vec<Val<'k>> {
        let (k, width) = (self.k, vector(self.scalar));
        let lines = local.rows().map(|r| r * SCORE_PITCH);
        // Columns beyond the last are not used.
        let last = i64::from(filled(self.n)) - i64::from(neighbours);
        let reaches = columns.len() as u32 * neighbours * super::THREADS_ACROSS > filled(self.n);
        let columns: Vec<Val> =
            columns.iter().map(|&c| if reaches { c.min(c.like(last)) } else { c }).collect();
        k.for_(k.u32(0), count, k.u32(K_STEP), sums, |t, sums| {
            (0..K_STEP).step_by(width as usize).fold(sums.to_vec(), |sums, i| {
                let a = lines.map(|line| k.load(left, line + t + i64::from(i), width as u8));
                (0..width).fold(sums, |sums, j| {
                    let row = t * self.pitch();
                    let of_row = i64::from(i + j) * self.pitch();
                    let several = columns.iter().flat_map(|&c| {
                        let v = k.load(self.place, c + row + of_row, neighbours as u8);
                        (0..neighbours as u8).map(move |e| v.extract(e))
                    });
                    fma_chains(&a.map(|v| v.extract(j as u8)), &several.collect::<Vec<_>>(), &sums)
                })
            })
        })
    }
}

/// Places of a block.
pub(super) const BLOCK: u32 = ATTENTION_BLOCK as u32;
