//! A warp (a wave, in AMD's words): 32 or 64 lanes that execute in step while they are at the same
//! instruction.
//!
//! Where lanes diverge, each part is a path with its own program counter. The path that is furthest
//! behind runs first, and paths that meet at a label merge; so lanes that diverge in a branch or a
//! loop reconverge after it. Barriers and shuffles are errors unless all live lanes have reached
//! them.

use super::access::lanes;
use super::groups::Products;
use super::matrix::Copies;
use super::{Fault, FaultKind, Group, Mask, full};
use crate::inst::Inst;
use crate::program::{Program, Special};

/// Why a warp stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All lanes have ended.
    Done,
    /// All lanes wait at this instruction.
    Barrier(usize),
    /// Lanes wait for a phase of an mbarrier.
    Signal,
}

/// Lanes at a program counter.
#[derive(Clone, Copy, Debug)]
struct Path {
    at: usize,
    mask: Mask,
}

pub(crate) struct Warp<const L: usize> {
    pub narrow: Vec<[u32; L]>,
    pub wide: Vec<[u64; L]>,
    /// A bit for each lane.
    pub predicates: Vec<Mask>,
    here: Path,
    others: Vec<Path>,
    /// Lanes that have not exited.
    live: Mask,
    all: Mask,
    /// Instructions executed.
    pub steps: u64,
    /// The thread index of lane 0 in its workgroup.
    pub first: u16,
    pub copies: Copies,
    pub products: Products,
    /// Are f64 products added from the last term to the first?
    pub backwards: bool,
    /// Does a float that does not fit an integer give any number?
    pub open: bool,
}

impl<const L: usize> Warp<L> {
    /// A warp of a workgroup, by index; `threads` is the size of the workgroup.
    pub fn new(program: &Program, number: usize, threads: usize, params: &[u8]) -> Warp<L> {
        let all = full(threads.min(L));
        let mut warp = Warp {
            narrow: vec![[0xdead_beef; L]; program.narrow],
            wide: vec![[0xdead_beef_dead_beef; L]; program.wide],
            predicates: vec![0x5555_5555_5555_5555 & full(L); program.predicates],
            here: Path { at: 0, mask: all },
            others: Vec::new(),
            live: all,
            all,
            steps: 0,
            first: (number * L) as u16,
            copies: Copies::default(),
            products: Products::default(),
            backwards: program.backwards,
            open: program.open_conversions,
        };
        for &(column, bits) in &program.constants32 {
            warp.narrow[column as usize] = [bits; L];
        }
        for &(column, bits) in &program.constants64 {
            warp.wide[column as usize] = [bits; L];
        }
        for &(column, value) in &program.constants1 {
            warp.predicates[column as usize] = if value { full(L) } else { 0 };
        }
        for p in &program.params {
            let mut bytes = [0; 8];
            bytes[..p.size].copy_from_slice(&params[p.offset..p.offset + p.size]);
            let bits = u64::from_le_bytes(bytes);
            match p.size {
                8 => warp.wide[p.column as usize] = [bits; L],
                _ => warp.narrow[p.column as usize] = [bits as u32; L],
            }
        }
        let [x, y, _] = program.group;
        for &(column, special) in &program.specials {
            let value = |lane: usize| {
                let thread = (number * L + lane) as u32;
                match special {
                    Special::Thread(0) => thread % x,
                    Special::Thread(1) => thread / x % y,
                    Special::Thread(_) => thread / x / y,
                    Special::Threads(axis) => program.group[usize::from(axis)],
                    Special::Lane => lane as u32,
                    // Set when a workgroup starts.
                    Special::Group(_) | Special::Groups(_) => 0,
                }
            };
            warp.narrow[column as usize] = std::array::from_fn(value);
        }
        warp
    }
    /// Resets to the first instruction.
    pub fn begin(&mut self) {
        self.here = Path { at: 0, mask: self.all };
        self.others.clear();
        self.live = self.all;
        self.steps = 0;
        self.copies = Copies::default();
        self.products = Products::default();
    }
    /// The current instruction.
    pub fn at(&self) -> usize {
        self.here.at
    }
    /// The active lanes.
    pub fn mask(&self) -> Mask {
        self.here.mask
    }
    /// Have all live lanes reached this instruction?
    pub fn together(&self, what: &str) -> Result<(), Fault> {
        if self.here.mask == self.live {
            return Ok(());
        }
        let why =
            format!("{what} that a part of the lanes reaches ({:x} of {:x})", self.here.mask, self.live);
        Err(Fault::new(FaultKind::Illegal, why))
    }

    /// Continues with the path that is furthest behind, merged with all paths at its program
    /// counter.
    fn pick(&mut self) {
        let Some(at) = self.others.iter().map(|p| p.at).min() else { return };
        self.here = Path { at, mask: 0 };
        let here = &mut self.here;
        self.others.retain(|p| {
            if p.at == at {
                here.mask |= p.mask;
            }
            p.at != at
        });
    }

    /// Runs until all lanes wait or have exited.
    #[inline(always)]
    pub fn run(&mut self, group: &mut Group<'_>) -> Result<Stop, Fault> {
        let program = group.program;
        loop {
            self.steps += 1;
            match program.insts[self.here.at] {
                Inst::Join => {
                    if !self.others.is_empty() {
                        let at = self.here.at;
                        self.others.push(self.here);
                        self.pick();
                        if self.here.at != at {
                            continue;
                        }
                    }
                    self.here.at += 1;
                }
                Inst::Branch { to, guard } => {
                    let Path { at, mask } = self.here;
                    let taken = match guard {
                        None => mask,
                        Some((p, true)) => mask & self.predicates[p as usize],
                        Some((p, false)) => mask & !self.predicates[p as usize],
                    };
                    let to = to as usize;
                    if taken == 0 {
                        self.here.at += 1;
                        continue;
                    }
                    if taken == mask && self.others.is_empty() {
                        self.here.at = to;
                        continue;
                    }
                    if taken != mask {
                        self.others.push(Path { at: at + 1, mask: mask & !taken });
                    }
                    self.others.push(Path { at: to, mask: taken });
                    self.pick();
                }
                Inst::Return => {
                    self.live &= !self.here.mask;
                    if self.live == 0 {
                        self.no_products()?;
                        return Ok(Stop::Done);
                    }
                    self.pick();
                }
                Inst::Barrier => {
                    self.together("a barrier")?;
                    self.here.at += 1;
                    return Ok(Stop::Barrier(self.here.at));
                }
                Inst::SignalWait { to, at, parity } => {
                    let mut over = full(L);
                    for lane in lanes(self.mask()) {
                        let [at, parity] = [at, parity].map(|c| self.narrow[c as usize][lane]);
                        if !group.shared.is_over(at, parity, self.first + lane as u16)? {
                            over &= !(1 << lane);
                        }
                    }
                    if over & self.mask() == 0 {
                        // Polling again gives the same result until another warp has run.
                        return Ok(Stop::Signal);
                    }
                    let (mask, to) = (self.mask(), &mut self.predicates[to as usize]);
                    *to = *to & !mask | over & mask;
                    self.here.at += 1;
                }
                inst => {
                    self.one(inst, group)?;
                    self.here.at += 1;
                }
            }
        }
    }
}
