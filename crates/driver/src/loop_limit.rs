//! Devices that end loops after so many passes: launches of more, cut into several.
//!
//! How many passes a launch takes at most is computed from its numbers before it is made
//! ([`elinvar_kernel::loops`]). What the parts of a launch hand over is in memory that is taken
//! for it; if there is not enough, nothing was started.

use crate::{Driver, Slice};
use elinvar_core::{Error, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::interp::Launch;
use elinvar_kernel::loops::{Cut, Loops, NUMBERS_PER_LEVEL};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A kernel, ready to be started, and what is needed to cut its launches.
pub struct Limited<M> {
    /// The kernel, which takes whole launches.
    pub whole: M,
    name: String,
    /// Its loops, if it has some and the device ends them.
    loops: Option<Loops>,
    /// Kernels that take parts, by the loops that lead to the divided one.
    parts: Mutex<HashMap<Vec<usize>, Arc<Part<M>>>>,
}

struct Part<M> {
    module: M,
    checkpoint: elinvar_kernel::loops::Checkpoint,
}

impl<M> fmt::Debug for Limited<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", self.name)
    }
}

impl<M> Limited<M> {
    /// The compiled form of a kernel, for a device that ends loops after so many passes, if it
    /// does.
    pub fn new(kernel: &Kernel, whole: M, limit: Option<u64>) -> Limited<M> {
        let loops = limit.and_then(|_| Loops::of(kernel));
        Limited { whole, name: kernel.name.clone(), loops, parts: Mutex::default() }
    }
}

/// What a driver does with kernels that know of no limit. [`Driver`]'s methods are then those of
/// `cut_launches`.
pub trait Whole: Driver {
    /// A compiled kernel.
    type Compiled;
    /// # Errors
    /// As [`Driver::compile`].
    fn compile_whole(&self, kernel: &Kernel) -> Result<Self::Compiled>;
    /// [`Driver::read`], as a future that waits for nothing where the host may wait.
    ///
    /// # Errors
    /// As [`Driver::read`].
    fn fetch(&self, from: Slice<'_, Self>, bytes: &mut [u8]) -> impl Future<Output = Result<()>> {
        std::future::ready(self.read(from, bytes))
    }
    /// # Errors
    /// As [`Driver::launch`].
    fn launch_whole(
        &self,
        module: &Self::Compiled,
        buffers: &[Slice<'_, Self>],
        launch: &Launch,
        args: Option<&[u8]>,
    ) -> Result<()>;
}

/// `Driver::compile` and `Driver::launch` of a driver that implements [`Whole`].
macro_rules! cut_launches {
    () => {
        type Module = $crate::loop_limit::Limited<<Self as $crate::loop_limit::Whole>::Compiled>;

        fn compile(&self, kernel: &Kernel) -> Result<Self::Module> {
            let whole = $crate::loop_limit::Whole::compile_whole(self, kernel)?;
            Ok($crate::loop_limit::Limited::new(kernel, whole, self.info().max_loop_iterations))
        }
        fn launch(
            &self,
            module: &Self::Module,
            buffers: &[Slice<'_, Self>],
            launch: &Launch,
            args: Option<&[u8]>,
        ) -> Result<()> {
            $crate::loop_limit::launch(self, module, buffers, launch, args)
        }
    };
}
pub(crate) use cut_launches;

/// The launches that a cut one consists of, with the memory that they share. They may be made again
/// and again: what one hands over is written before it is read.
pub struct Parts<D: Whole> {
    part: Arc<Part<D::Compiled>>,
    launches: u64,
    /// The numbers of each launch, each at a multiple of `pitch`.
    numbers: D::Memory,
    pitch: u64,
    kept: D::Memory,
    kept_bytes: u64,
}

impl<D: Whole> Parts<D> {
    /// Gives each launch to `start`, in order: its kernel, and its buffers for those of the whole.
    ///
    /// # Errors
    /// Those of `start`.
    pub fn each(
        &self,
        buffers: &[Slice<'_, D>],
        mut start: impl FnMut(&D::Compiled, &[Slice<'_, D>]) -> Result<()>,
    ) -> Result<()> {
        let kept = Slice { memory: &self.kept, offset: 0, len: self.kept_bytes };
        for i in 0..self.launches {
            let own = Slice { memory: &self.numbers, offset: i * self.pitch, len: self.pitch };
            let bound: Vec<Slice<'_, D>> = [own, kept].into_iter().chain(buffers.iter().copied()).collect();
            start(&self.part.module, &bound)?;
        }
        Ok(())
    }
}

/// Starts a kernel, in as many launches as the device's limit asks for.
///
/// # Errors
/// As [`Driver::launch`]; `Unsupported` if it takes too many passes and cannot be cut.
pub fn launch<D: Whole>(
    device: &D,
    module: &Limited<D::Compiled>,
    buffers: &[Slice<'_, D>],
    launch: &Launch,
    args: Option<&[u8]>,
) -> Result<()> {
    match parts(device, module, launch, args)? {
        None => device.launch_whole(&module.whole, buffers, launch, args),
        Some(parts) => parts.each(buffers, |module, bound| device.launch_whole(module, bound, launch, args)),
    }
}

/// The launches that one has to be cut into; `None` if the device takes it as a whole.
///
/// # Errors
/// `OutOfMemory`, `DeviceLost`; `Unsupported` if it takes too many passes and cannot be cut.
pub fn parts<D: Whole>(
    device: &D,
    module: &Limited<D::Compiled>,
    launch: &Launch,
    args: Option<&[u8]>,
) -> Result<Option<Parts<D>>> {
    let (Some(limit), Some(loops)) = (device.info().max_loop_iterations, &module.loops) else {
        return Ok(None);
    };
    let counts = loops.counts(launch, args);
    let passes = loops.passes(&counts);
    if passes <= limit {
        return Ok(None);
    }
    let refused = |why: &str| {
        let (driver, name, device) = (D::NAME, &module.name, &device.info().name);
        let passes = if passes > u64::from(u32::MAX) { "any number of".into() } else { passes.to_string() };
        Error::unsupported(format!(
            "{driver}: {name}: loops of up to {passes} passes; {device} ends them after {limit}, and they cannot \
             be cut into launches of fewer: {why}"
        ))
    };
    let cut = loops.cut(launch, args, &counts, limit).map_err(|why| refused(&why))?;
    let part = part(device, module, loops, &cut, &refused)?;
    let words = part.checkpoint.kept(launch.groups);
    if words.saturating_mul(4) > device.info().largest || words > u64::from(u32::MAX) {
        return Err(refused(&format!("{words} words would have to be kept between them")));
    }
    // The numbers of each part, in one piece.
    let pitch = (cut.path.len() * NUMBERS_PER_LEVEL * 4) as u64;
    let pitch = pitch.next_multiple_of(device.info().alignment);
    let mut numbers = vec![0; (cut.launches() * pitch) as usize];
    for (all, place) in cut.numbers().zip(numbers.chunks_mut(pitch as usize)) {
        for (&n, place) in all.iter().flatten().zip(place.chunks_mut(4)) {
            // An iteration's number fits: `cut` has seen to it.
            place.copy_from_slice(&(n as u32).to_le_bytes());
        }
    }
    let all = device.allocate(numbers.len() as u64)?;
    let kept_bytes = (words * 4).max(4);
    let kept = device.allocate(kept_bytes)?;
    device.write(Slice { memory: &all, offset: 0, len: numbers.len() as u64 }, &numbers)?;
    Ok(Some(Parts { part, launches: cut.launches(), numbers: all, pitch, kept, kept_bytes }))
}

/// The kernel that takes the parts of a cut, compiled.
fn part<D: Whole>(
    device: &D,
    module: &Limited<D::Compiled>,
    loops: &Loops,
    cut: &Cut,
    refused: &dyn Fn(&str) -> Error,
) -> Result<Arc<Part<D::Compiled>>> {
    // Entries are whole: a panic elsewhere does not spoil them.
    let parts = || module.parts.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = parts().get(&cut.path) {
        return Ok(known.clone());
    }
    let checkpoint = loops.checkpoint(&cut.path).map_err(|why| refused(&why))?;
    let compiled = device.compile_whole(&checkpoint.kernel)?;
    let made = Arc::new(Part { module: compiled, checkpoint });
    Ok(parts().entry(cut.path.clone()).or_insert(made).clone())
}
