//! Instructions of a subgroup: reductions, exchanges, fragments of tensor cores.

use super::{Builder, Val};
use crate::ir::{Fragment, FragmentLayout, Op, Place, Reduce, Type};

impl Builder {
    /// All lanes of the subgroup combined.
    pub fn reduce(&self, op: Reduce, v: Val<'_>) -> Val<'_> {
        self.push(Op::Reduce(op, v.id), v.ty())
    }
    /// The value of another lane.
    pub fn shuffle(&self, v: Val<'_>, lane: Val<'_>) -> Val<'_> {
        self.push(Op::Shuffle(v.id, lane.id), v.ty())
    }
    /// The value of one lane.
    pub fn broadcast(&self, v: Val<'_>, lane: u8) -> Val<'_> {
        self.push(Op::Broadcast(v.id, lane), v.ty())
    }
    /// A fragment from memory.
    pub fn fragment_load(
        &self,
        f: Fragment,
        l: FragmentLayout,
        p: Place,
        at: Val<'_>,
        stride: Val<'_>,
    ) -> Val<'_> {
        self.push(Op::FragmentLoad(f, l, p, at.id, stride.id), Type::Fragment(f))
    }
    /// A fragment of one number.
    pub fn fragment_fill(&self, f: Fragment, v: Val<'_>) -> Val<'_> {
        self.push(Op::FragmentFill(f, v.id), Type::Fragment(f))
    }
    /// c + a * b
    pub fn fragment_mul_add(&self, a: Val<'_>, b: Val<'_>, c: Val<'_>) -> Val<'_> {
        self.push(Op::FragmentMulAdd(a.id, b.id, c.id), c.ty())
    }
    /// The numbers that a lane has of eight columns of sums.
    ///
    /// # Panics
    /// If it is no fragment.
    pub fn fragment_extract(&self, v: Val<'_>, eighth: u8) -> Val<'_> {
        let Type::Fragment(f) = v.ty() else { panic!("{}: the numbers of a {}", self.name(), v.ty()) };
        self.push(Op::FragmentExtract(v.id, eighth), Type::Vector(f.elem.scalar(), 4))
    }
    /// The fragment of such numbers.
    pub fn fragment_compose(&self, f: Fragment, all: &[Val<'_>]) -> Val<'_> {
        self.push(Op::FragmentCompose(f, all.iter().map(|v| v.id).collect()), Type::Fragment(f))
    }
    /// A fragment to memory.
    pub fn fragment_store(&self, l: FragmentLayout, p: Place, at: Val<'_>, stride: Val<'_>, v: Val<'_>) {
        self.push_none(Op::FragmentStore(l, p, at.id, stride.id, v.id));
    }

    // Control
}
