//! Ranges of values: intervals with a stride, from a launch's numbers. Of what a value may be in
//! any invocation, the least and the largest; what is between them are multiples of the stride
//! above the least.
//!
//! Values are looked at when they are asked for, and remembered. Integer arithmetic is followed as
//! long as nothing wraps; else, and for floats and loads of what is not the launch's own, a value
//! may be whatever its type holds.

use crate::interp::Launch;
use crate::ir::{Binary, Builtin, Constant, Elem, Kernel, Op, Place, Region, Scalar, Unary, Value};

/// What a value is defined by.
#[derive(Clone, Debug)]
enum Definition {
    /// An instruction without regions.
    Op(Op),
    /// What one of two regions yields.
    Either([Value; 2]),
    /// The index of a loop.
    Index([Value; 3]),
    /// What a loop carries: what goes in, and what an iteration yields.
    Carried([Value; 2]),
    /// What a loop carried in the end.
    Left(Value),
    /// None that was found.
    Nothing,
}

/// What all values of a kernel are defined by.
#[derive(Clone, Debug)]
pub(super) struct Definitions(Vec<Definition>);

impl Definitions {
    pub(super) fn of(k: &Kernel) -> Definitions {
        let mut all = vec![Definition::Nothing; k.values.len()];
        collect(&k.body, &mut all);
        Definitions(all)
    }
}

fn collect(r: &Region, all: &mut [Definition]) {
    for inst in &r.insts {
        match &inst.op {
            Op::For { start, end, step, init, body } => {
                all[body.args[0].0 as usize] = Definition::Index([*start, *end, *step]);
                for (i, &arg) in body.args[1..].iter().enumerate() {
                    all[arg.0 as usize] = Definition::Carried([init[i], body.yields[i]]);
                    all[inst.results[i].0 as usize] = Definition::Left(arg);
                }
                collect(body, all);
            }
            Op::If(_, then, other) => {
                collect(then, all);
                collect(other, all);
                for (i, v) in inst.results.iter().enumerate() {
                    all[v.0 as usize] = Definition::Either([then.yields[i], other.yields[i]]);
                }
            }
            op => {
                for v in &inst.results {
                    all[v.0 as usize] = Definition::Op(op.clone());
                }
            }
        }
    }
}

/// The numbers `low`, `low + step`, .. up to `high`; a step of 0 is one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    low: i128,
    high: i128,
    step: i128,
}

impl Range {
    fn one(v: i128) -> Range {
        Range { low: v, high: v, step: 0 }
    }
    fn between(low: i128, high: i128) -> Range {
        Range { low, high: high.max(low), step: i128::from(high > low) }
    }
    /// All that a type holds.
    fn of(s: Scalar) -> Range {
        match s {
            Scalar::Bool => Range::between(0, 1),
            Scalar::I32 => Range::between(i32::MIN.into(), i32::MAX.into()),
            Scalar::U32 => Range::between(0, u32::MAX.into()),
            // Floats are not followed.
            Scalar::I64 | Scalar::F32 | Scalar::F64 => Range::between(i64::MIN.into(), i64::MAX.into()),
            Scalar::U64 => Range::between(0, u64::MAX.into()),
        }
    }
    /// What of it a type holds: all, or nothing is known.
    fn within(self, s: Scalar) -> Range {
        let all = Range::of(s);
        if self.low >= all.low && self.high <= all.high { self } else { all }
    }
    fn is_one(self) -> Option<i128> {
        (self.low == self.high).then_some(self.low)
    }
    fn join(self, other: Range) -> Range {
        let step = gcd(gcd(self.step, other.step), self.low - other.low);
        Range { low: self.low.min(other.low), high: self.high.max(other.high), step }
    }
    fn plus(self, other: Range) -> Range {
        let step = gcd(self.step, other.step);
        Range { low: self.low + other.low, high: self.high + other.high, step }
    }
    fn minus(self, other: Range) -> Range {
        let step = gcd(self.step, other.step);
        Range { low: self.low - other.high, high: self.high - other.low, step }
    }
    fn times(self, other: Range) -> Range {
        let ends = [self.low, self.high].map(|a| [other.low, other.high].map(|b| a.saturating_mul(b)));
        let [a, b, c, d] = [ends[0][0], ends[0][1], ends[1][0], ends[1][1]];
        let (low, high) = (a.min(b).min(c).min(d), a.max(b).max(c).max(d));
        let step = match (self.is_one(), other.is_one()) {
            (Some(by), _) => other.step * by.abs(),
            (_, Some(by)) => self.step * by.abs(),
            (None, None) => 1,
        };
        Range { low, high, step }
    }
    /// Cut towards zero, by what is above 0.
    fn over(self, other: Range) -> Range {
        if self.low >= 0 {
            return Range::between(self.low / other.high, self.high / other.low);
        }
        Range::between(self.low / other.low, self.high.max(0) / other.low)
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// How deep differences are looked into.
const DEPTH: u32 = 8;

/// The ranges of a launch's values.
pub(super) struct Ranges<'a> {
    kernel: &'a Kernel,
    defs: &'a Definitions,
    launch: &'a Launch,
    args: Option<&'a [u8]>,
    known: Vec<Option<Range>>,
}

impl<'a> Ranges<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        defs: &'a Definitions,
        launch: &'a Launch,
        args: Option<&'a [u8]>,
    ) -> Self {
        Ranges { kernel, defs, launch, args, known: vec![None; kernel.values.len()] }
    }

    /// Iterations of a loop with this start, end and step, at most.
    pub(super) fn iterations(&mut self, [start, end, step]: [Value; 3]) -> u64 {
        let span = self.difference(end, start, DEPTH).max(0);
        let step = self.range(step).low.max(1);
        u64::try_from((span + step - 1) / step).unwrap_or(u64::MAX)
    }
    /// The largest that a value can be.
    pub(super) fn highest(&mut self, v: Value) -> i128 {
        self.range(v).high
    }

    /// What `end` is above `start`, at most, in any invocation. Where both are made of the same
    /// value, what that is does not matter.
    fn difference(&mut self, end: Value, start: Value, depth: u32) -> i128 {
        if end == start {
            return 0;
        }
        let mut most = self.range(end).high - self.range(start).low;
        if depth == 0 {
            return most;
        }
        most = most.min(self.difference_in_table(end, start).unwrap_or(most));
        if let Definition::Op(op) = &self.defs.0[end.0 as usize] {
            match *op {
                Op::Binary(Binary::Min, a, b) => {
                    let both = [a, b].map(|v| self.difference(v, start, depth - 1));
                    most = most.min(both[0]).min(both[1]);
                }
                Op::Binary(Binary::Max, a, b) | Op::Select(_, a, b) => {
                    let both = [a, b].map(|v| self.difference(v, start, depth - 1));
                    most = most.min(both[0].max(both[1]));
                }
                // A sum that wraps ends a loop sooner.
                Op::Binary(Binary::Add, a, b) => {
                    for (a, b) in [(a, b), (b, a)] {
                        let more = self.range(b).high;
                        if more >= 0 {
                            most = most.min(self.difference(a, start, depth - 1).saturating_add(more));
                        }
                    }
                }
                _ => {}
            }
        }
        if let Definition::Op(Op::Binary(Binary::Add, a, b)) = self.defs.0[start.0 as usize] {
            let sum = self.range(a).plus(self.range(b));
            let wraps = sum != sum.within(self.scalar(start));
            for (a, b) in [(a, b), (b, a)] {
                let less = self.range(b).low;
                if less >= 0 && !wraps {
                    most = most.min(self.difference(end, a, depth - 1) - less);
                }
            }
        }
        most
    }

    /// The same of two entries of the launch's own numbers that are always as far apart: where
    /// something begins, and where it ends.
    fn difference_in_table(&mut self, end: Value, start: Value) -> Option<i128> {
        let place = |v: Value| match self.defs.0[v.0 as usize] {
            Definition::Op(Op::Load(Place::Buffer(b), at, 1)) => Some((b, at)),
            _ => None,
        };
        let ((b, end), (other, start)) = (place(end)?, place(start)?);
        let (end, start) = (self.split(end), self.split(start));
        if b != other || end.0 != start.0 {
            return None;
        }
        let at = self.range(start.0).plus(Range::one(start.1));
        let apart = end.1 - start.1;
        let table = self.table(b)?;
        let mut most = None;
        for i in table.indices(at)? {
            if let (Some(from), Some(to)) = (table.entry(i), table.entry(i + apart)) {
                most = Some((to - from).max(most.unwrap_or(i128::MIN)));
            }
        }
        most
    }
    /// A value as a sum of another one and a number.
    fn split(&self, mut v: Value) -> (Value, i128) {
        let mut number = 0;
        while let Definition::Op(Op::Binary(Binary::Add, a, b)) = self.defs.0[v.0 as usize] {
            let of = |v: Value| match self.defs.0[v.0 as usize] {
                Definition::Op(Op::Const(c)) => constant(c),
                _ => None,
            };
            let ((Some((next, more)), _) | (None, Some((next, more)))) =
                (of(b).map(|n| (a, n)), of(a).map(|n| (b, n)))
            else {
                break;
            };
            (v, number) = (next, number + more);
        }
        (v, number)
    }

    fn scalar(&self, v: Value) -> Scalar {
        // What has no scalar is in no bound.
        self.kernel.ty(v).scalar().unwrap_or(Scalar::F64)
    }

    fn range(&mut self, v: Value) -> Range {
        if let Some(known) = self.known[v.0 as usize] {
            return known;
        }
        let found = self.find(v).within(self.scalar(v));
        self.known[v.0 as usize] = Some(found);
        found
    }

    fn find(&mut self, v: Value) -> Range {
        let s = self.scalar(v);
        let defs = self.defs;
        let op = match &defs.0[v.0 as usize] {
            Definition::Nothing => return Range::of(s),
            Definition::Left(v) => return self.range(*v),
            Definition::Carried([init, next]) => return self.carried(v, *init, *next),
            Definition::Either([a, b]) => return self.range(*a).join(self.range(*b)),
            Definition::Index([start, end, step]) => {
                let (from, to, by) = (self.range(*start), self.range(*end), self.range(*step));
                let step = match (from.is_one(), by.is_one()) {
                    (Some(_), Some(by)) if by > 0 => by,
                    _ => 1,
                };
                let high = (to.high - 1).max(from.low);
                return Range { low: from.low, high, step: if high > from.low { step } else { 0 } };
            }
            Definition::Op(op) => op,
        };
        match *op {
            Op::Const(c) => constant(c).map_or(Range::of(s), Range::one),
            Op::Param(i) => {
                let given = self.launch.params.get(i as usize);
                given.and_then(|&c| constant(c)).map_or(Range::of(s), Range::one)
            }
            Op::Builtin(b) => self.builtin(b),
            Op::Binary(op, a, b) if s.is_int() => {
                let (x, y) = (self.range(a), self.range(b));
                binary(op, x, y, s)
            }
            Op::Unary(Unary::Neg, a) if s.is_int() => Range::one(0).minus(self.range(a)),
            Op::Select(_, a, b) => self.range(a).join(self.range(b)),
            Op::Convert(_, a) | Op::Bitcast(_, a) if s.is_int() && !self.scalar(a).is_float() => {
                // What fits keeps its value.
                self.range(a)
            }
            Op::Load(Place::Buffer(b), at, 1) => self.load(b, at, s),
            _ => Range::of(s),
        }
    }

    /// What a loop carries: a range that what goes in is in, and what an iteration yields
    /// wherever in the range it begins. Two are tried.
    fn carried(&mut self, v: Value, init: Value, next: Value) -> Range {
        let s = self.scalar(v);
        let mut guess = self.range(init);
        for _ in 0..2 {
            // What follows from a guess is not known.
            let before = self.known.clone();
            self.known[v.0 as usize] = Some(guess);
            let after = self.range(next).join(guess);
            self.known = before;
            if after == guess {
                return guess;
            }
            guess = after.within(s);
        }
        Range::of(s)
    }

    fn builtin(&self, b: Builtin) -> Range {
        let below = |n: u32| Range::between(0, i128::from(n.max(1)) - 1);
        let axis = |a: u8| usize::from(a);
        match b {
            Builtin::GroupId(a) => below(self.launch.groups[axis(a)]),
            Builtin::GroupCount(a) => Range::one(self.launch.groups[axis(a)].into()),
            Builtin::LocalId(a) => below(self.kernel.group[axis(a)]),
            Builtin::LocalIndex => below(self.kernel.invocations()),
            Builtin::SubgroupLane => below(self.kernel.subgroup.unwrap_or(1)),
            Builtin::SubgroupId => below(self.kernel.invocations()),
        }
    }

    /// The launch's own numbers, if that is what a buffer holds.
    fn table(&self, buffer: u32) -> Option<Table<'a>> {
        let bytes = self.args.filter(|_| buffer as usize + 1 == self.kernel.buffers.len())?;
        Some(Table { bytes, elem: self.kernel.buffers[buffer as usize].elem })
    }

    /// What a load of one element gives.
    fn load(&mut self, buffer: u32, at: Value, s: Scalar) -> Range {
        let any = match self.kernel.buffers[buffer as usize].elem {
            Elem::U8 => Range::between(0, 255),
            _ => Range::of(s),
        };
        let at = self.range(at);
        let Some(table) = self.table(buffer) else { return any };
        let Some(indices) = table.indices(at) else { return any };
        let entries = indices.filter_map(|i| table.entry(i)).map(Range::one);
        entries.reduce(Range::join).unwrap_or(any)
    }
}

/// Numbers that a launch brings.
#[derive(Clone, Copy)]
struct Table<'a> {
    bytes: &'a [u8],
    elem: Elem,
}

impl Table<'_> {
    /// An entry. An index beyond the end is a mistake of the kernel, so what it would give does not
    /// count.
    fn entry(self, i: i128) -> Option<i128> {
        let size = self.elem.size() as usize;
        let at = usize::try_from(i).ok()?.checked_mul(size)?;
        let bytes = self.bytes.get(at..at + size)?;
        match self.elem {
            Elem::I32 => Some(i32::from_le_bytes(bytes.try_into().ok()?).into()),
            Elem::U32 => Some(u32::from_le_bytes(bytes.try_into().ok()?).into()),
            Elem::I64 => Some(i64::from_le_bytes(bytes.try_into().ok()?).into()),
            _ => None,
        }
    }
    /// The indices of a range that have entries; `None` if they are no integers.
    fn indices(self, at: Range) -> Option<impl Iterator<Item = i128>> {
        if !matches!(self.elem, Elem::I32 | Elem::U32 | Elem::I64) {
            return None;
        }
        let count = (self.bytes.len() / self.elem.size() as usize) as i128;
        let step = at.step.max(1);
        let first = if at.low < 0 { at.low.rem_euclid(step) } else { at.low };
        let last = at.high.min(count - 1);
        Some((0..).map(move |i| first + i * step).take_while(move |&i| i <= last))
    }
}

fn constant(c: Constant) -> Option<i128> {
    match c.scalar {
        Scalar::Bool | Scalar::U32 | Scalar::U64 => Some(c.bits.into()),
        Scalar::I32 => Some((c.bits as u32 as i32).into()),
        Scalar::I64 => Some((c.bits as i64).into()),
        Scalar::F32 | Scalar::F64 => None,
    }
}

/// What an operation on integers of a type gives.
fn binary(op: Binary, x: Range, y: Range, s: Scalar) -> Range {
    let any = Range::of(s);
    match op {
        Binary::Add => x.plus(y),
        Binary::Sub => x.minus(y),
        Binary::Mul => x.times(y),
        // By 0 it is 0.
        Binary::Div if y.low >= 1 => x.over(y),
        Binary::Div if x.low >= 0 && y.low >= 0 => Range::between(0, x.high),
        Binary::Rem if x.low >= 0 && y.low >= 0 => Range::between(0, x.high.min((y.high - 1).max(0))),
        Binary::Min => Range::between(x.low.min(y.low), x.high.min(y.high)),
        Binary::Max => Range::between(x.low.max(y.low), x.high.max(y.high)),
        Binary::And if x.low >= 0 && y.low >= 0 => Range::between(0, x.high.min(y.high)),
        Binary::And if x.low >= 0 => Range::between(0, x.high),
        Binary::And if y.low >= 0 => Range::between(0, y.high),
        Binary::Shl => match y.is_one() {
            Some(by) if (0..i128::from(s.bits())).contains(&by) => x.times(Range::one(1 << by)),
            _ => any,
        },
        Binary::Shr => match y.is_one() {
            Some(by) if (0..i128::from(s.bits())).contains(&by) => Range::between(x.low >> by, x.high >> by),
            _ if x.low >= 0 => Range::between(0, x.high),
            _ => any,
        },
        Binary::Div
        | Binary::Rem
        | Binary::And
        | Binary::Or
        | Binary::Xor
        | Binary::MulHigh
        | Binary::CopySign => any,
    }
}
