//! `Raw`: a backend of the library as a `ComputeBackend`.

use crate::ComputeBackend;
use crate::address;
use crate::elements;
use crate::memory::{Allocation, Memory, Usage, lock};
use crate::network;
use crate::products::{Matrix, Product};
use crate::region::Runs;
use crate::types::{BackendError, BackendResult, BackendTranspose, BinaryOp, ReduceOp, UnaryOp};
use elinvar_core::{DType, Layout, Precision, Shape};
use elinvar_ops::{Array, Backend, recording};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What is told of memory that was not freed.
type LeakReport = Box<dyn FnOnce(Usage) + Send>;

/// Raw memory and kernels of a device of `B`.
///
/// What the published trait leaves open is decided when it is made, and in the doc comments of
/// [`ComputeBackend`]:
///
/// * **Element type.** `new` makes all operands of all calls f32 or f64, so that what one
///   call gives, any other takes. [`Raw::as_published`] has the types of the published CPU backend
///   instead: f64 in products, f32 elsewhere.
/// * **Strides** count elements, as leading dimensions do.
/// * **Scale** of attention is a factor: it is "typically 1 / sqrt(head_dim)", which divides.
/// * **NaN** is propagated by `Relu`, `Max` and `Min`, as by the ops of the library.
///
/// Results have the bits of the library's ops: a product those of `addmm`, a mean those of `mean`.
///
/// Memory that is not freed is freed with the backend; in debug builds its amount is printed, or
/// passed to the function of [`Raw::on_leak`].
pub struct Raw<B: Backend> {
    device: B::Device,
    name: String,
    /// Elements of products, and of all other calls.
    pub(crate) products: DType,
    pub(crate) others: DType,
    ready: AtomicBool,
    memory: Mutex<Memory<B>>,
    owner: Arc<str>,
    report: Mutex<Option<LeakReport>>,
}

impl<B: Backend> Raw<B> {
    /// A backend of elements of one type, f32 or f64. It must be opened by
    /// [`init`](ComputeBackend::init).
    ///
    /// # Errors
    /// `InvalidArgument` for another type.
    pub fn new(device: B::Device, dtype: DType) -> BackendResult<Self> {
        match dtype {
            DType::F32 | DType::F64 => Ok(Self::of(device, dtype, dtype)),
            elinvar_core::storage!(DType) | DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                Err(BackendError::InvalidArgument(format!(
                    "a raw backend of {dtype}: its elements must be f32 or f64"
                )))
            }
        }
    }
    /// A backend with the types of the published crate's own CPU backend: `gemm` and `batched_gemm`
    /// of f64, all other calls of f32.
    ///
    /// The bytes of an allocation are of the type that a call uses them as. From one to the other
    /// they go through the host; so keep an allocation to one of them, as the published crate has
    /// it.
    pub fn as_published(device: B::Device) -> Self {
        Self::of(device, DType::F64, DType::F32)
    }
    fn of(device: B::Device, products: DType, others: DType) -> Self {
        let shown = device.to_string();
        Raw {
            name: shown.split(':').next().unwrap_or(B::NAME).to_string(),
            owner: shown.into(),
            device,
            products,
            others,
            ready: AtomicBool::new(false),
            memory: Mutex::new(Memory::new()),
            report: Mutex::new(None),
        }
    }

    /// The device.
    pub fn device(&self) -> &B::Device {
        &self.device
    }
    /// Memory that is not freed.
    pub fn usage(&self) -> Usage {
        lock(&self.memory).usage()
    }
    /// Passes the amount of memory that is not freed to this function when the backend is dropped,
    /// in all builds, instead of printing it in debug builds. It is not called if all was freed.
    pub fn on_leak(&self, report: impl FnOnce(Usage) + Send + 'static) {
        *lock(&self.report) = Some(Box::new(report));
    }
    /// Opens the device, as [`init`](ComputeBackend::init) does, of a backend that is shared.
    ///
    /// # Errors
    /// What the device reports.
    pub fn start(&self) -> BackendResult<()> {
        if !self.is_initialized() {
            B::synchronize(&self.device)?;
            self.ready.store(true, Ordering::Release);
        }
        Ok(())
    }
    pub(crate) fn check_ready(&self) -> BackendResult<()> {
        if !self.is_initialized() {
            return Err(BackendError::NotInitialized);
        }
        // Memory that recorded work has written must not outlive the recording.
        Ok(recording::refuse("a raw backend's memory")?)
    }
    /// The precision of the scope, or else of the device.
    pub(crate) fn precision(&self) -> Precision {
        Precision::of_scope().unwrap_or_else(|| B::precision(&self.device))
    }

    /// The elements of an operand: a shape with strides, and the runs that it consists of.
    pub(crate) fn operand(
        &self,
        call: &'static str,
        what: &'static str,
        ptr: u64,
        shape: &[usize],
        strides: &[usize],
        runs: Runs,
        dtype: DType,
    ) -> BackendResult<Operand<B>> {
        let misfit = |said: String| BackendError::InvalidArgument(format!("{call}: {what} {said}"));
        let size = dtype.size();
        let shape = Shape::new(shape).map_err(|e| misfit(format!("cannot be: {e}")))?;
        if runs.is_empty() {
            let layout = Layout::contiguous(shape);
            // Nothing is read or written there.
            return Ok(Operand { call, what, dtype, place: None, start: 0, runs, layout });
        }
        let (allocation, offset) = lock(&self.memory).find(call, what, ptr)?;
        if !ptr.is_multiple_of(size as u64) {
            return Err(misfit(format!("{ptr:#x} is not aligned: it must be a multiple of {size}")));
        }
        let room = allocation.bytes - offset;
        let reach = runs.reach().and_then(|n| n.checked_mul(size));
        if reach.is_none_or(|bytes| bytes > room) {
            let needs = reach.map_or("more bytes than can be addressed".into(), |n| format!("{n} bytes"));
            return Err(misfit(format!(
                "{ptr:#x} needs {needs}, and has {room} up to the end of its memory"
            )));
        }
        let start = offset / size;
        // Where there is one element along an axis, its stride may be any number.
        let step = |(&n, &s): (&usize, &usize)| if n == 1 { 0 } else { s as isize };
        let strides: Vec<isize> = shape.iter().zip(strides).map(step).collect();
        let len = allocation.bytes.div_ceil(size);
        let layout = Layout::strided(shape, &strides, start, len).map_err(|e| misfit(format!("is {e}")))?;
        Ok(Operand { call, what, dtype, place: Some(allocation), start, runs, layout })
    }
    /// An operand without gaps.
    pub(crate) fn row_major(
        &self,
        call: &'static str,
        what: &'static str,
        ptr: u64,
        shape: &[usize],
        dtype: DType,
    ) -> BackendResult<Operand<B>> {
        let all = Shape::new(shape)
            .map_err(|e| BackendError::InvalidArgument(format!("{call}: {what} cannot be: {e}")))?;
        let strides: Vec<usize> =
            Layout::contiguous(all.clone()).strides().iter().map(|&s| s as usize).collect();
        self.operand(call, what, ptr, shape, &strides, Runs::one(all.numel()), dtype)
    }
    /// Bytes of an allocation.
    fn bytes(
        &self,
        call: &str,
        what: &str,
        ptr: u64,
        len: usize,
    ) -> BackendResult<(Arc<Allocation<B>>, usize)> {
        let (allocation, offset) = lock(&self.memory).find(call, what, ptr)?;
        let room = allocation.bytes - offset;
        if len > room {
            return Err(BackendError::InvalidArgument(format!(
                "{call}: {len} bytes at {what} {ptr:#x}, which has {room} up to the end of its memory"
            )));
        }
        Ok((allocation, offset))
    }
}

/// Elements of an allocation that a call reads or writes.
pub(crate) struct Operand<B: Backend> {
    call: &'static str,
    what: &'static str,
    pub dtype: DType,
    /// None if there are no elements.
    place: Option<Arc<Allocation<B>>>,
    start: usize,
    runs: Runs,
    pub layout: Layout,
}

impl<B: Backend> Operand<B> {
    /// The elements now.
    pub fn read(&self, d: &B::Device) -> BackendResult<Array<B>> {
        Ok(match &self.place {
            Some(place) => place.read(d, self.dtype, self.layout.clone())?,
            None => Array::full(d, self.layout.shape(), 0i64.into(), self.dtype)?,
        })
    }
    /// New elements. Handles of those that were read have been dropped, or are copied.
    pub fn write(&self, d: &B::Device, x: Array<B>) -> BackendResult<()> {
        match &self.place {
            Some(place) => Ok(place.write(d, &self.layout, x)?),
            None => Ok(()),
        }
    }
    /// That an output shares no element with what is read, and names none twice.
    pub fn is_apart_from(&self, inputs: &[&Operand<B>]) -> BackendResult<()> {
        for input in inputs {
            if self.meets(input)? {
                return Err(self.overlap(input.what));
            }
        }
        if self.runs.meets_itself()? {
            return Err(BackendError::InvalidArgument(format!(
                "{}: {} names an element twice by its strides",
                self.call, self.what
            )));
        }
        Ok(())
    }
    /// The same, but it may be an input.
    pub fn is_apart_from_or_is(&self, inputs: &[&Operand<B>]) -> BackendResult<()> {
        let is = |input: &Operand<B>| input.start == self.start && input.runs == self.runs;
        match inputs.iter().find_map(|input| match self.meets(input) {
            Ok(meets) => (meets && !is(input)).then(|| Err(self.overlap(input.what))),
            Err(e) => Some(Err(e)),
        }) {
            Some(e) => e,
            None => Ok(()),
        }
    }
    fn meets(&self, input: &Operand<B>) -> BackendResult<bool> {
        match (&self.place, &input.place) {
            (Some(a), Some(b)) if Arc::ptr_eq(a, b) => {
                Ok(self.runs.meets(self.start, &input.runs, input.start)?)
            }
            _ => Ok(false),
        }
    }
    fn overlap(&self, input: &str) -> BackendError {
        BackendError::InvalidArgument(format!(
            "{}: the memory of {} overlaps that of {input}, which is read",
            self.call, self.what
        ))
    }
}

impl<B: Backend> ComputeBackend for Raw<B> {
    fn name(&self) -> &str {
        &self.name
    }
    fn init(&mut self) -> BackendResult<()> {
        self.start()
    }
    fn is_initialized(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }
    fn gemm(
        &self,
        trans_a: BackendTranspose,
        trans_b: BackendTranspose,
        m: usize,
        n: usize,
        k: usize,
        alpha: f64,
        a_ptr: u64,
        lda: usize,
        b_ptr: u64,
        ldb: usize,
        beta: f64,
        c_ptr: u64,
        ldc: usize,
    ) -> BackendResult<()> {
        let a = Matrix { ptr: a_ptr, ld: lda, stride: 0 };
        let b = Matrix { ptr: b_ptr, ld: ldb, stride: 0 };
        let c = Matrix { ptr: c_ptr, ld: ldc, stride: 0 };
        let of = (self.products, None);
        Product { call: "gemm", trans_a, trans_b, m, n, k, alpha, beta, batch: 1, a, b, c, of }.run(self)
    }
    fn batched_gemm(
        &self,
        trans_a: BackendTranspose,
        trans_b: BackendTranspose,
        m: usize,
        n: usize,
        k: usize,
        alpha: f64,
        a_ptr: u64,
        lda: usize,
        stride_a: usize,
        b_ptr: u64,
        ldb: usize,
        stride_b: usize,
        beta: f64,
        c_ptr: u64,
        ldc: usize,
        stride_c: usize,
        batch_count: usize,
    ) -> BackendResult<()> {
        let a = Matrix { ptr: a_ptr, ld: lda, stride: stride_a };
        let b = Matrix { ptr: b_ptr, ld: ldb, stride: stride_b };
        let c = Matrix { ptr: c_ptr, ld: ldc, stride: stride_c };
        let (batch, of) = (batch_count, (self.products, None));
        Product { call: "batched_gemm", trans_a, trans_b, m, n, k, alpha, beta, batch, a, b, c, of }.run(self)
    }
    fn conv2d_forward(
        &self,
        input_ptr: u64,
        input_shape: &[usize],
        filter_ptr: u64,
        filter_shape: &[usize],
        output_ptr: u64,
        output_shape: &[usize],
        stride: &[usize],
        padding: &[usize],
    ) -> BackendResult<()> {
        let input = ("input_ptr", input_ptr, input_shape);
        let filter = ("filter_ptr", filter_ptr, filter_shape);
        let output = ("output_ptr", output_ptr, output_shape);
        network::conv(self, network::Pass::Forward, [input, filter, output], stride, padding)
    }
    fn attention(
        &self,
        q_ptr: u64,
        k_ptr: u64,
        v_ptr: u64,
        o_ptr: u64,
        batch: usize,
        heads: usize,
        seq_q: usize,
        seq_kv: usize,
        head_dim: usize,
        scale: f64,
        causal: bool,
    ) -> BackendResult<()> {
        let sizes = [batch, heads, seq_q, seq_kv, head_dim];
        network::attention(self, [q_ptr, k_ptr, v_ptr, o_ptr], sizes, scale, causal)
    }
    fn reduce(
        &self,
        op: ReduceOp,
        input_ptr: u64,
        output_ptr: u64,
        shape: &[usize],
        axis: usize,
    ) -> BackendResult<()> {
        elements::reduce(self, op, input_ptr, output_ptr, shape, axis)
    }
    fn unary(&self, op: UnaryOp, input_ptr: u64, output_ptr: u64, n: usize) -> BackendResult<()> {
        elements::unary(self, op, input_ptr, output_ptr, n)
    }
    fn binary(&self, op: BinaryOp, a_ptr: u64, b_ptr: u64, output_ptr: u64, n: usize) -> BackendResult<()> {
        elements::binary(self, op, [a_ptr, b_ptr], output_ptr, n)
    }
    fn synchronize(&self) -> BackendResult<()> {
        self.check_ready()?;
        // What a backend has put off until it is read is work, too.
        let all = lock(&self.memory).all();
        all.iter().try_for_each(|a| a.finish())?;
        Ok(B::synchronize(&self.device)?)
    }
    fn alloc(&self, bytes: usize) -> BackendResult<u64> {
        self.check_ready()?;
        if bytes == 0 {
            return Err(BackendError::InvalidArgument("alloc: 0 bytes; it must be 1 at least".into()));
        }
        let dtype = (self.products == self.others).then_some(self.others);
        // Memory first: addresses are not given again, and a failed call must not use any up.
        let allocation = Allocation::zeros(&self.device, bytes, dtype)?;
        let start = address::take(bytes, &self.owner)?;
        lock(&self.memory).insert(start, allocation);
        Ok(start)
    }
    fn free(&self, ptr: u64) -> BackendResult<()> {
        self.check_ready()?;
        lock(&self.memory).free(ptr)
    }
    fn copy_htod(&self, dst: u64, src: &[u8]) -> BackendResult<()> {
        self.check_ready()?;
        if src.is_empty() {
            return Ok(());
        }
        let (allocation, offset) = self.bytes("copy_htod", "dst", dst, src.len())?;
        Ok(allocation.upload(&self.device, offset, src, self.products == self.others)?)
    }
    fn copy_dtoh(&self, dst: &mut [u8], src: u64) -> BackendResult<()> {
        self.check_ready()?;
        if dst.is_empty() {
            return Ok(());
        }
        let (allocation, offset) = self.bytes("copy_dtoh", "src", src, dst.len())?;
        Ok(allocation.download(offset, dst)?)
    }
}

impl<B: Backend> fmt::Debug for Raw<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw")
            .field("device", &self.device)
            .field("products", &self.products)
            .field("others", &self.others)
            .field("is_initialized", &self.is_initialized())
            .field("usage", &self.usage())
            .finish()
    }
}

impl<B: Backend> Drop for Raw<B> {
    fn drop(&mut self) {
        let left = self.usage();
        lock(&self.memory).clear();
        if left == Usage::default() {
            return;
        }
        match lock(&self.report).take() {
            Some(report) => report(left),
            None if cfg!(debug_assertions) => eprintln!(
                "elinvar-compute: {} allocations of {} bytes in all on {} were not freed",
                left.allocations, left.bytes, self.owner
            ),
            None => {}
        }
    }
}
