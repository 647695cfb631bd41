//! One workgroup, all invocations side by side.

use super::race::{FRESH, Touch, Trace, Who};
use super::{Fault, Lacks, Launch, Memory};
use crate::arith::{self, One, Two};
use crate::ir::{
    Binary, Builtin, Fragment, Inst, Kernel, Layout, Op, Place, Region, Scalar, Type, Unary, Value,
};

/// What went wrong, and for which invocation.
struct Problem {
    lane: usize,
    what: String,
}

type Done = Result<(), Problem>;

pub struct Machine<'a> {
    kernel: &'a Kernel,
    launch: &'a Launch,
    lacks: Lacks,
    buffers: &'a mut [Memory],
    traces: Vec<Vec<Trace>>,
    shared: Vec<Memory>,
    shared_traces: Vec<Vec<Trace>>,
    /// The numbers of each value: those of an invocation side by side, invocation after invocation. Fragments: those of a
    /// subgroup, row-major.
    slots: Vec<Vec<u64>>,
    /// Invocations of a workgroup.
    n: usize,
    group: [u32; 3],
    group_number: u32,
    epoch: u32,
}

impl<'a> Machine<'a> {
    pub fn new(kernel: &'a Kernel, launch: &'a Launch, buffers: &'a mut [Memory], lacks: Lacks) -> Self {
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
                    self.shared_traces = self.shared.iter().map(|s| vec![FRESH; s.cells.len()]).collect();
                    let kernel = self.kernel;
                    self.region(&kernel.body, &all)?;
                    self.group_number += 1;
                }
            }
        }
        Ok(())
    }

    fn region(&mut self, r: &Region, active: &[usize]) -> Result<(), Fault> {
        for inst in &r.insts {
            match &inst.op {
                Op::If(cond, then, other) => {
                    let mask = std::mem::take(&mut self.slots[cond.0 as usize]);
                    let (yes, no): (Vec<usize>, Vec<usize>) = active.iter().partition(|&&l| mask[l] != 0);
                    self.slots[cond.0 as usize] = mask;
                    for (lanes, region) in [(yes, then), (no, other)] {
                        if !lanes.is_empty() {
                            self.region(region, &lanes)?;
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
        let copies: Vec<Vec<u64>> = from.iter().map(|v| self.slots[v.0 as usize].clone()).collect();
        for (copy, &t) in copies.into_iter().zip(to) {
            match self.kernel.ty(t) {
                // Only uniform code has fragments, so all of it is handed over.
                Type::Fragment(_) => self.slots[t.0 as usize] = copy,
                Type::Vector(_, w) => {
                    let w = usize::from(w);
                    let slot = &mut self.slots[t.0 as usize];
                    slot.resize(self.n * w, 0);
                    for &l in lanes {
                        slot[l * w..(l + 1) * w].copy_from_slice(&copy[l * w..(l + 1) * w]);
                    }
                }
            }
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
        let slot = |v: Value| v.0 as usize;
        let mut going = active.to_vec();
        loop {
            going.retain(|&l| less(self.slots[slot(index)][l], self.slots[slot(end)][l]) != 0);
            if going.is_empty() {
                break;
            }
            self.region(body, &going)?;
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

    /// Takes the memory of a result, with room for its numbers.
    fn room(&mut self, r: Value) -> Vec<u64> {
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

    fn each1(&mut self, r: Value, a: Value, lanes: &[usize], flushed: bool, f: One) {
        let (mut out, w) = (self.room(r), self.width(r));
        let x = self.slot(a);
        for i in lanes.iter().flat_map(|&l| l * w..(l + 1) * w) {
            out[i] = if flushed { f(arith::flush(x[i])) } else { f(x[i]) };
        }
        self.put(r, out);
    }
    fn each2(&mut self, r: Value, [a, b]: [Value; 2], lanes: &[usize], flushed: bool, f: Two) {
        let (mut out, w) = (self.room(r), self.width(r));
        let (x, y) = (self.slot(a), self.slot(b));
        for i in lanes.iter().flat_map(|&l| l * w..(l + 1) * w) {
            out[i] = if flushed { f(arith::flush(x[i]), arith::flush(y[i])) } else { f(x[i], y[i]) };
        }
        self.put(r, out);
    }
    fn change(&mut self, r: Value, lanes: &[usize], f: One) {
        let w = self.width(r);
        for i in lanes.iter().flat_map(|&l| l * w..(l + 1) * w) {
            let x = &mut self.slots[r.0 as usize][i];
            *x = f(*x);
        }
    }
    fn flush_result(&mut self, r: Value, lanes: &[usize]) {
        self.change(r, lanes, arith::flush);
    }
    /// Is arithmetic on this type flushed?
    fn flushes(&self, s: Scalar) -> bool {
        self.lacks.subnormals && s == Scalar::F32
    }

    fn inst(&mut self, inst: &Inst, lanes: &[usize]) -> Done {
        let r = inst.results.first().copied().unwrap_or(Value(u32::MAX));
        let checked = "the verifier has seen to it";
        match &inst.op {
            Op::Const(c) => self.fill(r, lanes, |_| c.bits),
            Op::Param(i) => {
                let bits = self.launch.params[*i as usize].bits;
                self.fill(r, lanes, |_| bits);
            }
            Op::Builtin(b) => {
                let (group, count, [x, y, _]) = (self.group, self.launch.groups, self.kernel.group);
                let lanes_of_subgroup = self.kernel.subgroup.unwrap_or(1);
                let f = |l: usize| {
                    let l = l as u32;
                    u64::from(match *b {
                        Builtin::GroupId(a) => group[usize::from(a)],
                        Builtin::GroupCount(a) => count[usize::from(a)],
                        Builtin::LocalId(0) => l % x,
                        Builtin::LocalId(1) => l / x % y,
                        Builtin::LocalId(_) => l / x / y,
                        Builtin::LocalIndex => l,
                        Builtin::SubgroupLane => l % lanes_of_subgroup,
                        Builtin::SubgroupId => l / lanes_of_subgroup,
                    })
                };
                self.fill(r, lanes, f);
            }
            Op::Unary(op, a) => {
                let s = self.scalar(*a);
                let sign = matches!(op, Unary::Neg | Unary::Abs);
                let flushed = self.flushes(s) && !sign;
                self.each1(r, *a, lanes, flushed, arith::unary(*op, s).expect(checked));
                if *op == Unary::Sqrt && s == Scalar::F32 && self.lacks.precision {
                    self.change(r, lanes, arith::blur);
                }
                if flushed {
                    self.flush_result(r, lanes);
                }
            }
            Op::Binary(op, a, b) => {
                let s = self.scalar(*a);
                let flushed = self.flushes(s) && *op != Binary::CopySign;
                self.each2(r, [*a, *b], lanes, flushed, arith::binary(*op, s).expect(checked));
                if *op == Binary::Div && s == Scalar::F32 && self.lacks.precision {
                    self.change(r, lanes, arith::blur);
                }
                if flushed {
                    self.flush_result(r, lanes);
                }
            }
            Op::Compare(op, a, b) => {
                let s = self.scalar(*a);
                self.each2(r, [*a, *b], lanes, self.flushes(s), arith::compare(*op, s));
            }
            Op::Fma(a, b, c) => {
                let s = self.scalar(*a);
                let flushed = self.flushes(s);
                let f = arith::fma(s, !self.lacks.fused).expect(checked);
                let (mut out, w) = (self.room(r), self.width(r));
                let (x, y, z) = (self.slot(*a), self.slot(*b), self.slot(*c));
                for i in lanes.iter().flat_map(|&l| l * w..(l + 1) * w) {
                    out[i] = if flushed {
                        arith::flush(f(arith::flush(x[i]), arith::flush(y[i]), arith::flush(z[i])))
                    } else {
                        f(x[i], y[i], z[i])
                    };
                }
                self.put(r, out);
            }
            Op::Select(c, a, b) => {
                let (mut out, w) = (self.room(r), self.width(r));
                let (c, x, y) = (self.slot(*c), self.slot(*a), self.slot(*b));
                for i in lanes.iter().flat_map(|&l| l * w..(l + 1) * w) {
                    out[i] = if c[i] != 0 { x[i] } else { y[i] };
                }
                self.put(r, out);
            }
            Op::Convert(to, a) => {
                let s = self.scalar(*a);
                self.each1(r, *a, lanes, self.flushes(s), arith::convert(s, *to));
                if self.flushes(*to) {
                    self.flush_result(r, lanes);
                }
            }
            Op::Whole(a) => {
                let s = self.scalar(*a);
                self.each1(r, *a, lanes, false, arith::whole(s).expect(checked).1);
            }
            Op::Bits(_, a) => self.each1(r, *a, lanes, false, |x| x),
            Op::Splat(w, a) => {
                let (mut out, w) = (self.room(r), usize::from(*w));
                let x = self.slot(*a);
                lanes.iter().for_each(|&l| out[l * w..(l + 1) * w].fill(x[l]));
                self.put(r, out);
            }
            Op::Compose(all) => {
                let mut out = self.room(r);
                for (i, v) in all.iter().enumerate() {
                    let x = self.slot(*v);
                    lanes.iter().for_each(|&l| out[l * all.len() + i] = x[l]);
                }
                self.put(r, out);
            }
            Op::Extract(a, i) => {
                let (mut out, w) = (self.room(r), self.width(*a));
                let x = self.slot(*a);
                lanes.iter().for_each(|&l| out[l] = x[l * w + usize::from(*i)]);
                self.put(r, out);
            }
            Op::Load(p, at, w) => {
                let (mut out, w) = (self.room(r), usize::from(*w));
                let decode = arith::decode(self.memory(*p).elem);
                for &l in lanes {
                    let first = self.reach(*p, *at, l, w, w)?;
                    for i in 0..w {
                        self.touch(*p, first + i, l, Touch::Load)?;
                        out[l * w + i] = decode(self.memory(*p).cells[first + i]);
                    }
                }
                self.put(r, out);
            }
            Op::Store(p, at, v) => {
                let w = self.width(*v);
                let encode = arith::encode(self.memory(*p).elem);
                for &l in lanes {
                    let first = self.reach(*p, *at, l, w, w)?;
                    for i in 0..w {
                        self.touch(*p, first + i, l, Touch::Store)?;
                        let x = encode(self.slot(*v)[l * w + i]);
                        self.memory_mut(*p).cells[first + i] = x;
                    }
                }
            }
            Op::Atomic(op, p, at, v) => {
                let f = arith::atomic(*op, self.scalar(*v)).expect(checked);
                let mut out = self.room(r);
                for &l in lanes {
                    let at = self.reach(*p, *at, l, 1, 1)?;
                    self.touch(*p, at, l, Touch::Atomic)?;
                    let old = self.memory(*p).cells[at];
                    self.memory_mut(*p).cells[at] = f(old, self.slot(*v)[l]);
                    out[l] = old;
                }
                self.put(r, out);
            }
            Op::Barrier => {
                self.all_here(lanes)?;
                self.epoch += 1;
            }
            Op::Shuffle(v, lane) => {
                self.all_here(lanes)?;
                let size = self.subgroup();
                let from = self.slot(*lane).to_vec();
                self.exchange(r, *v, |l| l / size * size + from[l] as usize % size);
            }
            Op::Broadcast(v, lane) => {
                self.all_here(lanes)?;
                let size = self.subgroup();
                self.exchange(r, *v, |l| l / size * size + usize::from(*lane));
            }
            Op::Reduce(op, v) => {
                self.all_here(lanes)?;
                let f = arith::reduce(*op, self.scalar(*v)).expect(checked);
                let (mut out, w, size) = (self.room(r), self.width(r), self.subgroup());
                let x = self.slot(*v);
                for first in (0..self.n).step_by(size) {
                    for c in 0..w {
                        let all = (first + 1..first + size).fold(x[first * w + c], |a, l| f(a, x[l * w + c]));
                        (first..first + size).for_each(|l| out[l * w + c] = all);
                    }
                }
                self.put(r, out);
            }
            Op::FragmentLoad(f, layout, p, at, stride) => {
                self.all_here(lanes)?;
                let decode = arith::decode(self.memory(*p).elem);
                let (rows, columns) = f.shape();
                let mut out = Vec::new();
                for first in (0..self.n).step_by(self.subgroup()) {
                    for (i, j) in cells(rows, columns) {
                        let at = self.fragment_cell(*layout, *p, [*at, *stride], first, [i, j])?;
                        self.touch(*p, at, first, Touch::Load)?;
                        out.push(decode(self.memory(*p).cells[at]));
                    }
                }
                self.put(r, out);
            }
            Op::FragmentFill(f, v) => {
                self.all_here(lanes)?;
                let (rows, columns) = f.shape();
                let x = self.slot(*v);
                let firsts = (0..self.n).step_by(self.subgroup());
                let out = firsts.flat_map(|l| std::iter::repeat_n(x[l], rows * columns)).collect();
                self.put(r, out);
            }
            Op::FragmentMulAdd(a, b, c) => {
                self.all_here(lanes)?;
                let Type::Fragment(Fragment { m, n, k, .. }) = self.kernel.ty(*c) else {
                    unreachable!("{checked}")
                };
                let (m, n, k) = (usize::from(m), usize::from(n), usize::from(k));
                let fma = arith::fma(Scalar::F32, true).expect(checked);
                let (a, b, c) = (self.slot(*a), self.slot(*b), self.slot(*c));
                let mut out = Vec::new();
                for g in 0..self.n / self.subgroup() {
                    for (i, j) in cells(m, n) {
                        let sum = c[g * m * n + i * n + j];
                        let terms = (0..k).map(|t| (a[g * m * k + i * k + t], b[g * k * n + t * n + j]));
                        out.push(terms.fold(sum, |s, (a, b)| fma(a, b, s)));
                    }
                }
                self.put(r, out);
            }
            Op::FragmentStore(layout, p, at, stride, v) => {
                self.all_here(lanes)?;
                let Type::Fragment(f) = self.kernel.ty(*v) else { unreachable!("{checked}") };
                let (rows, columns) = f.shape();
                let encode = arith::encode(self.memory(*p).elem);
                for (g, first) in (0..self.n).step_by(self.subgroup()).enumerate() {
                    for (i, j) in cells(rows, columns) {
                        let at = self.fragment_cell(*layout, *p, [*at, *stride], first, [i, j])?;
                        self.touch(*p, at, first, Touch::Store)?;
                        let x = encode(self.slot(*v)[g * rows * columns + i * columns + j]);
                        self.memory_mut(*p).cells[at] = x;
                    }
                }
            }
            Op::If(..) | Op::For { .. } => unreachable!("regions are run by `region`"),
        }
        Ok(())
    }

    fn fill(&mut self, r: Value, lanes: &[usize], f: impl Fn(usize) -> u64) {
        let mut out = self.room(r);
        lanes.iter().for_each(|&l| out[l] = f(l));
        self.put(r, out);
    }
    fn exchange(&mut self, r: Value, v: Value, from: impl Fn(usize) -> usize) {
        let (mut out, w) = (self.room(r), self.width(r));
        let x = self.slot(v);
        for l in 0..self.n {
            let f = from(l);
            out[l * w..(l + 1) * w].copy_from_slice(&x[f * w..(f + 1) * w]);
        }
        self.put(r, out);
    }
    fn all_here(&self, lanes: &[usize]) -> Done {
        if lanes.len() == self.n {
            return Ok(());
        }
        let what = format!("only {} of {} invocations come here together", lanes.len(), self.n);
        Err(Problem { lane: lanes[0], what })
    }

    fn memory(&self, p: Place) -> &Memory {
        match p {
            Place::Buffer(i) => &self.buffers[i as usize],
            Place::Shared(i) => &self.shared[i as usize],
        }
    }
    fn memory_mut(&mut self, p: Place) -> &mut Memory {
        match p {
            Place::Buffer(i) => &mut self.buffers[i as usize],
            Place::Shared(i) => &mut self.shared[i as usize],
        }
    }
    /// An index as a signed number.
    fn index(&self, v: Value, lane: usize) -> i128 {
        let x = self.slot(v)[lane];
        match self.scalar(v) {
            Scalar::I32 => i128::from(x as u32 as i32),
            Scalar::I64 => i128::from(x as i64),
            Scalar::U32 | Scalar::U64 | Scalar::Bool | Scalar::F32 | Scalar::F64 => i128::from(x),
        }
    }
    /// The first of `w` elements that lie in memory, at a multiple of `aligned`.
    fn reach(&self, p: Place, at: Value, lane: usize, w: usize, aligned: usize) -> Result<usize, Problem> {
        let (at, len) = (self.index(at, lane), self.memory(p).cells.len());
        if at < 0 || at + w as i128 > len as i128 {
            return Err(Problem { lane, what: format!("index {at} (and {w} elements) of {len}") });
        }
        if !(at as usize).is_multiple_of(aligned) {
            return Err(Problem { lane, what: format!("index {at} is no multiple of {aligned}") });
        }
        Ok(at as usize)
    }
    fn fragment_cell(
        &self,
        layout: Layout,
        p: Place,
        [at, stride]: [Value; 2],
        lane: usize,
        [i, j]: [usize; 2],
    ) -> Result<usize, Problem> {
        let stride = self.index(stride, lane);
        let step = match layout {
            Layout::Rows => i as i128 * stride + j as i128,
            Layout::Columns => j as i128 * stride + i as i128,
        };
        let (at, len) = (self.index(at, lane) + step, self.memory(p).cells.len());
        if at < 0 || at >= len as i128 {
            return Err(Problem { lane, what: format!("index {at} of {len}, in a fragment") });
        }
        Ok(at as usize)
    }
    /// Notes a touch; a race, or a load of shared memory that holds nothing, is a problem.
    fn touch(&mut self, p: Place, at: usize, lane: usize, how: Touch) -> Done {
        let who = Who { group: self.group_number, lane: lane as u32, epoch: self.epoch };
        let trace = match p {
            Place::Buffer(i) => match self.traces[i as usize].get_mut(at) {
                Some(t) => t,
                // Nobody writes to this buffer.
                None => return Ok(()),
            },
            Place::Shared(i) => &mut self.shared_traces[i as usize][at],
        };
        let what = if matches!(p, Place::Shared(_)) && how != Touch::Store && !trace.stored() {
            Some("loads shared memory to which nothing was stored")
        } else {
            trace.touch(how, who)
        };
        match what {
            None => Ok(()),
            Some(what) => Err(Problem { lane, what: format!("element {at}: {what}") }),
        }
    }
}

fn cells(rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |i| (0..columns).map(move |j| (i, j)))
}
