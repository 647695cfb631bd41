//! Gradient by w of depthwise convolution and of other groups with few rows.
//!
//! A group's result has few elements, each a chain over all positions of all images. A workgroup
//! has a chunk of the terms (split-K) and several groups, whose terms have the same addresses:
//! these are computed once (`offset_table.rs`). It stages some terms of each row, and under each
//! column, in shared memory with coalesced loads, and an invocation has the chains of one column,
//! one for each row. With a workgroup per group, nine columns would occupy nine of its invocations,
//! each waiting for every term.

use super::offset_table::{OffsetTable, TableSource, TableSpan};
use super::plan::thresholds::MIN_ROWS;
use super::problem::{ConvArgs, ConvConfig, ConvPass, StagingConfig};
use super::{ImplicitGemm, PLAIN, WorkgroupLimits, product};
use crate::formula::Formula;
use crate::gemm::plan::split_k::can_split_k;
use crate::gemm::smem_load::{self, TileLoader};
use crate::gemm::split_k_reduce;
use crate::gemm::thread_tile::ThreadTile;
use crate::gemm::{SimtTile, multistage_cp_async};
use crate::launch::{Key, Work, args, grid};
use crate::layout::indexing;
use crate::reduce::block_reduce;
use elinvar_core::order;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Builtin, Elem, Kernel, Scalar};

/// Invocations of a workgroup, at most, and so columns.
const MAX_BLOCK_THREADS: u32 = 256;
/// Terms of a step: with 252 columns an invocation has 16 loads under way, 48 KiB in three
/// workgroups, which is more than a multiprocessor of NVIDIA's needs to be kept busy.
const K_STEP: u32 = 16;
/// Bytes of shared memory for terms: with tables of all sizes it stays below the 32 KiB that every
/// device has.
const MAX_TERM_BYTES: u32 = 22400;

/// How many groups a workgroup has, and how many columns of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupTiling {
    groups: u32,
    columns: u32,
}

impl ImplicitGemm {
    /// How a gradient by w of few rows is cut; `None` if it is none, or a device has no room for
    /// it.
    pub(super) fn depthwise_grad_weight_tiling(&self, limits: WorkgroupLimits) -> Option<GroupTiling> {
        let columns = product(&self.columns);
        if self.of != ConvPass::GradWeight
            || self.rows >= MIN_ROWS
            || self.void
            || self.wide
            || self.len == 0
            || indexing::are_many(self.len)
            || !self.can_split_k()
        {
            return None;
        }
        let words = self.words()?;
        let line = (K_STEP * self.term_bytes() + multistage_cp_async::COPY_BYTES) as usize;
        // One group, and as many columns as fit; then as many groups as fit.
        let lines = MAX_TERM_BYTES as usize / line;
        let across = columns.min(MAX_BLOCK_THREADS as usize).min(lines - self.rows);
        let groups =
            (MAX_BLOCK_THREADS as usize / across).min(lines / (self.rows + across)).clamp(1, self.groups);
        let cut = GroupTiling { groups: groups as u32, columns: across as u32 };
        let shared = MAX_TERM_BYTES
            + 4 * (TableSpan::chunks(1).elements(words, false) + MAX_BLOCK_THREADS * (1 + u32::from(words)));
        (cut.invocations() <= limits.invocations && shared <= limits.shared).then_some(cut)
    }
    /// Chunks have workgroups of their own, and their sums places: is there room?
    fn can_split_k(&self) -> bool {
        self.chunks() <= 1 || can_split_k(self.chunks(), self.len)
    }
    /// Bytes of a term in shared memory.
    fn term_bytes(&self) -> u32 {
        split_k_reduce::elem(self.dtype).size()
    }
    /// Workgroups, of a chunk.
    fn groups_of(&self, cut: GroupTiling) -> [usize; 2] {
        [self.groups.div_ceil(cut.groups as usize), product(&self.columns).div_ceil(cut.columns as usize)]
    }

    /// The launch: left, right, result; or with `split_k` the sums of so many chunks.
    pub(super) fn depthwise_grad_weight_launch(
        &self,
        cut: GroupTiling,
        split_k: Option<usize>,
    ) -> Work<'static> {
        let staged = StagingConfig {
            k_major: [true; 2],
            width: [1; 2],
            matrix: false,
            words: self.words().expect("who has a cut has words"),
            whole: false,
            stores: 1,
        };
        let config = ConvConfig {
            of: self.of,
            channels_last: false,
            dtype: self.dtype,
            extra: Vec::new(),
            tile: SimtTile {
                group: [cut.groups, cut.columns],
                each: [self.rows as u32, 1],
                depth: K_STEP,
                slots: 0,
            },
            rank: self.windows.len(),
            padded: self.padded,
            masked: false,
            void: false,
            multi_chunk: false,
            split_k: split_k.is_some(),
            staged: Some(staged),
            wide: false,
        };
        // Which groups a workgroup has is a matter of tiles.
        let plan = ImplicitGemm { groups: 1, ..self.clone() };
        let (mut all, groups) = plan.args(&config, split_k.unwrap_or(1), self.groups_of(cut), &[]);
        all.push(self.groups as i64);
        let key = PLAIN.key(Key::of("conv_depthwise_grad_weight").with(&config));
        args::work(key, move || build(&config), grid(groups as u64), indexing::scalar(false), &all)
    }
}

impl GroupTiling {
    /// Invocations of a workgroup, in subgroups of 32.
    fn invocations(self) -> u32 {
        (self.groups * self.columns).next_multiple_of(32)
    }
}

/// The kernel of a form: left, right, result.
fn build(config: &ConvConfig) -> Kernel {
    let SimtTile { group: [groups, across], each: [rows, _], depth, .. } = config.tile;
    let cut = GroupTiling { groups, columns: across };
    let staged = config.staged.as_ref().expect("a form of this kernel says how terms are staged");
    let k = Builder::new(&format!("depthwise_{}", config.name(&PLAIN)), [cut.invocations(), 1, 1]);
    // In 80 registers, where 110 would be used: with two workgroups on a multiprocessor the last
    // few of a large layer's would wait for others to end.
    k.min_blocks_per_sm(3);
    let (mut h, all_groups) = ConvArgs::read_with(&k, config, Some("all_groups"));
    let all_groups = all_groups.expect("it was asked for");
    let index = k.builtin(Builtin::LocalIndex);
    let (number, terms) = (h.number, h.terms.count());
    let micro = ThreadTile {
        k: &k,
        dtype: config.dtype,
        tile: SimtTile { group: [1, 1], ..config.tile },
        k_major: staged.k_major,
        index: k.u32(0),
    };

    // The group and the column of the invocation. Groups beyond the last are the last one, and not
    // stored.
    let lines = [groups * rows, groups * across];
    let own = index.min(k.u32(lines[1] - 1));
    let first_group = h.tile[0] * i64::from(groups);
    let [in_groups, in_columns] = [own / i64::from(across), own % i64::from(across)];
    let asked = first_group + in_groups.to(number);
    h.group = asked.min(all_groups - 1);
    let mine = h.column(h.tile[1] * i64::from(across) + in_columns.to(number));
    let is_there = asked.lt(all_groups) & index.lt(k.u32(lines[1]));

    let table = OffsetTable::new(&k, &h, config, staged, TableSpan::chunks(1));
    // Who brings terms of a column finds it here: each has found out one.
    let width = 1 + staged.words;
    let known = k.shared("columns_known", Elem::I32, lines[1] * u32::from(width));
    let mut entry = vec![mine.base];
    entry.extend(table.column(&mine).iter().map(|w| w.bitcast(Scalar::I32)));
    k.if_(index.lt(k.u32(lines[1])), || {
        entry.iter().enumerate().for_each(|(i, &v)| {
            k.store(known, own * i64::from(width) + i as i64, v.to(Scalar::I32));
        });
    });
    k.barrier();

    let smem_elem = block_reduce::elem(micro.scalar());
    let piece = multistage_cp_async::COPY_BYTES / smem_elem.size();
    let pitch = i64::from(depth + piece);
    let to = [(0, "rows"), (1, "columns")]
        .map(|(side, name): (usize, _)| k.shared(name, smem_elem, lines[side] * pitch as u32));
    let invocations = cut.invocations();
    let places = |side: usize| -> Vec<Val> {
        let all = smem_load::rounds(index, invocations, [lines[side], depth], true, 1);
        all.into_iter().map(|(place, ..)| place.min(k.u32(lines[side] - 1))).collect()
    };
    let left = places(0).into_iter().map(|line| {
        let group = (first_group + (line / i64::from(rows)).to(number)).min(all_groups - 1);
        h.left.first + group * h.left.group + (line % i64::from(rows)).to(number) * h.left.one
    });
    let left = TableSource::Left(&table, left.collect(), true);
    let right = places(1).into_iter().map(|line| {
        let at = line * i64::from(width);
        let words = (1..i64::from(width)).map(|w| k.load(known, at + w, 1).bitcast(Scalar::U32));
        (k.load(known, at, 1).to(number), words.collect())
    });
    let right = TableSource::Right(&table, right.collect());
    let stage = |side: usize, from| TileLoader {
        k: &k,
        side,
        index,
        invocations,
        size: lines[side],
        depth,
        k_major: true,
        width: 1,
        from,
        // The invocations that stage the lines need no barrier for them.
        corner: terms.like(0),
        limit: terms,
        padding: micro.padding(side),
    };
    let stages = [stage(0, left), stage(1, right)];
    let bring = |side: usize, loaded: &[Val<'_>]| {
        stages[side].store(loaded, &|place, term, v| k.store(to[side], place * pitch + term, v));
    };
    let [row_lines, line] = [in_groups * (i64::from(rows) * pitch), own * pitch];
    let begin = if config.split_k { h.outer_number * order::CHUNK as i64 } else { terms.like(0) };
    let end = (begin + order::CHUNK as i64).min(terms);
    table.fill(begin, [index, terms], invocations);
    k.barrier();
    let sums = smem_load::steps(&stages, [begin, end], end, &micro.none(), &bring, &|sums| {
        (0..depth).step_by(piece as usize).fold(sums.to_vec(), |sums, t| {
            let b = k.load(to[1], line + i64::from(t), piece as u8);
            let a: Vec<Val> = (0..i64::from(rows))
                .map(|r| k.load(to[0], row_lines + (r * pitch + i64::from(t)), piece as u8))
                .collect();
            (0..piece as u8).fold(sums, |sums, i| {
                let a: Vec<Val> = a.iter().map(|a| a.extract(i)).collect();
                micro.fma_chains(&a, &[b.extract(i)], &sums)
            })
        })
    });
    for (r, &sum) in sums.iter().enumerate() {
        let row = is_there.select(h.rows.like(r as i64), h.rows);
        h.store(&k, &PLAIN, row, std::slice::from_ref(&mine), &[sum]);
    }
    k.finish()
}
