//! What a training step that is captured has of a model besides its operands: random numbers whose
//! streams are in device memory, and buffers that are changed in place.
//!
//! While a step is traced, this thread has a [`Capturing`]. A layer that draws gets a place for its
//! stream, which the host fills before each replay with the stream that the layer's generator has
//! then. A buffer that is set keeps the new value until the trace ends; then the value is written
//! to the memory that the buffer had, and the buffer has that again.

use crate::optim::steps_made;
use crate::own::own;
use elinvar_core::philox::Stream;
use elinvar_core::{DType, Element, Error, HostData, HostTensor, Layout, Result, Scalar, Shape, each_data};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_tensor::{Generator, Tensor};
use std::any::Any;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A random number generator that several can reach.
pub(crate) type SharedGenerator = Arc<Mutex<Generator>>;
/// The cell of a buffer.
pub(crate) type Cell<B> = Arc<RwLock<Tensor<B>>>;

thread_local! {
    /// The [`Capturing`] of a step that is traced.
    static CONTEXT: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// What a traced step has drawn and set.
pub(crate) struct Capturing<B: Backend> {
    /// Streams, each as four words.
    pub(crate) streams: Slots<B>,
    /// Whose they are.
    pub(crate) draws: Vec<SharedGenerator>,
    written: Vec<Written<B>>,
}

/// A buffer that was set. It gets its old value back when this is dropped.
struct Written<B: Backend> {
    cell: Cell<B>,
    original: Option<Tensor<B>>,
}

impl<B: Backend> Drop for Written<B> {
    fn drop(&mut self) {
        if let Some(original) = self.original.take() {
            *self.cell.write().unwrap_or_else(PoisonError::into_inner) = original;
        }
    }
}

/// Takes the context out, also when a function panics.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        drop(CONTEXT.take());
    }
}

impl<B: Backend> Capturing<B> {
    pub(crate) fn new(device: &B::Device) -> Self {
        Capturing { streams: Slots::new(device, DType::I32), draws: vec![], written: vec![] }
    }
    /// Runs `f`, which traces a step, with this as the thread's context.
    pub(crate) fn trace<T>(self, f: impl FnOnce() -> Result<T>) -> Result<(Self, T)> {
        CONTEXT.set(Some(Box::new(self)));
        let end = End;
        let result = f()?;
        let context = CONTEXT.take().and_then(|c| c.downcast().ok());
        drop(end);
        Ok((*context.expect("it is taken out here alone"), result))
    }
    /// Records that the new values of buffers go to their memory. Gives the buffers.
    pub(crate) fn write_buffers(&mut self) -> Result<Vec<Cell<B>>> {
        let now = |w: &Written<B>| w.cell.read().unwrap_or_else(PoisonError::into_inner).clone();
        let new: Vec<Tensor<B>> = self.written.iter().map(now).collect();
        // A value that is deferred may read what another one overwrites.
        new.iter().try_for_each(|t| compute(t.array()))?;
        let mut cells = vec![];
        for (w, new) in self.written.iter_mut().zip(new) {
            let original = w.original.as_mut().expect("it is taken out when this is dropped").array_mut();
            if !new.array().shares_memory_with(original) {
                own(original)?;
                let layout = original.layout().clone();
                original.write(&layout, new.array())?;
            }
            cells.push(w.cell.clone());
        }
        self.written.clear();
        Ok(cells)
    }
}

/// Does this thread trace a step?
pub(crate) fn is_active() -> bool {
    CONTEXT.with_borrow(Option::is_some)
}

fn with<B: Backend, T>(f: impl FnOnce(&mut Capturing<B>) -> T) -> Option<T> {
    CONTEXT.with_borrow_mut(|c| c.as_mut()?.downcast_mut::<Capturing<B>>().map(f))
}

/// The place of the next stream of a generator, if this thread traces a step.
pub(crate) fn stream_of<B: Backend>(generator: &SharedGenerator) -> Result<Option<Tensor<B>>> {
    if !is_active() {
        return Ok(None);
    }
    let place = with::<B, _>(|c| {
        c.draws.push(generator.clone());
        c.streams.take_vector(4)
    });
    let other =
        || Error::unsupported("drawing random numbers on another device: a captured step cannot do this");
    place.ok_or_else(other)?.map(|a| Some(Tensor::from_array(a)))
}

/// Notes that a buffer which had this value was set.
pub(crate) fn note_set<B: Backend>(cell: &Cell<B>, original: Tensor<B>) {
    with::<B, _>(|c| {
        if !c.written.iter().any(|w| Arc::ptr_eq(&w.cell, cell)) {
            c.written.push(Written { cell: cell.clone(), original: Some(original) });
        }
    });
}

/// Was this buffer set in the step that is traced? Then its value is no state that was read.
pub(crate) fn is_set<B: Backend>(cell: &Cell<B>) -> bool {
    with::<B, _>(|c| c.written.iter().any(|w| Arc::ptr_eq(&w.cell, cell))).unwrap_or(false)
}

/// Has deferred work of these elements done, or recorded, now.
pub(crate) fn compute<B: Backend>(x: &Array<B>) -> Result<()> {
    B::memory_id(x.device(), x.buffer()).map(drop)
}

/// The next stream of each generator, in order, as words; and the states before, to go back to.
pub(crate) fn next_streams(draws: &[SharedGenerator]) -> (Vec<Vec<f64>>, Vec<Generator>) {
    let next = |g: &SharedGenerator| {
        let mut g = g.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *g;
        let stream: Stream = g.next_stream();
        (stream.to_words().map(f64::from).to_vec(), before)
    };
    draws.iter().map(next).unzip()
}

/// Takes the last streams back.
pub(crate) fn take_back(draws: &[SharedGenerator], before: &[Generator]) {
    for (g, before) in draws.iter().zip(before).rev() {
        *g.lock().unwrap_or_else(PoisonError::into_inner) = *before;
    }
}

/// Places for numbers in device memory, which is there before a step is recorded and stays where it
/// is: given out one after the other, and filled from the host together. With a counter of steps
/// the memory has several rows, of which the step takes one.
#[derive(Debug)]
pub(crate) struct Slots<B: Backend> {
    device: B::Device,
    dtype: DType,
    /// The digits of the counter, while places are given out.
    digits: Option<[Array<B>; 2]>,
    rows: usize,
    chunks: Vec<Array<B>>,
    /// The last chunk, as the step reads it, and numbers of it that are taken.
    last: Option<Array<B>>,
    taken: usize,
    /// Chunk, first number and count of each place.
    places: Vec<(usize, usize, usize)>,
}

/// Numbers of a chunk, of which a place takes a few; fewer if there are several rows.
const CHUNK: usize = 1024;
const CHUNK_OF_ROWS: usize = 16;

impl<B: Backend> Slots<B> {
    pub(crate) fn new(device: &B::Device, dtype: DType) -> Self {
        let (digits, last) = (None, None);
        Slots {
            device: device.clone(),
            dtype,
            digits,
            rows: 1,
            chunks: vec![],
            last,
            taken: 0,
            places: vec![],
        }
    }
    /// With rows, of which the step takes that of these digits ([`steps_made`]).
    pub(crate) fn of_rows(device: &B::Device, dtype: DType, digits: Option<[Array<B>; 2]>) -> Self {
        let rows = if digits.is_some() { steps_made::ROWS } else { 1 };
        Slots { digits, rows, ..Slots::new(device, dtype) }
    }
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }
    /// A place for so many numbers, as vectors of shape \[\].
    pub(crate) fn take(&mut self, count: usize) -> Result<Vec<Array<B>>> {
        self.place(count)?;
        (0..count).map(|i| self.last_at(Shape::scalar(), &[], self.taken - count + i)).collect()
    }
    /// A place for so many numbers, as a vector.
    pub(crate) fn take_vector(&mut self, count: usize) -> Result<Array<B>> {
        self.place(count)?;
        self.last_at(Shape::new(&[count])?, &[1], self.taken - count)
    }
    fn last_at(&self, shape: Shape, strides: &[isize], from: usize) -> Result<Array<B>> {
        let last = self.last.as_ref().expect("a place was taken of it");
        Ok(last.with_layout(Layout::strided(shape, strides, from, last.shape().numel())?))
    }
    fn place(&mut self, count: usize) -> Result<()> {
        if self.last.as_ref().is_none_or(|last| self.taken + count > last.shape().numel()) {
            let len = count.max(if self.rows == 1 { CHUNK } else { CHUNK_OF_ROWS });
            // An upload is not recorded: the memory is there before.
            let all = self.rows * len;
            let zeros = HostTensor::new(Shape::new(&[all])?, HostData::full(self.dtype, all, 0.into())?)?;
            let chunk = Array::from_host(&self.device, zeros)?;
            self.last = Some(match &self.digits {
                None => chunk.clone(),
                Some(digits) => steps_made::pick(digits, &chunk, len)?,
            });
            self.chunks.push(chunk);
            self.taken = 0;
        }
        self.places.push((self.chunks.len() - 1, self.taken, count));
        self.taken += count;
        Ok(())
    }
    /// No more places are taken: what was computed for them goes.
    pub(crate) fn finish(&mut self) {
        (self.digits, self.last) = (None, None);
    }
    /// Uploads numbers for all places, in order, each with as many rows as there are values for;
    /// gives each chunk with the memory that it goes to.
    pub(crate) fn upload(&self, values: &[&[Vec<f64>]]) -> Result<Vec<(Array<B>, &Array<B>)>> {
        let mut all: Vec<Vec<f64>> = self.chunks.iter().map(|c| vec![0.0; c.shape().numel()]).collect();
        for ((chunk, from, count), rows) in self.places.iter().zip(values) {
            let len = all[*chunk].len() / self.rows;
            for (to, row) in all[*chunk].chunks_mut(len).zip(*rows) {
                to[*from..from + count].copy_from_slice(row);
            }
        }
        let one = |(numbers, to): (Vec<f64>, _)| {
            Ok((Array::from_host(&self.device, rounded(&numbers, self.dtype)?)?, to))
        };
        all.into_iter().zip(&self.chunks).map(one).collect()
    }
}

/// These numbers as a vector, each rounded to a dtype.
pub(crate) fn rounded(values: &[f64], dtype: DType) -> Result<HostTensor> {
    let mut data = HostData::full(dtype, values.len(), Scalar::Int(0))?;
    each_data!(&mut data, d => d.iter_mut().zip(values).for_each(|(d, v)| *d = Element::from_f64(*v)));
    HostTensor::new(Shape::new(&[values.len()])?, data)
}
