//! [`Expression`]: a formula on floats, as a list of calls of a [`Lane`]'s methods.

use super::{FloatId, IntId, MaskId, MaskNode, Recorder, Restore, Slot};
use crate::lane::{Lane, LaneInt, Mask};
use std::cell::RefCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

methods! {
    /// Functions from a float to a float.
    Unary
    call [L: Lane] (self, x: L) -> L { self => x () }
    record unary_methods (self) -> Self { (self) }
    operators { Neg neg; }
    methods {
        Sqrt sqrt; Abs abs; Round round; Floor floor; Ceil ceil; Trunc trunc;
        Exp exp; Exp2 exp2; Expm1 expm1; Log log; Log2 log2; Log10 log10; Log1p log1p;
        Sin sin; Cos cos; Tan tan; Asin asin; Acos acos; Atan atan; Sinh sinh; Cosh cosh; Tanh tanh;
        Erf erf; Phi phi; Sigmoid sigmoid; Rsqrt rsqrt;
        Asinh asinh; Acosh acosh; Atanh atanh; Erfc erfc; Erfcx erfcx; Erfinv erfinv; Ndtr ndtr; LogNdtr log_ndtr; Ndtri ndtri; Lgamma lgamma; Digamma digamma;
    }
}

methods! {
    /// Functions from two floats to a float.
    Binary
    call [L: Lane] (self, x: L, y: L) -> L { self => x (y) }
    record binary_methods (self, y: Self) -> Self { (self, y) }
    operators { Add add; Sub sub; Mul mul; Div div; }
    methods {
        Min min; Max max; CopySign copysign; WithSignBit with_sign_bit; AtLeast at_least; AtMost at_most; Fmod fmod; Pow pow; Atan2 atan2;
    }
}

methods! {
    /// Functions from a float to a mask.
    Test
    call [L: Lane] (self, x: L) -> L::Mask { self => x () }
    record test_methods (self) -> RecordedMask { (self) }
    operators {}
    methods { IsNan is_nan; ToMask to_mask; }
}

methods! {
    /// Comparisons of floats.
    Compare
    call [L: Lane] (self, x: L, y: L) -> L::Mask { self => x (y) }
    record compare_methods (self, y: Self) -> RecordedMask { (self, y) }
    operators {}
    methods { Lt lt; Le le; Eq eq; Gt gt; Ge ge; Ne ne; }
}

methods! {
    /// Functions from two integers to an integer.
    IntBinary
    call [M: Mask, I: LaneInt<M>] (self, x: I, y: I) -> I { self => x (y) }
    record int_binary_methods (self, y: Self) -> Self { (self, y) }
    operators { Add add; Sub sub; Mul mul; And bitand; Or bitor; Xor bitxor; }
    methods { ShlBy shl_by; ShrLogicalBy shr_logical_by; MulHighUnsigned mul_high_unsigned; }
}

methods! {
    /// Shifts of an integer by a constant.
    Shift
    call [M: Mask, I: LaneInt<M>] (self, x: I, n: u32) -> I { self => x (n) }
    record shift_methods (self, n: u32) -> Self { (self, n) }
    operators {}
    methods { Shl shl; Shr shr; ShrLogical shr_logical; }
}

methods! {
    /// Comparisons of integers.
    IntCompare
    call [M: Mask, I: LaneInt<M>] (self, x: I, y: I) -> M { self => x (y) }
    record int_compare_methods (self, y: Self) -> RecordedMask { (self, y) }
    operators {}
    methods { Eq eq; Lt lt; }
}

/// A constant; equal where the bits are.
#[derive(Clone, Copy)]
struct Literal(f64);

impl PartialEq for Literal {
    fn eq(&self, o: &Self) -> bool {
        f64::to_bits(self.0) == f64::to_bits(o.0)
    }
}
impl Eq for Literal {}
impl Hash for Literal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        f64::to_bits(self.0).hash(state);
    }
}
impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One call. Its result gets the next index of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Node {
    // Floats.
    Literal(Literal),
    Unary(Unary, FloatId),
    Binary(Binary, FloatId, FloatId),
    Fma(FloatId, FloatId, FloatId),
    Select(MaskId, FloatId, FloatId),
    FromMask(MaskId),
    FromBits(IntId),
    FromInt(IntId),
    // Integers.
    IntLiteral(i64),
    IntNot(IntId),
    IntBinary(IntBinary, IntId, IntId),
    Shift(Shift, IntId, u32),
    IntSelect(MaskId, IntId, IntId),
    ToBits(FloatId),
    ToInt(FloatId),
    // Masks.
    Mask(MaskNode),
    Test(Test, FloatId),
    Compare(Compare, FloatId, FloatId),
    IntCompare(IntCompare, IntId, IntId),
}

thread_local! {
    static RECORDER: RefCell<Option<Recorder<Node>>> = const { RefCell::new(None) };
}
const SLOT: &Slot<Node> = &RECORDER;

// Never inlined: there are thousands of calls, and what they do is the same.
#[inline(never)]
fn push_float(node: Node) -> Recorded {
    Recorded(super::with_recorder(SLOT, |r| r.float(node)))
}
#[inline(never)]
fn push_int(node: Node) -> RecordedBits {
    RecordedBits(super::with_recorder(SLOT, |r| r.int(node)))
}
#[inline(never)]
fn push_mask(node: Node) -> RecordedMask {
    RecordedMask(super::with_recorder(SLOT, |r| r.mask(node)))
}
fn push_mask_node(node: MaskNode) -> MaskId {
    push_mask(Node::Mask(node)).0
}

/// A float of any width whose operations are recorded.
#[derive(Clone, Copy, Debug)]
pub struct Recorded(FloatId);

/// The integer as wide as a recorded float: its bit pattern, or a whole number.
#[derive(Clone, Copy, Debug)]
pub struct RecordedBits(IntId);

recorded_mask! {
    /// What a comparison of recorded floats gives.
    RecordedMask push_mask_node
}

impl Unary {
    fn record(self, x: Recorded) -> Recorded {
        push_float(Node::Unary(self, x.0))
    }
}
impl Binary {
    fn record(self, x: Recorded, y: Recorded) -> Recorded {
        push_float(Node::Binary(self, x.0, y.0))
    }
}
impl Test {
    fn record(self, x: Recorded) -> RecordedMask {
        push_mask(Node::Test(self, x.0))
    }
}
impl Compare {
    fn record(self, x: Recorded, y: Recorded) -> RecordedMask {
        push_mask(Node::Compare(self, x.0, y.0))
    }
}
impl IntBinary {
    fn record(self, x: RecordedBits, y: RecordedBits) -> RecordedBits {
        push_int(Node::IntBinary(self, x.0, y.0))
    }
}
impl Shift {
    fn record(self, x: RecordedBits, n: u32) -> RecordedBits {
        push_int(Node::Shift(self, x.0, n))
    }
}
impl IntCompare {
    fn record(self, x: RecordedBits, y: RecordedBits) -> RecordedMask {
        push_mask(Node::IntCompare(self, x.0, y.0))
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident $variant:ident;)*) => {$(
        impl $trait for Recorded {
            type Output = Self;
            fn $method(self, o: Self) -> Self {
                Binary::$variant.record(self, o)
            }
        }
    )*};
}
operator! { Add add Add; Sub sub Sub; Mul mul Mul; Div div Div; }

macro_rules! int_operator {
    ($($trait:ident $method:ident $variant:ident;)*) => {$(
        impl $trait for RecordedBits {
            type Output = Self;
            fn $method(self, o: Self) -> Self {
                IntBinary::$variant.record(self, o)
            }
        }
    )*};
}
int_operator! { Add add Add; Sub sub Sub; Mul mul Mul; BitAnd bitand And; BitOr bitor Or; BitXor bitxor Xor; }

impl Neg for Recorded {
    type Output = Self;
    fn neg(self) -> Self {
        Unary::Neg.record(self)
    }
}

impl Not for RecordedBits {
    type Output = Self;
    fn not(self) -> Self {
        push_int(Node::IntNot(self.0))
    }
}

impl Lane for Recorded {
    type Mask = RecordedMask;
    type Int = RecordedBits;
    const BITS: u32 =
        panic!("a formula asks for its width by Lane::bits(), so that it is compiled once for recording");

    fn bits() -> u32 {
        super::with_recorder(SLOT, |r| r.bits)
    }
    fn lit(v: f64) -> Self {
        push_float(Node::Literal(Literal(v)))
    }
    unary_methods!();
    binary_methods!();
    test_methods!();
    compare_methods!();
    fn fma(self, b: Self, c: Self) -> Self {
        push_float(Node::Fma(self.0, b.0, c.0))
    }
    fn select(mask: RecordedMask, a: Self, b: Self) -> Self {
        push_float(Node::Select(mask.0, a.0, b.0))
    }
    fn from_mask(mask: RecordedMask) -> Self {
        push_float(Node::FromMask(mask.0))
    }
    fn to_bits(self) -> RecordedBits {
        push_int(Node::ToBits(self.0))
    }
    fn from_bits(bits: RecordedBits) -> Self {
        push_float(Node::FromBits(bits.0))
    }
    fn to_int(self) -> RecordedBits {
        push_int(Node::ToInt(self.0))
    }
    fn from_int(v: RecordedBits) -> Self {
        push_float(Node::FromInt(v.0))
    }
}

impl LaneInt<RecordedMask> for RecordedBits {
    fn lit(v: i64) -> Self {
        push_int(Node::IntLiteral(v))
    }
    int_binary_methods!();
    shift_methods!();
    int_compare_methods!();
    fn select(mask: RecordedMask, a: Self, b: Self) -> Self {
        push_int(Node::IntSelect(mask.0, a.0, b.0))
    }
}

/// A formula on floats of one width as a straight-line program. See the [module](super).
///
/// Two are equal if they make the same calls; literals are compared by their bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expression {
    bits: u32,
    inputs: u32,
    ints: u32,
    masks: u32,
    nodes: Vec<Node>,
    outputs: Vec<FloatId>,
}

impl Expression {
    /// What `formula` does with `inputs` operands of `bits` bits, 32 or 64.
    // Formulas are objects here, so that only they are compiled for each formula.
    pub fn record(bits: u32, inputs: usize, formula: &dyn Fn(&[Recorded]) -> Vec<Recorded>) -> Expression {
        let (recording, operands) = Self::start(bits, inputs);
        Self::finish(recording, &operands, &formula(&operands))
    }
    /// The same for a formula with one result.
    pub fn record_one(bits: u32, inputs: usize, formula: &dyn Fn(&[Recorded]) -> Recorded) -> Expression {
        let (recording, operands) = Self::start(bits, inputs);
        Self::finish(recording, &operands, &[formula(&operands)])
    }
    fn start(bits: u32, inputs: usize) -> (Restore<Node>, Vec<Recorded>) {
        assert!(bits == 32 || bits == 64, "a float has 32 or 64 bits");
        let inputs = u32::try_from(inputs).expect("operands of a formula are few");
        let recording = Restore::start(SLOT, Recorder::with_floats(bits, inputs));
        (recording, (0..inputs).map(|i| Recorded(FloatId(i))).collect())
    }
    fn finish(recording: Restore<Node>, operands: &[Recorded], results: &[Recorded]) -> Expression {
        let Recorder { mut nodes, bits, floats, ints, masks } = recording.finish();
        nodes.shrink_to_fit();
        assert!(results.iter().all(|x| x.0.0 < floats), "a result comes from another recording");
        let outputs = results.iter().map(|x| x.0).collect();
        Expression { bits, inputs: operands.len() as u32, ints, masks, nodes, outputs }
    }

    /// Width of the floats: 32 or 64.
    pub fn bits(&self) -> u32 {
        self.bits
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
    /// If `L` has another width, or `x` another number of operands, than was recorded.
    pub fn replay<L: Lane>(&self, x: &[L]) -> Vec<L> {
        let floats = self.floats(x);
        self.outputs.iter().map(|id| floats[id.0 as usize]).collect()
    }

    /// The only result at operands `x`.
    ///
    /// # Panics
    /// As [`Expression::replay`], or if there is not exactly one result.
    pub fn replay_one<L: Lane>(&self, x: &[L]) -> L {
        let [id] = self.outputs[..] else {
            panic!("the expression has {} results, not one", self.outputs.len())
        };
        self.floats(x)[id.0 as usize]
    }

    /// All floats: the operands, and what the nodes give.
    fn floats<L: Lane>(&self, x: &[L]) -> Vec<L> {
        assert_eq!(L::BITS, self.bits, "an expression of another width");
        assert_eq!(x.len(), self.inputs(), "operands of the expression");
        let mut r = Registers::<L> {
            floats: Vec::with_capacity(x.len() + self.nodes.len() - (self.ints + self.masks) as usize),
            ints: Vec::with_capacity(self.ints as usize),
            masks: Vec::with_capacity(self.masks as usize),
        };
        r.floats.extend_from_slice(x);
        for &node in &self.nodes {
            r.step(node);
        }
        r.floats
    }
}

/// The values so far, by class and index.
struct Registers<L: Lane> {
    floats: Vec<L>,
    ints: Vec<L::Int>,
    masks: Vec<L::Mask>,
}

impl<L: Lane> Registers<L> {
    fn float(&self, id: FloatId) -> L {
        self.floats[id.0 as usize]
    }
    fn int(&self, id: IntId) -> L::Int {
        self.ints[id.0 as usize]
    }
    fn mask(&self, id: MaskId) -> L::Mask {
        self.masks[id.0 as usize]
    }

    /// Makes the call of a node.
    fn step(&mut self, node: Node) {
        match node {
            Node::Literal(v) => self.floats.push(L::lit(v.0)),
            Node::Unary(f, x) => self.floats.push(f.call(self.float(x))),
            Node::Binary(f, x, y) => self.floats.push(f.call(self.float(x), self.float(y))),
            Node::Fma(a, b, c) => self.floats.push(self.float(a).fma(self.float(b), self.float(c))),
            Node::Select(m, a, b) => {
                self.floats.push(L::select(self.mask(m), self.float(a), self.float(b)));
            }
            Node::FromMask(m) => self.floats.push(L::from_mask(self.mask(m))),
            Node::FromBits(x) => self.floats.push(L::from_bits(self.int(x))),
            Node::FromInt(x) => self.floats.push(L::from_int(self.int(x))),
            Node::IntLiteral(v) => self.ints.push(L::Int::lit(v)),
            Node::IntNot(x) => self.ints.push(!self.int(x)),
            Node::IntBinary(f, x, y) => self.ints.push(f.call(self.int(x), self.int(y))),
            Node::Shift(f, x, n) => self.ints.push(f.call(self.int(x), n)),
            Node::IntSelect(m, a, b) => {
                self.ints.push(L::Int::select(self.mask(m), self.int(a), self.int(b)));
            }
            Node::ToBits(x) => self.ints.push(self.float(x).to_bits()),
            Node::ToInt(x) => self.ints.push(self.float(x).to_int()),
            Node::Mask(m) => self.masks.push(m.call(&self.masks)),
            Node::Test(f, x) => self.masks.push(f.call(self.float(x))),
            Node::Compare(f, x, y) => self.masks.push(f.call(self.float(x), self.float(y))),
            Node::IntCompare(f, x, y) => self.masks.push(f.call(self.int(x), self.int(y))),
        }
    }
}
