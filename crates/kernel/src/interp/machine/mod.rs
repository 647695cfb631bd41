//! The interpreter's machine: one workgroup, all invocations in lockstep.
//!
//! `compute`: arithmetic. `access`: memory. `async_copy`: cp.async. `tma_wgmma`: TMA loads and
//! wgmma. `collective`: barriers, shuffles, fragments.

mod access;
mod async_copy;
mod collective;
mod compute;
mod tma_wgmma;

use super::race::{AccessHistory, FRESH};
use super::{Fault, Launch, Memory, Quirks};
use crate::arith;
use crate::ir::{Binary, Inst, Kernel, Op, Region, Scalar, Type, Value};

/// What went wrong, and for which invocation.
struct Problem {
    lane: usize,
    what: String,
}

type Checked = Result<(), Problem>;

pub struct Machine<'a> {
    kernel: &'a Kernel,
    launch: &'a Launch,
    lacks: Quirks,
    buffers: &'a mut [Memory],
    traces: Vec<Vec<AccessHistory>>,
    shared: Vec<Memory>,
    shared_traces: Vec<Vec<AccessHistory>>,
    /// The numbers of each value: those of an invocation side by side, invocation after invocation.
    /// Fragments: those of a subgroup, row-major.
    slots: Vec<Vec<u64>>,
    /// Invocations of a workgroup.
    n: usize,
    group: [u32; 3],
    group_number: u32,
    epoch: u32,
    /// Passes that loops of the workgroup took.
    passes: u64,
    cp_async: async_copy::CpAsyncState,
    tma: tma_wgmma::TmaWgmmaState,
}

impl<'a> Machine<'a> {
    pub fn new(kernel: &'a Kernel, launch: &'a Launch, buffers: &'a mut [Memory], lacks: Quirks) -> Self {
        let traces = (buffers.iter().zip(&kernel.buffers))
            .map(|(m, b)| if b.access.writes() { vec![FRESH; m.cells.len()] } else { Vec::new() })
            .collect();
        Machine {
            kernel,
            launch,
            lacks,
            buffers,
            traces,
            shared: kernel.shared.iter().map(|s| Memory::zeros(s.elem, s.len as usize)).collect(),
            shared_traces: Vec::new(),
            slots: vec![Vec::new(); kernel.values.len()],
            n: kernel.invocations() as usize,
            group: [0; 3],
            group_number: 0,
            epoch: 0,
            passes: 0,
            cp_async: async_copy::CpAsyncState::default(),
            tma: tma_wgmma::TmaWgmmaState::default(),
        }
    }

    pub fn run(mut self) -> Result<(), Fault> {
        let all: Vec<usize> = (0..self.n).collect();
        let [x, y, z] = self.launch.groups;
        for gz in 0..z {
            for gy in 0..y {
                for gx in 0..x {
                    self.group = [gx, gy, gz];
                    self.epoch = 0;
                    self.passes = 0;
                    self.shared_traces = self.shared.iter().map(|s| vec![FRESH; s.cells.len()]).collect();
                    let kernel = self.kernel;
                    self.tma = tma_wgmma::TmaWgmmaState::new(kernel.mbarriers as usize, kernel.values.len());
                    self.region(&kernel.body, &all)?;
                    self.no_copies()?;
                    self.no_tma_pending()?;
                    self.group_number += 1;
                }
            }
        }
        Ok(())
    }

    fn region(&mut self, r: &Region, active: &[usize]) -> Result<(), Fault> {
        for inst in &r.insts {
            inst.results.iter().try_for_each(|&v| self.tma.is_free(v)).map_err(|p| self.fault(inst, &p))?;
            match &inst.op {
                Op::If(cond, then, other) => {
                    let mask = std::mem::take(&mut self.slots[cond.0 as usize]);
                    let (yes, no): (Vec<usize>, Vec<usize>) = active.iter().partition(|&&l| mask[l] != 0);
                    self.slots[cond.0 as usize] = mask;
                    for (lanes, region) in [(yes, then), (no, other)] {
                        if lanes.is_empty() {
                            self.pass_by(region);
                        } else {
                            self.region(region, &lanes)?;
                            let yields = region.yields.iter();
                            yields
                                .copied()
                                .try_for_each(|v| self.is_done(v))
                                .map_err(|p| self.fault(inst, &p))?;
                            self.hand_over(&region.yields, &inst.results, &lanes);
                        }
                    }
                }
                Op::For { start, end, step, init, body } => {
                    self.repeat(inst, [*start, *end, *step], init, body, active)?;
                }
                _ => self.inst(inst, active).map_err(|p| self.fault(inst, &p))?,
            }
        }
        Ok(())
    }

    fn fault(&self, inst: &Inst, p: &Problem) -> Fault {
        let [x, y, z] = self.group;
        let text = crate::text::print_inst(self.kernel, inst);
        let name = &self.kernel.name;
        Fault(format!(
            "{name}: workgroup ({x}, {y}, {z}), invocation {}, at `{}`: {}",
            p.lane,
            text.trim(),
            p.what
        ))
    }

    /// Numbers per invocation of a value.
    fn width(&self, v: Value) -> usize {
        usize::from(self.kernel.ty(v).width())
    }
    fn scalar(&self, v: Value) -> Scalar {
        self.kernel.ty(v).scalar().expect("the verifier has seen to it")
    }
    fn subgroup(&self) -> usize {
        self.kernel.subgroup.expect("the verifier has seen to it") as usize
    }

    /// Copies values for some invocations, all at once.
    fn hand_over(&mut self, from: &[Value], to: &[Value], lanes: &[usize]) {
        self.tma.hand_over(from, to);
        // What is changed before it is read is read first. Loops rarely exchange their numbers.
        let mut saved = Vec::new();
        for (i, &t) in to.iter().enumerate() {
            if from[i + 1..].contains(&t) {
                saved.push((t, self.slot(t).to_vec()));
            }
        }
        for (&f, &t) in from.iter().zip(to) {
            if f == t {
                continue;
            }
            let mut out = std::mem::take(&mut self.slots[t.0 as usize]);
            let x = saved.iter().find(|(v, _)| *v == f).map_or_else(|| self.slot(f), |(_, x)| x);
            match self.kernel.ty(t) {
                // Only uniform code has fragments, so all of it is handed over.
                Type::Fragment(_) => {
                    out.clear();
                    out.extend_from_slice(x);
                }
                Type::Vector(_, w) => {
                    let w = usize::from(w);
                    out.resize(self.n * w, 0);
                    if lanes.len() == self.n {
                        out.copy_from_slice(x);
                    } else {
                        for &l in lanes {
                            out[l * w..(l + 1) * w].copy_from_slice(&x[l * w..(l + 1) * w]);
                        }
                    }
                }
            }
            self.put(t, out);
        }
    }

    fn repeat(
        &mut self,
        inst: &Inst,
        [start, end, step]: [Value; 3],
        init: &[Value],
        body: &Region,
        active: &[usize],
    ) -> Result<(), Fault> {
        let s = self.scalar(start);
        let less = arith::compare(crate::ir::Compare::Lt, s);
        let add = arith::binary(Binary::Add, s).expect("an index is an integer");
        let (index, carried) = (body.args[0], &body.args[1..]);
        self.hand_over(&[start], &[index], active);
        self.hand_over(init, carried, active);
        // Into a loop, what is carried is copied.
        init.iter().try_for_each(|&v| self.is_done(v)).map_err(|p| self.fault(inst, &p))?;
        let slot = |v: Value| v.0 as usize;
        let mut going = active.to_vec();
        loop {
            self.passes += 1;
            if let Some(most) = self.lacks.max_loop_iterations.filter(|&most| self.passes > most) {
                let what = format!("loops take more than {most} passes");
                return Err(self.fault(inst, &Problem { lane: active.first().copied().unwrap_or(0), what }));
            }
            going.retain(|&l| less(self.slots[slot(index)][l], self.slots[slot(end)][l]) != 0);
            if going.is_empty() {
                self.pass_by(body);
                break;
            }
            self.region(body, &going)?;
            carried.iter().try_for_each(|&v| self.tma.is_free(v)).map_err(|p| self.fault(inst, &p))?;
            self.hand_over(&body.yields, carried, &going);
            for &l in &going {
                let (old, by) = (self.slots[slot(index)][l], self.slots[slot(step)][l]);
                let new = add(old, by);
                if less(old, new) == 0 {
                    let what = "the index does not go forward, or wraps".to_string();
                    return Err(self.fault(inst, &Problem { lane: l, what }));
                }
                self.slots[slot(index)][l] = new;
            }
        }
        self.hand_over(carried, &inst.results, active);
        Ok(())
    }

    /// Counts the passes of loops that a device goes through once where no invocation does.
    fn pass_by(&mut self, r: &Region) {
        if self.lacks.max_loop_iterations.is_some() {
            r.each_inst(&mut |i| self.passes += u64::from(matches!(i.op, Op::For { .. })));
        }
    }

    /// Takes the memory of a result, with room for its numbers.
    fn take_buffer(&mut self, r: Value) -> Vec<u64> {
        let mut out = std::mem::take(&mut self.slots[r.0 as usize]);
        out.resize(self.n * self.width(r), 0);
        out
    }
    fn put(&mut self, r: Value, out: Vec<u64>) {
        self.slots[r.0 as usize] = out;
    }
    fn slot(&self, v: Value) -> &[u64] {
        &self.slots[v.0 as usize]
    }
}
