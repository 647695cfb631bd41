//! The reference backend: the definition of every bit that elinvar computes.
//!
//! Plain loops over host memory, one file per kind of work, simple enough to verify by reading
//! rather than fast: no threads, no `unsafe`. Every other backend is compared with this one by
//! `==`. An error here would be an error everywhere, so it is itself compared with independent
//! results.

#![forbid(unsafe_code)]

mod attention;
mod cell;
mod compute;
mod contract;
mod conv;
mod fold;
mod index;
mod map;
mod memory;
mod pool;
mod ring;
mod rows;
mod sort;
mod update;

pub use cell::Cell;

use elinvar_core::philox::Stream;
use elinvar_core::{DType, Error, HostData, Layout, MemoryStats, Precision, Result, Scalar, Shape};
use elinvar_ops::backend::{
    ArgFold, Attention, Compute, Conv, EpilogueObject, Fused, FusedResults, Memory, Placed, Pool, Random,
    Scan, Scatter, UpdateItem,
};
use elinvar_ops::casting::Casting;
use elinvar_ops::fold::Folding;
use elinvar_ops::map::{IntMapObject, MapObject};
use elinvar_ops::random::stream_in;
use elinvar_ops::rows::RowObject;
use elinvar_ops::update::UpdateObject;
use std::fmt;

/// The reference backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

/// The one device of the reference backend: this computer's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferenceDevice;

impl fmt::Display for ReferenceDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Reference::NAME)
    }
}

type View<'a> = elinvar_ops::View<'a, Reference>;
type Device = ReferenceDevice;

impl Reference {
    /// As [`Compute::contract`], for integers and bool, which take no epilogue. For backends that
    /// compute floats themselves: a call of `contract` would link the reference's float loops into
    /// the program. `own` returns the elements of a view, row-major, by the backend's own copy.
    ///
    /// # Errors
    /// `OutOfMemory`; `DTypeMismatch` for floats, and if there is an epilogue.
    pub fn contract_integers(
        x: View<'_>,
        w: View<'_>,
        e: Option<&dyn EpilogueObject>,
        own: &dyn Fn(View<'_>) -> Result<HostData>,
    ) -> Result<HostData> {
        contract::integers(&x, &w, e, own)
    }
}

impl elinvar_ops::DeviceOf for ReferenceDevice {
    type Backend = Reference;
}

fn uncounted<T>() -> Result<T> {
    Err(Error::unsupported("reference: memory comes from the system and goes back to it, uncounted"))
}

impl Memory for Reference {
    type Device = ReferenceDevice;
    type Buffer = HostData;
    const NAME: &'static str = "reference";
    fn upload(_: &Device, data: HostData) -> Result<HostData> {
        Ok(data)
    }
    fn download(_: &Device, x: View<'_>) -> Result<HostData> {
        compute::own(x.buffer, x.layout)
    }
    fn receive(_: &Device, _: &Device, _: View<'_>) -> Result<Option<HostData>> {
        // All devices are the host.
        Ok(None)
    }
    fn finish(_: &Device, _: &HostData) -> Result<()> {
        // Everything is computed at once.
        Ok(())
    }
    fn synchronize(_: &Device) -> Result<()> {
        Ok(())
    }
    fn memory_stats(_: &Device) -> Result<MemoryStats> {
        uncounted()
    }
    fn set_memory_limit(_: &Device, _: Option<u64>) -> Result<()> {
        uncounted()
    }
    fn release_memory(_: &Device) -> Result<()> {
        // Nothing is deferred.
        Ok(())
    }
    /// It keeps no copies.
    fn prepack(_: &Device, _: View<'_>) -> Result<bool> {
        Ok(false)
    }
    fn fill(_: &Device, value: Scalar, dtype: DType, len: usize) -> Result<HostData> {
        memory::fill(value, dtype, len)
    }
    fn copy(_: &Device, x: View<'_>) -> Result<HostData> {
        memory::copy(&x)
    }
    fn cast<C: Casting>(_: &Device, x: View<'_>, to: DType) -> Result<HostData> {
        if const { C::ALL } { memory::cast(&x, to) } else { memory::cast_halves(&x, to) }
    }
    fn assemble(
        _: &Device,
        fill: Scalar,
        dtype: DType,
        shape: &Shape,
        parts: &[(View<'_>, Layout)],
    ) -> Result<HostData> {
        memory::assemble(fill, dtype, shape, parts)
    }
    fn write(_: &Device, to: &mut HostData, at: &Layout, x: View<'_>) -> Result<()> {
        memory::write(to, at, &x)
    }
}

impl Compute for Reference {
    fn random(
        _: &Device,
        r: Random,
        s: Stream,
        at: Option<View<'_>>,
        dtype: DType,
        len: usize,
    ) -> Result<HostData> {
        let s = at.map_or(Ok(s), |at| stream_in(at.buffer, at.layout))?;
        memory::random(r, s, dtype, len)
    }
    fn map(_: &Device, f: &dyn MapObject, x: &[View<'_>], dtype: DType) -> Result<HostData> {
        map::map(f, x, dtype)
    }
    fn map_int(_: &Device, f: &dyn IntMapObject, x: &[View<'_>], dtype: DType) -> Result<HostData> {
        map::map_int(f, x, dtype)
    }
    fn update(_: &Device, u: &dyn UpdateObject, items: Vec<UpdateItem<'_, Self>>) -> Result<()> {
        update::update(u, items)
    }
    fn fold<F: Folding>(_: &Device, x: View<'_>, kept: usize, to: DType) -> Result<HostData> {
        if const { F::INTEGERS } {
            fold::fold(F::FOLD, &x, kept, to)
        } else {
            fold::floats(F::FOLD, &x, kept, to)
        }
    }
    fn arg_fold(_: &Device, f: ArgFold, x: View<'_>, kept: usize) -> Result<HostData> {
        fold::arg_fold(f, &x, kept)
    }
    fn scan(_: &Device, f: Scan, x: View<'_>, to: DType) -> Result<Placed<HostData>> {
        fold::scan(f, &x, to).map(Placed::from)
    }
    fn rows(
        _: &Device,
        f: &dyn RowObject,
        x: &[View<'_>],
        kept: usize,
        dtype: DType,
    ) -> Result<Placed<HostData>> {
        rows::rows(f, x, kept, dtype).map(Placed::from)
    }
    fn fused(_: &Device, _: &Fused<'_>, _: &[View<'_>]) -> Result<Option<FusedResults<Self>>> {
        // The definition is that of the work of which it is composed.
        Ok(None)
    }
    fn sort(_: &Device, x: View<'_>, descending: bool, first: usize) -> Result<(HostData, HostData)> {
        sort::sort(&x, descending, first)
    }
    fn precision(_: &Device) -> Precision {
        Precision::Exact
    }
    fn contract(
        _: &Device,
        _: Precision,
        x: View<'_>,
        w: View<'_>,
        e: Option<&dyn EpilogueObject>,
        extra: &[View<'_>],
    ) -> Result<HostData> {
        contract::contract(&x, &w, e, extra)
    }
    fn conv(
        _: &Device,
        c: &Conv,
        x: View<'_>,
        w: View<'_>,
        out: &[usize],
        e: Option<&dyn EpilogueObject>,
        extra: &[View<'_>],
    ) -> Result<HostData> {
        conv::conv(c, &x, &w, out, e, extra)
    }
    fn conv_input_grad(
        _: &Device,
        c: &Conv,
        g: View<'_>,
        w: View<'_>,
        spatial: &[usize],
    ) -> Result<HostData> {
        conv::input_grad(c, &g, &w, spatial)
    }
    fn conv_weight_grad(_: &Device, c: &Conv, x: View<'_>, g: View<'_>, taps: &[usize]) -> Result<HostData> {
        conv::weight_grad(c, &x, &g, taps)
    }
    fn pool(_: &Device, p: &Pool, x: View<'_>) -> Result<(HostData, Option<HostData>)> {
        pool::pool(p, &x)
    }
    fn avg_pool_grad(_: &Device, p: &Pool, g: View<'_>, spatial: &[usize]) -> Result<HostData> {
        pool::average_grad(p, &g, spatial)
    }
    fn attention(
        _: &Device,
        a: &Attention,
        q: View<'_>,
        k: View<'_>,
        v: View<'_>,
        mask: Option<View<'_>>,
    ) -> Result<(HostData, HostData)> {
        attention::attention(a, &q, &k, &v, mask.as_ref())
    }
    fn attention_grad(
        _: &Device,
        a: &Attention,
        q: View<'_>,
        k: View<'_>,
        v: View<'_>,
        mask: Option<View<'_>>,
        o: View<'_>,
        lse: View<'_>,
        g: View<'_>,
    ) -> Result<(HostData, HostData, HostData)> {
        attention::attention_grad(a, &q, &k, &v, mask.as_ref(), &attention::Results { o, lse, g })
    }
    fn gather(_: &Device, x: View<'_>, axis: usize, index: View<'_>) -> Result<HostData> {
        index::gather(&x, axis, &index)
    }
    fn scatter(
        _: &Device,
        how: Scatter,
        base: View<'_>,
        axis: usize,
        index: View<'_>,
        src: View<'_>,
    ) -> Result<HostData> {
        index::scatter(how, &base, axis, &index, &src)
    }
    fn nonzero(_: &Device, x: View<'_>) -> Result<(HostData, usize)> {
        sort::nonzero(&x)
    }
}

// Running a function again costs the same: there is no launch overhead to save.
elinvar_ops::without_capture! { impl [] Reference }
elinvar_ops::host_streams! { impl [] Reference }

/// What the tests of all files share.
#[cfg(test)]
mod tests {
    use super::*;

    pub fn layout(dims: &[usize]) -> Layout {
        Layout::contiguous(Shape::new(dims).unwrap())
    }
    pub fn view<'a>(buffer: &'a HostData, layout: &'a Layout) -> View<'a> {
        View { buffer, layout, dtype: buffer.dtype() }
    }
    /// Numbers in -1..1 that use all their bits.
    pub fn noise(n: usize, seed: u64) -> Vec<f32> {
        let s = Stream { seed, stream: 0 };
        (0..n as u64).map(|i| elinvar_core::philox::unit_f32(s.word(i)) * 2.0 - 1.0).collect()
    }

    #[test]
    fn the_device_says_its_name() {
        assert_eq!(ReferenceDevice.to_string(), "reference");
    }
}
