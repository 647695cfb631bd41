//! Products in any order of sums: `Precision::Fast`, on devices with matrix units.
//!
//! Where a device fetches boxes of tensors and multiplies them in shared memory, and the operands lie so that it can, that is how it
//! is done; else by fragments. Which it is does not depend on how many rows there are, so that a row has the bits that it has alone.
//! With tuning on (`tune`), all ways that there are are tried for a product of some size, and the fastest is taken: other tiles,
//! the other kernel, the library of the device's vendor.

use crate::backend::{Look, looks, one};
use crate::buffer::GpuBuffer;
use crate::device::GpuDevice;
use crate::tune::{Case, Who};
use crate::vendor;
use elinvar_core::{DType, Result};
use elinvar_driver::{Driver, Info};
use elinvar_kernel::ir::{Elem, MatrixUnit};
use elinvar_kernel::library::matrix_units::Limits;
use elinvar_kernel::library::{Formula, boxes, matrix_units};
use std::time::Duration;

/// A product that may be fast.
pub(crate) struct Fast<'a, D: Driver> {
    d: &'a GpuDevice<D>,
    epilogue: &'a dyn Formula,
    /// May a vendor's library do it: is there nothing but the product?
    plain: bool,
    /// x, w, and further operands of the epilogue.
    operands: &'a [Look<'a, D>],
    /// How fragments take it.
    units: matrix_units::Tile,
    /// How boxes take it, if they can; the first is for its size.
    boxes: Vec<boxes::Tile>,
}

/// What a device's matrix units multiply of such numbers; `None` if they do not know them. Of several shapes the largest: most
/// products for what is read.
pub(crate) fn unit_of(i: &Info, dtype: DType) -> Option<MatrixUnit> {
    let units = i.units.iter().filter(|u| u.elem == Elem::from(dtype));
    units.max_by_key(|u| u.shape.map(u32::from).iter().product::<u32>()).copied()
}

/// What a device has for a workgroup.
pub(crate) fn limits(i: &Info) -> Limits {
    Limits { invocations: i.invocations, shared: i.shared, asynchronous: i.asynchronous }
}

/// How a device's matrix units take a product of so many sums; `None` if they do not know such numbers.
fn unit_tile(i: &Info, dtype: DType, batches: usize, sums: [usize; 2]) -> Option<matrix_units::Tile> {
    matrix_units::Tile::of(unit_of(i, dtype)?, i.subgroup[1], batches, sums, limits(i))
}

impl<'a, D: Driver> Fast<'a, D> {
    /// A product of x and w, which are the first operands; `None` if the device has nothing that is fast for it.
    ///
    /// # Errors
    /// Why the device could not be opened.
    pub(crate) fn new(
        d: &'a GpuDevice<D>,
        epilogue: &'a dyn Formula,
        plain: bool,
        operands: &'a [Look<'a, D>],
    ) -> Result<Option<Fast<'a, D>>> {
        let (info, [x, w, ..]) = (d.info()?, operands) else { return Ok(None) };
        let (batches, sums) = (x.shape()[0], [x.shape()[1], w.shape()[2]]);
        let Some(units) = unit_tile(info, x.dtype, batches, sums) else { return Ok(None) };
        let first = boxes::Tile::of(batches, sums, info.shared).filter(|_| info.boxes);
        let first = first.filter(|_| boxes::fits(x.dtype, x.layout, w.layout, &looks(&operands[2..])));
        let boxes = first.map(|first| {
            let others =
                boxes::Tile::ALL.into_iter().filter(|t| *t != first && t.shared_bytes() <= info.shared);
            std::iter::once(first).chain(others).collect()
        });
        Ok(Some(Fast { d, epilogue, plain, operands, units, boxes: boxes.unwrap_or_default() }))
    }

    /// The result, by whoever is known to be the fastest.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub(crate) fn run(&self) -> Result<GpuBuffer<D>> {
        let [x, w] = self.factors();
        let mut ways = vec![Who::Ours];
        ways.extend(self.boxes.iter().skip(1).map(|&t| Who::Boxes(t)));
        if !self.boxes.is_empty() {
            ways.push(Who::Fragments);
        }
        if self.plain && vendor::product(x.dtype, x.layout, w.layout).is_some() {
            ways.push(Who::Vendor);
        }
        let time = |who: Who| -> Result<Option<Duration>> {
            self.d.unrecorded(|| match self.by(who)? {
                None => Ok(None),
                Some(_) => self.d.time(|| self.by(who).map(drop)).map(Some),
            })
        };
        let case = Case::of(x.dtype, x.layout, w.layout);
        let who = self.d.tuner()?.who(case, &ways, &time)?;
        // Of one case, some products can be done in a way and others not: those whose elements lie far apart, say.
        match self.by(who)? {
            Some(y) => Ok(y),
            None => self.ours(),
        }
    }
    fn factors(&self) -> [Look<'a, D>; 2] {
        [self.operands[0], self.operands[1]]
    }
    /// The result in some way; `None`, and nothing was done, if it cannot be done so.
    fn by(&self, who: Who) -> Result<Option<GpuBuffer<D>>> {
        match who {
            Who::Ours => self.ours().map(Some),
            Who::Boxes(tile) if self.boxes.contains(&tile) => self.by_boxes(tile).map(Some),
            Who::Boxes(_) => Ok(None),
            Who::Fragments => self.by_fragments().map(Some),
            Who::Vendor if !self.plain => Ok(None),
            Who::Vendor => vendor::multiply(self.d, self.factors()),
        }
    }
    fn ours(&self) -> Result<GpuBuffer<D>> {
        match self.boxes.first() {
            Some(&tile) => self.by_boxes(tile),
            None => self.by_fragments(),
        }
    }
    fn by_boxes(&self, tile: boxes::Tile) -> Result<GpuBuffer<D>> {
        let [x, w] = self.factors();
        let extra = looks(&self.operands[2..]);
        let work = boxes::contract(self.epilogue, x.dtype, x.layout, w.layout, &extra, tile);
        one(self.d, work, self.operands, x.dtype, self.len())
    }
    fn by_fragments(&self) -> Result<GpuBuffer<D>> {
        let [x, w] = self.factors();
        let extra = looks(&self.operands[2..]);
        let work = matrix_units::contract(self.epilogue, x.dtype, x.layout, w.layout, &extra, self.units);
        one(self.d, work, self.operands, x.dtype, self.len())
    }
    fn len(&self) -> usize {
        let [x, w] = self.factors();
        x.shape()[0] * x.shape()[1] * w.shape()[2]
    }
}
