//! What a profile is told of a kind of work: its name, its device, its least bytes and operations.
//!
//! Bytes are those of each operand and result, every element once, whatever a backend reads
//! again; operations are counted where they are the work (products, convolutions, attention).

use super::{Attention, Memory, UpdateItem, View};
use elinvar_core::profile::{self, Cost, Kind};
use elinvar_core::{DType, Layout};
use std::marker::PhantomData;

// The tables of the kinds of work are read by these.

/// The bytes of an operand.
macro_rules! read {
    (view $x:ident) => {
        bytes_of(&$x)
    };
    (views $x:ident) => {
        $x.iter().map(bytes_of).sum::<u64>()
    };
    (maybe $x:ident) => {
        $x.as_ref().map_or(0, bytes_of)
    };
    (buffer $x:ident) => {
        0
    };
    (($t:ty) $x:ident) => {
        0
    };
}

/// The operations of a kind of work, of its arguments.
macro_rules! flops {
    (contract $p:ident $x:ident $w:ident $($rest:ident)*) => {
        multiply_adds([area(&$x.shape()[..]), $w.shape()[2]])
    };
    (conv $c:ident $x:ident $w:ident $out:ident $($rest:ident)*) => {
        multiply_adds([$x.shape()[0], area($out), $w.shape().numel()])
    };
    (conv_input_grad $c:ident $g:ident $w:ident $spatial:ident) => {
        multiply_adds([$g.shape()[0], area(&$g.shape()[2..]), $w.shape().numel()])
    };
    (conv_weight_grad $c:ident $x:ident $g:ident $taps:ident) => {
        multiply_adds([$g.shape().numel(), $x.shape()[1] / $c.groups, area($taps)])
    };
    (attention $a:ident $q:ident $k:ident $v:ident $mask:ident) => {
        attention_flops($a, [&$q, &$k, &$v], [1, 1])
    };
    // Scores once more, then the gradients: by v and p over v's size, by q and k over d.
    (attention_grad $a:ident $q:ident $k:ident $v:ident $($rest:ident)*) => {
        attention_flops($a, [&$q, &$k, &$v], [3, 2])
    };
    ($($other:ident)*) => {
        0
    };
}

/// What takes time though it has no result: work that was put off, and waiting for a queue.
macro_rules! waiting {
    (finish $B:ident $inner:ident) => {
        running::<$B>($inner, Event::Work, "finish", Cost::default)
    };
    (synchronize $B:ident $inner:ident) => {
        running::<$B>($inner, Event::Work, "synchronize", Cost::default)
    };
    (prepack $B:ident $inner:ident) => {
        running::<$B>($inner, Event::Work, "prepack", Cost::default)
    };
    ($other:ident $B:ident $inner:ident) => {
        ()
    };
}

/// A kind of work that runs, until this is dropped.
pub(super) struct Running<'a, B: Memory> {
    /// The device, if a profile is recorded.
    device: Option<&'a B::Device>,
    backend: PhantomData<B>,
}

/// Work or a transfer begins; its cost is asked for only if a profile is recorded.
#[inline(always)]
pub(super) fn running<'a, B: Memory>(
    device: &'a B::Device,
    kind: Kind,
    name: &'static str,
    cost: impl FnOnce() -> Cost,
) -> Running<'a, B> {
    let device = profile::is_on().then(|| {
        profile::begin_work(kind, name, device, cost());
        device
    });
    Running { device, backend: PhantomData }
}

impl<B: Memory> Drop for Running<'_, B> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(device) = self.device {
            end::<B>(device);
        }
    }
}

#[cold]
#[inline(never)]
fn end<B: Memory>(device: &B::Device) {
    profile::end_work();
    // A backend that does not count its memory has no line for it.
    if let Ok(stats) = B::memory_stats(device) {
        profile::memory(device, stats.in_use);
    }
}

/// Bytes of the elements that a view shows, those that it repeats once.
pub(super) fn bytes_of<B: Memory>(x: &View<'_, B>) -> u64 {
    distinct(x.layout) * x.dtype.size() as u64
}

fn distinct(layout: &Layout) -> u64 {
    layout.shape().iter().zip(layout.strides()).filter(|&(_, &s)| s != 0).map(|(&n, _)| n as u64).product()
}

/// Bytes of results, by dtype and number of elements.
pub(super) fn bytes_of_results(sizes: &[(DType, usize)]) -> u64 {
    sizes.iter().map(|(dtype, len)| (dtype.size() * len) as u64).sum()
}

/// Bytes of an update: what changes is read and written.
pub(super) fn bytes_of_update<B: Memory>(items: &[UpdateItem<'_, B>]) -> u64 {
    let item = |i: &UpdateItem<'_, B>| {
        let changes: u64 = i.changes.iter().map(|c| 2 * (c.dtype.size() * i.shape.numel()) as u64).sum();
        changes + i.reads.iter().map(bytes_of).sum::<u64>()
    };
    items.iter().map(item).sum()
}

/// Operations of so many fused multiply-adds: the product of these factors.
pub(super) fn multiply_adds<const N: usize>(factors: [usize; N]) -> u64 {
    factors.iter().fold(2, |n, &f| n.saturating_mul(f as u64))
}

/// Operations of attention, or of its gradient, of q [b, h, l, d], k [b, j, s, d] and v [b, j, s,
/// v]: so many products over d and over v for each pair of query and key. A causal query sees the
/// keys up to its own.
pub(super) fn attention_flops<B: Memory>(
    a: &Attention,
    [q, k, v]: [&View<'_, B>; 3],
    [over_d, over_v]: [usize; 2],
) -> u64 {
    let (&[b, h, l, d], &[_, _, s, e]) = (&**q.shape(), &**v.shape()) else { return 0 };
    debug_assert_eq!(k.shape()[2], s);
    let pairs = if a.causal { (1..=l).map(|i| i.min(s)).sum() } else { l * s };
    multiply_adds([b * h, pairs, over_d * d + over_v * e])
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::Shape;

    #[test]
    fn repeated_elements_count_once() {
        let whole = Layout::contiguous(Shape::new(&[4, 3]).unwrap());
        let row = Layout::contiguous(Shape::new(&[3]).unwrap());
        let rows = row.broadcast_to(&Shape::new(&[4, 3]).unwrap(), "test").unwrap();
        assert_eq!(
            (distinct(&whole), distinct(&row), distinct(&rows), distinct(&Layout::scalar())),
            (12, 3, 3, 1)
        );
        assert_eq!(bytes_of_results(&[(DType::F32, 6), (DType::I64, 2)]), 40);
        assert_eq!(multiply_adds([2, 3, 4]), 48);
    }
}
