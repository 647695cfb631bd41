//! Metal: the GPUs of Apple's systems.
//!
//! A kernel is emitted as MSL for this very device: what its arithmetic does not do exactly, as
//! probed when it is opened, is built from what it does. Compiled kernels are kept as binary
//! archives.
//!
//! Memory is the processor's, too: what the host writes and reads, it writes and reads in place
//! where no work that is under way is in the way. Devices with memory of their own (cards in Macs
//! with Intel's processors) are refused.
//!
//! Everything but the calls of Metal themselves is compiled and tested on all systems: there, those
//! calls are a stand-in (`sys/emulated`).

mod sys;
#[cfg(test)]
mod tests;

pub use sys::{Memory, PinnedMemory, Timestamp, Transfer};

use crate::loop_limit::{Whole, cut_launches};
use crate::{Driver, Info, Kind, Slice, VendorGemm, one_queue, pinned_transfers, probe, shared_queue};
use elinvar_core::ready::ready;
use elinvar_core::{Error, ErrorKind, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::msl::{self, MslTarget};
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::{Elem, MmaShape};
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use sys::{Pipeline, Shared, Traits};

/// Buffers of a kernel: of 31, one holds the parameters.
const BUFFERS: u32 = 30;
/// Buffers in the constant address space begin at such places on all of Apple's systems; vectors of
/// kernels need 16.
const ALIGNMENT: u64 = 256;
/// Lanes of a SIMD-group of Apple's GPUs, and of kernels for others, which exchange numbers through
/// threadgroup memory.
const LANES: u32 = 32;
/// The version of the language, times 100, without which kernels are not emitted.
const OLDEST_LANGUAGE: u32 = 300;
/// The version with bf16.
const BF16_LANGUAGE: u32 = 310;

/// An opened Metal device.
pub struct Metal {
    shared: Arc<Shared>,
    info: Info,
    target: MslTarget,
}

/// A place in the queue: the submission that has everything before it.
#[derive(Debug)]
pub struct Event(u64);

impl Metal {
    /// What kernels are emitted for: the device's limits, and its arithmetic as it was probed.
    pub fn target(&self) -> &MslTarget {
        &self.target
    }
    /// The text of a kernel for this device.
    ///
    /// # Errors
    /// `Unsupported` if the kernel needs what the device lacks; the sentence says what.
    pub fn msl(&self, kernel: &Kernel) -> Result<String> {
        crate::requirements::check(Self::NAME, self.info(), kernel)?;
        msl::emit(kernel, &self.target)
            .map_err(|e| Error::unsupported(format!("metal: {e} ({})", self.info.name)))
    }

    /// What the device was found to do, as far as kernels depend on it.
    fn probe(&mut self) -> Result<()> {
        if self.target.subgroup.is_some() && !ready(probe::lanes_are_neighbours(self, LANES))? {
            self.target = MslTarget { subgroup: None, matrices: false, ..self.target };
            self.info.mma_shapes.clear();
        }
        let found = ready(probe::arithmetic(self))?;
        self.target = MslTarget {
            division: found.division[0],
            square_root: found.square_root[0],
            adds_subnormals: found.adds_subnormals[0],
            fuses_subnormals: found.fuses_subnormals[0],
            rounds_subnormals: found.rounds_subnormals[0],
            compares_subnormals: found.compares_subnormals[0],
            halves: ready(probe::halves(self))?,
            contracts: ready(probe::contracts(self))?,
            ..self.target
        };
        // What is built is long, and Metal's compiler puts it in place wherever it is called.
        self.info.short = !(self.target.adds_subnormals && self.target.fuses_subnormals);
        let lacks = |what: &str| Err(Error::unsupported(format!("metal: {}: {what}", self.info.name)));
        if !found.fused {
            return lacks("its multiply-add rounds twice");
        }
        if !found.keeps_zeros {
            return lacks("its sums lose the sign of zero");
        }
        // What is wrong though it is disguised, is not contracted but rounded in another way.
        if self.target.contracts && ready(probe::contracts(self))? {
            return lacks("its sums and products are not rounded one by one to nearest even");
        }
        Ok(())
    }
}

/// What is told of a device that is not opened.
fn info(t: &Traits) -> Info {
    let shape = |elem, terms| MmaShape { elem, shape: [16, 16, terms] };
    let mut mma_shapes = Vec::new();
    if t.simd_groups {
        mma_shapes.extend([shape(Elem::F16, 16), shape(Elem::F32, 8)]);
        mma_shapes.extend((t.language >= BF16_LANGUAGE).then(|| shape(Elem::BF16, 16)));
    }
    Info {
        name: t.name.clone(),
        kind: if t.unified { Kind::Integrated } else { Kind::Discrete },
        driver: format!("Metal, MSL {}.{}, {}", t.language / 100, t.language / 10 % 10, t.system),
        memory: (t.memory > 0).then_some(t.memory),
        largest: t.largest / ALIGNMENT * ALIGNMENT,
        alignment: ALIGNMENT,
        subgroup: [LANES; 2],
        // Metal does not tell.
        compute_units: None,
        shared: t.shared,
        invocations: t.invocations,
        buffers: BUFFERS,
        f64: false,
        i64: true,
        half: true,
        bytes: true,
        suballocates: true,
        // The language knows of none, and Apple of none but the time that a command buffer takes.
        max_loop_iterations: None,
        short: false,
        cp_async: false,
        queues: false,
        tma: false,
        mma_shapes,
    }
}

/// Can kernels run on it at all?
fn check(t: &Traits) -> Result<()> {
    let lacks = |what: &str| Err(Error::unsupported(format!("metal: {}: {what}", t.name)));
    if !t.unified {
        return lacks(
            "a card with memory of its own, and this driver is for GPUs that share the processor's",
        );
    }
    if t.language < OLDEST_LANGUAGE {
        return lacks(&format!(
            "MSL 3.0 is needed, which comes with macOS 13 and iOS 16; this is {}",
            t.system
        ));
    }
    Ok(())
}

/// What kernels are emitted for until the device is probed: for arithmetic that lacks nothing.
fn target(t: &Traits) -> MslTarget {
    MslTarget {
        language: t.language,
        subgroup: t.simd_groups.then_some(LANES),
        matrices: t.simd_groups,
        buffers: BUFFERS,
        shared: t.shared,
        invocations: t.invocations,
        ..MslTarget::EXACT
    }
}

impl fmt::Debug for Metal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metal({})", self.info().name)
    }
}

impl Drop for Metal {
    fn drop(&mut self) {
        // What was given to it is done when its memory is gone.
        drop(self.shared.wait());
    }
}

/// The devices of this machine.
///
/// # Errors
/// `DriverMissing` if there is none.
fn all() -> Result<Vec<(sys::Device, Traits)>> {
    let all = sys::devices();
    if all.is_empty() {
        return Err(Error::new(
            ErrorKind::DriverMissing,
            "metal: this system has no Metal device; in a virtual machine, it has to be given one",
        ));
    }
    Ok(all)
}

impl Driver for Metal {
    const NAME: &'static str = "metal";
    type Memory = Memory;
    type Timestamp = Timestamp;
    // Launches are recorded into command buffers anyway, many into one.
    type Graph = Infallible;
    type Event = Event;
    type Pinned = PinnedMemory;
    type Transfer = Transfer;

    cut_launches!();
    one_queue!();
    shared_queue!();
    pinned_transfers!();

    fn list() -> Result<Vec<Info>> {
        Ok(all()?.iter().map(|(_, t)| info(t)).collect())
    }
    fn open(number: usize) -> Result<Metal> {
        let (device, traits) = crate::numbered(Self::NAME, all()?, number)?;
        check(&traits)?;
        let (info, target) = (info(&traits), target(&traits));
        let mut device = Metal { shared: Shared::open(device, traits)?, info, target };
        device.probe()?;
        Ok(device)
    }
    fn record(&self) -> Result<Event> {
        self.shared.submit().map(Event)
    }
}

impl Whole for Metal {
    type Compiled = Pipeline;
    fn compile_whole(&self, kernel: &Kernel) -> Result<Pipeline> {
        Pipeline::new(&self.shared, kernel, &self.msl(kernel)?, self.target.subgroup)
    }
    fn launch_whole(
        &self,
        module: &Pipeline,
        buffers: &[Slice<'_, Self>],
        launch: &Launch,
        args: Option<&[u8]>,
    ) -> Result<()> {
        self.shared.queue().launch(&self.shared, module, buffers, launch, args)
    }
}
