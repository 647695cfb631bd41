//! Handing work on where no row of the tables can say how: what has a list of views, or results
//! that are not known before.

use super::{Delegate, Kind, Views, area, view};
use crate::backend::profiled::{bytes_of, bytes_of_results, bytes_of_update, running};
use crate::backend::{
    Backend, Fused, FusedResults, PinnedObject, Placed, Pool, TransferObject, UpdateItem, View,
};
use crate::casting::Casting;
use crate::update::UpdateObject;
use elinvar_core::profile::{Cost, Kind as Event};
use elinvar_core::{DType, HostData, Layout, Result, Scalar, Shape};

/// Hands `upload` on.
///
/// # Errors
/// Those of the other backend.
pub fn upload<S: Delegate<B>, B: Backend>(
    d: &S::Device,
    inner: &B::Device,
    data: HostData,
) -> Result<S::Buffer> {
    let size = (data.dtype(), data.len());
    let running =
        running::<B>(inner, Event::Copy, "upload", || Cost { bytes: bytes_of_results(&[size]), flops: 0 });
    let y = B::upload(inner, data)?;
    drop(running);
    let [y] = S::results(d, Kind::Upload, [y], || [size])?;
    Ok(y)
}

/// Hands `download` on.
///
/// # Errors
/// Those of the other backend.
pub fn download<S: Delegate<B>, B: Backend>(
    _: &S::Device,
    inner: &B::Device,
    x: View<'_, S>,
) -> Result<HostData> {
    let _running = running::<B>(inner, Event::Copy, "download", || Cost { bytes: bytes_of(&x), flops: 0 });
    B::download(inner, view(&x))
}

/// Hands `upload_pinned` on; the result is still the other backend's.
///
/// # Errors
/// Those of the other backend.
pub fn upload_pinned<B: Backend>(
    inner: &B::Device,
    from: Box<dyn PinnedObject>,
    dtype: DType,
    len: usize,
) -> Result<(B::Buffer, Box<dyn TransferObject>)> {
    let cost = || Cost { bytes: bytes_of_results(&[(dtype, len)]), flops: 0 };
    let _running = running::<B>(inner, Event::Copy, "upload pinned", cost);
    B::upload_pinned(inner, from, dtype, len)
}

/// Hands `download_pinned` on, of a view of the other backend.
///
/// # Errors
/// Those of the other backend.
pub fn download_pinned<B: Backend>(
    inner: &B::Device,
    x: View<'_, B>,
    to: Box<dyn PinnedObject>,
) -> Result<Box<dyn TransferObject>> {
    let cost = || Cost { bytes: bytes_of(&x), flops: 0 };
    let _running = running::<B>(inner, Event::Copy, "download pinned", cost);
    B::download_pinned(inner, x, to)
}

/// Hands `cast` on, as a copy.
///
/// # Errors
/// Those of the other backend.
pub fn cast<S: Delegate<B>, B: Backend, C: Casting>(
    d: &S::Device,
    inner: &B::Device,
    x: View<'_, S>,
    to: DType,
) -> Result<S::Buffer> {
    let running = running::<B>(inner, Event::Work, "cast", || Cost {
        bytes: bytes_of(&x) + bytes_of_results(&[(to, x.shape().numel())]),
        flops: 0,
    });
    let y = B::cast::<C>(inner, view(&x), to)?;
    drop(running);
    let [y] = S::results(d, Kind::Copy, [y], || [(to, x.shape().numel())])?;
    Ok(y)
}

/// Hands `assemble` on.
///
/// # Errors
/// Those of the other backend.
pub fn assemble<S: Delegate<B>, B: Backend>(
    d: &S::Device,
    inner: &B::Device,
    fill: Scalar,
    dtype: DType,
    shape: &Shape,
    parts: &[(View<'_, S>, Layout)],
) -> Result<S::Buffer> {
    let running = running::<B>(inner, Event::Work, "assemble", || Cost {
        bytes: bytes_of_results(&[(dtype, shape.numel())])
            + parts.iter().map(|(x, _)| bytes_of(x)).sum::<u64>(),
        flops: 0,
    });
    let parts: Vec<(View<'_, B>, Layout)> = parts.iter().map(|(x, to)| (view(x), to.clone())).collect();
    let y = B::assemble(inner, fill, dtype, shape, &parts)?;
    drop(running);
    let [y] = S::results(d, Kind::Assemble, [y], || [(dtype, shape.numel())])?;
    Ok(y)
}

/// Hands `write` on. There are no new results, as of `update`.
///
/// # Errors
/// Those of the other backend.
pub fn write<S: Delegate<B>, B: Backend>(
    _: &S::Device,
    inner: &B::Device,
    to: &mut S::Buffer,
    at: &Layout,
    x: View<'_, S>,
) -> Result<()> {
    let _running = running::<B>(inner, Event::Work, "write", || Cost { bytes: 2 * bytes_of(&x), flops: 0 });
    B::write(inner, S::inner_mut(to), at, view(&x))
}

/// Hands `update` on. There are no new results: a backend that looks at what changed writes the
/// method itself.
///
/// # Errors
/// Those of the other backend.
pub fn update<S: Delegate<B>, B: Backend>(
    _: &S::Device,
    inner: &B::Device,
    u: &dyn UpdateObject,
    items: Vec<UpdateItem<'_, S>>,
) -> Result<()> {
    let _running =
        running::<B>(inner, Event::Work, u.name(), || Cost { bytes: bytes_of_update(&items), flops: 0 });
    B::update(inner, u, items.into_iter().map(|item| item.of(S::inner_mut, |x| view(&x))).collect())
}

/// Hands `fused` on. Its results are of many kinds: a backend that looks at them writes the method
/// itself, or leaves it out (`None`).
///
/// # Errors
/// Those of the other backend.
pub fn fused<S: Delegate<B>, B: Backend>(
    d: &S::Device,
    inner: &B::Device,
    f: &Fused<'_>,
    x: &[View<'_, S>],
) -> Result<Option<FusedResults<S>>> {
    // The results' bytes are not known before there are any.
    let running =
        running::<B>(inner, Event::Work, f.name(), || Cost { bytes: x.iter().map(bytes_of).sum(), flops: 0 });
    let all = B::fused(inner, f, &Views::of(x))?;
    drop(running);
    let Some(all) = all else { return Ok(None) };
    let one = |Placed { buffer, layout }| {
        let [buffer] = S::results(d, Kind::Rows, [buffer], || {
            unreachable!("a backend that asks for sizes writes `fused` itself")
        })?;
        Ok(Placed { buffer, layout })
    };
    all.into_iter().map(one).collect::<Result<_>>().map(Some)
}

/// Hands `pool` on.
///
/// # Errors
/// Those of the other backend.
pub fn pool<S: Delegate<B>, B: Backend>(
    d: &S::Device,
    inner: &B::Device,
    p: &Pool,
    x: View<'_, S>,
) -> Result<(S::Buffer, Option<S::Buffer>)> {
    let planes = area(&x.shape()[..x.shape().rank() - p.axes.len()]);
    let len = planes * p.axes.iter().map(|a| a.start.len()).product::<usize>();
    let running = running::<B>(inner, Event::Work, "pool", || Cost {
        bytes: bytes_of(&x) + bytes_of_results(&[(x.dtype, len)]),
        flops: 0,
    });
    let y = B::pool(inner, p, view(&x))?;
    drop(running);
    Ok(match y {
        (y, None) => {
            let [y] = S::results(d, Kind::Pool, [y], || [(x.dtype, len)])?;
            (y, None)
        }
        (y, Some(places)) => {
            let sizes = || [(x.dtype, len), (DType::I64, len)];
            let [y, places] = S::results(d, Kind::Pool, [y, places], sizes)?;
            (y, Some(places))
        }
    })
}

/// Hands `nonzero` on.
///
/// # Errors
/// Those of the other backend.
pub fn nonzero<S: Delegate<B>, B: Backend>(
    d: &S::Device,
    inner: &B::Device,
    x: View<'_, S>,
) -> Result<(S::Buffer, usize)> {
    let running = running::<B>(inner, Event::Work, "nonzero", || Cost { bytes: bytes_of(&x), flops: 0 });
    let (y, count) = B::nonzero(inner, view(&x))?;
    drop(running);
    let [y] = S::results(d, Kind::Nonzero, [y], || [(DType::I64, count)])?;
    Ok((y, count))
}
