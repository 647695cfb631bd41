//! Implicit GEMM on tensor cores (mma.sync): the kernel of `mma.rs`. A GEMM with offset tables in
//! place of strides; terms are staged by 16-byte cp.async in a multistage pipeline.

use super::offset_table::{OffsetTable, StagingJob, TableSource, TableSpan};
use super::problem::{self, ConvArgs, OutputColumn};
use crate::formula::Formula;
use crate::gemm::epilogue::{EpiloguePiece, EpilogueTarget, FragmentPlaces};
use crate::gemm::fragments::Fragments;
use crate::gemm::mma_sync::MmaTile;
use crate::gemm::multistage_cp_async::CpAsyncPipeline;
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Builtin, Constant, Kernel, MmaShape, Scalar};

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ConvMmaConfig {
    /// As of other convolutions.
    pub base: problem::ConvConfig,
    pub tile: MmaTile,
    /// What tables know at a time.
    pub span: TableSpan,
}

/// As many terms go through units in all tiles: zeros behind the last one, which make a sum of -0
/// another.
pub(super) fn whole_terms(unit: MmaShape) -> usize {
    2 * usize::from(unit.shape[2])
}

/// The kernel of a form.
pub(super) fn build(epilogue: &dyn Formula, config: &ConvMmaConfig) -> Kernel {
    let (t, base) = (config.tile, &config.base);
    let staged = base.staged.as_ref().expect("terms are staged");
    let [m, n, terms] = t.unit.shape;
    let name = format!("{}_mma_{m}x{n}x{terms}_{}", base.name(epilogue), t.lanes);
    let k = Builder::new(&name, [t.invocations(), 1, 1]);
    k.subgroup(t.lanes);
    let (h, length) = ConvArgs::read_with(&k, base, base.split_k.then_some("length"));
    let index = k.builtin(Builtin::LocalIndex);
    let corner = [0, 1].map(|side| h.tile[side] * i64::from(t.size(side)));
    let all = h.terms.count();
    let fragments = Fragments::new(&k, t, base.dtype.into(), staged.k_major);
    let table = OffsetTable::new(&k, &h, base, staged, config.span);

    let bring = StagingJob {
        index,
        invocations: t.invocations(),
        size: [0, 1].map(|side| t.size(side)),
        depth: t.depth,
        corner,
        padding: [Constant::float(Scalar::F32, 0.0); 2],
    };
    let stages = table.stages(staged, &bring);
    let begin = length.map_or(all.like(0), |length| h.outer_number * length);
    let end = length.map_or(all, |length| (begin + length).min(all));
    let most = whole_terms(t.unit) as i64;
    let pipeline = CpAsyncPipeline {
        stages,
        to: fragments.places,
        pitch: [0, 1].map(|side| fragments.pitch(side)),
        slots: t.slots,
        end,
        padded_end: begin + (end - begin + (most - 1)) / most * most,
    };
    let fill = |start| table.fill(start, [index, all], t.invocations());
    let sums = sums(&k, config.span, &fragments, &pipeline, begin, &fill);
    let target = ConvEpilogue { k: &k, h: &h, epilogue };
    t.epilogue_staging().store(&k, &target, (corner, fragments.firsts()), staged.stores, &sums);
    k.finish()
}

/// The sums of a subgroup: fragments, row by row. `fill` makes the tables of a window.
fn sums<'k>(
    k: &'k Builder,
    span: TableSpan,
    fragments: &Fragments<'k>,
    pipeline: &CpAsyncPipeline<'k, TableSource<'k, '_>>,
    begin: Val<'k>,
    fill: &dyn Fn(Val<'k>),
) -> Vec<Val<'k>> {
    let (none, firsts) = (fragments.none(), fragments.firsts());
    let compute = |_: Val<'k>, bases: [Val<'k>; 2], sums: &[Val<'k>]| fragments.step(bases, firsts, sums);
    fill(begin);
    k.barrier();
    pipeline.open(begin);
    let window = begin.like(i64::from(span.window));
    if span.windows == 1 {
        return pipeline.steps([begin, pipeline.padded_end], k.u32(0), &none, &compute).1;
    }
    let carried = [&[k.u32(0)][..], &none].concat();
    let done = k.for_(begin, pipeline.padded_end, window, &carried, |start, carried| {
        let next = start + window;
        // Its terms are begun a few steps before this window's end; since those of the window
        // before this one were, all have met.
        k.if_(next.lt(pipeline.padded_end), || fill(next));
        let (slot, sums) =
            pipeline.steps([start, next.min(pipeline.padded_end)], carried[0], &carried[1..], &compute);
        [&[slot][..], &sums].concat()
    });
    done[1..].to_vec()
}

/// The result of a convolution.
struct ConvEpilogue<'k, 'f> {
    k: &'k Builder,
    h: &'f ConvArgs<'k>,
    epilogue: &'f dyn Formula,
}

impl<'k> EpilogueTarget<'k> for ConvEpilogue<'k, '_> {
    type Columns = Vec<OutputColumn<'k>>;
    const COLUMNS_ONCE: bool = true;
    fn columns(&self, places: &FragmentPlaces<'k>, across: Val<'k>, width: u8) -> Vec<OutputColumn<'k>> {
        let first = places.of(1, across);
        (0..width).map(|v| self.h.column(first + i64::from(v))).collect()
    }
    fn store(&self, piece: &EpiloguePiece<'k, '_>, columns: &Vec<OutputColumn<'k>>) {
        let store = || {
            let v = (piece.load)();
            self.h.store(self.k, self.epilogue, piece.places.of(0, piece.down), columns, &[v]);
        };
        match piece.has {
            Some(has) => self.k.if_(has, store),
            None => store(),
        }
    }
}
