//! [`IntExpression`]: a formula on integers, as a list of calls of an [`Int`]'s methods.
//!
//! A formula does not know its type: a literal is truncated, and [`Int::within`] compares, when it
//! is replayed. So one recording serves i64, i32, u8 and bool.

use super::{IntId, MaskId, MaskNode, Recorder, Restore, Slot};
use crate::int::Int;
use crate::lane::Mask;
use std::cell::RefCell;

methods! {
    /// Functions from two integers to an integer.
    Binary
    call [I: Int] (self, x: I, y: I) -> I { self => x (y) }
    record binary_methods (self, y: Self) -> Self { (self, y) }
    operators {}
    methods {
        Power power; Add add; Sub sub; Mul mul; DivTrunc div_trunc; RemTrunc rem_trunc;
        DivFloor div_floor; RemFloor rem_floor; Min min; Max max; And and; Or or; Xor xor; Shl shl; Shr shr;
    }
}

methods! {
    /// Comparisons.
    Compare
    call [I: Int] (self, x: I, y: I) -> I::Mask { self => x (y) }
    record compare_methods (self, y: Self) -> RecordedIntMask { (self, y) }
    operators {}
    methods { Lt lt; Eq eq; }
}

/// One call. Its result gets the next index of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Node {
    // Integers.
    Literal(i64),
    Not(IntId),
    Binary(Binary, IntId, IntId),
    Select(MaskId, IntId, IntId),
    Within(IntId, Option<i64>, Option<i64>),
    FromMask(MaskId),
    // Masks.
    Mask(MaskNode),
    IsTrue(IntId),
    Compare(Compare, IntId, IntId),
}

thread_local! {
    static RECORDER: RefCell<Option<Recorder<Node>>> = const { RefCell::new(None) };
}
const SLOT: &Slot<Node> = &RECORDER;

// Never inlined: there are thousands of calls, and what they do is the same.
#[inline(never)]
fn push_int(node: Node) -> RecordedInt {
    RecordedInt(super::with_recorder(SLOT, |r| r.int(node)))
}
#[inline(never)]
fn push_mask(node: Node) -> RecordedIntMask {
    RecordedIntMask(super::with_recorder(SLOT, |r| r.mask(node)))
}
fn push_mask_node(node: MaskNode) -> MaskId {
    push_mask(Node::Mask(node)).0
}

/// An integer of any type whose operations are recorded.
#[derive(Clone, Copy, Debug)]
pub struct RecordedInt(IntId);

recorded_mask! {
    /// What a comparison of recorded integers gives.
    RecordedIntMask push_mask_node
}

impl Binary {
    fn record(self, x: RecordedInt, y: RecordedInt) -> RecordedInt {
        push_int(Node::Binary(self, x.0, y.0))
    }
}
impl Compare {
    fn record(self, x: RecordedInt, y: RecordedInt) -> RecordedIntMask {
        push_mask(Node::Compare(self, x.0, y.0))
    }
}

impl Int for RecordedInt {
    type Mask = RecordedIntMask;

    fn lit(v: i64) -> Self {
        push_int(Node::Literal(v))
    }
    binary_methods!();
    compare_methods!();
    fn select(mask: RecordedIntMask, a: Self, b: Self) -> Self {
        push_int(Node::Select(mask.0, a.0, b.0))
    }
    fn within(self, min: Option<i64>, max: Option<i64>) -> Self {
        push_int(Node::Within(self.0, min, max))
    }
    fn not(self) -> Self {
        push_int(Node::Not(self.0))
    }
    fn from_mask(c: RecordedIntMask) -> Self {
        push_int(Node::FromMask(c.0))
    }
    fn is_true(self) -> RecordedIntMask {
        push_mask(Node::IsTrue(self.0))
    }
}

/// A formula on integers as a straight-line program. See the [module](super).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IntExpression {
    inputs: u32,
    masks: u32,
    nodes: Vec<Node>,
    outputs: Vec<IntId>,
}

impl IntExpression {
    /// What `formula` does with `inputs` operands.
    // Formulas are objects here, so that only they are compiled for each formula.
    pub fn record(inputs: usize, formula: &dyn Fn(&[RecordedInt]) -> Vec<RecordedInt>) -> IntExpression {
        let (recording, operands) = Self::start(inputs);
        Self::finish(recording, &operands, &formula(&operands))
    }
    /// The same for a formula with one result.
    pub fn record_one(inputs: usize, formula: &dyn Fn(&[RecordedInt]) -> RecordedInt) -> IntExpression {
        let (recording, operands) = Self::start(inputs);
        Self::finish(recording, &operands, &[formula(&operands)])
    }
    fn start(inputs: usize) -> (Restore<Node>, Vec<RecordedInt>) {
        let inputs = u32::try_from(inputs).expect("operands of a formula are few");
        let recording = Restore::start(SLOT, Recorder::with_ints(inputs));
        (recording, (0..inputs).map(|i| RecordedInt(IntId(i))).collect())
    }
    fn finish(recording: Restore<Node>, operands: &[RecordedInt], results: &[RecordedInt]) -> IntExpression {
        let Recorder { mut nodes, bits: _, floats: _, ints, masks } = recording.finish();
        nodes.shrink_to_fit();
        assert!(results.iter().all(|x| x.0.0 < ints), "a result comes from another recording");
        let outputs = results.iter().map(|x| x.0).collect();
        IntExpression { inputs: operands.len() as u32, masks, nodes, outputs }
    }

    /// How many operands there are.
    pub fn inputs(&self) -> usize {
        self.inputs as usize
    }
    /// How many results there are.
    pub fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// The results at operands `x`.
    ///
    /// # Panics
    /// If `x` has another number of operands than was recorded.
    pub fn replay<I: Int>(&self, x: &[I]) -> Vec<I> {
        let ints = self.ints(x);
        self.outputs.iter().map(|id| ints[id.0 as usize]).collect()
    }

    /// The only result at operands `x`.
    ///
    /// # Panics
    /// As [`IntExpression::replay`], or if there is not exactly one result.
    pub fn replay_one<I: Int>(&self, x: &[I]) -> I {
        let [id] = self.outputs[..] else {
            panic!("the expression has {} results, not one", self.outputs.len())
        };
        self.ints(x)[id.0 as usize]
    }

    /// All integers: the operands, and what the nodes give.
    fn ints<I: Int>(&self, x: &[I]) -> Vec<I> {
        assert_eq!(x.len(), self.inputs(), "operands of the expression");
        let mut r = Registers::<I> {
            ints: Vec::with_capacity(x.len() + self.nodes.len() - self.masks as usize),
            masks: Vec::with_capacity(self.masks as usize),
        };
        r.ints.extend_from_slice(x);
        for &node in &self.nodes {
            r.step(node);
        }
        r.ints
    }
}

/// The values so far, by class and index.
struct Registers<I: Int> {
    ints: Vec<I>,
    masks: Vec<I::Mask>,
}

impl<I: Int> Registers<I> {
    fn int(&self, id: IntId) -> I {
        self.ints[id.0 as usize]
    }
    fn mask(&self, id: MaskId) -> I::Mask {
        self.masks[id.0 as usize]
    }

    /// Makes the call of a node.
    fn step(&mut self, node: Node) {
        match node {
            Node::Literal(v) => self.ints.push(I::lit(v)),
            Node::Not(x) => self.ints.push(self.int(x).not()),
            Node::Binary(f, x, y) => self.ints.push(f.call(self.int(x), self.int(y))),
            Node::Select(m, a, b) => self.ints.push(I::select(self.mask(m), self.int(a), self.int(b))),
            Node::Within(x, min, max) => self.ints.push(self.int(x).within(min, max)),
            Node::FromMask(m) => self.ints.push(I::from_mask(self.mask(m))),
            Node::Mask(m) => self.masks.push(m.call(&self.masks)),
            Node::IsTrue(x) => self.masks.push(self.int(x).is_true()),
            Node::Compare(f, x, y) => self.masks.push(f.call(self.int(x), self.int(y))),
        }
    }
}
