//! Thread tile (register tile) of SIMT GEMM: an invocation's chains of fma, a few rows by a few
//! columns, from shared memory.

use super::SimtTile;
use super::multistage_cp_async::{self, CpAsyncPipeline};
use super::smem_load::{self, TileLoader, TileSource};
use crate::formula::Compute;
use crate::reduce::block_reduce::elem;
use elinvar_core::{DType, order};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Constant, Place, Scalar};

/// Sums of an invocation of the larger tiles, at least.
const LARGE_TILE_ACCUMULATORS: usize = 32;

/// What is known of an invocation's rows and columns while a kernel is built.
#[derive(Clone, Copy)]
pub(crate) struct ThreadTile<'k> {
    pub k: &'k Builder,
    /// The dtype of both factors.
    pub dtype: DType,
    pub tile: SimtTile,
    /// Do neighbouring terms are contiguous, by side?
    pub k_major: [bool; 2],
    /// Which invocation.
    pub index: Val<'k>,
}

/// Which terms chains go through.
pub(crate) struct ChunkLoop<'k, 'f> {
    /// How many terms there are.
    pub terms: Val<'k>,
    /// May there be several chunks?
    pub multi_chunk: bool,
    /// This chunk alone.
    pub of: Option<Val<'k>>,
    /// What is stored in shared memory before the terms of the chunk that begins with a term are
    /// brought. It stays until the next chunk has gone by whose number is as even or odd.
    pub before: Option<&'f dyn Fn(Val<'k>)>,
}

impl<'k> ThreadTile<'k> {
    /// The type of sums. bool is 0 or 1 in a u32.
    pub fn scalar(&self) -> Scalar {
        match Compute::from(self.dtype) {
            Compute::Bool => Scalar::U32,
            c @ (Compute::F32 | Compute::F64 | Compute::I64 | Compute::I32 | Compute::U8) => c.scalar(),
        }
    }
    /// sum + a * b: floats round once, integers wrap, bool is or and and.
    fn chain(&self, a: Val<'k>, b: Val<'k>, sum: Val<'k>) -> Val<'k> {
        match Compute::from(self.dtype) {
            Compute::F32 | Compute::F64 => a.fma(b, sum),
            Compute::I64 | Compute::I32 | Compute::U8 => sum + a * b,
            Compute::Bool => sum | (a & b),
        }
    }
    fn plus(&self, a: Val<'k>, b: Val<'k>) -> Val<'k> {
        match Compute::from(self.dtype) {
            Compute::F32 | Compute::F64 | Compute::I64 | Compute::I32 | Compute::U8 => a + b,
            Compute::Bool => a | b,
        }
    }
    /// What stands for terms beyond the last: of floats, -0 times +0.
    pub fn padding(&self, side: usize) -> Constant {
        let s = self.scalar();
        if side == 0 && s.is_float() { Constant::float(s, -0.0) } else { Constant::int(s, 0) }
    }
    /// Sums of no terms.
    pub fn none(&self) -> Vec<Val<'k>> {
        let zero = self.k.constant(Constant::int(self.scalar(), 0));
        vec![zero; (self.tile.each[0] * self.tile.each[1]) as usize]
    }
    /// Shared memory for both sides.
    ///
    /// With the totals of chunks, an invocation of the largest tiles has 128 sums, and a
    /// multiprocessor of NVIDIA's room for one workgroup, which issues two instructions in three
    /// cycles. Half of the registers hold all that an inner loop reads: the totals wait in memory
    /// for a chunk's end.
    pub fn shared(&self) -> [Place; 2] {
        let smem_elements = elem(self.scalar());
        if self.scalar() == Scalar::F32 && self.none().len() >= LARGE_TILE_ACCUMULATORS {
            self.k.min_blocks_per_sm(2);
        }
        [(0, "rows"), (1, "columns")]
            .map(|(side, name)| self.k.shared(name, smem_elements, self.smem_elements(side)))
    }
    fn smem_elements(&self, side: usize) -> u32 {
        let SimtTile { depth, slots, .. } = self.tile;
        if slots == 0 {
            return self.tile.pitch(side) * depth;
        }
        slots
            * multistage_cp_async::slot_elements(
                self.k_major[side],
                self.tile.size(side),
                depth,
                self.cp_async_pitch(side),
            )
    }
    /// From line to line of what copies bring. Lines of terms an odd number of 16 bytes apart are
    /// in different banks; lines of rows or columns are read by neighbours in one go.
    fn cp_async_pitch(&self, side: usize) -> u32 {
        let SimtTile { depth, .. } = self.tile;
        if self.k_major[side] { depth + self.piece() } else { self.tile.size(side) }
    }
    /// Elements of 16 bytes.
    fn piece(&self) -> u32 {
        multistage_cp_async::COPY_BYTES / self.dtype.size() as u32
    }
    fn local(&self, side: usize) -> Val<'k> {
        self.tile.local(self.index)[side]
    }

    /// The rows (side 0) or columns (side 1) of an invocation: neighbours of a workgroup have
    /// neighbours, or pieces of some.
    pub fn places(&self, side: usize, corner: Val<'k>) -> Vec<Val<'k>> {
        let SimtTile { group, each, .. } = self.tile;
        let p = self.tile.neighbours(side, self.k_major[side]);
        let first = corner + self.local(side).to(corner.scalar()) * i64::from(p);
        (0..each[side]).map(|u| first + i64::from(u / p * p * group[side] + u % p)).collect()
    }

    /// The sums over chunks, of which `chunk` makes those of the terms from one to another.
    pub fn chunks(
        &self,
        all: &ChunkLoop<'k, '_>,
        none: &[Val<'k>],
        chunk: &dyn Fn(Val<'k>, Val<'k>) -> Vec<Val<'k>>,
    ) -> Vec<Val<'k>> {
        let (k, length, terms) = (self.k, order::CHUNK as i64, all.terms);
        let begin = terms.like(0);
        if let Some(of) = all.of {
            let start = of * length;
            return chunk(start, (start + length).min(terms));
        }
        if !all.multi_chunk {
            return chunk(begin, terms);
        }
        k.for_(begin, terms, terms.like(length), none, |start, totals| {
            let sums = chunk(start, (start + length).min(terms));
            self.join(start, totals, &sums)
        })
    }

    /// The totals after the chunk that begins with a term.
    fn join(&self, start: Val<'k>, totals: &[Val<'k>], sums: &[Val<'k>]) -> Vec<Val<'k>> {
        let is_first = start.eq(start.like(0));
        let join = |(&total, &sum): (&Val<'k>, &Val<'k>)| is_first.select(sum, self.plus(total, sum));
        totals.iter().zip(sums).map(join).collect()
    }

    /// One more term for every sum.
    pub fn fma_chains(&self, a: &[Val<'k>], b: &[Val<'k>], sums: &[Val<'k>]) -> Vec<Val<'k>> {
        let each = |(i, &sum): (usize, &Val<'k>)| self.chain(a[i / b.len()], b[i % b.len()], sum);
        sums.iter().enumerate().map(each).collect()
    }

    /// All terms, brought into shared memory by copies.
    pub fn multistage<S: TileSource<'k>>(
        &self,
        stages: [TileLoader<'k, S>; 2],
        to: [Place; 2],
        all: &ChunkLoop<'k, '_>,
        none: &[Val<'k>],
    ) -> Vec<Val<'k>> {
        let (k, length, terms) = (self.k, order::CHUNK as i64, all.terms);
        let begin = all.of.map_or(terms.like(0), |of| of * length);
        let end = all.of.map_or(terms, |_| (begin + length).min(terms));
        let pitch = [0, 1].map(|side| self.cp_async_pitch(side));
        let pipeline = CpAsyncPipeline { stages, to, pitch, slots: self.tile.slots, end, padded_end: end };
        let compute = |_: Val<'k>, bases: [Val<'k>; 2], sums: &[Val<'k>]| {
            let width = self.piece();
            (0..self.tile.depth).step_by(width as usize).fold(sums.to_vec(), |sums, t| {
                let [a, b] = [0, 1].map(|side| self.arrived(side, to[side], bases[side], t, width as u8));
                a.iter().zip(&b).fold(sums, |sums, (a, b)| self.fma_chains(a, b, &sums))
            })
        };
        if let Some(before) = all.before {
            before(begin);
            k.barrier();
        }
        pipeline.open(begin);
        let slot = k.u32(0);
        if !all.multi_chunk || all.of.is_some() {
            return pipeline.steps([begin, end], slot, none, &compute).1;
        }
        let carried = [&[slot][..], none].concat();
        let done = k.for_(begin, end, end.like(length), &carried, |start, carried| {
            let (slot, totals) = (carried[0], &carried[1..]);
            let next = start + length;
            if let Some(before) = all.before {
                // Its terms are begun a few steps before this chunk's end; since those of the chunk
                // before this one were, all have met.
                k.if_(next.lt(end), || before(next));
            }
            let (slot, sums) = pipeline.steps([start, next.min(end)], slot, none, &compute);
            [&[slot][..], &self.join(start, totals, &sums)[..]].concat()
        });
        done[1..].to_vec()
    }

    /// `width` terms from `t` on of what copies have brought of an invocation's rows or columns.
    fn arrived(&self, side: usize, from: Place, base: Val<'k>, t: u32, width: u8) -> Vec<Vec<Val<'k>>> {
        let (k, tile) = (self.k, self.tile);
        let (across, pitch) = (tile.group[side], self.cp_async_pitch(side));
        let p = tile.neighbours(side, self.k_major[side]);
        let local = self.local(side);
        if self.k_major[side] {
            let first = base + local * i64::from(pitch) + i64::from(t);
            let lines: Vec<Val> = (0..tile.each[side])
                .map(|u| k.load(from, first + i64::from(u * across * pitch), width))
                .collect();
            return (0..width).map(|i| lines.iter().map(|v| v.extract(i)).collect()).collect();
        }
        let first = base + local * i64::from(p);
        let term = |t: u32| {
            let several = (0..tile.each[side] / p).flat_map(|piece| {
                let v = k.load(from, first + i64::from(t * pitch + piece * across * p), p as u8);
                (0..p).map(move |i| v.extract(i as u8))
            });
            several.collect()
        };
        (t..t + u32::from(width)).map(term).collect()
    }

    /// All terms, brought into shared memory through registers, `depth` at a time.
    pub fn staged<S: TileSource<'k>>(
        &self,
        stages: &[TileLoader<'k, S>; 2],
        to: [Place; 2],
        all: &ChunkLoop<'k, '_>,
        none: &[Val<'k>],
    ) -> Vec<Val<'k>> {
        let k = self.k;
        // The rows or columns of a term side by side.
        let bring = |side: usize, loaded: &[Val<'k>]| {
            let (pitch, width) = (i64::from(self.tile.pitch(side)), stages[side].width);
            stages[side].store(loaded, &|place, term, v| {
                if !self.k_major[side] {
                    return k.store(to[side], term * pitch + place, v);
                }
                for i in 0..width {
                    let one = if width == 1 { v } else { v.extract(i) };
                    k.store(to[side], (term + i64::from(i)) * pitch + place, one);
                }
            });
        };
        self.chunks(all, none, &|start, end| {
            if let Some(before) = all.before {
                before(start);
                k.barrier();
            }
            smem_load::steps(stages, [start, end], end, none, &bring, &|sums| {
                (0..self.tile.depth).fold(sums.to_vec(), |sums, t| {
                    let [a, b] = [0, 1].map(|side| self.terms_of(side, to[side], t));
                    self.fma_chains(&a, &b, &sums)
                })
            })
        })
    }

    /// Term `t` of an invocation's rows or columns.
    fn terms_of(&self, side: usize, from: Place, t: u32) -> Vec<Val<'k>> {
        let tile = self.tile;
        let (p, across) = (tile.neighbours(side, self.k_major[side]), tile.group[side]);
        let local = self.local(side) * i64::from(p) + i64::from(t * tile.pitch(side));
        let several = (0..tile.each[side] / p).flat_map(|piece| {
            let v = self.k.load(from, local + i64::from(piece * across * p), p as u8);
            (0..p).map(move |i| if p == 1 { v } else { v.extract(i as u8) })
        });
        several.collect()
    }
}
