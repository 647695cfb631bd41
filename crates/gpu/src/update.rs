//! Updates in place (optimiser steps): all items of an update in as few launches as the device's
//! limit on buffers allows (multi-tensor apply).

use crate::Gpu;
use crate::backend::{GpuView, parts};
use crate::buffer::GpuBuffer;
use crate::device::GpuDevice;
use elinvar_core::Result;
use elinvar_driver::Driver;
use elinvar_gpu_kernels::elementwise::update::{self, Item, ItemSignature};
use elinvar_gpu_kernels::launch::Work;
use elinvar_ops::backend::UpdateItem;
use elinvar_ops::update::UpdateObject;
use smallvec::SmallVec;

/// Items of a launch, at most: each stands in the kernel.
const MAX_ITEMS: usize = 16;

/// The items of a launch, by their places.
struct Batch {
    /// `None`: one item, in a launch of its own.
    signature: Option<ItemSignature>,
    items: Vec<usize>,
}

/// Items of the same layout together, in their order; `buffers`: of a kernel, at most.
fn batches(items: &[Item<'_>], buffers: usize) -> Vec<Batch> {
    let mut all: Vec<Batch> = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let signature = item.signature();
        // One more buffer is for numbers.
        let most = |a: &ItemSignature| MAX_ITEMS.min(buffers.saturating_sub(1) / a.buffers());
        let fits = |b: &&mut Batch| {
            b.signature == signature && b.signature.as_ref().is_some_and(|a| b.items.len() < most(a))
        };
        match all.iter_mut().find(fits) {
            Some(batch) => batch.items.push(place),
            None => all.push(Batch { signature, items: vec![place] }),
        }
    }
    all
}

/// What the library is told of an item.
fn plan<'a, D: Driver>(item: &UpdateItem<'a, Gpu<D>>) -> Item<'a> {
    Item {
        shape: item.shape.clone(),
        dtype: item.dtype,
        changes: item.changes.iter().map(|x| x.dtype).collect(),
        reads: item.reads.iter().map(|v| (v.layout, v.dtype)).collect(),
    }
}

/// Changes all items.
///
/// # Errors
/// As `Compute::update`; memory and kernels come first, so that after an error of theirs nothing
/// has changed.
pub(crate) fn update<D: Driver>(
    d: &GpuDevice<D>,
    f: &dyn UpdateObject,
    items: Vec<UpdateItem<'_, Gpu<D>>>,
) -> Result<()> {
    let plans: Vec<Item<'_>> = items.iter().map(plan).collect();
    let mut works: Vec<(Work<'_>, Vec<usize>)> = Vec::new();
    for Batch { signature, items } in batches(&plans, d.info()?.buffers as usize) {
        let each: Vec<&Item<'_>> = items.iter().map(|&i| &plans[i]).collect();
        let work = match (&signature, &each[..]) {
            (Some(signature), [_, _, ..]) => Some(update::batched(f, signature, &each)),
            _ => update::update(f, each[0]),
        };
        works.extend(work.map(|w| (w, items)));
    }
    for (work, _) in &works {
        d.prepare(work)?;
    }
    for read in items.iter().flat_map(|item| &item.reads) {
        read.buffer.part()?;
    }
    let mut owned: Vec<(Vec<&GpuBuffer<D>>, SmallVec<[GpuView<'_, D>; 6]>)> = Vec::with_capacity(items.len());
    for item in items {
        let changes = item.changes.into_iter().map(|x| x.buffer.make_unique(d)).collect::<Result<_>>()?;
        owned.push((changes, item.reads));
    }
    for (work, items) in &works {
        let mut buffers = Vec::new();
        for (changes, reads) in items.iter().map(|&i| &owned[i]) {
            for x in changes {
                buffers.push(x.part()?);
            }
            buffers.extend(parts(reads)?);
        }
        d.run(work, &buffers)?;
    }
    Ok(())
}
