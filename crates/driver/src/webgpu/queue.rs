//! The WebGPU queue: launches recorded into one pass, copies between passes, submitted in batches.
//!
//! `wgpu` puts a barrier where one launch needs what another wrote. What the host writes goes to
//! the queue ahead of what is only recorded, so a batch that touches such memory is submitted
//! first. Parameters of a batch are in one buffer, which is written when the batch is submitted.

use super::WebGpu;
use super::device::Shared;
use super::memory::{self, Memory};
use super::pipeline::Pipeline;
use crate::Slice;
use crate::touched::{Touch, Touched};
use elinvar_core::{Error, Result};
use elinvar_kernel::interp::Launch;
use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Launches of a batch, at most: enough for submitting to cost little beside them, few enough for
/// the device to start soon.
const MAX_BATCH_LAUNCHES: u32 = 64;
/// Launches after which a batch is submitted if the device has nothing to do.
const EARLY_SUBMIT_LAUNCHES: u32 = 4;
/// Bytes for parameters of a batch: a few hundred for each launch.
const UNIFORM_BYTES: u64 = 64 << 10;
/// Bytes for the numbers of a batch that are too many for parameters. More of them get a buffer of
/// their own.
const ARG_BYTES: u64 = 256 << 10;

/// What the host writes for the launches of a batch.
struct Staged {
    buffer: wgpu::Buffer,
    bytes: Vec<u8>,
    alignment: usize,
}

impl Staged {
    fn new(device: &wgpu::Device, size: u64, usage: wgpu::BufferUsages, alignment: u32) -> Staged {
        let usage = usage | wgpu::BufferUsages::COPY_DST;
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        Staged {
            buffer: device.create_buffer(&descriptor),
            bytes: Vec::new(),
            alignment: alignment.max(4) as usize,
        }
    }
    fn fits(&self, bytes: usize) -> bool {
        self.bytes.len().next_multiple_of(self.alignment) + bytes.next_multiple_of(4)
            <= self.buffer.size() as usize
    }
    /// Adds bytes, which fit; gives where they are.
    fn add(&mut self, bytes: &[u8]) -> u64 {
        let at = self.bytes.len().next_multiple_of(self.alignment);
        self.bytes.resize(at, 0);
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize((at + bytes.len()).next_multiple_of(4), 0);
        at as u64
    }
    fn write(&mut self, queue: &wgpu::Queue) {
        if !self.bytes.is_empty() {
            queue.write_buffer(&self.buffer, 0, &self.bytes);
            self.bytes.clear();
        }
    }
}

/// What is recorded and not submitted.
struct Recording {
    encoder: wgpu::CommandEncoder,
    /// The pass that launches go to; none while copies are recorded.
    pass: Option<wgpu::ComputePass<'static>>,
    touched: Touched,
    launches: u32,
}

impl Recording {
    /// The encoder, with no pass open.
    fn encoder(&mut self) -> &mut wgpu::CommandEncoder {
        self.pass = None;
        &mut self.encoder
    }
    fn pass(&mut self) -> &mut wgpu::ComputePass<'static> {
        let encoder = &mut self.encoder;
        self.pass.get_or_insert_with(|| {
            encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()).forget_lifetime()
        })
    }
}

/// The device's queue.
pub struct Queue {
    recording: Option<Recording>,
    uniforms: Staged,
    args: Staged,
    /// The number of the last submission, and of the last that is done.
    last: u64,
    done: Arc<AtomicU64>,
    in_flight: VecDeque<(u64, wgpu::SubmissionIndex)>,
}

/// The first bytes of a slice.
fn touch(s: &Slice<'_, WebGpu>, len: u64, writes: bool) -> Touch {
    Touch { memory: s.memory.id, offset: s.offset, len, writes }
}

impl Queue {
    pub fn new(device: &wgpu::Device, limits: &wgpu::Limits) -> Queue {
        let (uniform, storage) =
            (limits.min_uniform_buffer_offset_alignment, limits.min_storage_buffer_offset_alignment);
        Queue {
            recording: None,
            uniforms: Staged::new(device, UNIFORM_BYTES, wgpu::BufferUsages::UNIFORM, uniform),
            args: Staged::new(device, ARG_BYTES, wgpu::BufferUsages::STORAGE, storage),
            last: 0,
            done: Arc::default(),
            in_flight: VecDeque::new(),
        }
    }
    /// The last submission that is known to be done.
    pub fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }
    /// How `wgpu` calls a submission that is not known to be done.
    pub fn index(&mut self, submission: u64) -> Option<wgpu::SubmissionIndex> {
        let done = self.done();
        while self.in_flight.front().is_some_and(|(n, _)| *n <= done) {
            self.in_flight.pop_front();
        }
        self.in_flight.iter().find(|(n, _)| *n == submission).map(|(_, index)| index.clone())
    }

    fn recording(&mut self, shared: &Shared) -> &mut Recording {
        self.recording.get_or_insert_with(|| Recording {
            encoder: shared.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default()),
            pass: None,
            touched: Touched::default(),
            launches: 0,
        })
    }

    /// Submits what was recorded; gives the number of the last submission.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`; `Unsupported` if something of it was not valid.
    pub fn submit(&mut self, shared: &Shared) -> Result<u64> {
        let Some(Recording { encoder, pass, .. }) = self.recording.take() else {
            shared.check()?;
            return Ok(self.last);
        };
        drop(pass);
        let number = self.last + 1;
        let index = shared.scoped("submitting work", || {
            self.uniforms.write(&shared.raw_queue);
            self.args.write(&shared.raw_queue);
            let index = shared.raw_queue.submit([encoder.finish()]);
            let done = self.done.clone();
            shared.raw_queue.on_submitted_work_done(move || {
                done.fetch_max(number, Relaxed);
            });
            index
        })?;
        self.last = number;
        self.in_flight.push_back((number, index));
        Ok(number)
    }

    /// Records a launch.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`, `InvalidArgument` if parameters do not fit the kernel.
    pub fn launch(
        &mut self,
        shared: &Arc<Shared>,
        kernel: &Pipeline,
        buffers: &[Slice<'_, WebGpu>],
        launch: &Launch,
        args: Option<&[u8]>,
    ) -> Result<()> {
        let uniforms = kernel.uniforms(launch)?;
        let reads = &kernel.layouts.reads;
        let given = buffers.len() + usize::from(args.is_some());
        assert_eq!(given, reads.len(), "{kernel:?} gets as many buffers as it has");
        let few_args = args.filter(|a| a.len() as u64 <= ARG_BYTES);
        if !self.uniforms.fits(uniforms.len()) || few_args.is_some_and(|a| !self.args.fits(a.len())) {
            self.submit(shared)?;
        }
        if !self.uniforms.fits(uniforms.len()) {
            return Err(Error::unsupported(format!(
                "webgpu: {kernel:?}: {} bytes of parameters",
                uniforms.len()
            )));
        }
        let copies = self.separate(shared, reads, buffers)?;
        let own = match args {
            Some(bytes) if few_args.is_none() => Some(self.argument_buffer(shared, bytes)?),
            Some(_) | None => None,
        };
        let at = self.uniforms.add(&uniforms);
        let size = |bytes: u64| NonZero::new(bytes.next_multiple_of(4));
        let bind = |buffer, offset, bytes| wgpu::BufferBinding { buffer, offset, size: size(bytes) };
        let mut bound: Vec<wgpu::BufferBinding<'_>> = Vec::with_capacity(given + 1);
        let args_at = few_args.map(|bytes| self.args.add(bytes));
        for (slice, copy) in buffers.iter().zip(&copies) {
            bound.push(match copy {
                Some(copy) => bind(&copy.buffer, 0, slice.len),
                None => bind(&slice.memory.buffer, slice.offset, slice.len),
            });
        }
        match (&own, few_args.zip(args_at)) {
            (Some(own), _) => bound.push(bind(own, 0, own.size())),
            (None, Some((bytes, at))) => bound.push(bind(&self.args.buffer, at, bytes.len() as u64)),
            (None, None) => {}
        }
        bound.push(bind(&self.uniforms.buffer, 0, uniforms.len() as u64));
        let entries: Vec<wgpu::BindGroupEntry<'_>> = (bound.into_iter().enumerate())
            .map(|(i, b)| wgpu::BindGroupEntry {
                binding: i as u32,
                resource: wgpu::BindingResource::Buffer(b),
            })
            .collect();
        let layout = &kernel.layouts.group;
        let group = wgpu::BindGroupDescriptor { label: None, layout, entries: &entries };
        let group = shared.device.create_bind_group(&group);
        let recording = self.recording(shared);
        for (slice, &read) in buffers.iter().zip(reads) {
            recording.touched.add(&touch(slice, slice.len, !read));
        }
        let [x, y, z] = launch.groups;
        let pass = recording.pass();
        pass.set_pipeline(&kernel.raw);
        pass.set_bind_group(0, &group, &[at as u32]);
        pass.dispatch_workgroups(x, y, z);
        recording.launches += 1;
        let recorded = recording.launches;
        let starving = recorded.is_multiple_of(EARLY_SUBMIT_LAUNCHES) && self.done() == self.last;
        if recorded >= MAX_BATCH_LAUNCHES || starving {
            self.submit(shared)?;
        }
        Ok(())
    }

    /// Copies what is read of buffers that are written by the same launch.
    fn separate(
        &mut self,
        shared: &Arc<Shared>,
        reads: &[bool],
        buffers: &[Slice<'_, WebGpu>],
    ) -> Result<Vec<Option<Memory>>> {
        let written = |id: u64| buffers.iter().zip(reads).any(|(b, &read)| !read && b.memory.id == id);
        let mut copies = Vec::with_capacity(buffers.len());
        for (slice, &read) in buffers.iter().zip(reads) {
            if !read || !written(slice.memory.id) {
                copies.push(None);
                continue;
            }
            let copy = Memory::new(shared, slice.len)?;
            let bytes = slice.len.next_multiple_of(4);
            let encoder = self.recording(shared).encoder();
            encoder.copy_buffer_to_buffer(&slice.memory.buffer, slice.offset, &copy.buffer, 0, bytes);
            copies.push(Some(copy));
        }
        Ok(copies)
    }
    /// A buffer with these bytes, that no work that is recorded touches.
    fn argument_buffer(&mut self, shared: &Shared, bytes: &[u8]) -> Result<wgpu::Buffer> {
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
        let buffer = memory::buffer(shared, bytes.len() as u64, usage)?;
        write(shared, &buffer, 0, bytes);
        Ok(buffer)
    }

    /// Writes bytes to memory.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn write(&mut self, shared: &Shared, to: Slice<'_, WebGpu>, bytes: &[u8]) -> Result<()> {
        let touched = touch(&to, bytes.len() as u64, true);
        if self.recording.as_ref().is_some_and(|r| r.touched.clashes(&touched)) {
            self.submit(shared)?;
        }
        shared.scoped("writing memory", || write(shared, &to.memory.buffer, to.offset, bytes))
    }
    /// Records a copy of as many bytes as the target has.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn copy(
        &mut self,
        shared: &Arc<Shared>,
        from: Slice<'_, WebGpu>,
        to: Slice<'_, WebGpu>,
    ) -> Result<()> {
        let bytes = to.len.next_multiple_of(4);
        // A buffer is not copied to itself.
        let between = match from.memory.id == to.memory.id {
            true => Some(Memory::new(shared, bytes)?),
            false => None,
        };
        let recording = self.recording(shared);
        recording.touched.add(&touch(&from, to.len, false));
        recording.touched.add(&touch(&to, to.len, true));
        let (mut source, mut at) = (&from.memory.buffer, from.offset);
        if let Some(between) = &between {
            recording.encoder().copy_buffer_to_buffer(source, at, &between.buffer, 0, bytes);
            (source, at) = (&between.buffer, 0);
        }
        recording.encoder().copy_buffer_to_buffer(source, at, &to.memory.buffer, to.offset, bytes);
        Ok(())
    }
    /// Copies whole words of memory to a buffer for reading, and submits.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn fetch(&mut self, shared: &Shared, from: Slice<'_, WebGpu>, to: &wgpu::Buffer) -> Result<u64> {
        let encoder = self.recording(shared).encoder();
        encoder.copy_buffer_to_buffer(&from.memory.buffer, from.offset, to, 0, from.len);
        self.submit(shared)
    }

    /// Notes the time at the beginning of a pass in which nothing is done.
    pub fn stamp(&mut self, shared: &Shared, set: &wgpu::QuerySet) {
        let writes = wgpu::ComputePassTimestampWrites {
            query_set: set,
            beginning_of_pass_write_index: Some(0),
            end_of_pass_write_index: None,
        };
        let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes: Some(writes) };
        drop(self.recording(shared).encoder().begin_compute_pass(&descriptor));
    }
    /// Writes a time to memory.
    pub fn resolve(&mut self, shared: &Shared, set: &wgpu::QuerySet, to: &Memory) {
        self.recording(shared).encoder().resolve_query_set(set, 0..1, &to.buffer, 0);
    }
}

/// Writes whole words; what is missing to the last one is 0.
fn write(shared: &Shared, to: &wgpu::Buffer, offset: u64, bytes: &[u8]) {
    let (words, rest) = bytes.split_at(bytes.len() / 4 * 4);
    if !words.is_empty() {
        shared.raw_queue.write_buffer(to, offset, words);
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        shared.raw_queue.write_buffer(to, offset + words.len() as u64, &last);
    }
}
