//! Lowering of subgroup operations to exchanges through shared memory, for targets without them, or
//! whose subgroups have another size than the kernel's.
//!
//! Lanes are neighbours in the order of `LocalIndex`. Each invocation stores its number, and after
//! a barrier reads those of the others; another barrier keeps the next exchange from coming too
//! early. Subgroup operations are uniform, so barriers may stand where they do.

use super::writer::{Rewrite, Writer};
use crate::ir::{
    Binary, Builtin, Elem, Inst, Kernel, Op, Place, Reduce, Region, Scalar, Shared, Type, Value,
};

/// Does away with all subgroup operations. With `native` the exchanges stay, and only the numbers
/// of lanes and subgroups are computed.
pub fn exchange(k: &mut Kernel, native: bool) {
    let Some(size) = k.subgroup else { return };
    let (mut most, mut word) = (0, Scalar::U32);
    k.body.each_inst(&mut |inst| {
        if let Op::Shuffle(v, _) | Op::Broadcast(v, _) | Op::Reduce(_, v) = inst.op {
            let ty = k.values[v.0 as usize];
            most = most.max(ty.width());
            if ty.scalar().is_some_and(|s| s.bits() == 64) {
                word = Scalar::U64;
            }
        }
    });
    let place = Place::Shared(k.shared.len() as u32);
    if most > 0 && !native {
        let len = k.invocations() * u32::from(most);
        let elem = if word == Scalar::U64 { Elem::U64 } else { Elem::U32 };
        k.shared.push(Shared { name: "lanes".to_string(), elem, len });
    }
    let w = Writer::new(std::mem::take(&mut k.values));
    Exchange { w, place, word, size, native }.rewrite(k);
    if !native {
        k.subgroup = None;
    }
}

struct Exchange {
    w: Writer,
    place: Place,
    /// What it holds: the bits of the widest number that is exchanged.
    word: Scalar,
    /// Of a subgroup.
    size: u32,
    native: bool,
}

impl Rewrite for Exchange {
    fn writer(&mut self) -> &mut Writer {
        &mut self.w
    }

    fn inst(&mut self, inst: Inst) -> Option<Value> {
        Some(match inst.op {
            Op::Builtin(Builtin::SubgroupLane) => self.index(Binary::And, self.size - 1),
            Op::Builtin(Builtin::SubgroupId) => self.index(Binary::Shr, self.size.ilog2()),
            Op::Shuffle(v, lane) if !self.native => {
                let mask = self.w.u32(lane, self.size - 1);
                let lane = self.w.binary(Binary::And, lane, mask);
                self.shuffle(v, lane)
            }
            Op::Broadcast(v, lane) if !self.native => {
                let lane = self.w.push(Op::Const(u32::from(lane).into()), Type::U32);
                self.shuffle(v, lane)
            }
            Op::Reduce(op, v) if !self.native => self.reduce(op, v),
            _ => {
                self.w.out.push(inst);
                return None;
            }
        })
    }
}

impl Exchange {
    fn index(&mut self, op: Binary, n: u32) -> Value {
        let index = self.w.push(Op::Builtin(Builtin::LocalIndex), Type::U32);
        let n = self.w.u32(index, n);
        self.w.binary(op, index, n)
    }
    fn barrier(&mut self) {
        self.w.out.push(Inst { op: Op::Barrier, results: Vec::new() });
    }

    /// Stores a number for all to see. Gives where the subgroup's first one is.
    fn show(&mut self, v: Value) -> Value {
        let width = u32::from(self.w.ty(v).width());
        let w = &mut self.w;
        let bits = match w.scalar(v) {
            Scalar::U32 | Scalar::U64 => v,
            Scalar::Bool => w.convert(v, Scalar::U32),
            Scalar::I32 | Scalar::F32 => w.bitcast(v, Scalar::U32),
            Scalar::I64 | Scalar::F64 => w.bitcast(v, Scalar::U64),
        };
        let bits = if w.scalar(bits) == self.word { bits } else { w.convert(bits, self.word) };
        let index = w.push(Op::Builtin(Builtin::LocalIndex), Type::U32);
        let (each, mask) = (w.u32(index, width), w.u32(index, !(self.size - 1)));
        let at = w.binary(Binary::Mul, index, each);
        w.out.push(Inst { op: Op::Store(self.place, at, bits), results: Vec::new() });
        let first = w.binary(Binary::And, index, mask);
        let first = w.binary(Binary::Mul, first, each);
        self.barrier();
        first
    }
    /// The bits of a lane's number.
    fn seen(&mut self, like: Type, first: Value, lane: Value) -> Value {
        let w = &mut self.w;
        let each = w.u32(lane, u32::from(like.width()));
        let by = w.binary(Binary::Mul, lane, each);
        let at = w.binary(Binary::Add, first, by);
        let bits = w.push(Op::Load(self.place, at, like.width()), like.of(self.word));
        match like.scalar() {
            Some(s) if s.bits() <= 32 && self.word == Scalar::U64 => w.convert(bits, Scalar::U32),
            Some(_) | None => bits,
        }
    }
    fn typed(&mut self, like: Type, bits: Value) -> Value {
        match like.scalar() {
            Some(Scalar::U32 | Scalar::U64) | None => bits,
            Some(Scalar::Bool) => self.w.convert(bits, Scalar::Bool),
            Some(s) => self.w.bitcast(bits, s),
        }
    }

    fn shuffle(&mut self, v: Value, lane: Value) -> Value {
        let ty = self.w.ty(v);
        let first = self.show(v);
        let bits = self.seen(ty, first, lane);
        self.barrier();
        self.typed(ty, bits)
    }

    /// All lanes' numbers, in an order that does not matter.
    fn reduce(&mut self, op: Reduce, v: Value) -> Value {
        let ty = self.w.ty(v);
        let op = match op {
            Reduce::Add => Binary::Add,
            Reduce::Min => Binary::Min,
            Reduce::Max => Binary::Max,
            Reduce::And => Binary::And,
            Reduce::Or => Binary::Or,
        };
        let first = self.show(v);
        let [zero, one, end] = [0, 1, self.size].map(|n| self.w.u32(first, n));
        let init = self.seen(ty, first, zero);
        let init = self.typed(ty, init);
        let (lane, carried, result) = (self.w.value(Type::U32), self.w.value(ty), self.w.value(ty));
        let outer = std::mem::take(&mut self.w.out);
        let bits = self.seen(ty, first, lane);
        let other = self.typed(ty, bits);
        let all = self.w.binary(op, carried, other);
        let insts = std::mem::replace(&mut self.w.out, outer);
        let body = Region { args: vec![lane, carried], insts, yields: vec![all] };
        let op = Op::For { start: one, end, step: one, init: vec![init], body };
        self.w.out.push(Inst { op, results: vec![result] });
        self.barrier();
        result
    }
}
