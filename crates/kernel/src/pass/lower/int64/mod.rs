//! Lowering of 64-bit integers to pairs of 32-bit ones, for targets that have none (WGSL).
//!
//! A value becomes two of u32, the low word first; so does a parameter, a number that a loop
//! carries, and an element of memory, whose index is doubled. An index of 64 bits into memory is
//! its low word: no memory of such a target has 2^32 elements. A loop that counts in 64 bits
//! becomes two of 32 (see [`Split::count`]).
//!
//! `arith` has what is done to pairs, `convert` conversions to and from other types. Everything is
//! whole: division by zero, shifts beyond the width and saturation are as the instructions say,
//! whatever is lowered after.

mod arith;
mod convert;

use super::writer::Writer;
use crate::ir::{
    Binary, Builtin, Compare, Elem, Inst, Kernel, Op, Param, Place, Reduce, Region, Scalar, Type, Value,
};
use arith::{Pair, element};
use std::collections::HashSet;

/// Iterations of the inner loop of those that count in 64 bits, as a power of two: what is left of
/// 63 bits fits into u32.
const INNER_BITS: u32 = 31;

fn is_wide(s: Scalar) -> bool {
    matches!(s, Scalar::I64 | Scalar::U64)
}

/// Makes pairs of all 64-bit integers of a kernel.
pub fn split(k: &mut Kernel) {
    let mut at = 0;
    let params: Vec<u32> = (k.params.iter())
        .map(|p| {
            let here = at;
            at += if is_wide(p.scalar) { 2 } else { 1 };
            here
        })
        .collect();
    let halves = |p: Param| match is_wide(p.scalar) {
        true => ["low", "high"]
            .map(|half| Param { name: format!("{}_{half}", p.name), scalar: Scalar::U32 })
            .to_vec(),
        false => vec![p],
    };
    k.params = std::mem::take(&mut k.params).into_iter().flat_map(halves).collect();
    let wide = |elem: &mut Elem| {
        let is = is_wide(elem.scalar());
        if is {
            *elem = Elem::U32;
        }
        is
    };
    let buffers = k.buffers.iter_mut().map(|b| wide(&mut b.elem)).collect();
    let shared = (k.shared.iter_mut())
        .map(|s| {
            let is = wide(&mut s.elem);
            if is {
                s.len *= 2;
            }
            is
        })
        .collect();
    let w = Writer::new(std::mem::take(&mut k.values));
    let pairs = vec![None; w.values.len()];
    let mut s =
        Split { w, pairs, params, buffers, shared, lanes: k.subgroup.unwrap_or(1), ones: HashSet::new() };
    s.region(&mut k.body);
    k.values = s.w.values;
}

struct Split {
    w: Writer,
    /// What stands for a value.
    pairs: Vec<Option<Pair>>,
    /// Where parameters went.
    params: Vec<u32>,
    /// Which memory held 64-bit integers.
    buffers: Vec<bool>,
    shared: Vec<bool>,
    /// Of a subgroup.
    lanes: u32,
    /// Values that are the number 1.
    ones: HashSet<Value>,
}

impl Split {
    fn wide(&self, v: Value) -> bool {
        self.w.ty(v).scalar().is_some_and(is_wide)
    }
    fn pair(&self, v: Value) -> Pair {
        self.pairs[v.0 as usize].expect("it was defined before")
    }
    /// The value itself, or the low word of what stands for it.
    fn word(&self, v: Value) -> Value {
        if self.wide(v) { self.pair(v)[0] } else { v }
    }
    fn set(&mut self, v: Value, pair: Pair) {
        // Values that were made here are never wide.
        self.pairs[v.0 as usize] = Some(pair);
    }
    /// The words of all values, in order.
    fn flat(&self, all: &[Value]) -> Vec<Value> {
        all.iter().flat_map(|&v| if self.wide(v) { self.pair(v).to_vec() } else { vec![v] }).collect()
    }
    /// Values for the results or arguments of what holds a region: pairs of new ones for those that
    /// are wide.
    fn define(&mut self, all: &[Value]) -> Vec<Value> {
        let mut flat = Vec::new();
        for &v in all {
            if !self.wide(v) {
                flat.push(v);
                continue;
            }
            let ty = self.w.ty(v).of(Scalar::U32);
            let pair = [self.w.value(ty), self.w.value(ty)];
            self.set(v, pair);
            flat.extend(pair);
        }
        flat
    }
    fn held_wide(&self, p: Place) -> bool {
        match p {
            Place::Buffer(i) => self.buffers[i as usize],
            Place::Shared(i) => self.shared[i as usize],
        }
    }

    fn region(&mut self, r: &mut Region) {
        let outer = std::mem::take(&mut self.w.out);
        r.args = self.define(&r.args);
        for inst in std::mem::take(&mut r.insts) {
            self.inst(inst);
        }
        r.yields = self.flat(&r.yields);
        r.insts = std::mem::replace(&mut self.w.out, outer);
    }

    fn inst(&mut self, mut inst: Inst) {
        if let Op::If(_, then, other) = &mut inst.op {
            self.region(then);
            self.region(other);
            inst.results = self.define(&inst.results);
            self.w.out.push(inst);
            return;
        }
        if let Op::For { start, end, step, init, body } = inst.op {
            return self.repeat([start, end, step], &init, body, &inst.results);
        }
        if let Some(&v) = inst.results.first()
            && self.wide(v)
        {
            let pair = self.made(&inst.op, v);
            return self.set(v, pair);
        }
        self.narrow(inst);
    }

    /// An instruction whose result is not wide.
    fn narrow(&mut self, mut inst: Inst) {
        match inst.op {
            Op::Param(i) => inst.op = Op::Param(self.params[i as usize]),
            Op::Compare(op, a, b) if self.wide(a) => {
                let signed = self.w.scalar(a).is_signed();
                let (a, b) = (self.pair(a), self.pair(b));
                inst.op = arith::compare(&mut self.w, op, signed, a, b);
            }
            Op::Convert(to, a) if self.wide(a) => {
                let signed = self.w.scalar(a).is_signed();
                let a = self.pair(a);
                inst.op = convert::narrow(&mut self.w, a, signed, to);
            }
            Op::Extract(..) | Op::Load(..) => self.indices(&mut inst.op),
            Op::Store(p, at, v) if self.held_wide(p) => {
                let (at, v) = (self.doubled(at), self.pair(v));
                return self.store(p, at, v);
            }
            Op::CpAsync { to, at, from, index, count, there } if self.held_wide(to) => {
                let (at, index) = (self.doubled(at), self.doubled(index));
                inst.op = Op::CpAsync { to, at, from, index, count: 2 * count, there };
            }
            _ => self.indices(&mut inst.op),
        }
        self.w.out.push(inst);
    }

    /// What is left of wide operands are indices into memory.
    fn indices(&self, op: &mut Op) {
        op.each_operand_mut(&mut |v| *v = self.word(*v));
    }

    /// The index of the first of an element's words.
    fn doubled(&mut self, at: Value) -> Value {
        let at = self.word(at);
        let one = self.w.int(at, 1);
        self.w.binary(Binary::Shl, at, one)
    }

    /// The words of a wide result.
    fn made(&mut self, op: &Op, v: Value) -> Pair {
        let (ty, signed) = (self.w.ty(v), self.w.scalar(v).is_signed());
        let words = ty.of(Scalar::U32);
        let both =
            |s: &mut Self, f: &dyn Fn(Value) -> Op, a: &Value| s.pair(*a).map(|x| s.w.push(f(x), words));
        match op {
            Op::Const(c) => {
                if c.bits == 1 {
                    self.ones.insert(v);
                }
                [c.bits as u32, (c.bits >> 32) as u32]
                    .map(|bits| self.w.push(Op::Const(bits.into()), Type::U32))
            }
            Op::Param(i) => {
                let i = self.params[*i as usize];
                [i, i + 1].map(|i| self.w.push(Op::Param(i), Type::U32))
            }
            Op::Unary(op, a) => {
                let a = self.pair(*a);
                arith::unary(&mut self.w, *op, a)
            }
            Op::Binary(op, a, b) => {
                let (a, b) = (self.pair(*a), self.pair(*b));
                arith::binary(&mut self.w, *op, signed, a, b)
            }
            Op::Select(c, a, b) => {
                let (a, b) = (self.pair(*a), self.pair(*b));
                arith::pick(&mut self.w, *c, a, b)
            }
            Op::Convert(_, a) if self.wide(*a) => self.pair(*a),
            Op::Convert(_, a) => convert::widen(&mut self.w, *a, signed),
            // Between the two of 64 bits: the target has no float of 64.
            Op::Bitcast(_, a) => self.pair(*a),
            Op::Splat(n, a) => both(self, &|x| Op::Splat(*n, x), a),
            Op::Extract(a, i) => both(self, &|x| Op::Extract(x, *i), a),
            Op::Compose(all) => {
                let pairs: Vec<Pair> = all.iter().map(|&v| self.pair(v)).collect();
                [0, 1].map(|i| self.w.push(Op::Compose(pairs.iter().map(|p| p[i]).collect()), words))
            }
            Op::Load(p, at, width) => {
                let at = self.doubled(*at);
                self.load(*p, at, *width)
            }
            Op::Reduce(op @ (Reduce::And | Reduce::Or), a) => both(self, &|x| Op::Reduce(*op, x), a),
            Op::Reduce(op, a) => self.reduce(*op, signed, self.pair(*a)),
            _ => unreachable!("the verifier knows no other instruction that gives a 64-bit integer"),
        }
    }

    fn load(&mut self, p: Place, at: Value, width: u8) -> Pair {
        let mut words = Vec::new();
        for first in (0..2 * width).step_by(4) {
            let at = self.beyond(at, first);
            let n = (2 * width).min(4);
            let some = self.w.push(Op::Load(p, at, n), Type::Vector(Scalar::U32, n));
            words.extend((0..n).map(|i| self.w.push(Op::Extract(some, i), Type::U32)));
        }
        [0, 1].map(|half| {
            let own: Vec<Value> = words.iter().skip(half).step_by(2).copied().collect();
            match own[..] {
                [one] => one,
                _ => self.w.push(Op::Compose(own), Type::Vector(Scalar::U32, width)),
            }
        })
    }

    fn store(&mut self, p: Place, at: Value, v: Pair) {
        let width = self.w.ty(v[0]).width();
        let words: Vec<Value> =
            (0..width).flat_map(|i| v.map(|half| element(&mut self.w, half, i))).collect();
        for (i, some) in words.chunks(4).enumerate() {
            let at = self.beyond(at, 4 * i as u8);
            let all = self.w.push(Op::Compose(some.to_vec()), Type::Vector(Scalar::U32, some.len() as u8));
            self.w.out.push(Inst { op: Op::Store(p, at, all), results: Vec::new() });
        }
    }

    fn beyond(&mut self, at: Value, n: u8) -> Value {
        if n == 0 {
            return at;
        }
        let n = self.w.int(at, i64::from(n));
        self.w.binary(Binary::Add, at, n)
    }

    /// All lanes combined, in as many steps as a lane's number has bits.
    fn reduce(&mut self, op: Reduce, signed: bool, a: Pair) -> Pair {
        let op = match op {
            Reduce::Add => Binary::Add,
            Reduce::Min => Binary::Min,
            Reduce::Max => Binary::Max,
            Reduce::And | Reduce::Or => unreachable!("these are done word by word"),
        };
        let lane = self.w.push(Op::Builtin(Builtin::SubgroupLane), Type::U32);
        let (mut all, mut far) = (a, self.lanes / 2);
        while far > 0 {
            let distance = self.w.u32(lane, far);
            let other = self.w.binary(Binary::Xor, lane, distance);
            let theirs = all.map(|x| self.w.push(Op::Shuffle(x, other), self.w.ty(x)));
            all = arith::binary(&mut self.w, op, signed, all, theirs);
            far /= 2;
        }
        all
    }

    fn repeat(
        &mut self,
        bounds @ [start, end, step]: [Value; 3],
        init: &[Value],
        mut body: Region,
        results: &[Value],
    ) {
        let init = self.flat(init);
        if self.wide(start) {
            return self.count(bounds, init, body, results);
        }
        self.region(&mut body);
        let results = self.define(results);
        self.w.out.push(Inst { op: Op::For { start, end, step, init, body }, results });
    }

    /// A loop that counts in 64 bits: the number of its iterations, which is below 2^63 for any
    /// loop that ends in a lifetime, is cut into a number of inner loops and what is left for the
    /// last of them. The index is carried as a pair.
    fn count(&mut self, bounds: [Value; 3], init: Vec<Value>, mut body: Region, results: &[Value]) {
        let signed = self.w.scalar(bounds[0]).is_signed();
        let by_one = self.ones.contains(&bounds[2]);
        let [start, end, step] = bounds.map(|v| self.pair(v));
        let w = &mut self.w;
        let runs = {
            let less = arith::compare(w, Compare::Lt, signed, start, end);
            w.push(less, Type::BOOL)
        };
        let one = arith::number(w, start[0], 1);
        let span = arith::binary(w, Binary::Sub, false, end, start);
        let last = arith::binary(w, Binary::Sub, false, span, one);
        let more = if by_one { last } else { arith::binary(w, Binary::Div, false, last, step) };
        let turns = arith::binary(w, Binary::Add, false, more, one);
        let none = arith::number(w, start[0], 0);
        let turns = arith::pick(w, runs, turns, none);
        let bits = arith::number(w, start[0], u64::from(INNER_BITS));
        let full = arith::binary(w, Binary::Shr, false, turns, bits)[0];
        let mask = w.u32(full, (1 << INNER_BITS) - 1);
        let rest = w.binary(Binary::And, turns[0], mask);
        let [zero, step_by, most] = [0, 1, 1 << INNER_BITS].map(|n| w.u32(full, n));
        let outer_end = w.binary(Binary::Add, full, step_by);

        // The index comes before what is carried.
        let init = [start.to_vec(), init].concat();
        let types: Vec<Type> = init.iter().map(|&v| w.ty(v)).collect();
        let fresh = |w: &mut Writer| types.iter().map(|&t| w.value(t)).collect::<Vec<Value>>();
        let (turn, outer_carried, inner_results) = (w.value(Type::U32), fresh(w), fresh(w));
        let (results_index, inner_turn) = ([w.value(Type::U32), w.value(Type::U32)], w.value(Type::U32));

        let above = std::mem::take(&mut w.out);
        let is_last = w.compare(Compare::Eq, turn, full);
        let inner_end = w.select(is_last, rest, most);
        let before = std::mem::take(&mut self.w.out);
        // The body's own index is the carried pair.
        self.region(&mut body);
        let index = [body.args[0], body.args[1]];
        self.w.out = std::mem::take(&mut body.insts);
        let next = arith::binary(&mut self.w, Binary::Add, false, index, step);
        body.insts = std::mem::replace(&mut self.w.out, before);
        body.args.insert(0, inner_turn);
        body.yields = [next.to_vec(), body.yields].concat();
        let inner = Op::For { start: zero, end: inner_end, step: step_by, init: outer_carried.clone(), body };
        self.w.out.push(Inst { op: inner, results: inner_results.clone() });
        let insts = std::mem::replace(&mut self.w.out, above);
        let args = [vec![turn], outer_carried].concat();
        let body = Region { args, insts, yields: inner_results };
        let results = [results_index.to_vec(), self.define(results)].concat();
        let outer = Op::For { start: zero, end: outer_end, step: step_by, init, body };
        self.w.out.push(Inst { op: outer, results });
    }
}
