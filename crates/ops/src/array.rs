//! `Array`: a strided tensor on a device, without gradients. What ops compute on.

use crate::backend::{Backend, Placed, View};
use crate::casting::{All, Casting};
use crate::recording;
use elinvar_core::{DType, Element, Error, HostTensor, Layout, Result, Scalar, Shape, match_storage};
use smallvec::SmallVec;
use triomphe::Arc;

mod lent;
mod operands;
pub use operands::*;

/// A strided tensor of backend `B`. Cloning shares the memory. Memory that anybody else can see is
/// never written again; what changes numbers in place (see [`mod@crate::update`]) does so in
/// memory that one `Array` alone holds.
///
/// It is one pointer: an op on a few numbers would notice each time that more is handed on.
pub struct Array<B: Backend>(Arc<Inner<B>>);

struct Inner<B: Backend> {
    device: B::Device,
    memory: Memory<B>,
    layout: Layout,
    dtype: DType,
}

enum Memory<B: Backend> {
    /// Its own.
    Own(B::Buffer),
    /// That of a tensor which has its own.
    Of(Array<B>),
}

impl<B: Backend> Clone for Array<B> {
    #[inline]
    fn clone(&self) -> Self {
        Array(self.0.clone())
    }
}

impl<B: Backend> std::fmt::Debug for Array<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Array({}, {}, {})", self.shape(), self.dtype(), self.device())
    }
}

impl<B: Backend> Array<B> {
    /// A contiguous tensor around a buffer that a backend just returned.
    pub fn new(device: &B::Device, buffer: B::Buffer, shape: Shape, dtype: DType) -> Self {
        Self::laid(device, buffer, Layout::contiguous(shape), dtype)
    }
    /// A result of this shape, as a backend has placed it.
    pub fn placed(device: &B::Device, y: Placed<B::Buffer>, shape: Shape, dtype: DType) -> Self {
        let Placed { buffer, layout } = y;
        let y = Self::new(device, buffer, shape, dtype);
        match layout {
            Some(layout) => y.with_layout(layout),
            None => y,
        }
    }
    /// The same under a layout that is there already, and is [plain](Layout::is_plain).
    #[inline]
    fn laid(device: &B::Device, buffer: B::Buffer, layout: Layout, dtype: DType) -> Self {
        debug_assert!(layout.is_plain());
        Array(Arc::new(Inner { device: device.clone(), memory: Memory::Own(buffer), layout, dtype }))
    }
    /// Host memory, moved to the device.
    ///
    /// # Errors
    /// `OutOfMemory`, or what the device reports.
    pub fn from_host(device: &B::Device, host: HostTensor) -> Result<Self> {
        let dtype = host.dtype();
        let (shape, data) = host.into_parts();
        Ok(Self::new(device, B::upload(device, data)?, shape, dtype))
    }
    /// A tensor of these elements, row-major.
    ///
    /// # Errors
    /// `ShapeMismatch` if the number of elements is not the shape's; `OutOfMemory`.
    pub fn from_vec<T: Element>(device: &B::Device, v: Vec<T>, shape: &[usize]) -> Result<Self> {
        Self::from_host(device, HostTensor::from_vec(v, Shape::new(shape)?)?)
    }
    /// A tensor of these numbers in a dtype, row-major. For floats they are rounded on the host, as
    /// a device may have no f64.
    ///
    /// # Errors
    /// `ShapeMismatch` if the number of elements is not the shape's; `OutOfMemory`.
    pub fn from_f64s(device: &B::Device, v: Vec<f64>, shape: &[usize], dtype: DType) -> Result<Self> {
        fn rounded<T: Element>(v: Vec<f64>) -> Vec<T> {
            v.into_iter().map(T::from_f64).collect()
        }
        match_storage!(DType dtype; storage T => Self::from_vec(device, rounded::<T>(v), shape);
            DType::F32 => Self::from_vec(device, rounded::<f32>(v), shape),
            DType::F64 => Self::from_vec(device, v, shape),
            DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                Self::from_vec(device, v, shape)?.cast(dtype)
            }
        )
    }
    /// Every element the same.
    ///
    /// # Errors
    /// `DTypeMismatch` if the value does not fit (see [`Scalar::fits`]); `OutOfMemory`.
    pub fn full(device: &B::Device, shape: &Shape, value: Scalar, dtype: DType) -> Result<Self> {
        value.fits(dtype)?;
        Ok(Self::new(device, B::fill(device, value, dtype, shape.numel())?, shape.clone(), dtype))
    }
    /// One number, of shape [].
    ///
    /// # Errors
    /// `DTypeMismatch` if the value does not fit (see [`Scalar::fits`]); `OutOfMemory`.
    pub fn scalar(device: &B::Device, value: Scalar, dtype: DType) -> Result<Self> {
        value.fits(dtype)?;
        Ok(Self::laid(device, B::fill(device, value, dtype, 1)?, Layout::scalar(), dtype))
    }
    /// The elements on the host, row-major.
    ///
    /// # Errors
    /// What the device reports; `Unsupported` in a function that is recorded.
    pub fn to_host(&self) -> Result<HostTensor> {
        recording::refuse("reading numbers")?;
        HostTensor::new(self.shape().clone(), B::download(self.device(), self.view())?)
    }

    /// Waits until the elements are computed: a backend may defer that until they are read.
    ///
    /// # Errors
    /// What the device reports; `OutOfMemory`.
    pub fn block_until_ready(&self) -> Result<()> {
        B::finish(self.device(), self.buffer())
    }

    /// Keeps a copy of this matrix, \[k, n\], in the order in which products read their right
    /// factor: see [`Memory::prepack`](crate::backend::Memory::prepack). Says whether there is one.
    ///
    /// # Errors
    /// `ShapeMismatch` if it is no matrix; `OutOfMemory`.
    pub fn prepack(&self) -> Result<bool> {
        if self.shape().rank() != 2 {
            return Err(Error::shape(format!(
                "prepack: a tensor of shape {}; it must be a matrix",
                self.shape()
            )));
        }
        B::prepack(self.device(), self.view())
    }

    /// Where it lives.
    pub fn device(&self) -> &B::Device {
        &self.0.device
    }
    /// The memory.
    #[inline]
    pub fn buffer(&self) -> &B::Buffer {
        match &self.0.memory {
            Memory::Own(buffer) => buffer,
            Memory::Of(other) => other.buffer(),
        }
    }
    /// Do both look at one piece of memory?
    pub fn shares_memory_with(&self, other: &Array<B>) -> bool {
        std::ptr::eq(self.buffer(), other.buffer())
    }
    /// Does anybody hold the memory of one of these besides these?
    pub fn is_held_besides(all: &[&Array<B>]) -> bool {
        all.iter().any(|x| {
            let handles = all.iter().filter(|y| Arc::ptr_eq(&x.0, &y.0)).count();
            let mut views: Vec<*const Inner<B>> = all
                .iter()
                .filter(|y| matches!(&y.0.memory, Memory::Of(z) if Arc::ptr_eq(&z.0, &x.0)))
                .map(|y| Arc::as_ptr(&y.0))
                .collect();
            views.sort();
            views.dedup();
            Arc::count(&x.0) > handles + views.len()
        })
    }
    /// Shape, strides, offset.
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }
    /// The shape.
    pub fn shape(&self) -> &Shape {
        self.0.layout.shape()
    }
    /// The element type.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }
    /// Makes the memory this tensor's own, so that it can be written: not shared, with the
    /// elements row-major from its first on. That is a copy, unless it is so already. The numbers
    /// stay what they are.
    ///
    /// # Errors
    /// `OutOfMemory`, after which the tensor is as it was.
    pub fn own(&mut self) -> Result<()> {
        if !self.layout().is_plain() || self.buffer_mut().is_none() {
            *self = self.copy()?;
        }
        Ok(())
    }
    /// Can it be written as it is: is the memory this tensor's own (see [`Array::own`])?
    pub fn is_own(&mut self) -> bool {
        self.layout().is_plain() && self.buffer_mut().is_some()
    }
    /// Makes the memory this tensor's own, also of what a backend has deferred, for captured work
    /// to change in place: see [`Capture::make_unique`](crate::backend::Capture::make_unique).
    ///
    /// # Errors
    /// As [`Array::own`].
    pub fn make_unique(&mut self) -> Result<()> {
        self.own()?;
        let device = self.device().clone();
        B::make_unique(&device, self.buffer_mut().expect("it is its own"))
    }
    /// Copies the elements of `x` to the places of `at`, a layout in this tensor's memory, in
    /// place; the others stay. Other handles of the memory keep the old elements: it becomes this
    /// tensor's own first.
    ///
    /// # Errors
    /// `DeviceMismatch`; `DTypeMismatch` and `ShapeMismatch` if `x` has not the dtype of this
    /// tensor or not the shape of `at`; `InvalidArgument` if `at` reaches outside of this tensor or
    /// an element twice; `OutOfMemory`; `Unsupported` during a capture.
    pub fn write(&mut self, at: &Layout, x: &Array<B>) -> Result<()> {
        recording::refuse_change("write")?;
        one_device("write", &[self, x])?;
        if self.dtype() != x.dtype() {
            return Err(Error::dtype(format!(
                "write: elements of {} into memory of {}; convert them with to_dtype",
                x.dtype(),
                self.dtype()
            )));
        }
        if at.shape() != x.shape() {
            return Err(Error::shape(format!(
                "write: elements of shape {} to places of shape {}; the shapes must be equal",
                x.shape(),
                at.shape()
            )));
        }
        Layout::strided(at.shape().clone(), at.strides(), at.offset(), self.shape().numel())
            .map_err(|e| e.at("write"))?;
        if !is_injective(at) {
            return Err(Error::argument(format!(
                "write: strides {:?} of shape {} name an element twice",
                at.strides(),
                at.shape()
            )));
        }
        self.own()?;
        let device = self.device().clone();
        let to = self.buffer_mut().expect("it is its own");
        B::write(&device, to, at, x.view())
    }
    /// The memory, to be written, if it is not shared.
    pub(crate) fn buffer_mut(&mut self) -> Option<&mut B::Buffer> {
        match &mut Arc::get_mut(&mut self.0)?.memory {
            Memory::Own(buffer) => Some(buffer),
            Memory::Of(_) => None,
        }
    }
    /// What a backend takes.
    #[inline]
    pub fn view(&self) -> View<'_, B> {
        self.view_as(self.layout())
    }
    /// The same memory under another layout, for a backend; the caller makes sure that it stays
    /// inside.
    #[inline]
    pub fn view_as<'a>(&'a self, layout: &'a Layout) -> View<'a, B> {
        View { buffer: self.buffer(), layout, dtype: self.dtype() }
    }
    /// The same memory under another layout; the caller makes sure that it stays inside.
    pub fn with_layout(&self, layout: Layout) -> Self {
        let owner = match &self.0.memory {
            Memory::Own(_) => self.clone(),
            Memory::Of(other) => other.clone(),
        };
        Array(Arc::new(Inner {
            device: self.device().clone(),
            memory: Memory::Of(owner),
            layout,
            dtype: self.dtype(),
        }))
    }
    /// Broadcast to a larger shape, as a view; itself if it has that shape.
    ///
    /// # Errors
    /// `ShapeMismatch` if it does not broadcast.
    pub fn broadcast_to(&self, shape: &Shape, op: &str) -> Result<Self> {
        if self.shape() == shape {
            return Ok(self.clone());
        }
        Ok(self.with_layout(self.layout().broadcast_to(shape, op)?))
    }
    /// Broadcast to a larger shape, and then the same elements, row-major, under the shape `flat`,
    /// for a backend.
    ///
    /// # Errors
    /// `ShapeMismatch` if it does not broadcast; `OutOfMemory` if it has to be copied.
    ///
    /// # Panics
    /// If the shapes do not have as many elements as one another.
    pub fn laid_as(&self, shape: &Shape, flat: &Shape, op: &str) -> Result<Laid<'_, B>> {
        let broadcast = self.layout().broadcast_to(shape, op)?;
        assert_eq!(shape.numel(), flat.numel(), "{op}: a shape of as many elements");
        Ok(match broadcast.reshape(flat) {
            Some(layout) => Laid::Here(self, layout),
            None => Laid::Copied(self.with_layout(broadcast).reshape(flat)?),
        })
    }
    /// Itself if it is contiguous, else a copy that is.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn contiguous(&self) -> Result<Self> {
        if self.layout().is_contiguous() { Ok(self.clone()) } else { self.copy() }
    }
    /// A contiguous copy.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn copy(&self) -> Result<Self> {
        let b = B::copy(self.device(), self.view())?;
        Ok(Self::new(self.device(), b, self.shape().clone(), self.dtype()))
    }
    /// On another device of its backend; itself if it lives there.
    ///
    /// # Errors
    /// `OutOfMemory`, or what the devices report.
    pub fn on(&self, device: &B::Device) -> Result<Self> {
        if device == self.device() {
            return Ok(self.clone());
        }
        match B::receive(device, self.device(), self.view())? {
            Some(buffer) => Ok(Self::new(device, buffer, self.shape().clone(), self.dtype())),
            None => Self::from_host(device, self.to_host()?),
        }
    }
    /// As another dtype; itself if it is of that dtype already.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn cast(&self, to: DType) -> Result<Self> {
        self.cast_by::<All>(to)
    }
    /// The same of some dtypes alone.
    ///
    /// # Errors
    /// `OutOfMemory`; a backend may refuse what is not of these dtypes.
    pub fn cast_by<C: Casting>(&self, to: DType) -> Result<Self> {
        if to == self.dtype() {
            return Ok(self.clone());
        }
        let b = B::cast::<C>(self.device(), self.view(), to)?;
        Ok(Self::new(self.device(), b, self.shape().clone(), to))
    }
    /// The same elements, row-major, under another shape: a view where possible, else a copy.
    ///
    /// # Errors
    /// `ShapeMismatch` if the number of elements differs; `OutOfMemory`.
    pub fn reshape(&self, shape: &Shape) -> Result<Self> {
        if shape.numel() != self.shape().numel() {
            return Err(Error::shape(format!(
                "reshape: shape {} has {} elements, shape {shape} has {}",
                self.shape(),
                self.shape().numel(),
                shape.numel()
            )));
        }
        match self.layout().reshape(shape) {
            Some(l) => Ok(self.with_layout(l)),
            None => {
                let c = self.copy()?;
                Ok(c.with_layout(Layout::contiguous(shape.clone())))
            }
        }
    }
}

/// Does a layout reach no element twice?
fn is_injective(at: &Layout) -> bool {
    let mut axes: SmallVec<[(usize, usize); 6]> =
        at.shape().iter().zip(at.strides()).map(|(&n, &s)| (s.unsigned_abs(), n)).collect();
    axes.retain(|&mut (_, n)| n != 1);
    axes.sort_unstable();
    let mut reach = 0;
    // Each stride steps over all that the smaller ones reach.
    let is_nested = axes.iter().all(|&(step, n)| {
        let over = step > reach;
        reach += n.saturating_sub(1) * step;
        over
    });
    is_nested || at.shape().numel() == 0 || {
        let mut all: Vec<usize> = at.positions().collect();
        all.sort_unstable();
        all.windows(2).all(|pair| pair[0] != pair[1])
    }
}

/// An operand under another layout.
pub enum Laid<'a, B: Backend> {
    /// Its own memory.
    Here(&'a Array<B>, Layout),
    /// Another's, because strides cannot say where its elements are.
    Copied(Array<B>),
}

impl<B: Backend> Laid<'_, B> {
    /// What a backend takes.
    pub fn view(&self) -> View<'_, B> {
        match self {
            Laid::Here(x, layout) => x.view_as(layout),
            Laid::Copied(x) => x.view(),
        }
    }
}
