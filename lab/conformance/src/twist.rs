//! A mutant backend: it runs another backend and may change the results.
//!
//! Without a change it must pass everything that the other passes. With one it must fail: a suite
//! that passes a backend which writes nothing, or one wrong bit, proves nothing.

use elinvar_core::{DType, HostData, Layout, Result, Scalar, Shape, match_storage};
use elinvar_ops::backend::{Backend, Changed, Delegate, Fused, FusedResults, UpdateItem, View, delegate};
use elinvar_ops::update::UpdateObject;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The kinds of work of a backend, except those about time and memory, which have no values.
pub use elinvar_ops::backend::Kind as Work;

/// The change of the results.
#[derive(Clone)]
pub struct Twist {
    name: &'static str,
    touches: Arc<dyn Fn(Work) -> bool + Send + Sync>,
    change: fn(HostData) -> HostData,
}

impl Twist {
    /// `change` is applied to the results where `touches` is true. `touches` is called once per
    /// call.
    pub fn new(
        name: &'static str,
        touches: impl Fn(Work) -> bool + Send + Sync + 'static,
        change: fn(HostData) -> HostData,
    ) -> Self {
        Twist { name, touches: Arc::new(touches), change }
    }
    /// No change.
    pub fn echo() -> Self {
        Self::new("echo", |_| false, |data| data)
    }
    /// Every call returns Ok and nothing is ever written, not even on downloads.
    pub fn lazy() -> Self {
        Self::new("lazy", |_| true, zeros)
    }
    /// Transfers work, but every computation returns Ok and writes nothing.
    pub fn idle() -> Self {
        Self::new("idle", |work| !work.is_transfer(), zeros)
    }
    /// One kind of work returns Ok and writes nothing.
    pub fn without(work: Work) -> Self {
        Self::new("without", move |w| w == work, zeros)
    }
    /// The lowest bit of the last element is wrong in the results of one kind of work.
    pub fn wrong_bit(work: Work) -> Self {
        Self::new("wrong bit", move |w| w == work, flip)
    }
    /// No change, but every call is reported to `count`.
    pub fn counting(count: impl Fn(Work) + Send + Sync + 'static) -> Self {
        let told = move |work| {
            count(work);
            false
        };
        Self::new("counting", told, |data| data)
    }
}

impl fmt::Debug for Twist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A new buffer of the same size and dtype.
fn zeros(data: HostData) -> HostData {
    HostData::full(data.dtype(), data.len(), Scalar::Int(0)).expect("there was memory for one as large")
}

fn flip(mut data: HostData) -> HostData {
    match_storage!(HostData &mut data;
        storage v: T => v.iter_mut().next_back().map(|x| *x = T::from_bits(x.to_bits() ^ 1));
        HostData::F32(v) => v.iter_mut().next_back().map(|x| *x = f32::from_bits(x.to_bits() ^ 1)),
        HostData::F64(v) => v.iter_mut().next_back().map(|x| *x = f64::from_bits(x.to_bits() ^ 1)),
        HostData::I64(v) => v.iter_mut().next_back().map(|x| *x ^= 1),
        HostData::I32(v) => v.iter_mut().next_back().map(|x| *x ^= 1),
        HostData::U8(v) => v.iter_mut().next_back().map(|x| *x ^= 1),
        HostData::Bool(v) => v.iter_mut().next_back().map(|x| *x ^= true),
    );
    data
}

/// A device of a mutant backend: one of the inner backend, and the change of its results.
///
/// The change is a value and not a type, so that all ops are compiled once for all mutants.
#[derive(Clone, Debug)]
pub struct TwistedDevice<D> {
    /// The inner device.
    pub inner: D,
    /// The change of the results.
    pub twist: Twist,
}

impl<D: Default> Default for TwistedDevice<D> {
    fn default() -> Self {
        TwistedDevice { inner: D::default(), twist: Twist::echo() }
    }
}

impl<D: PartialEq> PartialEq for TwistedDevice<D> {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner && self.twist.name == other.twist.name
    }
}

impl<D: fmt::Display> fmt::Display for TwistedDevice<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.inner, self.twist.name)
    }
}

/// Backend `B` with changed results.
#[derive(Clone, Copy, Debug, Default)]
pub struct Twisted<B>(PhantomData<B>);

impl<D: Default> TwistedDevice<D> {
    /// The default device, with this change.
    pub fn new(twist: Twist) -> Self {
        TwistedDevice { inner: D::default(), twist }
    }
}

fn change<B: Backend>(
    d: &TwistedDevice<B::Device>,
    buffer: &B::Buffer,
    (dtype, len): (DType, usize),
) -> Result<B::Buffer> {
    let view = View { buffer, layout: &Layout::contiguous(Shape::new(&[len])?), dtype };
    let data = B::download(&d.inner, view)?;
    B::upload(&d.inner, (d.twist.change)(data))
}

impl<D: elinvar_ops::DeviceOf> elinvar_ops::DeviceOf for TwistedDevice<D> {
    type Backend = Twisted<D::Backend>;
}

impl<B: Backend> Delegate<B> for Twisted<B> {
    fn inner(buffer: &B::Buffer) -> &B::Buffer {
        buffer
    }
    fn inner_mut(buffer: &mut B::Buffer) -> &mut B::Buffer {
        buffer
    }
    fn results<const N: usize>(
        d: &Self::Device,
        kind: Work,
        mut y: [B::Buffer; N],
        sizes: impl FnOnce() -> [(DType, usize); N],
    ) -> Result<[B::Buffer; N]> {
        if (d.twist.touches)(kind) {
            for (y, size) in y.iter_mut().zip(sizes()) {
                *y = change::<B>(d, y, size)?;
            }
        }
        Ok(y)
    }
}

macro_rules! on {
    ($d:ident $call:tt) => {
        elinvar_ops::hand_over!(B, &$d.inner, $d $call)
    };
}
elinvar_ops::delegate_backend! {
    impl [B: Backend] Memory for Twisted<B>, by on, except [download] {
        type Device = TwistedDevice<B::Device>;
        type Buffer = B::Buffer;
        const NAME: &'static str = "twisted";
        fn download(d: &Self::Device, x: View<'_, Self>) -> Result<HostData> {
            let data = B::download(&d.inner, delegate::view(&x))?;
            Ok(if (d.twist.touches)(Work::Download) { (d.twist.change)(data) } else { data })
        }
        fn receive(_: &Self::Device, _: &Self::Device, _: View<'_, Self>) -> Result<Option<B::Buffer>> {
            // Goes through the host, where the change is applied.
            Ok(None)
        }
    }
    impl [B: Backend] Compute for Twisted<B>, by on, except [update, fused] {
        fn update(d: &Self::Device, u: &dyn UpdateObject, items: Vec<UpdateItem<'_, Self>>) -> Result<()> {
            let mut items: Vec<UpdateItem<'_, B>> =
                items.into_iter().map(|i| i.of(std::convert::identity, |x| delegate::view(&x))).collect();
            // The same items again, for the call: the buffers that it changes are accessed through
            // `items` afterwards.
            let again = items.iter_mut().map(|i| {
                let changes =
                    i.changes.iter_mut().map(|x| Changed { buffer: &mut *x.buffer, dtype: x.dtype });
                UpdateItem::new(i.shape.clone(), i.dtype, changes, i.reads.iter().copied())
            });
            B::update(&d.inner, u, again.collect())?;
            if (d.twist.touches)(Work::Update) {
                for item in items {
                    for Changed { buffer, dtype } in item.changes {
                        *buffer = change::<B>(d, buffer, (dtype, item.shape.numel()))?;
                    }
                }
            }
            Ok(())
        }
        fn fused(_: &Self::Device, _: &Fused<'_>, _: &[View<'_, Self>]) -> Result<Option<FusedResults<Self>>> {
            // Composed of other work, to which the change is applied.
            Ok(None)
        }
    }
}
// Captured work would bypass the change.
elinvar_ops::without_capture! { impl [B: Backend] Twisted<B> }
elinvar_ops::host_streams! { impl [B: Backend] Twisted<B> }
