//! Implicit GEMM in shared memory: convolution with the tiles and the order of `gemm`, and offset
//! tables (`offset_table.rs`) in place of strides.

use super::offset_table::{OffsetTable, StagingJob, TableSpan};
use super::problem::{ConvArgs, ConvConfig, OutputColumn};
use crate::formula::Formula;
use crate::gemm::thread_tile::{ChunkLoop, ThreadTile};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Builtin, Kernel};

/// The kernel of a form whose terms are staged.
pub fn build(epilogue: &dyn Formula, config: &ConvConfig) -> Kernel {
    let tile = config.tile;
    let staged = config.staged.as_ref().expect("a form of this kernel says how terms are staged");
    let k = Builder::new(&config.name(epilogue), [tile.invocations(), 1, 1]);
    let h = ConvArgs::read(&k, config);
    let index = k.builtin(Builtin::LocalIndex);
    let corner = [0, 1].map(|side| h.tile[side] * i64::from(tile.size(side)));
    let terms = h.terms.count();
    let micro = ThreadTile { k: &k, dtype: config.dtype, tile, k_major: staged.k_major, index };
    let none = micro.none();
    let to = micro.shared();
    let with_cp_async = tile.slots > 0;
    let span = TableSpan::chunks(if with_cp_async && config.multi_chunk { 2 } else { 1 });
    let table = OffsetTable::new(&k, &h, config, staged, span);

    let bring = StagingJob {
        index,
        invocations: tile.invocations(),
        size: [0, 1].map(|side| tile.size(side)),
        depth: tile.depth,
        corner,
        padding: [0, 1].map(|side| micro.padding(side)),
    };
    let stages = table.stages(staged, &bring);
    let fill = |start: Val| table.fill(start, [index, terms], tile.invocations());
    let fill: &dyn Fn(Val<'_>) = &|start| fill(start);
    let chunks = ChunkLoop {
        terms,
        multi_chunk: config.multi_chunk,
        of: config.split_k.then_some(h.outer_number),
        before: Some(fill),
    };
    let sums = if with_cp_async {
        micro.multistage(stages, to, &chunks, &none)
    } else {
        micro.staged(&stages, to, &chunks, &none)
    };

    let rows = micro.places(0, corner[0]);
    let columns: Vec<OutputColumn> = micro.places(1, corner[1]).into_iter().map(|c| h.column(c)).collect();
    for (u, &r) in rows.iter().enumerate() {
        for (v, some) in columns.chunks(usize::from(staged.stores)).enumerate() {
            let first = u * columns.len() + v * usize::from(staged.stores);
            h.store(&k, epilogue, r, some, &sums[first..][..some.len()]);
        }
    }
    k.finish()
}
