//! Loops: how many passes they take at most, and launches that take a part of them.
//!
//! Some devices end the loops of an invocation after so many passes, without a word (llvmpipe after
//! 65,535 in all). For them the passes of a launch are bounded before it is made ([`Loops`], by
//! interval arithmetic over the launch's numbers), and a launch of more is cut: a kernel made anew
//! takes some iterations of one loop, and keeps in memory what the loop carries ([`checkpoint`]).
//! Iterations stay in their order, so the bits do too.
//!
//! A loop of n iterations counts n + 1 passes: the last one finds that there is no more to do. A
//! device whose invocations run in step goes through the rest of that pass with none of them, and
//! so once through each loop in it; the same goes for a branch that no invocation takes.
//!
//! How it can be wrong: a bound that is too small. What is not understood is bounded by its type
//! alone; that kernels clamp what they load (`end.min(n)`) is how they say more.

mod checkpoint;
mod range;

pub use checkpoint::{Checkpoint, NUMBERS_PER_LEVEL, checkpoint};

use crate::interp::Launch;
use crate::ir::{Kernel, Op, Region, Scalar, Value};
use crate::pass;
use range::Ranges;

/// Launches that one is cut into, at most: what takes more is not bounded by what it does.
const MAX_PARTS: u64 = 1 << 16;

/// The loops of a kernel.
#[derive(Clone, Debug)]
pub struct Loops {
    /// The kernel, with equal values computed once, so that bounds that share a part are seen to.
    kernel: Kernel,
    nodes: Vec<Node>,
    /// Those that are in no other.
    roots: Vec<usize>,
    defs: range::Definitions,
}

/// A loop; its number is its place among the loops of the kernel, those inside of it after it.
#[derive(Clone, Debug)]
struct Node {
    bounds: [Value; 3],
    inner: Vec<usize>,
}

/// How a launch is cut: which iterations of which loop each part takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The numbers of loops, from one that is in no other to the one whose iterations are divided;
    /// of those around it, a part takes one iteration.
    pub path: Vec<usize>,
    /// Iterations of each, at most.
    pub counts: Vec<u64>,
    /// Iterations of the last that a part takes.
    pub each: u64,
}

impl Cut {
    /// How many launches there are; the largest number if there are more.
    pub fn launches(&self) -> u64 {
        let (last, outer) = self.counts.split_last().expect("a path has a loop");
        outer.iter().fold(last.div_ceil(self.each), |n, &c| n.saturating_mul(c))
    }
    /// The numbers of each launch, in their order: for each loop of the path where it begins, where
    /// it ends, and whether it and those inside of it are done then.
    pub fn numbers(&self) -> impl Iterator<Item = Vec<[u64; NUMBERS_PER_LEVEL]>> {
        let (&last, outer) = self.counts.split_last().expect("a path has a loop");
        let parts = last.div_ceil(self.each);
        (0..self.launches()).map(move |launch| {
            let begin = launch % parts * self.each;
            let end = last.min(begin + self.each);
            let mut done = end == last;
            let mut all = vec![[begin, end, u64::from(done)]];
            let mut rest = launch / parts;
            for &count in outer.iter().rev() {
                let at = rest % count;
                rest /= count;
                done &= at + 1 == count;
                all.push([at, at + 1, u64::from(done)]);
            }
            all.reverse();
            all
        })
    }
}

impl Loops {
    /// The loops of a valid kernel; `None` if it has none.
    pub fn of(kernel: &Kernel) -> Option<Loops> {
        let mut kernel = kernel.clone();
        pass::optimize(&mut kernel);
        let mut nodes = Vec::new();
        let roots = nodes_of(&kernel.body, &mut nodes);
        let defs = range::Definitions::of(&kernel);
        (!nodes.is_empty()).then_some(Loops { kernel, nodes, roots, defs })
    }

    /// Iterations of each loop in one pass of the loop around it, at most, in a launch with these
    /// numbers; `args` are the bytes of the kernel's last buffer, if the launch brings it.
    pub fn counts(&self, launch: &Launch, args: Option<&[u8]>) -> Vec<u64> {
        let mut ranges = Ranges::new(&self.kernel, &self.defs, launch, args);
        self.nodes.iter().map(|n| ranges.iterations(n.bounds)).collect()
    }

    /// Passes of an invocation, from the iterations of each loop, at most.
    pub fn passes(&self, counts: &[u64]) -> u64 {
        self.roots.iter().fold(0, |n: u64, &l| n.saturating_add(self.of_loop(l, counts)))
    }
    fn of_loop(&self, l: usize, counts: &[u64]) -> u64 {
        counts[l].saturating_mul(self.of_iteration(l, counts)).saturating_add(self.of_exit(l))
    }
    fn of_exit(&self, l: usize) -> u64 {
        1 + self.nodes[l].inner.iter().map(|&i| self.of_exit(i)).sum::<u64>()
    }
    fn of_iteration(&self, l: usize, counts: &[u64]) -> u64 {
        self.nodes[l].inner.iter().fold(1, |n: u64, &i| n.saturating_add(self.of_loop(i, counts)))
    }

    /// How a launch of more passes than `limit` is cut, so that no part has more.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn cut(
        &self,
        launch: &Launch,
        args: Option<&[u8]>,
        counts: &[u64],
        limit: u64,
    ) -> Result<Cut, String> {
        let (mut path, mut level): (Vec<usize>, &[usize]) = (Vec::new(), &self.roots);
        let invocations = u64::from(self.kernel.invocations());
        // What is shared is cleared, brought back and kept.
        let shared = self.kernel.shared.iter().map(|s| 3 * (u64::from(s.len).div_ceil(invocations) + 1));
        let shared: u64 = shared.sum();
        loop {
            let Some(&next) = level.iter().max_by_key(|&&l| self.of_loop(l, counts)) else {
                return Err("an iteration of the innermost loop takes more".into());
            };
            path.push(next);
            let mut some = counts.to_vec();
            path.iter().for_each(|&l| some[l] = some[l].min(1));
            some[next] = 0;
            let fixed = self.passes(&some).saturating_add(shared);
            let each = limit.saturating_sub(fixed) / self.of_iteration(next, counts);
            if each > 0 {
                let counts: Vec<u64> = path.iter().map(|&l| counts[l]).collect();
                let cut = Cut { path, counts, each };
                if cut.launches() > MAX_PARTS {
                    return Err(format!("there would be {} launches", cut.launches()));
                }
                self.fits(launch, args, &cut)?;
                return Ok(cut);
            }
            path.iter().for_each(|&l| some[l] = 0);
            if self.passes(&some) >= limit {
                return Err("several loops, one after the other, take more".into());
            }
            level = &self.nodes[next].inner;
        }
    }
    /// Do the numbers of a cut fit the indices of its loops?
    fn fits(&self, launch: &Launch, args: Option<&[u8]>, cut: &Cut) -> Result<(), String> {
        let mut ranges = Ranges::new(&self.kernel, &self.defs, launch, args);
        for (&l, &count) in cut.path.iter().zip(&cut.counts) {
            let [start, _, step] = self.nodes[l].bounds;
            let step = ranges.highest(step).unsigned_abs();
            let most = match self.kernel.ty(start).scalar() {
                Some(Scalar::I64 | Scalar::U64) => i64::MAX as u128,
                _ => i32::MAX as u128,
            };
            if count > u64::from(u32::MAX) || u128::from(count) * step > most {
                return Err("how many it takes depends on what is in memory".into());
            }
        }
        Ok(())
    }

    /// The kernel whose launches are the parts of a cut.
    ///
    /// # Errors
    /// Why there is none.
    pub fn checkpoint(&self, path: &[usize]) -> Result<Checkpoint, String> {
        checkpoint(&self.kernel, path)
    }
}

/// The loops of a region that are in no other of it; all that they hold go to `nodes`.
fn nodes_of(r: &Region, nodes: &mut Vec<Node>) -> Vec<usize> {
    let mut all = Vec::new();
    for inst in &r.insts {
        match &inst.op {
            Op::For { start, end, step, body, .. } => {
                let number = nodes.len();
                nodes.push(Node { bounds: [*start, *end, *step], inner: Vec::new() });
                nodes[number].inner = nodes_of(body, nodes);
                all.push(number);
            }
            Op::If(_, then, other) => {
                // Neighbours that run in step take both ways, one after the other.
                all.extend(nodes_of(then, nodes));
                all.extend(nodes_of(other, nodes));
            }
            _ => {}
        }
    }
    all
}
