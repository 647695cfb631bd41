//! Recorded work of a GPU: the trait `Capture`.

use super::GpuView;
use crate::Gpu;
use crate::capture::Graph;
use crate::range::IntRange;
use elinvar_core::Result;
use elinvar_driver::Driver;
use elinvar_ops::backend::*;
use std::sync::Arc;

impl<D: Driver> Capture for Gpu<D> {
    type Graph = Graph<D>;
    fn record(d: &Self::Device, work: &mut Recorded<'_, Self>) -> Result<Option<Graph<D>>> {
        Graph::record(d, work).map(Some)
    }
    fn input(d: &Self::Device, x: GpuView<'_, D>, before: Option<&Self::Buffer>) -> Result<Self::Buffer> {
        let new = d.unrecorded(|| Self::copy(d, x))?;
        let range = |b: &Self::Buffer| IntRange::of(x.dtype, b.node.range);
        let both = before.map_or(range(&new), |before| range(&new).or(range(before)));
        Ok(new.within(both.known(x.dtype)))
    }
    fn replay(d: &Self::Device, g: &Graph<D>, inputs: &[(GpuView<'_, D>, &Self::Buffer)]) -> Result<bool> {
        let fits = |(x, to): &(GpuView<'_, D>, &Self::Buffer)| {
            IntRange::of(x.dtype, to.node.range).holds(IntRange::of(x.dtype, x.buffer.node.range))
        };
        if !inputs.iter().all(fits) {
            return Ok(false);
        }
        for (x, to) in inputs {
            let copied;
            let from = if x.buffer.node.is_whole(x.layout) {
                x.buffer.part()?
            } else {
                copied = Self::copy(d, *x)?;
                copied.part()?
            };
            d.copy(from, to.part()?)?;
        }
        g.replay()?;
        Ok(true)
    }
    fn memory_id(_: &Self::Device, buffer: &Self::Buffer) -> Result<usize> {
        Ok(Arc::as_ptr(buffer.node.piece()?).addr())
    }
    fn make_unique(d: &Self::Device, buffer: &mut Self::Buffer) -> Result<()> {
        d.unrecorded(|| buffer.make_unique(d).map(drop))?;
        buffer.forget_values();
        Ok(())
    }
}
