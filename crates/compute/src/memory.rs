//! Allocations: what an address stands for.
//!
//! An allocation is one tensor of the backend, and a pointer into it is an offset. A call takes a
//! handle of what it reads, so that it needs no lock while it runs, and what another thread writes
//! meanwhile is not seen. A result that covers an allocation takes its tensor's place; a smaller
//! one is copied into it on the device.

use crate::address;
use crate::types::{BackendError, BackendResult};
use elinvar_core::{DType, HostData, Layout, Result, Scalar, Shape};
use elinvar_ops::{Array, Backend};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Freed memory of which a sentence still says that it was freed.
const REMEMBERED: usize = 1024;

pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is inside is replaced whole: a panic leaves it as it was.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory that is not freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Allocations.
    pub allocations: usize,
    /// Their bytes, as asked for.
    pub bytes: usize,
}

/// The memory of a backend.
pub(crate) struct Memory<B: Backend> {
    live: BTreeMap<u64, Arc<Allocation<B>>>,
    freed: VecDeque<(u64, u64)>,
}

/// The memory at an address.
pub(crate) struct Allocation<B: Backend> {
    /// Bytes, as asked for.
    pub bytes: usize,
    contents: Mutex<Contents<B>>,
}

/// Where the bytes are.
enum Contents<B: Backend> {
    /// On the host: no call has said yet of which type they are.
    Host(Vec<u8>),
    /// On the device, as elements of one type, row-major from the first on.
    Device(Array<B>),
}

impl<B: Backend> Memory<B> {
    pub fn new() -> Self {
        Memory { live: BTreeMap::new(), freed: VecDeque::new() }
    }
    pub fn usage(&self) -> Usage {
        Usage { allocations: self.live.len(), bytes: self.live.values().map(|a| a.bytes).sum() }
    }
    pub fn insert(&mut self, start: u64, allocation: Allocation<B>) {
        self.live.insert(start, Arc::new(allocation));
    }
    pub fn all(&self) -> Vec<Arc<Allocation<B>>> {
        self.live.values().cloned().collect()
    }
    /// The allocation that a pointer is in, and its offset in bytes.
    pub fn find(&self, call: &str, what: &str, ptr: u64) -> BackendResult<(Arc<Allocation<B>>, usize)> {
        if let Some((&start, found)) = self.live.range(..=ptr).next_back()
            && ptr - start < found.bytes as u64
        {
            return Ok((found.clone(), (ptr - start) as usize));
        }
        Err(BackendError::InvalidArgument(format!("{call}: {what} {ptr:#x} {}", self.stranger(ptr))))
    }
    /// What a pointer is that points into no allocation.
    fn stranger(&self, ptr: u64) -> String {
        let before = self.live.range(..=ptr).next_back();
        if ptr == 0 {
            "is null".into()
        } else if self.freed.iter().any(|&(start, end)| (start..end).contains(&ptr)) {
            "points into memory that was freed".into()
        } else if let Some((start, _)) = before.filter(|(start, a)| ptr == **start + a.bytes as u64) {
            format!("is the end of the memory at {start:#x}, behind its last byte")
        } else if let Some(owner) = address::owner(ptr) {
            format!("points into memory of another backend, on {owner}")
        } else {
            "points into no memory of this backend; it must come from alloc".into()
        }
    }
    pub fn free(&mut self, ptr: u64) -> BackendResult<()> {
        let Some(gone) = self.live.remove(&ptr) else {
            let (_, offset) = self.find("free", "ptr", ptr)?;
            return Err(BackendError::InvalidArgument(format!(
                "free: ptr {ptr:#x} points {offset} bytes into an allocation; it is freed by its start {:#x}",
                ptr - offset as u64
            )));
        };
        address::forget(ptr);
        if self.freed.len() == REMEMBERED {
            self.freed.pop_front();
        }
        self.freed.push_back((ptr, ptr + gone.bytes as u64));
        Ok(())
    }
    /// Frees all.
    pub fn clear(&mut self) {
        self.live.keys().for_each(|&start| address::forget(start));
        self.live.clear();
    }
}

/// So many elements, row-major.
fn line(from: usize, len: usize, of: usize) -> Result<Layout> {
    Layout::strided(Shape::new(&[len])?, &[1], from, of)
}

/// Bytes as elements on the device; the last ones are 0 if there are not as many bytes.
fn upload<B: Backend>(d: &B::Device, dtype: DType, bytes: &[u8]) -> Result<Array<B>> {
    let len = bytes.len().div_ceil(dtype.size());
    let mut data = HostData::full(dtype, len, Scalar::Int(0))?;
    elements_mut(&mut data)[..bytes.len()].copy_from_slice(bytes);
    Ok(Array::new(d, B::upload(d, data)?, Shape::new(&[len])?, dtype))
}

fn elements(data: &HostData) -> &[u8] {
    match data {
        HostData::F32(v) => bytemuck::cast_slice(v),
        HostData::F64(v) => bytemuck::cast_slice(v),
        other => unreachable!("memory holds f32 or f64, not {}", other.dtype()),
    }
}

fn elements_mut(data: &mut HostData) -> &mut [u8] {
    match data {
        HostData::F32(v) => bytemuck::cast_slice_mut(v),
        HostData::F64(v) => bytemuck::cast_slice_mut(v),
        other => unreachable!("memory holds f32 or f64, not {}", other.dtype()),
    }
}

impl<B: Backend> Allocation<B> {
    /// Zeros: elements of a type, or bytes that will be of the type that the first call uses.
    pub fn zeros(d: &B::Device, bytes: usize, dtype: Option<DType>) -> Result<Self> {
        let contents = match dtype {
            Some(dtype) => {
                let shape = Shape::new(&[bytes.div_ceil(dtype.size())])?;
                Contents::Device(Array::full(d, &shape, Scalar::Int(0), dtype)?)
            }
            None => Contents::Host(elinvar_core::host::filled(bytes, 0)?),
        };
        Ok(Allocation { bytes, contents: Mutex::new(contents) })
    }
    /// A handle of what is there now, as a view of elements of a type.
    pub fn read(&self, d: &B::Device, dtype: DType, layout: Layout) -> Result<Array<B>> {
        Ok(lock(&self.contents).typed(d, dtype, self.bytes)?.with_layout(layout))
    }
    /// Elements at their places.
    pub fn write(&self, d: &B::Device, at: &Layout, x: Array<B>) -> Result<()> {
        let mut contents = lock(&self.contents);
        let len = self.bytes.div_ceil(x.dtype().size());
        if at.is_plain() && at.shape().numel() == len && x.layout().is_plain() {
            *contents = Contents::Device(x);
            return Ok(());
        }
        contents.typed(d, x.dtype(), self.bytes)?.write(at, &x)
    }
    /// Bytes to the host.
    pub fn download(&self, from: usize, dst: &mut [u8]) -> Result<()> {
        lock(&self.contents).download(from, dst)
    }
    /// Bytes from the host. `fixed`: all elements are of the type that they have.
    pub fn upload(&self, d: &B::Device, at: usize, src: &[u8], fixed: bool) -> Result<()> {
        let mut contents = lock(&self.contents);
        if !fixed && at == 0 && src.len() == self.bytes {
            let mut bytes = elinvar_core::host::with_capacity(src.len())?;
            bytes.extend_from_slice(src);
            *contents = Contents::Host(bytes);
            return Ok(());
        }
        contents.upload(d, at, src)
    }
    /// Waits for what is there.
    pub fn finish(&self) -> Result<()> {
        let now = match &*lock(&self.contents) {
            Contents::Host(_) => return Ok(()),
            Contents::Device(x) => x.clone(),
        };
        now.block_until_ready()
    }
}

impl<B: Backend> Contents<B> {
    /// As elements of a type. Those of another type go through the host.
    fn typed(&mut self, d: &B::Device, dtype: DType, bytes: usize) -> Result<&mut Array<B>> {
        let fits = matches!(self, Contents::Device(x) if x.dtype() == dtype);
        if !fits {
            let mut all = elinvar_core::host::filled(bytes, 0)?;
            self.download(0, &mut all)?;
            *self = Contents::Device(upload(d, dtype, &all)?);
        }
        match self {
            Contents::Device(x) => Ok(x),
            Contents::Host(_) => unreachable!("it was just uploaded"),
        }
    }
    fn download(&self, from: usize, dst: &mut [u8]) -> Result<()> {
        match self {
            Contents::Host(bytes) => dst.copy_from_slice(&bytes[from..from + dst.len()]),
            Contents::Device(x) => {
                let size = x.dtype().size();
                let (first, end) = (from / size, (from + dst.len()).div_ceil(size));
                let part = x.with_layout(line(first, end - first, x.shape().numel())?).to_host()?;
                let skip = from - first * size;
                dst.copy_from_slice(&elements(part.data())[skip..skip + dst.len()]);
            }
        }
        Ok(())
    }
    fn upload(&mut self, d: &B::Device, at: usize, src: &[u8]) -> Result<()> {
        let x = match self {
            Contents::Host(bytes) => {
                bytes[at..at + src.len()].copy_from_slice(src);
                return Ok(());
            }
            Contents::Device(x) => x,
        };
        let (size, of) = (x.dtype().size(), x.shape().numel());
        let (first, end) = (at / size, (at + src.len()).div_ceil(size));
        let place = line(first, end - first, of)?;
        let part = if at.is_multiple_of(size) && src.len().is_multiple_of(size) {
            upload(d, x.dtype(), src)?
        } else {
            // Bytes of elements that keep others.
            let mut data = x.with_layout(place.clone()).to_host()?.into_data();
            let skip = at - first * size;
            elements_mut(&mut data)[skip..skip + src.len()].copy_from_slice(src);
            Array::new(d, B::upload(d, data)?, Shape::new(&[end - first])?, x.dtype())
        };
        if end - first == of {
            *x = part;
            return Ok(());
        }
        x.write(&place, &part)
    }
}
