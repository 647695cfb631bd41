//! Checkpoints: a kernel whose launches take some iterations of one of its loops each.
//!
//! The loop begins where the launch's numbers say, with what the last launch left in memory, and
//! leaves there what it carries; what stands behind it is done by the last launch alone. What
//! stands before it is computed by every launch anew, and its stores are done by the first. Of a
//! loop in a loop, a launch takes one iteration of the outer one, or a part of it.
//!
//! What a workgroup shares is kept as well. Only the one loop's own iterations are divided: what is
//! before it must not look at memory that the kernel writes, as that may have changed.

mod storage;

use crate::ir::{
    Access, Binary, Buffer, Compare, Constant, Elem, Inst, Kernel, Op, Place, Region, Scalar, Type, Value,
};
use crate::pass::{self, Legalize};

/// Numbers of a launch for each loop of the path, u32: the iteration with which it begins, the one
/// before which it ends, and whether the loop and those inside of it are done then.
pub const NUMBERS_PER_LEVEL: usize = 3;

/// A kernel that takes a part of a launch.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The kernel. Two buffers stand in front of those that it had: the launch's numbers, and what
    /// is kept.
    pub kernel: Kernel,
    /// Words of u32 that are kept for an invocation.
    pub words: u64,
    /// Words that are kept for a workgroup.
    pub shared_words: u64,
}

impl Checkpoint {
    /// Words that are kept for so many workgroups.
    pub fn kept(&self, groups: [u32; 3]) -> u64 {
        let groups = groups.iter().map(|&n| u64::from(n)).product::<u64>();
        let each = self.words * u64::from(self.kernel.invocations()) + self.shared_words;
        groups.saturating_mul(each)
    }
}

/// The checkpointed form of a kernel, by the numbers of the loops that lead to the divided one.
///
/// # Errors
/// Why there is none.
pub fn checkpoint(kernel: &Kernel, path: &[usize]) -> Result<Checkpoint, String> {
    let mut k = kernel.clone();
    if k.features().tma || k.features().fragments {
        return Err("it holds fragments".into());
    }
    if !k.shared.is_empty() && path.len() > 1 {
        return Err("a loop in a loop shares memory".into());
    }
    // Copies that are under way cannot be kept.
    pass::lower(&mut k, Legalize { cp_async: true, ..Legalize::default() });
    let shift = |place: &mut Place| {
        if let Place::Buffer(i) = place {
            *i += 2;
        }
    };
    each_place(&mut k.body, &shift);
    let buffer = |name: &str, access| Buffer { name: name.into(), elem: Elem::U32, access };
    k.buffers.insert(0, buffer("part", Access::Read));
    k.buffers.insert(1, buffer("kept", Access::ReadWrite));
    k.name.push_str("_part");
    let shared = k.shared.iter().map(|s| (s.elem, s.len)).collect();
    let mut c = Cutter {
        values: std::mem::take(&mut k.values),
        out: Vec::new(),
        buffers: k.buffers.iter().map(|b| b.access).collect(),
        shared,
        invocations: k.invocations(),
        path,
        next: 0,
        levels: Vec::new(),
        first: Vec::new(),
        total: Value(0),
        id: Value(0),
        group: Value(0),
        words: 0,
    };
    c.begin();
    let body = std::mem::take(&mut k.body.insts);
    c.along(body, 0, &mut Vec::new())?;
    k.body.insts = std::mem::take(&mut c.out);
    k.values = c.values;
    let shared_words = c.shared.iter().map(|&(e, len)| u64::from(len) * words_of(e.scalar())).sum();
    pass::renumber(&mut k);
    pass::optimize(&mut k);
    crate::verify::verify(&k).map_err(|e| e.0)?;
    Ok(Checkpoint { kernel: k, words: c.words.into(), shared_words })
}

/// Words of u32 that a number takes.
fn words_of(s: Scalar) -> u64 {
    u64::from(s.bits().div_ceil(32))
}

fn each_place(r: &mut Region, f: &dyn Fn(&mut Place)) {
    for inst in &mut r.insts {
        match &mut inst.op {
            Op::Load(p, ..) | Op::Store(p, ..) | Op::Atomic(_, p, ..) => f(p),
            _ => {}
        }
        for inner in inst.op.regions_mut() {
            each_place(inner, f);
        }
    }
}

/// The numbers of a launch for a loop.
#[derive(Clone, Copy)]
struct Level {
    begin: Value,
    end: Value,
    done: Value,
}

struct Cutter<'a> {
    values: Vec<Type>,
    out: Vec<Inst>,
    buffers: Vec<Access>,
    shared: Vec<(Elem, u32)>,
    invocations: u32,
    path: &'a [usize],
    /// The number of the next loop.
    next: usize,
    levels: Vec<Level>,
    /// For each level: is it this launch that begins with the loop, and with those inside of it?
    first: Vec<Value>,
    /// Invocations of the launch; which one this is; the number of its workgroup.
    total: Value,
    id: Value,
    group: Value,
    /// Words of an invocation that are taken.
    words: u32,
}

impl Cutter<'_> {
    // Instructions

    fn value(&mut self, ty: Type) -> Value {
        self.values.push(ty);
        Value(self.values.len() as u32 - 1)
    }
    fn push(&mut self, op: Op, ty: Type) -> Value {
        let v = self.value(ty);
        self.out.push(Inst { op, results: vec![v] });
        v
    }
    fn u32(&mut self, n: u32) -> Value {
        self.push(Op::Const(n.into()), Type::U32)
    }
    fn binary(&mut self, op: Binary, a: Value, b: Value) -> Value {
        self.push(Op::Binary(op, a, b), self.values[a.0 as usize])
    }
    fn less(&mut self, a: Value, b: Value) -> Value {
        self.push(Op::Compare(Compare::Lt, a, b), Type::BOOL)
    }
    fn convert(&mut self, to: Scalar, a: Value) -> Value {
        self.push(Op::Convert(to, a), to.into())
    }
    fn bitcast(&mut self, to: Scalar, a: Value) -> Value {
        if self.values[a.0 as usize] == to.into() { a } else { self.push(Op::Bitcast(to, a), to.into()) }
    }
    fn select(&mut self, c: Value, a: Value, b: Value) -> Value {
        self.push(Op::Select(c, a, b), self.values[a.0 as usize])
    }
    /// Instructions that are done where a condition holds; the results of both ways.
    fn branch(
        &mut self,
        cond: Value,
        then: impl FnOnce(&mut Self) -> Result<Vec<Value>, String>,
        other: impl FnOnce(&mut Self) -> Result<Vec<Value>, String>,
    ) -> Result<Vec<Value>, String> {
        let outer = std::mem::take(&mut self.out);
        let yields = then(self)?;
        let types: Vec<Type> = yields.iter().map(|v| self.values[v.0 as usize]).collect();
        let then = Region { args: Vec::new(), insts: std::mem::take(&mut self.out), yields };
        let yields = other(self)?;
        let other = Region { args: Vec::new(), insts: std::mem::take(&mut self.out), yields };
        self.out = outer;
        let results: Vec<Value> = types.into_iter().map(|t| self.value(t)).collect();
        self.out.push(Inst { op: Op::If(cond, then, other), results: results.clone() });
        Ok(results)
    }
    fn only(&mut self, cond: Value, then: impl FnOnce(&mut Self)) {
        let done = self.branch(
            cond,
            |c| {
                then(c);
                Ok(Vec::new())
            },
            |_| Ok(Vec::new()),
        );
        debug_assert!(done.is_ok(), "nothing in it fails");
    }
    /// A placeholder number of a type.
    fn nothing(&mut self, ty: Type) -> Result<Value, String> {
        let Type::Vector(s, width) = ty else { return Err("it holds fragments".into()) };
        let zero = self.push(Op::Const(Constant::int(s, 0)), s.into());
        Ok(if width == 1 { zero } else { self.push(Op::Splat(width, zero), ty) })
    }
}

impl Cutter<'_> {
    /// Instructions of which one holds the next loop of the path, or is it; behind them, what the
    /// region yields.
    fn along(&mut self, insts: Vec<Inst>, level: usize, yields: &mut Vec<Value>) -> Result<(), String> {
        let wanted = self.path[level];
        let mut insts = insts.into_iter();
        loop {
            let inst = insts.next().ok_or("there is no such loop")?;
            let from = self.next;
            self.next += loops_of(std::slice::from_ref(&inst));
            if !(from..self.next).contains(&wanted) {
                self.before(inst, level)?;
                continue;
            }
            self.next = from;
            match inst.op {
                Op::If(cond, then, other) => {
                    let results = self.fork(cond, [then, other], level)?;
                    self.rename(results, inst.results);
                }
                Op::For { .. } => self.divided(inst, level)?,
                _ => return Err("there is no such loop".into()),
            }
            break;
        }
        // What follows is for the last launch.
        let rest: Vec<Inst> = insts.collect();
        let done = self.levels[level].done;
        let old = std::mem::take(yields);
        let types: Vec<Type> = old.iter().map(|v| self.values[v.0 as usize]).collect();
        *yields = self.branch(
            done,
            |c| {
                c.out.extend(rest);
                Ok(old)
            },
            |c| types.into_iter().map(|t| c.nothing(t)).collect(),
        )?;
        Ok(())
    }

    /// Gives values, which were made for it, the names that others know them by.
    fn rename(&mut self, made: Vec<Value>, names: Vec<Value>) {
        // They are the results of the last instruction.
        let last = self.out.last_mut().expect("it was just pushed");
        debug_assert_eq!(last.results, made, "the results of a branch");
        last.results = names;
    }

    fn fork(&mut self, cond: Value, regions: [Region; 2], level: usize) -> Result<Vec<Value>, String> {
        let wanted = self.path[level];
        let [then, other] = regions;
        let inside = self.next + loops_of(&then.insts);
        let on_the_way = (self.next..inside).contains(&wanted);
        let done = self.levels[level].done;
        // The way that does not lead there is the last launch's.
        let aside = |c: &mut Self, r: Region| {
            let types: Vec<Type> = r.yields.iter().map(|v| c.values[v.0 as usize]).collect();
            c.branch(
                done,
                |c| {
                    c.out.extend(r.insts);
                    Ok(r.yields)
                },
                |c| types.into_iter().map(|t| c.nothing(t)).collect(),
            )
        };
        let along = |c: &mut Self, r: Region| {
            let mut yields = r.yields;
            c.along(r.insts, level, &mut yields)?;
            Ok(yields)
        };
        if on_the_way {
            self.branch(cond, |c| along(c, then), |c| aside(c, other))
        } else {
            self.next = inside;
            self.branch(cond, |c| aside(c, then), |c| along(c, other))
        }
    }

    /// An instruction before the loop: every launch does it, but for its stores.
    fn before(&mut self, inst: Inst, level: usize) -> Result<(), String> {
        let first = self.first[level];
        match inst.op {
            Op::Store(Place::Buffer(_), ..) => {
                self.only(first, |c| c.out.push(inst));
                return Ok(());
            }
            Op::If(..) | Op::For { .. } if !self.replayable(std::slice::from_ref(&inst)) => {
                if inst.results.is_empty() && !self.looks_at_written(std::slice::from_ref(&inst)) {
                    self.only(first, |c| c.out.push(inst));
                    return Ok(());
                }
                return Err("what is before the loop changes memory".into());
            }
            _ => {}
        }
        if !self.replayable(std::slice::from_ref(&inst)) {
            return Err("what is before the loop changes memory, or looks at what changes".into());
        }
        if level > 0 && !self.shared.is_empty() {
            return Err("a loop in a loop shares memory".into());
        }
        self.out.push(inst);
        Ok(())
    }
    /// Can it be done again, to the same end?
    fn replayable(&self, insts: &[Inst]) -> bool {
        insts.iter().all(|i| match &i.op {
            Op::Store(Place::Buffer(_), ..) | Op::Atomic(..) => false,
            Op::Load(Place::Buffer(b), ..) => self.buffers[*b as usize] == Access::Read,
            op => op.regions().iter().all(|r| self.replayable(&r.insts)),
        })
    }
    /// Does it need what is shared, or what the kernel writes?
    fn looks_at_written(&self, insts: &[Inst]) -> bool {
        insts.iter().any(|i| match &i.op {
            Op::Load(Place::Buffer(b), ..) => self.buffers[*b as usize] != Access::Read,
            Op::Load(Place::Shared(_), ..)
            | Op::Store(Place::Shared(_), ..)
            | Op::Atomic(..)
            | Op::Barrier => true,
            op => op.regions().iter().any(|r| self.looks_at_written(&r.insts)),
        })
    }

    /// The loop, from where the launch begins to where it ends.
    fn divided(&mut self, inst: Inst, level: usize) -> Result<(), String> {
        let Op::For { start, end, step, init, mut body } = inst.op else {
            return Err("there is no such loop".into());
        };
        let results = inst.results;
        self.next += 1;
        let numbers = self.levels[level];
        let index = self.values[start.0 as usize];
        let s = index.scalar().unwrap_or(Scalar::U32);
        // Iterations are counted as unsigned, so that no sum wraps: what is behind the end is the
        // end.
        let wide = s.bits() == 64;
        let unsigned = if wide { Scalar::U64 } else { Scalar::U32 };
        let span = self.binary(Binary::Sub, end, start);
        let span = self.bitcast(unsigned, span);
        let by = self.bitcast(unsigned, step);
        let runs = self.less(start, end);
        let [from, to] = [numbers.begin, numbers.end].map(|n| {
            let n = if wide { self.convert(unsigned, n) } else { n };
            let moved = self.binary(Binary::Mul, n, by);
            let inside = self.less(moved, span);
            let inside = self.binary(Binary::And, runs, inside);
            let moved = self.bitcast(s, moved);
            let there = self.binary(Binary::Add, start, moved);
            self.select(inside, there, end)
        });

        let types: Vec<Type> = init.iter().map(|v| self.values[v.0 as usize]).collect();
        let (places, words) = self.words(self.words, &types)?;
        self.words = words;
        let zero = self.u32(0);
        let resumes = self.less(zero, numbers.begin);
        let last_level = level + 1 == self.path.len();
        let carried = self.branch(
            resumes,
            |c| {
                if last_level {
                    c.shared(true, words);
                }
                types.iter().zip(&places).map(|(&t, &at)| c.kept(t, at)).collect()
            },
            |_| Ok(init),
        )?;

        // Of a loop around the divided one, an iteration ends when that is done.
        let mut iteration_ends = None;
        if !last_level {
            let outer = std::mem::take(&mut self.out);
            let insts = std::mem::take(&mut body.insts);
            self.along(insts, level + 1, &mut body.yields)?;
            body.insts = std::mem::replace(&mut self.out, outer);
            iteration_ends = Some(self.levels[level + 1].done);
        }
        self.out.push(Inst {
            op: Op::For { start: from, end: to, step, init: carried, body },
            results: results.clone(),
        });
        // What the next launch needs.
        let more = self.push(Op::Unary(crate::ir::Unary::Not, numbers.done), Type::BOOL);
        let keeps = match iteration_ends {
            Some(ends) => self.binary(Binary::And, more, ends),
            None => more,
        };
        self.only(keeps, |c| {
            for (&v, &at) in results.iter().zip(&places) {
                c.keep(v, at);
            }
            if last_level {
                c.shared(false, words);
            }
        });
        // Loops of the divided one's body come before those behind it.
        Ok(())
    }
}

/// How many loops instructions hold.
fn loops_of(insts: &[Inst]) -> usize {
    insts
        .iter()
        .map(|i| {
            let own = usize::from(matches!(i.op, Op::For { .. }));
            own + i.op.regions().iter().map(|r| loops_of(&r.insts)).sum::<usize>()
        })
        .sum()
}
