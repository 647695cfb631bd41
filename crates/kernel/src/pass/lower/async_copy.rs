//! Lowering of cp.async where the device has none: loads and stores, where the copy begins.
//!
//! Data that arrives before it is waited for does no harm, and barriers stay where they are.

use super::writer::Writer;
use crate::ir::{Binary, Constant, Elem, Inst, Op, Place, Region, Scalar, Type, Value};

/// Elements of a load, at most.
const MAX_WIDTH: u8 = 4;

/// Writes what stands for an instruction, if it has to do with copies; says whether it has.
pub fn lower(w: &mut Writer, shared: &[Elem], op: &Op) -> bool {
    match *op {
        Op::CpAsyncCommit | Op::CpAsyncWait(_) => true,
        Op::CpAsync { to: Place::Shared(to), at, from, index, count, there } => {
            let scalar = shared[to as usize].scalar();
            let width = count.min(MAX_WIDTH);
            for first in (0..count).step_by(usize::from(width)) {
                let [at, index] = [at, index].map(|v| plus(w, v, first));
                let then = inside(w, |w| w.push(Op::Load(from, index, width), Type::Vector(scalar, width)));
                let other = inside(w, |w| zeros(w, scalar, width));
                let v = w.push(Op::If(there, then, other), Type::Vector(scalar, width));
                w.out.push(Inst { op: Op::Store(Place::Shared(to), at, v), results: Vec::new() });
            }
            true
        }
        _ => false,
    }
}

fn plus(w: &mut Writer, v: Value, n: u8) -> Value {
    if n == 0 {
        return v;
    }
    let n = w.int(v, i64::from(n));
    w.binary(Binary::Add, v, n)
}

fn zeros(w: &mut Writer, s: Scalar, width: u8) -> Value {
    let zero = w.push(Op::Const(Constant::int(s, 0)), s.into());
    if width == 1 { zero } else { w.push(Op::Splat(width, zero), Type::Vector(s, width)) }
}

/// A region that yields one value.
fn inside(w: &mut Writer, f: impl FnOnce(&mut Writer) -> Value) -> Region {
    let outer = std::mem::take(&mut w.out);
    let v = f(w);
    Region { args: Vec::new(), insts: std::mem::replace(&mut w.out, outer), yields: vec![v] }
}
