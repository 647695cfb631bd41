//! Runs launches: workgroups on the host's threads, each one warp after the other.
//!
//! What only one vendor has is in a file of its own: `matrix`, `groups` and `signal` NVIDIA's,
//! `wave` AMD's.

mod access;
mod compute;
mod groups;
mod matrix;
mod memory;
mod numbers;
mod shared;
mod signal;
pub mod tensor;
mod warp;
mod wave;

pub use memory::Memory;
pub(crate) use warp::{Stop, Warp};

use crate::program::{Program, Special};
use crate::sys::best;
use rayon::prelude::*;
use shared::SharedMemory;
use std::fmt;

/// Lanes of an NVIDIA warp.
pub(crate) const LANES: usize = 32;

/// A bit for each lane.
pub(crate) type Mask = u64;
/// The mask of this many lanes.
pub(crate) const fn full(lanes: usize) -> Mask {
    Mask::MAX >> (Mask::BITS as usize - lanes)
}

/// Threads of a launch from which on several host threads are used.
const SHARED_FROM: u64 = 4096;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An access outside of memory, a data race, or a read of uninitialised memory.
    Illegal,
    /// A misaligned access.
    Misaligned,
    /// The launch does not fit the program.
    Launch,
}

/// An error of a program or of its launch: a sentence with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// The message, with the location.
    pub what: String,
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, what: impl Into<String>) -> Fault {
        Fault { kind, what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
impl std::error::Error for Fault {}

/// The parameters of a launch.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Workgroups along x, y, z.
    pub groups: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic: u32,
    /// The block of parameters.
    pub params: Vec<u8>,
}

/// State shared by the warps of a workgroup.
pub(crate) struct Group<'a> {
    pub program: &'a Program,
    pub memory: &'a Memory,
    pub params: &'a [u8],
    pub shared: SharedMemory,
}

/// Runs a launch of a program; returns the number of instructions issued to its warps.
///
/// # Errors
/// The first [`Fault`].
pub fn run(program: &Program, launch: &Launch, memory: &Memory) -> Result<u64, Fault> {
    if launch.params.len() != program.param_bytes {
        return Err(Fault::new(
            FaultKind::Launch,
            format!(
                "{}: {} bytes of parameters, not {}",
                program.title(),
                launch.params.len(),
                program.param_bytes
            ),
        ));
    }
    if launch.dynamic > 0 && !program.dynamic {
        let what = format!(
            "{}: {} bytes of shared memory that it does not know of",
            program.title(),
            launch.dynamic
        );
        return Err(Fault::new(FaultKind::Launch, what));
    }
    match program.lanes {
        32 => run_waves::<32>(program, launch, memory),
        64 => run_waves::<64>(program, launch, memory),
        lanes => Err(Fault::new(FaultKind::Launch, format!("{}: warps of {lanes} lanes", program.title()))),
    }
}

fn run_waves<const L: usize>(program: &Program, launch: &Launch, memory: &Memory) -> Result<u64, Fault> {
    let [x, y, z] = launch.groups.map(u64::from);
    let count = x * y * z;
    let threads: u64 = program.group.iter().map(|&n| u64::from(n)).product();
    let place = |i: u64| [(i % x) as u32, (i / x % y) as u32, (i / x / y) as u32];
    let worker = || Worker::<L>::new(program, launch, memory);
    if count > 1 && count * threads >= SHARED_FROM {
        let all = (0..count).into_par_iter().map_init(worker, |w, i| w.group(place(i)));
        return all.try_reduce(|| 0, |a, b| Ok(a + b));
    }
    let mut worker = worker();
    (0..count).try_fold(0, |steps, i| Ok(steps + worker.group(place(i))?))
}

/// Runs workgroups, one after the other.
struct Worker<'a, const L: usize> {
    group: Group<'a>,
    warps: Vec<Warp<L>>,
}

impl<'a, const L: usize> Worker<'a, L> {
    fn new(program: &'a Program, launch: &'a Launch, memory: &'a Memory) -> Worker<'a, L> {
        let threads = program.group.iter().product::<u32>() as usize;
        let mut warps: Vec<Warp<L>> = (0..threads.div_ceil(L))
            .map(|number| Warp::new(program, number, threads - number * L, &launch.params))
            .collect();
        for warp in &mut warps {
            for &(column, special) in &program.specials {
                if let Special::Groups(axis) = special {
                    warp.narrow[column as usize] = [launch.groups[usize::from(axis)]; L];
                }
            }
        }
        let shared = SharedMemory::new(program.shared + launch.dynamic as usize, program.granule);
        Worker { group: Group { program, memory, params: &launch.params, shared }, warps }
    }

    fn group(&mut self, id: [u32; 3]) -> Result<u64, Fault> {
        let program = self.group.program;
        self.group.shared.begin();
        for warp in &mut self.warps {
            warp.begin();
            for &(column, special) in &program.specials {
                if let Special::Group(axis) = special {
                    warp.narrow[column as usize] = [id[usize::from(axis)]; L];
                }
            }
        }
        let mut stops = vec![None; self.warps.len()];
        loop {
            let events = self.group.shared.signals.events;
            for (number, (warp, stop)) in self.warps.iter_mut().zip(&mut stops).enumerate() {
                if matches!(stop, None | Some(Stop::Signal)) {
                    let now = best::step(warp, &mut self.group);
                    *stop = Some(now.map_err(|f| placed(f, program, warp, number, id))?);
                }
            }
            let wrong = |number: usize, what: &str| {
                Err(placed(Fault::new(FaultKind::Illegal, what), program, &self.warps[number], number, id))
            };
            if let Some(waits) = stops.iter().position(|s| *s == Some(Stop::Signal)) {
                if self.group.shared.signals.events == events {
                    return wrong(waits, "a warp waits for a barrier in memory that is never completed");
                }
                continue;
            }
            if let Some(other) = stops.iter().position(|s| *s != stops[0]) {
                return wrong(other, "threads of a workgroup wait at different places");
            }
            let begun = |w: &Warp<L>| w.products.begun;
            let four = |w: &[Warp<L>]| {
                w.iter().any(|warp| begun(warp) != begun(&w[0]) || (w.len() < 4 && begun(warp) > 0))
            };
            if let Some(group) = self.warps.chunks(4).position(four) {
                return wrong(4 * group, "products that a part of four warps begins");
            }
            match stops[0] {
                None | Some(Stop::Signal) => unreachable!("all warps have stopped, and not for that"),
                Some(Stop::Done) => {
                    let last = self.group.shared.no_flights();
                    last.map_err(|f| placed(f, program, &self.warps[0], 0, id))?;
                    return Ok(self.warps.iter().map(|w| w.steps).sum());
                }
                Some(Stop::Barrier(_)) => {
                    self.group.shared.barrier();
                    stops.fill(None);
                }
            }
        }
    }
}

/// A fault with its location: kernel, workgroup, warp, line.
fn placed<const L: usize>(f: Fault, program: &Program, warp: &Warp<L>, number: usize, id: [u32; 3]) -> Fault {
    let (line, text) = program.line(warp.at());
    let [x, y, z] = id;
    Fault {
        what: format!(
            "{}: {} (workgroup {x} {y} {z}, warp {number}, line {}: {text})",
            program.title(),
            f.what,
            line + 1
        ),
        ..f
    }
}
