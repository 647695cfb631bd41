//! A writer of instructions in the middle of a kernel, and the walk of passes that have one.

use crate::ir::{Binary, Compare, Constant, Inst, Kernel, Op, Region, Scalar, Type, Unary, Value};
use crate::pass::replacement::Replacements;

/// New instructions, and the types of all values.
pub struct Writer {
    pub values: Vec<Type>,
    pub out: Vec<Inst>,
}

impl Writer {
    pub fn new(values: Vec<Type>) -> Self {
        Writer { values, out: Vec::new() }
    }
    pub fn ty(&self, v: Value) -> Type {
        self.values[v.0 as usize]
    }
    pub fn scalar(&self, v: Value) -> Scalar {
        self.ty(v).scalar().expect("arithmetic is on vectors")
    }
    /// A new value, which an instruction will define.
    pub fn value(&mut self, ty: Type) -> Value {
        let v = Value(self.values.len() as u32);
        self.values.push(ty);
        v
    }
    pub fn push(&mut self, op: Op, ty: Type) -> Value {
        let v = self.value(ty);
        self.out.push(Inst { op, results: vec![v] });
        v
    }
    /// A number, as wide as a value.
    pub fn number(&mut self, like: Value, c: Constant) -> Value {
        let v = self.push(Op::Const(c), c.scalar.into());
        match self.ty(like).width() {
            1 => v,
            w => self.push(Op::Splat(w, v), Type::Vector(c.scalar, w)),
        }
    }
    /// A whole number of a value's own type.
    pub fn int(&mut self, like: Value, n: i64) -> Value {
        let c = Constant::int(self.scalar(like), n);
        self.number(like, c)
    }
    /// A u32, as wide as a value.
    pub fn u32(&mut self, like: Value, n: u32) -> Value {
        self.number(like, n.into())
    }
    /// An f32, as wide as a value.
    pub fn f32(&mut self, like: Value, n: f32) -> Value {
        self.number(like, n.into())
    }
    pub fn unary(&mut self, op: Unary, a: Value) -> Value {
        self.push(Op::Unary(op, a), self.ty(a))
    }
    pub fn binary(&mut self, op: Binary, a: Value, b: Value) -> Value {
        self.push(Op::Binary(op, a, b), self.ty(a))
    }
    pub fn compare(&mut self, op: Compare, a: Value, b: Value) -> Value {
        self.push(Op::Compare(op, a, b), self.ty(a).of(Scalar::Bool))
    }
    pub fn select(&mut self, c: Value, a: Value, b: Value) -> Value {
        self.push(Op::Select(c, a, b), self.ty(a))
    }
    pub fn convert(&mut self, a: Value, to: Scalar) -> Value {
        self.push(Op::Convert(to, a), self.ty(a).of(to))
    }
    pub fn bitcast(&mut self, a: Value, to: Scalar) -> Value {
        self.push(Op::Bitcast(to, a), self.ty(a).of(to))
    }
}

/// A pass that looks at each instruction once, in order, those inside of it before it.
pub trait Rewrite: Sized {
    fn writer(&mut self) -> &mut Writer;
    /// Writes the instruction, or others in its place. Gives what stands for its result, if that is
    /// another value.
    fn inst(&mut self, inst: Inst) -> Option<Value>;

    /// Rewrites a kernel whose values the writer has.
    fn rewrite(mut self, k: &mut Kernel) {
        region(&mut self, &mut k.body, &mut Replacements::default());
        k.values = std::mem::take(&mut self.writer().values);
    }
}

/// Results are replaced in this region and in those inside of it, which come after.
fn region(l: &mut impl Rewrite, r: &mut Region, replacements: &mut Replacements) {
    let outer = std::mem::take(&mut l.writer().out);
    for mut inst in std::mem::take(&mut r.insts) {
        inst.op.each_operand_mut(&mut |v| replacements.replace(v));
        for inner in inst.op.regions_mut() {
            region(l, inner, replacements);
        }
        let old = inst.results.first().copied();
        if let Some(new) = l.inst(inst) {
            replacements.put(old.expect("only a result is replaced"), new);
        }
    }
    replacements.replace_yields(r);
    r.insts = std::mem::replace(&mut l.writer().out, outer);
}
